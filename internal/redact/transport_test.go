package redact

import (
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

// answering is a server that gives one answer.
type answering func(*http.Request) (*http.Response, error)

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }

const secret = `s3cr3t "<&> hunter2`

// shown is what a client sees of an answer.
type shown struct {
	status string
	header http.Header
	length int64
	// page is what could be read of the body, until err.
	page string
	err  error
}

func ask(t *testing.T, status int, body io.Reader) shown {
	t.Helper()
	transport := Transport{
		Next: answering(func(r *http.Request) (*http.Response, error) {
			return &http.Response{
				Status: "502 for " + secret, StatusCode: status, Body: io.NopCloser(body),
				Header:  http.Header{"X-Echo": {r.Header.Get("X-Auth-Token")}, "Content-Length": {"12"}},
				Request: r,
			}, nil
		}),
		Secrets: func(r *http.Request) []string { return []string{r.Header.Get("X-Auth-Token"), "", "short"} },
	}
	request := httptest.NewRequest(http.MethodGet, "/", nil)
	request.Header.Set("X-Auth-Token", secret)
	response, err := transport.RoundTrip(request)
	expect.NoError(t, err)
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	return shown{response.Status, response.Header, response.ContentLength, string(content), err}
}

func TestAnErrorPageShowsNoSecret(t *testing.T) {
	for sentence, c := range map[string]struct{ page, want string }{
		"as it is":            {"a " + secret + " b", "a [redacted] b"},
		"more than once":      {secret + secret, "[redacted][redacted]"},
		"in JSON":             {`{"error":{"message":"s3cr3t \"\u003c\u0026\u003e hunter2"}}`, `{"error":{"message":"[redacted]"}}`},
		"in HTML":             {`<pre>s3cr3t &#34;&lt;&amp;&gt; hunter2</pre>`, "<pre>[redacted]</pre>"},
		"in JSON of others":   {`{"message": "s3cr3t \"<&> hunter2"}`, `{"message": "[redacted]"}`},
		"in HTML of others":   {`<pre>s3cr3t &quot;&lt;&amp;&gt; hunter2</pre>`, "<pre>[redacted]</pre>"},
		"in a query":          {"?p=" + url.QueryEscape(secret) + "&q", "?p=[redacted]&q"},
		"in a path":           {"/" + url.PathEscape(secret) + "/q", "/[redacted]/q"},
		"what is too short":   {"a short one", "a short one"},
		"nothing that is one": {"somebody else's", "somebody else's"},
	} {
		t.Run(sentence, func(t *testing.T) {
			got := ask(t, http.StatusBadGateway, strings.NewReader(c.page))
			if got.err != nil || got.page != c.want {
				t.Errorf("got %q %v, want %q", got.page, got.err, c.want)
			}
			if int(got.length) != len(got.page) || got.header.Get("Content-Length") != "" {
				t.Errorf("it announces %d bytes (%q), and has %d", got.length, got.header.Get("Content-Length"), len(got.page))
			}
			if got.status != "502 for [redacted]" || got.header.Get("X-Echo") != "[redacted]" {
				t.Errorf("the head shows it: %q %q", got.status, got.header)
			}
		})
	}
}

func TestNonASCIISecretsAreRedactedInJSON(t *testing.T) {
	for password, quoted := range map[string]string{
		"Schlüssel\tbund": `"Schl\u00fcssel\tbund"`, // as json.dumps of Python has it
		"ключ от дома":    `"ключ от дома"`,
		"🔑🔑🔑🔑":            `"\ud83d\udd11\ud83d\udd11\ud83d\udd11\ud83d\udd11"`,
	} {
		hidden, _ := replacer([]string{password})
		expect.Equal(t, `"`+Placeholder+`"`, hidden.Replace(quoted), "what it shows")
	}
}

func TestSecretsAreRedactedInBase64AtAnyOffset(t *testing.T) {
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		for _, before := range []string{"", "u", "us", "user:"} {
			for _, after := range []string{"", "x", "xy", "xyz"} {
				page := encoding.EncodeToString([]byte(before + secret + after))
				got := ask(t, http.StatusUnauthorized, strings.NewReader(page))
				if got.err != nil || !strings.Contains(got.page, Placeholder) || len(got.page) > len(Placeholder)+12 {
					t.Errorf("of %q%s%q it shows %q: %v", before, secret, after, got.page, got.err)
				}
			}
		}
	}
}

func TestASuccessIsUnchanged(t *testing.T) {
	for _, status := range []int{http.StatusOK, http.StatusCreated, http.StatusNoContent, http.StatusSwitchingProtocols} {
		got := ask(t, status, strings.NewReader("a "+secret))
		if got.err != nil || got.page != "a "+secret {
			t.Errorf("%d: %q %v", status, got.page, got.err)
		}
	}
}

func TestABrokenBodyFailsItsReader(t *testing.T) {
	broken := errors.New("broken")
	body := io.MultiReader(strings.NewReader("a s3cr3t"), failing{broken})
	if got := ask(t, http.StatusBadGateway, body); !errors.Is(got.err, broken) || got.page != "" {
		t.Errorf("got %q %v, want nothing and %v", got.page, got.err, broken)
	}
}

func TestAnEndlessPageIsCutOff(t *testing.T) {
	got := ask(t, http.StatusBadGateway, zeros{})
	if got.err != nil || len(got.page) > maxPage || len(got.page) < maxPage-1000 {
		t.Errorf("%d bytes, %v", len(got.page), got.err)
	}
}

func TestATruncatedPageEndsInNoPartOfASecret(t *testing.T) {
	for _, room := range []int{6, len(secret) - 1} {
		body := io.MultiReader(strings.NewReader(strings.Repeat("x", maxPage-room)+secret), zeros{})
		got := ask(t, http.StatusBadGateway, body)
		if got.err != nil || strings.HasSuffix(got.page, secret[:6]) || strings.Contains(got.page, secret[:room]) {
			t.Errorf("it ends with %q, %v", got.page[len(got.page)-2*len(secret):], got.err)
		}
	}
}

// zeros is a body without an end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

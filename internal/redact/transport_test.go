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
)

// answering is a server that gives one answer.
type answering func(*http.Request) (*http.Response, error)

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }

const secret = `s3cr3t "<&> hunter2`

// ask gives the head of an answer, what could be read of its body, and the error that ended the reading.
func ask(t *testing.T, status int, body io.Reader) (head *http.Response, page string, failed error) {
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
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	return response, string(content), err
}

func TestAnErrorPageShowsNoSecret(t *testing.T) {
	for sentence, c := range map[string]struct{ page, want string }{
		"as it is":            {"a " + secret + " b", "a [redacted] b"},
		"more than once":      {secret + secret, "[redacted][redacted]"},
		"in JSON":             {`{"error":{"message":"s3cr3t \"\u003c\u0026\u003e hunter2"}}`, `{"error":{"message":"[redacted]"}}`},
		"in HTML":             {`<pre>s3cr3t &#34;&lt;&amp;&gt; hunter2</pre>`, "<pre>[redacted]</pre>"},
		"in a query":          {"?p=" + url.QueryEscape(secret) + "&q", "?p=[redacted]&q"},
		"in a path":           {"/" + url.PathEscape(secret) + "/q", "/[redacted]/q"},
		"what is too short":   {"a short one", "a short one"},
		"nothing that is one": {"somebody else's", "somebody else's"},
	} {
		t.Run(sentence, func(t *testing.T) {
			response, page, err := ask(t, http.StatusBadGateway, strings.NewReader(c.page))
			if err != nil || page != c.want {
				t.Errorf("got %q %v, want %q", page, err, c.want)
			}
			if int(response.ContentLength) != len(page) || response.Header.Get("Content-Length") != "" {
				t.Errorf("it announces %d bytes (%q), and has %d", response.ContentLength,
					response.Header.Get("Content-Length"), len(page))
			}
			if response.Status != "502 for [redacted]" || response.Header.Get("X-Echo") != "[redacted]" {
				t.Errorf("the head shows it: %q %q", response.Status, response.Header)
			}
		})
	}
}

func TestBase64ShowsNoSecretWhereverItStands(t *testing.T) {
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		for _, before := range []string{"", "u", "us", "user:"} {
			for _, after := range []string{"", "x", "xy", "xyz"} {
				page := encoding.EncodeToString([]byte(before + secret + after))
				_, shown, err := ask(t, http.StatusUnauthorized, strings.NewReader(page))
				if err != nil || !strings.Contains(shown, Placeholder) || len(shown) > len(Placeholder)+12 {
					t.Errorf("of %q%s%q it shows %q: %v", before, secret, after, shown, err)
				}
			}
		}
	}
}

func TestASuccessIsLeftAsItIs(t *testing.T) {
	for _, status := range []int{http.StatusOK, http.StatusCreated, http.StatusNoContent, http.StatusSwitchingProtocols} {
		_, page, err := ask(t, status, strings.NewReader("a "+secret))
		if err != nil || page != "a "+secret {
			t.Errorf("%d: %q %v", status, page, err)
		}
	}
}

func TestAPageThatBreaksOffIsAnErrorOfItsReading(t *testing.T) {
	broken := errors.New("broken")
	body := io.MultiReader(strings.NewReader("a s3cr3t"), failing{broken})
	if _, page, err := ask(t, http.StatusBadGateway, body); !errors.Is(err, broken) || page != "" {
		t.Errorf("got %q %v, want nothing and %v", page, err, broken)
	}
}

func TestAnEndlessPageIsCutOff(t *testing.T) {
	_, page, err := ask(t, http.StatusBadGateway, zeros{})
	if err != nil || len(page) != maxPage {
		t.Errorf("%d bytes, %v", len(page), err)
	}
}

// zeros is a body without an end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

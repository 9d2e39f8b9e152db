// Package redact keeps what a request proves itself with out of what is told of its failure.
//
// Servers and the proxies in front of them quote requests in their error pages, with their headers, and error pages end
// in logs, Events and conditions, which more people may read than the secret is for.
package redact

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf16"
)

// Placeholder is what stands where a secret stood.
const Placeholder = "[redacted]"

const (
	// leastSecret is how many bytes a secret has at least. A shorter one occurs in ordinary texts by itself, and to hide
	// it there would tell it.
	leastSecret = 6
	// maxPage bounds the bytes that are read of an error page; what is further behind is cut off.
	maxPage = 1 << 20
)

// Transport takes the secrets of a request out of the answer, unless that answer is a success: out of its status line,
// its headers and its body. It is safe for concurrent use where its parts are.
type Transport struct {
	// Next carries the requests.
	Next http.RoundTripper
	// Secrets gives the secrets of a request, in plain; an empty one is none. It MUST leave the request as it is.
	Secrets func(*http.Request) []string
}

// RoundTrip is that of http.RoundTripper.
func (t Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.Next.RoundTrip(r)
	if err != nil {
		return response, err
	}
	switch response.StatusCode {
	case http.StatusSwitchingProtocols, http.StatusOK, http.StatusCreated, http.StatusNoContent, http.StatusNotModified:
		return response, nil
	}
	hidden, longest := replacer(t.Secrets(r))
	page, err := io.ReadAll(io.LimitReader(response.Body, maxPage))
	_ = response.Body.Close() // what it had to say was read
	if err != nil {
		// It may end in the middle of a secret, which could not be told from other text.
		response.Body = io.NopCloser(failing{err})
		return response, nil //nolint:nilerr // the body's reader gets it
	}
	cut := len(page) == maxPage
	page = []byte(hidden.Replace(string(page)))
	if cut {
		page = page[:max(0, len(page)-longest)] // where it was cut off may be in the middle of a secret
	}
	response.Body = io.NopCloser(bytes.NewReader(page))
	response.ContentLength = int64(len(page))
	response.Status = hidden.Replace(response.Status)
	for _, values := range response.Header {
		for i := range values {
			values[i] = hidden.Replace(values[i])
		}
	}
	response.Header.Del("Content-Length")
	return response, nil
}

// WrappedRoundTripper lets client-go find the transport within.
func (t Transport) WrappedRoundTripper() http.RoundTripper { return t.Next }

// CloseIdleConnections is for http.Client, which asks its transport for it.
func (t Transport) CloseIdleConnections() {
	if next, ok := t.Next.(interface{ CloseIdleConnections() }); ok {
		next.CloseIdleConnections()
	}
}

// failing is a body that cannot be read.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// replacer puts Placeholder in the place of the secrets, in each of the forms in which a page may quote them. longest
// is how many bytes the longest of these has.
func replacer(secrets []string) (hidden *strings.Replacer, longest int) {
	var forms []string
	for _, secret := range secrets {
		if len(secret) >= leastSecret {
			forms = append(forms, formsOf(secret)...)
		}
	}
	// Of two that begin at one place, the longer one, so that no end of it is left.
	slices.SortFunc(forms, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	if len(forms) > 0 {
		longest = len(forms[0])
	}
	var pairs []string
	for _, form := range slices.Compact(forms) {
		pairs = append(pairs, form, Placeholder)
	}
	return strings.NewReplacer(pairs...), longest
}

// formsOf are a text as it is, as JSON, HTML and URLs have it, and what base64 makes of it wherever it stands in what
// is encoded.
func formsOf(secret string) []string {
	forms := []string{secret, url.QueryEscape(secret), url.PathEscape(secret)}
	forms = append(forms, inHTML(secret)...)
	forms = append(forms, inJSON(secret)...)
	for before := range 3 {
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			encoded := encoding.EncodeToString(append(make([]byte, before), secret...))
			// The digits at its ends hold bits of its neighbours.
			first, last := (before*8+5)/6, (before+len(secret))*8/6
			forms = append(forms, encoded[first:last])
		}
	}
	return forms
}

// inHTML are the ways to write a text that servers differ in: all of them escape <, > and &, and quotes like Go and
// markupsafe, like html.escape of Python, just the double ones like Apache and nginx, or none.
func inHTML(text string) []string {
	escaped := html.EscapeString(text)
	forms := []string{escaped}
	for _, quotes := range [][2]string{{"&quot;", "&#x27;"}, {"&quot;", "&#39;"}, {"&quot;", "'"}, {`"`, "'"}} {
		forms = append(forms, strings.NewReplacer("&#34;", quotes[0], "&#39;", quotes[1]).Replace(escaped))
	}
	return forms
}

// inJSON are the ways to write a text that servers differ in: Go escapes what HTML would take for its own, Python (and
// so Keystone and Neutron) what is not ASCII, others no more than they have to.
func inJSON(text string) []string {
	var plain bytes.Buffer
	encoder := json.NewEncoder(&plain)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // a string is never refused
	least := strings.TrimSuffix(plain.String(), "\n")
	least = least[1 : len(least)-1]
	var ascii strings.Builder
	for _, r := range least {
		if r < 0x7f {
			ascii.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&ascii, `\u%04x`, unit)
		}
	}
	most, _ := json.Marshal(text)
	return []string{least, ascii.String(), string(most[1 : len(most)-1])}
}

// Package redact removes the secrets of a request from the answer to a failed request.
//
// Servers and proxies quote requests and their headers in error pages. Error pages reach logs, Events and conditions,
// which more people may read than the secret.
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

// Placeholder replaces a secret.
const Placeholder = "[redacted]"

const (
	// leastSecret is the minimum length of a secret in bytes. A shorter one also occurs in ordinary text, and its
	// redaction there would reveal it.
	leastSecret = 6
	// maxPage is the maximum number of bytes to read of an error page. The rest is cut off.
	maxPage = 1 << 20
)

// Transport removes the secrets of a request from an unsuccessful answer: from its status line, headers and body. It is
// safe for concurrent use if Next and Secrets are.
type Transport struct {
	// Next sends the requests.
	Next http.RoundTripper
	// Secrets returns the secrets of a request in plain text. It ignores empty ones. It MUST NOT change the request.
	Secrets func(*http.Request) []string
}

// RoundTrip implements http.RoundTripper.
func (t Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.Next.RoundTrip(r)
	if err != nil {
		return response, err
	}
	switch response.StatusCode {
	case http.StatusSwitchingProtocols, http.StatusOK, http.StatusCreated, http.StatusAccepted,
		http.StatusNoContent, http.StatusNotModified:
		return response, nil
	}
	hidden, longest := replacer(t.Secrets(r))
	page, err := io.ReadAll(io.LimitReader(response.Body, maxPage))
	_ = response.Body.Close() // the body was read
	if err != nil {
		// The body may end within a secret, which cannot be recognized then.
		response.Body = io.NopCloser(failing{err})
		return response, nil //nolint:nilerr // the body's reader gets it
	}
	cut := len(page) == maxPage
	page = []byte(hidden.Replace(string(page)))
	if cut {
		page = page[:max(0, len(page)-longest)] // the cut may be within a secret
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

// WrappedRoundTripper lets client-go find the wrapped transport.
func (t Transport) WrappedRoundTripper() http.RoundTripper { return t.Next }

// failing is a body that cannot be read.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// replacer replaces the secrets with Placeholder, in every form in which a page may quote them. longest is the number
// of bytes of the longest form.
func replacer(secrets []string) (hidden *strings.Replacer, longest int) {
	var forms []string
	for _, secret := range secrets {
		if len(secret) >= leastSecret {
			forms = append(forms, formsOf(secret)...)
		}
	}
	// If two forms begin at the same place, replace the longer one, so that no part of it remains.
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

// formsOf returns a text in plain form and as encoded in JSON, HTML and URLs. It also returns the base64 of the text at
// each offset in a longer text.
func formsOf(secret string) []string {
	forms := []string{secret, url.QueryEscape(secret), url.PathEscape(secret)}
	forms = append(forms, inHTML(secret)...)
	forms = append(forms, inJSON(secret)...)
	for before := range 3 {
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			encoded := encoding.EncodeToString(append(make([]byte, before), secret...))
			// The first and last digits also encode bits of the neighbors.
			first, last := (before*8+5)/6, (before+len(secret))*8/6
			forms = append(forms, encoded[first:last])
		}
	}
	return forms
}

// inHTML returns the HTML forms of a text, which differ between servers. All escape <, > and &. Go and markupsafe
// escape quotes in one way, html.escape of Python in another. Apache and nginx escape only double quotes, others none.
func inHTML(text string) []string {
	escaped := html.EscapeString(text)
	forms := []string{escaped}
	for _, quotes := range [][2]string{{"&quot;", "&#x27;"}, {"&quot;", "&#39;"}, {"&quot;", "'"}, {`"`, "'"}} {
		forms = append(forms, strings.NewReplacer("&#34;", quotes[0], "&#39;", quotes[1]).Replace(escaped))
	}
	return forms
}

// inJSON returns the JSON forms of a text, which differ between servers. Go escapes HTML characters. Python (and so
// Keystone and Neutron) escapes all non-ASCII characters. Others escape only what they must.
func inJSON(text string) []string {
	var plain bytes.Buffer
	encoder := json.NewEncoder(&plain)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // encoding a string never fails
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

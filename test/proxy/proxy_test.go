package proxy

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

// target counts what arrives and answers with ten bytes, or with a stream of lines where it is asked to watch.
func target(t *testing.T, arrived *atomic.Int32, lines chan string) *Proxy {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived.Add(1)
		if r.URL.Query().Get("watch") == "" {
			_, _ = io.WriteString(w, "0123456789")
			return
		}
		for {
			select {
			case line := <-lines:
				_, _ = io.WriteString(w, line+"\n")
				_ = http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}))
	t.Cleanup(server.Close)
	address, err := url.Parse(server.URL)
	expect.NoError(t, err)
	p := Start(Options{Target: address, Shape: func(path string) string { return path }})
	t.Cleanup(p.Close)
	return p
}

// call sends a request with a body and gives the status and the body of the answer.
func call(ctx context.Context, p *Proxy, method, path string) (int, string, error) {
	request, err := http.NewRequestWithContext(ctx, method, p.URL().String()+path, strings.NewReader("body"))
	if err != nil {
		return 0, "", err
	}
	// A client of its own does not send a write anew over another connection.
	response, err := (&http.Client{Transport: &http.Transport{}}).Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

func TestFaultsBreakSelectedCalls(t *testing.T) {
	refuse := Refuse(http.StatusTooManyRequests, `{}`, "Retry-After", "3")
	for sentence, test := range map[string]struct {
		fault   Fault
		arrives int32
		status  int
		body    string
		fails   bool
	}{
		"a reset before arrives nowhere":               {Reset, 0, 0, "", true},
		"a reset after has been carried out":           {After(Reset), 1, 0, "", true},
		"a refusal before arrives nowhere":             {refuse, 0, 429, `{}`, false},
		"a refusal after has been carried out":         {After(refuse), 1, 429, `{}`, false},
		"half of an answer is an error of the reading": {Truncate, 1, 200, "01234", true},
		"a changed answer is what the caller gets": {
			Change(func(a *Answer) { a.Body = []byte("other") }), 1, 200, "other", false,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			var arrived atomic.Int32
			p := target(t, &arrived, nil)
			rule := p.Break(func(c Call) bool { return c.Write == 2 }, 1, test.fault)
			if status, body, err := call(t.Context(), p, http.MethodPost, "/first"); err != nil || status != 200 ||
				body != "0123456789" {
				t.Fatalf("the first write: %d %q %v", status, body, err)
			}
			arrived.Store(0)
			status, body, err := call(t.Context(), p, http.MethodPost, "/second")
			if status != test.status || body != test.body || (err != nil) != test.fails {
				t.Errorf("got %d %q %v, want %d %q, an error: %t", status, body, err, test.status, test.body, test.fails)
			}
			if arrived.Load() != test.arrives || rule.Hits() != 1 {
				t.Errorf("%d arrived, want %d; the rule was applied %d times", arrived.Load(), test.arrives, rule.Hits())
			}
			if writes := p.Writes(); len(writes) != 2 || writes[0].Broken || !writes[1].Broken {
				t.Errorf("writes %v", writes)
			}
		})
	}
}

func TestHangingCallEndsWithItsCaller(t *testing.T) {
	var arrived atomic.Int32
	p := target(t, &arrived, nil)
	rule := p.Break(func(Call) bool { return true }, 0, Hang(nil))
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		<-rule.Hit()
		leave()
	}()
	if _, _, err := call(ctx, p, http.MethodPost, "/"); err == nil {
		t.Error("it was answered")
	}
	// Close waits for calls that are still being served.
	p.Close()
	expect.Equal(t, int32(0), arrived.Load(), "it arrived")
}

func TestFreezeThawAndCutStream(t *testing.T) {
	lines := make(chan string)
	var arrived atomic.Int32
	p := target(t, &arrived, lines)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.URL().String()+"/?watch=true", nil)
	expect.NoError(t, err)
	// The answer's head comes with the first line.
	go func() { lines <- "one" }()
	response, err := http.DefaultClient.Do(request)
	expect.NoError(t, err)
	defer response.Body.Close()
	received := make(chan string)
	go func() {
		defer close(received)
		for scanner := bufio.NewScanner(response.Body); scanner.Scan(); {
			received <- scanner.Text()
		}
	}()
	if line := <-received; line != "one" {
		t.Fatalf("received %q", line)
	}
	all := func(Call) bool { return true }
	thaw := p.Freeze(all)
	lines <- "two"
	select {
	case line := <-received:
		t.Fatalf("received %q while it was frozen", line)
	default:
	}
	thaw()
	if line := <-received; line != "two" {
		t.Fatalf("received %q", line)
	}
	p.Freeze(all)
	lines <- "three"
	expect.Equal(t, 1, p.Cut(all), "streams were cut")
	if line, open := <-received; open {
		t.Errorf("received %q after it was cut", line)
	}
}

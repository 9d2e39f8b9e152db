package kubectl

import (
	"net/http"
	"sync"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/kubectl/doctor"
)

// clock notes how far a server's clock is ahead of this machine's. It is safe for concurrent use.
type clock struct {
	mu    sync.Mutex
	noted doctor.Clock
}

// ahead gives it by the answers so far.
func (c *clock) ahead() doctor.Clock {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.noted
}

// wrap has a transport tell the clock of each answer.
func (c *clock) wrap(next http.RoundTripper) http.RoundTripper { return timed{next, c} }

type timed struct {
	http.RoundTripper
	clock *clock
}

// RoundTrip implements http.RoundTripper.
func (t timed) RoundTrip(r *http.Request) (*http.Response, error) {
	began := time.Now()
	response, err := t.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if date, err := http.ParseTime(response.Header.Get("Date")); err == nil {
		t.clock.mu.Lock()
		t.clock.noted.Note(date, began, time.Now())
		t.clock.mu.Unlock()
	}
	return response, nil
}

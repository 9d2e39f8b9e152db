package kubectl

import (
	"net/http"
	"sync/atomic"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/kubectl/doctor"
)

// clock notes how far a server's clock is ahead of this machine's. It is safe for concurrent use.
type clock struct{ last atomic.Pointer[time.Duration] }

// ahead gives it by the last answer; false before.
func (c *clock) ahead() (time.Duration, bool) {
	if last := c.last.Load(); last != nil {
		return *last, true
	}
	return 0, false
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
		ahead := doctor.Ahead(date, began, time.Now())
		t.clock.last.Store(&ahead)
	}
	return response, nil
}

package webpage

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// heartbeat is how often a stream without news says that it lives.
const heartbeat = 15 * time.Second

// Stream sends server-sent events to a page. It is one request of the page.
type Stream struct {
	io.Writer
	to   *http.ResponseController
	gone <-chan struct{}
}

// NewStream begins a stream.
func NewStream(w http.ResponseWriter, r *http.Request) *Stream {
	w.Header().Set("Content-Type", "text/event-stream")
	return &Stream{w, http.NewResponseController(w), r.Context().Done()}
}

// Send writes an event with a content in JSON. Await sends it.
func (s *Stream) Send(event string, content any) error {
	text, err := json.Marshal(content)
	if err == nil {
		_, err = fmt.Fprintf(s, "event: %s\ndata: %s\n\n", event, text)
	}
	return err
}

// Await sends what was written, and waits for news. more is false when the channel is closed. An error means that the
// page is gone.
func Await[T any](s *Stream, news <-chan T) (more bool, err error) {
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	for {
		if err := s.to.Flush(); err != nil {
			return false, err
		}
		select {
		case _, more = <-news:
			return more, nil
		case <-tick.C:
			if _, err := io.WriteString(s, ": alive\n\n"); err != nil {
				return false, err
			}
		case <-s.gone:
			return false, context.Canceled
		}
	}
}

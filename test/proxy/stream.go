package proxy

import (
	"io"
	"net/http"
	"sync"
)

// isStream reports whether a call's answer is a stream: a watch of the Kubernetes API.
func isStream(r *http.Request) bool {
	watch := r.URL.Query().Get("watch")
	return r.Method == http.MethodGet && (watch == "true" || watch == "1")
}

// stream is the body of a watch on its way to the caller.
type stream struct {
	io.ReadCloser
	call Call

	mu   sync.Mutex
	wake sync.Cond
	// frozen streams hold back what they have read.
	frozen, cut bool
}

// serveStream passes a watch on as it comes.
func (p *Proxy) serveStream(w http.ResponseWriter, call Call) {
	proxy := *p.streamer
	var opened *stream
	proxy.ModifyResponse = func(response *http.Response) error {
		s := &stream{ReadCloser: response.Body, call: call}
		s.wake.L = &s.mu
		response.Body = s
		p.mu.Lock()
		defer p.mu.Unlock()
		opened = s
		p.streams[s] = true
		return nil
	}
	defer func() {
		if opened != nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			delete(p.streams, opened)
		}
	}()
	// The caller's leaving has to end a read that waits for the thaw.
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-call.Request.Context().Done():
			p.mu.Lock()
			s := opened
			p.mu.Unlock()
			if s != nil {
				s.end()
			}
		case <-stop:
		}
	}()
	proxy.ServeHTTP(w, call.Request)
}

// Read is io.Reader's.
func (s *stream) Read(b []byte) (int, error) {
	n, err := s.ReadCloser.Read(b)
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.frozen && !s.cut {
		s.wake.Wait()
	}
	if s.cut {
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

func (s *stream) end() {
	s.mu.Lock()
	s.cut = true
	s.mu.Unlock()
	s.wake.Broadcast()
	s.Close()
}

func (s *stream) freeze(frozen bool) {
	s.mu.Lock()
	s.frozen = frozen
	s.mu.Unlock()
	s.wake.Broadcast()
}

// Freeze has the open streams of the calls for which of is true hold back what comes, and returns what thaws them.
func (p *Proxy) Freeze(of func(Call) bool) (thaw func()) {
	held := p.streamsOf(of)
	for _, s := range held {
		s.freeze(true)
	}
	return func() {
		for _, s := range held {
			s.freeze(false)
		}
	}
}

// Cut cuts the open streams of the calls for which of is true, and what a frozen one held back is lost. It returns how
// many there were.
func (p *Proxy) Cut(of func(Call) bool) int {
	cut := p.streamsOf(of)
	for _, s := range cut {
		s.end()
	}
	return len(cut)
}

func (p *Proxy) streamsOf(of func(Call) bool) []*stream {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []*stream
	for s := range p.streams {
		if of(s.call) {
			found = append(found, s)
		}
	}
	return found
}

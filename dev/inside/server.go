// Package inside serves a page that shows a controller from inside: an object's way from the watch of the API server to
// Neutron and back to its status, as the controller's --inspect-address streams it. Buttons make things happen.
//
// A development tool that owns the controller and the cloud serves it, and never the controller.
package inside

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/webpage"
)

//go:embed assets
var assets embed.FS

const (
	// again is how long the page waits before it asks a controller that did not answer.
	again = 200 * time.Millisecond
	// patience is how long an action may take.
	patience = 2 * time.Minute
)

// Action is a button of the page.
type Action struct {
	Name  string `json:"name"`
	Label string `json:"label"`
	// Shows says what to look for.
	Shows string `json:"shows"`
	// Do does it, and says what it did.
	Do func(context.Context) (did string, err error) `json:"-"`
}

// Server serves the page on loopback, to anyone who has its address.
type Server struct {
	// Stream is the URL of the controller's stream. It changes when another process is started.
	Stream func() string
	// StreamToken is the stream's token (inspect.EnvToken).
	StreamToken string
	Actions     []Action

	token    string
	listener net.Listener
}

// Listen opens the address of the page, at a free port.
func (s *Server) Listen() (err error) {
	s.token = rand.Text()
	s.listener, err = net.Listen("tcp4", "127.0.0.1:0")
	return err
}

// URL is where the page is. It has a token: who knows it may press the buttons.
func (s *Server) URL() string { return fmt.Sprintf("http://%s/%s/", s.listener.Addr(), s.token) }

// Serve serves until the context ends.
func (s *Server) Serve(ctx context.Context) error {
	return webpage.Serve(ctx, s.listener, s.guard(s.routes()))
}

// guard lets requests pass that have the token, and that the page of this server makes. Requests of another page in the
// same browser have another host (DNS rebinding) or site.
func (s *Server) guard(next http.Handler) http.Handler {
	next = http.NewCrossOriginProtection().Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		webpage.Protect(w.Header(), "data:")
		token, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		switch {
		case r.Host != s.listener.Addr().String():
			http.Error(w, "This server answers to its own address alone.", http.StatusMisdirectedRequest)
		case subtle.ConstantTimeCompare([]byte(token), []byte(s.token)) != 1:
			http.Error(w, "Open the address that make run has printed: it has a token.", http.StatusForbidden)
		default:
			http.StripPrefix("/"+token, next).ServeHTTP(w, r)
		}
	})
}

func (s *Server) routes() http.Handler {
	files, _ := fs.Sub(assets, "assets") // it is embedded
	mux := http.NewServeMux()
	mux.HandleFunc("GET /stream", s.stream)
	mux.HandleFunc("GET /actions", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(s.Actions) // the browser is gone if it fails
	})
	mux.HandleFunc("POST /actions/{name}", s.act)
	mux.Handle("GET /", http.FileServerFS(files))
	return mux
}

// act does what a button says.
func (s *Server) act(w http.ResponseWriter, r *http.Request) {
	for _, action := range s.Actions {
		if action.Name != r.PathValue("name") {
			continue
		}
		// A controller that was killed is started again, also if the page is closed meanwhile.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), patience)
		defer cancel()
		did, err := action.Do(ctx)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		_, _ = io.WriteString(w, did) // the browser is gone if it fails
		return
	}
	http.NotFound(w, r)
}

// stream hands on the controller's stream, and that of the next process when one has ended.
func (s *Server) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	to := http.NewResponseController(w)
	for r.Context().Err() == nil {
		if s.copy(r.Context(), w, to) {
			_, _ = io.WriteString(w, "event: gone\ndata: {}\n\n") // as below
		}
		_ = to.Flush() // the context ends if the browser is gone
		select {
		case <-time.After(again):
		case <-r.Context().Done():
		}
	}
}

// copy hands on one stream to its end, and reports whether there was one.
func (s *Server) copy(ctx context.Context, w io.Writer, to *http.ResponseController) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Stream(), nil)
	if err != nil {
		return false
	}
	request.Header.Set("Authorization", "Bearer "+s.StreamToken)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return false
	}
	buffer := make([]byte, 64<<10)
	for {
		n, err := answer.Body.Read(buffer)
		if _, failed := w.Write(buffer[:n]); failed != nil || err != nil {
			_, _ = io.WriteString(w, "\n\n") // ends a message that was cut
			return true
		}
		_ = to.Flush() // the next write fails, too
	}
}

package ui

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/webpage"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned"
)

//go:embed assets
var assets embed.FS

// patience is how long the details of an object may take.
const patience = 30 * time.Second

// Server serves the page on loopback, to anyone who has its token.
type Server struct {
	// Kubernetes and Networks are the user's clients.
	Kubernetes kubernetes.Interface
	Networks   versioned.Interface
	World      *World
	// Context is the name of the kubeconfig's context, and Namespace what the page shows; empty means all namespaces.
	Context, Namespace string
	Now                func() time.Time

	token    string
	listener net.Listener
	mu       sync.Mutex
	// once has the tokens for one visit, and whether each is unused. end ends Serve.
	once map[string]bool
	end  context.CancelCauseFunc
}

// errReused is the end of a Server whose page another user of the machine may have seen.
var errReused = errors.New("the address for your browser was used twice: another user of this machine may have read " +
	"it from the command line; the page is closed; start it again without --open")

// Listen opens the address of the page. Port 0 takes a free one.
func (s *Server) Listen(port int) (err error) {
	s.token, s.once = rand.Text(), map[string]bool{}
	s.listener, err = net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	return err
}

// URL is where the page is, with its token.
func (s *Server) URL() string { return fmt.Sprintf("http://%s/?token=%s", s.listener.Addr(), s.token) }

// OnceURL is where the page is, for one visit. It is for the command line of a browser, which other users of the
// machine can read.
func (s *Server) OnceURL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	token := rand.Text()
	s.once[token] = true
	return fmt.Sprintf("http://%s/?token=%s", s.listener.Addr(), token)
}

// Serve serves until the context ends. It ends with an error if an address for one visit is used twice.
func (s *Server) Serve(ctx context.Context) error {
	ctx, s.end = context.WithCancelCause(ctx)
	defer s.end(nil)
	err := webpage.Serve(ctx, s.listener, s.guard(s.routes()))
	if cause := context.Cause(ctx); errors.Is(cause, errReused) {
		return cause
	}
	return err
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/stream", s.stream)
	mux.HandleFunc("GET /api/object", s.object)
	mux.HandleFunc("GET /api/events", s.events)
	mux.HandleFunc("GET /{file...}", s.file)
	return mux
}

// guard lets requests pass that the page of this server makes. Another page in the same browser can neither read nor
// guess the token; and its requests name another host (DNS rebinding) or site.
func (s *Server) guard(next http.Handler) http.Handler {
	_, port, _ := net.SplitHostPort(s.listener.Addr().String())
	cookie := "kubectl-network-ui-" + port // cookies are those of all ports
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		webpage.Protect(w.Header(), "'self'")
		if r.Host != "127.0.0.1:"+port && r.Host != "localhost:"+port {
			http.Error(w, "This server answers to 127.0.0.1 and localhost alone.", http.StatusMisdirectedRequest)
			return
		}
		if r.Method != http.MethodGet {
			w.Header().Set("Allow", http.MethodGet)
			http.Error(w, "This page only reads.", http.StatusMethodNotAllowed)
			return
		}
		sent, err := r.Cookie(cookie)
		visits := err == nil && same(sent.Value, s.token) // also one that loads the page again, with its token for one visit
		if !visits && r.URL.Path == "/" && s.admits(r.URL.Query().Get("token")) {
			http.SetCookie(w, &http.Cookie{Name: cookie, Value: s.token, Path: "/", HttpOnly: true,
				SameSite: http.SameSiteStrictMode})
		} else if !visits {
			http.Error(w, "Open the address that kubectl network ui has printed: it has a token that is missing here.",
				http.StatusForbidden)
			return
		} else if site := r.Header.Get("Sec-Fetch-Site"); r.URL.Path != "/" && site != "" && site != "same-origin" {
			http.Error(w, "Only this server's own page may ask for this.", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// admits reports whether a token opens the page. One for one visit does it once. If it comes a second time, somebody
// has read it from the command line, and may have been the first: the server ends.
func (s *Server) admits(token string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if unused, known := s.once[token]; known {
		s.once[token] = false
		if !unused {
			s.end(errReused)
		}
		return unused
	}
	return same(token, s.token)
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

func (s *Server) file(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	if name == "" {
		name = "index.html"
	}
	content, err := fs.ReadFile(assets, path.Join("assets", name))
	if err != nil {
		http.NotFound(w, r)
		return
	}
	kinds := map[string]string{".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
	w.Header().Set("Content-Type", kinds[path.Ext(name)]+"; charset=utf-8")
	_, _ = w.Write(content) // the browser is gone if it fails
}

// stream sends what the page shows, and then each change, as server-sent events.
func (s *Server) stream(w http.ResponseWriter, r *http.Request) {
	to := webpage.NewStream(w, r)
	err := to.Send("hello", map[string]string{"context": s.Context, "namespace": s.Namespace})
	for version := int64(0); err == nil; {
		view, at, changed := s.World.Since(version)
		version = at
		if err = to.Send("view", view); err == nil {
			_, err = webpage.Await(to, changed)
		}
	}
}

// events tells the page, as server-sent events, when the Events of an object change. It ends if the watch does; the
// page then asks again.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	news, err := s.Kubernetes.CoreV1().Events(query.Get("namespace")).Watch(r.Context(), metav1.ListOptions{
		FieldSelector: fields.Set{
			"involvedObject.kind": query.Get("kind"), "involvedObject.name": query.Get("name"),
		}.String()})
	if err != nil {
		w.WriteHeader(http.StatusNoContent) // the page does not ask again
		return
	}
	defer news.Stop()
	to := webpage.NewStream(w, r)
	text, more := ": watching\n\n", true
	for more && err == nil {
		if _, err = io.WriteString(to, text); err == nil {
			more, err = webpage.Await(to, news.ResultChan())
		}
		text = "data: changed\n\n"
	}
}

// object sends the details of an object.
func (s *Server) object(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	query := r.URL.Query()
	cluster := &ask.Cluster{Kubernetes: s.Kubernetes, Networks: s.Networks}
	details, err := describe(ctx, cluster, ask.New(query.Get("kind"), query.Get("namespace"), query.Get("name")), s.Now())
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		code := http.StatusBadGateway
		if status := apierrors.APIStatus(nil); errors.As(err, &status) && status.Status().Code >= http.StatusBadRequest {
			code = int(status.Status().Code)
		}
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": strings.TrimSpace(err.Error())}) // as below
		return
	}
	_ = json.NewEncoder(w).Encode(details) // the browser is gone if it fails
}

package inspect

import (
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"cloudteam.ztgame.com/network-controller/internal/webpage"
)

// Hello is the first message of a stream.
type Hello struct {
	// PID is the process's id. A process that was killed and started again has another one, and counts from 1.
	PID int `json:"pid"`
}

// CheckAddress returns an error for an address that is not on loopback: the events name the objects of all namespaces,
// and who may connect may read them.
func CheckAddress(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err == nil {
		if ip, parsed := netip.ParseAddr(host); parsed == nil && ip.IsLoopback() {
			return nil
		}
	}
	return fmt.Errorf("%q is not on loopback: write 127.0.0.1 or [::1] and a port, such as 127.0.0.1:8090", address)
}

// EnvToken is the variable with the token of the stream. It is no flag, because others on the machine can read those.
const EnvToken = "INSPECT_TOKEN"

// Serve streams the events as server-sent events to anyone who sends the token as "Authorization: Bearer TOKEN": first
// a Hello, then all that are kept after the query's since, and then each as it happens. It answers requests for a
// loopback address alone: by another name, a page of the Web could read them (DNS rebinding).
func (r *Recorder) Serve(token string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		sent, _ := strings.CutPrefix(q.Header.Get("Authorization"), "Bearer ")
		switch {
		case CheckAddress(q.Host) != nil:
			http.Error(w, "Ask for this by its loopback address.", http.StatusMisdirectedRequest)
		case token == "" || subtle.ConstantTimeCompare([]byte(sent), []byte(token)) != 1:
			http.Error(w, "Send the token that "+EnvToken+" has: Authorization: Bearer TOKEN.", http.StatusUnauthorized)
		default:
			r.stream(w, q)
		}
	})
}

func (r *Recorder) stream(w http.ResponseWriter, q *http.Request) {
	seq, _ := strconv.ParseUint(q.URL.Query().Get("since"), 10, 64) // 0 is all
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	to := webpage.NewStream(w, q)
	err := to.Send("hello", Hello{PID: os.Getpid()})
	for err == nil {
		events, changed := r.Since(seq)
		for _, e := range events {
			seq = e.Seq
			if err = to.Send("event", e); err != nil {
				return // the reader is gone
			}
		}
		_, err = webpage.Await(to, changed)
	}
}

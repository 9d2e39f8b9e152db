package faults

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/proxy"
)

// search looks for secrets in a text, which has come from the given place. It may be called from any goroutine.
func (w *world) search(place, text string) {
	found := w.secrets.In(text)
	if len(found) == 0 {
		return
	}
	leak := place + " shows " + strings.Join(found, ", ")
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.leaks, leak) {
		w.leaks = append(w.leaks, leak)
	}
}

// served are the paths of --bind-address at which secrets are looked for.
var served = []string{
	"/metrics", "/readyz", "/debug/pprof/cmdline", "/debug/pprof/goroutine?debug=2", "/debug/pprof/heap",
	"/debug/pprof/heap?debug=1", "/debug/pprof/allocs?debug=1", "/debug/pprof/mutex?debug=1",
}

// searchServed looks for secrets in what the running process tells of itself.
func (w *world) searchServed() {
	w.t.Helper()
	if virtualTime {
		return // it serves nothing
	}
	for _, path := range served {
		w.await(func() error {
			status, body, err := w.process.Load().Get(w.t.Context(), path)
			if err == nil && status != http.StatusOK {
				err = fmt.Errorf("%s: %d %s", path, status, body)
			}
			if err == nil {
				w.search(path, body)
			}
			return err
		})
	}
}

// holdSecrets holds that nobody has seen a secret: in no log, Event, status, metric or profile. It is called when the
// processes have ended.
func (w *world) holdSecrets() {
	for i, p := range w.processes {
		w.search(fmt.Sprintf("the log of process %d", i+1), p.Log())
	}
	ctx := context.WithoutCancel(w.t.Context())
	events, err := w.around.Kube.CoreV1().Events(w.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		w.t.Errorf("listing Events: %v", err)
		return
	}
	for _, e := range events.Items {
		w.search("Event "+e.Reason, e.Message)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, leak := range w.leaks {
		w.t.Error(leak)
	}
}

// noteToken notes a token that Keystone gave to the process that logged in with a call.
func (w *world) noteToken(call proxy.Call, token string) {
	if token == "" {
		return
	}
	w.secrets.Add("a token of Keystone's", token)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.callers[token] = call.Caller
}

// secrets are ways in which a secret could get into a message.
func secrets() map[string]scenario {
	var right string
	var refused *proxy.Rule
	return map[string]scenario{
		"everything is logged that can be (-v 10)": {process: true, arguments: []string{"-v=10"}},
		"Keystone refuses the password": {
			prepare: func(w *world) {
				right = w.clouds
				w.clouds = w.withPassword("canary-of-a/wrong+password <&>")
			},
			live: func(w *world) { w.lifeAfterRefusal(func() { w.clouds = right }) },
		},
		"Keystone, or a proxy before it, quotes the log-in that it refuses": {
			prepare: func(w *world) {
				refused = w.keystone.Break(func(c proxy.Call) bool { return c.Method == http.MethodPost }, 0,
					quote(http.StatusUnauthorized))
			},
			live: func(w *world) { w.lifeAfterRefusal(refused.Mend) },
		},
		"Neutron, or a proxy before it, quotes the token in its error page": {prepare: func(w *world) {
			for _, status := range []int{http.StatusUnauthorized, http.StatusBadGateway, http.StatusTooManyRequests} {
				w.neutron.Break(firstOfEach(), 0, quote(status))
			}
		}},
		"a proxy before kube-apiserver quotes the ServiceAccount's token in its error page": {prepare: func(w *world) {
			for _, status := range []int{http.StatusUnauthorized, http.StatusBadGateway, http.StatusTooManyRequests} {
				w.kube.Break(firstOfEach(), 0, quote(status))
			}
		}},
	}
}

// lifeAfterRefusal begins with a process whose credentials are refused. The next one, which looks again at once, begins
// when mend has mended it.
func (w *world) lifeAfterRefusal(mend func()) {
	w.t.Helper()
	w.createNetwork(w.namespace, "a", cidrA, gatewayA)
	w.awaitStalled("a", cloudteamv1.ReasonCredentialsRejected)
	w.stop()
	mend()
	w.start()
	w.life()
}

// withPassword makes a clouds.yaml whose passwords are another, and gives its path.
func (w *world) withPassword(password string) string {
	w.t.Helper()
	content, err := os.ReadFile(w.clouds)
	expect.NoError(w.t, err)
	lines := strings.Split(string(content), "\n")
	for i, line := range lines {
		if before, _, ok := strings.Cut(line, "password: "); ok {
			lines[i] = fmt.Sprintf("%spassword: %q", before, password)
		}
	}
	path := filepath.Join(w.t.TempDir(), "clouds.yaml")
	expect.NoError(w.t, os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600))
	w.secrets.AddClouds(w.t, path)
	return path
}

// awaitStalled waits until a Network is Stalled for a reason.
func (w *world) awaitStalled(short, reason string) {
	w.t.Helper()
	harness.Await(w.t, w, w.api().Networks(w.namespace), w.name(short), func(n *cloudteamv1.Network) error {
		return harness.Says(n, cloudteamv1.ConditionStalled, reason, "")
	})
}

// quote refuses a call with all that it brought in the sentence that Neutron's, Keystone's and Kubernetes' clients show.
// Kubernetes' shows what is no JSON.
func quote(status int) proxy.Fault {
	return func(x *proxy.Exchange) {
		page := fmt.Sprintf("refused: %s %v %s", x.Request.URL, x.Request.Header, x.Body)
		for _, secret := range []string{x.Request.Header.Get("X-Auth-Token"), x.Request.Header.Get("Authorization")} {
			page = fmt.Sprintf("%s %s %s %s", url.QueryEscape(secret), html.EscapeString(secret),
				base64.StdEncoding.EncodeToString([]byte("user:"+secret)), page)
		}
		if strings.HasPrefix(x.Shape, "/api") {
			proxy.Refuse(status, page, "Content-Type", "text/plain")(x)
			return
		}
		text, err := json.Marshal(page)
		if err != nil {
			panic(err) // it is a string
		}
		proxy.Refuse(status, `{"error":{"message":`+string(text)+`}}`)(x)
	}
}

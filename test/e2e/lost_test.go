package e2e

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
)

// TestLostAnswers breaks the answer to the create of a network after Neutron has carried it out. There is one network.
// The fault tests do so to each write.
func TestLostAnswers(t *testing.T) {
	if emulator == nil {
		t.Skip("the emulator's answers are broken, not a real cloud's")
	}
	for how, answer := range map[string]func(http.ResponseWriter){
		"reset": func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
		"503":   func(w http.ResponseWriter) { http.Error(w, "no server is available", http.StatusServiceUnavailable) },
	} {
		t.Run("POST /v2.0/networks "+how, func(t *testing.T) {
			var creates atomic.Int32
			cloud := neutrontest.New(neutrontest.Options{})
			listener, err := cloud.Listen("127.0.0.1:0", func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Method != http.MethodPost || !strings.Contains(r.URL.Path, "/v2.0/networks") || creates.Add(1) > 1 {
						next.ServeHTTP(w, r)
						return
					}
					next.ServeHTTP(httptest.NewRecorder(), r)
					answer(w)
				})
			})
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			file := filepath.Join(t.TempDir(), "clouds.yaml")
			if err := os.WriteFile(file, []byte(listener.CloudsYAML()), 0o600); err != nil {
				t.Fatal(err)
			}
			namespace := newNamespace(t)
			name := unique(t, namespace)
			p := start(t, []string{"OS_CLIENT_CONFIG_FILE=" + file},
				"--kubeconfig", kubeconfig, "--cloud", "tenant", "--bind-address", "", "--audit-interval", "1h")
			apply(t, namespace, name, example())
			ready := awaitReady(t, namespace, name)
			wantFields(t, openFile(t, file, "tenant").one("networks", ""), resource{"id": ready.Status.NetworkID})
			remove(t, namespace, name)
			if n := creates.Load(); n != 1 {
				t.Errorf("there were %d creates of a network, want one", n)
			}
			p.kill(t)
		})
	}
}

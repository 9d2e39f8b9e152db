package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
)

// TestLostAnswers breaks the answer to one write after Neutron has carried it out. The outcome is the same as without.
func TestLostAnswers(t *testing.T) {
	if emulator == nil {
		t.Skip("the emulator's answers are broken, not a real cloud's")
	}
	reset := func(http.ResponseWriter) { panic(http.ErrAbortHandler) }
	unavailable := func(w http.ResponseWriter) { http.Error(w, "no server is available", http.StatusServiceUnavailable) }
	for _, write := range []struct{ method, path string }{
		{http.MethodPost, "/v2.0/networks"}, {http.MethodPost, "/v2.0/subnets"}, {http.MethodPut, "/v2.0/subnets/"},
		{http.MethodDelete, "/v2.0/networks/"},
	} {
		for how, answer := range map[string]func(http.ResponseWriter){"reset": reset, "503": unavailable} {
			t.Run(write.method+" "+write.path+" "+how, func(t *testing.T) {
				var broken atomic.Int32
				cloud := neutrontest.New(neutrontest.Options{})
				listener, err := cloud.Listen("127.0.0.1:0", func(next http.Handler) http.Handler {
					return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						if r.Method != write.method || !strings.Contains(r.URL.Path, write.path) || broken.Add(1) > 1 {
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
				edit(t, namespace, name, `{"gateway":"192.168.255.254"}`)
				awaitReady(t, namespace, name)
				c := openFile(t, file, "tenant")
				wantFields(t, c.one("networks", ""), resource{"id": ready.Status.NetworkID})
				wantFields(t, c.one("subnets", ""), resource{"gateway_ip": "192.168.255.254"})
				remove(t, namespace, name)
				if left := fmt.Sprint(c.list("networks", ""), c.list("subnets", "")); left != "[] []" {
					t.Errorf("left in Neutron: %s", left)
				}
				switch tries := broken.Load(); {
				case tries == 0:
					t.Error("nothing was broken")
				case tries > 1 && write.method == http.MethodPost:
					t.Errorf("what was there already was created %d times", tries)
				}
				p.kill(t)
			})
		}
	}
}

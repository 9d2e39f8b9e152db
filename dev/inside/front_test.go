package inside

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

// TestTheFrontLendsItsRightsToTheControllerAlone: others on the machine can reach it, too.
func TestTheFrontLendsItsRightsToTheControllerAlone(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "admin" || password != "open" {
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	defer server.Close()
	of, path := filepath.Join(t.TempDir(), "of"), filepath.Join(t.TempDir(), "path")
	err := clientcmd.WriteToFile(api.Config{
		Clusters: map[string]*api.Cluster{"c": {Server: server.URL,
			CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})}},
		AuthInfos:      map[string]*api.AuthInfo{"c": {Username: "admin", Password: "open"}},
		Contexts:       map[string]*api.Context{"c": {Cluster: "c", AuthInfo: "c"}},
		CurrentContext: "c",
	}, of)
	expect.NoError(t, err)
	front, err := StartFront(of, path)
	expect.NoError(t, err)
	defer front.Close()
	config, err := clientcmd.BuildConfigFromFlags("", path)
	expect.NoError(t, err)
	for _, c := range []struct {
		who    string
		config *rest.Config
		want   int
	}{
		{"the controller", config, http.StatusOK},
		{"another", rest.AnonymousClientConfig(config), http.StatusUnauthorized},
	} {
		client, err := rest.HTTPClientFor(c.config)
		expect.NoError(t, err)
		answer, err := client.Get(config.Host + "/version")
		expect.NoError(t, err)
		answer.Body.Close()
		expect.Equal(t, c.want, answer.StatusCode, "%s gets %s", c.who, answer.Status)
	}
}

package doctor

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/fake"
)

// states are the outcomes by name.
func states(checks []Check) map[string]State {
	all := map[string]State{}
	for _, c := range checks {
		all[c.Name] = c.State
	}
	return all
}

func TestWhatMayNotBeReadIsUnknownAndNoFailure(t *testing.T) {
	c := &ask.Cluster{Kubernetes: kubefake.NewClientset(), Networks: fake.NewSimpleClientset()}
	forbid := func(a clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: a.GetResource().Resource}, "x", nil)
	}
	for _, verb := range []string{"get", "list"} {
		c.Kubernetes.(*kubefake.Clientset).PrependReactor(verb, "leases", forbid)
		c.Kubernetes.(*kubefake.Clientset).PrependReactor(verb, "nodes", forbid)
		c.Kubernetes.(*kubefake.Clientset).PrependReactor(verb, "validatingadmissionpolicies", forbid)
		c.Kubernetes.(*kubefake.Clientset).PrependReactor(verb, "mutatingadmissionpolicies", forbid)
		c.Networks.(*fake.Clientset).PrependReactor(verb, "*", forbid)
	}
	checks := Run(t.Context(), c, nil, time.Now())
	got := states(checks)
	for _, name := range []string{
		"admission policies", "controller", "Networks", "NetworkPorts", "packets", "node agents", "credentials",
	} {
		if got[name] != Unknown {
			t.Errorf("%s is %s, want %s", name, got[name], Unknown)
		}
	}
	if got["CRDs"] != Fails { // this API server serves none
		t.Errorf("CRDs are %s, want %s", got["CRDs"], Fails)
	}
	for _, check := range checks {
		if check.State != OK && check.Remedy == "" && check.Name != "API server" {
			t.Errorf("%s has no remedy", check.Name)
		}
	}
}

func TestCredentialsThatAreRejectedFail(t *testing.T) {
	keystone := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer keystone.Close()
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	content := "clouds: {c: {auth: {auth_url: " + keystone.URL + "/v3, username: u, password: secret1, " +
		"user_domain_name: d, project_name: p, project_domain_name: d}}}"
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("OS_CLIENT_CONFIG_FILE", file)
	credentials, err := client.LoadCredentials("c")
	if err != nil {
		t.Fatal(err)
	}
	c := &ask.Cluster{Kubernetes: kubefake.NewClientset(), Networks: fake.NewSimpleClientset()}
	checks := Run(t.Context(), c, client.NewCloud(credentials, client.Options{}), time.Now())
	if got := states(checks)["credentials"]; got != Fails || !Failed(checks) {
		t.Errorf("credentials are %s, want %s", got, Fails)
	}
}

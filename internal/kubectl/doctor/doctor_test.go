package doctor

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/cloudtest"
	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/fake"
	"cloudteam.ztgame.com/network-controller/test/expect"
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
	checks := Run(t.Context(), c, Options{Now: time.Now()})
	got := states(checks)
	for _, name := range []string{"not checked", "credentials", "clock"} {
		expect.Equal(t, Unknown, got[name], "the check %s", name)
	}
	hidden := checks[len(checks)-1]
	for _, name := range []string{
		"admission policies", "controller", "Networks", "NetworkPorts", "FloatingIPs", "packets", "node agents", "MTU",
	} {
		if _, alone := got[name]; alone || !strings.Contains(hidden.Says, name) {
			t.Errorf("%s is not among what is not checked: %+v", name, hidden)
		}
	}
	expect.Empty(t, c.Notes, "notes repeat it")
	if got["CRDs"] != Fails { // this API server serves none
		t.Errorf("CRDs are %s, want %s", got["CRDs"], Fails)
	}
	for _, check := range checks {
		if check.State != OK && check.Remedy == "" && check.Name != "API server" {
			t.Errorf("%s has no remedy", check.Name)
		}
	}
}

func TestAnAPIServerThatDoesNotAnswerIsSaidOnce(t *testing.T) {
	kube := kubernetes.NewForConfigOrDie(&rest.Config{Host: "http://127.0.0.1:1"})
	networks := versioned.NewForConfigOrDie(&rest.Config{Host: "http://127.0.0.1:1"})
	c := &ask.Cluster{Kubernetes: kube, Networks: networks}
	cloud, _ := cloudtest.Emulated(t, neutrontest.Options{}, nil)
	checks := Run(t.Context(), c, Options{Cloud: cloud, Now: time.Now()})
	names := slices.Sorted(maps.Keys(states(checks)))
	expect.Equal(t, []string{"API server", "Neutron's extensions", "Neutron's release", "credentials", "descriptions",
		"quotas", "rights"}, names, "checks")
	if states(checks)["API server"] != Fails || len(c.Notes) > 0 {
		t.Errorf("%+v, with the notes %v", checks, c.Notes)
	}
}

// TestNodesNeedNoAgent is the cluster that README makes: it installs no agent, and a port is an address there.
func TestNodesNeedNoAgent(t *testing.T) {
	node := func(name, dataplane string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
			cloudteamv1.AnnotationDataplane: dataplane,
		}}}
	}
	agent := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "network-agent", Name: "network-agent"}}
	for sentence, c := range map[string]struct {
		objects []runtime.Object
		want    State
		says    string
	}{
		"no agent is installed":      {[]runtime.Object{node("a", ""), node("b", "")}, OK, "no node has a data plane"},
		"an agent runs nowhere":      {[]runtime.Object{node("a", ""), agent}, Warns, "1 of 1 nodes have no data plane: a"},
		"some nodes have no agent":   {[]runtime.Object{node("a", "ovn"), node("b", "")}, Warns, "1 of 2 nodes have no data plane: b"},
		"each node has an agent":     {[]runtime.Object{node("a", "ovn"), agent}, OK, "all 1 nodes have a data plane"},
		"there is no node, as in CI": {nil, OK, "no node has a data plane"},
	} {
		cluster := &ask.Cluster{Kubernetes: kubefake.NewClientset(c.objects...), Networks: fake.NewSimpleClientset()}
		checks := Run(t.Context(), cluster, Options{Now: time.Now()})
		got := checks[slices.IndexFunc(checks, func(check Check) bool { return check.Name == "node agents" })]
		if got.State != c.want || !strings.Contains(got.Says, c.says) {
			t.Errorf("%s: %+v, want %s with %q", sentence, got, c.want, c.says)
		}
	}
}

// TestRejectedLogInsOfTheControllerFail has its Event, which it sends with each audit.
func TestRejectedLogInsOfTheControllerFail(t *testing.T) {
	now := time.Now()
	event := func(ago time.Duration) *corev1.Event {
		return &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: "network-controller", Name: "e"},
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "network-controller", Name: "leader-1"},
			Reason:         cloudteamv1.ReasonCredentialsRejected, Message: "log in to cloud: check the password",
			LastTimestamp: metav1.NewTime(now.Add(-ago)),
		}
	}
	for sentence, c := range map[string]struct {
		events []runtime.Object
		want   State
	}{
		"none":                                 {nil, OK},
		"a new one":                            {[]runtime.Object{event(time.Minute)}, Fails},
		"an old one, after which it logged in": {[]runtime.Object{event(time.Hour)}, OK},
	} {
		cluster := &ask.Cluster{Kubernetes: kubefake.NewClientset(c.events...), Networks: fake.NewSimpleClientset()}
		for _, check := range Run(t.Context(), cluster, Options{Now: now}) {
			if check.Name != "controller's cloud" {
				continue
			}
			if check.State != c.want || c.want == Fails && !strings.Contains(check.Says, "1m0s ago: log in to cloud") {
				t.Errorf("%s: %+v, want %s", sentence, check, c.want)
			}
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
	expect.NoError(t, os.WriteFile(file, []byte(content), 0o600))
	t.Setenv("OS_CLIENT_CONFIG_FILE", file)
	credentials, err := client.LoadCredentials("c")
	expect.NoError(t, err)
	c := &ask.Cluster{Kubernetes: kubefake.NewClientset(), Networks: fake.NewSimpleClientset()}
	checks := Run(t.Context(), c, Options{Cloud: client.NewCloud(credentials, client.Options{}), Now: time.Now()})
	if got := states(checks)["credentials"]; got != Fails || !Failed(checks) {
		t.Errorf("credentials are %s, want %s", got, Fails)
	}
}

func TestRightsAreThoseOfTheRoles(t *testing.T) {
	for roles, want := range map[string]State{
		"member reader": OK, "admin": OK, "_member_": OK, "Member": OK, "reader": Warns, "": Warns,
	} {
		if got := (Check{State: OK}).of(strings.Fields(roles)); got.State != want || want != OK && got.Remedy == "" {
			t.Errorf("%q: %+v, want %s", roles, got, want)
		}
	}
}

// on is a Network with an MTU, on a router.
func on(router, external, name string, mtu int32, cidr string) *cloudteamv1.Network {
	n := &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	n.Status.MTU, n.Status.Subnets = mtu, []cloudteamv1.SubnetStatus{{CIDR: cidr}}
	if router != "" {
		n.Status.Router = &cloudteamv1.RouterStatus{ID: router, ExternalNetworkID: external}
	}
	return n
}

func TestMTUsAreComparedAlongThePaths(t *testing.T) {
	cloud, admin := cloudtest.Emulated(t, neutrontest.Options{}, nil)
	var made struct{ Network struct{ ID string } }
	if err := admin.Do(t.Context(), client.Request{Op: "make", Method: http.MethodPost, Path: "networks", Answer: &made,
		Body: map[string]any{"network": map[string]any{"name": "public", "router:external": true, "mtu": 1400}}}); err != nil {
		t.Fatal(err)
	}
	public := made.Network.ID
	for sentence, c := range map[string]struct {
		networks []runtime.Object
		cloud    *client.Cloud
		want     State
		says     string
	}{
		"no Network": {want: OK},
		"one MTU on a router": {
			networks: []runtime.Object{on("r", "", "a", 1450, "10.0.0.0/24"), on("r", "", "b", 1450, "10.1.0.0/24")}, want: OK,
		},
		"two on two routers": {
			networks: []runtime.Object{on("r", "", "a", 1450, "10.0.0.0/24"), on("s", "", "b", 1500, "10.1.0.0/24")}, want: OK,
		},
		"two on one router": {
			networks: []runtime.Object{on("r", "", "a", 1450, "10.0.0.0/24"), on("r", "", "b", 1500, "10.1.0.0/24")},
			want:     Warns, says: "Network shop/b has 1500, and Network shop/a on the same router 1450",
		},
		"a smaller one outside": {
			networks: []runtime.Object{on("r", public, "a", 1450, "10.0.0.0/24")}, cloud: cloud,
			want: Warns, says: "Network shop/a has 1450, and external network " + public + " on the same router 1400",
		},
		"the same outside": {
			networks: []runtime.Object{on("r", public, "a", 1400, "10.0.0.0/24")}, cloud: cloud, want: OK,
		},
		"an outside that nobody knows": {networks: []runtime.Object{on("r", public, "a", 1450, "10.0.0.0/24")}, want: OK},
		"too small for IPv6": {
			networks: []runtime.Object{on("", "", "a", 1200, "fd00::/64")}, want: Fails, says: "has IPv6 and an MTU of 1200",
		},
		"small without IPv6": {networks: []runtime.Object{on("", "", "a", 1200, "10.0.0.0/24")}, want: OK},
	} {
		cluster := &ask.Cluster{Kubernetes: kubefake.NewClientset(), Networks: fake.NewSimpleClientset(c.networks...)}
		checks := Run(t.Context(), cluster, Options{Cloud: c.cloud, Now: time.Now(), ClusterUID: "c1"})
		at := slices.IndexFunc(checks, func(c Check) bool { return c.Name == "MTU" })
		if got := checks[at]; got.State != c.want || !strings.Contains(got.Says, c.says) || c.want != OK && got.Remedy == "" {
			t.Errorf("%s: %+v, want %s %q", sentence, got, c.want, c.says)
		}
	}
}

// skewed has a cloud tell a time that is ahead.
func skewed(ahead *time.Duration) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Date", time.Now().Add(*ahead).UTC().Format(http.TimeFormat))
			next.ServeHTTP(w, r)
		})
	}
}

func TestClocksAreCompared(t *testing.T) {
	var neutron time.Duration
	var habits neutrontest.Habits
	cloud, _ := cloudtest.Emulated(t, neutrontest.Options{}, func(next http.Handler) http.Handler {
		return habits.Wrap(skewed(&neutron)(next))
	})
	cluster := &ask.Cluster{Kubernetes: kubefake.NewClientset(), Networks: fake.NewSimpleClientset()}
	at := func(ahead time.Duration) Clock { return Clock{true, ahead, ahead} }
	for sentence, c := range map[string]struct {
		api     Clock
		neutron time.Duration
		habit   neutrontest.Habit
		want    State
		says    string
	}{
		"all agree":                      {api: at(0), want: OK, says: "the API server agrees; Neutron agrees"},
		"the API server's is ahead":      {api: at(time.Hour), want: Warns, says: "the API server is 1h0m0s ahead of this machine"},
		"Neutron's is behind":            {api: at(0), neutron: -time.Hour, want: Warns, says: "behind this machine"},
		"a little is within the margins": {api: at(time.Second), want: OK, says: "agrees"},
		"Neutron's servers differ": {
			api: at(0), habit: neutrontest.SkewedDates, want: Warns, says: "the servers behind Neutron differ by 10m",
		},
		"API servers differ": {
			api: Clock{true, -time.Minute, 0}, want: Warns, says: "the servers behind the API server differ by 1m0s",
		},
		"Neutron tells no time": {
			api: at(0), habit: neutrontest.NoDate, want: OK, says: "the API server agrees; Neutron was not compared",
		},
		"nobody tells the time": {habit: neutrontest.NoDate, want: Unknown, says: "the API server was not compared"},
	} {
		neutron = c.neutron
		var wear []neutrontest.Habit
		if c.habit != "" {
			wear = append(wear, c.habit)
		}
		expect.NoError(t, habits.Set(wear...))
		checks := Run(t.Context(), cluster, Options{Cloud: cloud, Now: time.Now(), ClusterUID: "c1",
			Ahead: func() Clock { return c.api }})
		at := slices.IndexFunc(checks, func(c Check) bool { return c.Name == "clock" })
		if got := checks[at]; got.State != c.want || !strings.Contains(got.Says, c.says) || c.want != OK && got.Remedy == "" {
			t.Errorf("%s: %+v, want %s %q", sentence, got, c.want, c.says)
		}
	}
}

func TestWhatIsLeftOfAnotherClusterIsNamed(t *testing.T) {
	cloud, _ := cloudtest.Emulated(t, neutrontest.Options{}, nil)
	expect.NoError(t, cloud.Do(t.Context(), client.Request{Op: "create network", Method: http.MethodPost, Path: "networks",
		Body: map[string]any{"network": map[string]any{"description": plan.Owner{Cluster: "c9", Object: "o"}.Marker()}}}))
	c := &ask.Cluster{Kubernetes: kubefake.NewClientset(), Networks: fake.NewSimpleClientset()}
	checks := Run(t.Context(), c, Options{Cloud: cloud, Now: time.Now(), ClusterUID: "c1"})
	at := slices.IndexFunc(checks, func(c Check) bool { return c.Name == "orphans" })
	if got := checks[at]; !strings.Contains(got.Says, "cluster c9 has 1 networks") {
		t.Errorf("it says %q", got.Says)
	}
}

func TestHiddenDescriptionsAreAFailure(t *testing.T) {
	var habits neutrontest.Habits
	cloud, _ := cloudtest.Emulated(t, neutrontest.Options{}, habits.Wrap)
	c := &ask.Cluster{Kubernetes: kubefake.NewClientset(), Networks: fake.NewSimpleClientset()}
	for habit, want := range map[neutrontest.Habit]State{
		neutrontest.NoStatus: OK, neutrontest.HiddenDescriptions: Fails,
	} {
		expect.NoError(t, habits.Set(habit))
		checks := Run(t.Context(), c, Options{Cloud: cloud, Now: time.Now()})
		at := slices.IndexFunc(checks, func(c Check) bool { return c.Name == "descriptions" })
		// Each project has a security group.
		if got := checks[at]; got.State != want || want == Fails && !strings.Contains(got.Says, "security groups") {
			t.Errorf("with the habit %s: %+v, want %s", habit, got, want)
		}
	}
}

package faults

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/proxy"
)

// world is one controller with everything around it to itself, though all worlds share one API server and one cloud:
// the proxy in front of the API server shows it the world's objects alone, and gives the namespace kube-system a UID of
// the world's own, so that the worlds are to each other what foreign clusters are.
type world struct {
	t *testing.T
	// around is what it stands on: that of all worlds, or in virtual time its own.
	around *harness.Surroundings
	// namespace is the world's name, too: its label's value, and the beginning of all names in Neutron.
	namespace string
	// cluster is the UID of kube-system.
	cluster string

	keystone, neutron, kube *proxy.Proxy
	// secureKeystone, where a scenario has one, serves TLS in front of keystone.
	secureKeystone *proxy.Proxy

	// kubeconfig and clouds lead to the proxies.
	kubeconfig, clouds string
	// cloudName is the cloud that the next process uses.
	cloudName string
	// arguments are further ones of the command line.
	arguments []string
	// pageSize, where not 0, is how many resources Neutron gives at most on a page of a list.
	pageSize int

	// habits are those of Neutron as the controller sees it.
	habits harness.Habits
	// cloud is the second opinion, past the proxies.
	cloud   *harness.Cloud
	foreign map[string][]harness.Resource

	// secrets are what nothing that the world can see may show.
	secrets harness.Secrets
	// process is the one that was started last; processes are all, oldest first.
	process   atomic.Pointer[running]
	processes []*running
	// crashed is true from a crash until the next process is started.
	crashed atomic.Bool

	// mayDouble is true where there may be two of one for a moment.
	mayDouble bool
	mu        sync.Mutex
	// doubles are the networks and ports that there were two of at a time.
	doubles []string
	// leaks are the secrets that showed so far, each with its place.
	leaks []string
	// callers are the names of the processes that Keystone's tokens were given to.
	callers map[string]string
}

const (
	worldLabel = "faults.cloudteam.ztgame.com/world"
	// cloudName is the cloud in which the worlds are.
	cloudName = "tenant"
)

// auditInterval is the shortest that the controller takes, and at a real Neutron, where the audits of all worlds take
// turns, one that leaves it time for something else.
func auditInterval() string {
	if openStack() {
		return "3s"
	}
	return "1s"
}

// newWorld makes a world that ends with the test, and puts foreign resources into its cloud. No controller runs yet.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, cluster: string(uuid.NewUUID()), cloudName: cloudName, callers: map[string]string{}}
	if w.around = surroundings; virtualTime {
		w.around = harness.Virtual(t, harness.Options{OpenClass: true})
	}
	w.namespace = w.newNamespace()
	t.Cleanup(w.holdSecrets) // when the processes have ended
	w.secrets.AddAccount(t, w.around.Kubeconfig)
	w.secrets.AddClouds(t, w.around.CloudsFile)
	w.cloud = harness.Open(t, w.around.CloudsFile, cloudName)
	w.startCloudProxies()
	w.startKubeProxy()
	w.addForeign()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("writes to Neutron:\n%swrites to Kubernetes:\n%s", w.neutron, w.kube)
		}
	})
	return w
}

func (w *world) newNamespace() string {
	w.t.Helper()
	return harness.Create(w.t, w.around.Kube.CoreV1().Namespaces(), harness.Namespace("faults-")).Name
}

// startCloudProxies puts a proxy in front of Keystone, whose catalog then names the other one as Neutron, and one in
// front of Neutron.
func (w *world) startCloudProxies() {
	w.t.Helper()
	w.clouds = filepath.Join(w.t.TempDir(), "clouds.yaml")
	w.habits.Next = w.around.Transport
	var err error
	w.keystone, w.neutron, err = harness.FrontCloud(w.around.CloudsFile, w.clouds, []string{cloudName, "admin"},
		w.cloud.Client.Endpoint,
		proxy.Options{Listener: w.around.Listen("keystone"), Caller: callerByHost, Answered: func(call proxy.Call, a *proxy.Answer) {
			w.noteToken(call, a.Header.Get("X-Subject-Token"))
		}},
		proxy.Options{
			Listener: w.around.Listen("neutron"), Transport: &w.habits, Caller: w.callerOfNeutron, Ask: w.shortenPages,
			Answered: w.countDoubles,
		})
	expect.NoError(w.t, err)
	w.t.Cleanup(w.neutron.Close)
	w.t.Cleanup(w.keystone.Close)
}

func (w *world) shortenPages(r *http.Request) {
	if query := r.URL.Query(); w.pageSize > 0 && query.Has("limit") {
		query.Set("limit", fmt.Sprint(w.pageSize))
		r.URL.RawQuery = query.Encode()
	}
}

// countDoubles looks, after each create, whether there are two of what there should be one.
func (w *world) countDoubles(call proxy.Call, a *proxy.Answer) {
	collection := strings.TrimPrefix(call.Shape, "/v2.0/")
	if call.Method != http.MethodPost || a.Status != http.StatusCreated || collection == "security-group-rules" {
		return // Neutron refuses a rule that there is
	}
	of := strings.ReplaceAll(collection, "-", "_")
	for _, resource := range created(of, a.Body) {
		if strings.HasPrefix(resource.Text("device_owner"), "network:router_interface") {
			continue // A Network has one for each gateway, whose address Neutron gives to one port alone.
		}
		if strings.Contains(string(call.Body), "[owner=") && !strings.HasSuffix(resource.Text("description"), "]") {
			continue // the cloud does not keep the marker, and the controller deletes it
		}
		query := url.Values{"description": {resource.Text("description")}}
		if cidr, ok := resource["cidr"].(string); ok {
			query.Set("cidr", cidr)
		}
		var there map[string][]harness.Resource
		address := w.cloud.Client.ServiceURL(collection) + "?" + query.Encode()
		_, err := w.cloud.Client.Get(w.t.Context(), address, &there, nil)
		w.mu.Lock()
		if err == nil && len(there[of]) != 1 {
			w.doubles = append(w.doubles, fmt.Sprintf("%s: %v", collection, there[of]))
		}
		w.mu.Unlock()
	}
}

// created are the resources in the answer to a create of one or of several.
func created(collection string, body []byte) []harness.Resource {
	var one map[string]harness.Resource
	if json.Unmarshal(body, &one) == nil {
		return slices.Collect(maps.Values(one))
	}
	var many map[string][]harness.Resource
	if json.Unmarshal(body, &many) != nil {
		return nil
	}
	return many[collection]
}

// startKubeProxy puts a proxy in front of kube-apiserver.
func (w *world) startKubeProxy() {
	w.t.Helper()
	w.kubeconfig = filepath.Join(w.t.TempDir(), "kubeconfig")
	var err error
	w.kube, err = w.around.FrontKube(w.kubeconfig, proxy.Options{
		Listener: w.around.Listen("kube"),
		// A leader's sign of life is no work.
		Reads:  func(c proxy.Call) bool { return c.Shape == kubeLeases || c.Shape == kubeLeases+"/{name}" },
		Caller: callerByHost, Ask: w.showOwnObjects,
		Answered: func(call proxy.Call, a *proxy.Answer) {
			w.renameCluster(call, a)
			w.search(call.Method+" "+call.Shape+" to Kubernetes", string(call.Body))
		},
	})
	expect.NoError(w.t, err)
	w.t.Cleanup(w.kube.Close)
}

// Shapes of calls to kube-apiserver.
const (
	kubeNetworks     = "/apis/cloudteam.ztgame.com/v1/networks"
	kubePorts        = "/apis/cloudteam.ztgame.com/v1/networkports"
	kubeGroups       = "/apis/cloudteam.ztgame.com/v1/securitygroups"
	kubeFloatingIPs  = "/apis/cloudteam.ztgame.com/v1/floatingips"
	kubePolicies     = "/apis/k8s.cni.cncf.io/v1beta1/multi-networkpolicies"
	kubePods         = "/api/v1/pods"
	kubeServices     = "/api/v1/services"
	kubeReplicaSets  = "/apis/apps/v1/replicasets"
	kubeStatefulSets = "/apis/apps/v1/statefulsets"
	kubeDeployments  = "/apis/apps/v1/deployments"
	kubeMachines     = "/apis/kubevirt.io/v1/virtualmachines"
	kubeInstances    = "/apis/kubevirt.io/v1/virtualmachineinstances"
	kubeFoos         = "/apis/samplecontroller.k8s.io/v1alpha1/foos"
	kubeEvents       = "/api/v1/events"
	kubeSystem       = "/api/v1/namespaces/kube-system"
	kubeLeases       = "/apis/coordination.k8s.io/v1/leases"
)

// showOwnObjects narrows lists and watches to the world's objects. A Network may be in a namespace of another's, and
// bears a label. Others are in the world's namespace, for not all of those who make them would put a label there: not
// the controller on NetworkPorts, and a Deployment's owner may take it off. A namespace never changes, so that no watch
// tells of an object as gone that is not.
func (w *world) showOwnObjects(r *http.Request) {
	query := r.URL.Query()
	switch r.URL.Path {
	case kubeNetworks:
		query.Set("labelSelector", worldLabel+"="+w.namespace)
		r.URL.RawQuery = query.Encode()
	case kubePorts, kubeGroups, kubeFloatingIPs, kubePolicies, kubePods, kubeServices, kubeReplicaSets, kubeStatefulSets,
		kubeDeployments, kubeMachines, kubeInstances, kubeFoos:
		query.Set("fieldSelector", "metadata.namespace="+w.namespace)
		r.URL.RawQuery = query.Encode()
	case kubeSystem:
		r.Header.Set("Accept", "application/json")
	}
}

func (w *world) renameCluster(call proxy.Call, a *proxy.Answer) {
	var namespace corev1.Namespace
	if call.Request.URL.Path != kubeSystem || json.Unmarshal(a.Body, &namespace) != nil {
		return
	}
	a.Body = []byte(strings.ReplaceAll(string(a.Body), string(namespace.UID), w.cluster))
}

// foreignOwner is the device owner of others' ports. From Neutron 29 on, a member may not delete a virtual machine's.
const foreignOwner = "test:foreign"

// addForeign puts into the project what is not the controller's: a network with a subnet and a port that bears the name
// of the workload's, one that bears its description, too, and one with another cluster's marker.
func (w *world) addForeign() {
	w.t.Helper()
	for _, description := range []string{"", declaredDescription, "[owner=" + string(uuid.NewUUID()) + "/" + w.cluster + "]"} {
		network := w.cloud.Create("networks", harness.Resource{"name": w.name("a"), "description": description})
		w.cloud.Create("subnets", harness.Resource{
			"network_id": network.ID(), "name": w.name("a"), "description": description, "ip_version": 4, "cidr": cidrA,
		})
		w.cloud.Create("ports", harness.Resource{
			"network_id": network.ID(), "name": "p", "description": description, "device_owner": foreignOwner,
		})
	}
	w.foreign = w.notOurs()
}

// name is a name that no other world has.
func (w *world) name(short string) string { return w.namespace + "-" + short }

var collections = []string{"networks", "subnets", "ports"}

// ours are the resources that bear the world's marker, by collection.
func (w *world) ours() map[string][]harness.Resource {
	w.t.Helper()
	return w.those(func(r harness.Resource) bool {
		return strings.Contains(r["description"].(string), "[owner="+w.cluster+"/")
	})
}

// notOurs are the foreign resources.
func (w *world) notOurs() map[string][]harness.Resource {
	w.t.Helper()
	theirs := map[string]bool{}
	for _, r := range w.cloud.List("networks", "name="+w.name("a")) {
		theirs[r.ID()] = !strings.Contains(r["description"].(string), "[owner="+w.cluster+"/")
	}
	return w.those(func(r harness.Resource) bool {
		if network, ok := r["network_id"].(string); ok {
			return theirs[network]
		}
		return theirs[r.ID()]
	})
}

func (w *world) those(which func(harness.Resource) bool) map[string][]harness.Resource {
	w.t.Helper()
	found := map[string][]harness.Resource{}
	for _, collection := range append([]string{"routers", "floatingips"}, collections...) {
		for _, r := range w.cloud.List(collection, "project_id="+w.cloud.Project) {
			if which(r) {
				found[collection] = append(found[collection], r)
			}
		}
	}
	return found
}

// start starts the controller.
func (w *world) start() { w.t.Helper(); w.startWith(w.kubeconfig, w.clouds) }

// startWith starts the controller with the given files.
func (w *world) startWith(kubeconfig, clouds string) {
	w.t.Helper()
	arguments := append([]string{
		"--kubeconfig", kubeconfig, "--leader-elect=false", "--cloud", w.cloudName,
		"--bind-address", "127.0.0.1:0", "--audit-interval", auditInterval(),
		"--controllers=network,networkport", "-v", "2",
	}, w.arguments...)
	p := w.launch(clouds, arguments...)
	w.processes = append(w.processes, p)
	w.process.Store(p)
}

// launch starts a controller with nothing but the arguments.
func (w *world) launch(clouds string, arguments ...string) *running {
	w.t.Helper()
	return &running{w.around.StartFor(w.t, clouds, arguments...)}
}

// running is a process, or what plays one in virtual time.
type running struct{ harness.Controller }

// crash ends the process as kill -9 does. It may be called from a fault; await starts the next process.
func (w *world) crash() {
	p := w.process.Load()
	p.Signal(syscall.SIGKILL)
	<-p.Done()
	w.crashed.Store(true)
}

// await polls until check gives nil, and starts the controller again where it has crashed.
func (w *world) await(check func() error) {
	w.t.Helper()
	w.around.Eventually(w.t, func() error {
		w.t.Helper()
		if w.crashed.CompareAndSwap(true, false) {
			w.start()
		}
		return check()
	})
}

// Eventually is await, for package harness.
func (w *world) Eventually(t testing.TB, check func() error) { t.Helper(); w.await(check) }

// stop stops the process as a Deployment does.
func (w *world) stop() {
	w.t.Helper()
	p := w.process.Load()
	p.Signal(syscall.SIGTERM)
	expect.Equal(w.t, 0, p.AwaitExit(w.t), "the exit code after SIGTERM")
}

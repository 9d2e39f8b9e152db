package kubectl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/discovery"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/kubernetes"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/openapi"
	"k8s.io/client-go/openapi/openapitest"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"cloudteam.ztgame.com/network-controller/config/crd"
	"cloudteam.ztgame.com/network-controller/internal/kinds"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/doctor"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/planning"
	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	domain "cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/internal/version"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/fake"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

var update = flag.Bool("update", false, "write what the commands print into the pages with the examples")

// pages are where the examples are: after a line "<!-- example NAME -->", in a code block that begins with the command.
// The first one is for users. The second one has what they can do without.
var pages = []string{"../../docs/kubectl-network.md", "testdata/examples.md"}

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// example is a command and the cluster that it is asked of.
type example struct {
	command string
	// hurry are flags that spare the test a wait. The page leaves them out.
	hurry   string
	objects []runtime.Object
	code    int
	// cloud is how the cloud "mycloud" is, if the command names it. file is network.yaml.
	cloud neutrontest.Options
	file  string
	// seed, if set, fills the cloud. It gives what the docs say in place of the cloud's ids.
	seed func(t *testing.T, cloud *neutrontest.Server) map[string]string
	// ahead is how far the API server's clock is ahead.
	ahead time.Duration
	// lab, if set, plays the parts that Pods of a test of connections need.
	lab *lab
	// room, if set, plays those of a capture.
	room *room
}

func TestTheExamplesOfThePageAreWhatTheCommandsPrint(t *testing.T) {
	defer func(was string) { version.Version = was }(version.Version)
	version.Version = "v1.2.0"
	all := examples(t)
	for _, page := range pages {
		was, err := os.ReadFile(page)
		expect.NoError(t, err)
		is := string(was)
		for name, e := range all {
			mark := "<!-- example " + name + " -->\n"
			before, after, found := strings.Cut(is, mark)
			_, rest, closed := strings.Cut(strings.TrimPrefix(after, "```\n"), "```\n")
			if !found || !closed {
				continue
			}
			delete(all, name)
			var out string
			var code int
			t.Run(name, func(t *testing.T) { out, code = e.run(t) })
			expect.Equal(t, e.code, code, "the exit code of %s:\n%s", name, out)
			is = before + mark + "```\n$ kubectl network " + e.command + "\n" + out + "```\n" + rest
		}
		if *update {
			expect.NoError(t, os.WriteFile(page, []byte(is), 0o644)) //nolint:gosec // a page of the docs
			continue
		}
		expect.Equal(t, string(was), is, "%s is not what the commands print; run this test with -update", page)
	}
	for name := range all {
		t.Errorf("no page has a block after <!-- example %s -->", name)
	}
}

// run runs the command beside its file and its cloud.
func (e example) run(t *testing.T) (out string, code int) {
	t.Chdir(t.TempDir())
	if strings.Contains(e.command, "mycloud") {
		e.objects = append(e.objects, kubeSystem())
		cloud := neutrontest.New(e.cloud)
		listener := cloud.Start(t)
		write(t, "clouds.yaml", strings.Replace(listener.CloudsYAML(), "  tenant:", "  mycloud:", 1))
		t.Setenv("OS_CLIENT_CONFIG_FILE", "clouds.yaml")
		ids := map[string]string{}
		if e.seed != nil {
			ids = e.seed(t, cloud)
		}
		defer func() {
			for is, said := range ids {
				out = strings.ReplaceAll(out, is, said)
			}
			out = strings.ReplaceAll(out, listener.URL, "https://cloud.example.org")
			out = strings.ReplaceAll(out, cloud.ProjectID("tenant"), "5cc65ffd1b9a29de180bd0910cbc48b6")
		}()
	}
	write(t, "network.yaml", e.file)
	if e.lab != nil {
		return e.lab.run(t, e.objects, e.command)
	}
	if e.room != nil {
		return e.room.run(t, e.objects, e.command)
	}
	return runAhead(t, e.objects, e.command+e.hurry, e.ahead)
}

// kubeSystem is the namespace whose UID is the cluster's.
func kubeSystem() *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: newCluster}}
}

// TestWithoutCRDsTheRemedyIsSaid has an API server without ours.
func TestWithoutCRDsTheRemedyIsSaid(t *testing.T) {
	unknown := apierrors.NewGenericServerResponse(http.StatusNotFound, "get", cloudteamv1.Resource("networks"), "", "404 page not found", 0, true)
	for _, command := range []string{"top", "ui"} {
		f, printed := factoryOf(t, nil)
		clients := f.clients
		f.clients = func() (kubernetes.Interface, versioned.Interface, error) {
			kube, ours, err := clients()
			ours.(*fake.Clientset).PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, unknown
			})
			return kube, ours, err
		}
		c := f.command()
		c.SetContext(t.Context())
		if out, code := execute(c, printed, command); code != 1 || !strings.Contains(out, "CRDs are not installed (kubectl apply") {
			t.Errorf("%s ends with %d: %s", command, code, out)
		}
	}
}

func write(t *testing.T, name, content string) {
	t.Helper()
	expect.NoError(t, os.WriteFile(name, []byte(content), 0o600))
}

// run runs a command against a cluster with the objects, and gives what it prints.
func run(t *testing.T, objects []runtime.Object, command string) (out string, code int) {
	t.Helper()
	return runAhead(t, objects, command, 0)
}

// runAhead is run with an API server whose clock is ahead.
func runAhead(t *testing.T, objects []runtime.Object, command string, ahead time.Duration) (out string, code int) {
	t.Helper()
	f, printed := factoryOf(t, objects)
	f.ahead = func() doctor.Clock { return doctor.Clock{Known: true, Least: ahead, Most: ahead} }
	c := f.command()
	c.SetContext(t.Context())
	return execute(c, printed, command)
}

// factoryOf makes the factory of a command, with a cluster of the objects, and gives what the command prints.
func factoryOf(t *testing.T, objects []runtime.Object) (*factory, *bytes.Buffer) {
	t.Helper()
	t.Setenv("OS_CLOUD", "")
	t.Setenv("OS_AUTH_URL", "")
	var kube, ours []runtime.Object
	for _, o := range objects {
		if strings.HasPrefix(o.GetObjectKind().GroupVersionKind().Group, "cloudteam") || isOurs(o) {
			ours = append(ours, o)
		} else {
			kube = append(kube, o)
		}
	}
	var printed bytes.Buffer
	f := &factory{config: genericclioptions.NewConfigFlags(true), now: func() time.Time { return now },
		IOStreams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: &printed, ErrOut: &printed}}
	f.config.KubeConfig = new("/dev/null")
	f.metrics = func(context.Context, kubernetes.Interface, *corev1.Pod, int32) (string, error) {
		return "network_controller_orphans{state=\"due\"} 0\n", nil
	}
	f.clients = func() (kubernetes.Interface, versioned.Interface, error) {
		stored := fake.NewSimpleClientset(ours...)
		// As the API server does, also in a dry run. Each of the clients is asked once.
		resources := []metav1.APIResource{{Name: "networkclasses"}}
		for _, row := range kinds.All {
			kind := row.Resource.Resource
			resources = append(resources, metav1.APIResource{Name: kind})
			stored.PrependReactor("create", kind, func(a clienttesting.Action) (bool, runtime.Object, error) {
				made := a.(clienttesting.CreateAction).GetObject()
				object := made.(metav1.Object)
				object.SetUID(types.UID("uid-of-a-new-one-of-" + kind))
				object.SetGeneration(1)
				return true, made, nil
			})
		}
		served := publishing{kubefake.NewClientset(kube...)}
		known := served.Clientset.Discovery().(*fakediscovery.FakeDiscovery)
		known.FakedServerVersion = &apiversion.Info{GitVersion: "v1.36.1"}
		known.Resources = []*metav1.APIResourceList{{GroupVersion: "cloudteam.ztgame.com/v1", APIResources: resources}}
		return served, stored, nil
	}
	return f, &printed
}

// publishing is a Clientset of an API server that publishes the schemas of this version's CRDs.
type publishing struct{ *kubefake.Clientset }

func (p publishing) Discovery() discovery.DiscoveryInterfaces {
	return published{p.Clientset.Discovery()}
}

type published struct{ discovery.DiscoveryInterfaces }

func (p published) OpenAPIV3() openapi.Client {
	return openapitest.FakeClient{PathsMap: map[string]openapi.GroupVersion{
		"apis/cloudteam.ztgame.com/v1": openapitest.FakeGroupVersion{GVSpec: schemas()}}}
}

// schemas are those of this version's CRDs.
var schemas = sync.OnceValue(func() []byte {
	all := map[string]any{}
	files, _ := fs.Glob(crd.Files, "*.yaml") // the pattern is good
	for _, file := range files {
		content, _ := crd.Files.ReadFile(file)
		of := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(content, of); err != nil {
			panic(err)
		}
		kind, _, _ := unstructured.NestedString(of.Object, "spec", "names", "kind")
		versions, _, _ := unstructured.NestedSlice(of.Object, "spec", "versions")
		schema, _, _ := unstructured.NestedMap(versions[0].(map[string]any), "schema", "openAPIV3Schema")
		schema["x-kubernetes-group-version-kind"] = []any{map[string]any{
			"group": "cloudteam.ztgame.com", "version": "v1", "kind": kind}}
		all[kind] = schema
	}
	document, err := json.Marshal(map[string]any{"components": map[string]any{"schemas": all}})
	if err != nil {
		panic(err)
	}
	return document
})

// execute runs a command, and gives what it prints.
func execute(c *cobra.Command, printed *bytes.Buffer, command string) (out string, code int) {
	c.SetArgs(strings.Fields(command))
	err := c.Execute()
	if _, silent := errors.AsType[*ExitError](err); err != nil && !silent {
		printed.WriteString("Error: " + err.Error() + "\n")
	}
	return printed.String(), ExitCode(err)
}

func isOurs(o runtime.Object) bool {
	_, class := o.(*cloudteamv1.NetworkClass)
	_, row := kinds.OfAny(o)
	return class || row
}

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-of-" + name), Generation: 1,
		CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))}
}

func conditions(status metav1.ConditionStatus, reason, message string) []metav1.Condition {
	return []metav1.Condition{{Type: "Ready", Status: status, Reason: reason, Message: message,
		LastTransitionTime: metav1.NewTime(now.Add(-5 * time.Minute))}}
}

func owner(kind, version, name string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: name, UID: types.UID("uid-of-" + name),
		Controller: new(true)}}
}

// frontend is a Network with five addresses, of which used are in use.
func frontend(used int64) *cloudteamv1.Network {
	n := &cloudteamv1.Network{ObjectMeta: named("frontend")}
	n.Spec.CIDR = "192.168.0.0/29"
	n.Status.ObservedGeneration = 1
	n.Status.NetworkID = "068d42bb-96f5-48f9-849f-0d08dcfe7af6"
	n.Status.Conditions = conditions("True", "Available", "The network is as declared")
	n.Status.Subnets = []cloudteamv1.SubnetStatus{{ID: "5b0e4c5a-2c1f-4f3b-8a57-0a3b5f4d6c11", CIDR: "192.168.0.0/29",
		Gateway: "192.168.0.1", UsedAddresses: new(used), TotalAddresses: new(int64(5))}}
	return n
}

// beside is another Network like frontend.
func beside(name string) *cloudteamv1.Network {
	n := frontend(2)
	n.Name, n.UID = name, types.UID("uid-of-"+name)
	return n
}

// webPort is a port of the Deployment web, in use by a Pod if address is not empty.
func webPort(name, address string) *cloudteamv1.NetworkPort {
	p := &cloudteamv1.NetworkPort{ObjectMeta: named(name)}
	p.OwnerReferences = owner("Deployment", "apps/v1", "web")
	p.Spec.NetworkName = "frontend"
	p.Status.ObservedGeneration = 1
	if address == "" {
		p.Status.Conditions = conditions("False", "AddressesExhausted", "No more IP addresses available on network "+
			"068d42bb-96f5-48f9-849f-0d08dcfe7af6. Retrying with backoff. Remove ports that are not needed, or widen the "+
			"Network's allocationPools.")
		return p
	}
	p.Status.Conditions = conditions("True", "Available", "The port is as declared")
	p.Status.PortID, p.Status.MAC = "0d3c7b1e-5a94-4c6f-9e0b-"+name[len(name)-1:]+"13c5d7e9f01", "fa:16:3e:00:00:0"+name[len(name)-1:]
	p.Status.Addresses = []cloudteamv1.PortAddress{{Address: address, Gateway: "192.168.0.1",
		SubnetID: "5b0e4c5a-2c1f-4f3b-8a57-0a3b5f4d6c11"}}
	return p
}

func web(status corev1.ConditionStatus, reason, message string) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: named("web")}
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	d.Spec.Template.Annotations = map[string]string{"k8s.v1.cni.cncf.io/networks": "frontend"}
	d.Status.Conditions = []appsv1.DeploymentCondition{{Type: cloudteamv1.ConditionNetworksReady, Status: status,
		Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(now.Add(-5 * time.Minute))}}
	return d
}

func examples(*testing.T) map[string]example {
	bound := webPort("web-frontend-0", "192.168.0.3/29")
	bound.Status.BoundTo = &cloudteamv1.PortBinding{Kind: "Pod", Name: "web-5d9c7b8f4-x2x9k", UID: "uid-of-the-pod"}
	pod := &corev1.Pod{ObjectMeta: named(bound.Status.BoundTo.Name)}
	pod.UID, pod.Spec.NodeName, pod.Status.Phase = bound.Status.BoundTo.UID, "node1", corev1.PodRunning
	floats := bound.DeepCopy()
	floats.Status.FloatingIP = &cloudteamv1.PortFloatingIPStatus{
		ID: "f3a7c0d5-8e1b-4b6a-9d27-4c5e6f708192", Address: "203.0.113.42"}
	reached := &cloudteamv1.FloatingIP{ObjectMeta: named("example-address")}
	reached.Spec.PortName, reached.Status.Address = bound.Name, "203.0.113.50"
	reached.Status.Conditions = conditions("True", "Available", "The floating IP is as declared")
	unready := &cloudteamv1.FloatingIP{ObjectMeta: named("web")}
	unready.Spec.ExternalNetwork, unready.Spec.PortName = "public", "web-frontend-2"
	unready.Status.ObservedGeneration, unready.Status.Address = 1, "203.0.113.51"
	unready.Status.Conditions = conditions("False", "PortNotReady", "NetworkPort web-frontend-2 has no port in Neutron yet. "+
		"The address is associated with it when it is created. Run kubectl describe networkport to see what it waits for.")
	routed := frontend(2)
	routed.Status.Router = &cloudteamv1.RouterStatus{ID: "64d5e0f7-1f5b-4d38-9f4c-2f6f3b1a7c55",
		ExternalNetworkID: "5c0a9d3e-7b1f-4f0e-8f43-6a1f0d2b9e77", ExternalIPs: []string{"203.0.113.17"}}
	measured := frontend(2)
	measured.Status.MTU = 1442
	drifted := frontend(1)
	drifted.Name, drifted.Status.Drift = "backend", []cloudteamv1.Drift{{Field: "mtu", Declared: "1500", Actual: "1400"}}
	drifted.Status.Conditions = conditions("True", "DriftDetected", "mtu is 1400")
	quotas := map[string]int{"network": 10, "subnet": 10}
	planned := "plan -f network.yaml -n shop --cloud mycloud"
	file := "apiVersion: cloudteam.ztgame.com/v1\nkind: Network\nmetadata: {name: backend}\nspec: {cidr: %s, tags: [web]}\n"
	good := []runtime.Object{frontend(2), bound, running(), leader("registry.example.org/network-controller:v1.2.0"),
		installed("network-controller-account"),
		installed("network-controller-classes"), installed("network-controller-pods"),
		&admissionv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "network-controller-scheduling-gate"}},
		&admissionv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "network-controller-networks"}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1", Annotations: map[string]string{
			cloudteamv1.AnnotationDataplane: "ovn", cloudteamv1.AnnotationDataplaneVersion: "v1.2.0"}}}}
	rebuilt := frontend(2)
	rebuilt.Status = cloudteamv1.NetworkStatus{}
	rebuilt.Status.ObservedGeneration = 1
	return map[string]example{
		"adopt-clusters": {command: "adopt --cloud mycloud", seed: leftBehind},
		"adopt":          {command: adopts, objects: []runtime.Object{rebuilt}, code: 2, seed: leftBehind},
		"adopt-broken": {command: adopts + " --yes", hurry: " --silence 12s", objects: []runtime.Object{rebuilt}, code: 1,
			seed: alive},
		"bundle": {command: "bundle -n shop", objects: []runtime.Object{frontend(5), webPort("web-frontend-2", ""), running(),
			leader("registry.example.org/network-controller:v1.2.0")}},
		"capture":             {command: "capture web-0 -n shop -o web-0.pcap", room: &room{}, objects: []runtime.Object{onNetworks("frontend")}},
		"conntest-healthy":    {command: "conntest frontend -n shop", lab: &lab{}, objects: []runtime.Object{routed}},
		"conntest-broken":     {command: "conntest frontend -n shop", lab: &lab{answer: tunnelsLost}, code: 2, objects: []runtime.Object{routed}},
		"conntest-throughput": {command: "conntest frontend -n shop --throughput", lab: &lab{}, objects: []runtime.Object{measured}},
		"doctor-healthy":      {command: "doctor --cloud mycloud", objects: good, cloud: neutrontest.Options{Quotas: quotas}},
		"doctor-broken": {command: "doctor --cloud mycloud", code: 2, seed: orphaned, ahead: 42 * time.Second,
			cloud: neutrontest.Options{Quotas: map[string]int{"network": 1}},
			objects: []runtime.Object{webPort("web-frontend-2", ""), beside("office"), beside("lab"),
				&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1"}},
				&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "network-agent", Name: "network-agent"}}}},
		"export-healthy":  {command: "export --cloud mycloud -n shop", seed: others},
		"export-broken":   {command: "export --orphan-only --cloud mycloud -n shop", code: 2, seed: unsayable},
		"orphans-healthy": {command: "orphans --cloud mycloud"},
		"orphans-broken": {command: "orphans --cloud mycloud", objects: []runtime.Object{running()}, code: 2,
			cloud: neutrontest.Options{Now: lastMonth}, seed: orphaned},
		"plan-healthy": {command: planned, code: 2, cloud: neutrontest.Options{Quotas: quotas}, file: fmt.Sprintf(file, "10.30.0.0/16")},
		"plan-nothing": {command: planned, objects: []runtime.Object{backend()}, seed: asDeclared, file: fmt.Sprintf(file, "10.30.0.0/16")},
		"plan-port": {command: planned, code: 2, cloud: neutrontest.Options{Quotas: quotas},
			file: fmt.Sprintf(file, "10.30.0.0/16") + dbPort},
		"plan-securitygroup": {command: planned, code: 2, file: webGroup,
			cloud: neutrontest.Options{Quotas: map[string]int{"security_group_rule": 100}}},
		"plan-floatingip": {command: planned, objects: []runtime.Object{open()}, code: 2, seed: public,
			cloud: neutrontest.Options{Quotas: map[string]int{"floatingip": 5}}, file: publicAddress},
		"plan-broken":  {command: planned, code: 1, file: fmt.Sprintf(file, "8.8.8.0/24")},
		"tree-healthy": {command: "tree -n shop", objects: []runtime.Object{routed, bound, pod, reached}},
		"tree-broken":  {command: "tree frontend -n shop", objects: []runtime.Object{frontend(5), bound, pod, webPort("web-frontend-2", "")}},
		"tree-mermaid": {command: "tree -n shop -o mermaid", objects: []runtime.Object{routed, floats, pod}},
		"top-healthy":  {command: "top -n shop", objects: []runtime.Object{routed, bound}},
		"top-broken": {command: "top -A", objects: []runtime.Object{frontend(5), bound, webPort("web-frontend-2", ""),
			drifted}},
		"uninstall": {command: "uninstall --keep", objects: append(oneOfEach(), running()), code: 2},
		"why-floatingip": {command: "why floatingip/web -n shop", objects: []runtime.Object{unready, frontend(5),
			webPort("web-frontend-2", ""), running()}},
		"why-class":   {command: "why networkclass/team-b", objects: append(ofTeamB(), running())},
		"why-healthy": {command: "why network/frontend -n shop", objects: []runtime.Object{frontend(2)}},
		"why-broken": {command: "why deployment/web -n shop", objects: []runtime.Object{frontend(5),
			web("False", "PortsFailed", `1 of 3 ports cannot be created; NetworkPort "web-frontend-2": AddressesExhausted: `+
				`No more IP addresses available on network 068d42bb-96f5-48f9-849f-0d08dcfe7af6.`),
			webPort("web-frontend-0", "192.168.0.3/29"), webPort("web-frontend-1", "192.168.0.4/29"),
			webPort("web-frontend-2", ""), running()}},
	}
}

// alive is leftBehind by a cluster whose controller still runs.
func alive(t *testing.T, server *neutrontest.Server) map[string]string {
	ids := leftBehind(t, server)
	r := &rebuilt{t: t, server: server}
	r.connect()
	t.Cleanup(r.live())
	ids["Waiting 12s"] = "Waiting 3m0s" // without the flag of the test
	return ids
}

// backend is the Network of the examples of plan, as it is in the cluster.
func backend() *cloudteamv1.Network {
	n := &cloudteamv1.Network{ObjectMeta: named("backend")}
	n.Spec.CIDR, n.Spec.Tags = "10.30.0.0/16", []string{"web"}
	return n
}

// asDeclared makes in the cloud what backend declares.
func asDeclared(t *testing.T, server *neutrontest.Server) map[string]string {
	r := &rebuilt{t: t, server: server}
	r.connect()
	in := r.inventory(newCluster, nil)
	cluster := &ask.Cluster{Kubernetes: kubefake.NewClientset(), Networks: fake.NewSimpleClientset()}
	planner, err := planning.New(t.Context(), cluster, in, newCluster)
	expect.NoError(t, err)
	result, err := planner.Plan(t.Context(), backend())
	if err != nil || result.Problem != "" {
		t.Fatal(err, result.Problem)
	}
	var change domain.Change
	for _, s := range result.Steps {
		change = append(change, s.Step())
	}
	if _, err := in.Apply(t.Context(), change); err != nil {
		t.Fatal(err)
	}
	return nil
}

// dbPort is a port on the Network of the same file.
const dbPort = `---
apiVersion: cloudteam.ztgame.com/v1
kind: NetworkPort
metadata: {name: db}
spec: {networkName: backend, addresses: [10.30.0.7]}
`

// webGroup has a rule about everybody, and one about a group that does not exist.
const webGroup = `apiVersion: cloudteam.ztgame.com/v1
kind: SecurityGroup
metadata: {name: web}
spec:
  rules:
    - {direction: ingress, protocol: tcp, portRangeMin: 443}
    - {direction: ingress, protocol: tcp, portRangeMin: 8080, remoteGroup: lb}
`

// publicAddress is a FloatingIP for a port of the same file. Its Network has a router to the outside.
const publicAddress = `apiVersion: cloudteam.ztgame.com/v1
kind: Network
metadata: {name: backend}
spec: {cidr: 10.30.0.0/16, router: {externalNetwork: public}}
---
apiVersion: cloudteam.ztgame.com/v1
kind: NetworkPort
metadata: {name: db}
spec: {networkName: backend}
---
apiVersion: cloudteam.ztgame.com/v1
kind: FloatingIP
metadata: {name: example-address}
spec: {externalNetwork: public, portName: db}
`

// open is the default class, which allows floating IPs.
func open() *cloudteamv1.NetworkClass {
	c := &cloudteamv1.NetworkClass{ObjectMeta: metav1.ObjectMeta{Name: "open"}}
	c.Annotations = map[string]string{cloudteamv1.AnnotationDefaultClass: "true"}
	c.Spec.AllowedFields = []cloudteamv1.PrivilegedField{cloudteamv1.FieldFloatingIP}
	return c
}

// ofTeamB are a class and what it refuses.
func ofTeamB() []runtime.Object {
	c := &cloudteamv1.NetworkClass{ObjectMeta: metav1.ObjectMeta{Name: "team-b"}}
	c.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "b"}}
	c.Spec.AllowedRanges, c.Spec.Limits = []string{"10.20.0.0/16"}, &cloudteamv1.ClassLimits{NetworksPerNamespace: new(int32(10))}
	shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"team": "b"}}}
	uses, lab := frontend(2), frontend(2)
	uses.Spec.ClassName, lab.Spec.ClassName, lab.Name = c.Name, c.Name, "lab"
	lab.Status.Conditions = conditions("False", "ForbiddenByClass", `NetworkClass "team-b" forbids spec.cidr 10.30.0.0/24. `+
		"Nothing is created or changed in Neutron. Write a cidr inside 10.20.0.0/16, or name a class whose allowedRanges have it.")
	return []runtime.Object{c, shop, uses, lab}
}

// public makes the external network "public".
func public(t *testing.T, server *neutrontest.Server) map[string]string {
	r := &rebuilt{t: t, server: server}
	r.connect()
	outside, _ := r.outside()
	return map[string]string{outside: "5c0a9d3e-7b1f-4f0e-8f43-6a1f0d2b9e77"}
}

// running is the Lease of a controller that runs.
func running() runtime.Object {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "network-controller", Name: "network-controller"},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: new(leaderName + "_5f0c"), LeaseDurationSeconds: new(int32(15)),
			RenewTime: &metav1.MicroTime{Time: now}},
	}
}

const leaderName = "network-controller-6c9f7d5b8-q4mzt"

// leader is the Pod of the controller that runs.
func leader(image string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "network-controller", Name: leaderName},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "controller", Image: image}}}}
}

func installed(policy string) runtime.Object {
	return &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: policy}}
}

// TestThePageListsTheOutputsOfEachCommand holds the table of the page against the flags.
func TestThePageListsTheOutputsOfEachCommand(t *testing.T) {
	content, err := os.ReadFile(pages[0])
	expect.NoError(t, err)
	var got, want []string
	for _, row := range regexp.MustCompile("(?m)^\\| \\[(`\\w+`)\\].* \\| (`.*`) \\|$").FindAllStringSubmatch(string(content), -1) {
		got = append(got, row[1]+" "+row[2])
	}
	for _, c := range NewCommand(genericiooptions.IOStreams{}).Commands() {
		if flag := c.Flags().Lookup("output"); flag != nil {
			formats := strings.Split(strings.TrimPrefix(flag.Usage, "Output format: "), ", ")
			want = append(want, fmt.Sprintf("`%s` `%s`", c.Name(), strings.Join(formats, "`, `")))
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	expect.Equal(t, want, got, "the page lists other outputs than the commands have")
}

func TestNamesAndWideOutput(t *testing.T) {
	drifted := frontend(5)
	drifted.Name, drifted.Status.Drift = "backend", []cloudteamv1.Drift{{Field: "mtu"}, {Field: "tags"}}
	objects := []runtime.Object{frontend(2), drifted, running()}
	for command, want := range map[string]string{
		"tree -n shop -o name": "network.cloudteam.ztgame.com/backend\nnetwork.cloudteam.ztgame.com/frontend\n",
		"top -n shop -o name":  "network.cloudteam.ztgame.com/backend\nnetwork.cloudteam.ztgame.com/frontend\n",
		"top -n none -o name":  "",
		"top -n shop -o wide": "NAMESPACE   NETWORK    SUBNET           USED   TOTAL   USED%   PORTS   WAITING   DRIFT   STATE       DRIFTED FIELDS\n" +
			"shop        backend    192.168.0.0/29   5      5       100%    0       0         2       Available   mtu,tags\n" +
			"shop        frontend   192.168.0.0/29   2      5       40%     0       0         0       Available   -\n",
		"tree -n shop -o wide": "Error: -o wide is no format of this command: write dot, mermaid, json, yaml, name\n",
		"doctor -o name":       "Error: -o name is no format of this command: write json, yaml\n",
		"export -o json":       "Error: -o json is no format of this command: write yaml, name\n",
	} {
		got, _ := run(t, objects, command)
		if got, _, _ = strings.Cut(got, "Note: "); got != want {
			t.Errorf("kubectl network %s prints\n%s\nwant\n%s", command, got, want)
		}
	}
	for command, want := range map[string]string{
		"plan -f network.yaml -n shop --cloud mycloud -o name": "network.cloudteam.ztgame.com/backend\n",
		"export --cloud mycloud -n shop -o name":               "network.cloudteam.ztgame.com/office\n",
	} {
		e := example{command: command, file: "apiVersion: cloudteam.ztgame.com/v1\nkind: Network\nmetadata: {name: backend}\nspec: {cidr: 10.30.0.0/16}\n"}
		if strings.HasPrefix(command, "export") {
			e.seed = others
		}
		if got, _ := e.run(t); got != want {
			t.Errorf("kubectl network %s prints\n%s\nwant\n%s", command, got, want)
		}
	}
}

func TestOutputFormats(t *testing.T) {
	group := &cloudteamv1.SecurityGroup{ObjectMeta: named("web")}
	group.Status.ObservedGeneration = 1
	group.Status.Conditions = conditions("True", "Available", "The group is as declared")
	public := &cloudteamv1.FloatingIP{ObjectMeta: named("public")}
	public.Status.ObservedGeneration = 1
	public.Status.Conditions = conditions("True", "Available", "The floating IP is as declared")
	objects := []runtime.Object{frontend(2), group, public, running()}
	for command, want := range map[string]string{
		"why net/frontend -n shop -o name":      "network.cloudteam.ztgame.com/frontend\n",
		"why securitygroup/web -n shop -o name": "securitygroup.cloudteam.ztgame.com/web\n",
		"why fip/public -n shop -o name":        "floatingip.cloudteam.ztgame.com/public\n",
		"why network frontend -n shop -o json": `{
  "object": {
    "kind": "Network",
    "namespace": "shop",
    "name": "frontend"
  },
  "healthy": true,
  "summary": "Nothing is wrong: the Network is Ready (Available)."
}
`,
		"why net/frontend -o table": "Error: -o table is no format of this command: write json, yaml, name\n",
		"why frontend":              "Error: \"frontend\" is no object: write KIND/NAME, such as pod/web-1\n",
		"why secret/a": "Error: \"secret\" cannot be explained: write network, securitygroup, networkport, floatingip, pod, " +
			"deployment, statefulset, daemonset, job, virtualmachine, service, node or networkclass\n",
		"why net/gone -n shop":             "Error: Network shop/gone does not exist: check the name, and the namespace (-n)\n",
		"__complete -n shop why network/":  "network/frontend\n:4\nCompletion ended with directive: ShellCompDirectiveNoFileComp\n",
		"__complete -n shop why fip/":      "fip/public\n:4\nCompletion ended with directive: ShellCompDirectiveNoFileComp\n",
		"__complete why net/frontend -o y": "json\nyaml\nname\n:4\nCompletion ended with directive: ShellCompDirectiveNoFileComp\n",
	} {
		if got, _ := run(t, objects, command); got != want {
			t.Errorf("kubectl network %s prints\n%s\nwant\n%s", command, got, want)
		}
	}
}

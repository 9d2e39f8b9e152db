package adversary

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/nightly"
	"cloudteam.ztgame.com/network-controller/test/virtual"
)

// matrixKinds are the kinds of which a namespace's editor may have any number, and one object of each, in YAML. All are
// about the Network "net", the Pods with the label app, or the one of a kind that events are about. The two numbers of a
// cidr are of the object's.
var matrixKinds = map[schema.GroupVersionResource]string{
	ours("networks"):       `{spec: {cidr: 10.%[1]d.%[2]d.0/24, gateway: 10.%[1]d.%[2]d.1}}`,
	ours("networkports"):   `{spec: {networkName: net}}`,
	ours("securitygroups"): `{spec: {rules: [{direction: ingress, remoteGroup: one-securitygroups}]}}`,
	ours("floatingips"):    `{spec: {externalNetwork: external, portName: one-networkports}}`,
	{Version: "v1", Resource: "services"}: `{metadata: {annotations: {cloudteam.ztgame.com/floating-ip: external}},
		spec: {selector: {app: crowd}, ports: [{port: 80}]}}`,
	{Version: "v1", Resource: "pods"}: `{metadata: {labels: {app: crowd}, annotations: {NETWORKS: net}},
		spec: {containers: [{name: c, image: none}]}}`,
	{Group: "apps", Version: "v1", Resource: "deployments"}: `{spec: {replicas: 1, selector: {matchLabels: {of: deployment}},
		template: {metadata: {labels: {app: crowd, of: deployment}, annotations: {NETWORKS: net}}, spec: {containers: [{name: c, image: none}]}}}}`,
	{Group: "apps", Version: "v1", Resource: "statefulsets"}: `{spec: {replicas: 1, serviceName: none,
		selector: {matchLabels: {of: set}}, template: {metadata: {labels: {app: crowd, of: set}, annotations: {NETWORKS: net}},
		spec: {containers: [{name: c, image: none}]}}}}`,
	{Group: "k8s.cni.cncf.io", Version: "v1beta1", Resource: "multi-networkpolicies"}: `{
		metadata: {annotations: {k8s.v1.cni.cncf.io/policy-for: net}}, spec: {podSelector: {}, policyTypes: [Ingress]}}`,
	{Group: "kubevirt.io", Version: "v1", Resource: "virtualmachines"}: `{}`,
}

func ours(resource string) schema.GroupVersionResource {
	return cloudteamv1.SchemeGroupVersion.WithResource(resource)
}

// matrixObject is one object of a kind.
func matrixObject(t *testing.T, kind schema.GroupVersionResource, name string, i int) *unstructured.Unstructured {
	t.Helper()
	text := strings.ReplaceAll(matrixKinds[kind], "NETWORKS", selection.Annotation)
	if strings.HasPrefix(name, onNetwork) {
		text = `{metadata: {annotations: {cloudteam.ztgame.com/endpoints-network: net, cloudteam.ztgame.com/endpoints-selector: app=crowd}},
			spec: {clusterIP: None, ports: [{port: 80, protocol: TCP}]}}`
	}
	if strings.Contains(text, "%[") {
		text = fmt.Sprintf(text, 80+i/256, i%256)
	}
	object := &unstructured.Unstructured{}
	expect.NoError(t, yaml.Unmarshal([]byte(text), &object.Object))
	object.SetAPIVersion(kind.GroupVersion().String())
	object.SetName(name)
	return object
}

// matrixLimits are, by a crowd and an event, how much more a limit allows in place of growth.
var matrixLimits = map[string]int64{
	// Of the policies of a namespace, 170 at most count, and 256 are kept whole. All of these are about each port.
	"multi-networkpolicies, an edit of networkports":        256 << 10,
	"multi-networkpolicies, an edit of pods":                256 << 10,
	"multi-networkpolicies, networkports" + coming:          1 << 20,
	"multi-networkpolicies, pods" + coming:                  1 << 20,
	"multi-networkpolicies, deployments" + coming:           1 << 20,
	"multi-networkpolicies, statefulsets" + coming:          1 << 20,
	"multi-networkpolicies, multi-networkpolicies" + coming: 1 << 20,
	// Of each port of the Network it is asked whether a policy that comes or goes is about it: a kilobyte for both, where a
	// sync takes fifty.
	"networkports, multi-networkpolicies" + coming: 1 << 20,
	"pods, multi-networkpolicies" + coming:         1 << 20,
	"deployments, multi-networkpolicies" + coming:  1 << 20,
	"statefulsets, multi-networkpolicies" + coming: 1 << 20,
	// Of the Services of a namespace, 256 have endpoints, and all that select a Pod are synced when it changes. Each sync is
	// about all of its Pods, at most 1,000.
	onNetwork + ", pods" + coming:         128 << 20,
	onNetwork + ", deployments" + coming:  128 << 20,
	onNetwork + ", statefulsets" + coming: 128 << 20,
	"pods, pods" + coming:                 32 << 20,
	"pods, deployments" + coming:          32 << 20,
	"pods, statefulsets" + coming:         32 << 20,
	// Of the Services of a namespace, 256 are assigned ports, together, when a Pod with ports or a Service comes.
	"services, services" + coming:     1 << 20,
	"services, pods" + coming:         4 << 20,
	"services, deployments" + coming:  4 << 20,
	"services, statefulsets" + coming: 4 << 20,
}

// TestNoEventCostsMoreWithMoreObjects is a matrix: a crowd of each kind, and beside it events of each kind in the same
// namespace. What an event costs the controller must not grow with the crowd: an editor could make 10,000 objects, and a
// client of theirs an event whenever one is over. The cost is counted in bytes that the controllers' code allocates. A
// walk through a list that a cache gives takes 16 of them for each object, and a key that is synced thousands. By night,
// the crowds are larger, and objects also come and go.
func TestNoEventCostsMoreWithMoreObjects(t *testing.T) {
	if !virtualTime {
		t.Skip("it reads what this process allocates")
	}
	few, many := 5, 65
	if nightly.Is() {
		many = 300 // the cluster that is played would take hours with thousands of Pods
	}
	crowds := map[string]schema.GroupVersionResource{
		strangers: ours("networkports"), onNetwork: {Version: "v1", Resource: "services"},
	}
	for kind := range matrixKinds {
		crowds[kind.Resource] = kind
	}
	for name, kind := range crowds {
		t.Run(name, func(t *testing.T) {
			switch name {
			case "pods", "services", onNetwork, "multi-networkpolicies":
			case "deployments", "statefulsets": // whose Pods make the cluster that is played slow
				nightly.Only(t, "it takes half a minute")
			default:
				if testing.Short() {
					t.Skip("it takes ten seconds")
				}
			}
			synctest.Test(t, func(t *testing.T) {
				m := newMatrix(t, kind)
				switch name {
				case strangers:
					m.crowdOf = m.newTenant()
				case onNetwork:
					m.prefix = onNetwork
				}
				m.grow(few)
				beside := map[string]int64{}
				for event, happens := range m.events {
					beside[event] = m.least(happens)
				}
				m.grow(many)
				for event, happens := range m.events {
					grown := m.cost(happens) - beside[event]
					t.Logf("%-30s %8d bytes beside %d, and %+8d beside %d", event, beside[event], few, grown, many)
					most, limited := matrixLimits[name+", "+event]
					switch {
					case limited:
					case strings.HasSuffix(event, coming): // it is followed by many syncs, and these meet by chance
						most = int64(many-few) * 500
					default:
						most = int64(many-few) * 8
					}
					// What comes by chance, such as a larger table, does not come each time.
					for i := 0; grown > most && i < 12; i++ {
						grown = min(grown, m.cost(happens)-beside[event])
					}
					if grown > most {
						t.Errorf("%s: an event costs %d bytes beside %d objects, and %d more beside %d, want %d at most",
							event, beside[event], few, grown, many, most)
					}
				}
			})
		})
	}
}

// coming ends the names of events for which an object is created and deleted.
const coming = " come and go"

// strangers are NetworkPorts of another namespace that name the Network, which does not allow them.
const strangers = "networkports of strangers"

// onNetwork begins the names of Services with endpoints on the Network, which is a crowd of its own, too.
const onNetwork = "endpoints"

// matrix is a namespace with a crowd.
type matrix struct {
	*world
	// who is the namespace's tenant, and crowdOf the crowd's.
	who, crowdOf *tenant
	client       dynamic.Interface
	crowd        schema.GroupVersionResource
	// prefix begins the names of the crowd.
	prefix string
	size   int
	// events are what is measured, by what happens, and made counts them.
	events map[string]func()
	made   int
	// allocated is how many bytes controllers had allocated when an event was last measured. Nothing is noted in between.
	allocated int64
}

// newMatrix makes a namespace with one object of each kind, and a Node that none of its Pods is on.
func newMatrix(t *testing.T, crowd schema.GroupVersionResource) *matrix {
	t.Helper()
	rate := runtime.MemProfileRate
	t.Cleanup(func() { runtime.MemProfileRate = rate })
	runtime.MemProfileRate = 0
	m := &matrix{world: newWorld(t, "--audit-interval=24h"), crowd: crowd, prefix: "crowd", allocated: allocated()}
	class := &cloudteamv1.NetworkClass{ObjectMeta: metav1.ObjectMeta{
		Name: "endpoints", Annotations: map[string]string{cloudteamv1.AnnotationDefaultClass: "true"},
	}}
	class.Spec.AllowedFields = []cloudteamv1.PrivilegedField{cloudteamv1.FieldEndpoints}
	_, err := m.Networks.CloudteamV1().NetworkClasses().Create(t.Context(), class, metav1.CreateOptions{})
	expect.NoError(t, err)
	m.who = m.newTenant()
	m.crowdOf = m.who
	m.who.network("net", "10.64.0.0/12", "10.64.0.1")
	m.who.awaitReady("net")
	if m.client, err = dynamic.NewForConfig(m.Admin); err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "empty-node"}}
	node.Annotations = map[string]string{cloudteamv1.AnnotationDataplane: string(cloudteamv1.AttachmentOVN)}
	harness.Create(t, m.Kube.CoreV1().Nodes(), node)
	const ofNoMeaning = "example.com/touched"
	core := corev1.SchemeGroupVersion
	m.events = map[string]func(){
		"nothing":                        func() {},
		"an edit of the crowd's Network": m.edit(ours("networks"), m.who.name, "net", ofNoMeaning),
		"an edit of the namespace":       m.edit(core.WithResource("namespaces"), "", m.who.name, ofNoMeaning),
		"another host of a Node":         m.edit(core.WithResource("nodes"), "", node.Name, cloudteamv1.AnnotationDataplaneHost),
	}
	services := core.WithResource("services")
	m.create(services, matrixObject(t, services, onNetwork+"-one", 4000))
	m.events["an edit of a Service with endpoints"] = m.edit(services, m.who.name, onNetwork+"-one", ofNoMeaning)
	for kind := range matrixKinds {
		name := "one-" + kind.Resource
		m.create(kind, matrixObject(t, kind, name, 4000))
		m.events["an edit of "+kind.Resource] = m.edit(kind, m.who.name, name, ofNoMeaning)
		if nightly.Is() {
			m.events[kind.Resource+coming] = func() {
				name := fmt.Sprint("new-", m.made)
				object := matrixObject(t, kind, name, 4001+m.made)
				if kind.Resource == "multi-networkpolicies" { // one about all Pods changes each of their ports
					expect.NoError(t, unstructured.SetNestedField(object.Object, "others", "spec", "podSelector", "matchLabels", "app"))
				}
				m.create(kind, object)
				virtual.Elapse(time.Second)
				expect.NoError(t, m.client.Resource(kind).Namespace(m.who.name).Delete(t.Context(), name, metav1.DeleteOptions{}))
				virtual.Elapse(time.Second)
			}
		}
	}
	return m
}

// grow makes the crowd as large as n, and waits until it is quiet: what failed is tried again, ever more seldom.
func (m *matrix) grow(n int) {
	m.t.Helper()
	for ; m.size < n; m.size++ {
		object := matrixObject(m.t, m.crowd, fmt.Sprint(m.prefix, "-", m.size), m.size)
		if m.crowdOf != m.who {
			expect.NoError(m.t, unstructured.SetNestedField(object.Object, m.who.name, "spec", "networkNamespace"))
		}
		_, err := m.client.Resource(m.crowd).Namespace(m.crowdOf.name).Create(m.t.Context(), object, metav1.CreateOptions{})
		expect.NoError(m.t, err)
	}
	for i := 0; i == 0 || i < 100 && m.cost(func() {}) > 0; i++ {
		virtual.Elapse(time.Minute)
	}
}

func (m *matrix) create(kind schema.GroupVersionResource, object *unstructured.Unstructured) {
	m.t.Helper()
	if _, err := m.client.Resource(kind).Namespace(m.who.name).Create(m.t.Context(), object, metav1.CreateOptions{}); err != nil {
		m.t.Fatal(err)
	}
}

// edit gives the event that an annotation of an object has another value.
func (m *matrix) edit(kind schema.GroupVersionResource, namespace, name, annotation string) func() {
	return func() {
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"touched-%d"}}}`, annotation, 1000+m.made)
		_, err := m.client.Resource(kind).Namespace(namespace).Patch(
			m.t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
		expect.NoError(m.t, err)
	}
}

// least is what an event costs without what comes by time: twice the same, or the least of three.
func (m *matrix) least(event func()) int64 {
	one, two := m.cost(event), m.cost(event)
	if one == two {
		return one
	}
	return min(one, two, m.cost(event))
}

// cost is that of one event. What is followed in steps, or seldom, rests before the next. Each allocation is noted while
// an event is measured, and none otherwise.
func (m *matrix) cost(event func()) int64 {
	m.made++
	before := m.allocated
	runtime.MemProfileRate = 1
	event()
	virtual.Elapse(100 * time.Millisecond)
	synctest.Wait()
	runtime.MemProfileRate = 0
	m.allocated = allocated()
	virtual.Elapse(6 * time.Second)
	return m.allocated - before
}

// allocated is how many bytes the code of controllers has allocated.
func allocated() (bytes int64) {
	runtime.GC() // a cycle publishes what was allocated before the last one
	runtime.GC()
	n, ok := runtime.MemProfile(records, true)
	for ; !ok; n, ok = runtime.MemProfile(records, true) {
		records = make([]runtime.MemProfileRecord, n+n/4)
	}
	for i := range n {
		r := &records[i]
		ours, known := controllers[r.Stack0]
		if !known {
			ours = ofController(r.Stack())
			controllers[r.Stack0] = ours
		}
		if ours {
			bytes += r.AllocBytes
		}
	}
	return bytes
}

// records are those of the last profile.
var records []runtime.MemProfileRecord

// controllers has, of the stacks that allocated anything, whether a controller's code is on them.
var controllers = map[[32]uintptr]bool{}

// ofController reports whether the code of a controller, its handlers or its syncs is on a stack.
func ofController(stack []uintptr) bool {
	frames := runtime.CallersFrames(stack)
	for {
		frame, more := frames.Next()
		if strings.HasPrefix(frame.Function, "cloudteam.ztgame.com/network-controller/internal/controller/") {
			return true
		}
		if !more {
			return false
		}
	}
}

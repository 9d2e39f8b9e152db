package adversary

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
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
	"cloudteam.ztgame.com/network-controller/test/nightly"
	"cloudteam.ztgame.com/network-controller/test/virtual"
)

// matrixKinds are the kinds of which a namespace's editor may have any number, and one object of each, in YAML. All are
// about the Network "net", the Pods with the label app, or the NetworkPort "port-0". %d is the object's number.
var matrixKinds = map[schema.GroupVersionResource]string{
	ours("networks"):       `{spec: {cidr: 10.%[2]d.%[3]d.0/24, gateway: 10.%[2]d.%[3]d.1}}`,
	ours("networkports"):   `{spec: {networkName: net}}`,
	ours("securitygroups"): `{spec: {rules: [{direction: ingress, remoteGroup: group-0}]}}`,
	ours("floatingips"):    `{spec: {externalNetwork: external, portName: port-0}}`,
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
	if strings.Contains(text, "%[") {
		text = fmt.Sprintf(text, i, 80+i/256, i%256)
	}
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		t.Fatal(err)
	}
	object.SetAPIVersion(kind.GroupVersion().String())
	object.SetName(name)
	return object
}

// TestNoEventCostsMoreWithMoreObjects is a matrix: a crowd of each kind, and beside it events of each kind in the same
// namespace. What an event costs the controller must not grow with the crowd: an editor could make 10,000 objects, and a
// client of theirs an event whenever one is over. The cost is counted in bytes that the controllers' code allocates. A
// walk through a list that a cache gives takes 16 of them for each object, and a key that is synced thousands.
func TestNoEventCostsMoreWithMoreObjects(t *testing.T) {
	if !virtualTime {
		t.Skip("it reads what this process allocates")
	}
	few, many := 20, 120
	if nightly.Is() {
		many = 10_000
	}
	for kind := range matrixKinds {
		t.Run(kind.Resource, func(t *testing.T) {
			var costs [2]map[string]int64
			for i, n := range []int{few, many} {
				synctest.Test(t, func(t *testing.T) { costs[i] = matrixRow(t, kind, n) })
			}
			for _, event := range slices.Sorted(maps.Keys(costs[0])) {
				grown := costs[1][event] - costs[0][event]
				t.Logf("%-30s %8d bytes beside %d, and %+8d beside %d", event, costs[0][event], few, grown, many)
				if most := int64(many-few) * 4; grown > most {
					t.Errorf("%s: an event costs %d bytes beside %d objects, and %d more beside %d, want %d at most",
						event, costs[0][event], few, grown, many, most)
				}
			}
		})
	}
}

// matrixRow makes a crowd of n objects of a kind, and gives what an event of each other kind costs.
func matrixRow(t *testing.T, crowd schema.GroupVersionResource, n int) map[string]int64 {
	t.Helper()
	w := newWorld(t, "--audit-interval=24h")
	who := w.newTenant()
	who.network("net", "10.64.0.0/12", "10.64.0.1")
	who.awaitReady("net")
	client, err := dynamic.NewForConfig(w.Admin)
	if err != nil {
		t.Fatal(err)
	}
	make := func(kind schema.GroupVersionResource, name string, i int) {
		_, err := client.Resource(kind).Namespace(who.name).Create(t.Context(), matrixObject(t, kind, name, i), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		make(crowd, fmt.Sprint("crowd-", i), i)
	}
	for kind := range matrixKinds {
		make(kind, "one-"+kind.Resource, 4000)
	}
	virtual.Elapse(30 * time.Minute) // whatever failed is tried again, seldom
	defer func(rate int) { runtime.MemProfileRate = rate }(runtime.MemProfileRate)
	runtime.MemProfileRate = 1
	touch := func(kind schema.GroupVersionResource, namespace, name string, i int) {
		_, err := client.Resource(kind).Namespace(namespace).Patch(t.Context(), name, types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{"annotations":{"example.com/touched":"%d"}}}`, i), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	events := map[string]func(i int){
		"nothing":                        func(int) {},
		"an edit of the crowd's Network": func(i int) { touch(ours("networks"), who.name, "net", i) },
		"an edit of the namespace": func(i int) {
			touch(corev1.SchemeGroupVersion.WithResource("namespaces"), "", who.name, i)
		},
	}
	for kind := range matrixKinds {
		events["an edit of "+kind.Resource] = func(i int) { touch(kind, who.name, "one-"+kind.Resource, i) }
	}
	costs, before := map[string]int64{}, allocated()
	for name, event := range events {
		const times = 10
		for i := range times {
			event(i)
			virtual.Elapse(time.Second)
		}
		after := allocated()
		costs[name], before = (after-before)/times, after
	}
	return costs
}

// allocated is how many bytes the code of controllers has allocated.
func allocated() (bytes int64) {
	synctest.Wait()
	runtime.GC() // a cycle publishes what was allocated before the last one
	runtime.GC()
	records := make([]runtime.MemProfileRecord, 0)
	for {
		n, ok := runtime.MemProfile(records, true)
		if ok {
			records = records[:n]
			break
		}
		records = make([]runtime.MemProfileRecord, n+n/4)
	}
	for _, r := range records {
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

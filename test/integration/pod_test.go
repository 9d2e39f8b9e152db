package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

const theirGate = "example.com/theirs"

// gates adds scheduling gates to a Pod.
func gates(names ...string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		for _, name := range names {
			pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: name})
		}
	}
}

func onNode(pod *corev1.Pod) { pod.Spec.NodeName = "node" }

func annotated(key, value string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Annotations[key] = value }
}

func TestPodPolicy(t *testing.T) {
	t.Parallel()
	w := newPodWorld(t)
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want []string
	}{
		"a Pod that declares networks is gated": {newPod("p", "net"), []string{cloudteamv1.SchedulingGate}},
		"the gates of others stay": {newPod("p", "net", gates(theirGate)),
			[]string{theirGate, cloudteamv1.SchedulingGate}},
		"a gate that is there is not set twice": {newPod("p", "net", gates(cloudteamv1.SchedulingGate, theirGate)),
			[]string{cloudteamv1.SchedulingGate, theirGate}},
		"a Pod with an empty annotation declares nothing": {newPod("p", ""), nil},
		"a Pod with other annotations declares nothing": {
			newPod("p", "", func(p *corev1.Pod) { p.Annotations = map[string]string{"a": "b"} }), nil},
		"a Pod without annotations declares nothing": {
			newPod("p", "", func(p *corev1.Pod) { p.Annotations = nil }), nil},
		"a Pod that is created on a node is past scheduling": {newPod("p", "net", onNode), nil},
		"the mirror of a static Pod is left alone": {
			newPod("p", "net", onNode, annotated(corev1.MirrorPodAnnotationKey, "x")), nil},
	} {
		t.Run(name, func(t *testing.T) {
			pod, err := w.tryPod(test.pod)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, gate := range pod.Spec.SchedulingGates {
				got = append(got, gate.Name)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("gates (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPodOfNobody(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(t *testing.T, w *podWorld){
		"it gets a port of its own, and is let go": func(t *testing.T, w *podWorld) {
			w.servePorts()
			w.create(newPod("web", `[{"name":"net","interface":"eth1","bandwidth":{"a":1}}]`, gates(theirGate)))
			pod, got := w.awaitAllocated("web", 1)
			want := cloudteamv1.Allocation{
				Name: w.namespace + "/net", Interface: "eth1", IPs: []string{"192.168.0.2/16"}, MAC: "fa:16:3e:00:00:01",
				Gateway: []string{"192.168.0.1"}, MTU: 1450, PortID: "port-1", Port: got[0].Port,
			}
			if diff := cmp.Diff([]cloudteamv1.Allocation{want}, got); diff != "" {
				t.Errorf("allocations (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]corev1.PodSchedulingGate{{Name: theirGate}}, pod.Spec.SchedulingGates); diff != "" {
				t.Errorf("gates (-want +got):\n%s", diff)
			}
			text := fmt.Sprintf(`[{"name":"net","namespace":%q,"interface":"eth1","ips":["192.168.0.2/16"],`+
				`"mac":"fa:16:3e:00:00:01","bandwidth":{"a":1}}]`, w.namespace)
			if got := pod.Annotations[selection.Annotation]; got != text {
				t.Errorf("it declares %s, want %s", got, text)
			}
			port := w.port(got[0].Port)
			if !metav1.IsControlledBy(port, pod) || port.Status.BoundTo.UID != pod.UID {
				t.Errorf("the port is %+v", port)
			}
			w.awaitWrites(
				"POST networkports 201", "PATCH networkports/"+port.Name+"/status 200", "PATCH pods/web 200")
			w.awaitRest(1)
			w.awaitCondition("web", "")
		},
		"two networks, and one of them twice, are three ports": func(t *testing.T, w *podWorld) {
			w.servePorts()
			w.network("blue")
			w.create(newPod("web", "net, blue@eth7, net"))
			_, got := w.awaitAllocated("web", 3)
			var names []string
			ports := map[string]bool{}
			for _, a := range got {
				names = append(names, a.Name+"@"+a.Interface)
				ports[a.PortID] = true
			}
			want := []string{w.namespace + "/net@", w.namespace + "/blue@eth7", w.namespace + "/net@"}
			if diff := cmp.Diff(want, names); diff != "" || len(ports) != 3 {
				t.Errorf("allocations %+v (-want +got):\n%s", got, diff)
			}
			w.awaitRest(1)
		},
		"the addresses asked for are those of its port": func(t *testing.T, w *podWorld) {
			w.create(newPod("web", `[{"name":"net","ips":["192.168.7.7"],"mac":"fa:16:3e:11:22:33"}]`))
			eventually(w.t, func() error {
				list, err := networkAPI.CloudteamV1().NetworkPorts(w.namespace).List(t.Context(), metav1.ListOptions{})
				if err == nil && len(list.Items) != 1 {
					err = fmt.Errorf("there are %d ports", len(list.Items))
				}
				if err == nil {
					spec := list.Items[0].Spec
					if spec.MAC != "fa:16:3e:11:22:33" || !slices.Equal(spec.Addresses, []string{"192.168.7.7"}) {
						t.Errorf("the port is %+v", spec)
					}
				}
				return err
			})
		},
		"one that has ended has none": func(t *testing.T, w *podWorld) {
			w.servePorts()
			w.create(newPod("web", "net"))
			w.awaitAllocated("web", 1)
			w.patchPod("web", `{"status":{"phase":"Succeeded"}}`, "status")
			w.awaitBindings(map[string]string{})
			w.awaitRest(1)
		},
		"one that changes its mind before it has its port gets another": func(t *testing.T, w *podWorld) {
			w.network("blue")
			w.create(newPod("web", "net"))
			eventually(w.t, func() error {
				if n := len(w.bindings()); n != 1 {
					return fmt.Errorf("%d ports", n)
				}
				return nil
			})
			first := slices.Collect(maps.Keys(w.bindings()))[0]
			w.patchPod("web", fmt.Sprintf(`{"metadata":{"annotations":{%q:"blue"}}}`, selection.Annotation))
			eventually(w.t, func() error {
				if got := w.bindings(); len(got) != 1 || slices.Contains(slices.Collect(maps.Keys(got)), first) {
					return fmt.Errorf("the ports are %v", got)
				}
				return nil
			})
			w.patchPod("web", fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, selection.Annotation))
			w.awaitBindings(map[string]string{})
			eventually(w.t, func() error {
				if gates := w.pod("web").Spec.SchedulingGates; len(gates) > 0 {
					return fmt.Errorf("it declares nothing and is gated: %v", gates)
				}
				return nil
			})
			w.awaitRest(1)
		},
		"a quota on ports is told": func(t *testing.T, w *podWorld) {
			quotas := kubeClient.CoreV1().ResourceQuotas(w.namespace)
			quota, err := quotas.Create(t.Context(), &corev1.ResourceQuota{
				ObjectMeta: metav1.ObjectMeta{Name: "no-ports"},
				Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
					"count/networkports.cloudteam.ztgame.com": resource.MustParse("0"),
				}},
			}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			quota.Status = corev1.ResourceQuotaStatus{Hard: quota.Spec.Hard, Used: quota.Spec.Hard}
			if _, err := quotas.UpdateStatus(t.Context(), quota, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			// The API server learns of it by an informer of its own.
			eventually(w.t, func() error {
				port := consumer.NewPort(w.namespace, "trial", metav1.OwnerReference{
					APIVersion: "v1", Kind: "Pod", Name: "p", UID: "u"}, consumer.Request{
					Network: cache.NewObjectName(w.namespace, "net")})
				_, err := networkAPI.CloudteamV1().NetworkPorts(w.namespace).Create(t.Context(), port,
					metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
				if !apierrors.IsForbidden(err) {
					return errors.Join(errors.New("a create is not refused as it is to be"), err)
				}
				return nil
			})
			w.create(newPod("web", "net"))
			if message := w.awaitCondition("web", "False PortsFailed"); !strings.Contains(message, "no-ports") {
				t.Errorf("the message is %q", message)
			}
			w.awaitEvents("web", "Warning PortsFailed")
			if err := quotas.Delete(t.Context(), "no-ports", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			w.servePorts()
			w.awaitAllocated("web", 1)
			w.awaitCondition("web", "True Allocated")
		},
		"a port of the name that is not its own is told": func(t *testing.T, w *podWorld) {
			w.create(newPod("web", "net"))
			eventually(w.t, func() error {
				if n := len(w.bindings()); n != 1 {
					return fmt.Errorf("%d ports", n)
				}
				return nil
			})
			name := slices.Collect(maps.Keys(w.bindings()))[0]
			_, err := networkAPI.CloudteamV1().NetworkPorts(w.namespace).Patch(t.Context(), name,
				types.MergePatchType, []byte(`{"metadata":{"ownerReferences":null,"annotations":null}}`), metav1.PatchOptions{})
			if err != nil {
				t.Fatal(err)
			}
			w.patchPod("web", `{"metadata":{"labels":{"look":"again"}}}`)
			if message := w.awaitCondition("web", "False PortsFailed"); !strings.Contains(message, name) {
				t.Errorf("the message is %q", message)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newPodWorld(t, "net")
			w.start(4)
			test(t, w)
		})
	}
}

func TestPodOfDeployment(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(t *testing.T, w *podWorld){
		"twenty Pods at once get twenty ports, in two writes each": func(t *testing.T, w *podWorld) {
			h := w.record()
			w.start(10)
			deployment, set := w.deployment("web")
			w.servePorts()
			var slots []int
			for i := range 20 {
				slots = append(slots, i)
				w.create(newPod(fmt.Sprintf("web-%d", i), "net", of(set)))
			}
			w.pool(deployment, "net", slots...)
			got := map[string]string{}
			for i := range 20 {
				pod, allocated := w.awaitAllocated(fmt.Sprintf("web-%d", i), 1)
				got[allocated[0].Port] = pod.Name
			}
			if diff := cmp.Diff(got, w.bindings()); diff != "" || len(got) != 20 {
				t.Errorf("%d ports were given (-given +bound):\n%s", len(got), diff)
			}
			var unwanted, wanted []string
			eventually(w.t, func() error { // what a write did shows before its answer is recorded
				for _, write := range w.takeWrites() {
					if strings.HasPrefix(write, "PATCH networkports/") && strings.HasSuffix(write, "/status 200") ||
						strings.HasPrefix(write, "PATCH pods/") && strings.HasSuffix(write, " 200") {
						wanted = append(wanted, write)
					} else {
						unwanted = append(unwanted, write)
					}
				}
				if len(wanted) < 40 {
					return fmt.Errorf("%d writes, want 40", len(wanted))
				}
				return nil
			})
			// A port may be bound at the moment at which its own controller writes its status: one of the two comes second.
			conflicts := slices.DeleteFunc(slices.Clone(unwanted), func(write string) bool {
				return !strings.HasSuffix(write, "/status 409")
			})
			if len(wanted) != 40 || len(conflicts) != len(unwanted) || len(conflicts) > 2 {
				t.Errorf("%d writes, want 40, and beside them %q", len(wanted), unwanted)
			}
			w.awaitRest(20)
			h.judge(t)
		},
		"a port that is free again is the next Pod's": func(t *testing.T, w *podWorld) {
			h := w.record()
			w.start(4)
			deployment, set := w.deployment("web")
			w.servePorts()
			w.pool(deployment, "net", 0, 1)
			w.create(newPod("a", "net", of(set)))
			w.create(newPod("b", "net", of(set)))
			w.awaitAllocated("a", 1)
			_, was := w.awaitAllocated("b", 1)
			w.create(newPod("c", "net", of(set)))
			w.create(newPod("d", "net", of(set)))
			w.remove("b")
			eventually(w.t, func() error {
				bindings := slices.Sorted(maps.Values(w.bindings()))
				if !slices.Equal(bindings, []string{"a", "c"}) && !slices.Equal(bindings, []string{"a", "d"}) {
					return fmt.Errorf("the bindings are %v", bindings)
				}
				return nil
			})
			next := w.bindings()[was[0].Port]
			if _, got := w.awaitAllocated(next, 1); !cmp.Equal(got, was) {
				t.Errorf("Pod %s has %+v, want %+v", next, got, was)
			}
			// One that comes back under its name is another.
			w.remove(next)
			w.create(newPod(next, "net", of(set)))
			w.remove("a")
			w.awaitAllocated("c", 1)
			w.awaitAllocated("d", 1)
			h.judge(t)
		},
		"Pods that come and go never share a port": func(t *testing.T, w *podWorld) {
			h := w.record()
			w.start(10)
			deployment, set := w.deployment("web")
			w.servePorts()
			w.pool(deployment, "net", 0, 1, 2)
			for round := range 8 {
				for i := range 5 {
					w.create(newPod(fmt.Sprintf("p%d", i), "net", of(set)))
				}
				eventually(w.t, func() error {
					given := 0
					for i := range 5 {
						if _, err := allocations(w.pod(fmt.Sprintf("p%d", i))); err == nil {
							given++
						}
					}
					if given < 3 {
						return fmt.Errorf("in round %d %d Pods have ports", round, given)
					}
					return nil
				})
				if round == 4 {
					w.stop()
				}
				for i := range 5 {
					w.remove(fmt.Sprintf("p%d", i))
				}
				if round == 4 {
					w.start(10)
				}
			}
			w.awaitBindings(map[string]string{"web-net-0": "", "web-net-1": "", "web-net-2": ""})
			h.judge(t)
		},
		"of two processes that give one port to two Pods one gives way": func(t *testing.T, w *podWorld) {
			h := w.record()
			w.meeting = 2
			deployment, set := w.deployment("web")
			w.pool(deployment, "net", 0)
			w.readyPort("web-net-0")
			for _, name := range []string{"a", "b"} {
				w.create(newPod(name, "net", of(set), func(p *corev1.Pod) { p.Labels = map[string]string{"seen-by": name} }))
				w.seen = "seen-by=" + name
				w.start(1)
			}
			eventually(w.t, func() error {
				writes := strings.Join(w.takeWrites(), "\n")
				if strings.Count(writes, "networkports/web-net-0/status 409") == 0 {
					return fmt.Errorf("nobody gave way: %q", writes)
				}
				return nil
			})
			first := ""
			eventually(w.t, func() error {
				first = w.bindings()["web-net-0"]
				_, err := allocations(w.pod(first))
				return err
			})
			other := map[string]string{"a": "b", "b": "a"}[first]
			w.remove(first)
			w.awaitAllocated(other, 1)
			h.judge(t)
		},
		"two processes at once never give a port to two Pods": func(t *testing.T, w *podWorld) {
			h := w.record()
			w.start(10)
			w.start(10)
			deployment, set := w.deployment("web")
			w.servePorts()
			w.pool(deployment, "net", 0, 1, 2, 3, 4, 5, 6, 7)
			for i := range 8 {
				w.create(newPod(fmt.Sprintf("p%d", i), "net", of(set)))
			}
			for i := range 8 {
				w.awaitAllocated(fmt.Sprintf("p%d", i), 1)
			}
			for i := range 4 {
				w.remove(fmt.Sprintf("p%d", i))
				w.create(newPod(fmt.Sprintf("q%d", i), "net", of(set)))
			}
			for i := range 4 {
				w.awaitAllocated(fmt.Sprintf("q%d", i), 1)
			}
			eventually(w.t, func() error {
				for port, pod := range w.bindings() {
					if pod == "" {
						return fmt.Errorf("%s is free, and a Pod may have two", port)
					}
				}
				return nil
			})
			w.awaitRest(8)
			h.judge(t)
		},
		"a Pod that is terminating keeps its port": func(t *testing.T, w *podWorld) {
			h := w.record()
			w.start(4)
			deployment, set := w.deployment("web")
			w.servePorts()
			w.pool(deployment, "net", 0)
			w.create(newPod("a", "net", of(set), func(p *corev1.Pod) { p.Finalizers = []string{"example.com/theirs"} }))
			w.awaitAllocated("a", 1)
			w.remove("a")
			w.create(newPod("b", "net", of(set)))
			w.awaitRest(2)
			w.awaitBindings(map[string]string{"web-net-0": "a"})
			// The free port of another slot is taken, and that one is not.
			w.pool(deployment, "net", 1)
			w.awaitAllocated("b", 1)
			w.awaitBindings(map[string]string{"web-net-0": "a", "web-net-1": "b"})
			w.patchPod("a", `{"metadata":{"finalizers":null}}`)
			w.awaitBindings(map[string]string{"web-net-0": "", "web-net-1": "b"})
			h.judge(t)
		},
		"a Pod that has ended gives up its port": func(t *testing.T, w *podWorld) {
			h := w.record()
			w.start(4)
			deployment, set := w.deployment("web")
			w.servePorts()
			w.pool(deployment, "net", 0)
			w.create(newPod("a", "net", of(set)))
			w.awaitAllocated("a", 1)
			w.create(newPod("b", "net", of(set)))
			w.patchPod("a", `{"status":{"phase":"Failed"}}`, "status")
			w.awaitAllocated("b", 1)
			w.awaitBindings(map[string]string{"web-net-0": "b"})
			w.awaitRest(2)
			h.judge(t)
		},
		"a binding that was lost is written again, and the port is nobody else's": func(t *testing.T, w *podWorld) {
			h := w.record()
			w.start(4)
			deployment, set := w.deployment("web")
			w.servePorts()
			w.pool(deployment, "net", 0)
			w.create(newPod("a", "net", of(set)))
			w.awaitAllocated("a", 1)
			w.create(newPod("b", "net", of(set)))
			w.bind("web-net-0", nil)
			w.awaitBindings(map[string]string{"web-net-0": "a"})
			// Both start from the same lists: the Pod that waits must not be the faster.
			w.stop()
			w.bind("web-net-0", nil)
			w.start(4)
			w.awaitBindings(map[string]string{"web-net-0": "a"})
			w.awaitRest(2)
			h.judge(t)
		},
		"a Pod that lost what it was told keeps its port, and is told again": func(t *testing.T, w *podWorld) {
			h := w.record()
			w.start(4)
			deployment, set := w.deployment("web")
			w.servePorts()
			w.pool(deployment, "net", 0)
			w.create(newPod("a", "net@eth1", of(set)))
			before, _ := w.awaitAllocated("a", 1)
			w.create(newPod("b", "net", of(set)))
			forget := fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, cloudteamv1.AnnotationAllocations)
			w.patchPod("a", forget)
			after, _ := w.awaitAllocated("a", 1)
			if diff := cmp.Diff(before.Annotations, after.Annotations); diff != "" {
				t.Errorf("its annotations changed (-before +after):\n%s", diff)
			}
			w.awaitBindings(map[string]string{"web-net-0": "a"})
			// Even one that is to go stays as long as the Pod does.
			w.holdPort("web-net-0")
			w.patchPod("a", forget)
			w.awaitAllocated("a", 1)
			w.awaitBindings(map[string]string{"web-net-0": "a"})
			w.awaitCondition("a", "")
			w.awaitRest(2)
			h.judge(t)
		},
		"a port of a Pod that the cache does not show is not released": func(t *testing.T, w *podWorld) {
			w.seen = "app=web"
			deployment, set := w.deployment("web")
			w.pool(deployment, "net", 0, 1)
			w.readyPort("web-net-0")
			w.readyPort("web-net-1")
			newer := w.create(newPod("newer", "net"))
			w.bind("web-net-0", newer)
			gone := w.create(newPod("gone", "net"))
			w.bind("web-net-1", gone)
			w.remove("gone")
			w.start(4)
			w.awaitBindings(map[string]string{"web-net-0": "newer", "web-net-1": ""})
			w.create(newPod("a", "net", of(set)))
			w.awaitAllocated("a", 1)
			w.awaitBindings(map[string]string{"web-net-0": "newer", "web-net-1": "a"})
		},
		"a process that starts goes on where another ended": func(t *testing.T, w *podWorld) {
			h := w.record()
			deployment, set := w.deployment("web")
			w.pool(deployment, "net", 0, 1, 2, 3, 4)
			for i := range 5 {
				w.readyPort(fmt.Sprintf("web-net-%d", i))
			}
			// Bound, and not told so; with a port too many; bound to one that came back under its name.
			a := w.create(newPod("a", "net", of(set)))
			w.bind("web-net-3", a)
			b := w.create(newPod("b", "net", of(set)))
			w.bind("web-net-1", b)
			w.bind("web-net-2", b)
			c := w.create(newPod("c", "net", of(set)))
			w.bind("web-net-4", c)
			w.remove("c")
			w.create(newPod("c", "net", of(set)))
			w.start(4)
			for pod, port := range map[string]string{"a": "web-net-3", "b": "web-net-1"} {
				if _, got := w.awaitAllocated(pod, 1); got[0].Port != port {
					t.Errorf("Pod %s has %s, want %s", pod, got[0].Port, port)
				}
			}
			_, got := w.awaitAllocated("c", 1)
			want := map[string]string{"web-net-0": "", "web-net-1": "b", "web-net-2": "", "web-net-3": "a", "web-net-4": ""}
			want[got[0].Port] = "c"
			w.awaitBindings(want)
			// A Pod that has its allocations and one port too many.
			w.bind("web-net-2", w.pod("a"))
			w.awaitBindings(want)
			w.awaitRest(3)
			h.judge(t)
		},
		"a Pod may come before its ReplicaSet": func(t *testing.T, w *podWorld) {
			deployment, set := w.deployment("web")
			w.pool(deployment, "net", 0)
			w.readyPort("web-net-0")
			hide := func(patch string) {
				_, err := kubeClient.AppsV1().ReplicaSets(w.namespace).Patch(t.Context(), set.Name, types.MergePatchType,
					[]byte(`{"metadata":{"labels":{"hidden":`+patch+`}}}`), metav1.PatchOptions{})
				if err != nil {
					t.Fatal(err)
				}
			}
			hide(`"yes"`)
			w.start(4)
			w.create(newPod("a", "net", of(set)))
			w.awaitRest(1)
			w.awaitBindings(map[string]string{"web-net-0": ""})
			hide("null")
			w.awaitAllocated("a", 1)
			w.awaitCondition("a", "")
		},
		"a port that fails is told, and its end": func(t *testing.T, w *podWorld) {
			w.start(4)
			deployment, set := w.deployment("web")
			w.pool(deployment, "net", 0)
			w.create(newPod("a", "net", of(set)))
			w.failPort("web-net-0", "AddressesExhausted", "there are none left")
			message := w.awaitCondition("a", "False PortsFailed")
			if want := `NetworkPort "web-net-0": AddressesExhausted: there are none left`; message != want {
				t.Errorf("the message is %q, want %q", message, want)
			}
			w.awaitEvents("a", "Warning PortsFailed")
			w.awaitRest(1)
			w.readyPort("web-net-0")
			w.awaitAllocated("a", 1)
			w.awaitCondition("a", "True Allocated")
			w.awaitEvents("a", "Normal Allocated", "Warning PortsFailed")
			w.awaitRest(1)
		},
		"a wait that lasts is told": func(t *testing.T, w *podWorld) {
			w.start(4)
			deployment, set := w.deployment("web")
			w.create(newPod("a", "net", of(set)))
			w.awaitCondition("a", "False PortsNotReady")
			w.awaitEvents("a", "Warning PortsNotReady")
			w.pool(deployment, "net", 0)
			w.readyPort("web-net-0")
			w.awaitAllocated("a", 1)
			w.awaitCondition("a", "True Allocated")
		},
		"Pods that want two ports each do not wait for each other": func(t *testing.T, w *podWorld) {
			w.start(4)
			w.network("blue")
			deployment, set := w.deployment("web", "net", "blue")
			w.pool(deployment, "net", 0, 1)
			w.pool(deployment, "blue", 0, 1)
			w.create(newPod("a", "net,blue", of(set)))
			w.create(newPod("b", "blue,net", of(set)))
			w.readyPort("web-net-0")
			w.readyPort("web-net-1")
			w.awaitRest(2)
			free := map[string]string{"web-net-0": "", "web-net-1": "", "web-blue-0": "", "web-blue-1": ""}
			w.awaitBindings(free)
			w.readyPort("web-blue-0")
			w.readyPort("web-blue-1")
			w.awaitAllocated("a", 2)
			w.awaitAllocated("b", 2)
		},
		"a port that is gone or another is told, and the Pod stays as it is": func(t *testing.T, w *podWorld) {
			w.start(4)
			deployment, set := w.deployment("web")
			w.pool(deployment, "net", 0, 1)
			w.readyPort("web-net-0")
			w.create(newPod("a", "net", of(set)))
			before, _ := w.awaitAllocated("a", 1)
			status := readyStatus(1, "it is another")
			status["portID"] = "another"
			if err := w.setPort(t.Context(), "web-net-0", status); err != nil {
				t.Fatal(err)
			}
			if message := w.awaitCondition("a", "False PortsFailed"); !strings.Contains(message, "another port in Neutron") {
				t.Errorf("the message is %q", message)
			}
			if err := w.setPort(t.Context(), "web-net-0", readyStatus(1, "it is back")); err != nil {
				t.Fatal(err)
			}
			w.awaitCondition("a", "True Allocated")
			err := networkAPI.CloudteamV1().NetworkPorts(w.namespace).Delete(t.Context(), "web-net-0", metav1.DeleteOptions{})
			if err != nil {
				t.Fatal(err)
			}
			w.readyPort("web-net-1")
			if message := w.awaitCondition("a", "False PortsFailed"); !strings.Contains(message, "is gone") {
				t.Errorf("the message is %q", message)
			}
			w.awaitRest(1)
			w.awaitBindings(map[string]string{"web-net-1": ""})
			if diff := cmp.Diff(before.Annotations, w.pod("a").Annotations); diff != "" {
				t.Errorf("its annotations changed (-before +after):\n%s", diff)
			}
		},
		"a port that is to go is let go by a Pod that waits": func(t *testing.T, w *podWorld) {
			deployment, set := w.deployment("web")
			w.pool(deployment, "net", 0, 1)
			a := w.create(newPod("a", "net", of(set)))
			w.bind("web-net-0", a)
			w.holdPort("web-net-0")
			w.start(4)
			w.readyPort("web-net-1")
			w.awaitAllocated("a", 1)
			w.awaitBindings(map[string]string{"web-net-0": "", "web-net-1": "a"})
		},
		"an address that a Pod's port is to get back is given to nobody else": func(t *testing.T, w *podWorld) {
			w.start(4)
			deployment, set := w.deployment("web")
			w.pool(deployment, "net", 0, 1, 2)
			w.readyPort("web-net-0")
			w.create(newPod("a", "net", of(set)))
			_, was := w.awaitAllocated("a", 1)
			// As when the first port was deleted in Neutron, which then gave its address to the second.
			status := readyStatus(1, "it is there")
			status["portID"] = "another"
			if err := w.setPort(t.Context(), "web-net-1", status); err != nil {
				t.Fatal(err)
			}
			w.create(newPod("b", "net", of(set)))
			w.awaitBindings(map[string]string{"web-net-0": "a", "web-net-2": ""})
			if err := w.setPort(t.Context(), "web-net-2", readyStatus(2, "it is there")); err != nil {
				t.Fatal(err)
			}
			if _, got := w.awaitAllocated("b", 1); cmp.Equal(got[0].IPs, was[0].IPs) {
				t.Errorf("both have %v", got[0].IPs)
			}
			w.awaitRest(2)
		},
		"a port that another process gives to its Pod at this moment is not released": func(t *testing.T, w *podWorld) {
			deployment, set := w.deployment("web")
			w.pool(deployment, "net", 0, 1)
			w.readyPort("web-net-0")
			w.readyPort("web-net-1")
			pod := w.create(newPod("a", "net", of(set)))
			w.bind("web-net-0", pod)
			w.bind("web-net-1", pod)
			var once sync.Once
			w.before = func(r *http.Request) {
				if !strings.Contains(r.URL.Path, "/web-net-1/") {
					return
				}
				once.Do(func() {
					given, err := json.Marshal([]cloudteamv1.Allocation{{Port: "web-net-1", PortID: "port-2"}})
					if err != nil {
						t.Error(err)
					}
					body := fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q,"annotations":{%q:%q}},"spec":{"schedulingGates":null}}`,
						pod.ResourceVersion, cloudteamv1.AnnotationAllocations, given)
					_, err = kubeClient.CoreV1().Pods(w.namespace).Patch(t.Context(), "a", types.MergePatchType, body,
						metav1.PatchOptions{})
					if err != nil && !apierrors.IsConflict(err) {
						t.Error(err)
					}
				})
			}
			w.start(4)
			_, got := w.awaitAllocated("a", 1)
			want := map[string]string{"web-net-0": "", "web-net-1": ""}
			want[got[0].Port] = "a"
			w.awaitBindings(want)
			w.awaitRest(1)
			if got[0].Port == "web-net-1" {
				t.Error("web-net-1 was released while the Pod was given it")
			}
		},
		"a port whose Pod was deleted without it goes after it": func(t *testing.T, w *podWorld) {
			w.start(4)
			w.servePorts()
			w.create(newPod("a", "net"))
			_, got := w.awaitAllocated("a", 1)
			// As garbage collection does for kubectl delete --cascade=orphan.
			_, err := networkAPI.CloudteamV1().NetworkPorts(w.namespace).Patch(t.Context(), got[0].Port,
				types.MergePatchType, []byte(`{"metadata":{"ownerReferences":null}}`), metav1.PatchOptions{})
			if err != nil {
				t.Fatal(err)
			}
			w.remove("a")
			w.awaitBindings(map[string]string{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newPodWorld(t, "net"))
		})
	}
}

func TestPodDeclarations(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(t *testing.T, w *podWorld){
		"what is not ours stays as it was written": func(t *testing.T, w *podWorld) {
			w.servePorts()
			w.foreign[w.namespace+"/theirs"] = true
			w.create(newPod("only", `[{"name":"theirs","ips":["10.0.0.1"]}]`, gates(theirGate)))
			eventually(w.t, func() error {
				if gates := w.pod("only").Spec.SchedulingGates; len(gates) != 1 || gates[0].Name != theirGate {
					return fmt.Errorf("the gates are %v", gates)
				}
				return nil
			})
			w.awaitWrites("PATCH pods/only 200")
			pod := w.pod("only")
			want := map[string]string{selection.Annotation: `[{"name":"theirs","ips":["10.0.0.1"]}]`}
			if diff := cmp.Diff(want, pod.Annotations); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
			w.create(newPod("both", `[{"name":"theirs","ips":["10.0.0.1/24"]},{"name":"net"}]`))
			pod, got := w.awaitAllocated("both", 1)
			text := fmt.Sprintf(`[{"name":"theirs","namespace":%[1]q,"ips":["10.0.0.1/24"]},`+
				`{"name":"net","namespace":%[1]q,"ips":[%[2]q],"mac":%[3]q}]`, w.namespace, got[0].IPs[0], got[0].MAC)
			if declared := pod.Annotations[selection.Annotation]; declared != text {
				t.Errorf("it declares %s, want %s", declared, text)
			}
			w.awaitRest(2)
		},
		"a Network that is missing is waited for": func(t *testing.T, w *podWorld) {
			w.servePorts()
			w.create(newPod("web", "net,late"))
			if message := w.awaitCondition("web", "False NetworkNotFound"); !strings.Contains(message, "/late: ") {
				t.Errorf("the message is %q", message)
			}
			w.awaitEvents("web", "Warning NetworkNotFound")
			w.awaitRest(1)
			w.network("late")
			w.awaitAllocated("web", 2)
			w.awaitCondition("web", "True Allocated")
		},
		"a NetworkAttachmentDefinition that is missing is waited for": func(t *testing.T, w *podWorld) {
			w.create(newPod("web", "late"))
			w.awaitCondition("web", "False NetworkNotFound")
			w.mu.Lock()
			w.foreign[w.namespace+"/late"] = true
			w.mu.Unlock()
			w.c.EnqueueDeclaring(cache.NewObjectName(w.namespace, "late"))
			w.awaitCondition("web", "True Allocated")
			if gates := w.pod("web").Spec.SchedulingGates; len(gates) > 0 {
				t.Errorf("the gates are %v", gates)
			}
		},
		"what cannot be read is told until it can": func(t *testing.T, w *podWorld) {
			w.servePorts()
			w.create(newPod("web", `[{"name":"Net"}]`))
			message := w.awaitCondition("web", "False InvalidNetworks")
			if !strings.Contains(message, "networks[0].name") || !strings.Contains(message, "write") {
				t.Errorf("the message is %q", message)
			}
			w.awaitRest(1)
			w.patchPod("web", fmt.Sprintf(`{"metadata":{"annotations":{%q:"net"}}}`, selection.Annotation))
			w.awaitAllocated("web", 1)
			w.awaitCondition("web", "True Allocated")
			w.awaitEvents("web", "Normal Allocated", "Warning InvalidNetworks", "Warning PortsNotReady")
		},
		"a Pod on its host's network has no interfaces": func(t *testing.T, w *podWorld) {
			w.create(newPod("web", "net", func(p *corev1.Pod) { p.Spec.HostNetwork = true }))
			if message := w.awaitCondition("web", "False InvalidNetworks"); !strings.Contains(message, "hostNetwork") {
				t.Errorf("the message is %q", message)
			}
		},
		"a Pod that was not gated gets its ports, and is told what it may lack": func(t *testing.T, w *podWorld) {
			w.servePorts()
			w.create(newPod("web", "net", onNode))
			w.awaitAllocated("web", 1)
			if message := w.awaitCondition("web", "False SchedulingGateMissing"); !strings.Contains(message, "kubectl label namespace "+w.namespace+" cloudteam.ztgame.com/networks=enabled") {
				t.Errorf("the message is %q", message)
			}
			w.awaitEvents("web", "Warning SchedulingGateMissing")
			w.awaitRest(1)
		},
		"the mirror of a static Pod is left alone": func(t *testing.T, w *podWorld) {
			w.create(newPod("static", "net", onNode, annotated(corev1.MirrorPodAnnotationKey, "x")))
			w.create(newPod("other", "", func(p *corev1.Pod) { p.Annotations = nil }))
			w.awaitRest(2)
			w.awaitBindings(map[string]string{})
		},
		"a copy of another Pod's annotations allocates nothing": func(t *testing.T, w *podWorld) {
			w.servePorts()
			w.create(newPod("a", "net"))
			pod, was := w.awaitAllocated("a", 1)
			w.create(newPod("b", "net",
				annotated(cloudteamv1.AnnotationAllocations, pod.Annotations[cloudteamv1.AnnotationAllocations])))
			eventually(w.t, func() error {
				pod := w.pod("b")
				if len(pod.Spec.SchedulingGates) > 0 {
					return fmt.Errorf("it is gated")
				}
				return nil
			})
			if _, got := w.awaitAllocated("b", 1); got[0].PortID == was[0].PortID {
				t.Errorf("both have port %s", got[0].PortID)
			}
		},
		"a namespace that is going gets no ports": func(t *testing.T, w *podWorld) {
			w.stop()
			w.create(newPod("web", "net"))
			if err := kubeClient.CoreV1().Namespaces().Delete(t.Context(), w.namespace, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			// The API server learns of it by an informer of its own.
			eventually(w.t, func() error {
				_, err := kubeClient.CoreV1().ConfigMaps(w.namespace).Create(t.Context(),
					&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "trial-"}}, metav1.CreateOptions{})
				if !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
					return errors.Join(errors.New("a create is not refused as it is to be"), err)
				}
				return nil
			})
			w.start(1)
			eventually(w.t, func() error {
				if writes := w.takeWrites(); !slices.Contains(writes, "POST networkports 403") {
					return fmt.Errorf("the writes are %q", writes)
				}
				return nil
			})
			w.awaitCondition("web", "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newPodWorld(t, "net")
			w.start(4)
			test(t, w)
		})
	}
}

package pod

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// theirGate is somebody else's scheduling gate.
var theirGate = corev1.PodSchedulingGate{Name: "example.com/theirs"}

// terminating is what a namespace that is being deleted answers to creates.
func terminating(line string) error {
	if !strings.HasPrefix(line, "create ") {
		return nil
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Reason: metav1.StatusReasonForbidden, Code: 403,
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}},
	}}
}

// TestTheDeclarationIsTheUsersAndWhatMultusReadsIsNot applies the declaration of a Pod again after it got its port, with
// and without the admission policy that derives the annotation.
func TestTheDeclarationIsTheUsersAndWhatMultusReadsIsNot(t *testing.T) {
	enabled := labels.Set{cloudteamv1.LabelNetworks: cloudteamv1.LabelNetworksEnabled}
	copied := func(pod *corev1.Pod) { controllertest.DeriveNetworks(true, pod.Annotations) }
	const derived = `[{"name":"net","namespace":"team","ips":["192.168.0.2/16"],"mac":"fa:16:3e:00:00:01"}]`
	again := func(t *testing.T, w *cluster, edits ...func(*corev1.Pod)) {
		w.serves = true
		w.start()
		pod := w.pod("a", "net", edits...)
		name := w.onlyPort()
		want := []string{"create networkports " + name, "patch networkports " + name, "patch pods a"}
		if len(w.labels) > 0 && !w.derives {
			want = append(want, "patch pods a")
		}
		w.WantCalls(want...)
		expect.Equal(t, "net", pod.Annotations[cloudteamv1.AnnotationDeclaredNetworks], "declared")
		expect.Equal(t, derived, pod.Annotations[selection.Annotation], "for Multus")
		w.edit("a", func(pod *corev1.Pod) {
			pod.Annotations[selection.Annotation] = "net"
			if w.derives {
				controllertest.DeriveNetworks(false, pod.Annotations)
			}
		})
		expect.Equal(t, derived, w.get("a").Annotations[selection.Annotation], "for Multus, after the declaration was applied again")
		if w.derives {
			w.WantCalls()
		} else {
			w.WantCalls("patch pods a")
		}
		w.allocated("a", 1)
		w.edit("a", func(pod *corev1.Pod) { pod.Annotations[selection.Annotation] = "other" })
		expect.Equal(t, "other", w.get("a").Annotations[selection.Annotation], "another declaration")
		w.rests()
	}
	runCluster(t, map[string]func(t *testing.T, w *cluster){
		"without the policy, the controller writes it": func(t *testing.T, w *cluster) { again(t, w) },
		"the policy derives it": func(t *testing.T, w *cluster) {
			w.labels, w.derives = enabled, true
			again(t, w, copied)
		},
		"where the policy was removed, the controller does too": func(t *testing.T, w *cluster) {
			w.labels = enabled
			again(t, w, copied)
		},
		"the copy counts only where the policy makes it": func(t *testing.T, w *cluster) { again(t, w, copied) },
	})
}

// TestARefusedAnnotationHoldsBackNothingElse has a policy refuse what Multus reads, as that of an earlier release does.
func TestARefusedAnnotationHoldsBackNothingElse(t *testing.T) {
	inCluster(t, func(t *testing.T, w *cluster) {
		w.serves = true
		w.start()
		pod := w.pod("a", "net")
		name := w.onlyPort()
		w.Kube.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
			if action.GetSubresource() != "" {
				return false, nil, nil
			}
			return true, nil, apierrors.NewForbidden(corev1.Resource("pods"), "a", errors.New("not this"))
		})
		w.editPort(name, unbind)
		w.edit("a", func(pod *corev1.Pod) { pod.Annotations[selection.Annotation] = "net" })
		expect.Equal(t, pod.UID, consumer.BoundTo(&w.ports()[0]), "the binding of its port")
		w.says("a", "False ReconcileFailed", "kubectl apply -k config/admission")
	})
}

func runCluster(t *testing.T, cases map[string]func(t *testing.T, w *cluster)) {
	for name, test := range cases {
		t.Run(name, func(t *testing.T) { inCluster(t, test) })
	}
}

func TestAPodWithoutADeployment(t *testing.T) {
	runCluster(t, map[string]func(t *testing.T, w *cluster){
		"it gets a port of its own by three writes": func(t *testing.T, w *cluster) {
			w.serves = true
			w.start()
			pod := w.pod("a", `[{"name":"net","interface":"eth1","bandwidth":{"a":1}}]`, func(pod *corev1.Pod) {
				pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates, theirGate)
			})
			name := w.onlyPort()
			w.WantCalls("create networkports "+name, "patch networkports "+name, "patch pods a")
			want := []cloudteamv1.Allocation{{
				Name: "team/net", Interface: "eth1", IPs: []string{"192.168.0.2/16"}, MAC: "fa:16:3e:00:00:01",
				Gateway: []string{"192.168.0.1"}, MTU: 1450, PortID: "port-1", Port: name,
			}}
			expect.Equal(t, want, w.allocated("a", 1), "allocations")
			expect.Equal(t, []corev1.PodSchedulingGate{theirGate}, pod.Spec.SchedulingGates, "gates")
			const text = `[{"name":"net","namespace":"team","interface":"eth1","ips":["192.168.0.2/16"],` +
				`"mac":"fa:16:3e:00:00:01","bandwidth":{"a":1}}]`
			expect.Equal(t, text, pod.Annotations[selection.Annotation], "what it declares")
			if port := w.ports()[0]; !metav1.IsControlledBy(&port, pod) || consumer.BoundTo(&port) != pod.UID {
				t.Errorf("the port is %+v", port)
			}
			w.says("a", "", "")
			w.rests()
			w.Stop()
			w.start()
			w.WantCalls()
		},
		"two networks, and one of them twice, are three ports": func(t *testing.T, w *cluster) {
			w.serves = true
			w.network("blue")
			w.start()
			w.pod("a", "net, blue@eth7, net")
			var names []string
			ports := map[string]bool{}
			for _, a := range w.allocated("a", 3) {
				names = append(names, a.Name+"@"+a.Interface)
				ports[a.PortID] = true
			}
			if diff := cmp.Diff([]string{"team/net@", "team/blue@eth7", "team/net@"}, names); diff != "" || len(ports) != 3 {
				t.Errorf("of %d ports (-want +got):\n%s", len(ports), diff)
			}
			w.rests()
		},
		"the addresses that it asks for are those of its port": func(t *testing.T, w *cluster) {
			w.start()
			w.pod("a", `[{"name":"net","ips":["192.168.7.7"],"mac":"fa:16:3e:11:22:33"}]`)
			w.onlyPort()
			if spec := w.ports()[0].Spec; spec.MAC != "fa:16:3e:11:22:33" || !slices.Equal(spec.Addresses, []string{"192.168.7.7"}) {
				t.Errorf("the port is %+v", spec)
			}
		},
		"one that has ended has none": func(_ *testing.T, w *cluster) {
			w.serves = true
			w.start()
			w.pod("a", "net")
			w.allocated("a", 1)
			w.edit("a", func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded })
			w.wantBindings(nil)
			w.rests()
		},
		"one that changes its mind before it has its port gets another": func(t *testing.T, w *cluster) {
			w.network("blue")
			w.start()
			w.pod("a", "net")
			first := w.onlyPort()
			w.edit("a", func(pod *corev1.Pod) { pod.Annotations[selection.Annotation] = "blue" })
			second := w.onlyPort()
			if second == first {
				t.Error("the port is the same")
			}
			// This API server's deletions do not move the version that a cache has seen.
			w.editPort(second, func(port *cloudteamv1.NetworkPort) { port.Labels = map[string]string{"seen": "yes"} })
			w.edit("a", func(pod *corev1.Pod) { delete(pod.Annotations, selection.Annotation) })
			w.wantBindings(nil)
			if consumer.Gated(w.get("a")) {
				t.Error("it declares nothing and is gated")
			}
			w.rests()
		},
		"a refusal of its port is said, until it is over": func(_ *testing.T, w *cluster) {
			w.serves = true
			w.scarce()
			w.start()
			w.pod("a", "net")
			w.says("a", "False PortsFailed", "exceeded quota: few")
			w.WantEvents("Warning PortsFailed")
			w.API.Refuse(nil)
			controllertest.Settle(time.Minute)
			w.allocated("a", 1)
			w.says("a", "True Allocated", "")
		},
		"a port of the name that is not its own is said": func(_ *testing.T, w *cluster) {
			w.start()
			w.pod("a", "net")
			name := w.onlyPort()
			w.editPort(name, func(port *cloudteamv1.NetworkPort) { port.OwnerReferences, port.Annotations = nil, nil })
			controllertest.Settle(time.Minute)
			w.says("a", "False PortsFailed", name)
		},
		"a port that lost its owner is deleted after its Pod": func(_ *testing.T, w *cluster) {
			w.serves = true
			w.start()
			w.pod("a", "net")
			w.editPort(w.onlyPort(), func(port *cloudteamv1.NetworkPort) {
				port.OwnerReferences, port.Finalizers = nil, []string{cloudteamv1.PortFinalizer}
			})
			name := w.onlyPort()
			w.wantBindings(map[string]string{name: "a"})
			w.end("a")
			w.editPort(name, func(port *cloudteamv1.NetworkPort) { port.Finalizers = nil })
			w.wantBindings(nil)
		},
		"in a namespace that is being deleted nothing is said": func(t *testing.T, w *cluster) {
			w.API.Refuse(terminating)
			w.start()
			w.pod("a", "net")
			controllertest.Settle(time.Minute)
			if n := controllertest.Count(w.Calls.Take(), "create networkports"); n == 0 {
				t.Error("no create was tried")
			}
			w.says("a", "", "")
			w.WantEvents()
		},
	})
}

func TestWhatAPodDeclares(t *testing.T) {
	runCluster(t, map[string]func(t *testing.T, w *cluster){
		"what is not ours stays as it was written": func(t *testing.T, w *cluster) {
			w.serves, w.foreign["theirs"] = true, true
			w.start()
			only := w.pod("a", `[{"name":"theirs","ips":["10.0.0.1"]}]`, func(pod *corev1.Pod) {
				pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates, theirGate)
			})
			w.WantCalls("patch pods a")
			expect.Equal(t, []corev1.PodSchedulingGate{theirGate}, only.Spec.SchedulingGates, "gates")
			want := map[string]string{selection.Annotation: `[{"name":"theirs","ips":["10.0.0.1"]}]`}
			expect.Equal(t, want, only.Annotations, "annotations")
			both := w.pod("b", `[{"name":"theirs","ips":["10.0.0.1/24"]},{"name":"net"}]`)
			w.allocated("b", 1)
			const text = `[{"name":"theirs","namespace":"team","ips":["10.0.0.1/24"]},` +
				`{"name":"net","namespace":"team","ips":["192.168.0.2/16"],"mac":"fa:16:3e:00:00:01"}]`
			expect.Equal(t, text, both.Annotations[selection.Annotation], "what it declares")
			w.rests()
		},
		"a Network that is missing is waited for": func(_ *testing.T, w *cluster) {
			w.serves = true
			w.start()
			w.pod("a", "net,late")
			w.says("a", "False NetworkNotFound", "/late: ")
			w.WantEvents("Warning NetworkNotFound")
			w.rests()
			w.network("late")
			w.allocated("a", 2)
			w.says("a", "True Allocated", "")
		},
		"a NetworkAttachmentDefinition that is missing is waited for": func(t *testing.T, w *cluster) {
			w.start()
			w.pod("a", "late")
			w.says("a", "False NetworkNotFound", "")
			w.foreign["late"] = true
			w.c.EnqueueDeclaring(keyOf("late"))
			settle()
			w.says("a", "True Allocated", "")
			if consumer.Gated(w.get("a")) {
				t.Error("it is gated")
			}
		},
		"what cannot be read is said until it can": func(_ *testing.T, w *cluster) {
			w.serves = true
			w.start()
			w.pod("a", `[{"name":"Net"}]`)
			w.says("a", "False InvalidNetworks", "networks[0].name")
			w.rests()
			w.edit("a", func(pod *corev1.Pod) { pod.Annotations[selection.Annotation] = "net" })
			w.allocated("a", 1)
			w.says("a", "True Allocated", "")
		},
		"a SecurityGroup of another namespace cannot be named": func(_ *testing.T, w *cluster) {
			w.start()
			w.pod("a", "net", func(pod *corev1.Pod) { pod.Annotations[cloudteamv1.AnnotationSecurityGroups] = "other/web" })
			w.says("a", "False InvalidNetworks",
				"annotation "+cloudteamv1.AnnotationSecurityGroups+`: "other/web" is no name of a SecurityGroup`)
			w.WantEvents("Warning InvalidNetworks")
			w.wantBindings(nil)
		},
		"a Pod on its host's network has no interfaces": func(_ *testing.T, w *cluster) {
			w.start()
			w.pod("a", "net", func(pod *corev1.Pod) { pod.Spec.HostNetwork = true })
			w.says("a", "False InvalidNetworks", "hostNetwork")
		},
		"a Pod that waits while the controller only reports says so, until it may write": func(_ *testing.T, w *cluster) {
			w.serves, w.reports = true, true
			w.start()
			w.pod("a", "net")
			w.says("a", "False Planned", "set firstStart=Apply")
			w.WantEvents("Warning Planned")
			w.wantBindings(nil)
			w.pod("b", "net", ungated)
			w.says("b", "", "")
			w.rests()
			w.reports = false
			w.Stop()
			w.start()
			settle()
			w.allocated("a", 1)
			w.says("a", "True Allocated", "")
		},
		"an Event names the scheduling gates of others that are left": func(t *testing.T, w *cluster) {
			w.serves = true
			w.start()
			pod := w.pod("a", "net", func(pod *corev1.Pod) {
				pod.Spec.SchedulingGates = append([]corev1.PodSchedulingGate{theirGate}, pod.Spec.SchedulingGates...)
			})
			expect.Equal(t, []corev1.PodSchedulingGate{theirGate}, pod.Spec.SchedulingGates, "gates")
			told := w.Events.Take()
			if len(told) != 1 || !strings.Contains(told[0], "Normal Allocated") || !strings.Contains(told[0], theirGate.Name) {
				t.Errorf("the Events are %q", told)
			}
		},
		"a Pod that was not gated gets its ports, and is told what it may lack": func(_ *testing.T, w *cluster) {
			w.serves = true
			w.start()
			w.pod("a", "net", ungated)
			w.allocated("a", 1)
			w.says("a", "False SchedulingGateMissing", "kubectl label namespace team cloudteam.ztgame.com/networks=enabled")
			w.WantEvents("Warning SchedulingGateMissing")
			w.rests()
		},
		"the mirror of a static Pod is left alone": func(_ *testing.T, w *cluster) {
			w.start()
			w.pod("a", "net", ungated, func(pod *corev1.Pod) { pod.Annotations[corev1.MirrorPodAnnotationKey] = "x" })
			w.pod("b", "", ungated)
			w.rests()
			w.wantBindings(nil)
		},
		"a copy of another Pod's annotations allocates nothing": func(t *testing.T, w *cluster) {
			w.serves = true
			w.start()
			was := w.pod("a", "net").Annotations[cloudteamv1.AnnotationAllocations]
			w.pod("b", "net", func(pod *corev1.Pod) { pod.Annotations[cloudteamv1.AnnotationAllocations] = was })
			if a, b := w.allocated("a", 1), w.allocated("b", 1); a[0].PortID == b[0].PortID {
				t.Errorf("both have port %s", a[0].PortID)
			}
		},
	})
}

func TestPodsOfADeployment(t *testing.T) {
	runCluster(t, map[string]func(t *testing.T, w *cluster){
		"a hundred Pods get a port each, made once, and are written twice": func(t *testing.T, w *cluster) {
			const many = 100
			w.serve(many)
			w.pod("first", "net", ofWeb)
			for i := range many - 1 {
				w.Create(newPod(fmt.Sprint("web-", i), "net", ofWeb))
			}
			controllertest.Settle(time.Minute)
			calls, bound := w.Calls.Take(), map[string]bool{}
			for port, pod := range w.bindings() {
				if w.allocated(pod, 1)[0].Port != port {
					t.Errorf("Pod %s has %+v, and port %s is bound to it", pod, w.allocated(pod, 1), port)
				}
				bound[pod] = true
			}
			made, writes := controllertest.Count(calls, "create networkports"), controllertest.Count(calls, "patch pods")
			if len(bound) != many || made != many || writes != many || controllertest.Count(calls, "delete") > 0 {
				t.Errorf("%d Pods have ports; %d were made, and %d times Pods were written", len(bound), made, writes)
			}
			w.webSays("", "")
			w.WantEvents()
			w.rests()
			w.Stop()
			w.start()
			w.WantCalls()
		},
		"a port that is free again is the next Pod's": func(t *testing.T, w *cluster) {
			w.serve(2)
			w.scarce()
			for _, name := range []string{"a", "b", "c"} {
				w.pod(name, "net", ofWeb)
			}
			was := w.allocated("b", 1)
			w.waits("c")
			w.end("b")
			expect.Equal(t, was, w.allocated("c", 1), "allocations")
			// One that comes back under its name is another.
			w.pod("b", "net", ofWeb)
			w.waits("b")
			w.end("c")
			w.pod("c", "net", ofWeb)
			w.allocated("b", 1)
			w.waits("c")
		},
		"Pods that come and go never share a port, whenever the process ends": func(t *testing.T, w *cluster) {
			w.serve(3)
			w.scarce()
			for round := range 8 {
				var names []string
				for i := range 5 {
					names = append(names, fmt.Sprint("p", i))
					w.Create(newPod(names[i], "net", ofWeb))
				}
				controllertest.Settle(time.Duration(round) * 10 * time.Millisecond)
				if round%2 == 1 {
					w.Stop()
				}
				w.endNow(names[:round%5]...)
				if round%2 == 1 {
					w.start()
				}
				controllertest.Settle(time.Minute)
				w.end(names[round%5:]...)
			}
			w.wantBindings(map[string]string{"web-net-0": "", "web-net-1": "", "web-net-2": ""})
			if w.given < 8*3 {
				t.Errorf("%d Pods were given ports", w.given)
			}
		},
		"two processes at once never give a port to two Pods": func(t *testing.T, w *cluster) {
			w.serves = true
			w.start()
			w.start()
			w.deploy(8, "net")
			for i := range 8 {
				w.Create(newPod(fmt.Sprint("p", i), "net", ofWeb))
			}
			controllertest.Settle(time.Minute)
			w.end("p0", "p1", "p2", "p3")
			for i := range 4 {
				w.Create(newPod(fmt.Sprint("q", i), "net", ofWeb))
			}
			controllertest.Settle(time.Minute)
			for _, pod := range w.pods() {
				w.allocated(pod.Name, 1)
			}
			expect.Len(t, 8, w.bindings(), "bindings")
		},
		"who finds that another process was faster with a port gives way": func(t *testing.T, w *cluster) {
			w.serve(1)
			late := false
			w.API.Refuse(func(line string) error {
				if line == "patch networkports web-net-0" && !late {
					late = true
					w.API.Create(t, newPod("other", "net", ofWeb))
					w.bind("web-net-0", w.get("other"))
				}
				return few(line)
			})
			w.pod("a", "net", ofWeb)
			w.waits("a")
			w.allocated("other", 1)
			w.end("other")
			w.allocated("a", 1)
		},
		"a Pod that is being deleted keeps its port": func(t *testing.T, w *cluster) {
			w.serve(1)
			w.scarce()
			w.pod("a", "net", ofWeb, func(pod *corev1.Pod) { pod.Finalizers = []string{"example.com/theirs"} })
			w.allocated("a", 1)
			w.API.Delete(t, w.get("a"))
			w.pod("b", "net", ofWeb)
			w.wantBindings(map[string]string{"web-net-0": "a"})
			w.edit("a", func(pod *corev1.Pod) { pod.Finalizers = nil })
			w.wantBindings(map[string]string{"web-net-0": "b"})
		},
		"a Pod that lost what it was told keeps its port, and is told again": func(t *testing.T, w *cluster) {
			w.serve(1)
			w.scarce()
			before := w.pod("a", "net@eth1", ofWeb).Annotations
			w.pod("b", "net", ofWeb)
			forget := func(pod *corev1.Pod) { delete(pod.Annotations, cloudteamv1.AnnotationAllocations) }
			w.edit("a", forget)
			expect.Equal(t, before, w.get("a").Annotations, "annotations")
			// A port that is being deleted stays as long as its Pod.
			w.remove("web-net-0", true)
			w.edit("a", forget)
			w.allocated("a", 1)
			w.wantBindings(map[string]string{"web-net-0": "a"})
			w.says("a", "", "")
			w.rests()
		},
		"a port of a Pod that the cache does not show yet is not released": func(_ *testing.T, w *cluster) {
			w.serve(2)
			w.scarce()
			gate := controllertest.GateOf[*corev1.Pod](w.API)
			gate.Hold()
			newer, gone := w.pod("newer", "net", ofWeb), w.pod("gone", "net", ofWeb)
			w.bind("web-net-0", newer)
			w.bind("web-net-1", gone)
			w.end("gone")
			w.wantBindings(map[string]string{"web-net-0": "newer", "web-net-1": ""})
			gate.Release()
			w.pod("a", "net", ofWeb)
			w.wantBindings(map[string]string{"web-net-0": "newer", "web-net-1": "a"})
		},
		"a process that starts goes on where another ended": func(t *testing.T, w *cluster) {
			w.serve(5)
			w.Stop()
			// Bound, and not told so; with a port too many; bound to one that came back under its name.
			a, b, c := w.pod("a", "net", ofWeb), w.pod("b", "net", ofWeb), w.pod("c", "net", ofWeb)
			w.bind("web-net-3", a)
			w.bind("web-net-1", b)
			w.bind("web-net-2", b)
			w.bind("web-net-4", c)
			w.end("c")
			w.pod("c", "net", ofWeb)
			w.start()
			want := map[string]string{"web-net-0": "", "web-net-1": "b", "web-net-2": "", "web-net-3": "a", "web-net-4": ""}
			for port, pod := range map[string]string{"web-net-3": "a", "web-net-1": "b"} {
				expect.Equal(t, port, w.allocated(pod, 1)[0].Port, "the port of Pod %s", pod)
			}
			want[w.allocated("c", 1)[0].Port] = "c"
			w.wantBindings(want)
			// A Pod that has its allocations and one port too many.
			w.bind("web-net-2", w.get("a"))
			controllertest.Settle(time.Minute)
			w.wantBindings(want)
			w.rests()
		},
		"a port that fails is said, and its end": func(_ *testing.T, w *cluster) {
			w.start()
			w.deploy(1, "net")
			w.scarce()
			w.pod("a", "net", ofWeb)
			w.editPort("web-net-0", func(port *cloudteamv1.NetworkPort) {
				port.Status.Conditions = []metav1.Condition{{
					Type: cloudteamv1.ConditionReady, Status: metav1.ConditionFalse,
					Reason: cloudteamv1.ReasonAddressesExhausted, Message: "there are none left",
				}}
			})
			w.says("a", "False PortsFailed", `NetworkPort "web-net-0": AddressesExhausted: there are none left`)
			w.rests()
			w.ready("web-net-0")
			w.allocated("a", 1)
			w.says("a", "True Allocated", "")
			w.rests()
		},
		"a wait that lasts is said": func(_ *testing.T, w *cluster) {
			w.start()
			w.deploy(1, "net")
			w.pod("a", "net", ofWeb)
			w.says("a", "", "")
			w.WantEvents()
			controllertest.Settle(quiet)
			w.says("a", "False PortsNotReady", "")
			w.WantEvents("Warning PortsNotReady")
			w.ready("web-net-0")
			w.allocated("a", 1)
			w.says("a", "True Allocated", "")
		},
		"a port that is gone or another is said, and the Pod stays as it is": func(t *testing.T, w *cluster) {
			w.start()
			w.deploy(2, "net")
			w.scarce()
			w.ready("web-net-0")
			before := w.pod("a", "net", ofWeb).Annotations
			w.editPort("web-net-0", func(port *cloudteamv1.NetworkPort) { port.Status.PortID = "another" })
			w.says("a", "False PortsFailed", "another port in Neutron")
			w.editPort("web-net-0", func(port *cloudteamv1.NetworkPort) { port.Status.PortID = "port-1" })
			w.says("a", "True Allocated", "")
			w.remove("web-net-0", false)
			w.ready("web-net-1")
			w.says("a", "False PortsFailed", "is gone")
			w.rests()
			w.wantBindings(map[string]string{"web-net-1": ""})
			expect.Equal(t, before, w.get("a").Annotations, "annotations")
		},
		"a port that is being deleted is let go by a Pod that waits": func(_ *testing.T, w *cluster) {
			w.start()
			w.deploy(2, "net")
			w.scarce()
			w.Stop()
			w.bind("web-net-0", w.pod("a", "net", ofWeb))
			w.remove("web-net-0", true)
			w.start()
			w.ready("web-net-1")
			w.allocated("a", 1)
			w.wantBindings(map[string]string{"web-net-0": "", "web-net-1": "a"})
		},
		"an address that a Pod's port is to get back is given to nobody else": func(t *testing.T, w *cluster) {
			w.start()
			w.deploy(3, "net")
			w.scarce()
			w.ready("web-net-0")
			w.pod("a", "net", ofWeb)
			was := w.allocated("a", 1)
			// As when the first port was deleted in Neutron, which then gave its address to the second.
			w.editPort("web-net-1", func(port *cloudteamv1.NetworkPort) {
				makeReady(port, 1)
				port.Status.PortID = "another"
			})
			w.pod("b", "net", ofWeb)
			w.wantBindings(map[string]string{"web-net-0": "a", "web-net-2": ""})
			w.ready("web-net-2")
			if is := w.allocated("b", 1); cmp.Equal(is[0].IPs, was[0].IPs) {
				t.Errorf("both have %v", is[0].IPs)
			}
			w.rests()
		},
		"a port that another process gives to its Pod at this moment is not released": func(t *testing.T, w *cluster) {
			w.serve(2)
			w.Stop()
			pod := w.pod("a", "net", ofWeb)
			w.bind("web-net-0", pod)
			w.bind("web-net-1", pod)
			late := false
			w.API.Refuse(func(line string) error {
				if line == "patch networkports web-net-1" && !late {
					late = true
					controllertest.Edit(t, w.API, keyOf("a"), func(pod *corev1.Pod) {
						if pod.Annotations[cloudteamv1.AnnotationAllocations] != "" {
							return
						}
						pod.Annotations[cloudteamv1.AnnotationAllocations] = `[{"port":"web-net-1","portID":"port-2"}]`
						pod.Spec.SchedulingGates = nil
					})
				}
				return nil
			})
			w.start()
			controllertest.Settle(time.Minute)
			if got := w.allocated("a", 1)[0].Port; got == "web-net-1" {
				t.Error("web-net-1 was released while the Pod was given it")
			}
			w.wantBindings(map[string]string{"web-net-0": "a", "web-net-1": ""})
			w.rests()
		},
	})
}

func TestTheLifeOfAPool(t *testing.T) {
	runCluster(t, map[string]func(t *testing.T, w *cluster){
		"it follows the replicas when Pods have given up their ports": func(_ *testing.T, w *cluster) {
			w.serve(3)
			for _, name := range []string{"a", "b", "c"} {
				w.pod(name, "net", ofWeb)
			}
			w.editWeb(func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(1)) })
			w.wantBindings(map[string]string{"web-net-0": "a", "web-net-1": "b", "web-net-2": "c"})
			w.end("a", "b")
			w.wantBindings(map[string]string{"web-net-2": "c"})
			w.editWeb(func(d *appsv1.Deployment) { d.Spec.Template.Annotations = nil })
			w.wantBindings(map[string]string{"web-net-2": "c"})
			w.end("c")
			w.wantBindings(nil)
			w.rests()
		},
		"what stands in its way is said, until it is over": func(_ *testing.T, w *cluster) {
			w.start()
			w.deploy(1, "blue,net")
			w.webSays("False NetworkNotFound", " team/blue: ")
			w.wantBindings(map[string]string{"web-net-0": ""})
			w.WantEvents("Warning NetworkNotFound")
			w.rests()
			w.network("blue")
			w.webSays("False PortsNotReady", "")
			w.ready("web-net-0", "web-blue-0")
			w.webSays("True Allocated", "")
			w.WantEvents("Normal Allocated")
			w.editWeb(func(d *appsv1.Deployment) { d.Spec.Template.Annotations[selection.Annotation] = "{" })
			w.webSays("False InvalidNetworks", "")
			w.wantBindings(map[string]string{"web-net-0": "", "web-blue-0": ""})
			w.editWeb(func(d *appsv1.Deployment) { d.Spec.Template.Annotations = nil })
			w.webSays("True Allocated", "")
			w.wantBindings(nil)
			w.rests()
		},
		"one whose Deployment was deleted without it is deleted, each port after its Pod": func(t *testing.T, w *cluster) {
			w.serve(2)
			w.pod("a", "net", ofWeb)
			w.Stop()
			for _, name := range []string{"web-net-0", "web-net-1"} {
				w.editPort(name, func(port *cloudteamv1.NetworkPort) {
					port.OwnerReferences, port.Finalizers = nil, []string{cloudteamv1.PortFinalizer}
				})
			}
			w.API.DeleteByForce(t, w.web())
			w.start()
			for _, port := range w.ports() {
				if port.DeletionTimestamp == nil {
					t.Errorf("port %s stays", port.Name)
				}
			}
			w.wantBindings(map[string]string{"web-net-0": "a", "web-net-1": ""})
			w.end("a")
			w.wantBindings(map[string]string{"web-net-0": "", "web-net-1": ""})
		},
		"for a Deployment that is being deleted nothing is made, and the next of the name begins anew": func(
			t *testing.T, w *cluster,
		) {
			w.start()
			w.deploy(1, "net")
			w.editWeb(func(d *appsv1.Deployment) { d.Finalizers = []string{metav1.FinalizerDeleteDependents} })
			w.API.Delete(t, w.web())
			w.remove("web-net-0", false)
			w.rests()
			w.wantBindings(nil)
			w.editWeb(func(d *appsv1.Deployment) { d.Finalizers = nil })
			w.API.DeleteByForce(t, webSet())
			w.deploy(1, "net")
			w.wantBindings(map[string]string{"web-net-0": ""})
		},
		"in a namespace that is being deleted nothing is said": func(t *testing.T, w *cluster) {
			w.API.Refuse(terminating)
			w.start()
			w.deploy(1, "net")
			if n := controllertest.Count(w.Calls.Take(), "create networkports"); n == 0 {
				t.Error("no create was tried")
			}
			w.webSays("", "")
			w.WantEvents()
		},
	})
}

package pod

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/internal/controller/deployment"
	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// resync is the resync period of a cluster's informers.
const resync = 30 * time.Second

// cluster is a played API server with the controllers of Pods and of Deployments. The test plays the other controllers
// and the kubelet. All objects are in the namespace team.
//
// With each write that gives a port to a Pod, it holds that no two live Pods have one port.
type cluster struct {
	*controllertest.World[*corev1.Pod]
	c *Controller
	d *deployment.Controller
	// foreign are the names of NetworkAttachmentDefinitions.
	foreign map[string]bool
	// patching is held while an object is read and then written.
	patching sync.Mutex
	// serves has each new port Ready at once. made counts the ports that were made ready, for their addresses.
	serves bool
	made   int
	// labels are those of the namespace.
	labels labels.Set
	// derives is whether config/admission/networks.yaml is in force.
	derives bool
	// reports is whether the controller only reports.
	reports bool
	// few is whether a quota allows no more ports.
	few bool
	// given counts the writes by which a Pod was given its ports.
	given int
}

// settle lets the controllers act. What finds a cache behind is synced again within the time.
func settle() { controllertest.Settle(5 * time.Second) }

func keyOf(name string) cache.ObjectName { return cache.NewObjectName("team", name) }

// inCluster runs a test in synthetic time, with the Ready Network net.
func inCluster(t *testing.T, test func(t *testing.T, w *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &cluster{
			World: controllertest.NewWorld[*corev1.Pod](t, keyOf("a")), foreign: map[string]bool{},
		}
		w.Resync = resync
		controllertest.Serve(w.API, w.Clients, controllertest.NetworkPorts, controllertest.Rules[*cloudteamv1.NetworkPort]{
			Line:    line,
			Default: func(port *cloudteamv1.NetworkPort) { w.arrive(port) },
			Admit: func(_ clienttesting.Action, port *cloudteamv1.NetworkPort) error {
				w.judgeBinding(port)
				return nil
			},
		})
		controllertest.Serve(w.API, w.Kube, corev1.SchemeGroupVersion.WithResource("pods"),
			controllertest.Rules[*corev1.Pod]{Default: func(pod *corev1.Pod) { pod.CreationTimestamp = metav1.Now() }})
		apps := appsv1.SchemeGroupVersion
		controllertest.Serve(w.API, w.Kube, apps.WithResource("deployments"), controllertest.Rules[*appsv1.Deployment]{})
		controllertest.Serve(w.API, w.Kube, apps.WithResource("replicasets"), controllertest.Rules[*appsv1.ReplicaSet]{})
		controllertest.Serve(w.API, w.Kube, apps.WithResource("statefulsets"), controllertest.Rules[*appsv1.StatefulSet]{})
		serveStrategicPatches[corev1.Pod](w, "pods", func(pod *corev1.Pod) {
			if w.derives {
				controllertest.DeriveNetworks(false, pod.Annotations)
			}
			w.judgeAllocation(pod)
		})
		serveStrategicPatches(w, "deployments", func(*appsv1.Deployment) {})
		w.network("net")
		test(t, w)
		w.Stop()
	})
}

// line is a request for a NetworkPort as the CallLog has it: "create networkports web-net-0".
func line(action clienttesting.Action) string {
	name := ""
	switch action := action.(type) {
	case clienttesting.CreateAction:
		name = action.GetObject().(metav1.Object).GetName()
	case clienttesting.GetAction: // patches and deletions, too
		name = action.GetName()
	}
	if action.GetVerb() == "get" {
		return ""
	}
	return action.GetVerb() + " " + action.GetResource().Resource + " " + name
}

// serveStrategicPatches has the API server merge lists by their keys, as it does for its own kinds. judge sees an object
// before it is stored.
func serveStrategicPatches[T any, P interface {
	*T
	controllertest.Object
}](w *cluster, resource string, judge func(P)) {
	w.Kube.PrependReactor("patch", resource, func(action clienttesting.Action) (bool, runtime.Object, error) {
		w.patching.Lock()
		defer w.patching.Unlock()
		patch := action.(clienttesting.PatchActionImpl)
		key := cache.NewObjectName(patch.Namespace, patch.Name)
		group := schema.GroupResource{Resource: resource}
		was, exists := controllertest.Find[P](w.API, key)
		if !exists {
			return true, nil, apierrors.NewNotFound(group, patch.Name)
		}
		var read metav1.PartialObjectMetadata
		before, err1 := json.Marshal(was)
		after, err2 := strategicpatch.StrategicMergePatch(before, patch.Patch, new(T))
		obj := P(new(T))
		if err := errors.Join(json.Unmarshal(patch.Patch, &read), err1, err2, json.Unmarshal(after, obj)); err != nil {
			return true, nil, apierrors.NewBadRequest(err.Error())
		}
		if read.UID != was.GetUID() || read.ResourceVersion != "" && read.ResourceVersion != was.GetResourceVersion() {
			return true, nil, apierrors.NewConflict(group, patch.Name, errors.New("the object has been modified"))
		}
		w.Calls.Note("patch %s %s", resource, patch.Name)
		controllertest.Edit(w.T, w.API, key, func(stored P) {
			judge(obj)
			*stored = *obj
		})
		written, _ := controllertest.Find[P](w.API, key)
		return true, written, nil
	})
}

// judgeBinding holds that a port is not bound to a Pod while another one lives that has it.
func (w *cluster) judgeBinding(port *cloudteamv1.NetworkPort) {
	if port.Status.BoundTo == nil {
		return
	}
	for _, pod := range w.pods() {
		if pod.UID != port.Status.BoundTo.UID && !consumer.Ended(&pod) && has(&pod, port) {
			w.T.Errorf("port %s is bound to Pod %s while Pod %s lives", port.Name, port.Status.BoundTo.Name, pod.Name)
		}
	}
}

// judgeAllocation holds that a Pod that is given ports has them bound to it, and shares none with another that lives.
func (w *cluster) judgeAllocation(pod *corev1.Pod) {
	was, exists := controllertest.Find[*corev1.Pod](w.API, cache.MetaObjectToName(pod))
	if exists && was.Annotations[cloudteamv1.AnnotationAllocations] == pod.Annotations[cloudteamv1.AnnotationAllocations] {
		return
	}
	w.given++
	for _, port := range w.ports() {
		if !has(pod, &port) {
			continue
		}
		if consumer.BoundTo(&port) != pod.UID {
			w.T.Errorf("Pod %s is given port %s, which is bound to %+v", pod.Name, port.Name, port.Status.BoundTo)
		}
		w.judgeBinding(&port)
	}
}

// has reports whether a Pod says that it has a port.
func has(pod *corev1.Pod, port *cloudteamv1.NetworkPort) bool {
	allocations, _ := consumer.Allocations(pod)
	return slices.ContainsFunc(allocations, func(a cloudteamv1.Allocation) bool { return a.PortID == port.Status.PortID })
}

// Has is consumer.Attachments.
func (w *cluster) Has(_, name string) bool { return w.foreign[name] }

// start starts a process. Those that run go on.
func (w *cluster) start() {
	w.T.Helper()
	w.NewInformers()
	caches, err := consumer.NewCaches(consumer.InformersOf(w.Informers, w.KubeInformers), w)
	expect.NoError(w.T, err)
	read := metadatafake.NewSimpleMetadataClient(metadatafake.NewTestScheme())
	w.c, err = NewController(
		w.Clients.CloudteamV1(), w.Kube.CoreV1(), w.Kube.AppsV1(), read, caches, nil, nil, w.Events,
		func(string) labels.Set { return w.labels })
	expect.NoError(w.T, err)
	if w.reports {
		w.c.ReportOnly()
	}
	w.d, err = deployment.NewController(
		w.Clients.CloudteamV1(), w.Kube.AppsV1(), w.Kube.CoreV1(), caches, w.Events, deployment.Options{})
	expect.NoError(w.T, err)
	w.Start(controllertest.Process{Loop: w.c.Loop, Sync: w.c.sync})
	d := w.d
	for _, run := range []func(context.Context, int) error{w.c.Run, d.Run} {
		w.Run(run, 4)
	}
	settle()
}

// rests holds that nothing is written while nothing happens. What is refused is tried again.
func (w *cluster) rests() {
	w.T.Helper()
	controllertest.Settle(2 * resync)
	w.Quiet()
	controllertest.Settle(10 * resync)
	wrote := slices.DeleteFunc(w.Calls.Take(), func(line string) bool { return w.few && few(line) != nil })
	expect.Empty(w.T, wrote, "written at rest")
	w.WantEvents()
}

// network makes a Ready Network.
func (w *cluster) network(name string) {
	network := openNetwork()
	network.Name = name
	w.Create(network)
	settle()
}

// newPod is a Pod that declares networks, gated as the admission policy has it.
func newPod(name, networks string, edits ...func(*corev1.Pod)) *corev1.Pod {
	pod := declaringPod("team", nil)
	pod.Name, pod.UID = name, ""
	pod.Annotations[selection.Annotation] = networks
	for _, edit := range edits {
		edit(pod)
	}
	return pod
}

// pod creates a Pod, and lets its controllers act.
func (w *cluster) pod(name, networks string, edits ...func(*corev1.Pod)) *corev1.Pod {
	w.T.Helper()
	w.Create(newPod(name, networks, edits...))
	settle()
	return w.get(name)
}

func ungated(pod *corev1.Pod) { pod.Spec.SchedulingGates, pod.Spec.NodeName = nil, "node" }

func (w *cluster) get(name string) *corev1.Pod {
	w.T.Helper()
	return controllertest.Get[*corev1.Pod](w.T, w.API, keyOf(name))
}

// edit changes a Pod as somebody else would.
func (w *cluster) edit(name string, change func(*corev1.Pod)) {
	w.T.Helper()
	w.patching.Lock()
	controllertest.Edit(w.T, w.API, keyOf(name), change)
	w.patching.Unlock()
	settle()
}

// end removes Pods as their kubelets do.
func (w *cluster) end(names ...string) {
	w.T.Helper()
	w.endNow(names...)
	settle()
}

// endNow is end, and does not wait for what follows.
func (w *cluster) endNow(names ...string) {
	w.T.Helper()
	w.patching.Lock()
	defer w.patching.Unlock()
	for _, name := range names {
		w.API.DeleteByForce(w.T, w.get(name))
	}
}

func (w *cluster) pods() []corev1.Pod {
	list, err := w.Kube.Tracker().List(corev1.SchemeGroupVersion.WithResource("pods"),
		corev1.SchemeGroupVersion.WithKind("Pod"), "team")
	if err != nil {
		w.T.Error(err)
		return nil
	}
	return list.(*corev1.PodList).Items
}

// deploy creates the Deployment web and a ReplicaSet of it.
func (w *cluster) deploy(replicas int32, networks string) {
	w.T.Helper()
	labels := map[string]string{"app": "web"}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{
		Labels: labels, Annotations: map[string]string{selection.Annotation: networks},
	}}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web", UID: "web"}}
	d.Spec.Replicas, d.Spec.Selector, d.Spec.Template = &replicas, &metav1.LabelSelector{MatchLabels: labels}, template
	w.Create(d, webSet())
	settle()
}

// serve starts a process whose ports are Ready at once, and creates the Deployment web on the Network net.
func (w *cluster) serve(replicas int32) {
	w.T.Helper()
	w.serves = true
	w.start()
	w.deploy(replicas, "net")
}

// webSet is the ReplicaSet of the Deployment web.
func webSet() *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team", Name: "web-1", UID: "web-1", OwnerReferences: controlledBy("apps/v1", "Deployment", "web", "web"),
	}}
}

// ofWeb makes a Pod one of the ReplicaSet's.
func ofWeb(pod *corev1.Pod) {
	pod.OwnerReferences = controlledBy("apps/v1", "ReplicaSet", "web-1", "web-1")
}

func (w *cluster) web() *appsv1.Deployment {
	w.T.Helper()
	return controllertest.Get[*appsv1.Deployment](w.T, w.API, keyOf("web"))
}

// editWeb changes the Deployment as somebody else would.
func (w *cluster) editWeb(change func(*appsv1.Deployment)) {
	w.T.Helper()
	controllertest.Edit(w.T, w.API, keyOf("web"), change)
	settle()
}

// arrive makes a new port Ready if ports are served.
func (w *cluster) arrive(port *cloudteamv1.NetworkPort) {
	if w.serves && port.Status.PortID == "" {
		w.made++
		makeReady(port, w.made)
	}
}

// makeReady gives a port the status of the n-th that was made.
func makeReady(port *cloudteamv1.NetworkPort, n int) {
	port.Status.PortID, port.Status.MAC, port.Status.MTU = fmt.Sprint("port-", n), fmt.Sprintf("fa:16:3e:00:00:%02x", n), 1450
	port.Status.Addresses = []cloudteamv1.PortAddress{{
		Address: fmt.Sprintf("192.168.0.%d/16", n+1), Gateway: "192.168.0.1", SubnetID: "subnet",
	}}
	port.Status.Conditions = []metav1.Condition{{
		Type: cloudteamv1.ConditionReady, Status: metav1.ConditionTrue, Reason: cloudteamv1.ReasonAvailable,
	}}
}

// ready makes ports Ready.
func (w *cluster) ready(names ...string) {
	w.T.Helper()
	for _, name := range names {
		w.made++
		controllertest.Edit(w.T, w.API, keyOf(name), func(port *cloudteamv1.NetworkPort) { makeReady(port, w.made) })
	}
	settle()
}

// editPort changes a port as somebody else would.
func (w *cluster) editPort(name string, change func(*cloudteamv1.NetworkPort)) {
	w.T.Helper()
	controllertest.Edit(w.T, w.API, keyOf(name), change)
	settle()
}

// bind binds a port as another process would.
func (w *cluster) bind(name string, pod *corev1.Pod) {
	w.T.Helper()
	controllertest.Edit(w.T, w.API, keyOf(name), func(port *cloudteamv1.NetworkPort) {
		port.Status.BoundTo = &cloudteamv1.PortBinding{Kind: "Pod", Name: pod.Name, UID: pod.UID}
	})
}

// unbind loses a port's binding.
func unbind(port *cloudteamv1.NetworkPort) { port.Status.BoundTo = nil }

// remove deletes a port that its finalizer keeps while hold is true.
func (w *cluster) remove(name string, hold bool) {
	w.T.Helper()
	if hold {
		w.editPort(name, func(port *cloudteamv1.NetworkPort) { port.Finalizers = []string{cloudteamv1.PortFinalizer} })
	}
	w.API.Delete(w.T, controllertest.Get[*cloudteamv1.NetworkPort](w.T, w.API, keyOf(name)))
	settle()
}

// few is the answer of a quota that allows no more ports.
func few(line string) error {
	if strings.HasPrefix(line, "create networkports") {
		return apierrors.NewForbidden(controllertest.NetworkPorts.GroupResource(), "", errors.New("exceeded quota: few"))
	}
	return nil
}

// scarce has the API server refuse more ports.
func (w *cluster) scarce() {
	w.few = true
	w.API.Refuse(few)
}

func (w *cluster) ports() []cloudteamv1.NetworkPort {
	list, err := w.Clients.Tracker().List(controllertest.NetworkPorts,
		cloudteamv1.SchemeGroupVersion.WithKind("NetworkPort"), "team")
	if err != nil {
		w.T.Error(err)
		return nil
	}
	return list.(*cloudteamv1.NetworkPortList).Items
}

// bindings gives the Pods that ports are bound to, by port, empty for none.
func (w *cluster) bindings() map[string]string {
	found := map[string]string{}
	for _, port := range w.ports() {
		found[port.Name] = ""
		if port.Status.BoundTo != nil {
			found[port.Name] = port.Status.BoundTo.Name
		}
	}
	return found
}

func (w *cluster) wantBindings(want map[string]string) {
	w.T.Helper()
	expect.EqualWith(w.T, cmp.Options{cmpopts.EquateEmpty()}, want, w.bindings(), "bindings")
}

// onlyPort is the name of the only port that there is.
func (w *cluster) onlyPort() string {
	w.T.Helper()
	names := slices.Collect(maps.Keys(w.bindings()))
	if len(names) != 1 {
		w.T.Fatalf("the ports are %q, want one", names)
	}
	return names[0]
}

// allocated gives what a Pod has, which is to be so many ports. It is not gated by us.
func (w *cluster) allocated(name string, count int) []cloudteamv1.Allocation {
	w.T.Helper()
	pod := w.get(name)
	found, err := consumer.Allocations(pod)
	if err != nil || len(found) != count || consumer.Gated(pod) {
		w.T.Fatalf("Pod %s has %+v (%v), want %d; its gates are %v, its conditions %+v", name, found, err, count,
			pod.Spec.SchedulingGates, pod.Status.Conditions)
	}
	return found
}

// waits holds that a Pod has nothing yet.
func (w *cluster) waits(name string) {
	w.T.Helper()
	if pod := w.get(name); pod.Annotations[cloudteamv1.AnnotationAllocations] != "" || !consumer.Gated(pod) {
		w.T.Errorf("Pod %s is to wait, and has %q", name, pod.Annotations[cloudteamv1.AnnotationAllocations])
	}
}

// says holds that a Pod's condition is such as "False NetworkNotFound", or "" for none, and that its message has a text.
func (w *cluster) says(name, want, text string) {
	w.T.Helper()
	c := conditionOn(w.get(name))
	if c == nil {
		c = &corev1.PodCondition{}
	}
	if got := strings.TrimSpace(string(c.Status) + " " + c.Reason); got != want || !strings.Contains(c.Message, text) {
		w.T.Errorf("the condition of Pod %s is %q (%s), want %q with %q", name, got, c.Message, want, text)
	}
}

// webSays is says for the Deployment.
func (w *cluster) webSays(want, text string) {
	w.T.Helper()
	got, message := "", ""
	for _, c := range w.web().Status.Conditions {
		if c.Type == cloudteamv1.ConditionNetworksReady {
			got, message = string(c.Status)+" "+c.Reason, c.Message
		}
	}
	if got != want || !strings.Contains(message, text) {
		w.T.Errorf("the condition of the Deployment is %q (%s), want %q with %q", got, message, want, text)
	}
}

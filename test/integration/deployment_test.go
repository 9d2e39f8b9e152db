package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	deploymentcontroller "cloudteam.ztgame.com/network-controller/internal/controller/deployment"
	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned"
	clientsetscheme "cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/scheme"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions"
)

// poolWorld is a namespace in which the controller of Deployments works. There is no controller-manager, and none of
// the controllers of Pods and ports: the test plays them all. Its ports have ids and no addresses, so that they are
// never usable and the controller binds none by itself.
type poolWorld struct {
	t         *testing.T
	namespace string
	traffic   *traffic
	// resyncs counts how often the informer of Deployments has handed out once more what it holds.
	resyncs     atomic.Int64
	attachments attachments
	controller  *deploymentcontroller.Controller
	// stop ends the controller, and waits until it has.
	stop func()
}

// traffic sees what the controller asks of the API server, without its lists and watches and the Events.
type traffic struct {
	mu sync.Mutex
	// asked counts requests such as "POST networkports".
	asked map[string]int
	// before, where set, is called before each request is sent on.
	before func(r *http.Request)
}

func (a *traffic) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		folder, last := path.Split(strings.TrimSuffix(r.URL.Path, "/"))
		kind := last
		if r.Method != http.MethodPost {
			kind = path.Base(folder)
		}
		if last == "status" {
			kind = "status"
		}
		if r.Method == http.MethodGet && kind != "deployments" || r.URL.Query().Has("resourceVersion") {
			return next.RoundTrip(r) // an informer's
		}
		a.mu.Lock()
		a.asked[r.Method+" "+kind]++
		before := a.before
		a.mu.Unlock()
		if before != nil {
			before(r)
		}
		return next.RoundTrip(r)
	})
}

func (a *traffic) hook(before func(r *http.Request)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.before = before
}

// take gives what was asked since it was last called.
func (a *traffic) take() map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	asked := a.asked
	a.asked = map[string]int{}
	return asked
}

func (a *traffic) count(what string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked[what]
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// attachments are the NetworkAttachmentDefinitions of somebody else's, by namespace and name.
type attachments struct{ names sync.Map }

func (a *attachments) Has(namespace, name string) bool {
	_, ok := a.names.Load(namespace + "/" + name)
	return ok
}

// servePools runs the controller of Deployments in a namespace of its own until the test ends.
func servePools(t *testing.T) *poolWorld {
	t.Helper()
	w := &poolWorld{t: t, namespace: newNamespace(t)}
	w.start()
	return w
}

// start starts the controller, with a resync each second.
func (w *poolWorld) start() {
	w.t.Helper()
	w.traffic = &traffic{asked: map[string]int{}}
	config := rest.CopyConfig(apiServer)
	config.Wrap(w.traffic.wrap)
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		w.t.Fatal(err)
	}
	api, err := versioned.NewForConfig(config)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(logged(w.t))
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: kubeClient.CoreV1().Events("")})
	factory := informers.NewSharedInformerFactoryWithOptions(api, time.Second, informers.WithNamespace(w.namespace))
	kubeFactory := kubeinformers.NewSharedInformerFactoryWithOptions(
		kube, time.Second, kubeinformers.WithNamespace(w.namespace))
	caches, err := consumer.NewCaches(consumer.InformersOf(factory, kubeFactory), &w.attachments)
	if err != nil {
		w.t.Fatal(err)
	}
	w.controller, err = deploymentcontroller.NewController(api.CloudteamV1(), kube.AppsV1(), kube.CoreV1(), caches,
		broadcaster.NewRecorder(clientsetscheme.Scheme, corev1.EventSource{Component: "network-controller"}), deploymentcontroller.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	_, err = caches.Informers.Deployments.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(was, is any) {
			if was.(*appsv1.Deployment).ResourceVersion == is.(*appsv1.Deployment).ResourceVersion {
				w.resyncs.Add(1)
			}
		},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	factory.StartWithContext(ctx)
	kubeFactory.StartWithContext(ctx)
	done := make(chan error, 1)
	c := w.controller
	go func() { done <- c.Run(ctx, 2) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
		broadcaster.Shutdown()
		factory.Shutdown()
		kubeFactory.Shutdown()
	})
	w.t.Cleanup(w.stop)
}

// pass lets a number of resyncs go by, each of which hands the controller all that there is.
func (w *poolWorld) pass(resyncs int64) {
	w.t.Helper()
	since := w.resyncs.Load()
	eventually(w.t, func() error {
		if n := w.resyncs.Load() - since; n < resyncs {
			return fmt.Errorf("%d resyncs so far", n)
		}
		return nil
	})
}

func (w *poolWorld) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// must is what a call gave, which has to have gone well.
func must[T any](w *poolWorld, done T, err error) T {
	w.t.Helper()
	w.ok(err)
	return done
}

// network creates a Network.
func (w *poolWorld) network(name string) {
	w.t.Helper()
	network := &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{Name: name}}
	network.Spec.CIDR, network.Spec.Gateway = "10.0.0.0/16", "10.0.0.1"
	_, err := networkAPI.CloudteamV1().Networks(w.namespace).Create(w.t.Context(), network, metav1.CreateOptions{})
	w.ok(err)
}

// deploy creates the Deployment "web".
func (w *poolWorld) deploy(networks string, replicas int32) *appsv1.Deployment {
	w.t.Helper()
	return w.deployAs("web", networks, replicas)
}

func (w *poolWorld) deployAs(name, networks string, replicas int32) *appsv1.Deployment {
	w.t.Helper()
	labels := map[string]string{"app": name}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}}
	d.Spec.Replicas, d.Spec.Selector = new(replicas), &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template.Labels = labels
	if networks != "" {
		d.Spec.Template.Annotations = map[string]string{selection.Annotation: networks}
	}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: "web"}}
	created, err := kubeClient.AppsV1().Deployments(w.namespace).Create(w.t.Context(), d, metav1.CreateOptions{})
	return must(w, created, err)
}

// patch merges a patch into the Deployment "web".
func (w *poolWorld) patch(body string, subresource ...string) *appsv1.Deployment {
	w.t.Helper()
	patched, err := kubeClient.AppsV1().Deployments(w.namespace).Patch(w.t.Context(), "web", types.MergePatchType,
		[]byte(body), metav1.PatchOptions{}, subresource...)
	return must(w, patched, err)
}

// declare edits the template's annotation.
func (w *poolWorld) declare(networks string) {
	w.t.Helper()
	value, _ := json.Marshal(networks)
	if networks == "" {
		value = []byte("null")
	}
	w.patch(fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{%q:%s}}}}}`, selection.Annotation, value))
}

func (w *poolWorld) scale(replicas int) {
	w.t.Helper()
	w.patch(fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))
}

// progress writes the status that the Deployment's own controller would.
func (w *poolWorld) progress(replicas, updated int) {
	w.t.Helper()
	d := w.deployment("web")
	w.patch(fmt.Sprintf(`{"status":{"observedGeneration":%d,"replicas":%d,"updatedReplicas":%d}}`,
		d.Generation, replicas, updated), "status")
}

func (w *poolWorld) deployment(name string) *appsv1.Deployment {
	w.t.Helper()
	d, err := kubeClient.AppsV1().Deployments(w.namespace).Get(w.t.Context(), name, metav1.GetOptions{})
	return must(w, d, err)
}

// replicaSet creates a ReplicaSet of a Deployment.
func (w *poolWorld) replicaSet(d *appsv1.Deployment, name string) *appsv1.ReplicaSet {
	w.t.Helper()
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{
		*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))}}}
	set.Spec.Selector, set.Spec.Template = d.Spec.Selector, d.Spec.Template
	created, err := kubeClient.AppsV1().ReplicaSets(w.namespace).Create(w.t.Context(), set, metav1.CreateOptions{})
	return must(w, created, err)
}

// pod creates a Pod of a ReplicaSet.
func (w *poolWorld) pod(set *appsv1.ReplicaSet, name string) *corev1.Pod {
	w.t.Helper()
	pod := &corev1.Pod{Spec: *set.Spec.Template.Spec.DeepCopy(), ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: set.Spec.Template.Labels, Annotations: set.Spec.Template.Annotations,
		OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))},
	}}
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: cloudteamv1.SchedulingGate}}
	created, err := kubeClient.CoreV1().Pods(w.namespace).Create(w.t.Context(), pod, metav1.CreateOptions{})
	return must(w, created, err)
}

// allocate binds a Pod to ports, and tells it so, as the controller of Pods does.
func (w *poolWorld) allocate(pod *corev1.Pod, ports ...string) {
	w.t.Helper()
	var allocations []cloudteamv1.Allocation
	for _, name := range ports {
		w.bind(name, pod)
		allocations = append(allocations, cloudteamv1.Allocation{Port: name, PortID: "id-" + name})
	}
	text, _ := json.Marshal(allocations)
	body, _ := json.Marshal(map[string]any{
		"metadata": map[string]any{"annotations": map[string]string{
			cloudteamv1.AnnotationAllocations: string(text),
			selection.Annotation:              `[{"name":"blue","namespace":"` + w.namespace + `","ips":["10.0.0.7/16"]}]`,
		}},
		"spec": map[string]any{"schedulingGates": nil},
	})
	_, err := kubeClient.CoreV1().Pods(w.namespace).Patch(w.t.Context(), pod.Name, types.MergePatchType, body,
		metav1.PatchOptions{})
	w.ok(err)
}

// bind binds a port to a Pod.
func (w *poolWorld) bind(port string, pod *corev1.Pod) {
	w.t.Helper()
	body, _ := json.Marshal(map[string]any{"status": map[string]any{
		"boundTo": cloudteamv1.PortBinding{Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}})
	_, err := networkAPI.CloudteamV1().NetworkPorts(w.namespace).Patch(w.t.Context(), port, types.MergePatchType, body,
		metav1.PatchOptions{FieldManager: "network-controller-binder"}, "status")
	w.ok(err)
}

// end deletes a Pod. The controller releases its ports.
func (w *poolWorld) end(pod *corev1.Pod) {
	w.t.Helper()
	err := kubeClient.CoreV1().Pods(w.namespace).Delete(w.t.Context(), pod.Name,
		metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
	w.ok(err)
}

// bare creates a Pod that runs already and declares nothing. A port that is bound to it stays so while it lives.
func (w *poolWorld) bare(name string) *corev1.Pod {
	w.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
	pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
	created, err := kubeClient.CoreV1().Pods(w.namespace).Create(w.t.Context(), pod, metav1.CreateOptions{})
	return must(w, created, err)
}

// report writes a port's condition Ready, as the controller of ports does; an empty reason is True.
func (w *poolWorld) report(reason string, ports ...string) {
	w.t.Helper()
	for _, name := range ports {
		condition := metav1.Condition{Type: cloudteamv1.ConditionReady, Status: metav1.ConditionFalse, Reason: reason,
			Message: "it says why", LastTransitionTime: metav1.Now()}
		status := map[string]any{}
		if reason == "" {
			condition.Status, condition.Reason = metav1.ConditionTrue, cloudteamv1.ReasonAvailable
			status["portID"] = "id-" + name
		}
		status["conditions"] = []metav1.Condition{condition}
		body, _ := json.Marshal(map[string]any{"status": status})
		_, err := networkAPI.CloudteamV1().NetworkPorts(w.namespace).Patch(w.t.Context(), name, types.MergePatchType, body,
			metav1.PatchOptions{}, "status")
		w.ok(err)
	}
}

// ports are the ports of the Deployment "web" by name.
func (w *poolWorld) ports() map[string]cloudteamv1.NetworkPort {
	w.t.Helper()
	list, err := networkAPI.CloudteamV1().NetworkPorts(w.namespace).List(w.t.Context(), metav1.ListOptions{})
	w.ok(err)
	found := map[string]cloudteamv1.NetworkPort{}
	for _, port := range list.Items {
		found[port.Name] = port
	}
	return found
}

// awaitPorts waits until exactly the ports of the names exist.
func (w *poolWorld) awaitPorts(names ...string) {
	w.t.Helper()
	slices.Sort(names)
	eventually(w.t, func() error {
		if diff := cmp.Diff(names, slices.Sorted(maps.Keys(w.ports()))); diff != "" {
			return fmt.Errorf("ports (-want +got):\n%s", diff)
		}
		return nil
	})
}

// pool are the names of the first n ports on the network "blue".
func pool(n int) []string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("web-blue-%d", i))
	}
	return names
}

// awaitCondition waits until the Deployment "web" has the condition, such as "False NetworkNotFound", and returns its
// message. Empty: until it has none.
func (w *poolWorld) awaitCondition(want string) (message string) {
	w.t.Helper()
	eventually(w.t, func() error {
		got := ""
		for _, c := range w.deployment("web").Status.Conditions {
			if c.Type == cloudteamv1.ConditionNetworksReady {
				got, message = string(c.Status)+" "+c.Reason, c.Message
			}
		}
		if got != want {
			return fmt.Errorf("the condition is %q (%s), want %q", got, message, want)
		}
		return nil
	})
	return message
}

// awaitEvents waits until exactly the Events given, each such as "Warning NetworkNotFound", have been sent.
func (w *poolWorld) awaitEvents(want ...string) {
	w.t.Helper()
	eventually(w.t, func() error {
		list, err := kubeClient.CoreV1().Events(w.namespace).List(w.t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		var got []string
		for _, e := range list.Items {
			for range e.Count {
				got = append(got, e.Type+" "+e.Reason)
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("Events (-want +got):\n%s", diff)
		}
		return nil
	})
}

// wantAsked holds what the controller asked since this was last called.
func (w *poolWorld) wantAsked(want map[string]int) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.traffic.take()); diff != "" {
		w.t.Errorf("asked of the API server (-want +got):\n%s", diff)
	}
}

// quiet holds that the controller asks nothing while nothing happens.
func (w *poolWorld) quiet() {
	w.t.Helper()
	w.pass(1)
	w.traffic.take()
	w.pass(2)
	w.wantAsked(map[string]int{})
}

func TestDeploymentController(t *testing.T) {
	for name, test := range map[string]func(t *testing.T, w *poolWorld){
		"each replica has a port, and at rest nothing is asked": func(t *testing.T, w *poolWorld) {
			w.network("blue")
			d := w.deploy("blue", 5)
			w.awaitPorts(pool(5)...)
			for name, port := range w.ports() {
				if !metav1.IsControlledBy(&port, d) || port.Spec.NetworkName != "blue" {
					t.Errorf("%s is %+v of %+v", name, port.Spec, port.OwnerReferences)
				}
			}
			w.report("", pool(5)...)
			w.quiet()
			w.awaitCondition("")
			w.awaitEvents()

			w.stop()
			w.start()
			w.pass(2)
			w.wantAsked(map[string]int{})
		},
		"a pool of 500 is made port by port once": func(_ *testing.T, w *poolWorld) {
			w.network("blue")
			set := w.replicaSet(w.deploy("blue", 500), "web-1")
			w.awaitPorts(pool(100)...) // before there is a Pod
			for i := range 500 {
				w.pod(set, fmt.Sprintf("web-1-%d", i))
			}
			w.awaitPorts(pool(500)...)
			w.pass(2)
			if n := w.traffic.count("POST networkports"); n != 500 {
				w.t.Errorf("%d creates of 500 ports", n)
			}
		},
		"scaled down, the pool follows when Pods have given up their ports": func(_ *testing.T, w *poolWorld) {
			w.network("blue")
			set := w.replicaSet(w.deploy("blue", 5), "web-1")
			w.awaitPorts(pool(5)...)
			w.report("", pool(5)...)
			var pods []*corev1.Pod
			for i, port := range pool(5) {
				pod := w.pod(set, fmt.Sprintf("web-1-%d", i))
				w.allocate(pod, port)
				pods = append(pods, pod)
			}
			w.scale(2)
			w.quiet()
			w.awaitPorts(pool(5)...)
			for _, i := range []int{0, 1, 3} {
				w.end(pods[i])
			}
			w.awaitPorts("web-blue-2", "web-blue-4")
			w.scale(3)
			w.awaitPorts("web-blue-0", "web-blue-2", "web-blue-4")
		},
		"a pool whose Deployment was deleted without it goes, each port after its Pod": func(t *testing.T, w *poolWorld) {
			w.network("blue")
			set := w.replicaSet(w.deploy("blue", 3), "web-1")
			w.awaitPorts(pool(3)...)
			pod := w.pod(set, "web-1-a")
			w.allocate(pod, "web-blue-0")
			ports := networkAPI.CloudteamV1().NetworkPorts(w.namespace)
			strip := func(name string) {
				_, err := ports.Patch(t.Context(), name, types.MergePatchType, fmt.Appendf(nil,
					`{"metadata":{"ownerReferences":null,"finalizers":[%q]}}`, cloudteamv1.PortFinalizer), metav1.PatchOptions{})
				w.ok(err)
			}
			w.stop()
			// As garbage collection does for kubectl delete --cascade=orphan, and while no controller runs.
			for _, name := range pool(3) {
				strip(name)
			}
			w.ok(kubeClient.AppsV1().Deployments(w.namespace).Delete(t.Context(), "web", metav1.DeleteOptions{}))
			w.start()
			eventually(w.t, func() error {
				for name, port := range w.ports() {
					if port.DeletionTimestamp == nil {
						return fmt.Errorf("%s stays", name)
					}
				}
				return nil
			})
		},
		"a port that is bound at this moment is not deleted": func(t *testing.T, w *poolWorld) {
			w.network("blue")
			w.deploy("blue", 1)
			w.awaitPorts("web-blue-0")
			late := w.bare("late")
			var once sync.Once
			w.traffic.hook(func(r *http.Request) {
				if r.Method == http.MethodDelete {
					once.Do(func() { w.bind("web-blue-0", late) })
				}
			})
			w.scale(0)
			eventually(w.t, func() error {
				if w.traffic.count("DELETE networkports") == 0 {
					return errors.New("no port was deleted")
				}
				return nil
			})
			w.quiet()
			if port := w.ports()["web-blue-0"]; port.Status.BoundTo == nil || port.DeletionTimestamp != nil {
				t.Errorf("the port is %+v", port)
			}
			w.end(late)
			w.awaitPorts()
		},
		"Pods that wait beyond the replicas have ports made": func(_ *testing.T, w *poolWorld) {
			w.network("blue")
			set := w.replicaSet(w.deploy("blue", 1), "web-1")
			w.awaitPorts(pool(1)...)
			old := w.pod(set, "old")
			w.allocate(old, "web-blue-0")
			fresh := w.pod(set, "fresh")
			w.awaitPorts(pool(2)...)
			w.allocate(fresh, "web-blue-1")
			w.end(old)
			w.awaitPorts("web-blue-1")
		},
		"a rolling update has ports for its surge, which go afterwards": func(_ *testing.T, w *poolWorld) {
			w.network("blue")
			w.deploy("blue", 3)
			w.awaitPorts(pool(3)...)
			w.progress(3, 3)
			w.pass(1)
			w.patch(`{"spec":{"template":{"spec":{"priority":null,"hostname":"next"}}}}`)
			w.awaitPorts(pool(4)...)
			w.progress(4, 1)
			w.report("", pool(4)...)
			w.quiet()
			w.progress(3, 3)
			w.awaitPorts(pool(3)...)
			w.quiet()
		},
		"without the annotation the free ports go": func(_ *testing.T, w *poolWorld) {
			w.network("blue")
			w.deploy("blue", 2)
			w.awaitPorts(pool(2)...)
			pod := w.bare("a")
			w.bind("web-blue-0", pod)
			w.declare("")
			w.awaitPorts("web-blue-0")
			w.end(pod)
			w.awaitPorts()
			w.quiet()
			w.awaitCondition("")
		},
		"a Network that is missing is told, and used once it is there": func(t *testing.T, w *poolWorld) {
			w.network("green")
			w.deploy("blue,green", 1)
			if got := w.awaitCondition("False NetworkNotFound"); !strings.Contains(got, " "+w.namespace+"/blue: ") {
				t.Errorf("the message is %q", got)
			}
			w.awaitPorts("web-green-0")
			w.report("", "web-green-0")
			w.quiet()
			w.awaitEvents("Warning NetworkNotFound")
			w.network("blue")
			w.awaitPorts("web-blue-0", "web-green-0")
			w.awaitCondition("False PortsNotReady")
			w.report("", "web-blue-0")
			w.awaitCondition("True Allocated")
			w.awaitEvents("Warning NetworkNotFound", "Normal Allocated")
			w.quiet()
		},
		"what is somebody else's attachment is left to Multus": func(_ *testing.T, w *poolWorld) {
			w.deploy("theirs", 1)
			w.awaitCondition("False NetworkNotFound")
			w.attachments.names.Store(w.namespace+"/theirs", true)
			w.controller.EnqueueDeclaring(cache.NewObjectName(w.namespace, "theirs"))
			w.awaitCondition("True Allocated")
			w.awaitPorts()
			w.quiet()
		},
		"an annotation that cannot be read is told, and costs no port": func(t *testing.T, w *poolWorld) {
			w.network("blue")
			w.deploy("blue", 2)
			w.awaitPorts(pool(2)...)
			w.report("", pool(2)...)
			w.declare(`[{"name":"blue","mac":"x"}]`)
			if got := w.awaitCondition("False InvalidNetworks"); !strings.Contains(got, `"x" is no MAC address`) {
				t.Errorf("the message is %q", got)
			}
			w.quiet()
			w.awaitPorts(pool(2)...)
			w.awaitEvents("Warning InvalidNetworks")
			w.declare("blue")
			w.awaitCondition("True Allocated")
			w.awaitPorts(pool(2)...)
		},
		"taken back, a mistake leaves no complaint behind": func(_ *testing.T, w *poolWorld) {
			w.deploy("{", 2)
			w.awaitCondition("False InvalidNetworks")
			w.declare("")
			w.awaitCondition("True Allocated")
			w.quiet()
		},
		"an address for three replicas is one port and a sentence": func(t *testing.T, w *poolWorld) {
			w.network("blue")
			w.deploy(`[{"name":"blue","ips":["10.0.0.9"]}]`, 3)
			w.awaitPorts("web-blue-0")
			if got := w.awaitCondition("False InvalidNetworks"); !strings.Contains(got, "spec.replicas is 3") {
				t.Errorf("the message is %q", got)
			}
			if diff := cmp.Diff([]string{"10.0.0.9"}, w.ports()["web-blue-0"].Spec.Addresses); diff != "" {
				t.Errorf("addresses (-want +got):\n%s", diff)
			}
			w.report("", "web-blue-0")
			w.scale(1)
			w.awaitCondition("True Allocated")
			w.quiet()
			w.awaitPorts("web-blue-0")
		},
		"ports that fail are told once, and hold up no other": func(t *testing.T, w *poolWorld) {
			w.network("blue")
			w.deploy("blue", 3)
			w.awaitPorts(pool(3)...)
			w.report("", "web-blue-0")
			w.report("AddressesExhausted", "web-blue-1")
			const one = "1 of 3 ports cannot be created; web-blue-1: AddressesExhausted: it says why"
			if diff := cmp.Diff(one, w.awaitCondition("False PortsFailed")); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
			w.report("AddressesExhausted", "web-blue-2")
			eventually(w.t, func() error {
				if got := w.awaitCondition("False PortsFailed"); !strings.HasPrefix(got, "2 of 3 ports") {
					return errors.New(got)
				}
				return nil
			})
			// One of them tries, and then one more, and two more.
			w.awaitPorts(pool(2)...)
			w.scale(4)
			w.report("", "web-blue-1")
			w.awaitPorts(pool(3)...)
			w.report("", "web-blue-2")
			w.awaitPorts(pool(4)...)
			w.report("", "web-blue-3")
			w.awaitCondition("True Allocated")
			w.awaitEvents("Warning PortsFailed", "Normal Allocated")
			w.quiet()
		},
		"a quota is told, and what it allows is made": func(t *testing.T, w *poolWorld) {
			quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "few"}}
			counted := corev1.ResourceName("count/networkports.cloudteam.ztgame.com")
			quota.Spec.Hard = corev1.ResourceList{counted: resource.MustParse("3")}
			quotas := kubeClient.CoreV1().ResourceQuotas(w.namespace)
			quota, err := quotas.Create(t.Context(), quota, metav1.CreateOptions{})
			w.ok(err)
			// What the controller-manager would count.
			quota.Status.Hard = quota.Spec.Hard
			quota.Status.Used = corev1.ResourceList{counted: resource.MustParse("0")}
			_, err = quotas.UpdateStatus(t.Context(), quota, metav1.UpdateOptions{})
			w.ok(err)
			w.network("blue")
			w.deploy("blue", 50)
			got := w.awaitCondition("False PortsFailed")
			if !strings.Contains(got, "of 50 ports cannot be created") || !strings.Contains(got, "exceeded quota: few") {
				t.Errorf("the message is %q", got)
			}
			if n := len(w.ports()); n != 3 {
				t.Errorf("there are %d ports, want the 3 that the quota allows", n)
			}
			if n := w.traffic.count("POST networkports"); n > 20 {
				t.Errorf("%d creates were tried against a quota of 3", n)
			}
			w.awaitEvents("Warning PortsFailed")
			w.scale(3)
			w.report("", slices.Collect(maps.Keys(w.ports()))...)
			w.awaitCondition("True Allocated")
		},
		"in a namespace that goes nothing is told": func(t *testing.T, w *poolWorld) {
			w.network("blue")
			w.deploy("blue", 0)
			if err := kubeClient.CoreV1().Namespaces().Delete(t.Context(), w.namespace, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			w.scale(1)
			eventually(w.t, func() error {
				if w.traffic.count("POST networkports") == 0 {
					return errors.New("no create was tried")
				}
				return nil
			})
			w.quiet()
			w.awaitCondition("")
			w.awaitPorts()
		},
		"for a Deployment that goes nothing is made": func(t *testing.T, w *poolWorld) {
			w.network("blue")
			w.deploy("blue", 2)
			w.awaitPorts(pool(2)...)
			err := kubeClient.AppsV1().Deployments(w.namespace).Delete(t.Context(), "web",
				metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationForeground)})
			w.ok(err)
			for _, name := range pool(2) {
				err := networkAPI.CloudteamV1().NetworkPorts(w.namespace).Delete(t.Context(), name, metav1.DeleteOptions{})
				w.ok(err)
			}
			w.quiet()
			w.awaitPorts()
			// What garbage collection would do then. The next of the name begins anew.
			w.patch(`{"metadata":{"finalizers":null}}`)
			w.deploy("blue", 1)
			w.awaitPorts("web-blue-0")
		},
		"of one that is made anew, the ports of the earlier one are left to garbage collection": func(
			t *testing.T, w *poolWorld,
		) {
			w.network("blue")
			w.deploy("blue", 1)
			w.awaitPorts("web-blue-0")
			was := w.ports()["web-blue-0"]
			err := kubeClient.AppsV1().Deployments(w.namespace).Delete(t.Context(), "web",
				metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)})
			w.ok(err)
			eventually(w.t, func() error {
				_, err := kubeClient.AppsV1().Deployments(w.namespace).Get(t.Context(), "web", metav1.GetOptions{})
				if !apierrors.IsNotFound(err) {
					return fmt.Errorf("reading it: %w", err)
				}
				return nil
			})
			again := w.deploy("blue", 1)
			w.awaitPorts("web-blue-0", "web-blue-1")
			now := w.ports()
			if diff := cmp.Diff(was, now["web-blue-0"]); diff != "" {
				t.Errorf("the earlier one's port was changed (-before +after):\n%s", diff)
			}
			if port := now["web-blue-1"]; !metav1.IsControlledBy(&port, again) {
				t.Errorf("the port's owners are %+v", port.OwnerReferences)
			}
		},
		"a port that is deleted by hand comes back": func(t *testing.T, w *poolWorld) {
			w.network("blue")
			w.deploy("blue", 2)
			w.awaitPorts(pool(2)...)
			was := w.ports()["web-blue-0"]
			err := networkAPI.CloudteamV1().NetworkPorts(w.namespace).Delete(t.Context(), was.Name, metav1.DeleteOptions{})
			w.ok(err)
			eventually(w.t, func() error {
				if is := w.ports()["web-blue-0"]; is.UID == was.UID || is.UID == "" {
					return errors.New("it has not come back")
				}
				return nil
			})
			w.awaitPorts(pool(2)...)
		},
		"a Deployment that declares nothing is not touched": func(t *testing.T, w *poolWorld) {
			before := w.deploy("", 3)
			set := w.replicaSet(before, "web-1")
			w.pod(set, "web-1-0")
			w.progress(1, 1)
			before = w.deployment("web")
			w.pass(3)
			w.wantAsked(map[string]int{})
			if diff := cmp.Diff(before, w.deployment("web")); diff != "" {
				t.Errorf("it was written (-before +after):\n%s", diff)
			}
			w.awaitPorts()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, servePools(t))
		})
	}
}

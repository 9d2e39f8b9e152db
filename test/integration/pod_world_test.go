package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	deploymentcontroller "cloudteam.ztgame.com/network-controller/internal/controller/deployment"
	podcontroller "cloudteam.ztgame.com/network-controller/internal/controller/pod"
	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned"
	clientsetscheme "cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/scheme"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions"
)

// podWorld is a namespace with Networks, in which the controllers of Pods and Deployments can be started and stopped.
// There is no controller-manager and no kubelet: the test plays those, and the controller of ports. The pools of
// Deployments are the test's, too: their creates are refused, as by a quota.
type podWorld struct {
	t         *testing.T
	namespace string
	// seen, where set, is a label selector: the controller's cache shows no other Pods.
	seen string

	mu sync.Mutex
	// foreign are the names of NetworkAttachmentDefinitions.
	foreign map[string]bool
	// writes are the controller's requests that change something.
	writes []string
	// meeting, where set, has that many bindings or releases wait for each other before the API server gets any.
	meeting int
	met     chan struct{}
	// before, where set, is called with each request for a port before it is sent.
	before func(r *http.Request)
	// resyncs counts how often the informer of Pods has handed out once more what it holds.
	resyncs int
	// ports counts those that were made ready, for their addresses.
	ports int

	stop func()
	c    *podcontroller.Controller
}

// newPodWorld makes a namespace with the Ready Networks given. The API server gates its Pods.
func newPodWorld(t *testing.T, networks ...string) *podWorld {
	t.Helper()
	w := &podWorld{t: t, namespace: newNamespace(t), foreign: map[string]bool{}, stop: func() {}}
	installAdmission(t)
	// The API server takes a while to see a policy.
	eventually(w.t, func() error {
		pod, err := w.tryPod(newPod("trial", "net"))
		if err == nil && !consumer.Gated(pod) {
			err = fmt.Errorf("the gates are %v", pod.Spec.SchedulingGates)
		}
		return err
	})
	for _, name := range networks {
		w.network(name)
	}
	return w
}

// Has is consumer.Attachments.
func (w *podWorld) Has(namespace, name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.foreign[namespace+"/"+name]
}

// countWrites notes the requests that change something.
type countWrites struct {
	w    *podWorld
	next http.RoundTripper
}

func (c countWrites) RoundTrip(r *http.Request) (*http.Response, error) {
	if refused, err := refusePool(r); refused != nil || err != nil {
		return refused, err
	}
	if r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/networkports/") {
		c.w.meet()
		if c.w.before != nil {
			c.w.before(r)
		}
	}
	response, err := c.next.RoundTrip(r)
	if r.Method != http.MethodGet && !strings.Contains(r.URL.Path, "/deployments/") {
		c.w.mu.Lock()
		defer c.w.mu.Unlock()
		status := 0
		if response != nil {
			status = response.StatusCode
		}
		_, path, _ := strings.Cut(r.URL.Path, c.w.namespace+"/")
		c.w.writes = append(c.w.writes, fmt.Sprintf("%s %s %d", r.Method, path, status))
	}
	return response, err
}

// refusePool answers a create of a port for a Deployment with 403; others it leaves alone.
func refusePool(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/networkports") {
		return nil, nil //nolint:nilnil // neither is for those left alone
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if !bytes.Contains(body, []byte(`"Deployment/`)) {
		return nil, nil //nolint:nilnil // neither is for those left alone
	}
	status := apierrors.NewForbidden(schema.GroupResource{Resource: "networkports"}, "", errors.New("the pool is the test's"))
	text, err := json.Marshal(status.Status())
	return &http.Response{
		StatusCode: http.StatusForbidden, Request: r, Body: io.NopCloser(bytes.NewReader(text)),
		Header: http.Header{"Content-Type": {"application/json"}},
	}, err
}

// meet blocks until as many have come as are to meet, and does nothing afterwards.
func (w *podWorld) meet() {
	w.mu.Lock()
	if w.met == nil {
		w.met = make(chan struct{})
	}
	if w.meeting--; w.meeting == 0 {
		close(w.met)
	}
	late := w.meeting < 0
	w.mu.Unlock()
	if late {
		return
	}
	select {
	case <-w.met:
	case <-w.t.Context().Done():
	}
}

// start runs the controller until stop is called or the test ends, with a resync each second.
func (w *podWorld) start(workers int) {
	w.t.Helper()
	config := rest.CopyConfig(apiServer)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return countWrites{w, next} })
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		w.t.Fatal(err)
	}
	client, err := versioned.NewForConfig(config)
	if err != nil {
		w.t.Fatal(err)
	}
	read, err := metadata.NewForConfig(config)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(logged(w.t))
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: kubeClient.CoreV1().Events("")})
	factory := informers.NewSharedInformerFactoryWithOptions(client, time.Second, informers.WithNamespace(w.namespace))
	kubeFactory := kubeinformers.NewSharedInformerFactoryWithOptions(
		kube, time.Second, kubeinformers.WithNamespace(w.namespace),
		kubeinformers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = "!hidden" }))
	// The test may have the next process see others, and the informer asks at each of its watches.
	seen := w.seen
	podFactory := kubeinformers.NewSharedInformerFactoryWithOptions(kube, time.Second,
		kubeinformers.WithNamespace(w.namespace),
		kubeinformers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = seen }))
	caches, err := consumer.NewCaches(consumer.Informers{
		Networks:     factory.Cloudteam().V1().Networks(),
		Ports:        factory.Cloudteam().V1().NetworkPorts(),
		Pods:         podFactory.Core().V1().Pods(),
		ReplicaSets:  kubeFactory.Apps().V1().ReplicaSets(),
		Deployments:  kubeFactory.Apps().V1().Deployments(),
		StatefulSets: kubeFactory.Apps().V1().StatefulSets(),
	}, w)
	if err != nil {
		w.t.Fatal(err)
	}
	recorder := broadcaster.NewRecorder(clientsetscheme.Scheme, corev1.EventSource{Component: "network-controller"})
	c, err := podcontroller.NewController(client.CloudteamV1(), kube.CoreV1(), kube.AppsV1(), read, caches, nil, nil,
		recorder)
	if err != nil {
		w.t.Fatal(err)
	}
	deployments, err := deploymentcontroller.NewController(
		client.CloudteamV1(), kube.AppsV1(), kube.CoreV1(), caches, recorder, deploymentcontroller.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	_, err = podFactory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(was, is any) {
			if was.(*corev1.Pod).ResourceVersion == is.(*corev1.Pod).ResourceVersion {
				w.mu.Lock()
				w.resyncs++
				w.mu.Unlock()
			}
		},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range []interface{ StartWithContext(context.Context) }{factory, kubeFactory, podFactory} {
		f.StartWithContext(ctx)
	}
	done := make(chan error, 2)
	go func() { done <- c.Run(ctx, workers) }()
	go func() { done <- deployments.Run(ctx, workers) }()
	w.c = c
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := errors.Join(<-done, <-done); err != nil {
			w.t.Error(err)
		}
		broadcaster.Shutdown()
		factory.Shutdown()
		kubeFactory.Shutdown()
		podFactory.Shutdown()
	})
	w.t.Cleanup(w.stop)
}

// takeWrites gives the controller's writes since it was last asked.
func (w *podWorld) takeWrites() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := w.writes
	w.writes = nil
	return taken
}

// awaitWrites waits for the controller's writes since it was last asked, which are to be these. What a write did shows
// before its answer is recorded.
func (w *podWorld) awaitWrites(want ...string) {
	w.t.Helper()
	var writes []string
	eventually(w.t, func() error {
		if writes = append(writes, w.takeWrites()...); len(writes) < len(want) {
			return fmt.Errorf("the writes are %q, want %q", writes, want)
		}
		return nil
	})
	if diff := cmp.Diff(want, writes); diff != "" {
		w.t.Errorf("writes (-want +got):\n%s", diff)
	}
}

// awaitRest waits until the controller writes nothing during two resyncs of a number of Pods. What was under way when
// the test began to wait may still come; a controller that writes at resyncs never comes to rest.
func (w *podWorld) awaitRest(pods int) {
	w.t.Helper()
	const windows = 3
	var writes []string
	for range windows {
		w.takeWrites()
		w.mu.Lock()
		since := w.resyncs
		w.mu.Unlock()
		eventually(w.t, func() error {
			w.mu.Lock()
			defer w.mu.Unlock()
			if n := w.resyncs - since; n < 2*pods {
				return fmt.Errorf("%d resyncs so far", n)
			}
			return nil
		})
		if writes = w.takeWrites(); len(writes) == 0 {
			return
		}
	}
	w.t.Errorf("it wrote at rest: %q", writes)
}

// network makes a Ready Network.
func (w *podWorld) network(name string) {
	w.t.Helper()
	network := &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{Name: name}}
	network.Spec.CIDR, network.Spec.Gateway = "192.168.0.0/16", "192.168.0.1"
	client := networkAPI.CloudteamV1().Networks(w.namespace)
	created, err := client.Create(w.t.Context(), network, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	created.Status.Conditions = []metav1.Condition{conditionReady(metav1.ConditionTrue, "Available", "it is there")}
	if _, err := client.UpdateStatus(w.t.Context(), created, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func conditionReady(status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: cloudteamv1.ConditionReady, Status: status, Reason: reason, Message: message,
		LastTransitionTime: metav1.Now()}
}

// newPod is a Pod that declares networks, as a user would write it.
func newPod(name, networks string, edits ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{selection.Annotation: networks}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	for _, edit := range edits {
		edit(pod)
	}
	return pod
}

// tryPod gives a Pod as it would be stored.
func (w *podWorld) tryPod(pod *corev1.Pod) (*corev1.Pod, error) {
	return kubeClient.CoreV1().Pods(w.namespace).Create(w.t.Context(), pod,
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

func (w *podWorld) create(pod *corev1.Pod) *corev1.Pod {
	w.t.Helper()
	created, err := kubeClient.CoreV1().Pods(w.namespace).Create(w.t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return created
}

func (w *podWorld) pod(name string) *corev1.Pod {
	w.t.Helper()
	pod, err := kubeClient.CoreV1().Pods(w.namespace).Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return pod
}

func (w *podWorld) patchPod(name, patch string, subresource ...string) *corev1.Pod {
	w.t.Helper()
	pod, err := kubeClient.CoreV1().Pods(w.namespace).Patch(w.t.Context(), name, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{}, subresource...)
	if err != nil {
		w.t.Fatal(err)
	}
	return pod
}

// remove deletes a Pod at once, as a kubelet does when the containers have stopped.
func (w *podWorld) remove(name string) {
	w.t.Helper()
	err := kubeClient.CoreV1().Pods(w.namespace).
		Delete(w.t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
	if err != nil {
		w.t.Fatal(err)
	}
}

// allocations gives what a Pod says that it has.
func allocations(pod *corev1.Pod) ([]cloudteamv1.Allocation, error) {
	text := pod.Annotations[cloudteamv1.AnnotationAllocations]
	if text == "" {
		return nil, fmt.Errorf("Pod %s has no allocations; its conditions are %+v", pod.Name, pod.Status.Conditions)
	}
	var found []cloudteamv1.Allocation
	err := json.Unmarshal([]byte(text), &found)
	return found, err
}

// awaitAllocated waits until a Pod has a number of allocations and is not gated by us.
func (w *podWorld) awaitAllocated(name string, count int) (*corev1.Pod, []cloudteamv1.Allocation) {
	w.t.Helper()
	var pod *corev1.Pod
	var found []cloudteamv1.Allocation
	eventually(w.t, func() (err error) {
		pod = w.pod(name)
		found, err = allocations(pod)
		if err == nil && len(found) != count {
			err = fmt.Errorf("it has %+v, want %d", found, count)
		}
		return err
	})
	if consumer.Gated(pod) {
		w.t.Errorf("Pod %s has its allocations and is gated", name)
	}
	return pod, found
}

// awaitCondition waits until a Pod's condition is such as "False NetworkNotFound", or "" for none, and returns its
// message.
func (w *podWorld) awaitCondition(name, want string) string {
	w.t.Helper()
	message := ""
	eventually(w.t, func() error {
		got := ""
		for _, c := range w.pod(name).Status.Conditions {
			if c.Type == cloudteamv1.ConditionNetworksReady {
				got, message = string(c.Status)+" "+c.Reason, c.Message
			}
		}
		if got != want {
			return fmt.Errorf("the condition of %s is %q (%s), want %q", name, got, message, want)
		}
		return nil
	})
	return message
}

// events gives the Events of a Pod, each such as "Warning NetworkNotFound", sorted.
func (w *podWorld) awaitEvents(name string, want ...string) {
	w.t.Helper()
	eventually(w.t, func() error {
		list, err := kubeClient.CoreV1().Events(w.namespace).List(w.t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		var got []string
		for _, e := range list.Items {
			if e.InvolvedObject.Name == name {
				for range e.Count {
					got = append(got, e.Type+" "+e.Reason)
				}
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			return fmt.Errorf("the Events are %q, want %q", got, want)
		}
		return nil
	})
}

// deployment makes a Deployment that declares networks, and a ReplicaSet of it. It has more replicas than any test has
// ports, so that no port is one too many.
func (w *podWorld) deployment(name string, networks ...string) (*appsv1.Deployment, *appsv1.ReplicaSet) {
	w.t.Helper()
	labels := map[string]string{"app": name}
	if len(networks) == 0 {
		networks = []string{"net"}
	}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{
			selection.Annotation: strings.Join(networks, ","),
		}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	deployment, err := kubeClient.AppsV1().Deployments(w.namespace).Create(w.t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(50)), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template,
		},
	}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return deployment, w.replicaSet(deployment, name+"-1")
}

func (w *podWorld) replicaSet(deployment *appsv1.Deployment, name string) *appsv1.ReplicaSet {
	w.t.Helper()
	set, err := kubeClient.AppsV1().ReplicaSets(w.namespace).Create(w.t.Context(), &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(deployment, appsv1.SchemeGroupVersion.WithKind("Deployment")),
		}},
		Spec: appsv1.ReplicaSetSpec{Selector: deployment.Spec.Selector, Template: deployment.Spec.Template},
	}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return set
}

// of makes a Pod a ReplicaSet's.
func of(set *appsv1.ReplicaSet) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Labels = set.Spec.Template.Labels
		pod.OwnerReferences = []metav1.OwnerReference{
			*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet")),
		}
	}
}

// pool makes ports of a Deployment's, named DEPLOYMENT-NETWORK-SLOT, that are not ready.
func (w *podWorld) pool(deployment *appsv1.Deployment, network string, slots ...int) []*cloudteamv1.NetworkPort {
	w.t.Helper()
	var ports []*cloudteamv1.NetworkPort
	for _, slot := range slots {
		port := consumer.NewPort(w.namespace, consumer.PortName(deployment.Name, network, strconv.Itoa(slot)),
			*metav1.NewControllerRef(deployment, appsv1.SchemeGroupVersion.WithKind("Deployment")),
			consumer.Request{Network: cache.NewObjectName(w.namespace, network)})
		created, err := networkAPI.CloudteamV1().NetworkPorts(w.namespace).Create(w.t.Context(), port, metav1.CreateOptions{})
		if err != nil {
			w.t.Fatal(err)
		}
		ports = append(ports, created)
	}
	return ports
}

// setPort writes a port's status as its controller does: all of it, save for what the binder owns.
func (w *podWorld) setPort(ctx context.Context, name string, status map[string]any) error {
	body, err := json.Marshal(map[string]any{
		"apiVersion": cloudteamv1.SchemeGroupVersion.String(), "kind": "NetworkPort",
		"metadata": map[string]any{"name": name}, "status": status,
	})
	if err != nil {
		return err
	}
	_, err = networkAPI.CloudteamV1().NetworkPorts(w.namespace).Patch(ctx, name, types.ApplyPatchType, body,
		metav1.PatchOptions{FieldManager: "network-controller", Force: new(true)}, "status")
	return err
}

// holdPort deletes a port that its finalizer keeps, as that of a port in Neutron does.
func (w *podWorld) holdPort(name string) {
	w.t.Helper()
	ports := networkAPI.CloudteamV1().NetworkPorts(w.namespace)
	_, err := ports.Patch(w.t.Context(), name, types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":["`+cloudteamv1.PortFinalizer+`"]}}`), metav1.PatchOptions{})
	if err == nil {
		err = ports.Delete(w.t.Context(), name, metav1.DeleteOptions{})
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// failPort has a port say that it cannot be made.
func (w *podWorld) failPort(name, reason, message string) {
	w.t.Helper()
	err := w.setPort(w.t.Context(), name, map[string]any{
		"conditions": []metav1.Condition{conditionReady(metav1.ConditionFalse, reason, message)},
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// readyStatus is the status of the n-th port that is made.
func readyStatus(n int, message string) map[string]any {
	return map[string]any{
		"portID": fmt.Sprintf("port-%d", n), "mac": fmt.Sprintf("fa:16:3e:00:00:%02x", n), "mtu": 1450,
		"addresses": []cloudteamv1.PortAddress{{
			Address: fmt.Sprintf("192.168.0.%d/16", n+1), Gateway: "192.168.0.1", SubnetID: "subnet",
		}},
		"conditions": []metav1.Condition{conditionReady(metav1.ConditionTrue, "Available", message)},
	}
}

// readyPort makes a port ready.
func (w *podWorld) readyPort(name string) {
	w.t.Helper()
	w.mu.Lock()
	w.ports++
	n := w.ports
	w.mu.Unlock()
	if err := w.setPort(w.t.Context(), name, readyStatus(n, "it is there")); err != nil {
		w.t.Fatal(err)
	}
}

// servePorts plays the controller of ports until the test ends: it makes every port ready that comes up.
func (w *podWorld) servePorts() {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	watcher, err := networkAPI.CloudteamV1().NetworkPorts(w.namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		cancel()
		w.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range watcher.ResultChan() {
			port, ok := event.Object.(*cloudteamv1.NetworkPort)
			if !ok || event.Type != watch.Added || port.Status.PortID != "" {
				continue
			}
			w.mu.Lock()
			w.ports++
			n := w.ports
			w.mu.Unlock()
			err := w.setPort(ctx, port.Name, readyStatus(n, "it is there"))
			if err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) {
				w.t.Error(err)
			}
		}
	}()
	w.t.Cleanup(func() { cancel(); watcher.Stop(); <-done })
}

func (w *podWorld) port(name string) *cloudteamv1.NetworkPort {
	w.t.Helper()
	port, err := networkAPI.CloudteamV1().NetworkPorts(w.namespace).Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return port
}

// bind writes a port's status.boundTo as another process of the controller would, or removes it where pod is nil.
func (w *podWorld) bind(port string, pod *corev1.Pod) {
	w.t.Helper()
	var binding *cloudteamv1.PortBinding
	if pod != nil {
		binding = &cloudteamv1.PortBinding{Kind: "Pod", Name: pod.Name, UID: pod.UID}
	}
	body, err := json.Marshal(map[string]any{"status": map[string]any{"boundTo": binding}})
	if err != nil {
		w.t.Fatal(err)
	}
	_, err = networkAPI.CloudteamV1().NetworkPorts(w.namespace).Patch(w.t.Context(), port, types.MergePatchType, body,
		metav1.PatchOptions{FieldManager: "network-controller-binder"}, "status")
	if err != nil {
		w.t.Fatal(err)
	}
}

// bindings gives the Pods that ports are bound to, by port, empty for none.
func (w *podWorld) bindings() map[string]string {
	w.t.Helper()
	list, err := networkAPI.CloudteamV1().NetworkPorts(w.namespace).List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	found := map[string]string{}
	for _, port := range list.Items {
		found[port.Name] = ""
		if port.Status.BoundTo != nil {
			found[port.Name] = port.Status.BoundTo.Name
		}
	}
	return found
}

func (w *podWorld) awaitBindings(want map[string]string) {
	w.t.Helper()
	eventually(w.t, func() error {
		if got := w.bindings(); !maps.Equal(got, want) {
			return fmt.Errorf("the bindings are %v, want %v", got, want)
		}
		return nil
	})
}

// history is what the API server has seen of a namespace's Pods and ports.
type history struct {
	mu     sync.Mutex
	states []state
	end    func()
}

// state is an object after a write; gone is true where the write was its end.
type state struct {
	version int
	gone    bool
	pod     *corev1.Pod
	port    *cloudteamv1.NetworkPort
}

// record notes from now on each state of each Pod and port.
func (w *podWorld) record() *history {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	pods, err := kubeClient.CoreV1().Pods(w.namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		cancel()
		w.t.Fatal(err)
	}
	ports, err := networkAPI.CloudteamV1().NetworkPorts(w.namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		cancel()
		w.t.Fatal(err)
	}
	h := &history{}
	var reading sync.WaitGroup
	for _, watcher := range []watch.Interface{pods, ports} {
		reading.Go(func() {
			for event := range watcher.ResultChan() {
				s := state{gone: event.Type == watch.Deleted}
				switch object := event.Object.(type) {
				case *corev1.Pod:
					s.pod = object
					s.version, _ = strconv.Atoi(object.ResourceVersion)
				case *cloudteamv1.NetworkPort:
					s.port = object
					s.version, _ = strconv.Atoi(object.ResourceVersion)
				default: // the watch was ended
					continue
				}
				h.mu.Lock()
				h.states = append(h.states, s)
				h.mu.Unlock()
			}
		})
	}
	h.end = sync.OnceFunc(func() { cancel(); pods.Stop(); ports.Stop(); reading.Wait() })
	w.t.Cleanup(h.end)
	return h
}

// judge replays what was recorded in the order in which etcd has it, which is one for all kinds, and fails the test
// where a port was two live Pods' at any moment, or where a Pod was let go without its port being bound to it.
func (h *history) judge(t *testing.T) {
	t.Helper()
	h.end()
	slices.SortStableFunc(h.states, func(a, b state) int { return a.version - b.version })
	holders := map[string]map[types.UID]string{} // live Pods by the id of a port that they say that they have
	bound := map[string]types.UID{}              // Pods by the id of a port that is bound to them
	let := 0
	for _, s := range h.states {
		if s.port != nil {
			id := s.port.Status.PortID
			bound[id] = ""
			if binding := s.port.Status.BoundTo; binding != nil {
				bound[id] = binding.UID
				for uid, name := range holders[id] {
					if uid != binding.UID {
						t.Errorf("at %d port %s is bound to Pod %s while Pod %s lives", s.version, s.port.Name, binding.Name, name)
					}
				}
			}
			continue
		}
		found, _ := allocations(s.pod)
		for _, a := range found {
			if holders[a.PortID] == nil {
				holders[a.PortID] = map[types.UID]string{}
			}
			if s.gone || consumer.Ended(s.pod) {
				delete(holders[a.PortID], s.pod.UID)
				continue
			}
			if _, known := holders[a.PortID][s.pod.UID]; !known && bound[a.PortID] != s.pod.UID {
				t.Errorf("at %d Pod %s is given port %s, which is bound to %q", s.version, s.pod.Name, a.Port, bound[a.PortID])
			}
			holders[a.PortID][s.pod.UID] = s.pod.Name
			let++
			if len(holders[a.PortID]) > 1 {
				t.Errorf("at %d port %s is that of the Pods %v", s.version, a.Port, holders[a.PortID])
			}
		}
	}
	if let == 0 {
		t.Error("the history has no Pod with a port: it tells nothing")
	}
}

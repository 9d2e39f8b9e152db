package app

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"cloudteam.ztgame.com/network-controller/config/crd"
	attachmentcontroller "cloudteam.ztgame.com/network-controller/internal/controller/attachment"
	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	servicecontroller "cloudteam.ztgame.com/network-controller/internal/controller/service"
	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	fakeclientset "cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/fake"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/virtual"
)

// forgetful is an API server that is out of reach at first.
type forgetful struct {
	discovery.ServerResourcesInterfaceWithContext
	failures int
}

func (f *forgetful) ServerResourcesForGroupVersionWithContext(
	ctx context.Context, groupVersion string,
) (*metav1.APIResourceList, error) {
	if f.failures--; f.failures >= 0 {
		return nil, apierrors.NewServiceUnavailable("it starts")
	}
	return f.ServerResourcesInterfaceWithContext.ServerResourcesForGroupVersionWithContext(ctx, groupVersion)
}

// What is decided once, whether there are NetworkPorts to wait for, is not decided by an answer that failed.
func TestACRDIsMissingOnlyIfTheAPIServerSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fakeclientset.NewSimpleClientset()
		client.Resources = []*metav1.APIResourceList{{
			GroupVersion: portResource.GroupVersion().String(),
			APIResources: []metav1.APIResource{{Name: portResource.Resource}},
		}}
		d := newDiscoverer(client.Discovery())
		d.ServerResourcesInterfaceWithContext = &forgetful{d.ServerResourcesInterfaceWithContext, 2}
		if yes, err := d.installed(t.Context(), portResource); !yes || err != nil {
			t.Errorf("the CRD of NetworkPorts is installed: %t, %v, want true", yes, err)
		}
		if yes, err := d.installed(t.Context(), fooResource); yes || err != nil {
			t.Errorf("the CRD of Foos is installed: %t, %v, want false", yes, err)
		}
	})
}

// playedDiscovery is an API server that serves one group, and counts requests.
type playedDiscovery struct {
	discovery.ServerResourcesInterfaceWithContext
	// mu guards the fields below.
	mu       sync.Mutex
	asked    int
	resource string
	// group is that of NetworkAttachmentDefinitions unless set.
	group string
	err   error
}

func (d *playedDiscovery) ServerResourcesForGroupVersionWithContext(
	_ context.Context, groupVersion string,
) (*metav1.APIResourceList, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked++
	group := attachmentcontroller.Resource.GroupVersion().String()
	if d.group != "" {
		group = d.group
	}
	if groupVersion != group {
		return nil, apierrors.NewNotFound(attachmentcontroller.Resource.GroupResource(), "")
	}
	return &metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: d.resource}}}, d.err
}

// TestAKindThatIsInstalledLaterEndsTheProcess holds it for what is built at the start. Multus' kind needs no other start.
func TestAKindThatIsInstalledLaterEndsTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		resource := consumer.MachineResource
		served := &playedDiscovery{group: resource.GroupVersion().String()}
		p := &process{discovery: &discoverer{ServerResourcesInterfaceWithContext: served}}
		ctx, stop := context.WithCancel(t.Context())
		p.runCtx = ctx
		ended := make(chan error, 1)
		wait := func() {
			var installed bool
			ended <- p.find("virtual machines", &installed, make(chan struct{}), resource)
		}
		go wait()
		<-time.After(time.Hour)
		served.mu.Lock()
		served.resource = resource.Resource
		served.mu.Unlock()
		expect.ErrorSays(t, <-ended, "virtual machines are installed now")
		served.mu.Lock()
		served.resource = ""
		served.mu.Unlock()
		go wait()
		stop()
		if err := <-ended; err != nil {
			t.Errorf("a process that is told to stop ends with %v", err)
		}
	})
}

func TestAwaitPollsUntilTheResourceIsServed(t *testing.T) {
	resource := attachmentcontroller.Resource
	for name, c := range map[string]struct {
		resource string
		err      error
	}{
		"the group is not served":             {"", apierrors.NewNotFound(resource.GroupResource(), "")},
		"the API server does not answer":      {"", errors.New("connection refused")},
		"the group is served for another CRD": {"multi-networkpolicies", nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				served := &playedDiscovery{resource: c.resource, err: c.err}
				d := &discoverer{ServerResourcesInterfaceWithContext: served}
				done := make(chan error, 1)
				logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
				ctx := klog.NewContext(t.Context(), logger)
				go func() { done <- d.await(ctx, 30*time.Second, "missing", resource) }()
				<-time.After(95 * time.Second)
				synctest.Wait()
				served.mu.Lock()
				asked := served.asked
				served.mu.Unlock()
				if asked != 4 || len(done) > 0 {
					t.Fatalf("asked %d times in 95 s, done %t; want 4, at the start and then each 30 s", asked, len(done) > 0)
				}
				if lines := logger.GetSink().(ktesting.Underlier).GetBuffer().Data(); len(lines) != 1 {
					t.Errorf("%d lines are logged, want one: %v", len(lines), lines)
				}
				served.mu.Lock()
				served.resource, served.err = resource.Resource, nil
				served.mu.Unlock()
				<-time.After(30 * time.Second)
				synctest.Wait()
				if len(done) == 0 {
					t.Fatal("it still waits")
				}
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestAMissingCRDIsLoggedWithTheCommandThatInstallsIt(t *testing.T) {
	for command, resource := range map[string]schema.GroupVersionResource{
		crd.Install: floatingIPs, crd.InstallFoos: fooResource,
	} {
		synctest.Test(t, func(t *testing.T) {
			logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
			ctx, cancel := context.WithTimeout(klog.NewContext(t.Context(), logger), time.Minute)
			defer cancel()
			d := &discoverer{ServerResourcesInterfaceWithContext: &playedDiscovery{}}
			_ = d.await(ctx, time.Second, crdMissing, resource)
			if text := logger.GetSink().(ktesting.Underlier).GetBuffer().String(); !strings.Contains(text, command) {
				t.Errorf("%s: logged %q, want %q", resource.Resource, text, command)
			}
		})
	}
}

func TestAwaitEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d := &discoverer{ServerResourcesInterfaceWithContext: &playedDiscovery{}}
	if err := d.await(ctx, time.Second, "missing", networkResource); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
}

func mustTrim(t *testing.T, obj any) {
	t.Helper()
	_, err := trim(obj)
	expect.NoError(t, err)
}

// A pool counts a Pod by its ReplicaSet, and the ReplicaSet by its Deployment.
func TestATrimmedObjectKeepsItsController(t *testing.T) {
	of := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "d", Controller: new(true)}
	owned := metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: "ConfigMap", Name: "other"}, of}}
	for _, obj := range []metav1.Object{
		&appsv1.ReplicaSet{ObjectMeta: owned}, &corev1.Pod{ObjectMeta: owned}, &cloudteamv1.NetworkPort{ObjectMeta: owned},
	} {
		mustTrim(t, obj)
		expect.Equal(t, []metav1.OwnerReference{of}, obj.GetOwnerReferences(), "%T", obj)
	}
}

// A proxy in front of the API server may answer with a page that quotes the request.
func TestAnErrorPageShowsNoServiceAccountToken(t *testing.T) {
	const canary = "canary-service-account-token"
	// A token is sent over TLS alone.
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(http.StatusBadGateway)
		fmt.Fprintln(w, "no server is available for", r.Header)
	}))
	t.Cleanup(server.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	path := filepath.Join(t.TempDir(), "kubeconfig")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{
			"c": {Server: server.URL, CertificateAuthorityData: authority},
		},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {Token: canary}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	}, path)
	expect.NoError(t, err)
	o := NewOptions()
	o.Kubeconfig = path
	config, err := kubeConfig(o)
	expect.NoError(t, err)
	kube, err := kubernetes.NewForConfig(config)
	expect.NoError(t, err)
	_, err = kube.CoreV1().Namespaces().Get(t.Context(), metav1.NamespaceSystem, metav1.GetOptions{})
	if err == nil || !strings.Contains(err.Error(), "no server is available") || strings.Contains(err.Error(), canary) {
		t.Errorf("the error is %v, want one that quotes the page without the token", err)
	}
}

// overfull is an object of which a cache keeps at most a number of bytes of JSON.
type overfull struct {
	obj  metav1.Object
	most int
}

// overfullObjects have more than 256 KiB of annotations, and more of other fields than a person writes.
func overfullObjects() map[string]overfull {
	const many = 256 << 10
	long := strings.Repeat("x", many)
	metadata := func() metav1.ObjectMeta {
		meta := metav1.ObjectMeta{
			Namespace: "team", Name: "a", UID: "uid", ResourceVersion: "7", Generation: 3,
			Labels:      map[string]string{},
			Annotations: map[string]string{"mine": long, selection.Annotation: long, cloudteamv1.AnnotationAllocations: long},
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "set", UID: "set", Controller: new(true)},
			},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: long}},
		}
		for _, key := range []string{cloudteamv1.AnnotationPaused, cloudteamv1.AnnotationTakeBack, cloudteamv1.AnnotationCloud} {
			meta.Annotations[key] = long
		}
		for n := range 1000 {
			meta.Finalizers = append(meta.Finalizers, fmt.Sprintf("example.com/%d%s", n, strings.Repeat("x", 50)))
			meta.Labels[fmt.Sprint("l", n)] = strings.Repeat("x", 63)
			meta.OwnerReferences = append(meta.OwnerReferences, metav1.OwnerReference{
				APIVersion: "v1", Kind: "ConfigMap", Name: fmt.Sprint("c", n), UID: types.UID(fmt.Sprint("c", n)),
			})
		}
		return meta
	}
	var gates []corev1.PodSchedulingGate
	for n := range 1000 {
		gates = append(gates, corev1.PodSchedulingGate{Name: fmt.Sprintf("example.com/%d%s", n, strings.Repeat("x", 50))})
	}
	ofLong := metadata()
	ofLong.OwnerReferences[0].Name = long
	percent := intstr.FromString(strings.Repeat("0", many) + "1%")
	template := corev1.PodTemplateSpec{
		ObjectMeta: metadata(),
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Command: []string{long}}}, HostNetwork: true},
	}
	asking := &corev1.Service{ObjectMeta: metadata(), Spec: corev1.ServiceSpec{
		Selector: metadata().Labels, ExternalName: long, ExternalIPs: []string{long},
	}}
	asking.Annotations[cloudteamv1.AnnotationFloatingIP] = long
	asking.Status.Conditions = []metav1.Condition{{Message: long}}
	asking.Annotations[cloudteamv1.AnnotationEndpointsNetwork] = long
	asking.Annotations[cloudteamv1.AnnotationEndpointsSelector] = long
	asking.Spec.Ports = make([]corev1.ServicePort, 10000)
	attachment := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"config": strings.Repeat(long, 4)}, "status": long,
	}}
	attachment.SetNamespace("team")
	attachment.SetName("a")
	attachment.SetAnnotations(map[string]string{"mine": long})
	controlled := attachment.DeepCopy()
	controlled.SetOwnerReferences(ofNetwork())
	return map[string]overfull{
		"Network":                     {&cloudteamv1.Network{ObjectMeta: metadata()}, 16 << 10},
		"NetworkPort":                 {&cloudteamv1.NetworkPort{ObjectMeta: metadata()}, 16 << 10},
		"SecurityGroup":               {&cloudteamv1.SecurityGroup{ObjectMeta: metadata()}, 16 << 10},
		"FloatingIP":                  {&cloudteamv1.FloatingIP{ObjectMeta: metadata()}, 16 << 10},
		"Service":                     {asking, 12 << 10}, // for both, a floating IP and endpoints
		"StatefulSet":                 {&appsv1.StatefulSet{ObjectMeta: metadata()}, 1 << 10},
		"NetworkAttachmentDefinition": {attachment, 1 << 10},
		"that of a Network":           {controlled, 37 << 10},
		"Pod of a long name's owner":  {&corev1.Pod{ObjectMeta: ofLong}, 34 << 10},
		"ReplicaSet": {&appsv1.ReplicaSet{
			ObjectMeta: metadata(), Spec: appsv1.ReplicaSetSpec{Template: template},
		}, 1 << 10},
		"Deployment": {&appsv1.Deployment{
			ObjectMeta: metadata(), Spec: appsv1.DeploymentSpec{
				Replicas: new(int32(3)), Template: template, Strategy: appsv1.DeploymentStrategy{
					RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &percent, MaxUnavailable: &percent},
				},
			},
		}, 18 << 10},
		"Pod": {&corev1.Pod{
			ObjectMeta: metadata(), Spec: corev1.PodSpec{
				Containers: template.Spec.Containers, NodeName: "n", SchedulingGates: gates,
			},
		}, 34 << 10},
	}
}

// A tenant may write such objects.
func TestACacheKeepsLittleOfAnObject(t *testing.T) {
	for name, c := range overfullObjects() {
		t.Run(name, func(t *testing.T) {
			trimmed, err := trim(c.obj)
			expect.NoError(t, err)
			text, err := json.Marshal(trimmed)
			expect.NoError(t, err)
			if len(text) > c.most {
				t.Errorf("%d bytes are left, want at most %d: %.300s", len(text), c.most, text)
			}
			again, err := trim(trimmed)
			expect.NoError(t, err)
			if twice, _ := json.Marshal(again); !bytes.Equal(text, twice) {
				t.Errorf("a second time changes it: %.2000s and %.2000s", text, twice)
			}
		})
	}
}

// TestACacheKeepsTheSelectorsThatAreAskedFor: a Service that asks for no floating IP needs none, and no cluster has
// Services that select by more labels than a few.
func TestACacheKeepsTheSelectorsThatAreAskedFor(t *testing.T) {
	many := map[string]string{}
	for n := range 1000 {
		many[fmt.Sprint("l", n)] = "x"
	}
	few := map[string]string{"app": "web"}
	asks := map[string]string{cloudteamv1.AnnotationFloatingIP: "public"}
	for sentence, c := range map[string]struct{ annotations, selector, want map[string]string }{
		"it asks":             {asks, few, few},
		"it asks for nothing": {nil, few, nil},
		"of too many labels":  {asks, many, map[string]string{servicecontroller.TooManyLabels: ""}},
		"without a selector":  {asks, nil, nil},
	} {
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: c.annotations}}
		service.Spec.Selector = c.selector
		for range 2 { // a cache may trim what it has trimmed
			mustTrim(t, service)
		}
		expect.Equal(t, c.want, service.Spec.Selector, "%s", sentence)
	}
}

// TestACrowdedObjectKeepsOurFinalizerAndShowsThatItIsCrowded: a controller would otherwise take off the others by a write.
func TestACrowdedObjectKeepsOurFinalizerAndShowsThatItIsCrowded(t *testing.T) {
	const most = managed.MaxFinalizers
	of := func(count int) (all []string) {
		for n := range count {
			all = append(all, fmt.Sprint("example.com/", n))
		}
		return all
	}
	const ours = cloudteamv1.PortFinalizer
	for sentence, c := range map[string]struct{ all, want []string }{
		"few stay":         {append(of(most-1), ours), append(of(most-1), ours)},
		"of many, ours":    {append(of(most), ours), []string{managed.TooManyFinalizers, ours}},
		"of long ones":     {[]string{strings.Repeat("x", managed.MaxFinalizersSize), ours}, []string{managed.TooManyFinalizers, ours}},
		"ours counts once": {append(slices.Repeat([]string{ours}, 500), of(2)...), []string{managed.TooManyFinalizers, ours}},
	} {
		port := &cloudteamv1.NetworkPort{ObjectMeta: metav1.ObjectMeta{Finalizers: c.all}}
		mustTrim(t, port)
		expect.Equal(t, c.want, port.Finalizers, "%s", sentence)
	}
}

func TestATrimmedObjectShowsWhetherItChanged(t *testing.T) {
	network := func(change func(*cloudteamv1.Network)) map[string]string {
		obj := &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
			"mine": "1", cloudteamv1.AnnotationPaused: "true",
		}, Labels: map[string]string{"l": "1"}}}
		change(obj)
		mustTrim(t, obj)
		expect.Equal(t, "true", obj.Annotations[cloudteamv1.AnnotationPaused], "annotations are %v", obj.Annotations)
		return obj.Annotations
	}
	same := network(func(*cloudteamv1.Network) {})
	if !maps.Equal(same, network(func(*cloudteamv1.Network) {})) {
		t.Error("the same Network looks different")
	}
	for what, change := range map[string]func(*cloudteamv1.Network){
		"another value of an annotation": func(n *cloudteamv1.Network) { n.Annotations["mine"] = "2" },
		"another annotation":             func(n *cloudteamv1.Network) { n.Annotations["another"] = "1" },
		"another label":                  func(n *cloudteamv1.Network) { n.Labels["l"] = "2" },
	} {
		if maps.Equal(same, network(change)) {
			t.Errorf("%s does not show", what)
		}
	}

	deployment := func(image string) *appsv1.Deployment {
		obj := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{selection.Annotation: "example-network"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}}, HostNetwork: true},
		}}}
		mustTrim(t, obj)
		return obj
	}
	if a, b := deployment("1"), deployment("1"); !equality.Semantic.DeepEqual(a, b) {
		t.Errorf("one template is two: %v and %v", a, b)
	}
	a, b := deployment("1"), deployment("2")
	if equality.Semantic.DeepEqual(a.Spec.Template, b.Spec.Template) {
		t.Error("another image does not show: a rolling update would get no ports in advance")
	}
	if !a.Spec.Template.Spec.HostNetwork || a.Spec.Template.Annotations[selection.Annotation] != "example-network" {
		t.Errorf("the template is %+v", a.Spec.Template)
	}
}

// ofNetwork are the owners of what a Network has made.
func ofNetwork() []metav1.OwnerReference {
	network := &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "uid"}}
	return []metav1.OwnerReference{*metav1.NewControllerRef(network, cloudteamv1.SchemeGroupVersion.WithKind("Network"))}
}

func TestATrimmedAttachmentKeepsWhatItsNetworkSets(t *testing.T) {
	attachment := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"config": "{}"}}}
	attachment.SetLabels(map[string]string{attachmentcontroller.LabelManagedBy: "network-controller", "mine": "1"})
	attachment.SetOwnerReferences(ofNetwork())
	want := attachment.DeepCopy()
	want.SetLabels(map[string]string{attachmentcontroller.LabelManagedBy: "network-controller"})
	mustTrim(t, attachment)
	expect.Equal(t, want, attachment, "trimmed")
}

// TestANamespaceHasHalfOfTheRequests: the others' requests wait for none of its own. A server that does not answer for a
// second holds nobody up.
func TestANamespaceHasHalfOfTheRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent, answer := map[string]int{}, make(chan struct{})
		var mu sync.Mutex
		config := &rest.Config{Host: "http://127.0.0.1:1", Transport: roundTripper(
			func(r *http.Request) (*http.Response, error) {
				mu.Lock()
				sent[namespaceIn(r.URL.Path)]++
				mu.Unlock()
				<-answer
				return nil, errors.New("down")
			})}
		takeTurns(config)
		transport, err := rest.TransportFor(config)
		expect.NoError(t, err)
		var senders sync.WaitGroup
		send := func(path string, n int) {
			for range n {
				senders.Go(func() {
					r := httptest.NewRequestWithContext(t.Context(), http.MethodPut, path, nil)
					_, _ = transport.RoundTrip(r) //nolint:bodyclose // there is none
				})
			}
			synctest.Wait()
		}
		seen := func() map[string]int {
			mu.Lock()
			defer mu.Unlock()
			return maps.Clone(sent)
		}
		send("/apis/apps/v1/namespaces/loud/deployments/a", 100)
		send("/api/v1/namespaces/quiet/pods/a/status", 1)
		send("/api/v1/nodes", 1)
		send("/api/v1/namespaces/loud/events/a", 1)
		want := map[string]int{"loud": requestsAtOnce / 2, "quiet": 1, "": 1}
		expect.Equal(t, want, seen(), "the requests at first")
		virtual.Elapse(time.Second)
		synctest.Wait()
		want["loud"] = requestsAtOnce
		expect.Equal(t, want, seen(), "the requests after a second")
		close(answer)
		senders.Wait()
		want["loud"] = 101
		expect.Equal(t, want, seen(), "the requests in the end")
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

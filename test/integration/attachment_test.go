package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"cloudteam.ztgame.com/network-controller/internal/controller/attachment"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	clientsetscheme "cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/scheme"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions"
)

// attachmentWorld is a namespace in which the attachment controller works, with the means of a fooWorld to wait for
// objects and Events. There is no controller-manager: nobody collects garbage. Networks are made Ready by the test.
type attachmentWorld struct {
	*fooWorld
	controller *attachment.Controller
	// requests are what the controller asked of the API server, without lists and watches.
	requests *requestLog
	// networkResyncs and attachmentResyncs count how often the informers have handed out once more what they hold.
	networkResyncs, attachmentResyncs atomic.Int64
}

// requestLog is a transport that notes the requests which are no list and no watch.
type requestLog struct {
	http.RoundTripper
	mu    sync.Mutex
	lines []string
}

// RoundTrip is http.RoundTripper.RoundTrip.
func (l *requestLog) RoundTrip(request *http.Request) (*http.Response, error) {
	if collection := filepath.Base(request.URL.Path); request.Method != http.MethodGet ||
		collection != networks.Resource && collection != attachment.Resource.Resource {
		l.mu.Lock()
		l.lines = append(l.lines, request.Method+" "+request.URL.Path)
		l.mu.Unlock()
	}
	return l.RoundTripper.RoundTrip(request)
}

func (l *requestLog) sent() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines)
}

// crds is the resource of CustomResourceDefinitions.
var crds = schema.GroupVersionResource{
	Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
}

// installAttachments installs the CRD of NetworkAttachmentDefinitions until the test ends, as Multus' own manifests
// would.
func installAttachments(t *testing.T) {
	t.Helper()
	w := &fooWorld{t: t}
	served := func() error {
		_, err := kubeClient.Discovery().ServerResourcesForGroupVersion(attachment.Resource.GroupVersion().String())
		return err
	}
	crd := readObjects(t, filepath.Join("testdata", "network-attachment-definitions.yaml"))[0]
	if _, err := anyAPI.Resource(crds).Create(t.Context(), crd, metav1.CreateOptions{
		FieldValidation: metav1.FieldValidationStrict,
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The test's own context is done by now.
		ctx := context.WithoutCancel(t.Context())
		if err := anyAPI.Resource(crds).Delete(ctx, crd.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Error(err)
			return
		}
		eventually(w.t, func() error {
			err := served()
			if apierrors.IsNotFound(err) {
				return nil
			}
			return fmt.Errorf("the API server still serves NetworkAttachmentDefinitions (%w)", err)
		})
	})
	eventually(w.t, served)
}

// serveAttachments runs the attachment controller in a namespace of its own until the test ends, with a resync each
// second. It has one worker, so that what an earlier event led to is done before what a later one does.
func serveAttachments(t *testing.T) *attachmentWorld {
	t.Helper()
	w := &attachmentWorld{fooWorld: &fooWorld{t: t, namespace: newNamespace(t)}, requests: &requestLog{}}
	ctx, cancel := context.WithCancel(logged(t))
	config := rest.CopyConfig(apiServer)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		w.requests.RoundTripper = next
		return w.requests
	})
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: kubeClient.CoreV1().Events("")})
	factory := informers.NewSharedInformerFactoryWithOptions(
		networkAPI, time.Second, informers.WithNamespace(w.namespace))
	attachments := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, time.Second, w.namespace, nil)
	w.controller, err = attachment.NewController(client, attachments.ForResource(attachment.Resource),
		factory.Cloudteam().V1().Networks(),
		broadcaster.NewRecorder(clientsetscheme.Scheme, corev1.EventSource{Component: "network-controller"}),
		attachment.Options{Plugin: "macvlan", Master: "eth1"})
	if err != nil {
		t.Fatal(err)
	}
	for informer, resyncs := range map[cache.SharedIndexInformer]*atomic.Int64{
		factory.Cloudteam().V1().Networks().Informer():          &w.networkResyncs,
		attachments.ForResource(attachment.Resource).Informer(): &w.attachmentResyncs,
	} {
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(was, is any) {
			if was.(metav1.Object).GetResourceVersion() == is.(metav1.Object).GetResourceVersion() {
				resyncs.Add(1)
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	factory.StartWithContext(ctx)
	attachments.Start(ctx.Done())
	done := make(chan error, 1)
	go func() { done <- w.controller.Run(ctx, 1) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		broadcaster.Shutdown()
		factory.Shutdown()
		attachments.Shutdown()
	})
	eventually(w.t, func() error {
		if !w.controller.HasSynced() {
			return errors.New("the caches are not full")
		}
		return nil
	})
	return w
}

// createNetwork creates a Network without a status.
func (w *attachmentWorld) createNetwork(name string) *cloudteamv1.Network {
	w.t.Helper()
	network := &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{Name: name}}
	network.Spec.CIDR = "192.168.0.0/16"
	created, err := networkAPI.CloudteamV1().Networks(w.namespace).
		Create(w.t.Context(), network, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return created
}

// report writes a Network's status as the network controller would, for its present generation.
func (w *attachmentWorld) report(name string, ready metav1.ConditionStatus, change func(*cloudteamv1.NetworkStatus)) {
	w.t.Helper()
	network := w.network(name)
	network.Status.ObservedGeneration = network.Generation
	network.Status.Conditions = []metav1.Condition{{
		Type: cloudteamv1.ConditionReady, Status: ready, ObservedGeneration: network.Generation,
		Reason: cloudteamv1.ReasonAvailable, LastTransitionTime: metav1.Now(),
	}}
	if change != nil {
		change(&network.Status)
	}
	_, err := networkAPI.CloudteamV1().Networks(w.namespace).
		UpdateStatus(w.t.Context(), network, metav1.UpdateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
}

// withMTU is a change of a status.
func withMTU(mtu int32) func(*cloudteamv1.NetworkStatus) {
	return func(status *cloudteamv1.NetworkStatus) { status.MTU = mtu }
}

// createReady creates a Network that is Ready.
func (w *attachmentWorld) createReady(name string) *cloudteamv1.Network {
	w.t.Helper()
	network := w.createNetwork(name)
	w.report(name, metav1.ConditionTrue, withMTU(1450))
	return network
}

func (w *attachmentWorld) network(name string) *cloudteamv1.Network {
	w.t.Helper()
	network, err := networkAPI.CloudteamV1().Networks(w.namespace).Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return network
}

// patchNetwork merges a patch into a Network as a user would.
func (w *attachmentWorld) patchNetwork(name, patch string) {
	w.t.Helper()
	_, err := networkAPI.CloudteamV1().Networks(w.namespace).Patch(w.t.Context(), name, types.MergePatchType,
		[]byte(patch), metav1.PatchOptions{FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *attachmentWorld) attachments() dynamic.ResourceInterface {
	return anyAPI.Resource(attachment.Resource).Namespace(w.namespace)
}

// attachment waits until a NetworkAttachmentDefinition exists and is controlled by the Network.
func (w *attachmentWorld) attachment(network *cloudteamv1.Network) *unstructured.Unstructured {
	w.t.Helper()
	var found *unstructured.Unstructured
	eventually(w.t, func() (err error) {
		found, err = w.attachments().Get(w.t.Context(), network.Name, metav1.GetOptions{})
		if err == nil && !metav1.IsControlledBy(found, network) {
			err = fmt.Errorf("its owners are %+v, not Network %s", found.GetOwnerReferences(), network.UID)
		}
		return err
	})
	return found
}

// awaitConfig waits until a NetworkAttachmentDefinition's configuration, of one plugin, is this plugin's.
func (w *attachmentWorld) awaitConfig(name string, want map[string]any) *unstructured.Unstructured {
	w.t.Helper()
	whole := map[string]any{"cniVersion": "1.0.0", "name": name, "plugins": []any{want}}
	var found *unstructured.Unstructured
	eventually(w.t, func() (err error) {
		found, err = w.attachments().Get(w.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		text, _, err := unstructured.NestedString(found.Object, "spec", "config")
		if err != nil {
			return err
		}
		var got map[string]any
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			return fmt.Errorf("%w: %s", err, text)
		}
		if diff := cmp.Diff(whole, got); diff != "" {
			return fmt.Errorf("configuration (-want +got):\n%s", diff)
		}
		return nil
	})
	return found
}

// plugin is the configuration of the plugin for an MTU and routes.
func plugin(mtu float64, routes ...any) map[string]any {
	ipam := map[string]any{"type": "static"}
	if len(routes) > 0 {
		ipam["routes"] = routes
	}
	return map[string]any{
		"type": "macvlan", "master": "eth1", "mode": "bridge", "mtu": mtu,
		"capabilities": map[string]any{"ips": true, "mac": true}, "ipam": ipam,
	}
}

// patchAttachment changes a NetworkAttachmentDefinition as somebody else would.
func (w *attachmentWorld) patchAttachment(name, patch string) *unstructured.Unstructured {
	w.t.Helper()
	patched, err := w.attachments().Patch(w.t.Context(), name, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		w.t.Fatal(err)
	}
	return patched
}

func (w *attachmentWorld) removeAttachment(name string) {
	w.t.Helper()
	if err := w.attachments().Delete(w.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// createForeign creates a NetworkAttachmentDefinition of somebody else's.
func (w *attachmentWorld) createForeign(name string) *unstructured.Unstructured {
	w.t.Helper()
	theirs := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"config": `{"cniVersion":"0.3.1","type":"bridge"}`},
	}}
	theirs.SetGroupVersionKind(attachment.Kind)
	theirs.SetName(name)
	created, err := w.attachments().Create(w.t.Context(), theirs, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return created
}

// catchUp waits until the controller has done what all that happened before leads to. Another Network, which the one
// worker comes to last, goes through its life: it becomes Ready, which comes after all earlier events of Networks, and
// loses its NetworkAttachmentDefinition, which comes after all earlier events of those. It leads to two Events.
func (w *attachmentWorld) catchUp(name string) {
	w.t.Helper()
	network := w.createReady(name)
	w.attachment(network)
	w.removeAttachment(name)
	w.attachment(network)
}

// wantSame holds a NetworkAttachmentDefinition against what it was.
func (w *attachmentWorld) wantSame(was *unstructured.Unstructured) {
	w.t.Helper()
	is, err := w.attachments().Get(w.t.Context(), was.GetName(), metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	if diff := cmp.Diff(was, is); diff != "" {
		w.t.Errorf("it was changed (-before +after):\n%s", diff)
	}
}

// wantNone fails where there is a NetworkAttachmentDefinition of the name.
func (w *attachmentWorld) wantNone(name string) {
	w.t.Helper()
	if _, err := w.attachments().Get(w.t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		w.t.Errorf("there is a NetworkAttachmentDefinition %q (%v)", name, err)
	}
}

func TestAttachmentController(t *testing.T) {
	installAttachments(t)
	for name, test := range map[string]func(t *testing.T, w *attachmentWorld){
		"it is made when the Network is Ready, not before": func(t *testing.T, w *attachmentWorld) {
			network := w.createNetwork("example")
			w.report("example", metav1.ConditionFalse, nil)
			w.catchUp("other")
			w.wantNone("example")
			w.report("example", metav1.ConditionTrue, withMTU(1450))
			made := w.attachment(network)
			w.awaitConfig("example", plugin(1450))
			if diff := cmp.Diff([]metav1.OwnerReference{{
				APIVersion: "cloudteam.ztgame.com/v1", Kind: "Network", Name: "example", UID: network.UID,
				Controller: new(true), BlockOwnerDeletion: new(true),
			}}, made.GetOwnerReferences()); diff != "" {
				t.Errorf("owners (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(map[string]string{"app.kubernetes.io/managed-by": "network-controller"},
				made.GetLabels()); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
			w.awaitEvents("Normal AttachmentCreated", "Normal AttachmentCreated", "Normal AttachmentCreated")
		},
		"at rest nothing is asked of the API server": func(t *testing.T, w *attachmentWorld) {
			network := w.createReady("example")
			made := w.attachment(network)
			// What the network controller writes as ports come and go.
			for used := range int64(5) {
				w.report("example", metav1.ConditionTrue, func(status *cloudteamv1.NetworkStatus) {
					status.Subnets = []cloudteamv1.SubnetStatus{{ID: "s", CIDR: "192.168.0.0/16", UsedAddresses: new(used)}}
				})
			}
			networks, attachments := w.networkResyncs.Load(), w.attachmentResyncs.Load()
			eventually(w.t, func() error {
				n, a := w.networkResyncs.Load()-networks, w.attachmentResyncs.Load()-attachments
				if n < 3 || a < 3 {
					return fmt.Errorf("%d resyncs of Networks and %d of NetworkAttachmentDefinitions so far", n, a)
				}
				return nil
			})
			want := []string{
				"GET /apis/cloudteam.ztgame.com/v1/namespaces/" + w.namespace + "/networks/example",
				"POST /apis/k8s.cni.cncf.io/v1/namespaces/" + w.namespace + "/network-attachment-definitions",
			}
			if diff := cmp.Diff(want, w.requests.sent()); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			w.wantSame(made)
			w.awaitEvents("Normal AttachmentCreated")
		},
		"it follows its Network while that is Ready": func(_ *testing.T, w *attachmentWorld) {
			w.attachment(w.createReady("example"))
			w.report("example", metav1.ConditionTrue, withMTU(1400))
			kept := w.awaitConfig("example", plugin(1400))

			// Neutron has not got the routes yet; then it breaks down.
			w.patchNetwork("example", `{"spec":{"hostRoutes":[{"destination":"10.1.0.0/16","nextHop":"192.168.0.254"}]}}`)
			w.report("example", metav1.ConditionFalse, withMTU(0))
			w.catchUp("other")
			w.wantSame(kept)

			w.report("example", metav1.ConditionTrue, func(status *cloudteamv1.NetworkStatus) {
				status.MTU, status.Subnets = 1400, []cloudteamv1.SubnetStatus{{ID: "s", CIDR: "192.168.0.0/16"}}
			})
			w.awaitConfig("example", plugin(1400, map[string]any{"dst": "10.1.0.0/16", "gw": "192.168.0.254"}))
			w.patchNetwork("example", `{"spec":{"hostRoutes":null}}`)
			w.report("example", metav1.ConditionTrue, nil)
			w.awaitConfig("example", plugin(1400))
		},
		"changed by hand, it is put back, and what others add stays": func(t *testing.T, w *attachmentWorld) {
			network := w.createReady("example")
			made := w.attachment(network)
			w.patchAttachment("example", `{"metadata":{"labels":{"app.kubernetes.io/managed-by":null,"theirs":"yes"},`+
				`"annotations":{"k8s.v1.cni.cncf.io/resourceName":"acme.com/nic"}},"spec":{"config":"{}"}}`)
			w.awaitConfig("example", plugin(1450))
			eventually(w.t, func() error {
				is := w.attachment(network)
				want := made.DeepCopy()
				want.SetLabels(map[string]string{"app.kubernetes.io/managed-by": "network-controller", "theirs": "yes"})
				want.SetAnnotations(map[string]string{"k8s.v1.cni.cncf.io/resourceName": "acme.com/nic"})
				for _, object := range []*unstructured.Unstructured{want, is} {
					object.SetManagedFields(nil)
					object.SetResourceVersion("")
					object.SetGeneration(0)
				}
				if diff := cmp.Diff(want, is); diff != "" {
					return fmt.Errorf("NetworkAttachmentDefinition (-want +got):\n%s", diff)
				}
				return nil
			})
			w.patchAttachment("example", `{"spec":null}`)
			w.awaitConfig("example", plugin(1450))
			w.awaitEvents("Normal AttachmentCreated", "Normal AttachmentUpdated", "Normal AttachmentUpdated")
		},
		"deleted by hand, it comes back": func(_ *testing.T, w *attachmentWorld) {
			network := w.createReady("example")
			was := w.attachment(network)
			w.removeAttachment("example")
			eventually(w.t, func() error {
				if is := w.attachment(network); is.GetUID() == was.GetUID() {
					return errors.New("it is still the one that was deleted")
				}
				return nil
			})
		},
		"somebody else's is left alone until it goes": func(t *testing.T, w *attachmentWorld) {
			theirs := w.createForeign("example")
			network := w.createReady("example")
			w.awaitEvents("Warning AttachmentExists")
			theirs = w.patchAttachment(theirs.GetName(), `{"spec":{"config":"{\"type\":\"theirs\"}"}}`)
			w.report("example", metav1.ConditionTrue, withMTU(1400))
			w.catchUp("other")
			w.wantSame(theirs)
			w.awaitEvents("Warning AttachmentExists", "Normal AttachmentCreated", "Normal AttachmentCreated")
			if !w.controller.Has(w.namespace, "example") || w.controller.Has(w.namespace, "other") ||
				w.controller.Has(w.namespace, "absent") {
				t.Error("Has does not tell somebody else's from the controller's own")
			}
			w.removeAttachment("example")
			w.attachment(network)
			w.awaitConfig("example", plugin(1400))
			w.awaitEvents("Warning AttachmentExists", "Normal AttachmentCreated", "Normal AttachmentCreated",
				"Normal AttachmentCreated")
		},
		"taken away, it is let go": func(_ *testing.T, w *attachmentWorld) {
			w.attachment(w.createReady("example"))
			taken := w.patchAttachment("example", `{"metadata":{"ownerReferences":null},"spec":{"config":"{}"}}`)
			w.awaitEvents("Normal AttachmentCreated", "Warning AttachmentExists")
			w.wantSame(taken)
		},
		"made anew, a Network does not take that of the earlier one": func(t *testing.T, w *attachmentWorld) {
			was := w.attachment(w.createReady("example"))
			err := networkAPI.CloudteamV1().Networks(w.namespace).Delete(t.Context(), "example", metav1.DeleteOptions{})
			if err != nil {
				t.Fatal(err)
			}
			again := w.createReady("example")
			w.catchUp("other")
			w.wantSame(was)
			// What garbage collection would do.
			w.removeAttachment("example")
			w.attachment(again)
			w.awaitEvents("Normal AttachmentCreated", "Normal AttachmentCreated", "Normal AttachmentCreated",
				"Normal AttachmentCreated")
		},
		"deleted in the foreground, a Network gets none anew": func(t *testing.T, w *attachmentWorld) {
			w.attachment(w.createReady("example"))
			err := networkAPI.CloudteamV1().Networks(w.namespace).Delete(t.Context(), "example",
				metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationForeground)})
			if err != nil {
				t.Fatal(err)
			}
			// What garbage collection would do, before it lets the Network go.
			w.removeAttachment("example")
			w.catchUp("other")
			w.wantNone("example")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, serveAttachments(t))
		})
	}
}

package attachment

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

var exampleKey = cache.NewObjectName("team", "example")

// world is a controller whose caches are filled by hand, so that they are as far behind the API server as a test wants.
type world struct {
	t        *testing.T
	c        *Controller
	networks cache.Indexer
	events   controllertest.Events
	calls    controllertest.CallLog

	// live is the Network at the API server; nil for none. api has the NetworkAttachmentDefinition.
	live *cloudteamv1.Network
	api  *controllertest.APIServer
	// admit is an admission webhook.
	admit func(*unstructured.Unstructured)
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, live: example(), networks: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}),
		admit: func(*unstructured.Unstructured) {}}
	client := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme())
	w.api = controllertest.NewAPIServer(&w.calls)
	controllertest.Serve(w.api, client, Resource, controllertest.Rules[*unstructured.Unstructured]{
		Line: func(action clienttesting.Action) string { return action.GetVerb() + " " + Resource.Resource },
		Admit: func(_ clienttesting.Action, attachment *unstructured.Unstructured) error {
			w.admit(attachment)
			return nil
		},
	})
	client.PrependReactor("get", networkResource.Resource,
		func(clienttesting.Action) (bool, runtime.Object, error) {
			w.calls.Note("get networks")
			if w.live == nil {
				return true, nil, apierrors.NewNotFound(networkResource.GroupResource(), exampleKey.Name)
			}
			object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(w.live)
			return true, &unstructured.Unstructured{Object: object}, err
		})
	w.c = &Controller{
		client: client, networks: w.networks, recorder: &w.events,
		store:   cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}),
		options: Options{Plugin: "macvlan"},
	}
	w.deliver()
	return w
}

// attachment is the NetworkAttachmentDefinition at the API server, or nil.
func (w *world) attachment() *unstructured.Unstructured {
	found, _ := controllertest.Find[*unstructured.Unstructured](w.api, exampleKey)
	return found
}

// put has a NetworkAttachmentDefinition of somebody else's at the API server, with the owners given.
func (w *world) put(owners ...metav1.OwnerReference) {
	w.remove()
	attachment := desired(example(), `{"type":"theirs"}`)
	attachment.SetOwnerReferences(owners)
	attachment.SetLabels(nil)
	w.api.Create(w.t, attachment)
}

// edit changes the NetworkAttachmentDefinition as somebody else would.
func (w *world) edit(change func(*unstructured.Unstructured)) {
	w.t.Helper()
	controllertest.Edit(w.t, w.api, exampleKey, change)
}

// empty has somebody else empty its spec.
func (w *world) empty() {
	w.t.Helper()
	w.edit(func(a *unstructured.Unstructured) { a.Object["spec"] = map[string]any{} })
}

func (w *world) remove() {
	if found := w.attachment(); found != nil {
		w.api.Delete(w.t, found)
	}
}

// deliver brings the caches up to date.
func (w *world) deliver() {
	w.t.Helper()
	var networks, attachments []any
	if w.live != nil {
		networks = append(networks, w.live.DeepCopy())
	}
	if found := w.attachment(); found != nil {
		attachments = append(attachments, found)
	}
	version := w.api.Version()
	expect.NoError(w.t, errors.Join(w.networks.Replace(networks, version), w.c.store.Replace(attachments, version)))
}

// sync syncs the example, and holds that it changes no cached object.
func (w *world) sync() (requeue bool, err error) {
	w.t.Helper()
	untouched := controllertest.Untouched(w.t, w.networks, w.c.store.(cache.Indexer))
	err = w.c.sync(controllertest.Logged(w.t), exampleKey)
	untouched()
	return controllertest.Requeues(controller.Result{}, err)
}

// mustSync is a sync that has nothing left to wait for; the caches hear of what it wrote.
func (w *world) mustSync() {
	w.t.Helper()
	w.mustSyncUnseen()
	w.deliver()
}

// catchUp brings the caches up to date, and is a mustSync.
func (w *world) catchUp() {
	w.t.Helper()
	w.deliver()
	w.mustSync()
}

// mustSyncUnseen is one of whose writes the caches do not hear.
func (w *world) mustSyncUnseen() {
	w.t.Helper()
	if requeue, err := w.sync(); requeue || err != nil {
		w.t.Fatalf("sync: requeue %t, error %v", requeue, err)
	}
}

// mustWait is a sync that finds a cache behind.
func (w *world) mustWait() {
	w.t.Helper()
	if requeue, err := w.sync(); !requeue || err != nil {
		w.t.Fatalf("sync: requeue %t, error %v; want it looked at again", requeue, err)
	}
}

// mustFail is a sync with an error, which has it tried again.
func (w *world) mustFail() {
	w.t.Helper()
	if _, err := w.sync(); err == nil {
		w.t.Fatal("sync: no error, so that the key would not be tried again")
	}
	w.deliver()
}

// wantAsked holds what was asked of the API server since this was last called.
func (w *world) wantAsked(want ...string) {
	w.t.Helper()
	for i, verb := range want {
		want[i] = verb + " " + Resource.Resource
		if verb == "recheck" {
			want[i] = "get networks"
		}
	}
	w.calls.Want(w.t, want...)
}

// wantEvents holds the Events since this was last called, and returns the last one.
func (w *world) wantEvents(want ...string) (last string) {
	w.t.Helper()
	var got []string
	for _, last = range w.events.Take() {
		words := strings.SplitN(last, " ", 3)
		got = append(got, words[0]+" "+words[1])
	}
	expect.Equal(w.t, want, got, "Events")
	return last
}

func (w *world) wantConfig(part string) {
	w.t.Helper()
	attachment := controllertest.Get[*unstructured.Unstructured](w.t, w.api, exampleKey)
	config, _, err := unstructured.NestedString(attachment.Object, "spec", "config")
	if err != nil || !strings.Contains(config, part) {
		w.t.Errorf("the configuration is %s (%v), want %s in it", config, err, part)
	}
}

func TestSync(t *testing.T) {
	forbidden := apierrors.NewForbidden(Resource.GroupResource(), exampleKey.Name, errors.New("no rule"))
	for name, test := range map[string]func(t *testing.T, w *world){
		"a Ready Network gets one, and at rest nothing is asked": func(t *testing.T, w *world) {
			w.mustSync()
			w.wantAsked("recheck", "create")
			w.wantEvents("Normal AttachmentCreated")
			w.wantConfig(`"mtu":1450`)
			for range 3 {
				w.mustSync()
			}
			w.wantAsked()
			w.wantEvents()
			if w.c.Has("team", "example") {
				t.Error("it counts as somebody else's")
			}
		},
		"a Network that is not Ready gets none, and keeps what it has as it is": func(_ *testing.T, w *world) {
			ready := w.live.DeepCopy()
			w.live.Status = cloudteamv1.NetworkStatus{}
			w.catchUp()
			w.wantAsked()
			w.live = ready
			w.catchUp()
			w.wantAsked("recheck", "create")
			w.wantEvents("Normal AttachmentCreated")
			w.live = w.live.DeepCopy()
			w.live.Status = cloudteamv1.NetworkStatus{}
			w.catchUp()
			w.wantAsked()
			w.wantConfig(`"mtu":1450`)
		},
		"a Network of which the cache has a part gets none, and keeps what it has as it is": func(_ *testing.T, w *world) {
			whole := w.live.DeepCopy()
			part := w.live.DeepCopy()
			part.Annotations = map[string]string{controller.AnnotationTooLarge: ""}
			part.Status.MTU = 1400
			for _, w.live = range []*cloudteamv1.Network{part, whole, part} {
				w.catchUp()
			}
			w.wantAsked("recheck", "create")
			w.wantEvents("Normal AttachmentCreated")
			w.wantConfig(`"mtu":1450`)
		},
		"it follows the MTU and the routes": func(_ *testing.T, w *world) {
			w.mustSync()
			w.live = w.live.DeepCopy()
			w.live.Status.MTU = 1400
			w.live.Spec.HostRoutes = []cloudteamv1.HostRoute{{Destination: "10.0.0.0/8", NextHop: "192.168.0.9"}}
			w.catchUp()
			w.wantAsked("recheck", "create", "patch")
			w.wantConfig(`"mtu":1400`)
			w.wantConfig(`{"dst":"10.0.0.0/8","gw":"192.168.0.9"}`)
			w.wantEvents("Normal AttachmentCreated", "Normal AttachmentUpdated")
		},
		"its configuration and label are put back, and nothing else": func(t *testing.T, w *world) {
			w.mustSync()
			made := w.attachment()
			w.edit(func(a *unstructured.Unstructured) {
				a.Object["spec"] = map[string]any{"config": "{}", "other": "theirs"}
				a.SetLabels(map[string]string{"theirs": "yes"})
				a.SetAnnotations(map[string]string{"k8s.v1.cni.cncf.io/resourceName": "acme.com/nic"})
			})
			w.catchUp()
			want := made.DeepCopy()
			want.Object["spec"].(map[string]any)["other"] = "theirs"
			want.SetLabels(map[string]string{"theirs": "yes", LabelManagedBy: "network-controller"})
			want.SetAnnotations(map[string]string{"k8s.v1.cni.cncf.io/resourceName": "acme.com/nic"})
			got := w.attachment()
			want.SetResourceVersion(got.GetResourceVersion())
			want.SetGeneration(got.GetGeneration())
			expect.Equal(t, want, got, "it was put back")
			w.wantAsked("recheck", "create", "patch")
			w.wantEvents("Normal AttachmentCreated", "Normal AttachmentUpdated")
		},
		"its label alone is put back": func(_ *testing.T, w *world) {
			w.mustSync()
			w.edit(func(a *unstructured.Unstructured) { a.SetLabels(nil) })
			w.catchUp()
			w.wantAsked("recheck", "create", "patch")
			w.mustSync()
			w.wantAsked()
		},
		"a Network that is gone is forgotten": func(t *testing.T, w *world) {
			w.api.Refuse(controllertest.Refusing("create", forbidden))
			w.mustFail()
			w.live = nil
			w.catchUp()
			if was, remembered := w.c.complaints.Load(exampleKey); remembered {
				t.Errorf("it is remembered: %+v", was)
			}
		},
		"deleted by hand, it comes back": func(_ *testing.T, w *world) {
			w.mustSync()
			w.remove()
			w.catchUp()
			w.wantAsked("recheck", "create", "recheck", "create")
		},
		"one that is being deleted is left to go": func(_ *testing.T, w *world) {
			w.mustSync()
			w.edit(func(a *unstructured.Unstructured) {
				a.SetFinalizers([]string{"example.com/theirs"})
				a.Object["spec"] = map[string]any{}
			})
			w.remove()
			w.catchUp()
			w.wantAsked("recheck", "create")
		},
		"a cache that has not seen the create has nothing created twice": func(_ *testing.T, w *world) {
			w.mustSyncUnseen()
			w.mustWait()
			w.wantAsked("recheck", "create")
			w.catchUp()
			w.wantAsked()
		},
		"a cache that has not seen the last write has nothing put back twice": func(_ *testing.T, w *world) {
			w.mustSync()
			w.empty()
			w.deliver()
			w.mustSyncUnseen()
			w.mustWait()
			w.wantAsked("recheck", "create", "patch")
			w.wantEvents("Normal AttachmentCreated", "Normal AttachmentUpdated")
		},
		"what somebody else changed since it was read is not written over": func(_ *testing.T, w *world) {
			w.mustSync()
			w.empty()
			w.deliver()
			w.edit(func(a *unstructured.Unstructured) { a.SetOwnerReferences(nil) })
			w.mustWait()
			w.catchUp()
			w.wantAsked("recheck", "create", "patch")
			w.wantEvents("Normal AttachmentCreated", "Warning AttachmentExists")
		},
		"a create whose answer is lost is found again": func(_ *testing.T, w *world) {
			w.api.Lose(controllertest.Refusing("create", errors.New("connection reset")))
			w.mustFail()
			w.wantEvents("Warning AttachmentFailed")
			w.mustSync()
			w.wantAsked("recheck", "create")
			w.wantEvents()
		},
		"one with the Network's UID, but another owner, is not taken": func(t *testing.T, w *world) {
			for _, owner := range []metav1.OwnerReference{
				{APIVersion: "v1", Kind: "ConfigMap", Name: "example", UID: w.live.UID, Controller: new(true)},
				{APIVersion: "example.com/v1", Kind: "Network", Name: "example", UID: w.live.UID, Controller: new(true)},
				{APIVersion: "cloudteam.ztgame.com/v1", Kind: "Network", Name: "other", UID: w.live.UID, Controller: new(true)},
				{APIVersion: "cloudteam.ztgame.com/v1", Kind: "Network", Name: "example", UID: w.live.UID},
			} {
				w.put(owner)
				w.deliver()
				theirs := w.attachment()
				w.mustSync()
				w.wantAsked()
				expect.Equal(t, theirs, w.attachment(), "that of %v was changed", owner)
			}
			const taken = "Warning AttachmentExists"
			w.wantEvents(taken, taken, taken, taken)
		},
		"one that somebody else is quicker to create is not taken": func(_ *testing.T, w *world) {
			w.put()
			w.mustWait()
			w.wantAsked("recheck", "create", "get")
			w.mustWait()
			w.wantAsked()
			w.catchUp()
			w.wantAsked()
			w.wantEvents("Warning AttachmentExists")
		},
		"a Network that is being deleted, of which the cache has not heard, gets none": func(_ *testing.T, w *world) {
			w.live = w.live.DeepCopy()
			w.live.DeletionTimestamp = new(metav1.NewTime(time.Unix(1, 0)))
			w.mustWait()
			w.wantAsked("recheck")
			w.catchUp()
			w.wantAsked()
		},
		"a Network that is gone, of which the cache has not heard, gets none": func(_ *testing.T, w *world) {
			w.live = nil
			w.mustWait()
			w.wantAsked("recheck")
			w.catchUp()
			w.wantAsked()
		},
		"somebody else's is told once, and again when another one comes": func(t *testing.T, w *world) {
			w.put()
			w.deliver()
			for range 3 {
				w.mustSync()
			}
			event := w.wantEvents("Warning AttachmentExists")
			for _, part := range []string{`NetworkAttachmentDefinition "example"`, "nobody controls it", "delete it", "another name"} {
				expect.Contains(t, event, part, "the Event")
			}
			if !w.c.Has("team", "example") || w.c.Has("team", "other") {
				t.Error("Has does not tell it from those that are not there")
			}
			w.edit(func(a *unstructured.Unstructured) { a.SetAnnotations(map[string]string{"a": "b"}) })
			w.catchUp()
			w.wantEvents()
			w.put(metav1.OwnerReference{
				APIVersion: "acme.com/v1", Kind: "Fabric", Name: "f", UID: "f-1", Controller: new(true)})
			w.catchUp()
			if event := w.wantEvents("Warning AttachmentExists"); !strings.Contains(event, `Fabric "f" controls it`) {
				t.Errorf("the Event is %q", event)
			}
			w.wantAsked()
			w.remove()
			w.catchUp()
			w.wantEvents("Normal AttachmentCreated")
		},
		"that of an earlier Network of the name is waited for": func(t *testing.T, w *world) {
			earlier := example()
			earlier.UID = "network-0"
			w.put(*metav1.NewControllerRef(earlier, networkKind))
			w.catchUp()
			w.wantAsked()
			w.wantEvents()
			if w.c.Has("team", "example") {
				t.Error("it counts as somebody else's")
			}
			w.remove()
			w.catchUp()
			w.wantEvents("Normal AttachmentCreated")
		},
		"that of a Network of another name is somebody else's": func(t *testing.T, w *world) {
			other := example()
			other.Name, other.UID = "other", "network-2"
			w.put(*metav1.NewControllerRef(other, networkKind))
			w.catchUp()
			w.wantEvents("Warning AttachmentExists")
			if !w.c.Has("team", "example") {
				t.Error("it does not count as somebody else's")
			}
		},
		"a refusal is told once, until it is over": func(_ *testing.T, w *world) {
			w.api.Refuse(controllertest.Refusing("create", forbidden))
			w.mustFail()
			w.mustFail()
			w.wantEvents("Warning AttachmentFailed")
			w.api.Refuse(nil)
			w.mustSync()
			w.wantEvents("Normal AttachmentCreated")
			w.empty()
			w.deliver()
			w.api.Refuse(controllertest.Refusing("patch", forbidden))
			w.mustFail()
			w.mustFail()
			w.wantEvents("Warning AttachmentFailed")
		},
		"a namespace that is being deleted is no failure": func(_ *testing.T, w *world) {
			w.api.Refuse(controllertest.Refusing("create", &apierrors.StatusError{ErrStatus: metav1.Status{
				Reason: metav1.StatusReasonForbidden, Details: &metav1.StatusDetails{
					Causes: []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}},
				},
			}}))
			w.mustSync()
			w.wantEvents()
		},
		"a webhook that changes it is told, and not fought without a pause": func(_ *testing.T, w *world) {
			w.admit = func(a *unstructured.Unstructured) { a.Object["spec"] = map[string]any{"config": "theirs"} }
			w.mustFail()
			w.mustFail()
			w.wantAsked("recheck", "create", "patch")
			w.wantEvents("Warning AttachmentFailed")
			w.admit = func(*unstructured.Unstructured) {}
			w.mustSync()
			w.wantEvents("Normal AttachmentUpdated")
		},
	} {
		t.Run(name, func(t *testing.T) { test(t, newWorld(t)) })
	}
}

func TestUpdatesOfANetworkThatAreLookedAt(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*cloudteamv1.Network)
		want   int
	}{
		"a resync": {func(*cloudteamv1.Network) {}, 0},
		"addresses that are taken": {func(n *cloudteamv1.Network) {
			n.Status.Subnets[0].UsedAddresses = new(int64(7))
		}, 0},
		"another subnet": {func(n *cloudteamv1.Network) {
			n.Status.Subnets = append(n.Status.Subnets, cloudteamv1.SubnetStatus{ID: "s", CIDR: "10.9.0.0/24"})
		}, 1},
		"a message":       {func(n *cloudteamv1.Network) { n.Status.Conditions[0].Message = "another" }, 0},
		"annotations":     {func(n *cloudteamv1.Network) { n.Annotations = map[string]string{"a": "b"} }, 0},
		"another spec":    {func(n *cloudteamv1.Network) { n.Generation++ }, 1},
		"no longer Ready": {func(n *cloudteamv1.Network) { n.Status.Conditions[0].Status = metav1.ConditionFalse }, 1},
		"another MTU":     {func(n *cloudteamv1.Network) { n.Status.MTU++ }, 1},
		"another object":  {func(n *cloudteamv1.Network) { n.UID = "network-2" }, 1},
		"its deletion":    {func(n *cloudteamv1.Network) { n.DeletionTimestamp = new(metav1.NewTime(time.Unix(1, 0))) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			updated := example()
			c.change(updated)
			loop := controller.NewLoop(Name, nil)
			defer controllertest.Dismiss(t, loop)
			controller.HandlerOfPart(loop, controller.KeyOf, sameForAttachment).OnUpdate(example(), updated)
			expect.Equal(t, c.want, loop.Len(), "keys were put on the queue")
		})
	}
}

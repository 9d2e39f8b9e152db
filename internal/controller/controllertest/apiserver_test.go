package controllertest

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/fake"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

var key = cache.NewObjectName("team", "example")

// server serves Networks and has one, of UID "uid-1", with a finalizer and a part of its status that somebody wrote.
func server(t *testing.T) (*APIServer, *fake.Clientset, *CallLog) {
	t.Helper()
	calls := &CallLog{}
	s, clients := NewAPIServer(calls), fake.NewSimpleClientset()
	Serve(s, clients, cloudteamv1.SchemeGroupVersion.WithResource("networks"), Rules[*cloudteamv1.Network]{
		Line: func(action clienttesting.Action) string { return action.GetVerb() + " " + action.GetSubresource() },
		Admit: func(_ clienttesting.Action, obj *cloudteamv1.Network) error {
			if obj.Spec.Description == "inadmissible" {
				return apierrors.NewBadRequest("inadmissible")
			}
			return nil
		},
	})
	obj := &cloudteamv1.Network{}
	obj.Namespace, obj.Name, obj.UID, obj.Finalizers = key.Namespace, key.Name, "uid-1", []string{"a.test/f"}
	obj.Status.NetworkID = "theirs"
	s.Create(t, obj)
	return s, clients, calls
}

func get(t *testing.T, s *APIServer) *cloudteamv1.Network {
	t.Helper()
	return Get[*cloudteamv1.Network](t, s, key)
}

func TestPatches(t *testing.T) {
	const merge, apply = types.MergePatchType, types.ApplyPatchType
	applying := metav1.PatchOptions{FieldManager: "test", Force: new(true)}
	for name, c := range map[string]struct {
		kind        types.PatchType
		patch       string
		options     metav1.PatchOptions
		subresource []string
		refused     func(error) bool
		// want changes the object as the patch should.
		want func(obj *cloudteamv1.Network)
	}{
		"a patch for another UID is a conflict": {
			kind: merge, patch: `{"metadata":{"uid":"other"}}`, refused: apierrors.IsConflict},
		"a patch for another resourceVersion is a conflict": {
			kind: merge, patch: `{"metadata":{"uid":"uid-1","resourceVersion":"1"}}`, refused: apierrors.IsConflict},
		"what is not admitted is refused": {
			kind: merge, patch: `{"spec":{"description":"inadmissible"}}`, refused: apierrors.IsBadRequest},
		"a patch of an unknown kind is refused": {
			kind: types.JSONPatchType, patch: `[]`, refused: apierrors.IsBadRequest},
		"a status is not merged into one that was not read": {
			kind: merge, patch: `{"status":{"mtu":1}}`, subresource: []string{"status"}, refused: apierrors.IsBadRequest},
		"a status is not applied without force": {
			kind: apply, patch: `{"status":{"mtu":1}}`, subresource: []string{"status"},
			options: metav1.PatchOptions{FieldManager: "test"}, refused: apierrors.IsBadRequest},
		"a patch that changes nothing moves no version": {
			kind: merge, patch: `{"metadata":{"finalizers":["a.test/f"]}}`, want: func(*cloudteamv1.Network) {}},
		"a patch of the object leaves its status": {
			kind: merge, patch: `{"metadata":{"labels":{"a":"b"}},"status":{"mtu":1}}`,
			want: func(obj *cloudteamv1.Network) {
				obj.Labels, obj.ResourceVersion = map[string]string{"a": "b"}, "102"
			}},
		"a new spec is a new generation": {
			kind: merge, patch: `{"spec":{"description":"new"}}`, want: func(obj *cloudteamv1.Network) {
				obj.Spec.Description, obj.ResourceVersion, obj.Generation = "new", "102", 2
			}},
		"a status leaves what others wrote in it": {
			kind: apply, patch: `{"metadata":{"uid":"uid-1"},"status":{"mtu":1}}`, options: applying,
			subresource: []string{"status"},
			want:        func(obj *cloudteamv1.Network) { obj.Status.MTU, obj.ResourceVersion = 1, "102" }},
	} {
		t.Run(name, func(t *testing.T) {
			s, clients, _ := server(t)
			want := get(t, s).DeepCopy()
			got, err := clients.CloudteamV1().Networks(key.Namespace).Patch(
				t.Context(), key.Name, c.kind, []byte(c.patch), c.options, c.subresource...)
			if c.refused != nil {
				if !c.refused(err) {
					t.Errorf("error %v", err)
				}
			} else {
				expect.NoError(t, err)
				c.want(want)
				expect.Equal(t, want, got, "the answer")
			}
			expect.Equal(t, want, get(t, s), "the object")
		})
	}
}

func TestAStatusLosesWhatIsNoLongerApplied(t *testing.T) {
	s, clients, _ := server(t)
	for _, status := range []string{`{"mtu":1,"observedGeneration":7}`, `{"observedGeneration":8}`} {
		_, err := clients.CloudteamV1().Networks(key.Namespace).Patch(t.Context(), key.Name, types.ApplyPatchType,
			[]byte(`{"status":`+status+`}`), metav1.PatchOptions{FieldManager: "test", Force: new(true)}, "status")
		expect.NoError(t, err)
	}
	want := cloudteamv1.NetworkStatus{
		ResourceStatus: cloudteamv1.ResourceStatus{ObservedGeneration: 8}, NetworkID: "theirs",
	}
	expect.Equal(t, want, get(t, s).Status, "status")
}

func TestAnObjectGoesWithItsLastFinalizer(t *testing.T) {
	s, clients, _ := server(t)
	networks := clients.CloudteamV1().Networks(key.Namespace)
	other := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: new(types.UID("other"))}}
	if err := networks.Delete(t.Context(), key.Name, other); !apierrors.IsConflict(err) {
		t.Errorf("a deletion of another UID: %v", err)
	}
	if get(t, s).DeletionTimestamp != nil {
		t.Error("it was carried out")
	}
	expect.NoError(t, networks.Delete(t.Context(), key.Name, metav1.DeleteOptions{}))
	if obj := get(t, s); obj.DeletionTimestamp == nil || obj.Generation != 2 {
		t.Errorf("it has the generation %d and is deleted at %v", obj.Generation, obj.DeletionTimestamp)
	}
	if _, err := networks.Patch(t.Context(), key.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":[]}}`),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, exists := Find[*cloudteamv1.Network](s, key); exists {
		t.Error("it stays without a finalizer")
	}
}

func TestRefusedAndLostRequests(t *testing.T) {
	s, clients, calls := server(t)
	broken := errors.New("broken")
	networks := clients.CloudteamV1().Networks(key.Namespace)
	label := func(value string) error {
		_, err := networks.Patch(t.Context(), key.Name, types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"a":"`+value+`"}}}`), metav1.PatchOptions{})
		return err
	}
	s.Refuse(func(string) error { return broken })
	if err := label("refused"); !errors.Is(err, broken) {
		t.Errorf("refused: %v", err)
	}
	s.Refuse(nil)
	s.Lose(func(string) error { return broken })
	if err := label("lost"); !errors.Is(err, broken) {
		t.Errorf("lost: %v", err)
	}
	expect.Equal(t, "lost", get(t, s).Labels["a"], "the label")
	calls.Want(t, "patch ", "patch ")
}

func TestAGateHoldsUpACache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, clients, _ := server(t)
		factory := informers.NewSharedInformerFactory(clients, 0)
		informer := factory.Cloudteam().V1().Networks().Informer()
		ctx, cancel := context.WithCancel(Logged(t))
		factory.StartWithContext(ctx)
		defer factory.Shutdown()
		defer cancel()
		synctest.Wait()
		wantCached := func(want int) {
			t.Helper()
			synctest.Wait()
			obj, exists, err := informer.GetIndexer().GetByKey(key.String())
			if err != nil || !exists || obj.(*cloudteamv1.Network).ResourceVersion != strconv.Itoa(want) {
				t.Errorf("the cache has %v, want version %d", obj, want)
			}
		}
		label := func(value string) {
			Edit(t, s, key, func(obj *cloudteamv1.Network) { obj.Labels = map[string]string{"a": value} })
		}
		gate := GateOf[*cloudteamv1.Network](s)
		wantCached(101)
		gate.Hold()
		label("1")
		wantCached(101)
		gate.Release()
		wantCached(102)
		gate.Hold()
		label("2")
		gate.Drop()
		gate.Release()
		wantCached(102)
		label("3")
		wantCached(104)
	})
}

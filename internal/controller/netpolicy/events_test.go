package netpolicy

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestOnlyAChangeOfAPolicySettles(t *testing.T) {
	of := func(uid types.UID, generation int64) *Object {
		return &Object{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "db", UID: uid, Generation: generation}}
	}
	deleted := cache.DeletedFinalStateUnknown{Key: "team/db", Obj: of("a", 1)}
	inWorld(t, func(t *testing.T, w *world) {
		for what, test := range map[string]struct {
			was, is any
			settles bool
		}{
			"a new one":                      {nil, of("a", 1), true},
			"one that is gone":               {of("a", 1), nil, true},
			"one that went unseen":           {deleted, nil, true},
			"an edit of its spec":            {of("a", 1), of("a", 2), true},
			"another one of its name":        {of("a", 1), of("b", 1), true},
			"an update that changes no spec": {of("a", 1), of("a", 1), false},
			"what is no object":              {nil, "text", false},
		} {
			w.policies.Changed(test.was, test.is)
			expect.Equal(t, test.settles, w.policies.Settling("team") > 0, "whether policies settle after %s", what)
			controllertest.Settle(settlesAfter)
			expect.Equal(t, time.Duration(0), w.policies.Settling("team"), "what is left of it")
		}
	})
}

// TestWhatMovesWithoutAnEventIsTakenOnce holds which policies a namespace's next sync has ports follow, or tells of.
func TestWhatMovesWithoutAnEventIsTakenOnce(t *testing.T) {
	on := []cache.ObjectName{cache.NewObjectName("team", "net")}
	of := func(name string, cost int) *Object {
		o := &Object{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID(name)}, Read: true, cost: cost}
		o.On = on
		return o
	}
	l := newLedger()
	want := func(when string, within, beyond, blind []*Object) {
		t.Helper()
		gotWithin, gotBeyond, gotBlind := l.takeMoved("team")
		expect.Equal(t, within, gotWithin, "within %s", when)
		expect.Equal(t, beyond, gotBeyond, "beyond %s", when)
		expect.Equal(t, blind, gotBlind, "for unknown Networks %s", when)
	}
	large, first := of("b", maxGroups), of("a", 1)
	l.note("team", "b", large)
	want("after its own event", nil, nil, nil)
	l.note("team", "a", first)
	want("after another came before it", nil, []*Object{large}, nil)
	want("afterwards", nil, nil, nil)
	l.note("team", "a", nil)
	l.note("team", "b", large) // another handler's event
	want("after the other is gone", []*Object{large}, nil, nil)

	unread := &Object{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "c", UID: "c"}}
	l.note("team", "c", unread)
	want("after one that cannot be read", nil, nil, []*Object{unread})
	if !l.isNews(unread, 7, false) || l.isNews(unread, 7, false) {
		t.Error("of one that cannot be read, it is not told once")
	}
	l.note("team", "c", nil)
	if l.isNews(unread, 8, false) {
		t.Error("of one that is gone, it is told")
	}
}

// TestASyncNeedsWhatItReadsAgain holds that one sync makes the groups of a policy that was dropped, and none if it
// cannot be read.
func TestASyncNeedsWhatItReadsAgain(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.list()
		o, _ := Transform(raw("db", toAll))
		o.(*Object).says.Store(nil)
		expect.NoError(t, w.policies.objects.Add(o))
		w.policies.note(cache.MetaObjectToName(o.(*Object)))
		broken := errors.New("no connection")
		w.c.read = func(context.Context, string, string) (*unstructured.Unstructured, error) { return nil, broken }
		if err := w.c.sync(t.Context(), "team"); !errors.Is(err, broken) {
			t.Errorf("the sync says %v, want %v", err, broken)
		}
		w.c.read = func(context.Context, string, string) (*unstructured.Unstructured, error) {
			return raw("db", toAll), nil
		}
		expect.NoError(t, w.c.sync(t.Context(), "team"))
		w.wantGroups("policy-db", "policy-open-egress")
	})
}

func TestAPolicyIsReadByItsName(t *testing.T) {
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{Resource: "MultiNetworkPolicyList"})
	answer, failure := &unstructured.UnstructuredList{Object: map[string]any{}}, error(nil)
	var asked clienttesting.ListRestrictions
	client.PrependReactor("list", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		asked = action.(clienttesting.ListAction).GetListRestrictions()
		if failure != nil {
			return true, nil, failure
		}
		answer.SetGroupVersionKind(schema.GroupVersionKind{Group: Resource.Group, Version: Resource.Version, Kind: "MultiNetworkPolicyList"})
		return true, answer, nil
	})
	read := ReadBy(client)
	found, err := read(t.Context(), "team", "db")
	expect.NoError(t, err)
	if found != nil {
		t.Errorf("where there is none, it reads %v", found)
	}
	expect.Equal(t, "metadata.name=db", asked.Fields.String(), "the field selector")

	db := raw("db", toAll)
	db.SetGroupVersionKind(schema.GroupVersionKind{Group: Resource.Group, Version: Resource.Version, Kind: "MultiNetworkPolicy"})
	answer.Items = []unstructured.Unstructured{*db}
	found, err = read(t.Context(), "team", "db")
	expect.NoError(t, err)
	expect.Equal(t, "db", found.GetName(), "the name of what is read")

	failure = errors.New("forbidden")
	if found, err = read(t.Context(), "team", "db"); !errors.Is(err, failure) || found != nil {
		t.Errorf("it reads %v, %v, want %v", found, err, failure)
	}
}

package controllertest

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/neutron"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// AtRest is an managed.Inventory in which what each object owns is as declared, so that nothing is to be done.
type AtRest struct {
	Names

	// Where is where the credentials lead.
	Where neutron.Identity
	// Owned is what there is, by the UID of the object that owns it.
	Owned map[string]plan.Observed
}

// Identity is managed.Inventory's.
func (a AtRest) Identity(context.Context) (neutron.Identity, error) { return a.Where, nil }

// Observed is managed.Inventory's.
func (a AtRest) Observed(_ context.Context, owner plan.Owner, _ time.Time) (plan.Observed, error) {
	return a.Owned[owner.Object], nil
}

// Reread is managed.Inventory's.
func (AtRest) Reread(context.Context, plan.Resource) (bool, error) { return true, nil }

// Find is managed.Inventory's.
func (AtRest) Find(context.Context, plan.Kind, string, plan.Owner) (bool, error) {
	return false, nil
}

// Apply is managed.Inventory's.
func (AtRest) Apply(context.Context, plan.Change) (plan.Change, error) {
	return nil, errors.New("nothing is to be written at rest")
}

// Blockers is managed.Inventory's.
func (AtRest) Blockers(context.Context, plan.Step) (neutron.Blockers, error) {
	return neutron.Blockers{}, nil
}

// Foreign is managed.Inventory's.
func (AtRest) Foreign(context.Context, string) (neutron.Foreign, bool, error) {
	return neutron.Foreign{}, false, nil
}

// BenchmarkSyncs measures a look at an object that is as declared, at one after the other: as it was looked at before,
// or where stored is true, just stored anew, as after a write of its status or at the start of the process.
func BenchmarkSyncs(
	b *testing.B, sync func(cache.ObjectName) error, keys []cache.ObjectName, indexer cache.Indexer, stored bool,
) {
	b.Helper()
	look := func(key cache.ObjectName) {
		if err := sync(key); err != nil {
			b.Fatal(err)
		}
	}
	again := make([][2]runtime.Object, len(keys))
	for i, key := range keys {
		found, _, _ := indexer.GetByKey(key.String())
		obj := found.(runtime.Object)
		again[i] = [2]runtime.Object{obj, obj.DeepCopyObject()}
		look(key)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		at := i % len(keys)
		if stored {
			b.StopTimer()
			if err := indexer.Update(again[at][(i/len(keys)+1)%2]); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
		look(keys[at])
		i++
	}
}

package controllertest

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// Converged is a managed.Inventory in which everything is as declared, so that a sync has nothing to do.
type Converged struct {
	Names

	// Where is where the credentials lead.
	Where client.Identity
	// Owned is what there is, by the UID of the object that owns it.
	Owned map[string]plan.Observed
}

// Identity is managed.Inventory's.
func (a Converged) Identity(context.Context) (client.Identity, error) { return a.Where, nil }

// Observed is managed.Inventory's.
func (a Converged) Observed(
	_ context.Context, owner plan.Owner, _ time.Time, _ ...plan.Kind,
) (plan.Observed, error) {
	return a.Owned[owner.Object], nil
}

// Reread is managed.Inventory's.
func (Converged) Reread(context.Context, plan.Resource) (bool, error) { return true, nil }

// Find is managed.Inventory's.
func (Converged) Find(context.Context, plan.Kind, string, plan.Owner) (bool, error) {
	return false, nil
}

// Apply is managed.Inventory's.
func (Converged) Apply(context.Context, plan.Change) (plan.Change, error) {
	return nil, errors.New("nothing is to be written")
}

// Discard is managed.Inventory's.
func (Converged) Discard(context.Context, plan.Owner) error { return nil }

// Blockers is managed.Inventory's.
func (Converged) Blockers(context.Context, plan.Step) (inventory.Blockers, error) {
	return inventory.Blockers{}, nil
}

// Matching is managed.Inventory's.
func (Converged) Matching(context.Context, plan.Kind, plan.ImportFilter, plan.Owner, bool) ([]string, error) {
	return nil, nil
}

// Foreign is managed.Inventory's.
func (Converged) Foreign(context.Context, string) (inventory.Foreign, bool, error) {
	return inventory.Foreign{}, false, nil
}

// ForeignFloatingIP is managed.Inventory's.
func (Converged) ForeignFloatingIP(context.Context, string) (inventory.ForeignFloatingIP, bool, error) {
	return inventory.ForeignFloatingIP{}, false, nil
}

// BenchmarkSyncs measures the sync of objects that are as declared, one after the other.
func BenchmarkSyncs(b *testing.B, keys []cache.ObjectName, sync func(cache.ObjectName) error) {
	b.Helper()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if err := sync(keys[i%len(keys)]); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

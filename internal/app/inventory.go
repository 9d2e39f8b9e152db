package app

import (
	"context"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	portcontroller "cloudteam.ztgame.com/network-controller/internal/controller/networkport"
	"cloudteam.ztgame.com/network-controller/internal/neutron"
)

// sharedInventory is the Inventory of one cloud, for all controllers whose objects' resources are in Neutron.
type sharedInventory struct {
	*neutron.Inventory
	audits *auditLog
}

// inventoryUser is a controller that is told what Inventories find.
type inventoryUser interface {
	started
	// Moved tells that the resources of the object of a UID, of whatever kind, are other than they were.
	Moved(uid string)
	// ActSince tells since when no other process acts.
	ActSince(time.Time)
	// EnqueueIn tells that what waits for a cloud should be looked at again.
	EnqueueIn(managed.CloudRef)
	// CloudsInUse gives the clouds of all objects.
	CloudsInUse() map[managed.CloudRef]bool
}

// audience are the controllers that run and are told what Inventories find. The zero value is empty.
type audience struct {
	mu    sync.Mutex
	users []inventoryUser
}

func (a *audience) add(user inventoryUser) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.users = append(a.users, user)
}

func (a *audience) tell(what func(inventoryUser)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, user := range a.users {
		what(user)
	}
}

// wake has all objects looked at whose resources are in a cloud.
func (a *audience) wake(ref managed.CloudRef) {
	a.tell(func(user inventoryUser) { user.EnqueueIn(ref) })
}

// inventory gives the Inventory of the process's own cloud, which is made and begins to audit when it is first asked
// for. The caller holds building.
func (p *process) inventory() *sharedInventory {
	if p.shared != nil {
		return p.shared
	}
	p.shared = p.newInventory(p.access, klog.FromContext(p.baseCtx))
	p.readiness.add("inventory", func() bool { synced, _ := p.shared.Synced(); return synced })
	p.base.Go(func() error { p.election.audit(p.baseCtx, p.shared.Inventory); return nil })
	return p.shared
}

// newInventory makes the Inventory of a cloud, of which the audience is told.
func (p *process) newInventory(access *cloudAccess, logger klog.Logger) *sharedInventory {
	wake := func() { p.audience.wake(access.ref) }
	s := &sharedInventory{audits: &auditLog{ref: access.ref, logger: logger, recovered: wake}}
	s.Inventory = neutron.NewInventory(access.cloud, p.cluster, neutron.InventoryOptions{
		Interval: p.options.AuditInterval,
		MaxCalls: p.options.CloudMaxCalls,
		Ports:    p.options.enabled(portcontroller.Name),
		Moved:    func(uid string) { p.audience.tell(func(user inventoryUser) { user.Moved(uid) }) },
		Audited:  s.audits.audited,
	})
	access.woken(wake)
	return s
}

// serve has a controller told, once it runs, what the Inventories find, and makes it begin with a first answer from
// the process's own cloud, good or bad, so that its first syncs have something to say.
func (p *process) serve(c inventoryUser) started {
	return audited{c, p.shared, &p.audience, p.election}
}

// audited is a controller that waits for the first audit.
type audited struct {
	inventoryUser
	inventory *sharedInventory
	audience  *audience
	election  *election
}

// Run is started.Run. This process leads.
func (a audited) Run(ctx context.Context, workers int) error {
	a.inventory.audits.awaitFirst(ctx)
	a.ActSince(a.election.since)
	a.audience.add(a.inventoryUser)
	return a.inventoryUser.Run(ctx, workers)
}

package app

import (
	"context"
	"sync"
	"time"

	"k8s.io/klog/v2"

	portcontroller "cloudteam.ztgame.com/network-controller/internal/controller/networkport"
	"cloudteam.ztgame.com/network-controller/internal/neutron"
)

// sharedInventory is the Inventory of all controllers whose objects' resources are in Neutron.
type sharedInventory struct {
	*neutron.Inventory
	audits *auditLog

	mu    sync.Mutex
	users []inventoryUser
}

// inventoryUser is a controller that is told what an Inventory finds.
type inventoryUser interface {
	started
	// Moved tells that the resources of the object of a UID, of whatever kind, are other than they were.
	Moved(uid string)
	// ActSince tells since when no other process acts.
	ActSince(time.Time)
	// EnqueueAll tells that the cloud is back.
	EnqueueAll()
}

// inventory gives the Inventory, which is made and begins to audit when it is first asked for. The caller holds
// building.
func (p *process) inventory() *sharedInventory {
	if p.shared != nil {
		return p.shared
	}
	s := &sharedInventory{}
	s.audits = &auditLog{logger: klog.FromContext(p.ground), recovered: func() {
		s.tell(inventoryUser.EnqueueAll)
	}}
	s.Inventory = neutron.NewInventory(p.access.cloud, p.cluster, neutron.InventoryOptions{
		Interval: p.options.AuditInterval,
		Ports:    p.options.enabled(portcontroller.Name),
		Moved:    func(uid string) { s.tell(func(user inventoryUser) { user.Moved(uid) }) },
		Audited:  s.audits.audited,
	})
	p.access.woken(func() { s.tell(inventoryUser.EnqueueAll) })
	p.readiness.add("inventory", func() bool { synced, _ := s.Synced(); return synced })
	p.base.Go(func() error { p.election.stand(p.ground, s.Inventory); return nil })
	p.shared = s
	return s
}

func (s *sharedInventory) tell(what func(inventoryUser)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, user := range s.users {
		what(user)
	}
}

// serve has a controller told, once it runs, what the Inventory finds, and makes it begin with a first answer from the
// cloud, good or bad, so that its first syncs have something to say.
func (p *process) serve(c inventoryUser) started { return audited{c, p.shared, p.election} }

// audited is a controller that waits for the first audit.
type audited struct {
	inventoryUser
	inventory *sharedInventory
	election  *election
}

// Run is started.Run. This process leads.
func (a audited) Run(ctx context.Context, workers int) error {
	a.inventory.audits.awaitFirst(ctx)
	a.ActSince(a.election.since)
	a.inventory.mu.Lock()
	a.inventory.users = append(a.inventory.users, a.inventoryUser)
	a.inventory.mu.Unlock()
	return a.inventoryUser.Run(ctx, workers)
}

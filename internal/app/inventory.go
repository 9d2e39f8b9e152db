package app

import (
	"context"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	portcontroller "cloudteam.ztgame.com/network-controller/internal/controller/networkport"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// sharedInventory is the Inventory of one cloud, shared by all controllers with resources in Neutron.
type sharedInventory struct {
	*inventory.Inventory
	audits *auditLog
	quotas *quotaReader
}

// inventoryUser is a controller that acts on what Inventories find.
type inventoryUser interface {
	started
	// Moved is called when the resources of the object with this UID have changed. The object may be of any kind.
	Moved(uid string)
	// ActSince sets the time since when no other process acts.
	ActSince(time.Time)
	// EnqueueIn enqueues the objects in a cloud.
	EnqueueIn(managed.CloudRef)
	// CloudsInUse returns the clouds of all objects.
	CloudsInUse() map[managed.CloudRef]bool
}

// audience is the set of running controllers that act on what Inventories find. The zero value is empty.
type audience struct {
	mu    sync.Mutex
	users []inventoryUser
	// woken has the clouds that were woken less than wakeInterval ago, and whether to wake them once more after it.
	woken map[managed.CloudRef]bool
}

// wakeInterval is how long after a wake of a cloud the next one comes. Each one enqueues all objects in the cloud, and
// a tenant can edit a Secret as often as it likes.
const wakeInterval = time.Second

func (a *audience) add(user inventoryUser) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.users = append(a.users, user)
}

// each calls a function for each user, without the lock: it may look at all objects.
func (a *audience) each(what func(inventoryUser)) {
	a.mu.Lock()
	users := a.users // nothing is ever changed in it, only appended
	a.mu.Unlock()
	for _, user := range users {
		what(user)
	}
}

// wake enqueues all objects in a cloud: now, or once for all calls within wakeInterval after the last time, at its end.
func (a *audience) wake(ref managed.CloudRef) {
	a.mu.Lock()
	_, lately := a.woken[ref]
	if a.woken == nil {
		a.woken = map[managed.CloudRef]bool{}
	}
	a.woken[ref] = lately
	a.mu.Unlock()
	if lately {
		return
	}
	a.each(func(user inventoryUser) { user.EnqueueIn(ref) })
	time.AfterFunc(wakeInterval, func() {
		a.mu.Lock()
		again := a.woken[ref]
		delete(a.woken, ref)
		a.mu.Unlock()
		if again {
			a.wake(ref)
		}
	})
}

// inventory returns the Inventory of the process's own cloud. The first call makes it and starts its audits. The
// caller holds building.
func (p *process) inventory() *sharedInventory {
	if p.shared != nil {
		return p.shared
	}
	p.shared = p.newInventory(p.access, klog.FromContext(p.baseCtx))
	p.readiness.addExplained("inventory", p.shared.Synced)
	p.measured.add(func(m *measured) { m.own = p.shared })
	p.base.Go(func() error { p.election.audit(p.baseCtx, p.shared.Inventory); return nil })
	return p.shared
}

// newInventory makes the Inventory of a cloud, which notifies the audience.
func (p *process) newInventory(access *cloudAccess, logger klog.Logger) *sharedInventory {
	s := &sharedInventory{quotas: &access.quotas, audits: &auditLog{
		ref: access.ref, logger: logger, recovered: access.wake, first: make(chan struct{}), rejected: func(error) {},
		succeeded: access.quotas.note,
	}}
	standing := &standingLog{
		ref: access.ref, cluster: p.cluster, logger: logger, resumed: access.wake,
	}
	if p.options.Namespace == "" {
		standing.recorder = p.recorder
		if access.ref.IsOwn() {
			s.audits.rejected = p.noteRejected
		}
	}
	s.Inventory = inventory.New(access.cloud, p.cluster, inventory.Options{
		Interval: p.options.AuditInterval,
		MaxCalls: p.options.CloudMaxCalls,
		Pools:    p.pools,
		Tenant:   access.ref.Namespace,
		Ports:    p.options.enabled(portcontroller.Name),
		Moved:    p.moved,
		Audited:  s.audits.audited,
		Waited:   func(op string, wait time.Duration) { writeWait.WithLabelValues(op).Observe(wait.Seconds()) },
		HeldBack: func(by client.Gate) { heldBack.WithLabelValues(string(by)).Inc() },
		Term:     p.term(),
		Standing: standing.log,
	})
	return s
}

// noteRejected sends an Event about this process's Pod: the cloud rejects the log-in. kubectl network doctor reads it.
func (p *process) noteRejected(err error) {
	host, hostErr := os.Hostname()
	if hostErr != nil {
		return
	}
	p.recorder.Event(&corev1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: p.classes.Namespace(), Name: host,
	}, corev1.EventTypeWarning, cloudteamv1.ReasonCredentialsRejected, err.Error())
}

// moved tells the controllers that resources of the object with a UID have changed.
func (p *process) moved(uid string) {
	p.audience.each(func(user inventoryUser) { user.Moved(uid) })
	if c := p.bindings.Load(); c != nil {
		c.Moved(uid)
	}
}

// term is the leader's term, for the record of it in Neutron. With --report-only there is none, as nothing is written.
func (p *process) term() func() (inventory.Term, bool) {
	if p.options.Policies.Plan {
		return nil
	}
	return p.election.term
}

// serve lets a controller start after the first audit of the process's own cloud, and adds it to the audience then. An
// audit that failed suffices: the first syncs report why.
func (p *process) serve(c inventoryUser) started {
	return delayed{c, func(ctx context.Context) {
		p.shared.audits.awaitFirst(ctx)
		c.ActSince(p.election.since)
		p.audience.add(c)
	}}
}

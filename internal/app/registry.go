package app

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/controller/orphan"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

const (
	// sweepInterval is how often the registry checks which clouds objects use.
	sweepInterval = time.Minute
	// closeAfter is how long a cloud stays open that no object uses, or whose Secret cannot be used. Objects may be
	// recreated soon, and the resources of objects that are deleted together with their Secret are removed meanwhile.
	closeAfter = 10 * time.Minute
)

// cloudRegistry has the clouds with credentials in Secrets. It implements managed.Clouds. It opens a cloud when the
// first sync asks for it, which only happens in a leader, and closes it some time after the last object is gone.
type cloudRegistry struct {
	p  *process
	to *client.Confinement

	mu     sync.Mutex
	clouds map[managed.CloudRef]*secretCloud
}

func newCloudRegistry(p *process, to *client.Confinement) *cloudRegistry {
	return &cloudRegistry{p: p, to: to, clouds: map[managed.CloudRef]*secretCloud{}}
}

// In implements managed.Clouds.
func (r *cloudRegistry) In(ref managed.CloudRef, removing bool) (managed.Inventory, error) {
	r.mu.Lock()
	c, known := r.clouds[ref]
	if !known {
		c = r.open(ref)
		r.clouds[ref] = c
	}
	c.unnamed = time.Time{}
	r.mu.Unlock()
	return c.inventory(removing)
}

// inventories returns the Inventories of all open clouds with an audit, for the controller of orphans.
func (r *cloudRegistry) inventories() []orphan.Inventory {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []orphan.Inventory
	for _, c := range r.clouds {
		if _, s := c.state(); s != nil && s.inventory.audits.begun() {
			all = append(all, s.inventory)
		}
	}
	return all
}

// run closes unused clouds until ctx is done.
func (r *cloudRegistry) run(ctx context.Context) {
	tick := time.NewTicker(sweepInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			r.sweep()
		}
	}
}

// sweep closes the clouds that no object uses, and the sessions whose Secrets cannot be used, after closeAfter.
func (r *cloudRegistry) sweep() {
	named := map[managed.CloudRef]bool{}
	r.p.audience.tell(func(user inventoryUser) {
		for ref := range user.CloudsInUse() {
			named[ref] = true
		}
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	for ref, c := range r.clouds {
		switch {
		case named[ref]:
			c.unnamed = time.Time{}
			if known, _ := c.state(); known.problem != nil && time.Since(known.since) > closeAfter {
				c.end()
			}
		case c.unnamed.IsZero():
			c.unnamed = time.Now()
		case time.Since(c.unnamed) > closeAfter:
			c.close()
			delete(r.clouds, ref)
			c.logger.Info("Closed the cloud; no object uses it")
		}
	}
}

// open starts to watch a cloud's Secret.
func (r *cloudRegistry) open(ref managed.CloudRef) *secretCloud {
	logger := klog.FromContext(r.p.baseCtx).WithValues("namespace", ref.Namespace, "secret", ref.Secret)
	if ref.Entry != "" {
		logger = logger.WithValues("entry", ref.Entry)
	}
	ctx, cancel := context.WithCancel(klog.NewContext(r.p.baseCtx, logger))
	c := &secretCloud{p: r.p, ref: ref, to: r.to, ctx: ctx, cancel: cancel, logger: logger}
	r.p.base.Go(func() error { c.watch(); return nil })
	return c
}

// secretCloud is a cloud with credentials in a Secret.
type secretCloud struct {
	p      *process
	ref    managed.CloudRef
	to     *client.Confinement
	logger klog.Logger
	ctx    context.Context
	cancel context.CancelFunc
	// unnamed is since when no object uses it; zero while one does. The registry's lock guards it.
	unnamed time.Time

	mu    sync.Mutex
	known secretState
	// session is nil before there are credentials, and after they have been gone for closeAfter.
	session *cloudSession
}

// cloudSession is the open cloud of one Secret, identified by its UID. A Secret that is recreated under the same name
// gets another session.
type cloudSession struct {
	uid       types.UID
	access    *cloudAccess
	inventory *sharedInventory
	cancel    context.CancelFunc
}

// inventory implements managed.Clouds.In.
func (c *secretCloud) inventory(removing bool) (managed.Inventory, error) {
	known, s := c.state()
	open := s != nil && s.uid == known.uid && s.inventory.audits.begun()
	outlived := removing && open && time.Since(known.since) <= closeAfter
	switch {
	case !known.read:
		return nil, managed.ErrNotYet
	case known.problem != nil && !outlived:
		return nil, known.problem
	case !open:
		return nil, managed.ErrNotYet
	}
	return s.inventory, nil
}

// renew makes the session use the credentials in the Secret. The caller holds mu.
func (c *secretCloud) renew() {
	switch {
	case c.ctx.Err() != nil:
	case c.session == nil:
		c.session = c.begin(c.known)
	case c.session.uid != c.known.uid:
		c.session.cancel()
		c.session = c.begin(c.known)
	default:
		c.session.access.files.lookNow()
	}
}

// begin opens a session and enqueues the cloud's objects after its first audit. The caller holds mu.
func (c *secretCloud) begin(known secretState) *cloudSession {
	ctx, cancel := context.WithCancel(c.ctx)
	load := func() (client.Credentials, error) {
		if now, _ := c.state(); now.uid == known.uid {
			known = now
		}
		return known.credentials, nil
	}
	access := c.p.newCloudAccess(c.ref, known.credentials, load, c.logger)
	access.files.complain = func(err error) {
		c.p.recorder.Eventf(&corev1.ObjectReference{
			APIVersion: "v1", Kind: "Secret", Namespace: c.ref.Namespace, Name: c.ref.Secret, UID: known.uid,
		}, corev1.EventTypeWarning, cloudteamv1.ReasonCredentialsRejected,
			"What it holds now cannot be used, and what it held before is: %v", err)
	}
	s := &cloudSession{uid: known.uid, access: access, inventory: c.p.newInventory(access, c.logger), cancel: cancel}
	c.p.base.Go(func() error { access.run(ctx); return nil })
	c.p.base.Go(func() error {
		s.inventory.Run(ctx)
		access.cloud.CloseIdleConnections()
		return nil
	})
	c.p.base.Go(func() error {
		s.inventory.audits.awaitFirst(ctx)
		c.p.audience.wake(c.ref)
		return nil
	})
	return s
}

// end ends the session, if there is one. The watch of the Secret continues.
func (c *secretCloud) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session == nil {
		return
	}
	c.session.cancel()
	c.session = nil
	forgetCloud(c.ref)
}

// close ends the session and the watch of the Secret.
func (c *secretCloud) close() {
	c.cancel()
	c.end()
}

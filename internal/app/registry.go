package app

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
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
	// attemptInterval is how often credentials of one namespace are tried, after as many as it may have clouds. Keystone
	// may lock an account after wrong passwords, and Secrets may be replaced as often as their owner likes.
	attemptInterval = 20 * time.Second
)

// cloudRegistry has the clouds with credentials in Secrets. It implements managed.Clouds. It opens a cloud when the
// first sync asks for it, which only happens in a leader, and closes it some time after the last object is gone. Each
// costs a watch and usually a session with lists, so their number is limited, also for each namespace.
type cloudRegistry struct {
	p  *process
	to *client.Confinement
	// operator is the controller's own namespace, empty for none. No tenant writes there, so it may have all clouds.
	operator string

	// mu is taken before the mu of a secretCloud, never after it.
	mu     sync.Mutex
	clouds map[managed.CloudRef]*secretCloud
	// refused are the clouds that wait for a place.
	refused map[managed.CloudRef]bool

	// attempts limit how often each namespace's credentials are tried. attempting guards them. It is not mu, because a
	// secretCloud asks for them while it holds its own mu.
	attempting sync.Mutex
	attempts   map[string]*rate.Limiter
}

func newCloudRegistry(p *process, to *client.Confinement) *cloudRegistry {
	return &cloudRegistry{
		p: p, to: to, clouds: map[managed.CloudRef]*secretCloud{}, refused: map[managed.CloudRef]bool{},
		attempts: map[string]*rate.Limiter{},
	}
}

// share is how many clouds one namespace may have.
func (r *cloudRegistry) share() int { return max(r.p.options.MaxClouds/10, 1) }

// cloudMemory is what the lists of all tenants' clouds may take. One namespace may have a quarter, and at least enough
// to replace a list of the largest size, which is held meanwhile.
func cloudMemory(maxClouds int) *client.Memory {
	total := int64(max(maxClouds, 32)+32) << 20
	return client.NewMemory(total, max(total/4, 33<<20))
}

// room returns why a namespace may have no further cloud, or nil. The caller holds mu.
func (r *cloudRegistry) room(namespace string) *managed.Problem {
	if len(r.clouds) >= r.p.options.MaxClouds {
		return unusable("the controller uses as many clouds as it may (--max-clouds). Retries when one is free. Ask the "+
			"operator to raise --max-clouds; it is %d", r.p.options.MaxClouds)
	}
	if namespace == r.operator && namespace != "" {
		return nil
	}
	n := 0
	for ref := range r.clouds {
		if ref.Namespace == namespace {
			n++
		}
	}
	if n >= r.share() {
		return unusable("the Networks of this namespace use as many clouds as one namespace may: %d, a tenth of "+
			"--max-clouds. Retries when one is free. Use fewer Secrets or entries, or ask the operator to raise --max-clouds",
			r.share())
	}
	return nil
}

// attempt returns the limit of trying a namespace's credentials.
func (r *cloudRegistry) attempt(namespace string) *rate.Limiter {
	r.attempting.Lock()
	defer r.attempting.Unlock()
	if r.attempts[namespace] == nil {
		most := r.share()
		if namespace == r.operator {
			most = r.p.options.MaxClouds
		}
		r.attempts[namespace] = rate.NewLimiter(rate.Every(attemptInterval), most)
	}
	return r.attempts[namespace]
}

// In implements managed.Clouds.
func (r *cloudRegistry) In(ref managed.CloudRef, removing bool) (managed.Inventory, error) {
	r.mu.Lock()
	c, known := r.clouds[ref]
	if !known {
		if full := r.room(ref.Namespace); full != nil {
			r.refused[ref] = true
			r.mu.Unlock()
			return nil, full
		}
		delete(r.refused, ref)
		c = r.open(ref)
		r.clouds[ref] = c
	}
	c.unnamed = time.Time{}
	r.mu.Unlock()
	return c.inventory(removing)
}

// inventories returns the Inventories of all open clouds with an audit, for the controller of orphans.
func (r *cloudRegistry) inventories() []orphan.Other {
	var all []orphan.Other
	for ref, s := range r.sessions() {
		if !s.audits.begun() {
			continue
		}
		other := orphan.Other{Inventory: s, Tenant: ref.Namespace}
		if ref.Namespace == r.operator {
			other.Tenant = ""
		}
		all = append(all, other)
	}
	return all
}

// sessions returns the Inventories of all open clouds.
func (r *cloudRegistry) sessions() map[managed.CloudRef]*sharedInventory {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[managed.CloudRef]*sharedInventory{}
	for ref, c := range r.clouds {
		if _, s := c.state(); s != nil {
			all[ref] = s.inventory
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
			r.sweep(ctx)
		}
	}
}

// sweep closes the clouds that no object uses, and the sessions whose Secrets cannot be used, after closeAfter. A cloud
// without a session is closed at once. It enqueues the objects of clouds that have a place now.
func (r *cloudRegistry) sweep(ctx context.Context) {
	named := map[managed.CloudRef]bool{}
	r.p.audience.each(func(user inventoryUser) {
		for ref := range user.CloudsInUse() {
			named[ref] = true
		}
	})
	r.keepForDeletions(ctx, named)
	for _, ref := range r.closeUnused(named) {
		r.p.audience.wake(ref)
	}
}

// keepForDeletions keeps the sessions whose Secrets went with their namespaces, until all objects have gone, too.
// Nobody can create such a Secret again.
func (r *cloudRegistry) keepForDeletions(ctx context.Context, named map[managed.CloudRef]bool) {
	r.mu.Lock()
	var asking []*secretCloud
	for ref, c := range r.clouds {
		if known, session := c.state(); named[ref] && session != nil && known.problem != nil && known.problem.Gone {
			asking = append(asking, c)
		}
	}
	r.mu.Unlock()
	for _, c := range asking {
		ends := r.p.namespaces.terminating(ctx, c.ref.Namespace)
		c.mu.Lock()
		c.outlives = ends
		c.mu.Unlock()
	}
}

// closeUnused closes the clouds that are not named, and returns those that may be opened.
func (r *cloudRegistry) closeUnused(named map[managed.CloudRef]bool) (free []managed.CloudRef) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for ref, c := range r.clouds {
		known, session := c.state()
		switch {
		case named[ref]:
			c.unnamed = time.Time{}
			if known.problem != nil && !c.usable(known) {
				c.end()
			}
		case c.unnamed.IsZero():
			c.unnamed = time.Now()
		case session == nil || time.Since(c.unnamed) > closeAfter:
			c.close()
			delete(r.clouds, ref)
			c.logger.Info("Closed the cloud; no object uses it")
		}
	}
	r.forgetAttempts()
	for ref := range r.refused {
		switch {
		case !named[ref]:
			delete(r.refused, ref)
		case r.room(ref.Namespace) == nil:
			delete(r.refused, ref)
			r.clouds[ref] = r.open(ref)
			free = append(free, ref)
		}
	}
	return free
}

// forgetAttempts forgets the limits of namespaces that have no cloud and long tried none. The caller holds mu.
func (r *cloudRegistry) forgetAttempts() {
	inUse := map[string]bool{}
	for ref := range r.clouds {
		inUse[ref.Namespace] = true
	}
	r.attempting.Lock()
	defer r.attempting.Unlock()
	for namespace, attempts := range r.attempts {
		if !inUse[namespace] && attempts.Tokens() >= float64(attempts.Burst()) {
			delete(r.attempts, namespace)
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
	c := &secretCloud{p: r.p, ref: ref, to: r.to, ctx: ctx, cancel: cancel, logger: logger, attempt: r.attempt}
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
	// attempt returns the limit of trying a namespace's credentials.
	attempt func(namespace string) *rate.Limiter
	// unnamed is since when no object uses it; zero while one does. The registry's lock guards it.
	unnamed time.Time

	mu    sync.Mutex
	known secretState
	// outlives is true if the Secret's namespace is being deleted.
	outlives bool
	// session is nil before there are credentials, and after they have been gone for closeAfter.
	session *cloudSession
	// later calls renew when the namespace's credentials may be tried again; nil if it need not.
	later *time.Timer
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
	outlived := removing && open && c.usable(known)
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

// usable reports whether a session may still remove what is being deleted, although the Secret cannot be used now.
func (c *secretCloud) usable(known secretState) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(known.since) <= closeAfter || c.outlives && known.problem != nil && known.problem.Gone
}

// renew makes the session use the credentials in the Secret. The caller holds mu.
func (c *secretCloud) renew() {
	switch {
	case c.ctx.Err() != nil || c.later != nil:
	case c.session != nil && c.session.uid == c.known.uid:
		c.session.access.files.lookNow()
	default:
		if c.session != nil {
			c.session.cancel()
			c.session = nil
		}
		if wait := c.attempt(c.ref.Namespace).Reserve().Delay(); wait > 0 {
			forgetCloud(c.ref)
			c.logger.Info("Logging in later; credentials of this namespace were tried often", "in", wait)
			c.later = time.AfterFunc(wait, c.beginLater)
			return
		}
		c.session = c.begin(c.known)
	}
}

// beginLater opens the session that renew postponed.
func (c *secretCloud) beginLater() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.later = nil
	if c.ctx.Err() == nil && c.known.problem == nil && c.session == nil {
		c.session = c.begin(c.known)
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
	access.files.admit = c.attempt(c.ref.Namespace).Allow
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
		access.cloud.Close()
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

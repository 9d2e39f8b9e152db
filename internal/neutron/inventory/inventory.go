package inventory

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/batch"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// Inventory caches what one Kubernetes cluster owns in one project of one cloud. It is to Neutron what an informer is
// to the API server: it lists, indexes the result by owner, and tells its handler whose resources changed. Neutron has
// no watch, so the Inventory lists at intervals (an audit). Revision numbers show what changed.
//
// Writes go through it, too (Apply), so its users always see their own writes. An audit that began before a write does
// not undo the write here.
//
// All methods are safe for concurrent use. Callers MUST NOT change what Observed returns.
type Inventory struct {
	cloud *client.Cloud
	// queue schedules writes and groups creates into bulk calls.
	queue   *batch.Queue
	cluster string
	options Options

	// mu guards what follows, all shelves included.
	mu       sync.RWMutex
	networks *shelf[plan.ObservedNetwork]
	ports    *shelf[plan.ObservedPort]
	routers  *shelf[plan.ObservedRouter]
	coverage coverage
	// blocked are the reasons why networks and subnets could not be deleted, by their ids.
	blocked map[string]blockade
	// began is when the last completed list began; zero before the first one. of is its project: everything in the
	// Inventory belongs to it.
	began time.Time
	of    client.Identity
	// flight is the list under way, or nil.
	flight *flight
	// failed is why the last list failed; nil if it succeeded.
	failed error
	// counts are the addresses in use; room is what is left for bulks of ports.
	counts counts
	room   room

	// external, existing, policies and pools find what users refer to by name. They have their own locks.
	external, existing, policies, pools *directory
}

// Options configure an Inventory.
type Options struct {
	// Interval is the time between audits, with 10 % jitter; 0 or less means only the first audit.
	Interval time.Duration
	// MaxCalls bounds the concurrent writes, however fast the cloud is; 0 means batch.DefaultMaxCalls.
	MaxCalls int
	// Ports makes audits list ports, too. Without it, an Inventory reads and writes no ports except routers' interfaces.
	Ports bool
	// Moved, if set, gets the UID of each object whose resources differ from what the Inventory held. It also gets it if
	// the number of used addresses changed, or if a port that Blockers found is gone. Changes by Apply are not reported.
	// It MUST be quick.
	Moved func(object string)
	// Audited, if set, is called at the end of every audit.
	Audited func(Audit)
}

// Audit is the result of one round of lists.
type Audit struct {
	// Duration is from the first request to the last answer.
	Duration time.Duration
	// Networks and Ports are how many the cluster owns.
	Networks, Ports int
	// Moved is how many owners' resources differ from what was expected. Changed address counts are normal and not
	// included.
	Moved int
	// Err is why the audit failed. Then the Inventory is unchanged, unless only the count of addresses failed.
	Err error
}

// New creates an empty Inventory for the cluster of the given UID. Run fills it.
func New(cloud *client.Cloud, cluster string, options Options) *Inventory {
	if options.Moved == nil {
		options.Moved = func(string) {}
	}
	if options.Audited == nil {
		options.Audited = func(Audit) {}
	}
	i := &Inventory{cloud: cloud, cluster: cluster, options: options, blocked: map[string]blockade{}}
	i.room = newRoom()
	i.queue = batch.New(batch.Options{MaxCalls: options.MaxCalls, Post: cloud.CreateAll, Refused: i.refusedItems})
	cloud.OnMove(i.moved)
	i.networks = newShelf(&i.mu, networkKind)
	i.ports = newShelf(&i.mu, portKind)
	i.routers = newShelf(&i.mu, routerKind)
	i.external, i.existing, i.policies, i.pools = newExternalNetworks(), newRouters(), newQoSPolicies(), newSubnetPools()
	return i
}

// moved drops what was learned about the former project or cloud.
func (i *Inventory) moved(was, is client.Identity) {
	if was.Endpoint != is.Endpoint {
		i.queue.Reset()
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	clear(i.room.barred) // the new project has other networks
}

// The pause between failed audits doubles from auditBackoffFirst to auditBackoffLast.
const (
	auditBackoffFirst = time.Second
	auditBackoffLast  = 30 * time.Second
)

// Run audits until ctx is done: at once and after each interval. After a failure it retries with backoff, or after the
// cloud's Retry-After if that is longer.
func (i *Inventory) Run(ctx context.Context) {
	for {
		i.Fill(ctx)
		if ctx.Err() != nil || i.options.Interval <= 0 {
			return
		}
		client.Pause(ctx, client.Jitter(i.options.Interval), nil)
	}
}

// Fill audits until one audit succeeds or ctx is done. It uses the same backoff as Run and retries at once when an
// outage ends (see client.Cloud.Run).
func (i *Inventory) Fill(ctx context.Context) {
	for backoff := auditBackoffFirst; ctx.Err() == nil; backoff = min(2*backoff, auditBackoffLast) {
		err := i.Audit(ctx)
		if err == nil {
			return
		}
		pause := client.Jitter(backoff)
		over := i.cloud.OutageEnd()
		// If the outage has ended already, no signal follows: do not wait for it.
		if asked, ok := errors.AsType[*client.Error](err); ok && (over != nil || !errors.Is(err, client.ErrOutage)) {
			pause = max(pause, asked.Wait)
		}
		client.Pause(ctx, pause, over)
	}
}

// Audit lists everything now and updates the Inventory, address counts included. If it lists routers only as a patrol,
// it leaves the counts to the next audit. So every audit costs about the same.
func (i *Inventory) Audit(ctx context.Context) error {
	began := time.Now()
	moved, err := i.listSince(ctx, began)
	if err == nil {
		err = i.countAddresses(ctx)
	}
	audit := Audit{Duration: time.Since(began), Moved: len(moved), Err: err}
	i.mu.RLock()
	audit.Networks, audit.Ports = len(i.networks.held), len(i.ports.held)
	i.mu.RUnlock()
	i.options.Audited(audit)
	return err
}

// Identity returns the project and cloud of this Inventory; see client.Cloud.Identity.
func (i *Inventory) Identity(ctx context.Context) (client.Identity, error) {
	return i.cloud.Identity(ctx)
}

// Observed returns what bears the owner's marker, from a complete list that began at since or later. It lists only if
// there is no such list; all who wait share one. On error nothing is known, which does not mean that nothing exists. If
// the context is Within a project (client.Within), it returns resources of that project only.
func (i *Inventory) Observed(ctx context.Context, owner plan.Owner, since time.Time) (plan.Observed, error) {
	if observed, known := i.observed(ctx, owner, since); known {
		return observed, nil // the normal case
	}
	if _, err := i.listSince(ctx, since); err != nil {
		return plan.Observed{}, err
	}
	observed, known := i.observed(ctx, owner, time.Time{})
	if !known {
		i.mu.RLock()
		defer i.mu.RUnlock()
		return plan.Observed{}, client.Outside(ctx, opObserve, i.of) // another list has ended meanwhile
	}
	return observed, nil
}

// observed is Observed without listing. known is false if the last list is older than since or of another project.
func (i *Inventory) observed(
	ctx context.Context, owner plan.Owner, since time.Time,
) (observed plan.Observed, known bool) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	if !i.suffices(since) || client.Outside(ctx, opObserve, i.of) != nil {
		return plan.Observed{}, false
	}
	if owner.Cluster != i.cluster {
		return plan.Observed{}, true
	}
	return plan.Observed{
		Networks: i.networks.owned[owner.Object], Ports: i.ports.owned[owner.Object], Routers: i.routers.owned[owner.Object],
	}, true
}

// Synced reports whether a list has ever completed. If not, it returns why the last one failed (nil while the first one
// is under way).
func (i *Inventory) Synced() (bool, error) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return !i.began.IsZero(), i.failed
}

// flight is a list under way, shared by all who wait for it.
type flight struct {
	began time.Time
	scope scope
	of    client.Identity
	done  chan struct{}
	moved []string
	err   error
}

// listSince waits for a complete list that began at since or later, and starts one if necessary. It returns the objects
// that changed in a list for which it waited.
func (i *Inventory) listSince(ctx context.Context, since time.Time) ([]string, error) {
	// No list begins in the future: waiting for one would list forever.
	if now := time.Now(); since.After(now) {
		since = now
	}
	project, bound := client.Wanted(ctx)
	for {
		i.mu.Lock()
		if i.suffices(since) && (!bound || project == i.of) {
			i.mu.Unlock()
			return nil, nil
		}
		f := i.flight
		if f == nil {
			f = &flight{began: time.Now(), scope: i.scope(), done: make(chan struct{})}
			i.flight = f
			i.room.listBegins()
			// Several callers may wait for the list. It must not end when the first one leaves.
			go i.list(context.WithoutCancel(ctx), f, clocks{i.networks.clock, i.ports.clock, i.routers.clock})
		}
		i.mu.Unlock()

		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-f.done:
		}
		if errors.Is(f.err, client.ErrOutage) && i.cloud.OutageEnd() == nil {
			continue // the outage that stopped it is over: retry
		}
		i.mu.RLock()
		enough := i.enough(f.scope)
		i.mu.RUnlock()
		if !f.began.Before(since) && (f.err != nil || enough && (!bound || project == f.of)) {
			return f.moved, f.err
		}
	}
}

// listTimeout bounds one complete list of any number of pages.
const listTimeout = 10 * time.Minute

// clocks are the clocks of the shelves.
type clocks struct{ networks, ports, routers uint64 }

// list reads all networks, subnets, ports and routers and updates the Inventory. since are the clocks when it began.
func (i *Inventory) list(ctx context.Context, f *flight, since clocks) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	listed, of, err := i.readProject(ctx, f.scope)

	i.mu.Lock()
	f.of = of
	moved := map[string]bool{}
	if err == nil {
		if i.of != of && !i.began.IsZero() {
			// The Inventory holds another project's resources. Even recent writes to them are not newer than the list.
			i.networks.clear(moved)
			i.ports.clear(moved)
			i.routers.clear(moved)
			i.counts = counts{foreign: i.counts.foreign}
		}
		i.of = of
		i.networks.takeIn(listed.networks, since.networks, moved)
		i.ports.takeIn(listed.ports, since.ports, moved)
		i.routers.takeIn(listed.routers, since.routers, moved)
		i.lift(f.began, listed.standing, moved)
		f.moved = slices.Sorted(maps.Keys(moved))
		if listed.used != nil {
			i.counts.seen = listed.used
		}
		i.recount(moved)
		i.began = f.began
		i.coverage.shown = f.scope
		if f.scope.routers {
			i.coverage.last = f.began
		}
	}
	i.room.listEnds(err == nil && listed.used != nil)
	i.failed = err
	i.flight = nil
	i.mu.Unlock()

	// Callers that wait for the list rely on all handlers having been told.
	for _, object := range slices.Sorted(maps.Keys(moved)) {
		i.options.Moved(object)
	}
	f.err = err
	close(f.done)
}

// listing is everything that we own, by id.
type listing struct {
	networks map[string]*plan.ObservedNetwork
	ports    map[string]*plan.ObservedPort
	routers  map[string]*plan.ObservedRouter
	// standing are the ids of awaited ports, of any owner, that still exist.
	standing map[string]bool
	// used counts the addresses of all the project's ports; nil unless Options.Ports is set.
	used usage
}

// opObserve is the operation's name in errors of Observed.
const opObserve = "observe"

// readProject is read for the project of the credentials, or the one that ctx is Within. It fails if the credentials
// change meanwhile.
func (i *Inventory) readProject(ctx context.Context, show scope) (listing, client.Identity, error) {
	of, bound := client.Wanted(ctx)
	if !bound {
		var err error
		if of, err = i.cloud.Identity(ctx); err != nil {
			return listing{}, of, err
		}
	}
	listed, err := i.read(client.Within(ctx, of), show)
	return listed, of, err
}

// read lists everything that we own.
func (i *Inventory) read(ctx context.Context, show scope) (listed listing, err error) {
	if listed.networks, err = i.readNetworks(ctx); err != nil {
		return listed, err
	}
	if show.ports {
		if err = i.readPorts(ctx, &listed); err != nil {
			return listed, err
		}
	}
	if show.routers {
		if listed.routers, err = i.readRouters(ctx); err != nil {
			return listed, err
		}
	}
	if show.shares {
		var shares map[string][]plan.Share
		shares, err = i.readShares(ctx, "")
		for id, n := range listed.networks {
			n.Shares = shares[id]
		}
	}
	return listed, err
}

func (i *Inventory) readNetworks(ctx context.Context) (map[string]*plan.ObservedNetwork, error) {
	networks, err := i.listNetworks(ctx)
	if err != nil {
		return nil, err
	}
	subnets, err := i.listSubnets(ctx, "")
	if err != nil {
		return nil, err
	}
	byNetwork := map[string][]wireSubnet{}
	for _, s := range subnets {
		byNetwork[s.NetworkID] = append(byNetwork[s.NetworkID], s)
	}
	ours := map[string]*plan.ObservedNetwork{}
	for _, w := range networks {
		if !i.owns(w.Description) {
			continue
		}
		known := byNetwork[w.ID]
		// The project's list does not show subnets that other projects created on our network.
		if len(missing(w, known)) > 0 {
			if known, err = i.subnetsOf(ctx, w); err != nil {
				return nil, err
			}
		}
		observed, err := assemble(w, known)
		if err != nil {
			return nil, client.BadAnswer(opListNetworks, "GET", "%s", err)
		}
		ours[w.ID] = observed
	}
	return ours, nil
}

// subnetsOf lists the subnets of one network, of all projects. If the list omits a subnet that the network names, it
// reads that subnet by id: an incomplete list must not cause a second create. A subnet that is not found by id either
// is gone, or hidden from these credentials.
func (i *Inventory) subnetsOf(ctx context.Context, w wireNetwork) ([]wireSubnet, error) {
	known, err := i.listSubnets(ctx, w.ID)
	if err != nil {
		return nil, err
	}
	for _, id := range missing(w, known) {
		s, err := client.Get[wireSubnet](ctx, i.cloud, opGetSubnet, subnetAPI, subnetFields, id)
		switch {
		case err == nil:
			known = append(known, s)
		case !client.IsNotFound(err):
			return nil, err
		}
	}
	return known, nil
}

// missing returns the ids of the subnets that a network names and known lacks.
func missing(w wireNetwork, known []wireSubnet) (ids []string) {
	for _, id := range w.Subnets {
		if !slices.ContainsFunc(known, func(s wireSubnet) bool { return s.ID == id }) {
			ids = append(ids, id)
		}
	}
	return ids
}

// readPorts adds the project's ports to a listing.
func (i *Inventory) readPorts(ctx context.Context, into *listing) error {
	awaited := i.awaited()
	ports, err := i.listPorts(ctx)
	if err != nil {
		return err
	}
	into.ports, into.standing = map[string]*plan.ObservedPort{}, map[string]bool{}
	if i.options.Ports {
		// Without Options.Ports, lists show ports only for routers. Their counts would soon be stale.
		into.used = usage{}
	}
	known := shared{}
	for _, w := range ports {
		if awaited[w.ID] {
			into.standing[w.ID] = true
		}
		if into.used != nil {
			for _, fixed := range w.FixedIPs {
				into.used[fixed.SubnetID]++
			}
		}
		if !i.owns(w.Description) || !i.options.Ports && !w.isInterface() {
			continue
		}
		observed, err := w.observed()
		if err != nil {
			return client.BadAnswer(opListPorts, "GET", "%s", err)
		}
		known.in(&observed)
		into.ports[w.ID] = &observed
	}
	return nil
}

// shared interns strings that many ports of a list have in common. Decoding allocates each one separately.
type shared map[string]string

// in interns the ids of a port's network, router, subnets and security groups. Nobody else may have the port yet.
func (s shared) in(p *plan.ObservedPort) {
	one := func(text *string) {
		if known, ok := s[*text]; ok {
			*text = known
		} else {
			s[*text] = *text
		}
	}
	one(&p.NetworkID)
	one(&p.Router)
	for at := range p.Addresses {
		one(&p.Addresses[at].SubnetID)
	}
	for at := range p.SecurityGroups {
		one(&p.SecurityGroups[at])
	}
}

func (i *Inventory) owns(description string) bool {
	_, owner, ok := plan.ParseDescription(description)
	return ok && owner.Cluster == i.cluster
}

func assemble(w wireNetwork, subnets []wireSubnet) (*plan.ObservedNetwork, error) {
	observed, err := w.observed()
	if err != nil {
		return nil, err
	}
	for _, s := range subnets {
		subnet, err := s.observed()
		if err != nil {
			return nil, err
		}
		// Normally they are equal. Share one copy to save memory.
		if subnet.Name == observed.Name {
			subnet.Name = observed.Name
		}
		if subnet.Description == observed.Description {
			subnet.Description = observed.Description
		}
		observed.Subnets = append(observed.Subnets, subnet)
	}
	return &observed, nil
}

var networkKind = kind[plan.ObservedNetwork]{
	name:  func(n *plan.ObservedNetwork) (id, description string) { return n.ID, n.Description },
	same:  sameRevisions,
	carry: keepUnread,
}

var portKind = kind[plan.ObservedPort]{
	name: func(p *plan.ObservedPort) (id, description string) { return p.ID, p.Description },
	same: func(a, b *plan.ObservedPort) bool {
		return a.Revision == b.Revision && a.Description == b.Description
	},
}

// sameRevisions reports whether two views of a network have the same revisions. Most writes to a subnet move both its
// own revision and its network's. Some do not (tags), so it compares both. A new segmentation id of a VLAN moves none.
// A new share moves the network's revision. It compares shares, too, because they may be read later than the revision.
func sameRevisions(a, b *plan.ObservedNetwork) bool {
	if a.Revision != b.Revision || a.Description != b.Description || a.Provider != b.Provider ||
		!sameShares(a.Shares, b.Shares) || len(a.Subnets) != len(b.Subnets) {
		return false
	}
	for _, s := range a.Subnets {
		if !slices.ContainsFunc(b.Subnets, func(other plan.ObservedSubnet) bool {
			return s.ID == other.ID && s.Revision == other.Revision
		}) {
			return false
		}
	}
	return true
}

// Find searches live for resources of a kind and a name that bear the owner's marker. It reads those that it finds. It
// is a second check before a create, because an incomplete list would cause a duplicate. It sends a different query,
// which does not have the same gap. It finds only names that the owner's resources have had. It returns whether
// anything exists; on error nothing is known.
func (i *Inventory) Find(
	ctx context.Context, of plan.Kind, name string, owner plan.Owner,
) (found bool, err error) {
	var ids []string
	switch {
	case of == plan.KindNetwork:
		ids, err = findOwned[wireNetwork](ctx, i.cloud, opFindNetwork, networkAPI, name, owner)
	case of == plan.KindRouter:
		ids, err = findOwned[wireRouter](ctx, i.cloud, opFindRouter, routerAPI, name, owner)
	case of == plan.KindPort && i.options.Ports:
		ids, err = findOwned[wirePort](ctx, i.cloud, opFindPort, portAPI, name, owner)
	default:
		return false, notHeld("find " + string(of))
	}
	for _, id := range ids {
		there, err := i.Reread(ctx, plan.Resource{Kind: of, ID: id})
		if err != nil && !errors.Is(err, ErrUnmarked) {
			return false, err
		}
		found = found || there && err == nil
	}
	return found, err
}

// findOwned returns the ids of the project's resources with a name and the owner's marker.
func findOwned[W described](
	ctx context.Context, c *client.Cloud, op string, of client.Collection, name string, owner plan.Owner,
) (ids []string, err error) {
	identity, err := c.Identity(ctx)
	if err != nil {
		return nil, err
	}
	all, err := client.List[W](ctx, c, op, of, url.Values{
		"project_id": {identity.ProjectID}, "name": {name}, "fields": {"id", "description"},
	})
	for _, w := range all {
		if owner.Owns(w.described()) {
			ids = append(ids, w.Key())
		}
	}
	return ids, err
}

// ErrUnmarked means that a resource of ours no longer bears our marker.
var ErrUnmarked = errors.New("it no longer bears this cluster's marker")

// Reread reads one resource live; a network with its subnets. It is for a resource that a list did not show or that a
// write found changed. It returns whether the resource exists, and ErrUnmarked if it exists but is not ours.
func (i *Inventory) Reread(ctx context.Context, r plan.Resource) (found bool, err error) {
	switch {
	case r.Kind == plan.KindNetwork:
		return reread(ctx, i.networks, r.ID, i.readNetwork)
	case r.Kind == plan.KindRouter:
		return reread(ctx, i.routers, r.ID, i.readRouter)
	case r.Kind == plan.KindPort && i.holdsPorts():
		return reread(ctx, i.ports, r.ID, i.readPort)
	}
	return false, notHeld("get " + string(r.Kind))
}

// notHeld refuses an operation on a kind that the Inventory does not list.
func notHeld(op string) *client.Error {
	return &client.Error{Kind: client.Invalid, Op: op, Reason: "this Inventory does not hold such resources"}
}

// reread reads a resource and updates its shelf. read returns ErrUnmarked if the resource is not ours.
func reread[T any](
	ctx context.Context, on *shelf[T], id string, read func(context.Context, string) (*T, error),
) (found bool, err error) {
	since := on.begin()
	r, err := read(ctx, id)
	switch {
	case err == nil, errors.Is(err, ErrUnmarked):
		on.refresh(id, r, since)
		return true, err
	case client.IsNotFound(err):
		on.refresh(id, nil, since)
		return false, nil
	}
	return false, err
}

func (i *Inventory) readNetwork(ctx context.Context, id string) (*plan.ObservedNetwork, error) {
	w, err := client.Get[wireNetwork](ctx, i.cloud, opGetNetwork, networkAPI, networkFields, id)
	if err != nil {
		return nil, err
	}
	if !i.owns(w.Description) {
		return nil, ErrUnmarked
	}
	return i.whole(ctx, w)
}

// whole reads the subnets of a network and adds the counts of the last audit. It reads shares only if lists show them.
func (i *Inventory) whole(ctx context.Context, w wireNetwork) (*plan.ObservedNetwork, error) {
	subnets, err := i.subnetsOf(ctx, w)
	if err != nil {
		return nil, err
	}
	observed, err := assemble(w, subnets)
	if err != nil {
		return nil, client.BadAnswer(opGetNetwork, "GET", "%s", err)
	}
	if i.readsShares(w.ID) {
		shares, err := i.readShares(ctx, w.ID)
		if err != nil {
			return nil, err
		}
		observed.Shares = shares[w.ID]
	}
	i.putCounts(observed)
	return observed, nil
}

func (i *Inventory) readPort(ctx context.Context, id string) (*plan.ObservedPort, error) {
	return readOurs(ctx, i, opGetPort, portAPI, portFields, id, wirePort.observed)
}

// readOurs reads a resource of ours; ErrUnmarked if it is not.
func readOurs[W described, T any](
	ctx context.Context, i *Inventory, op string, of client.Collection, fields []string, id string,
	observed func(W) (T, error),
) (*T, error) {
	w, err := client.Get[W](ctx, i.cloud, op, of, fields, id)
	if err != nil {
		return nil, err
	}
	if !i.owns(w.described()) {
		return nil, ErrUnmarked
	}
	ours, err := observed(w)
	if err != nil {
		return nil, client.BadAnswer(op, http.MethodGet, "%s", err)
	}
	return &ours, nil
}

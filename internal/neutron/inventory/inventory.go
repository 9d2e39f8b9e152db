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

// Inventory holds what one Kubernetes cluster owns in one project of one cloud. It is to Neutron what an informer is to
// the API server: it lists, keeps the result in an index by owner, and tells its handler which owners' resources moved.
// Neutron has no watch, so it lists again at intervals (an audit); the resources' revision numbers say what changed.
//
// Writes go through it too (Apply), so that what it holds is never older than what its own user has done: an audit that
// began before a write does not undo what the write left here.
//
// All methods are safe for concurrent use. What Observed returns is the caller's to read and not to change.
type Inventory struct {
	cloud *client.Cloud
	// queue has writes wait for their turn, and creates go together.
	queue   *batch.Queue
	cluster string
	options Options

	// mu guards what follows, both shelves included.
	mu       sync.RWMutex
	networks *shelf[plan.ObservedNetwork]
	ports    *shelf[plan.ObservedPort]
	routers  *shelf[plan.ObservedRouter]
	coverage coverage
	// blocked is what keeps networks and subnets from being deleted, by their ids.
	blocked map[string]blockade
	// began is when the last list that was completed began; zero before the first. of is the project that it showed, and
	// that all which is held is of.
	began time.Time
	of    client.Identity
	// flight is the list that is under way.
	flight *flight
	// failed is why the last list failed; nil once one succeeds.
	failed error
	// counts are of the addresses in use, and room is what is left for bulks of ports.
	counts counts
	room   room

	// external, existing, policies and pools are what users refer to; they have locks of their own.
	external, existing, policies, pools *directory
}

// Options tune an Inventory.
type Options struct {
	// Interval is between audits, give or take a tenth; 0 or less means no audits but the first.
	Interval time.Duration
	// MaxCalls bounds the writes that are under way at a time, whatever the cloud's speed allows; 0 means
	// DefaultMaxCalls.
	MaxCalls int
	// Ports has ports listed, too. Without it, an Inventory reads and writes no ports but routers' interfaces.
	Ports bool
	// Moved, where set, is told the UID of each object whose resources were found to be other than the Inventory held
	// them, of whose subnets other numbers of addresses are in use, or whose deletion lacks a port that Blockers found in
	// its way. It MUST be quick. It is not told of what Apply did.
	Moved func(object string)
	// Audited, where set, is told of every audit's end.
	Audited func(Audit)
}

// Audit is one round of lists that has ended.
type Audit struct {
	// Duration is from the first request to the last answer.
	Duration time.Duration
	// Networks and Ports are how many of ours there are.
	Networks, Ports int
	// Moved is how many owners' resources were other than expected. Addresses come into use and fall free all the time,
	// and do not count.
	Moved int
	// Err is why the audit failed. Nothing was taken in then, but where all that failed was to count addresses.
	Err error
}

// New makes an empty Inventory for the cluster of the given UID. Run fills it.
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

// moved has what was learned of the former project or cloud forgotten.
func (i *Inventory) moved(was, is client.Identity) {
	if was.Endpoint != is.Endpoint {
		i.queue.Reset()
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	clear(i.room.barred) // they are other networks now
}

// auditBackoff is between failed audits: doubled from the first to the last.
const (
	auditBackoffFirst = time.Second
	auditBackoffLast  = 30 * time.Second
)

// Run audits until ctx is done: at once, after each interval, and after a failure with backoff, or when the
// cloud asked to be asked again.
func (i *Inventory) Run(ctx context.Context) {
	for {
		i.Fill(ctx)
		if ctx.Err() != nil || i.options.Interval <= 0 {
			return
		}
		client.Pause(ctx, client.Jitter(i.options.Interval), nil)
	}
}

// Fill audits until one audit has succeeded or ctx is done, with the same backoff as Run, and at once when an outage of
// the cloud is over (see Cloud.Run).
func (i *Inventory) Fill(ctx context.Context) {
	for backoff := auditBackoffFirst; ctx.Err() == nil; backoff = min(2*backoff, auditBackoffLast) {
		err := i.Audit(ctx)
		if err == nil {
			return
		}
		pause := client.Jitter(backoff)
		over := i.cloud.OutageEnd()
		// An outage that has ended meanwhile wakes nobody any more.
		if asked, ok := errors.AsType[*client.Error](err); ok && (over != nil || !errors.Is(err, client.ErrOutage)) {
			pause = max(pause, asked.Wait)
		}
		client.Pause(ctx, pause, over)
	}
}

// Audit lists everything now and takes it in, address counts included. Where lists of routers are seldom needed, an
// audit that makes one leaves the counts to the next audit, so that none costs more calls than the others.
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

// Identity tells which project of which cloud this is; see Cloud.Identity.
func (i *Inventory) Identity(ctx context.Context) (client.Identity, error) {
	return i.cloud.Identity(ctx)
}

// Observed gives what bears the owner's marker, as of a complete list that began at since or later. It lists only where
// none has: all who wait share one list. An error means that nothing is known, and never that nothing is there.
// With a context that is Within a project, it gives what is there and in no other.
func (i *Inventory) Observed(ctx context.Context, owner plan.Owner, since time.Time) (plan.Observed, error) {
	if observed, known := i.observed(ctx, owner, since); known {
		return observed, nil // as a rule
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

// observed is Observed where a list is there already that began at since or later, of the project that ctx is Within.
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

// Synced reports whether a list has ever been completed, and if not, why the last one failed (nil while the first one
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

// listSince returns when a complete list that began at since or later was taken in, and starts one where it must. It
// returns the objects that a list moved for which it waited.
func (i *Inventory) listSince(ctx context.Context, since time.Time) ([]string, error) {
	// No list begins later than now: to wait for one that does would list again and again.
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
			// The list is for all who wait for it: the first one's leaving must not end it for the others.
			go i.list(context.WithoutCancel(ctx), f, clocks{i.networks.clock, i.ports.clock, i.routers.clock})
		}
		i.mu.Unlock()

		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-f.done:
		}
		if errors.Is(f.err, client.ErrOutage) && i.cloud.OutageEnd() == nil {
			continue // it was kept back by an outage that is over: who is woken by that end was woken
		}
		i.mu.RLock()
		enough := i.enough(f.scope)
		i.mu.RUnlock()
		if !f.began.Before(since) && (f.err != nil || enough && (!bound || project == f.of)) {
			return f.moved, f.err
		}
	}
}

// listTimeout bounds one whole list of any number of pages.
const listTimeout = 10 * time.Minute

// clocks are those of the shelves.
type clocks struct{ networks, ports, routers uint64 }

// list reads all networks, subnets, ports and routers and takes them in. since are the clocks when it began.
func (i *Inventory) list(ctx context.Context, f *flight, since clocks) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	listed, of, err := i.readProject(ctx, f.scope)

	i.mu.Lock()
	f.of = of
	moved := map[string]bool{}
	if err == nil {
		if i.of != of && !i.began.IsZero() {
			// What is held is of another project: not even what was written meanwhile is newer than the list.
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

	// Who waited for the list may rely on everybody's having been told.
	for _, object := range slices.Sorted(maps.Keys(moved)) {
		i.options.Moved(object)
	}
	f.err = err
	close(f.done)
}

// listing is all that is ours, by id.
type listing struct {
	networks map[string]*plan.ObservedNetwork
	ports    map[string]*plan.ObservedPort
	routers  map[string]*plan.ObservedRouter
	// standing are the ids of ports, whoever's, whose end is awaited and that are there.
	standing map[string]bool
	// used is how many addresses all ports of the project have; nil where ports are not listed for their own sake.
	used usage
}

// opObserve is what is tried where what is held is asked for.
const opObserve = "observe"

// readProject is read for the project that the credentials lead to, or that ctx is Within. It fails where they change
// meanwhile.
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

// read lists what is ours, whole.
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
		// A subnet that another project put on our network is not in the project's list.
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

// subnetsOf lists the subnets of one network, whatever project made them. One that the network names and the list does
// not show is asked for by its id: a list that falls short must not have it made anew. What is not there by its id,
// either, has gone meanwhile, or is not for these credentials to see.
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

// missing are the ids of the subnets that a network names and that are not among those that are known.
func missing(w wireNetwork, known []wireSubnet) (ids []string) {
	for _, id := range w.Subnets {
		if !slices.ContainsFunc(known, func(s wireSubnet) bool { return s.ID == id }) {
			ids = append(ids, id)
		}
	}
	return ids
}

// readPorts fills in what a list of the project's ports tells.
func (i *Inventory) readPorts(ctx context.Context, into *listing) error {
	awaited := i.awaited()
	ports, err := i.listPorts(ctx)
	if err != nil {
		return err
	}
	into.ports, into.standing = map[string]*plan.ObservedPort{}, map[string]bool{}
	if i.options.Ports {
		// Of lists that show ports now and then, for routers' sake, counts would be old as a rule.
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

// shared are texts that many ports of a list have in common. Decoding makes each its own.
type shared map[string]string

// in has a port that nobody else has yet hold the ids of its network, router, subnets and security groups with the
// others.
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
		// As a rule they are the same, and decoding made two of each.
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

// sameRevisions reports whether two views of a network are of the same revisions. Most writes to a subnet move both its
// own revision and its network's; not all do (tags), so both are compared. A vlan's other segmentation id moves none.
// That a network is shared moves its revision, which may be known from before anybody asked with whom.
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

// Find looks live for resources of a kind that bear the owner's marker, among those of a name, and reads what it finds.
// It is a second opinion for where a list of all that shows nothing would have something made once more: an answer to
// another question, which a list that falls short does not answer wrong as well. Only names that the owner's resources
// have been given find them. It returns whether anything was there; an error means that nothing is known.
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

// findOwned gives the ids of the project's resources that have a name and bear the owner's marker.
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

// ErrUnmarked says that a resource which was ours no longer bears our marker.
var ErrUnmarked = errors.New("it no longer bears this cluster's marker")

// Reread reads one resource anew, a network with its subnets. It is for one that a list did not show or that a write
// found changed. It returns whether it is there; ErrUnmarked where it is and is not ours (any more).
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

// notHeld refuses what would be about resources that no list has shown.
func notHeld(op string) *client.Error {
	return &client.Error{Kind: client.Invalid, Op: op, Reason: "this Inventory does not hold such resources"}
}

// reread reads a resource by a function that gives ErrUnmarked for one that is not ours.
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

// whole reads the subnets of a network, with the counts of the last audit, and with whom it is shared where lists show
// that.
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

// readOurs reads a resource of ours; ErrUnmarked where it is not.
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

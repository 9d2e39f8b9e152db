package neutron

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/network"
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
	cloud   *Cloud
	cluster string
	options InventoryOptions

	mu sync.RWMutex
	// networks are ours, by id.
	networks map[string]*network.ObservedNetwork
	// owners are the ids of networks by the UID of the object that owns them.
	owners map[string][]string
	// clock counts local changes; changed says when each network was last changed here, by id, also after it was
	// removed. A list that began before a network's last change knows less about it than this Inventory.
	clock   uint64
	changed map[string]uint64
	// writing counts the writes that are under way, by network. A list that ends meanwhile may or may not show them, so
	// it is not believed about that network.
	writing map[string]int
	// began is when the last list that was completed began; zero before the first.
	began time.Time
	// flight is the list that is under way.
	flight *flight
	// failed is why the last list failed; nil once one succeeds.
	failed error
	// availabilityAgain is when the address counts are asked for again after the cloud refused them.
	availabilityAgain time.Time
}

// InventoryOptions tune an Inventory.
type InventoryOptions struct {
	// Interval is between audits, give or take a tenth; 0 or less means no audits but the first.
	Interval time.Duration
	// Ports has ports listed, too. Without it, an Inventory reads and writes networks alone.
	Ports bool
	// Moved, where set, is told the UID of each object whose resources were found to be other than the Inventory held
	// them. It MUST be quick. It is not told of what Apply did.
	Moved func(object string)
	// Audited, where set, is told of every audit's end.
	Audited func(Audit)
}

// Audit is one round of lists that has ended.
type Audit struct {
	// Duration is from the first request to the last answer.
	Duration time.Duration
	// Networks is how many of ours there are.
	Networks int
	// Moved is how many owners' resources were other than expected.
	Moved int
	// Err is why the audit failed; nothing was taken in then.
	Err error
}

// NewInventory makes an empty Inventory for the cluster of the given UID. Run fills it.
func NewInventory(cloud *Cloud, cluster string, options InventoryOptions) *Inventory {
	if options.Moved == nil {
		options.Moved = func(string) {}
	}
	if options.Audited == nil {
		options.Audited = func(Audit) {}
	}
	return &Inventory{
		cloud:    cloud,
		cluster:  cluster,
		options:  options,
		networks: map[string]*network.ObservedNetwork{},
		owners:   map[string][]string{},
		changed:  map[string]uint64{},
		writing:  map[string]int{},
	}
}

// auditBackoff is between failed audits: doubled from the first to the last.
const (
	auditBackoffFirst = time.Second
	auditBackoffLast  = 30 * time.Second
)

// Run audits until ctx is done: at once, after each interval, and after a failure with backoff, or when the
// cloud asked to be asked again.
func (i *Inventory) Run(ctx context.Context) {
	backoff := auditBackoffFirst
	for ctx.Err() == nil {
		pause := jitter(i.options.Interval)
		if err := i.Audit(ctx); err != nil {
			pause = jitter(backoff)
			backoff = min(2*backoff, auditBackoffLast)
			if asked, ok := errors.AsType[*Error](err); ok {
				pause = max(pause, asked.Wait)
			}
		} else {
			backoff = auditBackoffFirst
			if i.options.Interval <= 0 {
				return
			}
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}

// jitter spreads a pause by a tenth to both sides, so that many controllers do not list in step.
func jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(float64(d) * (0.9 + 0.2*rand.Float64()))
}

// Audit lists everything now and takes it in, address counts included.
func (i *Inventory) Audit(ctx context.Context) error {
	began := time.Now()
	moved, err := i.listSince(ctx, began)
	if err == nil {
		var counted []string
		counted, err = i.countAddresses(ctx)
		moved = append(moved, counted...)
	}
	slices.Sort(moved)
	moved = slices.Compact(moved)
	i.options.Audited(Audit{time.Since(began), i.Len(), len(moved), err})
	return err
}

// Len is how many networks of ours there are.
func (i *Inventory) Len() int {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return len(i.networks)
}

// Identity tells which project of which cloud this is; see Cloud.Identity.
func (i *Inventory) Identity(ctx context.Context) (Identity, error) { return i.cloud.Identity(ctx) }

// Observed gives what bears the owner's marker, as of a complete list that began at since or later. It lists only where
// none has: all who wait share one list. An error means that nothing is known, and never that nothing is there.
func (i *Inventory) Observed(ctx context.Context, owner network.Owner, since time.Time) (network.Observed, error) {
	if _, err := i.listSince(ctx, since); err != nil {
		return network.Observed{}, err
	}
	i.mu.RLock()
	defer i.mu.RUnlock()
	var observed network.Observed
	if owner.Cluster != i.cluster {
		return observed, nil
	}
	for _, id := range i.owners[owner.Object] {
		observed.Networks = append(observed.Networks, *i.networks[id])
	}
	return observed, nil
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
	for {
		i.mu.Lock()
		if !i.began.IsZero() && !i.began.Before(since) {
			i.mu.Unlock()
			return nil, nil
		}
		f := i.flight
		if f == nil {
			f = &flight{began: time.Now(), done: make(chan struct{})}
			i.flight = f
			// The list is for all who wait for it: the first one's leaving must not end it for the others.
			go i.list(context.WithoutCancel(ctx), f, i.clock)
		}
		i.mu.Unlock()

		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-f.done:
		}
		if !f.began.Before(since) {
			return f.moved, f.err
		}
	}
}

// listTimeout bounds one whole list of any number of pages.
const listTimeout = 10 * time.Minute

// list reads all networks and subnets and takes them in. since is the local clock when it began.
func (i *Inventory) list(ctx context.Context, f *flight, since uint64) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	listed, err := i.read(ctx)

	i.mu.Lock()
	if err == nil {
		f.moved = i.takeIn(listed, since)
		i.began = f.began
	}
	i.failed = err
	i.flight = nil
	i.mu.Unlock()

	// Who waited for the list may rely on everybody's having been told.
	for _, object := range f.moved {
		i.options.Moved(object)
	}
	f.err = err
	close(f.done)
}

// read lists what is ours, whole.
func (i *Inventory) read(ctx context.Context) (map[string]*network.ObservedNetwork, error) {
	networks, err := i.cloud.listNetworks(ctx)
	if err != nil {
		return nil, err
	}
	subnets, err := i.cloud.listSubnets(ctx, "")
	if err != nil {
		return nil, err
	}
	byNetwork := map[string][]wireSubnet{}
	for _, s := range subnets {
		byNetwork[s.NetworkID] = append(byNetwork[s.NetworkID], s)
	}
	ours := map[string]*network.ObservedNetwork{}
	for _, w := range networks {
		if !i.owns(w.Description) {
			continue
		}
		known := byNetwork[w.ID]
		// A subnet that another project put on our network is not in the project's list.
		if slices.ContainsFunc(w.Subnets, func(id string) bool {
			return !slices.ContainsFunc(known, func(s wireSubnet) bool { return s.ID == id })
		}) {
			if known, err = i.cloud.listSubnets(ctx, w.ID); err != nil {
				return nil, err
			}
		}
		observed, err := assemble(w, known)
		if err != nil {
			return nil, decodeError(opListNetworks, "GET", "%s", err)
		}
		ours[w.ID] = observed
	}
	return ours, nil
}

func (i *Inventory) owns(description string) bool {
	_, owner, ok := network.ParseDescription(description)
	return ok && owner.Cluster == i.cluster
}

func assemble(w wireNetwork, subnets []wireSubnet) (*network.ObservedNetwork, error) {
	observed, err := w.observed()
	if err != nil {
		return nil, err
	}
	for _, s := range subnets {
		subnet, err := s.observed()
		if err != nil {
			return nil, err
		}
		observed.Subnets = append(observed.Subnets, subnet)
	}
	return &observed, nil
}

// takeIn replaces what is held with what was listed, but for what was changed here after the list began, and returns
// the objects whose resources moved. The caller holds mu.
func (i *Inventory) takeIn(listed map[string]*network.ObservedNetwork, since uint64) []string {
	moved := map[string]bool{}
	for id, held := range i.networks {
		if _, still := listed[id]; !still && !i.newer(id, since) {
			moved[objectOf(held)] = true
			i.forget(id)
		}
	}
	for id, n := range listed {
		if i.newer(id, since) {
			continue
		}
		held, known := i.networks[id]
		if known && sameRevisions(held, n) {
			continue
		}
		if known {
			moved[objectOf(held)] = true
			keepCounts(held, n)
		}
		moved[objectOf(n)] = true
		i.hold(n)
	}
	for id, when := range i.changed {
		if when <= since {
			delete(i.changed, id)
		}
	}
	objects := make([]string, 0, len(moved))
	for object := range moved {
		objects = append(objects, object)
	}
	slices.Sort(objects)
	return objects
}

// newer reports whether what is held of a network may be newer than a list that began at since. The caller holds mu.
func (i *Inventory) newer(id string, since uint64) bool {
	return i.changed[id] > since || i.writing[id] > 0
}

// write notes that a network is being written to, until done is called.
func (i *Inventory) write(id string) (done func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.writing[id]++
	return func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		if i.writing[id]--; i.writing[id] == 0 {
			delete(i.writing, id)
		}
	}
}

// hold puts a network into the index. The caller holds mu.
func (i *Inventory) hold(n *network.ObservedNetwork) {
	i.forget(n.ID)
	i.networks[n.ID] = n
	object := objectOf(n)
	i.owners[object] = append(i.owners[object], n.ID)
}

// forget takes a network out of the index. The caller holds mu.
func (i *Inventory) forget(id string) {
	held, ok := i.networks[id]
	if !ok {
		return
	}
	delete(i.networks, id)
	object := objectOf(held)
	i.owners[object] = slices.DeleteFunc(i.owners[object], func(other string) bool { return other == id })
	if len(i.owners[object]) == 0 {
		delete(i.owners, object)
	}
}

func objectOf(n *network.ObservedNetwork) string {
	_, owner, _ := network.ParseDescription(n.Description)
	return owner.Object
}

// sameRevisions reports whether two views of a network are of the same revisions. Most writes to a subnet move both its
// own revision and its network's; not all do (tags), so both are compared.
func sameRevisions(a, b *network.ObservedNetwork) bool {
	if a.Revision != b.Revision || a.Description != b.Description || len(a.Subnets) != len(b.Subnets) {
		return false
	}
	for _, s := range a.Subnets {
		if !slices.ContainsFunc(b.Subnets, func(other network.ObservedSubnet) bool {
			return s.ID == other.ID && s.Revision == other.Revision
		}) {
			return false
		}
	}
	return true
}

// ErrUnmarked says that a resource which was ours no longer bears our marker.
var ErrUnmarked = errors.New("it no longer bears this cluster's marker")

// Reread reads one resource anew, a network with its subnets. It is for one that a list did not show or that a write
// found changed. It returns whether it is there; ErrUnmarked where it is and is not ours (any more).
func (i *Inventory) Reread(ctx context.Context, r network.Resource) (found bool, err error) {
	if r.Kind != network.KindNetwork {
		return false, &Error{Kind: Invalid, Op: "get " + string(r.Kind), Reason: "this Inventory holds no such resources"}
	}
	networkID := r.ID
	i.mu.RLock()
	since := i.clock
	i.mu.RUnlock()
	// What was written here while the answer was on its way is newer than the answer.
	unlessChanged := func(n *network.ObservedNetwork) {
		i.mu.Lock()
		defer i.mu.Unlock()
		if i.changed[networkID] > since {
			return
		}
		if held := i.networks[networkID]; held != nil && n != nil {
			keepCounts(held, n)
		}
		i.changeLocked(networkID, n)
	}
	w, err := i.cloud.getNetwork(ctx, networkID)
	if IsNotFound(err) {
		unlessChanged(nil)
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !i.owns(w.Description) {
		unlessChanged(nil)
		return true, ErrUnmarked
	}
	subnets, err := i.cloud.listSubnets(ctx, networkID)
	if err != nil {
		return false, err
	}
	observed, err := assemble(w, subnets)
	if err != nil {
		return false, decodeError(opGetNetwork, "GET", "%s", err)
	}
	unlessChanged(observed)
	return true, nil
}

// change replaces what is held of a network, by a function of it (nil: not held), and marks it as changed here.
func (i *Inventory) change(id string, to func(*network.ObservedNetwork) *network.ObservedNetwork) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.changeLocked(id, to(i.networks[id]))
}

// changeLocked is change for a value that is there already. The caller holds mu.
func (i *Inventory) changeLocked(id string, n *network.ObservedNetwork) {
	i.clock++
	i.changed[id] = i.clock
	i.forget(id)
	if n != nil {
		i.hold(n)
	}
}

func (i *Inventory) removed(id string) {
	i.change(id, func(*network.ObservedNetwork) *network.ObservedNetwork { return nil })
}

package inventory

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/inspect"
	"cloudteam.ztgame.com/network-controller/internal/neutron/batch"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/internal/tracing"
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
	*access
	options Options

	// actions say how Apply takes each action.
	actions actions

	// mu guards what follows, all shelves included.
	mu       sync.RWMutex
	networks *stock[wireNetwork, plan.ObservedNetwork]
	ports    *stock[wirePort, plan.ObservedPort]
	routers  *stock[wireRouter, plan.ObservedRouter]
	secured  *stock[wireGroup, plan.ObservedGroup]
	floating *stock[wireFloatingIP, plan.ObservedFloatingIP]
	// stocks are all of those. Each has its own lists.
	stocks []stocked
	// round is the last round of lists.
	round round
	// counts are the addresses in use; room is what is left for bulks of ports.
	counts counts
	room   room
	// bound are the ids of the ports that were bound here, until they are deleted here.
	bound map[string]bool
	// counting is the cloud's count of addresses that is under way, or nil.
	counting *counting
	// sharesFailed is why the last list of networks came without their shares; nil if it did not, or if the cloud's policy
	// forbids to list them.
	sharesFailed error

	// term is what is known of other leaders of this cluster's UID. It has its own locks.
	term tenure

	// directories find what users refer to by name. They have their own locks.
	directories

	// locator reads where ports are attached.
	locator locator
}

// Options configure an Inventory.
type Options struct {
	// Interval is the time between audits, with 10 % jitter; 0 or less means only the first audit.
	Interval time.Duration
	// MaxCalls bounds the concurrent writes, however fast the cloud is; 0 means batch.DefaultMaxCalls.
	MaxCalls int
	// Pools, if set, bound the concurrent writes to one Neutron, whatever credentials they are sent with. Tenant is whose
	// these are, normally a namespace; tenants take turns.
	Pools  *batch.Pools
	Tenant string
	// Ports makes the Inventory hold all ports of ours. Without it, it holds only routers' interfaces.
	Ports bool
	// Moved, if set, gets the UID of each object whose resources differ from what the Inventory held. It also gets it if
	// the number of used addresses changed, and if a create of the object that was held back may be tried again. Changes
	// by Apply are not reported. It MUST be quick.
	Moved func(object string)
	// Term, if set, gives the leader's term; leads is false unless this process may write now, or if no election numbers
	// the terms. Without it, another cluster with this cluster's UID is not detected. It MUST be quick.
	Term func() (term Term, leads bool)
	// Standing, if set, is called when Standing.Disputed changes, and when Standing.Unknown begins and ends.
	Standing func(Standing)
	// Waited, if set, is called when a write is about to be sent; see batch.Options.
	Waited func(op string, wait time.Duration)
	// HeldBack, if set, is called with the gate that held back a step.
	HeldBack func(by client.Gate)
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
	// Err is why a list or the count of addresses failed. The Inventory is unchanged for the kinds whose lists failed.
	Err error
}

// New creates an empty Inventory for the cluster of the given UID. Run fills it.
func New(cloud *client.Cloud, cluster string, options Options) *Inventory {
	if options.Moved == nil {
		options.Moved = func(string) {}
	}
	if options.HeldBack == nil {
		options.HeldBack = func(client.Gate) {}
	}
	if options.Audited == nil {
		options.Audited = func(Audit) {}
	}
	i := &Inventory{
		options: options, room: newRoom(), term: tenure{turn: make(chan struct{}, 1)}, directories: newDirectories(),
	}
	queue := batch.New(batch.Options{
		MaxCalls: options.MaxCalls, Post: cloud.CreateAll, Refused: i.refused, Waited: options.Waited,
	})
	i.access = &access{cloud, queue, cluster, options.Pools, options.Tenant, newFullness(options.Moved), newKeeping()}
	cloud.OnMove(i.moved)
	i.networks, i.ports, i.routers, i.secured = newNetworks(i), newPorts(i), newRouters(i), newGroups(i)
	i.floating = newFloatingIPs(i)
	i.stocks = []stocked{i.networks, i.ports, i.routers, i.secured, i.floating}
	i.actions = actions{}
	for _, of := range []actions{
		i.networkActions(), i.subnetActions(), i.portActions(), i.routerActions(), i.shareActions(), i.groupActions(),
		i.floatingIPActions(),
	} {
		maps.Copy(i.actions, of)
	}
	return i
}

// moved drops what was learned about the former project or cloud.
func (i *Inventory) moved(was, is client.Identity) {
	if was.Endpoint != is.Endpoint {
		i.queue.Reset()
	}
	i.full.forget()
	i.kept.forget()
	i.mu.Lock()
	defer i.mu.Unlock()
	clear(i.room.barred) // the new project has other networks
}

// Load returns how many writes run and wait.
func (i *Inventory) Load() batch.Load { return i.queue.Load() }

// Identity returns the project and cloud of this Inventory; see client.Cloud.Identity.
func (i *Inventory) Identity(ctx context.Context) (client.Identity, error) {
	return i.cloud.Identity(ctx)
}

// Observed returns what bears the owner's marker, from complete lists that began at since or later. It lists only if
// there are none; all who wait share one list of each kind. On error nothing is known, which does not mean that nothing
// exists. An error also says that something of the owner's cannot be understood. If the context is Within a project
// (client.Within), it returns resources of that project only.
//
// need are the kinds that the caller relies on; none means all. Of other kinds it returns what is known without
// waiting, except that it waits for their first lists for at most listPatience.
func (i *Inventory) Observed(
	ctx context.Context, owner plan.Owner, since time.Time, need ...plan.Kind,
) (plan.Observed, error) {
	observed, known, err := i.observed(ctx, owner, since, need, true)
	if known || err != nil {
		return observed, err // the normal case
	}
	since = notLater(since)
	if err := i.spared(ctx, since, need); err != nil {
		return plan.Observed{}, err
	}
	i.begin(ctx, since, slices.DeleteFunc(slices.Clone(i.stocks), func(s stocked) bool { return !needs(need, s) })...)
	for _, s := range i.stocks {
		if !needs(need, s) {
			i.awaitAny(ctx, s)
		} else if _, err := i.await(ctx, s, since, nil, listSilence); err != nil {
			return plan.Observed{}, err
		}
	}
	observed, known, err = i.observed(ctx, owner, time.Time{}, need, false)
	if !known && err == nil {
		i.mu.RLock()
		defer i.mu.RUnlock()
		for _, s := range i.stocks {
			if err := client.Outside(ctx, opObserve, s.lists().of); err != nil && needs(need, s) {
				return plan.Observed{}, err // another list has ended meanwhile
			}
		}
		return plan.Observed{}, client.HeldBack(client.GateIdentity, opObserve, "the credentials are being changed")
	}
	return observed, err
}

// observed is Observed without listing. known is false if the last list of a kind that is needed is older than since or
// of another project. If first is true, it is also false if the first list of any kind has not ended.
func (i *Inventory) observed(
	ctx context.Context, owner plan.Owner, since time.Time, need []plan.Kind, first bool,
) (observed plan.Observed, known bool, err error) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	for _, s := range i.stocks {
		l := s.lists()
		if needs(need, s) && !l.since(ctx, since) {
			return plan.Observed{}, false, nil
		}
		if first && l.began.IsZero() && l.failed == nil {
			return plan.Observed{}, false, nil
		}
	}
	if owner.Cluster != i.cluster {
		return plan.Observed{}, true, nil
	}
	for _, s := range i.stocks {
		if client.Outside(ctx, opObserve, s.lists().of) != nil {
			continue
		}
		if err := s.observe(owner.Object, &observed); err != nil {
			return plan.Observed{}, true, err
		}
	}
	return observed, true, nil
}

// spared returns why the last list of a kind that is needed failed, if it is too early to repeat it. Otherwise many
// callers, each with its own backoff, would repeat it without a pause.
func (i *Inventory) spared(ctx context.Context, since time.Time, need []plan.Kind) error {
	i.mu.RLock()
	defer i.mu.RUnlock()
	for _, s := range i.stocks {
		l := s.lists()
		if needs(need, s) && l.flight == nil && !l.since(ctx, since) && time.Now().Before(l.again) {
			return l.failed
		}
	}
	return nil
}

// needs reports whether a stock is of the kinds that somebody needs.
func needs(need []plan.Kind, s stocked) bool {
	return len(need) == 0 || slices.Contains(need, s.lists().kind)
}

// Apply executes the steps of a change in order. It returns the steps that succeeded and the error that stopped it. The
// Inventory reflects each step before the next one starts.
//
// The error is ErrDisputed if another cluster has this cluster's UID. Only new networks and ports are made then.
//
// If the error is MaybeDone, the caller MUST NOT plan from an Observed of before it.
func (i *Inventory) Apply(ctx context.Context, change plan.Change) (done plan.Change, err error) {
	a := application{Inventory: i, change: change, moved: map[string]int{}, confirmed: map[plan.Resource]bool{}}
	for _, step := range change {
		ctx, span := tracing.Start(ctx, string(step.Action))
		step, err := a.take(ctx, step)
		if gate := client.GateOf(err); gate != "" {
			span.SetAttributes(tracing.Gate.String(string(gate)))
			i.options.HeldBack(gate)
		}
		tracing.End(span, client.Word(err))
		if err != nil {
			return a.done, err
		}
		a.done = append(a.done, step)
		if r := inspect.On(); r != nil {
			r.RecordOf(ctx, inspect.Inventory, "applied", step.String())
		}
	}
	return a.done, nil
}

// application is one Apply.
type application struct {
	*Inventory
	change, done plan.Change
	// moved is how far our own writes have moved the resources' revisions since the change was planned.
	moved map[string]int
	// confirmed has the resources that a live read has shown to be ours.
	confirmed map[plan.Resource]bool
}

// take takes one step, and returns it with what Neutron chose.
func (a application) take(ctx context.Context, step plan.Step) (plan.Step, error) {
	act, known := a.actions[step.Action]
	if !known {
		return step, &client.Error{Kind: client.Invalid, Op: string(step.Action), Reason: "no such action"}
	}
	if err := a.admit(ctx, a.change, step); err != nil {
		return step, err
	}
	if len(a.done) == 0 {
		if err := a.checkMove(ctx, a.change); err != nil {
			return step, err
		}
	}
	completes, planned := step.Completes(), step.Revision
	step = step.Resolve(a.done)
	if act.check != nil && !completes {
		if err := act.check(ctx, step); err != nil {
			return step, err
		}
	}
	if act.confirms != nil && (!completes || act.exists) {
		if r := act.confirms(step); !a.confirmed[r] {
			if err := a.stillOurs(ctx, step, r); err != nil {
				return step, err
			}
			a.confirmed[r] = true
		}
	}
	if err := a.confirmKeeper(ctx, step); err != nil {
		return step, err
	}
	step.Revision += a.moved[step.ID]
	revision, err := act.take(ctx, &step)
	if err != nil {
		return step, err
	}
	if revision != 0 {
		a.moved[step.ID] = revision - planned
	}
	a.full.after(step)
	a.term.after(step)
	if act.moves != nil {
		if other := act.moves(step, revision); other != "" {
			a.moved[other]++
		}
	}
	return step, nil
}

// action says how Apply takes the steps of one plan.Action.
type action struct {
	// check, if set, looks live whether the step may be taken. confirms, if set, names a resource: before the
	// first such step of a change, a live read confirms that it is still ours. Apply skips both if the step
	// completes a creation of its own change, except what confirms names if it exists before any change.
	check    func(ctx context.Context, step plan.Step) error
	confirms func(step plan.Step) plan.Resource
	exists   bool
	// take sends the step and updates the Inventory. It writes into the step what Neutron chose: a new resource's id, an
	// allocated CIDR. It returns the resource's new revision; 0 if the answer does not tell.
	take func(ctx context.Context, step *plan.Step) (revision int, err error)
	// moves, if set, returns the id of another resource whose revision the step moves by one; empty if it moves none. The
	// revision is what take returned.
	moves func(step plan.Step, revision int) string
}

type actions map[plan.Action]action

// confirmKeeper reads a step's Keeper live. A list can be too old, so that it shows a Keeper that is gone. Without the
// Keeper the step is not taken: the error is a Conflict, and the next plan starts from the current state.
func (i *Inventory) confirmKeeper(ctx context.Context, step plan.Step) error {
	keeper := step.Keeper
	if keeper.ID == "" {
		return nil
	}
	found, err := i.Reread(ctx, keeper.Resource)
	if err != nil && !errors.Is(err, ErrUnmarked) {
		return err
	}
	s, err := i.stockOf("get", keeper.Kind)
	if err != nil {
		return err
	}
	has := func(s plan.ObservedSubnet) bool { return s.ID == keeper.Subnet }
	switch {
	case !found:
	case keeper.Owner != (plan.Owner{}) && s.ownerOf(keeper.ID) != keeper.Owner:
	case keeper.Subnet != "" && !slices.ContainsFunc(i.subnetsHeld(keeper.ID), has):
	default:
		return nil
	}
	refusal := client.HeldBack(client.GateKeeper, string(step.Action),
		fmt.Sprintf("%s, for which it would go, is not there any more", keeper.Resource))
	refusal.Kind = client.Conflict
	return refusal
}

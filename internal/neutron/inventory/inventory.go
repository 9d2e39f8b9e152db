package inventory

import (
	"context"
	"maps"
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
	// stocks are those five. Each has its own lists.
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

	// external, existing, policies and pools find what users refer to by name. They have their own locks.
	external, existing, policies, pools, groups *directory

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
	if options.Audited == nil {
		options.Audited = func(Audit) {}
	}
	i := &Inventory{options: options, room: newRoom(), term: tenure{turn: make(chan struct{}, 1)}}
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
	i.external, i.existing = newExternalNetworks(), newExistingRouters()
	i.policies, i.pools, i.groups = newQoSPolicies(), newSubnetPools(), newSecurityGroups()
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

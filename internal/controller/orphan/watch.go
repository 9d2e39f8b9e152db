// Package orphan removes orphaned resources from Neutron. An orphan bears this cluster's marker, and its object is gone
// without a controller having seen it go: its finalizer was forced off, or no controller ran. Package managed removes
// what a controller sees go.
//
// An orphan looks like an object that a cache does not have yet, and a mistake destroys a network. So a removal needs
// several lists, a grace period, and a live and complete list of the API server. One audit never removes more than a
// share of the fleet.
package orphan

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions/cloudteam/v1"
)

// Name is the controller's name in --controllers, in logs and in metrics.
const Name = "orphan"

// Defaults of the Rules.
const (
	DefaultGrace    = 10 * time.Minute
	DefaultMaxShare = 0.1
)

// Inventory is what a Controller needs of an inventory.Inventory.
type Inventory interface {
	managed.Inventory
	Owners() (owners map[string]inventory.Holdings, audited time.Time, of client.Identity, ok bool)
}

// Options are what a Controller is made with.
type Options struct {
	Rules
	// Interval is between looks at what the Inventory has audited.
	Interval time.Duration
	// Cluster is the UID of the namespace kube-system.
	Cluster string
	// Remembered gives the UIDs of the objects whose resources this process looks after; see
	// managed.Reconciler.Remembered. What those own is not touched.
	Remembered func() []types.UID
	// Others, where set, gives the Inventories of other clouds than the process's own. One that it gives no more is
	// forgotten, with the time that passed for what was found in it.
	Others func() []Inventory
}

// Controller finds and removes orphans. Make it with NewController.
type Controller struct {
	*controller.Loop

	options   Options
	inventory Inventory
	live      Live
	// objects are the caches of all that own resources.
	objects []cache.Store

	// stopping is true once Run's ctx is done: a removal that is under way ends, and no other begins.
	stopping atomic.Bool

	// What follows is that of the one sync that runs at a time.

	books []*book
	// unread is the last failure to read what exists, and withheld the last ones that were withheld, as they were told.
	unread   string
	withheld []string
}

// NewController makes a controller and registers with the informers, which must not run yet. Nothing runs before Run.
func NewController(
	networks informers.NetworkInformer, ports informers.NetworkPortInformer, inventory Inventory, live Live,
	options Options,
) (*Controller, error) {
	registerMetrics()
	c := &Controller{
		options:   options,
		inventory: inventory,
		live:      live,
		objects:   []cache.Store{networks.Informer().GetStore(), ports.Informer().GetStore()},
	}
	c.Loop = controller.NewLoop(Name, c.Sync)
	for _, informer := range []cache.SharedInformer{networks.Informer(), ports.Informer()} {
		// No event tells that something is missing. The Loop waits for the caches.
		if err := c.Watch(informer, cache.ResourceEventHandlerFuncs{}); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Run looks after orphans until ctx is done. All looks have one key, so that no two overlap, and one worker does.
func (c *Controller) Run(ctx context.Context, _ int) error {
	defer context.AfterFunc(ctx, func() { c.stopping.Store(true) })()
	c.Enqueue(cache.NewObjectName("", "audit"))
	return c.Loop.Run(ctx, 1)
}

// sorted is a copy in order.
func sorted(uids []string) []string { return slices.Sorted(slices.Values(uids)) }

// Package orphan removes orphaned resources from Neutron. An orphan bears this cluster's marker, but its object is gone
// and no controller saw the deletion: its finalizer was force-removed, or no controller ran. Package managed removes
// the resources of objects whose deletion a controller sees.
//
// An orphan looks like an object that a cache does not have yet, and a mistake destroys a network. So a removal needs
// several lists, a grace period, and a live and complete list of the API server. One audit never removes more than a
// share of the fleet. The share is one of the operator's clouds together, and one of each namespace's own.
package orphan

import (
	"context"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/metric"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
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
	// Settled reports whether no other cluster has this cluster's UID, as far as that can be known.
	Settled() bool
}

// Options configure a Controller.
type Options struct {
	Rules
	// Interval is the time between two checks for new audits of the Inventory.
	Interval time.Duration
	// Cluster is the UID of the namespace kube-system.
	Cluster string
	// Remembered gives the UIDs of the objects whose resources this process manages; see managed.Reconciler.Remembered.
	// Their resources are not touched.
	Remembered func() []types.UID
	// Others, if set, gives the clouds other than the process's own. When it no longer gives one, all records of that
	// cloud are dropped, including the elapsed grace periods.
	Others func() []Other
}

// Other is a cloud other than the process's own.
type Other struct {
	Inventory Inventory
	// Tenant is the namespace whose credentials are used there, and which can make the cloud return any response. It is
	// empty if the credentials are the operator's. Each tenant is judged apart from all others.
	Tenant string
}

// Controller finds and removes orphans. Create it with NewController.
type Controller struct {
	*controller.Loop

	options   Options
	inventory Inventory
	live      Live
	// objects are the caches of all kinds that own resources.
	objects []cache.Store

	// stopping is true once Run's ctx is done: the current removal finishes, and no other begins.
	stopping atomic.Bool

	// The fields below belong to the single sync that runs at a time.

	books []*book
	// unread is the last logged failure of the live list. withheld are the last logged ones that were withheld, of each
	// tenant and of the operator.
	unread   string
	withheld map[string][]string
}

// NewController makes a controller and adds its handlers to the informers of all kinds whose objects own resources in
// Neutron. The informers MUST NOT run yet. Nothing runs before Run.
func NewController(
	owning []cache.SharedInformer, inventory Inventory, live Live, options Options,
) (*Controller, error) {
	metric.Register()
	c := &Controller{options: options, inventory: inventory, live: live}
	c.Loop = controller.NewLoop(Name, c.Sync)
	for _, informer := range owning {
		c.objects = append(c.objects, informer.GetStore())
		// No event tells that something is missing. The handlers only make the Loop wait for the caches.
		if err := c.Watch(informer, cache.ResourceEventHandlerFuncs{}); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Run cleans up orphans until ctx is done. It uses one key and one worker, so that no two syncs overlap.
func (c *Controller) Run(ctx context.Context, _ int) error {
	defer context.AfterFunc(ctx, func() { c.stopping.Store(true) })()
	c.Enqueue(cache.NewObjectName("", "audit"))
	return c.Loop.Run(ctx, 1)
}

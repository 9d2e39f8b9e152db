// Package network is the controller of Networks: it keeps, for each Network object, one network with its subnets in
// Neutron.
package network

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/network"
	"cloudteam.ztgame.com/network-controller/internal/neutron"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	clientset "cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions/cloudteam/v1"
	listers "cloudteam.ztgame.com/network-controller/pkg/client/listers/cloudteam/v1"
)

// Name is the controller's name in --controllers, in logs and in metrics.
const Name = "network"

// Inventory is what the controller needs of a neutron.Inventory.
type Inventory interface {
	Identity(ctx context.Context) (neutron.Identity, error)
	Observed(ctx context.Context, owner network.Owner, since time.Time) (network.Observed, error)
	Reread(ctx context.Context, r network.Resource) (found bool, err error)
	Apply(ctx context.Context, change network.Change) (done network.Change, err error)
}

// Controller syncs Networks. Make it with NewController.
type Controller struct {
	client    clientset.Interface
	lister    listers.NetworkLister
	indexer   cache.Indexer
	synced    cache.InformerSynced
	inventory Inventory
	recorder  record.EventRecorder
	loop      *controller.Loop
	expected  controller.Expectations

	// cluster is the UID of the namespace kube-system.
	cluster string
	// started is when this process began to act. A create that an earlier process may have tried is found by a list
	// that began after it.
	started time.Time

	mu sync.Mutex
	// doubts say since when a create's outcome is unknown, by the object's UID: a list must begin after that before
	// anything is created again.
	doubts map[types.UID]time.Time
	// owned are the objects whose resources may exist, by key. It is how the resources of an object that is gone from
	// the cache are found, since a key does not tell the UID.
	owned map[cache.ObjectName]map[types.UID]cloudteamv1.DeletionPolicy
}

// indexUID is the name of the index from UID to object.
const indexUID = "uid"

// NewController makes a controller and registers its handlers with the informer. Nothing runs before Run.
func NewController(
	client clientset.Interface, networks informers.NetworkInformer, inventory Inventory, recorder record.EventRecorder,
	cluster string,
) (*Controller, error) {
	informer := networks.Informer()
	c := &Controller{
		client:    client,
		lister:    networks.Lister(),
		indexer:   informer.GetIndexer(),
		inventory: inventory,
		recorder:  recorder,
		cluster:   cluster,
		started:   time.Now(),
		doubts:    map[types.UID]time.Time{},
		owned:     map[cache.ObjectName]map[types.UID]cloudteamv1.DeletionPolicy{},
	}
	c.loop = controller.NewLoop(Name, c.sync)

	err := informer.AddIndexers(cache.Indexers{indexUID: func(obj any) ([]string, error) {
		object, err := meta.Accessor(obj)
		if err != nil {
			return nil, err
		}
		return []string{string(object.GetUID())}, nil
	}})
	if err != nil {
		return nil, fmt.Errorf("indexing networks by UID: %w", err)
	}
	registration, err := informer.AddEventHandler(c.loop.Handler())
	if err != nil {
		return nil, fmt.Errorf("watching networks: %w", err)
	}
	c.synced = registration.HasSynced
	return c, nil
}

// HasSynced reports whether the handlers have seen every object of the informer's first list.
func (c *Controller) HasSynced() bool { return c.synced() }

// Run syncs keys until ctx is done, and returns when its workers have stopped. The informer has to be running.
func (c *Controller) Run(ctx context.Context, workers int) error {
	if !cache.WaitForNamedCacheSyncWithContext(ctx, c.synced) {
		return nil // ctx is done
	}
	return c.loop.Run(ctx, workers)
}

// Moved puts the object of the given UID on the queue: the Inventory found its resources other than they were.
func (c *Controller) Moved(uid string) {
	objects, err := c.indexer.ByIndex(indexUID, uid)
	if err != nil {
		return // the index is made in NewController
	}
	c.enqueue(objects)
}

// EnqueueAll puts every object on the queue: something changed that concerns all of them.
func (c *Controller) EnqueueAll() { c.enqueue(c.indexer.List()) }

func (c *Controller) enqueue(objects []any) {
	for _, obj := range objects {
		if object, err := meta.Accessor(obj); err == nil {
			c.loop.Enqueue(cache.MetaObjectToName(object))
		}
	}
}

// listedSince tells how new a list must be for "there is nothing" to hold for the object.
func (c *Controller) listedSince(uid types.UID) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if since, doubt := c.doubts[uid]; doubt {
		return since
	}
	return c.started
}

// doubt notes that a create may or may not have been carried out.
func (c *Controller) doubt(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.doubts[uid] = time.Now()
}

// remember notes that the object may have resources, and what becomes of them.
func (c *Controller) remember(key cache.ObjectName, obj *cloudteamv1.Network) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owned[key] == nil {
		c.owned[key] = map[types.UID]cloudteamv1.DeletionPolicy{}
	}
	c.owned[key][obj.UID] = obj.Spec.DeletionPolicy
}

// remembers reports whether the object may have resources.
func (c *Controller) remembers(key cache.ObjectName, uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.owned[key][uid]
	return ok
}

// forget drops what is known of an object that has no resources any more.
func (c *Controller) forget(key cache.ObjectName, uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.doubts, uid)
	delete(c.owned[key], uid)
	if len(c.owned[key]) == 0 {
		delete(c.owned, key)
	}
}

// gone lists the objects of a key that may have resources, other than the one that exists.
func (c *Controller) gone(key cache.ObjectName, existing types.UID) map[types.UID]cloudteamv1.DeletionPolicy {
	c.mu.Lock()
	defer c.mu.Unlock()
	var gone map[types.UID]cloudteamv1.DeletionPolicy
	for uid, policy := range c.owned[key] {
		if uid != existing {
			if gone == nil {
				gone = map[types.UID]cloudteamv1.DeletionPolicy{}
			}
			gone[uid] = policy
		}
	}
	return gone
}

package managed

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/neutron"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// Inventory is what a Reconciler and its Kind need of a neutron.Inventory.
type Inventory interface {
	Identity(ctx context.Context) (client.Identity, error)
	Observed(ctx context.Context, owner plan.Owner, since time.Time) (plan.Observed, error)
	Reread(ctx context.Context, resource plan.Resource) (found bool, err error)
	Find(ctx context.Context, of plan.Kind, name string, owner plan.Owner) (found bool, err error)
	Apply(ctx context.Context, change plan.Change) (done plan.Change, err error)
	Blockers(ctx context.Context, refused plan.Step) (neutron.Blockers, error)
	Foreign(ctx context.Context, id string) (n neutron.Foreign, found bool, err error)
	CoverRouters()
	Router(ctx context.Context, idOrName string) (id string, err error)
	ExternalNetwork(ctx context.Context, idOrName string) (id string, err error)
	CoverShares()
	QoSPolicy(ctx context.Context, idOrName string) (id string, err error)
	SubnetPool(ctx context.Context, field, idOrName string) (pool plan.SubnetPool, err error)
}

// Reconciler syncs the objects of one kind. Make it with NewReconciler.
type Reconciler[T Object] struct {
	*controller.Loop

	kind    Kind[T]
	indexer cache.Indexer
	// inventory is that of the process's own cloud; clouds are the others, nil where there are none.
	inventory Inventory
	clouds    Clouds
	recorder  record.EventRecorder
	expected  controller.Expectations

	// cluster is the UID of the namespace kube-system.
	cluster string
	// defaults are the policies of objects that leave them unset.
	defaults Policies
	// observeEvery is how often observed resources are read.
	observeEvery time.Duration
	// acting is since when no other process acts. A create that an earlier one may have tried is found by a list that
	// began after it.
	acting time.Time

	mu sync.Mutex
	// doubts say since when a create's outcome is unknown, by the object's UID: a list must begin after that before
	// anything is created again.
	doubts map[types.UID]time.Time
	// blank are the objects, by UID, for which nothing was created since it was last certain that nothing is there. Of
	// others an earlier process may have created something, whatever a list shows.
	blank map[types.UID]bool
	// owned are the objects whose resources may exist, as they were last synced, by key: one as a rule, more while what
	// earlier objects of the name left is being removed. It is how the resources of an object that is gone from the cache
	// are found, since a key does not tell the UID.
	owned map[cache.ObjectName][]memory[T]
}

// memory is what is remembered of an object whose resources may exist.
type memory[T Object] struct {
	// obj is the object as it was last synced.
	obj T
	// home is where its resources are.
	home home
}

// indexUID is the name of the index from UID to object.
const indexUID = "owned/uid"

// NewReconciler makes a Reconciler and adds its index to the informer of the kind, which it watches and which must not
// run yet. inventory is that of the process's own cloud. Nothing runs before Run.
func NewReconciler[T Object](
	kind Kind[T], informer cache.SharedIndexInformer, inventory Inventory, recorder record.EventRecorder, cluster string,
) (*Reconciler[T], error) {
	r := &Reconciler[T]{
		kind:      kind,
		indexer:   informer.GetIndexer(),
		inventory: inventory,
		recorder:  recorder,
		cluster:   cluster,
		defaults:  DefaultPolicies,

		observeEvery: DefaultObserveInterval,

		acting: time.Now(),
		doubts: map[types.UID]time.Time{},
		blank:  map[types.UID]bool{},
		owned:  map[cache.ObjectName][]memory[T]{},
	}
	r.Loop = controller.NewLoop(kind.Controller, r.Sync)

	err := informer.AddIndexers(cache.Indexers{indexUID: func(obj any) ([]string, error) {
		object, err := meta.Accessor(obj)
		if err != nil {
			return nil, err
		}
		return []string{string(object.GetUID())}, nil
	}})
	if err != nil {
		return nil, fmt.Errorf("indexing %ss by UID: %w", kind.GroupVersionKind.Kind, err)
	}
	if err := r.Watch(informer, r.Handler()); err != nil {
		return nil, err
	}
	return r, nil
}

// ActSince tells since when no other process acts on the objects, where that is not since NewReconciler: a list that
// began before a former leader's last create may not show what that made. It MUST be called before Run, if at all.
func (r *Reconciler[T]) ActSince(since time.Time) { r.acting = since }

// Moved puts the object of the given UID on the queue, if it is of this kind: the Inventory found its resources other
// than they were.
func (r *Reconciler[T]) Moved(uid string) {
	objects, err := r.indexer.ByIndex(indexUID, uid)
	if err != nil {
		return // the index is made in NewReconciler
	}
	r.enqueue(objects)
}

func (r *Reconciler[T]) enqueue(objects []any) {
	for _, obj := range objects {
		if object, err := meta.Accessor(obj); err == nil {
			r.Enqueue(cache.MetaObjectToName(object))
		}
	}
}

// get reads an object from the cache.
func (r *Reconciler[T]) get(key cache.ObjectName) (obj T, exists bool, err error) {
	found, exists, err := r.indexer.GetByKey(key.String())
	if err != nil || !exists {
		return obj, false, err
	}
	obj, ok := found.(T)
	if !ok {
		return obj, false, fmt.Errorf("the cache of %ss holds a %T", r.kind.GroupVersionKind.Kind, found)
	}
	return obj, true, nil
}

func (r *Reconciler[T]) ownerOf(obj T) plan.Owner {
	return plan.Owner{Cluster: r.cluster, Object: string(obj.GetUID())}
}

// nameOf is what an object's resources are called in Neutron.
func (r *Reconciler[T]) nameOf(obj T) string {
	if r.kind.Name == nil {
		return obj.GetName()
	}
	return r.kind.Name(obj)
}

// listedSince tells how new a list must be for "there is nothing" to hold for the object.
func (r *Reconciler[T]) listedSince(uid types.UID) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if since, doubt := r.doubts[uid]; doubt {
		return since
	}
	return r.acting
}

// mayHide reports whether there may be a resource of the object's beside the one of the known id, which was seen to
// stand for it (empty: none was). There is at most one, unless a create's outcome is unknown.
func (r *Reconciler[T]) mayHide(uid types.UID, known string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, doubt := r.doubts[uid]
	return !r.blank[uid] && (known == "" || doubt)
}

// setBlank notes that nothing was created for the object, or that something may have been.
func (r *Reconciler[T]) setBlank(uid types.UID, blank bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if blank {
		r.blank[uid] = true
	} else {
		delete(r.blank, uid)
	}
}

// doubt notes that a create may or may not have been carried out.
func (r *Reconciler[T]) doubt(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.doubts[uid] = time.Now()
}

// remember notes that the object, as it is now, may have resources.
func (r *Reconciler[T]) remember(key cache.ObjectName, obj T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at := r.indexOf(key, obj.GetUID()); at >= 0 {
		r.owned[key][at].obj = obj
		return
	}
	r.owned[key] = append(r.owned[key], memory[T]{obj: obj})
}

// remembers reports whether the object may have resources.
func (r *Reconciler[T]) remembers(key cache.ObjectName, uid types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.indexOf(key, uid) >= 0
}

// forget drops what is known of an object that has no resources any more.
func (r *Reconciler[T]) forget(key cache.ObjectName, uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.doubts, uid)
	delete(r.blank, uid)
	at := r.indexOf(key, uid)
	switch {
	case at < 0:
	case len(r.owned[key]) == 1:
		delete(r.owned, key)
	default:
		r.owned[key] = slices.Delete(r.owned[key], at, at+1)
	}
}

// indexOf is where an object is in what is owned under its key, -1 where it is not. The caller holds mu.
func (r *Reconciler[T]) indexOf(key cache.ObjectName, uid types.UID) int {
	return slices.IndexFunc(r.owned[key], func(m memory[T]) bool { return m.obj.GetUID() == uid })
}

// gone gives the objects of a key that may have resources, other than the one that exists.
func (r *Reconciler[T]) gone(key cache.ObjectName, existing types.UID) map[types.UID]T {
	r.mu.Lock()
	defer r.mu.Unlock()
	var gone map[types.UID]T // nil, as a rule
	for _, m := range r.owned[key] {
		if uid := m.obj.GetUID(); uid != existing {
			if gone == nil {
				gone = map[types.UID]T{}
			}
			gone[uid] = m.obj
		}
	}
	return gone
}

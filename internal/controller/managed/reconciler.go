package managed

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

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

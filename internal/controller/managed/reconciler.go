package managed

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/inspect"
	"cloudteam.ztgame.com/network-controller/internal/metric"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// Reconciler syncs the objects of one kind. Create it with NewReconciler.
type Reconciler[T Object] struct {
	*controller.Loop

	kind    Kind[T]
	indexer cache.Indexer
	// inventory is for the process's own cloud; clouds are the other clouds, nil for none.
	inventory Inventory
	clouds    Clouds
	recorder  record.EventRecorder
	expected  controller.Expectations

	// cluster is the UID of the namespace kube-system.
	cluster string
	// defaults are the policies of objects that leave them unset.
	defaults Policies
	// terminating tells whether a namespace is being deleted.
	terminating func(ctx context.Context, namespace string) bool
	// same are the endpoints that lead to one cloud.
	same SameClouds
	// observeEvery is how often observed resources are read.
	observeEvery time.Duration
	// acting is the time since which no other process acts. Only a list that began after it is sure to show what an
	// earlier process created.
	acting time.Time

	mu sync.Mutex
	// owned holds, by key, the objects whose resources may exist. There is usually one. There are more while resources of
	// earlier objects of the name are being removed. A key has no UID, so this is how a deleted object's resources are
	// found.
	owned map[cache.ObjectName][]*memory[T]
	// left has those of owned that are gone, by namespace, the first one first.
	left map[string][]*memory[T]
	// ownedIn are the keys of owned, by namespacesOf.
	ownedIn map[string]sets.Set[cache.ObjectName]
}

const (
	// indexUID is the name of the index from UID to object.
	indexUID = "owned/uid"
	// indexIn is the name of the index by namespacesOf.
	indexIn = "owned/in"
)

// NewReconciler makes a Reconciler, and adds its index and event handlers to the kind's informer. The informer MUST NOT
// run yet. inventory is for the process's own cloud. Nothing runs before Run.
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
		terminating:  func(context.Context, string) bool { return false },

		acting:  time.Now(),
		owned:   map[cache.ObjectName][]*memory[T]{},
		left:    map[string][]*memory[T]{},
		ownedIn: map[string]sets.Set[cache.ObjectName]{},
	}
	metric.Register()
	r.Loop = controller.NewLoop(kind.Controller, r.Sync)
	r.ServeBackends(r.cloudOfKey)

	err := informer.AddIndexers(cache.Indexers{indexUID: func(obj any) ([]string, error) {
		object, err := meta.Accessor(obj)
		if err != nil {
			return nil, err
		}
		return []string{string(object.GetUID())}, nil
	}, indexIn: controller.IndexBy(r.namespacesOf)})
	if err != nil {
		return nil, fmt.Errorf("indexing %ss: %w", kind.GroupVersionKind.Kind, err)
	}
	if kind.Room != nil {
		kind.Room.begin(&r.kind, r.Enqueue)
		// Before the handler that enqueues: a sync then knows what the event says.
		if err := r.Watch(informer, kind.Room.handler()); err != nil {
			return nil, err
		}
	}
	if err := r.Watch(informer, r.Handler()); err != nil {
		return nil, err
	}
	return r, nil
}

// Know adds objects to the cache of an informer that does not run. The latest of a name counts.
func (r *Reconciler[T]) Know(objs ...T) error {
	for _, obj := range objs {
		if err := r.indexer.Add(obj); err != nil {
			return err
		}
		if r.kind.Room != nil {
			r.kind.Room.see(obj)
		}
	}
	return nil
}

// ActSince sets since when no other process acts on the objects; the default is the time of NewReconciler. An earlier
// list may miss the last create of a former leader. If called, it MUST be called before Run.
func (r *Reconciler[T]) ActSince(since time.Time) { r.acting = since }

// Moved requeues the object of the given UID, if it is of this kind. The Inventory calls it when the object's resources
// have changed.
func (r *Reconciler[T]) Moved(uid string) {
	objects, err := r.indexer.ByIndex(indexUID, uid)
	if err != nil {
		return // NewReconciler adds the index
	}
	for _, obj := range objects {
		if object, err := meta.Accessor(obj); err == nil {
			if recorder := inspect.On(); recorder != nil {
				recorder.Record(inspect.Event{Stage: inspect.Inventory, What: "moved", Objects: []inspect.Object{
					inspect.ObjectOf(r.kind.GroupVersionKind.Kind, object.GetNamespace(), object.GetName())},
					Text: "Resources of this object have moved in Neutron. The Inventory adds its key to the queue."})
			}
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

// cloudOfKey names the cloud that a key's sync calls: as of the last sync, if there was one. An event may concern
// thousands of keys, so it must cost little. After an edit, one sync counts for the former cloud.
func (r *Reconciler[T]) cloudOfKey(key cache.ObjectName) string {
	if ref, known := r.lastCloudOf(key); known {
		return ref.String()
	}
	obj, exists, err := r.get(key)
	if err == nil && exists {
		return r.cloudOf(obj).String()
	}
	if gone := r.gone(key, ""); len(gone) > 0 {
		return r.cloudOf(gone[0]).String()
	}
	return ""
}

func (r *Reconciler[T]) ownerOf(obj T) plan.Owner {
	return plan.Owner{Cluster: r.cluster, Object: string(obj.GetUID())}
}

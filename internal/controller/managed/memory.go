package managed

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// memory holds what a Reconciler knows of an object whose resources may exist.
type memory[T Object] struct {
	// obj is the object as of its last sync.
	obj T
	// home is where its resources are.
	home home
	// doubt is when a create's outcome became unknown, or zero. Nothing is created again before a list that began later.
	doubt time.Time
	// blank is true if nothing was created since it was last certain that nothing exists. Otherwise an earlier process may
	// have created something, whatever a list shows.
	blank bool
	// gone is whether the API server has no such object, and its resources could not be removed yet: it is in left.
	gone bool
}

// maxGone is how many objects that are gone are remembered of a namespace, until their resources can be removed. A
// tenant can write the finalizer and take it off as often as it likes.
const maxGone = 100

// memoryOf gives what is known of an object, or nil. The caller MUST hold mu.
func (r *Reconciler[T]) memoryOf(obj T) *memory[T] {
	for _, m := range r.owned[cache.MetaObjectToName(obj)] {
		if m.obj.GetUID() == obj.GetUID() {
			return m
		}
	}
	return nil
}

// recall gives a copy of what is known of an object. known is false if it has no resources.
func (r *Reconciler[T]) recall(obj T) (m memory[T], known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if found := r.memoryOf(obj); found != nil {
		return *found, true
	}
	return m, false
}

// lastCloudOf gives the cloud of the last sync of a key's newest object.
func (r *Reconciler[T]) lastCloudOf(key cache.ObjectName) (ref CloudRef, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.owned[key]
	if len(all) == 0 {
		return ref, false
	}
	last := all[len(all)-1].home
	return last.ref, last.in != nil
}

// remember records the current object as one that may have resources.
func (r *Reconciler[T]) remember(obj T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := cache.MetaObjectToName(obj)
	defer r.reindex(key)()
	if m := r.memoryOf(obj); m != nil {
		m.obj = obj
		return
	}
	r.owned[key] = append(r.owned[key], &memory[T]{obj: obj})
}

// reindex keeps ownedIn while the objects of a key change: it is called before, and what it gives is called after. The
// caller MUST hold mu.
func (r *Reconciler[T]) reindex(key cache.ObjectName) (after func()) {
	for _, m := range r.owned[key] {
		for _, namespace := range r.namespacesOf(m.obj) {
			keys := r.ownedIn[namespace]
			if keys.Delete(key); len(keys) == 0 {
				delete(r.ownedIn, namespace)
			}
		}
	}
	return func() {
		for _, m := range r.owned[key] {
			for _, namespace := range r.namespacesOf(m.obj) {
				if r.ownedIn[namespace] == nil {
					r.ownedIn[namespace] = sets.Set[cache.ObjectName]{}
				}
				r.ownedIn[namespace].Insert(key)
			}
		}
	}
}

// note changes what is known of a remembered object.
func (r *Reconciler[T]) note(obj T, change func(m *memory[T])) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.memoryOf(obj); m != nil {
		change(m)
	}
}

// setBlank records whether it is certain that nothing was created for the object.
func (r *Reconciler[T]) setBlank(obj T, blank bool) {
	r.note(obj, func(m *memory[T]) { m.blank = blank })
}

// forget drops what is known of an object that has no resources any more.
func (r *Reconciler[T]) forget(obj T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(obj)
}

// drop is forget. The caller MUST hold mu.
func (r *Reconciler[T]) drop(obj T) {
	is := func(m *memory[T]) bool { return m.obj.GetUID() == obj.GetUID() }
	key := cache.MetaObjectToName(obj)
	defer r.reindex(key)()
	deleteFrom(r.owned, key, is)
	deleteFrom(r.left, key.Namespace, is)
}

// deleteFrom deletes elements of a map's slice, and the slice with its last one.
func deleteFrom[K comparable, V any](of map[K][]V, key K, del func(V) bool) {
	if rest := slices.DeleteFunc(of[key], del); len(rest) > 0 {
		of[key] = rest
	} else {
		delete(of, key)
	}
}

// leave notes that an object is gone and its resources cannot be removed now. It forgets the namespace's first one
// beyond maxGone. Its resources are orphans from then on.
func (r *Reconciler[T]) leave(ctx context.Context, obj T) {
	if first, beyond := r.keepGone(obj); beyond {
		klog.FromContext(ctx).Info("Forgot an object that is gone: its namespace has too many whose resources cannot be "+
			"removed now; what it has in Neutron is an orphan", "object", klog.KObj(first), "marker", r.ownerOf(first))
	}
}

// keepGone adds an object to left, and drops the first one beyond maxGone. It looks at nothing of other namespaces: all
// syncs wait for mu.
func (r *Reconciler[T]) keepGone(obj T) (first T, beyond bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.memoryOf(obj)
	if m == nil || m.gone {
		return first, false // a retry adds none
	}
	m.gone = true
	left := append(r.left[obj.GetNamespace()], m)
	r.left[obj.GetNamespace()] = left
	if len(left) <= maxGone {
		return first, false
	}
	first = left[0].obj
	r.drop(first)
	return first, true
}

// gone gives the objects of a key that may have resources, except the one that exists.
func (r *Reconciler[T]) gone(key cache.ObjectName, existing types.UID) (gone []T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.owned[key] {
		if m.obj.GetUID() != existing {
			gone = append(gone, m.obj)
		}
	}
	return gone
}

// Remembered gives the UIDs of the objects whose resources this Reconciler manages, for the orphan cleanup to skip.
// They are the existing objects, and the deleted ones whose resources it still removes by their policies. It is safe
// for concurrent use.
func (r *Reconciler[T]) Remembered() []types.UID {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []types.UID
	for _, memories := range r.owned {
		for _, m := range memories {
			all = append(all, m.obj.GetUID())
		}
	}
	return all
}

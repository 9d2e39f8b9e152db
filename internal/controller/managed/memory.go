package managed

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// memory is what is remembered of an object whose resources may exist.
type memory[T Object] struct {
	// obj is the object as it was last synced.
	obj T
	// home is where its resources are.
	home home
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

// mayHide reports whether there may be a resource of the object's that no list shows and whose id nobody knows.
func (r *Reconciler[T]) mayHide(uid types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.blank[uid]
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

// Remembered gives the UIDs of the objects whose resources are this Reconciler's to look after: those that exist and
// those that are gone and whose resources it still removes, as their policies say. It is safe for concurrent use.
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

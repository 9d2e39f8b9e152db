package managed

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// memory holds what a Reconciler knows of an object whose resources may exist.
type memory[T Object] struct {
	// obj is the object as of its last sync.
	obj T
	// home is where its resources are.
	home home
}

// listedSince gives the time after which a list must have begun to prove that the object has no resources.
func (r *Reconciler[T]) listedSince(uid types.UID) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if since, doubt := r.doubts[uid]; doubt {
		return since
	}
	return r.acting
}

// mayHide reports whether the object may have a resource that no list shows and whose id is unknown.
func (r *Reconciler[T]) mayHide(uid types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.blank[uid]
}

// setBlank records whether it is certain that nothing was created for the object.
func (r *Reconciler[T]) setBlank(uid types.UID, blank bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if blank {
		r.blank[uid] = true
	} else {
		delete(r.blank, uid)
	}
}

// doubt records that the outcome of a create is unknown.
func (r *Reconciler[T]) doubt(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.doubts[uid] = time.Now()
}

// remember records the current object as one that may have resources.
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

// forget drops all records of an object that has no resources any more.
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

// indexOf gives the index of an object in r.owned[key], or -1 if it is not there. The caller MUST hold mu.
func (r *Reconciler[T]) indexOf(key cache.ObjectName, uid types.UID) int {
	return slices.IndexFunc(r.owned[key], func(m memory[T]) bool { return m.obj.GetUID() == uid })
}

// gone gives the objects of a key that may have resources, except the one that exists.
func (r *Reconciler[T]) gone(key cache.ObjectName, existing types.UID) map[types.UID]T {
	r.mu.Lock()
	defer r.mu.Unlock()
	var gone map[types.UID]T // usually nil
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

package controller

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
)

// Expectations remember, for each key, the newest resourceVersion that this process wrote, so that a sync can tell
// whether the informer's cache has come that far. To act on an older state would be to act on the world before one's
// own last act: to add a finalizer again, or to create what was just created. (The idea is that of KEP-5647.)
//
// It is safe for concurrent use. The zero value is ready.
type Expectations struct {
	mu      sync.Mutex
	written map[cache.ObjectName]expectation
}

type expectation struct {
	uid             types.UID
	resourceVersion string
	// gone is true where the write let the object go.
	gone bool
}

// Written notes what a write returned. Of two writes to one object the newer counts, in whatever order they are noted.
func (e *Expectations) Written(key cache.ObjectName, uid types.UID, resourceVersion string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.written == nil {
		e.written = map[cache.ObjectName]expectation{}
	}
	if noted, ok := e.written[key]; ok && noted.uid == uid {
		order, err := resourceversion.CompareResourceVersion(resourceVersion, noted.resourceVersion)
		if err == nil && order < 0 {
			return
		}
	}
	e.written[key] = expectation{uid: uid, resourceVersion: resourceVersion}
}

// LetGo notes that a write took the last finalizer off an object that is being deleted, so that a cache that still
// holds it is behind. The answer to such a write does not tell: it has the resourceVersion that the object had before
// (deleteWithoutFinalizers in k8s.io/apiserver/pkg/registry/generic/registry/store.go returns the object it was given).
func (e *Expectations) LetGo(key cache.ObjectName, uid types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.written == nil {
		e.written = map[cache.ObjectName]expectation{}
	}
	e.written[key] = expectation{uid: uid, gone: true}
}

// Met reports whether a cached object is at least as new as the last write noted for its key. An object of another UID
// is another object, of which nothing is expected; the informer will hand out the newer of the two.
func (e *Expectations) Met(key cache.ObjectName, uid types.UID, resourceVersion string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	want, ok := e.written[key]
	if !ok {
		return true
	}
	if want.uid == uid && want.gone {
		return false
	}
	if want.uid == uid {
		// An API server whose versions do not compare gives no way to wait for one.
		order, err := resourceversion.CompareResourceVersion(resourceVersion, want.resourceVersion)
		if err == nil && order < 0 {
			return false
		}
	}
	delete(e.written, key)
	return true
}

// MetWithout reports whether a cache that does not hold the last object written for a key has come at least as far as
// that write, so that the object is gone and not yet to come. version is the newest resourceVersion that the cache has
// seen of any object of the kind (cache.Store's LastStoreSyncResourceVersion).
func (e *Expectations) MetWithout(key cache.ObjectName, version string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	want, ok := e.written[key]
	if !ok {
		return true
	}
	order, err := resourceversion.CompareResourceVersion(version, want.resourceVersion)
	if err == nil && order < 0 {
		return false
	}
	delete(e.written, key)
	return true
}

// Forget drops what is noted for a key, once its object is gone.
func (e *Expectations) Forget(key cache.ObjectName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.written, key)
}

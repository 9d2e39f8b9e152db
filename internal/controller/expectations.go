package controller

import (
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
)

// Expectations tell whether an informer's cache shows what this process wrote. A sync that acted on an older state
// would repeat its own last writes: it would add a finalizer again, or create what it has just created. The idea is
// that of KEP-5647.
//
// Writes are noted by the key of the sync that made them. A sync of one object asks Met with that object. A sync that
// writes several objects of another kind asks CaughtUp with the version of that kind's cache.
//
// Expectations are safe for concurrent use. The zero value is ready.
type Expectations struct {
	mu      sync.Mutex
	written map[cache.ObjectName]*expectation
}

// expectation is what was written for one key.
type expectation struct {
	// uid and version are of the newest write. A version is empty where no write returned one.
	uid     types.UID
	version string
	// removed are the objects that the cache is still to lose.
	removed map[types.UID]bool
}

// Written notes what a write returned. Of several writes the newest counts, in whatever order they are noted.
func (e *Expectations) Written(key cache.ObjectName, uid types.UID, version string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	want := e.of(key)
	if want.version == "" || !older(version, want.version) {
		want.uid, want.version = uid, version
	}
}

// LetGo notes that a write removed an object: a deletion, or a write that took off the last finalizer. A cache that
// still holds the object is behind. The answers to such writes have no version that tells so (deleteWithoutFinalizers
// in k8s.io/apiserver/pkg/registry/generic/registry/store.go returns the object as it was).
func (e *Expectations) LetGo(key cache.ObjectName, uid types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	want := e.of(key)
	if want.removed == nil {
		want.removed = map[types.UID]bool{}
	}
	want.removed[uid] = true
}

// Removed reports whether LetGo was called for an object.
func (e *Expectations) Removed(key cache.ObjectName, uid types.UID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	want := e.written[key]
	return want != nil && want.removed[uid]
}

// KeepRemoved forgets those of the objects that LetGo was called for of which the cache shows that they are gone or
// going: those that pending does not name.
func (e *Expectations) KeepRemoved(key cache.ObjectName, pending func(types.UID) bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if want := e.written[key]; want != nil {
		maps.DeleteFunc(want.removed, func(uid types.UID, _ bool) bool { return !pending(uid) })
		e.drop(key)
	}
}

// Met reports whether a cached object is at least as new as the newest write noted for the key. An object of another
// UID is another object, of which nothing is expected.
func (e *Expectations) Met(key cache.ObjectName, uid types.UID, version string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	want := e.written[key]
	switch {
	case want == nil:
		return true
	case want.removed[uid] || want.uid == uid && older(version, want.version):
		return false
	}
	delete(e.written, key)
	return true
}

// CaughtUp reports whether a cache has come at least as far as the newest write noted for the key, so that it shows all
// that was written. version is the newest that the cache has seen of any object of the kind (cache.Store's
// LastStoreSyncResourceVersion). Read it before the cache: what comes later may be shown, and nothing else is missing.
func (e *Expectations) CaughtUp(key cache.ObjectName, version string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	want := e.written[key]
	if want == nil {
		return true
	}
	if older(version, want.version) {
		return false
	}
	want.version = ""
	e.drop(key)
	return true
}

// Forget drops what is noted for a key, once its object is gone.
func (e *Expectations) Forget(key cache.ObjectName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.written, key)
}

// of gives the expectation of a key, a new one where there is none.
func (e *Expectations) of(key cache.ObjectName) *expectation {
	if e.written == nil {
		e.written = map[cache.ObjectName]*expectation{}
	}
	if e.written[key] == nil {
		e.written[key] = &expectation{}
	}
	return e.written[key]
}

// drop removes an expectation of which nothing is left.
func (e *Expectations) drop(key cache.ObjectName) {
	if want := e.written[key]; want.version == "" && len(want.removed) == 0 {
		delete(e.written, key)
	}
}

// older reports whether a version is older than another. Versions that do not compare are not: an API server that has
// such gives no way to wait for one.
func older(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order < 0
}

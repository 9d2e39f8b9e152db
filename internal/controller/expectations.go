package controller

import (
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
)

// Expectations detect a stale cache: one that does not show yet what this process wrote. A sync on a stale cache would
// repeat its own writes, for example create an object twice. KEP-5647 has the idea.
//
// A sync records its writes under its own key. A sync that writes one object asks Met with the cached object. A sync
// that writes several objects of another kind asks CaughtUp with the version of their cache.
//
// Expectations are safe for concurrent use. The zero value is ready.
type Expectations struct {
	mu      sync.Mutex
	written map[cache.ObjectName]*expectation
}

// expectation is the record of one key.
type expectation struct {
	// uid and version are of the newest write. The version is empty if there is none to wait for.
	uid     types.UID
	version string
	// removed are the objects that should disappear from the cache.
	removed map[types.UID]bool
}

// Written records the result of a write. Of several writes, the newest counts. They may be recorded in any order.
func (e *Expectations) Written(key cache.ObjectName, uid types.UID, version string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	want := e.of(key)
	if want.version == "" || !older(version, want.version) {
		want.uid, want.version = uid, version
	}
}

// LetGo records that a write removed an object: a deletion, or the removal of the last finalizer. A cache with the
// object is stale. The answer to such a write has no newer version to wait for: it shows the object before the deletion
// (deleteWithoutFinalizers in k8s.io/apiserver/pkg/registry/generic/registry/store.go).
func (e *Expectations) LetGo(key cache.ObjectName, uid types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	want := e.of(key)
	if want.removed == nil {
		want.removed = map[types.UID]bool{}
	}
	want.removed[uid] = true
}

// Removed reports whether LetGo recorded an object.
func (e *Expectations) Removed(key cache.ObjectName, uid types.UID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	want := e.written[key]
	return want != nil && want.removed[uid]
}

// KeepRemoved drops the records of LetGo, except those for which pending is true. pending reports whether the cache
// shows an object without its deletion.
func (e *Expectations) KeepRemoved(key cache.ObjectName, pending func(types.UID) bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if want := e.written[key]; want != nil {
		maps.DeleteFunc(want.removed, func(uid types.UID, _ bool) bool { return !pending(uid) })
		e.drop(key)
	}
}

// Met reports whether a cached object is at least as new as the newest write under the key. An object with another UID
// has no expectations.
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

// CaughtUp reports whether a cache shows all writes under the key. version is the newest version that the cache has
// seen of any object of the kind (LastStoreSyncResourceVersion of a cache.Store). Read it before the cache. Then the
// cache shows at least that version.
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

// Forget drops the record of a key. Call it when the object of the key is gone.
func (e *Expectations) Forget(key cache.ObjectName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.written, key)
}

// of returns the record of a key. It makes a new one if there is none.
func (e *Expectations) of(key cache.ObjectName) *expectation {
	if e.written == nil {
		e.written = map[cache.ObjectName]*expectation{}
	}
	if e.written[key] == nil {
		e.written[key] = &expectation{}
	}
	return e.written[key]
}

// drop removes an empty record.
func (e *Expectations) drop(key cache.ObjectName) {
	if want := e.written[key]; want.version == "" && len(want.removed) == 0 {
		delete(e.written, key)
	}
}

// older reports whether one version is older than another. It is false for versions that cannot be compared: then no
// sync can wait for one.
func older(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order < 0
}

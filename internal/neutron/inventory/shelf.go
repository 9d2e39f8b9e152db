package inventory

import (
	"maps"
	"slices"
	"sync"

	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// shelf caches our resources of one kind, including the changes made here. One rule holds for every kind: for a
// resource that changed here after a list began, or is being written, the shelf ignores the list.
//
// Callers have the values that a shelf holds, so it never changes them in place.
type shelf[T any] struct {
	traits[T]

	// mu is the Inventory's, so that a reader sees several shelves at one moment.
	mu *sync.RWMutex
	// owned are the resources by the UID of their owner. Observed returns these slices without a copy, so a shelf never
	// writes to one: an owner whose resources change gets a new slice.
	owned map[string][]T
	// held are the same resources by id. Each points into a slice of owned.
	held map[string]*T
	// odd are resources of ours that the last list showed and nobody understands. The shelf holds nothing else of them.
	odd unreadable
	// clock counts the changes made here and the reads of one resource. changed is, by id, the time of the last change
	// here or the start of the last accepted read; it includes removed resources. listed is when the last list began;
	// changed omits times up to it.
	clock   uint64
	changed map[string]uint64
	listed  uint64
	// begun is the clock when the list under way began.
	begun uint64
	// writing counts the writes under way, by id. A list that ends meanwhile may or may not show them.
	writing map[string]int
}

// traits tell a shelf of its resources' type.
type traits[T any] struct {
	// identify returns a resource's id, its description, marker included, and its revision.
	identify func(*T) (id, description string, revision int)
	// same reports whether two views of a resource are equal; nil: if their revisions and descriptions are.
	same func(a, b *T) bool
	// carry copies from the old view to a newer one what a read does not show; nil: nothing.
	carry func(from, to *T)
}

func newShelf[T any](mu *sync.RWMutex, of traits[T]) *shelf[T] {
	if of.same == nil {
		of.same = func(a, b *T) bool {
			_, wasDescription, was := of.identify(a)
			_, isDescription, is := of.identify(b)
			return was == is && wasDescription == isDescription
		}
	}
	if of.carry == nil {
		of.carry = func(_, _ *T) {}
	}
	return &shelf[T]{
		traits: of, mu: mu, held: map[string]*T{}, owned: map[string][]T{}, changed: map[string]uint64{},
		writing: map[string]int{}, odd: unreadable{},
	}
}

// get returns a resource as the shelf holds it.
func (s *shelf[T]) get(id string) (held *T, ok bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	held, ok = s.held[id]
	return held, ok
}

// write records that a resource is being written, until done is called.
func (s *shelf[T]) write(id string) (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writing[id]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.writing[id]--; s.writing[id] == 0 {
			delete(s.writing, id)
		}
	}
}

// change replaces a resource by a function of it (nil: not held) and marks it as changed here.
func (s *shelf[T]) change(id string, to func(*T) *T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock++
	s.changed[id] = s.clock
	s.replace(id, to(s.held[id]))
}

// edit is change for a resource that the shelf holds: to edits a copy. It does nothing to one that is not held.
func (s *shelf[T]) edit(id string, to func(*T)) {
	s.change(id, func(held *T) *T {
		if held == nil {
			return nil
		}
		edited := *held
		to(&edited)
		return &edited
	})
}

// remove is change for a resource that was deleted here.
func (s *shelf[T]) remove(id string) {
	s.change(id, func(*T) *T { return nil })
}

// begin returns the clock's time at which a read of one resource begins. It moves the clock, to separate lists that
// begin before the read from those that begin after it.
func (s *shelf[T]) begin() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock++
	return s.clock
}

// refresh replaces a resource with what a read returned (nil: not ours). since is what begin returned. It ignores the
// read if it is older than a write here or than a list that has ended. A list under way that began after the read will
// replace it.
func (s *shelf[T]) refresh(id string, r *T, since uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed[id] > since || s.listed >= since {
		return
	}
	if held, known := s.held[id]; known && r != nil {
		s.carry(held, r)
	}
	s.changed[id] = since
	s.replace(id, r)
}

// takeIn replaces all resources with those listed, except those changed here after since, the clock when the list
// began. It adds the owners of resources that moved to moved. The caller holds mu.
func (s *shelf[T]) takeIn(listed map[string]*T, since uint64, moved map[string]bool) {
	for id, held := range s.held {
		if _, still := listed[id]; !still && !s.newer(id, since) {
			moved[s.object(held)] = true
			s.forget(id)
		}
	}
	for id, r := range listed {
		if s.newer(id, since) {
			continue
		}
		held, known := s.held[id]
		if known && s.same(held, r) {
			continue
		}
		if known {
			// Its owner may have changed.
			moved[s.object(held)] = true
			s.carry(held, r)
		}
		moved[s.object(r)] = true
		s.hold(r)
	}
	s.listed = since
	for id, when := range s.changed {
		if when <= since {
			delete(s.changed, id)
		}
	}
}

// takeOdd replaces what nobody understands with what a list shows, as takeIn does the rest.
func (s *shelf[T]) takeOdd(odd unreadable, since uint64, moved map[string]bool) {
	for object, ids := range odd {
		for id := range ids {
			if s.newer(id, since) {
				delete(ids, id)
			}
		}
		if len(ids) == 0 {
			delete(odd, object)
		}
	}
	for _, object := range slices.Concat(slices.Collect(maps.Keys(s.odd)), slices.Collect(maps.Keys(odd))) {
		was, is := s.odd.of(object), odd.of(object)
		if (was == nil) != (is == nil) || was != nil && was.Error() != is.Error() {
			moved[object] = true
		}
	}
	s.odd = odd
}

// understood removes a resource from what nobody understands. The caller holds mu.
func (s *shelf[T]) understood(id string) {
	for object, ids := range s.odd {
		if delete(ids, id); len(ids) == 0 {
			delete(s.odd, object)
		}
	}
}

// clear removes everything and adds all owners to moved. The caller holds mu.
func (s *shelf[T]) clear(moved map[string]bool) {
	for object := range s.odd {
		moved[object] = true
	}
	clear(s.odd)
	for object := range s.owned {
		moved[object] = true
	}
	clear(s.held)
	clear(s.owned)
	clear(s.changed)
}

// newer reports whether the shelf's view of a resource may be newer than a list that began at since. The caller holds
// mu.
func (s *shelf[T]) newer(id string, since uint64) bool {
	return s.changed[id] > since || s.writing[id] > 0
}

// replace replaces a resource (nil: removes it). The caller holds mu.
func (s *shelf[T]) replace(id string, r *T) {
	s.understood(id)
	s.forget(id)
	if r != nil {
		s.hold(r)
	}
}

// hold adds a resource to the index. The caller holds mu.
func (s *shelf[T]) hold(r *T) {
	id, _, _ := s.identify(r)
	s.forget(id)
	object := s.object(r)
	s.give(object, append(slices.Clip(s.owned[object]), *r))
}

// forget removes a resource from the index. The caller holds mu.
func (s *shelf[T]) forget(id string) {
	held, ok := s.held[id]
	if !ok {
		return
	}
	delete(s.held, id)
	object := s.object(held)
	s.give(object, slices.DeleteFunc(slices.Clone(s.owned[object]), func(other T) bool {
		otherID, _, _ := s.identify(&other)
		return otherID == id
	}))
}

// give sets all resources of an owner. Nobody else may have the slice. The caller holds mu.
func (s *shelf[T]) give(object string, all []T) {
	if len(all) == 0 {
		delete(s.owned, object)
		return
	}
	s.owned[object] = slices.Clip(all)
	for at := range all {
		id, _, _ := s.identify(&all[at])
		s.held[id] = &all[at]
	}
}

// object returns the UID of the object that owns a resource.
func (s *shelf[T]) object(r *T) string {
	_, description, _ := s.identify(r)
	_, owner, _ := plan.ParseDescription(description)
	return owner.Object
}

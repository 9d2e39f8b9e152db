package inventory

import (
	"slices"
	"sync"

	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// shelf holds the resources of one kind that are ours, and what was done to them here. Its rules are those of every
// kind: a list that began before a resource's last change here, or while it is written to, knows less about it than the
// shelf does and is not believed.
//
// What is held has been handed out and is never changed in place.
type shelf[T any] struct {
	kind[T]

	// mu is the Inventory's: what it gives of several shelves is of one moment.
	mu *sync.RWMutex
	// owned are ours, by the UID of the object that owns them. A slice is handed out as it is and never written to: where
	// anything of an object's changes, the object gets another one (see plan.Observed.Same).
	owned map[string][]T
	// held are the same, by id: each points into a slice of owned.
	held map[string]*T
	// clock counts the changes made here and the reads of one resource; changed says when each resource was last changed
	// here, or when the read of it began that was last believed, by id, also after it was removed. Times up to listed,
	// which is when the last list began, are left out.
	clock   uint64
	changed map[string]uint64
	listed  uint64
	// writing counts the writes that are under way, by id. A list that ends meanwhile may or may not show them.
	writing map[string]int
}

// kind is what a shelf knows of the resources that it holds.
type kind[T any] struct {
	// name gives a resource's id and its description, marker included.
	name func(*T) (id, description string)
	// same reports whether two views of a resource are of the same revisions.
	same func(a, b *T) bool
	// carry takes over, from what is held to a newer view, what reading it does not show. It may be nil.
	carry func(from, to *T)
}

func newShelf[T any](mu *sync.RWMutex, k kind[T]) *shelf[T] {
	return &shelf[T]{
		kind: k, mu: mu, held: map[string]*T{}, owned: map[string][]T{}, changed: map[string]uint64{},
		writing: map[string]int{},
	}
}

// write notes that a resource is being written to, until done is called.
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

// change replaces what is held of a resource, by a function of it (nil: not held), and marks it as changed here.
func (s *shelf[T]) change(id string, to func(*T) *T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock++
	s.changed[id] = s.clock
	s.replace(id, to(s.held[id]))
}

// remove is change for a resource that was deleted here.
func (s *shelf[T]) remove(id string) {
	s.change(id, func(*T) *T { return nil })
}

// begin gives the time, by the clock, at which a read of one resource begins. It moves the clock, so that a list that
// begins after the read is told from one that began before.
func (s *shelf[T]) begin() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock++
	return s.clock
}

// refresh replaces what is held of a resource with what was read of it (nil: it is not ours), since being what begin
// gave. What was written here while the answer was on its way is newer than the answer, and so is what a list shows
// that began after the read, whether it has ended or is yet to end.
func (s *shelf[T]) refresh(id string, r *T, since uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed[id] > since || s.listed >= since {
		return
	}
	if held, known := s.held[id]; known && r != nil {
		s.carryOver(held, r)
	}
	s.changed[id] = since
	s.replace(id, r)
}

// takeIn replaces what is held with what was listed, but for what was changed here after the list began at since, by
// the clock. It adds the objects whose resources moved to moved. The caller holds mu.
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
			// It may have changed hands.
			moved[s.object(held)] = true
			s.carryOver(held, r)
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

// clear takes everything out, and adds the objects that owned it to moved. The caller holds mu.
func (s *shelf[T]) clear(moved map[string]bool) {
	for object := range s.owned {
		moved[object] = true
	}
	clear(s.held)
	clear(s.owned)
	clear(s.changed)
}

// newer reports whether what is held of a resource may be newer than a list that began at since. The caller holds mu.
func (s *shelf[T]) newer(id string, since uint64) bool {
	return s.changed[id] > since || s.writing[id] > 0
}

// replace puts a resource (nil: none) in the place of what is held of it. The caller holds mu.
func (s *shelf[T]) replace(id string, r *T) {
	s.forget(id)
	if r != nil {
		s.hold(r)
	}
}

// hold puts a resource into the index. The caller holds mu.
func (s *shelf[T]) hold(r *T) {
	id, _ := s.name(r)
	s.forget(id)
	object := s.object(r)
	s.give(object, append(slices.Clip(s.owned[object]), *r))
}

// forget takes a resource out of the index. The caller holds mu.
func (s *shelf[T]) forget(id string) {
	held, ok := s.held[id]
	if !ok {
		return
	}
	delete(s.held, id)
	object := s.object(held)
	s.give(object, slices.DeleteFunc(slices.Clone(s.owned[object]), func(other T) bool {
		otherID, _ := s.name(&other)
		return otherID == id
	}))
}

// give makes a slice, which nobody else has, all that an object owns. The caller holds mu.
func (s *shelf[T]) give(object string, all []T) {
	if len(all) == 0 {
		delete(s.owned, object)
		return
	}
	s.owned[object] = slices.Clip(all)
	for at := range all {
		id, _ := s.name(&all[at])
		s.held[id] = &all[at]
	}
}

// object is the UID of the object that owns a resource.
func (s *shelf[T]) object(r *T) string {
	_, description := s.name(r)
	_, owner, _ := plan.ParseDescription(description)
	return owner.Object
}

func (s *shelf[T]) carryOver(from, to *T) {
	if s.carry != nil {
		s.carry(from, to)
	}
}

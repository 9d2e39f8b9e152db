package controllertest

import (
	"maps"
	"slices"

	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// shelf is one kind of the Cloud's resources. Its methods are called with the Cloud's mutex held.
type shelf[T any] struct {
	cluster string
	clone   func(T) T
	of      func(T) identity
	// has is what Neutron has, in order of creation.
	has *[]T
	// held is what the Inventory holds, by id.
	held map[string]T
}

// identity is what tells a resource from others.
type identity struct{ id, name, description string }

func newShelf[T any](cluster string, has *[]T, clone func(T) T, of func(T) identity) *shelf[T] {
	return &shelf[T]{cluster: cluster, clone: clone, of: of, has: has, held: map[string]T{}}
}

// named gives the ids of what Neutron has under a name with the owner's marker.
func (s *shelf[T]) named(name string, owner plan.Owner) (ids []string) {
	for _, r := range *s.has {
		if is := s.of(r); is.name == name && owner.Owns(is.description) {
			ids = append(ids, is.id)
		}
	}
	return ids
}

// list has the Inventory hold what Neutron has, without what the list misses.
func (s *shelf[T]) list(missed map[string]bool) {
	s.held = map[string]T{}
	for _, r := range *s.has {
		if id := s.of(r).id; !missed[id] {
			s.reread(id)
		}
	}
}

// replay has the Inventory hold what an old list shows.
func (s *shelf[T]) replay(old []T) {
	s.held = map[string]T{}
	for _, r := range old {
		if s.ours(r) {
			s.held[s.of(r).id] = s.clone(r)
		}
	}
}

// ours reports whether a resource bears a marker of the cluster.
func (s *shelf[T]) ours(r T) bool {
	_, owner, marked := plan.ParseDescription(s.of(r).description)
	return marked && owner.Cluster == s.cluster
}

// find gives what Neutron has under an id.
func (s *shelf[T]) find(id string) (r T, exists bool) {
	at := slices.IndexFunc(*s.has, func(r T) bool { return s.of(r).id == id })
	if at < 0 {
		return r, false
	}
	return (*s.has)[at], true
}

// reread has the Inventory hold one resource as Neutron has it, if it is the cluster's.
func (s *shelf[T]) reread(id string) (found, ours bool) {
	delete(s.held, id)
	r, found := s.find(id)
	if !found {
		return false, false
	}
	if !s.ours(r) {
		return true, false
	}
	s.held[id] = s.clone(r)
	return true, true
}

// ownedBy gives copies of what the Inventory holds of an owner's: what Neutron has, in order of creation, and then what
// it no longer has, by id.
func (s *shelf[T]) ownedBy(owner plan.Owner) (owned []T) {
	add := func(r T, known bool) {
		if known && owner.Owns(s.of(r).description) {
			owned = append(owned, s.clone(r))
		}
	}
	for _, r := range *s.has {
		held, known := s.held[s.of(r).id]
		add(held, known)
	}
	for _, id := range slices.Sorted(maps.Keys(s.held)) {
		_, exists := s.find(id)
		add(s.held[id], !exists)
	}
	return owned
}

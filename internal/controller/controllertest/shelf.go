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
	name    func(T) (id, description string)
	// has is what Neutron has, in order of creation.
	has []T
	// held is what the Inventory holds, by id.
	held map[string]T
}

func newShelf[T any](cluster string, clone func(T) T, name func(T) (id, description string)) *shelf[T] {
	return &shelf[T]{cluster: cluster, clone: clone, name: name, held: map[string]T{}}
}

// find gives what Neutron has under an id, nil where that is nothing.
func (s *shelf[T]) find(id string) *T {
	for i := range s.has {
		if found, _ := s.name(s.has[i]); found == id {
			return &s.has[i]
		}
	}
	return nil
}

// remove takes a resource out of Neutron.
func (s *shelf[T]) remove(id string) {
	s.has = slices.DeleteFunc(s.has, func(r T) bool { found, _ := s.name(r); return found == id })
}

// list has the Inventory hold what Neutron has, without what the list misses.
func (s *shelf[T]) list(missed map[string]bool) {
	s.held = map[string]T{}
	for _, r := range s.has {
		if id, _ := s.name(r); !missed[id] {
			s.reread(id)
		}
	}
}

// reread has the Inventory hold one resource as Neutron has it, if it is the cluster's.
func (s *shelf[T]) reread(id string) (found, ours bool) {
	delete(s.held, id)
	r := s.find(id)
	if r == nil {
		return false, false
	}
	_, description := s.name(*r)
	if _, owner, marked := plan.ParseDescription(description); !marked || owner.Cluster != s.cluster {
		return true, false
	}
	s.held[id] = s.clone(*r)
	return true, true
}

// of gives copies of what the Inventory holds of an owner's: what Neutron has, in order of creation, and then what it
// has no more, by id.
func (s *shelf[T]) of(owner plan.Owner) (owned []T) {
	add := func(r T, known bool) {
		if _, description := s.name(r); known && owner.Owns(description) {
			owned = append(owned, s.clone(r))
		}
	}
	for _, r := range s.has {
		id, _ := s.name(r)
		held, known := s.held[id]
		add(held, known)
	}
	for _, id := range slices.Sorted(maps.Keys(s.held)) {
		add(s.held[id], s.find(id) == nil)
	}
	return owned
}

package neutrontest

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"time"
)

// standard holds what Neutron keeps for every resource, whatever its kind.
type standard struct {
	id          string
	project     string
	name        string
	description string
	created     time.Time
	updated     time.Time
	revision    int
	tags        []string
}

func (s *standard) common() *standard { return s }

// record is a resource as a table keeps it: a pointer to a struct that embeds standard.
type record interface {
	comparable
	common() *standard
}

// table keeps the resources of one kind. Its lists are held sorted by id at all times, so that a page is cut out of a
// list and never sorted for. A table does no locking; the server's lock covers it.
type table[R record] struct {
	byID    map[string]R
	ordered []R
	indexes map[string]*index[R]
}

// index finds resources by the value of one attribute.
type index[R record] struct {
	keys  func(R) []string
	lists map[string][]R
}

func newTable[R record](keys map[string]func(R) []string) *table[R] {
	t := &table[R]{byID: make(map[string]R), indexes: make(map[string]*index[R])}
	for name, fn := range keys {
		t.indexes[name] = &index[R]{keys: fn, lists: make(map[string][]R)}
	}
	return t
}

func compareByID[R record](a, b R) int { return strings.Compare(a.common().id, b.common().id) }

func position[R record](list []R, id string) (int, bool) {
	return slices.BinarySearchFunc(list, id, func(r R, id string) int { return strings.Compare(r.common().id, id) })
}

func inserted[R record](list []R, r R) []R {
	i, found := position(list, r.common().id)
	if found {
		return list
	}
	return slices.Insert(list, i, r)
}

func removed[R record](list []R, r R) []R {
	if i, found := position(list, r.common().id); found {
		return slices.Delete(list, i, i+1)
	}
	return list
}

func (t *table[R]) insert(r R) {
	t.byID[r.common().id] = r
	t.ordered = inserted(t.ordered, r)
	for _, ix := range t.indexes {
		ix.insert(r, ix.keys(r))
	}
}

func (t *table[R]) remove(r R) {
	delete(t.byID, r.common().id)
	t.ordered = removed(t.ordered, r)
	for _, ix := range t.indexes {
		ix.remove(r, ix.keys(r))
	}
}

// change lets alter write to r and moves r in the indexes by whose attributes it was found before.
func (t *table[R]) change(r R, alter func()) {
	before := make(map[string][]string, len(t.indexes))
	for name, ix := range t.indexes {
		before[name] = ix.keys(r)
	}
	alter()
	for name, ix := range t.indexes {
		if after := ix.keys(r); !slices.Equal(before[name], after) {
			ix.remove(r, before[name])
			ix.insert(r, after)
		}
	}
}

func (ix *index[R]) insert(r R, keys []string) {
	for _, key := range keys {
		ix.lists[key] = inserted(ix.lists[key], r)
	}
}

func (ix *index[R]) remove(r R, keys []string) {
	for _, key := range keys {
		if left := removed(ix.lists[key], r); len(left) > 0 {
			ix.lists[key] = left
		} else {
			delete(ix.lists, key)
		}
	}
}

// with gives the resources that bear the value under the attribute, sorted by id. The caller must not keep the list
// beyond the lock.
func (t *table[R]) with(attribute, value string) []R { return t.indexes[attribute].lists[value] }

// candidates gives the lists, each sorted by id, that together hold every resource which can pass the filters: those
// of the most selective indexed attribute, or else everything. A resource may be in several of them.
func (t *table[R]) candidates(filters map[string][]string) [][]R {
	best, bestSize := [][]R{t.ordered}, len(t.ordered)
	for name, values := range filters {
		ix, ok := t.indexes[name]
		if !ok && name != "id" {
			continue
		}
		lists, size := make([][]R, 0, len(values)), 0
		for _, value := range values {
			var list []R
			if ok {
				list = ix.lists[value]
			} else if r, found := t.byID[value]; found {
				list = []R{r}
			}
			if len(list) > 0 {
				lists, size = append(lists, list), size+len(list)
			}
		}
		if size < bestSize {
			best, bestSize = lists, size
		}
	}
	return best
}

// mergeWidth is the number of lists up to which walking them side by side is cheaper than sorting their union.
const mergeWidth = 8

// inOrder visits every resource of the lists once, in the order of their ids, beginning after the given id (the empty
// id is before everything). In reverse it goes downwards and begins below the id (the empty id is then after
// everything).
func inOrder[R record](lists [][]R, after string, reverse bool) iter.Seq[R] {
	if len(lists) > mergeWidth {
		union := slices.Concat(lists...)
		slices.SortFunc(union, compareByID)
		lists = [][]R{slices.Compact(union)}
	}
	return func(yield func(R) bool) {
		rest := make([][]R, len(lists))
		for i, list := range lists {
			rest[i] = beyond(list, after, reverse)
		}
		for {
			next := -1
			for i, list := range rest {
				if len(list) > 0 && (next < 0 || before(head(list, reverse), head(rest[next], reverse), reverse)) {
					next = i
				}
			}
			if next < 0 {
				return
			}
			r := head(rest[next], reverse)
			for i, list := range rest {
				if len(list) > 0 && head(list, reverse) == r {
					rest[i] = tail(list, reverse)
				}
			}
			if !yield(r) {
				return
			}
		}
	}
}

func beyond[R record](list []R, id string, reverse bool) []R {
	if id == "" {
		return list
	}
	i, found := position(list, id)
	if reverse {
		return list[:i]
	}
	if found {
		i++
	}
	return list[i:]
}

func head[R record](list []R, reverse bool) R {
	if reverse {
		return list[len(list)-1]
	}
	return list[0]
}

func tail[R record](list []R, reverse bool) []R {
	if reverse {
		return list[:len(list)-1]
	}
	return list[1:]
}

func before[R record](a, b R, reverse bool) bool {
	if reverse {
		a, b = b, a
	}
	return cmp.Less(a.common().id, b.common().id)
}

package fair

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

// TestQueue compares random operations with a plain list.
func TestQueue(t *testing.T) {
	type item struct{ flow, number int }
	rapid.Check(t, func(t *rapid.T) {
		var q Queue[int, item]
		var model []item // in the order of Push
		// passed counts, for each waiting flow, the items that others got since its last turn.
		passed := map[int]map[int]int{}
		number := 0
		remove := func(got item) {
			at := slices.IndexFunc(model, func(i item) bool { return i.flow == got.flow })
			if at < 0 || model[at] != got {
				t.Fatalf("got %v, which is not the first of its flow in %v", got, model)
			}
			model = slices.Delete(model, at, at+1)
			delete(passed, got.flow)
			for _, i := range model {
				if passed[i.flow] == nil {
					passed[i.flow] = map[int]int{}
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				number++
				i := item{rapid.IntRange(0, 4).Draw(t, "flow"), number}
				q.Push(i.flow, i)
				model = append(model, i)
				if passed[i.flow] == nil {
					passed[i.flow] = map[int]int{}
				}
			},
			"pop": func(t *rapid.T) {
				next, ok := q.Peek()
				if ok != (len(model) > 0) {
					t.Fatalf("Peek says %t with %v", ok, model)
				}
				if !ok {
					return
				}
				got := q.Pop()
				if got != next {
					t.Fatalf("Peek gave %v, Pop %v", next, got)
				}
				remove(got)
				for flow, others := range passed {
					if others[got.flow]++; flow != got.flow && others[got.flow] > 1 {
						t.Fatalf("flow %d had %d turns while flow %d waited", got.flow, others[got.flow], flow)
					}
				}
			},
			"pop of one flow": func(t *rapid.T) {
				flow := rapid.IntRange(0, 4).Draw(t, "flow")
				got, ok := q.PopOf(func(f int) bool { return f == flow })
				if ok != slices.ContainsFunc(model, func(i item) bool { return i.flow == flow }) {
					t.Fatalf("PopOf(%d) says %t with %v", flow, ok, model)
				}
				if ok {
					remove(got)
				}
			},
			"remove": func(t *rapid.T) {
				i := item{rapid.IntRange(0, 4).Draw(t, "flow"), 0}
				if len(model) > 0 && rapid.Bool().Draw(t, "there") {
					i = rapid.SampledFrom(model).Draw(t, "item")
				}
				at := slices.Index(model, i)
				if q.Remove(i.flow+1, i) {
					t.Fatalf("Remove(%v) finds it in a flow where it does not wait", i)
				}
				if q.Remove(i.flow, i) != (at >= 0) {
					t.Fatalf("Remove(%v) is wrong with %v", i, model)
				}
				if at >= 0 {
					model = slices.Delete(model, at, at+1)
				}
				if !slices.ContainsFunc(model, func(other item) bool { return other.flow == i.flow }) {
					delete(passed, i.flow)
				}
			},
			"": func(t *rapid.T) {
				if q.Len() != len(model) {
					t.Fatalf("Len is %d with %v", q.Len(), model)
				}
			},
		})
	})
}

// A tenant's edit of its cloud removes all its waiting keys, in any order, while everybody waits for the queue.
func TestRemoveMovesNoOtherItem(t *testing.T) {
	for _, n := range []int{100, 1000} {
		var q Queue[string, int]
		for i := range n {
			q.Push("one", i)
		}
		places, moved := maps.Clone(q.places), 0
		for i := n - 1; i > 0; i-- { // a search from the front would meet all others
			if !q.Remove("one", i) {
				t.Fatalf("Remove(%d) does not find it", i)
			}
			for other, place := range q.places {
				if places[other] != place {
					moved++
				}
			}
		}
		expect.Equal(t, 0, moved, "how often removals of %d items moved another one", n-1)
		if got := q.Pop(); got != 0 || q.Len() != 0 {
			t.Errorf("what is left is %d and %d more", got, q.Len())
		}
	}
}

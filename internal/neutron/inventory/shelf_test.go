package inventory

import (
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

// thing is a resource of the least kind.
type thing struct {
	id, description string
	revision        int
}

// world is a shelf, the cloud behind it, and what is under way between them.
type world struct {
	*shelf[thing]
	cloud map[string]thing
	// revisions counts all that ever happened in the cloud.
	revisions int
	reads     []read
	writes    []pending
	// written says when each resource was last written by the shelf's own user, by the clock.
	written map[string]uint64
}

// read is a list, or a read of one resource, whose answer is on its way.
type read struct {
	one   string // the resource's id; empty for a list
	since uint64
	// answer is what the cloud had at some moment after the read began; nil before that.
	answer map[string]thing
}

// pending is a write that was carried out, and whose answer is on its way.
type pending struct {
	id     string
	to     *thing
	done   func()
	failed bool
}

var thingOwners = []string{ownerOf("a").Marker(), ownerOf("b").Marker(), "nobody's"}

func ours(r thing) bool { return r.description != "nobody's" }

func newWorld() *world {
	w := &world{cloud: map[string]thing{}, written: map[string]uint64{}}
	w.shelf = newShelf(new(sync.RWMutex), traits[thing]{
		identify: func(r *thing) (id, description string, revision int) { return r.id, r.description, r.revision },
		same:     func(a, b *thing) bool { return a.revision == b.revision },
	})
	return w
}

// contents are what is held, by id.
func (w *world) contents() map[string]thing {
	contents := map[string]thing{}
	for id, held := range w.held {
		contents[id] = *held
	}
	return contents
}

// handOut is what was handed out of an object's, and what that was then.
type handOut struct{ all, was []thing }

// happen changes the cloud.
func (w *world) happen(t *rapid.T, id string) *thing {
	w.revisions++
	if rapid.IntRange(0, 3).Draw(t, "deletion") == 0 {
		delete(w.cloud, id)
		return nil
	}
	r := thing{id, rapid.SampledFrom(thingOwners).Draw(t, "owner"), w.revisions}
	w.cloud[id] = r
	return &r
}

// ends takes an answer in.
func (w *world) ends(r read) {
	listed := map[string]*thing{}
	for id, answered := range r.answer {
		if ours(answered) {
			listed[id] = &answered
		}
	}
	if r.one != "" {
		w.refresh(r.one, listed[r.one], r.since)
		return
	}
	w.takeIn(listed, r.since, map[string]bool{})
}

// TestAShelfForgetsNoWriteAndEndsAsTheCloud runs lists, reads of one resource, own writes and others' through each
// other in any order. What the shelf's own user has written is never undone by what began before, and when all is quiet
// one list makes the shelf as the cloud. What was handed out on the way stays as it was.
func TestAShelfForgetsNoWriteAndEndsAsTheCloud(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		var given []handOut
		id := rapid.SampledFrom([]string{"1", "2"})
		t.Repeat(map[string]func(*rapid.T){
			"somebody else writes": func(t *rapid.T) { w.happen(t, id.Draw(t, "id")) },
			"a write is sent": func(t *rapid.T) {
				p := pending{id: id.Draw(t, "id"), failed: rapid.Bool().Draw(t, "failed")}
				p.done = w.write(p.id)
				p.to = w.happen(t, p.id)
				w.writes = append(w.writes, p)
			},
			"a write is answered": func(t *rapid.T) {
				if len(w.writes) == 0 {
					t.Skip()
				}
				p := w.writes[0]
				w.writes = w.writes[1:]
				if !p.failed {
					w.change(p.id, func(*thing) *thing {
						if p.to == nil || !ours(*p.to) {
							return nil
						}
						return p.to
					})
					w.written[p.id] = w.clock
				}
				p.done()
			},
			"a read begins": func(t *rapid.T) {
				one := rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "of")
				if one == "" && slices.ContainsFunc(w.reads, func(r read) bool { return r.one == "" }) {
					t.Skip("an Inventory has one list at a time")
				}
				since := w.clock
				if one != "" {
					since = w.begin()
				}
				w.reads = append(w.reads, read{one: one, since: since})
			},
			"a read is carried out": func(t *rapid.T) {
				if len(w.reads) == 0 {
					t.Skip()
				}
				w.reads[rapid.IntRange(0, len(w.reads)-1).Draw(t, "read")].answer = maps.Clone(w.cloud)
			},
			"a read is answered": func(t *rapid.T) {
				if len(w.reads) == 0 {
					t.Skip()
				}
				at := rapid.IntRange(0, len(w.reads)-1).Draw(t, "read")
				r := w.reads[at]
				if r.answer == nil {
					t.Skip()
				}
				w.reads = slices.Delete(w.reads, at, at+1)
				before := w.contents()
				w.ends(r)
				after := w.contents()
				for id, when := range w.written {
					if when > r.since && after[id] != before[id] {
						t.Fatalf("%s was written after the read began, and held is %v in the place of %v",
							id, after[id], before[id])
					}
				}
			},
			"": func(t *rapid.T) {
				count := 0
				for object, all := range w.owned {
					count += len(all)
					for at := range all {
						if r := &all[at]; w.held[r.id] != r || w.object(r) != object {
							t.Fatalf("the index has %v as %s's, and held is %v", *r, object, w.held[r.id])
						}
					}
					given = append(given, handOut{all, slices.Clone(all)})
				}
				if count != len(w.held) {
					t.Fatalf("%d are indexed, %d held", count, len(w.held))
				}
				for id, held := range w.held {
					if !ours(*held) {
						t.Fatalf("%s is held and not ours", id)
					}
				}
				for _, g := range given {
					if !slices.Equal(g.all, g.was) {
						t.Fatalf("what was handed out as %v was made %v", g.was, g.all)
					}
				}
			},
		})
		for _, p := range w.writes {
			p.done()
		}
		w.ends(read{since: w.clock, answer: w.cloud})
		got, want := map[string]int{}, map[string]int{}
		for id, held := range w.held {
			got[id] = held.revision
		}
		for id, r := range w.cloud {
			if ours(r) {
				want[id] = r.revision
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("revisions when all is quiet (-want +got):\n%s", diff)
		}
		if len(w.writing)+len(w.changed) > 0 {
			t.Fatalf("left over: %v, %v", w.writing, w.changed)
		}
	})
}

// A list lets the shelf forget when its resources were written. A read that began before such a write must not profit.
func TestAnswerOfBeforeAWriteIsNotBelievedAfterAListEither(t *testing.T) {
	w := newWorld()
	old, written := thing{"1", thingOwners[0], 1}, thing{"1", thingOwners[0], 2}
	since := w.begin()
	w.change("1", func(*thing) *thing { return &written })
	w.takeIn(map[string]*thing{"1": &written}, w.clock, map[string]bool{})
	w.refresh("1", &old, since)
	if got := w.held["1"]; got == nil || got.revision != 2 {
		t.Errorf("held is %v, want what was written", got)
	}
	w.refresh("1", nil, w.begin())
	if got := w.held["1"]; got != nil {
		t.Errorf("held is %v after a read that began later and found nothing", got)
	}
}

// What a read of one resource tells is older than what a list tells that began after it, whichever of the two is
// answered first.
func TestOfAReadAndAListTheOneThatBeganLaterIsBelieved(t *testing.T) {
	before, after := thing{"1", thingOwners[0], 1}, thing{"1", thingOwners[0], 2}
	for name, c := range map[string]struct {
		listed []thing
		want   int // the revision that is held; 0 for none
	}{
		"a resource that moved between the two":     {[]thing{after}, 2},
		"a resource that was deleted between them":  {nil, 0},
		"a resource that is the same to both reads": {[]thing{before}, 1},
	} {
		for order, listFirst := range map[string]bool{"the list first": true, "the read first": false} {
			t.Run(name+", "+order, func(t *testing.T) {
				w := newWorld()
				w.takeIn(map[string]*thing{"1": &before}, w.clock, map[string]bool{})
				read := w.begin()
				list := w.clock
				takeIn := func() {
					listed := map[string]*thing{}
					for _, r := range c.listed {
						listed[r.id] = &r
					}
					w.takeIn(listed, list, map[string]bool{})
				}
				if listFirst {
					takeIn()
				}
				w.refresh("1", &before, read)
				if !listFirst {
					takeIn()
				}
				got := 0
				if held := w.held["1"]; held != nil {
					got = held.revision
				}
				expect.Equal(t, c.want, got, "the revision that is held")
			})
		}
	}
	w := newWorld()
	list := w.clock
	read := w.begin()
	w.refresh("1", &after, read)
	w.takeIn(map[string]*thing{"1": &before}, list, map[string]bool{})
	if held := w.held["1"]; held == nil || held.revision != 2 {
		t.Errorf("held is %v after a list that began before the read", held)
	}
}

package orphan

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(d time.Duration) time.Time { return epoch.Add(d) }

func set(uids ...string) map[string]bool {
	all := map[string]bool{}
	for _, uid := range uids {
		all[uid] = true
	}
	return all
}

// networkOf and portOf are what owners have.
func networkOf(uids ...string) map[string]inventory.Holdings {
	owners := map[string]inventory.Holdings{}
	for _, uid := range uids {
		owners[uid] = inventory.Holdings{plan.KindNetwork: {"net-" + uid}}
	}
	return owners
}

func portOf(owners map[string]inventory.Holdings, uids ...string) map[string]inventory.Holdings {
	for _, uid := range uids {
		owners[uid] = inventory.Holdings{plan.KindPort: {"port-" + uid}}
	}
	return owners
}

// take has a book take in a list, and gives the UIDs that are due then.
func take(
	b *book, owners map[string]inventory.Holdings, audited, now time.Time, exists map[string]bool, r Rules,
) []string {
	if !b.take(owners, audited, client.Identity{}) {
		return nil
	}
	b.update(func(uid string) bool { return exists[uid] }, now)
	return uidsOf(b.due(r, now))
}

func uidsOf(candidates []candidate) []string {
	var uids []string
	for _, c := range candidates {
		uids = append(uids, c.uid)
	}
	return uids
}

func TestAListNotesWhoIsMissing(t *testing.T) {
	rules := Rules{Grace: 10 * time.Minute, MaxShare: 1}
	once := note{since: at(0), audits: 1}
	for sentence, c := range map[string]struct {
		// was is the note of "a" by the list that began at 0, if any.
		was      *note
		owners   map[string]inventory.Holdings
		exists   map[string]bool
		audited  time.Duration
		now      time.Duration
		wantNote *note
		wantDue  []string
	}{
		"who is missing first is noted and not due": {
			owners: networkOf("a"), audited: time.Hour, now: time.Hour,
			wantNote: &note{since: at(time.Hour), audits: 1},
		},
		"whose object exists is not noted": {
			owners: networkOf("a"), exists: set("a"), audited: time.Hour, now: time.Hour,
		},
		"whose object shows up is dropped": {
			was: &note{since: at(0), audits: 99}, owners: networkOf("a"), exists: set("a"), audited: time.Hour, now: time.Hour,
		},
		"whose resources have gone is dropped": {
			was: &note{since: at(0), audits: 99}, audited: time.Hour, now: time.Hour,
		},
		"one list for long is not enough": {
			was: &once, owners: networkOf("a"), audited: 0, now: time.Hour, wantNote: &once,
		},
		"an older list is none": {
			was: &once, owners: networkOf("a"), audited: -time.Hour, now: time.Hour, wantNote: &once,
		},
		"many lists within the grace period are not enough": {
			was: &note{since: at(0), audits: 99}, owners: networkOf("a"), audited: time.Minute, now: 10*time.Minute - 1,
			wantNote: &note{since: at(0), audits: 100},
		},
		"two lists and the grace period are": {
			was: &note{since: at(0), audits: 1}, owners: networkOf("a"), audited: time.Minute, now: 10 * time.Minute,
			wantNote: &note{since: at(0), audits: 2}, wantDue: []string{"a"},
		},
		"who was blocked is not due at once": {
			was: &note{since: at(-time.Hour), audits: 9, tried: at(0), blocked: true}, owners: networkOf("a"),
			audited: time.Minute, now: 9 * time.Minute,
			wantNote: &note{since: at(-time.Hour), audits: 10, tried: at(0), blocked: true},
		},
		"who was blocked is due again": {
			was: &note{since: at(-time.Hour), audits: 9, tried: at(0), blocked: true}, owners: networkOf("a"),
			audited: time.Minute, now: 10 * time.Minute,
			wantNote: &note{since: at(-time.Hour), audits: 10, tried: at(0), blocked: true},
			wantDue:  []string{"a"},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			b := book{audited: at(0), notes: map[string]*note{}}
			if c.was != nil {
				b.notes["a"] = c.was
			}
			due := take(&b, c.owners, at(c.audited), at(c.now), c.exists, rules)
			expect.EqualWith(t, cmp.Options{cmp.AllowUnexported(note{})}, c.wantNote, b.notes["a"], "note")
			expect.Equal(t, c.wantDue, due, "due")
		})
	}
}

func TestAnUpdateTellsWhoComesAndWhoIsBack(t *testing.T) {
	b := book{owners: networkOf("a", "b", "c", "d"), notes: map[string]*note{"b": {}, "c": {}, "gone": {}}}
	came, back := b.update(func(uid string) bool { return uid == "c" }, at(0))
	expect.Equal(t, []string{"a", "d"}, came, "came")
	expect.Equal(t, []string{"c"}, back, "back")
}

func TestOneListIsNeverEnough(t *testing.T) {
	var b book
	rules := Rules{MaxShare: 1}
	expect.Empty(t, take(&b, networkOf("a"), at(0), at(time.Hour), nil, rules), "due upon one list")
	expect.Len(t, 1, take(&b, networkOf("a"), at(1), at(time.Hour), nil, rules), "those due upon two lists")
}

// lists are the UIDs in a verdict.
type lists struct{ exist, remove, withheld []string }

func TestJudgeKeepsToTheShare(t *testing.T) {
	fleet := networkOf("a", "b", "c", "d", "e", "f", "g", "h", "i", "j")
	for sentence, c := range map[string]struct {
		notes  map[string]*note
		due    []string
		live   map[string]bool
		owners map[string]inventory.Holdings
		share  float64
		want   lists
	}{
		"the share itself may go": {
			due: []string{"a", "b"}, owners: fleet, share: 0.2, want: lists{remove: []string{"a", "b"}},
		},
		"of more than the share none goes": {
			due: []string{"a", "b", "c"}, owners: fleet, share: 0.2, want: lists{withheld: []string{"a", "b", "c"}},
		},
		"one may go however small the share": {
			due: []string{"a"}, owners: fleet, share: 0.01, want: lists{remove: []string{"a"}},
		},
		"two may not, however small the fleet": {
			due: []string{"a", "b"}, owners: networkOf("a", "b"), share: 0.9,
			want: lists{withheld: []string{"a", "b"}},
		},
		"all may go with the operator's word": {
			due: []string{"a", "b"}, owners: networkOf("a", "b"), share: 1, want: lists{remove: []string{"a", "b"}},
		},
		"without a share none goes": {
			due: []string{"a"}, owners: fleet, share: 0, want: lists{withheld: []string{"a"}},
		},
		"whose object exists does not go": {
			due: []string{"a", "b"}, live: set("a"), owners: fleet, share: 1,
			want: lists{exist: []string{"a"}, remove: []string{"b"}},
		},
		"objects that exist do not count towards the share": {
			due: []string{"a", "b"}, live: set("a"), owners: fleet, share: 0.1,
			want: lists{exist: []string{"a"}, remove: []string{"b"}},
		},
		"who was blocked holds up nobody, and is tried where there is room": {
			notes: map[string]*note{"b": {tried: at(2), blocked: true}, "c": {tried: at(1), blocked: true}, "d": {tried: at(2), blocked: true}},
			due:   []string{"a", "b", "c", "d"}, owners: fleet, share: 0.3,
			want: lists{remove: []string{"a", "b", "c"}},
		},
		"who was blocked waits where more are due than may go": {
			notes: map[string]*note{"c": {tried: at(1), blocked: true}},
			due:   []string{"a", "b", "c"}, owners: fleet, share: 0.1,
			want: lists{withheld: []string{"a", "b"}},
		},
		"ports go before networks, and of each the longest missing first": {
			notes: map[string]*note{"a": {since: at(1)}, "b": {since: at(0)}, "p": {since: at(3)}, "q": {since: at(2)}},
			due:   []string{"a", "b", "p", "q"}, owners: portOf(networkOf("a", "b"), "p", "q"), share: 1,
			want: lists{remove: []string{"q", "p", "b", "a"}},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			b := &book{owners: c.owners, notes: map[string]*note{}}
			var due []candidate
			for _, uid := range c.due {
				b.notes[uid] = &note{}
				if n := c.notes[uid]; n != nil {
					b.notes[uid] = n
				}
				due = append(due, candidate{b, uid})
			}
			v := judge([]*book{b}, due, c.live, Rules{MaxShare: c.share})
			got := lists{uidsOf(v.exist), uidsOf(v.remove), uidsOf(v.withheld)}
			expect.EqualWith(t, cmp.Options{cmp.AllowUnexported(lists{})}, c.want, got, "verdict")
		})
	}
}

func TestWhatIsWithheldInAnotherCloudCounts(t *testing.T) {
	small := &book{owners: networkOf("s"), notes: map[string]*note{"s": {withheld: true}}}
	b := &book{owners: networkOf("a"), notes: map[string]*note{"a": {}}}
	for sentence, c := range map[string]struct {
		live map[string]bool
		want lists
	}{
		"while its object is gone": {nil, lists{withheld: []string{"a"}}},
		"not if its object exists": {set("s"), lists{remove: []string{"a"}}},
	} {
		t.Run(sentence, func(t *testing.T) {
			v := judge([]*book{small, b}, []candidate{{b, "a"}}, c.live, Rules{MaxShare: 0.5})
			got := lists{uidsOf(v.exist), uidsOf(v.remove), uidsOf(v.withheld)}
			expect.EqualWith(t, cmp.Options{cmp.AllowUnexported(lists{})}, c.want, got, "verdict")
		})
	}
}

// TestEachTenantIsJudgedApart holds that what a tenant's Neutron lists decides about nothing of others.
func TestEachTenantIsJudgedApart(t *testing.T) {
	// cloud is a book in which some owners are due and some have living objects.
	type cloud struct {
		tenant      string
		due, living int
		// missing have no object, and are not due yet.
		missing int
	}
	for sentence, c := range map[string]struct {
		clouds []cloud
		share  float64
		// remove and withheld are how many of each tenant's.
		remove, withheld map[string]int
	}{
		"forged orphans of a tenant halt nothing of the operator's": {
			clouds: []cloud{{"", 1, 19, 0}, {"hostile", 100, 0, 0}}, share: 0.1,
			remove: map[string]int{"": 1}, withheld: map[string]int{"hostile": 100},
		},
		"nor of another tenant's": {
			clouds: []cloud{{"", 0, 20, 0}, {"hostile", 100, 0, 0}, {"team", 1, 1, 0}}, share: 0.1,
			remove: map[string]int{"team": 1}, withheld: map[string]int{"hostile": 100},
		},
		"forged owners of a tenant raise no share of the operator's": {
			clouds: []cloud{{"", 3, 17, 0}, {"hostile", 0, 1000, 0}}, share: 0.1,
			withheld: map[string]int{"": 3},
		},
		"nor of another tenant's, and theirs is not raised by the operator's": {
			clouds: []cloud{{"", 0, 1000, 0}, {"hostile", 0, 1000, 0}, {"team", 2, 2, 0}}, share: 0.1,
			withheld: map[string]int{"team": 2},
		},
		"the clouds of one tenant are judged together": {
			clouds: []cloud{{"", 0, 20, 0}, {"team", 1, 2, 0}, {"team", 1, 2, 0}}, share: 0.1,
			withheld: map[string]int{"team": 2},
		},
		"the operator's clouds are judged together": {
			clouds: []cloud{{"", 1, 2, 0}, {"", 1, 2, 0}}, share: 0.1,
			withheld: map[string]int{"": 2},
		},
		"a halt of the operator's clouds halts the tenants, as a cluster that lost its objects lost all": {
			clouds: []cloud{{"", 2, 0, 0}, {"team", 1, 0, 0}}, share: 0.1,
			withheld: map[string]int{"": 2, "team": 1},
		},
		"so do those of the operator's that are missing and not due yet": {
			clouds: []cloud{{"", 0, 2, 18}, {"team", 1, 0, 0}}, share: 0.1,
			withheld: map[string]int{"team": 1},
		},
		"all go with the operator's word": {
			clouds: []cloud{{"", 2, 0, 0}, {"team", 2, 0, 0}}, share: 1,
			remove: map[string]int{"": 2, "team": 2},
		},
		"without a share none goes": {
			clouds: []cloud{{"", 1, 9, 0}, {"team", 1, 9, 0}}, share: 0,
			withheld: map[string]int{"": 1, "team": 1},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			var books []*book
			var due []candidate
			live := map[string]bool{}
			for i, in := range c.clouds {
				gone, living := uidsFrom(fmt.Sprint("gone-", i), in.due), uidsFrom(fmt.Sprint("living-", i), in.living)
				maps.Copy(live, set(living...))
				missing := uidsFrom(fmt.Sprint("missing-", i), in.missing)
				owners := networkOf(slices.Concat(gone, living, missing)...)
				b := &book{tenant: in.tenant, owners: owners, notes: map[string]*note{}}
				books = append(books, b)
				for _, uid := range missing {
					b.notes[uid] = &note{}
				}
				for _, uid := range gone {
					b.notes[uid] = &note{}
					due = append(due, candidate{b, uid})
				}
			}
			count := func(candidates []candidate) (n map[string]int) {
				for _, o := range candidates {
					if n == nil {
						n = map[string]int{}
					}
					n[o.in.tenant]++
				}
				return n
			}
			v := judge(books, due, live, Rules{MaxShare: c.share})
			expect.Equal(t, c.remove, count(v.remove), "removed of each tenant")
			expect.Equal(t, c.withheld, count(v.withheld), "withheld of each tenant")
		})
	}
}

// A tenant's Neutron may answer slowly.
func TestTheOperatorsOrphansGoFirst(t *testing.T) {
	team := &book{tenant: "team", owners: portOf(networkOf(), "p"), notes: map[string]*note{"p": {}}}
	own := &book{owners: networkOf("n"), notes: map[string]*note{"n": {}}}
	v := judge([]*book{team, own}, []candidate{{team, "p"}, {own, "n"}}, nil, Rules{MaxShare: 1})
	expect.Equal(t, []string{"n", "p"}, uidsOf(v.remove), "removed")
}

// TestPropertyOnlyOrphansGo plays a fleet through random audits, in which objects come and go, caches are wrong, lists
// are repeated, and removals are blocked. Whatever goes has earned it.
func TestPropertyOnlyOrphansGo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rules := Rules{
			Grace:    time.Duration(rapid.IntRange(1, 30).Draw(t, "grace")) * time.Minute,
			MaxShare: rapid.SampledFrom([]float64{0, 0.01, 0.1, 0.34, 0.5, 1}).Draw(t, "share"),
		}
		fleet := make([]string, rapid.IntRange(1, 12).Draw(t, "fleet"))
		owners := map[string]inventory.Holdings{}
		for i := range fleet {
			fleet[i] = fmt.Sprintf("uid-%d", i)
			if rapid.Bool().Draw(t, "port") {
				portOf(owners, fleet[i])
			} else {
				owners[fleet[i]] = networkOf(fleet[i])[fleet[i]]
			}
		}
		some := func(label string) map[string]bool {
			return set(rapid.SliceOfDistinct(rapid.SampledFrom(fleet), rapid.ID).Draw(t, label)...)
		}

		var b book
		now, audited := epoch, epoch
		// missing are, for each owner that no cache has had since, when that began and the lists that showed it.
		type missing struct {
			since time.Time
			lists map[time.Time]bool
		}
		gone := map[string]missing{}
		for range rapid.IntRange(1, 12).Draw(t, "audits") {
			now = now.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "minutes")) * time.Minute)
			again := rapid.IntRange(0, 3).Draw(t, "list") == 0
			if !again {
				audited = audited.Add(time.Minute)
			}
			cached, live := some("cached"), some("live")
			if audited.After(b.audited) {
				for _, uid := range fleet {
					m, known := gone[uid]
					switch {
					case cached[uid]:
						delete(gone, uid)
						continue
					case !known:
						m = missing{since: now, lists: map[time.Time]bool{}}
					}
					m.lists[audited] = true
					gone[uid] = m
				}
			}
			was := b.audited
			uids := take(&b, owners, audited, now, cached, rules)
			if again && was.Equal(audited) && len(uids) > 0 {
				t.Fatalf("%v are due though there is no new list", uids)
			}
			var due []candidate
			for _, uid := range uids {
				due = append(due, candidate{&b, uid})
			}
			v := judge([]*book{&b}, due, live, rules)
			judged := lists{uidsOf(v.exist), uidsOf(v.remove), uidsOf(v.withheld)}
			if len(judged.remove) > rules.Allowance(len(owners)) || rules.MaxShare == 0 && len(judged.remove) > 0 {
				t.Fatalf("%d of %d go in one audit, by a share of %g", len(judged.remove), len(owners), rules.MaxShare)
			}
			if len(judged.remove) > 0 && len(judged.withheld) > 0 {
				t.Fatalf("%v go though %v are too many", judged.remove, judged.withheld)
			}
			for i, uid := range judged.remove {
				m, missing := gone[uid]
				switch {
				case cached[uid], live[uid]:
					t.Fatalf("%s goes, and its object exists", uid)
				case !missing || now.Before(m.since.Add(rules.Grace)):
					t.Fatalf("%s goes at %s, missing since %s; the grace is %s", uid, now, m.since, rules.Grace)
				case len(m.lists) < 2:
					t.Fatalf("%s goes on the strength of %d lists", uid, len(m.lists))
				case i > 0 && len(owners[judged.remove[i-1]][plan.KindNetwork]) > 0 && len(owners[uid][plan.KindPort]) > 0:
					t.Fatalf("port %s goes after network %s", uid, judged.remove[i-1])
				}
				if slices.Index(judged.remove, uid) != i {
					t.Fatalf("%s goes twice", uid)
				}
				if rapid.Bool().Draw(t, "blocked") {
					b.notes[uid].tried, b.notes[uid].blocked = now, true
				} else if rapid.Bool().Draw(t, "removed") {
					delete(b.notes, uid)
					delete(owners, uid)
					delete(gone, uid)
				}
			}
			for _, uid := range judged.exist {
				delete(b.notes, uid)
				delete(gone, uid)
			}
		}
	})
}

func TestAllowanceIsRoundedDown(t *testing.T) {
	for _, c := range []struct {
		owners int
		share  float64
		want   int
	}{{100, 0.1, 10}, {99, 0.1, 9}, {9, 0.1, 1}, {0, 0.1, 1}, {3, 1, 3}, {1000, 0, 0}} {
		if got := (Rules{MaxShare: c.share}).Allowance(c.owners); got != c.want {
			t.Errorf("of %d owners %d may go at a share of %g, want %d", c.owners, got, c.share, c.want)
		}
	}
}

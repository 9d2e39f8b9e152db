package orphan

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	"cloudteam.ztgame.com/network-controller/internal/plan"
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

var sameLedger = cmp.AllowUnexported(ledger{}, note{}, verdict{})

func TestNextNotesWhoIsMissing(t *testing.T) {
	rules := Rules{Grace: 10 * time.Minute, MaxShare: 1}
	once := note{since: at(0), audits: 1}
	noted := func(audited time.Duration, n note) ledger {
		return ledger{audited: at(audited), notes: map[string]note{"a": n}}
	}
	for sentence, c := range map[string]struct {
		ledger     ledger
		owners     map[string]inventory.Holdings
		exists     map[string]bool
		audited    time.Duration
		now        time.Duration
		wantLedger ledger
		wantDue    []string
	}{
		"who is missing first is noted and not due": {
			owners: networkOf("a"), audited: time.Hour, now: time.Hour,
			wantLedger: noted(time.Hour, note{since: at(time.Hour), audits: 1}),
		},
		"whose object exists is not noted": {
			owners: networkOf("a"), exists: set("a"), audited: time.Hour, now: time.Hour,
			wantLedger: ledger{audited: at(time.Hour)},
		},
		"whose object shows up is dropped": {
			ledger: noted(0, note{since: at(0), audits: 99}), owners: networkOf("a"), exists: set("a"),
			audited: time.Hour, now: time.Hour,
			wantLedger: ledger{audited: at(time.Hour)},
		},
		"whose resources have gone is dropped": {
			ledger: noted(0, note{since: at(0), audits: 99}), audited: time.Hour, now: time.Hour,
			wantLedger: ledger{audited: at(time.Hour)},
		},
		"one list for long is not enough": {
			ledger: noted(0, once), owners: networkOf("a"), audited: 0, now: time.Hour,
			wantLedger: noted(0, once),
		},
		"an older list is none": {
			ledger: noted(0, once), owners: networkOf("a"), audited: -time.Hour, now: time.Hour,
			wantLedger: noted(0, once),
		},
		"many lists within the grace period are not enough": {
			ledger: noted(0, note{since: at(0), audits: 99}), owners: networkOf("a"),
			audited: time.Minute, now: 10*time.Minute - 1,
			wantLedger: noted(time.Minute, note{since: at(0), audits: 100}),
		},
		"two lists and the grace period are": {
			ledger: noted(0, once), owners: networkOf("a"), audited: time.Minute, now: 10 * time.Minute,
			wantLedger: noted(time.Minute, note{since: at(0), audits: 2}), wantDue: []string{"a"},
		},
		"who was blocked is not due at once": {
			ledger: noted(0, note{since: at(-time.Hour), audits: 9, blocked: at(0)}), owners: networkOf("a"),
			audited: time.Minute, now: 9 * time.Minute,
			wantLedger: noted(time.Minute, note{since: at(-time.Hour), audits: 10, blocked: at(0)}),
		},
		"who was blocked is due again": {
			ledger: noted(0, note{since: at(-time.Hour), audits: 9, blocked: at(0)}), owners: networkOf("a"),
			audited: time.Minute, now: 10 * time.Minute,
			wantLedger: noted(time.Minute, note{since: at(-time.Hour), audits: 10, blocked: at(0)}),
			wantDue:    []string{"a"},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			v := view{
				now: at(c.now), owners: c.owners, audited: at(c.audited),
				exists: func(uid string) bool { return c.exists[uid] },
			}
			next, due := c.ledger.next(v, rules)
			if diff := cmp.Diff(c.wantLedger, next, sameLedger, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("ledger (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.wantDue, due); diff != "" {
				t.Errorf("due (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOneListIsNeverEnough(t *testing.T) {
	nobody := func(string) bool { return false }
	v := view{now: at(time.Hour), owners: networkOf("a"), audited: at(0), exists: nobody}
	l, due := ledger{}.next(v, Rules{MaxShare: 1})
	if len(due) > 0 {
		t.Errorf("%v is due upon one list", due)
	}
	v.audited = at(1)
	if _, due = l.next(v, Rules{MaxShare: 1}); len(due) != 1 {
		t.Errorf("%v is due upon two lists, want a", due)
	}
}

func TestJudgeKeepsToTheShare(t *testing.T) {
	fleet := networkOf("a", "b", "c", "d", "e", "f", "g", "h", "i", "j")
	for sentence, c := range map[string]struct {
		notes  map[string]note
		due    []string
		live   map[string]bool
		owners map[string]inventory.Holdings
		share  float64
		want   verdict
	}{
		"the share itself may go": {
			due: []string{"a", "b"}, owners: fleet, share: 0.2, want: verdict{remove: []string{"a", "b"}},
		},
		"of more than the share none goes": {
			due: []string{"a", "b", "c"}, owners: fleet, share: 0.2, want: verdict{withheld: []string{"a", "b", "c"}},
		},
		"one may go however small the share": {
			due: []string{"a"}, owners: fleet, share: 0.01, want: verdict{remove: []string{"a"}},
		},
		"two may not, however small the fleet": {
			due: []string{"a", "b"}, owners: networkOf("a", "b"), share: 0.9,
			want: verdict{withheld: []string{"a", "b"}},
		},
		"all may go with the operator's word": {
			due: []string{"a", "b"}, owners: networkOf("a", "b"), share: 1, want: verdict{remove: []string{"a", "b"}},
		},
		"without a share none goes": {
			due: []string{"a"}, owners: fleet, share: 0, want: verdict{withheld: []string{"a"}},
		},
		"whose object exists does not go": {
			due: []string{"a", "b"}, live: set("a"), owners: fleet, share: 1,
			want: verdict{exist: []string{"a"}, remove: []string{"b"}},
		},
		"objects that exist do not count towards the share": {
			due: []string{"a", "b"}, live: set("a"), owners: fleet, share: 0.1,
			want: verdict{exist: []string{"a"}, remove: []string{"b"}},
		},
		"who was blocked holds up nobody, and is tried where there is room": {
			notes: map[string]note{"b": {blocked: at(2)}, "c": {blocked: at(1)}, "d": {blocked: at(2)}},
			due:   []string{"a", "b", "c", "d"}, owners: fleet, share: 0.3,
			want: verdict{remove: []string{"a", "b", "c"}},
		},
		"who was blocked waits where more are due than may go": {
			notes: map[string]note{"c": {blocked: at(1)}},
			due:   []string{"a", "b", "c"}, owners: fleet, share: 0.1,
			want: verdict{withheld: []string{"a", "b"}},
		},
		"ports go before networks, and of each the longest missing first": {
			notes: map[string]note{"a": {since: at(1)}, "b": {since: at(0)}, "p": {since: at(3)}, "q": {since: at(2)}},
			due:   []string{"a", "b", "p", "q"}, owners: portOf(networkOf("a", "b"), "p", "q"), share: 1,
			want: verdict{remove: []string{"q", "p", "b", "a"}},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			l := ledger{notes: c.notes}
			got := l.judge(c.due, c.live, view{owners: c.owners}, Rules{MaxShare: c.share})
			if diff := cmp.Diff(c.want, got, sameLedger, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
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

		var l ledger
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
			v := view{now: now, owners: owners, audited: audited, exists: func(uid string) bool { return cached[uid] }}
			if audited.After(l.audited) {
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
			var due []string
			was := l.audited
			l, due = l.next(v, rules)
			judged := l.judge(due, live, v, rules)

			if again && was.Equal(audited) && len(due) > 0 {
				t.Fatalf("%v are due though there is no new list", due)
			}
			if len(judged.remove) > rules.allowance(len(owners)) || rules.MaxShare == 0 && len(judged.remove) > 0 {
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
				case !missing || now.Sub(m.since) < rules.Grace:
					t.Fatalf("%s goes after %s of %s", uid, now.Sub(m.since), rules.Grace)
				case len(m.lists) < 2:
					t.Fatalf("%s goes on the strength of %d lists", uid, len(m.lists))
				case i > 0 && len(owners[judged.remove[i-1]][plan.KindNetwork]) > 0 && len(owners[uid][plan.KindPort]) > 0:
					t.Fatalf("port %s goes after network %s", uid, judged.remove[i-1])
				}
				if slices.Index(judged.remove, uid) != i {
					t.Fatalf("%s goes twice", uid)
				}
				if rapid.Bool().Draw(t, "blocked") {
					n := l.notes[uid]
					n.blocked = now
					l.notes[uid] = n
				} else if rapid.Bool().Draw(t, "removed") {
					delete(l.notes, uid)
					delete(owners, uid)
					delete(gone, uid)
				}
			}
			for _, uid := range judged.exist {
				delete(l.notes, uid)
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
		if got := (Rules{MaxShare: c.share}).allowance(c.owners); got != c.want {
			t.Errorf("of %d owners %d may go at a share of %g, want %d", c.owners, got, c.share, c.want)
		}
	}
}

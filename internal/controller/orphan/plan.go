package orphan

import (
	"cmp"
	"slices"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// Rules say when the resources of a deleted object are removed, and how many at a time.
type Rules struct {
	// Grace is how long the object must be missing first.
	Grace time.Duration
	// MaxShare is the largest share of all owners, from 0 to 1, whose resources may be removed in one audit. Above 0 it
	// allows at least one owner. At 0 nothing is removed, and orphans are only logged.
	MaxShare float64
}

// allowance is how many of the given number of owners may lose their resources in one audit.
func (r Rules) allowance(owners int) int {
	if r.MaxShare <= 0 {
		return 0
	}
	return max(1, int(r.MaxShare*float64(owners)))
}

// minAudits is how many complete lists of the cloud must show a candidate before it is due: one list is no proof.
const minAudits = 2

// note is the record of a candidate: an owner whose object is unknown.
type note struct {
	// since is when it became a candidate, and audits is how many complete lists have shown it since.
	since  time.Time
	audits int
	// blocked is when its removal was last blocked by something that is not ours; zero if never.
	blocked time.Time
	// told is the last failure that was logged.
	told string
}

// ledger holds the notes of all candidates, by UID, as of the list that began at audited. The zero value is empty.
type ledger struct {
	audited time.Time
	notes   map[string]note
}

// view is what is known at one moment.
type view struct {
	now time.Time
	// owners are those of the list that began at audited.
	owners  map[string]inventory.Holdings
	audited time.Time
	// of is the project that the list shows.
	of client.Identity
	// all counts everything in all clouds; zero if this is the only cloud.
	all tally
	// exists reports whether a cache has the object of a UID, or whether this process manages what the object left.
	exists func(uid string) bool
}

// tally has the counts for the share: owners, and those that are due for the first time.
type tally struct{ owners, due int }

// next gives the ledger after a view, and the candidates that are due: they were missing for the grace period and in
// enough lists. Without a new list nothing changes and nothing is due. With one, the result is a new ledger. A blocked
// candidate is due again after another grace period.
func (l ledger) next(v view, r Rules) (next ledger, due []string) {
	if !v.audited.After(l.audited) {
		return l, nil
	}
	next = ledger{audited: v.audited, notes: map[string]note{}}
	for uid := range v.owners {
		if v.exists(uid) {
			continue
		}
		n, known := l.notes[uid]
		if !known {
			n.since = v.now
		}
		n.audits++
		next.notes[uid] = n
		if n.audits >= minAudits && v.now.Sub(n.since) >= r.Grace &&
			(n.blocked.IsZero() || v.now.Sub(n.blocked) >= r.Grace) {
			due = append(due, uid)
		}
	}
	slices.Sort(due)
	return next, due
}

// verdict says what happens to those that are due. One that is in none of its lists waits for the next audit.
type verdict struct {
	// exist are those whose objects exist, whatever the caches show.
	exist []string
	// remove are those whose resources are removed now, in this order: ports before the networks that may have them.
	remove []string
	// withheld are all that are due, if they are more than one audit may remove. Then remove is empty.
	withheld []string
}

// judge decides on those that are due. live are the existing objects, by UID, and MUST be complete.
//
// The share covers all clouds together. Otherwise many small clouds could each lose an owner at the same time. An owner
// that was blocked before passed the share then, and is not counted again: networks that others keep in use must not
// stop the removal of all others forever. It is retried if the share has room.
func (l ledger) judge(due []string, live map[string]bool, v view, r Rules) verdict {
	var judged verdict
	exist, fresh, again := l.sort(due, live)
	judged.exist = exist
	all := tally{owners: max(len(v.owners), v.all.owners), due: max(len(fresh), v.all.due)}
	allowed := r.allowance(all.owners)
	if all.due > allowed {
		judged.withheld = fresh
		return judged
	}
	slices.SortFunc(again, func(a, b string) int {
		return cmp.Or(l.notes[a].blocked.Compare(l.notes[b].blocked), cmp.Compare(a, b))
	})
	judged.remove = append(fresh, again[:min(len(again), allowed-all.due)]...)
	slices.SortFunc(judged.remove, func(a, b string) int {
		return cmp.Or(
			cmp.Compare(min(1, len(v.owners[a][plan.KindNetwork])), min(1, len(v.owners[b][plan.KindNetwork]))),
			l.notes[a].since.Compare(l.notes[b].since),
			cmp.Compare(a, b))
	})
	return judged
}

// sort divides those that are due into three lists: their objects exist, they are due for the first time, or they were
// blocked before.
func (l ledger) sort(due []string, live map[string]bool) (exist, fresh, again []string) {
	for _, uid := range due {
		switch {
		case live[uid]:
			exist = append(exist, uid)
		case l.notes[uid].blocked.IsZero():
			fresh = append(fresh, uid)
		default:
			again = append(again, uid)
		}
	}
	return exist, fresh, again
}

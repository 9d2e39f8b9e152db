package orphan

import (
	"cmp"
	"slices"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
)

// Rules say when the resources of an object that is gone are removed, and how many at a time.
type Rules struct {
	// Grace is how long the object must have been missing before.
	Grace time.Duration
	// MaxShare is the largest share of all owners, from 0 to 1, whose resources may go in one audit. Above 0 it is one
	// owner at least; at 0 none goes, and orphans are told of and left.
	MaxShare float64
}

// allowance is how many owners of so many may lose their resources in one audit.
func (r Rules) allowance(owners int) int {
	if r.MaxShare <= 0 {
		return 0
	}
	return max(1, int(r.MaxShare*float64(owners)))
}

// minAudits is how many complete lists of the cloud have to show a candidate before it is due: one list is no proof.
const minAudits = 2

// note is what is remembered of a candidate: an owner whose object is not known.
type note struct {
	// since is when it was first seen to be one, and audits how many complete lists have shown it since.
	since  time.Time
	audits int
	// blocked is when its removal was last tried and something that is not ours kept it; zero where nothing has.
	blocked time.Time
	// told is the last failure that was logged.
	told string
}

// ledger is what is remembered of all candidates, by UID, as of the list that began at audited. The zero value is
// empty.
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
	// of is the project that it showed.
	of client.Identity
	// all is what there is in all clouds; zero where this is the only one.
	all tally
	// exists reports whether a cache has the object of a UID, or this process looks after what it left.
	exists func(uid string) bool
}

// tally counts what counts towards the share: owners, and those that are due for the first time.
type tally struct{ owners, due int }

// next gives the ledger after a view, and the candidates that are due: for as long as the rules say, in as many lists.
// Without a new list nothing changes and nothing is due; with one, the ledger is another one. Who was blocked is due
// again after another grace period.
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

// verdict is what becomes of those who are due. Who is in none of its lists waits for the next audit.
type verdict struct {
	// exist are those whose objects exist, whatever the caches say.
	exist []string
	// remove are those whose resources go now, in this order: ports before the networks that they may be on.
	remove []string
	// withheld are all that are due, where they are more than may go in one audit. remove is empty then.
	withheld []string
}

// judge decides on those who are due. live are the objects that exist, by UID, and is complete.
//
// The share is one of all clouds, or each of many small ones would lose an owner at a time, all at once. Who was
// blocked before had been allowed to go then, and is not counted again: networks that others keep in use must not hold
// up the removal of all others for good. It is retried where the share has room.
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
			cmp.Compare(min(1, len(v.owners[a].Networks)), min(1, len(v.owners[b].Networks))),
			l.notes[a].since.Compare(l.notes[b].since),
			cmp.Compare(a, b))
	})
	return judged
}

// sort divides those who are due into those whose objects exist, those who are due for the first time, and those who
// were blocked before.
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

package orphan

import (
	"cmp"
	"maps"
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

// Allowance is how many of the given number of owners may lose their resources in one audit.
func (r Rules) Allowance(owners int) int {
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
	// tried is when its removal last failed; zero if never. blocked is true if something that is not ours was in the way.
	tried   time.Time
	blocked bool
	// withheld is true if it was due the last time, with more than may be removed.
	withheld bool
	// told is the last failure that was logged.
	told string
}

// due reports whether the object was missing for the grace period and in enough lists. A blocked candidate is due again
// after another grace period.
func (n note) due(r Rules, now time.Time) bool {
	return n.audits >= minAudits && now.Sub(n.since) >= r.Grace &&
		(!n.blocked || now.Sub(n.tried) >= r.Grace)
}

// book is what is known of the orphans of one cloud.
type book struct {
	inventory Inventory
	// owners are those of the list that began at audited, and of is the project that it shows.
	owners  map[string]inventory.Holdings
	audited time.Time
	of      client.Identity
	// notes are those of the candidates, by UID.
	notes map[string]*note
}

// take takes in a list, and reports whether it is new. The notes of another project say nothing about this one, and are
// dropped.
func (b *book) take(owners map[string]inventory.Holdings, audited time.Time, of client.Identity) bool {
	if !audited.After(b.audited) {
		return false
	}
	if of != b.of {
		b.notes = nil
	}
	b.owners, b.audited, b.of = owners, audited, of
	return true
}

// update notes who is missing by a new list. exists reports whether a cache has the object of a UID, or whether this
// process manages what the object left. came are the new candidates. back are those whose objects exist again.
func (b *book) update(exists func(uid string) bool, now time.Time) (came, back []string) {
	was := b.notes
	b.notes = map[string]*note{}
	for _, uid := range slices.Sorted(maps.Keys(b.owners)) {
		n, known := was[uid]
		switch {
		case exists(uid):
			continue
		case !known:
			n = &note{since: now}
			came = append(came, uid)
		}
		n.audits++
		b.notes[uid] = n
	}
	for _, uid := range slices.Sorted(maps.Keys(was)) {
		if exists(uid) {
			back = append(back, uid)
		}
	}
	return came, back
}

// candidate is an owner in a book.
type candidate struct {
	in  *book
	uid string
}

func (c candidate) note() *note { return c.in.notes[c.uid] }

func (c candidate) resources() inventory.Holdings { return c.in.owners[c.uid] }

// due gives the candidates that are due.
func (b *book) due(r Rules, now time.Time) []candidate {
	var due []candidate
	for _, uid := range slices.Sorted(maps.Keys(b.notes)) {
		if b.notes[uid].due(r, now) {
			due = append(due, candidate{b, uid})
		}
	}
	return due
}

// verdict says what happens to those that are due. One that is in none of its lists waits for the next audit.
type verdict struct {
	// exist are those whose objects exist, whatever the caches show.
	exist []candidate
	// remove are those whose resources are removed now, in this order: ports before the networks that may have them.
	remove []candidate
	// withheld are all that are due for the first time, if they are more than may be removed. Then remove is empty.
	withheld []candidate
	// owners is how many there are in all clouds.
	owners int
}

// judge decides on those that are due. books are those of all clouds. live are the existing objects, by UID, and MUST
// be complete.
//
// The share covers all clouds together. Otherwise many small clouds could each lose an owner at the same time. Two
// clouds may lead to one project, so an owner in both counts once. An owner whose removal failed passed the share then,
// and is not counted again: networks that others keep in use, or that cannot be decoded, must not stop the removal of
// all others forever. It is retried if the share has room.
func judge(books []*book, due []candidate, live map[string]bool, r Rules) (v verdict) {
	owners, counted := map[string]bool{}, map[string]bool{}
	for _, b := range books {
		for uid := range b.owners {
			owners[uid] = true
		}
		for uid, n := range b.notes {
			if n.withheld && !live[uid] {
				counted[uid] = true
			}
		}
	}
	v.owners = len(owners)
	var fresh, again []candidate
	for _, c := range due {
		switch {
		case live[c.uid]:
			v.exist = append(v.exist, c)
		case c.note().tried.IsZero():
			fresh = append(fresh, c)
			counted[c.uid] = true
		default:
			again = append(again, c)
		}
	}
	room := r.Allowance(v.owners) - len(counted)
	if room < 0 {
		v.withheld = fresh
		return v
	}
	slices.SortFunc(again, func(a, b candidate) int {
		return cmp.Or(a.note().tried.Compare(b.note().tried), cmp.Compare(a.uid, b.uid))
	})
	v.remove = append(fresh, again[:min(len(again), room)]...)
	slices.SortFunc(v.remove, func(a, b candidate) int {
		return cmp.Or(
			cmp.Compare(min(1, len(a.resources()[plan.KindNetwork])), min(1, len(b.resources()[plan.KindNetwork]))),
			a.note().since.Compare(b.note().since),
			cmp.Compare(a.uid, b.uid))
	})
	return v
}

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
	// tenant is the namespace whose credentials are for the cloud; empty if they are the operator's.
	tenant string
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
	// remove are those whose resources are removed now, in this order: the operator's before tenants', whose clouds may
	// answer slowly, and of each ports before the networks that may have them.
	remove []candidate
	// withheld are all that are due for the first time, where they are more than may be removed. None of the same
	// tenant's is in remove then.
	withheld []candidate
	// owners is how many there are in all clouds of each tenant, and of the operator.
	owners map[string]int
}

// judge decides on those that are due. books are those of all clouds. live are the existing objects, by UID, and MUST
// be complete.
//
// Each tenant is judged apart. A tenant decides what its clouds list: forged orphans there must not halt the removal of
// others', and forged owners must not raise how many of others' may go. But while more of the operator's are missing
// than may go, due or not, no tenant's go either: each cloud has its audits at its own times. A cluster that lost
// its objects lost those of all clouds, and many tenants with few objects each would be within their shares.
func judge(books []*book, due []candidate, live map[string]bool, r Rules) verdict {
	booksOf, dueOf := map[string][]*book{"": nil}, map[string][]candidate{}
	for _, b := range books {
		booksOf[b.tenant] = append(booksOf[b.tenant], b)
	}
	for _, c := range due {
		dueOf[c.in.tenant] = append(dueOf[c.in.tenant], c)
	}
	v, halted := verdict{owners: map[string]int{}}, false
	for _, tenant := range slices.Sorted(maps.Keys(booksOf)) { // the operator's first
		d := sortOut(booksOf[tenant], dueOf[tenant], live)
		v.owners[tenant] = d.owners
		v.exist = append(v.exist, d.exist...)
		room := r.Allowance(d.owners) - d.counted
		if tenant == "" {
			halted = room < 0 || d.missing > r.Allowance(d.owners)
		}
		if halted || room < 0 {
			v.withheld = append(v.withheld, d.fresh...)
		} else {
			v.remove = append(v.remove, d.removable(room)...)
		}
	}
	return v
}

// docket is what is due in clouds that are judged together.
type docket struct {
	// exist are those whose objects exist. fresh are due for the first time, and again are those whose removal failed.
	exist, fresh, again []candidate
	// owners is how many there are in the clouds, and counted how many of them count towards the share. missing is how
	// many have no object, and may not have been missing for long.
	owners, counted, missing int
}

// sortOut sorts what is due in the clouds of one tenant, or of the operator.
//
// The share covers all clouds of the operator together. Otherwise many small clouds could each lose an owner at the
// same time. Two clouds may lead to one project, so an owner in both counts once. An owner whose removal failed passed
// the share then, and is not counted again: networks that others keep in use, or that cannot be decoded, must not stop
// the removal of all others forever. It is retried if the share has room.
func sortOut(books []*book, due []candidate, live map[string]bool) (d docket) {
	owners, counted, missing := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, b := range books {
		for uid := range b.owners {
			owners[uid] = true
		}
		for uid, n := range b.notes {
			if n.withheld && !live[uid] {
				counted[uid] = true
			}
			if n.tried.IsZero() && !live[uid] {
				missing[uid] = true
			}
		}
	}
	for _, c := range due {
		switch {
		case live[c.uid]:
			d.exist = append(d.exist, c)
		case c.note().tried.IsZero():
			d.fresh = append(d.fresh, c)
			counted[c.uid] = true
		default:
			d.again = append(d.again, c)
		}
	}
	d.owners, d.counted, d.missing = len(owners), len(counted), len(missing)
	return d
}

// removable gives those that are removed now, in their order. room is for how many again the share has room.
func (d docket) removable(room int) []candidate {
	slices.SortFunc(d.again, func(a, b candidate) int {
		return cmp.Or(a.note().tried.Compare(b.note().tried), cmp.Compare(a.uid, b.uid))
	})
	all := append(d.fresh, d.again[:min(len(d.again), room)]...)
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(
			cmp.Compare(min(1, len(a.resources()[plan.KindNetwork])), min(1, len(b.resources()[plan.KindNetwork]))),
			a.note().since.Compare(b.note().since),
			cmp.Compare(a.uid, b.uid))
	})
	return all
}

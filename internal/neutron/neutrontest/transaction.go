package neutrontest

import (
	"slices"
	"time"
)

// transaction is one write request. What it did can be taken back as a whole, which makes bulk creates atomic, and it
// moves the revision of a resource at most once however many of its parts it touches, as Neutron's revision service
// does.
type transaction struct {
	now    time.Time
	newID  func(collection string) string
	bumped map[*standard]bool
	undo   []func()

	// expected is the revision that the request insists on (If-Match), if it does.
	expected *int

	// differs are the attributes that an update asks to be otherwise than they are; see moves.
	differs map[string]bool
	// counts is whether an update to what is there already moves a revision.
	counts bool

	// bulk is whether it creates a list of resources.
	bulk bool
	// losesAddresses is true of a bulk of ports in which the addresses of one could not be had: those that the others
	// had got by then are nobody's from then on, as in the real one, until their subnet goes.
	losesAddresses bool

	// afterAnswer, unless nil, is done when the body of the answer has been made.
	afterAnswer func()
}

// claim is called when everything else about a change to r is known to be right and before anything is written. It
// refuses the change if r has moved on from the revision that the request insists on.
func (tx *transaction) claim(r *standard) *apiError {
	if tx.expected != nil && *tx.expected != r.revision {
		return revisionMismatch(*tx.expected, r.revision)
	}
	return nil
}

func (s *Server) begin() *transaction {
	// Neutron keeps its timestamps to the second.
	return &transaction{
		now: s.now().UTC().Truncate(time.Second), newID: s.options.NewID, bumped: make(map[*standard]bool),
		counts: !s.since(IdleUpdatesKeepRevision),
	}
}

// onUndo remembers how to take back the step just made.
func (tx *transaction) onUndo(f func()) { tx.undo = append(tx.undo, f) }

// rollback takes back every step, the last one first.
func (tx *transaction) rollback() { tx.rollbackTo(0) }

// rollbackTo takes back every step but the first ones.
func (tx *transaction) rollbackTo(first int) {
	for _, v := range slices.Backward(tx.undo[first:]) {
		v()
	}
	tx.undo = tx.undo[:first]
}

// bump moves the revision of a resource that this transaction changed, directly or through something that belongs to
// it.
func (tx *transaction) bump(r *standard) {
	if tx.bumped[r] {
		return
	}
	tx.bumped[r] = true
	revision, updated := r.revision, r.updated
	tx.onUndo(func() { r.revision, r.updated = revision, updated })
	r.revision++
	r.updated = tx.now
}

// moves is whether an update of some of the named attributes is one for revisions; of any attribute if none is named.
func (tx *transaction) moves(names ...string) bool {
	return tx.counts || len(names) == 0 && len(tx.differs) > 0 ||
		slices.ContainsFunc(names, func(name string) bool { return tx.differs[name] })
}

// bumpAgain is bump for a resource that the real one writes in a second go, which counts again.
func (tx *transaction) bumpAgain(r *standard) {
	delete(tx.bumped, r)
	tx.bump(r)
}

// stamp gives a new resource of a collection what all resources have. Its revision is zero and does not move in this
// transaction.
func (tx *transaction) stamp(collection string, r *standard, in values) {
	r.id = tx.newID(collection)
	r.project = in.text("tenant_id")
	r.name = in.text("name")
	r.description = in.text("description")
	r.tags = []string{}
	r.created, r.updated = tx.now, tx.now
	tx.bumped[r] = true
}

// rename takes over the attributes that every resource lets be updated. It runs inside [table.change].
func (s *standard) rename(in values) {
	if in.has("name") {
		s.name = in.text("name")
	}
	if in.has("description") {
		s.description = in.text("description")
	}
}

// insertIn adds a new resource to its table until the transaction is rolled back.
func insertIn[R record](tx *transaction, t *table[R], r R) {
	t.insert(r)
	tx.onUndo(func() { t.remove(r) })
}

package inventory

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// Term is one leader's time as the leader by a Lease.
type Term struct {
	// Lease names the Lease. A copy of the cluster has the same. Processes that run different controllers have different
	// ones, and each has a leader.
	Lease string
	// Number counts the leaders by that Lease: a later one has a higher number.
	Number int
	// Holder is a random text of this leader.
	Holder string
	// Stale is true if nobody had renewed the Lease for long when this leader took it. The Lease may be that of a
	// snapshot, and the earlier leader may live in the cluster that the snapshot is of.
	Stale bool
}

// Standing says whether this leader alone acts for its cluster's UID in a project.
type Standing struct {
	// Disputed is true while a leader of another cluster with the same UID, such as a restored copy, acts or may act, too.
	Disputed bool
	// Unknown is why that is unknown; nil if it is known.
	Unknown error
}

// ErrDisputed is the error of a step that would change or remove what another cluster with this cluster's UID may have
// made. A retry does not help before Options.Standing says so.
var ErrDisputed error = client.HeldBack(client.GateDispute, "write",
	"another controller acts for a cluster with the same UID")

// settlesAfter is how many audit intervals a leader's own word has to stand. Another leader looks within two of them,
// whatever its audits take, and writes its own; see lookMeanwhile. They begin again after a time in which this leader
// itself could not look: the other one may not have been able to either.
const settlesAfter = 3

// word is what the term record in Neutron says.
type word struct {
	number int
	holder string
	// disputed is true if its writer saw the word of another leader of the same UID.
	disputed bool
}

// isOf reports whether the leader of a term has written it.
func (w word) isOf(t Term) bool { return w.number == t.Number && w.holder == t.Holder }

func (w word) String() string {
	flag := ""
	if w.disputed {
		flag = " disputed"
	}
	return fmt.Sprintf("Not for subnets: says which network-controller acts for this Kubernetes cluster in this project. "+
		"[term=%d/%s%s]", w.number, w.holder, flag)
}

var wordPattern = regexp.MustCompile(`\[term=([0-9]{1,9})/([0-9a-zA-Z-]+)( disputed)?\]$`)

// readWord reads a description. One that somebody edited is the word of no leader.
func readWord(description string) (w word) {
	parts := wordPattern.FindStringSubmatch(description)
	if parts == nil {
		return word{}
	}
	number, _ := strconv.Atoi(parts[1])
	return word{number, parts[2], parts[3] != ""}
}

// wireTerm is a term record in Neutron's JSON. It is a subnet pool: any member may make one, it has no small quota, and
// it is a row in a database and nothing else. No write to it moves the revision of a user's resource.
type wireTerm struct{ wireBase }

// revision is the condition of a write.
func (w wireTerm) revision() *int { return new(int(w.Revision.Or0())) }

var termCollection = client.Collection{One: "subnetpool", Many: "subnetpools"}

// termPrefix is for documentation (RFC 5737), and leaves room for one subnet of one address.
const termPrefix, termPrefixLength = "192.0.2.0/32", 32

// tenure is what an Inventory knows of the term record in its project.
type tenure struct {
	// turn is a lock: its holder puts a value into it, and calls Neutron. It is a channel because who waits for it must
	// stop when its own context ends.
	turn chan struct{}

	mu sync.Mutex
	// of is the project of what follows.
	of client.Identity
	// looked is when the record was last asked for, with or without an answer; zero before. exists is true if there is
	// one.
	looked time.Time
	exists bool
	last   sight
	// settled is true if this leader's word stands for long enough, or if nothing can be known, which unknown says.
	settled bool
	unknown error
	// made are the ids of the ports that this process has made during the dispute. No other cluster uses them.
	made map[string]bool
}

// sight is what one look leaves for the next.
type sight struct {
	// stands is since when the record is known to have this leader's word; zero if it never had.
	stands time.Time
	// revision is that of the record with this leader's word, as the Inventory last wrote or read it.
	revision int
	// seen is when the record was last read and written as it should be; zero if a look has failed since.
	seen time.Time
	// disputed is as in Standing.
	disputed bool
}

// in returns a copy of what is known of a project.
func (t *tenure) in(of client.Identity) (looked, exists bool, last sight) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of != of {
		return false, false, sight{}
	}
	return !t.looked.IsZero(), t.exists, t.last
}

// Settled reports whether what no object owns may be removed: this leader's word has stood in the project for long
// enough, so that a leader of another cluster with the same UID would have been seen.
func (i *Inventory) Settled() bool {
	if i.options.Term == nil {
		return true
	}
	if _, leads := i.options.Term(); !leads {
		return true // no election tells leaders apart, or nothing may be written anyway
	}
	i.term.mu.Lock()
	defer i.term.mu.Unlock()
	return i.term.settled && !i.term.last.disputed
}

// admit returns ErrDisputed if a step must wait because another leader of the same UID may act in the project.
func (i *Inventory) admit(ctx context.Context, change plan.Change, step plan.Step) error {
	if addsOnly(change, step) {
		return nil
	}
	return i.undisputed(ctx)
}

// undisputed returns ErrDisputed if another leader of the same UID may act in the project. It waits for the first look
// at the term record.
func (i *Inventory) undisputed(ctx context.Context) error {
	if i.options.Term == nil {
		return nil
	}
	of, err := i.cloud.Identity(ctx)
	if err != nil {
		return err
	}
	looked, _, last := i.term.in(of)
	if !looked {
		i.look(ctx, true, false)
		_, _, last = i.term.in(of)
	}
	if last.disputed {
		return ErrDisputed
	}
	return nil
}

// admitAttachment returns ErrDisputed if a port must stay where it is attached, because another cluster may have its
// object and Pod.
func (i *Inventory) admitAttachment(ctx context.Context, id string) error {
	i.term.mu.Lock()
	made := i.term.made[id]
	i.term.mu.Unlock()
	if made {
		return nil
	}
	return i.undisputed(ctx)
}

// after records a step that was taken.
func (t *tenure) after(step plan.Step) {
	if step.Action != plan.CreatePort {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last.disputed {
		if t.made == nil {
			t.made = map[string]bool{}
		}
		t.made[step.ID] = true
	}
}

// addsOnly reports whether a step neither changes nor removes what existed before its change.
func addsOnly(change plan.Change, step plan.Step) bool {
	switch step.Action {
	case plan.CreateNetwork, plan.CreatePort:
		return true
	}
	anew := slices.ContainsFunc(change, func(s plan.Step) bool { return s.Action == plan.CreateNetwork })
	return anew && (step.Action.Creates() || step.Completes())
}

// look reads the term record, and writes this leader's word where it is missing. used is true if the cluster may have
// something in the project; else the record goes. again is false if one look suffices.
func (i *Inventory) look(ctx context.Context, used, again bool) {
	if i.options.Term == nil {
		return
	}
	own, leads := i.options.Term()
	if !leads {
		return
	}
	// The record is about the whole project, whosever sync looks first.
	ctx, cancel := context.WithTimeout(client.WithPermit(ctx, nil), listPatience)
	defer cancel()
	select {
	case i.term.turn <- struct{}{}:
		defer func() { <-i.term.turn }()
	case <-ctx.Done():
		return
	}
	of, err := i.cloud.Identity(ctx)
	if err != nil {
		return // nothing can be called
	}
	looked, exists, was := i.term.in(of)
	if looked && (!again || !used && !exists) {
		return
	}
	found := i.hold(client.Within(ctx, of), of, own, used, was)
	if client.IsConflict(found.err) { // somebody wrote between the read and the write
		found = i.hold(client.Within(ctx, of), of, own, used, found.sight)
	}
	if !errors.Is(found.err, errDeposed) {
		i.conclude(of, found)
	}
}

// errDeposed is the error of a look during which the lease ended: nothing follows from what it read.
var errDeposed = errors.New("the lease is another's")

// lookMeanwhile looks at the term record when no audit has done so for one and a half intervals, because audits take
// long, and again soon after a look that failed: the other leader waits for an answer. It ends with ctx.
func (i *Inventory) lookMeanwhile(ctx context.Context) {
	if i.options.Term == nil || i.options.Interval <= 0 {
		return
	}
	for {
		client.Pause(ctx, i.options.Interval/2, nil)
		if ctx.Err() != nil {
			return
		}
		i.term.mu.Lock()
		late := time.Since(i.term.looked) > i.options.Interval*3/2 || i.term.exists && i.term.unknown != nil
		i.term.mu.Unlock()
		if late && i.cloud.OutageEnd() == nil && i.holdsAny() {
			i.look(ctx, true, true)
		}
	}
}

// finding is what a look at the term record showed.
type finding struct {
	// sight is for the next look. If err is set, only its disputed is kept.
	sight
	exists bool
	// settled is as in tenure.
	settled bool
	// err is why the look failed.
	err error
}

// hold reads the term record, and makes it say what it should. If the cluster uses the project, it judges all that it
// reads before it does anything that may fail: a stranger who was seen stays seen.
func (i *Inventory) hold(ctx context.Context, of client.Identity, own Term, used bool, was sight) finding {
	records, err := client.List[wireTerm](ctx, i.cloud, "read term", termCollection, url.Values{
		"project_id": {of.ProjectID}, "name": {i.termName(own)}, "fields": {"id", "description", "revision_number"},
	})
	// The lease is asked after the read. While it is held, no later leader of this cluster can have written what was read.
	if _, leads := i.options.Term(); err == nil && !leads {
		err = errDeposed
	}
	if err != nil {
		return finding{sight: was, err: err}
	}
	if !used {
		for _, record := range records {
			if err := removeTerm(ctx, i.cloud, record); err != nil {
				return finding{sight: was, exists: true, err: err}
			}
		}
		return finding{}
	}
	is := finding{sight: was, exists: true}
	for n, record := range records {
		// Each leader of one cluster has a higher number than those before. So a word is an earlier leader's of this
		// cluster, unless its number is not lower, or it took the place of this leader's own. If this leader's Lease may be
		// a copy, it cannot tell, and waits for an answer to its own word. A cloud that keeps no word has none to judge.
		if w := readWord(record.Description); !w.isOf(own) {
			replaced := n == 0 && !was.stands.IsZero()
			mayLive := own.Stale && w.holder != ""
			is.disputed = is.disputed || replaced || w.disputed || w.number >= own.Number || mayLive
		}
	}
	if is.err = i.claim(ctx, own, records, &is); is.err != nil {
		return is
	}
	// Two Inventories of one project, or two leaders, can each have created one. The same one stays for all.
	for _, surplus := range records[min(1, len(records)):] {
		if is.err = removeTerm(ctx, i.cloud, surplus); is.err != nil {
			return is
		}
	}
	return is
}

// claim has the first record, or a new one, say this leader's word, and finds out whether that stands for long enough.
func (i *Inventory) claim(ctx context.Context, own Term, records []wireTerm, is *finding) error {
	var record *wireTerm
	var found word
	if len(records) > 0 {
		record, found = &records[0], readWord(records[0].Description)
	}
	write := func(disputed bool) error {
		revision, err := i.writeTerm(ctx, own, record, disputed)
		if err == nil {
			is.revision = revision
		}
		return err
	}
	if !found.isOf(own) {
		if err := write(is.disputed); err != nil {
			return err
		}
		is.stands = time.Now()
		return nil
	}
	// A mark that this Inventory did not write is that of another one of this process, or of a write without an answer:
	// somebody's word was there meanwhile. And after a time in which nobody could look, silence proves nothing.
	unseen := time.Since(is.seen) > 2*i.options.Interval+listPatience
	if is.stands.IsZero() || found.disputed && *record.revision() != is.revision || unseen {
		is.stands, is.disputed = time.Now(), is.disputed || found.disputed
	}
	is.revision = *record.revision()
	is.settled = time.Since(is.stands) >= settlesAfter*i.options.Interval
	if is.settled && found.disputed {
		if err := write(false); err != nil {
			return err
		}
	}
	is.disputed = is.disputed && !is.settled
	return nil
}

// conclude records a finding, and tells if the standing has changed.
func (i *Inventory) conclude(of client.Identity, f finding) {
	t := &i.term
	t.mu.Lock()
	was, is := Standing{t.last.disputed, t.unknown}, Standing{f.disputed, f.err}
	if t.of != of {
		t.of, t.exists, t.last = of, false, sight{}
	}
	t.looked = time.Now()
	t.exists = f.exists || f.err != nil && t.exists
	if f.err == nil {
		t.last, t.last.seen = f.sight, t.looked
	} else {
		t.last.disputed, t.last.seen = f.disputed, time.Time{}
	}
	t.settled, t.unknown = f.settled || f.err != nil, f.err
	if !f.disputed {
		t.made = nil
	}
	t.mu.Unlock()
	if i.options.Standing != nil && (was.Disputed != is.Disputed || (was.Unknown == nil) != (is.Unknown == nil)) {
		i.options.Standing(is)
	}
}

// termName is the name of the term record. Neutron takes 255 characters.
func (i *Inventory) termName(of Term) string {
	name := termNames(i.cluster) + of.Lease
	return name[:min(len(name), 255)]
}

// termNames is how the names of a cluster's term records begin.
func termNames(cluster string) string { return "network-controller " + cluster + " " }

// writeTerm creates a term record, or changes one if nobody else has since it was read. It gives the new revision.
func (i *Inventory) writeTerm(ctx context.Context, own Term, was *wireTerm, disputed bool) (revision int, err error) {
	says := word{own.Number, own.Holder, disputed}
	if was != nil {
		return rewriteTerm(ctx, i.cloud, *was, says)
	}
	return sendTerm(ctx, i.cloud, client.Request{Method: http.MethodPost, Path: termCollection.Many}, map[string]any{
		"name": i.termName(own), "description": says.String(), "prefixes": []string{termPrefix},
		"min_prefixlen": termPrefixLength, "default_prefixlen": termPrefixLength,
	})
}

// rewriteTerm changes a term record, if nobody else has since it was read. It gives the new revision.
func rewriteTerm(ctx context.Context, cloud *client.Cloud, was wireTerm, to word) (revision int, err error) {
	return sendTerm(ctx, cloud, client.Request{
		Method: http.MethodPut, Path: termCollection.Path(was.ID), Revision: was.revision(),
	}, map[string]any{"description": to.String()})
}

// sendTerm sends a term record, and gives its revision. A cloud that does not keep its word shows nothing of other
// leaders.
func sendTerm(ctx context.Context, cloud *client.Cloud, r client.Request, body map[string]any) (int, error) {
	var answer map[string]wireTerm
	r.Op, r.Body, r.Answer = "write term", map[string]any{termCollection.One: body}, &answer
	if err := cloud.Do(ctx, r); err != nil {
		return 0, err
	}
	record := answer[termCollection.One]
	if readWord(record.Description).holder == "" {
		return 0, notKept(r.Op, termCollection, "", "")
	}
	return *record.revision(), nil
}

// removeTerm removes a term record, unless somebody has changed it since it was read.
func removeTerm(ctx context.Context, cloud *client.Cloud, record wireTerm) error {
	err := cloud.Do(ctx, client.Request{
		Op: "remove term", Method: http.MethodDelete, Path: termCollection.Path(record.ID), Revision: record.revision(),
	})
	if client.IsNotFound(err) {
		return nil
	}
	return err
}

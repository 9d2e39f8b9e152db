package inventory

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/inspect"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/internal/tracing"
)

// The pause between failed audits doubles from auditBackoffFirst to auditBackoffLast.
const (
	auditBackoffFirst = time.Second
	auditBackoffLast  = 30 * time.Second
)

// A list of very many resources keeps Neutron busy for minutes. The kind then rests for restShare times as long, so
// that others have three quarters of Neutron's time. It rests for longestRest at most: drift is found within a known
// time.
const (
	restShare   = 3
	longestRest = 5 * time.Minute
)

// Run audits until ctx is done: at once and after each interval. A kind whose list takes long is listed less often.
// After a failure it retries with backoff, or after the cloud's Retry-After if that is longer.
func (i *Inventory) Run(ctx context.Context) {
	var looks sync.WaitGroup
	defer looks.Wait()
	looks.Go(func() { i.lookMeanwhile(ctx) })
	for {
		i.Fill(ctx)
		if ctx.Err() != nil || i.options.Interval <= 0 {
			return
		}
		client.Pause(ctx, client.Jitter(i.options.Interval), nil)
	}
}

// Fill audits until one audit succeeds or ctx is done. It uses the same backoff as Run and retries at once when an
// outage ends (see client.Cloud.Run). If the lists of some kinds fail, it repeats those, and the others once they are
// older than the interval. It leaves alone kinds that rest.
func (i *Inventory) Fill(ctx context.Context) {
	began := time.Now()
	for backoff := auditBackoffFirst; ctx.Err() == nil; backoff = min(2*backoff, auditBackoffLast) {
		since := began
		if oldest := time.Now().Add(-i.options.Interval); i.options.Interval > 0 && oldest.After(since) {
			since = oldest
		}
		err := i.auditSince(ctx, since, i.due(), true)
		if err == nil {
			return
		}
		pause := client.Jitter(backoff)
		over := i.cloud.OutageEnd()
		// If the outage has ended already, no signal follows: do not wait for it.
		if asked, ok := errors.AsType[*client.Error](err); ok && (over != nil || !errors.Is(err, client.ErrOutage)) {
			pause = max(pause, asked.Wait)
		}
		client.Pause(ctx, pause, over)
	}
}

// due returns the kinds whose turn it is in a regular audit.
func (i *Inventory) due() []stocked {
	of, known := i.cloud.Known()
	i.mu.RLock()
	defer i.mu.RUnlock()
	return slices.DeleteFunc(slices.Clone(i.stocks), func(s stocked) bool {
		l := s.lists()
		return known && l.of == of && l.failed == nil && l.mayBeLate()
	})
}

// Audit lists everything now and updates the Inventory, address counts included. Each kind has its own list: one
// that fails or hangs does not stop the others.
func (i *Inventory) Audit(ctx context.Context) error {
	return i.auditSince(ctx, time.Now(), i.stocks, false)
}

// auditSince is Audit with lists of some kinds that began at since or later. With leave, it waits for none that takes
// long. That fails the audit only if the list is the first of its kind in the project, or if the last one failed.
func (i *Inventory) auditSince(ctx context.Context, since time.Time, due []stocked, leave bool) error {
	ctx, span := tracing.Begin(ctx, "audit")
	began := time.Now()
	moved, err := i.listAll(ctx, since, due, leave)
	if counted := i.countAddresses(ctx, since, leave); err == nil {
		err = counted // what the other kinds' lists show needs the count, too
	}
	audit := Audit{Duration: time.Since(began), Moved: len(moved), Err: err}
	if span.IsRecording() {
		span.SetAttributes(tracing.Moved.Int(len(moved)))
	}
	defer func() { tracing.End(span, client.Word(err)) }()
	i.mu.RLock()
	if err == nil {
		audit.Err = i.sharesFailed // the next list of networks asks again
	}
	audit.Networks, audit.Ports = len(i.networks.held), len(i.ports.held)
	i.mu.RUnlock()
	used := i.holdsAny()
	if !errors.Is(err, client.ErrOutage) && (used || err == nil) {
		i.look(ctx, used, true)
	}
	i.options.Audited(audit)
	if r := inspect.On(); r != nil {
		e := inspect.Event{Stage: inspect.Inventory, What: "audit", Facts: []any{audit.Networks, audit.Ports, audit.Moved}}
		if err != nil {
			e.Why, e.Facts = "failed", []any{client.Word(err)}
		}
		r.Record(e)
	}
	return err
}

// holdsAny reports whether the cluster has something in the project, as far as the Inventory knows.
func (i *Inventory) holdsAny() bool {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return slices.ContainsFunc(i.stocks, stocked.holdsAny)
}

// Synced reports whether a list of each kind has ever completed, and why the last one failed, if it did. It does not
// count kinds that not every cloud has.
func (i *Inventory) Synced() (bool, error) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	synced, failed := true, error(nil)
	for _, s := range i.stocks {
		if l := s.lists(); !l.optional {
			synced = synced && !l.began.IsZero()
			if failed == nil {
				failed = l.failed
			}
		}
	}
	return synced, failed
}

// lists is the state of the lists of one kind. The Inventory's mu guards it, but for kind, op and optional, which never
// change, and what says otherwise.
type lists struct {
	// kind is what is listed, op the operation's name. optional is true if a cloud may lack the kind.
	kind     plan.Kind
	op       string
	optional bool
	// began is when the last completed list began; zero before the first one. of is its project: what the Inventory holds
	// of this kind belongs to it.
	began time.Time
	of    client.Identity
	// ended is when that list ended.
	ended time.Time
	// flight is the list under way, or nil.
	flight *flight
	// failed is why the last list failed; nil if it succeeded. tried is when that list began; zero if it was not sent.
	// Until again only audits repeat it, and pause is how long that is.
	failed       error
	tried, again time.Time
	pause        time.Duration
	// heard is when the list under way last got something from the cloud, in nanoseconds since 1970.
	heard atomic.Int64
}

// sparedFor is the longest pause after a list that failed. It is short: other credentials may mend the list at once.
const sparedFor = 5 * time.Second

// over records how the last list ended, which began at began. After a list that was not sent nothing is to be spared.
func (l *lists) over(began time.Time, err error) {
	refusal, ok := errors.AsType[*client.Error](err)
	l.failed, l.tried = err, time.Time{}
	switch {
	case err == nil:
		l.again, l.pause = time.Time{}, 0
	case !ok || !refusal.Unsent():
		l.pause = min(max(2*l.pause, auditBackoffFirst), sparedFor)
		l.tried, l.again = began, time.Now().Add(l.pause)
	}
}

// hear records that the list under way got something.
func (l *lists) hear() { l.heard.Store(time.Now().UnixNano()) }

// silence is how long the list under way has got nothing.
func (l *lists) silence() time.Duration { return time.Since(time.Unix(0, l.heard.Load())) }

// mayBeLate reports whether a regular audit does without a list that takes long: it is not the first, and is under way
// and gets something from the cloud, or the kind rests after it.
func (l *lists) mayBeLate() bool {
	progresses := l.flight != nil && l.silence() < listPatience
	rest := min(restShare*l.ended.Sub(l.began), longestRest)
	return !l.began.IsZero() && (progresses || time.Since(l.ended) < rest)
}

// since reports whether the last completed list began at since or later, of the project that ctx is Within if it is.
func (l *lists) since(ctx context.Context, since time.Time) bool {
	return !l.began.IsZero() && !l.began.Before(since) && client.Outside(ctx, opObserve, l.of) == nil
}

// round is one list of each kind. All of them began after those of the round before.
type round struct {
	// oldest and newest are when the first and the last of the lists began.
	oldest, newest time.Time
}

// countRound begins a new round if each kind was listed again. Two rounds share no list, even if only one kind's list
// fails and is repeated between them. The caller holds mu.
func (i *Inventory) countRound() {
	began := func(a, b stocked) int { return a.lists().began.Compare(b.lists().began) }
	oldest, newest := slices.MinFunc(i.stocks, began).lists().began, slices.MaxFunc(i.stocks, began).lists().began
	if oldest.After(i.round.newest) {
		i.round = round{oldest, newest}
	}
}

// flight is a list under way, shared by all who wait for it.
type flight struct {
	began time.Time
	of    client.Identity
	done  chan struct{}
	moved []string
	err   error
}

const (
	// listPatience is how long a list of one kind holds those who can do without it.
	listPatience = 10 * time.Second
	// listSilence is how long a list may get nothing and still hold those who need it. Workers that wait for a list that
	// hangs would be missing elsewhere. It is longer than listPatience, because lists wait so long for each other.
	listSilence = 15 * time.Second
)

// listAll waits for lists of kinds that began at since or later, and starts those that are necessary. It returns the
// objects that changed in lists for which it waited. After the first list has ended, the others have listPatience since
// they last got something: who hangs longer fails the audit and is left alone. With leave, it waits for listPatience
// after one list has ended, or for listSilence if none has. The others are left alone, and fail nothing unless they are
// the first of their kind, or the last one failed, or the cloud answers no list; see auditSince.
func (i *Inventory) listAll(
	ctx context.Context, since time.Time, of []stocked, leave bool,
) (moved []string, err error) {
	since = notLater(since)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		moved []string
		err   error
	}
	results := make(chan result, len(of))
	flights := i.begin(ctx, since, of...)
	var patience <-chan time.Time // ends the wait; it begins when the first has ended, with leave at once
	silence := listSilence
	if leave {
		patience, silence = time.After(listSilence), listTimeout // patience ends it earlier
	}
	for _, s := range of {
		since := since
		if f := flights[s]; leave && f != nil && f.began.Before(since) {
			since = f.began // it takes longer than the interval, and another one at once would be no rest
		}
		go func() {
			moved, err := i.await(ctx, s, since, flights[s], silence)
			results <- result{moved, err}
		}()
	}
	ended := false
	for waiting := len(of); waiting > 0; {
		select {
		case r := <-results:
			waiting--
			moved = append(moved, r.moved...)
			if err == nil {
				err = r.err
			}
			if !ended {
				ended, patience = true, time.After(listPatience)
			}
		case <-patience:
			left, late := i.awaited(since, of, leave, ended)
			if err == nil {
				err = late
			}
			if left == 0 {
				waiting = 0
			}
			patience = time.After(left)
		}
	}
	slices.Sort(moved)
	return slices.Compact(moved), err
}

// notLater returns a time that is not in the future. No list begins there: waiting for one would list forever.
func notLater(t time.Time) time.Time {
	if now := time.Now(); t.After(now) {
		return now
	}
	return t
}

// awaited returns how long to wait for lists that are still under way; 0 if there is none, or if all of them may be
// left alone, or with an error. The error is that of a list that failed or gets nothing, or of one without which too
// little is known. answers is true if another list has ended: then one that gets nothing for a while may be left alone.
func (i *Inventory) awaited(since time.Time, of []stocked, leave, answers bool) (left time.Duration, err error) {
	project, known := i.cloud.Known()
	i.mu.RLock()
	defer i.mu.RUnlock()
	for _, s := range of {
		l, silence := s.lists(), s.lists().silence()
		switch {
		case !l.began.Before(since):
		case l.flight == nil && l.failed != nil:
			return 0, l.failed // it has just ended
		case leave && !l.began.IsZero() && l.failed == nil && known && l.of == project &&
			(answers || silence < listPatience):
			// A cloud that creates a thousand ports takes more than listPatience for a page. If it hangs, its call fails the
			// list (client.Options.Timeout).
		case l.flight != nil && silence >= listPatience:
			return 0, noAnswer(l.op, "")
		case leave:
			return 0, &client.Error{Kind: client.Transient, Op: l.op, Reason: "the list is not complete yet"}
		default:
			left = max(left, listPatience-silence, time.Second)
		}
	}
	return left, nil
}

// noAnswer is the error of a read that got no answer in time. by is the gate that ended it, if one did.
func noAnswer(op string, by client.Gate) error {
	return &client.Error{Kind: client.Transient, Op: op, Reason: "no answer in time", Gate: by}
}

// within waits until done is closed, for at most patience, and reports whether it is. The error is that of ctx.
func within(ctx context.Context, patience time.Duration, done <-chan struct{}) (ended bool, err error) {
	client.Pause(ctx, patience, done)
	select {
	case <-done:
		return true, nil
	default:
		return false, ctx.Err()
	}
}

// begin starts lists of kinds, except of those whose list is under way or new enough. It returns the lists that are
// under way then.
func (i *Inventory) begin(ctx context.Context, since time.Time, of ...stocked) map[stocked]*flight {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.fly(ctx, slices.DeleteFunc(slices.Clone(of), func(s stocked) bool {
		l := s.lists()
		return l.flight != nil || l.since(ctx, since)
	})...)
	flights := map[stocked]*flight{}
	for _, s := range of {
		flights[s] = s.lists().flight
	}
	return flights
}

// fly starts lists of kinds, of which none is under way. The caller holds mu.
func (i *Inventory) fly(ctx context.Context, of ...stocked) {
	// Several callers may wait for the lists. They must not end when the first one leaves.
	ctx = context.WithoutCancel(ctx)
	landed := make(chan landing, len(of))
	for _, s := range of {
		f := &flight{began: time.Now(), done: make(chan struct{})}
		s.lists().flight = f
		s.lists().hear()
		s.listBegins()
		go func() {
			keep, of, err := i.readProject(ctx, s)
			s.lists().hear()
			landed <- landing{f, s, time.Now(), keep, of, err}
		}()
	}
	if len(of) > 0 {
		go i.land(landed, len(of))
	}
}

// landing is a list that has ended and is not kept yet.
type landing struct {
	flight *flight
	stock  stocked
	ended  time.Time
	keep   func(moved map[string]bool)
	of     client.Identity
	err    error
}

// land keeps what so many lists show: together if they end within listPatience of each other, so that nobody sees, or
// is told of, one kind before the others. Later ones are kept when they end.
func (i *Inventory) land(landed <-chan landing, lists int) {
	all := []landing{<-landed}
	patience := time.NewTimer(listPatience)
	defer patience.Stop()
	for waiting := true; waiting && len(all) < lists; {
		select {
		case l := <-landed:
			all = append(all, l)
		case <-patience.C:
			waiting = false
		}
	}
	i.keep(all)
	for range lists - len(all) {
		i.keep([]landing{<-landed})
	}
}

// await waits for a complete list of a kind that began at since or later, and starts one if necessary. It returns the
// objects that changed in lists for which it waited. The first of these is f, which may have ended, unless it is nil. A
// list may get nothing for as long as silence.
func (i *Inventory) await(
	ctx context.Context, s stocked, since time.Time, f *flight, silence time.Duration,
) ([]string, error) {
	project, bound := client.Wanted(ctx)
	for ; ; f = nil {
		i.mu.Lock()
		l := s.lists()
		f = cmp.Or(f, l.flight)
		switch {
		case f != nil && !f.began.Before(since): // it may have been kept, and not been told to all
		case l.since(ctx, since):
			i.mu.Unlock()
			return nil, nil
		case f == nil && !l.tried.IsZero() && !l.tried.Before(since):
			defer i.mu.Unlock()
			return nil, l.failed // it has ended before this caller looked
		case f == nil:
			i.fly(ctx, s)
			f = cmp.Or(f, l.flight)
		}
		i.mu.Unlock()

		if err := f.wait(ctx, s, silence); err != nil {
			return nil, err
		}
		if errors.Is(f.err, client.ErrOutage) && i.cloud.OutageEnd() == nil {
			continue // the outage that stopped it is over: retry
		}
		if !f.began.Before(since) && (f.err != nil || !bound || project == f.of) {
			return f.moved, f.err
		}
	}
}

// wait waits for the end of a list, unless the cloud is silent for so long.
func (f *flight) wait(ctx context.Context, s stocked, silence time.Duration) error {
	for {
		ended, err := within(ctx, silence-s.lists().silence(), f.done)
		switch {
		case ended || err != nil:
			return err
		case s.lists().silence() >= silence:
			return noAnswer(s.lists().op, client.GateTurn)
		}
	}
}

// awaitAny waits for the first list of a kind, which the caller can do without: until it fails, or for listPatience
// since it began.
func (i *Inventory) awaitAny(ctx context.Context, s stocked) {
	i.mu.Lock()
	l := s.lists()
	if l.flight == nil && l.began.IsZero() && l.failed == nil {
		i.fly(ctx, s)
	}
	f := l.flight
	known := !l.began.IsZero()
	i.mu.Unlock()
	if f == nil || known {
		return
	}
	client.Pause(ctx, time.Until(f.began.Add(listPatience)), f.done)
}

// listTimeout bounds one complete list of any number of pages. Neutron can take half an hour for the ports on 100,000
// networks (see docs/sizing.md).
const listTimeout = time.Hour

// keep updates the Inventory with lists that have ended.
func (i *Inventory) keep(all []landing) {
	i.mu.Lock()
	moved := map[string]bool{}
	slices.SortFunc(all, func(a, b landing) int {
		return slices.Index(i.stocks, a.stock) - slices.Index(i.stocks, b.stock)
	})
	for _, from := range all {
		l := from.stock.lists()
		if from.err == nil {
			if l.of != from.of && !l.began.IsZero() {
				// The Inventory holds another project's resources. Even recent writes to them are not newer than the list.
				from.stock.clear(moved)
			}
			if i.counts.project != from.of {
				i.counts = counts{foreign: i.counts.foreign, project: from.of}
			}
			l.of = from.of
			from.keep(moved)
			l.began, l.ended = from.flight.began, from.ended
		}
		from.stock.listEnds(from.err == nil)
		l.over(from.flight.began, from.err)
	}
	i.countRound()
	changed := slices.Sorted(maps.Keys(moved))
	i.recount(moved)
	i.mu.Unlock()

	// Callers that wait for the lists rely on all handlers having been told.
	i.notify(moved)
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, from := range all {
		from.flight.of, from.flight.err, from.flight.moved = from.of, from.err, changed
		if l := from.stock.lists(); l.flight == from.flight {
			l.flight = nil
		}
		close(from.flight.done)
	}
}

// notify calls Options.Moved for the owners of resources that moved.
func (i *Inventory) notify(moved map[string]bool) {
	for _, object := range slices.Sorted(maps.Keys(moved)) {
		i.options.Moved(object)
	}
}

// opObserve is the operation's name in errors of Observed.
const opObserve = "observe"

// readProject reads what we own of a kind in the project of the credentials, or in the one that ctx is Within. It fails
// if the credentials change meanwhile.
func (i *Inventory) readProject(
	ctx context.Context, s stocked,
) (keep func(moved map[string]bool), of client.Identity, err error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	of, bound := client.Wanted(ctx)
	if !bound {
		if of, err = i.cloud.Identity(ctx); err != nil {
			return nil, of, err
		}
	}
	keep, err = s.list(client.Within(ctx, of))
	return keep, of, err
}

package managed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/declare"
	"cloudteam.ztgame.com/network-controller/internal/fair"
	"cloudteam.ztgame.com/network-controller/internal/inspect"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/internal/tracing"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// Sync makes Neutron agree with one object. It acts on the current state of the caches, whatever put the key on the
// queue. It is a controller.Sync.
func (r *Reconciler[T]) Sync(ctx context.Context, key cache.ObjectName) (controller.Result, error) {
	obj, exists := controller.Cached[T](r.indexer, key)
	if !exists {
		r.expected.Forget(key)
		if r.kind.Room != nil {
			r.kind.Room.forget(key) // a sync that ended after the deletion may have taken a place
		}
		inspect.On().RecordOf(ctx, inspect.Worker, "gone")
		return controller.Result{}, r.prune(ctx, key, "")
	}
	r.describe(ctx, obj)
	if !r.expected.Met(key, obj.GetUID(), obj.GetResourceVersion()) {
		// The cache is older than our own last write. The event that updates it requeues the key.
		inspect.On().RecordOf(ctx, inspect.Worker, "stale")
		return controller.Result{}, nil
	}
	policies := r.policies(obj)
	if r.defaults.Plan && !policies.Observe && !paused(obj) {
		return r.reportPlan(ctx, obj)
	}
	// Leftovers of earlier objects of the name do not delay this one: its resources are its own.
	pruned := r.prune(ctx, key, obj.GetUID())
	var result controller.Result
	var err error
	loss := r.loses(ctx, obj)
	switch {
	case loss.Problem != nil: // a pause must not keep another namespace's Network
		err = r.evict(ctx, obj, loss)
	case policies.Observe && !r.claimed(obj): // a claimed object may own something, whatever its spec says
		result, err = controller.Result{RequeueAfter: r.observeEvery}, r.observe(ctx, obj)
	case paused(obj):
		err = r.hold(ctx, obj)
	case obj.GetDeletionTimestamp() != nil:
		err = r.finalize(ctx, obj)
	default:
		err = r.reconcile(ctx, obj)
	}
	if result.RequeueAfter == 0 {
		result.RequeueAfter = loss.Again
	}
	return result, errors.Join(err, pruned)
}

// describe says in the sync's span what is synced, and why as far as the object shows it.
func (r *Reconciler[T]) describe(ctx context.Context, obj T) {
	if r := inspect.On(); r != nil {
		r.Record(inspect.Event{Stage: inspect.Worker, What: "reads", Objects: inspect.Of(ctx),
			Version: obj.GetResourceVersion(), Facts: []any{obj.GetGeneration()}})
	}
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	reason := "event"
	switch {
	case obj.GetDeletionTimestamp() != nil:
		reason = "deletion"
	case r.row.Status(obj).AppliedGeneration != obj.GetGeneration():
		reason = "new generation"
	}
	span.SetAttributes(tracing.Kind.String(r.row.Name), tracing.Generation.Int64(obj.GetGeneration()),
		tracing.Reason.String(reason))
}

// loses is Kind.Loses. An object that is being deleted and whose credentials are gone is also asked for again.
func (r *Reconciler[T]) loses(ctx context.Context, obj T) (loss Loss) {
	if !r.claimed(obj) {
		return Loss{}
	}
	if r.kind.Loses != nil {
		loss = r.kind.Loses(obj, func(namespace string) bool { return r.terminating(ctx, namespace) })
	}
	goes := loss.Problem != nil || obj.GetDeletionTimestamp() != nil
	if loss.Again == 0 && goes && !r.cloudOf(obj).IsOwn() {
		loss.Again = terminatingEvery
	}
	return loss
}

// reconcile makes the resources as the spec declares, and reports the outcome in the status.
func (r *Reconciler[T]) reconcile(ctx context.Context, obj T) error {
	claimed := r.claimed(obj)
	if claimed {
		// An earlier process may have created something, so remember it whatever this sync does.
		r.remember(obj)
	}
	within, at, obj, p := r.begin(ctx, obj)
	if p.err != nil {
		return r.conclude(ctx, obj, p)
	}
	// The finalizer comes before the first resource, so that no deleted object can leave one behind.
	var err error
	if claimed {
		if obj, err = r.record(ctx, obj, p); err != nil {
			return fmt.Errorf("recording the cloud or the import: %w", err)
		}
	} else {
		if err := crowded(obj); err != nil {
			return r.conclude(ctx, obj, p.failed(err))
		}
		if obj, err = r.claim(ctx, obj, p); err != nil {
			return fmt.Errorf("adding the finalizer: %w", err)
		}
		r.remember(obj)
		r.settle(obj, at)
		// Nobody creates anything for an object without the finalizer.
		r.setBlank(obj, true)
	}
	told := r.tellWaiting(ctx, obj)
	p = r.converge(within, at.in, obj, p)
	told()
	return r.conclude(ctx, obj, p)
}

// begin gives what a sync needs to know of an object that is not released: what it declares, and where. The returned
// context confines requests to that cloud. Nothing can be done if the progress has an error. The returned object has
// the id of what it imports. If the progress has it, too, it was searched now.
func (r *Reconciler[T]) begin(ctx context.Context, obj T) (within context.Context, at home, _ T, p progress) {
	within, at, p = r.start(ctx, obj)
	by := declare.ImportFilter(obj)
	if p.err != nil || by.Empty() {
		return within, at, obj, p
	}
	if known := declare.ImportID(obj); known != "" {
		if obj.GetAnnotations()[cloudteamv1.AnnotationImportID] != known {
			p.found = known // somebody took the annotation off, and the status loses the id with the resource
		}
		return within, at, obj, p
	}
	if r.row.Status(obj).AppliedGeneration != 0 {
		return within, at, obj, p.failed(foundOnce(r.kind.Resource, by))
	}
	ofProject := !r.policies(obj).Observe
	ids, err := r.meant(within, at.in, obj, by, ofProject)
	if err != nil {
		return within, at, obj, p.failed(err)
	}
	if len(ids) != 1 {
		p.observed = &plan.Observed{} // it has nothing yet, and the status says with whose credentials
		return within, at, obj, p.failed(notOne(r.kind.Resource, by, ofProject, ids))
	}
	obj = obj.DeepCopyObject().(T)
	annotations := obj.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[cloudteamv1.AnnotationImportID] = ids[0]
	obj.SetAnnotations(annotations)
	searched := *p.identity
	within, at, p = r.start(ctx, obj)
	if p.err == nil && *p.identity != searched {
		p = p.failed(controller.ErrStale) // the Secret has changed meanwhile: the id is another cloud's
	}
	p.found = ids[0]
	return within, at, obj, p
}

// meant gives the ids of what an import's filter means. What bears the object's marker is meant whatever it is called
// now: the cluster was rebuilt.
func (r *Reconciler[T]) meant(
	ctx context.Context, in Inventory, obj T, by plan.ImportFilter, ofProject bool,
) (ids []string, err error) {
	if ofProject {
		observed, err := in.Observed(ctx, r.ownerOf(obj), time.Time{}, r.kind.Resource)
		if err != nil {
			return nil, err
		}
		for _, is := range observed.Resources() {
			if is.Kind == r.kind.Resource {
				ids = append(ids, is.ID)
			}
		}
	}
	if len(ids) > 0 {
		return ids, nil
	}
	return in.Matching(ctx, r.kind.Resource, by, r.ownerOf(obj), ofProject)
}

// start is begin for an object whose import is known, or that has none.
func (r *Reconciler[T]) start(ctx context.Context, obj T) (within context.Context, at home, p progress) {
	if err := partial(obj); err != nil {
		return ctx, at, p.failed(err)
	}
	declared, err := r.kind.Declare(obj, r.ownerOf(obj))
	if _, known := errors.AsType[*Problem](err); err != nil && !known {
		state := controller.Stalled(cloudteamv1.ReasonInvalidSpec, oneLine(err))
		err = &Problem{Err: err, State: state, Waits: true} // only another spec helps
	}
	if err != nil {
		return ctx, at, p.failed(err)
	}
	if at, err = r.reach(obj, false); err != nil {
		return ctx, at, p.failed(err)
	}
	r.settle(obj, at)
	if r.policies(obj).Deletion == cloudteamv1.DeletionPolicyRetain {
		declared = declared.Retained()
	}
	p.declared = declared
	if within, p.identity, err = r.identify(ctx, at.in, obj); err == nil {
		err = r.toldElsewhere(obj, declared, *p.identity)
	}
	if err != nil {
		p = p.failed(err)
	}
	return within, at, p
}

// attempts limits how often one sync writes while others change the same resources. The result of the last attempt is
// still read.
const attempts = 3

// converge plans and applies what is declared until the plan is empty.
func (r *Reconciler[T]) converge(ctx context.Context, in Inventory, obj T, p progress) progress {
	resolved, unresolved := r.takingBack(obj, p.declared).Resolve(ctx, in)
	if resolved == nil {
		return p.failed(unresolved)
	}
	p.declared = resolved
	expected := r.kind.Expected(obj)
	if r.awaitsAdoption(obj, expected[0]) {
		if p = r.adopt(ctx, in, obj, p, unresolved); p.err != nil {
			return p
		}
	}
	if err := r.discard(ctx, in, obj); err != nil {
		return p.failed(err)
	}
	var last plan.Change
	// sent are the differences that Neutron has accepted to settle.
	var sent []plan.Difference
	confirmed := false
	for attempt := 0; ; attempt++ {
		observed, err := r.look(ctx, in, obj, expected, r.needs(obj, expected)...)
		if err != nil {
			return p.failed(err)
		}
		p.observed = &observed
		change, err := r.plan(ctx, obj, &p)
		// If a cloud keeps a field in a form of its own, it shows a difference after the change, too. A field that others may
		// change then stays as it is shown.
		change = change.Leaving(func(d plan.Difference) bool {
			return slices.ContainsFunc(sent, d.SameDeclared) && slices.Contains(r.policies(obj).IgnoreDrift, d.Field)
		})
		switch {
		case err != nil:
			return p.failed(err)
		case change.Empty() && unresolved != nil:
			return p.failed(unresolved)
		case change.Empty():
			if _, err := r.remembering(ctx, obj, p.declared.Traits().Sets); err != nil {
				return p.failed(err)
			}
			return p.succeeded(r.kind.Resource)
		case len(last) > 0 && slices.EqualFunc(last, change, sameDifferences):
			// Neutron does not show the change, so it was not done. Each attempt would repeat the Event.
			p.events = p.events[:len(p.events)-1]
			return p.failed(notConverged(change))
		case attempt == attempts && p.err != nil:
			return p.failed(p.err)
		case attempt == attempts:
			// Others change the same fields. The message is constant, whatever they write.
			return p.failed(fmt.Errorf("the %s did not converge after %d attempts", r.kind.Resource, attempts))
		}
		if !confirmed && slices.ContainsFunc(change, plan.Step.GivesUp) {
			if err := r.confirm(ctx, obj); err != nil {
				return p.failed(err)
			}
			confirmed = true
		}
		if obj, err = r.remembering(ctx, obj, rememberedOrSet(obj, p.declared)); err != nil {
			return p.failed(err)
		}
		done, err := r.apply(ctx, in, obj, change)
		expected = withoutDeleted(expected, done)
		p.events = append(p.events, changeEvent(r.kind.Resource, done, r.applied(obj)))
		p.err, last, sent = err, change, append(sent, done.Differences()...)
		if err != nil {
			last = nil
			if p = r.afterFailure(ctx, in, obj, p, done.Empty()); p.state.Reason != "" {
				return p
			}
		}
	}
}

// look gives the object's resources in Neutron, from a list that is new enough to prove that there are none. An
// incomplete list must not lead to a second resource or a forgotten one. So an expected resource that the list lacks is
// read by its id. If it may exist under an unknown id, it is searched by its name. The ids of resources that are gone
// are removed from expected. need are the kinds that the caller relies on; none means all.
func (r *Reconciler[T]) look(
	ctx context.Context, in Inventory, obj T, expected []Lookup, need ...plan.Kind,
) (plan.Observed, error) {
	fair.Yield(ctx) // the cloud answers late
	known, _ := r.recall(obj)
	since := known.doubt
	if since.IsZero() {
		since = r.acting
	}
	owner := r.ownerOf(obj)
	observed, err := in.Observed(ctx, owner, since, need...)
	if err != nil {
		return plan.Observed{}, err
	}
	var there, found []Lookup
	for i, e := range expected {
		if has(observed, e.Resource) {
			there = append(there, e)
			continue
		}
		exists := false
		if other := has(observed, plan.Resource{Kind: e.Kind}); other {
			// The list may be so old that it shows one that is gone, and lacks the one that took its place.
			if exists, err = in.Reread(ctx, e.Resource); errors.Is(err, inventory.ErrUnmarked) {
				exists, err = false, nil
			}
		} else {
			exists, err = r.lookUp(ctx, in, obj, e)
		}
		if err != nil {
			return plan.Observed{}, err
		}
		switch {
		case exists:
			found = append(found, e)
		case !e.Imported:
			expected[i].ID = "" // it is gone: do not ask again
		}
	}
	if len(found) == 0 {
		if observed.Empty() && len(expected) > 0 {
			r.setBlank(obj, true)
		}
		return observed, nil
	}
	if observed, err = in.Observed(ctx, owner, since, need...); err != nil {
		return plan.Observed{}, err
	}
	for _, e := range found {
		if e.ID != "" && !has(observed, plan.Resource{Kind: e.Kind}) && !r.awaitsAdoption(obj, e) {
			return plan.Observed{}, unmarked(e, owner) // it bears another object's marker
		}
	}
	for _, e := range slices.Concat(there, found) {
		if !has(observed, plan.Resource{Kind: e.Kind}) && !r.awaitsAdoption(obj, e) {
			// A list that is older than the reads ended after them. By that list, it would be created again.
			return plan.Observed{}, outdated(e)
		}
	}
	return observed, nil
}

// plan gives the next change for what was observed. It fills in the drift that is left.
func (r *Reconciler[T]) plan(ctx context.Context, obj T, p *progress) (change plan.Change, err error) {
	_, span := tracing.Start(ctx, "plan")
	defer func() { planned(ctx, span, change) }()
	change, err = p.declared.Plan(*p.observed)
	if err != nil || !r.applied(obj) {
		return change, err
	}
	policies := r.policies(obj)
	change = change.Without(policies.IgnoreDrift...)
	if policies.Drift == cloudteamv1.DriftPolicyReport {
		change, p.drift = leaveDrift(change)
	}
	return change, nil
}

// apply takes the steps. If Neutron refuses a step that can wait (see plan.Step.Postponable), the steps that do not
// need it are still taken. Examples are the removal of something in use, or a step for which a quota is full. It
// returns the steps taken and the last error. An in-use error is returned only if there is no other, because it ends
// when others act.
func (r *Reconciler[T]) apply(
	ctx context.Context, in Inventory, obj T, change plan.Change,
) (done plan.Change, err error) {
	for {
		taken, failed := r.take(ctx, in, obj, change)
		done = append(done, taken...)
		if err == nil || failed != nil && client.KindOf(failed) != client.InUse {
			err = failed
		}
		if !refused(failed) || !change[len(taken)].Postponable() {
			return done, err
		}
		change = change.Despite(taken)
	}
}

// take takes the steps until one fails, and records a create with an unknown outcome. Before the next create, a list
// has to show that nothing exists.
func (r *Reconciler[T]) take(
	ctx context.Context, in Inventory, obj T, change plan.Change,
) (plan.Change, error) {
	logger := klog.FromContext(ctx)
	// The flow keeps a busy namespace from delaying the others.
	done, err := in.Apply(inventory.WithFlow(ctx, obj.GetNamespace()), change)
	for _, step := range done {
		logger.Info("Applied step", "step", step.String())
	}
	if slices.ContainsFunc(done, func(s plan.Step) bool { return s.Action.Creates() }) {
		r.setBlank(obj, false)
	}
	if err == nil || len(done) == len(change) {
		return done, err
	}
	failed := change[len(done)]
	if client.MaybeDone(err) && failed.Action.Creates() {
		r.note(obj, func(m *memory[T]) { m.blank, m.doubt = false, time.Now() })
	}
	return done, explain(ctx, in, failed, err)
}

// planned ends the span of a plan.
func planned(ctx context.Context, span trace.Span, change plan.Change) {
	if r := inspect.On(); r != nil {
		e := inspect.Event{Stage: inspect.Plan, What: "empty", Objects: inspect.Of(ctx), Code: inspect.Here()}
		for i, step := range change {
			e.What = fmt.Sprintf("steps: %d", len(change))
			e.Facts = append(e.Facts, fmt.Sprintf("%d. %s.", i+1, step))
		}
		r.Record(e)
	}
	if span.IsRecording() {
		span.SetAttributes(tracing.Steps.Int(len(change)))
	}
	span.End()
}

// leaveDrift splits a change for driftPolicy Report. rest is done anyway: the removal of duplicates, and of what must
// first be detached from them, and what the resources say of their object's deletionPolicy. The differences in drift
// are reported and left.
func leaveDrift(change plan.Change) (rest plan.Change, drift []plan.Difference) {
	goes := func(id string) bool {
		return slices.ContainsFunc(change, func(s plan.Step) bool {
			return s.ID == id && s.Action.Deletes() && s.Action.Of() != "" && !s.GivesUp()
		})
	}
	var left plan.Change
	isPolicy := func(d plan.Difference) bool { return d.Field == plan.FieldDeletionPolicy }
	for _, step := range change {
		if at := slices.IndexFunc(step.Differences, isPolicy); at >= 0 {
			said := step
			said.Differences = step.Differences[at : at+1 : at+1]
			rest = append(rest, said)
			step.Differences = slices.DeleteFunc(slices.Clone(step.Differences), isPolicy)
		}
		if goes(step.ID) || step.Action == plan.DetachInterface && goes(step.RouterRef.ID) {
			rest = append(rest, step)
		} else {
			left = append(left, step)
		}
	}
	return rest, left.Differences()
}

func sameDifferences(a, b plan.Step) bool {
	return a.Action == b.Action && slices.Equal(a.Differences, b.Differences)
}

package managed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
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
	obj, exists, err := r.get(key)
	if err != nil {
		return controller.Result{}, err
	}
	if !exists {
		r.expected.Forget(key)
		if r.kind.Room != nil {
			r.kind.Room.forget(key) // a sync that ended after the deletion may have taken a place
		}
		recordSync(ctx, inspect.Worker, "gone", "The lister does not find the object: it was deleted.")
		return controller.Result{}, r.prune(ctx, key, "")
	}
	r.describe(ctx, obj)
	if !r.expected.Met(key, obj.GetUID(), obj.GetResourceVersion()) {
		// The cache is older than our own last write. The event that updates it requeues the key.
		recordSync(ctx, inspect.Worker, "stale", "The cache is older than this process's last write to the object. "+
			"The sync ends: that write's event brings the key back.")
		return controller.Result{}, nil
	}
	policies := r.policies(obj)
	if r.defaults.Plan && !policies.Observe && !paused(obj) {
		return r.reportPlan(ctx, obj)
	}
	// Leftovers of earlier objects of the name do not delay this one: its resources are its own.
	pruned := r.prune(ctx, key, obj.GetUID())
	var result controller.Result
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
			Version: obj.GetResourceVersion(), Text: fmt.Sprintf("The sync read the object from the lister: generation %d, "+
				"resourceVersion %s.", obj.GetGeneration(), obj.GetResourceVersion())})
	}
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	reason := "event"
	switch {
	case obj.GetDeletionTimestamp() != nil:
		reason = "deletion"
	case r.kind.Status(obj).AppliedGeneration != obj.GetGeneration():
		reason = "new generation"
	}
	span.SetAttributes(tracing.Kind.String(r.kind.GroupVersionKind.Kind), tracing.Generation.Int64(obj.GetGeneration()),
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
	within, at, p := r.begin(ctx, obj)
	if p.err != nil {
		return r.conclude(ctx, obj, p)
	}
	// The finalizer comes before the first resource, so that no deleted object can leave one behind.
	var err error
	if claimed {
		if obj, err = r.record(ctx, obj, *p.identity); err != nil {
			return fmt.Errorf("recording the cloud: %w", err)
		}
	} else {
		if err := crowded(obj); err != nil {
			return r.conclude(ctx, obj, p.failed(err))
		}
		if obj, err = r.claim(ctx, obj, *p.identity, p.declared); err != nil {
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
// context confines requests to that cloud. Nothing can be done if the progress has an error.
func (r *Reconciler[T]) begin(ctx context.Context, obj T) (within context.Context, at home, p progress) {
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
	if retainable, ok := declared.(Retainable); ok && r.policies(obj).Deletion == cloudteamv1.DeletionPolicyRetain {
		declared = retainable.Retained()
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
	if adopter, ok := resolved.(Adopter); ok && r.awaitsAdoption(obj, expected[0]) {
		if p = r.adopt(ctx, in, obj, p, adopter, unresolved); p.err != nil {
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
			if _, err := r.remembering(ctx, obj, setBy(p.declared)); err != nil {
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

// discard deletes what an earlier sync created and the cloud did not keep the marker of.
func (r *Reconciler[T]) discard(ctx context.Context, in Inventory, obj T) error {
	err := in.Discard(inventory.WithFlow(ctx, obj.GetNamespace()), r.ownerOf(obj))
	if client.MaybeDone(err) {
		r.note(obj, func(m *memory[T]) { m.blank, m.doubt = false, time.Now() })
	}
	return err
}

// confirm reads the object from the API server, before something is given up that its spec does not ask for. It returns
// controller.ErrStale if the cache has not its spec. The cache of a new leader may lag behind, and no later write would
// bring the address back.
func (r *Reconciler[T]) confirm(ctx context.Context, obj T) error {
	if r.kind.Live == nil {
		return nil
	}
	live, err := r.kind.Live(ctx, obj.GetNamespace(), obj.GetName())
	switch {
	case apierrors.IsNotFound(err):
		return controller.ErrStale
	case err != nil:
		return &withoutReport{"reading the object", err}
	case live.GetUID() != obj.GetUID(), live.GetGeneration() != obj.GetGeneration(), paused(live):
		return controller.ErrStale
	}
	return nil
}

// adopt writes the object's marker on the resource that it imports, unless the resource bears it. The progress has an
// error if the resource cannot be adopted now.
func (r *Reconciler[T]) adopt(
	ctx context.Context, in Inventory, obj T, p progress, adopter Adopter, unresolved error,
) progress {
	expected := r.kind.Expected(obj)
	observed, err := r.look(ctx, in, obj, expected, r.needs(obj, expected)...)
	switch {
	case err != nil:
		return p.failed(err)
	case !observed.Empty():
		return p
	}
	p.observed = &observed
	if unresolved != nil {
		// An unresolved field cannot be compared now. It would be set later without a comparison.
		return p.failed(unresolved)
	}
	for attempt := 0; ; attempt++ {
		change, err := adopter.Adopt(ctx, in)
		if err != nil {
			return p.failed(err)
		}
		done, err := r.apply(ctx, in, obj, change)
		if !done.Empty() {
			p.events = append(p.events, controller.Done(cloudteamv1.EventAdopted,
				"Adopted %s: its description ends with the owner's marker now", expected[0].Resource))
		}
		if err == nil {
			break
		}
		if !client.IsConflict(err) || attempt == attempts {
			return p.failed(err)
		}
	}
	// From here on the marker identifies it. If there was nothing to do, the answer to an earlier adoption was lost.
	if _, err := in.Reread(ctx, expected[0].Resource); err != nil {
		return p.failed(err)
	}
	return p
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

// recordSync records what happens to the object of a context, if anything is recorded.
func recordSync(ctx context.Context, stage inspect.Stage, what, text string) {
	if r := inspect.On(); r != nil {
		r.Record(inspect.Event{Stage: stage, What: what, Objects: inspect.Of(ctx), Text: text, Code: inspect.Here()})
	}
}

// planned ends the span of a plan.
func planned(ctx context.Context, span trace.Span, change plan.Change) {
	if r := inspect.On(); r != nil {
		what, text := "empty", "The plan is empty: Neutron is as declared. Nothing is called."
		if len(change) > 0 {
			what, text = fmt.Sprintf("steps: %d", len(change)), "The plan, in this order:"
			for i, step := range change {
				text += fmt.Sprintf(" %d. %s.", i+1, step)
			}
		}
		r.Record(inspect.Event{Stage: inspect.Plan, What: what, Objects: inspect.Of(ctx), Text: text,
			Code: inspect.Here()})
	}
	if span.IsRecording() {
		span.SetAttributes(tracing.Steps.Int(len(change)))
	}
	span.End()
}

// afterFailure decides how a sync goes on after a change failed with p.err. The result has a state if the sync ends.
// Otherwise the next attempt plans from reread resources. nothingDone is true if no step of the change was taken.
func (r *Reconciler[T]) afterFailure(
	ctx context.Context, in Inventory, obj T, p progress, nothingDone bool,
) progress {
	switch {
	case client.IsNotFound(p.err) && p.observed.Empty() && nothingDone:
		// Something is missing that is not the object's own, such as a port's network. An immediate retry would get the same
		// answer.
		return p.failed(p.err)
	case client.IsConflict(p.err), client.IsNotFound(p.err):
		if err := rereadAll(ctx, in, *p.observed); err != nil {
			return p.failed(err)
		}
		return p
	default:
		need := r.needs(obj, r.kind.Expected(obj))
		if observed, lookErr := in.Observed(ctx, r.ownerOf(obj), r.acting, need...); lookErr == nil {
			p.observed = &observed
		}
		return p.failed(p.err)
	}
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

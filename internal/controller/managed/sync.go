package managed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/neutron"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// Sync makes Neutron agree with one object. It acts on what the caches hold now, whatever put the key on the queue. It
// is a controller.Sync.
func (r *Reconciler[T]) Sync(ctx context.Context, key cache.ObjectName) (controller.Result, error) {
	obj, exists, err := r.get(key)
	if err != nil {
		return controller.Result{}, err
	}
	if !exists {
		r.expected.Forget(key)
		return controller.Result{}, r.prune(ctx, key, "")
	}
	if !r.expected.Met(key, obj.GetUID(), obj.GetResourceVersion()) {
		// The cache is older than our own last write. The event that brings it up to date brings the key back.
		return controller.Result{}, nil
	}
	// What earlier objects of the name left does not hold this one up: its resources are its own.
	pruned := r.prune(ctx, key, obj.GetUID())
	if r.observes(obj) {
		result, err := r.observe(ctx, obj)
		return result, errors.Join(err, pruned)
	}
	if paused(obj) {
		return controller.Result{}, errors.Join(r.hold(ctx, key, obj), pruned)
	}
	if obj.GetDeletionTimestamp() != nil {
		return controller.Result{}, errors.Join(r.finalize(ctx, key, obj), pruned)
	}
	return controller.Result{}, errors.Join(r.reconcile(ctx, key, obj), pruned)
}

// reconcile makes the resources as the spec declares, and tells in the status how that went.
func (r *Reconciler[T]) reconcile(ctx context.Context, key cache.ObjectName, obj T) error {
	at, unreachable := r.reach(obj, false)
	if errors.Is(unreachable, ErrNotYet) {
		return nil
	}
	claimed := slices.Contains(obj.GetFinalizers(), r.kind.Finalizer)
	if claimed {
		// Whatever comes of this sync: an earlier process may have created something.
		r.remember(key, obj)
	}
	declared, err := r.kind.Declare(obj, r.ownerOf(obj))
	if err != nil {
		// Nothing but another spec helps, or what is waited for, and either brings an event.
		return r.report(ctx, obj, outcome{state: undeclared(err)})
	}
	if unreachable != nil {
		return r.report(ctx, obj, outcome{state: undeclared(unreachable)})
	}
	r.settle(key, obj.GetUID(), at)
	o := outcome{declared: declared}
	if within, ok := r.identify(ctx, at.in, obj, &o); ok {
		// The finalizer comes before the first resource, so that no object can go and leave one behind.
		if !claimed {
			if obj, err = r.claim(ctx, key, obj, *o.identity); err != nil {
				return fmt.Errorf("adding the finalizer: %w", err)
			}
			r.remember(key, obj)
			r.settle(key, obj.GetUID(), at)
			// Nobody creates anything for an object without the finalizer.
			r.setBlank(obj.GetUID(), true)
		}
		o = r.converge(within, at.in, obj, o)
	}
	return errors.Join(o.err, r.report(ctx, obj, o))
}

// outcome is how a sync went.
type outcome struct {
	state controller.State
	// declared is what the object asks for; nil of one that is being deleted.
	declared Declaration
	// identity is where the credentials lead; nil where that is not known.
	identity *client.Identity
	// observed is what Neutron has; nil where that is not known.
	observed *plan.Observed
	// applied is true when Neutron was made, or found, as the spec says.
	applied bool
	// drift is what others changed and what was left so.
	drift []plan.Difference
	// events are what was done.
	events []controller.Event
	// err, where not nil, has the key tried again.
	err error
}

// rounds bounds how often one sync writes, where somebody else changes what it was about to change. What the last
// round left is still looked at.
const rounds = 3

// converge plans and applies what is declared until the plan is empty.
func (r *Reconciler[T]) converge(ctx context.Context, in Inventory, obj T, o outcome) outcome {
	// A spec is applied as a whole once. What differs from then on was changed by somebody else.
	drifted := r.kind.Status(obj).AppliedGeneration == obj.GetGeneration()
	resolved, unresolved, err := r.resolve(ctx, in, o.declared)
	if err != nil {
		return o.failed(err)
	}
	o.declared = resolved
	policies := r.policies(obj)
	report := drifted && policies.Drift == cloudteamv1.DriftPolicyReport
	var last plan.Change
	for round := 0; ; round++ {
		observed, err := r.look(ctx, in, obj, r.known(obj))
		if err == nil {
			observed, err = r.lookForParts(ctx, in, obj, observed)
		}
		if err != nil {
			return o.failed(err)
		}
		o.observed = &observed
		if importing, ok := o.declared.(Importing); ok && observed.Empty() && r.importOf(obj).ID != "" {
			if unresolved != nil {
				// What is not known cannot be compared, and would be set later without having been.
				return o.failed(unresolved)
			}
			if round == rounds {
				return o.failed(o.unsettled(r.kind.Resource))
			}
			done, err := r.adopt(ctx, in, obj, importing)
			o.events = append(o.events, importEvent(done))
			if err != nil && !client.IsConflict(err) {
				return o.refusedImport(err)
			}
			o.err = err
			continue
		}
		change, err := o.declared.Plan(observed)
		if _, waits := errors.AsType[*Waiting](err); waits {
			o.state, o.err = undeclared(err), nil
			return o
		}
		if err != nil {
			return o.failed(err)
		}
		if drifted {
			change = change.Without(policies.IgnoreDrift...)
		}
		if report {
			change, o.drift = leaveDrift(change)
		}
		switch {
		case change.Empty() && unresolved != nil:
			return o.failed(unresolved)
		case change.Empty():
			return o.succeeded(r.kind.Resource)
		}
		if len(last) > 0 && slices.EqualFunc(last, change, sameDifferences) {
			// What Neutron does not show was not done, and each attempt would tell of it again.
			o.events = o.events[:len(o.events)-1]
			return o.failed(&notApplied{change})
		}
		if round == rounds {
			return o.failed(o.unsettled(r.kind.Resource))
		}

		done, err := r.apply(ctx, in, obj, change)
		o.events = append(o.events, changeEvent(done, drifted))
		last, o.err = nil, nil
		switch {
		case err == nil:
			last = change
		case client.IsNotFound(err) && observed.Empty() && len(done) == 0:
			// It is missing what is not the object's own, such as a port its network: to ask again at once is to get the
			// same answer.
			return o.failed(err)
		case client.IsConflict(err), client.IsNotFound(err):
			if err := rereadAll(ctx, in, observed); err != nil {
				return o.failed(err)
			}
			o.err = err
		default:
			if observed, lookErr := in.Observed(ctx, r.ownerOf(obj), r.acting); lookErr == nil {
				o.observed = &observed
			}
			return o.failed(err)
		}
	}
}

// resolve is Kind.Resolve, where there is one. unresolved is its error where a part of the declaration is left as it
// is, and err where nothing can be planned.
func (r *Reconciler[T]) resolve(
	ctx context.Context, in Inventory, declared Declaration,
) (resolved Declaration, unresolved, err error) {
	if r.kind.Resolve == nil {
		return declared, nil, nil
	}
	resolved, err = r.kind.Resolve(ctx, in, declared)
	if _, partly := errors.AsType[*Unresolved](err); partly {
		return resolved, err, nil
	}
	return resolved, nil, err
}

// prepare is Kind.Prepare, where there is one.
func (r *Reconciler[T]) prepare(in Inventory, obj T) {
	if r.kind.Prepare != nil {
		r.kind.Prepare(in, obj)
	}
}

// unsettled is the error where the last round left something to do.
func (o outcome) unsettled(kind plan.Kind) error {
	if o.err != nil {
		return o.err
	}
	return fmt.Errorf("the %s does not come to rest", kind)
}

// leaveDrift splits a change into what is done under driftPolicy Report all the same, the removal of duplicates, and
// the differences that are reported and left.
func leaveDrift(change plan.Change) (rest plan.Change, drift []plan.Difference) {
	going := map[string]bool{}
	for _, step := range change {
		switch step.Action {
		case plan.DeleteNetwork, plan.DeletePort, plan.DeleteRouter:
			going[step.ID] = true
		}
	}
	for _, step := range change {
		// What has to come off a duplicate first goes with it.
		if going[step.ID] || step.Action == plan.DetachInterface && going[step.RouterRef.ID] {
			rest = append(rest, step)
			continue
		}
		for _, d := range step.Differences {
			// What cannot change is two steps for one difference.
			if !slices.Contains(drift, d) {
				drift = append(drift, d)
			}
		}
	}
	return rest, drift
}

func sameDifferences(a, b plan.Step) bool {
	return a.Action == b.Action && slices.Equal(a.Differences, b.Differences)
}

// notApplied is a change that Neutron accepted and does not show.
type notApplied struct{ change plan.Change }

func (e *notApplied) Error() string {
	return "Neutron accepted the change and does not show it: " + listed(e.change.Differences())
}

// identify finds out which cloud this is and holds it against the one that the object is pinned to. It returns the
// context for all that is done there, in which nothing is done elsewhere, should the credentials be replaced meanwhile.
// It returns false, with the outcome filled in, where nothing may be done.
func (r *Reconciler[T]) identify(
	ctx context.Context, in Inventory, obj T, o *outcome,
) (context.Context, bool) {
	identity, err := in.Identity(ctx)
	if err != nil {
		*o = o.failed(err)
		return nil, false
	}
	if pinned := r.pinnedTo(obj); pinned != nil && client.Identity(*pinned) != identity {
		*o = o.failed(&mismatch{r.kind.Resource, client.Identity(*pinned), identity})
		return nil, false
	}
	o.identity = &identity
	return client.Within(ctx, identity), true
}

// pinnedTo tells where the object's resources are, or may be: the status says it once they were seen, and until then
// the annotation that came with the finalizer. Where nothing was created yet, it tells where alone they can be; it is
// nil where that is anywhere.
func (r *Reconciler[T]) pinnedTo(obj T) *cloudteamv1.CloudStatus {
	if cloud := r.kind.Status(obj).Cloud; cloud != nil {
		return cloud
	}
	var pinned cloudteamv1.CloudStatus
	if json.Unmarshal([]byte(obj.GetAnnotations()[cloudteamv1.AnnotationCloud]), &pinned) == nil {
		return &pinned
	}
	if r.kind.Pin == nil {
		return nil
	}
	return r.kind.Pin(obj)
}

// mismatch is credentials that lead elsewhere than to where the resource is.
type mismatch struct {
	kind          plan.Kind
	pinned, found client.Identity
}

func (e *mismatch) Error() string {
	return fmt.Sprintf("the %s is in %s and the credentials lead to %s: give the credentials of the former",
		e.kind, e.pinned, e.found)
}

// unmarked is a resource that was ours and bears our marker no more.
type unmarked struct {
	resource plan.Resource
	owner    plan.Owner
	// imported is true of one that is not made anew.
	imported bool
}

func (e *unmarked) Error() string {
	otherwise := "delete it to have a new one made"
	if e.imported {
		otherwise = "delete this object and leave it as it is"
	}
	return fmt.Sprintf("%s no longer bears its owner's marker: end its description with %s to have it kept, or %s",
		e.resource, e.owner, otherwise)
}

// withoutMarker is what it means that a resource which may be the object's own does not bear its marker: an *unmarked
// error, or none where it was never the object's.
func (r *Reconciler[T]) withoutMarker(obj T, resource plan.Resource) error {
	if r.awaitsAdoption(obj) {
		return nil
	}
	return &unmarked{resource, r.ownerOf(obj), r.importOf(obj).ID != ""}
}

// look gives what Neutron has of the object's, from a list that is new enough for "nothing" to mean nothing. known is
// the id of the resource that was seen to stand for the object, or empty. A list that falls short must not lead to a
// second one, or have one left behind: where the list does not show any, that one is asked for by its id, and where one
// may have been created whose id is not known, it is looked for by its name.
func (r *Reconciler[T]) look(ctx context.Context, in Inventory, obj T, known string) (plan.Observed, error) {
	r.prepare(in, obj)
	owner, since := r.ownerOf(obj), r.listedSince(obj.GetUID())
	observed, err := in.Observed(ctx, owner, since)
	if err != nil || !observed.Empty() {
		return observed, err
	}
	if known != "" {
		resource := plan.Resource{Kind: r.kind.Resource, ID: known}
		found, err := in.Reread(ctx, resource)
		if errors.Is(err, neutron.ErrUnmarked) {
			return plan.Observed{}, r.withoutMarker(obj, resource)
		}
		if err != nil {
			return plan.Observed{}, err
		}
		if found {
			observed, err = in.Observed(ctx, owner, since)
			if err == nil && observed.Empty() {
				return plan.Observed{}, r.withoutMarker(obj, resource)
			}
			return observed, err
		}
	}
	if !r.mayHide(obj.GetUID(), known) {
		return plan.Observed{}, nil
	}
	found, err := in.Find(ctx, r.kind.Resource, r.nameOf(obj), owner)
	if err != nil {
		return plan.Observed{}, err
	}
	if !found {
		r.setBlank(obj.GetUID(), true)
		return plan.Observed{}, nil
	}
	return in.Observed(ctx, owner, since)
}

// lookForParts is look for the object's other resources, where some of the object's were observed: those that the list
// does not show are asked for by id, or by name.
func (r *Reconciler[T]) lookForParts(
	ctx context.Context, in Inventory, obj T, observed plan.Observed,
) (plan.Observed, error) {
	if r.kind.Parts == nil || observed.Empty() {
		return observed, nil
	}
	owner := r.ownerOf(obj)
	more := false
	for _, part := range r.kind.Parts(obj) {
		if slices.ContainsFunc(observed.Resources(), func(o plan.Resource) bool { return o.Kind == part.Kind }) {
			continue
		}
		found := false
		var err error
		if part.ID != "" {
			found, err = in.Reread(ctx, part)
			if errors.Is(err, neutron.ErrUnmarked) {
				return observed, &unmarked{part, owner, false}
			}
		}
		if err == nil && !found && r.mayHide(obj.GetUID(), part.ID) {
			found, err = in.Find(ctx, part.Kind, r.nameOf(obj), owner)
		}
		if err != nil {
			return observed, err
		}
		more = more || found
	}
	if !more {
		return observed, nil
	}
	return in.Observed(ctx, owner, r.listedSince(obj.GetUID()))
}

// apply takes the steps. One that Neutron refuses and that can wait does not keep the others from being taken, but for
// those that need it (see plan.Step.Postponable): such as one that takes away what something still uses, or one for
// which a quota is full. It returns the steps that were taken and the last error; one of what something still uses only
// where there is no other, as that passes when others act.
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

// refused reports whether an error is Neutron's word that it does not do what was asked as things stand.
func refused(err error) bool {
	switch client.KindOf(err) {
	case client.InUse, client.Capacity, client.Invalid, client.Forbidden:
		return true
	default:
		return false
	}
}

// take takes the steps until one fails, and remembers a create whose outcome is not known: before the next one, a list
// has to show that there is nothing.
func (r *Reconciler[T]) take(
	ctx context.Context, in Inventory, obj T, change plan.Change,
) (plan.Change, error) {
	logger := klog.FromContext(ctx)
	// One namespace with much to do does not hold up the others.
	done, err := in.Apply(neutron.WithFlow(ctx, obj.GetNamespace()), change)
	for _, step := range done {
		logger.Info("Applied", "step", step.String())
	}
	if slices.ContainsFunc(done, func(s plan.Step) bool { return s.Action.Creates() }) {
		r.setBlank(obj.GetUID(), false)
	}
	if client.MaybeDone(err) && len(done) < len(change) && change[len(done)].Action.Creates() {
		r.setBlank(obj.GetUID(), false)
		r.doubt(obj.GetUID())
	}
	if client.KindOf(err) == client.Forbidden && len(done) < len(change) {
		err = &forbidden{err, change[len(done)].Privileged()}
	}
	if client.KindOf(err) == client.InUse && len(done) < len(change) {
		err = blame(ctx, in, change[len(done)], err)
	}
	if client.KindOf(err) == client.Exhausted && len(done) < len(change) && change[len(done)].Subnet.Pending() {
		err = &unallocated{err, change[len(done)].Subnet.From.Name}
	}
	return done, err
}

// forbidden is a step that the cloud's policy does not let these credentials take, and the fields of it that take an
// administrator's by default.
type forbidden struct {
	refusal error
	fields  []string
}

func (e *forbidden) Error() string {
	if len(e.fields) == 0 {
		return e.refusal.Error() + ": give credentials that may do this"
	}
	return fmt.Sprintf("%s: these credentials may not set %s: leave that out of the spec, or give an administrator's "+
		"credentials", e.refusal, strings.Join(e.fields, ", "))
}

// Unwrap gives the refusal.
func (e *forbidden) Unwrap() error { return e.refusal }

// unallocated is a subnet for which its pool has no range left.
type unallocated struct {
	refusal error
	pool    string
}

func (e *unallocated) Error() string {
	return fmt.Sprintf("%s: free a range of subnet pool %q, ask for a longer prefixLength, or have prefixes added to the "+
		"pool", e.refusal, e.pool)
}

// Unwrap gives the refusal.
func (e *unallocated) Unwrap() error { return e.refusal }

// occupied is a step that takes something away and that Neutron refuses, and the ports or floating IPs for which it
// does.
type occupied struct {
	refusal error
	step    plan.Step
	by      neutron.Blockers
}

func (e *occupied) Error() string {
	what := string(e.step.Action)
	switch e.step.Action {
	case plan.DeleteSubnet:
		what += " " + e.step.Subnet.CIDR.String()
	case plan.UnshareNetwork:
		what += fmt.Sprintf(" (%s): project %q", plan.FieldSharedWith, e.step.Share.Project)
	}
	return fmt.Sprintf("%s: in use by %s", what, e.by)
}

// Unwrap gives the refusal.
func (e *occupied) Unwrap() error { return e.refusal }

// blame finds out for which ports or floating IPs Neutron refused a step, at the cost of one list: it names them in any
// order, and not what has them. Where that cannot be read, the refusal stays in Neutron's own words.
func blame(ctx context.Context, in Inventory, refused plan.Step, refusal error) error {
	blockers, err := in.Blockers(ctx, refused)
	if err != nil {
		klog.FromContext(ctx).Info("Cannot tell what is in the way", "step", refused.String(), "err", err)
	}
	if err != nil || blockers.Empty() {
		return refusal
	}
	return &occupied{refusal, refused, blockers}
}

// claim puts the finalizer on the object and, in the same write, notes the cloud in which its resources are about to be
// created. Should the process end before it hears of the creation, the next one knows where to look, even if its
// credentials lead elsewhere; the status could tell only after another write.
func (r *Reconciler[T]) claim(
	ctx context.Context, key cache.ObjectName, obj T, identity client.Identity,
) (T, error) {
	cloud, err := json.Marshal(cloudteamv1.CloudStatus(identity))
	if err != nil {
		return obj, err
	}
	return r.patchMetadata(ctx, key, obj, map[string]any{
		"finalizers":  append(slices.Clone(obj.GetFinalizers()), r.kind.Finalizer),
		"annotations": map[string]string{cloudteamv1.AnnotationCloud: string(cloud)},
	})
}

// patchMetadata writes fields of the object's metadata, if the object is still the one that was read.
func (r *Reconciler[T]) patchMetadata(
	ctx context.Context, key cache.ObjectName, obj T, metadata map[string]any,
) (T, error) {
	metadata["uid"], metadata["resourceVersion"] = obj.GetUID(), obj.GetResourceVersion()
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return obj, err
	}
	written, err := r.kind.Patch(obj.GetNamespace())(
		ctx, obj.GetName(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: controller.FieldManager})
	if err != nil {
		return obj, err
	}
	r.expected.Written(key, written.GetUID(), written.GetResourceVersion())
	return written, nil
}

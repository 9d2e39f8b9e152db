package managed

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// Rounds is how often one sync writes at most.
const Rounds = attempts

// MaxGone is how many objects that are gone are remembered of a namespace.
const MaxGone = maxGone

// What states and Events are made by.
var (
	StateOf     = stateOf
	ChangeEvent = changeEvent
)

// NewMismatch is the error of credentials that lead elsewhere.
func NewMismatch(kind plan.Kind, pinned, found client.Identity) error {
	return mismatch("the "+string(kind), pinned, found)
}

// NewUnmarked is the error of a resource that was ours and bears our marker no more.
func NewUnmarked(resource plan.Resource, owner plan.Owner) error {
	return unmarked(Lookup{Resource: resource}, owner)
}

// NewNotConverged is the error of a change that Neutron accepted and does not show.
func NewNotConverged(change plan.Change) error { return notConverged(change) }

// NewForbidden is the error of a step that the cloud's policy does not allow, because of the fields.
func NewForbidden(refusal error, fields ...string) error { return forbidden(refusal, fields) }

// Kind is the kind, to be changed before the first sync.
func (r *Reconciler[T]) Kind() *Kind[T] { return &r.kind }

// Indexer is the cache of the kind's informer.
func (r *Reconciler[T]) Indexer() cache.Indexer { return r.indexer }

// Expected is what this process wrote.
func (r *Reconciler[T]) Expected() *controller.Expectations { return &r.expected }

// Report reports a state.
func (r *Reconciler[T]) Report(ctx context.Context, obj T, state controller.State) error {
	return r.report(ctx, obj, progress{state: state})
}

// Outcome is what a sync learned.
type Outcome struct {
	State    controller.State
	Identity *client.Identity
	Observed *plan.Observed
	Applied  bool
	Drift    []plan.Difference
}

// Updated is the object with its status after a sync of that outcome.
func (r *Reconciler[T]) Updated(obj T, o Outcome) T {
	return r.updated(obj, progress{
		state: o.State, identity: o.Identity, observed: o.Observed, applied: o.Applied, drift: o.Drift,
	})
}

// Remember notes that an object may have resources.
func (r *Reconciler[T]) Remember(obj T) { r.remember(obj) }

// Forget drops what is known of an object.
func (r *Reconciler[T]) Forget(obj T) { r.forget(obj) }

// Gone gives the objects of a key that may have resources, other than the one that exists.
func (r *Reconciler[T]) Gone(key cache.ObjectName, existing types.UID) []T {
	return r.gone(key, existing)
}

// Memory is how many keys have objects that may have resources.
func (r *Reconciler[T]) Memory() (keys int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.owned)
}

// Left is how many objects of a namespace are gone and have resources, and in how many namespaces there are any.
func (r *Reconciler[T]) Left(namespace string) (objects, namespaces int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.left[namespace]), len(r.left)
}

// NewMismatchElsewhere is the error of credentials of another namespace that lead elsewhere.
func NewMismatchElsewhere(kind plan.Kind) error { return mismatchElsewhere(kind) }

// Explain adds to the refusal of a step what the user can do, without asking Neutron what blocks it.
func Explain(ctx context.Context, step plan.Step, refusal error) error {
	return explain(ctx, nil, step, refusal)
}

// LeaveDrift splits a change for driftPolicy Report.
func LeaveDrift(change plan.Change) (rest plan.Change, drift []plan.Difference) {
	return leaveDrift(change)
}

// Follow is the handler with which a Room follows the objects of a kind.
func Follow[T Object](r *Room[T], kind *Kind[T], enqueue func(...cache.ObjectName)) cache.ResourceEventHandler {
	r.begin(kind, enqueue)
	return controller.Following(r.see, r.forget)
}

// Rest is what a sync of a paused object calls.
func (r *Room[T]) Rest(obj T) { r.rest(obj) }

// Confirm is what comes before something is given up.
func (r *Reconciler[T]) Confirm(ctx context.Context, obj T) error { return r.confirm(ctx, obj) }

// WithoutDeleted is what is still looked for after steps.
func WithoutDeleted(expected []Lookup, done plan.Change) []Lookup {
	return withoutDeleted(expected, done)
}

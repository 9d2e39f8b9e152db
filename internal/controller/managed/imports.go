package managed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// DefaultObserveInterval is how often an observed resource is read, where nobody says otherwise.
const DefaultObserveInterval = time.Minute

// ObserveEvery tells how often observed resources are read, where that is not DefaultObserveInterval. It MUST be called
// before Run, if at all.
func (r *Reconciler[T]) ObserveEvery(interval time.Duration) { r.observeEvery = interval }

// importOf is the object's Import.
func (r *Reconciler[T]) importOf(obj T) Import {
	if r.kind.Import == nil {
		return Import{}
	}
	return r.kind.Import(obj)
}

// observes reports whether nothing may be written to Neutron for the object. One that has the finalizer may own
// something, whatever it says.
func (r *Reconciler[T]) observes(obj T) bool {
	return r.importOf(obj).Observe && !slices.Contains(obj.GetFinalizers(), r.kind.Finalizer)
}

// known is the id of the resource that may be the object's own: the one that it imports, or the one that was seen to
// stand for it, or empty.
func (r *Reconciler[T]) known(obj T) string {
	return cmp.Or(r.importOf(obj).ID, r.kind.ID(obj))
}

// awaitsAdoption reports whether the object imports a resource that need not bear its marker yet.
func (r *Reconciler[T]) awaitsAdoption(obj T) bool {
	return r.importOf(obj).ID != "" && r.kind.Status(obj).AppliedGeneration == 0
}

// foreignProject is a network to import that is of another project.
type foreignProject struct {
	id            string
	project, ours string
}

func (e *foreignProject) Error() string {
	return fmt.Sprintf("network %s belongs to project %s and the credentials are of %s: give the credentials of the "+
		"former, or write managementPolicy Observe to use it as it is", e.id, e.project, e.ours)
}

// adopt takes over the network that the object imports, which bears nobody's marker yet: the one exception from the
// rule that what is not marked is not touched. It writes the network's marker, on condition that nobody was faster, and
// reads the network anew, so that from here on it is found by its marker. An error leaves everything as it was, or as a
// rival for the same network made it.
func (r *Reconciler[T]) adopt(
	ctx context.Context, in Inventory, obj T, declared Importing,
) (done plan.Change, err error) {
	id := r.importOf(obj).ID
	found, exists, err := in.Foreign(ctx, id)
	if err != nil {
		return nil, err
	}
	if !exists {
		return nil, &plan.NotMadeError{ID: id}
	}
	identity, err := in.Identity(ctx)
	if err != nil {
		return nil, err
	}
	if found.ProjectID != identity.ProjectID {
		return nil, &foreignProject{id, found.ProjectID, identity.ProjectID}
	}
	change, err := declared.PlanImport(found.ObservedNetwork)
	if err != nil {
		return nil, err
	}
	if done, err = r.apply(ctx, in, obj, change); err != nil {
		return nil, err
	}
	_, err = in.Reread(ctx, plan.Resource{Kind: r.kind.Resource, ID: id})
	return done, err
}

// observe shows the network that the object imports, and writes nothing to Neutron.
func (r *Reconciler[T]) observe(ctx context.Context, obj T) (controller.Result, error) {
	o := r.observed(ctx, obj)
	if errors.Is(o.err, ErrNotYet) {
		return controller.Result{}, nil // an event brings the key
	}
	return controller.Result{RequeueAfter: r.observeEvery}, errors.Join(o.err, r.report(ctx, obj, o))
}

func (r *Reconciler[T]) observed(ctx context.Context, obj T) (o outcome) {
	declared, err := r.kind.Declare(obj, r.ownerOf(obj))
	if err != nil {
		o.state = undeclared(err)
		return o
	}
	o.declared = declared
	at, err := r.reach(obj, false)
	switch _, waits := errors.AsType[*Waiting](err); {
	case waits:
		o.state = undeclared(err)
		return o
	case err != nil:
		return o.failed(err)
	}
	within, ok := r.identify(ctx, at.in, obj, &o)
	if !ok {
		return o
	}
	resolved, unresolved, err := r.resolve(within, at.in, declared)
	if err != nil {
		return o.failed(err)
	}
	o.declared = resolved
	r.prepare(at.in, obj)
	id := r.importOf(obj).ID
	found, exists, err := at.in.Foreign(within, id)
	if err != nil {
		return o.failed(err)
	}
	if !exists {
		o.observed = &plan.Observed{}
		return o.failed(&plan.NotMadeError{ID: id})
	}
	differences, err := o.declared.(Importing).Compare(found.ObservedNetwork)
	if err != nil {
		return o.failed(err)
	}
	o.observed = &plan.Observed{Networks: []plan.ObservedNetwork{found.ObservedNetwork}}
	asUpdate := plan.Change{{Differences: differences}}
	o.drift = asUpdate.Without(r.policies(obj).IgnoreDrift...).Differences()
	switch {
	case unresolved != nil:
		return o.failed(unresolved)
	case !o.declared.Complete(*o.observed):
		o.state = controller.Stalled(cloudteamv1.ReasonImportDiffers, differs(o.drift))
	case len(o.drift) > 0:
		o.state = controller.Ready(cloudteamv1.ReasonDriftReported,
			"The network is observed and not as declared: "+listed(o.drift))
	default:
		o.state = controller.Ready(cloudteamv1.ReasonObserved, "The network is observed; nothing is changed in Neutron")
	}
	return o
}

// differs is the message of a network that cannot be imported, or used, as it is.
func differs(differences []plan.Difference) string {
	return "The network to import is not as declared: " + listed(differences) +
		"; write the spec as the network is, or, to have it changed, import.overwrite: true"
}

// stateOfImport says what an error means that only an import can meet.
func stateOfImport(err error) (s controller.State, ok bool) {
	if missing, ok := errors.AsType[*plan.NotMadeError](err); ok {
		return controller.Reconciling(cloudteamv1.ReasonImportNotFound, missing.Error()), true
	}
	if taken, ok := errors.AsType[*plan.OwnedError](err); ok {
		return controller.Stalled(cloudteamv1.ReasonOwnedByAnother, taken.Error()), true
	}
	if other, ok := errors.AsType[*plan.DiffersError](err); ok {
		return controller.Stalled(cloudteamv1.ReasonImportDiffers, differs(other.Differences)), true
	}
	if elsewhere, ok := errors.AsType[*foreignProject](err); ok {
		return controller.Stalled(cloudteamv1.ReasonForeignProject, elsewhere.Error()), true
	}
	return controller.State{}, false
}

// refusedImport is failed, with the differences that stand in the way.
func (o outcome) refusedImport(err error) outcome {
	if other, ok := errors.AsType[*plan.DiffersError](err); ok {
		o.drift = other.Differences
	}
	return o.failed(err)
}

// importEvent tells that a network was taken over. It is empty where none was.
func importEvent(done plan.Change) controller.Event {
	if done.Empty() {
		return controller.Event{}
	}
	return controller.Event{
		Type: corev1.EventTypeNormal, Reason: cloudteamv1.EventImported,
		Message: "Took over network " + done[0].ID + ": it bears its owner's marker now",
	}
}

package managed

import (
	"context"
	"fmt"
	"strings"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// Preview is what the next sync of an object would do in Neutron.
type Preview struct {
	// Change are the steps up to the first look at their outcome.
	Change plan.Change
	// Adopts is true if the steps only write the object's marker on the resource that it imports. What Changes says
	// follows then.
	Adopts bool
	// Observed is what bears the object's marker.
	Observed plan.Observed
	// Drift is what differs and is left so.
	Drift []plan.Difference
	// Unresolved names the fields whose value means nothing in the cloud. What depends on them stays as it is.
	Unresolved error
	// Cloud is the project that the credentials are for; nil if unknown.
	Cloud *client.Identity
}

// Preview plans an object as its next sync would, and writes nothing to Kubernetes or Neutron. The object need not be
// in the cache. The error is that of the sync.
func (r *Reconciler[T]) Preview(ctx context.Context, obj T) (Preview, error) {
	if r.policies(obj).Observe && !r.claimed(obj) || annotatedPaused(obj) {
		return Preview{}, nil
	}
	within, at, obj, p := r.begin(ctx, obj)
	if p.err != nil {
		return Preview{}, p.err
	}
	preview, _, err := r.preview(within, at.in, obj, p)
	return preview, err
}

// preview is converge up to the first write. It gives the progress for the status, too.
func (r *Reconciler[T]) preview(
	ctx context.Context, in Inventory, obj T, p progress,
) (preview Preview, _ progress, err error) {
	preview.Cloud = p.identity
	resolved, unresolved := r.takingBack(obj, p.declared).Resolve(ctx, in)
	if resolved == nil {
		return preview, p, unresolved
	}
	p.declared, preview.Unresolved = resolved, unresolved
	expected := r.kind.Expected(obj)
	observed, err := r.look(ctx, in, obj, expected, r.needs(obj, expected)...)
	if err != nil {
		return preview, p, err
	}
	p.observed, preview.Observed = &observed, observed
	if r.awaitsAdoption(obj, expected[0]) && observed.Empty() {
		if preview.Adopts = true; unresolved == nil || resolved.Traits().AdoptsFirst {
			preview.Change, err = resolved.Traits().Adopt(ctx, in)
		}
		return preview, p, err
	}
	preview.Change, err = r.plan(ctx, obj, &p)
	preview.Drift = p.drift
	return preview, p, err
}

// maxShown bounds the steps in a message.
const maxShown = 20

// reportPlan reports what a sync would do, for --report-only. It looks again at intervals, because nothing in Neutron
// bears the object's marker yet.
func (r *Reconciler[T]) reportPlan(ctx context.Context, obj T) (controller.Result, error) {
	const by = "Only reporting (--report-only): nothing is written to Neutron. "
	const instead = "Start the controller without --report-only"
	if r.claimed(obj) {
		// It keeps its resources.
		r.remember(obj)
	}
	again := controller.Result{RequeueAfter: r.observeEvery}
	switch {
	case obj.GetDeletionTimestamp() != nil && !r.claimed(obj):
		return controller.Result{}, nil
	case obj.GetDeletionTimestamp() != nil:
		return controller.Result{}, r.report(ctx, obj, progress{state: controller.Reconciling(cloudteamv1.ReasonPlanned,
			by+instead+" to have it deleted.")})
	}
	within, at, obj, p := r.begin(ctx, obj)
	if p.err != nil {
		return again, r.conclude(ctx, obj, p)
	}
	preview, p, err := r.preview(within, at.in, obj, p)
	if err == nil {
		err = preview.Unresolved
	}
	if err != nil {
		return again, r.conclude(ctx, obj, p.failed(err))
	}
	if preview.Change.Empty() {
		p.state = controller.Ready(cloudteamv1.ReasonPlanned, by+"There is nothing to do.")
		return again, r.conclude(ctx, obj, p)
	}
	var steps []string
	for _, step := range preview.Change {
		steps = append(steps, step.String())
	}
	if more := len(steps) - maxShown; more > 0 {
		steps = append(steps[:maxShown], fmt.Sprintf("%d more steps", more))
	}
	would := controller.Limited(strings.Join(steps, "; "), controller.MaxMessage/2)
	p.state = controller.Stalled(cloudteamv1.ReasonPlanned, fmt.Sprintf(
		"%sIt would %s. %s to have this done.", by, would, instead))
	return again, r.conclude(ctx, obj, p)
}

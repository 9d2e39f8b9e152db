package managed

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// paused reports whether nothing may be changed in Neutron for the object. Who writes the annotation means to pause: a
// misspelt value must not be the reason that the object goes on in the midst of somebody's work.
func paused(obj metav1.Object) bool {
	value, stands := obj.GetAnnotations()[cloudteamv1.AnnotationPaused]
	return stands && value != "false"
}

// hold tells in the status that the object is paused, and asks nothing of Neutron.
func (r *Reconciler[T]) hold(ctx context.Context, key cache.ObjectName, obj T) error {
	if r.claimed(obj) {
		// It still has what it has.
		r.remember(key, obj)
	}
	return r.report(ctx, obj, progress{state: r.pausedState(obj)})
}

// pausedState is what the conditions of a paused object say. What was there when the pause began is still there, as far
// as is known, and whoever uses it goes on doing so; but a spec that nobody has applied is not Ready.
func (r *Reconciler[T]) pausedState(obj T) controller.State {
	const by = "Paused by the annotation " + cloudteamv1.AnnotationPaused + ". "
	status := r.kind.Status(obj)
	switch {
	case obj.GetDeletionTimestamp() != nil:
		return controller.Reconciling(cloudteamv1.ReasonPaused,
			by+"Deletion waits until the annotation is removed.")
	case status.AppliedGeneration == obj.GetGeneration() &&
		meta.IsStatusConditionTrue(status.Conditions, cloudteamv1.ConditionReady):
		return controller.Ready(cloudteamv1.ReasonPaused,
			by+"It was as declared. Drift is not corrected until the annotation is removed.")
	default:
		return controller.Reconciling(cloudteamv1.ReasonPaused,
			by+"The spec is not applied until the annotation is removed.")
	}
}

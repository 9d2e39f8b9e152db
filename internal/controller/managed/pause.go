package managed

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// paused reports whether nothing may be changed in Neutron for the object.
func paused(obj metav1.Object) bool { return annotatedPaused(obj) || cloudteamv1.PlannedOnly(obj) }

// annotatedPaused reports whether the annotation pauses the object. Any value but "false" does: after a typing error,
// the controller must not go on changing what somebody works on.
func annotatedPaused(obj metav1.Object) bool {
	value, stands := obj.GetAnnotations()[cloudteamv1.AnnotationPaused]
	return stands && value != "false"
}

// hold reports in the status that the object is paused, and sends no request to Neutron.
func (r *Reconciler[T]) hold(ctx context.Context, obj T) error {
	if r.claimed(obj) {
		// It keeps its resources.
		r.remember(obj)
	}
	if r.kind.Room != nil {
		r.kind.Room.rest(obj)
	}
	return r.report(ctx, obj, progress{state: r.pausedState(obj)})
}

// pausedState gives the conditions of a paused object. Its resources are expected to exist as before the pause, and
// stay in use. But an object whose spec was not applied is not Ready.
func (r *Reconciler[T]) pausedState(obj T) controller.State {
	by, until := "Paused by the annotation "+cloudteamv1.AnnotationPaused+". ", "the annotation is removed."
	if !annotatedPaused(obj) {
		by, until = "Paused by managementPolicy Plan, which this version only pauses. Run kubectl network plan to see what "+
			"would be done. ", "you remove managementPolicy."
	}
	switch {
	case obj.GetDeletionTimestamp() != nil:
		return controller.Reconciling(cloudteamv1.ReasonPaused,
			by+"Deletion waits until "+until)
	case r.applied(obj) && meta.IsStatusConditionTrue(r.row.Status(obj).Conditions, cloudteamv1.ConditionReady):
		return controller.Ready(cloudteamv1.ReasonPaused,
			by+"It was as declared. Drift is not corrected until "+until)
	default:
		return controller.Reconciling(cloudteamv1.ReasonPaused,
			by+"The spec is not applied until "+until)
	}
}

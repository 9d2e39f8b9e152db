package managed

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// AbandonAfter is how long the deletion of an object waits for credentials that went with their namespace. It is longer
// than a process keeps the credentials that it has read before it asks whether the namespace is being deleted.
const AbandonAfter = 20 * time.Minute

// terminatingEvery is how often an object asks again whether a namespace is being deleted.
const terminatingEvery = time.Minute

// AskNamespaces sets how to find out whether a namespace is being deleted, or is gone. It is false if that is unknown.
// If called, it MUST be called before Run.
func (r *Reconciler[T]) AskNamespaces(terminating func(ctx context.Context, namespace string) bool) {
	r.terminating = terminating
}

// abandoned decides whether to let an object go although its resources may still be in Neutron. That is so if the
// credentials are gone together with their namespace: nobody can create them again, and the object would keep a
// namespace for ever. since is since when its resources have to go. It tells what is left.
func (r *Reconciler[T]) abandoned(ctx context.Context, obj T, since time.Time, err error) bool {
	problem, ok := errors.AsType[*Problem](err)
	if !ok || !problem.Gone || time.Since(since) < AbandonAfter {
		return false
	}
	ref := r.cloudOf(obj)
	if !r.terminating(ctx, ref.Namespace) {
		return false
	}
	var left []string
	for _, e := range r.kind.Expected(obj) {
		if e.ID != "" {
			left = append(left, e.String())
		}
	}
	cloud := ""
	if pinned := r.pinnedTo(obj); pinned != nil {
		cloud = pinned.Endpoint + ", project " + pinned.ProjectID
	}
	abandoned.Inc()
	klog.FromContext(ctx).Error(err, "Abandoned an object: its credentials went with their namespace; "+
		"what it has in Neutron stays there", "cloud", cloud, "resources", left, "marker", r.ownerOf(obj))
	// An Event in a namespace that is being deleted is refused. That of a Namespace is in the namespace default.
	r.recorder.Eventf(&corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: obj.GetNamespace()},
		corev1.EventTypeWarning, cloudteamv1.EventAbandoned,
		"%s %s was removed, but its credentials are gone. Resources with %s in their description stay in Neutron (%s: %v). "+
			"Delete them.",
		r.row.Name, obj.GetName(), r.ownerOf(obj), cloud, left)
	return true
}

// evict removes what an object has in Neutron, and lets the object stay. lost is what its conditions say.
func (r *Reconciler[T]) evict(ctx context.Context, obj T, loss Loss) error {
	r.remember(obj)
	p := r.release(ctx, obj, false)
	if p.err != nil && !r.abandoned(ctx, obj, loss.Since, p.err) {
		return r.conclude(ctx, obj, p)
	}
	p = progress{observed: &plan.Observed{}}.failed(loss.Problem)
	// The status goes first: what it shows would be created again without the finalizer.
	if _, changed := r.kind.ToWrite(obj, r.updated(obj, p)); changed {
		return r.conclude(ctx, obj, p)
	}
	return r.letGo(ctx, obj)
}

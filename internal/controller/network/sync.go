package network

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/network"
	"cloudteam.ztgame.com/network-controller/internal/neutron"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// sync makes Neutron agree with one Network. It acts on what the caches hold now, whatever put the key on the queue.
func (c *Controller) sync(ctx context.Context, key cache.ObjectName) (controller.Result, error) {
	obj, err := c.lister.Networks(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		c.expected.Forget(key)
		return controller.Result{}, c.prune(ctx, key, "")
	}
	if err != nil {
		return controller.Result{}, err
	}
	if !c.expected.Met(key, obj.UID, obj.ResourceVersion) {
		// The cache is older than our own last write. The event that brings it up to date brings the key back.
		return controller.Result{}, nil
	}
	// What earlier objects of the name left does not hold this one up: its network is its own.
	pruned := c.prune(ctx, key, obj.UID)
	if obj.DeletionTimestamp != nil {
		return controller.Result{}, errors.Join(c.finalize(ctx, key, obj), pruned)
	}
	return controller.Result{}, errors.Join(c.reconcile(ctx, key, obj), pruned)
}

// reconcile makes the network as the spec declares, and tells in the status how that went.
func (c *Controller) reconcile(ctx context.Context, key cache.ObjectName, obj *cloudteamv1.Network) error {
	spec, err := desired(c.cluster, obj)
	if err != nil {
		// Nothing but another spec helps, and that brings an event.
		state := controller.Stalled(cloudteamv1.ReasonInvalidSpec, sentence(err))
		return c.report(ctx, obj, outcome{state: state})
	}
	o := outcome{spec: spec}
	if c.identify(ctx, obj, &o) {
		// The finalizer comes before the first resource, so that no object can go and leave one behind.
		if !slices.Contains(obj.Finalizers, cloudteamv1.Finalizer) {
			if obj, err = c.claim(ctx, key, obj, *o.identity); err != nil {
				return fmt.Errorf("adding the finalizer: %w", err)
			}
		}
		c.remember(key, obj)
		o = c.converge(ctx, obj, o)
	}
	return errors.Join(o.err, c.report(ctx, obj, o))
}

// outcome is how a sync went.
type outcome struct {
	state controller.State
	// spec is what is declared; of an object that is being deleted, the owner alone.
	spec network.Spec
	// identity is where the credentials lead; nil where that is not known.
	identity *neutron.Identity
	// observed is what Neutron has; nil where that is not known.
	observed *network.Observed
	// applied is true when Neutron was made, or found, as the spec says.
	applied bool
	// drift is what others changed and what was left so.
	drift []network.Difference
	// events are what was done.
	events []event
	// err, where not nil, has the key tried again.
	err error
}

type event struct {
	reason, message string
}

// rounds bounds how often one sync writes, where somebody else changes what it was about to change. What the last
// round left is still looked at.
const rounds = 3

// converge plans and applies o.spec until the plan is empty.
func (c *Controller) converge(ctx context.Context, obj *cloudteamv1.Network, o outcome) outcome {
	spec := o.spec
	// A spec is applied as a whole once. What differs from then on was changed by somebody else.
	drifted := obj.Status.AppliedGeneration == obj.Generation
	var last network.Change
	for round := 0; ; round++ {
		observed, err := c.look(ctx, spec.Owner, obj.Status.NetworkID)
		if err != nil {
			return o.failed(err)
		}
		o.observed = &observed
		change, err := network.Plan(spec, observed)
		if err != nil {
			return o.failed(err)
		}
		if drifted && obj.Spec.DriftPolicy == cloudteamv1.DriftPolicyReport {
			change, o.drift = leaveDrift(change)
		}
		if change.Empty() {
			return o.succeeded()
		}
		if len(last) > 0 && slices.EqualFunc(last, change, sameDifferences) {
			// What Neutron does not show was not done, and each attempt would tell of it again.
			o.events = o.events[:len(o.events)-1]
			return o.failed(&notApplied{change})
		}
		if round == rounds {
			if o.err == nil {
				o.err = errors.New("the network does not come to rest")
			}
			return o.failed(o.err)
		}

		done, err := c.apply(ctx, obj.UID, change)
		o.events = append(o.events, changeEvent(done, drifted))
		last, o.err = nil, nil
		switch {
		case err == nil:
			last = change
		case neutron.IsConflict(err), neutron.IsNotFound(err):
			// Somebody else was faster. Read what is there now and plan again.
			if err := c.rereadAll(ctx, observed); err != nil {
				return o.failed(err)
			}
			o.err = err
		default:
			if observed, lookErr := c.inventory.Observed(ctx, spec.Owner, c.started); lookErr == nil {
				o.observed = &observed
			}
			return o.failed(err)
		}
	}
}

// leaveDrift splits a change into what is done under driftPolicy Report all the same, the removal of duplicates, and
// the differences that are reported and left.
func leaveDrift(change network.Change) (rest network.Change, drift []network.Difference) {
	for _, step := range change {
		if step.Action == network.DeleteNetwork {
			rest = append(rest, step)
		} else {
			drift = append(drift, step.Differences...)
		}
	}
	return rest, drift
}

func sameDifferences(a, b network.Step) bool {
	return a.Action == b.Action && slices.Equal(a.Differences, b.Differences)
}

// notApplied is a change that Neutron accepted and does not show.
type notApplied struct{ change network.Change }

func (e *notApplied) Error() string {
	return "Neutron accepted the change and does not show it: " + listed(e.change.Differences())
}

// identify finds out which cloud this is and holds it against the one that the object is pinned to. It returns false,
// with the outcome filled in, where nothing may be done.
func (c *Controller) identify(ctx context.Context, obj *cloudteamv1.Network, o *outcome) bool {
	identity, err := c.inventory.Identity(ctx)
	if err != nil {
		*o = o.failed(err)
		return false
	}
	if pinned := pinnedTo(obj); pinned != nil && neutron.Identity(*pinned) != identity {
		*o = o.failed(&mismatch{neutron.Identity(*pinned), identity})
		return false
	}
	o.identity = &identity
	return true
}

// pinnedTo tells where the object's network is, or may be: the status says it once the network was seen, and until then
// the annotation that came with the finalizer. It is nil where nothing was created anywhere.
func pinnedTo(obj *cloudteamv1.Network) *cloudteamv1.CloudStatus {
	if obj.Status.Cloud != nil {
		return obj.Status.Cloud
	}
	var pinned cloudteamv1.CloudStatus
	if json.Unmarshal([]byte(obj.Annotations[cloudteamv1.AnnotationCloud]), &pinned) != nil {
		return nil
	}
	return &pinned
}

// mismatch is credentials that lead elsewhere than to where the network is.
type mismatch struct{ pinned, found neutron.Identity }

func (e *mismatch) Error() string {
	return fmt.Sprintf("the network is in %s and the credentials lead to %s: give the credentials of the former",
		e.pinned, e.found)
}

// unmarked is a network that was ours and bears our marker no more.
type unmarked struct {
	networkID string
	owner     network.Owner
}

func (e *unmarked) Error() string {
	return fmt.Sprintf("network %s no longer bears its owner's marker: end its description with %s to have it kept, "+
		"or delete it to have a new one made", e.networkID, e.owner)
}

// look gives what Neutron has of the owner's, from a list that is new enough for "nothing" to mean nothing. known is
// the id of a network that was seen, or empty: where the list does not show any, that one is asked for by its id, since
// a list that falls short must not lead to a second network.
func (c *Controller) look(ctx context.Context, owner network.Owner, known string) (network.Observed, error) {
	since := c.listedSince(types.UID(owner.Object))
	observed, err := c.inventory.Observed(ctx, owner, since)
	if err != nil || len(observed.Networks) > 0 || known == "" {
		return observed, err
	}
	found, err := c.inventory.Reread(ctx, network.Resource{Kind: network.KindNetwork, ID: known})
	switch {
	case errors.Is(err, neutron.ErrUnmarked):
		return network.Observed{}, &unmarked{known, owner}
	case err != nil:
		return network.Observed{}, err
	case !found:
		return network.Observed{}, nil
	}
	observed, err = c.inventory.Observed(ctx, owner, since)
	if err == nil && len(observed.Networks) == 0 {
		return network.Observed{}, &unmarked{known, owner}
	}
	return observed, err
}

func (c *Controller) rereadAll(ctx context.Context, observed network.Observed) error {
	for _, r := range observed.Resources() {
		if _, err := c.inventory.Reread(ctx, r); err != nil && !errors.Is(err, neutron.ErrUnmarked) {
			return err
		}
	}
	return nil
}

// apply takes the steps, and remembers a create whose outcome is not known: before the next one, a list has to show
// that there is nothing.
func (c *Controller) apply(ctx context.Context, uid types.UID, change network.Change) (network.Change, error) {
	logger := klog.FromContext(ctx)
	done, err := c.inventory.Apply(ctx, change)
	for _, step := range done {
		logger.Info("Applied", "step", step.String())
	}
	if err != nil && len(done) < len(change) {
		failed := change[len(done)].Action
		if neutron.MaybeDone(err) && (failed == network.CreateNetwork || failed == network.CreateSubnet) {
			c.doubt(uid)
		}
	}
	return done, err
}

// finalize removes or releases the object's resources, and then takes the finalizer off.
func (c *Controller) finalize(ctx context.Context, key cache.ObjectName, obj *cloudteamv1.Network) error {
	at := slices.Index(obj.Finalizers, cloudteamv1.Finalizer)
	if at < 0 && !c.remembers(key, obj.UID) {
		return nil
	}
	c.remember(key, obj)
	if o := c.release(ctx, obj); o.err != nil {
		return errors.Join(o.err, c.report(ctx, obj, o))
	}
	// Where somebody else took the finalizer off, and another's keeps the object, there is nothing more to do.
	if at >= 0 {
		finalizers := slices.Delete(slices.Clone(obj.Finalizers), at, at+1)
		_, err := c.patchMetadata(ctx, key, obj, map[string]any{"finalizers": finalizers})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("removing the finalizer: %w", err)
		}
	}
	c.forget(key, obj.UID)
	return nil
}

// release removes everything of the object's in Neutron, or takes the marker off where deletionPolicy is Retain. Its
// outcome has no error once nothing in Neutron bears the marker.
func (c *Controller) release(ctx context.Context, obj *cloudteamv1.Network) (o outcome) {
	owner := ownerOf(c.cluster, obj)
	o.spec = network.Spec{Owner: owner}
	if !c.identify(ctx, obj, &o) {
		return o
	}
	known := obj.Status.NetworkID
	for round := 0; ; round++ {
		observed, err := c.look(ctx, owner, known)
		if foreign, ok := errors.AsType[*unmarked](err); ok {
			// Somebody took the marker off. It is not ours to delete any more.
			c.recorder.Eventf(obj, corev1.EventTypeNormal, cloudteamv1.EventRetained,
				"Left network %s in Neutron: it no longer bears its owner's marker", foreign.networkID)
			o.err = nil
			return o
		}
		if err != nil {
			return o.failed(err)
		}
		o.observed = &observed
		if len(observed.Networks) == 0 {
			o.err = nil
			return o
		}
		if round == rounds {
			if o.err == nil {
				o.err = errors.New("the network does not go")
			}
			return o.failed(o.err)
		}
		change := network.PlanRelease(owner, observed)
		retain := obj.Spec.DeletionPolicy == cloudteamv1.DeletionPolicyRetain
		if !retain {
			if change, err = network.PlanDelete(owner, observed); err != nil {
				return o.failed(err)
			}
		}
		done, err := c.apply(ctx, obj.UID, change)
		for _, step := range done {
			switch {
			case step.Action == network.DeleteNetwork:
				c.recorder.Eventf(obj, corev1.EventTypeNormal, cloudteamv1.EventDeleted,
					"Deleted network %s with its subnets", step.ID)
			case step.Action == network.UpdateNetwork && retain:
				c.recorder.Eventf(obj, corev1.EventTypeNormal, cloudteamv1.EventRetained,
					"Left network %s in Neutron, without its owner's marker", step.ID)
			}
		}
		o.err = nil
		switch {
		case err == nil && retain:
			// What bears no marker is not looked for again by its id.
			return o
		case err == nil:
			// What we have deleted ourselves need not be asked for.
			known = ""
		case neutron.IsConflict(err), neutron.IsNotFound(err):
			o.err = err
			if err := c.rereadAll(ctx, observed); err != nil {
				return o.failed(err)
			}
		default:
			return o.failed(err)
		}
	}
}

// prune removes the resources of objects of this key that are gone from the cache though they had the finalizer, such
// as when it was forced off. existing is the UID of the object that bears the key now, or empty.
func (c *Controller) prune(ctx context.Context, key cache.ObjectName, existing types.UID) error {
	var errs []error
	for uid, policy := range c.gone(key, existing) {
		obj := &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: uid}}
		obj.Spec.DeletionPolicy = policy
		if o := c.release(ctx, obj); o.err != nil {
			errs = append(errs, fmt.Errorf("removing what the deleted object %s left: %w", uid, o.err))
			continue
		}
		c.forget(key, uid)
	}
	return errors.Join(errs...)
}

// claim puts the finalizer on the object and, in the same write, notes the cloud in which its network is about to be
// created. Should the process end before it hears of the creation, the next one knows where to look, even if its
// credentials lead elsewhere; the status could tell only after another write.
func (c *Controller) claim(
	ctx context.Context, key cache.ObjectName, obj *cloudteamv1.Network, identity neutron.Identity,
) (*cloudteamv1.Network, error) {
	cloud, err := json.Marshal(cloudteamv1.CloudStatus(identity))
	if err != nil {
		return nil, err
	}
	return c.patchMetadata(ctx, key, obj, map[string]any{
		"finalizers":  append(slices.Clone(obj.Finalizers), cloudteamv1.Finalizer),
		"annotations": map[string]string{cloudteamv1.AnnotationCloud: string(cloud)},
	})
}

// patchMetadata writes fields of the object's metadata, if the object is still the one that was read.
func (c *Controller) patchMetadata(
	ctx context.Context, key cache.ObjectName, obj *cloudteamv1.Network, metadata map[string]any,
) (*cloudteamv1.Network, error) {
	metadata["uid"], metadata["resourceVersion"] = obj.UID, obj.ResourceVersion
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return nil, err
	}
	written, err := c.client.CloudteamV1().Networks(obj.Namespace).Patch(
		ctx, obj.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: controller.FieldManager})
	if err != nil {
		return nil, err
	}
	c.expected.Written(key, written.UID, written.ResourceVersion)
	return written, nil
}

package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// sync brings the FloatingIP of a Service to what its annotation asks for. It is level-triggered. The process may end
// after any write: the FloatingIP has the Service's name, so the next sync finds it.
func (c *Controller) sync(ctx context.Context, key cache.ObjectName) (controller.Result, error) {
	service, err := c.services.Services(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) || err == nil && service.DeletionTimestamp != nil {
		// Garbage collection deletes its FloatingIP.
		c.forget(key)
		c.expected.Forget(key)
		return controller.Result{}, nil
	}
	if err != nil {
		return controller.Result{}, err
	}
	has, err := c.floating.FloatingIPs(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		has = nil
	} else if err != nil {
		return controller.Result{}, err
	}
	w, declares, err := wishOf(service)
	switch {
	case err != nil: // what exists stays as it is
		c.follow(service, chosen{settled: true})
		c.fail(service, err.Error())
		return controller.Result{}, nil
	case !declares:
		c.forget(key)
		if has != nil && controller.Controls(service, Kind.GroupKind(), has) {
			return controller.Result{}, c.delete(ctx, service, has)
		}
		return controller.Result{}, nil
	case w.wrong != "" && (has == nil || has.Spec.ExternalNetwork != w.external): // nor is one deleted for another
		c.follow(service, chosen{settled: true})
		c.fail(service, w.wrong)
		return controller.Result{}, nil
	case has != nil && !controller.Controls(service, Kind.GroupKind(), has):
		c.follow(service, chosen{settled: true})
		if owner := controller.OwnerOf(has, Kind.GroupKind()); owner == nil || owner.Name != service.Name {
			c.fail(service, fmt.Sprintf("FloatingIP %s exists and is not this Service's: make the Service its owner to keep "+
				"its address (docs/floatingip.md), delete it, or rename one of the two", has.Name))
		} // otherwise it is that of an earlier Service, which goes
		return controller.Result{}, nil
	case has != nil && has.Spec.ExternalNetwork != w.external:
		c.follow(service, chosen{settled: true})
		return controller.Result{}, c.delete(ctx, service, has) // its end requeues the Service
	}
	if _, tooMany := service.Spec.Selector[TooManyLabels]; tooMany {
		w.wrong = fmt.Sprintf("spec.selector has more than %d labels: write fewer", MaxSelector)
	} else if len(service.Spec.Selector) == 0 {
		w.wrong = fmt.Sprintf("the Service selects no Pods, so no floating IP can be associated with one: set "+
			"spec.selector, or remove the annotation %s", cloudteamv1.AnnotationFloatingIP)
	}
	return controller.Result{}, c.lead(ctx, service, has, w)
}

// lead associates the FloatingIP of a Service with one of the Service's Pods. Without such a Pod it has no port, and
// its address stays. Before there was the first one, nobody knows in which cloud it has to be.
func (c *Controller) lead(
	ctx context.Context, service *corev1.Service, has *cloudteamv1.FloatingIP, w wish,
) error {
	key := cache.MetaObjectToName(service)
	now := ""
	if has != nil {
		now = has.Spec.PortName
		if has.DeletionTimestamp != nil {
			c.follow(service, chosen{settled: true})
			return nil // its end requeues the Service
		}
		if !c.expected.Met(key, has.UID, has.ResourceVersion) {
			return controller.ErrStale
		}
	}
	waited := c.waiting.Has(key)
	to := c.choose(service, has, w)
	c.follow(service, to)
	if !waited && c.waiting.Has(key) {
		c.Enqueue(key) // an event since the caches were read did not find it
	}
	if !to.found && c.moved(key, has) {
		return nil // ports were assigned by what the cache has now: that event has requeued the Service
	}
	if text := cmp.Or(w.wrong, to.why); !to.found && text != "" {
		c.fail(service, text)
	}
	if !to.found && (has == nil || now == "") {
		return nil
	}
	spec := cloudteamv1.FloatingIPSpec{ExternalNetwork: w.external, Address: w.address}
	if w.imported != "" {
		spec.Import = &cloudteamv1.FloatingIPImport{ID: w.imported}
	}
	if to.found {
		network, err := c.caches.Networks.Lister().Networks(key.Namespace).Get(to.port.Network().Name)
		if err != nil {
			return nil //nolint:nilerr // the Network is gone, and its ports go: an event follows
		}
		spec.PortName = to.port.Name
		spec.Cloud, spec.ClassName = controller.PlaceOf(network)
	} else {
		spec.Cloud, spec.ClassName = has.Spec.Cloud, has.Spec.ClassName
	}
	var err error
	if has == nil {
		err = c.create(ctx, service, spec)
	} else {
		err = c.update(ctx, key, has, spec)
	}
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) { // such as by a quota: there is no other place to say so
		c.fail(service, fmt.Sprintf("the FloatingIP cannot be written: %v", err))
	}
	if err != nil || has == nil {
		return err
	}
	if text := cmp.Or(w.wrong, w.another(has), stalled(has, spec)); text != "" && to.found {
		c.fail(service, text)
	} else if to.found && has.Status.Address != "" && has.Status.PortID == to.port.Status.PortID {
		c.sendEvent(service, corev1.EventTypeNormal, cloudteamv1.EventFloatingIPAssociated, fmt.Sprintf(
			"%s of external network %s is associated with Pod %s (NetworkPort %s)", has.Status.Address, w.external, to.pod.Name,
			to.port.Name))
	}
	return nil
}

// moved reports whether the cache now has another state of a Service's FloatingIP than the one that was read; nil for
// none.
func (c *Controller) moved(key cache.ObjectName, was *cloudteamv1.FloatingIP) bool {
	is, err := c.floating.FloatingIPs(key.Namespace).Get(key.Name)
	if err != nil {
		return was != nil
	}
	return was == nil || is.ResourceVersion != was.ResourceVersion
}

// stalled says what a FloatingIP says that does not go on by itself; "" if it does, or has been edited since.
func stalled(has *cloudteamv1.FloatingIP, spec cloudteamv1.FloatingIPSpec) string {
	condition := meta.FindStatusCondition(has.Status.Conditions, cloudteamv1.ConditionStalled)
	if condition == nil || condition.Status != metav1.ConditionTrue || condition.ObservedGeneration != has.Generation ||
		!sameLeadAndCloud(has.Spec, spec) {
		return ""
	}
	return fmt.Sprintf("FloatingIP %s is Stalled: %s: %s", has.Name, condition.Reason, condition.Message)
}

func (c *Controller) create(ctx context.Context, service *corev1.Service, spec cloudteamv1.FloatingIPSpec) error {
	key := cache.MetaObjectToName(service)
	if err := controller.CheckOwner(ctx, c.owners.Services(key.Namespace), Kind.Kind, service); err != nil {
		return err
	}
	obj := &cloudteamv1.FloatingIP{Spec: spec}
	obj.Namespace, obj.Name = key.Namespace, key.Name
	obj.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(service, Kind)}
	_, err := controller.CreateOwned(ctx, c.client.FloatingIPs(key.Namespace), "FloatingIP", key, obj, &c.expected)
	if errors.Is(err, controller.ErrTerminating) {
		return nil
	}
	if err == nil {
		klog.FromContext(ctx).Info("Created a FloatingIP for a Service", "port", spec.PortName)
	}
	return err
}

// sameLeadAndCloud reports whether two specs say the same of what the controller writes in a FloatingIP that exists.
func sameLeadAndCloud(was, is cloudteamv1.FloatingIPSpec) bool {
	return was.PortName == is.PortName && was.ClassName == is.ClassName && equality.Semantic.DeepEqual(was.Cloud, is.Cloud)
}

// update corrects where a FloatingIP leads, and by whose credentials. All other fields are the user's.
func (c *Controller) update(
	ctx context.Context, key cache.ObjectName, has *cloudteamv1.FloatingIP, spec cloudteamv1.FloatingIPSpec,
) error {
	if sameLeadAndCloud(has.Spec, spec) {
		return nil
	}
	unset := func(text string) any {
		if text == "" {
			return nil
		}
		return text
	}
	var cloud any
	if spec.Cloud != nil { // a merge patch would keep a name that is left out
		cloud = map[string]any{"secretName": spec.Cloud.SecretName, "name": unset(spec.Cloud.Name)}
	}
	body := map[string]any{"spec": map[string]any{
		"portName": unset(spec.PortName), "className": unset(spec.ClassName), "cloud": cloud,
	}}
	written, err := controller.PatchAsRead(ctx, c.client.FloatingIPs(key.Namespace).Patch, types.MergePatchType,
		controller.FieldManager, has, body)
	if err != nil {
		return fmt.Errorf("updating FloatingIP %q: %w", has.Name, err)
	}
	c.expected.Written(key, written.UID, written.ResourceVersion)
	klog.FromContext(ctx).Info("Associated the FloatingIP of a Service with another port", "port", spec.PortName)
	return nil
}

// delete gives up an address, which does not come back. So it first reads the Service: the cache of a new leader may
// show what it asked for earlier.
func (c *Controller) delete(ctx context.Context, service *corev1.Service, has *cloudteamv1.FloatingIP) error {
	key := cache.MetaObjectToName(service)
	if has.DeletionTimestamp != nil {
		return nil
	}
	if !c.expected.Met(key, has.UID, has.ResourceVersion) {
		return controller.ErrStale
	}
	live, err := controller.Live(ctx, c.owners.Services(key.Namespace), Kind.Kind, key.Name)
	if err != nil {
		return err
	}
	asks, askedFor := "", service.Annotations[cloudteamv1.AnnotationFloatingIP]
	if live != nil {
		asks = live.Annotations[cloudteamv1.AnnotationFloatingIP]
	}
	if live == nil || live.UID != service.UID || asks != askedFor {
		return controller.ErrStale
	}
	err = controller.DeleteAsRead(ctx, c.client.FloatingIPs(key.Namespace).Delete, "FloatingIP", has)
	if err != nil {
		return err
	}
	klog.FromContext(ctx).Info("Deleted the FloatingIP of a Service that asks for none of that external network")
	return nil
}

// fail tells why a Service's floating IP is associated with no Pod.
func (c *Controller) fail(service *corev1.Service, text string) {
	c.sendEvent(service, corev1.EventTypeWarning, cloudteamv1.EventFloatingIPFailed, text)
}

// sendEvent sends an Event about a Service, once for the same text.
func (c *Controller) sendEvent(service *corev1.Service, kind, reason, text string) {
	if was, _ := c.told.Swap(cache.MetaObjectToName(service), text); was != text {
		c.recorder.Event(consumer.Reference(Kind, service), kind, reason, text)
	}
}

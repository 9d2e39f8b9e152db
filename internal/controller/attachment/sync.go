package attachment

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// sync reconciles the NetworkAttachmentDefinition of one Network. It is level-triggered: it acts on the state in the
// caches.
//
// It creates and updates the object only while the Network is Ready. The status of a Network that is not Ready may lack
// its MTU, and Neutron may refuse its spec. Otherwise an existing object stays, for the Pods that use it.
func (c *Controller) sync(ctx context.Context, key cache.ObjectName) error {
	network, exists := controller.Cached[*cloudteamv1.Network](c.networks, key)
	switch {
	case !exists:
		// The Network owns the NetworkAttachmentDefinition, so garbage collection deletes it.
		c.expected.Forget(key)
		c.complaints.Delete(key)
		return nil
	case controller.TooLarge(network):
		return nil // the cache lacks its routes
	case network.DeletionTimestamp != nil:
		// A foreground deletion deletes it before the Network. A new one would block the deletion of both.
		return nil
	}
	config, err := config(network, c.options)
	if err != nil {
		return err
	}
	version := c.store.LastStoreSyncResourceVersion() // read before the cache: see CaughtUp
	attachment, exists := controller.Cached[*unstructured.Unstructured](c.store, key)
	switch {
	case !exists && !c.expected.CaughtUp(key, version),
		exists && !c.expected.Met(key, attachment.GetUID(), attachment.GetResourceVersion()):
		return controller.ErrStale
	case !exists && isReady(network):
		return c.create(ctx, key, network, config)
	case exists && !controller.Controls(network, networkKind.GroupKind(), attachment):
		// The event of its change or deletion requeues the key. A forged owner does not make it ours.
		c.taken(key, network, attachment)
		return nil
	case exists && attachment.GetDeletionTimestamp() == nil && isReady(network) && !isDesired(attachment, config):
		return c.putBack(ctx, key, network, attachment, config)
	}
	c.complaints.Delete(key)
	return nil
}

// objects adapts the objects of one kind and namespace to controller.CreateOwned.
type objects struct{ client dynamic.ResourceInterface }

func (o objects) Get(
	ctx context.Context, name string, opts metav1.GetOptions,
) (*unstructured.Unstructured, error) {
	return o.client.Get(ctx, name, opts)
}

func (o objects) Create(
	ctx context.Context, obj *unstructured.Unstructured, opts metav1.CreateOptions,
) (*unstructured.Unstructured, error) {
	return o.client.Create(ctx, obj, opts)
}

// create creates the Network's NetworkAttachmentDefinition.
func (c *Controller) create(
	ctx context.Context, key cache.ObjectName, network *cloudteamv1.Network, config string,
) error {
	var created *unstructured.Unstructured
	err := controller.CheckOwner(ctx, objects{c.client.Resource(networkResource).Namespace(key.Namespace)},
		networkKind.Kind, network)
	if err == nil {
		created, err = controller.CreateOwned(ctx, objects{c.client.Resource(Resource).Namespace(key.Namespace)},
			Kind.Kind, key, desired(network, config), &c.expected)
	}
	return c.written(ctx, key, network, created, err, config, cloudteamv1.EventAttachmentCreated, "Created")
}

// putBack corrects drift. It writes only the configuration and the label. The write fails if the object changed since
// it was read, because it may have another owner by now.
func (c *Controller) putBack(
	ctx context.Context, key cache.ObjectName, network *cloudteamv1.Network, attachment *unstructured.Unstructured,
	config string,
) error {
	updated, err := controller.PatchAsRead(ctx, c.client.Resource(Resource).Namespace(key.Namespace).Patch,
		types.MergePatchType, controller.FieldManager, attachment, map[string]any{
			"metadata": map[string]any{"labels": map[string]string{LabelManagedBy: controller.FieldManager}},
			"spec":     map[string]any{"config": config},
		})
	if err != nil {
		err = fmt.Errorf("updating NetworkAttachmentDefinition %q: %w", key.Name, err)
	}
	return c.written(ctx, key, network, updated, err, config, cloudteamv1.EventAttachmentUpdated, "Updated")
}

// written records the result of a write and sends its Event. An answer that differs from the request is an error,
// because an immediate retry would never end.
func (c *Controller) written(
	ctx context.Context, key cache.ObjectName, network *cloudteamv1.Network, answer *unstructured.Unstructured,
	err error, config, reason, verb string,
) error {
	if errors.Is(err, controller.ErrStale) || errors.Is(err, controller.ErrTerminating) {
		return err
	}
	if err == nil {
		c.expected.Written(key, answer.GetUID(), answer.GetResourceVersion())
		if !isDesired(answer, config) {
			err = fmt.Errorf("NetworkAttachmentDefinition %q changes while it is written: find the admission webhook that "+
				"does so, and exempt objects with the label %s=%s from it", key.Name, LabelManagedBy, controller.FieldManager)
		}
	}
	if err != nil {
		c.complain(key, network, "", cloudteamv1.EventAttachmentFailed, err.Error()+". Retrying with backoff.")
		return err
	}
	message := fmt.Sprintf("%s NetworkAttachmentDefinition %q", verb, key.Name)
	klog.FromContext(ctx).Info("Applied", "step", message)
	c.recorder.Event(network, corev1.EventTypeNormal, reason, message)
	c.complaints.Delete(key)
	return nil
}

// complaint identifies a Warning Event. The Event is sent when the problem begins, and again after a restart.
type complaint struct {
	// network is the Network. attachment is the NetworkAttachmentDefinition that blocks it, if any.
	network, attachment types.UID
	reason              string
}

// complain sends a Warning Event about a Network, unless it already sent one for the same complaint.
func (c *Controller) complain(
	key cache.ObjectName, network *cloudteamv1.Network, attachment types.UID, reason, message string,
) {
	begun := complaint{network.UID, attachment, reason}
	if was, _ := c.complaints.Swap(key, begun); was != begun {
		c.recorder.Event(network, corev1.EventTypeWarning, reason, message)
	}
}

// taken reports that another owner has a NetworkAttachmentDefinition with the Network's name.
func (c *Controller) taken(
	key cache.ObjectName, network *cloudteamv1.Network, attachment *unstructured.Unstructured,
) {
	if isOfNetwork(attachment) {
		// It belongs to an earlier Network of the same name. Garbage collection deletes it.
		c.complaints.Delete(key)
		return
	}
	whose := "nobody controls it"
	if owner := metav1.GetControllerOfNoCopy(attachment); owner != nil {
		whose = fmt.Sprintf("%.63s %.253q controls it", owner.Kind, owner.Name)
	}
	c.complain(key, network, attachment.GetUID(), cloudteamv1.EventAttachmentExists, fmt.Sprintf(
		"NetworkAttachmentDefinition %q exists and is not this Network's (%s); Pods that declare the name are not "+
			"plugged into this network: delete it, or create one of the two again under another name", key.Name, whose))
}

package attachment

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// behindPause is how long a sync waits for a cache that is behind the API server. As a rule an event ends the wait
// before. There is none where the object came and went between two lists.
const behindPause = time.Second

// behind is the result of a sync that a cache showed less than the API server has.
var behind = controller.Result{RequeueAfter: behindPause}

// sync makes the NetworkAttachmentDefinition of one Network as the Network declares. It acts on what the caches hold
// now, whatever put the key on the queue.
//
// It is made when the Network is Ready, and follows it while it is: the status of one that is not may have lost its
// MTU, and its spec may be one that Neutron refuses. What is there meanwhile stays, for the Pods that are plugged.
func (c *Controller) sync(ctx context.Context, key cache.ObjectName) (controller.Result, error) {
	network, err := c.lister.Networks(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		// The NetworkAttachmentDefinition bears the Network as its owner: garbage collection removes it.
		c.expected.Forget(key)
		c.settle(key)
		return controller.Result{}, nil
	}
	if err != nil {
		return controller.Result{}, err
	}
	if network.DeletionTimestamp != nil {
		// Garbage collection may be removing it before the Network. To create it anew would hold both up.
		return controller.Result{}, nil
	}
	config, err := config(network, c.options)
	if err != nil {
		return controller.Result{}, err
	}
	// Read before the store is: what the store does not hold then, it did not hold at this version.
	version := c.store.LastStoreSyncResourceVersion()
	attachment, err := c.get(key)
	switch {
	case err != nil:
		return controller.Result{}, err
	case attachment == nil && !c.expected.MetWithout(key, version),
		attachment != nil && !c.expected.Met(key, attachment.GetUID(), attachment.GetResourceVersion()):
		return behind, nil
	case attachment == nil && isReady(network):
		return c.create(ctx, key, network, config)
	case attachment != nil && !metav1.IsControlledBy(attachment, network):
		// The event of its end, or of its change, brings the key back.
		c.taken(key, network, attachment)
		return controller.Result{}, nil
	case attachment != nil && attachment.GetDeletionTimestamp() == nil && isReady(network) &&
		!isDesired(attachment, config):
		return c.putBack(ctx, key, network, attachment, config)
	}
	c.settle(key)
	return controller.Result{}, nil
}

// create creates the Network's NetworkAttachmentDefinition.
func (c *Controller) create(
	ctx context.Context, key cache.ObjectName, network *cloudteamv1.Network, config string,
) (controller.Result, error) {
	// The one read that is not from a cache: who deletes a Network in the foreground has its NetworkAttachmentDefinition
	// deleted, too, and the cache of Networks may hear of it later than the other.
	live, err := c.client.Resource(networkResource).Namespace(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) || err == nil && (live.GetUID() != network.UID || live.GetDeletionTimestamp() != nil):
		return behind, nil
	case err != nil:
		return c.failed(key, network,
			fmt.Errorf("reading the Network before creating NetworkAttachmentDefinition %q: %w", key.Name, err))
	}
	client := c.client.Resource(Resource).Namespace(key.Namespace)
	created, err := client.Create(ctx, desired(network, config),
		metav1.CreateOptions{FieldManager: controller.FieldManager})
	switch {
	case apierrors.IsAlreadyExists(err):
		// The cache is behind: of somebody else's create, or of one of ours whose answer was lost. Whose it is can wait
		// until the cache shows it.
		existing, err := client.Get(ctx, key.Name, metav1.GetOptions{})
		if err == nil {
			c.expected.Written(key, existing.GetUID(), existing.GetResourceVersion())
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return c.failed(key, network, fmt.Errorf("reading NetworkAttachmentDefinition %q: %w", key.Name, err))
		}
		return behind, nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		// The Network goes with its namespace.
		return controller.Result{}, nil
	case err != nil:
		return c.failed(key, network, fmt.Errorf("creating NetworkAttachmentDefinition %q: %w", key.Name, err))
	}
	return c.written(ctx, key, network, created, config, cloudteamv1.EventAttachmentCreated,
		fmt.Sprintf("Created NetworkAttachmentDefinition %q", key.Name))
}

// putBack writes the configuration and the label of a NetworkAttachmentDefinition of the Network's. It writes those two
// alone, and only while the object is the one that was read: it may be somebody else's by now.
func (c *Controller) putBack(
	ctx context.Context, key cache.ObjectName, network *cloudteamv1.Network, attachment *unstructured.Unstructured,
	config string,
) (controller.Result, error) {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{
			"uid": attachment.GetUID(), "resourceVersion": attachment.GetResourceVersion(),
			"labels": map[string]string{LabelManagedBy: controller.FieldManager},
		},
		"spec": map[string]any{"config": config},
	})
	if err != nil {
		return controller.Result{}, err
	}
	updated, err := c.client.Resource(Resource).Namespace(key.Namespace).Patch(ctx, key.Name,
		types.MergePatchType, patch, metav1.PatchOptions{FieldManager: controller.FieldManager})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return behind, nil
	}
	if err != nil {
		return c.failed(key, network, fmt.Errorf("updating NetworkAttachmentDefinition %q: %w", key.Name, err))
	}
	return c.written(ctx, key, network, updated, config, cloudteamv1.EventAttachmentUpdated,
		fmt.Sprintf("Updated NetworkAttachmentDefinition %q", key.Name))
}

// written notes a write and tells of it. An answer that is not what was asked for is a failure: to write it again at
// once would go on for ever.
func (c *Controller) written(
	ctx context.Context, key cache.ObjectName, network *cloudteamv1.Network, answer *unstructured.Unstructured,
	config, reason, message string,
) (controller.Result, error) {
	c.expected.Written(key, answer.GetUID(), answer.GetResourceVersion())
	if !isDesired(answer, config) {
		return c.failed(key, network, fmt.Errorf("NetworkAttachmentDefinition %q is changed while it is written: look "+
			"for an admission webhook that does so, and have it leave objects with the label %s=%s alone",
			key.Name, LabelManagedBy, controller.FieldManager))
	}
	klog.FromContext(ctx).Info("Applied", "step", message)
	c.recorder.Event(network, corev1.EventTypeNormal, reason, message)
	c.settle(key)
	return controller.Result{}, nil
}

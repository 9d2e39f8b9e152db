// Package attachment is the controller of NetworkAttachmentDefinitions. For each Network that has become Ready, it
// keeps one with the Network's namespace and name. Multus uses it to connect Pods to the network.
//
// NetworkAttachmentDefinition is a kind of the Kubernetes Network Plumbing Working Group's "Kubernetes Network Custom
// Resource Definition De-facto Standard". Clusters without Multus do not serve it. The caller waits until one does.
package attachment

import (
	"context"
	"errors"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/declare"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions/cloudteam/v1"
)

// Name is the controller's name in --controllers, in logs and in metrics.
const Name = "attachment"

// Resource is the API resource of NetworkAttachmentDefinitions, and Kind the kind of their objects, by the De-facto
// Standard, section 3.1.
var (
	Resource = schema.GroupVersionResource{
		Group: "k8s.cni.cncf.io", Version: "v1", Resource: "network-attachment-definitions",
	}
	Kind = Resource.GroupVersion().WithKind("NetworkAttachmentDefinition")
)

// networkKind is the synced kind, and networkResource its API resource.
var (
	networkKind     = cloudteamv1.SchemeGroupVersion.WithKind("Network")
	networkResource = cloudteamv1.SchemeGroupVersion.WithResource("networks")
)

// Controller syncs Networks with NetworkAttachmentDefinitions. Make it with NewController.
type Controller struct {
	*controller.Loop

	client   dynamic.Interface
	networks cache.Store
	store    cache.Store // of NetworkAttachmentDefinitions
	recorder record.EventRecorder
	options  Options
	// expected has the last NetworkAttachmentDefinition written or found, by the Network's key.
	expected controller.Expectations
	// complaints has the current complaint of each key, for which a Warning Event was sent.
	complaints sync.Map
}

// NewController makes a controller that watches the informers. attachments is the informer of Resource in a
// dynamicinformer factory of the same client. Both informers may already run. Options that no node can apply are an
// error. The controller does nothing before Run.
func NewController(
	client dynamic.Interface, attachments kubeinformers.GenericInformer, networks informers.NetworkInformer,
	recorder record.EventRecorder, options Options,
) (*Controller, error) {
	if err := options.Validate(); err != nil {
		return nil, err
	}
	informer := attachments.Informer()
	c := &Controller{
		client:   client,
		networks: networks.Informer().GetStore(),
		store:    informer.GetStore(),
		recorder: recorder,
		options:  options,
	}
	c.Loop = controller.NewLoop(Name, func(ctx context.Context, key cache.ObjectName) (controller.Result, error) {
		return controller.Result{}, c.sync(ctx, key)
	})
	return c, errors.Join(
		c.Watch(networks.Informer(), controller.HandlerOfPart(c.Loop, controller.KeyOf, sameForAttachment)),
		c.Watch(informer, c.HandlerOf(c.keysOf)))
}

// Has reports whether a NetworkAttachmentDefinition of the name exists that does not belong to a Network of that name.
// Somebody else created it, and a Pod that declares the name may mean it. Has reads the cache, which is empty before
// HasSynced. It is safe for concurrent use.
func (c *Controller) Has(namespace, name string) bool {
	attachment, exists := controller.Cached[*unstructured.Unstructured](c.store, cache.NewObjectName(namespace, name))
	return exists && !isOfNetwork(attachment)
}

// keysOf returns the Network of a NetworkAttachmentDefinition's name, if it exists. A cluster may have many
// NetworkAttachmentDefinitions without a Network.
func (c *Controller) keysOf(attachment metav1.Object) []cache.ObjectName {
	key := cache.MetaObjectToName(attachment)
	if _, exists := controller.Cached[*cloudteamv1.Network](c.networks, key); !exists {
		return nil
	}
	return []cache.ObjectName{key}
}

// isOfNetwork reports whether a Network of its name controls a NetworkAttachmentDefinition. If that Network is deleted,
// garbage collection deletes the NetworkAttachmentDefinition.
func isOfNetwork(attachment *unstructured.Unstructured) bool {
	owner := controller.OwnerOf(attachment, networkKind.GroupKind())
	return owner != nil && owner.Name == attachment.GetName()
}

// sameForAttachment reports whether an update of a Network leaves its NetworkAttachmentDefinition unchanged. Audits
// that count used addresses update the status, but change nothing here.
func sameForAttachment(was, is *cloudteamv1.Network) bool {
	return was.Generation == is.Generation && was.DeletionTimestamp.Equal(is.DeletionTimestamp) &&
		isReady(was) == isReady(is) && was.Status.MTU == is.Status.MTU &&
		slices.Equal(declare.Reached(was), declare.Reached(is))
}

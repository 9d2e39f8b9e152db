// Package attachment is the controller of NetworkAttachmentDefinitions. For each Network that has become Ready, it
// keeps one with the Network's namespace and name. Multus uses it to connect Pods to the network.
//
// NetworkAttachmentDefinition is a kind of the Kubernetes Network Plumbing Working Group's "Kubernetes Network Custom
// Resource Definition De-facto Standard". Clusters without Multus do not serve it. The caller waits until one does.
package attachment

import (
	"context"
	"errors"
	"fmt"
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
	listers "cloudteam.ztgame.com/network-controller/pkg/client/listers/cloudteam/v1"
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
	lister   listers.NetworkLister
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
		lister:   networks.Lister(),
		store:    informer.GetStore(),
		recorder: recorder,
		options:  options,
	}
	c.Loop = controller.NewLoop(Name, func(ctx context.Context, key cache.ObjectName) (controller.Result, error) {
		return controller.Result{}, c.sync(ctx, key)
	})
	return c, errors.Join(
		c.Watch(networks.Informer(), networkHandler(c.Loop)), c.Watch(informer, c.HandlerOf(c.keysOf)))
}

// Has reports whether a NetworkAttachmentDefinition of the name exists that does not belong to a Network of that name.
// Somebody else created it, and a Pod that declares the name may mean it. Has reads the cache, which is empty before
// HasSynced. It is safe for concurrent use.
func (c *Controller) Has(namespace, name string) bool {
	attachment, err := c.get(cache.NewObjectName(namespace, name))
	return err == nil && attachment != nil && !isOfNetwork(attachment)
}

// get returns a NetworkAttachmentDefinition from the cache, or nil. It MUST NOT be changed.
func (c *Controller) get(key cache.ObjectName) (*unstructured.Unstructured, error) {
	obj, exists, err := c.store.GetByKey(key.String())
	if err != nil || !exists {
		return nil, err
	}
	attachment, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("%T is no NetworkAttachmentDefinition", obj)
	}
	return attachment, nil
}

// keysOf returns the Network of a NetworkAttachmentDefinition's name, if it exists. A cluster may have many
// NetworkAttachmentDefinitions without a Network.
func (c *Controller) keysOf(attachment metav1.Object) []cache.ObjectName {
	key := cache.MetaObjectToName(attachment)
	if _, err := c.lister.Networks(key.Namespace).Get(key.Name); err != nil {
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

// networkHandler returns the event handlers for Networks.
func networkHandler(l *controller.Loop) cache.ResourceEventHandler {
	return controller.HandlerOfPart(l, controller.KeyOf, sameForAttachment)
}

// sameForAttachment reports whether an update of a Network leaves its NetworkAttachmentDefinition unchanged. Audits
// that count used addresses update the status, but change nothing here.
func sameForAttachment(was, is *cloudteamv1.Network) bool {
	return was.Generation == is.Generation && was.DeletionTimestamp.Equal(is.DeletionTimestamp) &&
		isReady(was) == isReady(is) && was.Status.MTU == is.Status.MTU &&
		slices.Equal(declare.Reached(was), declare.Reached(is))
}

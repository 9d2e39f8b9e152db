// Package attachment is the controller of NetworkAttachmentDefinitions: it keeps, for each Network that has become
// Ready, one of the Network's namespace and name, by which Multus plugs Pods into the network.
//
// NetworkAttachmentDefinition is the kind of the Kubernetes Network Plumbing Working Group's "Kubernetes Network Custom
// Resource Definition De-facto Standard". Clusters without Multus do not know it: AwaitCRD waits until one does.
package attachment

import (
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions/cloudteam/v1"
	listers "cloudteam.ztgame.com/network-controller/pkg/client/listers/cloudteam/v1"
)

// Name is the controller's name in --controllers, in logs and in metrics.
const Name = "attachment"

// Resource is what the API server serves NetworkAttachmentDefinitions under, and Kind what their objects say of
// themselves, by the De-facto Standard, section 3.1.
var (
	Resource = schema.GroupVersionResource{
		Group: "k8s.cni.cncf.io", Version: "v1", Resource: "network-attachment-definitions",
	}
	Kind = Resource.GroupVersion().WithKind("NetworkAttachmentDefinition")
)

// networkKind is the kind that is synced, and networkResource what it is served under.
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
	// expected is the last NetworkAttachmentDefinition that was written or found to exist, by the Network's key.
	expected controller.Expectations

	mu sync.Mutex
	// complaints are what Warning Events have been sent about and is still so.
	complaints map[cache.ObjectName]complaint
}

// NewController makes a controller that watches the informers. attachments is that of Resource, in a
// dynamicinformer factory of the same client. Both may run already. Options that no node could follow are an error.
// Nothing runs before Run.
func NewController(
	client dynamic.Interface, attachments kubeinformers.GenericInformer, networks informers.NetworkInformer,
	recorder record.EventRecorder, options Options,
) (*Controller, error) {
	if err := options.Validate(); err != nil {
		return nil, err
	}
	informer := attachments.Informer()
	c := &Controller{
		client:     client,
		lister:     networks.Lister(),
		store:      informer.GetStore(),
		recorder:   recorder,
		options:    options,
		complaints: map[cache.ObjectName]complaint{},
	}
	c.Loop = controller.NewLoop(Name, c.sync)

	if err := c.Watch(networks.Informer(), networkHandler(c.Loop)); err != nil {
		return nil, err
	}
	return c, c.Watch(informer, c.HandlerOf(c.keysOf))
}

// Has reports whether there is a NetworkAttachmentDefinition of the name that is none of a Network's of that name: one
// that somebody else made, and that a Pod which declares the name may mean. It tells what the cache holds, which is
// nothing before HasSynced. It is safe for concurrent use.
func (c *Controller) Has(namespace, name string) bool {
	attachment, err := c.get(cache.NewObjectName(namespace, name))
	return err == nil && attachment != nil && !isOfNetwork(attachment)
}

// get gives a NetworkAttachmentDefinition from the cache, nil where there is none. It MUST NOT be changed.
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

// keysOf names the Network that a NetworkAttachmentDefinition concerns: the one of its name, if there is one. A cluster
// may hold many that have nothing to do with Networks.
func (c *Controller) keysOf(attachment metav1.Object) []cache.ObjectName {
	key := cache.MetaObjectToName(attachment)
	if _, err := c.lister.Networks(key.Namespace).Get(key.Name); err != nil {
		return nil
	}
	return []cache.ObjectName{key}
}

// isOfNetwork reports whether a Network of its name controls a NetworkAttachmentDefinition, or did before it was
// deleted: garbage collection removes it then.
func isOfNetwork(attachment *unstructured.Unstructured) bool {
	owner := metav1.GetControllerOfNoCopy(attachment)
	if owner == nil || owner.Kind != networkKind.Kind || owner.Name != attachment.GetName() {
		return false
	}
	version, err := schema.ParseGroupVersion(owner.APIVersion)
	return err == nil && version.Group == networkKind.Group
}

// networkHandler gives the event handlers for Networks.
func networkHandler(l *controller.Loop) cache.ResourceEventHandler {
	key := func(network metav1.Object) []cache.ObjectName {
		return []cache.ObjectName{cache.MetaObjectToName(network)}
	}
	return controller.HandlerOfPart(l, key, sameForAttachment)
}

// sameForAttachment reports whether two states of a Network are the same to its NetworkAttachmentDefinition. The status
// is written after each audit that counts other addresses, which move nothing of it.
func sameForAttachment(was, is *cloudteamv1.Network) bool {
	return was.Generation == is.Generation && was.DeletionTimestamp.Equal(is.DeletionTimestamp) &&
		isReady(was) == isReady(is) && was.Status.MTU == is.Status.MTU
}

// Package portbinding is the controller of where ports are. When a Pod with ports is scheduled to a node with a data
// plane, it has Neutron expect each port on that node (Neutron calls this the port's binding), and then writes
// status.attachment. The agent of the node waits for that, plugs the Pod's interface, and reports it in the condition
// Attached.
//
// The binding comes before the plug: OVN leaves a port DOWN that is bound later.
package portbinding

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	portclient "cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/typed/cloudteam/v1"
)

// Name is the controller's name in --controllers, in logs and in metrics.
const Name = "portbinding"

// Clouds reach Neutron. They are safe for concurrent use.
type Clouds interface {
	// Attach has Neutron expect a port where at says, and fills in what Neutron chooses. In the mode trunk, parent is the
	// parent of the node's trunk. It changes nothing for a port that is there already. The error is ErrForbidden if the
	// credentials may not, and ErrInTrunk if another trunk has the port. It is ErrNotYet if the port's cloud is not known
	// yet; then it is called again after a moment.
	Attach(
		ctx context.Context, port *cloudteamv1.NetworkPort, at *cloudteamv1.PortAttachment, parent inventory.Parent,
	) error
	// Verify reports whether an attached port is still where at says, by a read. It reports true for one that does not
	// exist any more: then it had the port's own controller make it again.
	Verify(ctx context.Context, port *cloudteamv1.NetworkPort, at *cloudteamv1.PortAttachment) (bool, error)
	// Detach takes the port with an id out of the trunks of the parents, if one has it. Neutron does not delete it before.
	Detach(ctx context.Context, port *cloudteamv1.NetworkPort, portID string, parents ...inventory.Parent) error
}

var (
	// ErrForbidden is the error of credentials without the right to attach ports.
	ErrForbidden = errors.New("the credentials may not bind ports")
	// ErrInTrunk says that a trunk has the port, which another place wants.
	ErrInTrunk = errors.New("the port is in another trunk")
	// ErrNotYet says that the cloud of a port is not known yet.
	ErrNotYet = errors.New("the port's cloud is not known yet")
	// errDisputed says that two Nodes have one trunk.
	errDisputed = errors.New("another Node says that the same port is the parent of its trunk")
	// errNoID says that a Node names its trunk's parent by something that is no id.
	errNoID = errors.New("what the Node says is the id of its trunk's parent port is no id")
)

// Controller syncs NetworkPorts with the nodes of their Pods. Make it with NewController.
type Controller struct {
	*controller.Loop

	client   portclient.NetworkPortsGetter
	caches   *consumer.Caches
	nodes    cache.Store
	clouds   Clouds
	recorder record.EventRecorder
	// expected is the last write to each port, by its key.
	expected controller.Expectations
	doubts   doubts
}

// NewController makes a controller that watches the informers of the caches. nodes is an informer of the metadata of
// Nodes. The controller does nothing before Run.
func NewController(
	client portclient.NetworkPortsGetter, caches *consumer.Caches, nodes cache.SharedInformer, clouds Clouds,
	recorder record.EventRecorder,
) (*Controller, error) {
	c := &Controller{client: client, caches: caches, nodes: nodes.GetStore(), clouds: clouds, recorder: recorder}
	c.Loop = controller.NewLoop(Name, c.sync)
	return c, errors.Join(
		controller.IndexPorts(caches.Ports.Informer()),
		caches.Ports.Informer().AddIndexers(cache.Indexers{indexAttached: controller.IndexBy(byUIDOfAttached)}),
		c.Watch(caches.Ports.Informer(), controller.HandlerOfPart(c.Loop, keyOfUsed, sameToBind)),
		c.Watch(caches.Pods.Informer(), controller.HandlerOfPart(c.Loop, c.keysOfPod, samePlace)),
		c.Watch(nodes, controller.HandlerOfMany(c.Loop, nodeOf, c.keysOfNode, sameDataplane)),
	)
}

// keyOfUsed skips the ports that nothing uses, and never did, unless Neutron does not delete them.
func keyOfUsed(object metav1.Object) []cache.ObjectName {
	port, known := object.(*cloudteamv1.NetworkPort)
	if known && port.Status.BoundTo == nil && port.Status.Attachment == nil && port.Status.Standby == nil &&
		!cannotBeDeleted(port) {
		return nil
	}
	return controller.KeyOf(object)
}

// sameToBind reports whether two states of a port are the same for its binding.
func sameToBind(was, is *cloudteamv1.NetworkPort) bool {
	return was.Status.PortID == is.Status.PortID && equality.Semantic.DeepEqual(was.Status.BoundTo, is.Status.BoundTo) &&
		equality.Semantic.DeepEqual(was.Status.Attachment, is.Status.Attachment) &&
		equality.Semantic.DeepEqual(was.Status.Standby, is.Status.Standby) && failureOf(was) == failureOf(is) &&
		cannotBeDeleted(was) == cannotBeDeleted(is)
}

// keysOfPod names the ports that are bound to a Pod, of which most Pods of a cluster have none, and those of its
// virtual machine.
func (c *Controller) keysOfPod(pod metav1.Object) []cache.ObjectName {
	ports := c.caches.PortsBoundTo(cache.MetaObjectToName(pod))
	if slot, ok := consumer.MachineOf(pod); ok {
		ports = append(ports, c.caches.PortsOfSlot(slot.Key())...)
	}
	return controller.KeysOf(ports)
}

// samePlace reports whether two states of a Pod are the same for where its ports belong.
func samePlace(was, is *corev1.Pod) bool {
	return was.Spec.NodeName == is.Spec.NodeName && consumer.Ended(was) == consumer.Ended(is) &&
		consumer.Allocated(was) == consumer.Allocated(is) && was.DeletionTimestamp.Equal(is.DeletionTimestamp)
}

func nodeOf(node metav1.Object) []string { return []string{node.GetName()} }

// keysOfNode names the ports of a Node's Pods.
func (c *Controller) keysOfNode(node string) []cache.ObjectName {
	return controller.KeysOf(c.caches.PortsOnNode(node))
}

// sameDataplane reports whether two states of a Node are the same for its ports. Its status is written every few
// seconds in some clusters.
func sameDataplane(was, is *metav1.PartialObjectMetadata) bool {
	return dataplaneOf(was) == dataplaneOf(is)
}

package portbinding

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// manager owns status.attachment of NetworkPorts in metadata.managedFields. The agents own the condition Attached while
// they write it.
const manager = controller.FieldManager + "-" + Name

// sync brings one port to the node of its Pod. It is level-triggered: it acts on the state in the caches.
//
// The process may crash after the binding. The next one binds again, which changes nothing in Neutron. If the Pod ended
// meanwhile, nothing says any more that the port is in a trunk. Neutron then refuses to delete the port, or to add it
// to another trunk. Each refusal leads to a search of the nodes' trunks.
func (c *Controller) sync(ctx context.Context, key cache.ObjectName) (controller.Result, error) {
	port := c.caches.Port(key)
	switch {
	case port == nil:
		c.expected.Forget(key)
		c.doubts.forget(key, true)
		return controller.Result{}, nil
	case !c.expected.Met(key, port.UID, port.ResourceVersion):
		// The cache is older than our last write. The event that updates the cache requeues the key.
		return controller.Result{}, nil
	}
	if next := c.standby(port); !equality.Semantic.DeepEqual(next, port.Status.Standby) {
		return controller.Result{}, c.patch(ctx, key, port, map[string]any{"standby": next})
	}
	wanted, is := c.wanted(port), port.Status.Attachment
	if wanted == nil {
		c.doubts.forget(key, false)
	}
	switch {
	case wanted == nil && is == nil && cannotBeDeleted(port):
		return controller.Result{}, notYetIsStale(c.clouds.Detach(ctx, port, port.Status.PortID, c.parents()...))
	case wanted == nil && is == nil:
		return controller.Result{}, nil
	case wanted != nil && is != nil && satisfies(is, wanted):
		return c.verify(ctx, key, port, wanted)
	case is != nil && is.Mode == cloudteamv1.AttachmentTrunk &&
		(wanted == nil || wanted.Mode != is.Mode || wanted.Node != is.Node):
		// The next trunk does not take it before. If the node only names its trunk in another way, the port stays there.
		if err := c.clouds.Detach(ctx, port, is.PortID, parentOf(is)); err != nil {
			return controller.Result{}, notYetIsStale(err)
		}
	}
	if wanted == nil {
		return controller.Result{}, c.write(ctx, key, port, nil, nil)
	}
	return controller.Result{}, c.attach(ctx, key, port, wanted)
}

// notYetIsStale has a port whose cloud is not known yet synced again after a moment.
func notYetIsStale(err error) error {
	if errors.Is(err, ErrNotYet) {
		return controller.ErrStale
	}
	return err
}

// cannotBeDeleted reports whether Neutron keeps a port that nothing uses: it may be in a trunk.
func cannotBeDeleted(port *cloudteamv1.NetworkPort) bool {
	ready := meta.FindStatusCondition(port.Status.Conditions, cloudteamv1.ConditionReady)
	return port.DeletionTimestamp != nil && port.Status.BoundTo == nil && port.Status.PortID != "" &&
		ready != nil && ready.Reason == cloudteamv1.ReasonInUse
}

// parents are those of the nodes' trunks. No other trunk is ours to change.
func (c *Controller) parents() (parents []inventory.Parent) {
	for _, node := range controller.All[*metav1.PartialObjectMetadata](c.nodes) {
		if on := dataplaneOf(node); on.parent != (inventory.Parent{}) {
			parents = append(parents, on.parent)
		}
	}
	return parents
}

// parentOf is the parent of the trunk of an attachment.
func parentOf(at *cloudteamv1.PortAttachment) inventory.Parent {
	return inventory.Parent{PortID: at.ParentPortID, MAC: at.ParentMAC}
}

// rival is another Node whose trunk has the same parent as a wanted attachment, or empty. Root on a node can have its
// agent name the port of another one.
func (c *Controller) rival(wanted *cloudteamv1.PortAttachment) string {
	on, _ := c.dataplaneOn(wanted.Node)
	if on.parent == (inventory.Parent{}) {
		return ""
	}
	for _, node := range controller.All[*metav1.PartialObjectMetadata](c.nodes) {
		if node.Name != wanted.Node && dataplaneOf(node).parent.Same(on.parent) {
			return node.Name
		}
	}
	return ""
}

// renames reports whether a wanted attachment differs from the one that is in nothing but the parent of the node's
// trunk. The node may have learned its port's id.
func renames(is, wanted *cloudteamv1.PortAttachment) bool {
	if is == nil || is.Mode != cloudteamv1.AttachmentTrunk {
		return false
	}
	like := *is
	like.ParentPortID, like.ParentMAC = wanted.ParentPortID, wanted.ParentMAC
	return satisfies(&like, wanted)
}

// satisfies reports whether a port is where it should be. The VLAN is Neutron's. A port that was plugged unbound stays
// so: one that is bound after the plug stays DOWN.
func satisfies(is, wanted *cloudteamv1.PortAttachment) bool {
	like := *is
	if like.Mode == cloudteamv1.AttachmentOVNUnbound && wanted.Mode == cloudteamv1.AttachmentOVN {
		like.Mode = wanted.Mode
	}
	like.VLAN = wanted.VLAN
	return like == *wanted
}

// wanted is where a port's interface belongs now; nil if nowhere. A Pod that is being deleted keeps its ports until it
// is gone, because its containers may still run.
func (c *Controller) wanted(port *cloudteamv1.NetworkPort) *cloudteamv1.PortAttachment {
	pod := c.caches.PodOf(port)
	if pod == nil || port.Status.PortID == "" || consumer.Ended(pod) {
		return nil
	}
	on, ok := c.dataplaneOn(pod.Spec.NodeName)
	if !ok {
		return nil
	}
	at := &cloudteamv1.PortAttachment{
		Node: pod.Spec.NodeName, Host: on.host, Mode: on.mode, ParentPortID: on.parent.PortID, PortID: port.Status.PortID,
		PodUID: pod.UID,
	}
	if at.ParentPortID == "" {
		at.ParentMAC = on.parent.MAC
	}
	return at
}

// dataplaneOn gives the data plane of a node by its name; ok is false if it has none.
func (c *Controller) dataplaneOn(name string) (on dataplane, ok bool) {
	node, exists := controller.Cached[*metav1.PartialObjectMetadata](c.nodes, cache.ObjectName{Name: name})
	if !exists {
		return dataplane{}, false
	}
	on = dataplaneOf(node)
	return on, slices.Contains(modes, on.mode)
}

// standby is the Pod that gets a port next, on a node with a data plane; nil if there is none. It is the target of a
// live migration: another Pod of the instance of the Pod that the port is bound to, which was given the port. The port
// is attached where the source is: so its cloud is the nodes' own, and its id no other cloud's, which could be any.
func (c *Controller) standby(port *cloudteamv1.NetworkPort) *cloudteamv1.PortStandby {
	source, at := c.caches.PodOf(port), port.Status.Attachment
	if source == nil || at == nil || at.PortID != port.Status.PortID || at.PodUID != source.UID {
		return nil
	}
	next := c.caches.Target(port, source)
	if next == nil {
		return nil
	}
	if _, ok := c.dataplaneOn(next.Spec.NodeName); !ok {
		return nil
	}
	return &cloudteamv1.PortStandby{Node: next.Spec.NodeName, PodUID: next.UID}
}

// modes are those that an agent may name.
var modes = []cloudteamv1.AttachmentMode{
	cloudteamv1.AttachmentOVN, cloudteamv1.AttachmentOVS, cloudteamv1.AttachmentTrunk,
}

// dataplane is what a node's agent says about it.
type dataplane struct {
	mode   cloudteamv1.AttachmentMode
	host   string
	parent inventory.Parent
	// noID is whether what the node says is its parent's id is none. Then it has no parent.
	noID bool
}

// dataplaneOf reads the annotations of a Node. Only the node itself can write them, and a false host concerns only the
// ports of its own Pods. For a false parent, see rival.
func dataplaneOf(node *metav1.PartialObjectMetadata) dataplane {
	of := dataplane{
		mode: cloudteamv1.AttachmentMode(node.Annotations[cloudteamv1.AnnotationDataplane]),
		host: node.Annotations[cloudteamv1.AnnotationDataplaneHost],
	}
	if of.mode == cloudteamv1.AttachmentTrunk {
		// Neutron binds a subport with its parent.
		of.host, of.parent = "", inventory.Parent{
			PortID: node.Annotations[cloudteamv1.AnnotationDataplaneParentPort],
			MAC:    node.Annotations[cloudteamv1.AnnotationDataplaneParent],
		}
		// Neutron takes an id in capitals for the same, and rival would not.
		if id := of.parent.PortID; id != "" && !plan.IsID(id) {
			of.parent, of.noID = inventory.Parent{}, true
		}
	} else if of.host == "" {
		of.host = node.Name
	}
	return of
}

// expect has Neutron expect the port where it is wanted. It returns errDisputed for a trunk that two Nodes have, and
// errNoID for the trunk of a node whose parent has no id.
func (c *Controller) expect(
	ctx context.Context, port *cloudteamv1.NetworkPort, wanted *cloudteamv1.PortAttachment,
) error {
	on, _ := c.dataplaneOn(wanted.Node)
	if on.noID {
		return errNoID
	}
	if rival := c.rival(wanted); rival != "" {
		return fmt.Errorf("%w: %s", errDisputed, rival)
	}
	return c.clouds.Attach(ctx, port, wanted, inventory.Parent{PortID: wanted.ParentPortID, MAC: on.parent.MAC})
}

// attach has Neutron expect the port on the node, and then lets the node's agent plug it.
func (c *Controller) attach(
	ctx context.Context, key cache.ObjectName, port *cloudteamv1.NetworkPort, wanted *cloudteamv1.PortAttachment,
) error {
	c.doubts.forget(key, false) // what was doubted is settled by the write
	err := c.expect(ctx, port, wanted)
	if errors.Is(err, ErrInTrunk) {
		parents := c.parents()
		if is := port.Status.Attachment; is != nil && parentOf(is) != (inventory.Parent{}) {
			parents = append(parents, parentOf(is))
		}
		if err = c.clouds.Detach(ctx, port, wanted.PortID, parents...); err == nil {
			err = c.expect(ctx, port, wanted)
		}
	}
	waiting := waitingFor(wanted)
	switch {
	case err != nil && renames(port.Status.Attachment, wanted):
		// Its Pod may have packets. Neither an outage nor a false word of another node disconnects it.
		return notYetIsStale(err)
	case err == nil:
		return c.write(ctx, key, port, wanted, waiting)
	case errors.Is(err, ErrNotYet):
		return controller.ErrStale
	case errors.Is(err, ErrForbidden) && wanted.Mode == cloudteamv1.AttachmentOVN:
		waiting.Message = fmt.Sprintf("Cannot bind the port: %v. Node %s plugs it unbound: packets flow, and its status "+
			"in Neutron stays DOWN. Give the controller credentials that may bind ports, by --binding-cloud.", err, wanted.Node)
		wanted.Mode = cloudteamv1.AttachmentOVNUnbound
		return c.write(ctx, key, port, wanted, waiting)
	}
	failed := *waiting
	failed.Reason = cloudteamv1.ReasonBindingFailed
	failed.Message = fmt.Sprintf("Neutron does not take the port on %s: %v. The Pod does not start. Retrying with "+
		"backoff.", whereOf(wanted), err)
	if errors.Is(err, errDisputed) {
		failed.Message = fmt.Sprintf("Node %s and another Node say that the same port in Neutron is the parent of their "+
			"trunk. Ports are attached to neither, and the Pod does not start. Compare the annotations %s and %s of the Nodes. "+
			"Delete the Node that is gone, or replace the one that names a port that is not its own. Retrying with backoff.",
			wanted.Node, cloudteamv1.AnnotationDataplaneParent, cloudteamv1.AnnotationDataplaneParentPort)
	}
	if errors.Is(err, errNoID) {
		failed.Message = fmt.Sprintf("The annotation %s of Node %s is not the id of a port: a UUID in lower case. No port "+
			"is attached to the node's trunk, and the Pod does not start. See where the node's agent reads the id "+
			"(--network-data). Retrying with backoff.", cloudteamv1.AnnotationDataplaneParentPort, wanted.Node)
	}
	if errors.Is(err, ErrForbidden) {
		failed.Message += " Give the controller credentials that may bind ports, by --binding-cloud."
	}
	// An attachment of another Pod or another port means nothing any more.
	return controller.Worst(err, c.write(ctx, key, port, nil, &failed))
}

// whereOf names the place of a port in Neutron.
func whereOf(at *cloudteamv1.PortAttachment) string {
	if at.Mode == cloudteamv1.AttachmentTrunk {
		return "the trunk of node " + at.Node
	}
	return "host " + at.Host
}

// waitingFor is the condition Attached of a port that its node may plug.
func waitingFor(at *cloudteamv1.PortAttachment) *metav1.Condition {
	return &metav1.Condition{
		Type: cloudteamv1.ConditionAttached, Status: metav1.ConditionFalse, Reason: cloudteamv1.ReasonWaitingForPlug,
		Message: fmt.Sprintf("Neutron expects the port on %s. Node %s plugs it when the Pod starts.", whereOf(at), at.Node),
	}
}

// write writes where the port is, and the condition Attached; a nil condition removes it. It succeeds only if the port
// has not changed since it was read.
func (c *Controller) write(
	ctx context.Context, key cache.ObjectName, port *cloudteamv1.NetworkPort, at *cloudteamv1.PortAttachment,
	attached *metav1.Condition,
) error {
	conditions := slices.Clone(port.Status.Conditions)
	was := meta.FindStatusCondition(conditions, cloudteamv1.ConditionAttached)
	if attached == nil {
		meta.RemoveStatusCondition(&conditions, cloudteamv1.ConditionAttached)
	} else {
		fails := attached.Reason == cloudteamv1.ReasonBindingFailed
		if was != nil && was.Reason == attached.Reason && was.Message == attached.Message && port.Status.Attachment == at {
			return nil
		}
		if fails && (was == nil || was.Reason != attached.Reason || was.Message != attached.Message) {
			c.recorder.Event(port, corev1.EventTypeWarning, attached.Reason, attached.Message)
		}
		attached.ObservedGeneration = port.Generation
		meta.SetStatusCondition(&conditions, *attached)
	}
	return c.patch(ctx, key, port, map[string]any{"attachment": whole(at), "conditions": conditions})
}

// whole is an attachment for a merge patch, which keeps what it does not name.
func whole(at *cloudteamv1.PortAttachment) any {
	if at == nil {
		return nil
	}
	return map[string]any{
		"node": at.Node, "host": orNull(at.Host), "mode": at.Mode, "vlan": orNull(at.VLAN), "portID": at.PortID,
		"parentPortID": orNull(at.ParentPortID), "parentMAC": orNull(at.ParentMAC), "podUID": at.PodUID,
	}
}

// orNull removes an empty value.
func orNull[T comparable](value T) any {
	if value == *new(T) {
		return nil
	}
	return value
}

// patch writes fields of a port's status. It succeeds only if the port has not changed since it was read.
func (c *Controller) patch(
	ctx context.Context, key cache.ObjectName, port *cloudteamv1.NetworkPort, status map[string]any,
) error {
	written, err := controller.PatchAsRead(ctx, c.client.NetworkPorts(port.Namespace).Patch, types.MergePatchType,
		manager, port, map[string]any{"status": status}, "status")
	if err != nil {
		return err
	}
	c.expected.Written(key, written.UID, written.ResourceVersion)
	klog.FromContext(ctx).V(2).Info("Wrote attachment", "attachment", written.Status.Attachment, "standby",
		written.Status.Standby)
	return nil
}

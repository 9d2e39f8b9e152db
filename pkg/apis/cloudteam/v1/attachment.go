package v1

import "k8s.io/apimachinery/pkg/types"

// Names on Nodes. The network-agent of a node writes them on its own Node. A Node without AnnotationDataplane has no
// data plane: the ports of its Pods are not attached.
const (
	// AnnotationDataplane has the AttachmentMode of the node.
	AnnotationDataplane = "cloudteam.ztgame.com/dataplane"
	// AnnotationDataplaneHost has the node's name in Neutron, which is binding:host_id of the ports there. The default is
	// the Node's name.
	AnnotationDataplaneHost = "cloudteam.ztgame.com/dataplane-host"
	// AnnotationDataplaneParent has the hardware address of the interface whose port in Neutron is the trunk's parent; only
	// with AttachmentTrunk. It must be that of AnnotationDataplaneParentPort. Without that, it finds the port.
	AnnotationDataplaneParent = "cloudteam.ztgame.com/dataplane-parent"
	// AnnotationDataplaneParentPort has the id of that port, if the node knows it.
	AnnotationDataplaneParentPort = "cloudteam.ztgame.com/dataplane-parent-port"
	// AnnotationDataplaneVersion has the version of the agent.
	AnnotationDataplaneVersion = "cloudteam.ztgame.com/dataplane-version"
)

// ConditionAttached is on a NetworkPort whose Pod runs on a node with a data plane. It is True while packets can reach
// the Pod's interface. The controller and the agent of the node write it. It does not affect Ready.
const ConditionAttached = "Attached"

// Reasons of ConditionAttached.
const (
	// ReasonPlugged: the Pod's interface is the port.
	ReasonPlugged = "Plugged"
	// ReasonWaitingForPlug: Neutron expects the port on the node. Its agent plugs the interface when the Pod starts.
	ReasonWaitingForPlug = "WaitingForPlug"
	// ReasonBindingFailed: Neutron does not take the port on the node; the message is Neutron's. Retried.
	ReasonBindingFailed = "BindingFailed"
	// ReasonPlugFailed: the node's agent cannot plug the interface. Retried.
	ReasonPlugFailed = "PlugFailed"
)

// AttachmentMode is how a node attaches Pods to their ports.
// +kubebuilder:validation:Enum=ovn;ovn-unbound;ovs;trunk
type AttachmentMode string

const (
	// AttachmentOVN plugs the interface into Open vSwitch, where ovn-controller finds it. The port is bound to the node.
	AttachmentOVN AttachmentMode = "ovn"
	// AttachmentOVNUnbound is AttachmentOVN without the right to bind. Packets flow, and the port's status in Neutron stays
	// DOWN. Neutron does not refuse the port on another node.
	AttachmentOVNUnbound AttachmentMode = "ovn-unbound"
	// AttachmentOVS plugs the interface into Open vSwitch, where Neutron's Open vSwitch agent finds it. The port is bound
	// to the node.
	AttachmentOVS AttachmentMode = "ovs"
	// AttachmentTrunk makes the interface a VLAN of the node's own interface. The node is a virtual machine, and the port a
	// subport of the trunk of its port.
	AttachmentTrunk AttachmentMode = "trunk"
)

// PortAttachment says on which node Neutron expects a port, and how its
// interface is attached there. It is present once Neutron is prepared.
type PortAttachment struct {
	// node is the name of the Node that the Pod was scheduled to.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Node string `json:"node"`
	// host is Neutron's name of the node.
	// +optional
	// +kubebuilder:validation:MaxLength=255
	Host string `json:"host,omitempty"`
	// mode is how the interface is attached.
	Mode AttachmentMode `json:"mode"`
	// vlan is the VLAN of the port on its trunk; only in the mode trunk.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4094
	VLAN int32 `json:"vlan,omitempty"`
	// parentPortID is the id in Neutron of the trunk's parent port; only in the
	// mode trunk.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ParentPortID string `json:"parentPortID,omitempty"`
	// parentMAC is the hardware address of the trunk's interface on the node; only
	// in the mode trunk, and only if the node does not know parentPortID.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ParentMAC string `json:"parentMAC,omitempty"`
	// portID is the id of the port in Neutron that was prepared. It differs from
	// status.portID while a port that was made again is being prepared.
	// +kubebuilder:validation:MaxLength=64
	PortID string `json:"portID"`
	// podUID is the UID of the Pod for which it was prepared.
	PodUID types.UID `json:"podUID"`
}

// PortStandby says which Pod gets a port next: the target of a live migration
// of a virtual machine.
type PortStandby struct {
	// node is the name of the Node that the Pod was scheduled to.
	// +kubebuilder:validation:MinLength=1
	Node string `json:"node"`
	// podUID is the UID of the Pod.
	PodUID types.UID `json:"podUID"`
}

// Attachment returns where a port's interface belongs now. It is nil while there is nothing to plug: the port is not
// bound, or Neutron is not prepared for this Pod and this port.
func (p *NetworkPort) Attachment() *PortAttachment {
	a := p.Status.Attachment
	if a == nil || p.Status.BoundTo == nil || a.PodUID != p.Status.BoundTo.UID || a.PortID != p.Status.PortID {
		return nil
	}
	return a
}

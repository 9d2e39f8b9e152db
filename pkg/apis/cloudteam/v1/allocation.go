package v1

// What a Pod that declares networks bears.
const (
	// SchedulingGate keeps a Pod that declares networks from being scheduled until its ports are there. The controller
	// lifts it in the write that puts AnnotationAllocations on the Pod.
	SchedulingGate = "cloudteam.ztgame.com/network"

	// AnnotationAllocations holds, on a Pod whose ports are there, the Allocations in JSON, in the order of the networks
	// that the Pod declares.
	AnnotationAllocations = "cloudteam.ztgame.com/allocations"

	// ConditionNetworksReady is the type of the condition on a Pod or Deployment that declares networks: False while
	// something stands in the way of its ports, with a message that says what to change, and True once that is over. It
	// is written where there is, or was, something to say.
	ConditionNetworksReady = "cloudteam.ztgame.com/NetworksReady"
)

// Allocation is what a Pod has of one Network.
type Allocation struct {
	// Name is the Network's namespace and name, with a slash between.
	Name string `json:"name"`
	// Interface is the name of the Pod's interface, where the Pod asked for one.
	Interface string `json:"interface,omitempty"`
	// IPs are the addresses with their prefix lengths, such as 192.168.0.7/16.
	IPs []string `json:"ips"`
	// MAC is the hardware address.
	MAC string `json:"mac"`
	// Gateway are the routers' addresses, at most one of an IP family.
	Gateway []string `json:"gateway,omitempty"`
	// MTU is the network's maximum transmission unit in bytes.
	MTU int32 `json:"mtu,omitempty"`
	// PortID is the port's id in Neutron.
	PortID string `json:"portID"`
	// Port is the name of the NetworkPort, in the Pod's namespace.
	Port string `json:"port"`
}

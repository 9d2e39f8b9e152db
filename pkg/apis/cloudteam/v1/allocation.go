package v1

// Names on Pods and Deployments that declare networks, and on their namespaces.
const (
	// LabelNetworks on a namespace, with the value LabelNetworksEnabled, has the admission policies guard its Pods that
	// declare networks: they wait for their ports, and only the controller writes what they have got.
	LabelNetworks = "cloudteam.ztgame.com/networks"
	// LabelNetworksEnabled is the value of LabelNetworks.
	LabelNetworksEnabled = "enabled"

	// LabelController on a namespace leaves it to a controller of this one namespace. Its value is the namespace of that
	// controller's Lease. A controller of the whole cluster does nothing there.
	LabelController = "cloudteam.ztgame.com/controller"

	// SchedulingGate keeps a Pod from being scheduled until its ports exist. The controller removes it in the write that
	// adds AnnotationAllocations.
	SchedulingGate = "cloudteam.ztgame.com/network"

	// AnnotationAllocations has the Allocations of a Pod in JSON, in the order of the networks that the Pod declares. It
	// is on a Pod whose ports exist.
	AnnotationAllocations = "cloudteam.ztgame.com/allocations"

	// AnnotationDeclaredNetworks has the networks of a Pod as they were declared, in the annotation
	// k8s.v1.cni.cncf.io/networks. An admission policy writes it when the Pod is created, and the controller with
	// AnnotationAllocations.
	AnnotationDeclaredNetworks = "cloudteam.ztgame.com/declared-networks"
	// AnnotationResolvedNetworks has the networks of a Pod as Multus needs them, with the addresses of the Pod's ports. The
	// admission policy puts it in the place of what AnnotationDeclaredNetworks says, regardless of who writes that.
	AnnotationResolvedNetworks = "cloudteam.ztgame.com/resolved-networks"

	// AnnotationPortsWhenScaled on a StatefulSet says what becomes of the ports of Pods that it is scaled down by, as
	// persistentVolumeClaimRetentionPolicy.whenScaled does of their volumes. The default is PortsDelete. With any other
	// value than the two, they are deleted, too.
	AnnotationPortsWhenScaled = "cloudteam.ztgame.com/ports-when-scaled"
	// AnnotationPortsWhenStopped on a VirtualMachine of KubeVirt says what becomes of its ports when it is stopped, also
	// for the moment of a restart. The default is PortsRetain. With any other value than the two, they are kept, too.
	AnnotationPortsWhenStopped = "cloudteam.ztgame.com/ports-when-stopped"
	// PortsRetain keeps the ports until the StatefulSet or VirtualMachine is deleted.
	PortsRetain = "Retain"
	// PortsDelete deletes the ports.
	PortsDelete = "Delete"

	// AnnotationSecurityGroups on a Pod or Pod template lists SecurityGroups of its namespace by name, with commas between.
	// All ports that the controller makes for it are in them. On a NetworkPort it has the ones that the port was made for.
	AnnotationSecurityGroups = "cloudteam.ztgame.com/security-groups"

	// AnnotationFloatingIP on a Pod or Pod template gives its ports floating IPs. It is the id or name of an external
	// network, for all its Networks, or items such as web=public with commas between, for some of them. On a NetworkPort
	// it has the external network that the port was made for. On a Service, the floating IP is the Service's, which is
	// associated with one of its Pods.
	AnnotationFloatingIP = "cloudteam.ztgame.com/floating-ip"
	// AnnotationFloatingIPAddress and AnnotationFloatingIPImport on a Service with AnnotationFloatingIP are the address
	// and the import.id of the FloatingIP that is created for it. They do not change one that exists.
	AnnotationFloatingIPAddress = "cloudteam.ztgame.com/floating-ip-address"
	AnnotationFloatingIPImport  = "cloudteam.ztgame.com/floating-ip-import"

	// AnnotationEndpointsNetwork on a Service has the name of a Network of its namespace. The Service's endpoints are then
	// its Pods' addresses on that Network. AnnotationEndpointsSelector has the labels of these Pods, as app=web,tier=front.
	// The Service has clusterIP None, and no spec.selector: by that, Kubernetes would add the Pods' own addresses.
	AnnotationEndpointsNetwork  = "cloudteam.ztgame.com/endpoints-network"
	AnnotationEndpointsSelector = "cloudteam.ztgame.com/endpoints-selector"

	// ConditionNetworksReady is the type of the condition on a Pod or Deployment that declares networks. It is False while
	// its ports have a problem, with a message that says what to change, and True afterwards. It is absent while there has
	// been no problem.
	ConditionNetworksReady = "cloudteam.ztgame.com/NetworksReady"
)

// Allocation is a Pod's port on one Network.
type Allocation struct {
	// Name is the Network's namespace and name, with a slash between.
	Name string `json:"name"`
	// Interface is the name of the Pod's interface, when the Pod asked for one.
	Interface string `json:"interface,omitempty"`
	// IPs are the addresses with their prefix lengths, such as 192.168.0.7/16.
	IPs []string `json:"ips"`
	// MAC is the hardware address.
	MAC string `json:"mac"`
	// Gateway are the routers' addresses, at most one of each IP family.
	Gateway []string `json:"gateway,omitempty"`
	// MTU is the network's maximum transmission unit in bytes.
	MTU int32 `json:"mtu,omitempty"`
	// PortID is the port's id in Neutron.
	PortID string `json:"portID"`
	// Port is the name of the NetworkPort, in the Pod's namespace.
	Port string `json:"port"`
}

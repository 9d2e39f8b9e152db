package v1

// AdminState says whether a resource is switched on in Neutron.
// +kubebuilder:validation:Enum=Up;Down
type AdminState string

const (
	// AdminStateUp is on. It is the default.
	AdminStateUp AdminState = "Up"
	// AdminStateDown is off: the resource carries no traffic.
	AdminStateDown AdminState = "Down"
)

// DNSDomainNone is the value of a dnsDomain field that declares a network without a DNS domain.
const DNSDomainNone = "none"

// QoSPolicyNone is the value of a qosPolicy field that declares a network without a QoS policy.
const QoSPolicyNone = "none"

// The rules are those of Neutron's type drivers (neutron.plugins.ml2.drivers, type_vlan.py and its neighbours).
// +kubebuilder:validation:XValidation:rule=`self.networkType != 'flat' || has(self.physicalNetwork)`,fieldPath=`.physicalNetwork`,reason=FieldValueRequired,message=`a flat network needs a physical network: write which one`
// +kubebuilder:validation:XValidation:rule=`self.networkType in ['flat', 'vlan'] || !has(self.physicalNetwork)`,fieldPath=`.physicalNetwork`,messageExpression=`'a %s network is on no physical network: leave it out'.format([self.networkType])`
// +kubebuilder:validation:XValidation:rule=`!(self.networkType in ['flat', 'local']) || !has(self.segmentationID)`,fieldPath=`.segmentationID`,messageExpression=`'a %s network has no segmentation ID: leave it out'.format([self.networkType])`
// +kubebuilder:validation:XValidation:rule=`self.networkType != 'vlan' || !has(self.segmentationID) || has(self.physicalNetwork)`,fieldPath=`.physicalNetwork`,reason=FieldValueRequired,message=`a vlan's segmentation ID is one of a physical network: write which one, or leave segmentationID out`
// +kubebuilder:validation:XValidation:rule=`!has(self.segmentationID) || self.segmentationID <= (self.networkType == 'vlan' ? 4094 : self.networkType == 'gre' ? 4294967295 : 16777215)`,fieldPath=`.segmentationID`,messageExpression=`'the segmentation ID of a %s network is out of range: write one from 1 to %s'.format([self.networkType, self.networkType == 'vlan' ? '4094' : self.networkType == 'gre' ? '4294967295' : '16777215'])`

// ProviderSpec says how a network is made in the cloud.
type ProviderSpec struct {
	// networkType is how the cloud carries the network's traffic: flat, vlan,
	// vxlan, gre, geneve or local. A cloud has some of them. It cannot change
	// later.
	// +neutron:attribute=network.provider:network_type,mutable=false,privilege=admin
	// +required
	NetworkType ProviderNetworkType `json:"networkType"`
	// physicalNetwork is the cloud's name for the physical network that a flat or
	// vlan network is on, at most 64 characters. A flat network needs it. The
	// cloud chooses when it is unset. It cannot change later.
	// +neutron:attribute=network.provider:physical_network,mutable=false,removed=kept,privilege=admin
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	PhysicalNetwork string `json:"physicalNetwork,omitempty"`
	// segmentationID separates the network from others on the same physical
	// network: the VLAN ID (1 to 4094), the VNI of vxlan and geneve (1 to
	// 16777215), or the key of gre (1 to 4294967295). The cloud chooses when it is
	// unset. That of a vlan can change later; others cannot.
	// +neutron:attribute=network.provider:segmentation_id,mutable=true,removed=kept,privilege=admin
	// +optional
	// +kubebuilder:validation:Minimum=1
	SegmentationID *int64 `json:"segmentationID,omitempty"`
}

// ProviderNetworkType is a type of network that Neutron knows.
// +kubebuilder:validation:Enum=flat;vlan;vxlan;gre;geneve;local
type ProviderNetworkType string

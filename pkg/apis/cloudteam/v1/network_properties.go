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

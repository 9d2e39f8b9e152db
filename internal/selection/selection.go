package selection

import (
	"net/netip"
	"slices"
)

// Annotation is the key of the annotation on a Pod, or on a Deployment's Pod template, whose value Parse reads (the
// standard, section 4.1).
const Annotation = "k8s.v1.cni.cncf.io/networks"

const (
	// MaxSelections is the most selections that one annotation may have. The standard has no limit; each selection is a
	// port in the cloud, and a value with more of them is taken for a mistake.
	MaxSelections = 32
	// MaxSize is the most bytes that a value may have. It is what Kubernetes allows all annotations of an object together
	// (TotalAnnotationSizeLimitB in k8s.io/apimachinery/pkg/api/validation).
	MaxSize = 256 << 10
)

// Selection is one attachment that a Pod asks for. Two selections of one Pod may name the same network: each is an
// attachment of its own (the standard, section 4.2).
//
// A Selection is a value. Copies share the memory of Addresses; replace the slice instead of writing into it. The zero
// Selection is not valid: it names no network.
type Selection struct {
	// Namespace is the network's. It is never empty: where the annotation names none, it is the Pod's.
	Namespace string
	// Name is the network's.
	Name string
	// Interface is the name that the Pod's interface is to have. Empty leaves it to the network plugin.
	Interface string
	// Addresses are those asked for ("ips"), in the order in which they were written. Each is an address with the length
	// of its network's prefix, so that host bits are kept: 10.2.2.42/24 is not 10.2.2.0/24. One that was written without a
	// length has the full length, 32 or 128. They are of either family, never IPv4 mapped to IPv6. Nil: none is asked for.
	Addresses []netip.Prefix
	// MAC is the EUI-48 address asked for, in lower case and with colons, the way Neutron and net.HardwareAddr write it,
	// so that it can be compared with ==. Empty: none is asked for.
	MAC string

	// rest are the element's other keys, in the order in which they were written.
	rest []field
}

// field is a key that is not known here, with its value as JSON text without insignificant space.
type field struct{ key, value string }

// String names the attachment for messages: ns/name, or ns/name@eth1 where an interface is asked for.
func (s Selection) String() string {
	text := s.Namespace + "/" + s.Name
	if s.Interface != "" {
		text += "@" + s.Interface
	}
	return text
}

// Equal reports whether both ask for the same, the keys that are not known here included: those have to have the same
// order and the same text. No addresses are equal to no addresses, whether the slice is nil or empty.
func (s Selection) Equal(other Selection) bool {
	return s.Namespace == other.Namespace && s.Name == other.Name && s.Interface == other.Interface &&
		s.MAC == other.MAC && slices.Equal(s.Addresses, other.Addresses) && slices.Equal(s.rest, other.rest)
}

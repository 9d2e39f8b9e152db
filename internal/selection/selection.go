package selection

import "net/netip"

// Annotation is the key of the annotation on a Pod or a Deployment's Pod template. Parse reads its value (the standard,
// section 4.1).
const Annotation = "k8s.v1.cni.cncf.io/networks"

const (
	// MaxSelections is the maximum number of selections in one annotation. The standard has no limit. Each selection is
	// a port in the cloud, so a value with more is probably a mistake.
	MaxSelections = 32
	// MaxSize is the maximum number of bytes of a value: 512 for each of MaxSelections. Every Pod's value stays in memory.
	MaxSize = 16 << 10
)

// Selection is one attachment that a Pod requests. Two selections of one Pod may name the same network. Each is a
// separate attachment (the standard, section 4.2).
//
// A Selection is a value. Copies share the memory of Addresses, so replace the slice instead of writing to it. The zero
// Selection is not valid, because it names no network.
type Selection struct {
	// Namespace is the network's namespace. It is never empty. If the annotation names none, it is the Pod's.
	Namespace string
	// Name is the network's name.
	Name string
	// Interface is the desired name of the Pod's interface. Empty leaves it to the network plugin.
	Interface string
	// Addresses are the requested addresses ("ips"), in the order of the annotation. Each has the prefix length of its
	// network and keeps its host bits: 10.2.2.42/24 is not 10.2.2.0/24. An address without a prefix length has the full
	// length, 32 or 128. They are of either family, but never IPv4 mapped to IPv6. nil means that none is requested.
	Addresses []netip.Prefix
	// MAC is the requested EUI-48 address, or empty. It is in lower case with colons, as in Neutron and
	// net.HardwareAddr, so that == can compare it.
	MAC string

	// rest are the element's other keys, in the order of the annotation.
	rest []field
}

// field is an unknown key and its value, as JSON without insignificant space.
type field struct{ key, value string }

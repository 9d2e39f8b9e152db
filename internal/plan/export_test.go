package plan

import "net/netip"

// What tests see of the package besides its exported names.

const (
	MarkerPrefix      = markerPrefix
	ReasonDiffers     = reasonDiffers
	SelfAddressedBits = selfAddressedBits
)

var (
	ComparePortAddresses = comparePortAddresses
	ComparePrefixes      = comparePrefixes
	CompareRoutes        = compareRoutes
	JoinRanges           = joinRanges
	LastAddr             = lastAddr
	Usable               = usable
)

func (r Range) Contains(a netip.Addr) bool               { return r.contains(a) }
func (s Subnet) PrefixLength() int                       { return s.prefixLength() }
func (s Spec) Describe() string                          { return s.describe() }
func (s PortSpec) Given(all []PortAddress) []PortAddress { return s.given(all) }
func (o Observed) InOrder() Observed                     { return o.inOrder() }
func (c Change) Only(stays func(Step) bool) Change       { return c.only(stays) }

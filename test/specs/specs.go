// Package specs draws random specs of Networks, NetworkPorts, SecurityGroups and FloatingIPs that the API server
// takes, and edits of them, for all tests that need any: one place to extend when a field is added, which its test
// demands.
//
// Only tests import it.
package specs

import (
	"net/netip"
	"slices"
	"strings"

	"pgregory.net/rapid"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// Projects are those that specs share a Network with. No cloud has them, and none asks. From Neutron 29 on they have to
// be like UUIDs.
var Projects = []string{
	strings.Repeat("a", 32), "bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb", strings.Repeat("c", 32), strings.Repeat("d", 32),
}

// Limits say what specs may ask for where they are drawn. With the zero value they ask for nothing that a cloud has to
// have beforehand.
type Limits struct {
	// Namespaces are those that a Network may allow, beside "*".
	Namespaces []string
	// SecurityGroups are the ids of those that exist.
	SecurityGroups []string
	// SecurityGroupRefs are the names of the SecurityGroups of each namespace.
	SecurityGroupRefs []string
	// FloatingNetworks are the ids or names of external networks that each Network's router connects to.
	FloatingNetworks []string
	// FloatingPorts are the names of the NetworkPorts of each namespace that a FloatingIP may be associated with.
	FloatingPorts []string
	// FloatingAddresses are those that a new FloatingIP may ask for, and FloatingImports the ids that it may import.
	FloatingAddresses, FloatingImports []string
	// FloatingTags are tags that one of FloatingImports has alone; none leaves imports to their ids.
	FloatingTags []string
	// QoSPolicies are the ids of those that exist, by which a Network may name them.
	QoSPolicies []string
	// MaxMTU is the largest MTU in bytes that the cloud's own network carries, at least 1280; 0 means 1500.
	MaxMTU int32
	// Ports, where not 0, is for how many NetworkPorts at a time a Network shall have addresses, however its pools are
	// drawn, and no two of them name the same one: cidrs are large enough, and pools leave out the addresses that
	// NetworkPorts name.
	Ports int

	// Administrator is whether the credentials may set what Neutron's default policy leaves to an administrator. With
	// others, which the cloud refuses it, such a field is set now and then.
	Administrator bool
	// PhysicalNetwork is the cloud's, and VLANs and VNIs are segmentation ids that nothing else has. Without, a Network
	// leaves them to the cloud.
	PhysicalNetwork string
	VLANs, VNIs     []int64
	// Zones are the availability zones of networks, and NoZones are none.
	Zones, NoZones []string
	// ExternalNetworks are those that a Network's own router can connect to.
	ExternalNetworks []ExternalNetwork
	// SubnetPools are those that the credentials see. No spec names an address of theirs, and no external network has any.
	SubnetPools []SubnetPool
	// Routers are the ids and names of routers that exist. What else is on them, the Network goes without.
	Routers []string
	// Imports are the networks that a new Network may import. No other Network may.
	Imports []Import
	// Clouds are those of one project, nil among them for the controller's own; WrongClouds, which are drawn now and then,
	// are of other projects or do not work.
	Clouds, WrongClouds []*cloudteamv1.CloudReference
	// DNSNames is whether the cloud keeps ports' DNS names: Neutron's configuration has a dns_domain.
	DNSNames bool
	// Spoofing is whether the Networks' classes let ports send under other addresses than their own.
	Spoofing bool
	// Classes are those of Networks without their own cloud; "" means the default one.
	Classes []string
}

// ExternalNetwork is one that routers connect to.
type ExternalNetwork struct {
	// Names are its id and its name.
	Names []string
	// CIDR is its subnet's, which no subnet behind a router to it may overlap, and NextHop an address in it.
	CIDR    netip.Prefix
	NextHop netip.Addr
	// Addresses are those that a router may ask for, and that nobody else has.
	Addresses []netip.Addr
}

// Import is a network that is in Neutron before its Network.
type Import struct {
	// ID is the network's.
	ID string
	// Filter is its name and tags, if it has them alone.
	Filter *cloudteamv1.NetworkImportFilter
	// Subnet is its only one, or its first.
	Subnet cloudteamv1.SubnetSpec
}

// draw draws how the network is imported.
func (i Import) draw(t *rapid.T) *cloudteamv1.NetworkImport {
	by := rapid.SampledFrom([]string{"id", "name", "tags", "both"}).Draw(t, "by")
	if i.Filter == nil || by == "id" {
		return &cloudteamv1.NetworkImport{ID: i.ID}
	}
	filter := i.Filter.DeepCopy()
	switch by {
	case "name":
		filter.Tags = nil
	case "tags":
		filter.Name = ""
	}
	return &cloudteamv1.NetworkImport{Filter: filter}
}

// namesPerPort is how many addresses a NetworkPort has to choose from for itself.
const namesPerPort = 4

// reserved is how many addresses at the end of a cidr are for NetworkPorts to name.
func (l Limits) reserved() int { return namesPerPort * l.Ports }

// redraw draws some of the fields again, at least one.
func redraw[S any](t *rapid.T, l Limits, fields []field[S], spec *S) {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.path
	}
	chosen := rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, 3, rapid.ID).Draw(t, "fields")
	for _, f := range fields {
		if slices.Contains(chosen, f.path) {
			f.draw(t, l, spec)
		}
	}
}

// oneIn draws true once in n times, and false when it is made simple.
func oneIn(t *rapid.T, n int, label string) bool { return rapid.IntRange(0, n-1).Draw(t, label) == n-1 }

// rarely is how often something is drawn that the cloud refuses: once in so many times.
const rarely = 20

// privileged draws what an administrator's credentials alone may set: with others nil, but for once in a while.
func privileged[T any](t *rapid.T, l Limits, value *rapid.Generator[*T], label string) *T {
	if !l.Administrator && !oneIn(t, rarely, label+" without the right") {
		return nil
	}
	return value.Draw(t, label)
}

// texts are what people may write into a description: at most 173 characters, no marker and no control characters.
func texts() *rapid.Generator[string] {
	pieces := rapid.SampledFrom([]string{"a", "db", " ", "\n", "\t", "[", "]", "/", `"`, `\`, "é", "数", "🛰", "\u202e"})
	return rapid.Custom(func(t *rapid.T) string {
		if oneIn(t, 12, "longest") {
			return strings.Repeat("数", 173)
		}
		return strings.Join(rapid.SliceOfN(pieces, 0, 6).Draw(t, "pieces"), "")
	})
}

// Address is the address of a range that has the given number, counted from the range's first, or with a negative
// number from the one behind its last.
func Address(within netip.Prefix, number int) netip.Addr {
	bytes := within.Masked().Addr().AsSlice()
	if number < 0 {
		for bit := within.Bits(); bit < len(bytes)*8; bit++ {
			bytes[bit/8] |= 0x80 >> (bit % 8)
		}
		number++
	}
	for i := len(bytes) - 1; i >= 0; i-- {
		number += int(bytes[i])
		bytes[i] = byte(number & 0xff)
		number >>= 8 // rounds down, so that a negative number borrows
	}
	address, _ := netip.AddrFromSlice(bytes)
	return address
}

// hosts is how many addresses of a range hosts can have, or limit if it is more.
func hosts(within netip.Prefix, limit int) int {
	bits := within.Addr().BitLen() - within.Bits()
	if bits > 16 {
		return limit
	}
	count := 1<<bits - 1 // the network's own
	if within.Addr().Is4() {
		count-- // broadcast
	}
	return min(count, limit)
}

// spell writes an address in one of its spellings.
func spell(t *rapid.T, address netip.Addr) string {
	if address.Is4() {
		return address.String()
	}
	return rapid.SampledFrom([]string{
		address.String(), strings.ToUpper(address.String()), address.StringExpanded(),
	}).Draw(t, "spelling")
}

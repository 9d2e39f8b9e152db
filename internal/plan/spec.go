package plan

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// None is how an absent gateway or an empty list is written.
const None = "none"

// Names of fields, as the user writes them in a spec. A Difference carries them, and an update sends just them.
const (
	FieldExists          = "exists"
	FieldName            = "name"
	FieldDescription     = "description"
	FieldAdminState      = "adminState"
	FieldMTU             = "mtu"
	FieldPortSecurity    = "portSecurity"
	FieldGateway         = "gateway"
	FieldAllocationPools = "allocationPools"
	FieldDHCP            = "dhcp"
	FieldDNSServers      = "dnsServers"
	FieldHostRoutes      = "hostRoutes"
	FieldDNSDomain       = "dnsDomain"
	FieldTags            = "tags"
	FieldQoSPolicy       = "qosPolicy"
	FieldSharedWith      = "sharedWith"
	FieldShared          = "shared"
	FieldExternal        = "external"
	FieldNetworkType     = "provider.networkType"
	FieldPhysicalNetwork = "provider.physicalNetwork"
	FieldSegmentationID  = "provider.segmentationID"
	FieldZoneHints       = "availabilityZoneHints"
)

// Spec is a network as it should be, in canonical form.
type Spec struct {
	// Owner is written into every resource.
	Owner Owner
	// Name is the network's and its subnets' name in Neutron.
	Name string
	// Description is the user's, without the marker.
	Description string
	// MTU is in bytes; 0 leaves it to the cloud, and then any value is right.
	MTU int
	// PortSecurity is the default for ports; nil leaves it to the cloud, and then either value is right.
	PortSecurity *bool
	// Down is true of a network that is to be switched off.
	Down bool
	// DNSDomain is in lower case and ends with a full stop, or is empty for none; nil leaves it as it is.
	DNSDomain *string
	// Tags are a set, sorted; nil leaves them as they are.
	Tags []string
	// QoSPolicy is the policy's id, or empty for none; nil leaves it as it is.
	QoSPolicy *string
	// SharedWith are ids of projects, a set, sorted; nil leaves them as they are.
	SharedWith []string
	// Shared and External are nil where they are left as they are.
	Shared, External *bool
	// Provider leaves what is zero of it to the cloud.
	Provider Provider
	// ZoneHints are a set, sorted; empty leaves them to the cloud.
	ZoneHints []string
	// Subnets do not overlap. Their CIDRs are their identity, or the pools that these come from (see Allocated); their
	// order is for the status alone.
	Subnets []Subnet
	// Import is how a network that was there before its object is taken over; the zero value for one that is made.
	Import Import
	// Router serves the subnets; nil means that none does.
	Router *RouterSpec
}

// Attributes are the network's own settings, as they are sent to Neutron.
func (s Spec) Attributes() Attributes {
	return Attributes{
		Name:         s.Name,
		Description:  s.describe(),
		AdminStateUp: !s.Down,
		MTU:          s.MTU,
		PortSecurity: s.PortSecurity,
		DNSDomain:    s.DNSDomain,
		Tags:         s.Tags,
		QoSPolicy:    s.QoSPolicy,
		Shared:       s.Shared,
		External:     s.External,
		Provider:     s.Provider,
		ZoneHints:    s.ZoneHints,
	}
}

// Attributes are the settings that a network has besides its subnets.
type Attributes struct {
	Name string
	// Description is whole, marker included.
	Description string
	// AdminStateUp is false for a network that was switched off.
	AdminStateUp bool
	// MTU is in bytes; 0 means unset.
	MTU int
	// PortSecurity is nil where it is unset, or where the cloud does not have it.
	PortSecurity *bool
	// DNSDomain is in lower case and ends with a full stop, or is empty for none; nil where it is unset, or where the
	// cloud does not have it.
	DNSDomain *string
	// Tags are sorted. Neutron takes them in a request of their own (see TagNetwork).
	Tags []string
	// QoSPolicy is the policy's id, or empty for none; nil where it is unset, which of an observed network means none.
	QoSPolicy *string
	// Shared and External are nil where they are unset.
	Shared, External *bool
	// Provider is zero where it is unset, or where the credentials may not see it.
	Provider Provider
	// ZoneHints are the availability zones that were asked for, sorted.
	ZoneHints []string
}

// Provider is how the cloud makes a network. What is zero of it is unset.
type Provider struct {
	// NetworkType is Neutron's name of a type driver, such as vlan.
	NetworkType string
	// PhysicalNetwork is the cloud's name of the network that a flat or vlan network is on.
	PhysicalNetwork string
	// SegmentationID is a VLAN ID, VNI or GRE key.
	SegmentationID int64
}

// Validate refuses, as errors joined by errors.Join, what no plan can be made for, or none that is safe: what would never
// be found again, be taken for another's, or be given to everybody. What the user can mend is a *FieldError. The API
// server's rules, or else Neutron, refuse the rest (docs/adr/0023).
func (s Spec) Validate() error {
	var errs []error
	if err := s.Owner.validate(); err != nil {
		errs = append(errs, err)
	}
	// The API server's rule leaves room for the marker, and not for the word that an imported network has before it.
	if length := utf8.RuneCountInString(s.describe()); length > MaxDescription {
		errs = append(errs, &FieldError{FieldDescription, fmt.Sprintf(
			"with the ownership marker it has %d characters and Neutron holds %d: write at most %d",
			length, MaxDescription, MaxDescription-length+utf8.RuneCountInString(s.Description))})
	}
	// The marker comes off when the network is released. What the user wrote must not be taken for one then.
	if strings.Contains(s.Description, markerPrefix) {
		errs = append(errs, &FieldError{FieldDescription, fmt.Sprintf(
			"%q begins the ownership marker: write the text without it", markerPrefix)})
	}
	if at := slices.Index(s.SharedWith, everyProject); at >= 0 {
		errs = append(errs, &FieldError{fmt.Sprintf("%s[%d]", FieldSharedWith, at),
			"it stands for all projects: write shared: true"})
	}
	for i, subnet := range s.Subnets {
		if err := subnet.Validate(); err != nil {
			errs = append(errs, InSubnet(i, err))
			continue
		}
		for _, other := range s.Subnets[:i] {
			if other.CIDR.Overlaps(subnet.CIDR) {
				errs = append(errs, InSubnet(i, &FieldError{subnet.cidrField(), fmt.Sprintf(
					"%s overlaps %s: write a range that no other subnet has", subnet.CIDR, other.CIDR)}))
			}
		}
	}
	return errors.Join(append(errs, s.validateAllocations()...)...)
}

// Observed is everything in Neutron that bears one owner's marker. The zero value means nothing.
type Observed struct {
	// Networks is normally one, of a Network's; more are duplicates, which Network removes.
	Networks []ObservedNetwork
	// Ports is normally one, of a NetworkPort's; more are duplicates, which Port removes. Of a Network's they are
	// the interfaces by which a router serves its subnets.
	Ports []ObservedPort
	// Routers is at most one, of a Network's; more are duplicates, which Network removes.
	Routers []ObservedRouter
}

// Empty reports whether nothing bears the marker.
func (o Observed) Empty() bool { return len(o.Networks)+len(o.Ports)+len(o.Routers) == 0 }

// Resource names a resource in Neutron that is listed by itself. The zero value names none.
type Resource struct {
	Kind Kind
	ID   string
}

// Kind is a kind of resource in Neutron, as a person writes it.
type Kind string

// The kinds of resources that are listed by themselves. Subnets belong to their networks.
const (
	KindNetwork Kind = "network"
	KindPort    Kind = "port"
	KindRouter  Kind = "router"
)

// String is the resource for a person.
func (r Resource) String() string { return string(r.Kind) + " " + r.ID }

// Resources names everything that is observed.
func (o Observed) Resources() []Resource {
	var all []Resource
	for _, n := range o.Networks {
		all = append(all, Resource{KindNetwork, n.ID})
	}
	for _, p := range o.Ports {
		all = append(all, Resource{KindPort, p.ID})
	}
	for _, r := range o.Routers {
		all = append(all, Resource{KindRouter, r.ID})
	}
	return all
}

// Network gives the network that stands for the object: the oldest, and of equals the one with the lowest id, so that
// every replica of the controller picks the same one. It reports false where there is none.
func (o Observed) Network() (ObservedNetwork, bool) {
	if len(o.Networks) == 0 {
		return ObservedNetwork{}, false
	}
	return slices.MinFunc(o.Networks, compareNetworks), true
}

// compareNetworks sorts the older network first, and of equals the one with the lower id.
func compareNetworks(a, b ObservedNetwork) int {
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
}

// inOrder is the same, in which networks, subnets, ports and routers, and their lists without order, stand in an order
// of their own, not in that of Neutron's answer, so that the same state gives the same steps and the same error each
// time. It writes to copies.
func (o Observed) inOrder() Observed {
	if o.isInOrder() {
		return o // as a rule
	}
	networks := slices.SortedFunc(slices.Values(o.Networks), compareNetworks)
	for i := range networks {
		networks[i].Subnets = slices.SortedFunc(slices.Values(networks[i].Subnets), compareSubnets)
		networks[i].Tags = slices.Sorted(slices.Values(networks[i].Tags))
		networks[i].ZoneHints = slices.Sorted(slices.Values(networks[i].ZoneHints))
		networks[i].Shares = slices.SortedFunc(slices.Values(networks[i].Shares), CompareShares)
	}
	ports := slices.SortedFunc(slices.Values(o.Ports), comparePorts)
	for i, p := range ports {
		ports[i].Addresses = slices.SortedFunc(slices.Values(p.Addresses), comparePortAddresses)
		ports[i].SecurityGroups = slices.Sorted(slices.Values(p.SecurityGroups))
	}
	routers := slices.SortedFunc(slices.Values(o.Routers), compareRouters)
	for i, r := range routers {
		routers[i].Routes = slices.SortedFunc(slices.Values(r.Routes), compareRoutes)
	}
	return Observed{Networks: networks, Ports: ports, Routers: routers}
}

func (o Observed) isInOrder() bool {
	for _, n := range o.Networks {
		if !slices.IsSortedFunc(n.Subnets, compareSubnets) || !slices.IsSorted(n.Tags) ||
			!slices.IsSorted(n.ZoneHints) || !slices.IsSortedFunc(n.Shares, CompareShares) || isEmptied(n.Subnets) ||
			isEmptied(n.Tags) || isEmptied(n.ZoneHints) || isEmptied(n.Shares) {
			return false
		}
	}
	for _, p := range o.Ports {
		if !slices.IsSortedFunc(p.Addresses, comparePortAddresses) || !slices.IsSorted(p.SecurityGroups) ||
			isEmptied(p.Addresses) || isEmptied(p.SecurityGroups) {
			return false
		}
	}
	for _, r := range o.Routers {
		if !slices.IsSortedFunc(r.Routes, compareRoutes) || isEmptied(r.Routes) {
			return false
		}
	}
	return slices.IsSortedFunc(o.Networks, compareNetworks) && slices.IsSortedFunc(o.Ports, comparePorts) &&
		slices.IsSortedFunc(o.Routers, compareRouters)
}

// isEmptied reports whether a list is empty and not nil. Sorting makes it nil, so that both give the same steps.
func isEmptied[T any](list []T) bool { return list != nil && len(list) == 0 }

func compareSubnets(a, b ObservedSubnet) int {
	return cmp.Or(comparePrefixes(a.CIDR, b.CIDR), cmp.Compare(a.ID, b.ID))
}

// ObservedNetwork is a network as Neutron has it.
type ObservedNetwork struct {
	ID string
	// Revision is Neutron's revision_number: it moves with every change.
	Revision int
	// Created is when Neutron made it.
	Created time.Time
	Attributes
	// Subnets are all of the network's, ours or not.
	Subnets []ObservedSubnet
	// Shares are the single projects that the network is shared with, where that was asked for.
	Shares []Share
}

// ObservedSubnet is a subnet as Neutron has it.
type ObservedSubnet struct {
	ID string
	// Revision is Neutron's revision_number.
	Revision int
	// Created is when Neutron made it.
	Created time.Time
	Name    string
	// Description is whole, marker included.
	Description string
	// PoolID is the subnet pool that the CIDR was taken from; empty where it was taken from none.
	PoolID string
	Subnet
	// Used counts the addresses that ports have, in the pools or not; nil where nobody can tell. See Usage.
	Used *int64
}

// SubnetByCIDR finds a subnet of the network.
func (n ObservedNetwork) SubnetByCIDR(cidr netip.Prefix) (ObservedSubnet, bool) {
	for _, s := range n.Subnets {
		if s.CIDR == cidr {
			return s, true
		}
	}
	return ObservedSubnet{}, false
}

package plan

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// NetworkResource is what a Difference of the network itself is of.
const NetworkResource = "network"

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
	// TakeBack names fields of Sets that an earlier spec set and that the network may still have. What this spec leaves
	// out of them is taken back.
	TakeBack []string
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

// SubnetByCIDR finds a subnet of the network.
func (n ObservedNetwork) SubnetByCIDR(cidr netip.Prefix) (ObservedSubnet, bool) {
	for _, s := range n.Subnets {
		if s.CIDR == cidr {
			return s, true
		}
	}
	return ObservedSubnet{}, false
}

// compareNetworks sorts the older network first, and of equals the one with the lower id.
func compareNetworks(a, b ObservedNetwork) int {
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
}

// Validate refuses, as errors joined by errors.Join, what no plan can be made for, or none that is safe: what would
// never be found again, be taken for another's, or be given to everybody. What the user can mend is a *FieldError. The
// API server's rules, or else Neutron, refuse the rest (docs/adr/0023).
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
	// Neutron creates a subnet of IPv6 from a pool on such a network (measured), and its hosts cannot work there.
	if s.MTU != 0 && s.MTU < minMTUOfIPv6 && slices.ContainsFunc(s.Subnets, func(s Subnet) bool {
		return s.From != nil && s.IPVersion() == 6
	}) {
		errs = append(errs, &FieldError{FieldMTU, fmt.Sprintf(
			"%d is too small for IPv6: write %d or more", s.MTU, minMTUOfIPv6)})
	}
	return errors.Join(append(errs, s.validateAllocations()...)...)
}

// minMTUOfIPv6 is the least MTU of a link that carries IPv6 (RFC 8200).
const minMTUOfIPv6 = 1280

// validateAllocations refuses two subnets from one pool: nothing but the pool tells them from each other.
func (s Spec) validateAllocations() (errs []error) {
	known := map[string]bool{}
	for i, subnet := range s.Subnets {
		if subnet.From == nil {
			continue
		}
		name := cmp.Or(subnet.From.Pool.ID, subnet.From.Name)
		if known[name] {
			errs = append(errs, InSubnet(i, &FieldError{FieldSubnetPool, fmt.Sprintf(
				"another subnet is from subnet pool %q: write another pool, or one subnet with a shorter prefixLength",
				subnet.From.Name)}))
		}
		known[name] = true
	}
	return errs
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

// describe is the whole description of the spec's network.
func (s Spec) describe() string { return s.Import.describe(s.Owner, s.Description) }

// nameOf is what the name of a resource that exists should be.
func (s Spec) nameOf(actual string) string {
	if s.Import.keepsNames() {
		return actual
	}
	return s.Name
}

// propertyDifferences lists the settings that are left as they are where the spec does not set them, and in which the
// network differs from it. Those of the wanted attributes that are unset are left out.
func propertyDifferences(want, actual Attributes) (diffs []Difference) {
	add := func(field, declared, got string) {
		diffs = append(diffs, Difference{NetworkResource, field, declared, got})
	}
	if want.MTU != 0 && want.MTU != actual.MTU {
		add(FieldMTU, strconv.Itoa(want.MTU), strconv.Itoa(actual.MTU))
	}
	if want.PortSecurity != nil && !same(want.PortSecurity, actual.PortSecurity) {
		add(FieldPortSecurity, strconv.FormatBool(*want.PortSecurity), orUnsupported(actual.PortSecurity))
	}
	if want.DNSDomain != nil && !same(want.DNSDomain, actual.DNSDomain) {
		if actual.DNSDomain != nil {
			add(FieldDNSDomain, quoted(*want.DNSDomain), quoted(*actual.DNSDomain))
		} else if *want.DNSDomain != "" { // a cloud without DNS has no domain
			add(FieldDNSDomain, quoted(*want.DNSDomain), unsupported)
		}
	}
	if want.QoSPolicy != nil && *want.QoSPolicy != orEmpty(actual.QoSPolicy) {
		add(FieldQoSPolicy, quoted(*want.QoSPolicy), quoted(orEmpty(actual.QoSPolicy)))
	}
	if want.Shared != nil && !same(want.Shared, actual.Shared) {
		add(FieldShared, strconv.FormatBool(*want.Shared), orUnsupported(actual.Shared))
	}
	if want.External != nil && !same(want.External, actual.External) {
		add(FieldExternal, strconv.FormatBool(*want.External), orUnsupported(actual.External))
	}
	if p, is := want.Provider, actual.Provider; p != is {
		if p.NetworkType != "" && p.NetworkType != is.NetworkType {
			add(FieldNetworkType, p.NetworkType, orHidden(is, is.NetworkType))
		}
		if p.PhysicalNetwork != "" && p.PhysicalNetwork != is.PhysicalNetwork {
			add(FieldPhysicalNetwork, quoted(p.PhysicalNetwork), orHidden(is, quoted(is.PhysicalNetwork)))
		}
		if p.SegmentationID != 0 && p.SegmentationID != is.SegmentationID {
			add(FieldSegmentationID, fmt.Sprint(p.SegmentationID), orHidden(is, fmt.Sprint(is.SegmentationID)))
		}
	}
	if len(want.ZoneHints) > 0 && !slices.Equal(want.ZoneHints, actual.ZoneHints) {
		add(FieldZoneHints, quotedAll(want.ZoneHints), quotedAll(actual.ZoneHints))
	}
	return diffs
}

func orHidden(p Provider, text string) string {
	if p == (Provider{}) {
		return hidden
	}
	return text
}

func updateNetwork(spec Spec, actual ObservedNetwork) (Step, bool) {
	want := spec.Attributes()
	want.Name = spec.nameOf(actual.Name)
	diffs := basics{want.Name, want.Description, want.AdminStateUp}.differences(NetworkResource,
		basics{actual.Name, actual.Description, actual.AdminStateUp})
	diffs = append(diffs, propertyDifferences(want, actual.Attributes)...)
	return Step{
		Action: UpdateNetwork, Ref: Ref{ID: actual.ID}, Revision: actual.Revision, Attributes: want,
		Differences: diffs, Reason: reasonDiffers,
	}, len(diffs) > 0
}

// tagNetwork is the step that gives a network its tags.
func tagNetwork(network Ref, want, actual []string) (step Step, needed bool) {
	if want == nil || slices.Equal(want, actual) {
		return Step{}, false
	}
	return Step{
		Action: TagNetwork, Ref: network, Attributes: Attributes{Tags: want}, Reason: reasonDiffers,
		Differences: []Difference{{NetworkResource, FieldTags, quotedAll(want), quotedAll(actual)}},
	}, true
}

// deletable refuses to delete a network that holds a subnet of somebody else's, which would go with it.
func deletable(owner Owner, n ObservedNetwork) error {
	for _, s := range n.Subnets {
		if !owner.Owns(s.Description) {
			return &BlockedError{fmt.Sprintf("network %s holds subnet %s (%s), which does not bear the marker %s and "+
				"would be deleted with it: delete that subnet, or end its description with the marker",
				n.ID, s.ID, s.CIDR, owner)}
		}
	}
	return nil
}

func deleteNetwork(n ObservedNetwork, reason string) Step {
	return Step{
		Action: DeleteNetwork, Ref: Ref{ID: n.ID}, Revision: n.Revision, Attributes: n.Attributes, Reason: reason,
		Differences: []Difference{{NetworkResource, FieldExists, None, n.ID}},
	}
}

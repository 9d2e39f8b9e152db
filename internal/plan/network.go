package plan

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// NetworkResource is the Resource of a Difference of the network itself.
const NetworkResource = "network"

// Spec is the desired state of a network, in canonical form.
type Spec struct {
	// Owner is written into every resource.
	Owner Owner
	// Name is the name of the network and of its subnets in Neutron.
	Name string
	// Description is the user's text, without the marker.
	Description string
	// MTU is in bytes. 0 leaves it to the cloud; then any value is right.
	MTU int
	// PortSecurity is the default for ports. nil leaves it to the cloud; then both values are right.
	PortSecurity *bool
	// Down is true if the network is to be switched off.
	Down bool
	// DNSDomain is in lower case and ends with a full stop, or is empty for none. nil leaves it unchanged.
	DNSDomain *string
	// Tags are a sorted set. nil leaves them unchanged.
	Tags []string
	// QoSPolicy is the policy's id, or empty for none. nil leaves it unchanged.
	QoSPolicy *string
	// SharedWith is a sorted set of project ids. nil leaves the shares unchanged.
	SharedWith []string
	// Shared and External stay unchanged if they are nil.
	Shared, External *bool
	// Provider leaves its zero fields to the cloud.
	Provider Provider
	// ZoneHints are a sorted set. An empty set leaves them to the cloud.
	ZoneHints []string
	// Subnets do not overlap. Their identity is the CIDR, or the pool that the CIDR comes from (see Allocated). Their
	// order matters only for the status.
	Subnets []Subnet
	// Import describes how to take over an existing network. The zero value means that the controller creates it.
	Import Import
	// Router serves the subnets. nil means that no router does.
	Router *RouterSpec
	// Retain is true if the resources stay when the object is deleted. Their descriptions say so, in case that nobody
	// sees the deletion. An imported network always stays then.
	Retain bool
	// TakeBack names fields of Sets that an earlier spec set and that the network may still have. The plan empties
	// those that this spec does not set.
	TakeBack []string
}

// Attributes are the settings of a network besides its subnets, in the forms of Spec. 0 and nil mean that a setting is
// unset, or that the cloud does not have it or show it.
type Attributes struct {
	Name string
	// Description is the full text, with the marker.
	Description  string
	AdminStateUp bool
	MTU          int
	PortSecurity *bool
	DNSDomain    *string
	// Tags go in a separate request (see TagNetwork).
	Tags []string
	// QoSPolicy is nil for an observed network without one.
	QoSPolicy        *string
	Shared, External *bool
	Provider         Provider
	ZoneHints        []string
}

// Provider describes how the cloud implements a network. Zero fields are unset.
type Provider struct {
	// NetworkType is Neutron's name of a type driver, such as vlan.
	NetworkType string
	// PhysicalNetwork is the cloud's name of the physical network that carries a flat or vlan network.
	PhysicalNetwork string
	// SegmentationID is a VLAN ID, a VNI or a GRE key.
	SegmentationID int64
}

// ObservedNetwork is a network as Neutron reports it.
type ObservedNetwork struct {
	ID string
	// Revision is Neutron's revision_number. Every change of the network increases it.
	Revision int
	// Created is the time of creation in Neutron.
	Created time.Time
	Attributes
	// Subnets are all subnets of the network, owned or not.
	Subnets []ObservedSubnet
	// Shares are the single projects that the network is shared with. SharesUnknown is true if the cloud does not list
	// them (its policy forbids it, or the list fails), which does not mean that there are none.
	Shares        []Share
	SharesUnknown bool
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

// Network returns the network that represents the object: the oldest. It returns false if there is none.
func (o Observed) Network() (ObservedNetwork, bool) { return oldest(o.Networks) }

func (n ObservedNetwork) identity() identity {
	return identity{Resource{KindNetwork, n.ID}, n.Created, n.Description}
}

func (n ObservedNetwork) called() string { return n.Name }

func (n ObservedNetwork) inOrder() ObservedNetwork {
	n.Subnets = slices.SortedFunc(slices.Values(n.Subnets), compareSubnets)
	n.Tags = slices.Sorted(slices.Values(n.Tags))
	n.ZoneHints = slices.Sorted(slices.Values(n.ZoneHints))
	n.Shares = slices.SortedFunc(slices.Values(n.Shares), CompareShares)
	return n
}

// Validate refuses what makes a plan impossible or unsafe. Such a spec makes resources that are never found again, look
// like another owner's, or are open to everybody. The errors are joined by errors.Join. An error that the user can fix
// is a *FieldError. The API server's rules or Neutron refuse the rest (docs/adr/0023).
func (s Spec) Validate() error {
	var errs []error
	if err := s.Owner.validate(); err != nil {
		errs = append(errs, err)
	}
	// The API server's rule leaves room for the marker, but not for the word "[imported]" before it.
	if length := utf8.RuneCountInString(s.describe()); length > MaxDescription {
		errs = append(errs, &FieldError{FieldDescription, fmt.Sprintf(
			"with the ownership marker it has %d characters and Neutron holds %d: write at most %d",
			length, MaxDescription, MaxDescription-length+utf8.RuneCountInString(s.Description))})
	}
	// A release removes the marker. What remains of the user's text must not look like a marker then.
	if strings.Contains(s.Description, markerPrefix) {
		errs = append(errs, &FieldError{FieldDescription, fmt.Sprintf(
			"%q begins the ownership marker: write the text without it", markerPrefix)})
	}
	if at := slices.Index(s.SharedWith, everyProject); at >= 0 {
		errs = append(errs, &FieldError{fmt.Sprintf("%s[%d]", FieldSharedWith, at),
			"it means all projects: write shared: true"})
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
	// Neutron creates an IPv6 subnet from a pool on such a network (measured), but its hosts cannot work there.
	if s.MTU != 0 && s.MTU < minMTUOfIPv6 && slices.ContainsFunc(s.Subnets, func(s Subnet) bool {
		return s.From != nil && s.IPVersion() == 6
	}) {
		errs = append(errs, &FieldError{FieldMTU, fmt.Sprintf(
			"%d is too small for IPv6: write %d or more", s.MTU, minMTUOfIPv6)})
	}
	return errors.Join(append(errs, s.validateAllocations()...)...)
}

// minMTUOfIPv6 is the smallest MTU of a link that carries IPv6 (RFC 8200).
const minMTUOfIPv6 = 1280

// validateAllocations refuses two subnets from one pool, because only the pool distinguishes them.
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

// Attributes are the network's own settings, as sent to Neutron.
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

// describe is the full description of the network.
func (s Spec) describe() string {
	if s.Import.ID != "" {
		return s.Owner.Describe(strings.TrimPrefix(s.Description+" "+importedWord, " "))
	}
	return s.Owner.describeAs(retaining(s.Retain), s.Description)
}

// nameOf is the desired name of an existing resource.
func (s Spec) nameOf(actual string) string {
	if s.Import.keepsNames() {
		return actual
	}
	return s.Name
}

// Sets names the fields to which the spec gives a value and that it would leave unchanged without one, in alphabetical
// order. If the spec stops to set one, the controller empties it. A field that is declared empty has nothing to take
// back.
func (s Spec) Sets() []string {
	return setOf(map[string]bool{
		FieldDNSDomain:  orEmpty(s.DNSDomain) != "",
		FieldExternal:   s.External != nil && *s.External,
		FieldQoSPolicy:  orEmpty(s.QoSPolicy) != "",
		FieldShared:     s.Shared != nil && *s.Shared,
		FieldSharedWith: len(s.SharedWith) > 0,
		FieldTags:       len(s.Tags) > 0,
	})
}

// setOf names the fields that are set, in alphabetical order.
func setOf(fields map[string]bool) []string {
	maps.DeleteFunc(fields, func(_ string, set bool) bool { return !set })
	return slices.Sorted(maps.Keys(fields))
}

// takingBack returns the spec for an existing network, with the fields to take back declared empty. A new network has
// nothing to take back, and its cloud may not even support the field.
func (s Spec) takingBack(n ObservedNetwork) Spec {
	for _, field := range s.TakeBack {
		switch field {
		case FieldDNSDomain:
			s.DNSDomain = emptied(s.DNSDomain, n.DNSDomain)
		case FieldExternal:
			s.External = emptied(s.External, n.External)
		case FieldQoSPolicy:
			s.QoSPolicy = emptied(s.QoSPolicy, n.QoSPolicy)
		case FieldShared:
			s.Shared = emptied(s.Shared, n.Shared)
		case FieldSharedWith:
			if s.SharedWith == nil {
				s.SharedWith = []string{}
			}
		case FieldTags:
			if s.Tags == nil {
				s.Tags = []string{}
			}
		}
	}
	return s
}

// emptied returns the declared value. If the spec sets none and the network has one, it returns the zero value.
func emptied[T any](declared, actual *T) *T {
	if declared != nil || actual == nil {
		return declared
	}
	return new(T)
}

// Network plans the steps that turn observed into spec, in the order to take them. The Change is empty if there is
// nothing to do. After the steps are taken, a new plan is empty, except after Neutron allocated a CIDR from a pool.
// Then the second plan has what follows from the CIDR, and the third is empty. The order of the networks and subnets in
// observed does not matter.
//
// The plan changes or deletes only what bears the spec's owner, and what the spec's Import allows. If another resource
// is in the way, the error is a *BlockedError. The caller MUST do nothing until that resource is gone. If an imported
// network does not exist, the error is a *NotMadeError. Other errors come from the spec (see Spec.Validate).
func Network(spec Spec, observed Observed) (Change, error) {
	observed = observed.inOrder()
	keep, exists := observed.Network()
	spec = spec.Allocated(keep)
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	if spec.notLookedUp() {
		return nil, errors.New("a subnet pool was not looked up")
	}
	if err := marked(spec.Owner, observed); err != nil {
		return nil, err
	}
	if err := imported(KindNetwork, spec.Import.ID, spec.Owner, observed.Networks); err != nil {
		return nil, err
	}
	routing := planRouting(spec, keep, observed)
	var change Change
	network := Ref{ID: keep.ID}
	if exists {
		spec = spec.takingBack(keep)
		if keep.SharesUnknown && spec.SharedWith != nil {
			return nil, errSharesUnknown
		}
		change = append(change.with(updateNetwork(spec, keep)), routing.first...)
	} else {
		change = append(routing.first, createNetwork(spec))
		network = change.latest()
	}
	// Delete subnets that are no longer declared first. New subnets may use their addresses.
	for _, s := range keep.Subnets {
		change = change.with(dropSubnet(spec, keep, s))
	}
	for _, subnet := range spec.Subnets {
		step, err := planSubnet(spec, network, keep, subnet)
		if err != nil {
			return nil, err
		}
		change = change.with(step)
	}
	change = routing.last(change, network)
	change = append(change, planShares(spec, network, keep.Shares)...)
	// Tags come late, because no user of the network waits for them.
	change = change.with(tagNetwork(network, spec.Tags, keep.Tags))
	// Duplicates come last. A duplicate in use must not delay changes of the network that stays.
	for _, n := range observed.Networks {
		if n.ID != keep.ID {
			step, err := deleteNetwork(spec.Owner, n, "it is a duplicate of the older network "+keep.ID)
			if err != nil {
				return nil, err
			}
			step.Keeper = Keeper{Resource: keep.identity().Resource, Owner: spec.Owner}
			change = append(change, step)
		}
	}
	return append(change, routing.refused...), nil
}

func createNetwork(spec Spec) Step {
	return Step{
		Action: CreateNetwork, Attributes: spec.Attributes(), Reason: "no network bears the owner's marker",
		Differences: []Difference{existence(NetworkResource, spec.Name)},
	}
}

// step is an update or the deletion of the network.
func (n ObservedNetwork) step(action Action, reason string, settles ...Difference) Step {
	return Step{
		Action: action, Ref: Ref{ID: n.ID}, Revision: n.Revision, Attributes: n.Attributes, Reason: reason,
		Differences: settles,
	}
}

func updateNetwork(spec Spec, actual ObservedNetwork) Step {
	want := spec.Attributes()
	want.Name = spec.nameOf(actual.Name)
	d := differences{resource: NetworkResource}
	d.basics(want.basics(), actual.basics())
	d.properties(want, actual.Attributes)
	step := actual.step(UpdateNetwork, reasonDiffers, d.found...)
	step.Attributes = want
	return step
}

func (a Attributes) basics() basics { return basics{a.Name, a.Description, a.AdminStateUp} }

// properties compares the settings that stay unchanged if the spec does not set them. It skips the unset settings of
// want.
func (d *differences) properties(want, actual Attributes) {
	if want.MTU != 0 {
		d.compare(FieldMTU, strconv.Itoa(want.MTU), strconv.Itoa(actual.MTU))
	}
	d.flag(FieldPortSecurity, want.PortSecurity, actual.PortSecurity, unsupported)
	switch {
	case want.DNSDomain == nil:
	case actual.DNSDomain != nil:
		d.compare(FieldDNSDomain, quoted(*want.DNSDomain), quoted(*actual.DNSDomain))
	case *want.DNSDomain != "": // a cloud without DNS has no domain
		d.compare(FieldDNSDomain, quoted(*want.DNSDomain), unsupported)
	}
	d.text(FieldQoSPolicy, want.QoSPolicy, actual.QoSPolicy)
	d.flag(FieldShared, want.Shared, actual.Shared, unsupported)
	d.flag(FieldExternal, want.External, actual.External, unsupported)
	p, is := want.Provider, actual.Provider
	if p.NetworkType != "" {
		d.compare(FieldNetworkType, p.NetworkType, orHidden(is, is.NetworkType))
	}
	if p.PhysicalNetwork != "" {
		d.compare(FieldPhysicalNetwork, quoted(p.PhysicalNetwork), orHidden(is, quoted(is.PhysicalNetwork)))
	}
	if p.SegmentationID != 0 {
		d.compare(FieldSegmentationID, fmt.Sprint(p.SegmentationID), orHidden(is, fmt.Sprint(is.SegmentationID)))
	}
	if len(want.ZoneHints) > 0 {
		d.compare(FieldZoneHints, quotedAll(want.ZoneHints), quotedAll(actual.ZoneHints))
	}
}

func orHidden(p Provider, text string) string {
	if p == (Provider{}) {
		return hidden
	}
	return text
}

func tagNetwork(network Ref, want, actual []string) Step {
	d := differences{resource: NetworkResource}
	if want != nil {
		d.compare(FieldTags, quotedAll(want), quotedAll(actual))
	}
	return Step{
		Action: TagNetwork, Ref: network, Attributes: Attributes{Tags: want}, Reason: reasonDiffers, Differences: d.found,
	}
}

// deleteNetwork refuses to delete a network that contains another owner's subnet (*BlockedError). Neutron deletes the
// subnets with it.
func deleteNetwork(owner Owner, n ObservedNetwork, reason string) (Step, error) {
	for _, s := range n.Subnets {
		if !owner.Owns(s.Description) {
			return Step{}, &BlockedError{fmt.Sprintf("Subnet %s (%s) of network %s does not bear the marker %s. Deleting the "+
				"network would delete it. Delete the subnet, or append the marker to its description.",
				s.ID, s.CIDR, n.ID, owner)}
		}
	}
	return n.step(DeleteNetwork, reason, surplus(NetworkResource, n.ID)), nil
}

func (n ObservedNetwork) release(owner Owner, reason string) (change Change) {
	for _, s := range n.Subnets {
		step := s.step(UpdateSubnet, n.ID, reason)
		change = append(change, unmark(owner, &step, subnetResource(s.CIDR), &step.SubnetDescription, released)...)
	}
	if owner.Owns(n.Description) {
		step := n.step(UpdateNetwork, reason)
		step.Attributes.Description = released(n.Description)
		step.Differences = describe(NetworkResource, step.Attributes.Description, n.Description)
		change = append(change, step)
	}
	return change
}

// networkActions are the actions on a network.
var networkActions = map[Action]facts{
	CreateNetwork: {
		of: KindNetwork, creates: true,
		about: func(s Step) string { return strconv.Quote(s.Attributes.Name) },
		privileged: func(s Step) map[string]bool {
			a := s.Attributes
			return map[string]bool{
				FieldShared: a.Shared != nil && *a.Shared, FieldExternal: a.External != nil && *a.External,
				FieldNetworkType: a.Provider.NetworkType != "", FieldPhysicalNetwork: a.Provider.PhysicalNetwork != "",
				FieldSegmentationID: a.Provider.SegmentationID != 0,
			}
		},
	},
	UpdateNetwork: {of: KindNetwork, updates: true, about: Step.id},
	TagNetwork:    {updates: true, about: Step.id},
	DeleteNetwork: {of: KindNetwork, deletes: true, about: Step.id},
}

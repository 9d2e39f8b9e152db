package declare

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// Port is a NetworkPort's spec on its Network, as last observed.
type Port struct {
	plan.PortSpec
	// Subnets are the Network's subnets in Neutron.
	Subnets []PortSubnet
	// GroupsFrom is where the security groups were written, for messages.
	GroupsFrom string
	// GroupRefs are the names of SecurityGroups of the namespace GroupsIn. The port is in their groups as well.
	GroupRefs []string
	GroupsIn  string
}

// NoAddressError says that no subnet of the Network can supply an address.
type NoAddressError struct {
	// Message names the Network and the reason.
	Message string
}

// Error is the message.
func (e *NoAddressError) Error() string { return e.Message }

// PortSubnet is a subnet of the port's Network, from the Network's status.
type PortSubnet struct {
	ID   string
	CIDR netip.Prefix
	// Gateway has the same format as in the status.
	Gateway string
	// declared is false for a subnet that the Network's spec no longer has. It is deleted with its last address.
	declared bool
	// selfAddressed says that ports generate their own addresses in the subnet.
	selfAddressed bool
	// serves says that the port has or can have an address in the subnet.
	serves bool
	// excludedBy is the field of the Network's subnets by which it does not serve; empty if the subnet left the spec.
	excludedBy string
}

// NetworkPort translates a NetworkPort's spec into the domain's canonical form. The Network MUST exist in Neutron. made
// is what the port was made for. The error is *plan.FieldErrors, joined by errors.Join, or a *NoAddressError.
func NetworkPort(
	on *cloudteamv1.Network, obj *cloudteamv1.NetworkPort, made Workload, owner plan.Owner,
) (Port, error) {
	d := Port{
		PortSpec: plan.PortSpec{
			Owner:     owner,
			Name:      obj.Name,
			NetworkID: on.Status.NetworkID,
			MAC:       strings.ToLower(obj.Spec.MAC),
		},
	}
	if err := d.secure(on, obj); err != nil {
		return d, err
	}
	if err := d.options(on, obj); err != nil {
		return d, err
	}
	reserved := reservations(on, obj.Namespace, made)
	for _, s := range on.Status.Subnets {
		if cidr, err := netip.ParsePrefix(s.CIDR); err == nil {
			of := PortSubnet{
				ID: s.ID, CIDR: cidr, Gateway: s.Gateway, declared: on.Declares(s), selfAddressed: SelfAddressed(s),
			}
			has := slices.ContainsFunc(obj.Status.Addresses, func(a cloudteamv1.PortAddress) bool { return a.SubnetID == s.ID })
			switch {
			case has: // whatever the Network says since
				of.serves = true
			case !plan.Serves(s.ServiceTypes, plan.PortDeviceOwner):
				of.excludedBy = plan.FieldServiceTypes
			case !reserved.excludes(s):
				of.serves = true
			case of.declared:
				of.excludedBy = fieldReservedFor
			}
			d.Subnets = append(d.Subnets, of)
			if of.selfAddressed {
				d.SelfAddressed = append(d.SelfAddressed, of.ID)
			}
		}
	}
	var errs []error
	refuse := func(format string, args ...any) {
		errs = append(errs, &plan.FieldError{Field: plan.FieldAddresses, Problem: fmt.Sprintf(format, args...)})
	}
	for _, text := range obj.Spec.Addresses {
		address, err := netip.ParseAddr(text)
		if err != nil || address.Zone() != "" || address.Is4In6() {
			refuse("%q is no address: write one such as 192.168.0.10 or fd00::10", text)
			continue
		}
		s, inside := d.subnetWith(address)
		switch {
		case !inside:
			refuse("%s is not inside %s of Network %s: write an address of that range, or none to be given one",
				address, ranges(d.Subnets), obj.Network())
		case s.selfAddressed:
			refuse("%s is in %s, where ports make their addresses themselves, of their MACs: leave it out, and the port has one",
				address, s.CIDR)
		case !s.serves && s.excludedBy == "":
			refuse("%s is in %s, which Network %s does not declare any more: write an address of another subnet, or none to "+
				"be given one", address, s.CIDR, obj.Network())
		case !s.serves:
			refuse("%s is in %s, which Network %s keeps from this port by its %s: write an address of another subnet, "+
				"or none to be given one", address, s.CIDR, obj.Network(), s.excludedBy)
		case address.String() == s.Gateway:
			refuse("%s is the gateway of Network %s: write another address, or none to be given one",
				address, obj.Network())
		default:
			d.Addresses = append(d.Addresses, plan.PortAddress{SubnetID: s.ID, Address: address})
		}
	}
	if obj.Status.BoundTo != nil {
		d.keep(obj)
	}
	if len(d.Addresses) == 0 && len(errs) == 0 {
		d.leave()
		makesOwn := func(s PortSubnet) bool { return s.selfAddressed && s.serves }
		switch {
		case len(d.Addresses) > 0 || slices.ContainsFunc(d.Subnets, makesOwn):
		case reserved.forbids():
			refuse("Network %s reserves all its subnets for others: have one reserved for this port in its reservedFor, "+
				"or use another Network", obj.Network())
		default:
			return d, &NoAddressError{fmt.Sprintf("Network %s has no subnet in Neutron that an address could come from%s",
				obj.Network(), d.keptForOthers())}
		}
	}
	if err := d.translated(obj); err != nil && len(errs) == 0 {
		errs = append(errs, err)
	}
	return d, errors.Join(append(errs, d.Validate())...)
}

// translated refuses a floating IP for a port without an address of IPv4. Neutron has none of IPv6.
func (d *Port) translated(obj *cloudteamv1.NetworkPort) error {
	four := func(a plan.PortAddress) bool {
		return slices.ContainsFunc(d.Subnets, func(s PortSubnet) bool { return s.ID == a.SubnetID && s.CIDR.Addr().Is4() })
	}
	if obj.Spec.FloatingIP == nil || slices.ContainsFunc(d.Addresses, four) {
		return nil
	}
	return &plan.FieldError{Field: plan.FieldFloatingIP, Problem: fmt.Sprintf("the port has no address of IPv4, and only "+
		"such an address can have one: leave it out, or give Network %s a subnet of IPv4", obj.Network())}
}

// secure declares the security groups of the spec, or else those of the Network, or else those that the Network's class
// gave it. Some may be names. Ports of other namespaces than the Network's cannot name groups: they could try which
// ones there are. But they may name SecurityGroups, which are those of the namespace that names them.
func (d *Port) secure(on *cloudteamv1.Network, obj *cloudteamv1.NetworkPort) error {
	groups := obj.Spec.SecurityGroups
	d.GroupsFrom = "spec.securityGroups"
	named := slices.IndexFunc(groups, func(g string) bool { return !plan.IsID(g) })
	if named >= 0 && obj.Namespace != on.Namespace {
		return &plan.FieldError{Field: plan.FieldSecurityGroups, Problem: fmt.Sprintf(
			"%q is no id: on a Network of another namespace, write the id of each security group", groups[named])}
	}
	refs := obj.Spec.SecurityGroupRefs
	d.GroupsIn = obj.Namespace
	if obj.TakesGroupsOf(on) {
		refs, d.GroupsIn = on.Spec.SecurityGroupRefs, on.Namespace
	}
	d.GroupRefs = refs
	if class := on.Status.Class; groups == nil && refs == nil && class != nil && class.Defaults != nil {
		groups = class.Defaults.SecurityGroups
		d.GroupsFrom = fmt.Sprintf("defaults.securityGroups of NetworkClass %s", class.Name)
	}
	if groups != nil || refs != nil { // an empty list means no group
		d.SecurityGroups = append([]string{}, groups...)
		slices.Sort(d.SecurityGroups)
	}
	return nil
}

// options declares the spec's options. A port of another namespace than the Network's has none: it could leave the
// limit of the Network's policy, take a name in the Network's domain or a public address of the Network's project, or
// send under the addresses of others.
func (d *Port) options(on *cloudteamv1.Network, obj *cloudteamv1.NetworkPort) error {
	s := obj.Spec
	off := s.PortSecurity != nil && !*s.PortSecurity
	if obj.Namespace != on.Namespace {
		for _, f := range []struct {
			name string
			set  bool
		}{
			{plan.FieldAddressPairs, len(s.AllowedAddressPairs) > 0}, {plan.FieldPortSecurity, off},
			{plan.FieldQoSPolicy, s.QoSPolicy != ""}, {plan.FieldDNSName, s.DNSName != ""},
			{plan.FieldFloatingIP, s.FloatingIP != nil},
		} {
			if f.set {
				return &plan.FieldError{Field: f.name, Problem: fmt.Sprintf("Network %s is of another namespace, where "+
					"only its own ports may have it: leave it out, or create the port in namespace %s",
					obj.Network(), on.Namespace)}
			}
		}
	}
	d.PortSecurity = s.PortSecurity
	d.QoSPolicy = orNone(s.QoSPolicy, cloudteamv1.QoSPolicyNone) // the controller replaces a name with the id
	d.DNSName = orNone(s.DNSName, cloudteamv1.DNSNameNone)
	if s.FloatingIP != nil {
		d.FloatingNetwork = s.FloatingIP.ExternalNetwork // so, too
		d.FloatingAddress, _ = netip.ParseAddr(s.FloatingIP.Address)
	}
	for i, p := range s.AllowedAddressPairs {
		within, err := plan.ParseRange(p.Address)
		if err != nil {
			return &plan.FieldError{Field: fmt.Sprintf("%s[%d].address", plan.FieldAddressPairs, i), Problem: fmt.Sprintf(
				"%q is no address: write one such as 192.168.0.100, or a range such as 10.9.0.0/16", p.Address)}
		}
		d.AddressPairs = append(d.AddressPairs, plan.AddressPair{Range: within, MAC: strings.ToLower(p.MAC)})
	}
	if off { // Neutron refuses both
		d.SecurityGroups, d.GroupRefs = []string{}, nil
	}
	if off || s.AllowedAddressPairs != nil && d.AddressPairs == nil {
		d.AddressPairs = []plan.AddressPair{}
	}
	return nil
}

// orNone is what a text declares: nil if it is unset, and empty if it is the word for none.
func orNone(text, none string) *string {
	switch text {
	case "":
		return nil
	case none:
		return new("")
	default:
		return &text
	}
}

// keep declares the values that Neutron chose first, while something uses the port. If somebody deletes the port, its
// user still has the old address and MAC. The new port then gets the same values.
func (d *Port) keep(obj *cloudteamv1.NetworkPort) {
	if d.MAC == "" {
		d.MAC = obj.Status.MAC
	}
	if len(obj.Spec.Addresses) > 0 {
		return
	}
	for _, a := range obj.Status.Addresses {
		prefix, err := netip.ParsePrefix(a.Address)
		if err != nil {
			continue
		}
		if s, inside := d.subnetWith(prefix.Addr()); inside && !s.selfAddressed {
			d.Addresses = append(d.Addresses, plan.PortAddress{SubnetID: s.ID, Address: prefix.Addr()})
		}
	}
}

// keptForOthers names the subnets that exclude the port.
func (d *Port) keptForOthers() string {
	others := slices.DeleteFunc(slices.Clone(d.Subnets), func(s PortSubnet) bool { return s.excludedBy == "" })
	if len(others) == 0 {
		return ""
	}
	var by []string
	for _, s := range others {
		by = append(by, s.excludedBy)
	}
	slices.Sort(by)
	return fmt.Sprintf(": it keeps %s for others by its %s", ranges(others), strings.Join(slices.Compact(by), " and "))
}

// SelfAddressed reports whether ports form an address in a subnet themselves.
func SelfAddressed(s cloudteamv1.SubnetStatus) bool {
	return plan.SelfAddressed(plan.IPv6Mode(s.IPv6AddressMode), plan.IPv6Mode(s.IPv6RAMode))
}

// Reached returns the ranges of addresses that every port of a Network reaches without a router, if it asks for no
// its own addresses: the subnets where ports form an address themselves, the only other one of an IP family if it is
// reserved for nobody, and link-local addresses of IPv6. A subnet that the spec no longer has counts, because it has
// ports until it is deleted.
func Reached(on *cloudteamv1.Network) []netip.Prefix {
	var reached []netip.Prefix
	others, reservations := map[bool][]netip.Prefix{}, map[bool]bool{}
	has6 := false
	for _, s := range on.Status.Subnets {
		cidr, err := netip.ParsePrefix(s.CIDR)
		if err != nil || !plan.Serves(s.ServiceTypes, plan.PortDeviceOwner) {
			continue
		}
		has6 = has6 || cidr.Addr().Is6()
		if SelfAddressed(s) {
			reached = append(reached, cidr)
			continue
		}
		others[cidr.Addr().Is4()] = append(others[cidr.Addr().Is4()], cidr)
		reservations[cidr.Addr().Is4()] = reservations[cidr.Addr().Is4()] || Users(on, s) != ""
	}
	for is4, of := range others {
		if len(of) == 1 && !reservations[is4] {
			reached = append(reached, of[0])
		}
	}
	if has6 {
		reached = append(reached, linkLocal)
	}
	slices.SortFunc(reached, netip.Prefix.Compare)
	return reached
}

var linkLocal = netip.MustParsePrefix("fe80::/10")

// leave leaves one address of each IP family to Neutron. It comes from the family's first subnet that has one, in the
// order of the Network. Addresses that the port generates itself are not requested.
func (d *Port) leave() {
	for _, is4 := range []bool{true, false} {
		var serve []string
		for _, s := range d.Subnets {
			if s.declared && s.serves && !s.selfAddressed && s.CIDR.Addr().Is4() == is4 {
				serve = append(serve, s.ID)
			}
		}
		if len(serve) == 0 {
			continue
		}
		d.Addresses = append(d.Addresses, plan.PortAddress{SubnetID: serve[0]})
		if len(serve) > 1 {
			if d.Overflow == nil {
				d.Overflow = map[string][]string{}
			}
			d.Overflow[serve[0]] = serve[1:]
		}
	}
}

func (d *Port) subnetWith(address netip.Addr) (PortSubnet, bool) {
	for _, s := range d.Subnets {
		if s.CIDR.Contains(address) {
			return s, true
		}
	}
	return PortSubnet{}, false
}

// ranges formats the CIDRs of subnets for users.
func ranges(subnets []PortSubnet) string {
	texts := make([]string, len(subnets))
	for i, s := range subnets {
		texts[i] = s.CIDR.String()
	}
	return strings.Join(texts, ", ")
}

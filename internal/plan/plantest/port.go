package plantest

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// DefaultGroup is the security group of a port that asks for none.
const DefaultGroup = "sg-default"

func (c *Neutron) createPort(step plan.Step) (string, error) {
	p := Clone(plan.ObservedPort{
		ID: c.NextID("port"), Revision: 1, NetworkID: step.NetworkRef.ID, PortAttributes: step.Port,
	})
	p.Created = c.now()
	if p.MAC == "" {
		p.MAC = c.NextMAC()
	}
	p.PortSecurity = orElse(p.PortSecurity, true)
	if p.SecurityGroups == nil && *p.PortSecurity {
		p.SecurityGroups = []string{DefaultGroup}
	}
	if step.Action == plan.CreateInterface {
		if slices.ContainsFunc(p.Addresses, func(a plan.PortAddress) bool { return a.SubnetID == "" }) {
			return "", errors.New("an interface names no subnet")
		}
		c.MarkInterface(p.ID)
	}
	if err := c.settlePort(&p, nil); err != nil {
		return "", err
	}
	c.Ports = append(c.Ports, p)
	return p.ID, nil
}

// changePort updates or deletes a port.
func (c *Neutron) changePort(step plan.Step) error {
	p := c.Port(step.ID)
	switch {
	case p == nil || p.NetworkID != step.NetworkRef.ID:
		return refuse("PortNotFound", "network %q has no port %q", step.NetworkRef.ID, step.ID)
	case step.Action == plan.DeleteInterface && p.Router != "":
		return refuse("ServicePortInUse", "port %q is an interface of router %q", p.ID, p.Router)
	case p.Revision != step.Revision:
		return ErrMoved
	case step.Action != plan.UpdatePort:
		c.Remove(step.ID)
		return nil
	}
	changed, want := Clone(*p), Clone(plan.ObservedPort{PortAttributes: step.Port})
	for _, d := range step.Differences {
		switch d.Field {
		case plan.FieldName:
			changed.Name = want.Name
		case plan.FieldDescription, plan.FieldDeletionPolicy:
			changed.Description = want.Description
		case plan.FieldAdminState:
			changed.AdminStateUp = want.AdminStateUp
		case plan.FieldAddresses:
			changed.Addresses, changed.Overflow = want.Addresses, want.Overflow
		case plan.FieldMAC:
			changed.MAC = want.MAC
		case plan.FieldSecurityGroups:
			changed.SecurityGroups = slices.Compact(slices.Sorted(slices.Values(want.SecurityGroups)))
		case plan.FieldPortSecurity:
			changed.PortSecurity = want.PortSecurity
		case plan.FieldQoSPolicy:
			changed.QoSPolicy = want.QoSPolicy
		case plan.FieldDNSName:
			changed.DNSName = want.DNSName
		case plan.FieldAddressPairs:
			changed.AddressPairs = want.AddressPairs
		default:
			return fmt.Errorf("a port has no field %q that can change", d.Field)
		}
	}
	changed.Revision++
	if step.Changes(plan.FieldAddresses) {
		if err := c.keepsFloatingIPs(p, changed.Addresses); err != nil {
			return err
		}
	}
	if err := c.settlePort(&changed, p.Addresses); err != nil {
		return err
	}
	*p = changed
	return nil
}

// settlePort gives the port the addresses that it leaves to Neutron, and checks what Neutron checks of a port as it
// would be after a request. had are the addresses that it has before.
func (c *Neutron) settlePort(p *plan.ObservedPort, had []plan.PortAddress) error {
	if err := texts(p.Name, p.Description); err != nil {
		return err
	}
	if err := settleOptions(p); err != nil {
		return err
	}
	n := c.Network(p.NetworkID)
	if n == nil {
		return refuse("NetworkNotFound", "no network %q", p.NetworkID)
	}
	taken := map[netip.Addr]bool{}
	for _, other := range c.Ports {
		if other.ID == p.ID || other.NetworkID != p.NetworkID {
			continue
		}
		if other.MAC == p.MAC {
			return refuse("MacAddressInUse", "%s", p.MAC)
		}
		for _, a := range other.Addresses {
			taken[a.Address] = true
		}
	}
	use := func(a netip.Addr) error {
		if taken[a] {
			return refuse("IpAddressAlreadyAllocated", "%s", a)
		}
		taken[a] = true
		return nil
	}
	defer c.AddOwnAddresses(p)
	p.Addresses = slices.DeleteFunc(p.Addresses, func(a plan.PortAddress) bool {
		_, s := c.Subnet(a.SubnetID)
		return s != nil && makesOwn(s.Subnet) && !c.isInterface(p) && (!a.Address.IsValid() || slices.Contains(had, a))
	})
	for _, a := range p.Addresses {
		if !a.Address.IsValid() {
			continue
		}
		on, s := c.Subnet(a.SubnetID)
		if s == nil || on.ID != n.ID {
			return refuse("SubnetNotFound", "network %q has no subnet %q", n.ID, a.SubnetID)
		}
		kept := len(s.ServiceTypes) > 0 && !slices.Contains(s.ServiceTypes, "network:router_interface")
		if c.isInterface(p) && kept && !slices.Contains(had, a) {
			return refuse("InvalidInput", "fixed_ips included invalid subnet %s", s.ID)
		}
		if makesOwn(s.Subnet) && !c.isInterface(p) {
			return refuse("AllocationOnAutoAddressSubnet", "%s", a.Address)
		}
		if first, last := hosts(s.CIDR); a.Address.Less(first) || last.Less(a.Address) {
			return refuse("InvalidIpForSubnet", "%s of %s", a.Address, s.CIDR)
		}
		if err := use(a.Address); err != nil {
			return err
		}
	}
	for i, a := range p.Addresses {
		if a.Address.IsValid() {
			continue
		}
		given, err := c.freeAddress(n, append([]string{a.SubnetID}, p.Overflow[a.SubnetID]...), taken)
		if err != nil {
			return err
		}
		taken[given.Address] = true
		p.Addresses[i] = given
	}
	p.Overflow = nil
	return nil
}

// settleOptions checks the options of a port, and shows them as Neutron does.
func settleOptions(p *plan.ObservedPort) error {
	if p.PortSecurity != nil && !*p.PortSecurity && len(p.SecurityGroups)+len(p.AddressPairs) > 0 {
		return refuse("PortSecurityPortHasSecurityGroup", "%s", p.ID)
	}
	for i, pair := range p.AddressPairs {
		p.AddressPairs[i].MAC = cmp.Or(pair.MAC, p.MAC)
	}
	for _, text := range []**string{&p.QoSPolicy, &p.DNSName} {
		if *text != nil && **text == "" {
			*text = nil
		}
	}
	return nil
}

// freeAddress is the first of some subnets that is not taken.
func (c *Neutron) freeAddress(
	n *plan.ObservedNetwork, subnets []string, taken map[netip.Addr]bool,
) (plan.PortAddress, error) {
	for _, id := range subnets {
		on, s := c.Subnet(id)
		if s == nil || on.ID != n.ID {
			return plan.PortAddress{}, refuse("SubnetNotFound", "network %q has no subnet %q", n.ID, id)
		}
		free, last := hosts(s.CIDR)
		for taken[free] || free == s.Gateway {
			free = free.Next()
		}
		if free.Compare(last) <= 0 {
			return plan.PortAddress{SubnetID: id, Address: free}, nil
		}
	}
	return plan.PortAddress{}, refuse("IpAddressGenerationFailure", "%v", subnets)
}

// NextMAC is a new MAC that Neutron chooses.
func (c *Neutron) NextMAC() string {
	c.macs++
	return fmt.Sprintf("fa:16:3e:ff:%02x:%02x", c.macs>>8, c.macs&0xff)
}

// makesOwn reports whether ports make their addresses themselves, those that are routers' interfaces excepted.
func makesOwn(s plan.Subnet) bool {
	own := []plan.IPv6Mode{"slaac", "dhcpv6-stateless"}
	return slices.Contains(own, s.IPv6AddressMode) || slices.Contains(own, s.IPv6RAMode)
}

// ownAddress is the one that a port makes itself: the last two groups are the port's.
func ownAddress(s plan.Subnet, mac string) netip.Addr {
	bytes := s.CIDR.Addr().As16()
	var m [6]int
	_, _ = fmt.Sscanf(mac, "%x:%x:%x:%x:%x:%x", &m[0], &m[1], &m[2], &m[3], &m[4], &m[5])
	for i, at := range []int{8, 9, 10, 13, 14, 15} {
		bytes[at] = byte(m[i])
	}
	bytes[8], bytes[11], bytes[12] = bytes[8]^2, 0xff, 0xfe
	return netip.AddrFrom16(bytes)
}

// AddOwnAddresses gives the port the addresses that it makes itself, which it has whatever is asked for.
func (c *Neutron) AddOwnAddresses(p *plan.ObservedPort) {
	if c.isInterface(p) {
		return
	}
	for _, s := range c.Network(p.NetworkID).Subnets {
		if makesOwn(s.Subnet) {
			p.Addresses = slices.DeleteFunc(slices.Clone(p.Addresses), func(a plan.PortAddress) bool {
				return a.SubnetID == s.ID
			})
			p.Addresses = append(p.Addresses, plan.PortAddress{SubnetID: s.ID, Address: ownAddress(s.Subnet, p.MAC)})
		}
	}
}

// MarkInterface notes that a port is made to be a router's interface.
func (c *Neutron) MarkInterface(id string) {
	if c.interfaces == nil {
		c.interfaces = map[string]bool{}
	}
	c.interfaces[id] = true
}

// isInterface reports whether a port is a router's interface, or was made to be one.
func (c *Neutron) isInterface(p *plan.ObservedPort) bool { return p.Router != "" || c.interfaces[p.ID] }

// Addressed reports whether a port has the address of the subnet, or any where it is the zero Addr.
func (c *Neutron) Addressed(subnetID string, address netip.Addr) bool {
	return slices.ContainsFunc(c.Ports, func(p plan.ObservedPort) bool {
		return slices.ContainsFunc(p.Addresses, func(a plan.PortAddress) bool {
			return a.SubnetID == subnetID && (!address.IsValid() || a.Address == address)
		})
	})
}

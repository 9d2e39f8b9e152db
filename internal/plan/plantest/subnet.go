package plantest

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"cloudteam.ztgame.com/network-controller/internal/plan"
)

func (c *Neutron) createSubnet(step plan.Step) (id string, cidr netip.Prefix, err error) {
	n := c.Network(step.NetworkRef.ID)
	if n == nil {
		return "", cidr, refuse("NetworkNotFound", "no network %q", step.NetworkRef.ID)
	}
	s := plan.ObservedSubnet{
		ID: c.NextID("sub"), Name: step.SubnetName, Description: step.SubnetDescription, Subnet: Clone(step.Subnet),
	}
	if s.From != nil {
		if s.CIDR.IsValid() || s.Gateway.IsValid() || s.Pools != nil {
			return "", cidr, errors.New("a create says what is to come from a pool")
		}
		c.Allocate(*n, &s)
	}
	for _, other := range n.Subnets {
		if s.CIDR.Overlaps(other.CIDR) {
			return "", cidr, refuse("InvalidInput", "%s overlaps subnet %s (%s)", s.CIDR, other.ID, other.CIDR)
		}
	}
	if err := checkSubnet(s, false); err != nil {
		return "", cidr, err
	}
	n.Revision++
	n.Subnets = append(n.Subnets, s)
	return s.ID, s.CIDR, nil
}

// changeSubnet updates or deletes a subnet.
func (c *Neutron) changeSubnet(step plan.Step) error {
	n, s := c.Subnet(step.ID)
	if s == nil || n.ID != step.NetworkRef.ID {
		return refuse("SubnetNotFound", "network %q has no subnet %q", step.NetworkRef.ID, step.ID)
	}
	if s.Revision != step.Revision {
		return ErrMoved
	}
	if step.Action == plan.DeleteSubnet {
		if c.Addressed(step.ID, netip.Addr{}) {
			return refuse("SubnetInUse", "ports have addresses of subnet %q", step.ID)
		}
		n.Revision++
		n.Subnets = slices.DeleteFunc(n.Subnets, func(s plan.ObservedSubnet) bool { return s.ID == step.ID })
		return nil
	}
	served := s.DHCP
	want := Clone(step.Subnet)
	// Neutron bumps the network for the subnet's own columns, and not for what lies in their own tables.
	for _, d := range step.Differences {
		switch d.Field {
		case plan.FieldName:
			s.Name = step.SubnetName
			n.Revision++
		case plan.FieldDescription, plan.FieldDeletionPolicy:
			s.Description = step.SubnetDescription
			n.Revision++
		case plan.FieldGateway:
			if s.Gateway.IsValid() && c.Addressed(s.ID, s.Gateway) {
				return refuse("GatewayIpInUse", "%s", step.Action)
			}
			s.Gateway = want.Gateway
			n.Revision++
		case plan.FieldDHCP:
			s.DHCP = want.DHCP
			n.Revision++
		case plan.FieldAllocationPools:
			s.Pools = want.Pools
		case plan.FieldDNSServers:
			s.DNSServers = want.DNSServers
		case plan.FieldHostRoutes:
			s.HostRoutes = want.HostRoutes
		case plan.FieldServiceTypes:
			s.ServiceTypes = want.ServiceTypes
		case plan.FieldDNSPublishFixedIP:
			s.DNSPublishFixedIP = want.DNSPublishFixedIP
		default:
			return fmt.Errorf("a subnet has no field %q that can change", d.Field)
		}
	}
	s.Revision++
	return checkSubnet(*s, served)
}

// checkSubnet is what Neutron checks of a subnet as it would be after a request. served says whether DHCP was on
// before.
func checkSubnet(s plan.ObservedSubnet, served bool) error {
	if err := texts(s.Name, s.Description); err != nil {
		return err
	}
	cidr, v4 := s.CIDR, s.CIDR.Addr().Is4()
	last := netip.PrefixFrom(lastAddr(cidr), cidr.Bits())
	if cidr != cidr.Masked() || cidr.Bits() == 0 {
		return refuse("InvalidInput", "%s is no CIDR", cidr)
	}
	if s.DHCP && !served {
		if cidr.Addr().BitLen()-cidr.Bits() < 2 {
			return refuse("InvalidInput", "%s is too small for DHCP", cidr)
		}
		for _, special := range []string{"224.0.0.0/4", "ff00::/8", "127.0.0.0/8"} {
			if p := netip.MustParsePrefix(special); p.Overlaps(cidr) && p.Bits() <= cidr.Bits() {
				return refuse("InvalidInput", "no DHCP on %s", cidr)
			}
		}
		if cidr.Addr() == netip.IPv4Unspecified() {
			return refuse("InvalidInput", "no DHCP on %s", cidr)
		}
	}
	if g := s.Gateway; g.IsValid() {
		if g.Is4() != v4 || v4 && (g == cidr.Addr() || g == last.Addr()) {
			return refuse("InvalidInput", "%s is no gateway of %s", g, cidr)
		}
	}
	if address, ra := s.IPv6AddressMode, s.IPv6RAMode; address != "" || ra != "" {
		if v4 || !s.DHCP || address != "" && ra != "" && address != ra {
			return refuse("InvalidInput", "the modes %q and %q do not fit", address, ra)
		}
		if makesOwn(s.Subnet) && cidr.Bits() != 64 {
			return refuse("InvalidInput", "no addresses of hosts' own in %s", cidr)
		}
	}
	for i, p := range s.Pools {
		if !cidr.Contains(p.Start) || !cidr.Contains(p.End) || p.End.Less(p.Start) || p.Start == cidr.Addr() ||
			v4 && p.End == last.Addr() {
			return refuse("InvalidInput", "pool %s is no range of %s", p, cidr)
		}
		if s.Gateway.IsValid() && !s.Gateway.Less(p.Start) && !p.End.Less(s.Gateway) {
			return refuse("InvalidInput", "gateway %s lies in pool %s", s.Gateway, p)
		}
		for _, other := range s.Pools[:i] {
			if !p.End.Less(other.Start) && !other.End.Less(p.Start) {
				return refuse("InvalidInput", "pools %s and %s overlap", p, other)
			}
		}
	}
	for i, server := range s.DNSServers {
		if server.Is4() != v4 || slices.Contains(s.DNSServers[:i], server) {
			return refuse("InvalidInput", "name server %s is of the other family or is listed twice", server)
		}
	}
	for i, owner := range s.ServiceTypes {
		if slices.Contains(s.ServiceTypes[:i], owner) {
			return refuse("InvalidInput", "service type %s is listed twice", owner)
		}
	}
	for i, r := range s.HostRoutes {
		if r.Destination.Addr().Is4() != v4 || r.NextHop.Is4() != v4 || r.Destination != r.Destination.Masked() ||
			slices.Contains(s.HostRoutes[:i], r) {
			return refuse("InvalidInput", "route %s is of the other family, has host bits or is listed twice", r)
		}
	}
	return nil
}

// Allocate takes the CIDR of a subnet on network n from its pool: the first free block. Its rules are those of
// neutron.ipam.subnet_alloc. All pools of one IP version supply the same range.
func (c *Neutron) Allocate(n plan.ObservedNetwork, s *plan.ObservedSubnet) {
	from := s.From
	s.From, s.PoolID = nil, from.Pool.ID
	s.Created = c.now()
	// The subnets that a block must not overlap.
	taken := slices.Clone(n.Subnets)
	for _, other := range c.Networks {
		for _, o := range other.Subnets {
			if o.PoolID != "" {
				taken = append(taken, o)
			}
		}
	}
	length := cmp.Or(from.PrefixLength, from.Pool.DefaultPrefixLength)
	s.CIDR = netip.PrefixFrom(PoolRange(from.Pool.IPVersion).Addr(), length)
	for {
		at := slices.IndexFunc(taken, func(o plan.ObservedSubnet) bool { return o.CIDR.Overlaps(s.CIDR) })
		if at < 0 {
			break
		}
		larger := netip.PrefixFrom(s.CIDR.Addr(), min(length, taken[at].CIDR.Bits())).Masked()
		s.CIDR = netip.PrefixFrom(lastAddr(larger).Next(), length)
	}
	s.Gateway = s.CIDR.Addr().Next()
	_, last := hosts(s.CIDR)
	s.Pools = []plan.Range{{Start: s.Gateway.Next(), End: last}}
}

// PoolRange is the range that all subnet pools of an IP version supply.
func PoolRange(ipVersion int) netip.Prefix {
	if ipVersion == 6 {
		return netip.MustParsePrefix("2001:db8::/32")
	}
	return netip.MustParsePrefix("100.64.0.0/10")
}

// hosts returns the first and the last address that a host of the subnet may have.
func hosts(cidr netip.Prefix) (first, last netip.Addr) {
	first, last = cidr.Addr().Next(), lastAddr(cidr)
	if last.Is4() {
		last = last.Prev()
	}
	return first, last
}

// lastAddr is the address with all host bits set.
func lastAddr(cidr netip.Prefix) netip.Addr {
	bytes := cidr.Addr().AsSlice()
	for bit := cidr.Bits(); bit < len(bytes)*8; bit++ {
		bytes[bit/8] |= 0x80 >> (bit % 8)
	}
	last, _ := netip.AddrFromSlice(bytes)
	return last
}

package plan_test

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"pgregory.net/rapid"

	. "cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/internal/plan/plantest"
)

// This file draws random ports, and random deeds of people who work on ports behind our back.
//
// A port of somebody else's that holds a declared address or mac cannot be planned away, so that no scene should have
// one: addresses that specs name are even, those that others take by hand are odd, and macs that specs name are none
// that Neutron chooses.

// portCloud has two networks of somebody else's, with the same kinds of subnets, and no ports. In the last two subnets
// ports make addresses of their own.
func portCloud() *cloud {
	c := &cloud{}
	for _, id := range []string{"net-a", "net-b"} {
		n := ObservedNetwork{ID: id, Created: plantest.Epoch, Attributes: Attributes{
			Name: id, Description: otherOwner.Marker(), AdminStateUp: true, MTU: plantest.MTU, PortSecurity: new(true),
		}}
		for _, cidr := range []string{"10.0.0.0/24", "10.0.1.0/24", "fd00::/64", "fd01::/64", "fd02::/64"} {
			subnet := Subnet{CIDR: prefix(cidr), Gateway: DefaultGateway(prefix(cidr)), DHCP: true}
			n.Subnets = append(n.Subnets, ObservedSubnet{ID: c.NextID(id + "-sub"), Name: id, Description: otherOwner.Marker(), Subnet: subnet})
		}
		n.Subnets[3].IPv6AddressMode, n.Subnets[4].IPv6RAMode = SLAAC, DHCPv6Stateless
		c.Networks = append(c.Networks, n)
	}
	return c
}

// portAddresses are addresses of one of the network's subnets, even or odd ones, and none that is the gateway's.
func portAddresses(n ObservedNetwork, odd int) *rapid.Generator[PortAddress] {
	return rapid.Custom(func(t *rapid.T) PortAddress {
		s := n.Subnets[rapid.IntRange(0, 2).Draw(t, "subnet")]
		bytes := s.CIDR.Addr().AsSlice()
		bytes[len(bytes)-1] = byte(2*rapid.IntRange(1, 12).Draw(t, "number") + odd)
		a, _ := netip.AddrFromSlice(bytes)
		return PortAddress{s.ID, a}
	})
}

// groups are security groups in any order.
func groups() *rapid.Generator[[]string] {
	return rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"sg-1", "sg-2", "sg-3", plantest.DefaultGroup}), 0, 3, rapid.ID)
}

// portSpecs are valid specs of an owner, on one of the cloud's networks.
func portSpecs(owner Owner, c *cloud) *rapid.Generator[PortSpec] {
	return rapid.Custom(func(t *rapid.T) PortSpec {
		n := c.Networks[rapid.IntRange(0, len(c.Networks)-1).Draw(t, "network")]
		spec := PortSpec{
			Owner: owner, NetworkID: n.ID,
			Name:          rapid.StringMatching(`[a-z0-9]([a-z0-9.-]{0,20}[a-z0-9])?`).Draw(t, "name"),
			Addresses:     rapid.SliceOfNDistinct(portAddresses(n, 0), 0, 4, rapid.ID).Draw(t, "addresses"),
			SelfAddressed: []string{n.Subnets[3].ID, n.Subnets[4].ID},
		}
		for i := range spec.Addresses {
			if rapid.Bool().Draw(t, "left to Neutron") {
				spec.Addresses[i].Address = netip.Addr{}
			}
		}
		four := [2]string{n.Subnets[0].ID, n.Subnets[1].ID}
		if at := rapid.IntRange(0, 1).Draw(t, "first"); rapid.Bool().Draw(t, "spills") &&
			!slices.Contains(spec.Addresses, PortAddress{SubnetID: four[1-at]}) {
			spec.Overflow = map[string][]string{four[at]: {four[1-at]}}
		}
		if rapid.Bool().Draw(t, "with a mac") {
			spec.MAC = fmt.Sprintf("fa:16:3e:00:00:%02x", rapid.IntRange(0, 3).Draw(t, "mac"))
		}
		if rapid.Bool().Draw(t, "with security groups") {
			spec.SecurityGroups = append([]string{}, groups().Draw(t, "groups")...)
		}
		spec.PortOptions = portOptions().Draw(t, "options")
		switch {
		case len(spec.SecurityGroups)+len(spec.AddressPairs) > 0:
			spec.PortSecurity = new(true)
		case spec.PortSecurity != nil && !*spec.PortSecurity:
			spec.SecurityGroups, spec.AddressPairs = []string{}, []AddressPair{}
		}
		spec.FloatingNetwork = rapid.SampledFrom([]string{"", "outside", "outside-2"}).Draw(t, "floating network")
		if !slices.ContainsFunc(spec.Addresses, func(a PortAddress) bool {
			return a.SubnetID == n.Subnets[0].ID || a.SubnetID == n.Subnets[1].ID
		}) {
			spec.FloatingNetwork = "" // it takes an address of IPv4
		}
		if spec.FloatingNetwork != "" && rapid.Bool().Draw(t, "floating address of choice") {
			spec.FloatingAddress = netip.MustParseAddr("198.51.100.7")
		}
		spec.TakeBack = rapid.SampledFrom([][]string{nil, {FieldDNSName}, {FieldAddressPairs, FieldQoSPolicy}}).
			Draw(t, "take back")
		return spec
	})
}

// portOptions are options of a port. Pairs and groups need port security.
func portOptions() *rapid.Generator[PortOptions] {
	return rapid.Custom(func(t *rapid.T) (o PortOptions) {
		text := func(label string, of ...string) *string {
			return rapid.Ptr(rapid.SampledFrom(append(of, "")), true).Draw(t, label)
		}
		o.QoSPolicy, o.DNSName = text("qos policy", "q1", "q2"), text("dns name", "web", "db")
		if rapid.Bool().Draw(t, "with pairs") {
			o.AddressPairs = append([]AddressPair{}, rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) AddressPair {
				return AddressPair{
					prefix(rapid.SampledFrom([]string{"10.0.0.9/32", "10.9.0.0/16", "fd00::9/128"}).Draw(t, "range")),
					rapid.SampledFrom([]string{"", "fa:16:3e:00:01:01"}).Draw(t, "pair's mac"),
				}
			}), 0, 3, rapid.ID).Draw(t, "pairs")...)
		}
		o.PortSecurity = rapid.Ptr(rapid.Bool(), true).Draw(t, "port security")
		return o
	})
}

// freeAddress is an odd address of the port's network that no port has. It reports false where it draws one that is
// taken.
func (c *cloud) freeAddress(t *rapid.T, networkID string) (PortAddress, bool) {
	a := portAddresses(*c.Network(networkID), 1).Draw(t, "by hand")
	for _, p := range c.Ports {
		if p.NetworkID == networkID && slices.Contains(p.Addresses, a) {
			return PortAddress{}, false
		}
	}
	return a, true
}

// meddleWithPorts does one thing that somebody may do to ports in Neutron. What it leaves is what Neutron would let
// stand.
func (c *cloud) meddleWithPorts(t *rapid.T, owner Owner) {
	deeds := map[string]func(*ObservedPort){
		"rename": func(p *ObservedPort) { p.Name = userTexts().Draw(t, "name") },
		"switch": func(p *ObservedPort) { p.AdminStateUp = !p.AdminStateUp },
		"describe": func(p *ObservedPort) {
			// An address that a floating IP of others leads to cannot be taken from a port, whatever is planned.
			if !slices.ContainsFunc(c.FloatingIPs, func(f ObservedFloatingIP) bool {
				return f.PortID == p.ID && !owner.Owns(f.Description)
			}) {
				p.Description = owner.Describe(userTexts().Draw(t, "text"))
			}
		},
		"change the mac": func(p *ObservedPort) { p.MAC = c.NextMAC() },
		"set the groups": func(p *ObservedPort) {
			if p.PortSecurity == nil || *p.PortSecurity {
				p.SecurityGroups = groups().Draw(t, "groups")
			}
		},
		"set the options": func(p *ObservedPort) {
			p.PortOptions = portOptions().Draw(t, "options")
			if p.PortSecurity = new(p.PortSecurity == nil || *p.PortSecurity); !*p.PortSecurity {
				p.SecurityGroups, p.AddressPairs = nil, nil
			}
			for _, text := range []**string{&p.QoSPolicy, &p.DNSName} {
				if *text != nil && **text == "" {
					*text = nil
				}
			}
			for i := range p.AddressPairs {
				p.AddressPairs[i].MAC = cmp.Or(p.AddressPairs[i].MAC, p.MAC)
			}
		},
		"drop an address": func(p *ObservedPort) { p.Addresses = p.Addresses[min(1, len(p.Addresses)):] },
		"list in another order": func(p *ObservedPort) {
			p.Revision--
			p.Addresses, p.SecurityGroups = shuffled(t, p.Addresses), shuffled(t, p.SecurityGroups)
		},
		"add an address": func(p *ObservedPort) {
			if a, free := c.freeAddress(t, p.NetworkID); free {
				p.Addresses = append(p.Addresses, a)
			}
		},
		"give other addresses": func(p *ObservedPort) {
			if a, free := c.freeAddress(t, p.NetworkID); free {
				p.Addresses = []PortAddress{a}
			}
		},
		"take the mark": func(p *ObservedPort) {
			p.Description, p.Addresses, p.MAC = "mine now", nil, c.NextMAC()
		},
		"delete": func(p *ObservedPort) {
			c.Remove(p.ID)
		},
		"give it a floating IP": func(p *ObservedPort) { c.strangeFloatingIP(t, owner, p) },
		"delete a floating IP": func(p *ObservedPort) {
			c.FloatingIPs = c.FloatingIPs[min(1, len(c.FloatingIPs)):]
		},
		"take a floating IP": func(p *ObservedPort) {
			for i := range c.FloatingIPs[:min(1, len(c.FloatingIPs))] {
				f := &c.FloatingIPs[i]
				f.Description, f.PortID, f.Fixed, f.Revision = "mine now", "", netip.Addr{}, f.Revision+1
				f.Address = netip.Addr{} // one of choice that others have would be refused, whatever is planned
			}
		},
		"move a floating IP": func(p *ObservedPort) {
			for i := range c.FloatingIPs {
				if f := &c.FloatingIPs[i]; c.leads(f, p) {
					f.Revision++
					break
				}
			}
		},
		"add a port": func(p *ObservedPort) { c.Ports = append(c.Ports, c.strangePort(t, owner, *p)) },
	}
	names := make([]string, 0, len(deeds))
	for name := range deeds {
		names = append(names, name)
	}
	slices.Sort(names)
	if len(c.Ports) == 0 {
		c.Ports = append(c.Ports, c.strangePort(t, owner, ObservedPort{Created: plantest.Epoch}))
		return
	}
	p := &c.Ports[rapid.IntRange(0, len(c.Ports)-1).Draw(t, "port")]
	p.Revision++
	id := p.ID
	deeds[rapid.SampledFrom(names).Draw(t, "deed")](p)
	if p := c.Port(id); p != nil {
		c.AddOwnAddresses(p)
	}
}

// leads makes a floating IP lead to a port, if it may: an address has one floating IP of a network. Only ours lead to
// ours, because one of somebody else's would stand in the way of ours, whatever is planned.
func (c *cloud) leads(f *ObservedFloatingIP, p *ObservedPort) bool {
	ours := testOwner.Owns(p.Description)
	for _, a := range p.Addresses {
		taken := slices.ContainsFunc(c.FloatingIPs, func(o ObservedFloatingIP) bool {
			return o.PortID == p.ID && o.Fixed == a.Address && o.NetworkID == f.NetworkID
		})
		if a.Address.Is4() && !taken && (!ours || testOwner.Owns(f.Description)) {
			f.PortID, f.Fixed = p.ID, a.Address
			return true
		}
	}
	return false
}

// strangeFloatingIP adds a floating IP that leads to a port, or nowhere.
func (c *cloud) strangeFloatingIP(t *rapid.T, owner Owner, p *ObservedPort) {
	f := ObservedFloatingIP{
		ID: c.NextID("fip"), Created: plantest.Epoch.Add(time.Duration(rapid.IntRange(-1, 1).Draw(t, "age")) * time.Hour),
		FloatingIPAttributes: FloatingIPAttributes{
			Description: marks(t, owner), NetworkID: rapid.SampledFrom([]string{"outside", "outside-2"}).Draw(t, "outside"),
		},
	}
	if rapid.Bool().Draw(t, "leads to it") {
		c.leads(&f, p)
	}
	c.FloatingIPs = append(c.FloatingIPs, f)
}

// strangePort is another port, made before, with or after the given one, on either network. If it bears our mark, it
// may hold addresses and the mac of the given one, on the other network.
func (c *cloud) strangePort(t *rapid.T, owner Owner, p ObservedPort) ObservedPort {
	strange := ObservedPort{
		ID: c.NextID("port"), Revision: rapid.IntRange(0, 3).Draw(t, "revision"),
		Created:   p.Created.Add(time.Duration(rapid.IntRange(-1, 1).Draw(t, "age")) * time.Hour),
		NetworkID: rapid.SampledFrom([]string{"net-a", "net-b"}).Draw(t, "network"),
		PortAttributes: PortAttributes{
			Name: p.Name, Description: marks(t, owner), AdminStateUp: true, MAC: c.NextMAC(),
			SecurityGroups: groups().Draw(t, "groups"), PortOptions: PortOptions{PortSecurity: new(true)},
		},
	}
	if rapid.Bool().Draw(t, "lower id") {
		strange.ID = "a-" + strange.ID
	}
	if rapid.Bool().Draw(t, "elsewhere in the world") {
		strange.Created = strange.Created.In(time.FixedZone("east", 9*60*60))
	}
	if a, free := c.freeAddress(t, strange.NetworkID); free {
		strange.Addresses = append(strange.Addresses, a)
	}
	if owner.Owns(strange.Description) && rapid.Bool().Draw(t, "holds what is declared") {
		c.takeDeclared(t, &strange)
	}
	c.AddOwnAddresses(&strange)
	return strange
}

// takeDeclared gives a port of ours an address and a mac such as specs name, where they are free.
func (c *cloud) takeDeclared(t *rapid.T, p *ObservedPort) {
	a := portAddresses(*c.Network(p.NetworkID), 0).Draw(t, "declared address")
	mac := fmt.Sprintf("fa:16:3e:00:00:%02x", rapid.IntRange(0, 3).Draw(t, "declared mac"))
	for _, other := range c.Ports {
		if other.NetworkID == p.NetworkID && (other.MAC == mac || slices.Contains(other.Addresses, a)) {
			return
		}
	}
	p.Addresses, p.MAC = append(p.Addresses, a), mac
}

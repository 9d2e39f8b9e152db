package plantest

import (
	"fmt"
	"net/netip"
	"slices"

	"cloudteam.ztgame.com/network-controller/internal/plan"
)

func (c *Neutron) createFloatingIP(step plan.Step) (string, error) {
	f := plan.ObservedFloatingIP{ID: c.NextID("fip"), Revision: 1, FloatingIPAttributes: step.FloatingIP}
	f.Created = c.now()
	if !f.Address.IsValid() {
		f.Address = netip.AddrFrom4([4]byte{203, 0, byte(c.serial >> 8), byte(c.serial)})
	}
	taken := func(o plan.ObservedFloatingIP) bool { return o.NetworkID == f.NetworkID && o.Address == f.Address }
	if find(c.FloatingIPs, taken) != nil {
		return "", refuse("IpAddressAlreadyAllocated", "address %s is in use", f.Address)
	}
	if err := texts("", f.Description); err != nil {
		return "", err
	}
	if err := c.lead(&f, step); err != nil {
		return "", err
	}
	c.FloatingIPs = append(c.FloatingIPs, f)
	return f.ID, nil
}

// changeFloatingIP updates or deletes a floating IP.
func (c *Neutron) changeFloatingIP(step plan.Step) error {
	f := c.FloatingIP(step.ID)
	switch {
	case f == nil:
		return refuse("FloatingIPNotFound", "no floating IP %q", step.ID)
	case step.Action == plan.DeleteFloatingIP && f.Revision != step.Revision && !c.freed(f, step.PortRef.ID):
		return ErrMoved
	case step.Action == plan.DeleteFloatingIP:
		c.Remove(step.ID)
		return nil
	}
	changed := *f
	for _, d := range step.Differences {
		switch d.Field {
		case plan.FieldDescription, plan.FieldDeletionPolicy:
			changed.Description = step.FloatingIP.Description
		case plan.FieldPort:
			if err := c.lead(&changed, step); err != nil {
				return err
			}
		default:
			return fmt.Errorf("a floating IP has no field %q that can change", d.Field)
		}
	}
	changed.Revision++
	*f = changed
	return texts("", f.Description)
}

// freed reports whether the floating IP has no port because the port is gone. An Inventory then reads it again before
// it deletes it.
func (c *Neutron) freed(f *plan.ObservedFloatingIP, port string) bool {
	return port != "" && f.PortID == "" && c.Port(port) == nil
}

// lead makes a floating IP lead to the port of a step: to the declared address, or to the port's lowest one of IPv4.
func (c *Neutron) lead(f *plan.ObservedFloatingIP, step plan.Step) error {
	if step.PortRef.ID == "" {
		f.PortID, f.Fixed = "", netip.Addr{}
		return nil
	}
	p := c.Port(step.PortRef.ID)
	if p == nil {
		return refuse("PortNotFound", "no port %q", step.PortRef.ID)
	}
	f.PortID, f.Fixed = p.ID, step.FloatingIP.Fixed
	if !f.Fixed.IsValid() {
		for _, a := range p.Addresses {
			if a.Address.Is4() && (!f.Fixed.IsValid() || a.Address.Less(f.Fixed)) {
				f.Fixed = a.Address
			}
		}
	}
	has := slices.ContainsFunc(p.Addresses, func(a plan.PortAddress) bool { return a.Address == f.Fixed })
	if !has || !f.Fixed.Is4() {
		return refuse("BadRequest", "port %q has no address of IPv4", p.ID)
	}
	for _, other := range c.FloatingIPs {
		same := other.PortID == p.ID && other.NetworkID == f.NetworkID && other.Fixed == f.Fixed
		if other.ID != f.ID && same {
			return refuse("FloatingIPPortAlreadyAssociated", "port %q has floating IP %q", p.ID, other.ID)
		}
	}
	return nil
}

// keepsFloatingIPs refuses a request that takes from a port an address that a floating IP is associated with, as
// Neutron 23 and later do. They also want it named in a request that keeps it.
func (c *Neutron) keepsFloatingIPs(p *plan.ObservedPort, asked []plan.PortAddress) error {
	for _, f := range c.FloatingIPs {
		leads := func(a plan.PortAddress) bool { return f.PortID == p.ID && a.Address == f.Fixed }
		if slices.ContainsFunc(p.Addresses, leads) && !slices.ContainsFunc(asked, leads) {
			return refuse("BadRequest", "floating IP %q is associated with address %s of port %q", f.ID, f.Fixed, p.ID)
		}
	}
	return nil
}

// leadNowhere is what Neutron does with the floating IPs of a port that goes.
func (c *Neutron) leadNowhere(port string) {
	for i, f := range c.FloatingIPs {
		if f.PortID == port && port != "" {
			f.PortID, f.Fixed = "", netip.Addr{}
			f.Revision++
			c.FloatingIPs[i] = f
		}
	}
}

// FloatingIP finds a floating IP by its id. It returns nil if there is none.
func (c *Neutron) FloatingIP(id string) *plan.ObservedFloatingIP {
	return find(c.FloatingIPs, func(f plan.ObservedFloatingIP) bool { return f.ID == id })
}

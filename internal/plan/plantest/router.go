package plantest

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// HA is what a router has where nothing else is asked for: several agents run it.
const HA = true

// Distributed is what a router has where nothing else is asked for: not all hosts run it.
const Distributed = false

// Outside are the addresses that external networks have.
var Outside = netip.MustParsePrefix("203.0.112.0/20")

// Served are the CIDRs of the subnets on which the router has interfaces, and those Outside.
func (c *Neutron) Served(router *plan.ObservedRouter) (cidrs []netip.Prefix) {
	for _, p := range c.Ports {
		for _, a := range p.Addresses {
			if _, s := c.Subnet(a.SubnetID); s != nil && p.Router == router.ID {
				cidrs = append(cidrs, s.CIDR)
			}
		}
	}
	if router.Gateway.NetworkID != "" {
		cidrs = append(cidrs, Outside)
	}
	return cidrs
}

// changeRouter updates or deletes a router. A new gateway counts as several changes and is not conditional.
func (c *Neutron) changeRouter(step plan.Step) error {
	r := c.Router(step.ID)
	switch {
	case r == nil:
		return refuse("RouterNotFound", "%s: no router %q", step.Action, step.ID)
	case step.Action == plan.UpdateGateway:
		r.Revision += 2
		return c.SetGateway(r, step.Router.Gateway)
	case r.Revision != step.Revision:
		return ErrMoved
	case step.Action == plan.UpdateRouter:
		r.Revision++
		return c.updateRouter(r, step)
	case r.Gateway.NetworkID != "":
		return errors.New("a conditional deletion of a router with a gateway stops half-way")
	case slices.ContainsFunc(c.Ports, func(p plan.ObservedPort) bool { return p.Router == r.ID }):
		return refuse("RouterInUse", "router %q has interfaces", r.ID)
	}
	c.Remove(step.ID)
	return nil
}

func (c *Neutron) createRouter(step plan.Step) (string, error) {
	if len(step.Router.Routes) > 0 {
		return "", errors.New("a create names routes")
	}
	r := Clone(plan.ObservedRouter{ID: c.NextID("router"), RouterAttributes: step.Router})
	r.Created = c.now()
	if r.HA == nil {
		r.HA = new(HA)
	}
	if r.Distributed == nil {
		r.Distributed = new(Distributed)
	}
	if err := texts(r.Name, r.Description); err != nil {
		return "", err
	}
	if err := c.SetGateway(&r, step.Router.Gateway); err != nil {
		return "", err
	}
	c.Routers = append(c.Routers, r)
	return r.ID, nil
}

// SetGateway gives the router an external gateway, or none.
func (c *Neutron) SetGateway(r *plan.ObservedRouter, want plan.ExternalGateway) error {
	was := r.Gateway
	r.Gateway = Clone(want)
	switch {
	case want.NetworkID == "":
		r.Gateway = plan.ExternalGateway{}
		return nil
	case len(want.Addresses) > 0 && !Outside.Contains(want.Addresses[0]):
		return refuse("InvalidIpForNetwork", "%s is not outside", want.Addresses[0])
	case len(want.Addresses) == 0 && was.NetworkID == want.NetworkID:
		r.Gateway.Addresses = was.Addresses
	case len(want.Addresses) == 0:
		c.serial++
		r.Gateway.Addresses = []netip.Addr{netip.AddrFrom4([4]byte{203, 0, 113, byte(c.serial)})}
	}
	if want.SNAT == nil {
		r.Gateway.SNAT = new(true)
	}
	return nil
}

func (c *Neutron) updateRouter(r *plan.ObservedRouter, step plan.Step) error {
	for _, d := range step.Differences {
		switch d.Field {
		case plan.FieldName:
			r.Name = step.Router.Name
		case plan.FieldDescription, plan.FieldDeletionPolicy:
			r.Description = step.Router.Description
		case plan.FieldAdminState:
			r.AdminStateUp = step.Router.AdminStateUp
		case plan.FieldHA, plan.FieldDistributed:
			if r.AdminStateUp || step.Changes(plan.FieldAdminState) {
				return refuse("InvalidInput", "cannot change %s of active routers", d.Field)
			}
			if d.Field == plan.FieldHA {
				r.HA = new(*step.Router.HA)
			} else {
				r.Distributed = new(*step.Router.Distributed)
			}
		case plan.FieldRoutes:
			for _, route := range step.Router.Routes {
				reached := func(cidr netip.Prefix) bool { return cidr.Contains(route.NextHop) }
				if !slices.ContainsFunc(c.Served(r), reached) {
					return refuse("InvalidRoutes", "%s", route)
				}
			}
			r.Routes = slices.Clone(step.Router.Routes)
		default:
			return fmt.Errorf("a router has no field %q that can change", d.Field)
		}
	}
	return texts(r.Name, r.Description)
}

func (c *Neutron) attach(step plan.Step) error {
	p, r := c.Port(step.ID), c.Router(step.RouterRef.ID)
	switch {
	case p == nil || r == nil:
		return refuse("PortNotFound", "no port %q or no router %q", step.ID, step.RouterRef.ID)
	case p.Router != "":
		return refuse("PortInUse", "%s", step.Action)
	}
	fours, six := 0, false
	for _, a := range p.Addresses {
		_, s := c.Subnet(a.SubnetID)
		for _, cidr := range c.Served(r) {
			if cidr.Overlaps(s.CIDR) {
				return refuse("InvalidInput", "cidr %s overlaps with %s", s.CIDR, cidr)
			}
		}
		if a.Address.Is4() {
			fours++
		} else {
			six = true
		}
	}
	sixes := slices.ContainsFunc(c.Ports, func(o plan.ObservedPort) bool {
		isSix := func(a plan.PortAddress) bool { return a.Address.Is6() }
		return o.Router == r.ID && o.NetworkID == p.NetworkID && slices.ContainsFunc(o.Addresses, isSix)
	})
	if fours > 1 || six && sixes {
		return refuse("InvalidInput", "several IPv4 subnets on one interface, or several interfaces with IPv6 subnets")
	}
	p.Router = r.ID
	p.Revision++
	r.Revision++
	return nil
}

func (c *Neutron) detach(step plan.Step) error {
	p, r := c.Port(step.ID), c.Router(step.RouterRef.ID)
	if p == nil || r == nil || p.Router != r.ID {
		return refuse("RouterInterfaceNotFound", "router %q has no interface %q", step.RouterRef.ID, step.ID)
	}
	for _, a := range p.Addresses {
		_, s := c.Subnet(a.SubnetID)
		if slices.ContainsFunc(r.Routes, func(route plan.Route) bool { return s.CIDR.Contains(route.NextHop) }) {
			return refuse("RouterInterfaceInUseByRoute", "%s", step.Action)
		}
	}
	c.Ports = slices.DeleteFunc(c.Ports, func(p plan.ObservedPort) bool { return p.ID == step.ID })
	r.Revision++
	return nil
}

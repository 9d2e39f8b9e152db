package plan

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// This file is the part of the cloud that routes. Its rules are those of neutron.db.l3_db and neutron.db.extraroute_db.

// Routers are on several agents, and not on all hosts, where nothing else is asked for. Specs ask for nothing else, as
// what cannot change must not differ from spec to spec.
const cloudHA, cloudDistributed = true, false

// outside are the addresses that external networks have.
var outside = netip.MustParsePrefix("203.0.112.0/20")

func (c *cloud) findRouter(id string) *ObservedRouter {
	for i := range c.routers {
		if c.routers[i].ID == id {
			return &c.routers[i]
		}
	}
	return nil
}

// addressed reports whether a port has the address of the subnet, or any where it is the zero Addr.
func (c *cloud) addressed(subnetID string, address netip.Addr) bool {
	return slices.ContainsFunc(c.ports, func(p ObservedPort) bool {
		return slices.ContainsFunc(p.Addresses, func(a PortAddress) bool {
			return a.SubnetID == subnetID && (!address.IsValid() || a.Address == address)
		})
	})
}

// served are the CIDRs of the subnets on which the router has interfaces, and those outside.
func (c *cloud) served(router *ObservedRouter) (cidrs []netip.Prefix) {
	for _, p := range c.ports {
		for _, a := range p.Addresses {
			if _, s := c.findSubnet(a.SubnetID); s != nil && p.Router == router.ID {
				cidrs = append(cidrs, s.CIDR)
			}
		}
	}
	if router.Gateway.NetworkID != "" {
		cidrs = append(cidrs, outside)
	}
	return cidrs
}

// takeRouter is take for steps about routers and interfaces.
func (c *cloud) takeRouter(step Step) (string, error) {
	switch step.Action {
	case CreateInterface:
		if slices.ContainsFunc(step.Port.Addresses, func(a PortAddress) bool { return a.SubnetID == "" }) {
			return "", errors.New("an interface names no subnet")
		}
		return c.createPort(step)
	case DeleteInterface:
		if p := c.findPort(step.ID); p != nil && p.Router != "" {
			return "", errors.New("ServicePortInUse")
		}
		step.Action = DeletePort
		return c.take(step)
	case CreateRouter:
		return c.createRouter(step)
	case AttachInterface:
		return step.ID, c.attach(step)
	case DetachInterface:
		return step.ID, c.detach(step)
	}

	r := c.findRouter(step.ID)
	if r == nil {
		return "", fmt.Errorf("%s: no router %q", step.Action, step.ID)
	}
	switch step.Action {
	case UpdateGateway:
		r.Revision += 2
		return r.ID, c.setGateway(r, step.Router.Gateway)
	case UpdateRouter, DeleteRouter:
		if r.Revision != step.Revision {
			return "", errMoved
		}
	default:
		return "", fmt.Errorf("no action %q", step.Action)
	}
	if step.Action == UpdateRouter {
		r.Revision++
		return r.ID, c.updateRouter(r, step)
	}
	if r.Gateway.NetworkID != "" {
		return "", errors.New("a conditional deletion of a router that leads outside stops half-way")
	}
	if slices.ContainsFunc(c.ports, func(p ObservedPort) bool { return p.Router == r.ID }) {
		return "", errors.New("RouterInUse")
	}
	c.routers = slices.DeleteFunc(c.routers, func(r ObservedRouter) bool { return r.ID == step.ID })
	return step.ID, nil
}

func (c *cloud) createRouter(step Step) (string, error) {
	if step.ID != "" || step.Revision != 0 || len(step.Router.Routes) > 0 {
		return "", errors.New("a create names what exists, or routes")
	}
	r := cloneRouter(ObservedRouter{ID: c.id("router"), RouterAttributes: step.Router})
	r.Created = cloudEpoch.Add(time.Duration(c.serial) * time.Second)
	if r.HA == nil {
		r.HA = new(cloudHA)
	}
	if r.Distributed == nil {
		r.Distributed = new(cloudDistributed)
	}
	if err := checkTexts(r.Name, r.Description); err != nil {
		return "", err
	}
	if err := c.setGateway(&r, step.Router.Gateway); err != nil {
		return "", err
	}
	c.routers = append(c.routers, r)
	return r.ID, nil
}

func (c *cloud) setGateway(r *ObservedRouter, want ExternalGateway) error {
	was := r.Gateway
	r.Gateway = cloneRouter(ObservedRouter{RouterAttributes: RouterAttributes{Gateway: want}}).Gateway
	switch {
	case want.NetworkID == "":
		r.Gateway = ExternalGateway{}
		return nil
	case len(want.Addresses) > 0 && !outside.Contains(want.Addresses[0]):
		return errors.New("InvalidIpForNetwork")
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

func (c *cloud) updateRouter(r *ObservedRouter, step Step) error {
	for _, d := range step.Differences {
		switch d.Field {
		case FieldName:
			r.Name = step.Router.Name
		case FieldDescription:
			r.Description = step.Router.Description
		case FieldAdminState:
			r.AdminStateUp = step.Router.AdminStateUp
		case FieldHA, FieldDistributed:
			if r.AdminStateUp || step.Changes(FieldAdminState) {
				return fmt.Errorf("cannot change %s of active routers", d.Field)
			}
			if d.Field == FieldHA {
				r.HA = new(*step.Router.HA)
			} else {
				r.Distributed = new(*step.Router.Distributed)
			}
		case FieldRoutes:
			for _, route := range step.Router.Routes {
				reached := func(cidr netip.Prefix) bool { return cidr.Contains(route.NextHop) }
				if !slices.ContainsFunc(c.served(r), reached) {
					return fmt.Errorf("InvalidRoutes: %s", route)
				}
			}
			r.Routes = slices.Clone(step.Router.Routes)
		default:
			return fmt.Errorf("a router has no field %q that can change", d.Field)
		}
	}
	return checkTexts(r.Name, r.Description)
}

func (c *cloud) attach(step Step) error {
	p, r := c.findPort(step.ID), c.findRouter(step.RouterRef.ID)
	switch {
	case p == nil || r == nil:
		return fmt.Errorf("no port %q or no router %q", step.ID, step.RouterRef.ID)
	case p.Router != "":
		return errors.New("PortInUse")
	}
	fours, six := 0, false
	for _, a := range p.Addresses {
		_, s := c.findSubnet(a.SubnetID)
		for _, cidr := range c.served(r) {
			if cidr.Overlaps(s.CIDR) {
				return fmt.Errorf("cidr %s overlaps with %s", s.CIDR, cidr)
			}
		}
		if a.Address.Is4() {
			fours++
		} else {
			six = true
		}
	}
	sixes := slices.ContainsFunc(c.ports, func(o ObservedPort) bool {
		return o.Router == r.ID && o.NetworkID == p.NetworkID && slices.ContainsFunc(o.Addresses, func(a PortAddress) bool {
			return a.Address.Is6()
		})
	})
	if fours > 1 || six && sixes {
		return errors.New("several IPv4 subnets on one interface, or several interfaces with IPv6 ones of a network")
	}
	p.Router = r.ID
	p.Revision++
	r.Revision++
	return nil
}

func (c *cloud) detach(step Step) error {
	p, r := c.findPort(step.ID), c.findRouter(step.RouterRef.ID)
	if p == nil || r == nil || p.Router != r.ID {
		return fmt.Errorf("router %q has no interface %q", step.RouterRef.ID, step.ID)
	}
	for _, a := range p.Addresses {
		_, s := c.findSubnet(a.SubnetID)
		if slices.ContainsFunc(r.Routes, func(route Route) bool { return s.CIDR.Contains(route.NextHop) }) {
			return errors.New("RouterInterfaceInUseByRoute")
		}
	}
	c.ports = slices.DeleteFunc(c.ports, func(p ObservedPort) bool { return p.ID == step.ID })
	r.Revision++
	return nil
}

func cloneRouter(r ObservedRouter) ObservedRouter {
	r.Routes = slices.Clone(r.Routes)
	r.Gateway.Addresses = slices.Clone(r.Gateway.Addresses)
	if r.Gateway.SNAT != nil {
		r.Gateway.SNAT = new(*r.Gateway.SNAT)
	}
	r.HA, r.Distributed = clonePointer(r.HA), clonePointer(r.Distributed)
	return r
}

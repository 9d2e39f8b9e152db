package plantest

import (
	"slices"

	"cloudteam.ztgame.com/network-controller/internal/plan"
)

func CloneObserved(o plan.Observed) plan.Observed {
	o.Networks = slices.Clone(o.Networks)
	for i := range o.Networks {
		n := &o.Networks[i]
		n.Attributes = CloneAttributes(n.Attributes)
		n.Subnets, n.Shares = slices.Clone(n.Subnets), slices.Clone(n.Shares)
		for j := range n.Subnets {
			n.Subnets[j].Subnet = CloneSubnet(n.Subnets[j].Subnet)
		}
	}
	o.Ports = slices.Clone(o.Ports)
	for i, p := range o.Ports {
		o.Ports[i] = ClonePort(p)
	}
	o.Routers = slices.Clone(o.Routers)
	for i, r := range o.Routers {
		o.Routers[i] = CloneRouter(r)
	}
	return o
}

func CloneAttributes(a plan.Attributes) plan.Attributes {
	a.PortSecurity, a.DNSDomain = ClonePointer(a.PortSecurity), ClonePointer(a.DNSDomain)
	a.Shared, a.External, a.QoSPolicy = ClonePointer(a.Shared), ClonePointer(a.External), ClonePointer(a.QoSPolicy)
	a.Tags, a.ZoneHints = slices.Clone(a.Tags), slices.Clone(a.ZoneHints)
	return a
}

func CloneSubnet(s plan.Subnet) plan.Subnet {
	s.Pools = slices.Clone(s.Pools)
	s.DNSServers = slices.Clone(s.DNSServers)
	s.HostRoutes = slices.Clone(s.HostRoutes)
	s.ServiceTypes = slices.Clone(s.ServiceTypes)
	s.From = ClonePointer(s.From)
	return s
}

func ClonePort(p plan.ObservedPort) plan.ObservedPort {
	p.Addresses = slices.Clone(p.Addresses)
	p.SecurityGroups = slices.Clone(p.SecurityGroups)
	return p
}

func CloneRouter(r plan.ObservedRouter) plan.ObservedRouter {
	r.Routes = slices.Clone(r.Routes)
	r.Gateway.Addresses = slices.Clone(r.Gateway.Addresses)
	if r.Gateway.SNAT != nil {
		r.Gateway.SNAT = new(*r.Gateway.SNAT)
	}
	r.HA, r.Distributed = ClonePointer(r.HA), ClonePointer(r.Distributed)
	return r
}

func ClonePointer[T any](p *T) *T {
	if p == nil {
		return nil
	}
	return new(*p)
}

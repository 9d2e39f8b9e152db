package plantest

import (
	"reflect"
	"slices"
	"strconv"

	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// The copies share nothing with the originals.

// CloneObserved copies what was observed.
func CloneObserved(o plan.Observed) plan.Observed {
	return plan.Observed{
		Networks: cloneAll(o.Networks, CloneNetwork),
		Ports:    cloneAll(o.Ports, ClonePort),
		Routers:  cloneAll(o.Routers, CloneRouter),
		Groups:   cloneAll(o.Groups, CloneGroup),

		FloatingIPs: slices.Clone(o.FloatingIPs),
	}
}

func cloneAll[T any](list []T, clone func(T) T) []T {
	all := slices.Clone(list)
	for i, r := range all {
		all[i] = clone(r)
	}
	return all
}

// OneOfEach has a resource of each kind, with the owner's marker and its place in Observed as its id. With it a test
// holds that something knows each kind.
func OneOfEach(owner plan.Owner) (o plan.Observed) {
	kinds := reflect.ValueOf(&o).Elem()
	for at := range kinds.NumField() {
		list := kinds.Field(at)
		one := reflect.New(list.Type().Elem()).Elem()
		one.FieldByName("ID").SetString(strconv.Itoa(at))
		one.FieldByName("Description").SetString(owner.Marker())
		list.Set(reflect.Append(list, one))
	}
	return o
}

// CloneNetwork copies a network with its subnets and shares.
func CloneNetwork(n plan.ObservedNetwork) plan.ObservedNetwork {
	n.Attributes = CloneAttributes(n.Attributes)
	n.Shares = slices.Clone(n.Shares)
	n.Subnets = cloneAll(n.Subnets, func(s plan.ObservedSubnet) plan.ObservedSubnet {
		s.Subnet, s.Used = CloneSubnet(s.Subnet), ClonePointer(s.Used)
		return s
	})
	return n
}

// CloneAttributes copies a network's settings.
func CloneAttributes(a plan.Attributes) plan.Attributes {
	a.PortSecurity, a.DNSDomain = ClonePointer(a.PortSecurity), ClonePointer(a.DNSDomain)
	a.Shared, a.External, a.QoSPolicy = ClonePointer(a.Shared), ClonePointer(a.External), ClonePointer(a.QoSPolicy)
	a.Tags, a.ZoneHints = slices.Clone(a.Tags), slices.Clone(a.ZoneHints)
	return a
}

// CloneSubnet copies a subnet's settings.
func CloneSubnet(s plan.Subnet) plan.Subnet {
	s.Pools = slices.Clone(s.Pools)
	s.DNSServers = slices.Clone(s.DNSServers)
	s.HostRoutes = slices.Clone(s.HostRoutes)
	s.ServiceTypes = slices.Clone(s.ServiceTypes)
	s.From = ClonePointer(s.From)
	return s
}

// ClonePort copies a port.
func ClonePort(p plan.ObservedPort) plan.ObservedPort {
	p.Addresses = slices.Clone(p.Addresses)
	p.SecurityGroups = slices.Clone(p.SecurityGroups)
	p.PortOptions = clonePortOptions(p.PortOptions)
	return p
}

func clonePortOptions(o plan.PortOptions) plan.PortOptions {
	return plan.PortOptions{
		PortSecurity: ClonePointer(o.PortSecurity), QoSPolicy: ClonePointer(o.QoSPolicy), DNSName: ClonePointer(o.DNSName),
		AddressPairs: slices.Clone(o.AddressPairs),
	}
}

// CloneRouter copies a router.
func CloneRouter(r plan.ObservedRouter) plan.ObservedRouter {
	r.Routes = slices.Clone(r.Routes)
	r.Gateway.Addresses = slices.Clone(r.Gateway.Addresses)
	r.Gateway.SNAT = ClonePointer(r.Gateway.SNAT)
	r.HA, r.Distributed = ClonePointer(r.HA), ClonePointer(r.Distributed)
	return r
}

// CloneGroup copies a security group with its rules.
func CloneGroup(g plan.ObservedGroup) plan.ObservedGroup {
	g.Stateful = ClonePointer(g.Stateful)
	g.Rules = slices.Clone(g.Rules)
	return g
}

// ClonePointer copies what a pointer points to.
func ClonePointer[T any](p *T) *T {
	if p == nil {
		return nil
	}
	return new(*p)
}

package inventory

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"slices"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

var subnetKind = kind[wireSubnet, plan.ObservedSubnet]{
	Collection: client.Collection{One: "subnet", Many: "subnets", Bulk: true},
	fields:     fieldsOf[wireSubnet](),
	decode:     wireSubnet.observed,
	encode:     subnetBody,
	extensions: map[string]string{
		"dns_publish_fixed_ip": plan.FieldDNSPublishFixedIP,
		"service_types":        plan.FieldServiceTypes,
	},
}

func (i *Inventory) subnetActions() actions {
	return actions{
		plan.CreateSubnet: {check: i.notYetAllocated, take: i.writeSubnet, moves: networkMoved},
		plan.UpdateSubnet: {take: i.writeSubnet, moves: networkMovedBy},
		plan.DeleteSubnet: {take: i.removeSubnet, moves: networkMoved},
	}
}

// itsNetwork is the network of a subnet or a share.
func itsNetwork(step plan.Step) plan.Resource {
	return plan.Resource{Kind: plan.KindNetwork, ID: step.NetworkRef.ID}
}

// networkMoved is the network whose revision Neutron moves by one with a step (measured; the contract suite checks it).
func networkMoved(step plan.Step, _ int) string { return step.NetworkRef.ID }

// networkMovedBy is networkMoved for the update of a subnet, after which the subnet has a revision. DNS servers, host
// routes and pools move neither revision, and a description the subnet's alone (measured; the contract suite checks
// it). Before Neutron 26, a description moved the network's, too: then its next conditional write fails and rereads.
func networkMovedBy(step plan.Step, revision int) string {
	described := func(d plan.Difference) bool {
		return d.Field == plan.FieldDescription || d.Field == plan.FieldDeletionPolicy
	}
	left := slices.DeleteFunc(slices.Clone(step.Differences), described)
	if revision == step.Revision || len(left) == 0 {
		return ""
	}
	return step.NetworkRef.ID
}

type wireSubnet struct {
	wireBase
	NetworkID   string      `json:"network_id"`
	Name        string      `json:"name"`
	CIDR        string      `json:"cidr"`
	Gateway     *string     `json:"gateway_ip"`
	Pools       []wirePool  `json:"allocation_pools"`
	DHCP        bool        `json:"enable_dhcp"`
	DNSServers  []string    `json:"dns_nameservers"`
	HostRoutes  []wireRoute `json:"host_routes"`
	AddressMode string      `json:"ipv6_address_mode"`
	RAMode      string      `json:"ipv6_ra_mode"`
	PoolID      string      `json:"subnetpool_id"`
	// ServiceTypes and DNSPublish are missing if the cloud lacks their extensions.
	ServiceTypes []string `json:"service_types"`
	DNSPublish   bool     `json:"dns_publish_fixed_ip"`
}

type wirePool struct {
	Start string `json:"start"`
	End   string `json:"end"`
}

type wireRoute struct {
	Destination string `json:"destination"`
	NextHop     string `json:"nexthop"`
}

func (w wireSubnet) observed() (plan.ObservedSubnet, error) {
	fail := func(field string) (plan.ObservedSubnet, error) {
		return plan.ObservedSubnet{}, fmt.Errorf("subnet %q: %s is no address of a known form", w.ID, field)
	}
	if w.ID == "" || w.NetworkID == "" {
		return plan.ObservedSubnet{}, fmt.Errorf("a subnet has no id or no network_id")
	}
	s := plan.ObservedSubnet{
		ID: w.ID, Revision: int(w.Revision.Or0()), Created: w.Created.Time, Name: w.Name, Description: w.Description,
		PoolID: w.PoolID,
		Subnet: plan.Subnet{
			DHCP: w.DHCP, IPv6AddressMode: plan.IPv6Mode(w.AddressMode), IPv6RAMode: plan.IPv6Mode(w.RAMode),
			ServiceTypes: w.ServiceTypes, DNSPublishFixedIP: w.DNSPublish,
		},
	}
	var err error
	if s.CIDR, err = netip.ParsePrefix(w.CIDR); err != nil {
		return fail("cidr")
	}
	if w.Gateway != nil && *w.Gateway != "" {
		if s.Gateway, err = netip.ParseAddr(*w.Gateway); err != nil {
			return fail("gateway_ip")
		}
	}
	for _, pool := range w.Pools {
		start, errStart := netip.ParseAddr(pool.Start)
		end, errEnd := netip.ParseAddr(pool.End)
		if errStart != nil || errEnd != nil {
			return fail("allocation_pools")
		}
		s.Pools = append(s.Pools, plan.Range{Start: start, End: end})
	}
	for _, server := range w.DNSServers {
		addr, err := netip.ParseAddr(server)
		if err != nil {
			return fail("dns_nameservers")
		}
		s.DNSServers = append(s.DNSServers, addr)
	}
	if s.HostRoutes, err = routesOf(w.HostRoutes); err != nil {
		return fail("host_routes")
	}
	s.Subnet = s.Canonical()
	return s, nil
}

// routesOf converts routes from Neutron's JSON, in the domain's canonical order.
func routesOf(routes []wireRoute) ([]plan.Route, error) {
	var all []plan.Route
	for _, route := range routes {
		destination, err := netip.ParsePrefix(route.Destination)
		if err != nil {
			return nil, err
		}
		nextHop, err := netip.ParseAddr(route.NextHop)
		if err != nil {
			return nil, err
		}
		all = append(all, plan.Route{Destination: destination, NextHop: nextHop})
	}
	slices.SortFunc(all, func(a, b plan.Route) int {
		return cmp.Or(a.Destination.Addr().Compare(b.Destination.Addr()),
			cmp.Compare(a.Destination.Bits(), b.Destination.Bits()), a.NextHop.Compare(b.NextHop))
	})
	return all, nil
}

// routesBody converts routes to Neutron's JSON.
func routesBody(routes []plan.Route) []wireRoute {
	body := []wireRoute{}
	for _, route := range routes {
		body = append(body, wireRoute{route.Destination.String(), route.NextHop.String()})
	}
	return body
}

// subnetBody is the body of a create (all fields) or of an update (the fields that the step changes).
func subnetBody(step plan.Step, all bool) map[string]any {
	s := step.Subnet
	body := map[string]any{}
	if all {
		body["network_id"] = step.NetworkRef.ID
		body["ip_version"] = s.IPVersion()
		if s.Pending() {
			body["subnetpool_id"] = s.From.Pool.ID
			if s.From.PrefixLength != 0 {
				body["prefixlen"] = s.From.PrefixLength
			}
		} else {
			body["cidr"] = s.CIDR.String()
		}
		if s.IPv6AddressMode != "" {
			body["ipv6_address_mode"] = string(s.IPv6AddressMode)
		}
		if s.IPv6RAMode != "" {
			body["ipv6_ra_mode"] = string(s.IPv6RAMode)
		}
	}
	set := setterOf(body, step, all)
	set.named(step.SubnetName, step.SubnetDescription)
	set(plan.FieldDHCP, "enable_dhcp", s.DHCP)
	if !s.Pending() { // otherwise Neutron derives them from the CIDR that it allocates
		var gateway any // null: no gateway
		if s.Gateway.IsValid() {
			gateway = s.Gateway.String()
		}
		set(plan.FieldGateway, "gateway_ip", gateway)
		pools := []wirePool{}
		for _, pool := range s.Pools {
			pools = append(pools, wirePool{pool.Start.String(), pool.End.String()})
		}
		set(plan.FieldAllocationPools, "allocation_pools", pools)
	}
	servers := []string{}
	for _, server := range s.DNSServers {
		servers = append(servers, server.String())
	}
	set(plan.FieldDNSServers, "dns_nameservers", servers)
	set(plan.FieldHostRoutes, "host_routes", routesBody(s.HostRoutes))
	// By default a new subnet serves all ports and is not published. A cloud without these extensions refuses the fields.
	if !all || len(s.ServiceTypes) > 0 {
		set(plan.FieldServiceTypes, "service_types", append([]string{}, s.ServiceTypes...))
	}
	extended(set, plan.FieldDNSPublishFixedIP, "dns_publish_fixed_ip", &s.DNSPublishFixedIP, all)
	return body
}

// missing returns the ids of the subnets that a network names and known lacks.
func missing(w wireNetwork, known []wireSubnet) (ids []string) {
	for _, id := range w.Subnets {
		if !slices.ContainsFunc(known, func(s wireSubnet) bool { return s.ID == id }) {
			ids = append(ids, id)
		}
	}
	return ids
}

// subnetsHeld returns the subnets of a network as the Inventory holds them.
func (i *Inventory) subnetsHeld(networkID string) []plan.ObservedSubnet {
	if n, known := i.networks.get(networkID); known {
		return n.Subnets
	}
	return nil
}

// changeSubnet replaces a subnet in its network, or removes it if s is nil. moves says whether Neutron has moved the
// network's revision by one.
func (i *Inventory) changeSubnet(networkID, id string, s *plan.ObservedSubnet, moves bool) {
	i.networks.edit(networkID, func(n *plan.ObservedNetwork) {
		held := n.Subnets
		n.Subnets = nil
		if s != nil && i.counts.any() {
			s.Used = new(int64(0)) // for a new subnet
		}
		for _, other := range held {
			if other.ID == id {
				if s != nil {
					s.Used = other.Used
				}
				continue
			}
			n.Subnets = append(n.Subnets, other)
		}
		if s != nil {
			n.Subnets = append(n.Subnets, *s)
		}
		if moves {
			n.Revision++
		}
	})
}

// subnetsOf lists the subnets of one network, of all projects. If the list omits a subnet that the network names, it
// reads that subnet by id: an incomplete list must not cause a second create. A subnet that is not found by id either
// is gone, or hidden from these credentials.
func (i *Inventory) subnetsOf(ctx context.Context, w wireNetwork) ([]wireSubnet, error) {
	known, err := subnetKind.list(ctx, i.access, url.Values{"network_id": {w.ID}})
	if err != nil {
		return nil, err
	}
	for _, id := range missing(w, known) {
		s, err := subnetKind.get(ctx, i.access, id)
		switch {
		case err == nil:
			known = append(known, s)
		case !client.IsNotFound(err):
			return nil, err
		}
	}
	return known, nil
}

// notYetAllocated rereads a network before a subnet is created on it from a subnet pool. It does not trust the list
// that showed no such subnet. Neutron refuses a second subnet of the same CIDR, but creates a second one from a pool.
func (i *Inventory) notYetAllocated(ctx context.Context, step plan.Step) error {
	if !step.Subnet.Pending() {
		return nil
	}
	if err := i.stillOurs(ctx, step, itsNetwork(step)); err != nil {
		return err
	}
	_, owner, _ := plan.ParseDescription(step.SubnetDescription)
	for _, s := range i.subnetsHeld(step.NetworkRef.ID) {
		if step.Subnet.Fits(s) && owner.Owns(s.Description) {
			return conflict(step, "subnet "+s.ID+" is there already")
		}
	}
	return nil
}

// writeSubnet creates or updates a subnet. It tells the step the CIDR that Neutron allocated.
func (i *Inventory) writeSubnet(ctx context.Context, step *plan.Step) (revision int, err error) {
	defer i.networks.write(step.NetworkRef.ID)()
	var s plan.ObservedSubnet
	if step.Action.Creates() {
		s, err = subnetKind.create(ctx, i.access, *step, nil)
	} else {
		s, err = subnetKind.update(ctx, i.access, *step, &step.Revision)
	}
	if err != nil {
		return 0, err
	}
	step.ID = s.ID
	if step.Subnet.Pending() {
		step.Subnet.CIDR = s.CIDR
	}
	moves := step.Action.Creates() || networkMovedBy(*step, s.Revision) != ""
	i.changeSubnet(step.NetworkRef.ID, s.ID, &s, moves)
	return s.Revision, nil
}

func (i *Inventory) removeSubnet(ctx context.Context, step *plan.Step) (revision int, err error) {
	defer i.networks.write(step.NetworkRef.ID)()
	if err := subnetKind.remove(ctx, i.access, *step, &step.Revision); err != nil {
		return 0, err
	}
	i.changeSubnet(step.NetworkRef.ID, step.ID, nil, true)
	return 0, nil
}

package plan

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"time"
)

// Names of a router's fields, as the user writes them in a spec. FieldRouter is of an interface: the router that it is
// on.
const (
	FieldRouter          = "router"
	FieldExternalNetwork = "externalNetwork"
	FieldSNAT            = "snat"
	FieldExternalIP      = "externalIP"
	FieldRoutes          = "routes"
	FieldExisting        = "existing"
	FieldHA              = "ha"
	FieldDistributed     = "distributed"
)

// InterfaceDeviceOwner is the device_owner in Neutron of a port that is made to be a router's interface, and is one
// from when it has a router. With another, Neutron refuses it the gateway's address in a subnet in which hosts make
// their own addresses (SLAAC), and gives it one that it makes itself in every such subnet of the network (measured; the
// contract suite holds it).
const InterfaceDeviceOwner = "network:router_interface"

// RouterSpec says which router serves a network, in canonical form. The router has an interface on each subnet that has
// a gateway, with the gateway's address.
type RouterSpec struct {
	// Existing is the id of a router that is not ours: only the interfaces on it are. Empty means a router of the
	// network's own, which all other fields are about.
	Existing string
	// ExternalNetwork is the id of the external network that the router leads to; empty means none.
	ExternalNetwork string
	// SNAT says whether addresses are translated on the way out; nil leaves it to the cloud, and then either is right.
	SNAT *bool
	// ExternalIP is the router's address outside; the zero Addr leaves it to the cloud, and then any is right.
	ExternalIP netip.Addr
	// Routes are the router's, sorted, each once.
	Routes []Route
	// HA says whether the router is on several agents, Distributed whether each compute host routes; nil leaves it to the
	// cloud, and then either is right.
	HA, Distributed *bool
	// Unresolved is true where it is not known which router, or which external network, is meant: what there is stays,
	// but for what keeps subnets from being as declared.
	Unresolved bool
}

// RouterAttributes are a router's settings, as they are sent to Neutron.
type RouterAttributes struct {
	Name string
	// Description is whole, marker included.
	Description string
	// AdminStateUp is false for a router that was switched off.
	AdminStateUp bool
	// Gateway is how the router leads outside.
	Gateway ExternalGateway
	// Routes are sorted by destination, then by next hop. Neutron takes them in no create, and those by which it can
	// reach the next hop.
	Routes []Route
	// HA and Distributed are nil where they are unset, or where the credentials may not see them, or the cloud does not
	// have them. Neutron changes them only of a router that is switched off.
	HA, Distributed *bool
}

// ExternalGateway is how a router leads outside. The zero value means that it does not.
type ExternalGateway struct {
	// NetworkID is the external network's.
	NetworkID string
	// SNAT is nil in a request that leaves it to the cloud.
	SNAT *bool
	// Addresses are the router's outside; empty in a request that leaves them to the cloud.
	Addresses []netip.Addr
}

// ObservedRouter is a router as Neutron has it.
type ObservedRouter struct {
	ID string
	// Revision is Neutron's revision_number: it moves with every change, and with every interface.
	Revision int
	// Created is when Neutron made it.
	Created time.Time
	RouterAttributes
}

// RouterResource is what a Difference of a router is of.
const RouterResource = "router"

func interfaceResource(addresses []PortAddress) string {
	return "router interface " + listAddresses(addresses)
}

// Own reports whether the router is to be the network's own.
func (r *RouterSpec) Own() bool { return r != nil && r.Existing == "" }

// compareRouters sorts the older router first, and of equals the one with the lower id.
func compareRouters(a, b ObservedRouter) int {
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
}

// attributes are those of the network's own router, with all of its routes.
func (s Spec) routerAttributes() RouterAttributes {
	a := RouterAttributes{
		Name: s.Name, Description: s.Owner.Describe(""), AdminStateUp: true,
		Routes: slices.Compact(slices.SortedFunc(slices.Values(s.Router.Routes), compareRoutes)),
		HA:     s.Router.HA, Distributed: s.Router.Distributed,
	}
	if s.Router.ExternalNetwork != "" {
		a.Gateway = ExternalGateway{NetworkID: s.Router.ExternalNetwork, SNAT: s.Router.SNAT}
		if s.Router.ExternalIP.IsValid() {
			a.Gateway.Addresses = []netip.Addr{s.Router.ExternalIP}
		}
	}
	return a
}

// interfaces are the addresses of each interface that the router has to have, with the subnets' ids where these are
// known. Subnets whose addresses are not for interfaces have none. Neutron takes one IPv4 subnet on an interface, and
// of the IPv6 subnets of one network all on the same interface (_validate_router_port_info in neutron/db/l3_db.py).
func (s Spec) interfaces(n ObservedNetwork) [][]PortAddress {
	if s.Router == nil {
		return nil
	}
	var all [][]PortAddress
	var six []PortAddress
	for _, subnet := range s.Subnets {
		if !subnet.Gateway.IsValid() || !Serves(subnet.ServiceTypes, InterfaceDeviceOwner) {
			continue
		}
		a := PortAddress{Address: subnet.Gateway}
		// One that is to be replaced has no id yet.
		if there, exists := n.SubnetByCIDR(subnet.CIDR); exists && len(subnet.fixedDifferences(there.Subnet)) == 0 {
			a.SubnetID = there.ID
		}
		if subnet.CIDR.Addr().Is4() {
			all = append(all, []PortAddress{a})
		} else {
			six = append(six, a)
		}
	}
	if len(six) > 0 {
		slices.SortFunc(six, comparePortAddresses)
		all = append(all, six)
	}
	return all
}

// routing is what is to be done about routers and their interfaces, around what is done about subnets.
type routing struct {
	// first lets go of what stands in the way of subnets that go or change. Neutron keeps a subnet that a router has an
	// interface on, and the gateway's address with it.
	first Change
	// last adds, to the steps before, what needs the subnets, and removes routers that nothing of ours is on any more.
	last func(before Change, network Ref) Change
	// refused is what Neutron does not do as things stand. Its refusal says why, and keeps nothing else from being done.
	refused Change
}

// planRouting plans a network's router and its interfaces. What bears the owner's marker and is not declared goes.
func planRouting(spec Spec, n ObservedNetwork, observed Observed) routing {
	if spec.Router == nil && len(observed.Routers)+len(observed.Ports) == 0 {
		return routing{last: addNothing} // as a rule
	}
	return planRouter(spec, n, observed)
}

// addNothing is routing.last where nothing is known to do.
func addNothing(before Change, _ Ref) Change { return before }

// planRouter is planRouting where a router is declared, or was.
func planRouter(spec Spec, n ObservedNetwork, observed Observed) (r routing) {
	// What an interface on a subnet has to be is not known either while it is not known whether that stays.
	if spec.Router != nil && (spec.Router.Unresolved || slices.ContainsFunc(n.Subnets, spec.doubtful)) {
		return routing{first: letGoOfSubnets(spec, n, observed), last: addNothing}
	}
	own, exists := observed.Router()
	var target Ref
	going := observed.Routers
	switch {
	case spec.Router.Own() && exists:
		target = Ref{ID: own.ID}
		going = slices.DeleteFunc(slices.Clone(going), func(o ObservedRouter) bool { return o.ID == own.ID })
	case spec.Router != nil:
		target = Ref{ID: spec.Router.Existing}
	}

	wanted := spec.interfaces(n)
	fitting, leaving := matchInterfaces(wanted, target.ID, n.ID, observed.Ports)

	var kept, declared []Route // of the network's own router
	if spec.Router.Own() {
		declared = spec.routerAttributes().Routes
	}
	if spec.Router.Own() && exists {
		var step Step
		var needed bool
		if step, needed = changeKind(spec, own); needed && own.AdminStateUp {
			r.refused = append(r.refused, step)
		} else if needed {
			r.first = append(r.first, step)
		}
		step, kept, needed = updateRouter(spec, own, subnetsOf(leaving, own.ID, observed))
		if needed {
			r.first = append(r.first, step)
		}
	}
	const undeclared = "it is ours and no longer declared"
	r.first = append(r.first, leave(leaving, going, undeclared)...)

	r.last = func(change Change, network Ref) Change {
		if spec.Router.Own() && !exists {
			change = append(change, createRouter(spec))
			target = change.latest()
		} else if spec.Router.Own() {
			if step, needed := updateGateway(spec, own); needed {
				change = append(change, step)
			}
		}
		for i, addresses := range wanted {
			port := fitting[i]
			if port == nil {
				change = append(change, createInterface(spec, network, addresses, change.subnetsOf(addresses)))
				change = append(change, attachInterface(spec, network, change.latest(), addresses, target))
				continue
			}
			// To be attached moves a port's revision, so that comes last.
			if step, needed := updateInterface(spec, *port); needed {
				change = append(change, step)
			}
			if port.Router == "" {
				change = append(change, attachInterface(spec, network, Ref{ID: port.ID}, addresses, target))
			}
		}
		// The next hop of a route may be in a subnet that has no CIDR yet, and then no interface either.
		if !slices.Equal(kept, declared) && !spec.pending() {
			change = append(change, setRoutes(target, own, kept, declared, reasonDiffers))
		}
		reason := undeclared
		if exists && target.ID == own.ID {
			reason = "it is a duplicate of the older router " + own.ID
		}
		return append(change, deleteRouters(going, reason)...)
	}
	return r
}

// subnetsOf are the subnets of addresses, of which those that name none are in subnets that the change creates.
func (c Change) subnetsOf(addresses []PortAddress) (refs []Ref) {
	if !slices.ContainsFunc(addresses, func(a PortAddress) bool { return a.SubnetID == "" }) {
		return nil
	}
	for _, a := range addresses {
		ref := Ref{ID: a.SubnetID}
		if a.SubnetID == "" {
			ref = c.creator(func(s Step) bool { return s.Action == CreateSubnet && s.Subnet.CIDR.Contains(a.Address) })
		}
		refs = append(refs, ref)
	}
	return refs
}

// matchInterfaces finds, for each interface that is wanted, a port that is it or can become it, attached ones first.
// All other ports are to leave.
func matchInterfaces(
	wanted [][]PortAddress, target, networkID string, ports []ObservedPort,
) (fitting []*ObservedPort, leaving []ObservedPort) {
	fitting = make([]*ObservedPort, len(wanted))
	used := map[string]bool{}
	for _, attached := range []bool{true, false} {
		for i := range ports {
			p := &ports[i]
			if (p.Router != "") != attached || attached && p.Router != target || p.NetworkID != networkID {
				continue
			}
			at := slices.IndexFunc(wanted, func(w []PortAddress) bool { return slices.Equal(w, p.Addresses) })
			if at >= 0 && fitting[at] == nil {
				fitting[at] = p
				used[p.ID] = true
			}
		}
	}
	for _, p := range ports {
		if !used[p.ID] {
			leaving = append(leaving, p)
		}
	}
	return fitting, leaving
}

// leave lets go of interfaces and of ports that have not become one. Routers that go lose the routes that may need
// them first.
func leave(ports []ObservedPort, going []ObservedRouter, reason string) (change Change) {
	for _, router := range going {
		onIt := func(p ObservedPort) bool { return p.Router == router.ID }
		if len(router.Routes) > 0 && slices.ContainsFunc(ports, onIt) {
			change = append(change, setRoutes(Ref{ID: router.ID}, router, router.Routes, nil, reason))
		}
	}
	for _, p := range ports {
		change = append(change, removeInterface(p, reason))
	}
	return change
}

// deleteRouters takes routers away that have no interface of ours any more. The way outside goes in a step of its own:
// Neutron counts it as a change of the router, and a conditional deletion of a router that has one stops half-way, with
// a 412 after the gateway's port is gone (measured; the contract suite holds it).
func deleteRouters(routers []ObservedRouter, reason string) (change Change) {
	for _, router := range routers {
		if router.Gateway.NetworkID != "" {
			change = append(change, Step{
				Action: UpdateGateway, Ref: Ref{ID: router.ID}, Revision: router.Revision, Reason: reason,
				Router: RouterAttributes{Name: router.Name, Description: router.Description},
				Differences: []Difference{
					{RouterResource, FieldExternalNetwork, None, router.Gateway.NetworkID},
				},
			})
		}
		change = append(change, Step{
			Action: DeleteRouter, Ref: Ref{ID: router.ID}, Revision: router.Revision,
			Router: router.RouterAttributes, Reason: reason,
			Differences: []Difference{{RouterResource, FieldExists, None, router.ID}},
		})
	}
	return change
}

func createRouter(spec Spec) Step {
	attributes := spec.routerAttributes()
	attributes.Routes = nil
	return Step{
		Action: CreateRouter, Router: attributes, Reason: "no router bears the owner's marker",
		Differences: []Difference{{RouterResource, FieldExists, strconv.Quote(spec.Name), None}},
	}
}

// subnetsOf are the subnets on which a router has one of the interfaces.
func subnetsOf(interfaces []ObservedPort, routerID string, observed Observed) (cidrs []netip.Prefix) {
	for _, n := range observed.Networks {
		for _, s := range n.Subnets {
			on := func(a PortAddress) bool { return a.SubnetID == s.ID }
			if slices.ContainsFunc(interfaces, func(p ObservedPort) bool {
				return p.Router == routerID && slices.ContainsFunc(p.Addresses, on)
			}) {
				cidrs = append(cidrs, s.CIDR)
			}
		}
	}
	return cidrs
}

// updateRouter gives the step that settles what differs of a router besides its gateway and the routes that it lacks,
// and the routes that it has then. Those that are not declared go first, as they keep interfaces and gateways. So do
// those whose next hop is in a subnet on which the router is about to lose its interface, for as long as it has none.
func updateRouter(spec Spec, actual ObservedRouter, losing []netip.Prefix) (step Step, kept []Route, needed bool) {
	want := spec.routerAttributes()
	diffs := basics{want.Name, want.Description, want.AdminStateUp}.differences(RouterResource,
		basics{actual.Name, actual.Description, actual.AdminStateUp})
	for _, route := range routesWithout(actual.Routes, losing) {
		if slices.Contains(want.Routes, route) {
			kept = append(kept, route)
		}
	}
	if len(kept) < len(actual.Routes) {
		diffs = append(diffs, Difference{RouterResource, FieldRoutes, join(kept), join(actual.Routes)})
	}
	want.Routes = kept
	return Step{
		Action: UpdateRouter, Ref: Ref{ID: actual.ID}, Revision: actual.Revision, Router: want,
		Differences: diffs, Reason: reasonDiffers,
	}, kept, len(diffs) > 0
}

// setRoutes replaces the routes of a router. actual is what there is of it: the zero value where a step creates it.
func setRoutes(router Ref, actual ObservedRouter, from, to []Route, reason string) Step {
	attributes := actual.RouterAttributes
	attributes.Routes = to
	return Step{
		Action: UpdateRouter, Ref: router, Revision: actual.Revision, Router: attributes, Reason: reason,
		Differences: []Difference{{RouterResource, FieldRoutes, join(to), join(from)}},
	}
}

// changeKind gives the step that makes a router what is declared of what Neutron changes only while it is switched off.
// Of one that is off it is put back before that is switched on. One that hosts are using is not switched off for it.
func changeKind(spec Spec, actual ObservedRouter) (Step, bool) {
	want := spec.routerAttributes()
	var diffs []Difference
	for _, f := range []struct {
		field              string
		declared, observed *bool
	}{{FieldHA, want.HA, actual.HA}, {FieldDistributed, want.Distributed, actual.Distributed}} {
		if f.declared != nil && !same(f.declared, f.observed) {
			got := hidden
			if f.observed != nil {
				got = strconv.FormatBool(*f.observed)
			}
			diffs = append(diffs, Difference{RouterResource, f.field, strconv.FormatBool(*f.declared), got})
		}
	}
	return Step{
		Action: UpdateRouter, Ref: Ref{ID: actual.ID}, Revision: actual.Revision, Router: want,
		Differences: diffs, Reason: reasonDiffers,
	}, len(diffs) > 0
}

// letGoOfSubnets detaches the interfaces with addresses that are no declared gateway's any more, whichever router is
// meant: Neutron keeps the subnets, and their gateways, while these are on them. Routes that need one go before it.
func letGoOfSubnets(spec Spec, n ObservedNetwork, observed Observed) (change Change) {
	var stays []PortAddress
	for _, addresses := range spec.interfaces(n) {
		stays = append(stays, addresses...)
	}
	doubtful := map[string]bool{}
	for _, s := range n.Subnets {
		doubtful[s.ID] = spec.doubtful(s)
	}
	leaving := slices.DeleteFunc(slices.Clone(observed.Ports), func(p ObservedPort) bool {
		gone := func(a PortAddress) bool { return !slices.Contains(stays, a) && !doubtful[a.SubnetID] }
		return p.NetworkID == n.ID && !slices.ContainsFunc(p.Addresses, gone)
	})
	for _, router := range observed.Routers {
		kept := routesWithout(router.Routes, subnetsOf(leaving, router.ID, observed))
		if len(kept) < len(router.Routes) {
			change = append(change, setRoutes(Ref{ID: router.ID}, router, router.Routes, kept, reasonNoGateway))
		}
	}
	for _, p := range leaving {
		change = append(change, removeInterface(p, reasonNoGateway))
	}
	return change
}

const reasonNoGateway = "it is in the way of a subnet that goes or changes"

func updateGateway(spec Spec, actual ObservedRouter) (Step, bool) {
	want, got := spec.routerAttributes().Gateway, actual.Gateway
	var diffs []Difference
	add := func(field, declared, got string) {
		diffs = append(diffs, Difference{RouterResource, field, cmp.Or(declared, None), cmp.Or(got, None)})
	}
	if want.NetworkID != got.NetworkID {
		add(FieldExternalNetwork, want.NetworkID, got.NetworkID)
	}
	if want.NetworkID != "" && want.SNAT != nil && (got.SNAT == nil || *want.SNAT != *got.SNAT) {
		actual := ""
		if got.SNAT != nil {
			actual = strconv.FormatBool(*got.SNAT)
		}
		add(FieldSNAT, strconv.FormatBool(*want.SNAT), actual)
	}
	if len(want.Addresses) > 0 && !slices.Contains(got.Addresses, want.Addresses[0]) {
		add(FieldExternalIP, join(want.Addresses), join(got.Addresses))
	}
	return Step{
		Action: UpdateGateway, Ref: Ref{ID: actual.ID}, Revision: actual.Revision, Router: spec.routerAttributes(),
		Differences: diffs, Reason: reasonDiffers,
	}, len(diffs) > 0
}

func interfaceAttributes(spec Spec, addresses []PortAddress) PortAttributes {
	return PortAttributes{
		Name: spec.Name, Description: spec.Owner.Describe(""), AdminStateUp: true, Addresses: addresses,
	}
}

func createInterface(spec Spec, network Ref, addresses []PortAddress, subnets []Ref) Step {
	return Step{
		Action: CreateInterface, NetworkRef: network, SubnetRefs: subnets, Port: interfaceAttributes(spec, addresses),
		Reason: "no port of the owner's has the gateway's address",
		Differences: []Difference{
			{interfaceResource(addresses), FieldExists, listAddresses(addresses), None},
		},
	}
}

// attachInterface has a port become an interface.
func attachInterface(spec Spec, network, port Ref, addresses []PortAddress, router Ref) Step {
	return Step{
		Action: AttachInterface, Ref: port, NetworkRef: network, RouterRef: router,
		Port: interfaceAttributes(spec, addresses), Reason: "the router does not serve the subnet yet",
		Differences: []Difference{
			{interfaceResource(addresses), FieldRouter, cmp.Or(router.ID, "the network's own"), None},
		},
	}
}

func updateInterface(spec Spec, actual ObservedPort) (Step, bool) {
	want := interfaceAttributes(spec, actual.Addresses)
	diffs := basics{want.Name, want.Description, want.AdminStateUp}.differences(interfaceResource(actual.Addresses),
		basics{actual.Name, actual.Description, actual.AdminStateUp})
	return Step{
		Action: UpdatePort, Ref: Ref{ID: actual.ID}, Revision: actual.Revision, NetworkRef: Ref{ID: actual.NetworkID},
		Port: want, Differences: diffs, Reason: reasonDiffers,
	}, len(diffs) > 0
}

// removeInterface takes a port away: by way of its router where it is an interface, which is the only way then.
func removeInterface(p ObservedPort, reason string) Step {
	step := Step{
		Action: DeleteInterface, Ref: Ref{ID: p.ID}, Revision: p.Revision, NetworkRef: Ref{ID: p.NetworkID},
		Port: p.PortAttributes, Reason: reason,
		Differences: []Difference{{interfaceResource(p.Addresses), FieldExists, None, p.ID}},
	}
	if p.Router != "" {
		step.Action, step.RouterRef.ID = DetachInterface, p.Router
	}
	return step
}

// releaseRouter takes the marker off a router.
func releaseRouter(router ObservedRouter, reason string) Step {
	attributes := router.RouterAttributes
	attributes.Description = withoutMarkers(router.Description)
	return Step{
		Action: UpdateRouter, Ref: Ref{ID: router.ID}, Revision: router.Revision, Router: attributes, Reason: reason,
		Differences: []Difference{unmark(RouterResource, router.Description, attributes.Description)},
	}
}

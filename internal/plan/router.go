package plan

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"time"
)

// Names of a router's fields, as in the user's spec. FieldRouter belongs to an interface and names its router.
const (
	FieldRouter          = "router"
	FieldExternalNetwork = "externalNetwork"
	FieldSNAT            = "snat"
	FieldExternalIP      = "externalIP"
	FieldRoutes          = "routes"
	FieldHA              = "ha"
	FieldDistributed     = "distributed"
)

// InterfaceDeviceOwner is the device_owner in Neutron of a router interface. UnattachedDeviceOwner is that of a port
// that is created to become one: like all that begins with "network:", it has no port security.
const (
	InterfaceDeviceOwner  = "network:router_interface"
	UnattachedDeviceOwner = "network:router_interface_unattached"
)

// Halfway is the text in the description of a port that has the id of its router, and is not an interface yet. Neutron
// detaches it like one.
const Halfway = "[halfway]"

func (p ObservedPort) halfway() bool {
	text, _, _ := ParseDescription(p.Description)
	return text == Halfway
}

// unattachedOwner returns the device_owner of a port that is created to become a router interface, on a network with
// subnets. With OVN, Neutron 26 and later answer 500 to a port of a router interface that is on no router (measured;
// is_lsp_router_port in neutron/common/ovn/utils.py). But with any other owner, Neutron refuses the gateway's address
// in a subnet in which hosts generate their own addresses (SLAAC). It also adds its own address in every such subnet of
// the network (measured; the contract suite checks it), and takes none of a subnet whose service types lack the owner.
func unattachedOwner(subnets ...Subnet) string {
	for _, s := range subnets {
		if SelfAddressed(s.IPv6AddressMode, s.IPv6RAMode) || len(s.ServiceTypes) > 0 {
			return InterfaceDeviceOwner
		}
	}
	return UnattachedDeviceOwner
}

// RouterSpec is the desired router of a network, in canonical form. The router has an interface on each subnet with a
// gateway. The interface has the gateway's address.
type RouterSpec struct {
	// Existing is the id of a router that the owner does not own; it owns only the interfaces there. If Existing is
	// empty, the network has its own router. All other fields are about that one.
	Existing string
	// ExternalNetwork is the id of the router's external network. Empty means none.
	ExternalNetwork string
	// SNAT says whether the router translates outgoing addresses. nil leaves it to the cloud; then both values are
	// right.
	SNAT *bool
	// ExternalIP is the router's external address. The zero Addr leaves it to the cloud; then any value is right.
	ExternalIP netip.Addr
	// Routes are the router's, sorted and without duplicates.
	Routes []Route
	// HA says whether several agents run the router. Distributed says whether each compute host routes. nil leaves them
	// to the cloud; then both values are right.
	HA, Distributed *bool
	// Unresolved is true if the router or the external network is unknown. The plan then changes nothing about routers
	// and interfaces, except what prevents changes of subnets.
	Unresolved bool
}

// RouterAttributes are a router's settings, as sent to Neutron.
type RouterAttributes struct {
	Name string
	// Description is the full text, with the marker.
	Description  string
	AdminStateUp bool
	// Gateway is the router's external gateway.
	Gateway ExternalGateway
	// Routes are sorted by destination, then by next hop. Neutron does not accept them when it creates a router. It
	// accepts a route only if the router can reach the next hop.
	Routes []Route
	// HA and Distributed are nil if they are unset, hidden from the credentials, or unsupported by the cloud. Neutron
	// changes them only while the router is switched off.
	HA, Distributed *bool
}

// ExternalGateway is a router's gateway to an external network. The zero value means that it has none.
type ExternalGateway struct {
	// NetworkID is the external network's id.
	NetworkID string
	// SNAT is nil in a request that leaves it to the cloud.
	SNAT *bool
	// Addresses are the router's external addresses. They are empty in a request that leaves them to the cloud.
	Addresses []netip.Addr
}

// ObservedRouter is a router as Neutron reports it.
type ObservedRouter struct {
	ID string
	// Revision is Neutron's revision_number. Every change of the router and of its interfaces increases it.
	Revision int
	Created  time.Time
	RouterAttributes
}

// RouterResource is the Resource of a Difference of a router.
const RouterResource = "router"

func interfaceResource(addresses []PortAddress) string {
	return "router interface " + listAddresses(addresses)
}

// Own reports whether the network has its own router.
func (r *RouterSpec) Own() bool { return r != nil && r.Existing == "" }

// Router returns the object's own router: the oldest. It returns false if there is none.
func (o Observed) Router() (ObservedRouter, bool) { return oldest(o.Routers) }

func (r ObservedRouter) identity() identity {
	return identity{Resource{KindRouter, r.ID}, r.Created, r.Description}
}

func (r ObservedRouter) called() string { return r.Name }

func (r ObservedRouter) inOrder() ObservedRouter {
	r.Routes = slices.SortedFunc(slices.Values(r.Routes), compareRoutes)
	return r
}

// step is an update or the deletion of the router.
func (r ObservedRouter) step(action Action, reason string, settles ...Difference) Step {
	return Step{
		Action: action, Ref: Ref{ID: r.ID}, Revision: r.Revision, Router: r.RouterAttributes, Reason: reason,
		Differences: settles,
	}
}

// routerAttributes are the desired settings of the network's own router, with all its routes.
func (s Spec) routerAttributes() RouterAttributes {
	a := RouterAttributes{
		Name: s.Name, Description: s.Owner.describeAs(retaining(s.Retain), ""), AdminStateUp: true,
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

// interfaces returns the addresses of each desired interface, with the subnet ids that are known. A subnet that does
// not serve interfaces gets none. Neutron allows one IPv4 subnet on an interface. It requires that all IPv6 subnets of
// one network share an interface (_validate_router_port_info in neutron/db/l3_db.py).
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
		// A subnet that is about to be replaced has no new id yet.
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

// Routed reports whether the declared router is known, exists and has its interfaces, whatever their settings. It is
// true if no router is declared.
func (s Spec) Routed(observed Observed) bool {
	if s.Router != nil && s.Router.Unresolved {
		return false
	}
	n, _ := observed.Network()
	for _, step := range planRouting(s.Allocated(n), n, observed.inOrder()).last(nil, Ref{ID: n.ID}) {
		if step.Action == CreateRouter || step.Action == AttachInterface {
			return false
		}
	}
	return true
}

// routing holds the steps for routers and interfaces, around the steps for subnets.
type routing struct {
	// first releases what prevents the deletion or change of subnets. Neutron refuses to delete a subnet with a router
	// interface, and to change its gateway's address.
	first Change
	// last appends the steps that need the subnets. It also deletes routers that have none of the owner's interfaces.
	last func(before Change, network Ref) Change
	// refused are steps that Neutron currently refuses. The refusal states the reason and delays no other step.
	refused Change
}

// planRouting plans a network's router and its interfaces. It removes owned ones that are not declared.
func planRouting(spec Spec, n ObservedNetwork, observed Observed) (r routing) {
	// If it is unknown whether a subnet stays, its desired interface is unknown, too.
	if spec.Router != nil && (spec.Router.Unresolved || slices.ContainsFunc(n.Subnets, spec.doubtful)) {
		leaving := blockingInterfaces(spec, n, observed.Ports)
		beside := func(r ObservedRouter) []Route { return routesBeside(leaving, r, observed) }
		return routing{
			first: detach(leaving, observed.Routers, beside, "it blocks a change of its subnet"),
			last:  func(before Change, _ Ref) Change { return before },
		}
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
		change := changeKind(spec, own)
		if own.AdminStateUp {
			r.refused = r.refused.with(change)
		} else {
			r.first = r.first.with(change)
		}
		change, kept = updateRouter(spec, own, routesBeside(leaving, own, observed))
		r.first = r.first.with(change)
	}
	const undeclared = "it is no longer declared"
	var keeper Keeper
	if target.ID != "" {
		keeper.Resource = Resource{KindRouter, target.ID}
		if target.ID == own.ID {
			keeper.Owner = spec.Owner
		}
	}
	r.first = append(r.first, detach(leaving, going, noRoutes, undeclared).keeping(keeper)...)

	r.last = func(change Change, network Ref) Change {
		if spec.Router.Own() && !exists {
			change = append(change, createRouter(spec))
			target = change.latest()
		} else if spec.Router.Own() {
			change = change.with(updateGateway(spec, own))
		}
		for i, addresses := range wanted {
			port := fitting[i]
			if port == nil {
				subnets := slices.Clone(spec.Subnets)
				for _, s := range n.Subnets {
					subnets = append(subnets, s.Subnet)
				}
				step := createInterface(spec, network, addresses, change.subnetsOf(addresses))
				step.DeviceOwner, step.RouterRef = unattachedOwner(subnets...), target
				change = append(change, step)
				change = append(change, attachInterface(spec, network, change.latest(), addresses, target))
				continue
			}
			// The attachment comes last, because it changes the port's revision.
			change = change.with(updateInterface(spec, *port))
			if port.Router == "" {
				change = append(change, attachInterface(spec, network, Ref{ID: port.ID}, addresses, target))
			}
		}
		// The next hop of a route may be in a subnet without a CIDR, and so without an interface.
		if !slices.Equal(kept, declared) && !slices.ContainsFunc(spec.Subnets, Subnet.Pending) {
			change = append(change, setRoutes(target, own, kept, declared, reasonDiffers))
		}
		reason := undeclared
		if exists && target.ID == own.ID {
			reason = "it is a duplicate of the older router " + own.ID
		}
		return append(change, deleteRouters(going, reason).keeping(keeper)...)
	}
	return r
}

// subnetsOf returns the subnet of each address. An address without a subnet id belongs to a subnet that the Change
// creates.
func (c Change) subnetsOf(addresses []PortAddress) (refs []Ref) {
	if !slices.ContainsFunc(addresses, func(a PortAddress) bool { return a.SubnetID == "" }) {
		return nil
	}
	for _, a := range addresses {
		ref := Ref{ID: a.SubnetID}
		if a.SubnetID == "" {
			creates := func(s Step) bool { return s.Action == CreateSubnet && s.Subnet.CIDR.Contains(a.Address) }
			ref = Ref{Creator: 1 + slices.IndexFunc(c, creates)}
		}
		refs = append(refs, ref)
	}
	return refs
}

// matchInterfaces finds a port for each desired interface: one that is attached, or else one that can be attached. It
// also returns all other ports, which have to go.
func matchInterfaces(
	wanted [][]PortAddress, target, networkID string, ports []ObservedPort,
) (fitting []*ObservedPort, leaving []ObservedPort) {
	for _, addresses := range wanted {
		var best *ObservedPort
		for i := range ports {
			p := &ports[i]
			fits := p.NetworkID == networkID && (p.Router == target || p.Router == "") &&
				slices.Equal(p.Addresses, addresses) && !p.halfway()
			if fits && (best == nil || best.Router == "" && p.Router != "") {
				best = p
			}
		}
		fitting = append(fitting, best)
	}
	leaving = slices.DeleteFunc(slices.Clone(ports), func(p ObservedPort) bool {
		return slices.ContainsFunc(fitting, func(f *ObservedPort) bool { return f != nil && f.ID == p.ID })
	})
	return fitting, leaving
}

// detach removes interfaces, and ports that never became interfaces. Before that, it reduces the routes of the routers
// to those that keep returns. Neutron refuses to remove an interface that a route needs, and a router that goes needs
// no routes.
func detach(
	ports []ObservedPort, routers []ObservedRouter, keep func(ObservedRouter) []Route, reason string,
) (change Change) {
	for _, router := range routers {
		if kept := keep(router); len(kept) < len(router.Routes) {
			change = append(change, setRoutes(Ref{ID: router.ID}, router, router.Routes, kept, reason))
		}
	}
	for _, p := range ports {
		if p.Device != "" {
			continue // somebody gave it to a device before it became an interface
		}
		step := p.step(DeleteInterface, reason, surplus(interfaceResource(p.Addresses), p.ID))
		if p.Router != "" { // Neutron removes an attached interface only through its router.
			step.Action, step.RouterRef.ID = DetachInterface, p.Router
		}
		change = append(change, step)
	}
	return change
}

func noRoutes(ObservedRouter) []Route { return nil }

// deleteRouters deletes routers that have none of the owner's interfaces and no routes. It removes the external gateway
// in a separate step, because Neutron counts that as a change of the router. A conditional deletion of a router with a
// gateway stops half-way. It deletes the gateway's port and fails with 412 (measured; the contract suite checks it).
func deleteRouters(routers []ObservedRouter, reason string) (change Change) {
	for _, router := range routers {
		if router.Gateway.NetworkID != "" {
			step := router.step(UpdateGateway, reason,
				Difference{RouterResource, FieldExternalNetwork, None, router.Gateway.NetworkID})
			step.Router.Gateway = ExternalGateway{}
			change = append(change, step)
		}
		change = append(change, router.step(DeleteRouter, reason, surplus(RouterResource, router.ID)))
	}
	return change
}

func createRouter(spec Spec) Step {
	attributes := spec.routerAttributes()
	attributes.Routes = nil
	return Step{
		Action: CreateRouter, Router: attributes, Reason: "no router bears the owner's marker",
		Differences: []Difference{existence(RouterResource, strconv.Quote(spec.Name))},
	}
}

// routesBeside returns a router's routes whose next hop is in no subnet where the router loses its interface.
func routesBeside(leaving []ObservedPort, router ObservedRouter, observed Observed) []Route {
	var losing []netip.Prefix
	for _, n := range observed.Networks {
		for _, s := range n.Subnets {
			on := func(a PortAddress) bool { return a.SubnetID == s.ID }
			if slices.ContainsFunc(leaving, func(p ObservedPort) bool {
				return p.Router == router.ID && slices.ContainsFunc(p.Addresses, on)
			}) {
				losing = append(losing, s.CIDR)
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(router.Routes), func(route Route) bool {
		return slices.ContainsFunc(losing, func(cidr netip.Prefix) bool { return cidr.Contains(route.NextHop) })
	})
}

// updateRouter plans the update of a router, except for its gateway and its missing routes. It also returns the routes
// that remain after the update. The update removes undeclared routes, because they block changes of interfaces and
// gateways. It also removes those that are not in beside, because they need an interface that goes. A later step
// adds them again after the new interface.
func updateRouter(spec Spec, actual ObservedRouter, beside []Route) (step Step, kept []Route) {
	want := spec.routerAttributes()
	d := differences{resource: RouterResource}
	d.basics(want.basics(), actual.basics())
	kept = slices.DeleteFunc(beside, func(route Route) bool { return !slices.Contains(want.Routes, route) })
	d.compare(FieldRoutes, join(kept), join(actual.Routes))
	step = actual.step(UpdateRouter, reasonDiffers, d.found...)
	step.Router = want
	step.Router.Routes = kept
	return step, kept
}

func (a RouterAttributes) basics() basics { return basics{a.Name, a.Description, a.AdminStateUp} }

// setRoutes plans the replacement of a router's routes. actual is the zero value if an earlier step creates the router.
func setRoutes(router Ref, actual ObservedRouter, from, to []Route, reason string) Step {
	step := actual.step(UpdateRouter, reason, Difference{RouterResource, FieldRoutes, join(to), join(from)})
	step.Ref, step.Router.Routes = router, to
	return step
}

// changeKind plans the change of HA and Distributed, which Neutron allows only while a router is switched off. If the
// router is off, this step comes before the step that switches it on. A router in use is not switched off for it.
func changeKind(spec Spec, actual ObservedRouter) Step {
	want := spec.routerAttributes()
	d := differences{resource: RouterResource}
	d.flag(FieldHA, want.HA, actual.HA, hidden)
	d.flag(FieldDistributed, want.Distributed, actual.Distributed, hidden)
	step := actual.step(UpdateRouter, reasonDiffers, d.found...)
	step.Router = want
	return step
}

// blockingInterfaces returns the interfaces whose addresses are no declared gateway's, without knowing the declared
// router. Neutron refuses to change the subnets and their gateways while they have such interfaces.
func blockingInterfaces(spec Spec, n ObservedNetwork, ports []ObservedPort) []ObservedPort {
	stays := slices.Concat(spec.interfaces(n)...)
	return slices.DeleteFunc(slices.Clone(ports), func(p ObservedPort) bool {
		gone := func(a PortAddress) bool {
			doubtful := func(s ObservedSubnet) bool { return s.ID == a.SubnetID && spec.doubtful(s) }
			return !slices.Contains(stays, a) && !slices.ContainsFunc(n.Subnets, doubtful)
		}
		return p.NetworkID == n.ID && !slices.ContainsFunc(p.Addresses, gone)
	})
}

func updateGateway(spec Spec, actual ObservedRouter) Step {
	attributes := spec.routerAttributes()
	want, got := attributes.Gateway, actual.Gateway
	d := differences{resource: RouterResource}
	d.compare(FieldExternalNetwork, cmp.Or(want.NetworkID, None), cmp.Or(got.NetworkID, None))
	d.flag(FieldSNAT, want.SNAT, got.SNAT, None)
	if len(want.Addresses) > 0 && !slices.Contains(got.Addresses, want.Addresses[0]) {
		d.add(FieldExternalIP, join(want.Addresses), join(got.Addresses))
	}
	step := actual.step(UpdateGateway, reasonDiffers, d.found...)
	step.Router = attributes
	return step
}

func interfaceAttributes(spec Spec, addresses []PortAddress) PortAttributes {
	return PortAttributes{
		Name: spec.Name, Description: spec.Owner.Describe(""), AdminStateUp: true, Addresses: addresses,
	}
}

func createInterface(spec Spec, network Ref, addresses []PortAddress, subnets []Ref) Step {
	return Step{
		Action: CreateInterface, NetworkRef: network, SubnetRefs: subnets, Port: interfaceAttributes(spec, addresses),
		Reason:      "no port of the owner has the gateway's address",
		Differences: []Difference{existence(interfaceResource(addresses), listAddresses(addresses))},
	}
}

func attachInterface(spec Spec, network, port Ref, addresses []PortAddress, router Ref) Step {
	return Step{
		Action: AttachInterface, Ref: port, NetworkRef: network, RouterRef: router,
		Port: interfaceAttributes(spec, addresses), Reason: "the router has no interface on the subnet",
		Differences: []Difference{
			{interfaceResource(addresses), FieldRouter, cmp.Or(router.ID, "the network's own"), None},
		},
	}
}

func updateInterface(spec Spec, actual ObservedPort) Step {
	want := interfaceAttributes(spec, actual.Addresses)
	d := differences{resource: interfaceResource(actual.Addresses)}
	d.basics(want.basics(), actual.basics())
	step := actual.step(UpdatePort, reasonDiffers, d.found...)
	step.Port = want
	return step
}

func (r ObservedRouter) release(owner Owner, reason string) Change {
	step := r.step(UpdateRouter, reason)
	return unmark(owner, &step, RouterResource, &step.Router.Description, releasedNameless)
}

// routerActions are the actions on a router and its interfaces.
var routerActions = map[Action]facts{
	CreateRouter: {
		of: KindRouter, creates: true,
		about: func(s Step) string { return strconv.Quote(s.Router.Name) },
		privileged: func(s Step) map[string]bool {
			sent := s.Router.Gateway.privileged()
			sent[FieldHA], sent[FieldDistributed] = s.Router.HA != nil, s.Router.Distributed != nil
			return sent
		},
	},
	UpdateRouter: {of: KindRouter, updates: true, about: Step.id},
	UpdateGateway: {
		updates: true, about: Step.id,
		privileged: func(s Step) map[string]bool { return s.Router.Gateway.privileged() },
	},
	DeleteRouter: {of: KindRouter, deletes: true, about: Step.id},
	CreateInterface: {
		creates: true, about: Step.addresses,
		done: func(s Step) string { return "Created port " + s.ID + " for the router" },
	},
	AttachInterface: {
		about: Step.addresses,
		done:  func(s Step) string { return "Attached port " + s.ID + " to router " + s.RouterRef.ID },
	},
	DetachInterface: {
		deletes: true, about: Step.addresses,
		done: func(s Step) string { return "Detached port " + s.ID + " from router " + s.RouterRef.ID },
	},
	DeleteInterface: {
		deletes: true, about: Step.addresses,
		done: func(s Step) string { return "Deleted port " + s.ID },
	},
}

func (s Step) addresses() string { return listAddresses(s.Port.Addresses) }

func (g ExternalGateway) privileged() map[string]bool {
	return map[string]bool{FieldSNAT: g.SNAT != nil, FieldExternalIP: len(g.Addresses) > 0}
}

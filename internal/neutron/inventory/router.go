package inventory

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// routerKind has no Bulk: Neutron answers "Bulk operation not supported" (measured).
var routerKind = kind[wireRouter, plan.ObservedRouter]{
	Collection: client.Collection{One: "router", Many: "routers"},
	fields:     fieldsOf[wireRouter](),
	decode:     wireRouter.observed,
	encode:     routerBody,
	lacking:    "this cloud has no routers: leave spec.router out",
	extensions: map[string]string{"distributed": plan.FieldDistributed, "ha": plan.FieldHA},
}

func newRouters(i *Inventory) *stock[wireRouter, plan.ObservedRouter] {
	return newStock(i.access, &i.mu, plan.KindRouter, routerKind,
		func(o *plan.Observed) *[]plan.ObservedRouter { return &o.Routers },
		traits[plan.ObservedRouter]{
			identify: func(r *plan.ObservedRouter) (string, string, int) { return r.ID, r.Description, r.Revision },
		})
}

// routerActions are the actions on routers and on their interfaces, which are ports.
func (i *Inventory) routerActions() actions {
	return actions{
		plan.CreateRouter: {take: i.routers.created},
		plan.UpdateRouter: {take: i.routers.updated},
		plan.DeleteRouter: {take: i.removeRouter},
		// Neutron changes a gateway in several transactions. The first one moves the revision, and the others are checked
		// against it. A conditional request stops half-way with a 412: the router has no gateway, but its port still exists
		// (measured).
		plan.UpdateGateway: {take: func(ctx context.Context, step *plan.Step) (int, error) {
			return i.routers.updatedIf(ctx, step, nil)
		}},
		plan.CreateInterface: {take: i.createInterface},
		plan.AttachInterface: {take: i.attach, moves: itsRouter},
		plan.DetachInterface: {take: i.detach, moves: itsRouter},
		plan.DeleteInterface: {take: i.ports.removed},
	}
}

// removeRouter deletes a router. With OVN, Neutron moves a router's revision while it deletes it, and then refuses each
// conditional request (Neutron 21, measured). So one that is refused is sent without the condition, if the router is
// still as it was planned. Neutron deletes no router with interfaces.
func (i *Inventory) removeRouter(ctx context.Context, step *plan.Step) (revision int, err error) {
	_, err = i.routers.removed(ctx, step)
	if !client.IsConflict(err) {
		return 0, err
	}
	held, known := i.routers.get(step.ID)
	w, readErr := routerKind.get(ctx, i.access, step.ID)
	if !known || readErr != nil || int(w.Revision.Or0()) != step.Revision || w.Description != held.Description {
		return 0, err // the next plan starts from the current state
	}
	defer i.routers.write(step.ID)()
	if err := routerKind.remove(ctx, i.access, *step, nil); err != nil {
		return 0, err
	}
	i.routers.remove(step.ID)
	return 0, nil
}

// itsRouter is the router whose revision Neutron moves by one when an interface comes or goes (measured; the contract
// suite checks it).
func itsRouter(step plan.Step, _ int) string { return step.RouterRef.ID }

// wireRouter is a router in Neutron's JSON.
type wireRouter struct {
	wireBase
	Name         string       `json:"name"`
	AdminStateUp bool         `json:"admin_state_up"`
	Gateway      *wireGateway `json:"external_gateway_info"`
	Routes       []wireRoute  `json:"routes"`
	// Only administrators see these, by Neutron's default policy.
	HA          *bool `json:"ha"`
	Distributed *bool `json:"distributed"`
}

// wireGateway is a router's external gateway.
type wireGateway struct {
	NetworkID string `json:"network_id"`
	// SNAT and FixedIPs are omitted if Neutron chooses them. By default only administrators may set them.
	SNAT     *bool         `json:"enable_snat,omitempty"`
	FixedIPs []wireFixedIP `json:"external_fixed_ips,omitempty"`
}

func (w wireRouter) observed() (plan.ObservedRouter, error) {
	if w.ID == "" {
		return plan.ObservedRouter{}, fmt.Errorf("a router has no id")
	}
	r := plan.ObservedRouter{
		ID: w.ID, Revision: int(w.Revision.Or0()), Created: w.Created.Time,
		RouterAttributes: plan.RouterAttributes{
			Name: w.Name, Description: w.Description, AdminStateUp: w.AdminStateUp, HA: w.HA, Distributed: w.Distributed,
		},
	}
	var err error
	if r.Routes, err = routesOf(w.Routes); err != nil {
		return plan.ObservedRouter{}, fmt.Errorf("router %s: routes is no address of a known form", w.ID)
	}
	if w.Gateway == nil {
		return r, nil
	}
	r.Gateway = plan.ExternalGateway{NetworkID: w.Gateway.NetworkID, SNAT: w.Gateway.SNAT}
	for _, fixed := range w.Gateway.FixedIPs {
		addr, err := netip.ParseAddr(fixed.Address)
		if err != nil {
			return plan.ObservedRouter{}, fmt.Errorf("router %s: external_fixed_ips is no address of a known form", w.ID)
		}
		r.Gateway.Addresses = append(r.Gateway.Addresses, addr)
	}
	slices.SortFunc(r.Gateway.Addresses, netip.Addr.Compare)
	return r, nil
}

// routerBody is the body of a create (all fields) or of an update (the fields that the step changes). Neutron accepts
// no routes in a create.
func routerBody(step plan.Step, all bool) map[string]any {
	r := step.Router
	body := map[string]any{}
	set := setterOf(body, step, all)
	set.named(r.Name, r.Description)
	set(plan.FieldAdminState, "admin_state_up", r.AdminStateUp)
	declared(set, plan.FieldHA, "ha", r.HA)
	declared(set, plan.FieldDistributed, "distributed", r.Distributed)
	if step.Action == plan.UpdateRouter && step.Changes(plan.FieldRoutes) {
		body["routes"] = routesBody(r.Routes)
	}
	switch {
	case step.Action == plan.UpdateGateway && r.Gateway.NetworkID == "":
		return map[string]any{"external_gateway_info": map[string]any{}}
	case step.Action == plan.UpdateGateway, all && r.Gateway.NetworkID != "":
		gateway := wireGateway{NetworkID: r.Gateway.NetworkID, SNAT: r.Gateway.SNAT}
		// An address that stays is not requested again.
		if all || step.Changes(plan.FieldExternalIP) || step.Changes(plan.FieldExternalNetwork) {
			for _, a := range r.Gateway.Addresses {
				gateway.FixedIPs = append(gateway.FixedIPs, wireFixedIP{Address: a.String()})
			}
		}
		body["external_gateway_info"] = gateway
	}
	return body
}

// holder is a port that has an address of a gateway.
type holder struct {
	wirePort
	ProjectID string `json:"project_id"`
}

// holders lists the ports that have the addresses of an interface.
func (i *Inventory) holders(ctx context.Context, step plan.Step) ([]holder, error) {
	query := url.Values{"network_id": {step.NetworkRef.ID}, "fields": fieldsOf[holder]()}
	for _, a := range step.Port.Addresses {
		query.Add("fixed_ips", "ip_address="+a.Address.String())
	}
	return client.List[holder](ctx, i.cloud, "list ports", portKind.Collection, query)
}

// taken finds out which port has the requested addresses, for the error's message.
func (i *Inventory) taken(ctx context.Context, step plan.Step, refusal error) error {
	_, owner, _ := plan.ParseDescription(step.Port.Description)
	holders, err := i.holders(ctx, step)
	if err != nil || len(holders) == 0 {
		return refusal
	}
	for _, h := range holders {
		if owner.Owns(h.Description) {
			if _, err := i.Reread(ctx, plan.Resource{Kind: plan.KindPort, ID: h.ID}); err != nil {
				return err
			}
			return conflict(step, "port "+h.ID+" is there already")
		}
	}
	return i.refuseTaken(step, holders[0])
}

// refuseTaken refuses an interface, because a port that is not its owner's has its address.
func (i *Inventory) refuseTaken(step plan.Step, h holder) error {
	by := Blocker{
		ID: h.ID, Name: h.Name, DeviceOwner: h.DeviceOwner, DeviceID: h.DeviceID, ProjectID: h.ProjectID,
		Other: i.owns(h.Description),
	}
	address := step.Port.Addresses[0].Address
	for _, a := range step.Port.Addresses {
		if slices.ContainsFunc(h.FixedIPs, func(f wireFixedIP) bool { return f.Address == a.Address.String() }) {
			address = a.Address
		}
	}
	return &client.Error{
		Kind: client.Taken, Op: string(step.Action),
		Reason: client.OneLine(fmt.Sprintf("the gateway's address %s is that of %s", address, by)),
	}
}

// checkMove refuses a change that takes an interface away and makes another one whose address a port of somebody else
// has. Otherwise the Network would be without its router, and without its floating IPs, before Neutron refuses.
func (i *Inventory) checkMove(ctx context.Context, change plan.Change) error {
	if !slices.ContainsFunc(change, func(s plan.Step) bool {
		return s.Action == plan.DetachInterface || s.Action == plan.DeleteInterface
	}) {
		return nil
	}
	for _, step := range change {
		if step.Action != plan.CreateInterface || step.NetworkRef.ID == "" {
			continue
		}
		holders, err := i.holders(ctx, step)
		if err != nil {
			return err
		}
		_, owner, _ := plan.ParseDescription(step.Port.Description)
		for _, h := range holders {
			if !owner.Owns(h.Description) {
				return i.refuseTaken(step, h)
			}
		}
	}
	return nil
}

// explain says in the spec's terms why Neutron refuses an interface. Neutron's message names subnets by id only. If the
// spec does not explain it, the refusal keeps Neutron's words.
func (i *Inventory) explain(ctx context.Context, step plan.Step, refusal error) error {
	if !client.IsKind(refusal, client.Invalid) {
		return refusal
	}
	for _, s := range i.subnetsHeld(step.NetworkRef.ID) {
		served := slices.ContainsFunc(step.Port.Addresses, func(a plan.PortAddress) bool {
			return s.CIDR.Contains(a.Address)
		})
		if served && plan.AdvertisedByOthers(s.IPv6AddressMode, s.IPv6RAMode) {
			return &client.Error{Kind: client.Invalid, Op: string(step.Action), Reason: fmt.Sprintf(
				"subnet %s has %s %s and no %s: its hosts follow the advertisements of another router, and Neutron adds no "+
					"router there; with gateway \"none\" it has no interface",
				s.CIDR, plan.FieldIPv6AddressMode, s.IPv6AddressMode, plan.FieldIPv6RAMode)}
		}
	}
	return i.clash(ctx, step, refusal)
}

// clash says which subnet it is if Neutron refuses an interface because their addresses overlap on one router.
func (i *Inventory) clash(ctx context.Context, step plan.Step, refusal error) error {
	on, err := portKind.list(ctx, i.access, url.Values{"device_id": {step.RouterRef.ID}})
	if err != nil {
		return refusal
	}
	mine, err := subnetKind.list(ctx, i.access, url.Values{"network_id": {step.NetworkRef.ID}})
	if err != nil {
		return refusal
	}
	for _, p := range on {
		theirs, err := subnetKind.list(ctx, i.access, url.Values{"network_id": {p.NetworkID}})
		if err != nil {
			return refusal
		}
		for _, a := range theirs {
			attached := slices.ContainsFunc(p.FixedIPs, func(f wireFixedIP) bool { return f.SubnetID == a.ID })
			for _, b := range mine {
				if attached && a.ID != b.ID && overlap(a.CIDR, b.CIDR) && p.ID != step.ID {
					// The other network may be another namespace's.
					return &client.Error{Kind: client.Invalid, Op: string(step.Action), Reason: client.OneLine(fmt.Sprintf(
						"subnet %s of network %q overlaps a subnet of another network, which is on router %s already: one router "+
							"cannot serve both", b.CIDR, step.Port.Name, step.RouterRef.ID))}
				}
			}
		}
	}
	return refusal
}

func overlap(a, b string) bool {
	one, errOne := netip.ParsePrefix(a)
	two, errTwo := netip.ParsePrefix(b)
	return errOne == nil && errTwo == nil && one.Overlaps(two)
}

// typeInternal is the type of an error that Neutron's code did not expect.
const typeInternal = "HTTPInternalServerError"

// createInterface creates the port of an interface. Only one port can have the gateway's address, so Neutron refuses a
// retry after a lost answer. Then createInterface looks up which port has the address. If that port is ours, the result
// is a Conflict: plan again.
func (i *Inventory) createInterface(ctx context.Context, step *plan.Step) (revision int, err error) {
	revision, err = i.createPort(ctx, step)
	if client.TypeOf(err) == typeInternal && step.DeviceOwner == plan.InterfaceDeviceOwner {
		revision, err = i.createOnRouter(ctx, step)
	}
	if client.IsKind(err, client.Taken) {
		err = i.taken(ctx, *step, err)
	}
	return revision, err
}

// createOnRouter creates the port of an interface where Neutron fails at one that is on no router (OVN, Neutron 26 and
// later): it gives the port to the router, and takes it away again. What a crash leaves in between has a description
// that says so, and the next plan detaches it.
func (i *Inventory) createOnRouter(ctx context.Context, step *plan.Step) (revision int, err error) {
	given, half := portKind, *step
	given.encode = func(step plan.Step, all bool) map[string]any {
		body := portBody(step, all)
		body["device_id"] = step.RouterRef.ID
		return body
	}
	_, owner, _ := plan.ParseDescription(step.Port.Description)
	half.Port.Description = owner.Describe(plan.Halfway)
	made, err := given.create(ctx, i.access, half, func() bool { return true })
	if err != nil {
		return 0, err
	}
	i.ports.record(&made, step)
	defer i.ports.write(made.ID)()
	taken := portKind
	taken.encode = func(step plan.Step, _ bool) map[string]any {
		return map[string]any{
			"device_id": "", "device_owner": plan.UnattachedDeviceOwner, "description": step.Port.Description,
		}
	}
	if made, err = taken.update(ctx, i.access, *step, &made.Revision); err != nil {
		return 0, err
	}
	return i.ports.record(&made, step), nil
}

// callInterface sends an action on a router's interface. It names the port, which bears the marker. It is
// unconditional, because other changes to the router do not affect it.
func (i *Inventory) callInterface(ctx context.Context, step plan.Step, action string) error {
	var answer struct {
		PortID string `json:"port_id"`
	}
	r := client.Request{
		Op: string(step.Action), Method: http.MethodPut, Path: routerKind.Path(step.RouterRef.ID) + "/" + action,
		Body: map[string]any{"port_id": step.ID}, Answer: &answer,
	}
	err := i.send(ctx, r)
	if err == nil && answer.PortID != step.ID {
		return client.BadAnswer(r.Op, r.Method, "it is not of port %s", step.ID)
	}
	return discreet(err, step)
}

// attach makes a port a router's interface. It moves the port's revision by one (measured; the contract suite checks
// it), and before Neutron 26 by two: then the port's next conditional write fails and rereads. Neutron refuses a port
// that is an interface already (PortInUse); the caller rereads it and plans again.
func (i *Inventory) attach(ctx context.Context, step *plan.Step) (revision int, err error) {
	defer i.ports.write(step.ID)()
	defer i.routers.write(step.RouterRef.ID)()
	if err := i.callInterface(ctx, *step, "add_router_interface"); err != nil {
		return 0, i.explain(ctx, *step, err)
	}
	i.ports.edit(step.ID, func(p *plan.ObservedPort) {
		p.Router = step.RouterRef.ID
		p.Revision++
	})
	i.touch(step.RouterRef.ID)
	return 0, nil
}

// detach takes an interface off its router, which deletes its port. A port that is gone counts as detached.
func (i *Inventory) detach(ctx context.Context, step *plan.Step) (revision int, err error) {
	defer i.ports.write(step.ID)()
	defer i.routers.write(step.RouterRef.ID)()
	err = i.callInterface(ctx, *step, "remove_router_interface")
	if client.IsNotFound(err) {
		// The port may be on another router by now.
		found, err := i.Reread(ctx, plan.Resource{Kind: plan.KindPort, ID: step.ID})
		if found && err == nil {
			err = conflict(*step, "port "+step.ID+" is not on the router")
		}
		return 0, err
	}
	if err != nil {
		return 0, err
	}
	i.ports.remove(step.ID)
	i.touch(step.RouterRef.ID)
	return 0, nil
}

// touch moves the revision of a router of ours by one; see itsRouter.
func (i *Inventory) touch(routerID string) {
	i.routers.edit(routerID, func(r *plan.ObservedRouter) { r.Revision++ })
}

package inventory

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

const (
	opListRouters = "list routers"
	opGetRouter   = "get router"
	opFindRouter  = "find router"
)

// routerAPI has no Bulk: Neutron answers "Bulk operation not supported" (measured).
var routerAPI = client.Collection{One: "router", Many: "routers"}

// wireRouter is a router in Neutron's JSON.
type wireRouter struct {
	ID           string       `json:"id"`
	Name         string       `json:"name"`
	Description  string       `json:"description"`
	AdminStateUp bool         `json:"admin_state_up"`
	Gateway      *wireGateway `json:"external_gateway_info"`
	Routes       []wireRoute  `json:"routes"`
	// Only administrators see these, by Neutron's default policy.
	HA          *bool  `json:"ha"`
	Distributed *bool  `json:"distributed"`
	Revision    int    `json:"revision_number"`
	Created     string `json:"created_at"`
}

// wireGateway is a router's external gateway.
type wireGateway struct {
	NetworkID string `json:"network_id"`
	// SNAT and FixedIPs are omitted if Neutron chooses them. By default only administrators may set them.
	SNAT     *bool         `json:"enable_snat,omitempty"`
	FixedIPs []wireFixedIP `json:"external_fixed_ips,omitempty"`
}

// routerFields are the fields that a list requests: those of wireRouter.
var routerFields = []string{
	"id", "name", "description", "admin_state_up", "external_gateway_info", "routes", "ha", "distributed",
	"revision_number", "created_at",
}

func (w wireRouter) Key() string       { return w.ID }
func (w wireRouter) described() string { return w.Description }

func (w wireRouter) observed() (plan.ObservedRouter, error) {
	if w.ID == "" {
		return plan.ObservedRouter{}, fmt.Errorf("a router has no id")
	}
	created, err := time.Parse(time.RFC3339, w.Created)
	if err != nil {
		return plan.ObservedRouter{}, fmt.Errorf("router %s: created_at is no time", w.ID)
	}
	r := plan.ObservedRouter{
		ID: w.ID, Revision: w.Revision, Created: created,
		RouterAttributes: plan.RouterAttributes{
			Name: w.Name, Description: w.Description, AdminStateUp: w.AdminStateUp, HA: w.HA, Distributed: w.Distributed,
		},
	}
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

// routerBody is the body of a create (all fields) or of an update (the fields that the step changes). Neutron accepts
// no routes in a create.
func routerBody(step plan.Step, all bool) map[string]any {
	r := step.Router
	body := map[string]any{}
	set := setterOf(body, step, all)
	set(plan.FieldName, "name", r.Name)
	set(plan.FieldDescription, "description", r.Description)
	set(plan.FieldAdminState, "admin_state_up", r.AdminStateUp)
	if r.HA != nil {
		set(plan.FieldHA, "ha", *r.HA)
	}
	if r.Distributed != nil {
		set(plan.FieldDistributed, "distributed", *r.Distributed)
	}
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

// interfaceBody is portBody for a port that becomes a router's interface.
func interfaceBody(step plan.Step, all bool) map[string]any {
	body := portBody(step, all)
	body["device_owner"] = plan.InterfaceDeviceOwner
	return body
}

// routerOf returns the id of the router whose interface the port is; empty if it is none.
func (w wirePort) routerOf() string {
	if slices.Contains(routerInterfaces, w.DeviceOwner) {
		return w.DeviceID
	}
	return ""
}

// isInterface reports whether a port is a router's interface, or was created to become one.
func (w wirePort) isInterface() bool {
	return w.DeviceOwner == plan.InterfaceDeviceOwner || w.routerOf() != ""
}

var routerKind = kind[plan.ObservedRouter]{
	name: func(r *plan.ObservedRouter) (id, description string) { return r.ID, r.Description },
	same: func(a, b *plan.ObservedRouter) bool {
		return a.Revision == b.Revision && a.Description == b.Description
	},
}

// readRouters lists our routers. It returns none if the cloud has no routers.
func (i *Inventory) readRouters(ctx context.Context) (map[string]*plan.ObservedRouter, error) {
	routers, err := listOfProject[wireRouter](ctx, i, opListRouters, routerAPI, routerFields)
	if client.IsNoSuchCollection(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	ours := map[string]*plan.ObservedRouter{}
	for _, w := range routers {
		if !i.owns(w.Description) {
			continue
		}
		observed, err := w.observed()
		if err != nil {
			return nil, client.BadAnswer(opListRouters, http.MethodGet, "%s", err)
		}
		ours[w.ID] = &observed
	}
	return ours, nil
}

func (i *Inventory) readRouter(ctx context.Context, id string) (*plan.ObservedRouter, error) {
	return readOurs(ctx, i, opGetRouter, routerAPI, routerFields, id, wireRouter.observed)
}

// takeRouter is take for routers and their interfaces.
func (i *Inventory) takeRouter(ctx context.Context, step plan.Step) (string, error) {
	switch step.Action {
	case plan.CreateInterface:
		return i.createInterface(ctx, step)
	case plan.AttachInterface:
		return step.ID, i.attach(ctx, step)
	case plan.DetachInterface:
		return step.ID, i.detach(ctx, step)
	case plan.DeleteInterface:
		return step.ID, i.removePort(ctx, step)
	}
	if step.ID != "" {
		defer i.routers.write(step.ID)()
	}
	if step.Action == plan.DeleteRouter {
		if err := i.remove(ctx, step); err != nil {
			return "", err
		}
		i.routers.remove(step.ID)
		return step.ID, nil
	}
	r, err := writeStep(ctx, i, step, routerBody, wireRouter.observed)
	if client.IsNoSuchCollection(err) {
		return "", &client.Error{
			Kind: client.Invalid, Op: string(step.Action), Reason: lacksRouters,
		}
	}
	if err != nil {
		return "", err
	}
	i.routers.change(r.ID, func(*plan.ObservedRouter) *plan.ObservedRouter {
		if !i.owns(r.Description) {
			return nil
		}
		return &r
	})
	return r.ID, nil
}

// createInterface creates the port of an interface. Only one port can have the gateway's address, so Neutron refuses a
// retry after a lost answer. Then createInterface looks up which port has the address. If that port is ours, the result
// is a Conflict: plan again.
func (i *Inventory) createInterface(ctx context.Context, step plan.Step) (string, error) {
	p, err := writeStep(ctx, i, step, interfaceBody, wirePort.observed)
	if client.IsKind(err, client.Taken) {
		return "", i.taken(ctx, step, err)
	}
	if err != nil {
		return "", err
	}
	i.ports.change(p.ID, func(*plan.ObservedPort) *plan.ObservedPort { return &p })
	return p.ID, nil
}

// taken finds out which port has the requested addresses, for the error's message.
func (i *Inventory) taken(ctx context.Context, step plan.Step, refusal error) error {
	_, owner, _ := plan.ParseDescription(step.Port.Description)
	query := url.Values{"network_id": {step.NetworkRef.ID}, "fields": append([]string{"project_id"}, portFields...)}
	for _, a := range step.Port.Addresses {
		query.Add("fixed_ips", "ip_address="+a.Address.String())
	}
	type holder struct {
		wirePort
		ProjectID string `json:"project_id"`
	}
	holders, err := client.List[holder](ctx, i.cloud, opListPorts, portAPI, query)
	if err != nil || len(holders) == 0 {
		return refusal
	}
	for _, h := range holders {
		if owner.Owns(h.Description) {
			if _, err := i.Reread(ctx, plan.Resource{Kind: plan.KindPort, ID: h.ID}); err != nil {
				return err
			}
			return &client.Error{Kind: client.Conflict, Op: string(step.Action), Reason: "port " + h.ID + " is there already"}
		}
	}
	h := holders[0]
	by := Blocker{ID: h.ID, Name: h.Name, DeviceOwner: h.DeviceOwner, DeviceID: h.DeviceID, ProjectID: h.ProjectID}
	return &client.Error{
		Kind: client.Taken, Op: string(step.Action),
		Reason: client.OneLine("the gateway's address is that of " + by.String() + ", which is not ours"),
	}
}

// Neutron's actions on a router.
const (
	addInterface    = "add_router_interface"
	removeInterface = "remove_router_interface"
)

// interfaceCall sends an action on a router's interface. It names the port, which bears the marker. It is
// unconditional, because other changes to the router do not affect it.
func (i *Inventory) interfaceCall(ctx context.Context, step plan.Step, action string) error {
	var answer struct {
		PortID string `json:"port_id"`
	}
	r := client.Request{
		Op: string(step.Action), Method: http.MethodPut, Path: routerAPI.Path(step.RouterRef.ID) + "/" + action,
		Body: map[string]any{"port_id": step.ID}, Answer: &answer,
	}
	err := i.queue.Write(ctx, r.Op, flowOf(ctx), func() error { return i.cloud.Do(ctx, r) })
	if err == nil && answer.PortID != step.ID {
		return client.BadAnswer(r.Op, r.Method, "it is not of port %s", step.ID)
	}
	return err
}

// attach makes a port a router's interface. It moves both revisions as Neutron does (measured; the contract suite
// checks it): the port's by two, because Neutron writes it before and after a check, and the router's by one. Neutron
// refuses a port that is an interface already (PortInUse); the caller rereads it and plans again.
func (i *Inventory) attach(ctx context.Context, step plan.Step) error {
	defer i.ports.write(step.ID)()
	defer i.routers.write(step.RouterRef.ID)()
	if err := i.interfaceCall(ctx, step, addInterface); err != nil {
		return i.explain(ctx, step, err)
	}
	i.ports.change(step.ID, func(held *plan.ObservedPort) *plan.ObservedPort {
		if held == nil {
			return nil
		}
		p := *held
		p.Router = step.RouterRef.ID
		p.Revision += 2
		return &p
	})
	i.touch(step.RouterRef.ID)
	return nil
}

// detach takes an interface off its router, which deletes its port. A port that is gone counts as detached.
func (i *Inventory) detach(ctx context.Context, step plan.Step) error {
	defer i.ports.write(step.ID)()
	defer i.routers.write(step.RouterRef.ID)()
	err := i.interfaceCall(ctx, step, removeInterface)
	if client.IsNotFound(err) {
		// The port may be on another router by now.
		found, rereadErr := i.Reread(ctx, plan.Resource{Kind: plan.KindPort, ID: step.ID})
		if found && rereadErr == nil {
			return &client.Error{
				Kind: client.Conflict, Op: string(step.Action), Reason: "port " + step.ID + " is not on the router",
			}
		}
		return rereadErr
	}
	if err != nil {
		return err
	}
	i.ports.remove(step.ID)
	i.touch(step.RouterRef.ID)
	return nil
}

// touch moves the revision of a router of ours by one, as Neutron does when an interface comes or goes.
func (i *Inventory) touch(routerID string) {
	i.routers.change(routerID, func(held *plan.ObservedRouter) *plan.ObservedRouter {
		if held == nil {
			return nil
		}
		r := *held
		r.Revision++
		return &r
	})
}

// revisionOf returns the revision of a router in the Inventory, or planned if it does not hold the router.
func (i *Inventory) revisionOf(routerID string, planned int) int {
	i.mu.RLock()
	defer i.mu.RUnlock()
	if held, ok := i.routers.held[routerID]; ok {
		return held.Revision
	}
	return planned
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
				"subnet %s has %s %s and no %s: its hosts go by the advertisements of another router, and Neutron puts none "+
					"of its own there; with gateway \"none\" it has no interface",
				s.CIDR, plan.FieldIPv6AddressMode, s.IPv6AddressMode, plan.FieldIPv6RAMode)}
		}
	}
	return i.clash(ctx, step, refusal)
}

// clash names both networks if Neutron refuses an interface because their addresses overlap on one router.
func (i *Inventory) clash(ctx context.Context, step plan.Step, refusal error) error {
	on, err := client.List[wirePort](ctx, i.cloud, opListPorts, portAPI, url.Values{
		"device_id": {step.RouterRef.ID}, "fields": {"id", "network_id", "fixed_ips", "description"},
	})
	if err != nil {
		return refusal
	}
	mine, err := i.listSubnets(ctx, step.NetworkRef.ID)
	if err != nil {
		return refusal
	}
	for _, p := range on {
		theirs, err := i.listSubnets(ctx, p.NetworkID)
		if err != nil {
			return refusal
		}
		for _, a := range theirs {
			attached := slices.ContainsFunc(p.FixedIPs, func(f wireFixedIP) bool { return f.SubnetID == a.ID })
			for _, b := range mine {
				if attached && a.ID != b.ID && overlap(a.CIDR, b.CIDR) && p.ID != step.ID {
					return &client.Error{Kind: client.Invalid, Op: string(step.Action), Reason: client.OneLine(fmt.Sprintf(
						"subnet %s of network %q overlaps subnet %s of network %q (%s), which is on router %s already: "+
							"one router cannot serve both", b.CIDR, step.Port.Name, a.CIDR, a.Name, p.NetworkID, step.RouterRef.ID))}
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

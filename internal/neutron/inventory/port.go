package inventory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

var portKind = kind[wirePort, plan.ObservedPort]{
	Collection: client.Collection{One: "port", Many: "ports", Bulk: true},
	fields:     fieldsOf[wirePort](),
	decode:     wirePort.observed,
	encode:     portBody,
	extensions: map[string]string{
		"security_groups": plan.FieldSecurityGroups, "port_security_enabled": plan.FieldPortSecurity,
		"qos_policy_id": plan.FieldQoSPolicy, "dns_name": plan.FieldDNSName,
		"allowed_address_pairs": plan.FieldAddressPairs,
	},
}

// newPorts is the stock of ports: the users' and routers' interfaces.
func newPorts(i *Inventory) *stock[wirePort, plan.ObservedPort] {
	s := newStock(i.access, &i.mu, plan.KindPort, portKind,
		func(o *plan.Observed) *[]plan.ObservedPort { return &o.Ports },
		traits[plan.ObservedPort]{
			identify: func(p *plan.ObservedPort) (string, string, int) { return p.ID, p.Description, p.Revision },
		})
	var used usage
	s.readAll = func(ctx context.Context) (found findings[plan.ObservedPort], err error) {
		found, used, err = i.readPorts(ctx)
		return found, err
	}
	s.begins = i.room.listBegins
	s.ends = func(kept bool) {
		if kept {
			i.counts.seen = used
		}
		i.room.listEnds(kept)
	}
	return s
}

// portActions are the actions on ports. A port moves neither its network's revision nor its subnets' (measured; the
// contract suite checks it).
func (i *Inventory) portActions() actions {
	return actions{
		plan.CreatePort: {take: i.createPort},
		// Neutron may move the revision once more after its answer (see portBody). Then the next conditional write fails
		// and rereads, or the next list updates the port.
		plan.UpdatePort: {take: i.updatePort},
		plan.DeletePort: {take: i.deletePort},
	}
}

type wirePort struct {
	wireBase
	NetworkID      string        `json:"network_id"`
	Name           string        `json:"name"`
	AdminStateUp   bool          `json:"admin_state_up"`
	FixedIPs       []wireFixedIP `json:"fixed_ips"`
	MAC            string        `json:"mac_address"`
	SecurityGroups []string      `json:"security_groups"`
	PortSecurity   *bool         `json:"port_security_enabled"`
	QoSPolicy      string        `json:"qos_policy_id"`
	DNSName        string        `json:"dns_name"`
	AddressPairs   []wirePair    `json:"allowed_address_pairs"`
	DeviceOwner    string        `json:"device_owner"`
	DeviceID       string        `json:"device_id"`
}

type wireFixedIP struct {
	SubnetID string `json:"subnet_id,omitempty"`
	// Address is omitted from a request if Neutron chooses it.
	Address string `json:"ip_address,omitempty"`
}

type wirePair struct {
	Address string `json:"ip_address"`
	MAC     string `json:"mac_address,omitempty"`
}

// pairs converts the port's address pairs. One in an unknown form is the zero Prefix: it is never declared.
func (w wirePort) pairs() (pairs []plan.AddressPair) {
	for _, p := range w.AddressPairs {
		within, _ := plan.ParseRange(p.Address)
		pairs = append(pairs, plan.AddressPair{Range: within, MAC: canonicalMAC(p.MAC)})
	}
	return pairs
}

func (w wirePort) observed() (plan.ObservedPort, error) {
	if w.ID == "" || w.NetworkID == "" {
		return plan.ObservedPort{}, fmt.Errorf("a port has no id or no network_id")
	}
	p := plan.ObservedPort{
		ID:        w.ID,
		Revision:  int(w.Revision.Or0()),
		Created:   w.Created.Time,
		NetworkID: w.NetworkID,
		Router:    w.routerOf(),
		Device:    w.device(),
		PortAttributes: plan.PortAttributes{
			Name:           w.Name,
			Description:    w.Description,
			AdminStateUp:   w.AdminStateUp,
			MAC:            canonicalMAC(w.MAC),
			SecurityGroups: slices.Sorted(slices.Values(w.SecurityGroups)),
			PortOptions:    plan.PortOptions{PortSecurity: w.PortSecurity, AddressPairs: w.pairs()},
		},
	}
	if w.QoSPolicy != "" {
		p.QoSPolicy = &w.QoSPolicy
	}
	if w.DNSName != "" {
		p.DNSName = &w.DNSName
	}
	for _, fixed := range w.FixedIPs {
		addr, err := netip.ParseAddr(fixed.Address)
		if err != nil {
			return plan.ObservedPort{}, fmt.Errorf("port %s: fixed_ips is no address of a known form", w.ID)
		}
		p.Addresses = append(p.Addresses, plan.PortAddress{SubnetID: fixed.SubnetID, Address: addr})
	}
	slices.SortFunc(p.Addresses, func(a, b plan.PortAddress) int {
		return cmp.Or(a.Address.Compare(b.Address), cmp.Compare(a.SubnetID, b.SubnetID))
	})
	return p, nil
}

// canonicalMAC returns a MAC address in lower case, with colons. Neutron keeps the form that it received (measured). A
// MAC in an unusual form still equals only itself.
func canonicalMAC(text string) string {
	if mac, err := net.ParseMAC(text); err == nil {
		return mac.String()
	}
	return strings.ToLower(text)
}

// routerOf returns the id of the router whose interface the port is; empty if it is none.
func (w wirePort) routerOf() string {
	if slices.Contains(routerInterfaces, w.DeviceOwner) {
		return w.DeviceID
	}
	return ""
}

// device describes the device that somebody gave the port to; empty if there is none, or if it is a router.
func (w wirePort) device() string {
	ours := w.DeviceOwner == "" || w.DeviceOwner == plan.PortDeviceOwner
	if w.routerOf() != "" || w.DeviceID == "" && (ours || w.isInterface()) {
		return ""
	}
	if ours {
		return Blocker{DeviceID: w.DeviceID}.device()
	}
	return Blocker{DeviceOwner: w.DeviceOwner, DeviceID: w.DeviceID}.device()
}

// isInterface reports whether a port is a router's interface, or was created to become one.
func (w wirePort) isInterface() bool {
	return w.DeviceOwner == plan.InterfaceDeviceOwner || w.DeviceOwner == plan.UnattachedDeviceOwner || w.routerOf() != ""
}

// portBody is the body of a create (all fields) or of an update (the fields that the step changes). It omits what the
// cloud chooses.
func portBody(step plan.Step, all bool) map[string]any {
	p := step.Port
	body := map[string]any{}
	if all {
		body["network_id"] = step.NetworkRef.ID
		body["device_owner"] = cmp.Or(step.DeviceOwner, plan.PortDeviceOwner)
	}
	set := setterOf(body, step, all)
	set.named(p.Name, p.Description)
	set(plan.FieldAdminState, "admin_state_up", p.AdminStateUp)
	addresses := []wireFixedIP{}
	for _, a := range p.Addresses {
		fixed := wireFixedIP{SubnetID: a.SubnetID}
		if a.Address.IsValid() {
			fixed.Address = a.Address.String()
		}
		addresses = append(addresses, fixed)
	}
	set(plan.FieldAddresses, "fixed_ips", addresses)
	declared(set, plan.FieldMAC, "mac_address", p.MAC)
	if p.SecurityGroups != nil {
		set(plan.FieldSecurityGroups, "security_groups", p.SecurityGroups)
	}
	optionsOf(p.PortOptions, all, set)
	beside := func(attribute string) bool { return body[attribute] != nil }
	if !all && p.Name != "" && slices.ContainsFunc([]string{
		"description", "port_security_enabled", "qos_policy_id", "dns_name", "allowed_address_pairs",
	}, beside) {
		// Neutron keeps these outside the port's own database row. An update that does not touch that row moves the
		// revision once more after the answer. An update with the name, even unchanged, does not (measured; the contract
		// suite checks both).
		body["name"] = p.Name
	}
	return body
}

// optionsOf sets the attributes of options. A cloud may lack the extension of each, and refuse even its empty value. A
// new port has none of them, but what its network gives it.
func optionsOf(o plan.PortOptions, all bool, set setter) {
	declared(set, plan.FieldPortSecurity, "port_security_enabled", o.PortSecurity)
	set.policy(o.QoSPolicy, all)
	extended(set, plan.FieldDNSName, "dns_name", o.DNSName, all)
	if o.AddressPairs != nil && (!all || len(o.AddressPairs) > 0) {
		pairs := make([]wirePair, len(o.AddressPairs))
		for i, p := range o.AddressPairs {
			pairs[i] = wirePair{p.Address(), p.MAC}
		}
		set(plan.FieldAddressPairs, "allowed_address_pairs", pairs)
	}
}

// shared interns strings that many ports of a list have in common. Decoding allocates each one separately.
type shared map[string]string

// in interns the ids of a port's network, router, subnets and security groups. Nobody else may have the port yet.
func (s shared) in(p *plan.ObservedPort) {
	one := func(text *string) {
		if known, ok := s[*text]; ok {
			*text = known
		} else {
			s[*text] = *text
		}
	}
	one(&p.NetworkID)
	one(&p.Router)
	for at := range p.Addresses {
		one(&p.Addresses[at].SubnetID)
	}
	for at := range p.SecurityGroups {
		one(&p.SecurityGroups[at])
	}
	if p.QoSPolicy != nil {
		one(p.QoSPolicy)
	}
}

// readPorts lists our ports. It counts the addresses of all the project's ports.
func (i *Inventory) readPorts(ctx context.Context) (found findings[plan.ObservedPort], used usage, err error) {
	begin := func() { found, used = newFindings[plan.ObservedPort](), usage{} }
	err = portKind.eachOfProject(ctx, i.access, begin, func(w wirePort, odd error) {
		i.ports.listed.hear()
		for _, fixed := range w.FixedIPs {
			used[fixed.SubnetID]++
		}
		if i.options.Ports || w.isInterface() {
			i.ports.gather(found, w, odd)
		}
	})
	known := shared{}
	for _, p := range found.held {
		known.in(p)
	}
	return found, used, err
}

// createPort creates a port, in the first of its subnets that have an address.
func (i *Inventory) createPort(ctx context.Context, step *plan.Step) (revision int, err error) {
	return i.spill(step, func(step *plan.Step) (int, error) { return i.createPortIn(ctx, step) })
}

// updatePort is createPort for a port that changes. From version 23 on, Neutron refuses to take the address of a
// floating IP from a port, with 400: the error is InUse then. The plan avoids this for the owner's own floating IPs.
func (i *Inventory) updatePort(ctx context.Context, step *plan.Step) (revision int, err error) {
	revision, err = i.spill(step, func(step *plan.Step) (int, error) { return i.ports.updated(ctx, step) })
	if !client.IsKind(err, client.Invalid) || !step.Changes(plan.FieldAddresses) {
		return revision, err
	}
	if by, listErr := i.Blockers(ctx, *step); listErr == nil && !by.Empty() {
		err = client.Amended(err, func(e *client.Error) { e.Kind = client.InUse })
	}
	return 0, err
}

// createPortIn creates a port in the subnets that its addresses name, when its network has room for it.
func (i *Inventory) createPortIn(ctx context.Context, step *plan.Step) (revision int, err error) {
	alone, left, err := i.enterRoom(ctx, string(step.Action), drawOf(*step))
	if err != nil {
		return 0, err
	}
	made, err := portKind.create(ctx, i.access, *step, alone)
	left(err)
	if err != nil {
		return 0, err
	}
	return i.ports.record(&made, step), nil
}

// deletePort deletes a port. Its addresses are free from then on, whatever the last list says.
func (i *Inventory) deletePort(ctx context.Context, step *plan.Step) (revision int, err error) {
	revision, err = i.ports.removedAfter(ctx, step, i.followStatus(ctx, step))
	if err == nil {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.room.release(step.Port)
		delete(i.bound, step.ID)
	}
	return revision, err
}

// followStatus returns what rereads a port that was bound here, right before it is deleted, and takes over its revision
// if nothing else differs from now. Neutron moves it with the port's status, as when its Pod has just ended, and for
// many Pods over many seconds. It would refuse the DELETE only after nearly all of its work (measured).
func (i *Inventory) followStatus(ctx context.Context, step *plan.Step) func() error {
	i.mu.RLock()
	bound := i.bound[step.ID]
	i.mu.RUnlock()
	was, held := i.ports.get(step.ID)
	if !bound || !held || was.Revision != step.Revision {
		return func() error { return nil }
	}
	return func() error {
		if _, err := i.ports.reread(ctx, step.ID); err != nil && !errors.Is(err, ErrUnmarked) {
			return err
		}
		if is, held := i.ports.get(step.ID); held {
			like := *was
			like.Revision = is.Revision
			if reflect.DeepEqual(like, *is) {
				step.Revision = is.Revision
			}
		}
		return nil
	}
}

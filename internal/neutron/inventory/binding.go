package inventory

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/osc"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// Names of operations in errors and metrics.
const (
	opBind          = "bind port"
	opAddSubport    = "add subport"
	opRemoveSubport = "remove subport"
	opConfirm       = "confirm port"
)

// Binder attaches ports of an Inventory to hosts, with credentials that may.
type Binder struct {
	*Inventory
	// As sends the requests, because a project's own credentials rarely have the right to bind; nil means the
	// Inventory's.
	//
	// It may change every port of its cloud. So for a user's cloud, the Binder first reads the port with it (Confirm):
	// what that cloud says of the port may be a lie.
	//
	// Without it, a caller that trusts one Neutron alone MUST confine its calls to that (client.Within).
	As *client.Cloud
	// Own is for the controller's own project; nil means the Inventory's. The nodes' trunks are there, or in the project
	// of As.
	Own *client.Cloud
	// Same, if set, says whether two identities are of one Neutron, which may have several names.
	Same func(a, b client.Identity) bool
}

// Bind has Neutron expect a port of an owner on a host (binding:host_id). The error is Forbidden if the credentials
// lack the right.
func (b Binder) Bind(ctx context.Context, owner plan.Owner, id, host string) error {
	cloud, err := b.cloudFor(ctx, opBind, owner, id)
	if err != nil {
		return err
	}
	defer b.ports.write(id)()
	var answer map[string]json.RawMessage
	err = b.put(ctx, cloud, client.Request{
		Op: opBind, Path: portKind.Path(id), Answer: &answer,
		Body: map[string]any{portKind.One: map[string]any{"binding:host_id": host}},
	})
	if err != nil {
		return err
	}
	written, err := portKind.decodeAnswer(opBind, http.MethodPut, answer[portKind.One])
	if err != nil {
		return err
	}
	b.ports.edit(id, func(p *plan.ObservedPort) { p.Revision = max(p.Revision, written.Revision) })
	b.mu.Lock()
	if b.bound == nil {
		b.bound = map[string]bool{}
	}
	b.bound[id] = true
	b.mu.Unlock()
	var bound wireBinding
	if err := json.Unmarshal(answer[portKind.One], &bound); err != nil {
		return client.BadAnswer(opBind, http.MethodPut, "the binding of port %s: %v", id, err)
	}
	return bound.check(host)
}

// wireBinding is what Neutron made of a binding. Administrators see it.
type wireBinding struct {
	ID      string `json:"id"`
	VIFType string `json:"binding:vif_type"`
	Details struct {
		HybridPlug bool `json:"ovs_hybrid_plug"`
	} `json:"binding:vif_details"`
	DeviceOwner string `json:"device_owner"`
}

// check returns an error if packets of a bound port would not flow, or would pass no security group. Neutron accepts a
// host on which nothing can bind the port.
func (w wireBinding) check(host string) error {
	switch {
	case w.DeviceOwner == deviceOwnerSubport:
		return &client.Error{Kind: client.InUse, Op: opBind, Type: typeInTrunk, Reason: "the port is in a trunk, which has " +
			"its packets: take it out with \"" + osc.LeaveTrunk(cmp.Or(w.ID, "PORT"), "TRUNK") + "\""}
	case w.VIFType == "binding_failed":
		return &client.Error{Kind: client.Transient, Op: opBind, Reason: "no agent of Neutron that is alive on host " + host +
			" can bind the port (binding_failed): compare the name with \"" + osc.Agents + "\""}
	case w.Details.HybridPlug:
		return &client.Error{Kind: client.Invalid, Op: opBind, Reason: "the agent of Neutron on host " + host +
			" uses firewall_driver iptables_hybrid, whose security groups the Pod would not have: use openvswitch"}
	}
	return nil
}

func (b Binder) put(ctx context.Context, cloud *client.Cloud, r client.Request) error {
	r.Method = http.MethodPut
	b.join()
	return b.queue.Write(ctx, r.Op, flowOf(ctx), func() error { return cloud.Do(ctx, r) })
}

// cloudFor returns whose credentials change a port, once they lead to the cloud that has the port of this owner. The
// error is ErrDisputed if another cluster may have attached the port. If ctx is Within a project, the port must be
// known from a list of that project.
func (b Binder) cloudFor(ctx context.Context, op string, owner plan.Owner, id string) (*client.Cloud, error) {
	if err := b.held(ctx, op, owner, id); err != nil {
		return nil, err
	}
	if err := b.admitAttachment(ctx, id); err != nil {
		return nil, err
	}
	if b.As == nil {
		return b.cloud, nil
	}
	same, err := b.sameNeutron(ctx)
	if err != nil {
		return nil, err
	}
	if !same {
		kind := client.Forbidden
		if b.tenant != "" {
			kind = client.Invalid // a port of a user's own cloud is not even plugged unbound
		}
		return nil, &client.Error{Kind: kind, Op: op, Reason: "the credentials that bind ports are for another cloud"}
	}
	return b.As, b.Confirm(ctx, owner, id)
}

// held returns an error unless the Inventory holds a port of this owner, of the project that ctx is Within if it is. A
// user's cloud may have told of the port under another identity.
func (b Binder) held(ctx context.Context, op string, owner plan.Owner, id string) error {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if within, bound := client.Wanted(ctx); bound && b.ports.listed.of != within {
		return client.HeldBack(client.GateIdentity, op, "the ports of "+within.String()+" are not listed yet")
	}
	if p, ok := b.ports.held[id]; ok {
		if _, has, marked := plan.ParseDescription(p.Description); marked && has == owner {
			return nil
		}
	}
	return &client.Error{Kind: client.Conflict, Op: op, Reason: "port " + id + " is not there any more"}
}

// Confirm returns an error unless the cloud that binds has the port, with its owner's marker. It reads the port live,
// with the credentials that bind, so that nothing counts that a user's cloud said before. The error is never Forbidden.
// For the controller's own cloud, which tells the truth, it reads nothing: the Inventory must hold the port.
func (b Binder) Confirm(ctx context.Context, owner plan.Owner, id string) error {
	if b.tenant == "" {
		return b.held(ctx, opConfirm, owner, id) // the id may have been told by another cloud, where the port was
	}
	cloud := b.cloud
	if b.As != nil {
		cloud = b.As
	}
	w, err := client.Get[wirePort](ctx, cloud, opConfirm, portKind.Collection, portKind.fields, id)
	switch _, has, marked := plan.ParseDescription(w.Description); {
	case client.IsKind(err, client.Forbidden):
		return &client.Error{Kind: client.Conflict, Op: opConfirm, Reason: "port " + id + " cannot be read: " + err.Error()}
	case err != nil:
		return err
	case !marked || has != owner:
		return &client.Error{
			Kind: client.Conflict, Op: opConfirm, Reason: "port " + id + " has not this object's marker",
		}
	}
	return nil
}

// sameNeutron reports whether As, which is set, leads to the Inventory's cloud.
func (b Binder) sameNeutron(ctx context.Context) (bool, error) {
	here, err := b.cloud.Identity(ctx)
	if err != nil {
		return false, err
	}
	there, err := b.As.Identity(ctx)
	if err != nil {
		return false, err
	}
	return b.same(here, there), nil
}

func (b Binder) same(here, there client.Identity) bool {
	return here.SameNeutron(there) || b.Same != nil && b.Same(here, there)
}

// Parent is the parent port of a node's trunk, as the node knows it.
type Parent struct {
	// PortID is the port's id as Neutron writes it, see plan.IsID; empty if the node does not know it.
	PortID string
	// MAC is the port's hardware address. Any project may give a port of its own the same one.
	MAC string
}

// Same reports whether two are one port. AddSubport refuses a text that Neutron takes for another one's, and Same does
// not.
func (p Parent) Same(other Parent) bool {
	if p.PortID != "" && other.PortID != "" {
		return p.PortID == other.PortID
	}
	return p.hasMAC(other.MAC)
}

func (p Parent) hasMAC(mac string) bool {
	return p.MAC != "" && canonicalMAC(p.MAC) == canonicalMAC(mac)
}

// wireParent is a port as the parent of a trunk.
type wireParent struct {
	ID    string     `json:"id"`
	MAC   string     `json:"mac_address"`
	Trunk *wireTrunk `json:"trunk_details"`
}

func (w wireParent) Key() string { return w.ID }

type wireTrunk struct {
	ID       string        `json:"trunk_id"`
	Subports []wireSubport `json:"sub_ports"`
}

type wireSubport struct {
	PortID string        `json:"port_id"`
	Type   string        `json:"segmentation_type,omitempty"`
	VLAN   client.Number `json:"segmentation_id,omitempty"`
}

// vlanOf returns the VLAN of a subport; 0 if the trunk does not have it.
func (w wireTrunk) vlanOf(id string) int {
	for _, sub := range w.Subports {
		if sub.PortID == id {
			return int(sub.VLAN.Or0())
		}
	}
	return 0
}

const lastVLAN = 4094

// freeVLAN returns a VLAN that no subport has; 0 if there is none. It is the one after the highest, as long as there is
// one: an interface that is still being removed on the node keeps its VLAN.
func (w wireTrunk) freeVLAN() int {
	used, highest := map[int]bool{}, 0
	for _, sub := range w.Subports {
		vlan := int(sub.VLAN.Or0())
		used[vlan], highest = true, max(highest, vlan)
	}
	if highest < lastVLAN {
		return highest + 1
	}
	for vlan := 1; vlan <= lastVLAN; vlan++ {
		if !used[vlan] {
			return vlan
		}
	}
	return 0
}

// projects returns those whose trunks are nodes', in the Neutron that some credentials are for.
func (b Binder) projects(ctx context.Context, cloud *client.Cloud) (ids []string, err error) {
	here, err := cloud.Identity(ctx)
	if err != nil {
		return nil, err
	}
	for _, of := range []*client.Cloud{cmp.Or(b.Own, b.cloud), b.As} {
		if of == nil {
			continue
		}
		operators, err := of.Identity(ctx)
		if err != nil {
			return nil, err
		}
		if b.same(here, operators) && !slices.Contains(ids, operators.ProjectID) {
			ids = append(ids, operators.ProjectID)
		}
	}
	return ids, nil
}

// parentsOf finds ports that are parents of trunks, of the nodes' projects alone.
func (b Binder) parentsOf(
	ctx context.Context, cloud *client.Cloud, op string, parents ...Parent,
) (found []wireParent, err error) {
	projects, err := b.projects(ctx, cloud)
	if err != nil || len(projects) == 0 { // no filter would mean all projects
		return nil, err
	}
	var ids, macs []string
	for _, parent := range parents {
		if parent.PortID != "" {
			ids = append(ids, parent.PortID)
		} else if parent.MAC != "" {
			macs = append(macs, parent.MAC)
		}
	}
	for field, values := range map[string][]string{"id": ids, "mac_address": macs} {
		for some := range slices.Chunk(values, maxLocated) {
			ports, err := client.List[wireParent](ctx, cloud, op, portKind.Collection, url.Values{
				field: some, "project_id": projects, "fields": fieldsOf[wireParent](),
			})
			if err != nil {
				return nil, err
			}
			found = append(found, ports...)
		}
	}
	return slices.DeleteFunc(found, func(w wireParent) bool { return w.Trunk == nil }), nil
}

// trunkOf finds the one trunk of a parent. Its errors name no hardware address: tenants read them.
func (b Binder) trunkOf(ctx context.Context, cloud *client.Cloud, op string, parent Parent) (wireTrunk, error) {
	found, err := b.parentsOf(ctx, cloud, op, parent)
	invalid := func(reason string) error { return &client.Error{Kind: client.Invalid, Op: op, Reason: reason} }
	switch {
	case err != nil:
		return wireTrunk{}, err
	case len(found) == 0:
		return wireTrunk{}, errors.New("no trunk has the node's port as its parent: make one in the controller's project, " +
			"or in that of --binding-cloud, and let these credentials see it")
	case len(found) > 1:
		return wireTrunk{}, invalid(fmt.Sprintf("%d trunks have parent ports with the hardware address of the node: have "+
			"the node's agent read the id of its port (--network-data)", len(found)))
	case parent.PortID != "" && parent.PortID != found[0].ID, parent.PortID == "" && !parent.hasMAC(found[0].MAC):
		// MySQL compares texts without letter case and trailing blanks. A node could pass for another one.
		return wireTrunk{}, invalid("the node does not write the id or the hardware address of its port as Neutron does: " +
			"see where the node's agent reads the id (--network-data)")
	case !parent.hasMAC(found[0].MAC):
		return wireTrunk{}, invalid("the port " + parent.PortID + ", which the node says is its own, has another hardware " +
			"address than the node: see where the node's agent reads the id (--network-data)")
	}
	return *found[0].Trunk, nil
}

// subportAttempts is how often AddSubport chooses a VLAN, which somebody else may take first.
const subportAttempts = 5

// AddSubport puts a port of an owner into the trunk of a parent. It returns the VLAN, which stays the same as long as
// the port is in that trunk. The error is Invalid if the parent's id and hardware address are not of one port.
func (b Binder) AddSubport(ctx context.Context, owner plan.Owner, id string, parent Parent) (vlan int, err error) {
	cloud, err := b.cloudFor(ctx, opAddSubport, owner, id)
	if err != nil {
		return 0, err
	}
	for range subportAttempts {
		var trunk wireTrunk
		if trunk, err = b.trunkOf(ctx, cloud, opAddSubport, parent); err != nil {
			return 0, err
		}
		if vlan = trunk.vlanOf(id); vlan != 0 {
			if err := b.Confirm(ctx, owner, id); err != nil { // no write shows that the credentials may use the port
				return 0, err
			}
			return vlan, nil
		}
		if vlan = trunk.freeVLAN(); vlan == 0 {
			return 0, &client.Error{Kind: client.Capacity, Op: opAddSubport, Reason: "the trunk has no free VLAN"}
		}
		err = b.put(ctx, cloud, client.Request{
			Op: opAddSubport, Path: "trunks/" + url.PathEscape(trunk.ID) + "/add_subports",
			Body: map[string]any{"sub_ports": []wireSubport{{id, "vlan", client.Number(vlan)}}},
		})
		if client.TypeOf(err) != "DuplicateSubPort" {
			return vlan, err
		}
	}
	return 0, err
}

// typeInTrunk is the type of Neutron's refusal of a port that another trunk has.
const typeInTrunk = "TrunkPortInUse"

// IsInTrunk reports whether an error of Bind or AddSubport says that another trunk has the port. RemoveSubport helps.
func IsInTrunk(err error) bool { return client.TypeOf(err) == typeInTrunk }

// RemoveSubport takes a port of an owner out of whichever trunk of the parents has it. A port that is in none of them
// counts as removed: the virtual machine may be gone. It rereads the port, which Neutron does not delete while it is in
// a trunk.
func (b Binder) RemoveSubport(ctx context.Context, owner plan.Owner, id string, parents ...Parent) error {
	if b.ports.ownerOf(id) != owner {
		if found, err := b.Reread(ctx, plan.Resource{Kind: plan.KindPort, ID: id}); err != nil || !found {
			return err
		}
	}
	cloud, err := b.cloudFor(ctx, opRemoveSubport, owner, id)
	if err != nil {
		return err
	}
	found, err := b.parentsOf(ctx, cloud, opRemoveSubport, parents...)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(found, func(w wireParent) bool { return w.Trunk.vlanOf(id) != 0 })
	if at < 0 {
		return nil
	}
	err = b.put(ctx, cloud, client.Request{
		Op: opRemoveSubport, Path: "trunks/" + url.PathEscape(found[at].Trunk.ID) + "/remove_subports",
		Body: map[string]any{"sub_ports": []wireSubport{{PortID: id}}},
	})
	if err != nil && !client.IsNotFound(err) {
		return err
	}
	_, err = b.Reread(ctx, plan.Resource{Kind: plan.KindPort, ID: id})
	return err
}

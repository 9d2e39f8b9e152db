package inventory

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// floatingKind has no Bulk: Neutron answers "Bulk operation not supported", as for routers.
var floatingKind = kind[wireFloatingIP, plan.ObservedFloatingIP]{
	Collection: floatingIPAPI,
	fields:     fieldsOf[wireFloatingIP](),
	decode:     wireFloatingIP.observed,
	encode:     floatingIPBody,
	lacking:    "this cloud has no floating IPs (it lacks Neutron's extension router): ask for none",
	nameless:   true,
}

func newFloatingIPs(i *Inventory) *stock[wireFloatingIP, plan.ObservedFloatingIP] {
	return newStock(i.access, &i.mu, plan.KindFloatingIP, floatingKind,
		func(o *plan.Observed) *[]plan.ObservedFloatingIP { return &o.FloatingIPs },
		traits[plan.ObservedFloatingIP]{
			identify: func(f *plan.ObservedFloatingIP) (string, string, int) { return f.ID, f.Description, f.Revision },
		})
}

// alreadyAssociated is the type of Neutron's refusal of a second floating IP of a network for an address of a port.
const alreadyAssociated = "FloatingIPPortAlreadyAssociated"

// floatingIPActions are the actions on floating IPs.
func (i *Inventory) floatingIPActions() actions {
	return actions{
		plan.CreateFloatingIP: {take: i.createFloatingIP},
		plan.TakeFloatingIP:   {take: i.floating.updated},
		plan.UpdateFloatingIP: {confirms: itsFloatingIP, exists: true, take: i.updateFloatingIP},
		plan.DeleteFloatingIP: {take: i.deleteFloatingIP},
	}
}

// itsFloatingIP is the floating IP of a step.
func itsFloatingIP(step plan.Step) plan.Resource {
	return plan.Resource{Kind: plan.KindFloatingIP, ID: step.ID}
}

// wireFloatingIP is a floating IP in Neutron's JSON.
type wireFloatingIP struct {
	wireBase
	Address   string `json:"floating_ip_address"`
	NetworkID string `json:"floating_network_id"`
	PortID    string `json:"port_id"`
	Fixed     string `json:"fixed_ip_address"`
	QoSPolicy string `json:"qos_policy_id"`
}

func (w wireFloatingIP) observed() (plan.ObservedFloatingIP, error) {
	if w.ID == "" || w.NetworkID == "" {
		return plan.ObservedFloatingIP{}, errors.New("a floating IP has no id or no floating_network_id")
	}
	address, err := netip.ParseAddr(w.Address)
	if err != nil {
		return plan.ObservedFloatingIP{}, fmt.Errorf("floating IP %s: floating_ip_address is no address", w.ID)
	}
	f := plan.ObservedFloatingIP{
		ID: w.ID, Revision: int(w.Revision.Or0()), Created: w.Created.Time, PortID: w.PortID,
		FloatingIPAttributes: plan.FloatingIPAttributes{
			Description: w.Description, NetworkID: w.NetworkID, Address: address, QoSPolicy: w.QoSPolicy,
		},
	}
	if w.Fixed != "" {
		if f.Fixed, err = netip.ParseAddr(w.Fixed); err != nil {
			return plan.ObservedFloatingIP{}, fmt.Errorf("floating IP %s: fixed_ip_address is no address", w.ID)
		}
	}
	return f, nil
}

// floatingIPBody is the body of a create or of an update.
//
// An update without the port means the port that it has, and then Neutron asks for the address if the port has several
// of IPv4. An update without the QoS policy removes it (neutron.db.l3_db, _update_floatingip). So both are repeated.
func floatingIPBody(step plan.Step, all bool) map[string]any {
	f := step.FloatingIP
	body := map[string]any{}
	set := setterOf(body, step, all)
	if all {
		body["floating_network_id"] = f.NetworkID
		if f.Address.IsValid() {
			body["floating_ip_address"] = f.Address.String()
		}
	} else if f.QoSPolicy != "" {
		body["qos_policy_id"] = f.QoSPolicy
	}
	set(plan.FieldDescription, "description", f.Description)
	set(plan.FieldDeletionPolicy, "description", f.Description)
	switch {
	case step.PortRef.ID != "":
		body["port_id"] = step.PortRef.ID
	case step.Changes(plan.FieldPort): // nowhere
		body["port_id"] = nil
	}
	if f.Fixed.IsValid() {
		body["fixed_ip_address"] = f.Fixed.String()
	}
	return body
}

// createFloatingIP creates a floating IP that is associated with a port, in one request.
func (i *Inventory) createFloatingIP(ctx context.Context, step *plan.Step) (revision int, err error) {
	i.chooseFixed(step)
	revision, err = i.floating.created(ctx, step)
	if refusal, ok := errors.AsType[*client.Error](err); ok && refusal.Kind == client.Taken {
		// An earlier leader may have created it after the last list.
		_, owner, _ := plan.ParseDescription(step.FloatingIP.Description)
		if ids, findErr := i.floating.find(ctx, "", owner); findErr == nil && len(ids) > 0 {
			told := *refusal
			told.Kind, told.Reason = client.Conflict, "floating IP "+ids[0]+" of the same owner was created meanwhile"
			return 0, &told
		}
	}
	return revision, floatingError(err, *step)
}

// updateFloatingIP changes a floating IP; see plan.UpdateFloatingIP. What the step does not change is repeated as the
// live read before showed it.
func (i *Inventory) updateFloatingIP(ctx context.Context, step *plan.Step) (revision int, err error) {
	if held, ok := i.floating.get(step.ID); ok {
		step.FloatingIP.QoSPolicy = held.QoSPolicy
		if !step.Changes(plan.FieldPort) {
			step.PortRef, step.FloatingIP.Fixed = plan.Ref{ID: held.PortID}, held.Fixed
		}
	}
	i.chooseFixed(step)
	revision, err = i.floating.updatedIf(ctx, step, nil)
	return revision, floatingError(err, *step)
}

// deleteFloatingIP deletes a floating IP. The deletion of its port has moved its revision. So one whose port is gone is
// read again before. If it is not ours any more, the error is a Conflict.
func (i *Inventory) deleteFloatingIP(ctx context.Context, step *plan.Step) (revision int, err error) {
	if _, held := i.ports.get(step.PortRef.ID); step.PortRef.ID != "" && !held {
		if err := i.stillOurs(ctx, *step, itsFloatingIP(*step)); err != nil {
			return 0, err
		}
		if is, held := i.floating.get(step.ID); held {
			step.Revision = is.Revision
		}
	}
	return i.floating.removed(ctx, step)
}

// chooseFixed chooses the address that a floating IP is associated with: the port's lowest one of IPv4. Neutron chooses
// only if there is one.
func (i *Inventory) chooseFixed(step *plan.Step) {
	port, held := i.ports.get(step.PortRef.ID)
	if !held || step.FloatingIP.Fixed.IsValid() {
		return
	}
	for _, a := range port.Addresses { // in order
		if a.Address.Is4() {
			step.FloatingIP.Fixed = a.Address
			return
		}
	}
}

// floatingError says in the spec's terms why Neutron refuses a floating IP. Its own sentences name the subnet by its
// id, and the floating IP that it did not create.
func floatingError(err error, step plan.Step) error {
	refusal, ok := errors.AsType[*client.Error](err)
	if !ok {
		return err
	}
	told, address := *refusal, step.FloatingIP.Address
	switch creates := step.Action.Creates() && address.IsValid(); {
	case creates && refusal.Type == "InvalidIpForNetwork":
		told.Reason = fmt.Sprintf("address %s is in no subnet of external network %s: ask for another address, or for "+
			"none", address, step.FloatingIP.NetworkID)
		return &told
	case creates && refusal.Type != alreadyAssociated && refusal.Kind == client.Taken:
		told.Reason = fmt.Sprintf("address %s of external network %s is in use: import the floating IP that has it "+
			"(import.id), free it, or ask for another address", address, step.FloatingIP.NetworkID)
		return &told
	}
	switch refusal.Type {
	case "ExternalGatewayForFloatingIPNotFound":
		told.Reason = "no router connects the port's subnet to external network " + step.FloatingIP.NetworkID + ": the " +
			"Network needs spec.router with that externalNetwork, or another router with a gateway to it"
	case alreadyAssociated:
		told.Reason = "the port's address has a floating IP of external network " + step.FloatingIP.NetworkID + " that is " +
			"not ours: remove that one, or ask for none here"
	default:
		return err
	}
	return &told
}

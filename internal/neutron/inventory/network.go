package inventory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

var networkKind = kind[wireNetwork, plan.ObservedNetwork]{
	Collection: client.Collection{One: "network", Many: "networks", Bulk: true},
	fields:     fieldsOf[wireNetwork](),
	decode:     wireNetwork.observed,
	encode:     networkBody,
	extensions: map[string]string{
		"availability_zone_hints":   plan.FieldZoneHints,
		"dns_domain":                plan.FieldDNSDomain,
		"port_security_enabled":     plan.FieldPortSecurity,
		"provider:network_type":     plan.FieldNetworkType,
		"provider:physical_network": plan.FieldPhysicalNetwork,
		"provider:segmentation_id":  plan.FieldSegmentationID,
		"qos_policy_id":             plan.FieldQoSPolicy,
		"router:external":           plan.FieldExternal,
	},
}

// theNetwork is the network of a step on a network.
func theNetwork(step plan.Step) plan.Resource {
	return plan.Resource{Kind: plan.KindNetwork, ID: step.ID}
}

// Probe is the collection that a Cloud reads to learn whether Neutron answers. Neutron serves it from its database.
var Probe = networkKind.Collection

// newNetworks is the stock of networks. Their subnets and shares belong to them.
func newNetworks(i *Inventory) *stock[wireNetwork, plan.ObservedNetwork] {
	s := newStock(i.access, &i.mu, plan.KindNetwork, networkKind,
		func(o *plan.Observed) *[]plan.ObservedNetwork { return &o.Networks },
		traits[plan.ObservedNetwork]{
			identify: func(n *plan.ObservedNetwork) (string, string, int) { return n.ID, n.Description, n.Revision },
			same:     sameNetwork,
			carry:    keepUnread,
		})
	s.readAll = i.readNetworks
	s.readOne = i.readWhole
	s.complete = func(held, written *plan.ObservedNetwork) {
		if held != nil {
			written.Subnets, written.Shares, written.SharesUnknown = held.Subnets, held.Shares, held.SharesUnknown
		}
	}
	return s
}

func (i *Inventory) networkActions() actions {
	return actions{
		plan.CreateNetwork: {take: i.networks.created},
		plan.UpdateNetwork: {take: i.networks.updated},
		plan.DeleteNetwork: {take: i.networks.removed},
		plan.TagNetwork:    {confirms: theNetwork, take: i.tag},
	}
}

type wireNetwork struct {
	wireBase
	Name         string        `json:"name"`
	AdminStateUp bool          `json:"admin_state_up"`
	MTU          client.Number `json:"mtu"`
	PortSecurity *bool         `json:"port_security_enabled"`
	// Subnets are the ids of all its subnets.
	Subnets   []string `json:"subnets"`
	DNSDomain *string  `json:"dns_domain"`
	Tags      []string `json:"tags"`
	QoSPolicy *string  `json:"qos_policy_id"`
	Shared    *bool    `json:"shared"`
	External  *bool    `json:"router:external"`
	ZoneHints []string `json:"availability_zone_hints"`
	// Only administrators see these, by Neutron's default policy.
	NetworkType     string        `json:"provider:network_type"`
	PhysicalNetwork *string       `json:"provider:physical_network"`
	SegmentationID  client.Number `json:"provider:segmentation_id"`
}

func (w wireNetwork) observed() (plan.ObservedNetwork, error) {
	if w.ID == "" {
		return plan.ObservedNetwork{}, fmt.Errorf("a network has no id")
	}
	return plan.ObservedNetwork{
		ID:       w.ID,
		Revision: int(w.Revision.Or0()),
		Created:  w.Created.Time,
		Attributes: plan.Attributes{
			Name:         w.Name,
			Description:  w.Description,
			AdminStateUp: w.AdminStateUp,
			MTU:          int(w.MTU.Or0()),
			PortSecurity: w.PortSecurity,
			DNSDomain:    w.DNSDomain,
			Tags:         slices.Sorted(slices.Values(w.Tags)),
			QoSPolicy:    w.QoSPolicy,
			Shared:       w.Shared,
			External:     w.External,
			Provider:     w.provider(),
			ZoneHints:    slices.Sorted(slices.Values(w.ZoneHints)),
		},
	}, nil
}

func (w wireNetwork) provider() plan.Provider {
	p := plan.Provider{NetworkType: w.NetworkType, SegmentationID: w.SegmentationID.Or0()}
	if w.PhysicalNetwork != nil {
		p.PhysicalNetwork = *w.PhysicalNetwork
	}
	return p
}

// networkBody is the body of a create (all fields) or of an update (the fields that the step changes).
func networkBody(step plan.Step, all bool) map[string]any {
	a := step.Attributes
	body := map[string]any{}
	set := setterOf(body, step, all)
	set.named(a.Name, a.Description)
	set(plan.FieldAdminState, "admin_state_up", a.AdminStateUp)
	declared(set, plan.FieldMTU, "mtu", a.MTU)
	declared(set, plan.FieldPortSecurity, "port_security_enabled", a.PortSecurity)
	extended(set, plan.FieldDNSDomain, "dns_domain", a.DNSDomain, all)
	set.policy(a.QoSPolicy, all)
	extended(set, plan.FieldShared, "shared", a.Shared, all)
	extended(set, plan.FieldExternal, "router:external", a.External, all)
	declared(set, plan.FieldNetworkType, "provider:network_type", a.Provider.NetworkType)
	declared(set, plan.FieldPhysicalNetwork, "provider:physical_network", a.Provider.PhysicalNetwork)
	declared(set, plan.FieldSegmentationID, "provider:segmentation_id", a.Provider.SegmentationID)
	if len(a.ZoneHints) > 0 {
		set(plan.FieldZoneHints, "availability_zone_hints", a.ZoneHints)
	}
	return body
}

func assemble(w wireNetwork, subnets []wireSubnet) (*plan.ObservedNetwork, error) {
	observed, err := w.observed()
	if err != nil {
		return nil, err
	}
	for _, s := range subnets {
		subnet, err := s.observed()
		if err != nil {
			return nil, err
		}
		// Normally they are equal. Share one copy to save memory.
		if subnet.Name == observed.Name {
			subnet.Name = observed.Name
		}
		if subnet.Description == observed.Description {
			subnet.Description = observed.Description
		}
		observed.Subnets = append(observed.Subnets, subnet)
	}
	return &observed, nil
}

// sameNetwork reports whether two views of a network are equal. The revisions do not tell all: from Neutron 26 on, new
// DNS servers, host routes or pools of a subnet move none, and on no release does a new segmentation id of a VLAN. So
// subnets are compared whole. A new share moves the network's revision. It compares shares, too, because they may be
// read later than the revision.
func sameNetwork(a, b *plan.ObservedNetwork) bool {
	if a.Revision != b.Revision || a.Description != b.Description || a.Provider != b.Provider ||
		!sameShares(a.Shares, b.Shares) || a.SharesUnknown != b.SharesUnknown || len(a.Subnets) != len(b.Subnets) {
		return false
	}
	for _, s := range a.Subnets {
		if !slices.ContainsFunc(b.Subnets, func(other plan.ObservedSubnet) bool {
			other.Used = s.Used // the counts have a comparison of their own
			return s.ID == other.ID && reflect.DeepEqual(s, other)
		}) {
			return false
		}
	}
	return true
}

// keepUnread copies to a newer view of a network what a read does not show. It keeps the address counts until the next
// count. It keeps the shares that no list shows until the network's revision moves.
func keepUnread(from, to *plan.ObservedNetwork) {
	keepCounts(from, to)
	if from.Revision != to.Revision {
		return
	}
	for _, s := range from.Shares {
		shown := func(o plan.Share) bool { return o.Project == s.Project }
		if s.ID == "" && !slices.ContainsFunc(to.Shares, shown) {
			to.Shares = append(slices.Clip(to.Shares), s)
			slices.SortFunc(to.Shares, plan.CompareShares)
		}
	}
}

// readNetworks lists our networks with their subnets and shares.
func (i *Inventory) readNetworks(ctx context.Context) (found findings[plan.ObservedNetwork], err error) {
	const op = "list networks"
	var listed map[string]wireNetwork
	begin := func() { found, listed = newFindings[plan.ObservedNetwork](), map[string]wireNetwork{} }
	err = networkKind.eachOfProject(ctx, i.access, begin, func(w wireNetwork, odd error) {
		i.networks.listed.hear()
		switch {
		case !i.owns(w.Description):
		case odd != nil:
			found.odd.add(w.Description, w.ID, oddItem(op, networkKind.One, w.ID, odd))
		default:
			listed[w.ID] = w
		}
	})
	if err != nil {
		return found, err
	}
	var subnets map[string][]wireSubnet
	var odd map[string]error
	begin = func() { subnets, odd = map[string][]wireSubnet{}, map[string]error{} }
	err = subnetKind.eachOfProject(ctx, i.access, begin, func(s wireSubnet, err error) {
		i.networks.listed.hear()
		if _, known := listed[s.NetworkID]; !known {
			return
		}
		if err != nil {
			odd[s.NetworkID] = oddItem(op, subnetKind.One, s.ID, err)
		}
		subnets[s.NetworkID] = append(subnets[s.NetworkID], s)
	})
	if err != nil {
		return found, err
	}
	for id, w := range listed {
		i.networks.listed.hear()
		err := odd[id]
		known := subnets[id]
		// The project's list does not show subnets that other projects created on our network.
		if err == nil && len(missing(w, known)) > 0 {
			if known, err = i.subnetsOf(ctx, w); err != nil && !client.IsUnusable(err) {
				return found, err
			}
		}
		var observed *plan.ObservedNetwork
		if err == nil {
			if observed, err = assemble(w, known); err != nil {
				err = client.BadAnswer(op, http.MethodGet, "%s", err)
			}
		}
		if err != nil {
			found.odd.add(w.Description, id, err)
			continue
		}
		found.held[id] = observed
	}
	i.networks.listed.hear()
	return found, i.addShares(ctx, "", found.held)
}

// readWhole reads the subnets and shares of a network and adds the counts of the last audit. A new share moves the
// network's revision. So if the Inventory holds this revision, it holds these shares.
func (i *Inventory) readWhole(ctx context.Context, w wireNetwork) (*plan.ObservedNetwork, error) {
	subnets, err := i.subnetsOf(ctx, w)
	if err != nil {
		return nil, err
	}
	observed, err := assemble(w, subnets)
	if err != nil {
		return nil, client.BadAnswer("get network", http.MethodGet, "%s", err)
	}
	held, ok := i.networks.get(w.ID)
	if ok && held.Revision == observed.Revision {
		observed.Shares, observed.SharesUnknown = held.Shares, held.SharesUnknown
	} else if err := i.addShares(ctx, w.ID, map[string]*plan.ObservedNetwork{w.ID: observed}); err != nil {
		return nil, err
	}
	i.putCounts(observed)
	return observed, nil
}

// conflict is the error of a step that is not taken, because its resource is not as it was planned with.
func conflict(step plan.Step, reason string) error {
	return &client.Error{Kind: client.Conflict, Op: string(step.Action), Reason: reason}
}

// stillOurs rereads a network before it is tagged or shared or gets a subnet from a pool, and a security group before
// its rules change. Other writes carry a condition instead. Neutron has no condition for tags (see tag), RBAC policies,
// subnets and rules. We MUST NOT change what lost its marker.
func (i *Inventory) stillOurs(ctx context.Context, step plan.Step, r plan.Resource) error {
	found, err := i.Reread(ctx, r)
	switch {
	case errors.Is(err, ErrUnmarked):
		return conflict(step, ErrUnmarked.Error())
	case err == nil && !found:
		return &client.Error{Kind: client.NotFound, Op: string(step.Action), Reason: "it is not there any more"}
	}
	return err
}

// tag takes a step that sets a network's tags. It is unconditional: Neutron answers 500 if a condition does not hold
// (measured), and the tags replace all others.
//
// Neutron moves the network's revision by one if the tags differ from those before. It does not move it if they are the
// same (measured; the contract suite checks both). If it ever moves it otherwise, the next conditional write fails and
// rereads.
func (i *Inventory) tag(ctx context.Context, step *plan.Step) (revision int, err error) {
	defer i.networks.write(step.ID)()
	tags := append([]string{}, step.Attributes.Tags...)
	err = i.send(ctx, client.Request{
		Op: string(step.Action), Method: http.MethodPut, Path: networkKind.Path(step.ID) + "/tags",
		Body: map[string]any{"tags": tags}, Answer: new(json.RawMessage),
	})
	if client.IsKind(err, client.Forbidden) || client.TypeOf(err) == typeInternal {
		// From Neutron 26 on, it answers 500 to the tags of what is gone, and 403 to those of another's.
		if is := i.stillOurs(ctx, *step, theNetwork(*step)); client.IsNotFound(is) || client.IsConflict(is) {
			return 0, is
		}
	}
	if err != nil {
		return 0, err
	}
	i.networks.edit(step.ID, func(n *plan.ObservedNetwork) {
		if !slices.Equal(step.Attributes.Tags, n.Tags) {
			n.Revision++
		}
		n.Tags = slices.Clone(step.Attributes.Tags)
	})
	return 0, nil
}

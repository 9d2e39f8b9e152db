package plantest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// MTU is what a network has where none is asked for.
const MTU = 1450

// Provider is what a network has where nothing else is asked for.
var Provider = plan.Provider{NetworkType: "vlan", PhysicalNetwork: "physnet1", SegmentationID: 100}

func (c *Neutron) createNetwork(step plan.Step) (string, error) {
	n := plan.ObservedNetwork{ID: c.NextID("net"), Revision: 1, Attributes: Clone(step.Attributes)}
	n.Created = c.now()
	n.MTU = cmp.Or(n.MTU, MTU)
	n.PortSecurity, n.DNSDomain = orElse(n.PortSecurity, true), orElse(n.DNSDomain, "")
	n.QoSPolicy = orElse(n.QoSPolicy, "")
	n.Shared, n.External = orElse(n.Shared, false), orElse(n.External, false)
	n.Provider.NetworkType = cmp.Or(n.Provider.NetworkType, Provider.NetworkType)
	n.Provider.PhysicalNetwork = cmp.Or(n.Provider.PhysicalNetwork, Provider.PhysicalNetwork)
	n.Provider.SegmentationID = cmp.Or(n.Provider.SegmentationID, Provider.SegmentationID)
	n.Tags = nil // they come in a step of their own
	if err := texts(n.Name, n.Description); err != nil {
		return "", err
	}
	c.Networks = append(c.Networks, n)
	return n.ID, nil
}

// orElse returns what a request asks for, or else the default.
func orElse[T any](asked *T, otherwise T) *T {
	if asked == nil {
		return &otherwise
	}
	return asked
}

// changeNetwork updates, tags or deletes a network.
func (c *Neutron) changeNetwork(step plan.Step) error {
	n := c.Network(step.ID)
	switch {
	case n == nil:
		return refuse("NetworkNotFound", "no network %q", step.ID)
	case step.Action == plan.TagNetwork: // not conditional
		n.Tags = slices.Clone(step.Attributes.Tags)
		n.Revision++
		return nil
	case n.Revision != step.Revision:
		return ErrMoved
	case step.Action == plan.DeleteNetwork:
		if slices.ContainsFunc(c.Ports, func(p plan.ObservedPort) bool { return p.NetworkID == step.ID }) {
			return refuse("NetworkInUse", "ports are on network %q", step.ID)
		}
		c.Remove(step.ID)
		return nil
	}
	for _, d := range step.Differences {
		switch d.Field {
		case plan.FieldName:
			n.Name = step.Attributes.Name
		case plan.FieldDescription, plan.FieldDeletionPolicy:
			n.Description = step.Attributes.Description
		case plan.FieldAdminState:
			n.AdminStateUp = step.Attributes.AdminStateUp
		case plan.FieldMTU:
			n.MTU = step.Attributes.MTU
		case plan.FieldPortSecurity:
			n.PortSecurity = new(*step.Attributes.PortSecurity)
		case plan.FieldDNSDomain:
			n.DNSDomain = new(*step.Attributes.DNSDomain)
		case plan.FieldQoSPolicy:
			n.QoSPolicy = new(*step.Attributes.QoSPolicy)
		case plan.FieldShared:
			n.Shared = new(*step.Attributes.Shared)
		case plan.FieldExternal:
			n.External = new(*step.Attributes.External)
		case plan.FieldSegmentationID:
			n.Provider.SegmentationID = step.Attributes.Provider.SegmentationID
		default:
			return fmt.Errorf("a network has no field %q", d.Field)
		}
	}
	n.Revision++
	return texts(n.Name, n.Description)
}

// NewShares makes RBAC policies for projects.
func (c *Neutron) NewShares(projects []string) (shares []plan.Share) {
	for _, project := range projects {
		shares = append(shares, plan.Share{ID: c.NextID("rbac"), Project: project})
	}
	return shares
}

// takeShare carries out a step that shares a network or takes it back. Neutron has one policy for each project.
func (c *Neutron) takeShare(step plan.Step) (string, error) {
	n := c.Network(step.NetworkRef.ID)
	if n == nil {
		return "", refuse("NetworkNotFound", "no network %q", step.NetworkRef.ID)
	}
	if step.Revision != 0 {
		return "", errors.New("RBAC policies have no revision")
	}
	n.Revision++
	if step.Action == plan.UnshareNetwork {
		had := len(n.Shares)
		n.Shares = slices.DeleteFunc(n.Shares, func(s plan.Share) bool { return s.ID == step.ID })
		if len(n.Shares) == had {
			return "", refuse("RBACPolicyNotFound", "no policy %q", step.ID)
		}
		return step.ID, nil
	}
	if slices.ContainsFunc(n.Shares, func(s plan.Share) bool { return s.Project == step.Share.Project }) {
		return "", refuse("DuplicateRbacPolicy", "%s", step.Action)
	}
	made := c.NewShares([]string{step.Share.Project})
	n.Shares = append(n.Shares, made...)
	return made[0].ID, nil
}

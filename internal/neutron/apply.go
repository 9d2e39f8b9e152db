package neutron

import (
	"cmp"
	"context"

	"cloudteam.ztgame.com/network-controller/internal/network"
)

// Apply takes the steps of a change, in order, and returns those that were taken and the error that ended them early.
// Each step's outcome is in the Inventory before the next is taken.
//
// Where the error is one of MaybeDone, the caller MUST NOT plan from an Observed of before it.
func (i *Inventory) Apply(ctx context.Context, change network.Change) (done network.Change, err error) {
	created := ""
	moved := map[string]int{} // how far our own writes have moved networks' revisions since they were planned with
	for _, step := range change {
		switch step.Action {
		case network.CreateSubnet:
			if step.NetworkID == "" {
				step.NetworkID = created
			}
		case network.UpdateNetwork, network.DeleteNetwork:
			step.Revision += moved[step.ID]
		}
		id, err := i.take(ctx, step)
		if err != nil {
			return done, err
		}
		switch step.Action {
		case network.CreateNetwork:
			created = id
			step.ID = id
		case network.UpdateNetwork:
			moved[step.ID]++
		case network.CreateSubnet, network.UpdateSubnet, network.DeleteSubnet:
			moved[step.NetworkID]++
		}
		done = append(done, step)
	}
	return done, nil
}

// take takes one step and returns the id of the network or subnet that it was about.
func (i *Inventory) take(ctx context.Context, step network.Step) (string, error) {
	if id := cmp.Or(step.NetworkID, step.ID); id != "" {
		defer i.write(id)()
	}
	switch step.Action {
	case network.CreateNetwork, network.UpdateNetwork:
		n, err := i.cloud.writeNetwork(ctx, step)
		if err != nil {
			return "", err
		}
		i.change(n.ID, func(held *network.ObservedNetwork) *network.ObservedNetwork {
			if held != nil {
				n.Subnets = held.Subnets
			}
			if !i.owns(n.Description) {
				return nil
			}
			return &n
		})
		return n.ID, nil

	case network.CreateSubnet, network.UpdateSubnet:
		s, err := i.cloud.writeSubnet(ctx, step)
		if err != nil {
			return "", err
		}
		i.changeSubnet(step.NetworkID, s.ID, &s)
		return s.ID, nil

	case network.DeleteSubnet:
		if err := i.cloud.remove(ctx, step); err != nil {
			return "", err
		}
		i.changeSubnet(step.NetworkID, step.ID, nil)
		return step.ID, nil

	case network.DeleteNetwork:
		if err := i.cloud.remove(ctx, step); err != nil {
			return "", err
		}
		i.removed(step.ID)
		return step.ID, nil
	}
	return "", &Error{Kind: Invalid, Op: string(step.Action), Reason: "no such action"}
}

// changeSubnet puts a subnet into its network, or takes it out where s is nil. Neutron moves the network's revision by
// one with every write to a subnet (measured; the contract suite holds it). Should it ever move it otherwise, the next
// conditional write fails and reads again.
func (i *Inventory) changeSubnet(networkID, id string, s *network.ObservedSubnet) {
	i.change(networkID, func(held *network.ObservedNetwork) *network.ObservedNetwork {
		if held == nil {
			return nil
		}
		n := *held
		n.Subnets = nil
		for _, other := range held.Subnets {
			if other.ID == id {
				if s != nil && s.Total == nil {
					s.Total, s.Used = other.Total, other.Used
				}
				continue
			}
			n.Subnets = append(n.Subnets, other)
		}
		if s != nil {
			n.Subnets = append(n.Subnets, *s)
		}
		n.Revision++
		return &n
	})
}

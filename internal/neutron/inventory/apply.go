package inventory

import (
	"context"
	"errors"
	"net/netip"
	"slices"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// Apply executes the steps of a change in order. It returns the steps that succeeded and the error that stopped it. The
// Inventory reflects each step before the next one starts.
//
// If the error is MaybeDone, the caller MUST NOT plan from an Observed of before it.
func (i *Inventory) Apply(ctx context.Context, change plan.Change) (done plan.Change, err error) {
	moved := map[string]int{}    // how far our own writes moved networks' revisions after planning
	touched := map[string]bool{} // the routers whose revisions the steps moved
	sharing := false             // whether a live read confirmed that the network to share is still ours
	for _, step := range change {
		completes := step.Completes()
		step = step.Resolve(done)
		switch step.Action {
		case plan.CreateSubnet:
			if !completes {
				err = i.notYetAllocated(ctx, step)
			}
		case plan.TagNetwork:
			if !completes {
				err = i.stillOurs(ctx, step, step.ID)
			}
		case plan.ShareNetwork, plan.UnshareNetwork:
			if !completes && !sharing {
				err = i.stillOurs(ctx, step, step.NetworkRef.ID)
				sharing = true
			}
		case plan.UpdateNetwork, plan.DeleteNetwork:
			step.Revision += moved[step.ID]
		case plan.UpdateRouter, plan.UpdateGateway, plan.DeleteRouter:
			if touched[step.ID] {
				step.Revision = i.revisionOf(step.ID, step.Revision)
			}
		}
		if err != nil {
			return done, err
		}
		if step.ID, err = i.take(ctx, step); err != nil {
			return done, namingFields(err)
		}
		switch step.Action {
		case plan.UpdateNetwork, plan.TagNetwork:
			moved[step.ID]++
		case plan.ShareNetwork, plan.UnshareNetwork:
			moved[step.NetworkRef.ID]++
		case plan.CreateSubnet, plan.UpdateSubnet, plan.DeleteSubnet:
			moved[step.NetworkRef.ID]++
			if step.Subnet.Pending() {
				step.Subnet.CIDR = i.cidrOf(step.NetworkRef.ID, step.ID)
			}
		case plan.CreateRouter, plan.UpdateRouter, plan.UpdateGateway:
			touched[step.ID] = true
		case plan.AttachInterface, plan.DetachInterface:
			touched[step.RouterRef.ID] = true
		}
		done = append(done, step)
	}
	return done, nil
}

// take executes one step and returns the id of its resource.
func (i *Inventory) take(ctx context.Context, step plan.Step) (string, error) {
	switch step.Action {
	case plan.CreateNetwork, plan.UpdateNetwork:
		if step.ID != "" {
			defer i.networks.write(step.ID)()
		}
		n, err := writeStep(ctx, i, step, networkBody, wireNetwork.observed)
		if err != nil {
			return "", err
		}
		i.networks.change(n.ID, func(held *plan.ObservedNetwork) *plan.ObservedNetwork {
			if held != nil {
				n.Subnets, n.Shares = held.Subnets, held.Shares
			}
			if !i.owns(n.Description) {
				return nil
			}
			return &n
		})
		return n.ID, nil

	case plan.DeleteNetwork:
		defer i.networks.write(step.ID)()
		if err := i.remove(ctx, step); err != nil {
			return "", err
		}
		i.networks.remove(step.ID)
		return step.ID, nil

	case plan.CreateSubnet, plan.UpdateSubnet:
		defer i.networks.write(step.NetworkRef.ID)()
		s, err := writeStep(ctx, i, step, subnetBody, wireSubnet.observed)
		if err != nil {
			return "", err
		}
		i.changeSubnet(step.NetworkRef.ID, s.ID, &s)
		return s.ID, nil

	case plan.DeleteSubnet:
		defer i.networks.write(step.NetworkRef.ID)()
		if err := i.remove(ctx, step); err != nil {
			return "", err
		}
		i.changeSubnet(step.NetworkRef.ID, step.ID, nil)
		return step.ID, nil

	case plan.TagNetwork:
		defer i.networks.write(step.ID)()
		if err := i.tag(ctx, step); err != nil {
			return "", err
		}
		i.changeTags(step.ID, step.Attributes.Tags)
		return step.ID, nil

	case plan.ShareNetwork:
		return i.share(ctx, step)

	case plan.UnshareNetwork:
		return step.ID, i.unshare(ctx, step)

	case plan.CreatePort, plan.UpdatePort, plan.DeletePort:
		if i.holdsPorts() {
			return i.takePort(ctx, step)
		}
		return "", notHeld(string(step.Action))

	case plan.CreateRouter, plan.UpdateRouter, plan.UpdateGateway, plan.DeleteRouter,
		plan.CreateInterface, plan.AttachInterface, plan.DetachInterface, plan.DeleteInterface:
		return i.takeRouter(ctx, step)
	}
	return "", &client.Error{Kind: client.Invalid, Op: string(step.Action), Reason: "no such action"}
}

// takePort is take for ports. A port moves neither its network's revision nor its subnets' (measured; the contract
// suite checks it).
func (i *Inventory) takePort(ctx context.Context, step plan.Step) (string, error) {
	if step.Action == plan.DeletePort {
		return step.ID, i.removePort(ctx, step)
	}
	if step.ID != "" {
		defer i.ports.write(step.ID)()
	}
	// Neutron may move the revision once more after its answer (see portBody). Then the next conditional write fails and
	// rereads, or the next list updates the port.
	p, err := writeStep(ctx, i, step, portBody, wirePort.observed)
	if err != nil {
		return "", err
	}
	i.ports.change(p.ID, func(*plan.ObservedPort) *plan.ObservedPort {
		if !i.owns(p.Description) {
			return nil
		}
		return &p
	})
	return p.ID, nil
}

func (i *Inventory) removePort(ctx context.Context, step plan.Step) error {
	defer i.ports.write(step.ID)()
	if err := i.remove(ctx, step); err != nil {
		return err
	}
	i.ports.remove(step.ID)
	return nil
}

// changeSubnet replaces a subnet in its network, or removes it if s is nil. Neutron moves the network's revision by one
// with every write to a subnet (measured; the contract suite checks it). If it ever moves it otherwise, the next
// conditional write fails and rereads.
func (i *Inventory) changeSubnet(networkID, id string, s *plan.ObservedSubnet) {
	i.networks.change(networkID, func(held *plan.ObservedNetwork) *plan.ObservedNetwork {
		if held == nil {
			return nil
		}
		n := *held
		n.Subnets = nil
		if s != nil && i.counts.any() {
			s.Used = new(int64(0)) // for a new subnet
		}
		for _, other := range held.Subnets {
			if other.ID == id {
				if s != nil {
					s.Used = other.Used
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

// notYetAllocated rereads a network before a subnet is created on it from a subnet pool. It does not trust the list
// that showed no such subnet. Neutron refuses a second subnet of the same CIDR, but creates a second one from a pool.
func (i *Inventory) notYetAllocated(ctx context.Context, step plan.Step) error {
	if !step.Subnet.Pending() {
		return nil
	}
	if _, err := i.Reread(ctx, plan.Resource{Kind: plan.KindNetwork, ID: step.NetworkRef.ID}); err != nil {
		if errors.Is(err, ErrUnmarked) {
			return &client.Error{Kind: client.Conflict, Op: string(step.Action), Reason: ErrUnmarked.Error()}
		}
		return err
	}
	_, owner, _ := plan.ParseDescription(step.SubnetDescription)
	for _, s := range i.subnetsHeld(step.NetworkRef.ID) {
		if step.Subnet.Fits(s) && owner.Owns(s.Description) {
			return &client.Error{Kind: client.Conflict, Op: string(step.Action), Reason: "subnet " + s.ID + " is there already"}
		}
	}
	return nil
}

// subnetsHeld returns the subnets of a network as the Inventory holds them.
func (i *Inventory) subnetsHeld(networkID string) []plan.ObservedSubnet {
	i.mu.RLock()
	defer i.mu.RUnlock()
	if n, known := i.networks.held[networkID]; known {
		return n.Subnets
	}
	return nil
}

// cidrOf returns the CIDR that a subnet got; the zero Prefix if the Inventory holds none.
func (i *Inventory) cidrOf(networkID, id string) netip.Prefix {
	for _, s := range i.subnetsHeld(networkID) {
		if s.ID == id {
			return s.CIDR
		}
	}
	return netip.Prefix{}
}

// stillOurs rereads a network before it is tagged or shared. Other writes carry a condition instead. Neutron has no
// condition for tags (see tag) and RBAC policies. We MUST NOT change a network that lost its marker.
func (i *Inventory) stillOurs(ctx context.Context, step plan.Step, id string) error {
	found, err := i.Reread(ctx, plan.Resource{Kind: plan.KindNetwork, ID: id})
	switch {
	case errors.Is(err, ErrUnmarked):
		return &client.Error{Kind: client.Conflict, Op: string(step.Action), Reason: ErrUnmarked.Error()}
	case err == nil && !found:
		return &client.Error{Kind: client.NotFound, Op: string(step.Action), Reason: "it is not there any more"}
	}
	return err
}

// changeTags records the tags that a network got. Neutron moves the network's revision by one if the tags differ from
// those before. It does not move it if they are the same (measured; the contract suite checks both). If it ever moves
// it otherwise, the next conditional write fails and rereads.
func (i *Inventory) changeTags(networkID string, tags []string) {
	i.networks.change(networkID, func(held *plan.ObservedNetwork) *plan.ObservedNetwork {
		if held == nil {
			return nil
		}
		n := *held
		n.Tags = slices.Clone(tags)
		if !slices.Equal(n.Tags, held.Tags) {
			n.Revision++
		}
		return &n
	})
}

package neutron

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"

	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// Apply takes the steps of a change, in order, and returns those that were taken and the error that ended them early.
// Each step's outcome is in the Inventory before the next is taken.
//
// Where the error is one of MaybeDone, the caller MUST NOT plan from an Observed of before it.
func (i *Inventory) Apply(ctx context.Context, change plan.Change) (done plan.Change, err error) {
	var made made
	moved := map[string]int{} // how far our own writes have moved networks' revisions since they were planned with
	sharing := false          // whether a network was found to be ours still, to be shared
	for _, step := range change {
		switch step.Action {
		case plan.CreateSubnet:
			if step.NetworkID == "" {
				step.NetworkID = made.network
			} else if err := i.notYetAllocated(ctx, step); err != nil {
				return done, err
			}
		case plan.TagNetwork:
			if step.ID == "" {
				step.ID = made.network
			} else if err := i.stillOurs(ctx, step, step.ID); err != nil {
				return done, err
			}
		case plan.ShareNetwork, plan.UnshareNetwork:
			if step.NetworkID == "" {
				step.NetworkID = made.network
			} else if !sharing {
				if err := i.stillOurs(ctx, step, step.NetworkID); err != nil {
					return done, err
				}
				sharing = true
			}
		case plan.UpdateNetwork, plan.DeleteNetwork:
			step.Revision += moved[step.ID]
		default:
			step = i.resolve(step, made)
		}
		id, err := i.take(ctx, step)
		if err != nil {
			return done, err
		}
		switch step.Action {
		case plan.CreateNetwork:
			made.network = id
			step.ID = id
		case plan.CreatePort, plan.CreateRouter, plan.CreateInterface:
			step.ID = id
		case plan.ShareNetwork, plan.UnshareNetwork:
			step.ID = id
			moved[step.NetworkID]++
		case plan.UpdateNetwork, plan.TagNetwork:
			moved[step.ID]++
		case plan.CreateSubnet, plan.UpdateSubnet, plan.DeleteSubnet:
			moved[step.NetworkID]++
			if step.Subnet.Pending() {
				step.Subnet.CIDR = i.cidrOf(step.NetworkID, id)
			}
		}
		made.took(step)
		done = append(done, step)
	}
	return done, nil
}

// made is what steps have made that later steps of the same change refer to, before anybody knew its id.
type made struct {
	network, router, port string
	// touched are the routers whose revisions the steps have moved.
	touched map[string]bool
}

// took notes a step that was taken.
func (m *made) took(step plan.Step) {
	router := step.ID
	switch step.Action {
	case plan.CreateRouter:
		m.router = step.ID
	case plan.CreateInterface:
		m.port = step.ID
		return
	case plan.AttachInterface, plan.DetachInterface:
		router = step.RouterID
	case plan.UpdateRouter, plan.UpdateGateway:
	default:
		return
	}
	if m.touched == nil {
		m.touched = map[string]bool{}
	}
	m.touched[router] = true
}

// resolve fills in what a step about a router or an interface leaves to those before it.
func (i *Inventory) resolve(step plan.Step, made made) plan.Step {
	switch step.Action {
	case plan.CreateInterface:
		if step.NetworkID == "" {
			step.NetworkID = made.network
		}
		step.Port.Addresses = i.inSubnets(step.NetworkID, step.Port.Addresses)
	case plan.AttachInterface:
		step.NetworkID = cmp.Or(step.NetworkID, made.network)
		step.ID = cmp.Or(step.ID, made.port)
		step.RouterID = cmp.Or(step.RouterID, made.router)
	case plan.UpdateRouter, plan.UpdateGateway, plan.DeleteRouter:
		step.ID = cmp.Or(step.ID, made.router)
		if made.touched[step.ID] {
			step.Revision = i.revisionOf(step.ID, step.Revision)
		}
	}
	return step
}

// inSubnets names the subnets of addresses that are of none yet: the one of the network that has the address.
func (i *Inventory) inSubnets(networkID string, addresses []plan.PortAddress) []plan.PortAddress {
	subnets := i.subnetsHeld(networkID)
	addresses = slices.Clone(addresses)
	for at, a := range addresses {
		for _, s := range subnets {
			if a.SubnetID == "" && s.CIDR.Contains(a.Address) {
				addresses[at].SubnetID = s.ID
			}
		}
	}
	return addresses
}

// take takes one step and returns the id of the resource that it was about.
func (i *Inventory) take(ctx context.Context, step plan.Step) (string, error) {
	switch step.Action {
	case plan.CreateNetwork, plan.UpdateNetwork:
		if step.ID != "" {
			defer i.networks.write(step.ID)()
		}
		n, err := writeStep(ctx, i.cloud, step, networkBody, wireNetwork.observed)
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
		if err := i.cloud.remove(ctx, step); err != nil {
			return "", err
		}
		i.networks.remove(step.ID)
		return step.ID, nil

	case plan.CreateSubnet, plan.UpdateSubnet:
		defer i.networks.write(step.NetworkID)()
		s, err := writeStep(ctx, i.cloud, step, subnetBody, wireSubnet.observed)
		if err != nil {
			return "", err
		}
		i.changeSubnet(step.NetworkID, s.ID, &s)
		return s.ID, nil

	case plan.DeleteSubnet:
		defer i.networks.write(step.NetworkID)()
		if err := i.cloud.remove(ctx, step); err != nil {
			return "", err
		}
		i.changeSubnet(step.NetworkID, step.ID, nil)
		return step.ID, nil

	case plan.TagNetwork:
		defer i.networks.write(step.ID)()
		if err := i.cloud.tag(ctx, step); err != nil {
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
	return "", &Error{Kind: Invalid, Op: string(step.Action), Reason: "no such action"}
}

// takePort is take for steps about ports. A port moves neither its network's revision nor its subnets' (measured; the
// contract suite holds it).
func (i *Inventory) takePort(ctx context.Context, step plan.Step) (string, error) {
	if step.Action == plan.DeletePort {
		return step.ID, i.removePort(ctx, step)
	}
	if step.ID != "" {
		defer i.ports.write(step.ID)()
	}
	// Should Neutron move the revision once more when it has answered (see portBody), the next conditional write fails and
	// reads again, or the next list moves the port.
	p, err := writeStep(ctx, i.cloud, step, portBody, wirePort.observed)
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

// removePort deletes a port.
func (i *Inventory) removePort(ctx context.Context, step plan.Step) error {
	defer i.ports.write(step.ID)()
	if err := i.cloud.remove(ctx, step); err != nil {
		return err
	}
	i.ports.remove(step.ID)
	return nil
}

// changeSubnet puts a subnet into its network, or takes it out where s is nil. Neutron moves the network's revision by
// one with every write to a subnet (measured; the contract suite holds it). Should it ever move it otherwise, the next
// conditional write fails and reads again.
func (i *Inventory) changeSubnet(networkID, id string, s *plan.ObservedSubnet) {
	i.networks.change(networkID, func(held *plan.ObservedNetwork) *plan.ObservedNetwork {
		if held == nil {
			return nil
		}
		n := *held
		n.Subnets = nil
		if s != nil && i.counts.any() {
			s.Used = new(int64(0)) // where it is new
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

// notYetAllocated reads a network before a subnet is created on it from a pool, by other calls than the list that
// showed none. Neutron refuses a second subnet of the same CIDR; a second one from a pool it makes.
func (i *Inventory) notYetAllocated(ctx context.Context, step plan.Step) error {
	if !step.Subnet.Pending() {
		return nil
	}
	if _, err := i.Reread(ctx, plan.Resource{Kind: plan.KindNetwork, ID: step.NetworkID}); err != nil {
		if errors.Is(err, ErrUnmarked) {
			return &Error{Kind: Conflict, Op: string(step.Action), Reason: ErrUnmarked.Error()}
		}
		return err
	}
	_, owner, _ := plan.ParseDescription(step.SubnetDescription)
	for _, s := range i.subnetsHeld(step.NetworkID) {
		if step.Subnet.Fits(s) && owner.Owns(s.Description) {
			return &Error{Kind: Conflict, Op: string(step.Action), Reason: "subnet " + s.ID + " is there already"}
		}
	}
	return nil
}

// subnetsHeld are the subnets of a network as the Inventory holds them.
func (i *Inventory) subnetsHeld(networkID string) []plan.ObservedSubnet {
	i.mu.RLock()
	defer i.mu.RUnlock()
	if n, known := i.networks.held[networkID]; known {
		return n.Subnets
	}
	return nil
}

// cidrOf is the CIDR that a subnet was given; the zero Prefix where the Inventory holds none.
func (i *Inventory) cidrOf(networkID, id string) netip.Prefix {
	for _, s := range i.subnetsHeld(networkID) {
		if s.ID == id {
			return s.CIDR
		}
	}
	return netip.Prefix{}
}

// stillOurs reads a network before it is tagged or shared, in the place of the condition that other writes bear: for
// tags (see Cloud.tag) and RBAC policies Neutron knows none, and what lost its marker meanwhile is not ours to change.
func (i *Inventory) stillOurs(ctx context.Context, step plan.Step, id string) error {
	found, err := i.Reread(ctx, plan.Resource{Kind: plan.KindNetwork, ID: id})
	switch {
	case errors.Is(err, ErrUnmarked):
		return &Error{Kind: Conflict, Op: string(step.Action), Reason: ErrUnmarked.Error()}
	case err == nil && !found:
		return &Error{Kind: NotFound, Op: string(step.Action), Reason: "it is not there any more"}
	}
	return err
}

// changeTags notes the tags that a network was given. Neutron moves the network's revision by one where the tags are
// others than before, and does not where they are the same (measured; the contract suite holds both). Should it ever
// move it otherwise, the next conditional write fails and reads again.
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

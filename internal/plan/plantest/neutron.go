// Package plantest has a Neutron in memory, in the domain's terms. Tests of plans apply steps to it.
package plantest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// Neutron is as much of Neutron as a plan can meet. Its rules are those of Neutron 21.0: neutron.db.db_base_plugin_v2
// and neutron.db.ipam_backend_mixin for subnets and ports, neutron.db.l3_db and neutron.db.extraroute_db for routers,
// neutron.db.securitygroups_db for security groups, the revisions service plugin for revision numbers. It is stricter
// where a later Neutron is: see keepsFloatingIPs. The zero value is empty. It is not safe for concurrent use.
type Neutron struct {
	// Networks, Ports, Routers and Groups are the project's, regardless of their owner, in order of creation.
	Networks []plan.ObservedNetwork
	Ports    []plan.ObservedPort
	Routers  []plan.ObservedRouter
	Groups   []plan.ObservedGroup
	// FloatingIPs are the project's, too.
	FloatingIPs []plan.ObservedFloatingIP
	// GroupDefaults are the rules of each new security group; nil means plan.DefaultEgress.
	GroupDefaults []plan.Rule
	// serial and macs count the ids and MACs that were chosen.
	serial, macs int
	// interfaces are the ids of the ports that were created to become router interfaces.
	interfaces map[string]bool
}

// Epoch is when the first resource is created.
var Epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Error is Neutron's refusal of a request.
type Error struct {
	// Type is the name of Neutron's exception, such as NetworkInUse.
	Type string
	// Message says what is wrong.
	Message string
}

func (e *Error) Error() string { return e.Type + ": " + e.Message }

// ErrMoved is Neutron's 412: the resource's revision is not the one that the step names.
var ErrMoved = &Error{"RevisionNumberConstraintFailed", "the revision changed"}

func refuse(exception, format string, args ...any) error {
	return &Error{exception, fmt.Sprintf(format, args...)}
}

// Clone returns a copy that shares nothing with the original.
func (c *Neutron) Clone() *Neutron {
	all := c.Everything()
	return &Neutron{
		Networks: all.Networks, Ports: all.Ports, Routers: all.Routers, Groups: all.Groups,
		FloatingIPs: all.FloatingIPs, GroupDefaults: c.GroupDefaults,
		serial: c.serial, macs: c.macs, interfaces: maps.Clone(c.interfaces),
	}
}

// Everything is a copy of the whole project, regardless of the owner.
func (c *Neutron) Everything() plan.Observed {
	return Clone(plan.Observed{
		Networks: c.Networks, Ports: c.Ports, Routers: c.Routers, Groups: c.Groups, FloatingIPs: c.FloatingIPs,
	})
}

// Observe is a copy of what bears the owner's marker.
func (c *Neutron) Observe(owner plan.Owner) plan.Observed {
	observed := c.Everything()
	observed.Networks = slices.DeleteFunc(observed.Networks, func(n plan.ObservedNetwork) bool {
		return !owner.Owns(n.Description)
	})
	observed.Ports = slices.DeleteFunc(observed.Ports, func(p plan.ObservedPort) bool {
		return !owner.Owns(p.Description)
	})
	observed.Routers = slices.DeleteFunc(observed.Routers, func(r plan.ObservedRouter) bool {
		return !owner.Owns(r.Description)
	})
	observed.Groups = slices.DeleteFunc(observed.Groups, func(g plan.ObservedGroup) bool {
		return !owner.Owns(g.Description)
	})
	observed.FloatingIPs = slices.DeleteFunc(observed.FloatingIPs, func(f plan.ObservedFloatingIP) bool {
		return !owner.Owns(f.Description)
	})
	return observed
}

// NextID returns a new id.
func (c *Neutron) NextID(kind string) string {
	c.serial++
	return fmt.Sprintf("%s-%d", kind, c.serial)
}

// now is the time of creation of the resource with the latest id. Each is a second younger than the one before it.
func (c *Neutron) now() time.Time {
	return Epoch.Add(time.Duration(c.serial) * time.Second)
}

// Network finds a network by its id. It returns nil if there is none.
func (c *Neutron) Network(id string) *plan.ObservedNetwork {
	return find(c.Networks, func(n plan.ObservedNetwork) bool { return n.ID == id })
}

// Subnet finds a subnet by its id, and its network. It returns nil if there is none.
func (c *Neutron) Subnet(id string) (*plan.ObservedNetwork, *plan.ObservedSubnet) {
	for i := range c.Networks {
		n := &c.Networks[i]
		if s := find(n.Subnets, func(s plan.ObservedSubnet) bool { return s.ID == id }); s != nil {
			return n, s
		}
	}
	return nil, nil
}

// Port finds a port by its id. It returns nil if there is none.
func (c *Neutron) Port(id string) *plan.ObservedPort {
	return find(c.Ports, func(p plan.ObservedPort) bool { return p.ID == id })
}

// Router finds a router by its id. It returns nil if there is none.
func (c *Neutron) Router(id string) *plan.ObservedRouter {
	return find(c.Routers, func(r plan.ObservedRouter) bool { return r.ID == id })
}

// Group finds a security group by its id. It returns nil if there is none.
func (c *Neutron) Group(id string) *plan.ObservedGroup {
	return find(c.Groups, func(g plan.ObservedGroup) bool { return g.ID == id })
}

func find[T any](list []T, is func(T) bool) *T {
	if at := slices.IndexFunc(list, is); at >= 0 {
		return &list[at]
	}
	return nil
}

// Remove deletes the resource with the id, whatever depends on it. A port's floating IPs have no port then.
func (c *Neutron) Remove(id string) {
	c.Networks = slices.DeleteFunc(c.Networks, func(n plan.ObservedNetwork) bool { return n.ID == id })
	c.Ports = slices.DeleteFunc(c.Ports, func(p plan.ObservedPort) bool { return p.ID == id })
	c.Routers = slices.DeleteFunc(c.Routers, func(r plan.ObservedRouter) bool { return r.ID == id })
	c.Groups = slices.DeleteFunc(c.Groups, func(g plan.ObservedGroup) bool { return g.ID == id })
	c.FloatingIPs = slices.DeleteFunc(c.FloatingIPs, func(f plan.ObservedFloatingIP) bool { return f.ID == id })
	c.leadNowhere(id)
}

// Apply takes the steps until Neutron refuses one, which is named in the error. It returns the steps that were taken.
func (c *Neutron) Apply(change plan.Change) (taken plan.Change, err error) {
	revisions := map[string]int{} // of the routers that the steps have moved, as Inventory.Apply knows them
	for i, step := range change {
		step = step.Resolve(taken)
		if revision, moved := revisions[step.ID]; moved {
			step.Revision = revision
		}
		step, err := c.Take(step)
		if err != nil {
			return taken, fmt.Errorf("step %d, %s: %w", i, step, err)
		}
		taken = append(taken, step)
		for _, router := range []string{step.ID, step.RouterRef.ID} {
			if found := c.Router(router); found != nil {
				revisions[router] = found.Revision
			}
		}
	}
	return taken, nil
}

// Take carries out a step without references to other steps. It returns the step with the id of what it created, and
// with the CIDR that came from a pool. The error is an *Error if Neutron refuses the step. Any other error means that
// no plan has such a step.
func (c *Neutron) Take(step plan.Step) (plan.Step, error) {
	switch {
	case step.Reason == "" || len(step.Differences) == 0:
		return step, errors.New("a step without a reason or without differences")
	case step.Action.Creates() && (step.ID != "" || step.Revision != 0):
		return step, errors.New("a create names what exists")
	}
	var err error
	switch step.Action {
	case plan.CreateNetwork:
		step.ID, err = c.createNetwork(step)
	case plan.UpdateNetwork, plan.TagNetwork, plan.DeleteNetwork:
		err = c.changeNetwork(step)
	case plan.ShareNetwork, plan.UnshareNetwork:
		step.ID, err = c.takeShare(step)
	case plan.CreateSubnet:
		step.ID, step.Subnet.CIDR, err = c.createSubnet(step)
	case plan.UpdateSubnet, plan.DeleteSubnet:
		err = c.changeSubnet(step)
	case plan.CreatePort, plan.CreateInterface:
		step.ID, err = c.createPort(step)
	case plan.UpdatePort, plan.DeletePort, plan.DeleteInterface:
		err = c.changePort(step)
	case plan.CreateRouter:
		step.ID, err = c.createRouter(step)
	case plan.UpdateRouter, plan.UpdateGateway, plan.DeleteRouter:
		err = c.changeRouter(step)
	case plan.CreateGroup:
		step.ID, err = c.createGroup(step)
	case plan.UpdateGroup, plan.DeleteGroup:
		err = c.changeGroup(step)
	case plan.CreateRules:
		err = c.createRules(step)
	case plan.DeleteRule:
		err = c.deleteRule(step)
	case plan.CreateFloatingIP:
		step.ID, err = c.createFloatingIP(step)
	case plan.UpdateFloatingIP, plan.DeleteFloatingIP:
		err = c.changeFloatingIP(step)
	case plan.AttachInterface:
		err = c.attach(step)
	case plan.DetachInterface:
		err = c.detach(step)
	default:
		err = fmt.Errorf("no action %q", step.Action)
	}
	return step, err
}

// texts refuses texts that are longer than Neutron's.
func texts(name, description string) error {
	if utf8.RuneCountInString(name) > 255 || utf8.RuneCountInString(description) > 255 {
		return refuse("HTTPBadRequest", "a text is longer than 255 characters")
	}
	return nil
}

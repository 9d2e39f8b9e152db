package controllertest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// takePort carries out a step about a port.
func (c *Cloud) takePort(step *plan.Step) error {
	if step.Action == plan.CreatePort {
		if c.networks.find(step.NetworkRef.ID) == nil {
			return refuse(step, client.NotFound, "there is no such network")
		}
		created := plan.ObservedPort{
			Revision: 1, Created: time.Now(), NetworkID: step.NetworkRef.ID, PortAttributes: step.Port,
		}
		if err := c.allocate(step, &created); err != nil {
			return err
		}
		step.ID = c.nextID("port")
		created.ID = step.ID
		if created.MAC == "" {
			created.MAC = fmt.Sprintf("fa:16:3e:00:00:%02x", c.serial)
		}
		c.ports.has = append(c.ports.has, created)
		return nil
	}
	p := c.ports.find(step.ID)
	switch {
	case p == nil:
		return refuse(step, client.NotFound, "there is no such port")
	case p.Revision != step.Revision:
		return moved(step)
	case step.Action == plan.DeletePort:
		c.ports.remove(step.ID)
		return nil
	}
	updated := *p
	updated.PortAttributes = step.Port
	if updated.MAC == "" {
		updated.MAC = p.MAC
	}
	if updated.SecurityGroups == nil {
		updated.SecurityGroups = p.SecurityGroups
	}
	if err := c.allocate(step, &updated); err != nil {
		return err
	}
	updated.Revision++
	*p = updated
	return nil
}

// allocate gives a port the addresses that it asks for, and the lowest free one of a subnet where it asks for any.
func (c *Cloud) allocate(step *plan.Step, p *plan.ObservedPort) error {
	taken := map[plan.PortAddress]bool{}
	for _, other := range c.ports.has {
		for _, a := range other.Addresses {
			taken[a] = other.ID != p.ID
		}
	}
	p.Addresses = slices.Clone(p.Addresses)
	subnets := c.networks.find(p.NetworkID).Subnets
	for i := range p.Addresses {
		a := &p.Addresses[i]
		at := slices.IndexFunc(subnets, func(s plan.ObservedSubnet) bool { return s.ID == a.SubnetID })
		switch {
		case at < 0:
			return refuse(step, client.Invalid, "the network has no subnet "+a.SubnetID)
		case taken[*a]:
			return refuse(step, client.Taken, a.String()+" is in use")
		case a.Address.IsValid():
			continue
		}
		s := subnets[at]
		a.Address = s.CIDR.Addr().Next()
		for a.Address == s.Gateway || taken[*a] {
			a.Address = a.Address.Next()
		}
		if !s.CIDR.Contains(a.Address) {
			return refuse(step, client.Exhausted, "no address is free")
		}
		taken[*a] = true
	}
	return nil
}

// PutPort adds a port to Neutron behind the Inventory's back.
func (c *Cloud) PutPort(p plan.ObservedPort) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ports.has = append(c.ports.has, p)
}

// EditPort changes a port in Neutron as somebody else would, behind the Inventory's back.
func (c *Cloud) EditPort(t *testing.T, id string, change func(*plan.ObservedPort)) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ports.find(id) == nil {
		t.Fatalf("there is no port %s", id)
	}
	c.RivalPort(id, change)
}

// RivalPort is EditPort for the functions Before and After, which run while a step is taken.
func (c *Cloud) RivalPort(id string, change func(*plan.ObservedPort)) {
	p := c.ports.find(id)
	change(p)
	p.Revision++
}

// Ports gives the ports that Neutron has, in order of creation.
func (c *Cloud) Ports() []plan.ObservedPort {
	c.mu.Lock()
	defer c.mu.Unlock()
	ports := slices.Clone(c.ports.has)
	for i := range ports {
		ports[i] = clonePort(ports[i])
	}
	return ports
}

func clonePort(p plan.ObservedPort) plan.ObservedPort {
	p.Addresses, p.SecurityGroups = slices.Clone(p.Addresses), slices.Clone(p.SecurityGroups)
	return p
}

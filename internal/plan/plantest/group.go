package plantest

import (
	"fmt"
	"slices"

	"cloudteam.ztgame.com/network-controller/internal/plan"
)

func (c *Neutron) createGroup(step plan.Step) (string, error) {
	g := Clone(plan.ObservedGroup{ID: c.NextID("group"), Revision: 1, GroupAttributes: step.Group})
	g.Created = c.now()
	if err := texts(g.Name, g.Description); err != nil {
		return "", err
	}
	if g.Stateful == nil {
		g.Stateful = new(true)
	}
	defaults := plan.DefaultEgress()
	if c.GroupDefaults != nil {
		defaults = c.GroupDefaults
	}
	for _, r := range defaults {
		g.Rules = append(g.Rules, plan.ObservedRule{ID: c.NextID("rule"), Rule: r})
	}
	c.Groups = append(c.Groups, g)
	return g.ID, nil
}

// changeGroup updates or deletes a security group.
func (c *Neutron) changeGroup(step plan.Step) error {
	g := c.Group(step.ID)
	inGroup := func(p plan.ObservedPort) bool { return slices.Contains(p.SecurityGroups, step.ID) }
	inUse := slices.ContainsFunc(c.Ports, inGroup)
	switch {
	case g == nil:
		return refuse("SecurityGroupNotFound", "no security group %q", step.ID)
	case g.Revision != step.Revision:
		return ErrMoved
	case inUse && (step.Action == plan.DeleteGroup || step.Changes(plan.FieldStateful)):
		return refuse("SecurityGroupInUse", "security group %s in use", step.ID)
	case step.Action == plan.DeleteGroup:
		c.Remove(step.ID)
		for i := range c.Groups { // Neutron deletes the rules about its members, too
			c.Groups[i].Rules = slices.DeleteFunc(c.Groups[i].Rules, func(r plan.ObservedRule) bool {
				return r.RemoteGroup == step.ID
			})
		}
		return nil
	}
	g.Revision++
	for _, d := range step.Differences {
		switch d.Field {
		case plan.FieldName:
			g.Name = step.Group.Name
		case plan.FieldDescription, plan.FieldDeletionPolicy:
			g.Description = step.Group.Description
		case plan.FieldStateful:
			g.Stateful = Clone(step.Group.Stateful)
		default:
			return fmt.Errorf("a security group has no field %q that can change", d.Field)
		}
	}
	return texts(g.Name, g.Description)
}

func (c *Neutron) createRules(step plan.Step) error {
	g := c.Group(step.GroupRef.ID)
	if g == nil {
		return refuse("SecurityGroupNotFound", "no security group %q", step.GroupRef.ID)
	}
	rules := slices.Clone(g.Rules)
	for _, r := range step.Rules {
		if slices.ContainsFunc(rules, func(o plan.ObservedRule) bool { return o.Rule == r.Canonical() }) {
			return refuse("SecurityGroupRuleExists", "%s", r)
		}
		if r.RemoteGroup != "" && r.RemoteGroup != plan.OwnGroup && c.Group(r.RemoteGroup) == nil {
			return refuse("SecurityGroupNotFound", "no security group %q", r.RemoteGroup)
		}
		rules = append(rules, plan.ObservedRule{ID: c.NextID("rule"), Rule: r})
	}
	g.Rules = rules
	g.Revision++
	return nil
}

func (c *Neutron) deleteRule(step plan.Step) error {
	g := c.Group(step.GroupRef.ID)
	if g == nil {
		return refuse("SecurityGroupNotFound", "no security group %q", step.GroupRef.ID)
	}
	at := slices.IndexFunc(g.Rules, func(r plan.ObservedRule) bool { return r.ID == step.ID })
	if at < 0 {
		return nil // a rule that is gone counts as removed
	}
	g.Rules = slices.Delete(slices.Clone(g.Rules), at, at+1)
	g.Revision++
	return nil
}

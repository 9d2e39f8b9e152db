package inventory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// groupKind has no Bulk: few groups are created at a time, and their rules come in one request for each.
var groupKind = kind[wireGroup, plan.ObservedGroup]{
	Collection: client.Collection{One: "security_group", Many: "security-groups"},
	fields:     fieldsOf[wireGroup](),
	decode:     wireGroup.observed,
	encode:     groupBody,
	lacking:    "this cloud has no security groups (it lacks Neutron's extension security-group)",
	missing:    "SecurityGroupNotFound",
	extensions: map[string]string{"stateful": plan.FieldStateful},
}

func newGroups(i *Inventory) *stock[wireGroup, plan.ObservedGroup] {
	return newStock(i.access, &i.mu, plan.KindGroup, groupKind,
		func(o *plan.Observed) *[]plan.ObservedGroup { return &o.Groups },
		traits[plan.ObservedGroup]{
			identify: func(g *plan.ObservedGroup) (string, string, int) { return g.ID, g.Description, g.Revision },
			// Another group's deletion takes the rules about its members along.
			same: func(a, b *plan.ObservedGroup) bool {
				sameRules := slices.Equal(sortedRules(a.Rules), sortedRules(b.Rules))
				return a.Revision == b.Revision && a.Description == b.Description && sameRules
			},
		})
}

// sortedRules are the rules by id.
func sortedRules(rules []plan.ObservedRule) []plan.ObservedRule {
	return slices.SortedFunc(slices.Values(rules), func(a, b plan.ObservedRule) int { return cmp.Compare(a.ID, b.ID) })
}

// groupActions are the actions on security groups and their rules. Requests for rules carry no condition, so a live
// read comes first.
func (i *Inventory) groupActions() actions {
	return actions{
		plan.CreateGroup: {take: i.secured.created},
		plan.UpdateGroup: {take: i.secured.updated},
		plan.DeleteGroup: {take: i.secured.removed},
		plan.CreateRules: {confirms: itsGroup, take: i.createRules},
		plan.DeleteRule:  {confirms: itsGroup, take: i.deleteRule},
	}
}

// itsGroup is the security group of a rule.
func itsGroup(step plan.Step) plan.Resource {
	return plan.Resource{Kind: plan.KindGroup, ID: step.GroupRef.ID}
}

// wireGroup is a security group in Neutron's JSON.
type wireGroup struct {
	wireBase
	Name     string     `json:"name"`
	Stateful *bool      `json:"stateful"`
	Rules    []wireRule `json:"security_group_rules"`
}

// wireRule is a rule of a security group in Neutron's JSON.
type wireRule struct {
	ID           string         `json:"id,omitempty"`
	GroupID      string         `json:"security_group_id"`
	Direction    string         `json:"direction"`
	EtherType    string         `json:"ethertype"`
	Protocol     *string        `json:"protocol,omitempty"`
	PortMin      *client.Number `json:"port_range_min,omitempty"`
	PortMax      *client.Number `json:"port_range_max,omitempty"`
	Remote       *string        `json:"remote_ip_prefix,omitempty"`
	RemoteGroup  *string        `json:"remote_group_id,omitempty"`
	AddressGroup *string        `json:"remote_address_group_id,omitempty"`
}

func (w wireGroup) observed() (plan.ObservedGroup, error) {
	if w.ID == "" {
		return plan.ObservedGroup{}, errors.New("a security group has no id")
	}
	g := plan.ObservedGroup{
		ID: w.ID, Revision: int(w.Revision.Or0()), Created: w.Created.Time,
		GroupAttributes: plan.GroupAttributes{Name: w.Name, Description: w.Description, Stateful: w.Stateful},
	}
	for _, r := range w.Rules {
		rule, err := r.observed(w.ID)
		if err != nil {
			return plan.ObservedGroup{}, err
		}
		g.Rules = append(g.Rules, rule)
	}
	return g, nil
}

// observed is the rule of the group of an id.
func (w wireRule) observed(group string) (plan.ObservedRule, error) {
	if w.ID == "" || w.GroupID != group {
		return plan.ObservedRule{}, fmt.Errorf("security group %s: a rule has no id, or is another group's", group)
	}
	r := plan.Rule{
		Direction: w.Direction, EtherType: w.EtherType, Protocol: orZero(w.Protocol), PortMin: plan.NoPort,
		PortMax: plan.NoPort, RemoteGroup: orZero(w.RemoteGroup), AddressGroup: orZero(w.AddressGroup),
	}
	for port, of := range map[*int]*client.Number{&r.PortMin: w.PortMin, &r.PortMax: w.PortMax} {
		switch {
		case of == nil:
		case *of == client.Unreadable:
			return plan.ObservedRule{}, fmt.Errorf("security group %s: a port of a rule is no number", group)
		default:
			*port = int(*of)
		}
	}
	if r.RemoteGroup == group {
		r.RemoteGroup = plan.OwnGroup
	}
	if text := orZero(w.Remote); text != "" {
		remote, err := plan.ParseRange(text)
		if err != nil {
			return plan.ObservedRule{}, fmt.Errorf("security group %s: remote_ip_prefix is no range of addresses", group)
		}
		r.Remote = remote.Masked()
	}
	return plan.ObservedRule{ID: w.ID, Rule: r.Canonical()}, nil
}

func orZero[T any](p *T) (value T) {
	if p != nil {
		value = *p
	}
	return value
}

// groupBody is the body of a create (all fields) or of an update (the fields that the step changes). A stateful group
// needs no extension.
func groupBody(step plan.Step, all bool) map[string]any {
	g := step.Group
	body := map[string]any{}
	set := setterOf(body, step, all)
	set.named(g.Name, g.Description)
	if g.Stateful != nil && (!all || !*g.Stateful) {
		set(plan.FieldStateful, "stateful", *g.Stateful)
	}
	return body
}

// wireRuleOf is the request for a rule of a group.
func wireRuleOf(r plan.Rule, group string) wireRule {
	w := wireRule{GroupID: group, Direction: r.Direction, EtherType: r.EtherType}
	set := func(field **string, value string) {
		if value != "" {
			*field = &value
		}
	}
	protocol := r.Protocol
	if protocol == "icmpv6" {
		protocol = "ipv6-icmp" // the name that Neutron does not call a legacy one
	}
	set(&w.Protocol, protocol)
	if r.PortMin != plan.NoPort {
		w.PortMin = new(client.Number(r.PortMin))
	}
	if r.PortMax != plan.NoPort {
		w.PortMax = new(client.Number(r.PortMax))
	}
	if r.Remote.IsValid() {
		set(&w.Remote, r.Remote.String())
	}
	remote := r.RemoteGroup
	if remote == plan.OwnGroup {
		remote = group
	}
	set(&w.RemoteGroup, remote)
	return w
}

var ruleCollection = client.Collection{One: "security_group_rule", Many: "security-group-rules"}

// ruleError is what Neutron's refusal of a rule means. If a rule exists, the answer to an earlier request was lost, or
// somebody else added it: the caller rereads and plans again. So does the caller if the group is gone.
func ruleError(err error, step plan.Step) error {
	if client.TypeOf(err) == "SecurityGroupRuleExists" {
		err = client.Amended(err, func(e *client.Error) { e.Kind = client.Conflict })
	}
	return discreet(groupKind.gone(err), step)
}

// createRules adds rules to a group by one request, which Neutron takes as a whole or not at all. As a rule, each moves
// the group's revision by one; Neutron may also move it less often (measured; the contract suite checks it).
func (i *Inventory) createRules(ctx context.Context, step *plan.Step) (revision int, err error) {
	group := step.GroupRef.ID
	defer i.secured.write(group)()
	rules := make([]wireRule, len(step.Rules))
	for at, r := range step.Rules {
		rules[at] = wireRuleOf(r, group)
	}
	var answer struct {
		Rules []wireRule `json:"security_group_rules"`
	}
	r := client.Request{
		Op: string(step.Action), Method: http.MethodPost, Path: ruleCollection.Many,
		Body: map[string]any{"security_group_rules": rules}, Answer: &answer,
	}
	if err := i.send(ctx, r); err != nil {
		return 0, ruleError(err, *step)
	}
	added := make([]plan.ObservedRule, len(answer.Rules))
	for at, w := range answer.Rules {
		if added[at], err = w.observed(group); err != nil {
			return 0, client.BadAnswer(r.Op, r.Method, "%s", err)
		}
	}
	if len(added) != len(rules) {
		return 0, client.BadAnswer(r.Op, r.Method, "%d rules were asked for, and %d are returned", len(rules), len(added))
	}
	i.editRules(group, len(added), func(rules []plan.ObservedRule) []plan.ObservedRule { return append(rules, added...) })
	return 0, nil
}

// deleteRule removes a rule from its group. A rule that is gone counts as removed. It moves the group's revision by one
// (measured; the contract suite checks it).
func (i *Inventory) deleteRule(ctx context.Context, step *plan.Step) (revision int, err error) {
	defer i.secured.write(step.GroupRef.ID)()
	err = i.send(ctx, client.Request{
		Op: string(step.Action), Method: http.MethodDelete, Path: ruleCollection.Path(step.ID),
	})
	if err != nil && !client.IsNotFound(err) {
		return 0, ruleError(err, *step)
	}
	i.editRules(step.GroupRef.ID, 1, func(rules []plan.ObservedRule) []plan.ObservedRule {
		return slices.DeleteFunc(rules, func(r plan.ObservedRule) bool { return r.ID == step.ID })
	})
	return 0, nil
}

// editRules records a change of so many of a group's rules. to gets a copy. If the group's revision moved otherwise,
// the next conditional write fails, and rereads the group.
func (i *Inventory) editRules(group string, changes int, to func([]plan.ObservedRule) []plan.ObservedRule) {
	i.secured.edit(group, func(g *plan.ObservedGroup) {
		g.Rules = to(slices.Clone(g.Rules))
		g.Revision += changes
	})
}

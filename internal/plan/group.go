package plan

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Names of a security group's fields, as in the user's spec.
const (
	FieldStateful = "stateful"
	FieldRules    = "rules"
)

// GroupSpec is the desired state of a security group, in canonical form.
type GroupSpec struct {
	// Owner is written into the group.
	Owner Owner
	// Name and Description are the group's in Neutron. The description is the user's, without the marker.
	Name, Description string
	// Stateless is true if each packet is judged alone. Neutron's groups are stateful by default.
	Stateless bool
	// Rules are all rules of the group, each once, in canonical form; see Rule.Canonical.
	Rules []Rule
	// Pending are rules whose remote group is not known yet, without it. None of them is created. Existing rules that
	// differ from one of them only in the remote group stay.
	Pending []Rule
	// Retain is true if the group stays when the object is deleted. Its description says so, in case that nobody sees the
	// deletion.
	Retain bool
}

// Values of a Rule's Direction and EtherType, as in Neutron.
const (
	Ingress = "ingress"
	Egress  = "egress"
	IPv4    = "IPv4"
	IPv6    = "IPv6"
)

const (
	// OwnGroup is the RemoteGroup of a rule about the members of the rule's own group, which may have no id yet.
	OwnGroup = "self"
	// NoPort is the PortMin or the PortMax of a rule that does not limit it.
	NoPort = -1
)

// Rule lets some packets pass. What no rule of any of a port's groups lets pass is dropped. Rules in canonical form are
// equal exactly if Neutron takes them for duplicates.
type Rule struct {
	// Direction and EtherType are among the constants.
	Direction, EtherType string
	// Protocol is one of the names tcp, udp, sctp, icmp and icmpv6, or another protocol's number. It is empty for all.
	Protocol string
	// PortMin and PortMax bound the destination port. For ICMP they are the type and the code. NoPort is any.
	PortMin, PortMax int
	// Remote is where packets come from or go to. The zero Prefix is everywhere.
	Remote netip.Prefix
	// RemoteGroup is the id of the group whose members packets come from or go to, or OwnGroup. It is empty for others.
	RemoteGroup string
	// AddressGroup is a group of addresses of Neutron's. Only rules of others have one.
	AddressGroup string
}

// protocols are the numbers of the protocols that Neutron knows by name (IP_PROTOCOL_MAP in neutron_lib/constants.py).
var protocols = map[string]string{
	"ah": "51", "dccp": "33", "egp": "8", "esp": "50", "gre": "47", "hopopt": "0", "icmp": "1", "icmpv6": "58",
	"igmp": "2", "ip": "0", "ipip": "4", "ipv6-encap": "41", "ipv6-frag": "44", "ipv6-icmp": "58", "ipv6-nonxt": "59",
	"ipv6-opts": "60", "ipv6-route": "43", "ospf": "89", "pgm": "113", "rsvp": "46", "sctp": "132", "tcp": "6",
	"udp": "17", "udplite": "136", "vrrp": "112",
}

// named are the protocols of a Rule that have names, by their numbers.
var named = map[string]string{"1": "icmp", "6": "tcp", "17": "udp", "58": "icmpv6", "132": "sctp"}

// Canonical is the rule as Neutron compares it: everywhere and all ports are no limits, and each protocol has one name
// (_rule_to_key in neutron/db/securitygroups_db.py).
func (r Rule) Canonical() Rule {
	protocol := strings.ToLower(r.Protocol)
	if number, known := protocols[protocol]; known {
		protocol = number
	}
	switch {
	case protocol == "any":
		protocol = ""
	case protocol == "1" && r.EtherType == IPv6:
		protocol = "58"
	}
	r.Protocol = protocol
	if name, known := named[protocol]; known {
		r.Protocol = name
	}
	if r.PortMin == 1 && r.PortMax == 65535 {
		r.PortMin, r.PortMax = NoPort, NoPort
	}
	if r.Remote.IsValid() && r.Remote.Bits() == 0 {
		r.Remote = netip.Prefix{}
	}
	return r
}

// String describes the rule for users.
func (r Rule) String() string {
	words := []string{r.Direction, r.EtherType, cmp.Or(r.Protocol, "any")}
	icmp := r.Protocol == "icmp" || r.Protocol == "icmpv6"
	switch {
	case r.PortMin == NoPort && r.PortMax == NoPort:
	case icmp && r.PortMax == NoPort:
		words = append(words, "type", strconv.Itoa(r.PortMin))
	case icmp:
		words = append(words, "type", strconv.Itoa(r.PortMin), "code", strconv.Itoa(r.PortMax))
	case r.PortMin == r.PortMax:
		words = append(words, strconv.Itoa(r.PortMin))
	default:
		words = append(words, fmt.Sprintf("%d-%d", r.PortMin, r.PortMax))
	}
	preposition := "from"
	if r.Direction == Egress {
		preposition = "to"
	}
	switch {
	case r.RemoteGroup == OwnGroup:
		words = append(words, preposition, "its own members")
	case r.RemoteGroup != "":
		words = append(words, preposition, "group", r.RemoteGroup)
	case r.AddressGroup != "":
		words = append(words, preposition, "address group", r.AddressGroup)
	case r.Remote.IsValid():
		words = append(words, preposition, r.Remote.String())
	default:
		words = append(words, preposition, "anywhere")
	}
	return strings.Join(words, " ")
}

// without is the rule without its remote group.
func (r Rule) without() Rule {
	r.RemoteGroup = ""
	return r
}

// compareRules sorts rules by their texts, which differ if the rules do.
func compareRules(a, b Rule) int { return cmp.Compare(a.String(), b.String()) }

// DefaultEgress are the rules that let everything out. A group without a rule for egress has them.
func DefaultEgress() []Rule {
	return []Rule{
		{Direction: Egress, EtherType: IPv4, PortMin: NoPort, PortMax: NoPort},
		{Direction: Egress, EtherType: IPv6, PortMin: NoPort, PortMax: NoPort},
	}
}

// GroupAttributes are a security group's settings, as sent to Neutron.
type GroupAttributes struct {
	Name string
	// Description is the full text, with the marker.
	Description string
	// Stateful is nil if Neutron does not tell, because it lacks the extension stateful-security-group.
	Stateful *bool
}

// ObservedGroup is a security group as Neutron reports it.
type ObservedGroup struct {
	ID string
	// Revision is Neutron's revision_number. Every change of the group and of its rules increases it.
	Revision int
	Created  time.Time
	GroupAttributes
	// Rules are all rules of the group, regardless of who added them.
	Rules []ObservedRule
}

// ObservedRule is a rule as Neutron reports it, in canonical form.
type ObservedRule struct {
	ID string
	Rule
}

// GroupResource is the Resource of a Difference of a security group.
const GroupResource = "security group"

// Attributes are the group's settings, as sent to Neutron.
func (s GroupSpec) Attributes() GroupAttributes {
	return GroupAttributes{
		Name: s.Name, Description: s.Owner.describeAs(retaining(s.Retain), s.Description), Stateful: new(!s.Stateless),
	}
}

// Validate refuses what no plan can be made for.
func (s GroupSpec) Validate() error {
	if err := s.Owner.validate(); err != nil {
		return err
	}
	if _, _, marked := ParseDescription(s.Description); marked {
		return &FieldError{FieldDescription, "it ends with an ownership marker: write the text without it"}
	}
	return nil
}

// Group returns the group that represents the object: the oldest. It returns false if there is none.
func (o Observed) Group() (ObservedGroup, bool) { return oldest(o.Groups) }

func (g ObservedGroup) identity() identity {
	return identity{Resource{KindGroup, g.ID}, g.Created, g.Description}
}

func (g ObservedGroup) called() string { return g.Name }

func (g ObservedGroup) inOrder() ObservedGroup {
	g.Rules = slices.SortedFunc(slices.Values(g.Rules), func(a, b ObservedRule) int {
		return cmp.Or(compareRules(a.Rule, b.Rule), cmp.Compare(a.ID, b.ID))
	})
	return g
}

// SecurityGroup plans the steps that turn observed into spec, in the order to take them. Like that of Network, the
// Change is empty if there is nothing to do. It changes or deletes only what bears the spec's owner, and the rules of
// such a group, regardless of who added them.
//
// Neutron gives a new group default rules, which depend on the cloud. So the plan after the one that creates the
// group removes those that the spec has not.
func SecurityGroup(spec GroupSpec, observed Observed) (Change, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	observed = observed.inOrder()
	if err := marked(spec.Owner, observed); err != nil {
		return nil, err
	}
	var change Change
	keep, exists := observed.Group()
	group := Ref{ID: keep.ID}
	if exists {
		change = change.with(updateGroup(spec, keep))
	} else {
		change = append(change, Step{
			Action: CreateGroup, Group: spec.Attributes(), Reason: "no security group bears the owner's marker",
			Differences: []Difference{existence(GroupResource, strconv.Quote(spec.Name))},
		})
		group = change.latest()
	}
	missing, surplus := compareGroupRules(spec, keep.Rules)
	if !exists {
		// Neutron adds its own. If it does not, the next plan does.
		missing = slices.DeleteFunc(missing, func(r Rule) bool { return slices.Contains(DefaultEgress(), r) })
	}
	// New rules come before the removal of others: a rule that replaces another one interrupts nothing. If one is refused,
	// such as by a quota, the others go all the same.
	if len(missing) > 0 {
		change = append(change, createRules(group, missing))
	}
	for _, r := range surplus {
		change = append(change, deleteRule(keep, r))
	}
	for _, g := range observed.Groups {
		if g.ID != keep.ID {
			step := deleteGroup(g, "it is a duplicate of the older security group "+keep.ID)
			step.Keeper = Keeper{Resource: keep.identity().Resource, Owner: spec.Owner}
			change = append(change, step)
		}
	}
	return change, nil
}

// compareGroupRules returns the declared rules that do not exist, and the existing ones that are not declared. Of two
// equal ones, the second is not declared.
func compareGroupRules(spec GroupSpec, actual []ObservedRule) (missing []Rule, surplus []ObservedRule) {
	missing = slices.SortedFunc(slices.Values(spec.Rules), compareRules)
	for _, r := range actual {
		if at := slices.Index(missing, r.Rule); at >= 0 {
			missing = slices.Delete(missing, at, at+1)
		} else if r.RemoteGroup == "" || !slices.Contains(spec.Pending, r.without()) {
			surplus = append(surplus, r)
		}
	}
	return missing, surplus
}

// settled reports whether the group has the declared rules and no others.
func (s GroupSpec) settled(actual ObservedGroup) bool {
	missing, surplus := compareGroupRules(s, actual.Rules)
	return len(missing)+len(surplus) == 0
}

// Complete reports whether the group exists and has the declared rules and no others. A rule too many lets in what the
// spec keeps out, and so counts.
func (s GroupSpec) Complete(observed Observed) bool {
	group, exists := observed.inOrder().Group()
	return exists && s.settled(group)
}

// step is an update or the deletion of the group.
func (g ObservedGroup) step(action Action, reason string, settles ...Difference) Step {
	return Step{
		Action: action, Ref: Ref{ID: g.ID}, Revision: g.Revision, Group: g.GroupAttributes, Reason: reason,
		Differences: settles,
	}
}

func updateGroup(spec GroupSpec, actual ObservedGroup) Step {
	want := spec.Attributes()
	d := differences{resource: GroupResource}
	d.compare(FieldName, strconv.Quote(want.Name), strconv.Quote(actual.Name))
	d.found = append(d.found, describe(GroupResource, want.Description, actual.Description)...)
	if spec.Stateless || actual.Stateful != nil {
		d.flag(FieldStateful, want.Stateful, actual.Stateful, unsupported)
	}
	step := actual.step(UpdateGroup, reasonDiffers, d.found...)
	step.Group = want
	return step
}

func createRules(group Ref, rules []Rule) Step {
	step := Step{Action: CreateRules, GroupRef: group, Rules: rules, Reason: "the group does not have them"}
	for _, r := range rules {
		step.Differences = append(step.Differences, Difference{GroupResource, FieldRules, r.String(), None})
	}
	return step
}

func deleteRule(of ObservedGroup, r ObservedRule) Step {
	return Step{
		Action: DeleteRule, Ref: Ref{ID: r.ID}, GroupRef: Ref{ID: of.ID}, Rules: []Rule{r.Rule},
		Reason: "it is not declared", Differences: []Difference{{GroupResource, FieldRules, None, r.String()}},
	}
}

func deleteGroup(g ObservedGroup, reason string) Step {
	return g.step(DeleteGroup, reason, surplus(GroupResource, g.ID))
}

func (g ObservedGroup) release(owner Owner, reason string) Change {
	step := g.step(UpdateGroup, reason)
	return unmark(owner, &step, GroupResource, &step.Group.Description, releasedNameless)
}

// groupActions are the actions on a security group and its rules.
var groupActions = map[Action]facts{
	CreateGroup: {
		of: KindGroup, creates: true, about: func(s Step) string { return strconv.Quote(s.Group.Name) },
	},
	// Neutron refuses to change stateful while ports are in the group. The rules do not wait for that.
	UpdateGroup: {of: KindGroup, updates: true, postponable: true, about: Step.id},
	DeleteGroup: {of: KindGroup, deletes: true, about: Step.id},
	CreateRules: {
		postponable: true, about: Step.rules,
		done: func(s Step) string { return "Added to security group " + s.GroupRef.ID + ": " + s.rules() },
	},
	DeleteRule: {
		deletes: true, about: Step.rules,
		done: func(s Step) string { return "Removed from security group " + s.GroupRef.ID + ": " + s.rules() },
	},
}

// shownRules is how many rules a text about a step names.
const shownRules = 5

func (s Step) rules() string {
	texts := make([]string, 0, shownRules)
	for _, r := range s.Rules[:min(shownRules, len(s.Rules))] {
		texts = append(texts, r.String())
	}
	text := strings.Join(texts, ", ")
	if more := len(s.Rules) - len(texts); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

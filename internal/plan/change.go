package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Change lists the steps from the observed to the desired state, in order. An empty Change means that they are equal.
type Change []Step

// Empty reports whether there is nothing to do.
func (c Change) Empty() bool { return len(c) == 0 }

// String prints one step per line.
func (c Change) String() string {
	lines := make([]string, len(c))
	for i, step := range c {
		lines[i] = step.String()
	}
	return strings.Join(lines, "\n")
}

// Differences lists the differences of all steps, in order. It lists each once, as several steps can settle one
// difference.
func (c Change) Differences() []Difference {
	var all []Difference
	for _, step := range c {
		for _, d := range step.Differences {
			if !slices.Contains(all, d) {
				all = append(all, d)
			}
		}
	}
	return all
}

// Without removes the differences in the named fields of existing resources, which then stay unchanged. It removes
// steps that settle nothing else. It always keeps creations, deletions and the steps that complete a creation. It does
// not write to the Change itself.
func (c Change) Without(fields ...string) Change {
	return c.Leaving(func(d Difference) bool { return slices.Contains(fields, d.Field) })
}

// Leaving is Without for the differences for which leaves returns true.
func (c Change) Leaving(leaves func(Difference) bool) Change {
	rest := slices.Clone(c)
	for i, step := range rest {
		if !step.Completes() {
			rest[i].Differences = slices.DeleteFunc(slices.Clone(step.Differences), func(d Difference) bool {
				return d.Field != FieldExists && leaves(d)
			})
		}
	}
	return rest.only(func(s Step) bool { return len(s.Differences) > 0 })
}

// Postponable reports whether the step may wait while the rest of its Change proceeds (see Despite). A step waits for
// other users of what it removes, or for quota.
func (s Step) Postponable() bool { return actions[s.Action].postponable }

// Despite returns the steps that can proceed when the step after the taken ones has to wait (see Step.Postponable). It
// omits that step. If that step deletes a subnet, Despite also omits new subnets that overlap it or that Neutron
// refuses beside it. If Neutron refused one share, it omits the other new shares. Neutron accepts any text as a
// project, so the cause, such as the quota, does not depend on the project.
func (c Change) Despite(taken Change) Change {
	rest := c.After(taken)
	refused := rest[0]
	return rest.only(func(step Step) bool {
		switch step.Action {
		case CreateSubnet:
			return !step.Subnet.CIDR.Overlaps(refused.Subnet.CIDR) && !step.barredBy(refused)
		case refused.Action:
			return step.ID != refused.ID && step.Action != ShareNetwork
		}
		return true
	})
}

// Action is the kind of a step.
type Action string

// The actions of a Change.
const (
	CreateNetwork Action = "create network"
	UpdateNetwork Action = "update network"
	DeleteNetwork Action = "delete network"
	// TagNetwork replaces all tags of a network. Neutron accepts tags only in a separate request without a revision.
	TagNetwork Action = "tag network"
	// ShareNetwork and UnshareNetwork add and remove a share with one project. Their requests carry no revision, and
	// they change the network's revision.
	ShareNetwork   Action = "share network"
	UnshareNetwork Action = "unshare network"

	CreateSubnet Action = "create subnet"
	UpdateSubnet Action = "update subnet"
	DeleteSubnet Action = "delete subnet"
	CreatePort   Action = "create port"
	UpdatePort   Action = "update port"
	DeletePort   Action = "delete port"

	CreateRouter Action = "create router"
	UpdateRouter Action = "update router"
	DeleteRouter Action = "delete router"
	// UpdateGateway changes the external gateway of a router. It is not conditional on the revision. Neutron counts it
	// as several changes of the router. The first one changes the revision, and a conditional request would stop
	// half-way.
	UpdateGateway Action = "update router gateway"
	// CreateInterface creates the port that AttachInterface turns into a router interface. DetachInterface removes the
	// interface from its router and deletes the port. DeleteInterface deletes a port that is not attached yet.
	CreateInterface Action = "create router interface"
	AttachInterface Action = "attach router interface"
	DetachInterface Action = "detach router interface"
	DeleteInterface Action = "delete router interface"

	CreateGroup Action = "create security group"
	UpdateGroup Action = "update security group"
	DeleteGroup Action = "delete security group"
	// CreateRules adds rules to a security group, in one request: all or none. DeleteRule removes one. Neutron cannot
	// change a rule. Both change the group's revision, and their requests carry none.
	CreateRules Action = "create security group rules"
	DeleteRule  Action = "delete security group rule"

	CreateFloatingIP Action = "create floating IP"
	// UpdateFloatingIP changes the port that it is associated with, or its description. It is not conditional on the
	// revision, which agents move, and also the deletion of its port.
	UpdateFloatingIP Action = "update floating IP"
	DeleteFloatingIP Action = "delete floating IP"
	// TakeFloatingIP adds the owner's marker to one that has none, on condition of the revision.
	TakeFloatingIP Action = "adopt floating IP"
)

// facts are what all steps of one Action have in common.
type facts struct {
	// of is the kind of the resource, if that has its own list; see Action.Of.
	of Kind
	// creates, updates and deletes say what becomes of the resource.
	creates, updates, deletes bool
	// done describes a step that was taken, for users. nil means the usual text; see Step.Done.
	done func(Step) string
	// postponable: see Step.Postponable.
	postponable bool
	// about names the resource for users.
	about func(Step) string
	// privileged tells which privileged fields the step sends besides those that differ. nil means none.
	privileged func(Step) map[string]bool
}

// actions has the facts of each Action, as each kind of resource lists them.
var actions = func() map[Action]facts {
	all := map[Action]facts{}
	for _, of := range []map[Action]facts{
		networkActions, subnetActions, portActions, routerActions, shareActions, groupActions,
		floatingIPActions,
	} {
		maps.Copy(all, of)
	}
	return all
}()

// Creates reports whether the action creates a resource.
func (a Action) Creates() bool { return actions[a].creates }

// Deletes reports whether the action deletes a resource.
func (a Action) Deletes() bool { return actions[a].deletes }

// Of is the kind of the resource that the action creates, updates or deletes. It is empty if that is a part of another
// resource, such as a subnet.
func (a Action) Of() Kind { return actions[a].of }

// Step is one request to Neutron.
type Step struct {
	Action Action
	// Ref and Revision name the resource to change or delete, as it was when the step was planned. They are zero for a
	// creation. After a creation, Ref names the created resource.
	Ref
	Revision int
	// NetworkRef is the network of a subnet, a port or a share.
	NetworkRef Ref
	// RouterRef is the router of an interface to create, to attach or to detach.
	RouterRef Ref
	// SubnetRefs has one subnet for each of Port.Addresses. It is set if some of these have no subnet id yet.
	SubnetRefs []Ref
	// GroupRef is the security group of rules.
	GroupRef Ref
	// PortRef is the port that a floating IP is associated with.
	PortRef Ref
	// These are the settings of the resource, by its kind. An update sends only those that Differences names. After the
	// step, Subnet has the CIDR that Neutron allocated.
	Attributes                    Attributes // a network's
	SubnetName, SubnetDescription string
	Subnet                        Subnet
	Port                          PortAttributes
	Router                        RouterAttributes
	Group                         GroupAttributes
	FloatingIP                    FloatingIPAttributes
	// PoolID is the subnet pool of an existing subnet. It is empty if the subnet comes from no pool.
	PoolID string
	// DeviceOwner is the device_owner of a port that is created to become a router interface.
	DeviceOwner string
	// Share is the share to add or remove.
	Share Share
	// Rules are the rules to add, or the one to remove.
	Rules []Rule
	// Differences are what the step settles.
	Differences []Difference
	// Reason says why the step is necessary.
	Reason string
	// Keeper is what makes the resource of a deletion superfluous, such as the older one of two. The zero value is none.
	// A list may show what is long gone. So the code that takes the step first asks for the Keeper by its id.
	Keeper Keeper
}

// Keeper is a resource that has to exist for another one to be superfluous.
type Keeper struct {
	Resource
	// Owner is whose marker it has to bear. The zero value means that it only has to exist.
	Owner Owner
	// Subnet is the id of a subnet that the network has to have, or empty.
	Subnet string
}

// Changes reports whether the step settles a difference in the named field.
func (s Step) Changes(field string) bool {
	return slices.ContainsFunc(s.Differences, func(d Difference) bool { return d.Field == field })
}

// id names an existing resource for users.
func (s Step) id() string { return cmp.Or(s.ID, justCreated) }

const justCreated = "just created"

// String describes the step for users: the action, the resource, the changed fields and the reason.
func (s Step) String() string {
	facts := actions[s.Action]
	text := string(s.Action) + " " + facts.about(s)
	if facts.updates {
		text += ": " + s.changes()
	}
	return text + " (" + s.Reason + ")"
}

// Done describes the step, once it was taken, for users. A deletion gives its reason.
func (s Step) Done() string {
	facts := actions[s.Action]
	_, resource, _ := strings.Cut(string(s.Action), " ")
	text := ""
	switch {
	case facts.done != nil:
		text = facts.done(s)
	case facts.creates:
		text = "Created " + resource + " " + s.ID
	case facts.deletes:
		text = "Deleted " + resource + " " + s.ID
	case len(s.Differences) == 0:
		text = "Updated " + resource + " " + s.ID
	default:
		text = "Updated " + s.Differences[0].Resource + ": " + s.changes()
	}
	if facts.deletes {
		text += ": " + s.Reason
	}
	return text
}

// changes lists what the step changes.
func (s Step) changes() string {
	changed := make([]string, len(s.Differences))
	for i, d := range s.Differences {
		changed[i] = fmt.Sprintf("%s %s → %s", d.Field, d.Actual, d.Declared)
	}
	return strings.Join(changed, ", ")
}

// privileged are the fields that only an administrator may set under Neutron's default policy (neutron.conf.policies,
// of networks, of ports, of routers and of floating IPs).
var privileged = []string{
	FieldShared, FieldExternal, FieldNetworkType, FieldPhysicalNetwork, FieldSegmentationID, FieldMAC,
	FieldSNAT, FieldExternalIP, FieldHA, FieldDistributed, FieldAddress,
}

// Privileged lists the fields that the step sends and that only an administrator may set under Neutron's default
// policy.
func (s Step) Privileged() (fields []string) {
	var sent map[string]bool
	if of := actions[s.Action].privileged; of != nil {
		sent = of(s)
	}
	for _, field := range privileged {
		if sent[field] || s.Changes(field) {
			fields = append(fields, field)
		}
	}
	return fields
}

// with appends the step, unless it settles nothing.
func (c Change) with(step Step) Change {
	if len(step.Differences) == 0 {
		return c
	}
	return append(c, step)
}

// keeping makes all steps depend on the keeper. It writes to the Change itself.
func (c Change) keeping(keeper Keeper) Change {
	for i := range c {
		c[i].Keeper = keeper
	}
	return c
}

// latest refers to the resource that the last step of the Change creates.
func (c Change) latest() Ref { return Ref{Creator: len(c)} }

// withRefs returns the step with all its references replaced. It writes to copies.
func (s Step) withRefs(replace func(Ref) Ref) Step {
	s.Ref, s.NetworkRef, s.RouterRef = replace(s.Ref), replace(s.NetworkRef), replace(s.RouterRef)
	s.GroupRef, s.PortRef = replace(s.GroupRef), replace(s.PortRef)
	refs, addresses := slices.Clone(s.SubnetRefs), slices.Clone(s.Port.Addresses)
	for i, ref := range refs {
		refs[i] = replace(ref)
		addresses[i].SubnetID = refs[i].ID
	}
	s.SubnetRefs, s.Port.Addresses = refs, addresses
	return s
}

// refers reports whether the step refers to an earlier step for which is returns true.
func (s Step) refers(is func(creator int) bool) (found bool) {
	s.withRefs(func(ref Ref) Ref {
		found = found || ref.Creator > 0 && is(ref.Creator)
		return ref
	})
	return found
}

// Completes reports whether the step works on a resource that an earlier step of its Change creates.
func (s Step) Completes() bool { return s.refers(func(int) bool { return true }) }

// Resolve replaces references to steps that were taken with ids. taken MUST be the first steps of the same Change, with
// the ids of the resources that they created.
func (s Step) Resolve(taken Change) Step {
	return s.withRefs(func(ref Ref) Ref {
		if ref.Creator == 0 || ref.Creator > len(taken) {
			return ref
		}
		return Ref{ID: taken[ref.Creator-1].ID}
	})
}

// After returns the steps that remain after the first ones were taken. It does not write to the Change itself.
func (c Change) After(taken Change) Change {
	rest := slices.Clone(c[len(taken):])
	for i, step := range rest {
		rest[i] = step.Resolve(taken).withRefs(func(ref Ref) Ref {
			if ref.Creator > 0 {
				ref.Creator -= len(taken)
			}
			return ref
		})
	}
	return rest
}

// only keeps the steps for which stays returns true. It also removes steps on resources that are no longer created. It
// does not write to the Change itself.
func (c Change) only(stays func(Step) bool) Change {
	var rest Change
	at := make([]int, len(c)+1) // places in rest; 0 for a removed step
	dropped := func(creator int) bool { return at[creator] == 0 }
	for i, step := range c {
		if !stays(step) || step.refers(dropped) {
			continue
		}
		rest = append(rest, step.withRefs(func(ref Ref) Ref { return Ref{ref.ID, at[ref.Creator]} }))
		at[i+1] = len(rest)
	}
	return rest
}

package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Change is the steps from observed to declared, in order. An empty Change means that all is as declared.
type Change []Step

// Empty reports whether there is nothing to do.
func (c Change) Empty() bool { return len(c) == 0 }

// String prints a step a line.
func (c Change) String() string {
	lines := make([]string, len(c))
	for i, step := range c {
		lines[i] = step.String()
	}
	return strings.Join(lines, "\n")
}

// Differences are those of all steps, in order, each once: some take several steps.
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

// Without is the change but for the differences in the named fields of resources that exist: those stay as they are.
// Steps that settle nothing else are left out; creations, what completes them, and deletions are never. The change
// itself is not written to.
func (c Change) Without(fields ...string) Change {
	ignored := func(d Difference) bool { return d.Field != FieldExists && slices.Contains(fields, d.Field) }
	if !slices.ContainsFunc(c, func(s Step) bool { return slices.ContainsFunc(s.Differences, ignored) }) {
		return c // as a rule
	}
	rest := slices.Clone(c)
	for i, step := range rest {
		if !step.Completes() {
			rest[i].Differences = slices.DeleteFunc(slices.Clone(step.Differences), ignored)
		}
	}
	return rest.only(func(s Step) bool { return len(s.Differences) > 0 })
}

// Postponable reports whether the step may have to wait, for others who use what it takes away, or for room in a quota,
// while the rest of its change need not; see Despite.
func (s Step) Postponable() bool {
	switch s.Action {
	case DeleteSubnet, UnshareNetwork, ShareNetwork:
		return true
	}
	return false
}

// Despite is what can still be done of the change when its first steps were taken and the next one has to wait (see
// Step.Postponable): all but that one and, of a subnet's deletion, the creation of subnets in its place, or that
// Neutron would not have beside it. Nor is the network shared with anybody else where sharing it was refused: Neutron
// takes any text for a project, so that its reason, such as the quota, is not the project's.
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

// Action is what a step does.
type Action string

// The actions that a Change is made of.
const (
	CreateNetwork Action = "create network"
	UpdateNetwork Action = "update network"
	DeleteNetwork Action = "delete network"
	// TagNetwork replaces all tags of a network. Neutron takes them in no other request, and at no revision.
	TagNetwork Action = "tag network"
	// ShareNetwork and UnshareNetwork give a network to one project and take it back. They name the network alone, at no
	// revision, and move its own.
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
	// UpdateGateway changes how a router leads outside. It is not conditional: Neutron counts it as several changes of
	// the router, and stops half-way where the first has moved the revision that the request names.
	UpdateGateway Action = "update router gateway"
	// CreateInterface creates the port that AttachInterface makes a router's interface. DetachInterface takes the
	// interface from its router, and the port with it; DeleteInterface a port that is none yet.
	CreateInterface Action = "create router interface"
	AttachInterface Action = "attach router interface"
	DetachInterface Action = "detach router interface"
	DeleteInterface Action = "delete router interface"
)

// Creates reports whether the action creates a resource.
func (a Action) Creates() bool {
	switch a {
	case CreateNetwork, CreateSubnet, CreatePort, CreateRouter, CreateInterface:
		return true
	}
	return false
}

// Step is one request to Neutron.
type Step struct {
	Action Action
	// Ref and Revision name the resource to change or delete, as it was when the step was planned. They are zero for a
	// create; of one that was taken, Ref names what it created.
	Ref
	Revision int
	// NetworkRef is the network of a subnet, of a port or of a share.
	NetworkRef Ref
	// RouterRef is the router of an interface that is attached or detached.
	RouterRef Ref
	// SubnetRefs are the subnets of Port.Addresses, one for each, where some of these name none yet.
	SubnetRefs []Ref
	// Share is what a step gives or takes back.
	Share Share
	// Attributes are a network's. An update sends those that Differences names.
	Attributes Attributes
	// SubnetName, SubnetDescription and Subnet are a subnet's. An update sends those that Differences names. Of a step
	// that was taken, a subnet has the CIDR that it was given.
	SubnetName        string
	SubnetDescription string
	Subnet            Subnet
	// PoolID is the subnet pool that a subnet to delete is from; empty for none.
	PoolID string
	// Port is a port's settings. An update sends those that Differences names.
	Port PortAttributes
	// Router is a router's settings. An update sends those that Differences names.
	Router RouterAttributes
	// Differences are what the step settles.
	Differences []Difference
	// Reason says why the step is taken.
	Reason string
}

// Changes reports whether the step settles a difference in the named field.
func (s Step) Changes(field string) bool {
	for _, d := range s.Differences {
		if d.Field == field {
			return true
		}
	}
	return false
}

// String is the step for a person: what, on what, which fields from what to what, and why.
func (s Step) String() string {
	var b strings.Builder
	b.WriteString(string(s.Action))
	switch s.Action {
	case CreateNetwork:
		fmt.Fprintf(&b, " %q", s.Attributes.Name)
	case CreateSubnet:
		fmt.Fprintf(&b, " %s", s.Subnet.Origin())
	case UpdateSubnet, DeleteSubnet:
		fmt.Fprintf(&b, " %s (%s)", s.ID, s.Subnet.CIDR)
	case CreatePort:
		fmt.Fprintf(&b, " %q on network %s", s.Port.Name, s.NetworkRef.ID)
	case UpdateNetwork, TagNetwork, DeleteNetwork, UpdatePort, DeletePort:
		if s.ID != "" {
			fmt.Fprintf(&b, " %s", s.ID)
		}
	case ShareNetwork, UnshareNetwork:
		fmt.Fprintf(&b, " %s: project %q", cmp.Or(s.NetworkRef.ID, "just created"), s.Share.Project)
	case CreateRouter:
		fmt.Fprintf(&b, " %q", s.Router.Name)
	case UpdateRouter, UpdateGateway, DeleteRouter:
		fmt.Fprintf(&b, " %s", cmp.Or(s.ID, "just created"))
	case CreateInterface, AttachInterface, DetachInterface, DeleteInterface:
		fmt.Fprintf(&b, " %s", listAddresses(s.Port.Addresses))
	}
	if s.updates() {
		for i, d := range s.Differences {
			sep := ", "
			if i == 0 {
				sep = ": "
			}
			fmt.Fprintf(&b, "%s%s %s → %s", sep, d.Field, d.Actual, d.Declared)
		}
	}
	fmt.Fprintf(&b, " (%s)", s.Reason)
	return b.String()
}

// updates reports whether the step changes a resource that stays.
func (s Step) updates() bool {
	switch s.Action {
	case UpdateNetwork, TagNetwork, UpdateSubnet, UpdatePort, UpdateRouter, UpdateGateway:
		return true
	}
	return false
}

// latest refers to what the change's last step creates.
func (c Change) latest() Ref { return Ref{Creator: len(c)} }

// creator refers to what the first matching step creates; it names none where no step matches.
func (c Change) creator(match func(Step) bool) Ref {
	return Ref{Creator: 1 + slices.IndexFunc(c, match)}
}

// withRefs is the step with each of its references replaced. It writes to copies.
func (s Step) withRefs(replace func(Ref) Ref) Step {
	s.Ref, s.NetworkRef, s.RouterRef = replace(s.Ref), replace(s.NetworkRef), replace(s.RouterRef)
	if len(s.SubnetRefs) == 0 {
		return s // as a rule
	}
	refs, addresses := slices.Clone(s.SubnetRefs), slices.Clone(s.Port.Addresses)
	for i, ref := range refs {
		refs[i] = replace(ref)
		addresses[i].SubnetID = refs[i].ID
	}
	s.SubnetRefs, s.Port.Addresses = refs, addresses
	return s
}

// refers reports whether the step refers to an earlier one for which is says yes.
func (s Step) refers(is func(creator int) bool) bool {
	found := func(ref Ref) bool { return ref.Creator > 0 && is(ref.Creator) }
	return found(s.Ref) || found(s.NetworkRef) || found(s.RouterRef) || slices.ContainsFunc(s.SubnetRefs, found)
}

// Completes reports whether the step is about what an earlier step of its change creates.
func (s Step) Completes() bool { return s.refers(func(int) bool { return true }) }

// Resolve is the step with ids in place of references to steps that were taken. These are the first of the step's
// change, with the ids of what they created.
func (s Step) Resolve(taken Change) Step {
	if !s.Completes() {
		return s // as a rule
	}
	return s.withRefs(func(ref Ref) Ref {
		if ref.Creator == 0 || ref.Creator > len(taken) {
			return ref
		}
		return Ref{ID: taken[ref.Creator-1].ID}
	})
}

// After is the rest of the change once its first steps were taken. The change itself is not written to.
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

// only is the change with the steps that stay, but for those about what is no longer created. The change itself is not
// written to.
func (c Change) only(stays func(Step) bool) Change {
	var rest Change
	at := make([]int, len(c)+1) // the places in rest; 0 for steps that do not stay
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

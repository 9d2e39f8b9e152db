package plan

import "slices"

// Ref names the resource that a step is about, or is on: one that exists, by its id, or one that an earlier step of the
// same change creates. The zero value names none.
type Ref struct {
	// ID is the resource's id in Neutron; empty until a step has created it.
	ID string
	// Creator is the place in the change, from 1, of the step that creates the resource; 0 where ID names it.
	Creator int
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

package plan

// Ref names the resource that a step is about, or is on: one that exists, by its id, or one that an earlier step of the
// same change creates. The zero value names none.
type Ref struct {
	// ID is the resource's id in Neutron; empty until a step has created it.
	ID string
	// Creator is the place in the change, from 1, of the step that creates the resource; 0 where ID names it.
	Creator int
}

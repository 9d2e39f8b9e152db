package plan

import "regexp"

// Ref names the resource of a step. The resource exists, or an earlier step of the same Change creates it. The zero
// value names none.
type Ref struct {
	// ID is the resource's id in Neutron. It is empty until a step creates the resource.
	ID string
	// Creator is the position in the Change, from 1, of the step that creates the resource. It is 0 if ID names it.
	Creator int
}

// IsID reports whether a text has the form of Neutron's ids: a UUID, with or without its hyphens.
func IsID(text string) bool { return id.MatchString(text) }

var id = regexp.MustCompile(`^([0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}|[0-9a-f]{32})$`)

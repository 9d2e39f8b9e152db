package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ImportFilter says what is imported by what people gave it. The zero value is no filter.
type ImportFilter struct {
	Name string
	Tags []string
}

// Empty reports whether it is no filter.
func (f ImportFilter) Empty() bool { return f.Name == "" && len(f.Tags) == 0 }

// Fits reports whether a resource has the name and all of the tags. Nothing fits an empty filter.
func (f ImportFilter) Fits(name string, tags []string) bool {
	lacks := func(tag string) bool { return !slices.Contains(tags, tag) }
	return !f.Empty() && (f.Name == "" || f.Name == name) && !slices.ContainsFunc(f.Tags, lacks)
}

// String is a part of a sentence.
func (f ImportFilter) String() string {
	var parts []string
	if f.Name != "" {
		parts = append(parts, "the name "+strconv.Quote(f.Name))
	}
	for _, tag := range f.Tags {
		parts = append(parts, "the tag "+strconv.Quote(tag))
	}
	return strings.Join(parts, " and ")
}

// Import describes how to take over a network that exists before its object. Such a network is never created.
type Import struct {
	// ID is the network's id. It is empty for a network that the controller creates.
	ID string
	// Overwrite allows the takeover of a network that differs from the spec. Without it, the names of the network and
	// its subnets and the subnets' descriptions are not declared. They stay unchanged.
	Overwrite bool
	// AdoptSubnets allows the takeover of subnets that bear no marker and whose CIDR is declared.
	AdoptSubnets bool
}

// keepsNames reports whether names that derive from the object's name stay unchanged.
func (i Import) keepsNames() bool { return i.ID != "" && !i.Overwrite }

// imported refuses an import whose resource does not exist, and any other resource of the kind that bears the marker.
// The controller creates none for such an object. So somebody else marked that other one, and it is no duplicate to
// delete. An empty id means no import.
func imported[R resource](of Kind, id string, owner Owner, found []R) error {
	if id == "" {
		return nil
	}
	for _, r := range found {
		if is := r.identity(); is.ID != id {
			return &BlockedError{fmt.Sprintf("The %s bears the marker %s but is not the imported %[3]s %[4]s. The import is "+
				"blocked. Remove the marker from its description.", is.Resource, owner, of, id)}
		}
	}
	if len(found) == 0 {
		return &NotMadeError{Resource{of, id}}
	}
	return nil
}

// NotMadeError says that an imported resource does not exist. The controller does not create it.
type NotMadeError struct{ Resource }

func (e *NotMadeError) Error() string {
	return fmt.Sprintf("The %s does not exist, or these credentials cannot see it. The controller does not create what "+
		"it imports. Retrying periodically.", e.Resource)
}

// adoptable reports whether a subnet without a marker may be taken over.
func (s Spec) adoptable(subnet ObservedSubnet) bool {
	_, _, marked := ParseDescription(subnet.Description)
	return s.Import.AdoptSubnets && !marked
}

// Adopt plans the takeover of a network that bears no marker. Its one step adds the owner's marker, on condition that
// the network's revision did not change. Network plans the rest, such as the markers of the subnets. The Change is
// empty if the network already bears the owner's marker.
//
// The error is an *OwnedError if the network or a declared subnet has another owner. It is a *DiffersError if the
// network differs from the spec and the spec does not allow to overwrite it. It is a *BlockedError if something else
// prevents the import. All other errors are the spec's own.
func Adopt(spec Spec, found ObservedNetwork) (Change, error) {
	if spec.Owner.Owns(found.Description) {
		return nil, nil
	}
	differences, err := Compare(spec, found)
	if err != nil {
		return nil, err
	}
	if len(differences) > 0 && !spec.Import.Overwrite {
		return nil, &DiffersError{differences}
	}
	step := found.step(UpdateNetwork, "it is imported")
	step.Attributes.Description = spec.describe()
	step.Differences = describe(NetworkResource, step.Attributes.Description, found.Description)
	return Change{step}, nil
}

// OwnedError says that a resource to import bears another owner's marker.
type OwnedError struct {
	// Resource is "network", "subnet" or "floating IP" and the id.
	Resource string
	// Owner is the owner in the marker.
	Owner Owner
}

// Error names the resource and the remedy.
func (e *OwnedError) Error() string {
	return fmt.Sprintf("Another object owns %s: %s. It is not imported. Delete that object with deletionPolicy Retain, "+
		"or remove the marker if the object no longer exists.", e.Resource, e.Owner)
}

// DiffersError says that a network or floating IP to import differs from the spec.
type DiffersError struct {
	Differences []Difference
}

// Error is a constant text. Differences has the details.
func (e *DiffersError) Error() string { return "what to import differs from the spec" }

// Compare lists the differences between the spec and a network without another owner's marker, in the order of a plan.
// A missing marker is no difference. It returns the same errors as Adopt.
func Compare(spec Spec, found ObservedNetwork) ([]Difference, error) {
	if err := foreign("network "+found.ID, spec.Owner, found.Description); err != nil {
		return nil, err
	}
	spec = spec.allocated(found, func(ObservedSubnet) bool { return true })
	spec.TakeBack = nil // an earlier spec set nothing on a network that the owner does not own yet
	// Plan for the network as it is after it gets its markers.
	marked := found
	if !spec.Owner.Owns(found.Description) {
		marked.Description = Spec{Owner: spec.Owner, Import: spec.Import, Description: found.Description}.describe()
	}
	marked.Subnets = make([]ObservedSubnet, len(found.Subnets))
	for i, s := range found.Subnets {
		if spec.declares(s.CIDR) {
			if err := foreign("subnet "+s.ID, spec.Owner, s.Description); err != nil {
				return nil, err
			}
			s.Description = withMarker(spec.Owner, s.Description)
		}
		marked.Subnets[i] = s
	}
	change, err := Network(spec, Observed{Networks: []ObservedNetwork{marked}})
	return change.Differences(), err
}

// foreign returns an *OwnedError if a description ends with another owner's marker.
func foreign(resource string, owner Owner, description string) error {
	if _, of, marked := ParseDescription(description); marked && of != owner {
		return &OwnedError{resource, of}
	}
	return nil
}

package plan

import (
	"fmt"
	"strconv"
)

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
	want := spec.describe()
	attributes := found.Attributes
	attributes.Description = want
	return Change{{
		Action: UpdateNetwork, Ref: Ref{ID: found.ID}, Revision: found.Revision, Attributes: attributes,
		Differences: []Difference{{
			NetworkResource, FieldDescription, strconv.Quote(want), strconv.Quote(found.Description),
		}},
		Reason: "it is imported",
	}}, nil
}

// OwnedError says that a resource to import bears another owner's marker.
type OwnedError struct {
	// Resource is "network" or "subnet" and the id.
	Resource string
	// Owner is the owner in the marker.
	Owner Owner
}

// Error names the resource and the remedy.
func (e *OwnedError) Error() string {
	return fmt.Sprintf("%s bears another owner's marker, %s: delete that object with deletionPolicy Retain, or, where no "+
		"such object exists any more, take the marker off its description", e.Resource, e.Owner)
}

// DiffersError says that a network to import differs from the spec.
type DiffersError struct {
	Differences []Difference
}

// Error is a constant text. Differences has the details.
func (e *DiffersError) Error() string { return "the network to import is not as declared" }

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
		marked.Description = spec.Import.describe(spec.Owner, found.Description)
	}
	marked.Subnets = make([]ObservedSubnet, len(found.Subnets))
	for i, s := range found.Subnets {
		if _, declared := declaredSubnet(spec, s.CIDR); declared {
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

// Orphan plans the removal of everything of an owner whose object is gone. The object's policies are gone with it. An
// imported network is not deleted but released, as by Release. Everything else is deleted, as by Delete.
func Orphan(owner Owner, observed Observed) (Change, error) {
	for _, n := range observed.Networks {
		text, of, _ := ParseDescription(n.Description)
		if _, imported := withoutImported(text); imported && of == owner {
			return Release(owner, observed), nil
		}
	}
	return Delete(owner, observed)
}

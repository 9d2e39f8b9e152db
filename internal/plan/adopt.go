package plan

import (
	"fmt"
	"strconv"
)

// Adopt gives the step that takes over a network that bears nobody's marker: it puts the owner's marker on it, on
// condition that nobody changed it meanwhile, and does nothing else. What is left, such as its subnets' markers, is
// Network's. It is empty where the network bears the owner's marker already.
//
// The error is an *OwnedError where the network or a subnet that is declared is another owner's, a *DiffersError where
// it is not as declared and must not be overwritten, a *BlockedError where something stands in the way, or the spec's
// own.
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

// OwnedError says that a resource which is to be imported bears another owner's marker.
type OwnedError struct {
	// Resource is "network" or "subnet" and its id.
	Resource string
	// Owner is whose it is.
	Owner Owner
}

// Error names the resource and says what to do.
func (e *OwnedError) Error() string {
	return fmt.Sprintf("%s bears another owner's marker, %s: delete that object with deletionPolicy Retain, or, where no "+
		"such object exists any more, take the marker off its description", e.Resource, e.Owner)
}

// DiffersError says that a network which is to be imported is not as declared.
type DiffersError struct {
	Differences []Difference
}

// Error is fixed; the differences say more.
func (e *DiffersError) Error() string { return "the network to import is not as declared" }

// Compare gives the differences of a network that bears nobody's marker, or the owner's, from the spec, in the order of
// a plan. That it bears no marker is none. Errors are Adopt's.
func Compare(spec Spec, found ObservedNetwork) ([]Difference, error) {
	if err := foreign("network "+found.ID, spec.Owner, found.Description); err != nil {
		return nil, err
	}
	spec = spec.allocated(found, func(ObservedSubnet) bool { return true })
	spec.TakeBack = nil // what is not the owner's yet has nothing of an earlier spec
	// The plan for the network as it would be with its markers.
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

// foreign is an *OwnedError where a description ends with a marker other than the owner's.
func foreign(resource string, owner Owner, description string) error {
	if _, of, marked := ParseDescription(description); marked && of != owner {
		return &OwnedError{resource, of}
	}
	return nil
}

// Orphan gives the steps that remove everything of an owner's whose object is gone and took its policies along. A
// network that was imported is released, as Release does, and not deleted. Otherwise it is as Delete.
func Orphan(owner Owner, observed Observed) (Change, error) {
	for _, n := range observed.Networks {
		text, of, _ := ParseDescription(n.Description)
		if _, imported := withoutImported(text); imported && of == owner {
			return Release(owner, observed), nil
		}
	}
	return Delete(owner, observed)
}

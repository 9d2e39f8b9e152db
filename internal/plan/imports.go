package plan

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Import is how a network that was there before its object is taken over. Such a network is never created.
type Import struct {
	// ID is the network's; empty for a network that is made here.
	ID string
	// Overwrite allows the network to differ from the spec when it is taken over. Without it, the names of the network and
	// its subnets, and the texts of the subnets' descriptions, are not declared, and stay as they are.
	Overwrite bool
	// AdoptSubnets has subnets that bear nobody's marker taken over where their CIDR is declared.
	AdoptSubnets bool
}

// keepsNames reports whether names that only follow from the object's are left as they are.
func (i Import) keepsNames() bool { return i.ID != "" && !i.Overwrite }

// importedWord stands in front of the marker of a network that was imported. Should its object go and nobody see it, it
// says that the network was there before, and is not to be deleted for it.
const importedWord = "[imported]"

// describe is the whole description of the spec's network.
func (s Spec) describe() string { return s.Import.describe(s.Owner, s.Description) }

// describe is the whole description of a network of the owner's with the user's text.
func (i Import) describe(owner Owner, text string) string {
	if i.ID != "" {
		text = strings.TrimPrefix(text+" "+importedWord, " ")
	}
	return owner.Describe(text)
}

// withoutImported is a text in front of a marker without the word that says that its network was imported.
func withoutImported(text string) (rest string, imported bool) {
	if rest, imported = strings.CutSuffix(text, importedWord); !imported {
		return text, false
	}
	return strings.TrimSuffix(rest, " "), true
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

// NotMadeError says that an imported network is not there and is not made.
type NotMadeError struct {
	// ID is the network's.
	ID string
}

// Error names the network.
func (e *NotMadeError) Error() string {
	return fmt.Sprintf("network %s does not exist, or is not for these credentials to see: an imported network is not "+
		"made anew; it is looked for again", e.ID)
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

// Compare gives the differences of a network that bears nobody's marker, or the owner's, from the spec, in the order of
// a plan. That it bears no marker is none. Errors are Adopt's.
func Compare(spec Spec, found ObservedNetwork) ([]Difference, error) {
	if err := foreign("network "+found.ID, spec.Owner, found.Description); err != nil {
		return nil, err
	}
	spec = spec.allocated(found, func(ObservedSubnet) bool { return true })
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

// withMarker is a description that bears the owner's marker behind the text that it has.
func withMarker(owner Owner, description string) string {
	if owner.Owns(description) {
		return description
	}
	return owner.Describe(description)
}

// imported refuses what cannot be of an imported network: that it is not there, or that another one bears the marker.
// Nothing is created for its object, so that other one is no duplicate to remove, but was marked by somebody else.
func (s Spec) imported(observed Observed) error {
	if s.Import.ID == "" {
		return nil
	}
	exists := false
	for _, n := range observed.Networks {
		if n.ID != s.Import.ID {
			return &BlockedError{fmt.Sprintf("network %s bears the marker %s and is not the imported network %s: take the "+
				"marker off its description", n.ID, s.Owner, s.Import.ID)}
		}
		exists = true
	}
	if !exists {
		return &NotMadeError{s.Import.ID}
	}
	return nil
}

// adoptable reports whether a subnet that bears nobody's marker may be taken over.
func (s Spec) adoptable(subnet ObservedSubnet) bool {
	_, _, marked := ParseDescription(subnet.Description)
	return s.Import.AdoptSubnets && !marked
}

// nameOf is what the name of a resource that exists should be.
func (s Spec) nameOf(actual string) string {
	if s.Import.keepsNames() {
		return actual
	}
	return s.Name
}

// subnetDescription is what a subnet's description should be.
func (s Spec) subnetDescription(actual ObservedSubnet) (string, error) {
	if !s.Import.keepsNames() {
		return s.Owner.Marker(), nil
	}
	want := withMarker(s.Owner, actual.Description)
	if length := utf8.RuneCountInString(want); length > MaxDescription {
		return "", &BlockedError{fmt.Sprintf("with the ownership marker the description of subnet %s (%s) has %d "+
			"characters and Neutron holds %d: shorten it to %d, or allow import.overwrite to replace it",
			actual.ID, actual.CIDR, length, MaxDescription, MaxUserDescription)}
	}
	return want, nil
}

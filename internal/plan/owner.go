package plan

import (
	"errors"
	"fmt"
	"strings"
)

// MaxDescription is the most characters that Neutron holds in a description (its db constant
// LONG_DESCRIPTION_FIELD_SIZE is larger, but standard attributes use DESCRIPTION_FIELD_SIZE, 255).
const MaxDescription = 255

// MaxUserDescription is the most characters that a user's description may have, so that it fits in front of the marker
// with a space between: the marker is 81 characters long where both UIDs are the 36 of a UUID.
const MaxUserDescription = MaxDescription - len(" [owner=/]") - 2*36

const (
	markerPrefix = "[owner="
	markerSuffix = "]"
)

// Owner names the Kubernetes object that a resource in Neutron belongs to. It is written at the end of the resource's
// description, in the request that creates it, so that no crash can leave a resource of ours that does not say so.
type Owner struct {
	// Cluster is the UID of the cluster: that of its namespace kube-system.
	Cluster string
	// Object is the UID of the object.
	Object string
}

// Marker is the owner's mark: [owner=<cluster UID>/<object UID>].
func (o Owner) Marker() string {
	return markerPrefix + o.Cluster + "/" + o.Object + markerSuffix
}

// Describe joins a user's description and the marker, as they stand in Neutron.
func (o Owner) Describe(description string) string {
	if description == "" {
		return o.Marker()
	}
	return description + " " + o.Marker()
}

// ParseDescription splits what Neutron holds into the user's part and the owner. It reports false where the text does
// not end with a well-formed marker; the text is then all the user's. ParseDescription(o.Describe(d)) gives back d and
// o for every d.
func ParseDescription(text string) (description string, owner Owner, ok bool) {
	inner, found := strings.CutSuffix(text, markerSuffix)
	if !found {
		return text, Owner{}, false
	}
	at := strings.LastIndex(inner, markerPrefix)
	if at < 0 {
		return text, Owner{}, false
	}
	cluster, object, found := strings.Cut(inner[at+len(markerPrefix):], "/")
	if !found || !isUID(cluster) || !isUID(object) {
		return text, Owner{}, false
	}
	description = inner[:at]
	if at > 0 {
		// A marker stands alone or behind one space; anything else is a text that happens to end like one.
		if description, found = strings.CutSuffix(description, " "); !found || description == "" {
			return text, Owner{}, false
		}
	}
	return description, Owner{Cluster: cluster, Object: object}, true
}

// Owns reports whether a resource's description ends with this owner's marker.
func (o Owner) Owns(description string) bool {
	_, of, ok := ParseDescription(description)
	return ok && of == o
}

// validate refuses an owner whose marker could not be read back: what bears it would be created again and again.
func (o Owner) validate() error {
	if o.Cluster == "" || o.Object == "" {
		return errors.New("the owner is not known yet")
	}
	if !isUID(o.Cluster) || !isUID(o.Object) {
		return fmt.Errorf("the owner %q is no pair of UIDs, of letters, digits and hyphens", o)
	}
	return nil
}

// isUID reports whether s can be a UID: not empty, and of characters that cannot be taken for the marker's own.
func isUID(s string) bool {
	if s == "" {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-':
		default:
			return false
		}
	}
	return true
}

// String is the marker.
func (o Owner) String() string { return o.Marker() }

var _ fmt.Stringer = Owner{}

// withMarker is a description that bears the owner's marker behind the text that it has.
func withMarker(owner Owner, description string) string {
	if owner.Owns(description) {
		return description
	}
	return owner.Describe(description)
}

// withoutMarkers is the description without any marker at its end.
func withoutMarkers(description string) string {
	for marked := true; marked; {
		description, _, marked = ParseDescription(description)
	}
	return description
}

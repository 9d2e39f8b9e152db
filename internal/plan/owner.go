package plan

import (
	"errors"
	"fmt"
	"strings"
)

// MaxDescription is the maximum number of characters of a description in Neutron. Standard attributes use
// DESCRIPTION_FIELD_SIZE, 255, and not the larger constant LONG_DESCRIPTION_FIELD_SIZE.
const MaxDescription = 255

// MaxUserDescription is the maximum number of characters of a user's description. It leaves room for a space and the
// marker, which has 81 characters if both UIDs are UUIDs of 36.
const MaxUserDescription = MaxDescription - len(" [owner=/]") - 2*36

const (
	markerPrefix = "[owner="
	markerSuffix = "]"
)

// Owner names the Kubernetes object that owns a Neutron resource. The request that creates the resource writes the
// owner at the end of its description. So no crash can leave a resource without its owner.
type Owner struct {
	// Cluster is the UID of the cluster, which is the UID of its namespace kube-system.
	Cluster string
	// Object is the UID of the object.
	Object string
}

// Marker is the text that marks the owner's resources: [owner=<cluster UID>/<object UID>].
func (o Owner) Marker() string {
	return markerPrefix + o.Cluster + "/" + o.Object + markerSuffix
}

// Describe joins a user's description and the marker, as stored in Neutron.
func (o Owner) Describe(description string) string {
	if description == "" {
		return o.Marker()
	}
	return description + " " + o.Marker()
}

// Descriptions are those that a resource without a user's text may have.
func (o Owner) Descriptions() []string {
	return []string{o.describeAs("", ""), o.describeAs(retainWord, "")}
}

// ParseDescription splits a description from Neutron into the user's text and the owner. It returns false and the whole
// text if the text does not end with a well-formed marker. ParseDescription(o.Describe(d)) returns d and o for every d.
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
		// A marker stands alone or after one space. Any other text only looks like a marker.
		if description, found = strings.CutSuffix(description, " "); !found || description == "" {
			return text, Owner{}, false
		}
	}
	return description, Owner{Cluster: cluster, Object: object}, true
}

// Owns reports whether a description ends with this owner's marker.
func (o Owner) Owns(description string) bool {
	_, of, ok := ParseDescription(description)
	return ok && of == o
}

// HandOver is what a description becomes when the owner's resource is given to another one. The text before the marker
// stays, and with it the words that say what the object said. It returns false if the description has not this owner.
func (o Owner) HandOver(description string, to Owner) (string, bool) {
	text, of, ok := ParseDescription(description)
	if !ok || of != o {
		return description, false
	}
	return to.Describe(text), true
}

// validate refuses an owner whose marker cannot be parsed. Its resources would never be found and created again and
// again.
func (o Owner) validate() error {
	if o.Cluster == "" || o.Object == "" {
		return errors.New("the owner is not known yet")
	}
	if !isUID(o.Cluster) || !isUID(o.Object) {
		return fmt.Errorf("the owner %q is no pair of UIDs, of letters, digits and hyphens", o)
	}
	return nil
}

// isUID reports whether s can be a UID: not empty, and without characters that the marker itself uses.
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

func (o Owner) String() string { return o.Marker() }

// Words that may precede a marker. They keep what the object said, for the time when nobody can ask it any more.
const (
	// importedWord says that the network is older than the object. Such an orphan is not deleted.
	importedWord = "[imported]"
	// retainWord says that the object has deletionPolicy Retain. Such an orphan is not deleted.
	retainWord = "[retain]"
	// releasedWord is what is left at the end of the description of a router or a security group that had an owner. See
	// Nameless.
	releasedWord = "[released]"
)

// Nameless reports whether a name must not mean the router or the security group of a description, because it has, or
// had, an owner. Users chose the name, and one of them could take the place of what is meant.
func Nameless(description string) bool {
	_, _, marked := ParseDescription(description)
	return marked || strings.HasSuffix(description, releasedWord)
}

// describeAs is Describe with a word before the marker. If there is no room for the word, the description loses its
// last characters.
func (o Owner) describeAs(word, description string) string {
	if word == "" {
		return o.Describe(description)
	}
	room := MaxDescription - len(o.Describe(word)) - len(" ")
	if text := []rune(description); len(text) > room && room > 0 {
		description = strings.TrimRight(string(text[:room]), " ")
	}
	return o.Describe(strings.TrimPrefix(description+" "+word, " "))
}

// withoutWord removes a word from the end of the text before a marker, and reports whether it was there.
func withoutWord(word, text string) (rest string, found bool) {
	if rest, found = strings.CutSuffix(text, word); !found {
		return text, false
	}
	return strings.TrimSuffix(rest, " "), true
}

// says reports whether a description bears the owner's marker with a word before it.
func (o Owner) says(word, description string) bool {
	text, of, _ := ParseDescription(description)
	_, found := withoutWord(word, text)
	return found && of == o
}

// Imported reports whether a description says that its resource existed before the owner's object.
func (o Owner) Imported(description string) bool { return o.says(importedWord, description) }

// released is what a description becomes when its owner lets go: without markers, and without their words.
func released(description string) string {
	description = withoutMarkers(description)
	description, _ = withoutWord(importedWord, description)
	description, _ = withoutWord(retainWord, description)
	return description
}

// retaining is retainWord if the object's resources stay when it is deleted.
func retaining(retain bool) string {
	if retain {
		return retainWord
	}
	return ""
}

// releasedNameless is released for a router or a security group.
func releasedNameless(description string) string {
	description, _ = withoutWord(releasedWord, released(description))
	return strings.TrimPrefix(description+" "+releasedWord, " ")
}

// withMarker adds the owner's marker to a description that does not have it.
func withMarker(owner Owner, description string) string {
	if owner.Owns(description) {
		return description
	}
	return owner.Describe(description)
}

// withoutMarkers removes all markers from the end of a description.
func withoutMarkers(description string) string {
	for marked := true; marked; {
		description, _, marked = ParseDescription(description)
	}
	return description
}

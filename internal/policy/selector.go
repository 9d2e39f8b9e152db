package policy

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// Selector selects objects by their labels. It keeps its text once, and finds a value among many without a walk through
// them. Make it with SelectorOf.
type Selector struct {
	text         string
	requirements []requirement
	// sum is of the text. The names of groups depend on it, and many Pods are in many of them.
	sum [8]byte
}

// requirement is one about a label. Its strings are parts of the Selector's text.
type requirement struct {
	key string
	// values are those that the label may have, sorted; nil for any.
	values []string
	// not is true if the label must be otherwise, or absent.
	not bool
}

// SelectorOf gives the Selector that selects what another one does, whose requirements MUST be those that a
// metav1.LabelSelector can have.
func SelectorOf(from labels.Selector) *Selector {
	s := &Selector{text: from.String()}
	sum := sha256.Sum256([]byte(s.text))
	copy(s.sum[:], sum[:])
	rest := s.text
	take := func(word string) string {
		at := strings.Index(rest, word)
		word, rest = rest[at:at+len(word)], rest[at+len(word):]
		return word
	}
	requirements, _ := from.Requirements()
	s.requirements = make([]requirement, 0, len(requirements))
	for _, r := range requirements {
		is := requirement{key: take(r.Key())}
		switch r.Operator() {
		case selection.DoesNotExist, selection.NotIn, selection.NotEquals:
			is.not = true
		}
		if values := r.ValuesUnsorted(); len(values) > 0 {
			if r.Operator() == selection.In || r.Operator() == selection.NotIn {
				take("(")
			} else {
				take("=")
			}
			slices.Sort(values) // as they are in the text
			is.values = make([]string, 0, len(values))
			for _, value := range values {
				is.values = append(is.values, take(value))
			}
		}
		s.requirements = append(s.requirements, is)
	}
	return s
}

// String is the text of the selector, as kubectl writes it. Selectors of one text select the same.
func (s *Selector) String() string { return s.text }

// Matches reports whether it selects an object with the labels.
func (s *Selector) Matches(of labels.Labels) bool {
	for _, r := range s.requirements {
		value, is := of.Lookup(r.key)
		if is && r.values != nil {
			_, is = slices.BinarySearch(r.values, value)
		}
		if is == r.not {
			return false
		}
	}
	return true
}

// selectors makes Selectors, each once.
type selectors map[string]*Selector

func (known selectors) of(from *metav1.LabelSelector) (*Selector, error) {
	if n := len(from.MatchLabels) + len(from.MatchExpressions); n > maxRequirements {
		return nil, fmt.Errorf("it has %d requirements, more than %d: write fewer labels and expressions", n, maxRequirements)
	}
	s, err := metav1.LabelSelectorAsSelector(from)
	if err != nil {
		return nil, err
	}
	made := SelectorOf(s)
	if has, ok := known[made.text]; ok {
		return has, nil
	}
	known[made.text] = made
	return made, nil
}

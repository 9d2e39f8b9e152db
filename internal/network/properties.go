package network

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxName is the most characters that Neutron holds in a name, and in a tag (neutron_lib.db.constants NAME_FIELD_SIZE,
// neutron.extensions.tagging MAX_TAG_LEN).
const MaxName = 255

// maxDomain is the most characters of a DNS domain that leave room for a name in it (neutron_lib.api.validators.dns).
const maxDomain = 253

// domainPattern and numericTop are Neutron's rule for a DNS domain (neutron_lib.api.validators.dns): labels after RFC
// 1123, of which the last is not of digits alone where it is not the only one.
var (
	domainPattern = regexp.MustCompile(`^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?[.])+$`)
	numericTop    = regexp.MustCompile(`[.][0-9]+[.]$`)
)

// validateProperties reports, as FieldErrors, what of a network's own settings could not be applied.
func (s Spec) validateProperties() (errs []error) {
	if problem := noText(s.Name); problem != "" {
		errs = append(errs, &FieldError{"networkName", problem})
	}
	if s.DNSDomain != nil && *s.DNSDomain != "" && (len(*s.DNSDomain) > maxDomain ||
		!domainPattern.MatchString(*s.DNSDomain) || numericTop.MatchString(*s.DNSDomain)) {
		errs = append(errs, &FieldError{FieldDNSDomain, fmt.Sprintf("%q is no DNS domain: write one such as %q, or %q",
			*s.DNSDomain, "example.org.", None)})
	}
	for i, tag := range s.Tags {
		field := fmt.Sprintf("%s[%d]", FieldTags, i)
		if problem := noText(tag); problem != "" {
			errs = append(errs, &FieldError{field, problem})
		} else if slices.Contains(s.Tags[:i], tag) {
			errs = append(errs, &FieldError{field, fmt.Sprintf("%q stands twice: write it once", tag)})
		}
	}
	return errs
}

// noText says why a text cannot be a name or a tag, and what to write instead, or nothing where it can.
func noText(text string) string {
	switch length := utf8.RuneCountInString(text); {
	case text == "":
		return fmt.Sprintf("it is empty: write 1 to %d characters", MaxName)
	case length > MaxName:
		return fmt.Sprintf("it has %d characters: write at most %d", length, MaxName)
	case !utf8.ValidString(text):
		return "it is not UTF-8: write it anew"
	}
	return ""
}

// propertyDifferences lists the settings that are left as they are where the spec does not set them, and in which the
// network differs from it. Those of the wanted attributes that are unset are left out.
func propertyDifferences(want, actual Attributes) (diffs []Difference) {
	add := func(field, declared, got string) {
		diffs = append(diffs, Difference{NetworkResource, field, declared, got})
	}
	if want.MTU != 0 && want.MTU != actual.MTU {
		add(FieldMTU, strconv.Itoa(want.MTU), strconv.Itoa(actual.MTU))
	}
	if want.PortSecurity != nil && !same(want.PortSecurity, actual.PortSecurity) {
		add(FieldPortSecurity, strconv.FormatBool(*want.PortSecurity), orUnsupported(actual.PortSecurity))
	}
	// A cloud without DNS has no domain.
	if want.DNSDomain != nil && !same(want.DNSDomain, actual.DNSDomain) && (*want.DNSDomain != "" || actual.DNSDomain != nil) {
		got := unsupported
		if actual.DNSDomain != nil {
			got = quoted(*actual.DNSDomain)
		}
		add(FieldDNSDomain, quoted(*want.DNSDomain), got)
	}
	return diffs
}

// tagNetwork is the step that gives a network its tags. id is empty where a step before creates the network.
func tagNetwork(id string, want, actual []string) (step Step, needed bool) {
	if want == nil || slices.Equal(want, actual) {
		return Step{}, false
	}
	return Step{
		Action: TagNetwork, ID: id, Attributes: Attributes{Tags: want}, Reason: reasonDiffers,
		Differences: []Difference{{NetworkResource, FieldTags, quotedAll(want), quotedAll(actual)}},
	}, true
}

// unsupported is how a setting is written that the cloud does not have.
const unsupported = "unsupported"

func orUnsupported(b *bool) string {
	if b == nil {
		return unsupported
	}
	return strconv.FormatBool(*b)
}

// same reports whether both are set, to the same.
func same[T comparable](a, b *T) bool { return a != nil && b != nil && *a == *b }

// quoted is a text as a Difference has it; an empty one is none.
func quoted(text string) string {
	if text == "" {
		return None
	}
	return strconv.Quote(text)
}

func quotedAll(texts []string) string {
	if len(texts) == 0 {
		return None
	}
	all := make([]string, len(texts))
	for i, text := range texts {
		all[i] = strconv.Quote(text)
	}
	return strings.Join(all, ", ")
}

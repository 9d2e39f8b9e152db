package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// None is the text for an absent gateway or an empty list.
const None = "none"

// Field names, as in the user's spec. A Difference carries one, and an update sends only these fields.
const (
	FieldExists          = "exists"
	FieldName            = "name"
	FieldDescription     = "description"
	FieldAdminState      = "adminState"
	FieldMTU             = "mtu"
	FieldPortSecurity    = "portSecurity"
	FieldGateway         = "gateway"
	FieldAllocationPools = "allocationPools"
	FieldDHCP            = "dhcp"
	FieldDNSServers      = "dnsServers"
	FieldHostRoutes      = "hostRoutes"
	FieldDNSDomain       = "dnsDomain"
	FieldTags            = "tags"
	FieldQoSPolicy       = "qosPolicy"
	FieldSharedWith      = "sharedWith"
	FieldShared          = "shared"
	FieldExternal        = "external"
	FieldNetworkType     = "provider.networkType"
	FieldPhysicalNetwork = "provider.physicalNetwork"
	FieldSegmentationID  = "provider.segmentationID"
	FieldZoneHints       = "availabilityZoneHints"
	// FieldDeletionPolicy is the word in a description that says that the resource is retained. It is no drift.
	FieldDeletionPolicy = "deletionPolicy"
)

// Difference is one field in which the observed state differs from the spec.
type Difference struct {
	// Resource is "network", "port", "router", "subnet" with its CIDR or its pool, or "router interface" with its
	// addresses.
	Resource string
	// Field is one of the Field constants.
	Field string
	// Declared and Actual are the values in readable form. Free texts are quoted as in Go, because anybody may write
	// them in Neutron. Quoted texts cannot break a line or send control codes to a terminal.
	Declared, Actual string
}

// SameDeclared reports whether two differences are from one declared value.
func (d Difference) SameDeclared(other Difference) bool {
	d.Actual = other.Actual
	return d == other
}

// String describes the difference for users.
func (d Difference) String() string {
	if d.Field == FieldExists {
		if d.Actual == None {
			return d.Resource + " does not exist"
		}
		return d.Resource + " " + d.Actual + " is not declared"
	}
	return fmt.Sprintf("%s %s is %s, declared %s", d.Resource, d.Field, d.Actual, d.Declared)
}

const reasonDiffers = "it differs from the spec"

// existence is the difference of a resource that has to be created.
func existence(resource, declared string) Difference {
	return Difference{Resource: resource, Field: FieldExists, Declared: declared, Actual: None}
}

// surplus is the difference of a resource that has to be deleted.
func surplus(resource, id string) Difference {
	return Difference{Resource: resource, Field: FieldExists, Declared: None, Actual: id}
}

// differences collects the differences of one resource.
type differences struct {
	resource string
	found    []Difference
}

func (d *differences) add(field, declared, actual string) {
	d.found = append(d.found, Difference{d.resource, field, declared, actual})
}

// compare adds a difference if the texts of the two values differ.
func (d *differences) compare(field, declared, actual string) {
	if declared != actual {
		d.add(field, declared, actual)
	}
}

// flag compares a setting that is left to the cloud if it is not declared. unknown is the text for an actual value that
// is not known.
func (d *differences) flag(field string, declared, actual *bool, unknown string) {
	switch {
	case declared == nil:
	case actual == nil:
		d.compare(field, strconv.FormatBool(*declared), unknown)
	default:
		d.compare(field, strconv.FormatBool(*declared), strconv.FormatBool(*actual))
	}
}

// describe is the difference of a resource's description. It is empty if there is none. Its texts omit a marker that
// both have.
func describe(resource, declared, actual string) []Difference {
	want, owner, _ := ParseDescription(declared)
	got, of, _ := ParseDescription(actual)
	d := differences{resource: resource}
	if owner != of {
		want, got = declared, actual
	} else if is, was := wordless(want), wordless(got); want != got && is == was {
		d.add(FieldDeletionPolicy, policyIn(want), policyIn(got))
		return d.found
	}
	d.compare(FieldDescription, strconv.Quote(want), strconv.Quote(got))
	return d.found
}

// wordless is the text before a marker without retainWord.
func wordless(text string) string {
	text, _ = withoutWord(retainWord, text)
	return text
}

// policyIn is the deletionPolicy that the text before a marker says.
func policyIn(text string) string {
	if _, retain := withoutWord(retainWord, text); retain {
		return "Retain"
	}
	return "Delete"
}

func (d *differences) basics(declared, actual basics) {
	d.compare(FieldName, strconv.Quote(declared.name), strconv.Quote(actual.name))
	d.found = append(d.found, describe(d.resource, declared.description, actual.description)...)
	d.compare(FieldAdminState, upDown(declared.up), upDown(actual.up))
}

// basics are the settings that all kinds have. Subnets cannot be switched off.
type basics struct {
	name, description string
	up                bool
}

// FieldError is a declared value that makes a plan impossible. The API server refuses most such values. The others are
// older than the API server's rule, or depend on the state of the cloud.
type FieldError struct {
	// Field is the name of the field, as in the user's spec: cidr, allocationPools[0].start.
	Field string
	// Problem says what is wrong and what to write instead.
	Problem string
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Problem }

// BlockedError says that a resource which the owner does not own prevents the plan.
type BlockedError struct {
	// Message names the resource and the remedy.
	Message string
}

func (e *BlockedError) Error() string { return e.Message }

func upDown(up bool) string {
	if up {
		return "up"
	}
	return "down"
}

// quoted formats a text for a Difference. An empty text becomes None.
func quoted(text string) string {
	if text == "" {
		return None
	}
	return strconv.Quote(text)
}

func quotedAll(texts []string) string {
	all := make([]string, len(texts))
	for i, text := range texts {
		all[i] = strconv.Quote(text)
	}
	return listTexts(all)
}

// join formats a list with commas, or as "none".
func join[T fmt.Stringer](items []T) string {
	texts := make([]string, len(items))
	for i, item := range items {
		texts[i] = item.String()
	}
	return listTexts(texts)
}

func listTexts(texts []string) string {
	if len(texts) == 0 {
		return None
	}
	return strings.Join(texts, ", ")
}

// asSet returns the texts sorted and without duplicates.
func asSet(texts []string) []string { return slices.Compact(slices.Sorted(slices.Values(texts))) }

// hidden is the text for a setting that the credentials may not see.
const hidden = "not shown"

// unsupported is the text for a setting that the cloud does not have.
const unsupported = "unsupported"

func orEmpty(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

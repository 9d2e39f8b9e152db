package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// None is how an absent gateway or an empty list is written.
const None = "none"

// Names of fields, as the user writes them in a spec. A Difference carries them, and an update sends just them.
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
)

// Difference is one field in which what is differs from what is declared.
type Difference struct {
	// Resource is "network", "port", "router", "subnet" and its CIDR or the pool that this is to come from, or "router
	// interface" and its addresses.
	Resource string
	// Field is one of the Field constants.
	Field string
	// Declared and Actual are the values as a person writes them. Texts, which anybody may have written in Neutron, are
	// quoted as in Go, so that they cannot break a line or command a terminal.
	Declared, Actual string
}

// String is the difference for a person.
func (d Difference) String() string {
	if d.Field == FieldExists {
		if d.Actual == None {
			return d.Resource + " does not exist"
		}
		return d.Resource + " " + d.Actual + " is not declared"
	}
	return fmt.Sprintf("%s %s is %s, declared %s", d.Resource, d.Field, d.Actual, d.Declared)
}

const reasonDiffers = "it differs from what is declared"

// basics are the settings that networks, ports and routers have alike.
type basics struct {
	name, description string
	up                bool
}

// differences lists in which settings of a resource what is declared differs from what is.
func (s basics) differences(resource string, actual basics) (diffs []Difference) {
	add := func(field, declared, got string) {
		diffs = append(diffs, Difference{resource, field, declared, got})
	}
	if s.name != actual.name {
		add(FieldName, strconv.Quote(s.name), strconv.Quote(actual.name))
	}
	if s.description != actual.description {
		// The marker is the same on both sides (the plan has seen to that), so it is left out.
		want, _, _ := ParseDescription(s.description)
		got, _, _ := ParseDescription(actual.description)
		add(FieldDescription, strconv.Quote(want), strconv.Quote(got))
	}
	if s.up != actual.up {
		add(FieldAdminState, upDown(s.up), upDown(actual.up))
	}
	return diffs
}

// unmark is the difference that is settled when a description loses its markers.
func unmark(resource, description, without string) Difference {
	return Difference{
		Resource: resource, Field: FieldDescription,
		Declared: strconv.Quote(without), Actual: strconv.Quote(description),
	}
}

// FieldError is a declared value that cannot be planned with. The API server refuses most of them already; others came
// before it had the rule, or follow from what the cloud has.
type FieldError struct {
	// Field is the name of the field, as the user writes it: cidr, allocationPools[0].start.
	Field string
	// Problem says what is wrong and what to write instead.
	Problem string
}

// Error is the field and the problem.
func (e *FieldError) Error() string { return e.Field + ": " + e.Problem }

// BlockedError says that something which is not ours stands in the way.
type BlockedError struct {
	// Message names it and says what to do.
	Message string
}

// Error is the message.
func (e *BlockedError) Error() string { return e.Message }

func upDown(up bool) string {
	if up {
		return "up"
	}
	return "down"
}

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

// join prints a list as the user would say it: items with commas, or "none".
func join[T fmt.Stringer](items []T) string {
	if len(items) == 0 {
		return None
	}
	texts := make([]string, len(items))
	for i, item := range items {
		texts[i] = item.String()
	}
	return strings.Join(texts, ", ")
}

func listTexts(texts []string) string {
	if len(texts) == 0 {
		return None
	}
	return strings.Join(texts, ", ")
}

// asSet is the texts in their order, each once.
func asSet(texts []string) []string { return slices.Compact(slices.Sorted(slices.Values(texts))) }

// hidden is how a setting is written that the credentials may not see.
const hidden = "not shown"

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

func orEmpty(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

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

const reasonDiffers = "it differs from what is declared"

// basics are the settings that networks, ports and routers have in common.
type basics struct {
	name, description string
	up                bool
}

// differences lists the settings in which a resource differs from the spec.
func (s basics) differences(resource string, actual basics) (diffs []Difference) {
	add := func(field, declared, got string) {
		diffs = append(diffs, Difference{resource, field, declared, got})
	}
	if s.name != actual.name {
		add(FieldName, strconv.Quote(s.name), strconv.Quote(actual.name))
	}
	if s.description != actual.description {
		// The marker is equal on both sides, which the plan has checked, so the texts omit it.
		want, _, _ := ParseDescription(s.description)
		got, _, _ := ParseDescription(actual.description)
		add(FieldDescription, strconv.Quote(want), strconv.Quote(got))
	}
	if s.up != actual.up {
		add(FieldAdminState, upDown(s.up), upDown(actual.up))
	}
	return diffs
}

// unmark is the difference that a removed marker settles.
func unmark(resource, description, without string) Difference {
	return Difference{
		Resource: resource, Field: FieldDescription,
		Declared: strconv.Quote(without), Actual: strconv.Quote(description),
	}
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
	if len(texts) == 0 {
		return None
	}
	all := make([]string, len(texts))
	for i, text := range texts {
		all[i] = strconv.Quote(text)
	}
	return strings.Join(all, ", ")
}

// join formats a list with commas, or as "none".
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

// asSet returns the texts sorted and without duplicates.
func asSet(texts []string) []string { return slices.Compact(slices.Sorted(slices.Values(texts))) }

// hidden is the text for a setting that the credentials may not see.
const hidden = "not shown"

// unsupported is the text for a setting that the cloud does not have.
const unsupported = "unsupported"

func orUnsupported(b *bool) string {
	if b == nil {
		return unsupported
	}
	return strconv.FormatBool(*b)
}

// same reports whether both are set and equal.
func same[T comparable](a, b *T) bool { return a != nil && b != nil && *a == *b }

func orEmpty(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

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
	if want.DNSDomain != nil && !same(want.DNSDomain, actual.DNSDomain) {
		if actual.DNSDomain != nil {
			add(FieldDNSDomain, quoted(*want.DNSDomain), quoted(*actual.DNSDomain))
		} else if *want.DNSDomain != "" { // a cloud without DNS has no domain
			add(FieldDNSDomain, quoted(*want.DNSDomain), unsupported)
		}
	}
	if want.QoSPolicy != nil && *want.QoSPolicy != orEmpty(actual.QoSPolicy) {
		add(FieldQoSPolicy, quoted(*want.QoSPolicy), quoted(orEmpty(actual.QoSPolicy)))
	}
	if want.Shared != nil && !same(want.Shared, actual.Shared) {
		add(FieldShared, strconv.FormatBool(*want.Shared), orUnsupported(actual.Shared))
	}
	if want.External != nil && !same(want.External, actual.External) {
		add(FieldExternal, strconv.FormatBool(*want.External), orUnsupported(actual.External))
	}
	if p, is := want.Provider, actual.Provider; p != is {
		if p.NetworkType != "" && p.NetworkType != is.NetworkType {
			add(FieldNetworkType, p.NetworkType, orHidden(is, is.NetworkType))
		}
		if p.PhysicalNetwork != "" && p.PhysicalNetwork != is.PhysicalNetwork {
			add(FieldPhysicalNetwork, quoted(p.PhysicalNetwork), orHidden(is, quoted(is.PhysicalNetwork)))
		}
		if p.SegmentationID != 0 && p.SegmentationID != is.SegmentationID {
			add(FieldSegmentationID, fmt.Sprint(p.SegmentationID), orHidden(is, fmt.Sprint(is.SegmentationID)))
		}
	}
	if len(want.ZoneHints) > 0 && !slices.Equal(want.ZoneHints, actual.ZoneHints) {
		add(FieldZoneHints, quotedAll(want.ZoneHints), quotedAll(actual.ZoneHints))
	}
	return diffs
}

// privileged are the fields that Neutron's default policy lets an administrator alone set (neutron.conf.policies, of
// networks, of ports and of routers).
var privileged = []string{
	FieldShared, FieldExternal, FieldNetworkType, FieldPhysicalNetwork, FieldSegmentationID, FieldMAC,
	FieldSNAT, FieldExternalIP, FieldHA, FieldDistributed,
}

// Privileged are the fields among those that the step sends that Neutron's default policy lets an administrator alone
// set.
func (s Step) Privileged() (fields []string) {
	a, r := s.Attributes, s.Router
	var sent map[string]bool
	switch s.Action {
	case CreateNetwork:
		sent = map[string]bool{
			FieldShared: a.Shared != nil && *a.Shared, FieldExternal: a.External != nil && *a.External,
			FieldNetworkType: a.Provider.NetworkType != "", FieldPhysicalNetwork: a.Provider.PhysicalNetwork != "",
			FieldSegmentationID: a.Provider.SegmentationID != 0,
		}
	case CreateRouter, UpdateGateway:
		sent = map[string]bool{
			FieldSNAT: r.Gateway.SNAT != nil, FieldExternalIP: len(r.Gateway.Addresses) > 0,
			FieldHA: s.Action.Creates() && r.HA != nil, FieldDistributed: s.Action.Creates() && r.Distributed != nil,
		}
	}
	for _, field := range privileged {
		if sent[field] || !s.Action.Creates() && s.Changes(field) {
			fields = append(fields, field)
		}
	}
	return fields
}

// hidden is how a setting is written that the credentials may not see.
const hidden = "not shown"

func orHidden(p Provider, text string) string {
	if p == (Provider{}) {
		return hidden
	}
	return text
}

// tagNetwork is the step that gives a network its tags.
func tagNetwork(network Ref, want, actual []string) (step Step, needed bool) {
	if want == nil || slices.Equal(want, actual) {
		return Step{}, false
	}
	return Step{
		Action: TagNetwork, Ref: network, Attributes: Attributes{Tags: want}, Reason: reasonDiffers,
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

func orEmpty(text *string) string {
	if text == nil {
		return ""
	}
	return *text
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

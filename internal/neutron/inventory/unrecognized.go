package inventory

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// unrecognized is how Neutron refuses attributes that it does not know, in any order (verify_attributes in
// neutron_lib/api/attributes.py). As a rule it lacks an extension.
var unrecognized = regexp.MustCompile(`^Unrecognized attribute\(s\) '([^']*)'$`)

// extensionFields are the fields of a spec whose attributes an extension brings, by these.
var extensionFields = map[string]string{
	"availability_zone_hints":   plan.FieldZoneHints,
	"distributed":               plan.FieldDistributed,
	"dns_domain":                plan.FieldDNSDomain,
	"dns_publish_fixed_ip":      plan.FieldDNSPublishFixedIP,
	"ha":                        plan.FieldHA,
	"port_security_enabled":     plan.FieldPortSecurity,
	"provider:network_type":     plan.FieldNetworkType,
	"provider:physical_network": plan.FieldPhysicalNetwork,
	"provider:segmentation_id":  plan.FieldSegmentationID,
	"qos_policy_id":             plan.FieldQoSPolicy,
	"router:external":           plan.FieldExternal,
	"security_groups":           plan.FieldSecurityGroups,
	"service_types":             plan.FieldServiceTypes,
}

// namingFields is a refusal of a write, with the names that a spec has for attributes which Neutron does not know.
func namingFields(err error) error {
	refusal, ok := errors.AsType[*client.Error](err)
	if !ok || !unrecognized.MatchString(refusal.Reason) {
		return err
	}
	named := *refusal // others may have been told the same
	named.Reason = reasonNamingFields(refusal.Reason)
	return &named
}

// reasonNamingFields is a refusal's reason with the names that a spec has for attributes which Neutron does not know.
func reasonNamingFields(reason string) string {
	found := unrecognized.FindStringSubmatch(reason)
	if found == nil {
		return reason
	}
	attributes := strings.Split(found[1], ", ")
	slices.Sort(attributes)
	var fields []string
	for _, attribute := range attributes {
		if field, ok := extensionFields[attribute]; ok {
			fields = append(fields, field)
		}
	}
	text := fmt.Sprintf("Unrecognized attribute(s) '%s'", strings.Join(attributes, ", "))
	if len(fields) == 0 {
		return text
	}
	return fmt.Sprintf("%s: this cloud does not have what %s takes, so leave that out", text, strings.Join(fields, ", "))
}

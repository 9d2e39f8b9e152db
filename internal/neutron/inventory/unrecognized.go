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

// unrecognized matches Neutron's refusal of attributes that it does not know, in any order (verify_attributes in
// neutron_lib/api/attributes.py). Normally the cloud lacks an extension.
var unrecognized = regexp.MustCompile(`^Unrecognized attribute\(s\) '([^']*)'$`)

// extensionFields maps attributes that an extension adds to fields of a spec.
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

// namingFields adds to a refusal the spec's names of attributes that Neutron does not know.
func namingFields(err error) error {
	refusal, ok := errors.AsType[*client.Error](err)
	if !ok || !unrecognized.MatchString(refusal.Reason) {
		return err
	}
	named := *refusal // other callers may have the same error
	named.Reason = reasonNamingFields(refusal.Reason)
	return &named
}

// reasonNamingFields is namingFields for a refusal's reason.
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

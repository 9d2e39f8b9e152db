package neutron

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"cloudteam.ztgame.com/network-controller/internal/network"
)

// unrecognized is how Neutron refuses attributes that it does not know, in any order (verify_attributes in
// neutron_lib/api/attributes.py). As a rule it lacks an extension.
var unrecognized = regexp.MustCompile(`^Unrecognized attribute\(s\) '([^']*)'$`)

// extensionFields are the fields of a spec whose attributes an extension brings, by these.
var extensionFields = map[string]string{
	"availability_zone_hints":   network.FieldZoneHints,
	"distributed":               network.FieldDistributed,
	"dns_domain":                network.FieldDNSDomain,
	"dns_publish_fixed_ip":      network.FieldDNSPublishFixedIP,
	"ha":                        network.FieldHA,
	"port_security_enabled":     network.FieldPortSecurity,
	"provider:network_type":     network.FieldNetworkType,
	"provider:physical_network": network.FieldPhysicalNetwork,
	"provider:segmentation_id":  network.FieldSegmentationID,
	"qos_policy_id":             network.FieldQoSPolicy,
	"router:external":           network.FieldExternal,
	"security_groups":           network.FieldSecurityGroups,
	"service_types":             network.FieldServiceTypes,
}

// namingFields is a refusal's reason with the names that a spec has for attributes which Neutron does not know.
func namingFields(reason string) string {
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

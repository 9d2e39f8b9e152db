package plan

import "slices"

// Names of the fields of a subnet that say whom it serves, and who learns of it.
const (
	FieldServiceTypes      = "serviceTypes"
	FieldDNSPublishFixedIP = "dnsPublishFixedIP"
)

// canonicalServiceTypes are the same, sorted. It writes to a copy.
func canonicalServiceTypes(owners []string) []string {
	switch {
	case len(owners) == 0:
		return nil
	case slices.IsSorted(owners):
		return owners
	default:
		return slices.Sorted(slices.Values(owners))
	}
}

// Serves reports whether Neutron gives addresses of a subnet of these service types to a port of the device owner
// (SubnetServiceType.query_filter_service_subnets in neutron/objects/subnet.py; the contract suite holds it).
func Serves(serviceTypes []string, deviceOwner string) bool {
	return len(serviceTypes) == 0 || slices.Contains(serviceTypes, deviceOwner)
}

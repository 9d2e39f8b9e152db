package plan

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Names of the fields of a subnet that say whom it serves, and who learns of it.
const (
	FieldServiceTypes      = "serviceTypes"
	FieldDNSPublishFixedIP = "dnsPublishFixedIP"
)

// maxServiceType is the most characters of a device owner (DEVICE_OWNER_FIELD_SIZE in neutron_lib/db/constants.py).
const maxServiceType = 255

// serviceTypePrefixes begin the device owners that Neutron knows (DEVICE_OWNER_PREFIXES and its neighbours in
// neutron_lib/constants.py). It takes any text that begins with a letter of "compute:", by an oversight
// (validate_subnet_service_types in neutron_lib/api/validators), and no port has such an owner.
var serviceTypePrefixes = []string{"compute:", "network:", "neutron:", "baremetal:"}

// validateServiceTypes refuses what is no device owner.
func (s Subnet) validateServiceTypes(refuse func(field, format string, args ...any)) {
	for i, owner := range s.ServiceTypes {
		field := fmt.Sprintf("%s[%d]", FieldServiceTypes, i)
		begins := func(prefix string) bool { return strings.HasPrefix(owner, prefix) }
		switch {
		case !slices.ContainsFunc(serviceTypePrefixes, begins):
			refuse(field, "%q is no device owner: write one that begins with %s, such as compute:nova",
				owner, strings.Join(serviceTypePrefixes, " or "))
		case utf8.RuneCountInString(owner) > maxServiceType || !utf8.ValidString(owner):
			refuse(field, "%q cannot be held by Neutron: write at most %d characters", owner, maxServiceType)
		case slices.Contains(s.ServiceTypes[:i], owner):
			refuse(field, "%q stands twice: write it once", owner)
		}
	}
}

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

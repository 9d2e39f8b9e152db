package network

import (
	"errors"
	"strings"
	"testing"
)

// A subnet that others have made, and its ports with it, is not deleted because its Network declares other modes.
func TestAnImportedSubnetOfOtherModesIsNotReplaced(t *testing.T) {
	spec := specWith(func(s *Spec) {
		s.Import = Import{ID: "net-1", Overwrite: true}
		s.Subnets = []Subnet{{CIDR: prefix("fd00::/64"), DHCP: true, IPv6RAMode: SLAAC}}
	})
	observed := observedWith(func(n *ObservedNetwork) {
		n.Subnets[0].Subnet = Subnet{CIDR: prefix("fd00::/64"), DHCP: true, IPv6RAMode: DHCPv6Stateful}
	})
	change, err := Plan(spec, observed)
	var blocked *BlockedError
	if !errors.As(err, &blocked) || !strings.Contains(err.Error(), "ipv6RAMode is dhcpv6-stateful and cannot change") {
		t.Errorf("got %v and the plan\n%s", err, change)
	}
}

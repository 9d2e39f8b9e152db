package plan

import (
	"errors"
	"strings"
	"testing"
)

func TestDespiteLeavesOutWhatNeedsThePlaceOfASubnet(t *testing.T) {
	refused := Step{Action: DeleteSubnet, ID: "sub-1", Subnet: Subnet{CIDR: prefix("10.0.0.0/24")}}
	at := func(action Action, address string) Step {
		return Step{Action: action, Port: PortAttributes{Addresses: []PortAddress{{Address: addr(address)}}}}
	}
	create := func(cidr string) Step { return Step{Action: CreateSubnet, Subnet: Subnet{CIDR: prefix(cidr)}} }
	change := Change{
		refused, {Action: DeleteSubnet, ID: "sub-2"}, create("10.0.0.0/25"), create("10.0.1.0/24"),
		at(CreateInterface, "10.0.0.1"), at(AttachInterface, "10.0.0.1"),
		at(CreateInterface, "10.0.1.1"), at(AttachInterface, "10.0.1.1"),
	}
	want := Change{change[1], change[3], change[6], change[7]}
	if got := change.Despite(refused); got.String() != want.String() {
		t.Errorf("left is\n%s\nwant\n%s", got, want)
	}
}

// A subnet that others have made, and its ports with it, is not deleted because its Network declares other modes.
func TestAnImportedSubnetOfOtherModesIsNotReplaced(t *testing.T) {
	spec := specWith(func(s *Spec) {
		s.Import = Import{ID: "net-1", Overwrite: true}
		s.Subnets = []Subnet{{CIDR: prefix("fd00::/64"), DHCP: true, IPv6RAMode: SLAAC}}
	})
	observed := observedWith(func(n *ObservedNetwork) {
		n.Subnets[0].Subnet = Subnet{CIDR: prefix("fd00::/64"), DHCP: true, IPv6RAMode: DHCPv6Stateful}
	})
	change, err := Network(spec, observed)
	var blocked *BlockedError
	if !errors.As(err, &blocked) || !strings.Contains(err.Error(), "ipv6RAMode is dhcpv6-stateful and cannot change") {
		t.Errorf("got %v and the plan\n%s", err, change)
	}
}

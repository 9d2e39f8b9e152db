package plan_test

import (
	"errors"
	"strings"
	"testing"

	. "cloudteam.ztgame.com/network-controller/internal/plan"
)

func TestDespiteLeavesOutWhatNeedsThePlaceOfASubnet(t *testing.T) {
	refused := Step{Action: DeleteSubnet, Ref: Ref{ID: "sub-1"}, Subnet: Subnet{CIDR: prefix("10.0.0.0/24")}}
	create := func(cidr string) Step { return Step{Action: CreateSubnet, Subnet: Subnet{CIDR: prefix(cidr)}} }
	on := func(subnet int, address string) Step {
		return Step{
			Action: CreateInterface, SubnetRefs: []Ref{{Creator: subnet}},
			Port: PortAttributes{Addresses: []PortAddress{{Address: addr(address)}}},
		}
	}
	attach := func(port int) Step { return Step{Action: AttachInterface, Ref: Ref{Creator: port}} }
	change := Change{
		refused, {Action: DeleteSubnet, Ref: Ref{ID: "sub-2"}}, create("10.0.0.0/25"), create("10.0.1.0/24"),
		on(3, "10.0.0.1"), attach(5), on(4, "10.0.1.1"), attach(7),
	}
	want := Change{change[1], change[3], on(2, "10.0.1.1"), attach(3)}
	wantEqual(t, want, change.Despite(nil), "what is left")
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
	if !errors.As(err, &blocked) || !strings.Contains(err.Error(), "network net-1 is dhcpv6-stateful, which cannot change") {
		t.Errorf("got %v and the plan\n%s", err, change)
	}
}

package integration

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// fieldsThatDrift are the fields in which a plan finds what exists other than declared, but for existence.
func fieldsThatDrift(t *testing.T, change plan.Change, err error) []string {
	t.Helper()
	expect.NoError(t, err)
	var fields []string
	for _, d := range change.Differences() {
		if d.Field != plan.FieldExists && !slices.Contains(fields, d.Field) {
			fields = append(fields, d.Field)
		}
	}
	return fields
}

func TestEveryFieldThatDriftsCanBeIgnored(t *testing.T) {
	owner := plan.Owner{Cluster: "c1", Object: "uid-1"}
	namespace := newNamespace(t)

	cidr := netip.MustParsePrefix("10.0.0.0/24")
	address := netip.MustParseAddr("10.0.0.9")
	declared := plan.Subnet{
		CIDR: cidr, Gateway: netip.MustParseAddr("10.0.0.1"), DHCP: true,
		Pools:        []plan.Range{{Start: address, End: address}},
		DNSServers:   []netip.Addr{address},
		HostRoutes:   []plan.Route{{Destination: netip.MustParsePrefix("10.9.0.0/16"), NextHop: address}},
		ServiceTypes: []string{"compute:nova"}, DNSPublishFixedIP: true,
	}
	change, err := plan.Network(
		plan.Spec{
			Owner: owner, Name: "a", MTU: 1400, PortSecurity: new(true), QoSPolicy: new("q"), SharedWith: []string{"p"},
			Subnets: []plan.Subnet{declared},
		},
		plan.Observed{Networks: []plan.ObservedNetwork{{
			Attributes: plan.Attributes{Description: owner.Describe("other")},
			Subnets:    []plan.ObservedSubnet{{Description: owner.Describe("other"), Subnet: plan.Subnet{CIDR: cidr}}},
		}}})
	fields := fieldsThatDrift(t, change, err)
	spec := `{cidr: 192.168.0.0/16, ignoreDrift: [` + strings.Join(fields, ", ") + `]}`
	if _, err := tryCreate(t.Context(), networks, namespace, networkWith(t, spec)); err != nil || len(fields) < 10 {
		t.Errorf("%s: %v", spec, err)
	}

	change, err = plan.Port(
		plan.PortSpec{
			Owner: owner, Name: "a", NetworkID: "n", MAC: "fa:16:3e:00:00:01", SecurityGroups: []string{"g"},
			Addresses: []plan.PortAddress{{SubnetID: "s", Address: address}},
		},
		plan.Observed{Ports: []plan.ObservedPort{{
			NetworkID: "n", PortAttributes: plan.PortAttributes{Description: owner.Describe("other")},
		}}})
	// What uses a port has its address and MAC.
	fields = slices.DeleteFunc(fieldsThatDrift(t, change, err), func(f string) bool {
		return f == plan.FieldAddresses || f == plan.FieldMAC
	})
	spec = `{networkName: a, ignoreDrift: [` + strings.Join(fields, ", ") + `]}`
	if _, err := tryCreate(t.Context(), networkPorts, namespace, networkPortWith(t, spec)); err != nil || len(fields) < 4 {
		t.Errorf("%s: %v", spec, err)
	}
}

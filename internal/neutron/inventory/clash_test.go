package inventory

import (
	"net/netip"
	"strings"
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// The other subnet on a router may be another namespace's: the message names only the own one.
func TestASubnetThatOverlapsOnASharedRouterIsNamedWithoutTheOther(t *testing.T) {
	e := newEmulated(t, Options{Ports: true})
	spec := e.routedSpec()
	spec.Router.Routes = nil
	e.apply(plan.Network(spec, e.observed()))
	router := e.observed().Routers[0].ID

	e.owner.Object = "another"
	own := plan.Subnet{CIDR: netip.MustParsePrefix("10.0.0.0/16"), DHCP: true}
	own.Gateway = netip.MustParseAddr("10.0.9.1")
	own.Pools = plan.DefaultPools(own.CIDR, own.Gateway)
	change, err := plan.Network(plan.Spec{
		Owner: e.owner, Name: "mine", Subnets: []plan.Subnet{own}, Router: &plan.RouterSpec{Existing: router},
	}, e.observed())
	expect.NoError(t, err)
	_, err = e.Apply(t.Context(), change)
	want := `subnet 10.0.0.0/16 of network "mine" overlaps a subnet of another network, which is on router ` + router
	if !client.IsKind(err, client.Invalid) || !strings.Contains(err.Error(), want) ||
		strings.Contains(err.Error(), "10.0.0.0/24") {
		t.Errorf("the refusal is %v, want %s", err, want)
	}
}

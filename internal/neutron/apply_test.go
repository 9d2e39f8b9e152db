package neutron

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/network"
	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
)

// emulated is an Inventory of a cloud that answers as the real one does.
type emulated struct {
	*Inventory
	t      *testing.T
	owner  network.Owner
	server *neutrontest.Server
}

func newEmulated(t *testing.T, options InventoryOptions) emulated {
	t.Helper()
	return newEmulatedAs(t, "tenant", options)
}

// newEmulatedAs is newEmulated with the credentials of a cloud of the emulator's clouds.yaml.
func newEmulatedAs(t *testing.T, cloud string, options InventoryOptions) emulated {
	t.Helper()
	server := neutrontest.New(neutrontest.Options{})
	listener, err := server.Listen("127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	if err := os.WriteFile(file, []byte(listener.CloudsYAML()), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("OS_CLIENT_CONFIG_FILE", file)
	credentials, err := LoadCredentials(cloud)
	if err != nil {
		t.Fatal(err)
	}
	owner := network.Owner{Cluster: "c", Object: "o"}
	return emulated{NewInventory(NewCloud(credentials, Options{}), owner.Cluster, options), t, owner, server}
}

func (e emulated) observed() network.Observed {
	e.t.Helper()
	o, err := e.Observed(e.t.Context(), e.owner, time.Time{})
	if err != nil {
		e.t.Fatal(err)
	}
	return o
}

func (e emulated) apply(change network.Change, err error) network.Change {
	e.t.Helper()
	done := change
	if err == nil {
		done, err = e.Apply(e.t.Context(), change)
	}
	if err != nil {
		e.t.Fatalf("%v\n%s", err, change)
	}
	return done
}

// A subnet's write moves its network's revision. A change that writes both must not trip over its own steps.
func TestApplyFollowsTheRevisionsThatItMovesItself(t *testing.T) {
	e := newEmulated(t, InventoryOptions{})
	cidr := netip.MustParsePrefix("10.0.0.0/24")
	spec := network.Spec{Owner: e.owner, Name: "n", Subnets: []network.Subnet{{
		CIDR: cidr, Pools: network.DefaultPools(cidr, netip.Addr{}), DHCP: true,
	}}}
	e.apply(network.Plan(spec, e.observed()))
	spec.Name = "renamed" // of the network and of its subnet
	e.apply(network.Plan(spec, e.observed()))
	e.apply(network.PlanRelease(e.owner, e.observed()), nil)
	if left := e.observed(); !left.Empty() {
		t.Errorf("still held after the release: %v", left)
	}
}

// TestPortsAreAsPlannedAfterTheirSteps takes a port through all that its spec can ask for. What was applied is never
// planned again, neither from what the writes left in the Inventory nor from what a list finds.
func TestPortsAreAsPlannedAfterTheirSteps(t *testing.T) {
	e := newEmulated(t, InventoryOptions{Ports: true})
	var subnets []network.Subnet
	for _, text := range []string{"10.0.0.0/24", "fd00::/64"} {
		cidr := netip.MustParsePrefix(text)
		subnets = append(subnets, network.Subnet{CIDR: cidr, Pools: network.DefaultPools(cidr, netip.Addr{}), DHCP: true})
	}
	e.apply(network.Plan(network.Spec{Owner: e.owner, Name: "n", Subnets: subnets}, e.observed()))
	n, _ := e.observed().Network()
	v4, _ := n.SubnetByCIDR(subnets[0].CIDR)
	v6, _ := n.SubnetByCIDR(subnets[1].CIDR)
	e.owner.Object = "port"
	address := func(s network.ObservedSubnet, text string) network.PortAddress {
		return network.PortAddress{SubnetID: s.ID, Address: netip.MustParseAddr(text)}
	}
	spec := network.PortSpec{
		Owner: e.owner, Name: "p", NetworkID: n.ID, Addresses: []network.PortAddress{{SubnetID: v4.ID}},
	}
	for _, step := range []struct {
		what string
		do   func()
	}{
		{"made", func() {}},
		{"renamed", func() { spec.Name = "renamed" }},
		{"on both subnets", func() { spec.Addresses = append(spec.Addresses, address(v6, "fd00::9")) }},
		{"on another address", func() { spec.Addresses[0] = address(v4, "10.0.0.77") }},
		{"on any address", func() { spec.Addresses[0] = network.PortAddress{SubnetID: v4.ID} }},
		{"without groups", func() { spec.SecurityGroups = []string{} }},
		{"made anew with a MAC", func() {
			e.apply(network.PlanDelete(e.owner, e.observed()))
			spec.MAC = "fa:16:3e:00:00:01"
		}},
		{"all at once", func() {
			spec.Name, spec.SecurityGroups = "again", nil
			spec.Addresses = []network.PortAddress{address(v4, "10.0.0.78")}
		}},
	} {
		step.do()
		e.apply(network.PlanPort(spec, e.observed()))
		if again, err := network.PlanPort(spec, e.observed()); err != nil || !again.Empty() {
			t.Fatalf("a port that was %s is planned again: %v, %s", step.what, err, again)
		}
		if err := e.Audit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if again, err := network.PlanPort(spec, e.observed()); err != nil || !again.Empty() {
			t.Fatalf("a port that was %s and listed is planned again: %v, %s", step.what, err, again)
		}
	}
	e.apply(network.PlanRelease(e.owner, e.observed()), nil)
	if left := e.observed(); !left.Empty() {
		t.Errorf("still held after the release: %v", left)
	}
}

// Neutron tells a revision of the past to who changes but a port's description. The steps planned here send the name
// with it; should another revision be told too early, it costs a conflict, and no more.
func TestRevisionThatNeutronTellsTooEarlyIsReadAgain(t *testing.T) {
	e := newEmulated(t, InventoryOptions{Ports: true})
	cidr := netip.MustParsePrefix("10.0.0.0/24")
	e.apply(network.Plan(network.Spec{Owner: e.owner, Name: "n", Subnets: []network.Subnet{{
		CIDR: cidr, Pools: network.DefaultPools(cidr, netip.Addr{}),
	}}}, e.observed()))
	n, _ := e.observed().Network()
	spec := network.PortSpec{
		Owner: network.Owner{Cluster: e.owner.Cluster, Object: "port"}, Name: "p", NetworkID: n.ID,
		Addresses: []network.PortAddress{{SubnetID: n.Subnets[0].ID}},
	}
	e.owner = spec.Owner
	id := e.apply(network.PlanPort(spec, e.observed()))[0].ID
	e.apply(network.Change{{
		Action: network.UpdatePort, ID: id, Revision: 1,
		Port:        network.PortAttributes{Description: e.owner.Describe("words")},
		Differences: []network.Difference{{Field: network.FieldDescription}},
	}}, nil)
	change, err := network.PlanPort(spec, e.observed())
	if err != nil || change.Empty() {
		t.Fatalf("the plan is %v, %v", change, err)
	}
	if _, err := e.Apply(t.Context(), change); !IsConflict(err) {
		t.Errorf("got %v, want a conflict", err)
	}
	if found, err := e.Reread(t.Context(), network.Resource{Kind: network.KindPort, ID: id}); !found || err != nil {
		t.Fatalf("read again: %t, %v", found, err)
	}
	e.apply(network.PlanPort(spec, e.observed()))
	if again, err := network.PlanPort(spec, e.observed()); err != nil || !again.Empty() {
		t.Errorf("planned again: %v, %s", err, again)
	}
}

// Whatever is put right about a port, the revision that is held afterwards is the one that Neutron has: the next audit
// finds nothing moved, and the next write is not refused.
func TestAPortsRevisionIsKnownAfterEachUpdate(t *testing.T) {
	var moved []string
	e := newEmulated(t, InventoryOptions{Ports: true, Moved: func(object string) { moved = append(moved, object) }})
	cidr := netip.MustParsePrefix("10.0.0.0/24")
	e.apply(network.Plan(network.Spec{Owner: e.owner, Name: "n", Subnets: []network.Subnet{{
		CIDR: cidr, Pools: network.DefaultPools(cidr, netip.Addr{}),
	}}}, e.observed()))
	n, _ := e.observed().Network()
	at := func(address string) []network.PortAddress {
		return []network.PortAddress{{SubnetID: n.Subnets[0].ID, Address: netip.MustParseAddr(address)}}
	}
	e.owner.Object = "port"
	spec := network.PortSpec{Owner: e.owner, Name: "p", NetworkID: n.ID, Addresses: at("10.0.0.5")}
	id := e.apply(network.PlanPort(spec, e.observed()))[0].ID
	for _, drift := range []struct {
		field string
		to    network.PortAttributes
	}{
		{network.FieldName, network.PortAttributes{Name: "other"}},
		{network.FieldDescription, network.PortAttributes{Description: e.owner.Describe("words")}},
		{network.FieldAdminState, network.PortAttributes{AdminStateUp: false}},
		{network.FieldAddresses, network.PortAttributes{Addresses: at("10.0.0.6")}},
	} {
		held, _ := e.observed().Port(n.ID)
		e.apply(network.Change{{
			Action: network.UpdatePort, ID: id, Revision: held.Revision, Port: drift.to,
			Differences: []network.Difference{{Field: drift.field}},
		}}, nil)
		if err := e.Audit(t.Context()); err != nil {
			t.Fatal(err)
		}
		moved = nil
		e.apply(network.PlanPort(spec, e.observed()))
		if err := e.Audit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(moved) > 0 {
			t.Errorf("after its %s was put back, the audit found that the port moved", drift.field)
		}
	}
}

// TestRefusalsOfPorts holds which kinds the cloud's own refusals are.
func TestRefusalsOfPorts(t *testing.T) {
	e := newEmulated(t, InventoryOptions{Ports: true})
	cidr := netip.MustParsePrefix("10.0.0.0/30") // .2 is the one address
	e.apply(network.Plan(network.Spec{Owner: e.owner, Name: "n", Subnets: []network.Subnet{{
		CIDR: cidr, Gateway: netip.MustParseAddr("10.0.0.1"),
		Pools: network.DefaultPools(cidr, netip.MustParseAddr("10.0.0.1")),
	}}}, e.observed()))
	n, _ := e.observed().Network()
	subnet := n.Subnets[0].ID
	create := func(change func(*network.PortSpec)) network.Change {
		spec := network.PortSpec{
			Owner: network.Owner{Cluster: e.owner.Cluster, Object: "port"}, Name: "p", NetworkID: n.ID,
			Addresses: []network.PortAddress{{SubnetID: subnet}},
		}
		change(&spec)
		planned, err := network.PlanPort(spec, network.Observed{})
		if err != nil {
			t.Fatal(err)
		}
		return planned
	}
	at := func(text string) func(*network.PortSpec) {
		return func(s *network.PortSpec) { s.Addresses[0].Address = netip.MustParseAddr(text) }
	}
	const mac, nobody = "fa:16:3e:00:00:01", "11111111-1111-1111-1111-111111111111"
	e.apply(create(func(s *network.PortSpec) { s.MAC = mac }), nil)
	for name, test := range map[string]struct {
		change func(*network.PortSpec)
		want   Kind
	}{
		"no address is left":               {func(*network.PortSpec) {}, Exhausted},
		"the address is another's":         {at("10.0.0.2"), Taken},
		"the address is of another subnet": {at("10.0.1.2"), Invalid},
		"the address is the broadcast's":   {at("10.0.0.3"), Invalid},
		"the MAC is another's": {func(s *network.PortSpec) {
			s.MAC = mac
			at("10.0.0.1")(s)
		}, Taken},
		"the network is not there": {func(s *network.PortSpec) { s.NetworkID = nobody }, NotFound},
		"the subnet is not there":  {func(s *network.PortSpec) { s.Addresses[0].SubnetID = nobody }, NotFound},
		"a security group is not there": {func(s *network.PortSpec) {
			s.SecurityGroups = []string{nobody}
			at("10.0.0.1")(s)
		}, Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := e.Apply(t.Context(), create(test.change))
			if got := KindOf(err); err == nil || got != test.want || MaybeDone(err) {
				t.Errorf("%v is %v, want %v", err, got, test.want)
			}
		})
	}
	if _, err := e.Apply(t.Context(), network.Change{{
		Action: network.DeleteNetwork, ID: n.ID, Revision: n.Revision,
	}}); KindOf(err) != InUse {
		t.Errorf("deleting a network with a port: %v, want %v", err, InUse)
	}
}

package inventory

import (
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// floats is a cloud with external networks, and the spec of a port with a floating IP of the first. The port has two
// addresses of IPv4.
type floats struct {
	emulated
	outside [2]string
	spec    plan.PortSpec
	// port is the owner of the port. e.owner is the Network's.
	port plan.Owner
}

func newFloats(t *testing.T, options Options) *floats {
	t.Helper()
	options.Ports = true
	f := &floats{emulated: newEmulatedAs(t, "admin", options)}
	for i := range f.outside {
		f.outside[i] = f.byHand(http.MethodPost, "networks", "network", map[string]any{"router:external": true})
		f.byHand(http.MethodPost, "subnets", "subnet", map[string]any{
			"network_id": f.outside[i], "cidr": []string{"203.0.113.0/29", "198.51.100.0/24"}[i], "ip_version": 4,
		})
	}
	var subnets []plan.Subnet
	for _, text := range []string{"10.0.0.0/24", "10.0.1.0/24"} {
		cidr := netip.MustParsePrefix(text)
		subnets = append(subnets, plan.Subnet{
			CIDR: cidr, Gateway: plan.DefaultGateway(cidr), Pools: plan.DefaultPools(cidr, plan.DefaultGateway(cidr)), DHCP: true,
		})
	}
	network := plan.Spec{
		Owner: f.owner, Name: "n", Subnets: subnets, Router: &plan.RouterSpec{ExternalNetwork: f.outside[0]},
	}
	f.apply(plan.Network(network, f.observed()))
	n, _ := f.observed().Network()
	f.port = plan.Owner{Cluster: "c", Object: "port"}
	f.spec = plan.PortSpec{Owner: f.port, Name: "p", NetworkID: n.ID, FloatingNetwork: f.outside[0]}
	for _, s := range n.Subnets {
		f.spec.Addresses = append(f.spec.Addresses, plan.PortAddress{SubnetID: s.ID})
	}
	f.owner = f.port
	return f
}

// change changes a floating IP as somebody else would.
func (f *floats) change(id string, fields map[string]any) {
	f.t.Helper()
	f.byHand(http.MethodPut, floatingKind.Path(id), floatingKind.One, fields)
}

func (f *floats) planOf(o plan.Observed) (plan.Change, error) { return plan.Port(f.spec, o) }

// TestFloatingIPsAreApplied holds that what is held after each write is what a list shows.
func TestFloatingIPsAreApplied(t *testing.T) {
	f := newFloats(t, Options{})
	f.apply(f.planOf(f.observed()))
	f.requireNothing(f.planOf)
	first := f.observed().FloatingIPs[0]
	if want := f.observed().Ports[0].Addresses[0].Address; first.Fixed != want || !want.Is4() {
		t.Errorf("it leads to %s, want %s", first.Fixed, want)
	}
	f.spec.Retain = true
	f.apply(f.planOf(f.observed()))
	f.requireNothing(f.planOf)
	if found, err := f.Find(t.Context(), plan.KindFloatingIP, "", f.port); !found || err != nil {
		t.Errorf("it is not found by its marker: %v, %v", found, err)
	}
	f.spec.Retain = false
	f.apply(f.planOf(f.observed()))

	// By hand: its QoS policy, and another port. The policy stays.
	policy := f.byHand(http.MethodPost, "qos/policies", "policy", map[string]any{"name": "gold"})
	f.change(first.ID, map[string]any{"qos_policy_id": policy, "port_id": nil})
	if moved, err := f.listAll(t.Context(), time.Now(), f.stocks, false); err != nil || len(moved) != 1 || moved[0] != f.port.Object {
		t.Fatalf("an audit tells that %q moved, %v", moved, err)
	}
	f.apply(f.planOf(f.observed()))
	f.requireNothing(f.planOf)
	if now := f.observed().FloatingIPs[0]; now.QoSPolicy != policy || now.Address != first.Address {
		t.Errorf("it is %+v, want the policy %s and the address %s", now, policy, first.Address)
	}
	// The port is made again, with two addresses of IPv4.
	f.apply(plan.Delete(f.port, plan.Observed{Ports: f.observed().Ports}))
	f.apply(f.planOf(f.observed()))
	f.requireNothing(f.planOf)
	if now := f.observed().FloatingIPs[0]; now.ID != first.ID || now.Fixed != f.observed().Ports[0].Addresses[0].Address {
		t.Errorf("it is %+v, want %s at the lowest address of %+v", now, first.ID, f.observed().Ports[0])
	}
	f.spec.FloatingNetwork = ""
	f.apply(f.planOf(f.observed()))
	f.requireNothing(f.planOf)
	f.spec.FloatingNetwork = f.outside[0]
	f.apply(f.planOf(f.observed()))
	f.apply(plan.Delete(f.port, f.observed()))
	if left := f.observed(); !left.Empty() {
		t.Errorf("left: %v", left.Resources())
	}
}

// TestAPortInUseByAFloatingIPOfOthers has one that the port's owner does not plan keep the port's address.
func TestAPortInUseByAFloatingIPOfOthers(t *testing.T) {
	f := newFloats(t, Options{})
	f.spec.FloatingNetwork = ""
	f.spec.Addresses[0].Address = netip.MustParseAddr("10.0.0.9")
	f.apply(f.planOf(f.observed()))
	f.byHand(http.MethodPost, "floatingips", "floatingip", map[string]any{
		"floating_network_id": f.outside[0], "port_id": f.observed().Ports[0].ID, "fixed_ip_address": "10.0.0.9",
	})
	expect.NoError(t, f.Audit(t.Context()))
	f.spec.Addresses[0].Address = netip.MustParseAddr("10.0.0.10")
	change, err := f.planOf(f.observed())
	expect.NoError(t, err)
	if _, err = f.Apply(t.Context(), change); !client.IsKind(err, client.InUse) {
		t.Errorf("got %v, want that the port is in use", err)
	}
	if by, err := f.Blockers(t.Context(), change[0]); err != nil || !strings.Contains(by.String(), "floating IP 203.0.113.") {
		t.Errorf("it is in use by %s, %v; want the floating IP", by, err)
	}
}

// TestFloatingIPOfOthersStays holds that one is led elsewhere only after a live read has shown the marker.
func TestFloatingIPOfOthersStays(t *testing.T) {
	f := newFloats(t, Options{})
	f.apply(f.planOf(f.observed()))
	id := f.observed().FloatingIPs[0].ID
	f.change(id, map[string]any{"description": "mine", "port_id": nil})
	f.spec.Retain = true
	change, err := f.planOf(f.observed())
	expect.NoError(t, err)
	for _, step := range change {
		if step.Action == plan.UpdateFloatingIP {
			if done, err := f.Apply(t.Context(), plan.Change{step}); !client.IsConflict(err) || len(done) > 0 {
				t.Errorf("%s: %v, %v", step, done, err)
			}
		}
	}
	deletion, err := plan.Delete(f.port, plan.Observed{FloatingIPs: f.observed().FloatingIPs})
	expect.NoError(t, err)
	if done, err := f.Apply(t.Context(), deletion); len(done) > 0 {
		t.Errorf("it was deleted: %v, %v", done, err)
	}
}

// TestAFloatingIPStaysWithAPortThatSomebodyTakes has a device get the port after the last list.
func TestAFloatingIPStaysWithAPortThatSomebodyTakes(t *testing.T) {
	f := newFloats(t, Options{})
	f.apply(f.planOf(f.observed()))
	was := f.observed()
	deletion, err := plan.Delete(f.port, was)
	expect.NoError(t, err)
	f.byHand(http.MethodPut, portKind.Path(was.Ports[0].ID), "port", map[string]any{"device_id": "vm", "device_owner": "compute:nova"})
	if done, err := f.Apply(t.Context(), deletion); !client.IsConflict(err) || len(done) > 0 {
		t.Errorf("%s, %v, want a conflict before anything goes", done, err)
	}
	expect.Equal(t, was.Ports[0].ID, f.live(was.FloatingIPs[0].ID).PortID, "the port that it leads to")
}

// TestWhatAPortLeavesGoesByItsMarker has the process end between the port's deletion and that of its floating IP, and
// somebody else take the floating IP in the same moment.
func TestWhatAPortLeavesGoesByItsMarker(t *testing.T) {
	for name, taken := range map[string]bool{"ours": false, "taken": true} {
		t.Run(name, func(t *testing.T) {
			f := newFloats(t, Options{})
			f.apply(f.planOf(f.observed()))
			id := f.observed().FloatingIPs[0].ID
			deletion := f.apply(plan.Delete(f.port, plan.Observed{Ports: f.observed().Ports}))
			if len(deletion) != 1 {
				t.Fatalf("%s, want the port", deletion)
			}
			if taken {
				f.change(id, map[string]any{"description": "mine", "port_id": nil})
			}
			rest, err := plan.Delete(f.port, f.observed())
			if err != nil || len(rest) != 1 {
				t.Fatalf("%s, %v, want the floating IP", rest, err)
			}
			done, err := f.Apply(t.Context(), rest)
			if taken && (!client.IsConflict(err) || f.live(id).Description != "mine") || !taken && len(done) != 1 {
				t.Errorf("%s, %v", done, err)
			}
		})
	}
}

// live is a floating IP as Neutron has it.
func (f *floats) live(id string) plan.ObservedFloatingIP {
	f.t.Helper()
	w, err := client.Get[wireFloatingIP](f.t.Context(), f.cloud, "get", floatingIPAPI, floatingKind.fields, id)
	expect.NoError(f.t, err)
	o, err := w.observed()
	expect.NoError(f.t, err)
	return o
}

// TestFloatingIPKeepsWhatAStepDoesNotChange has others change it after the last list.
func TestFloatingIPKeepsWhatAStepDoesNotChange(t *testing.T) {
	f := newFloats(t, Options{})
	f.apply(f.planOf(f.observed()))
	id := f.observed().FloatingIPs[0].ID
	f.spec.Retain = true
	change, err := f.planOf(f.observed())
	expect.NoError(t, err)
	policy := f.byHand(http.MethodPost, "qos/policies", "policy", map[string]any{"name": "gold"})
	f.change(id, map[string]any{"qos_policy_id": policy, "port_id": nil})
	if _, err := f.Apply(t.Context(), change); err != nil {
		t.Fatal(err)
	}
	if is := f.live(id); is.QoSPolicy != policy || is.PortID != "" || !strings.HasPrefix(is.Description, "[retain]") {
		t.Errorf("it is %+v, want the policy %s, no port, and the description of a port that is retained", is, policy)
	}
}

// TestOurOwnFloatingIPIsNotSomebodyElses has an earlier leader create it after the last list.
func TestOurOwnFloatingIPIsNotSomebodyElses(t *testing.T) {
	f := newFloats(t, Options{})
	f.spec.FloatingNetwork = ""
	f.apply(f.planOf(f.observed()))
	f.spec.FloatingNetwork = f.outside[0]
	change, err := f.planOf(f.observed())
	expect.NoError(t, err)
	port := f.observed().Ports[0]
	f.byHand(http.MethodPost, "floatingips", "floatingip", map[string]any{
		"floating_network_id": f.outside[0], "port_id": port.ID, "description": f.port.Marker(),
		"fixed_ip_address": port.Addresses[0].Address.String(),
	})
	if _, err := f.Apply(t.Context(), change); !client.IsConflict(err) {
		t.Errorf("%v, want a conflict, after which the list is read again", err)
	}
}

// TestACloudWithoutFloatingIPsHasNone: a port whose Neutron has no routers must be able to go.
func TestACloudWithoutFloatingIPsHasNone(t *testing.T) {
	b := newBench(t, Options{Ports: true})
	if found, err := b.Find(t.Context(), plan.KindFloatingIP, "", ownerOf("p")); found || err != nil {
		t.Errorf("it finds one: %v, %v", found, err)
	}
}

// TestWhyThereIsNoFloatingIP holds that refusals speak of the spec, and are the same each time.
func TestWhyThereIsNoFloatingIP(t *testing.T) {
	f := newFloats(t, Options{})
	f.spec.FloatingNetwork = f.outside[1]
	f.refused(t, "the Network needs spec.router", client.Invalid)

	f.spec.FloatingNetwork = f.outside[0]
	port := f.observed().Ports[0]
	f.byHand(http.MethodPost, "floatingips", "floatingip", map[string]any{
		"floating_network_id": f.outside[0], "port_id": port.ID, "fixed_ip_address": port.Addresses[0].Address.String(),
	})
	f.refused(t, "that is not ours", client.Taken)

	// The first external network has five addresses: the router has one, and the floating IP of others another.
	f.spec.Owner.Object, f.owner.Object = "another", "another"
	for range 3 {
		f.byHand(http.MethodPost, "floatingips", "floatingip", map[string]any{"floating_network_id": f.outside[0]})
	}
	f.refused(t, "", client.Exhausted)
}

// refused plans and applies, and holds how the floating IP is refused.
func (f *floats) refused(t *testing.T, says string, kind client.Kind) {
	t.Helper()
	change, err := f.planOf(f.observed())
	expect.NoError(t, err)
	_, err = f.Apply(t.Context(), change)
	again, planErr := f.planOf(f.observed())
	if planErr != nil {
		t.Fatal(planErr)
	}
	_, repeated := f.Apply(t.Context(), again)
	if !client.IsKind(err, kind) || !strings.Contains(err.Error(), says) {
		t.Errorf("%v, want a refusal of kind %s with %q", err, kind, says)
	}
	first, _ := errors.AsType[*client.Error](err)
	second, _ := errors.AsType[*client.Error](repeated)
	if second == nil || first == nil || first.Reason != second.Reason {
		t.Errorf("first %v, and then %v", err, repeated)
	}
}

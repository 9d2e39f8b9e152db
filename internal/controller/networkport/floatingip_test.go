package networkport

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// reachable is the example with a floating IP.
func reachable() *cloudteamv1.NetworkPort {
	return of(example(), func(p *cloudteamv1.NetworkPort) {
		p.Spec.FloatingIP = &cloudteamv1.PortFloatingIP{ExternalNetwork: "outside"}
	})
}

// openWorld is inWorld with a class that allows everything.
func openWorld(t *testing.T, test func(t *testing.T, w *world), objects ...controllertest.Object) {
	t.Helper()
	inWorld(t, func(t *testing.T, w *world) {
		w.classes = controllertest.OpenClasses()
		w.restart()
		for _, obj := range objects { // a port that is seen before its Network waits, and says so
			w.Create(obj)
			w.settle()
		}
		test(t, w)
	})
}

// wantFloating holds that there is one floating IP, which leads to a port from an external network, and that the status
// shows it. It returns the id.
func (w *world) wantFloating(port, network string) string {
	w.T.Helper()
	all, shown := w.Neutron.FloatingIPs(), w.Get().Status.FloatingIP
	if len(all) != 1 || all[0].PortID != port || all[0].NetworkID != network || !owner.Owns(all[0].Description) {
		w.T.Fatalf("Neutron has the floating IPs %+v, want one of %s for %s", all, network, port)
	}
	want := cloudteamv1.PortFloatingIPStatus{ID: all[0].ID, Address: all[0].Address.String(), ExternalNetworkID: network}
	if shown == nil || *shown != want {
		w.T.Errorf("the status shows %v, want %v", shown, want)
	}
	return all[0].ID
}

func TestAPortGetsItsFloatingIPAndKeepsTheAddress(t *testing.T) {
	openWorld(t, func(t *testing.T, w *world) {
		w.Calls.Want(t, "write finalizers", "list", "apply create port", "apply create floating IP", "write status")
		w.WantState("Ready=True Available")
		id := w.wantFloating("port-1", "outside")

		w.Neutron.EditFloatingIP(t, id, func(f *plan.ObservedFloatingIP) { f.PortID, f.Fixed = "", netip.Addr{} })
		w.audit()
		expect.Equal(t, id, w.wantFloating("port-1", "outside"), "the floating IP after somebody took it from the port")
		w.Neutron.Remove("port-1")
		w.audit()
		w.WantState("Ready=True Available")
		if again := w.wantFloating(w.Get().Status.PortID, "outside"); again != id {
			t.Errorf("the port was made anew, and its floating IP is %s instead of %s", again, id)
		}
		w.Neutron.Remove(id)
		w.audit()
		if again := w.wantFloating(w.Get().Status.PortID, "outside"); again == id {
			t.Error("it was deleted, and has the same id again")
		}
		w.Quiet()
		controllertest.Settle(time.Hour)
		w.Calls.Want(t)
	}, exampleNetwork(), reachable())
}

// TestAPortHasItsFloatingAddressOfChoice also holds what a class has to allow.
func TestAPortHasItsFloatingAddressOfChoice(t *testing.T) {
	chosen := reachable()
	chosen.Spec.FloatingIP.Address = "203.0.113.99"
	openWorld(t, func(t *testing.T, w *world) {
		id := w.wantFloating("port-1", "outside")
		expect.Equal(t, "203.0.113.99", w.Get().Status.FloatingIP.Address, "the address")
		w.Neutron.Remove(id)
		w.audit()
		w.wantFloating("port-1", "outside")
		expect.Equal(t, "203.0.113.99", w.Get().Status.FloatingIP.Address, "the address of the next one")
		w.delete()
		closed := controllertest.OpenClass()
		closed.Spec.AllowedFields = []cloudteamv1.PrivilegedField{cloudteamv1.FieldFloatingIP}
		w.classes = controllertest.NewClasses(closed).Classes
		w.restart()
		w.Create(chosen.DeepCopy())
		w.settle()
		if ready := w.Ready(); ready.Reason != cloudteamv1.ReasonForbiddenByClass ||
			!strings.Contains(ready.Message, "forbids spec.floatingIP.address") {
			t.Errorf("Ready is %s: %s", ready.Reason, ready.Message)
		}
		expect.Empty(t, w.Neutron.FloatingIPs(), "floating IPs that the class forbids")
	}, exampleNetwork(), chosen)
}

func TestAFloatingIPFollowsTheSpec(t *testing.T) {
	openWorld(t, func(t *testing.T, w *world) {
		id := w.wantFloating("port-1", "outside")
		w.editPort(func(p *cloudteamv1.NetworkPort) { p.Spec.FloatingIP.ExternalNetwork = "outside-2" })
		if w.wantFloating("port-1", "outside-2") == id {
			t.Error("it moved to another network, which Neutron cannot do")
		}
		w.editPort(func(p *cloudteamv1.NetworkPort) { p.Spec.FloatingIP = nil })
		w.WantState("Ready=True Available")
		if left := w.Neutron.FloatingIPs(); len(left) > 0 || w.Get().Status.FloatingIP != nil {
			t.Errorf("%v is left, and the status shows %v", left, w.Get().Status.FloatingIP)
		}
		w.wantPorts("port-1")
		w.editPort(func(p *cloudteamv1.NetworkPort) { p.Spec.FloatingIP = reachable().Spec.FloatingIP })
		w.wantFloating("port-1", "outside")
		w.delete()
		if left := w.Neutron.Everything(); w.Exists() || len(left.FloatingIPs)+len(left.Ports) > 0 {
			t.Errorf("after the deletion there is %v", left)
		}
	}, exampleNetwork(), reachable())
}

// TestAFloatingIPStaysWhileItsPortMoves changes the port's address. Where the next one is taken, the port keeps the
// first, and the floating IP leads to it.
func TestAFloatingIPStaysWhileItsPortMoves(t *testing.T) {
	openWorld(t, func(t *testing.T, w *world) {
		id := w.wantFloating("port-1", "outside")
		leads := func(to string) {
			t.Helper()
			w.wantFloating("port-1", "outside")
			f, has := w.Neutron.FloatingIPs()[0], w.Neutron.Ports()[0].Addresses
			if f.ID != id || f.Fixed.String() != to || len(has) != 1 || has[0].Address != f.Fixed {
				t.Errorf("floating IP %s leads to %s of %v, want %s to %s", f.ID, f.Fixed, has, id, to)
			}
		}
		w.editPort(func(p *cloudteamv1.NetworkPort) { p.Spec.Addresses = []string{"192.168.7.7"} })
		w.WantState("Ready=True Available")
		leads("192.168.7.7")
		w.Neutron.PutPort(plan.ObservedPort{ID: "theirs", NetworkID: "net-1", PortAttributes: plan.PortAttributes{
			Addresses: []plan.PortAddress{{SubnetID: "sub-1", Address: netip.MustParseAddr("192.168.8.8")}}}})
		w.editPort(func(p *cloudteamv1.NetworkPort) { p.Spec.Addresses = []string{"192.168.8.8"} })
		w.WantState("Ready=False Reconciling=True AddressInUse")
		leads("192.168.7.7")
	}, exampleNetwork(), reachable())
}

// TestAFloatingIPStaysWhileNobodyKnowsWhichNetworkIsMeant edits the name of the external network to one that nothing
// has, and the port's address. Somebody takes the floating IP away from the port meanwhile.
func TestAFloatingIPStaysWhileNobodyKnowsWhichNetworkIsMeant(t *testing.T) {
	openWorld(t, func(t *testing.T, w *world) {
		id := w.wantFloating("port-1", "outside")
		w.editPort(func(p *cloudteamv1.NetworkPort) {
			p.Spec.FloatingIP.ExternalNetwork, p.Spec.Addresses = "nothing", []string{"192.168.7.7"}
		})
		w.WantState("Ready=False Stalled=True Rejected")
		w.Neutron.EditFloatingIP(t, id, func(f *plan.ObservedFloatingIP) { f.PortID, f.Fixed = "", netip.Addr{} })
		w.audit()
		f := w.Neutron.FloatingIPs()[0]
		if w.wantFloating("port-1", "outside") != id || f.Fixed.String() != "192.168.7.7" {
			t.Errorf("the floating IP is %+v", f)
		}
		w.Neutron.Remove("port-1")
		w.audit()
		w.wantPorts() // what uses it would be without its public address
		w.editPort(func(p *cloudteamv1.NetworkPort) { p.Spec.FloatingIP.ExternalNetwork = "outside" })
		expect.Equal(t, id, w.wantFloating(w.Get().Status.PortID, "outside"), "the address")
	}, exampleNetwork(), reachable())
}

// TestAnOldCacheReleasesNoFloatingIP has a new process see a spec without the floating IP, after which the spec asks for
// it again. The address would not come back.
func TestAnOldCacheReleasesNoFloatingIP(t *testing.T) {
	openWorld(t, func(t *testing.T, w *world) {
		id := w.wantFloating("port-1", "outside")
		w.Stop()
		w.Edit(func(p *cloudteamv1.NetworkPort) { p.Spec.FloatingIP = nil })
		w.Neutron.SetDown(&client.Error{Op: "list ports", Reason: "down"})
		w.restart()
		gate := controllertest.GateOf[*cloudteamv1.NetworkPort](w.API)
		gate.Hold()
		w.Edit(func(p *cloudteamv1.NetworkPort) { p.Spec.FloatingIP = reachable().Spec.FloatingIP })
		w.Neutron.SetDown(nil)
		controllertest.Settle(10 * time.Second)
		expect.Equal(t, id, w.wantFloating("port-1", "outside"), "the floating IP")
		gate.Release()
		controllertest.Settle(10 * time.Second)
		w.WantState("Ready=True Available")
		expect.Equal(t, id, w.wantFloating("port-1", "outside"), "the floating IP")
	}, exampleNetwork(), reachable())
}

// TestOneLiveReadComesBeforeARelease counts the requests. Nothing is read where nothing is released.
func TestOneLiveReadComesBeforeARelease(t *testing.T) {
	openWorld(t, func(t *testing.T, w *world) {
		w.Calls.Take()
		w.editPort(func(p *cloudteamv1.NetworkPort) { p.Spec.Addresses = []string{"192.168.7.7"} })
		live := "reread floating IP " + w.Neutron.FloatingIPs()[0].ID
		w.Calls.Want(t, "apply update port", live, "apply update floating IP", "apply update port", "write status")
		w.API.Refuse(controllertest.Refusing("read", errors.New("etcd is away")))
		w.editPort(func(p *cloudteamv1.NetworkPort) { p.Spec.FloatingIP = nil })
		w.WantState("Ready=True Available")
		w.wantFloating("port-1", "outside")
		w.API.Refuse(nil)
		w.Calls.Take()
		controllertest.Settle(10 * time.Second)
		w.Calls.Want(t, "read", "apply delete floating IP", "find floating IP", "write annotations", "write status")
	}, exampleNetwork(), reachable())
}

// TestAFloatingIPIsForgottenByNoProcess removes the request while the status that tells of the floating IP is lost.
func TestAFloatingIPIsForgottenByNoProcess(t *testing.T) {
	openWorld(t, func(t *testing.T, w *world) {
		w.API.Refuse(controllertest.Refusing("write status", errors.New("the process is gone")))
		w.API.Create(t, reachable())
		w.settle()
		w.Stop()
		w.API.Refuse(nil)
		if n := len(w.Neutron.FloatingIPs()); n != 1 {
			t.Fatalf("Neutron has %d floating IPs, want 1", n)
		}
		w.Edit(func(p *cloudteamv1.NetworkPort) { p.Spec.FloatingIP = nil })
		w.restart()
		w.WantState("Ready=True Available")
		w.wantPorts("port-1")
		expect.Empty(t, w.Neutron.FloatingIPs(), "floating IPs are left")
	}, exampleNetwork())
}

// TestAFloatingIPThatSomebodyTookIsLeftToThem has the spec ask for none, as the remedy says, after somebody removed the
// marker.
func TestAFloatingIPThatSomebodyTookIsLeftToThem(t *testing.T) {
	openWorld(t, func(t *testing.T, w *world) {
		id := w.wantFloating("port-1", "outside")
		w.Neutron.EditFloatingIP(t, id, func(f *plan.ObservedFloatingIP) { f.Description = "mine now" })
		w.audit()
		w.WantState("Ready=False Stalled=True OwnershipLost")
		w.editPort(func(p *cloudteamv1.NetworkPort) { p.Spec.FloatingIP = nil })
		w.WantState("Ready=True Available")
		if all := w.Neutron.FloatingIPs(); len(all) != 1 || all[0].ID != id {
			t.Errorf("there is %v, want %s alone", all, id)
		}
		if w.Get().Status.FloatingIP != nil {
			t.Errorf("the status shows %v", w.Get().Status.FloatingIP)
		}
	}, exampleNetwork(), reachable())
}

func TestARetainedPortAndItsFloatingIPLoseTheirMarkers(t *testing.T) {
	openWorld(t, func(t *testing.T, w *world) {
		w.wantFloating("port-1", "outside")
		w.Quiet()
		w.delete()
		w.WantGone()
		left := w.Neutron.FloatingIPs()
		if len(left) != 1 || left[0].Description != "" || left[0].PortID != "port-1" {
			t.Errorf("Neutron has %+v, want it as it was without a marker", left)
		}
		if all := w.Neutron.Ports(); len(all) != 1 || all[0].ID != "port-1" || all[0].Description != "" {
			t.Errorf("Neutron has %+v, want the port, without a marker", all)
		}
		w.Events.WantReasons(t, "Normal Retained", "Normal Retained") // of each of the two
	}, exampleNetwork(), of(reachable(), func(p *cloudteamv1.NetworkPort) {
		p.Spec.DeletionPolicy = cloudteamv1.DeletionPolicyRetain
	}))
}

// TestAPortIsNotReadyWithoutItsFloatingIP has drift of floating IPs reported: nothing gives it back.
func TestAPortIsNotReadyWithoutItsFloatingIP(t *testing.T) {
	openWorld(t, func(t *testing.T, w *world) {
		id := w.wantFloating("port-1", "outside")
		w.Neutron.EditFloatingIP(t, id, func(f *plan.ObservedFloatingIP) { f.PortID, f.Fixed = "", netip.Addr{} })
		w.audit()
		w.WantState("Ready=False Stalled=True DriftDetected")
		// One of another network is left as well: its address would not come back.
		w.Neutron.Remove(id)
		moved := plan.FloatingIPAttributes{NetworkID: "outside-2", Description: owner.Marker()}
		w.Neutron.PutFloatingIP(plan.ObservedFloatingIP{ID: "moved", FloatingIPAttributes: moved})
		w.audit()
		if all := w.Neutron.FloatingIPs(); len(all) != 1 || all[0].ID != "moved" {
			t.Errorf("Neutron has %+v, want the one that was there", all)
		}
	}, exampleNetwork(), of(reachable(), func(p *cloudteamv1.NetworkPort) {
		p.Spec.DriftPolicy = cloudteamv1.DriftPolicyReport
	}))
}

package inventory

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// putPort is what Neutron already has: a port with one address.
func (b *bench) putPort(id, description string) {
	b.neutron.change(func() {
		b.neutron.ports[id] = &wirePort{
			wireBase:  wireBase{ID: id, Description: description, Revision: 1, Created: created("2026-01-02T03:04:05Z")},
			NetworkID: "net", Name: "p", AdminStateUp: true, MAC: "FA:16:3E:00:00:01", SecurityGroups: []string{"h", "g"}, FixedIPs: []wireFixedIP{{"s", "10.0.0.9"}},
		}
	})
}

// observedPorts is what is held of the object's, without asking again, sorted by name.
func (b *bench) observedPorts(t *testing.T, object string) []plan.ObservedPort {
	t.Helper()
	o, err := b.Observed(t.Context(), ownerOf(object), time.Time{})
	expect.NoError(t, err)
	slices.SortFunc(o.Ports, func(a, b plan.ObservedPort) int { return strings.Compare(a.Name, b.Name) })
	return o.Ports
}

func portOf(id string) plan.Resource { return plan.Resource{Kind: plan.KindPort, ID: id} }

func createPort(object string) plan.Step {
	return plan.Step{Action: plan.CreatePort, NetworkRef: plan.Ref{ID: "net"}, Port: plan.PortAttributes{
		Name: "new", Description: ownerOf(object).Marker(), AdminStateUp: true,
		Addresses: []plan.PortAddress{{SubnetID: "s"}},
	}}
}

func updatePort(id string, revision int, port plan.PortAttributes, fields ...string) plan.Step {
	step := plan.Step{
		Action: plan.UpdatePort, Ref: plan.Ref{ID: id}, Revision: revision, NetworkRef: plan.Ref{ID: "net"}, Port: port,
	}
	for _, field := range fields {
		step.Differences = append(step.Differences, plan.Difference{Field: field})
	}
	return step
}

func deletePort(id string, revision int) plan.Step {
	return plan.Step{Action: plan.DeletePort, Ref: plan.Ref{ID: id}, Revision: revision, NetworkRef: plan.Ref{ID: "net"}}
}

func TestPortsAreObservedBesideNetworks(t *testing.T) {
	b := newBench(t, Options{Ports: true})
	// An object has what bears its marker, of whatever kind.
	b.put("a", ownerOf("o").Marker())
	for _, id := range []string{"p1", "p2", "p3"} { // more than a page
		b.putPort(id, ownerOf("o-"+id).Marker())
	}
	b.putPort("p4", ownerOf("o").Marker())
	b.putPort("foreign", "nobody's")
	b.putPort("elsewhere", plan.Owner{Cluster: "cluster-2", Object: "o"}.Marker())
	b.putPort("theirs", ownerOf("o").Marker())
	b.neutron.change(func() {
		b.neutron.projects["theirs"] = "project-2"
		// What is not ours need not make sense.
		b.neutron.ports["foreign"].FixedIPs[0].Address = "?"
	})
	b.audit(t)
	o, err := b.Observed(t.Context(), ownerOf("o"), time.Time{})
	expect.NoError(t, err)
	want := []plan.Resource{networkOf("a"), portOf("p4")}
	expect.Equal(t, want, o.Resources(), "observed")
	attributes := plan.PortAttributes{
		Name: "p", Description: ownerOf("o").Marker(), AdminStateUp: true, MAC: "fa:16:3e:00:00:01",
		Addresses:      []plan.PortAddress{{SubnetID: "s", Address: netip.MustParseAddr("10.0.0.9")}},
		SecurityGroups: []string{"g", "h"},
	}
	expect.EqualWith(t, cmp.Options{sameAddr}, attributes, o.Ports[0].PortAttributes, "the port")
	if got := b.audits[0]; got.Networks != 1 || got.Ports != 4 || got.Moved != 4 || got.Err != nil {
		t.Errorf("the audit says %+v", got)
	}
}

func TestWithoutPortsOnlyInterfacesAreHeld(t *testing.T) {
	b := newBench(t, Options{})
	b.putPort("p", ownerOf("o").Marker())
	b.putPort("i", ownerOf("o").Marker())
	b.neutron.change(func() { b.neutron.ports["i"].DeviceOwner = plan.InterfaceDeviceOwner })
	b.audit(t)
	if held := b.observedPorts(t, "o"); len(held) != 1 || held[0].ID != "i" {
		t.Errorf("held: %+v", held)
	}
}

func TestKindsThatAreNotHeldAreRefused(t *testing.T) {
	b := newBench(t, Options{})
	for _, r := range []plan.Resource{{}, {Kind: "trunk", ID: "t"}} {
		if found, err := b.Reread(t.Context(), r); found || client.KindOf(err) != client.Invalid {
			t.Errorf("rereading %q: %t, %v", r, found, err)
		}
		if found, err := b.Find(t.Context(), r.Kind, "n", ownerOf("o")); found || client.KindOf(err) != client.Invalid {
			t.Errorf("finding a %q: %t, %v", r.Kind, found, err)
		}
	}
	expect.Empty(t, b.neutron.calls, "calls")
}

func TestPortsAreWritten(t *testing.T) {
	b := newBench(t, Options{Ports: true})
	b.audit(t)
	done := b.apply(t, createPort("o"))
	if len(done) != 1 || done[0].ID == "" {
		t.Fatalf("done: %v", done)
	}
	id := done[0].ID
	held := b.observedPorts(t, "o")
	if len(held) != 1 || held[0].ID != id || held[0].Revision != 1 || !held[0].Addresses[0].Address.IsValid() {
		t.Fatalf("held after the create: %+v", held)
	}
	given := held[0].Addresses[0]

	b.apply(t, updatePort(id, 1, plan.PortAttributes{Name: "renamed", MAC: "not sent"}, plan.FieldName))
	held = b.observedPorts(t, "o")
	if len(held) != 1 || held[0].Revision != 2 || held[0].Name != "renamed" || held[0].Addresses[0] != given ||
		held[0].MAC == "not sent" {
		t.Errorf("held after the update: %+v", held)
	}
	for _, step := range []plan.Step{
		updatePort(id, 1, plan.PortAttributes{Name: "late"}, plan.FieldName), deletePort(id, 1),
	} {
		if _, err := b.Apply(t.Context(), plan.Change{step}); !client.IsConflict(err) {
			t.Errorf("%s of an older revision: %v", step.Action, err)
		}
	}
	b.apply(t, deletePort(id, 2), deletePort(id, 2), deletePort("not there", 0))
	if held = b.observedPorts(t, "o"); len(held) > 0 {
		t.Errorf("held after the deletion: %+v", held)
	}
	b.audit(t)
	expect.Empty(t, b.takeMoved(), "moved by own writes")
}

// TestAPortMovesNoNetwork holds that the revisions which a change has moved by itself are those of its networks alone.
func TestAPortMovesNoNetwork(t *testing.T) {
	b := newBench(t, Options{Ports: true})
	b.put("net", ownerOf("o").Marker())
	b.audit(t)
	b.apply(t, createPort("o"), createSubnetIn(plan.Ref{ID: "net"}, "o", "10.1.0.0/24"), createPort("o"),
		plan.Step{Action: plan.DeleteNetwork, Ref: plan.Ref{ID: "net"}, Revision: 1})
	expect.Len(t, 2, b.observedPorts(t, "o"), "ports that are held")
}

func TestUnusableAnswerToAPortsWriteMayHaveBeenCarriedOut(t *testing.T) {
	for name, test := range map[string]struct{ answer, says string }{
		"no port":                    {`{"network": {}}`, `it has no "port"`},
		"a field of another type":    {`{"port": {"mac_address": 7}}`, "field mac_address is a number"},
		"a part of another type":     {`{"port": {"fixed_ips": [{"ip_address": 7}]}}`, "field fixed_ips.ip_address is a"},
		"another type":               {`{"port": "` + canaryBody + `"}`, "it is a string"},
		"a port that cannot be told": {`{"port": {}}`, "a port has no id or no network_id"},
		"an address that cannot be read": {`{"port": {"id": "p", "network_id": "net", "fixed_ips": [{"ip_address": "x"}],
			"description": "` + ownerOf("o").Marker() + `"}}`, "port p: fixed_ips"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, Options{Ports: true})
			b.audit(t)
			b.neutron.answers(http.MethodPost, "", http.StatusCreated, test.answer)
			_, err := b.Apply(t.Context(), plan.Change{createPort("o")})
			if !client.MaybeDone(err) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want one that may have been carried out and says %q", err, test.says)
			}
			checkNoSecrets(t, err)
		})
	}
}

func TestListThatEndsDuringAPortsWriteIsNotBelieved(t *testing.T) {
	b := newBench(t, Options{Ports: true})
	b.putPort("p", ownerOf("o").Marker())
	b.audit(t)
	b.takeMoved()
	// The write has been carried out, its answer is on its way, and a whole list comes and goes.
	b.neutron.setBefore(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodDelete {
			return false
		}
		recorder := httptest.NewRecorder()
		b.neutron.setBefore(nil)
		b.neutron.ServeHTTP(recorder, r)
		if err := b.Audit(t.Context()); err != nil {
			t.Error(err)
		}
		w.WriteHeader(recorder.Code)
		return true
	})
	b.apply(t, deletePort("p", 1))
	expect.Empty(t, b.takeMoved(), "moved by the own deletion")
	expect.Empty(t, b.observedPorts(t, "o"), "held")
}

func TestDeviceOfAPortThatSomebodyUses(t *testing.T) {
	for name, c := range map[string]struct{ owner, id, want string }{
		"none":                   {"", "", ""},
		"none, as we create it":  {plan.PortDeviceOwner, "", ""},
		"an interface to be":     {plan.UnattachedDeviceOwner, "", ""},
		"one with hosts' own":    {plan.InterfaceDeviceOwner, "", ""},
		"a router's interface":   {plan.InterfaceDeviceOwner, "r1", ""},
		"a server":               {"compute:nova", "vm-1", "compute:nova, device vm-1"},
		"an owner alone":         {"compute:nova", "", "compute:nova"},
		"a device alone":         {"", "vm-1", "device vm-1"},
		"a device under our own": {plan.PortDeviceOwner, "vm-1", "device vm-1"},
		"a trunk":                {"trunk:subport", "t1", "trunk:subport, device t1"},
		"in more than one line":  {"a\nb", "c", "a b, device c"},
	} {
		t.Run(name, func(t *testing.T) {
			expect.Equal(t, c.want, (wirePort{DeviceOwner: c.owner, DeviceID: c.id}).device(), "the device")
		})
	}
}

func TestADuplicateGoesOnlyWhileItsKeeperExists(t *testing.T) {
	for name, c := range map[string]struct {
		keeper  plan.Keeper
		deleted bool
	}{
		"a port of the owner":         {plan.Keeper{Resource: portOf("kept"), Owner: ownerOf("o")}, true},
		"a port of another":           {plan.Keeper{Resource: portOf("other"), Owner: ownerOf("o")}, false},
		"a port that lost the marker": {plan.Keeper{Resource: portOf("plain"), Owner: ownerOf("o")}, false},
		"a port that is gone":         {plan.Keeper{Resource: portOf("gone"), Owner: ownerOf("o")}, false},
		"a network of anybody":        {plan.Keeper{Resource: networkOf("theirs")}, true},
		"a network that is gone":      {plan.Keeper{Resource: networkOf("gone")}, false},
		"a subnet":                    {plan.Keeper{Resource: networkOf("a"), Owner: ownerOf("o"), Subnet: "sub-a"}, true},
		"a subnet that is gone":       {plan.Keeper{Resource: networkOf("a"), Owner: ownerOf("o"), Subnet: "gone"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, Options{Ports: true})
			b.put("a", ownerOf("o").Marker())
			b.put("theirs", "nobody's")
			b.putPort("kept", ownerOf("o").Marker())
			b.putPort("twin", ownerOf("o").Marker())
			b.putPort("other", ownerOf("o2").Marker())
			b.putPort("gone", ownerOf("o").Marker())
			b.putPort("plain", ownerOf("o").Marker())
			b.put("gone", ownerOf("o").Marker())
			b.audit(t)
			b.neutron.change(func() { // since the list
				delete(b.neutron.ports, "gone")
				delete(b.neutron.networks, "gone")
				b.neutron.ports["plain"].Description = ""
			})
			step := deletePort("twin", 1)
			step.Keeper = c.keeper
			_, err := b.Apply(t.Context(), plan.Change{step})
			deleted := false
			b.neutron.change(func() { _, there := b.neutron.ports["twin"]; deleted = !there })
			if deleted != c.deleted || (err == nil) != c.deleted ||
				err != nil && (!client.IsConflict(err) || client.GateOf(err) != client.GateKeeper) {
				t.Errorf("deleted: %t, %v", deleted, err)
			}
		})
	}
}

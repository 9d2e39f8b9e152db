package inventory

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/cloudtest"
	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestABindingThatFailsIsNone(t *testing.T) {
	i, admin, owner, id := boundPort(t, "")
	b := Binder{Inventory: i, As: admin}
	err := b.Bind(t.Context(), owner, id, "dead")
	if !client.IsKind(err, client.Transient) || !strings.Contains(err.Error(), "openstack network agent list") {
		t.Errorf("to a host without an agent: %v", err)
	}
	expect.NoError(t, b.Bind(t.Context(), owner, id, "node1"))
	var hybrid wireBinding
	hybrid.Details.HybridPlug = true
	if err := hybrid.check("node1"); !client.IsKind(err, client.Invalid) {
		t.Errorf("to an agent whose firewall the Pod would not have: %v", err)
	}
	if err := (wireBinding{DeviceOwner: deviceOwnerSubport}).check("node1"); !IsInTrunk(err) {
		t.Errorf("a port whose packets a trunk has: %v", err)
	}
}

// boundPort has an Inventory of an emulated cloud with a port, and the cloud's administrator. tenant is as in Options.
func boundPort(t *testing.T, tenant string) (i *Inventory, admin *client.Cloud, owner plan.Owner, id string) {
	t.Helper()
	return boundPortBehind(t, tenant, nil)
}

// boundPortBehind is boundPort with a middleware in front of the cloud.
func boundPortBehind(
	t *testing.T, tenant string, middleware func(http.Handler) http.Handler,
) (i *Inventory, admin *client.Cloud, owner plan.Owner, id string) {
	t.Helper()
	cloud, admin := cloudtest.Emulated(t, neutrontest.Options{DeadHosts: []string{"dead"}}, middleware)
	owner = plan.Owner{Cluster: "c", Object: "o"}
	i = New(cloud, owner.Cluster, Options{Ports: true, Tenant: tenant})
	e := emulated{Inventory: i, t: t, owner: owner}
	spec := e.port(e.network("10.0.0.0/24"))
	return i, admin, spec.Owner, e.apply(plan.Port(spec, e.observed()))[0].ID
}

// hostOf is the host on which Neutron expects a port.
func hostOf(t *testing.T, admin *client.Cloud, id string) string {
	t.Helper()
	w, err := client.Get[wireHost](t.Context(), admin, "get port", portKind.Collection,
		[]string{"id", "binding:host_id"}, id)
	expect.NoError(t, err)
	return w.Host
}

// wireHost is a port with the host on which Neutron expects it, which administrators see.
type wireHost struct {
	ID   string `json:"id"`
	Host string `json:"binding:host_id"`
}

func (w wireHost) Key() string { return w.ID }

func TestBindNeedsTheRight(t *testing.T) {
	i, admin, owner, id := boundPort(t, "")
	if err := (Binder{Inventory: i}).Bind(t.Context(), owner, id, "node1"); !client.IsKind(err, client.Forbidden) {
		t.Errorf("a member binds: %v, want Forbidden", err)
	}
	expect.NoError(t, (Binder{Inventory: i, As: admin}).Bind(t.Context(), owner, id, "node1"))
	expect.Equal(t, "node1", hostOf(t, admin, id), "the port's host")
	// The Inventory knows the new revision: the next conditional write of the port succeeds at once.
	held, _ := i.ports.get(id)
	spec := plan.PortSpec{Owner: owner, Name: "renamed", NetworkID: held.NetworkID, Addresses: held.Addresses}
	e := emulated{Inventory: i, t: t, owner: owner}
	e.apply(plan.Port(spec, e.observed()))
}

// TestBindChangesNoPortOfOthers: credentials that may bind may bind every port. The id of a port comes from the cloud
// of a Network, which may be a user's.
func TestBindChangesNoPortOfOthers(t *testing.T) {
	i, admin, owner, id := boundPort(t, "a-namespace")
	other := plan.Owner{Cluster: owner.Cluster, Object: "another"}
	if err := (Binder{Inventory: i, As: admin}).Bind(t.Context(), other, id, "node1"); err == nil {
		t.Error("the port of another object was bound")
	}
	// The user's cloud claims that the port is this object's, and the cloud that has it knows better.
	i.ports.edit(id, func(p *plan.ObservedPort) { p.Description = other.Marker() })
	if err := (Binder{Inventory: i, As: admin}).Bind(t.Context(), other, id, "node1"); err == nil {
		t.Error("a port was bound on the word of a user's cloud")
	}
	expect.Equal(t, "", hostOf(t, admin, id), "the port's host")
	_, elsewhere := cloudtest.Emulated(t, neutrontest.Options{}, nil)
	i.ports.edit(id, func(p *plan.ObservedPort) { p.Description = owner.Marker() })
	if err := (Binder{Inventory: i, As: elsewhere}).Bind(t.Context(), owner, id, "node1"); !client.IsKind(err, client.Invalid) {
		t.Errorf("credentials of another cloud: %v, want Invalid: the port is not plugged unbound either", err)
	}
}

// TestAPortOfAnotherProjectsListIsNotBound: a user's credentials may lead to another Neutron than the list that told of
// the port.
func TestAPortOfAnotherProjectsListIsNotBound(t *testing.T) {
	i, admin, owner, id := boundPort(t, "a-namespace")
	here, err := i.Identity(t.Context())
	expect.NoError(t, err)
	b := Binder{Inventory: i}
	if err := b.Bind(client.Within(t.Context(), here), owner, id, "node1"); !client.IsKind(err, client.Forbidden) {
		t.Errorf("in the project of the list: %v, want Neutron's own Forbidden", err)
	}
	before := here
	before.Endpoint = "http://hers.invalid/"
	i.mu.Lock()
	i.ports.listed.of = before
	i.mu.Unlock()
	unsent := func(err error) bool {
		refusal, ok := errors.AsType[*client.Error](err)
		return ok && refusal.Unsent()
	}
	if err := b.Bind(client.Within(t.Context(), here), owner, id, "node1"); !unsent(err) {
		t.Errorf("after a list of another project: %v, want it not sent", err)
	}
	if _, err := b.AddSubport(client.Within(t.Context(), here), owner, id, Parent{MAC: "fa:16:3e:00:00:01"}); !unsent(err) {
		t.Errorf("in a trunk: %v, want it not sent", err)
	}
	expect.Equal(t, "", hostOf(t, admin, id), "the port's host")
}

// newTrunk makes a trunk in Neutron, and returns its parent.
func newTrunk(t *testing.T, i *Inventory, network string) Parent {
	t.Helper()
	parent := byHand(t, i.cloud, http.MethodPost, "ports", "port", map[string]any{"network_id": network})
	byHand(t, i.cloud, http.MethodPost, "trunks", "trunk", map[string]any{"port_id": parent})
	w, err := portKind.get(t.Context(), i.access, parent)
	expect.NoError(t, err)
	return Parent{PortID: parent, MAC: w.MAC}
}

func TestAPortIsASubportOfItsNodesTrunk(t *testing.T) {
	i, _, owner, id := boundPort(t, "")
	b := Binder{Inventory: i}
	held, _ := i.ports.get(id)
	node, other := newTrunk(t, i, held.NetworkID), newTrunk(t, i, held.NetworkID)
	add := func(parent Parent) (int, error) { return b.AddSubport(t.Context(), owner, id, parent) }
	// The second is after a crash after the write, and from an agent that knows no id.
	for _, parent := range []Parent{node, {MAC: strings.ToUpper(node.MAC)}} {
		if vlan, err := add(parent); vlan != 1 || err != nil {
			t.Fatalf("VLAN %d, %v", vlan, err)
		}
	}
	if _, err := add(other); !client.IsKind(err, client.InUse) || !IsInTrunk(err) {
		t.Errorf("in two trunks: %v, want InUse", err)
	}
	for _, none := range []Parent{{}, {MAC: "fa:16:3e:00:00:00"}, {PortID: id, MAC: node.MAC}} {
		if _, err := add(none); err == nil || !strings.Contains(err.Error(), "no trunk has the node's port") {
			t.Errorf("in no trunk: %v", err)
		}
	}
	for _, mac := range []string{other.MAC, ""} {
		if _, err := add(Parent{PortID: node.PortID, MAC: mac}); !client.IsKind(err, client.Invalid) {
			t.Errorf("with the hardware address %q, which is not the port's: %v, want Invalid", mac, err)
		}
	}
	if _, err := b.AddSubport(t.Context(), plan.Owner{Cluster: owner.Cluster, Object: "x"}, id, node); err == nil {
		t.Error("the port of another object was added")
	}
	if err := b.RemoveSubport(t.Context(), owner, id, other); err != nil {
		t.Errorf("out of a trunk that does not have it: %v", err)
	}
	if vlan, err := add(node); vlan != 1 || err != nil {
		t.Errorf("it left its trunk: VLAN %d, %v", vlan, err)
	}
	for _, trunks := range [][]Parent{{node}, {other, node}, {{PortID: other.PortID}, {MAC: node.MAC}}} {
		if _, err := add(node); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			expect.NoError(t, b.RemoveSubport(t.Context(), owner, id, trunks...))
		}
	}
	if vlan, err := add(other); vlan != 1 || err != nil {
		t.Errorf("after it was removed: VLAN %d, %v", vlan, err)
	}
	if err := b.RemoveSubport(t.Context(), owner, id, Parent{MAC: "fa:16:3e:00:00:00"}); err != nil {
		t.Errorf("a trunk that is gone: %v", err)
	}
}

// TestANodeCannotWriteAnothersParentInAnotherForm: Neutron on MySQL compares without letter case and trailing blanks.
func TestANodeCannotWriteAnothersParentInAnotherForm(t *testing.T) {
	i, _, owner, id := boundPortBehind(t, "", func(neutron http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			query := r.URL.Query()
			for _, field := range []string{"id", "mac_address"} {
				for at, value := range query[field] {
					query[field][at] = strings.TrimRight(strings.ToLower(value), " ")
				}
			}
			r.URL.RawQuery = query.Encode()
			neutron.ServeHTTP(w, r)
		})
	})
	held, _ := i.ports.get(id)
	node := newTrunk(t, i, held.NetworkID)
	for _, like := range []Parent{
		{PortID: strings.ToUpper(node.PortID), MAC: node.MAC}, {PortID: node.PortID + " ", MAC: node.MAC},
		{MAC: node.MAC + " "},
	} {
		if like.Same(node) {
			continue // then both Nodes are told
		}
		_, err := (Binder{Inventory: i}).AddSubport(t.Context(), owner, id, like)
		if !client.IsKind(err, client.Invalid) || !strings.Contains(err.Error(), "as Neutron does") {
			t.Errorf("%+v, which is not the same as %+v: %v, want Invalid", like, node, err)
		}
	}
	for _, like := range []string{strings.ToUpper(node.MAC), strings.ReplaceAll(node.MAC, ":", "-")} {
		if !(Parent{MAC: like}).Same(node) {
			t.Errorf("%s is another hardware address than %s", like, node.MAC)
		}
	}
	if vlan, err := (Binder{Inventory: i}).AddSubport(t.Context(), owner, id, node); vlan != 1 || err != nil {
		t.Errorf("VLAN %d, %v", vlan, err)
	}
}

// TestATrunkOfAnotherProjectIsNoNodes: any project may give a port the hardware address of a node's, and make a trunk of
// it. Credentials that bind ports see the ports of all projects.
func TestATrunkOfAnotherProjectIsNoNodes(t *testing.T) {
	i, admin, owner, id := boundPort(t, "")
	held, _ := i.ports.get(id)
	node := newTrunk(t, i, held.NetworkID)
	// foreign makes a trunk of another project, with the hardware address of the node's.
	foreign := func(project string) Parent {
		t.Helper()
		make := func(path, one string, fields map[string]any) string {
			t.Helper()
			if project != "" {
				fields["project_id"] = project
			}
			return byHand(t, admin, http.MethodPost, path, one, fields)
		}
		network := make("networks", "network", map[string]any{})
		parent := make("ports", "port", map[string]any{"network_id": network, "mac_address": node.MAC})
		make("trunks", "trunk", map[string]any{"port_id": parent})
		return Parent{PortID: parent, MAC: node.MAC}
	}
	enemy := foreign("8fd5c3cbbf7b4bb2a4bf9e3c1f6d3a11")
	b := Binder{Inventory: i, As: admin}
	for _, parent := range []Parent{node, {MAC: node.MAC}} {
		if vlan, err := b.AddSubport(t.Context(), owner, id, parent); vlan != 1 || err != nil {
			t.Errorf("%+v: VLAN %d, %v", parent, vlan, err)
		}
	}
	if _, err := b.AddSubport(t.Context(), owner, id, enemy); err == nil || IsInTrunk(err) {
		t.Errorf("to the trunk of another project, by its id: %v", err)
	}
	expect.NoError(t, b.RemoveSubport(t.Context(), owner, id, Parent{MAC: node.MAC}))

	// A tenant's own project is another project, too, and that of the credentials which bind is the operator's.
	operators := foreign("")
	if vlan, err := b.AddSubport(t.Context(), owner, id, operators); vlan != 1 || err != nil {
		t.Errorf("to a trunk of the project of the credentials that bind: VLAN %d, %v", vlan, err)
	}
	expect.NoError(t, b.RemoveSubport(t.Context(), owner, id, operators))
	for _, parent := range []Parent{node, {MAC: node.MAC}} {
		_, err := (Binder{Inventory: i, Own: admin}).AddSubport(t.Context(), owner, id, parent)
		expect.ErrorSays(t, err, "no trunk has the node's port")
	}
}

func TestFreeVLAN(t *testing.T) {
	full := wireTrunk{}
	for vlan := 1; vlan <= lastVLAN; vlan++ {
		full.Subports = append(full.Subports, wireSubport{VLAN: client.Number(vlan)})
	}
	for name, c := range map[string]struct {
		trunk wireTrunk
		want  int
	}{
		"none is used":           {wireTrunk{}, 1},
		"not the one just freed": {wireTrunk{Subports: []wireSubport{{VLAN: 1}, {VLAN: 3}}}, 4},
		"a gap after the last":   {wireTrunk{Subports: []wireSubport{{VLAN: 1}, {VLAN: lastVLAN}}}, 2},
		"all are used":           {full, 0},
	} {
		t.Run(name, func(t *testing.T) {
			expect.Equal(t, c.want, c.trunk.freeVLAN(), "the VLAN")
		})
	}
}

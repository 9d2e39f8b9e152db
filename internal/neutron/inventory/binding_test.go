package inventory

import (
	"net/netip"
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// boundPort has an Inventory of an emulated cloud with a port, and the cloud's administrator. tenant is as in Options.
func boundPort(t *testing.T, tenant string) (i *Inventory, admin *client.Cloud, owner plan.Owner, id string) {
	t.Helper()
	cloud, admin := cloudsOf(t, neutrontest.Options{})
	owner = plan.Owner{Cluster: "c", Object: "o"}
	i = New(cloud, owner.Cluster, Options{Ports: true, Tenant: tenant})
	e := emulated{Inventory: i, t: t, owner: owner}
	cidr := netip.MustParsePrefix("10.0.0.0/24")
	e.apply(plan.Network(plan.Spec{Owner: owner, Name: "n", Subnets: []plan.Subnet{{
		CIDR: cidr, Pools: plan.DefaultPools(cidr, netip.Addr{}), DHCP: true,
	}}}, e.observed()))
	n, _ := e.observed().Network()
	subnet, _ := n.SubnetByCIDR(cidr)
	owner.Object, e.owner.Object = "port", "port"
	spec := plan.PortSpec{Owner: owner, Name: "p", NetworkID: n.ID, Addresses: []plan.PortAddress{{SubnetID: subnet.ID}}}
	e.apply(plan.Port(spec, e.observed()))
	port, _ := e.observed().Port(n.ID)
	return i, admin, owner, port.ID
}

// hostOf is the host on which Neutron expects a port.
func hostOf(t *testing.T, admin *client.Cloud, id string) string {
	t.Helper()
	w, err := client.Get[boundWire](t.Context(), admin, "get port", portKind.Collection,
		[]string{"id", "binding:host_id"}, id)
	if err != nil {
		t.Fatal(err)
	}
	return w.Host
}

type boundWire struct {
	ID   string `json:"id"`
	Host string `json:"binding:host_id"`
}

func (w boundWire) Key() string { return w.ID }

func TestBindNeedsTheRight(t *testing.T) {
	i, admin, owner, id := boundPort(t, "")
	if err := i.Bind(t.Context(), owner, id, "node1", nil); !client.IsKind(err, client.Forbidden) {
		t.Errorf("a member binds: %v, want Forbidden", err)
	}
	if err := i.Bind(t.Context(), owner, id, "node1", admin); err != nil {
		t.Fatal(err)
	}
	if host := hostOf(t, admin, id); host != "node1" {
		t.Errorf("the port is on host %q", host)
	}
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
	if err := i.Bind(t.Context(), other, id, "node1", admin); err == nil {
		t.Error("the port of another object was bound")
	}
	// The user's cloud claims that the port is this object's, and the cloud that has it knows better.
	i.ports.edit(id, func(p *plan.ObservedPort) { p.Description = other.Marker() })
	if err := i.Bind(t.Context(), other, id, "node1", admin); err == nil {
		t.Error("a port was bound on the word of a user's cloud")
	}
	if host := hostOf(t, admin, id); host != "" {
		t.Errorf("the port is on host %q", host)
	}
	_, elsewhere := cloudsOf(t, neutrontest.Options{})
	i.ports.edit(id, func(p *plan.ObservedPort) { p.Description = owner.Marker() })
	if err := i.Bind(t.Context(), owner, id, "node1", elsewhere); !client.IsKind(err, client.Forbidden) {
		t.Errorf("credentials of another cloud: %v, want Forbidden", err)
	}
}

package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"

	"github.com/gophercloud/gophercloud/v2"

	"cloudteam.ztgame.com/network-controller/test/specs"
)

// What the rows of test/specs ask of an object and of its cloud.

var _ specs.Tried = (*tried)(nil)

func (o *tried) Called() string { return o.called }

func (o *tried) Namespace() string { return o.namespace }

func (o *tried) Marker() string { o.t.Helper(); return markerOf(o.t, o.object) }

func (o *tried) Other(trial string) specs.Tried { o.t.Helper(); return o.of(trial) }

func (o *tried) ID(of string) string { o.t.Helper(); return o.id(of) }

func (o *tried) VLAN(n int) int { return o.vlans + n }

func (o *tried) SubnetPool() (id, name string) {
	o.t.Helper()
	pool := o.made("subnet pool", func() resource {
		return o.neutron.create("subnetpools", resource{
			"name": o.namespace + "-pool", "shared": true, "prefixes": []string{"10.66.0.0/22"}, "default_prefixlen": 24,
		})
	})
	return pool.id(), fmt.Sprint(pool["name"])
}

func (o *tried) Outside(cidr string) (id, name string) {
	o.t.Helper()
	n := o.outside(cidr)
	return n.id(), fmt.Sprint(n["name"])
}

func (o *tried) QoSPolicy(name string) string {
	o.t.Helper()
	return o.made("QoS policy "+name, func() resource {
		return resource{"id": newQoSPolicy(o.t, open(o.t, "admin"), o.namespace+"-"+name)}
	}).id()
}

// SecurityGroups asks for a port: a project has its default security group from its first one on.
func (o *tried) SecurityGroups(cloudName string) any {
	o.t.Helper()
	port := o.made("a port of "+cloudName, func() resource {
		c := open(o.t, cloudName)
		return c.create("ports", resource{"network_id": c.create("networks", resource{"name": o.namespace}).id()})
	})
	return port["security_groups"]
}

func (o *tried) CIDRs() []string { o.t.Helper(); return o.neutron.cidrsOf(o.id("network")) }

func (o *tried) CIDR() string {
	o.t.Helper()
	return fmt.Sprint(o.neutron.one("subnets", "id="+o.id("subnet"))["cidr"])
}

func (o *tried) RemoveSubnet(cidr string) {
	o.t.Helper()
	o.neutron.remove("subnets", o.neutron.one("subnets", "network_id="+o.id("network")+"&cidr="+cidr).id())
}

func (o *tried) Shares() []string {
	o.t.Helper()
	return slices.Sorted(maps.Keys(o.neutron.shares(o.id("network"))))
}

func (o *tried) Unshare(project string) {
	o.t.Helper()
	o.neutron.remove("rbac-policies", o.neutron.shares(o.id("network"))[project])
}

func (o *tried) Tag(tag string) { o.t.Helper(); o.neutron.tag(o.id("network"), tag) }

// cidrsOf are the CIDRs of a network's subnets in Neutron, sorted.
func (c *cloud) cidrsOf(network string) []string {
	c.t.Helper()
	var cidrs []string
	for _, s := range c.list("subnets", "network_id="+network) {
		cidrs = append(cidrs, s["cidr"].(string))
	}
	slices.Sort(cidrs)
	return cidrs
}

// tag replaces the tags of a network.
func (c *cloud) tag(id string, tags ...string) {
	c.t.Helper()
	_, err := c.client.Put(c.t.Context(), c.client.ServiceURL("networks", id, "tags"), resource{"tags": tags}, nil,
		&gophercloud.RequestOpts{OkCodes: []int{http.StatusOK}})
	if err != nil {
		c.t.Fatalf("tagging network %s: %v", id, err)
	}
}

// newQoSPolicy makes a QoS policy that all projects see, until the test ends, and gives its id.
func newQoSPolicy(t *testing.T, admin *cloud, name string) string {
	t.Helper()
	url := admin.client.ServiceURL("qos", "policies")
	var made map[string]resource
	_, err := admin.client.Post(t.Context(), url, resource{"policy": resource{"name": name, "shared": true}}, &made,
		&gophercloud.RequestOpts{OkCodes: []int{http.StatusCreated}})
	if err != nil {
		t.Fatalf("creating QoS policy %s: %v", name, err)
	}
	id := made["policy"].id()
	t.Cleanup(func() {
		if _, err := admin.client.Delete(context.WithoutCancel(t.Context()), url+"/"+id, nil); err != nil {
			t.Errorf("deleting QoS policy %s: %v", id, err)
		}
	})
	return id
}

// shares are the policies by which the network is shared with single projects, by project.
func (c *cloud) shares(network string) map[string]string {
	c.t.Helper()
	var answer map[string][]resource
	query := "?object_type=network&action=access_as_shared&object_id=" + network
	if _, err := c.client.Get(c.t.Context(), c.client.ServiceURL("rbac-policies")+query, &answer, nil); err != nil {
		c.t.Fatalf("listing RBAC policies: %v", err)
	}
	shares := map[string]string{}
	for _, r := range answer["rbac_policies"] {
		shares[r["target_tenant"].(string)] = r.id()
	}
	return shares
}

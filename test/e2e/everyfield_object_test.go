package e2e

import (
	"fmt"
	"maps"
	"slices"

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
		return o.neutron.Create("subnetpools", resource{
			"name": o.namespace + "-pool", "shared": true, "prefixes": []string{"10.66.0.0/22"}, "default_prefixlen": 24,
		})
	})
	return pool.ID(), fmt.Sprint(pool["name"])
}

func (o *tried) Outside(cidr string) (id, name string) {
	o.t.Helper()
	n := o.outside(cidr)
	return n.ID(), fmt.Sprint(n["name"])
}

func (o *tried) QoSPolicy(name string) string {
	o.t.Helper()
	return o.made("QoS policy "+name, func() resource {
		return newQoSPolicy(open(o.t, "admin"), o.namespace+"-"+name)
	}).ID()
}

// SecurityGroups asks for a port: a project has its default security group from its first one on.
func (o *tried) SecurityGroups(cloudName string) any {
	o.t.Helper()
	port := o.made("a port of "+cloudName, func() resource {
		c := open(o.t, cloudName)
		return c.Create("ports", resource{"network_id": c.Create("networks", resource{"name": o.namespace}).ID()})
	})
	return port["security_groups"]
}

func (o *tried) CIDRs() []string { o.t.Helper(); return o.neutron.cidrsOf(o.id("network")) }

func (o *tried) CIDR() string {
	o.t.Helper()
	return fmt.Sprint(o.neutron.One("subnets", "id="+o.id("subnet"))["cidr"])
}

func (o *tried) RemoveSubnet(cidr string) {
	o.t.Helper()
	o.neutron.Remove("subnets", o.neutron.One("subnets", "network_id="+o.id("network")+"&cidr="+cidr).ID())
}

func (o *tried) Shares() []string {
	o.t.Helper()
	return slices.Sorted(maps.Keys(o.neutron.shares(o.id("network"))))
}

func (o *tried) Unshare(project string) {
	o.t.Helper()
	o.neutron.Remove("rbac-policies", o.neutron.shares(o.id("network"))[project])
}

func (o *tried) Tag(tag string) { o.t.Helper(); o.neutron.tag(o.id("network"), tag) }

// cidrsOf are the CIDRs of a network's subnets in Neutron, sorted.
func (c *cloud) cidrsOf(network string) []string {
	c.t.Helper()
	var cidrs []string
	for _, s := range c.List("subnets", "network_id="+network) {
		cidrs = append(cidrs, s["cidr"].(string))
	}
	slices.Sort(cidrs)
	return cidrs
}

// tag replaces the tags of a network.
func (c *cloud) tag(id string, tags ...string) {
	c.t.Helper()
	c.Act("networks", id, "tags", resource{"tags": tags})
}

// newQoSPolicy makes a QoS policy that all projects see, until the test ends.
func newQoSPolicy(admin *cloud, name string) resource {
	admin.t.Helper()
	return admin.Create("qos/policies", resource{"name": name, "shared": true})
}

// shares are the policies by which the network is shared with single projects, by project.
func (c *cloud) shares(network string) map[string]string {
	c.t.Helper()
	shares := map[string]string{}
	query := "object_type=network&action=access_as_shared&object_id=" + network
	for _, r := range c.List("rbac-policies", query) {
		shares[r["target_tenant"].(string)] = r.ID()
	}
	return shares
}

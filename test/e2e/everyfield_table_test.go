package e2e

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// The table of TestEveryField. Each field of docs/fields.md that becomes an attribute in Neutron has a row here, or the
// test fails and names it. To add one:
//
//   - Put it into a trial of the field's kind whose cloud may set it (an administrator's fields are for "admin") and
//     whose other rows go with it in one spec. What goes with none of them gets a trial of its own: a name and its
//     rows.
//   - Write what the spec says at first (create), after an edit (change) where the field can change, and what others
//     make of it in Neutron (drift), which is another value than the last. Values are written as in JSON. One that is
//     only known later, such as an id, is a function (late), and what has to be in Neutron for it, attempt.made makes.
//   - Write what Neutron has once the spec sets the field no longer (gone), in Neutron's form. A field that docs/fields.md
//     says stays needs none, and one that cannot be removed must have none. One whose object goes with it names needs.
//   - Where an empty value means something else than a field that is left out, write it (empty), and what Neutron has
//     then (emptied), where that is not gone.
//   - Where Neutron shows the value in another form than the spec, say in which (reads). Where docs/fields.md does not
//     name the very attribute that shows it, name that (attribute), or say how to look for it (sees) and how others
//     change it (drifts).
//   - What others cannot change says why (never). A row with never and no create is not tried at all.

// trial is an object with the fields that it is to take through its life.
type trial struct {
	// name is the end of the object's, and what rows of others call it by. kind is "Network" or "NetworkPort".
	name, kind string
	// cloud is the one of clouds.yaml whose credentials the controller has meanwhile.
	cloud string
	rows  []fieldRow
}

// fieldRow is one field of an object, from the spec to Neutron and back.
type fieldRow struct {
	// field is the field's path, as docs/fields.md writes it. Those of one element of a list have rows of their own; the
	// list has one element then.
	field string
	// create and change are what the spec says, at first and after an edit.
	create, change any
	// drift is what somebody else gives the attribute in Neutron. It is put back to change or, without that, to create.
	drift any
	// gone is what Neutron has once the spec sets the field no longer: isNil stands for null. needs says why the field
	// stays in the spec all the same.
	gone  any
	needs string
	// empty is the empty value that means something, and emptied what Neutron has for it; nil stands for gone.
	empty, emptied any
	// never says why nobody else changes it, and without create why it is not tried at all.
	never string

	// attribute is the one that shows the value, where that is not the one of docs/fields.md: a resource and a path in
	// its JSON, in which [] stands for the one element of a list.
	attribute string
	// reads gives how Neutron shows a declared value in an attribute; nil stands for the value itself.
	reads func(o *tried, attribute string, declared any) any
	// sees reads what Neutron has; nil stands for the attribute.
	sees func(o *tried) any
	// drifts changes it in Neutron, instead of drift.
	drifts func(o *tried)
	// told is how the Event names it that says that it was put back; empty stands for the field's name.
	told string
}

// isNil is a value of gone and emptied that is null in Neutron.
var isNil = late(func(*tried) any { return nil })

// late is a value that is known once the objects have names and their surroundings are there.
type late func(o *tried) any

// Why nobody else changes a field.
const (
	fixedWhenMade = "Neutron fixes it when it makes the resource"
	fixedWhileOn  = "Neutron fixes it as long as the router is on: TestNetwork has one switched off"
)

// trials is the table.
func trials() []trial {
	return []trial{
		{name: "plain", kind: "Network", cloud: "tenant", rows: []fieldRow{
			{field: "spec.cidr", create: "10.61.0.0/24", reads: readCIDR, never: fixedWhenMade},
			{field: "spec.gateway", create: "10.61.0.254", change: "none", drift: "10.61.0.253", reads: readGateway,
				gone: "10.61.0.1"},
			{field: "spec.allocationPools[].start", create: "10.61.0.10", change: "10.61.0.20", drift: "10.61.0.30",
				gone: "10.61.0.2"},
			{field: "spec.allocationPools[].end", create: "10.61.0.99", change: "10.61.0.89", drift: "10.61.0.79",
				gone: "10.61.0.254"},
			{field: "spec.dhcp", create: true, change: false, drift: true, gone: true},
			{field: "spec.dnsServers", create: []string{"10.61.0.3", "10.61.0.2"}, change: []string{"10.61.0.2"},
				drift: []string{"10.61.0.2", "10.61.0.3"}, gone: []string{}, empty: []string{}},
			{field: "spec.hostRoutes[].destination", create: "10.9.0.0/16", change: "10.10.0.0/16", drift: "10.11.0.0/16",
				gone: []string{}},
			{field: "spec.hostRoutes[].nextHop", create: "10.61.0.7", change: "10.61.0.8", drift: "10.61.0.9",
				gone: []string{}},
			{field: "spec.serviceTypes", create: []string{"compute:nova"}, change: []string{"network:dhcp"},
				drift: []string{"compute:others"}, gone: []string{}, empty: []string{}},
			{field: "spec.dnsPublishFixedIP", create: false, change: true, drift: false, gone: false},
			{field: "spec.additionalSubnets", create: subnetsOf("fd00:61::/64"),
				change: subnetsOf("fd00:61::/64", "fd00:62::/64"), reads: readCIDRs, sees: seeIPv6Subnets,
				drifts: removeSubnet("fd00:62::/64"), told: "Created subnet fd00:62::/64", gone: []string{},
				empty: []resource{}},
			{field: "spec.description", create: "with Ünïcödé", change: "another", drift: withMarker("others'"),
				reads: readDescription, gone: late(func(o *tried) any { return markerOf(o.t, o.object) })},
			{field: "spec.mtu", create: 1400, change: 1300, drift: 1350},
			{field: "spec.portSecurity", create: false, change: true, drift: false},
			{field: "spec.networkName", create: "created in Neutron", change: "changed in Neutron", drift: "others' name",
				told: " name ", gone: late(func(o *tried) any { return o.called })},
			{field: "spec.adminState", create: "Up", change: "Down", drift: true, reads: readAdminState, gone: true},
			{field: "spec.dnsDomain", create: "Created.example.", change: "Changed.example.", drift: "others.example.",
				reads: readLower, gone: "", empty: "none"},
			{field: "spec.tags", create: []string{"b", "a,c"}, change: []string{"c"}, reads: readSorted,
				drifts: func(o *tried) { o.neutron.tag(o.id("network"), "others'") }, gone: []string{}, empty: []string{}},
			{field: "spec.qosPolicy", create: qosPolicy("gold"), change: qosPolicy("silver"), drift: qosPolicy("gold"),
				gone: isNil, empty: "none"},
			{field: "spec.sharedWith", create: []string{"one"}, change: []string{"two", "three"}, reads: readSorted,
				gone: isNil, empty: []string{},
				sees:   func(o *tried) any { return slices.Sorted(maps.Keys(o.neutron.shares(o.id("network")))) },
				drifts: func(o *tried) { o.neutron.remove("rbac-policies", o.neutron.shares(o.id("network"))["two"]) },
				told:   `Shared network with project "two"`},
			{field: "spec.availabilityZoneHints", create: []string{"west", "east"}, reads: readSorted, never: fixedWhenMade},
			{field: "spec.import.id", never: "TestNetwork takes a network over that was made by hand"},
		}},
		{name: "ipv6", kind: "Network", cloud: "tenant", rows: []fieldRow{
			{field: "spec.cidr", create: "FD00:0:63::/64", reads: readCIDR, never: fixedWhenMade},
			{field: "spec.ipv6AddressMode", create: "slaac", never: fixedWhenMade},
			{field: "spec.ipv6RAMode", create: "slaac", never: fixedWhenMade},
		}},
		{name: "pooled", kind: "Network", cloud: "tenant", rows: []fieldRow{
			{field: "spec.subnetPool", create: late(func(o *tried) any { return pool(o)["name"] }), reads: readPool,
				never: fixedWhenMade},
			{field: "spec.prefixLength", create: 26, sees: seePrefixLength, never: fixedWhenMade},
		}},
		{name: "provided", kind: "Network", cloud: "admin", rows: []fieldRow{
			{field: "spec.cidr", create: "10.64.0.0/24", reads: readCIDR, never: fixedWhenMade},
			{field: "spec.shared", create: false, change: true, drift: false, gone: false, empty: false},
			{field: "spec.external", create: false, change: true, drift: false, gone: false, empty: false},
			{field: "spec.provider.networkType", create: "vlan", never: fixedWhenMade},
			{field: "spec.provider.physicalNetwork", create: "physnet1", never: fixedWhenMade},
			{field: "spec.provider.segmentationID", create: vlan(0), change: vlan(1), drift: vlan(2)},
		}},
		{name: "routed", kind: "Network", cloud: "admin", rows: []fieldRow{
			{field: "spec.cidr", create: "10.65.0.0/24", reads: readCIDR, never: fixedWhenMade},
			{field: "spec.router.externalNetwork", create: outsideName("203.0.113.0/24"),
				change: outsideID("198.51.100.0/24"), drift: outsideID("203.0.113.0/24"), reads: readOutside,
				needs: "snat and externalIP go with it: TestRouter takes it away"},
			{field: "spec.router.snat", create: true, change: false, drift: true},
			{field: "spec.router.externalIP", create: "203.0.113.20", change: "198.51.100.20", drift: "203.0.113.30",
				attribute: "router.external_gateway_info.external_fixed_ips[].ip_address"},
			{field: "spec.router.ha", create: false, never: fixedWhileOn},
			{field: "spec.router.distributed", create: false, never: fixedWhileOn},
			{field: "spec.router.routes[].destination", create: "198.18.0.0/24", change: "198.18.1.0/24",
				drift: "198.18.2.0/24", gone: []string{}},
			{field: "spec.router.routes[].nextHop", create: "10.65.0.9", change: "10.65.0.8", drift: "10.65.0.7",
				gone: []string{}},
		}},
		{name: "port", kind: "NetworkPort", cloud: "admin", rows: []fieldRow{
			{field: "spec.networkName", create: late(func(o *tried) any { return o.of("routed").called }),
				reads: readNetwork, never: fixedWhenMade},
			{field: "spec.networkNamespace", create: late(func(o *tried) any { return o.namespace }),
				reads: readNetwork, never: fixedWhenMade},
			{field: "spec.addresses", create: []string{"10.65.0.50"}, drift: fixedIPs("10.65.0.51"), reads: readAddresses},
			{field: "spec.mac", create: "FA:16:3E:65:00:01", drift: "fa:16:3e:65:00:02", reads: readLower},
			{field: "spec.securityGroups", create: groupOf("admin"), change: groupOf("tenant"), drift: []string{},
				empty: []string{}, emptied: []string{}},
		}},
	}
}

// How Neutron shows what specs say.

func readCIDR(_ *tried, attribute string, declared any) any {
	switch {
	case attribute != "subnet.ip_version":
		return strings.ToLower(declared.(string))
	case strings.Contains(declared.(string), ":"):
		return 6
	default:
		return 4
	}
}

func readGateway(_ *tried, _ string, declared any) any {
	if declared == "none" {
		return nil
	}
	return declared
}

func readDescription(o *tried, _ string, declared any) any {
	return withMarker(declared.(string))(o)
}

func readAdminState(_ *tried, _ string, declared any) any { return declared == "Up" }

func readLower(_ *tried, _ string, declared any) any { return strings.ToLower(declared.(string)) }

func readSorted(_ *tried, _ string, declared any) any {
	return slices.Sorted(slices.Values(declared.([]string)))
}

func readAddresses(o *tried, _ string, declared any) any { return fixedIPs(declared.([]string)...)(o) }

func readNetwork(o *tried, _ string, _ any) any { return o.of("routed").id("network") }

func readOutside(o *tried, _ string, declared any) any {
	for _, cidr := range []string{"203.0.113.0/24", "198.51.100.0/24"} {
		if n := o.outside(cidr); declared == n["name"] {
			return n.id()
		}
	}
	return declared
}

// pool is a subnet pool of IPv4.
func pool(o *tried) resource {
	return o.made("subnet pool", func() resource {
		return o.neutron.create("subnetpools", resource{
			"name": o.namespace + "-pool", "shared": true, "prefixes": []string{"10.66.0.0/22"}, "default_prefixlen": 24,
		})
	})
}

func readPool(o *tried, attribute string, _ any) any {
	if attribute == "subnet.ip_version" {
		return 4
	}
	return pool(o).id()
}

func seePrefixLength(o *tried) any {
	cidr, _ := o.neutron.one("subnets", "id="+o.id("subnet"))["cidr"].(string)
	_, length, _ := strings.Cut(cidr, "/")
	bits, _ := strconv.Atoi(length)
	return bits
}

// Further subnets of a network. All of them are of IPv6, and the first is not.

func subnetsOf(cidrs ...string) []resource {
	subnets := make([]resource, len(cidrs))
	for i, cidr := range cidrs {
		subnets[i] = resource{"cidr": cidr}
	}
	return subnets
}

func readCIDRs(_ *tried, _ string, declared any) any {
	var cidrs []string
	for _, subnet := range declared.([]resource) {
		cidrs = append(cidrs, subnet["cidr"].(string))
	}
	return cidrs
}

func seeIPv6Subnets(o *tried) any {
	cidrs := o.neutron.cidrsOf(o.id("network"))
	return slices.DeleteFunc(cidrs, func(cidr string) bool { return !strings.Contains(cidr, ":") })
}

func removeSubnet(cidr string) func(o *tried) {
	return func(o *tried) {
		o.neutron.remove("subnets", o.neutron.one("subnets", "network_id="+o.id("network")+"&cidr="+cidr).id())
	}
}

// Values that are known late.

func withMarker(text string) late {
	return func(o *tried) any { return text + " " + markerOf(o.t, o.object) }
}

// vlan is one of this attempt's VLAN IDs.
func vlan(n int) late { return func(o *tried) any { return o.vlans + n } }

// fixedIPs are addresses of a port. Their subnet is named, without which Neutron 21 fails where the MAC changes, too.
func fixedIPs(addresses ...string) late {
	return func(o *tried) any {
		var all []resource
		for _, address := range addresses {
			all = append(all, resource{"ip_address": address, "subnet_id": o.of("routed").id("subnet")})
		}
		return all
	}
}

// qosPolicy is the id of a QoS policy of that name.
func qosPolicy(name string) late {
	return func(o *tried) any {
		return o.made("QoS policy "+name, func() resource {
			return resource{"id": newQoSPolicy(o.t, o.namespace+"-"+name)}
		}).id()
	}
}

func outsideName(cidr string) late { return func(o *tried) any { return o.outside(cidr)["name"] } }

func outsideID(cidr string) late { return func(o *tried) any { return o.outside(cidr).id() } }

// groupOf is a list of a cloud's default security group, which its project has from its first port on.
func groupOf(cloudName string) late {
	return func(o *tried) any {
		port := o.made("a port of "+cloudName, func() resource {
			c := open(o.t, cloudName)
			return c.create("ports", resource{"network_id": c.create("networks", resource{"name": o.namespace}).id()})
		})
		return port["security_groups"]
	}
}

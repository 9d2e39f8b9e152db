package attachment

import (
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// example is a Network that is Ready, as the API server holds it.
func example() *cloudteamv1.Network {
	network := &cloudteamv1.Network{}
	network.Namespace, network.Name, network.UID, network.Generation = "team", "example", "network-1", 1
	network.ResourceVersion = "50"
	network.Spec.CIDR = "192.168.0.0/16"
	network.Status.MTU = 1450
	network.Status.Subnets = []cloudteamv1.SubnetStatus{{ID: "subnet-1", CIDR: "192.168.0.0/16"}}
	network.Status.Conditions = []metav1.Condition{{
		Type: cloudteamv1.ConditionReady, Status: metav1.ConditionTrue, ObservedGeneration: 1,
		Reason: cloudteamv1.ReasonAvailable,
	}}
	return network
}

func TestConfig(t *testing.T) {
	for name, c := range map[string]struct {
		options Options
		change  func(*cloudteamv1.Network)
		want    string
	}{
		"macvlan is on the interface of the node's default route": {
			options: Options{Plugin: "macvlan"},
			want: `{"cniVersion":"1.0.0","name":"example","plugins":[{"type":"macvlan","mode":"bridge","mtu":1450,` +
				`"capabilities":{"ips":true,"mac":true},"ipam":{"type":"static"}}]}`,
		},
		"macvlan takes the interface that is given": {
			options: Options{Plugin: "macvlan", Master: "eth1"},
			want: `{"cniVersion":"1.0.0","name":"example","plugins":[{"type":"macvlan","master":"eth1","mode":"bridge",` +
				`"mtu":1450,"capabilities":{"ips":true,"mac":true},"ipam":{"type":"static"}}]}`,
		},
		"the project's own plugin needs no addresses here": {
			want: `{"cniVersion":"1.0.0","name":"example","plugins":[{"type":"neutron-port",` +
				`"capabilities":{"ips":true,"mac":true}}]}`,
		},
		"the project's own plugin gets the routes itself": {
			change: func(n *cloudteamv1.Network) {
				n.Spec.HostRoutes = []cloudteamv1.HostRoute{{Destination: "10.2.0.0/16", NextHop: "192.168.0.254"}}
			},
			want: `{"cniVersion":"1.0.0","name":"example","plugins":[{"type":"neutron-port",` +
				`"capabilities":{"ips":true,"mac":true},"routes":[{"dst":"10.2.0.0/16","gw":"192.168.0.254"}]}]}`,
		},
		"an MTU that is not known is left to the plugin": {
			options: Options{Plugin: "macvlan"},
			change:  func(n *cloudteamv1.Network) { n.Status.MTU = 0 },
			want: `{"cniVersion":"1.0.0","name":"example","plugins":[{"type":"macvlan","mode":"bridge",` +
				`"capabilities":{"ips":true,"mac":true},"ipam":{"type":"static"}}]}`,
		},
		"the MTU is that of the network in Neutron, not the declared one": {
			options: Options{Plugin: "macvlan"},
			change:  func(n *cloudteamv1.Network) { n.Spec.MTU = new(int32(9000)) },
			want: `{"cniVersion":"1.0.0","name":"example","plugins":[{"type":"macvlan","mode":"bridge","mtu":1450,` +
				`"capabilities":{"ips":true,"mac":true},"ipam":{"type":"static"}}]}`,
		},
		"host routes keep their order": {
			options: Options{Plugin: "macvlan"},
			change: func(n *cloudteamv1.Network) {
				n.Spec.HostRoutes = []cloudteamv1.HostRoute{
					{Destination: "10.2.0.0/16", NextHop: "192.168.0.254"},
					{Destination: "10.1.0.0/16", NextHop: "192.168.0.253"},
				}
			},
			want: `{"cniVersion":"1.0.0","name":"example","plugins":[{"type":"macvlan","mode":"bridge","mtu":1450,` +
				`"capabilities":{"ips":true,"mac":true},"ipam":{"type":"static","routes":[` +
				`{"dst":"10.2.0.0/16","gw":"192.168.0.254"},{"dst":"10.1.0.0/16","gw":"192.168.0.253"}]}}]}`,
		},
		"ipvlan has its node's hardware address and modes of its own": {
			options: Options{Plugin: "ipvlan", Master: "eth1"},
			want: `{"cniVersion":"1.0.0","name":"example","plugins":[{"type":"ipvlan","master":"eth1","mtu":1450,` +
				`"capabilities":{"ips":true},"ipam":{"type":"static"}}]}`,
		},
		"bridge has no interface of the node": {
			options: Options{Plugin: "bridge"},
			want: `{"cniVersion":"1.0.0","name":"example","plugins":[{"type":"bridge","mtu":1450,` +
				`"capabilities":{"ips":true,"mac":true},"ipam":{"type":"static"}}]}`,
		},
		"host-device takes addresses alone": {
			options: Options{Plugin: "host-device"},
			want: `{"cniVersion":"1.0.0","name":"example","plugins":[{"type":"host-device",` +
				`"capabilities":{"ips":true},"ipam":{"type":"static"}}]}`,
		},
		"a plugin that is not known is given what most take": {
			options: Options{Plugin: "acme-net", Master: "bond0"},
			want: `{"cniVersion":"1.0.0","name":"example","plugins":[{"type":"acme-net","master":"bond0","mtu":1450,` +
				`"capabilities":{"ips":true,"mac":true},"ipam":{"type":"static"}}]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			network := example()
			if c.change != nil {
				c.change(network)
			}
			expect.NoError(t, c.options.Validate())
			for range 2 {
				got, err := config(network, c.options)
				expect.NoError(t, err)
				expect.Equal(t, c.want, got, "configuration")
			}
		})
	}
}

func TestDesired(t *testing.T) {
	got := desired(example(), "{}")
	want := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "k8s.cni.cncf.io/v1",
		"kind":       "NetworkAttachmentDefinition",
		"metadata": map[string]any{
			"namespace": "team", "name": "example",
			"labels": map[string]any{"app.kubernetes.io/managed-by": "network-controller"},
			"ownerReferences": []any{map[string]any{
				"apiVersion": "cloudteam.ztgame.com/v1", "kind": "Network", "name": "example", "uid": "network-1",
				"controller": true, "blockOwnerDeletion": true,
			}},
		},
		"spec": map[string]any{"config": "{}"},
	}}
	expect.Equal(t, want, got, "NetworkAttachmentDefinition")
	if !isDesired(got, "{}") {
		t.Error("what is desired is not what is desired")
	}
}

func TestIsReady(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*cloudteamv1.Network)
		want   bool
	}{
		"Ready for the present generation":          {func(*cloudteamv1.Network) {}, true},
		"Ready without a word about the generation": {func(n *cloudteamv1.Network) { n.Status.Conditions[0].ObservedGeneration = 0 }, true},
		"Ready for an earlier generation":           {func(n *cloudteamv1.Network) { n.Generation = 2 }, false},
		"not Ready":                                 {func(n *cloudteamv1.Network) { n.Status.Conditions[0].Status = metav1.ConditionFalse }, false},
		"unknown":                                   {func(n *cloudteamv1.Network) { n.Status.Conditions[0].Status = metav1.ConditionUnknown }, false},
		"no status":                                 {func(n *cloudteamv1.Network) { n.Status = cloudteamv1.NetworkStatus{} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			network := example()
			c.change(network)
			expect.Equal(t, c.want, isReady(network), "ready")
		})
	}
}

// TestRoutesOfOtherPlugins has Networks with several subnets. A plugin that is not the project's own takes all routes or
// starts no Pod, so it gets those that every port can use.
func TestRoutesOfOtherPlugins(t *testing.T) {
	type subnet struct {
		cidr   string
		routes []cloudteamv1.HostRoute
		change func(*cloudteamv1.SubnetSpec, *cloudteamv1.SubnetStatus)
	}
	to := func(pairs ...string) (routes []cloudteamv1.HostRoute) {
		for i := 0; i < len(pairs); i += 2 {
			routes = append(routes, cloudteamv1.HostRoute{Destination: pairs[i], NextHop: pairs[i+1]})
		}
		return routes
	}
	slaac := func(spec *cloudteamv1.SubnetSpec, status *cloudteamv1.SubnetStatus) {
		spec.IPv6AddressMode, status.IPv6AddressMode = cloudteamv1.IPv6ModeSLAAC, cloudteamv1.IPv6ModeSLAAC
	}
	four, six := subnet{cidr: "10.1.0.0/24", routes: to("10.8.0.0/16", "10.1.0.9")}, subnet{
		cidr: "fd00:1::/64", routes: to("fd00:8::/64", "fd00:1::9"),
	}
	for name, c := range map[string]struct {
		subnets []subnet
		want    []cloudteamv1.HostRoute
	}{
		"one subnet of each family": {
			[]subnet{four, six}, to("10.8.0.0/16", "10.1.0.9", "fd00:8::/64", "fd00:1::9"),
		},
		"a port is in one of two subnets of a family": {
			[]subnet{four, six, {cidr: "10.2.0.0/24", routes: to("10.9.0.0/16", "10.2.0.9")}},
			to("fd00:8::/64", "fd00:1::9"),
		},
		"no port is in a subnet for others": {
			[]subnet{four, {cidr: "10.2.0.0/24", routes: to("10.9.0.0/16", "10.2.0.9"),
				change: func(spec *cloudteamv1.SubnetSpec, status *cloudteamv1.SubnetStatus) {
					spec.ServiceTypes = []string{"network:floatingip_agent_gateway"}
					status.ServiceTypes = spec.ServiceTypes
				}}},
			to("10.8.0.0/16", "10.1.0.9"),
		},
		"a port forms an address in each subnet with SLAAC": {
			[]subnet{{cidr: "fd00:2::/64", routes: to("fd00:9::/64", "fd00:2::9"), change: slaac}, six,
				{cidr: "fd00:3::/64", routes: to("fd00:a::/64", "fd00:3::9"), change: slaac}},
			to("fd00:9::/64", "fd00:2::9", "fd00:8::/64", "fd00:1::9", "fd00:a::/64", "fd00:3::9"),
		},
		"the next hop is outside the subnet": {
			[]subnet{{cidr: "10.1.0.0/24", routes: to("10.8.0.0/16", "10.5.0.9", "10.9.0.0/16", "10.1.0.9")}},
			to("10.9.0.0/16", "10.1.0.9"),
		},
		"each IPv6 interface has a link-local address": {
			[]subnet{six, {cidr: "fd00:2::/64", routes: to("fd00:9::/64", "fe80::9")}}, to("fd00:9::/64", "fe80::9"),
		},
		"an IPv4 interface has no link-local one": {
			[]subnet{{cidr: "10.1.0.0/24", routes: to("fd00:9::/64", "fe80::9")}}, nil,
		},
		"a subnet that the spec no longer has is left to its ports": {
			[]subnet{four, {cidr: "10.2.0.0/24",
				change: func(spec *cloudteamv1.SubnetSpec, _ *cloudteamv1.SubnetStatus) { *spec = cloudteamv1.SubnetSpec{} }}},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			network := example()
			network.Status.Subnets = nil
			var specs []cloudteamv1.SubnetSpec
			for _, s := range c.subnets {
				spec := cloudteamv1.SubnetSpec{CIDR: s.cidr, HostRoutes: s.routes}
				status := cloudteamv1.SubnetStatus{ID: s.cidr, CIDR: s.cidr}
				if s.change != nil {
					s.change(&spec, &status)
				}
				if network.Status.Subnets = append(network.Status.Subnets, status); spec.CIDR != "" {
					specs = append(specs, spec)
				}
			}
			network.Spec.SubnetSpec, network.Spec.AdditionalSubnets = specs[0], specs[1:]
			text, err := config(network, Options{Plugin: "macvlan"})
			expect.NoError(t, err)
			var got configList
			expect.NoError(t, json.Unmarshal([]byte(text), &got))
			var routes []cloudteamv1.HostRoute
			for _, r := range got.Plugins[0].IPAM.Routes {
				routes = append(routes, cloudteamv1.HostRoute{Destination: r.Destination, NextHop: r.Gateway})
			}
			expect.Equal(t, c.want, routes, "routes")
		})
	}
}

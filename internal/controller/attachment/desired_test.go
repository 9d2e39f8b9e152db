package attachment

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// example is a Network that is Ready, as the API server holds it.
func example() *cloudteamv1.Network {
	network := &cloudteamv1.Network{}
	network.Namespace, network.Name, network.UID, network.Generation = "team", "example", "network-1", 1
	network.ResourceVersion = "50"
	network.Spec.CIDR = "192.168.0.0/16"
	network.Status.MTU = 1450
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
		"IPv6 routes are as declared": {
			options: Options{Plugin: "macvlan"},
			change: func(n *cloudteamv1.Network) {
				n.Spec.CIDR = "fd00:1::/64"
				n.Spec.HostRoutes = []cloudteamv1.HostRoute{{Destination: "fd00:2::/64", NextHop: "fd00:1::fe"}}
			},
			want: `{"cniVersion":"1.0.0","name":"example","plugins":[{"type":"macvlan","mode":"bridge","mtu":1450,` +
				`"capabilities":{"ips":true,"mac":true},"ipam":{"type":"static","routes":[` +
				`{"dst":"fd00:2::/64","gw":"fd00:1::fe"}]}}]}`,
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
			if err := c.options.Validate(); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				got, err := config(network, c.options)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("configuration (-want +got):\n%s", diff)
				}
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
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("NetworkAttachmentDefinition (-want +got):\n%s", diff)
	}
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
			if got := isReady(network); got != c.want {
				t.Errorf("ready: %t, want %t", got, c.want)
			}
		})
	}
}

package integration

import (
	"net/netip"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/specs"
)

// TestDrawnNetworksAndPortsAreAccepted: the tests in virtual time draw what the API server takes, and ask package specs
// which edits it does not take.
func TestDrawnNetworksAndPortsAreAccepted(t *testing.T) {
	namespace := newNamespace(t)
	limits := specs.Limits{
		Administrator: true, DNSNames: true, Namespaces: []string{namespace}, MaxMTU: 1450, Ports: 3,
		PhysicalNetwork: "physnet1", VLANs: []int64{1, 2}, VNIs: []int64{10001, 10002},
		Zones: []string{"east", "west"}, NoZones: []string{"nowhere"}, Routers: []string{"existing-1", "existing-2"},
		SecurityGroups: []string{"5a3d5b9c-2a4c-4f2e-8a53-0f9a1a6e7d10"}, QoSPolicies: []string{"gold"},
		ExternalNetworks: []specs.ExternalNetwork{{
			Names: []string{"outside"}, CIDR: netip.MustParsePrefix("203.0.112.0/21"),
			NextHop: netip.MustParseAddr("203.0.112.1"), Addresses: []netip.Addr{netip.MustParseAddr("203.0.112.2")},
		}},
		SubnetPools: []specs.SubnetPool{
			{Names: []string{"four"}, IPVersion: 4, DefaultPrefixLength: 26, PrefixLengths: []int32{25, 27}},
		},
		Clouds: []*cloudteamv1.CloudReference{nil, {SecretName: "openstack"}},
	}
	place := specs.Place{
		Namespace: namespace, NetworkNamespace: namespace, NetworkName: "net", CIDR: netip.MustParsePrefix("10.0.0.0/24"),
	}
	networks, ports := networkAPI.CloudteamV1().Networks(namespace), networkAPI.CloudteamV1().NetworkPorts(namespace)
	rapid.Check(t, func(rt *rapid.T) {
		network := &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{GenerateName: "drawn-"}}
		network.Spec = limits.Network().Draw(rt, "network")
		made, err := networks.Create(t.Context(), network, metav1.CreateOptions{})
		if err != nil {
			rt.Fatal(err)
		}
		edited := made.DeepCopy()
		edited.Spec = limits.NetworkEdit(made.Spec).Draw(rt, "edited network")
		_, err = networks.Update(t.Context(), edited, metav1.UpdateOptions{})
		if may := specs.NetworkMayBecome(made.Spec, edited.Spec); may != (len(refusals(t, err)) == 0) {
			rt.Errorf("a Network may become that: %t; the API server says %v", may, err)
		}

		port := &cloudteamv1.NetworkPort{ObjectMeta: metav1.ObjectMeta{GenerateName: "drawn-"}}
		port.Spec = limits.NetworkPort(place).Draw(rt, "port")
		madePort, err := ports.Create(t.Context(), port, metav1.CreateOptions{})
		if err != nil {
			rt.Fatal(err)
		}
		editedPort := madePort.DeepCopy()
		editedPort.Spec = limits.NetworkPortEdit(place, madePort.Spec).Draw(rt, "edited port")
		_, err = ports.Update(t.Context(), editedPort, metav1.UpdateOptions{})
		if may := specs.NetworkPortMayBecome(madePort.Spec, editedPort.Spec); may != (len(refusals(t, err)) == 0) {
			rt.Errorf("a NetworkPort may become that: %t; the API server says %v", may, err)
		}
	})
}

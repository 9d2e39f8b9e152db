package e2e

import (
	"net/netip"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// on is the spec of a port that asks for nothing but a network.
func on(network string) cloudteamv1.NetworkPortSpec {
	return cloudteamv1.NetworkPortSpec{NetworkName: network}
}

// applyPort creates a NetworkPort.
func applyPort(t *testing.T, namespace, name string, spec cloudteamv1.NetworkPortSpec) *cloudteamv1.NetworkPort {
	t.Helper()
	return harness.Create(t, networks.CloudteamV1().NetworkPorts(namespace),
		&cloudteamv1.NetworkPort{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: spec})
}

func awaitPortReady(t *testing.T, namespace, name string) *cloudteamv1.NetworkPort {
	t.Helper()
	return harness.Await(t, surroundings, networks.CloudteamV1().NetworkPorts(namespace), name, harness.Ready)
}

// removePort deletes a NetworkPort and waits until it is gone.
func removePort(t *testing.T, namespace, name string) {
	t.Helper()
	api := networks.CloudteamV1().NetworkPorts(namespace)
	harness.Delete(t, api, name)
	harness.AwaitGone(t, surroundings, api, name)
}

// editPort changes the spec of a NetworkPort.
func editPort(t *testing.T, namespace, name, spec string) {
	t.Helper()
	harness.Patch(t, networks.CloudteamV1().NetworkPorts(namespace), name, `{"spec":`+spec+`}`)
}

// noPorts holds that a network in Neutron has no ports that were made here.
func noPorts(t *testing.T, c *cloud, networkID string) {
	t.Helper()
	expect.Empty(t, c.List("ports", "network_id="+networkID), "ports are left")
}

// lifeOfANetworkPort has a port become real, come back from drift and be deleted.
func lifeOfANetworkPort(t *testing.T) {
	c, namespace := open(t, "tenant"), newNamespace(t)
	network := unique(t, namespace)
	apply(t, namespace, network, example())
	created := applyPort(t, namespace, "web", on(network))
	networkID := awaitReady(t, namespace, network).Status.NetworkID
	port := awaitPortReady(t, namespace, "web")
	found := c.One("ports", "network_id="+networkID)
	wantFields(t, found, resource{
		"id": port.Status.PortID, "name": "web", "description": markerOf(t, created),
		"mac_address": port.Status.MAC, "device_owner": "kubernetes:networkport", "admin_state_up": true,
	})
	if len(port.Status.Addresses) != 1 || port.Status.Addresses[0].Gateway != "192.168.0.1" || port.Status.MTU == 0 {
		t.Fatalf("status %s", asJSON(port.Status))
	}
	address := netip.MustParsePrefix(port.Status.Addresses[0].Address)
	if address.Masked().String() != "192.168.0.0/16" {
		t.Errorf("address %s, want one of 192.168.0.0/16 with its prefix length", address)
	}
	wantFields(t, found, resource{"fixed_ips": []any{map[string]any{
		"ip_address": address.Addr().String(), "subnet_id": port.Status.Addresses[0].SubnetID,
	}}})
	awaitEvent(t, namespace, "web", cloudteamv1.EventCreated, port.Status.PortID)

	c.Update("ports", found.ID(), resource{"name": "renamed", "admin_state_up": false})
	awaitEvent(t, namespace, "web", cloudteamv1.EventDriftCorrected, "adminState down → up")
	wantFields(t, c.One("ports", "network_id="+networkID), resource{"name": "web", "admin_state_up": true})

	removePort(t, namespace, "web")
	noPorts(t, c, networkID)
	awaitEvent(t, namespace, "web", cloudteamv1.EventDeleted, port.Status.PortID)
	remove(t, namespace, network)
}

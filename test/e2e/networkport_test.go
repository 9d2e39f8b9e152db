package e2e

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// on is the spec of a port that asks for nothing but a network.
func on(network string) cloudteamv1.NetworkPortSpec {
	return cloudteamv1.NetworkPortSpec{NetworkName: network}
}

// applyPort creates a NetworkPort.
func applyPort(t *testing.T, namespace, name string, spec cloudteamv1.NetworkPortSpec) *cloudteamv1.NetworkPort {
	t.Helper()
	object := &cloudteamv1.NetworkPort{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: spec}
	created, err := networks.CloudteamV1().NetworkPorts(namespace).Create(t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("creating NetworkPort %s: %v", name, err)
	}
	return created
}

// awaitPort waits until a port's condition Ready has a status, and a reason and a message that contains the text.
func awaitPort(
	t *testing.T, namespace, name string, status metav1.ConditionStatus, reason, text string,
) *cloudteamv1.NetworkPort {
	t.Helper()
	var port *cloudteamv1.NetworkPort
	eventually(t, func() error {
		var err error
		port, err = networks.CloudteamV1().NetworkPorts(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		ready := meta.FindStatusCondition(port.Status.Conditions, cloudteamv1.ConditionReady)
		if ready == nil || ready.Status != status || ready.Reason != reason || !strings.Contains(ready.Message, text) {
			return fmt.Errorf("want Ready=%s %s with %q, have %s", status, reason, text, asJSON(port.Status))
		}
		return nil
	})
	return port
}

func awaitPortReady(t *testing.T, namespace, name string) *cloudteamv1.NetworkPort {
	t.Helper()
	return awaitPort(t, namespace, name, metav1.ConditionTrue, cloudteamv1.ReasonAvailable, "")
}

// removePort deletes a NetworkPort and waits until it is gone.
func removePort(t *testing.T, namespace, name string) {
	t.Helper()
	client := networks.CloudteamV1().NetworkPorts(namespace)
	if err := client.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Fatalf("deleting NetworkPort %s: %v", name, err)
	}
	eventually(t, func() error {
		port, err := client.Get(t.Context(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		return fmt.Errorf("it is still there: %s", asJSON(port.Status))
	})
}

// editPort changes the spec of a NetworkPort.
func editPort(t *testing.T, namespace, name, spec string) {
	t.Helper()
	_, err := networks.CloudteamV1().NetworkPorts(namespace).Patch(t.Context(), name, types.MergePatchType,
		[]byte(`{"spec":`+spec+`}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatalf("editing NetworkPort %s: %v", name, err)
	}
}

// noPorts holds that a network in Neutron has no ports that were made here.
func noPorts(t *testing.T, c *cloud, networkID string) {
	t.Helper()
	if left := c.list("ports", "network_id="+networkID); len(left) > 0 {
		t.Errorf("ports are left: %s", asJSON(left))
	}
}

// TestNetworkPort has a port become real, come back from drift and be deleted.
func TestNetworkPort(t *testing.T) {
	withProcesses(t)
	startController(t, "tenant", "--controllers=network,networkport")
	c, namespace := open(t, "tenant"), newNamespace(t)
	network := unique(t, namespace)
	apply(t, namespace, network, example())
	created := applyPort(t, namespace, "web", on(network))
	networkID := awaitReady(t, namespace, network).Status.NetworkID
	port := awaitPortReady(t, namespace, "web")
	found := c.one("ports", "network_id="+networkID)
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

	c.update("ports", found.id(), resource{"name": "renamed", "admin_state_up": false})
	awaitEvent(t, namespace, "web", cloudteamv1.EventDriftCorrected, "adminState down → up")
	wantFields(t, c.one("ports", "network_id="+networkID), resource{"name": "web", "admin_state_up": true})

	removePort(t, namespace, "web")
	noPorts(t, c, networkID)
	awaitEvent(t, namespace, "web", cloudteamv1.EventDeleted, port.Status.PortID)
	remove(t, namespace, network)
}

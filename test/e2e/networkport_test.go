package e2e

import (
	"fmt"
	"net/netip"
	"slices"
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

// bindPort says, as a consumer does, what uses a port; nothing does where the binding is null.
func bindPort(t *testing.T, namespace, name, binding string) {
	t.Helper()
	_, err := networks.CloudteamV1().NetworkPorts(namespace).Patch(t.Context(), name, types.MergePatchType,
		[]byte(`{"status":{"boundTo":`+binding+`}}`), metav1.PatchOptions{FieldManager: "e2e"}, "status")
	if err != nil {
		t.Fatalf("binding NetworkPort %s: %v", name, err)
	}
}

// noPorts holds that a network in Neutron has no ports that were made here.
func noPorts(t *testing.T, c *cloud, networkID string) {
	t.Helper()
	if left := c.list("ports", "network_id="+networkID); len(left) > 0 {
		t.Errorf("ports are left: %s", asJSON(left))
	}
}

// TestNetworkPort takes NetworkPorts through their lives, with one controller that runs all the while. The tests bind
// ports themselves, to Pods that do not exist, which the controller of Pods would undo.
func TestNetworkPort(t *testing.T) {
	for _, cloudName := range []string{"admin", "tenant"} {
		t.Run(cloudName, func(t *testing.T) {
			startController(t, cloudName, "--controllers=network,networkport")
			t.Run("group", func(t *testing.T) { testPorts(t, cloudName) })
		})
	}
}

func testPorts(t *testing.T, cloudName string) {
	parallel := func(sentence string, test func(t *testing.T, c *cloud, namespace, network string)) {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			test(t, open(t, cloudName), namespace, unique(t, namespace))
		})
	}

	parallel("a port becomes real, comes back from drift and goes", func(
		t *testing.T, c *cloud, namespace, network string,
	) {
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
	})

	parallel("a port on a network of two IP families has an address of each, and makes those of its own",
		testDualStackPort)
	parallel("a Network tells how full it is, and that its addresses run low, and that they do not any more", testAddresses)
	parallel("security groups are named by id or name, and one that does not exist is waited for", testNamedGroups)
	parallel("ports get addresses of the next subnet when the first is full", testSpill)

	parallel("declared addresses and MACs arrive; those that are taken are waited for", func(
		t *testing.T, c *cloud, namespace, network string,
	) {
		apply(t, namespace, network, example())
		spec := on(network)
		spec.Addresses, spec.MAC = []string{"192.168.7.7"}, "FA:16:3E:00:07:07"
		applyPort(t, namespace, "first", spec)
		first := awaitPortReady(t, namespace, "first")
		if first.Status.Addresses[0].Address != "192.168.7.7/16" || first.Status.MAC != "fa:16:3e:00:07:07" {
			t.Errorf("status %s", asJSON(first.Status))
		}
		spec.MAC = ""
		applyPort(t, namespace, "second", spec)
		awaitPort(t, namespace, "second", metav1.ConditionFalse, cloudteamv1.ReasonAddressInUse, "192.168.7.7")
		removePort(t, namespace, "first")
		second := awaitPortReady(t, namespace, "second")
		if second.Status.Addresses[0].Address != "192.168.7.7/16" {
			t.Errorf("status %s", asJSON(second.Status))
		}

		spec.Addresses = []string{"10.1.2.3"}
		applyPort(t, namespace, "outside", spec)
		awaitPort(t, namespace, "outside", metav1.ConditionFalse, cloudteamv1.ReasonInvalidSpec, "not inside 192.168.0.0/16")
		awaitEvent(t, namespace, "outside", cloudteamv1.ReasonInvalidSpec, "10.1.2.3")
		removePort(t, namespace, "outside")
		removePort(t, namespace, "second")
		remove(t, namespace, network)
	})

	parallel("a Network that is not there is waited for, and a Network with ports waits for them to go", func(
		t *testing.T, c *cloud, namespace, network string,
	) {
		applyPort(t, namespace, "web", on(network))
		awaitPort(t, namespace, "web", metav1.ConditionFalse, cloudteamv1.ReasonNetworkNotReady, "does not exist")
		apply(t, namespace, network, example())
		awaitPortReady(t, namespace, "web")

		err := networks.CloudteamV1().Networks(namespace).Delete(t.Context(), network, metav1.DeleteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		going := awaitCondition(t, namespace, network, cloudteamv1.ConditionReady, metav1.ConditionFalse,
			cloudteamv1.ReasonInUse)
		message := meta.FindStatusCondition(going.Status.Conditions, cloudteamv1.ConditionReady).Message
		if !strings.Contains(message, "NetworkPort "+namespace+"/web") {
			t.Errorf("the Network says %q", message)
		}
		removePort(t, namespace, "web")
		awaitGone(t, namespace, network)
		if left := c.list("networks", "name="+network); len(left) > 0 {
			t.Errorf("left: %s", asJSON(left))
		}
	})

	parallel("a port in use goes after its user, and comes back with its address when it is deleted by hand", func(
		t *testing.T, c *cloud, namespace, network string,
	) {
		apply(t, namespace, network, example())
		applyPort(t, namespace, "web", on(network))
		was := awaitPortReady(t, namespace, "web").Status
		bindPort(t, namespace, "web", `{"kind":"Pod","name":"somebody","uid":"1"}`)
		c.remove("ports", was.PortID)
		eventually(t, func() error {
			port, err := networks.CloudteamV1().NetworkPorts(namespace).Get(t.Context(), "web", metav1.GetOptions{})
			if err == nil && (port.Status.PortID == was.PortID || port.Status.PortID == "") {
				err = fmt.Errorf("status %s", asJSON(port.Status))
			}
			return err
		})
		is := awaitPortReady(t, namespace, "web").Status
		if !slices.Equal(is.Addresses, was.Addresses) || is.MAC != was.MAC {
			t.Errorf("it came back as %s, was %s", asJSON(is), asJSON(was))
		}

		client := networks.CloudteamV1().NetworkPorts(namespace)
		if err := client.Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		awaitPort(t, namespace, "web", metav1.ConditionFalse, cloudteamv1.ReasonInUse, `Pod "somebody"`)
		c.one("ports", "id="+is.PortID)
		bindPort(t, namespace, "web", "null")
		removePort(t, namespace, "web")
		remove(t, namespace, network)
	})

	parallel("a Network of another namespace is refused until it allows this one", func(
		t *testing.T, c *cloud, namespace, network string,
	) {
		apply(t, namespace, network, example())
		networkID := awaitReady(t, namespace, network).Status.NetworkID
		other := newNamespace(t)
		spec := on(network)
		spec.NetworkNamespace = namespace
		applyPort(t, other, "web", spec)
		awaitPort(t, other, "web", metav1.ConditionFalse, cloudteamv1.ReasonNamespaceNotAllowed, "allowedNamespaces")
		noPorts(t, c, networkID)
		edit(t, namespace, network, `{"allowedNamespaces":["`+other+`"]}`)
		awaitPortReady(t, other, "web")
		removePort(t, other, "web")
		remove(t, namespace, network)
	})

	parallel("a port under Report and Retain is left as others made it, and left behind", func(
		t *testing.T, c *cloud, namespace, network string,
	) {
		apply(t, namespace, network, example())
		spec := on(network)
		spec.DriftPolicy, spec.DeletionPolicy = cloudteamv1.DriftPolicyReport, cloudteamv1.DeletionPolicyRetain
		applyPort(t, namespace, "a", spec)
		id := awaitPortReady(t, namespace, "a").Status.PortID
		t.Cleanup(func() { _, _ = c.client.Delete(contextOf(t), c.client.ServiceURL("ports", id), nil) })
		c.update("ports", id, resource{"admin_state_up": false})
		awaitPort(t, namespace, "a", metav1.ConditionTrue, cloudteamv1.ReasonDriftDetected, "adminState is down")
		removePort(t, namespace, "a")
		wantFields(t, c.one("ports", "id="+id), resource{"description": "", "admin_state_up": false})
		c.remove("ports", id)
		remove(t, namespace, network)
	})

	parallel("a network without free addresses says so, and heals", func(
		t *testing.T, c *cloud, namespace, network string,
	) {
		spec := example()
		spec.AllocationPools = []cloudteamv1.AllocationPool{{Start: "192.168.0.10", End: "192.168.0.10"}}
		apply(t, namespace, network, spec)
		applyPort(t, namespace, "first", on(network))
		awaitPortReady(t, namespace, "first")
		applyPort(t, namespace, "second", on(network))
		awaitPort(t, namespace, "second", metav1.ConditionFalse, cloudteamv1.ReasonAddressesExhausted, "allocationPools")
		edit(t, namespace, network, `{"allocationPools":[{"start":"192.168.0.10","end":"192.168.0.11"}]}`)
		second := awaitPortReady(t, namespace, "second")
		if second.Status.Addresses[0].Address != "192.168.0.11/16" {
			t.Errorf("status %s", asJSON(second.Status))
		}
		removePort(t, namespace, "first")
		removePort(t, namespace, "second")
		remove(t, namespace, network)
	})
}

// testNamedGroups has a port name its security groups. While one does not exist, the port is not created: it would get
// the project's default group.
func testNamedGroups(t *testing.T, c *cloud, namespace, network string) {
	apply(t, namespace, network, example())
	id := awaitReady(t, namespace, network).Status.NetworkID
	web := c.create("security-groups", resource{"name": "web-" + namespace}).id()
	spec := on(network)
	spec.SecurityGroups = []string{"web-" + namespace, "db-" + namespace}
	applyPort(t, namespace, "web", spec)
	awaitPort(t, namespace, "web", metav1.ConditionFalse, cloudteamv1.ReasonRejected,
		fmt.Sprintf("spec.securityGroups: %q is neither the id nor the name", "db-"+namespace))
	noPorts(t, c, id)

	db := c.create("security-groups", resource{"name": "db-" + namespace}).id()
	// Whoever made it tells the controller, or waits until it looks again.
	editPort(t, namespace, "web", `{"securityGroups":["`+web+`","db-`+namespace+`"]}`)
	port := c.one("ports", "id="+awaitPortReady(t, namespace, "web").Status.PortID)
	groups, _ := port["security_groups"].([]any)
	if !slices.Contains(groups, any(web)) || !slices.Contains(groups, any(db)) || len(groups) != 2 {
		t.Errorf("the port has the security groups %v, want %s and %s", groups, web, db)
	}
	removePort(t, namespace, "web")
	remove(t, namespace, network)
	c.remove("security-groups", web)
	c.remove("security-groups", db)
}

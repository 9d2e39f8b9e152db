package e2e

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// handMade makes a network and a subnet in Neutron as example() declares them, under names of their own, and removes
// them when the test ends.
func handMade(t *testing.T, c *cloud, name string, more resource) (network, subnet string) {
	t.Helper()
	body := resource{"name": name}
	maps.Copy(body, more)
	network = c.create("networks", body).id()
	t.Cleanup(func() { _, _ = c.client.Delete(contextOf(t), c.client.ServiceURL("networks", network), nil) })
	subnet = c.create("subnets", resource{
		"network_id": network, "name": name + "-subnet", "description": "by hand", "ip_version": 4,
		"cidr": "192.168.0.0/16",
	}).id()
	return network, subnet
}

// awaitReason waits until Ready has a reason and a message that contains a text.
func awaitReason(t *testing.T, namespace, name, reason, text string) *cloudteamv1.Network {
	t.Helper()
	var object *cloudteamv1.Network
	eventually(t, func() error {
		object = get(t, namespace, name)
		ready := meta.FindStatusCondition(object.Status.Conditions, cloudteamv1.ConditionReady)
		if ready == nil || ready.Reason != reason || !strings.Contains(ready.Message, text) {
			return fmt.Errorf("want %s with %q, have %s", reason, text, asJSON(object.Status))
		}
		return nil
	})
	return object
}

// testImports takes over and observes networks that were made by hand.
func testImports(t *testing.T, c *cloud, namespace, name string) {
	id, subnet := handMade(t, c, name+"-by-hand", nil)
	untouched := func() {
		t.Helper()
		wantFields(t, c.one("networks", "id="+id), resource{"name": name + "-by-hand", "description": ""})
		wantFields(t, c.one("subnets", "id="+subnet), resource{"name": name + "-by-hand-subnet", "description": "by hand"})
	}
	spec := example()
	spec.Import = &cloudteamv1.NetworkImport{ID: id}

	// Observed, it is shown and never written to, and its object goes without it.
	observed := spec
	observed.ManagementPolicy = cloudteamv1.ManagementPolicyObserve
	apply(t, namespace, name, observed)
	shown := awaitReason(t, namespace, name, cloudteamv1.ReasonObserved, "")
	if s := shown.Status; s.NetworkID != id || len(s.Subnets) != 1 || s.Subnets[0].ID != subnet || s.MTU == 0 {
		t.Errorf("status is %s", asJSON(s))
	}
	c.update("subnets", subnet, resource{"dns_nameservers": []string{"192.168.0.53"}})
	awaitReason(t, namespace, name, cloudteamv1.ReasonDriftDetected, "dnsServers is 192.168.0.53, declared none")
	remove(t, namespace, name)
	untouched()

	// As it is, it is not taken over, and says why.
	created := apply(t, namespace, name, spec)
	stalled := awaitReason(t, namespace, name, cloudteamv1.ReasonImportMismatch, "import.overwrite")
	want := []cloudteamv1.Drift{{
		Resource: "subnet 192.168.0.0/16", Field: "dnsServers", Declared: "none", Actual: "192.168.0.53",
	}}
	if diff := cmp.Diff(want, stalled.Status.Drift); diff != "" {
		t.Errorf("status.drift (-want +got):\n%s", diff)
	}
	untouched()

	// Once the spec says what is there, it is, under its own names.
	edit(t, namespace, name, `{"dnsServers":["192.168.0.53"]}`)
	awaitReady(t, namespace, name)
	marker := markerOf(t, created)
	wantFields(t, c.one("networks", "id="+id), resource{"name": name + "-by-hand", "description": "[imported] " + marker})
	wantFields(t, c.one("subnets", "id="+subnet), resource{
		"name": name + "-by-hand-subnet", "description": "by hand " + marker,
	})
	awaitEvent(t, namespace, name, cloudteamv1.EventAdopted, id)

	// Nobody else gets it, to manage or to observe.
	for other, policy := range map[string]cloudteamv1.ManagementPolicy{
		name + "-2": cloudteamv1.ManagementPolicyManage, name + "-3": cloudteamv1.ManagementPolicyObserve,
	} {
		spec.ManagementPolicy = policy
		apply(t, namespace, other, spec)
		awaitReason(t, namespace, other, cloudteamv1.ReasonAlreadyOwned, marker)
		remove(t, namespace, other)
	}

	// It follows its spec, and stays when its object goes.
	c.update("networks", id, resource{"admin_state_up": false})
	awaitEvent(t, namespace, name, cloudteamv1.EventDriftCorrected, "adminState down → up")
	remove(t, namespace, name)
	untouched()

	// With overwrite it becomes as declared, and with Delete it goes.
	spec = example()
	spec.Import = &cloudteamv1.NetworkImport{ID: id, Overwrite: true}
	spec.DeletionPolicy = cloudteamv1.DeletionPolicyDelete
	apply(t, namespace, name, spec)
	awaitReady(t, namespace, name)
	wantFields(t, c.one("networks", "id="+id), resource{"name": name})
	wantFields(t, c.one("subnets", "id="+subnet), resource{"name": name, "dns_nameservers": []any{}})
	remove(t, namespace, name)
	if left := c.list("networks", "id="+id); len(left) > 0 {
		t.Errorf("networks are left: %v", left)
	}
	spec.DeletionPolicy = ""
	apply(t, namespace, name, spec)
	awaitReason(t, namespace, name, cloudteamv1.ReasonImportNotFound, id)
	remove(t, namespace, name)
}

// testSharedImport observes a network that another project shares, which nobody here may take over.
func testSharedImport(t *testing.T, c *cloud, namespace, name string) {
	id, _ := handMade(t, open(t, "admin"), name+"-shared", resource{"shared": true})
	spec := example()
	spec.Import = &cloudteamv1.NetworkImport{ID: id}
	apply(t, namespace, name, spec)
	awaitReason(t, namespace, name, cloudteamv1.ReasonProjectMismatch, id)
	remove(t, namespace, name)
	spec.ManagementPolicy = cloudteamv1.ManagementPolicyObserve
	apply(t, namespace, name, spec)
	awaitReason(t, namespace, name, cloudteamv1.ReasonObserved, "")
	applied := applyPort(t, namespace, "on-shared", on(name))
	awaitPortReady(t, namespace, applied.Name)
	removePort(t, namespace, applied.Name)
	if err := networks.CloudteamV1().Networks(namespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitGone(t, namespace, name)
	wantFields(t, c.one("networks", "id="+id), resource{"name": name + "-shared", "description": ""})
}

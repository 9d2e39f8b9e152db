package e2e

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// TestClassOfPorts has a class limit the NetworkPorts on a Network, and give them their security groups.
func TestClassOfPorts(t *testing.T) {
	startController(t, "admin", "--controllers=network,networkport")
	c, namespace := open(t, "admin"), newNamespace(t)
	network := unique(t, namespace)
	// Neutron itself would choose that of the port's project.
	group := defaultGroup(t, open(t, "tenant"), namespace)
	class := &cloudteamv1.NetworkClass{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec: cloudteamv1.NetworkClassSpec{
			Defaults: &cloudteamv1.ClassDefaults{SecurityGroups: []string{group}},
			Limits:   &cloudteamv1.ClassLimits{PortsPerNetwork: new(int32(2))},
		},
	}
	classes := networks.CloudteamV1().NetworkClasses()
	if _, err := classes.Create(t.Context(), class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := classes.Delete(contextOf(t), namespace, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	spec := example()
	spec.ClassName = namespace
	apply(t, namespace, network, spec)
	awaitReady(t, namespace, network)

	own, none := on(network), on(network)
	none.SecurityGroups = []string{}
	applyPort(t, namespace, "of-class", own)
	applyPort(t, namespace, "of-none", none)
	wantGroups := func(name string, want ...any) {
		t.Helper()
		port := c.one("ports", "id="+awaitPortReady(t, namespace, name).Status.PortID)
		if diff := cmp.Diff(append([]any{}, want...), port["security_groups"]); diff != "" {
			t.Errorf("the security groups of NetworkPort %s (-want +got):\n%s", name, diff)
		}
	}
	wantGroups("of-class", group)
	wantGroups("of-none")

	applyPort(t, namespace, "one-more", own)
	awaitPort(t, namespace, "one-more", metav1.ConditionFalse, cloudteamv1.ReasonClassLimitReached, "allows 2 NetworkPorts")
	removePort(t, namespace, "of-none")
	wantGroups("one-more", group)
	for _, name := range []string{"of-class", "one-more"} {
		removePort(t, namespace, name)
	}
	remove(t, namespace, network)
	awaitGone(t, namespace, network)
}

// defaultGroup is the security group that Neutron gives to the ports of a cloud's project.
func defaultGroup(t *testing.T, c *cloud, name string) string {
	t.Helper()
	port := c.create("ports", resource{"network_id": c.create("networks", resource{"name": name}).id()})
	return port["security_groups"].([]any)[0].(string)
}

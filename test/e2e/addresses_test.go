package e2e

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// awaitUsage waits until a Network tells how many addresses of its subnet are in use, and whether few are free, and
// gives the message of that.
func awaitUsage(t *testing.T, namespace, name string, used, total int64, low bool) (message string) {
	t.Helper()
	eventually(t, func() error {
		status := get(t, namespace, name).Status
		if len(status.Subnets) != 1 || status.Subnets[0].UsedAddresses == nil || status.Subnets[0].TotalAddresses == nil {
			return fmt.Errorf("nothing is counted: %s", asJSON(status.Subnets))
		}
		if s := status.Subnets[0]; *s.UsedAddresses != used || *s.TotalAddresses != total {
			return fmt.Errorf("%d of %d addresses are in use, want %d of %d", *s.UsedAddresses, *s.TotalAddresses, used, total)
		}
		condition := meta.FindStatusCondition(status.Conditions, cloudteamv1.ConditionAddressesLow)
		if (condition != nil) != low {
			return fmt.Errorf("want AddressesLow: %t, have %s", low, asJSON(status.Conditions))
		}
		if low {
			message = condition.Message
		}
		if !meta.IsStatusConditionTrue(status.Conditions, cloudteamv1.ConditionReady) {
			return fmt.Errorf("it is not Ready: %s", asJSON(status.Conditions))
		}
		return nil
	})
	return message
}

// testAddresses fills a small subnet and empties it again: by the count of Neutron, which an administrator is told, or
// by the project's ports, all the same.
func testAddresses(t *testing.T, c *cloud, namespace, network string) {
	const total = 5
	spec := example()
	spec.SubnetSpec = cloudteamv1.SubnetSpec{CIDR: "10.31.0.0/29"}
	apply(t, namespace, network, spec)
	id := awaitReady(t, namespace, network).Status.NetworkID
	awaitUsage(t, namespace, network, 0, total, false)

	port := func(i int) string { return fmt.Sprintf("web-%d", i) }
	for i := range total - 1 {
		applyPort(t, namespace, port(i), on(network))
	}
	awaitUsage(t, namespace, network, total-1, total, false)
	last := c.create("ports", resource{"network_id": id, "device_owner": "compute:e2e"}) // whoever's
	message := awaitUsage(t, namespace, network, total, total, true)
	const says = "5 of 5 addresses of subnet 10.31.0.0/29 are in use. Widen allocationPools where the cidr has room, " +
		"declare another subnet of the same IP family and reservedFor in additionalSubnets, or delete ports that are not needed."
	if message != says {
		t.Errorf("the message is %q, want %q", message, says)
	}
	awaitEvent(t, namespace, network, cloudteamv1.ReasonAddressesLow, "5 of 5 addresses")

	c.remove("ports", last.id())
	awaitUsage(t, namespace, network, total-1, total, true) // one free address is too few for it to be over
	removePort(t, namespace, port(0))
	awaitUsage(t, namespace, network, total-2, total, false)

	for i := 1; i < total-1; i++ {
		removePort(t, namespace, port(i))
	}
	remove(t, namespace, network)
}

// testSpill fills a subnet. Another one serves the port that waits, and the next ones.
func testSpill(t *testing.T, _ *cloud, namespace, network string) {
	spec := example()
	spec.SubnetSpec = cloudteamv1.SubnetSpec{CIDR: "10.32.0.0/30"}
	apply(t, namespace, network, spec)
	first := awaitReady(t, namespace, network).Status.Subnets[0].ID
	applyPort(t, namespace, "web-0", on(network))
	awaitPortReady(t, namespace, "web-0")
	applyPort(t, namespace, "web-1", on(network))
	awaitPort(t, namespace, "web-1", metav1.ConditionFalse, cloudteamv1.ReasonAddressesExhausted, "declare another subnet")

	edit(t, namespace, network, `{"additionalSubnets":[{"cidr":"10.32.1.0/29"}]}`)
	for _, name := range []string{"web-1", "web-2"} {
		if name != "web-1" {
			applyPort(t, namespace, name, on(network))
		}
		port := awaitPortReady(t, namespace, name)
		if a := port.Status.Addresses; len(a) != 1 || a[0].SubnetID == first || !strings.HasPrefix(a[0].Address, "10.32.1.") {
			t.Errorf("port %s has the addresses %s", name, asJSON(a))
		}
	}
	eventually(t, func() error {
		conditions := get(t, namespace, network).Status.Conditions
		if meta.IsStatusConditionTrue(conditions, cloudteamv1.ConditionAddressesLow) {
			return fmt.Errorf("its addresses are low: %s", asJSON(conditions))
		}
		return nil
	})
	for _, name := range []string{"web-0", "web-1", "web-2"} {
		removePort(t, namespace, name)
	}
	remove(t, namespace, network)
}

package e2e

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// testSubnetPools takes subnets whose CIDRs come from pools through their lives: taken, changed and deleted by others,
// and waiting for a range.
func testSubnetPools(t *testing.T, c *cloud, namespace, name string) {
	newPool := func(more, prefix string, length int) resource {
		return c.create("subnetpools", resource{
			"name": name + more, "prefixes": []string{prefix}, "default_prefixlen": length,
		})
	}
	four, six := newPool("-four", "10.120.0.0/23", 24), newPool("-six", "fd00:120::/62", 64)
	spec := cloudteamv1.NetworkSpec{SubnetSpec: cloudteamv1.SubnetSpec{SubnetPool: name + "-four"}}
	spec.AdditionalSubnets = []cloudteamv1.SubnetSpec{{SubnetPool: six.id(), Gateway: "none"}}
	apply(t, namespace, name, spec)
	ready := awaitReady(t, namespace, name)
	id := ready.Status.NetworkID
	var shown []string
	for _, s := range ready.Status.Subnets {
		shown = append(shown, s.CIDR+" "+s.Gateway+" "+s.SubnetPool)
	}
	want := []string{"10.120.0.0/24 10.120.0.1 " + name + "-four", "fd00:120::/64 none " + six.id()}
	if diff := cmp.Diff(want, shown); diff != "" {
		t.Errorf("status.subnets (-want +got):\n%s", diff)
	}
	marker := markerOf(t, ready)
	wantFields(t, c.one("subnets", "network_id="+id+"&ip_version=4"), resource{
		"name": name, "description": marker, "subnetpool_id": four.id(),
		"allocation_pools": []any{map[string]any{"start": "10.120.0.2", "end": "10.120.0.254"}},
	})
	wantFields(t, c.one("subnets", "network_id="+id+"&ip_version=6"), resource{
		"gateway_ip":       nil,
		"allocation_pools": []any{map[string]any{"start": "fd00:120::1", "end": "fd00:120::ffff:ffff:ffff:ffff"}},
	})

	// What others change is put back, and what they delete comes again, with whatever range the pool has then.
	c.update("subnets", ready.Status.Subnets[0].ID, resource{"dns_nameservers": []string{"9.9.9.9"}, "gateway_ip": nil})
	eventually(t, func() error {
		is := c.one("subnets", "id="+ready.Status.Subnets[0].ID)
		if is["gateway_ip"] != "10.120.0.1" || len(is["dns_nameservers"].([]any)) > 0 {
			return fmt.Errorf("the gateway is %v, the name servers are %v", is["gateway_ip"], is["dns_nameservers"])
		}
		return nil
	})
	awaitReady(t, namespace, name)
	c.remove("subnets", ready.Status.Subnets[0].ID)
	eventually(t, func() error {
		status := get(t, namespace, name).Status
		if len(status.Subnets) != 2 || status.Subnets[0].ID == ready.Status.Subnets[0].ID {
			return fmt.Errorf("status.subnets is %s", asJSON(status.Subnets))
		}
		return nil
	})
	awaitReady(t, namespace, name)

	// Another Network gets what is left, and a third one waits until that is gone.
	second, third := name+"-second", name+"-third"
	spec.AdditionalSubnets = nil
	apply(t, namespace, second, spec)
	awaitReady(t, namespace, second)
	apply(t, namespace, third, spec)
	awaitCondition(t, namespace, third, cloudteamv1.ConditionReady, metav1.ConditionFalse, cloudteamv1.ReasonAddressesExhausted)
	awaitEvent(t, namespace, third, cloudteamv1.ReasonAddressesExhausted, `Free a range of subnet pool "`+name+`-four"`)
	remove(t, namespace, second)
	awaitReady(t, namespace, third)
	remove(t, namespace, third)

	edit(t, namespace, name, `{"additionalSubnets":null}`)
	awaitReady(t, namespace, name)
	if cidrs := c.cidrsOf(id); len(cidrs) != 1 {
		t.Errorf("the subnets are %v", cidrs)
	}
	remove(t, namespace, name)

	missing := cloudteamv1.NetworkSpec{SubnetSpec: cloudteamv1.SubnetSpec{SubnetPool: name + "-missing"}}
	apply(t, namespace, name, missing)
	awaitCondition(t, namespace, name, cloudteamv1.ConditionStalled, metav1.ConditionTrue, cloudteamv1.ReasonRejected)
	awaitEvent(t, namespace, name, cloudteamv1.ReasonRejected, name+"-missing")
	remove(t, namespace, name)

	long := cloudteamv1.NetworkSpec{SubnetSpec: cloudteamv1.SubnetSpec{SubnetPool: four.id(), PrefixLength: new(int32(4))}}
	apply(t, namespace, name, long)
	stalled := awaitCondition(t, namespace, name, cloudteamv1.ConditionStalled, metav1.ConditionTrue,
		cloudteamv1.ReasonInvalidSpec)
	wantMessage(t, stalled, "prefixLength: ")
	remove(t, namespace, name)
}

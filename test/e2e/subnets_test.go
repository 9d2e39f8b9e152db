package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// cidrsOf are the CIDRs of a network's subnets in Neutron, sorted.
func (c *cloud) cidrsOf(network string) []string {
	c.t.Helper()
	var cidrs []string
	for _, s := range c.list("subnets", "network_id="+network) {
		cidrs = append(cidrs, s["cidr"].(string))
	}
	slices.Sort(cidrs)
	return cidrs
}

// testSubnets takes further subnets of a Network through their lives: declared with it and later, changed and deleted by
// others, taken out of the spec while a port uses them, and gone.
func testSubnets(t *testing.T, c *cloud, namespace, name string) {
	spec := example()
	spec.AdditionalSubnets = []cloudteamv1.SubnetSpec{
		{
			CIDR: "FD00:0:7::/64", DNSServers: []string{"fd00:0:7::53"}, ServiceTypes: []string{"compute:e2e"},
			DNSPublishFixedIP: new(true),
		},
		{CIDR: "10.7.0.0/24", Gateway: "none"},
	}
	apply(t, namespace, name, spec)
	ready := awaitReady(t, namespace, name)
	id := ready.Status.NetworkID
	var shown []string
	for _, s := range ready.Status.Subnets {
		shown = append(shown, s.CIDR+" "+s.Gateway)
	}
	want := []string{"192.168.0.0/16 192.168.0.1", "fd00:0:7::/64 fd00:0:7::1", "10.7.0.0/24 none"}
	if diff := cmp.Diff(want, shown); diff != "" {
		t.Errorf("status.subnets (-want +got):\n%s", diff)
	}
	six := c.one("subnets", "network_id="+id+"&ip_version=6")
	declared := resource{
		"dns_nameservers": []any{"fd00:0:7::53"}, "service_types": []any{"compute:e2e"}, "dns_publish_fixed_ip": true,
	}
	wantFields(t, six, resource{"cidr": "fd00:0:7::/64", "name": name})
	wantFields(t, six, declared)

	c.update("subnets", six.id(), resource{
		"dns_nameservers": []string{"fd00:0:7::54"}, "service_types": []string{}, "dns_publish_fixed_ip": false,
	})
	c.remove("subnets", ready.Status.Subnets[2].ID)
	eventually(t, func() error {
		is := c.one("subnets", "network_id="+id+"&ip_version=6")
		for field, want := range declared {
			if !cmp.Equal(is[field], want) {
				return fmt.Errorf("%s is %v, want %v", field, is[field], want)
			}
		}
		if cidrs := c.cidrsOf(id); len(cidrs) != 3 {
			return fmt.Errorf("the subnets are %v", cidrs)
		}
		return nil
	})

	edit(t, namespace, name, `{"additionalSubnets":[{"cidr":"fd00:0:7::/64","serviceTypes":["network:dhcp","compute:e2e"]},
		{"cidr":"10.7.0.0/24","gateway":"none"}]}`)
	if diff := cmp.Diff([]string{"compute:e2e", "network:dhcp"},
		awaitReady(t, namespace, name).Status.Subnets[1].ServiceTypes); diff != "" {
		t.Errorf("status.subnets[1].serviceTypes (-want +got):\n%s", diff)
	}
	wantFields(t, c.one("subnets", "id="+six.id()), resource{"dns_publish_fixed_ip": false, "dns_nameservers": []any{}})

	port := c.create("ports", resource{
		"network_id": id, "device_owner": "compute:e2e", "fixed_ips": []resource{{"subnet_id": six.id()}},
	})
	edit(t, namespace, name, `{"additionalSubnets":[{"cidr":"10.8.0.0/24"}]}`)
	held := awaitCondition(t, namespace, name, cloudteamv1.ConditionReady, metav1.ConditionFalse, cloudteamv1.ReasonInUse)
	message := held.Status.Conditions[0].Message
	if !strings.Contains(message, "delete subnet fd00:0:7::/64: in use by port "+port.id()+" (compute:e2e)") {
		t.Errorf("the message does not name what is in the way: %s", message)
	}
	if diff := cmp.Diff([]string{"10.8.0.0/24", "192.168.0.0/16", "fd00:0:7::/64"}, c.cidrsOf(id)); diff != "" {
		t.Errorf("subnets beside the one in use (-want +got):\n%s", diff)
	}
	c.remove("ports", port.id())
	awaitReady(t, namespace, name)
	if diff := cmp.Diff([]string{"10.8.0.0/24", "192.168.0.0/16"}, c.cidrsOf(id)); diff != "" {
		t.Errorf("subnets in the end (-want +got):\n%s", diff)
	}
	remove(t, namespace, name)
}

// testDualStackPort holds that addresses that a port makes itself are nothing to correct, and hold no subnet.
func testDualStackPort(t *testing.T, c *cloud, namespace, network string) {
	spec := example()
	spec.AdditionalSubnets = []cloudteamv1.SubnetSpec{
		{CIDR: "fd00:0:8::/64", IPv6AddressMode: cloudteamv1.IPv6ModeSLAAC, IPv6RAMode: cloudteamv1.IPv6ModeSLAAC},
		{CIDR: "fd00:0:9::/64", IPv6RAMode: cloudteamv1.IPv6ModeDHCPv6Stateful},
	}
	apply(t, namespace, network, spec)
	applyPort(t, namespace, "web", on(network))
	ready := awaitReady(t, namespace, network)
	if shown := ready.Status.Subnets[1]; shown.IPv6AddressMode != "slaac" || shown.IPv6RAMode != "slaac" {
		t.Errorf("status.subnets[1] is %s", asJSON(shown))
	}
	// addresses waits until the port has addresses of just these subnets, and is Ready.
	addresses := func(want ...string) {
		t.Helper()
		eventually(t, func() error {
			var got []string
			for _, a := range awaitPortReady(t, namespace, "web").Status.Addresses {
				got = append(got, netip.MustParsePrefix(a.Address).Masked().String())
			}
			if !slices.Equal(got, want) {
				return fmt.Errorf("the port has addresses of %v, want %v", got, want)
			}
			return nil
		})
	}
	addresses("192.168.0.0/16", "fd00:0:8::/64", "fd00:0:9::/64")

	// It is as declared: what is corrected is what others changed, and nothing besides.
	port := c.one("ports", "network_id="+ready.Status.NetworkID)
	c.update("ports", port.id(), resource{"name": "renamed"})
	awaitEvent(t, namespace, "web", cloudteamv1.EventDriftCorrected, `Updated port: name "renamed" → "web"`)

	edit(t, namespace, network, `{"additionalSubnets":[{"cidr":"fd00:0:9::/64","ipv6RAMode":"dhcpv6-stateful"},
		{"cidr":"fd00:0:a::/64","ipv6RAMode":"dhcpv6-stateless"}]}`)
	awaitReady(t, namespace, network)
	addresses("192.168.0.0/16", "fd00:0:9::/64", "fd00:0:a::/64")
	removePort(t, namespace, "web")
	remove(t, namespace, network)
}

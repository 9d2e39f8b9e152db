// Package exportingtest draws what somebody made in Neutron, for tests of the export.
package exportingtest

import (
	"fmt"
	"strings"

	"pgregory.net/rapid"
)

// Foreign is a network that somebody made in Neutron, by the bodies of Neutron's API. Those of subnets lack network_id.
type Foreign struct {
	Network map[string]any
	Subnets []map[string]any
	Tags    []string
	// SharedWith are ids of projects.
	SharedWith []string
}

// Network draws a network for an import. With odd, it may have what no Network can say.
func Network(odd bool) *rapid.Generator[Foreign] {
	return rapid.Custom(func(t *rapid.T) (f Foreign) {
		has := func(what string) bool { return rapid.Bool().Draw(t, what) }
		strange := func(what string) bool { return odd && rapid.IntRange(0, 5).Draw(t, what) == 5 }
		f.Network = map[string]any{
			"name": rapid.SampledFrom([]string{"frontend", "Front End!", "", "a.b", "前端"}).Draw(t, "name"),
		}
		if has("description") {
			f.Network["description"] = rapid.SampledFrom(
				[]string{"for the shop", "two\nlines", strings.Repeat("x", 140)}).Draw(t, "description")
		}
		if strange("description") {
			f.Network["description"] = "a bell \a"
		}
		if has("down") {
			f.Network["admin_state_up"] = false
		}
		if has("mtu") {
			f.Network["mtu"] = rapid.SampledFrom([]int{1280, 1400}).Draw(t, "mtu")
		}
		if strange("small mtu") {
			f.Network["mtu"] = 1000
		}
		if has("open ports") {
			f.Network["port_security_enabled"] = false
		}
		if has("domain") {
			f.Network["dns_domain"] = "example.org."
		}
		if has("tags") {
			f.Tags = []string{"b", "a"}
		}
		if strange("tags") {
			f.Tags = append(f.Tags, strings.Repeat("t", 60), "a tab\t")
		}
		for i := range rapid.IntRange(0, 2).Draw(t, "shares") {
			f.SharedWith = append(f.SharedWith, fmt.Sprintf("%032d", i+1))
		}
		for i := range rapid.IntRange(1, 9).Draw(t, "subnets") {
			f.Subnets = append(f.Subnets, foreignSubnet(t, i, strange))
		}
		return f
	})
}

// foreignSubnet draws the n-th subnet of a network.
func foreignSubnet(t *rapid.T, n int, strange func(what string) bool) map[string]any {
	has := func(what string) bool { return rapid.Bool().Draw(t, what) }
	s := map[string]any{"name": fmt.Sprintf("subnet %d", n)}
	if has("subnet's description") {
		s["description"] = "of a user"
	}
	version := rapid.SampledFrom([]int{4, 4, 6}).Draw(t, "version")
	s["ip_version"] = version
	prefix := fmt.Sprintf("10.%d.0.", n)
	s["cidr"] = prefix + "0/24"
	if version == 6 {
		prefix = fmt.Sprintf("fd00:%d::", n)
		s["cidr"] = prefix + "/64"
		if has("modes") {
			mode := rapid.SampledFrom([]string{"slaac", "dhcpv6-stateful", "dhcpv6-stateless"}).Draw(t, "mode")
			s["ipv6_address_mode"], s["ipv6_ra_mode"] = mode, mode
			if has("another router") {
				delete(s, "ipv6_ra_mode")
			}
		}
	}
	switch rapid.SampledFrom([]string{"", "none", "another"}).Draw(t, "gateway") {
	case "none":
		s["gateway_ip"] = nil
	case "another":
		s["gateway_ip"] = prefix + "7"
	}
	if strange("gateway outside") {
		s["gateway_ip"] = map[int]string{4: "10.99.0.1", 6: "fe80::1"}[version]
	}
	pool := func(start, end int) any {
		return map[string]any{"start": fmt.Sprint(prefix, start), "end": fmt.Sprint(prefix, end)}
	}
	if has("pools") {
		s["allocation_pools"] = []any{pool(20, 29), pool(40, 49)}
	}
	if strange("many pools") {
		var many []any
		for i := range 40 {
			many = append(many, pool(20+2*i, 20+2*i))
		}
		s["allocation_pools"] = many
	}
	_, moded := s["ipv6_address_mode"]
	if !moded && has("no DHCP") {
		s["enable_dhcp"] = false
	}
	if has("servers") {
		s["dns_nameservers"] = []string{prefix + "54", prefix + "53"}
	}
	if has("routes") {
		destination := "192.168.9.0/24"
		if version == 6 {
			destination = "fd09::/64"
		}
		s["host_routes"] = []any{map[string]any{"destination": destination, "nexthop": prefix + "9"}}
	}
	if has("service types") {
		s["service_types"] = []string{"compute:nova"}
	}
	if !moded && strange("no hosts") {
		s["cidr"] = map[int]string{4: prefix + "0/31", 6: prefix + "/127"}[version]
		s["gateway_ip"], s["enable_dhcp"] = nil, false
		delete(s, "allocation_pools")
	}
	return s
}

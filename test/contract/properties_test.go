package contract

import (
	"strings"
	"testing"
)

func TestDNSDomainsOfNetworks(t *testing.T) {
	label := strings.Repeat("a", 63)
	bad := func(reason string) refusal {
		return refusal{400, "HTTPBadRequest", "Invalid input for dns_domain. Reason: " + reason + "."}
	}
	for name, test := range map[string]struct {
		ask string
		is  string
		// want is zero where it is accepted.
		want refusal
	}{
		"a domain becomes lower case": {ask: "Example.org.", is: "example.org."},
		"one label does":              {ask: "org.", is: "org."},
		"one label of digits does":    {ask: "1.", is: "1."},
		"none":                        {ask: "", is: ""},
		"a label of 63 characters":    {ask: label + ".", is: label + "."},
		"a domain of 253 characters":  {ask: strings.Repeat("a.", 125) + "bc.", is: strings.Repeat("a.", 125) + "bc."},
		"a domain of 254 characters": {ask: strings.Repeat("a.", 127), want: bad("'" + strings.Repeat("a.", 127) +
			"' contains 254 characters. Adding a sub-domain will cause it to exceed the maximum length of a FQDN of '255'")},
		"a domain of 257 characters": {ask: strings.Repeat("a.", 128) + "b.", want: dnsRefusal(strings.Repeat("a.", 128)+"b.",
			"'"+strings.Repeat("a.", 128)+"b' exceeds the 255 character FQDN limit")},
		"a last full stop is missing":  {ask: "example.org", want: bad("'example.org' is not a FQDN")},
		"a hyphen at the beginning":    {ask: "-a.org.", want: dnsRefusal("-a.org.", "Name '-a' must not start or end with a hyphen")},
		"a last label of digits alone": {ask: "10.20.", want: dnsRefusal("10.20.", "TLD '20' must not be all numeric")},
		"an empty label":               {ask: "a..org.", want: dnsRefusal("a..org.", "Encountered an empty component")},
		"an underscore": {ask: "a_b.org.", want: dnsRefusal("a_b.org.",
			"Name 'a_b' must be 1-63 characters long, each of which can only be alphanumeric or a hyphen")},
		"a label of 64 characters": {ask: "a" + label + ".", want: dnsRefusal("a"+label+".",
			"Name 'a"+label+"' must be 1-63 characters long, each of which can only be alphanumeric or a hyphen")},
	} {
		t.Run(name, func(t *testing.T) {
			onEveryCloud(t, func(t *testing.T, c *cloud) {
				if test.want != (refusal{}) {
					ask := object{"network": object{"name": unique(), "dns_domain": test.ask}}
					c.tenant.do(t, "POST", "/v2.0/networks", ask).refuses(t, test.want)
					return
				}
				n := c.tenant.newNetwork(t, object{"dns_domain": test.ask})
				if n["dns_domain"] != test.is {
					t.Errorf("dns_domain %q became %q, want %q", test.ask, n["dns_domain"], test.is)
				}
			})
		})
	}
}

func TestRefusedSegments(t *testing.T) {
	bad := func(message string) refusal {
		return refusal{400, "InvalidInput", "Invalid input for operation: " + message + "."}
	}
	of := func(networkType, physical string, id any) object {
		ask := object{"provider:network_type": networkType}
		if physical != "" {
			ask["provider:physical_network"] = physical
		}
		if id != nil {
			ask["provider:segmentation_id"] = id
		}
		return ask
	}
	for name, test := range map[string]struct {
		ask  object
		want refusal
	}{
		"an unknown physical network of a vlan": {of("vlan", "x", nil),
			bad("physical_network 'x' unknown for VLAN provider network")},
		"a VLAN ID of no physical network": {of("vlan", "", 120),
			bad("segmentation_id requires physical_network for VLAN provider network")},
		"a VLAN ID of 13 bits": {of("vlan", "physnet1", 4095), bad("segmentation_id out of range (1 through 4094)")},
		"a flat network of no physical network": {of("flat", "", nil),
			bad("physical_network required for flat provider network")},
		"an unknown physical network of a flat one": {of("flat", "x", nil),
			bad("physical_network 'x' unknown for flat provider network")},
		"a flat network with an id": {of("flat", "physnet1", 3),
			bad("segmentation_id prohibited for flat provider network")},
		"an MTU above that of the physical network": {with(of("vlan", "physnet1", nil), object{"mtu": 1501}),
			bad("Requested MTU is too big, maximum is 1500")},
	} {
		t.Run(name, func(t *testing.T) {
			onEveryCloud(t, func(t *testing.T, c *cloud) {
				ask := object{"network": with(object{"name": unique()}, test.ask)}
				c.admin.do(t, "POST", "/v2.0/networks", ask).refuses(t, test.want)
			})
		})
	}
}

func TestSegmentsOfNetworks(t *testing.T) {
	invalid := func(message string) refusal { return refusal{400, "InvalidInput", message} }
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		// Beyond those that the cloud chooses from, so that nobody else has them.
		const one, other = 2731, 2732
		vlan := object{
			"provider:network_type": "vlan", "provider:physical_network": "physnet1", "provider:segmentation_id": one,
		}
		n := c.admin.newNetwork(t, vlan)
		if n["mtu"] != 1500.0 {
			t.Errorf("a vlan network has the MTU %v, want 1500", n["mtu"])
		}
		c.admin.do(t, "POST", "/v2.0/networks", object{"network": vlan}).refuses(t, refusal{409, "VlanIdInUse",
			"Unable to create the network. The VLAN 2731 on physical network physnet1 is in use."})
		path := "/v2.0/networks/" + id(n)
		changed := c.admin.do(t, "PUT", path, object{"network": object{"provider:segmentation_id": other}}).
			must(t, 200).part(t, "network")
		if changed["provider:segmentation_id"] != float64(other) || revision(changed) != revision(n) {
			t.Errorf("segment %v at revision %d, want %d at %d", changed["provider:segmentation_id"], revision(changed),
				other, revision(n))
		}
		both := c.admin.do(t, "PUT", path, object{"network": object{"provider:segmentation_id": one, "name": unique()}}).
			must(t, 200).part(t, "network")
		if revision(both) != revision(n)+1 {
			t.Errorf("segment and name moved the revision from %d to %d", revision(n), revision(both))
		}
		for _, ask := range []object{{"provider:network_type": "flat"}, {"provider:physical_network": "x"}} {
			refused := c.admin.do(t, "PUT", path, object{"network": ask})
			// Neutron names them in the order of a set, which is another one in each of its processes.
			named := "provider:physical_network, provider:network_type"
			if swapped := "provider:network_type, provider:physical_network"; strings.Contains(refused.raw, swapped) {
				named = swapped
			}
			refused.refuses(t, invalid("Invalid input for operation: Plugin does not support updating the following provider "+
				"network attributes: "+named+"."))
		}
		vxlan := c.admin.newNetwork(t, nil)
		c.admin.do(t, "PUT", "/v2.0/networks/"+id(vxlan), object{"network": object{"provider:segmentation_id": 9}}).
			refuses(t, invalid("Invalid input for operation: Only VLAN type networks can be updated.."))
	})
}

func TestNetworkInUseByOthersStaysShared(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		n := c.admin.newNetwork(t, object{"shared": true})
		c.tenant.newPort(t, n, nil)
		c.admin.do(t, "PUT", "/v2.0/networks/"+id(n), object{"network": object{"shared": false}}).
			refuses(t, refusal{409, "InvalidSharedSetting", "Unable to reconfigure sharing settings for network " +
				n["name"].(string) + ". Multiple tenants are using it."})
	})
}

func TestNetworkInUseByRoutersStaysExternal(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		n := c.admin.newNetwork(t, object{"router:external": true})
		c.admin.newSubnet(t, n, object{"cidr": "10.0.0.0/24", "ip_version": 4})
		c.admin.newRouter(t, object{"external_gateway_info": object{"network_id": id(n)}})
		c.admin.do(t, "PUT", "/v2.0/networks/"+id(n), object{"network": object{"router:external": false}}).
			refuses(t, refusal{409, "ExternalNetworkInUse", "External network " + id(n) +
				" cannot be updated to be made non-external, since it has existing gateway ports."})
	})
}

func dnsRefusal(domain, reason string) refusal {
	return refusal{400, "HTTPBadRequest",
		"Invalid input for dns_domain. Reason: '" + domain + "' not a valid PQDN or FQDN. Reason: " + reason + "."}
}

package contract

import (
	"strings"
	"testing"
)

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
	cases := map[string]asked{
		"an id without a type":          {object{"provider:segmentation_id": 7}, bad("network_type required")},
		"an unknown type":               {of("zz", "", nil), bad("network_type value 'zz' not supported")},
		"a physical network of a vxlan": {of("vxlan", "x", nil), bad("provider:physical_network specified for vxlan network")},
		"an unknown physical network of a vlan": {of("vlan", "x", nil),
			bad("physical_network 'x' unknown for VLAN provider network")},
		"a VLAN ID of no physical network": {of("vlan", "", 120),
			bad("segmentation_id requires physical_network for VLAN provider network")},
		"a VLAN ID of 13 bits": {of("vlan", "physnet1", 4095),
			bad("segmentation_id out of range (1 through 4094)")},
		"a flat network of no physical network": {of("flat", "", nil), bad("physical_network required for flat provider network")},
		"an unknown physical network of a flat one": {of("flat", "x", nil),
			bad("physical_network 'x' unknown for flat provider network")},
		"a flat network with an id": {of("flat", "physnet1", 3), bad("segmentation_id prohibited for flat provider network")},
		"an MTU above that of the physical network": {with(of("vlan", "physnet1", nil), object{"mtu": 1501}),
			bad("Requested MTU is too big, maximum is 1500")},
	}
	inDepth(t, func(t *testing.T, c *cloud) {
		c.admin.refusesEach(t, "networks", object{"name": unique()}, cases)
	})
}

func TestSegmentsOfNetworks(t *testing.T) {
	invalid := func(message string) refusal { return refusal{400, "InvalidInput", message} }
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		// Beyond those that the cloud chooses from, so that nobody else has them.
		const one, other = 2731, 2732
		vlan := object{"provider:network_type": "vlan", "provider:physical_network": "physnet1", "provider:segmentation_id": one}
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
		c.admin.create(t, "networks", object{"provider:network_type": "vxlan",
			"provider:segmentation_id": vxlan["provider:segmentation_id"]}).refuses(t, refusal{Status: 409, Type: "TunnelIdInUse"})
		c.admin.do(t, "PUT", "/v2.0/networks/"+id(vxlan), object{"network": object{"provider:segmentation_id": 9}}).
			refuses(t, invalid("Invalid input for operation: Only VLAN type networks can be updated.."))
	})
}

func TestNetworkInUseByOthersStaysShared(t *testing.T) {
	inDepth(t, func(t *testing.T, c *cloud) {
		n := c.admin.newNetwork(t, object{"shared": true})
		c.tenant.newPort(t, n, nil)
		c.admin.do(t, "PUT", "/v2.0/networks/"+id(n), object{"network": object{"shared": false}}).
			refuses(t, refusal{409, "InvalidSharedSetting", "Unable to reconfigure sharing settings for network " +
				n["name"].(string) + ". Multiple " + c.tenants() + " are using it."})
	})
}

func TestNetworkInUseByRoutersStaysExternal(t *testing.T) {
	inDepth(t, func(t *testing.T, c *cloud) {
		n := c.admin.newNetwork(t, object{"router:external": true})
		c.admin.newSubnet(t, n, object{"cidr": "10.0.0.0/24", "ip_version": 4})
		c.admin.newRouter(t, object{"external_gateway_info": object{"network_id": id(n)}})
		c.admin.do(t, "PUT", "/v2.0/networks/"+id(n), object{"network": object{"router:external": false}}).
			refuses(t, refusal{409, "ExternalNetworkInUse", "External network " + id(n) +
				" cannot be updated to be made non-external, since it has existing gateway ports."})
	})
}

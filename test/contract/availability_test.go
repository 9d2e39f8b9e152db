package contract

import (
	"net/http"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestIPAvailabilities(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		project := someProject()
		n := c.admin.newNetwork(t, object{"project_id": project, "name": "counted"})
		empty := c.admin.newNetwork(t, object{"project_id": project, "name": "empty"})
		s := c.admin.newSubnet(t, n, object{"project_id": project, "name": "v4"})
		c.admin.newPort(t, n, nil)
		c.admin.newPort(t, n, object{"fixed_ips": []object{{"subnet_id": id(s)}, {"subnet_id": id(s)}}})
		path := "/v2.0/network-ip-availabilities"
		subnet := object{
			"subnet_id": id(s), "subnet_name": "v4", "cidr": "10.0.0.0/24", "ip_version": float64(4),
			"total_ips": float64(253), "used_ips": float64(3),
		}
		want := object{
			"network_id": id(n), "network_name": "counted", "project_id": project, "tenant_id": project,
			"total_ips": float64(253), "used_ips": float64(3),
			"subnet_ip_availability": []any{subnet},
		}
		if c.since(neutrontest.AvailabilityHasDetails) {
			for _, of := range []object{want, subnet} {
				of["ip_availability_details"] = object{
					"total_ips_in_allocation_pool": float64(253), "total_ips_in_subnet": float64(254),
					"used_ips_in_allocation_pool": float64(3), "used_ips_in_subnet": float64(3),
				}
			}
		}
		one := c.admin.get(t, path+"/"+id(n)).must(t, http.StatusOK).part(t, "network_ip_availability")
		expect.Equal(t, want, one, "one network")
		for query, want := range map[string][]string{
			"?project_id=" + project:                    union([]string{id(n), id(empty)}),
			"?tenant_id=" + project:                     union([]string{id(n), id(empty)}),
			"?network_id=" + id(n):                      {id(n)},
			"?network_name=empty&project_id=" + project: {id(empty)},
			"?project_id=" + project + "&ip_version=4":  {id(n)},
			"?project_id=" + project + "&ip_version=6":  {},
			"?project_id=nope":                          {},
		} {
			got := []string{}
			for _, a := range c.admin.get(t, path+query).must(t, http.StatusOK).list(t, "network_ip_availabilities") {
				got = append(got, a["network_id"].(string))
			}
			expect.Equal(t, want, union(got), "%s", query)
		}
		fields := c.admin.get(t, path+"?network_id="+id(n)+"&fields=network_id&fields=used_ips")
		if diff := gocmp.Diff([]object{{"network_id": id(n), "used_ips": float64(3)}},
			fields.list(t, "network_ip_availabilities")); diff != "" {
			t.Errorf("fields (-want +got):\n%s", diff)
		}
		c.admin.get(t, path+"?zz=1").refuses(t, refusal{400, "HTTPBadRequest", "['zz'] is invalid attribute for filtering"})
		c.admin.get(t, path+"/nope").refuses(t, refusal{404, "NetworkNotFound", "Network nope could not be found."})
	})
}

// TestIPv6AvailabilityExceeds64Bits is about clients: total_ips need not fit into 64 bits.
func TestIPv6AvailabilityExceeds64Bits(t *testing.T) {
	inDepth(t, func(t *testing.T, c *cloud) {
		n := c.admin.newNetwork(t, nil)
		c.admin.newSubnet(t, n, object{"cidr": "fd00:1::/64", "ip_version": 6})
		c.admin.newSubnet(t, n, object{"cidr": "fd00:2::/64", "ip_version": 6})
		a := c.admin.get(t, "/v2.0/network-ip-availabilities/"+id(n)).must(t, http.StatusOK)
		for _, total := range []string{"18446744073709551615", "36893488147419103230"} {
			if !strings.Contains(a.raw, total) {
				t.Errorf("%s is not in %s", total, a.raw)
			}
		}
	})
}

func TestTenantCannotReadIPAvailabilities(t *testing.T) {
	inDepth(t, func(t *testing.T, c *cloud) {
		n := c.tenant.newNetwork(t, nil)
		for _, query := range []string{"", "?project_id=" + c.tenant.project, "?network_id=" + id(n)} {
			a := c.tenant.get(t, "/v2.0/network-ip-availabilities"+query).must(t, http.StatusOK)
			if list := a.list(t, "network_ip_availabilities"); len(list) != 0 {
				t.Errorf("%s shows %v", query, list)
			}
		}
		c.tenant.get(t, "/v2.0/network-ip-availabilities/"+id(n)).refuses(t,
			refusal{404, "HTTPNotFound", "The resource could not be found."})
	})
}

package contract

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// someProject makes the id of a project that Keystone need not know: Neutron does not ask.
func someProject() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

func TestQuotas(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		project := someProject()
		path := "/v2.0/quotas/" + project
		unlimited := object{}
		for _, name := range []string{"network", "subnet", "subnetpool", "port", "router", "floatingip", "rbac_policy",
			"security_group", "security_group_rule", "trunk"} {
			unlimited[name] = float64(-1)
		}
		if c.since(neutrontest.RoutesHaveQuota) {
			unlimited["router_route"] = float64(-1)
		}
		quota := func(a answer) object { t.Helper(); return a.must(t, http.StatusOK).part(t, "quota") }
		expect.Equal(t, unlimited, quota(c.admin.get(t, path)), "quotas at first")
		limited := with(unlimited, object{"network": float64(1), "subnet": float64(1)})
		got := quota(c.admin.do(t, "PUT", path, object{"quota": object{"network": 1, "subnet": 1}}))
		t.Cleanup(func() { c.admin.do(t, "DELETE", path, nil) })
		expect.Equal(t, limited, got, "quotas as set")
		for name, test := range map[string]struct {
			ask  object
			want refusal
		}{
			"an unknown resource": {object{"zz": 1}, refusal{400, "HTTPBadRequest", "Unrecognized attribute(s) 'zz'"}},
			"a word": {object{"network": "x"},
				refusal{400, "InvalidInput", "Invalid input for operation: 'x' is not an integer."}},
			"less than unlimited": {object{"network": -2}, refusal{400, "HTTPBadRequest",
				"Invalid input for network. Reason: '-2' is too small - must be at least '-1'."}},
		} {
			t.Run(name, func(t *testing.T) {
				c.admin.do(t, "PUT", path, object{"quota": test.ask}).refuses(t, test.want)
			})
		}

		over := func(resource string) refusal {
			return refusal{409, "OverQuota", "Quota exceeded for resources: ['" + resource + "']."}
		}
		two := []object{{"name": unique(), "project_id": project}, {"name": unique(), "project_id": project}}
		c.admin.do(t, "POST", "/v2.0/networks", object{"networks": two}).refuses(t, over("network"))
		n := c.admin.newNetwork(t, object{"project_id": project})
		c.admin.do(t, "POST", "/v2.0/networks", object{"network": two[0]}).refuses(t, over("network"))
		// A quota is asked before the plugin is, but after the form of the request.
		c.admin.do(t, "POST", "/v2.0/networks", object{"network": with(two[0], object{"mtu": 9999})}).refuses(t, over("network"))
		c.admin.do(t, "POST", "/v2.0/networks", object{"network": with(two[0], object{"zz": 1})}).
			refuses(t, refusal{Status: 400, Type: "HTTPBadRequest"})
		c.admin.newSubnet(t, n, object{"project_id": project})
		c.admin.do(t, "POST", "/v2.0/subnets", object{"subnet": object{"network_id": id(n), "ip_version": 4,
			"cidr": "10.1.0.0/24", "project_id": project}}).refuses(t, over("subnet"))

		c.admin.do(t, "DELETE", path, nil).must(t, http.StatusNoContent)
		c.admin.do(t, "DELETE", path, nil).refuses(t,
			refusal{404, "TenantQuotaNotFound", "Quota for " + either(c.since(neutrontest.QuotasSayProject), "project",
				"tenant") + " " + project + " could not be found."})
		c.admin.newNetwork(t, object{"project_id": project})
	})
}

func TestTenantQuotasAreReadOnly(t *testing.T) {
	inDepth(t, func(t *testing.T, c *cloud) {
		own, other := "/v2.0/quotas/"+c.tenant.project, "/v2.0/quotas/"+c.admin.project
		c.tenant.get(t, own).must(t, http.StatusOK).part(t, "quota")
		c.tenant.get(t, own+"/default").must(t, http.StatusOK).part(t, "quota")
		details := c.tenant.get(t, own+"/details.json").must(t, http.StatusOK).part(t, "quota")
		expect.Equal(t, []string{"limit", "reserved", "used"}, members(details["network"].(object)), "details")
		denied := func(rule string) refusal {
			return refusal{403, "PolicyNotAuthorized", "rule:" + rule + " is disallowed by policy"}
		}
		c.tenant.get(t, other).refuses(t, denied("get_quota"))
		c.tenant.get(t, "/v2.0/quotas").refuses(t, denied("get_quota"))
		c.tenant.do(t, "PUT", own, object{"quota": object{"network": 1}}).refuses(t, denied("update_quota"))
		c.tenant.do(t, "DELETE", own, nil).refuses(t, denied("delete_quota"))
		whoami := c.tenant.get(t, "/v2.0/quotas/tenant").must(t, http.StatusOK).part(t, "tenant")
		if whoami["tenant_id"] != c.tenant.project {
			t.Errorf("quotas/tenant = %v", whoami)
		}
	})
}

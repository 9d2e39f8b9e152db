package contract

import (
	"net/http"
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

const qosPath = "/v2.0/qos/policies"

func (s *session) newPolicy(t testing.TB, attributes object) object {
	t.Helper()
	return s.make(t, qosPath, "policy", with(object{"name": unique()}, attributes))
}

func TestQoSPolicyAttributes(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		r := c.admin.newPolicy(t, object{"name": "gold"})
		want := object{
			"id": id(r), "name": "gold", "description": "", "shared": false, "rules": []any{}, "is_default": false,
			"tags": []any{}, "revision_number": float64(0), "created_at": r["created_at"], "updated_at": r["updated_at"],
			"tenant_id": c.admin.project, "project_id": c.admin.project,
		}
		expect.Equal(t, want, c.admin.get(t, qosPath+"/"+id(r)).must(t, http.StatusOK).part(t, "policy"), "a new policy")
		c.admin.get(t, qosPath+"/nope").refuses(t,
			refusal{404, "QosPolicyNotFound", "QoS policy nope could not be found."})
	})
}

// TestTenantSeesOwnAndSharedQoSPolicies holds who finds which policy by its name, and that tenants make none.
func TestTenantSeesOwnAndSharedQoSPolicies(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		name := unique()
		own := c.admin.newPolicy(t, object{"name": name, "project_id": c.tenant.project})
		shared := c.admin.newPolicy(t, object{"name": name, "shared": true})
		hidden := c.admin.newPolicy(t, object{"name": name})
		query := qosPath + "?name=" + name + "&limit=500&sort_key=id&sort_dir=asc"
		for who, want := range map[*session][]string{
			c.tenant: {id(own), id(shared)}, c.admin: {id(own), id(shared), id(hidden)},
		} {
			expect.Equal(t, union(want), who.idsOf(t, query), "seen by project %s", who.project)
			expect.Equal(t, union(want), who.idsOf(t, query+"&fields=id&fields=name&fields=shared"),
				"seen by project %s, in lists that tell what is shared", who.project)
			if who == c.tenant && c.since(neutrontest.SharedPoliciesNeedField) {
				want = []string{id(own)}
			}
			expect.Equal(t, union(want), who.idsOf(t, query+"&fields=id&fields=name"),
				"seen by project %s, in lists that do not", who.project)
		}
		if one := c.tenant.get(t, qosPath+"/"+id(shared)+"?fields=id"); c.since(neutrontest.SharedPoliciesNeedField) {
			one.refuses(t, refusal{Status: 404, Type: "HTTPNotFound"})
		} else {
			one.must(t, http.StatusOK)
		}
		c.tenant.get(t, qosPath+"/"+id(shared)).must(t, http.StatusOK)
		c.tenant.get(t, qosPath+"/"+id(hidden)).refuses(t, refusal{Status: 404, Type: "QosPolicyNotFound"})
		c.tenant.do(t, "POST", qosPath, object{"policy": object{"name": name}}).refuses(t,
			refusal{403, "PolicyNotAuthorized", "rule:create_policy is disallowed by policy"})
		c.tenant.do(t, "DELETE", qosPath+"/"+id(own), nil).refuses(t,
			refusal{403, "PolicyNotAuthorized", "rule:delete_policy is disallowed by policy"})
	})
}

func TestNetworkQoSPolicy(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		gold, silver := c.admin.newPolicy(t, object{"shared": true}), c.admin.newPolicy(t, object{"shared": true})
		hidden := c.admin.newPolicy(t, nil)
		n := c.tenant.newNetwork(t, object{"qos_policy_id": id(gold)})
		path := "/v2.0/networks/" + id(n)
		last := revision(n)
		for _, step := range []struct {
			policy any
			moves  int
		}{{id(gold), 1}, {id(silver), 1}, {nil, 1}, {nil, 0}, {id(gold), 1}} {
			policy := step.policy
			a := c.tenant.do(t, "PUT", path, object{"network": object{"qos_policy_id": policy}})
			is := a.must(t, http.StatusOK).part(t, "network")
			if is["qos_policy_id"] != policy || revision(is) != last+step.moves {
				t.Errorf("policy %v: it is %v, and the revision went from %d to %d", policy, is["qos_policy_id"], last, revision(is))
			}
			if later := c.tenant.revisionOf(t, "network", n); later != revision(is) {
				t.Errorf("policy %v: the answer says revision %d, but then it is %d", policy, revision(is), later)
			}
			last = revision(is)
		}
		if p := c.tenant.newPort(t, n, nil); p["qos_policy_id"] != nil || p["qos_network_policy_id"] != id(gold) {
			t.Errorf("a port has the policies %v and %v", p["qos_policy_id"], p["qos_network_policy_id"])
		}
		c.admin.do(t, "DELETE", qosPath+"/"+id(gold), nil).refuses(t, refusal{409, "QosPolicyInUse",
			"QoS Policy {policy} is used by network {network}."}, "{policy}", id(gold), "{network}", id(n))

		const nobody = "11111111-1111-1111-1111-111111111111"
		for _, policy := range []string{nobody, id(hidden)} {
			want := refusal{404, "QosPolicyNotFound", "QoS policy " + policy + " could not be found."}
			ask := object{"network": object{"qos_policy_id": policy}}
			c.tenant.do(t, "PUT", path, ask).refuses(t, want)
			c.tenant.do(t, "POST", "/v2.0/networks", ask).refuses(t, want)
		}
		if is := c.tenant.get(t, path).part(t, "network")["qos_policy_id"]; is != id(gold) {
			t.Errorf("after refusals the policy is %v", is)
		}
		c.admin.do(t, "PUT", path, object{"network": object{"qos_policy_id": id(hidden)}}).must(t, http.StatusOK)
		c.tenant.do(t, "PUT", path, object{"network": object{"qos_policy_id": nil}}).refuses(t,
			refusal{403, "PolicyRemoveAuthorizationError",
				"Failed to remove provided policy {policy} because you are not authorized."}, "{policy}", id(hidden))
	})
}

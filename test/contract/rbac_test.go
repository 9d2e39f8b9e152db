package contract

import (
	"net/http"
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// sharing asks for a policy by which a network is shared with a project.
func sharing(network object, project string) object {
	return object{"rbac_policy": object{
		"object_type": "network", "object_id": id(network), "action": "access_as_shared", "target_tenant": project,
	}}
}

const rbacPath = "/v2.0/rbac-policies"

// share shares a network with a project until the end of the test, if it is not taken back before.
func (s *session) share(t testing.TB, network object, project string) object {
	t.Helper()
	return s.make(t, rbacPath, "rbac_policy", sharing(network, project)["rbac_policy"].(object))
}

func TestTenantSharesNetworkWithProject(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		n := c.tenant.newNetwork(t, nil)
		project := someProject()
		r := c.tenant.share(t, n, project)
		want := object{
			"id": id(r), "object_type": "network", "object_id": id(n), "action": "access_as_shared",
			"target_tenant": project, "tenant_id": c.tenant.project, "project_id": c.tenant.project,
		}
		expect.Equal(t, want, r, "a new policy")
		path := rbacPath + "/" + id(r)
		expect.Equal(t, want, c.tenant.get(t, path).must(t, http.StatusOK).part(t, "rbac_policy"), "the policy as shown")
		for _, who := range []*session{c.tenant, c.admin} {
			who.do(t, "POST", rbacPath, sharing(n, project)).refuses(t,
				refusal{409, "DuplicateRbacPolicy", "An RBAC policy already exists with those values."})
		}
		if c.since(neutrontest.ShareTargetsAreUUIDs) {
			c.tenant.do(t, "POST", rbacPath, sharing(n, "x")).refuses(t, refusal{400, "InvalidInput",
				"Invalid input for operation: 'x' is not a valid target project ID; expected a UUID or '*'."})
		} else {
			c.tenant.share(t, n, "x")
		}
		c.tenant.do(t, "DELETE", path, nil).must(t, http.StatusNoContent)
		c.tenant.do(t, "DELETE", path, nil).refuses(t, refusal{404, "RbacPolicyNotFound",
			"RBAC policy of type unknown with ID {policy} not found"}, "{policy}", id(r))
	})
}

func TestInvalidRBACPolicyIsRefused(t *testing.T) {
	inDepth(t, func(t *testing.T, c *cloud) {
		mine, theirs := c.tenant.newNetwork(t, nil), c.admin.newNetwork(t, object{"shared": true})
		project := someProject()
		post := func(change object) answer {
			t.Helper()
			ask := sharing(mine, project)
			return c.tenant.do(t, "POST", rbacPath, object{"rbac_policy": with(ask["rbac_policy"].(object), change)})
		}
		post(object{"target_tenant": "*"}).refuses(t, refusal{Status: 403, Type: "PolicyNotAuthorized"})
		post(object{"object_id": id(theirs)}).refuses(t, refusal{Status: 400, Type: "InvalidInput"})
		post(object{"object_id": "11111111-1111-1111-1111-111111111111"}).refuses(t, refusal{Status: 400, Type: "InvalidInput"})
		post(object{"object_id": "x"}).refuses(t,
			refusal{400, "HTTPBadRequest", "Invalid input for object_id. Reason: 'x' is not a valid UUID."})
		post(object{"action": "x"}).refuses(t, refusal{Status: 400, Type: "InvalidActionForType"})
		post(object{"object_type": "x"}).refuses(t,
			refusal{400, "InvalidInput", "Invalid input for operation: 'x' is not a valid RBAC object type."})
		post(object{"description": "x"}).refuses(t, refusal{400, "HTTPBadRequest", "Unrecognized attribute(s) 'description'"})
		if left := c.tenant.get(t, rbacPath+"?object_id="+id(mine)).list(t, "rbac_policies"); len(left) > 0 {
			t.Errorf("there is %v", left)
		}
	})
}

// TestRBACPolicyLists holds what an audit relies on: filters, fields, and that there are no pages.
func TestRBACPolicyLists(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		one, two := c.tenant.newNetwork(t, nil), c.tenant.newNetwork(t, nil)
		project, another := someProject(), someProject()
		policies := map[any]object{}
		for _, n := range []object{one, two} {
			r := c.tenant.share(t, n, project)
			policies[r["id"]] = object{"id": r["id"], "object_id": id(n), "target_tenant": project}
		}
		c.admin.share(t, one, another)
		query := rbacPath + "?object_type=network&action=access_as_shared&project_id=" + c.tenant.project +
			"&target_tenant=" + project + "&fields=id&fields=object_id&fields=target_tenant"
		for _, who := range []*session{c.tenant, c.admin} {
			for _, page := range []string{"", "&limit=1"} {
				a := who.get(t, query+page).must(t, http.StatusOK)
				got := map[any]object{}
				for _, r := range a.list(t, "rbac_policies") {
					got[r["id"]] = r
				}
				expect.Equal(t, policies, got, "%q", page)
				if links := links(a, "rbac_policies"); len(links) > 0 {
					t.Errorf("%q: there are the links %v", page, links)
				}
			}
		}
		// What another project has made of the same network is not seen.
		seen := c.tenant.get(t, rbacPath+"?object_id="+id(one)).must(t, http.StatusOK).list(t, "rbac_policies")
		if len(seen) != 1 || seen[0]["target_tenant"] != project {
			t.Errorf("a tenant sees %v", seen)
		}
		c.tenant.do(t, "POST", rbacPath, sharing(one, another)).refuses(t,
			refusal{Status: 409, Type: "DuplicateRbacPolicy"})
		c.tenant.get(t, rbacPath+"?sort_key=id&sort_dir=asc").refuses(t,
			refusal{400, "HTTPBadRequest", "['id'] is invalid attribute for sort_keys"})
	})
}

func TestSharingMovesTheRevisionOfANetwork(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		n := c.tenant.newNetwork(t, nil)
		last := revision(n)
		moved := func(what string, by int) {
			t.Helper()
			now := c.tenant.revisionOf(t, "network", n)
			if now != last+by {
				t.Errorf("%s moved the network from %d to %d, want %d more", what, last, now, by)
			}
			last = now
		}
		r := c.tenant.share(t, n, someProject())
		moved("a policy that comes", 1)
		c.tenant.do(t, "POST", rbacPath, sharing(n, r["target_tenant"].(string))).refuses(t,
			refusal{Status: 409, Type: "DuplicateRbacPolicy"})
		moved("one that is there already", 0)
		c.tenant.do(t, "DELETE", rbacPath+"/"+id(r), nil).must(t, http.StatusNoContent)
		moved("a policy that goes", 1)
	})
}

func TestSharedProjectUsesNetwork(t *testing.T) {
	inDepth(t, func(t *testing.T, c *cloud) {
		n := c.admin.newNetwork(t, nil)
		c.admin.newSubnet(t, n, nil)
		path := "/v2.0/networks/" + id(n)
		c.tenant.get(t, path).refuses(t, refusal{Status: 404, Type: "NetworkNotFound"})
		r := c.admin.share(t, n, c.tenant.project)
		for who, want := range map[*session]bool{c.tenant: true, c.admin: false} {
			if got := who.get(t, path).must(t, http.StatusOK).part(t, "network")["shared"]; got != want {
				t.Errorf("shared is %v to project %s, want %v", got, who.project, want)
			}
		}
		subnets := c.tenant.get(t, "/v2.0/subnets?network_id="+id(n)).list(t, "subnets")
		if len(subnets) != 1 {
			t.Errorf("who it is shared with sees the subnets %v", subnets)
		}
		p := c.tenant.newPort(t, n, nil)
		gone := rbacPath + "/" + id(r)
		c.admin.do(t, "DELETE", gone, nil).refuses(t, refusal{Status: 409, Type: "RbacPolicyInUse"})
		c.tenant.do(t, "DELETE", gone, nil).refuses(t, refusal{Status: 404, Type: "RbacPolicyNotFound"})
		c.tenant.do(t, "DELETE", "/v2.0/ports/"+id(p), nil).must(t, http.StatusNoContent)
		c.admin.do(t, "DELETE", gone, nil).must(t, http.StatusNoContent)
		c.tenant.get(t, path).refuses(t, refusal{Status: 404, Type: "NetworkNotFound"})
	})
}

// TestSharingWithAllIsAPolicy holds which policies are not those of single projects.
func TestSharingWithAllIsAPolicy(t *testing.T) {
	inDepth(t, func(t *testing.T, c *cloud) {
		n := c.admin.newNetwork(t, object{"shared": true, "router:external": true})
		policies := func() map[any]any {
			t.Helper()
			targets := map[any]any{}
			for _, r := range c.admin.get(t, rbacPath+"?object_id="+id(n)).list(t, "rbac_policies") {
				targets[r["action"]] = r["target_tenant"]
			}
			return targets
		}
		want := map[any]any{"access_as_shared": "*", "access_as_external": "*"}
		expect.Equal(t, want, policies(), "a network that is shared and external")
		c.admin.do(t, "PUT", "/v2.0/networks/"+id(n), object{"network": object{"shared": false, "router:external": false}}).
			must(t, http.StatusOK)
		expect.Equal(t, map[any]any{}, policies(), "one that is neither any more")
	})
}

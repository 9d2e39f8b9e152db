package contract

import (
	"net/http"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

const groupsPath = "/v2.0/security-groups"

func (s *session) newGroup(t testing.TB, attributes object) object {
	t.Helper()
	return s.make(t, groupsPath, "security_group", with(object{"name": unique()}, attributes))
}

func TestSecurityGroupAttributes(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		r := c.tenant.newGroup(t, object{"name": "web"})
		got := c.tenant.get(t, groupsPath+"/"+id(r)).must(t, http.StatusOK).part(t, "security_group")
		delete(got, "security_group_rules") // TestNewSecurityGroupLetsEverythingOut
		want := object{
			"id": id(r), "name": "web", "description": "", "stateful": true, "shared": false,
			"tags": []any{}, "revision_number": r["revision_number"], "created_at": r["created_at"], "updated_at": r["updated_at"],
			"tenant_id": c.tenant.project, "project_id": c.tenant.project,
		}
		expect.Equal(t, want, got, "a new security group")
		c.tenant.do(t, "POST", groupsPath, object{"security_group": object{"name": "default"}}).refuses(t,
			refusal{Status: 409, Type: "SecurityGroupDefaultAlreadyExists"})
		c.tenant.get(t, groupsPath+"/nope").refuses(t, refusal{404, "SecurityGroupNotFound", "Security group nope does not exist"})
	})
}

// TestProjectSeesItsSecurityGroups holds who finds which group by its name, and that each project has the one that is
// called default.
func TestProjectSeesItsSecurityGroups(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		name := unique()
		own, twin := c.tenant.newGroup(t, object{"name": name}), c.tenant.newGroup(t, object{"name": name})
		hidden := c.admin.newGroup(t, object{"name": name})
		list := func(who, of *session) map[string]string {
			found := map[string]string{}
			query := groupsPath + "?project_id=" + of.project + "&fields=id&fields=name&limit=500&sort_key=id&sort_dir=asc"
			for _, r := range who.get(t, query).must(t, http.StatusOK).list(t, "security_groups") {
				if r["name"] == name || r["name"] == "default" {
					found[id(r)] = r["name"].(string)
				}
			}
			return found
		}
		seen := list(c.tenant, c.tenant)
		if seen[id(own)] != name || seen[id(twin)] != name || seen[id(hidden)] != "" || len(seen) != 3 {
			t.Errorf("the project sees %v", seen)
		}
		if diff := gocmp.Diff(seen, list(c.admin, c.tenant)); diff != "" {
			t.Errorf("an administrator sees other groups of the project (-project +administrator):\n%s", diff)
		}
		if seen := list(c.tenant, c.admin); len(seen) > 0 {
			t.Errorf("the project sees %v of another", seen)
		}
		c.tenant.get(t, groupsPath+"/"+id(hidden)).refuses(t, refusal{Status: 404, Type: "SecurityGroupNotFound"})
	})
}

func TestSecurityGroupInUseStays(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		r := c.tenant.newGroup(t, object{"stateful": false})
		change := func(attributes object) answer {
			return c.tenant.do(t, "PUT", groupsPath+"/"+id(r), object{"security_group": attributes})
		}
		change(object{"stateful": true}).must(t, http.StatusOK)
		n := c.tenant.newNetwork(t, nil)
		c.tenant.newSubnet(t, n, object{"cidr": "10.81.0.0/24"})
		p := c.tenant.newPort(t, n, object{"security_groups": []string{id(r)}})
		if got := p["security_groups"]; gocmp.Diff([]any{id(r)}, got) != "" {
			t.Errorf("the port has the groups %v", got)
		}
		inUse := refusal{Status: 409, Type: "SecurityGroupInUse"}
		c.tenant.do(t, "DELETE", groupsPath+"/"+id(r), nil).refuses(t, inUse)
		change(object{"stateful": false}).refuses(t, inUse)
		change(object{"stateful": true, "name": "b"}).must(t, http.StatusOK)
	})
}

package contract

import (
	"net/http"
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

const trunksPath = "/v2.0/trunks"

func (s *session) newTrunk(t testing.TB, parent object) object {
	t.Helper()
	return s.make(t, trunksPath, "trunk", object{"port_id": id(parent)})
}

func (s *session) subports(t testing.TB, verb string, trunk, p object, vlan int) answer {
	t.Helper()
	sub := object{"port_id": id(p)}
	if vlan != 0 {
		sub["segmentation_type"], sub["segmentation_id"] = "vlan", vlan
	}
	return s.do(t, "PUT", trunksPath+"/"+id(trunk)+"/"+verb, object{"sub_ports": []object{sub}})
}

// TestTrunkCarriesPorts holds what the controller relies on where nodes are virtual machines: a member adds and removes
// subports, the parent port shows them, and a subport stays while it is in a trunk.
func TestTrunkCarriesPorts(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		n := c.tenant.newNetwork(t, nil)
		parent, other := c.tenant.newPort(t, n, nil), c.tenant.newPort(t, n, nil)
		sub, second := c.tenant.newPort(t, n, nil), c.tenant.newPort(t, n, nil)
		trunk, elsewhere := c.tenant.newTrunk(t, parent), c.tenant.newTrunk(t, other)

		got := c.tenant.subports(t, "add_subports", trunk, sub, 7).must(t, http.StatusOK)
		want := []any{object{"port_id": id(sub), "segmentation_type": "vlan", "segmentation_id": float64(7)}}
		expect.Equal(t, want, got.body["sub_ports"], "the answer to add_subports")
		wantFields(t, got.body, object{"revision_number": either(c.since(neutrontest.SubportsKeepRevision), 0.0, 1.0)})
		taken := map[string]string{"{port}": id(sub), "{trunk}": id(trunk)}
		refused := func(a answer, status int, kind, text string) {
			t.Helper()
			var placeholders []string
			for name, value := range taken {
				placeholders = append(placeholders, name, value)
			}
			a.refuses(t, refusal{status, kind, text}, placeholders...)
		}
		refused(c.tenant.subports(t, "add_subports", trunk, second, 7), 409, "DuplicateSubPort",
			"segmentation_type vlan and segmentation_id 7 already in use on trunk {trunk}.")
		refused(c.tenant.subports(t, "add_subports", elsewhere, sub, 8), 409, "TrunkPortInUse",
			"Port {port} is in use by another trunk.")
		refused(c.tenant.subports(t, "add_subports", trunk, sub, 8), 409, "TrunkPortInUse",
			"Port {port} is in use by another trunk.")
		refused(c.tenant.do(t, "DELETE", "/v2.0/ports/"+id(sub), nil), 409, "PortInUseAsSubPort",
			"Port {port} is currently a subport for trunk {trunk}.")

		query := "/v2.0/ports?mac_address=" + parent["mac_address"].(string) + "&fields=id&fields=trunk_details&project_id="
		if others := c.tenant.get(t, query+id(n)).must(t, http.StatusOK).list(t, "ports"); len(others) > 0 {
			t.Errorf("of another project: %v", others)
		}
		found := c.tenant.get(t, query+parent["project_id"].(string)).must(t, http.StatusOK).list(t, "ports")
		of := object{"port_id": id(sub), "segmentation_type": "vlan", "segmentation_id": float64(7)}
		if c.since(neutrontest.SubportsTellMACs) {
			of["mac_address"] = sub["mac_address"]
		}
		details := []object{{"id": id(parent), "trunk_details": object{"trunk_id": id(trunk), "sub_ports": []any{of}}}}
		expect.Equal(t, details, found, "the parent port")
		if _, shown := c.tenant.get(t, "/v2.0/ports/"+id(sub)).part(t, "port")["trunk_details"]; shown {
			t.Error("a subport shows details of a trunk")
		}

		c.tenant.subports(t, "remove_subports", trunk, sub, 0).must(t, http.StatusOK)
		refused(c.tenant.subports(t, "remove_subports", trunk, sub, 0), 404, "SubPortNotFound",
			"SubPort {port} on trunk {trunk} could not be found.")
		c.tenant.do(t, "DELETE", "/v2.0/ports/"+id(sub), nil).must(t, http.StatusNoContent)

		used := c.tenant.newPort(t, n, object{"device_id": "something"})
		c.tenant.subports(t, "add_subports", trunk, used, 9).refuses(t, refusal{Status: 409, Type: "PortInUse"})
	})
}

package contract

import (
	"fmt"
	"net/http"
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestNeutronVersionNeedsNoToken(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		want := []object{{
			"id": "v2.0", "status": "CURRENT",
			"links": []any{object{"rel": "self", "href": c.tenant.network + "/v2.0/"}},
		}}
		a := c.tenant.do(t, "GET", "/", nil, "X-Auth-Token", "")
		expect.Equal(t, want, a.must(t, http.StatusOK).list(t, "versions"), "versions")
	})
}

func TestNeutronNamesItsCoreResources(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		got := map[any]any{}
		for _, r := range c.tenant.get(t, "/v2.0/").must(t, http.StatusOK).list(t, "resources") {
			got[r["name"]] = r["collection"]
		}
		want := map[any]any{"network": "networks", "subnet": "subnets", "subnetpool": "subnetpools", "port": "ports"}
		expect.Equal(t, want, got, "resources")
	})
}

// TestRequiredExtensions holds the ones whose absence would change what requests mean.
func TestRequiredExtensions(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		got := map[any]bool{}
		for _, e := range c.tenant.get(t, "/v2.0/extensions").must(t, http.StatusOK).list(t, "extensions") {
			got[e["alias"]] = true
		}
		for _, alias := range []string{
			"dns-integration", "dvr", "external-net", "filter-validation", "l3-ha", "net-mtu-writable",
			"network-ip-availability", "pagination", "port-security", "project-id", "quotas", "revision-if-match", "router",
			"sorting", "standard-attr-description", "standard-attr-revisions", "standard-attr-tag",
			"subnet-dns-publish-fixed-ip", "subnet-service-types",
		} {
			if !got[alias] {
				t.Errorf("no extension %s", alias)
			}
		}
		one := c.tenant.get(t, "/v2.0/extensions/router").must(t, http.StatusOK).part(t, "extension")
		if one["alias"] != "router" {
			t.Errorf("extension router is %v", one)
		}
		c.tenant.get(t, "/v2.0/extensions/nope").must(t, http.StatusNotFound)
	})
}

// TestMalformedRequests holds what is refused before a resource is looked for, and that one that is not there is missed.
func TestMalformedRequests(t *testing.T) {
	missing := func(kind, name string) refusal {
		return refusal{404, kind + "NotFound", name + " nope could not be found."}
	}
	nowhere := refusal{404, "HTTPNotFound", "The resource could not be found."}
	bad := func(message string) refusal { return refusal{400, "HTTPBadRequest", message} }
	noNetwork, noData := bad("Unable to find 'network' in request body"), bad("Body contains invalid data")
	inDepth(t, func(t *testing.T, c *cloud) {
		there := "networks/" + id(c.tenant.newNetwork(t, nil))
		fails := c.since(neutrontest.TagsOfGoneAre500)
		noTags := either(fails, refusal{500, "HTTPInternalServerError", "Request Failed: internal server error while " +
			"processing your request."}, missing("TagResource", "Resource networks"))
		for _, test := range []struct {
			method, path string
			body         any
			want         refusal
		}{
			{"GET", "nope", nil, nowhere},
			{"GET", "networks/nope", nil, missing("Network", "Network")},
			{"PUT", "networks/nope", object{"network": object{"name": "a"}}, missing("Network", "Network")},
			{"DELETE", "networks/nope", nil, missing("Network", "Network")},
			{"GET", "networks/nope/nope", nil, nowhere},
			{"GET", "subnets/nope", nil, missing("Subnet", "Subnet")},
			{"DELETE", "subnets/nope", nil, missing("Subnet", "Subnet")},
			{"GET", "ports/nope", nil, missing("Port", "Port")},
			{"DELETE", "ports/nope", nil, missing("Port", "Port")},
			{"GET", "routers/nope", nil, refusal{404, "RouterNotFound", "Router nope could not be found"}},
			{"PUT", "networks/nope/tags", object{"tags": []string{"a"}}, noTags},
			{"GET", "networks/nope/tags", nil, noTags},
			{"DELETE", "networks/" + noSuchID + "/tags/a", nil, either(fails, noTags, refusal{404, "TagResourceNotFound",
				"Resource networks " + noSuchID + " could not be found."})},
			// An unknown attribute is seen before the network is looked for.
			{"PUT", "networks/nope", object{"network": object{"zz": 1}}, bad("Unrecognized attribute(s) 'zz'")},
			{"POST", "networks", "", noNetwork},
			{"POST", "networks", "x", noData},
			{"POST", "networks", "[]", noData},
			{"POST", "networks", "{}", noNetwork},
			{"POST", "networks", `{"net": {}}`, noNetwork},
			{"POST", "networks", `{"network": null}`, noNetwork},
			{"POST", "networks", `{"network": []}`, bad("Object 'network' contains invalid data")},
			{"POST", "networks", `{"networks": []}`, bad("Resources required")},
			{"POST", "networks", `{"networks": {}}`, bad("Resources required")},
			{"POST", "networks", `{"networks": [1]}`, noData},
			{"POST", there, object{}, refusal{Status: 405, Type: "HTTPMethodNotAllowed"}},
			{"PATCH", there, object{}, refusal{Status: 405, Type: "HTTPMethodNotAllowed"}},
			{"DELETE", there, object{}, bad("Request body is not supported in DELETE.")},
		} {
			t.Run(fmt.Sprint(test.method, " ", test.path, " ", test.body), func(t *testing.T) {
				c.tenant.do(t, test.method, "/v2.0/"+test.path, test.body).refuses(t, test.want)
			})
		}
	})
}

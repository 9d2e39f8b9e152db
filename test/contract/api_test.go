package contract

import (
	"net/http"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

func TestNeutronVersionNeedsNoToken(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		want := []object{{
			"id": "v2.0", "status": "CURRENT",
			"links": []any{object{"rel": "self", "href": c.tenant.network + "/v2.0/"}},
		}}
		a := c.tenant.do(t, "GET", "/", nil, "X-Auth-Token", "")
		if diff := gocmp.Diff(want, a.must(t, http.StatusOK).list(t, "versions")); diff != "" {
			t.Errorf("versions (-want +got):\n%s", diff)
		}
	})
}

func TestNeutronNamesItsCoreResources(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		got := map[any]any{}
		for _, r := range c.tenant.get(t, "/v2.0/").must(t, http.StatusOK).list(t, "resources") {
			got[r["name"]] = r["collection"]
		}
		want := map[any]any{"network": "networks", "subnet": "subnets", "subnetpool": "subnetpools", "port": "ports"}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("resources (-want +got):\n%s", diff)
		}
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
			one := c.tenant.get(t, "/v2.0/extensions/"+alias).must(t, http.StatusOK).part(t, "extension")
			if one["alias"] != alias {
				t.Errorf("extension %s is %v", alias, one)
			}
		}
		c.tenant.get(t, "/v2.0/extensions/nope").must(t, http.StatusNotFound)
	})
}

func TestMissingResourceIsNotFound(t *testing.T) {
	for name, test := range map[string]struct {
		method, path string
		body         any
		want         refusal
	}{
		"a collection": {"GET", "/v2.0/nope", nil,
			refusal{404, "HTTPNotFound", "The resource could not be found."}},
		"a network": {"GET", "/v2.0/networks/nope", nil,
			refusal{404, "NetworkNotFound", "Network nope could not be found."}},
		"a network to change": {"PUT", "/v2.0/networks/nope", object{"network": object{"name": "a"}},
			refusal{404, "NetworkNotFound", "Network nope could not be found."}},
		"a network to delete": {"DELETE", "/v2.0/networks/nope", nil,
			refusal{404, "NetworkNotFound", "Network nope could not be found."}},
		"a part of a network": {"GET", "/v2.0/networks/nope/nope", nil,
			refusal{404, "HTTPNotFound", "The resource could not be found."}},
		"a subnet": {"GET", "/v2.0/subnets/nope", nil,
			refusal{404, "SubnetNotFound", "Subnet nope could not be found."}},
		"a subnet to delete": {"DELETE", "/v2.0/subnets/nope", nil,
			refusal{404, "SubnetNotFound", "Subnet nope could not be found."}},
		"a port": {"GET", "/v2.0/ports/nope", nil,
			refusal{404, "PortNotFound", "Port nope could not be found."}},
		"a port to delete": {"DELETE", "/v2.0/ports/nope", nil,
			refusal{404, "PortNotFound", "Port nope could not be found."}},
		"a router": {"GET", "/v2.0/routers/nope", nil,
			refusal{404, "RouterNotFound", "Router nope could not be found"}},
		"the tags of a network": {"PUT", "/v2.0/networks/nope/tags", object{"tags": []string{"a"}},
			refusal{404, "TagResourceNotFound", "Resource networks nope could not be found."}},
		"an unknown attribute is seen before the network is looked for": {
			"PUT", "/v2.0/networks/nope", object{"network": object{"zz": 1}},
			refusal{400, "HTTPBadRequest", "Unrecognized attribute(s) 'zz'"}},
	} {
		t.Run(name, func(t *testing.T) {
			onEveryCloud(t, func(t *testing.T, c *cloud) {
				c.tenant.do(t, test.method, test.path, test.body).refuses(t, test.want)
			})
		})
	}
}

func TestMalformedBodies(t *testing.T) {
	for name, test := range map[string]struct {
		body any
		want string
	}{
		"nothing":                       {"", "Unable to find 'network' in request body"},
		"no JSON":                       {"x", "Body contains invalid data"},
		"a list":                        {"[]", "Body contains invalid data"},
		"an empty object":               {"{}", "Unable to find 'network' in request body"},
		"another resource":              {`{"net": {}}`, "Unable to find 'network' in request body"},
		"a network that is null":        {`{"network": null}`, "Unable to find 'network' in request body"},
		"a network that is a list":      {`{"network": []}`, "Object 'network' contains invalid data"},
		"no networks":                   {`{"networks": []}`, "Resources required"},
		"networks that are an object":   {`{"networks": {}}`, "Resources required"},
		"networks that are not objects": {`{"networks": [1]}`, "Body contains invalid data"},
	} {
		t.Run(name, func(t *testing.T) {
			onEveryCloud(t, func(t *testing.T, c *cloud) {
				c.tenant.do(t, "POST", "/v2.0/networks", test.body).refuses(t,
					refusal{400, "HTTPBadRequest", test.want})
			})
		})
	}
}

func TestUnsupportedMethods(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		n := c.tenant.newNetwork(t, nil)
		for _, method := range []string{"POST", "PATCH"} {
			c.tenant.do(t, method, "/v2.0/networks/"+id(n), object{}).refuses(t, refusal{Status: 405,
				Type: "HTTPMethodNotAllowed"})
		}
		c.tenant.do(t, "DELETE", "/v2.0/networks/"+id(n), object{}).refuses(t,
			refusal{400, "HTTPBadRequest", "Request body is not supported in DELETE."})
	})
}

package client

import (
	"testing"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestATraceShowsNoIds(t *testing.T) {
	const id = "0f9c1a2e-3b4d-4c5e-8f60-718293a4b5c6"
	for path, want := range map[string]string{
		"networks":                  "/v2.0/networks",
		"qos/policies":              "/v2.0/qos/policies",
		"network-ip-availabilities": "/v2.0/network-ip-availabilities",
		"networks/" + id:            "/v2.0/networks/{id}",
		"routers/" + id + "/add_router_interface": "/v2.0/routers/{id}/add_router_interface",
		"networks/" + id + "/tags":                "/v2.0/networks/{id}/tags",
		"networks/A%20name":                       "/v2.0/networks/{id}",
	} {
		expect.Equal(t, want, template(path), "%s", path)
	}
}

package proxy

import (
	"encoding/json"
	"net/url"
	"regexp"
	"strings"
)

var neutronID = regexp.MustCompile(`/[0-9a-f]{8}-[0-9a-f-]{27}`)

// NeutronShape is a path of Neutron's from the API's version on, without ids: "/v2.0/networks/{id}".
func NeutronShape(path string) string {
	if at := strings.Index(path, "/v2.0/"); at >= 0 {
		path = path[at:]
	}
	return neutronID.ReplaceAllString(path, "/{id}")
}

// KubeShape is a path of the Kubernetes API without namespace and name:
// "/apis/cloudteam.ztgame.com/v1/networks/{name}".
func KubeShape(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	at := 2 // of the resource, after /api/v1
	if parts[0] == "apis" {
		at = 3
	}
	if len(parts) > at+2 && parts[at] == "namespaces" {
		parts = append(parts[:at:at], parts[at+2:]...)
	}
	if len(parts) > at+1 {
		parts[at+1] = "{name}"
	}
	return "/" + strings.Join(parts, "/")
}

// RedirectCatalog makes the endpoints of the network service, in the answer to a log-in at Keystone, those of another
// host. Other answers it leaves as they are.
func RedirectCatalog(body []byte, to *url.URL) []byte {
	var answer map[string]map[string]any
	if json.Unmarshal(body, &answer) != nil || answer["token"]["catalog"] == nil {
		return body
	}
	for _, entry := range answer["token"]["catalog"].([]any) {
		service := entry.(map[string]any)
		if service["type"] != "network" {
			continue
		}
		for _, e := range service["endpoints"].([]any) {
			endpoint := e.(map[string]any)
			address, err := url.Parse(endpoint["url"].(string))
			if err != nil {
				return body
			}
			address.Scheme, address.Host = to.Scheme, to.Host
			endpoint["url"] = address.String()
		}
	}
	redirected, err := json.Marshal(answer)
	if err != nil {
		return body
	}
	return redirected
}

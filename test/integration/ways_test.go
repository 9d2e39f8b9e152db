package integration

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// TestEveryToolStoresTheSameSpec holds that an edit leads to one stored spec, whichever tool brings it. Server-side
// apply removes a list or an object whose last element was taken out, unless its type is atomic: where the empty value
// has a meaning of its own, it has to be.
func TestEveryToolStoresTheSameSpec(t *testing.T) {
	const group, other = "0f9c1a2e-3b4d-4c5e-8f60-718293a4b5c6", "1f9c1a2e-3b4d-4c5e-8f60-718293a4b5c6"
	for sentence, c := range map[string]struct {
		kind          string
		before, after string
		// want is what is stored of after; empty where the API server refuses it with the message.
		want, message string
	}{
		"no tags":                          {before: `tags: [a, b]`, after: `tags: []`, want: `tags: []`},
		"tags left out":                    {before: `tags: [a, b]`, after: ``, want: ``},
		"no other project":                 {before: `sharedWith: [one]`, after: `sharedWith: []`, want: `sharedWith: []`},
		"tags left out after none":         {before: `tags: []`, after: ``, want: ``},
		"tags after none":                  {before: `tags: []`, after: `tags: [a]`, want: `tags: [a]`},
		"zones after none":                 {before: `availabilityZoneHints: []`, after: `availabilityZoneHints: [a]`, message: "neither change nor be added"},
		"no pools":                         {before: `allocationPools: [{start: 10.0.0.9, end: 10.0.0.99}]`, after: `allocationPools: []`, want: `allocationPools: []`},
		"no name servers":                  {before: `dnsServers: [10.0.0.2]`, after: `dnsServers: []`, want: `dnsServers: []`},
		"no routes":                        {before: `hostRoutes: [{destination: 10.9.0.0/16, nextHop: 10.0.0.7}]`, after: `hostRoutes: []`, want: `hostRoutes: []`},
		"no further subnets":               {before: `additionalSubnets: [{cidr: 10.1.0.0/24}]`, after: `additionalSubnets: []`, want: `additionalSubnets: []`},
		"a router of its own, all default": {before: `router: {externalNetwork: out}`, after: `router: {}`, want: `router: {}`},
		"no router":                        {before: `router: {externalNetwork: out}`, after: ``, want: ``},
		"no routes of an existing router":  {before: `router: {existing: r}`, after: `router: {existing: r, routes: []}`, want: `router: {existing: r, routes: []}`},
		"no security groups":               {kind: "NetworkPort", before: `securityGroups: [` + group + `]`, after: `securityGroups: []`, want: `securityGroups: []`},
		"other security groups": {
			kind: "NetworkPort", before: `securityGroups: [` + group + `]`, after: `securityGroups: [` + other + `]`,
			want: `securityGroups: [` + other + `]`,
		},
		"no addresses": {kind: "NetworkPort", before: ``, after: `addresses: []`, message: "leave addresses out"},
	} {
		t.Run(sentence, func(t *testing.T) {
			for _, way := range harness.Ways {
				t.Run(string(way), func(t *testing.T) {
					namespace := newNamespace(t)
					kind, first := "Network", "cidr: 10.0.0.0/24\n"
					if c.kind != "" {
						kind, first = c.kind, "networkName: example\n"
					}
					client := anyAPI.Resource(cloudteamv1.SchemeGroupVersion.WithResource(strings.ToLower(kind) + "s")).Namespace(namespace)
					manifest := func(spec string) *unstructured.Unstructured {
						object := &unstructured.Unstructured{Object: map[string]any{
							"apiVersion": cloudteamv1.SchemeGroupVersion.String(), "kind": kind,
							"metadata": map[string]any{"namespace": namespace, "name": "example"},
						}}
						object.Object["spec"] = inYAML(t, first+spec)
						return object
					}
					if _, err := way.Write(t.Context(), client, manifest(c.before)); err != nil {
						t.Fatalf("before: %v", err)
					}
					_, err := way.Write(t.Context(), client, manifest(c.after))
					if c.message != "" {
						expect.ErrorSays(t, err, c.message)
						return
					}
					expect.NoError(t, err)
					stored, err := client.Get(t.Context(), "example", metav1.GetOptions{})
					expect.NoError(t, err)
					want := inYAML(t, first+c.want)
					if kind == "Network" {
						want["dhcp"] = true
					}
					got := stored.Object["spec"].(map[string]any)
					expect.Equal(t, want, got, "stored")
				})
			}
		})
	}
}

// inYAML is an object.
func inYAML(t *testing.T, text string) map[string]any {
	t.Helper()
	object := map[string]any{}
	expect.NoError(t, yaml.Unmarshal([]byte(text), &object))
	return object
}

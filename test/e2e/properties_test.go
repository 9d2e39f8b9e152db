package e2e

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// tag replaces the tags of a network.
func (c *cloud) tag(id string, tags ...string) {
	c.t.Helper()
	_, err := c.client.Put(c.t.Context(), c.client.ServiceURL("networks", id, "tags"), resource{"tags": tags}, nil,
		&gophercloud.RequestOpts{OkCodes: []int{http.StatusOK}})
	if err != nil {
		c.t.Fatalf("tagging network %s: %v", id, err)
	}
}

// eventuallyFields waits until a network has the fields.
func (c *cloud) eventuallyFields(id string, want resource) {
	c.t.Helper()
	eventually(c.t, func() error {
		is, got := c.one("networks", "id="+id), resource{}
		for field := range want {
			got[field] = is[field]
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("network %s (-want +got):\n%s", id, diff)
		}
		return nil
	})
}

// testProperties takes what a network has besides its subnets through a life: it is created, changed by its spec, changed
// by others and put back.
func testProperties(
	parallel func(sentence string, test func(t *testing.T, c *cloud, namespace, name string)), cloudName string,
) {
	parallel("name, state, DNS domain and tags arrive, change, and are put back",
		func(t *testing.T, c *cloud, namespace, name string) {
			spec := example()
			spec.NetworkName, spec.AdminState = name+" in Neutron", cloudteamv1.AdminStateDown
			spec.DNSDomain, spec.Tags = "Example.org.", []string{"b", "a,c"}
			apply(t, namespace, name, spec)
			id := awaitReady(t, namespace, name).Status.NetworkID
			declared := resource{
				"name": name + " in Neutron", "admin_state_up": false, "dns_domain": "example.org.",
				"tags": []any{"a,c", "b"},
			}
			wantFields(t, c.one("networks", "id="+id), declared)
			wantFields(t, c.one("subnets", "network_id="+id), resource{"name": name + " in Neutron"})

			c.update("networks", id, resource{"name": "x", "admin_state_up": true, "dns_domain": ""})
			c.tag(id, "others'")
			c.eventuallyFields(id, declared)
			awaitEvent(t, namespace, name, cloudteamv1.EventDriftCorrected, `tags "others'" → "a,c", "b"`)

			edit(t, namespace, name, `{"networkName":null,"adminState":null,"dnsDomain":"none","tags":[]}`)
			awaitReady(t, namespace, name)
			wantFields(t, c.one("networks", "id="+id), resource{
				"name": name, "admin_state_up": true, "dns_domain": "", "tags": []any{},
			})

			// What the spec does not speak of is others' to set.
			edit(t, namespace, name, `{"dnsDomain":null,"tags":null,"description":"edited"}`)
			awaitReady(t, namespace, name)
			c.update("networks", id, resource{"dns_domain": "others.org."})
			c.tag(id, "others'")
			edit(t, namespace, name, `{"description":null}`)
			c.eventuallyFields(id, resource{
				"description": markerOf(t, get(t, namespace, name)), "dns_domain": "others.org.", "tags": []any{"others'"},
			})
			remove(t, namespace, name)
		})
}

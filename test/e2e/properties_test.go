package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

	shared := example()
	shared.Shared = new(true)
	if cloudName != "admin" {
		parallel("what is an administrator's is forbidden, and said so, and comes with another spec",
			func(t *testing.T, c *cloud, namespace, name string) {
				apply(t, namespace, name, shared)
				forbidden := awaitCondition(t, namespace, name, cloudteamv1.ConditionStalled, metav1.ConditionTrue,
					cloudteamv1.ReasonForbidden)
				const says = "these credentials may not set shared: leave that out of the spec, or give an administrator's"
				if message := forbidden.Status.Conditions[0].Message; !strings.Contains(message, says) {
					t.Errorf("the message does not say %q: %s", says, message)
				}
				if left := c.list("networks", "name="+name); len(left) > 0 {
					t.Errorf("networks were created: %v", left)
				}
				edit(t, namespace, name, `{"shared":null}`)
				awaitReady(t, namespace, name)
				edit(t, namespace, name, `{"external":true}`)
				awaitCondition(t, namespace, name, cloudteamv1.ConditionStalled, metav1.ConditionTrue,
					cloudteamv1.ReasonForbidden)
				edit(t, namespace, name, `{"external":null}`)
				awaitReady(t, namespace, name)
				remove(t, namespace, name)
			})
		return
	}

	parallel("what is an administrator's arrives, changes, and is put back",
		func(t *testing.T, c *cloud, namespace, name string) {
			const one, other = 2741, 2742 // which no other test asks for
			spec := shared
			spec.External = new(true)
			spec.Provider = &cloudteamv1.ProviderSpec{
				NetworkType: "vlan", PhysicalNetwork: "physnet1", SegmentationID: new(int64(one)),
			}
			apply(t, namespace, name, spec)
			id := awaitReady(t, namespace, name).Status.NetworkID
			declared := resource{
				"shared": true, "router:external": true, "provider:network_type": "vlan",
				"provider:physical_network": "physnet1", "provider:segmentation_id": float64(one),
			}
			wantFields(t, c.one("networks", "id="+id), declared)

			c.update("networks", id, resource{"shared": false, "router:external": false})
			c.eventuallyFields(id, declared)
			c.update("networks", id, resource{"provider:segmentation_id": other})
			c.eventuallyFields(id, declared)
			awaitEvent(t, namespace, name, cloudteamv1.EventDriftCorrected, "provider.segmentationID 2742 → 2741")

			edit(t, namespace, name, `{"shared":false,"external":false,"provider":{"segmentationID":2742}}`)
			awaitReady(t, namespace, name)
			wantFields(t, c.one("networks", "id="+id), resource{
				"shared": false, "router:external": false, "provider:segmentation_id": float64(other),
			})
			remove(t, namespace, name)
		})

	parallel("a zone that there is not stalls with Neutron's reason",
		func(t *testing.T, _ *cloud, namespace, name string) {
			spec := example()
			spec.AvailabilityZoneHints = []string{"nowhere"}
			apply(t, namespace, name, spec)
			awaitCondition(t, namespace, name, cloudteamv1.ConditionStalled, metav1.ConditionTrue, cloudteamv1.ReasonRefused)
			awaitEvent(t, namespace, name, cloudteamv1.ReasonRefused, "AvailabilityZone nowhere could not be found")
			edit(t, namespace, name, `{"availabilityZoneHints":null}`)
			awaitReady(t, namespace, name)
			remove(t, namespace, name)
		})
}

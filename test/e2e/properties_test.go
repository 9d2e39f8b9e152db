package e2e

import (
	"fmt"
	"net/http"
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

// testProperties holds what becomes of what a spec leaves out, and of what a cloud refuses.
func testProperties(
	parallel func(sentence string, test func(t *testing.T, c *cloud, namespace, name string)), cloudName string,
) {
	parallel("what the spec says no more is as it is by default, and what it leaves open is others' to set",
		func(t *testing.T, c *cloud, namespace, name string) {
			spec := example()
			spec.Gateway, spec.DHCP, spec.DNSServers = "192.168.0.9", new(false), []string{"192.168.0.53"}
			spec.AllocationPools = []cloudteamv1.AllocationPool{{Start: "192.168.0.10", End: "192.168.0.99"}}
			spec.HostRoutes = []cloudteamv1.HostRoute{{Destination: "10.9.0.0/16", NextHop: "192.168.0.7"}}
			spec.NetworkName, spec.AdminState, spec.Description = name+" in Neutron", cloudteamv1.AdminStateDown, "a text"
			spec.DNSDomain, spec.Tags = "example.org.", []string{"a"}
			marker := markerOf(t, apply(t, namespace, name, spec))
			id := awaitReady(t, namespace, name).Status.NetworkID
			edit(t, namespace, name, `{"gateway":null,"dhcp":null,"dnsServers":null,"allocationPools":null,"hostRoutes":null,
				"networkName":null,"adminState":null,"description":null,"dnsDomain":"none","tags":[]}`)
			awaitReady(t, namespace, name)
			wantFields(t, c.one("networks", "id="+id), resource{
				"name": name, "admin_state_up": true, "description": marker, "dns_domain": "", "tags": []any{},
			})
			wantFields(t, c.one("subnets", "network_id="+id), resource{
				"name": name, "gateway_ip": "192.168.0.1", "enable_dhcp": true, "dns_nameservers": []any{},
				"allocation_pools": []any{map[string]any{"start": "192.168.0.2", "end": "192.168.255.254"}},
				"host_routes":      []any{},
			})

			edit(t, namespace, name, `{"dnsDomain":null,"tags":null,"description":"edited"}`)
			awaitReady(t, namespace, name)
			c.update("networks", id, resource{"dns_domain": "others.org."})
			c.tag(id, "others'")
			edit(t, namespace, name, `{"description":null}`)
			c.eventuallyFields(id, resource{
				"description": marker, "dns_domain": "others.org.", "tags": []any{"others'"},
			})
			remove(t, namespace, name)
		})

	if cloudName != "admin" {
		parallel("what is an administrator's is forbidden, and said so, and comes with another spec",
			func(t *testing.T, c *cloud, namespace, name string) {
				shared := example()
				shared.Shared = new(true)
				apply(t, namespace, name, shared)
				forbidden := awaitCondition(t, namespace, name, cloudteamv1.ConditionStalled, metav1.ConditionTrue,
					cloudteamv1.ReasonForbidden)
				const says = "these credentials may not set shared. Retrying periodically. Leave that out of the spec, or use an administrator's"
				wantMessage(t, forbidden, says)
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
				edit(t, namespace, name, `{"router":{"ha":true,"distributed":false}}`)
				forbidden = awaitCondition(t, namespace, name, cloudteamv1.ConditionStalled, metav1.ConditionTrue,
					cloudteamv1.ReasonForbidden)
				const kind = "these credentials may not set ha, distributed. Retrying periodically. Leave that out of the spec"
				wantMessage(t, forbidden, kind)
				edit(t, namespace, name, `{"router":{"ha":null,"distributed":null}}`)
				awaitReady(t, namespace, name)
				remove(t, namespace, name)
			})
		return
	}

	parallel("a router of a kind arrives, and is put back once somebody has it switched off",
		func(t *testing.T, c *cloud, namespace, name string) {
			spec := example()
			spec.Router = &cloudteamv1.RouterSpec{HA: new(true), Distributed: new(false)}
			apply(t, namespace, name, spec)
			id := awaitReady(t, namespace, name).Status.Router.ID
			declared := resource{"ha": true, "distributed": false, "admin_state_up": true}
			wantFields(t, c.one("routers", "id="+id), declared)

			annotate(t, namespace, name, cloudteamv1.AnnotationPaused, `"true"`)
			awaitCondition(t, namespace, name, cloudteamv1.ConditionReady, metav1.ConditionTrue, cloudteamv1.ReasonPaused)
			for _, ask := range []resource{{"admin_state_up": false}, {"ha": false}, {"admin_state_up": true}} {
				c.update("routers", id, ask)
			}
			annotate(t, namespace, name, cloudteamv1.AnnotationPaused, "null")
			refused := awaitCondition(t, namespace, name, cloudteamv1.ConditionStalled, metav1.ConditionTrue,
				cloudteamv1.ReasonRejected)
			const says = "Please set router admin_state_up to False"
			wantMessage(t, refused, says)
			c.update("routers", id, resource{"admin_state_up": false})
			eventually(t, func() error {
				is := c.one("routers", "id="+id)
				for field, want := range declared {
					if is[field] != want {
						return fmt.Errorf("%s is %v, want %v", field, is[field], want)
					}
				}
				return nil
			})
			awaitReady(t, namespace, name)
			awaitEvent(t, namespace, name, cloudteamv1.EventDriftCorrected, "ha false → true")
			remove(t, namespace, name)
		})
}

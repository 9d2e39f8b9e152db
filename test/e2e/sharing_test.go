package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// newQoSPolicy makes a QoS policy that all projects see, until the test ends, and gives its id.
func newQoSPolicy(t *testing.T, admin *cloud, name string) string {
	t.Helper()
	url := admin.client.ServiceURL("qos", "policies")
	var made map[string]resource
	_, err := admin.client.Post(t.Context(), url, resource{"policy": resource{"name": name, "shared": true}}, &made,
		&gophercloud.RequestOpts{OkCodes: []int{http.StatusCreated}})
	if err != nil {
		t.Fatalf("creating QoS policy %s: %v", name, err)
	}
	id := made["policy"].id()
	t.Cleanup(func() {
		if _, err := admin.client.Delete(context.WithoutCancel(t.Context()), url+"/"+id, nil); err != nil {
			t.Errorf("deleting QoS policy %s: %v", id, err)
		}
	})
	return id
}

// shares are the policies by which the network is shared with single projects, by project.
func (c *cloud) shares(network string) map[string]string {
	c.t.Helper()
	var answer map[string][]resource
	query := "?object_type=network&action=access_as_shared&object_id=" + network
	if _, err := c.client.Get(c.t.Context(), c.client.ServiceURL("rbac-policies")+query, &answer, nil); err != nil {
		c.t.Fatalf("listing RBAC policies: %v", err)
	}
	shares := map[string]string{}
	for _, r := range answer["rbac_policies"] {
		shares[r["target_tenant"].(string)] = r.id()
	}
	return shares
}

// share shares a network with a project, as somebody else would.
func (c *cloud) share(network, project string) {
	c.t.Helper()
	_, err := c.client.Post(c.t.Context(), c.client.ServiceURL("rbac-policies"), resource{"rbac_policy": resource{
		"object_type": "network", "object_id": network, "action": "access_as_shared", "target_tenant": project,
	}}, nil, &gophercloud.RequestOpts{OkCodes: []int{http.StatusCreated}})
	if err != nil {
		c.t.Fatalf("sharing network %s: %v", network, err)
	}
}

// eventuallyShared waits until a network is shared with just these projects.
func (c *cloud) eventuallyShared(network string, projects ...string) {
	c.t.Helper()
	eventually(c.t, func() error {
		shares := c.shares(network)
		for _, project := range projects {
			if shares[project] == "" {
				return fmt.Errorf("network %s is not shared with %s, only by %v", network, project, shares)
			}
		}
		if len(shares) != len(projects) {
			return fmt.Errorf("network %s is shared by %v, want with %v", network, shares, projects)
		}
		return nil
	})
}

// testSharing takes QoS policies and sharing through a life: they arrive, change by the spec, are changed by others and
// put back, and left alone where the spec does not speak of them.
func testSharing(
	parallel func(sentence string, test func(t *testing.T, c *cloud, namespace, name string)), cloudName string,
) {
	parallel("a QoS policy and projects to share with arrive, change, and are put back",
		func(t *testing.T, c *cloud, namespace, name string) {
			admin := open(t, "admin")
			gold, silver := newQoSPolicy(t, admin, name+"-gold"), newQoSPolicy(t, admin, name+"-silver")
			one, two, theirs := name+"-one", name+"-two", name+"-theirs"
			spec := example()
			spec.QoSPolicy, spec.SharedWith = name+"-gold", []string{two, one}
			apply(t, namespace, name, spec)
			id := awaitReady(t, namespace, name).Status.NetworkID
			wantFields(t, c.one("networks", "id="+id), resource{"qos_policy_id": gold})
			c.eventuallyShared(id, one, two)

			c.update("networks", id, resource{"qos_policy_id": silver})
			c.eventuallyFields(id, resource{"qos_policy_id": gold})
			awaitEvent(t, namespace, name, cloudteamv1.EventDriftCorrected, `qosPolicy "`+silver+`" → "`+gold+`"`)
			c.remove("rbac-policies", c.shares(id)[one])
			c.eventuallyShared(id, one, two)
			awaitEvent(t, namespace, name, cloudteamv1.EventDriftCorrected, `Shared network with project "`+one+`"`)
			c.share(id, theirs)
			c.eventuallyShared(id, one, two)

			edit(t, namespace, name, `{"qosPolicy":"`+silver+`","sharedWith":["`+two+`"]}`)
			awaitReady(t, namespace, name)
			wantFields(t, c.one("networks", "id="+id), resource{"qos_policy_id": silver})
			c.eventuallyShared(id, two)
			edit(t, namespace, name, `{"qosPolicy":"none","sharedWith":[]}`)
			awaitReady(t, namespace, name)
			wantFields(t, c.one("networks", "id="+id), resource{"qos_policy_id": nil})
			c.eventuallyShared(id)
			c.share(id, theirs)
			c.eventuallyShared(id)

			// What the spec does not speak of is others' to set.
			edit(t, namespace, name, `{"qosPolicy":null,"sharedWith":null,"description":"edited"}`)
			awaitReady(t, namespace, name)
			c.update("networks", id, resource{"qos_policy_id": gold})
			c.share(id, theirs)
			edit(t, namespace, name, `{"description":null}`)
			c.eventuallyFields(id, resource{
				"description": markerOf(t, get(t, namespace, name)), "qos_policy_id": gold,
			})
			c.eventuallyShared(id, theirs)
			remove(t, namespace, name)
			if left := c.shares(id); len(left) > 0 {
				t.Errorf("the network is gone, and shared by %v", left)
			}
		})

	parallel("a project that uses a shared network is named, and loses it when it does not any more",
		func(t *testing.T, c *cloud, namespace, name string) {
			others := slices.DeleteFunc([]string{"admin", "tenant"}, func(other string) bool { return other == cloudName })
			other := open(t, others[0])
			spec := example()
			spec.SharedWith = []string{other.project}
			apply(t, namespace, name, spec)
			id := awaitReady(t, namespace, name).Status.NetworkID
			port := other.create("ports", resource{"network_id": id, "device_owner": "compute:e2e"})
			edit(t, namespace, name, `{"sharedWith":[],"tags":["edited"]}`)
			held := awaitCondition(t, namespace, name, cloudteamv1.ConditionReady, metav1.ConditionFalse,
				cloudteamv1.ReasonInUse)
			want := fmt.Sprintf("(sharedWith): project %q: in use by port %s (compute:e2e)", other.project, port.id())
			wantMessage(t, held, want)
			wantFields(t, c.one("networks", "id="+id), resource{"tags": []any{"edited"}})
			other.remove("ports", port.id())
			awaitReady(t, namespace, name)
			c.eventuallyShared(id)
			remove(t, namespace, name)
		})

	parallel("a QoS policy that there is not is told by its field, and the Network comes without it",
		func(t *testing.T, c *cloud, namespace, name string) {
			spec := example()
			spec.QoSPolicy = "nowhere"
			apply(t, namespace, name, spec)
			told := awaitCondition(t, namespace, name, cloudteamv1.ConditionStalled, metav1.ConditionTrue,
				cloudteamv1.ReasonRejected)
			awaitEvent(t, namespace, name, cloudteamv1.ReasonRejected, `spec.qosPolicy: "nowhere" is neither the id nor`)
			id := told.Status.NetworkID
			wantFields(t, c.one("networks", "name="+name), resource{"id": id, "qos_policy_id": nil})
			edit(t, namespace, name, `{"qosPolicy":null}`)
			if is := awaitReady(t, namespace, name).Status.NetworkID; is != id {
				t.Errorf("without the policy it is network %s, want %s as before", is, id)
			}
			remove(t, namespace, name)
		})

	parallel("a subnet pool that there is not is told by its field, and holds up its own subnet alone",
		func(t *testing.T, c *cloud, namespace, name string) {
			spec := example()
			spec.AdditionalSubnets = []cloudteamv1.SubnetSpec{{SubnetPool: "nowhere"}}
			apply(t, namespace, name, spec)
			told := awaitCondition(t, namespace, name, cloudteamv1.ConditionStalled, metav1.ConditionTrue,
				cloudteamv1.ReasonRejected)
			awaitEvent(t, namespace, name, cloudteamv1.ReasonRejected,
				`spec.additionalSubnets[0].subnetPool: "nowhere" is neither the id nor`)
			id := told.Status.NetworkID
			wantFields(t, c.one("subnets", "network_id="+id), resource{"cidr": spec.CIDR})
			edit(t, namespace, name, `{"additionalSubnets":null}`)
			if is := awaitReady(t, namespace, name).Status.NetworkID; is != id {
				t.Errorf("without that subnet it is network %s, want %s as before", is, id)
			}
			remove(t, namespace, name)
		})
}

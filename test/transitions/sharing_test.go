package transitions

import (
	"context"
	"net/http"
	"slices"

	"github.com/gophercloud/gophercloud/v2"
)

// created is what Neutron answers to a create. gophercloud writes into it, and lanes run at once.
func created() *gophercloud.RequestOpts {
	return &gophercloud.RequestOpts{OkCodes: []int{http.StatusCreated}}
}

// newQoSPolicy makes a QoS policy that all projects see, and gives its id.
func (c *cloud) newQoSPolicy(ctx context.Context, name string) (string, error) {
	var answer map[string]resource
	_, err := c.client.Post(ctx, c.client.ServiceURL("qos", "policies"),
		resource{"policy": resource{"name": name, "shared": true}}, &answer, created())
	return answer["policy"].text("id"), err
}

// policies are those by which networks are shared with single projects. The one with all projects is the network's field
// shared.
func (c *cloud) policies(ctx context.Context) ([]resource, error) {
	var answer map[string][]resource
	_, err := c.client.Get(ctx, c.client.ServiceURL("rbac-policies")+"?action=access_as_shared", &answer, nil)
	return slices.DeleteFunc(answer["rbac_policies"], func(r resource) bool { return r.text("target_tenant") == "*" }), err
}

// shares are the projects that networks are shared with, sorted, by the networks' ids.
func (c *cloud) shares(ctx context.Context) (map[string][]string, error) {
	policies, err := c.policies(ctx)
	if err != nil {
		return nil, err
	}
	shares := map[string][]string{}
	for _, r := range policies {
		shares[r.text("object_id")] = append(shares[r.text("object_id")], r.text("target_tenant"))
	}
	for _, projects := range shares {
		slices.Sort(projects)
	}
	return shares, nil
}

// share has a network shared with these projects and no others.
func (c *cloud) share(ctx context.Context, network string, projects []string) error {
	policies, err := c.policies(ctx)
	if err != nil {
		return err
	}
	for _, r := range policies {
		if r.text("object_id") == network {
			if err := c.remove(ctx, "rbac-policies", r.text("id")); err != nil {
				return err
			}
		}
	}
	for _, project := range projects {
		_, err := c.client.Post(ctx, c.client.ServiceURL("rbac-policies"), resource{"rbac_policy": resource{
			"object_type": "network", "object_id": network, "action": "access_as_shared", "target_tenant": project,
		}}, nil, created())
		if err != nil {
			return err
		}
	}
	return nil
}

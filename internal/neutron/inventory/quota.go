package inventory

import (
	"context"
	"net/http"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
)

// Quota is how much of a resource a project has and may have.
type Quota struct {
	// Resource is Neutron's name for it, such as security_group.
	Resource string
	Used     int64
	// Limit is negative if there is none.
	Limit int64
}

// Quotas reads the quotas of the cloud's project for what the controller makes.
func Quotas(ctx context.Context, cloud *client.Cloud) (all []Quota, err error) {
	identity, err := cloud.Identity(ctx)
	if err != nil {
		return nil, err
	}
	type amount struct{ Limit, Used client.Number }
	// Fields and no map: the cloud may be a tenant's, and answer with many names.
	var answer struct {
		Quota struct {
			Network, Subnet, Port, Router, FloatingIP *amount

			RBACPolicy *amount `json:"rbac_policy"`
			Group      *amount `json:"security_group"`
			Rule       *amount `json:"security_group_rule"`
		}
	}
	err = cloud.Do(ctx, client.Request{Op: "read quotas", Method: http.MethodGet,
		Path: "quotas/" + identity.ProjectID + "/details", Answer: &answer})
	if err != nil {
		return nil, err
	}
	for _, q := range []struct {
		name string
		is   *amount
	}{
		{"network", answer.Quota.Network}, {"subnet", answer.Quota.Subnet}, {"port", answer.Quota.Port},
		{"router", answer.Quota.Router}, {"floatingip", answer.Quota.FloatingIP}, {"rbac_policy", answer.Quota.RBACPolicy},
		{"security_group", answer.Quota.Group}, {"security_group_rule", answer.Quota.Rule},
	} {
		if q.is != nil {
			all = append(all, Quota{q.name, q.is.Used.Or0(), q.is.Limit.Or0()})
		}
	}
	return all, nil
}

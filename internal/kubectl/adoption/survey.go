// Package adoption gives what a cluster that is gone has in Neutron to the objects of another cluster.
package adoption

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// kind is a kind of resource that bears markers.
type kind struct {
	client.Collection
	fields []string
}

// The kinds, in the order in which their markers are written. The network comes first: a controller that runs when that
// is interrupted then finds its network, and a subnet without its marker blocks it. Else it would create a second
// network.
var (
	common  = []string{"id", "name", "description", "revision_number"}
	network = kind{client.Collection{One: "network", Many: "networks"}, slices.Concat(common, []string{"tags"})}
	router  = kind{client.Collection{One: "router", Many: "routers"}, common}
	subnet  = kind{client.Collection{One: "subnet", Many: "subnets"}, slices.Concat(common,
		[]string{"network_id", "cidr", "subnetpool_id"})}
	port = kind{client.Collection{One: "port", Many: "ports"}, slices.Concat(common,
		[]string{"network_id", "device_owner", "mac_address", "fixed_ips"})}
	floatingIP = kind{client.Collection{One: "floatingip", Many: "floatingips"}, []string{
		"id", "description", "revision_number", "floating_ip_address", "floating_network_id", "port_id", "fixed_ip_address",
		"qos_policy_id", "tags"}}
	// No object gets a security group: it is listed as left.
	group    = kind{client.Collection{One: "security_group", Many: "security-groups"}, common}
	surveyed = []kind{network, router, subnet, port, floatingIP, group}
)

// resource is a resource in Neutron with a marker.
type resource struct {
	ID          string        `json:"id"`
	Name        string        `json:"name"`
	Tags        []string      `json:"tags"`
	Description string        `json:"description"`
	Revision    client.Number `json:"revision_number"`
	NetworkID   string        `json:"network_id"`
	CIDR        string        `json:"cidr"`
	PoolID      string        `json:"subnetpool_id"`
	DeviceOwner string        `json:"device_owner"`
	MAC         string        `json:"mac_address"`
	FixedIPs    []fixedIP     `json:"fixed_ips"`
	// Of a floating IP: its address, the external network of that, and its port.
	Address    string `json:"floating_ip_address"`
	ExternalID string `json:"floating_network_id"`
	PortID     string `json:"port_id"`
	LeadsTo    string `json:"fixed_ip_address"`
	QoSPolicy  string `json:"qos_policy_id"`

	kind  kind
	owner plan.Owner
}

type fixedIP struct {
	Address string `json:"ip_address"`
}

// Key implements client.Identified.
func (r resource) Key() string { return r.ID }

// isInterface reports whether a port is on a router.
func (r resource) isInterface() bool {
	return r.kind.One == port.One && strings.HasPrefix(r.DeviceOwner, "network:")
}

// Survey is what bears any marker in one project, by its kind and id.
type Survey struct {
	all []resource
	// external are the names of the external networks, by id.
	external map[string]string
}

// Look lists a project.
func Look(ctx context.Context, cloud *client.Cloud) (*Survey, error) {
	of, err := cloud.Identity(ctx)
	if err != nil {
		return nil, err
	}
	s := &Survey{external: map[string]string{}}
	for _, k := range surveyed {
		listed, err := client.List[resource](ctx, cloud, "list "+k.Many, k.Collection,
			url.Values{"project_id": {of.ProjectID}, "fields": k.fields})
		optional := k.One == router.One || k.One == floatingIP.One || k.One == group.One
		if optional && (client.IsNoSuchCollection(err) || client.IsKind(err, client.Forbidden)) {
			continue // a cloud without them
		}
		if err != nil {
			return nil, err
		}
		for _, r := range listed {
			if _, owner, marked := plan.ParseDescription(r.Description); marked {
				r.kind, r.owner = k, owner
				s.all = append(s.all, r)
			}
		}
	}
	if len(s.where(func(r resource) bool { return r.kind.One == floatingIP.One })) == 0 {
		return s, nil
	}
	outside, err := client.List[resource](ctx, cloud, "list external networks", network.Collection,
		url.Values{"router:external": {"true"}, "fields": {"id", "name"}})
	for _, n := range outside {
		s.external[n.ID] = n.Name
	}
	return s, err
}

// isOn reports whether a floating IP is of an external network, by the id or name that a spec has.
func (s *Survey) isOn(r resource, idOrName string) bool {
	name, known := s.external[r.ExternalID]
	return r.ExternalID == idOrName || known && name == idOrName
}

// ClusterOf gives the UID of the cluster in whose markers an object is; empty if it is in none.
func (s *Survey) ClusterOf(object string) string {
	for _, r := range s.all {
		if r.owner.Object == object {
			return r.owner.Cluster
		}
	}
	return ""
}

// where gives the resources that fit.
func (s *Survey) where(fits func(resource) bool) (all []resource) {
	for _, r := range s.all {
		if fits(r) {
			all = append(all, r)
		}
	}
	return all
}

// Cluster is what one cluster has in a project.
type Cluster struct {
	UID      string `json:"uid"`
	Networks int    `json:"networks"`
	Routers  int    `json:"routers"`
	Ports    int    `json:"ports"`
	// Own is true for the cluster of the kubeconfig.
	Own bool `json:"own,omitempty"`
}

// Clusters lists the clusters that have something in the project.
func (s *Survey) Clusters(own string) []Cluster {
	found := map[string]*Cluster{}
	for _, r := range s.all {
		c := found[r.owner.Cluster]
		if c == nil {
			c = &Cluster{UID: r.owner.Cluster, Own: r.owner.Cluster == own}
			found[c.UID] = c
		}
		switch r.kind.One {
		case network.One:
			c.Networks++
		case router.One:
			c.Routers++
		case port.One:
			c.Ports++
		}
	}
	var all []Cluster
	for _, uid := range slices.Sorted(maps.Keys(found)) {
		all = append(all, *found[uid])
	}
	slices.SortStableFunc(all, func(a, b Cluster) int { return cmp.Compare(b.Networks, a.Networks) })
	return all
}

// maxTries is how often a marker is written while others change the same resource.
const maxTries = 3

// described is the body that changes a resource's description and nothing else. Of a floating IP, an update without the
// QoS policy takes that away, and one without the address that it is associated with is refused if the port has
// several.
func (r resource) described(description string) map[string]any {
	body := map[string]any{"description": description}
	for field, value := range map[string]string{
		"port_id": r.PortID, "fixed_ip_address": r.LeadsTo, "qos_policy_id": r.QoSPolicy,
	} {
		if r.kind.One == floatingIP.One && value != "" {
			body[field] = value
		}
	}
	return map[string]any{r.kind.One: body}
}

// give writes another owner's marker on a resource, on condition that it still has its owner's. Nothing else of the
// resource changes.
func (r resource) give(ctx context.Context, cloud *client.Cloud, to plan.Owner) error {
	for try := 1; ; try++ {
		description, ours := r.owner.HandOver(r.Description, to)
		if !ours {
			if to.Owns(r.Description) {
				return nil // an earlier try, whose answer was lost
			}
			return &client.Error{Kind: client.Conflict, Op: "adopt " + r.kind.One,
				Reason: r.kind.One + " " + r.ID + " has lost its marker meanwhile"}
		}
		err := cloud.Do(ctx, client.Request{
			Op: "adopt " + r.kind.One, Method: http.MethodPut, Path: r.kind.Path(r.ID),
			Revision: new(int(r.Revision.Or0())),
			Body:     r.described(description),
		})
		if !client.IsConflict(err) || try == maxTries {
			return err
		}
		now, err := client.Get[resource](ctx, cloud, "get "+r.kind.One, r.kind.Collection, r.kind.fields, r.ID)
		if err != nil {
			return err
		}
		now.kind, now.owner = r.kind, r.owner
		r = now
	}
}

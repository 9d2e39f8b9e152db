package inventory

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// Blocker is a port that prevents the deletion of a network or a subnet.
type Blocker struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// DeviceOwner is the kind of device that uses the port, such as compute:nova. DeviceID is that device. Either may be
	// empty.
	DeviceOwner string `json:"device_owner"`
	DeviceID    string `json:"device_id"`
	// ProjectID is the project that owns the port.
	ProjectID string `json:"project_id"`
	// Other is true if the port belongs to another object of this cluster. A message does not name it: the object may be
	// in another namespace.
	Other bool `json:"-"`
	// Cluster is the UID of the other cluster whose marker the port has; empty for none.
	Cluster string `json:"-"`
}

// Key implements client.Identified.
func (b Blocker) Key() string { return b.ID }

const opListFloatingIPs = "list floating IPs"

var floatingIPAPI = client.Collection{One: "floatingip", Many: "floatingips"}

// goesAlong are the device owners whose ports Neutron deletes with their network, so they do not block
// (AUTO_DELETE_PORT_OWNERS in neutron/common/_constants.py).
var goesAlong = []string{"network:dhcp", "network:distributed", "network:floatingip_agent_gateway"}

// routerInterfaces are the device owners of a router's ports on internal networks (ROUTER_INTERFACE_OWNERS in
// neutron_lib/constants.py). Neutron does not delete them as ports: the router must detach them.
var routerInterfaces = []string{
	"network:router_interface", "network:ha_router_replicated_interface", "network:router_interface_distributed",
}

// maxForeign bounds, in bytes, each text of other users that a Blocker's String repeats. An id has 36.
const maxForeign = 64

// String names the port and its device in one line: "port 1f… (compute:nova, device 9a…)".
func (b Blocker) String() string {
	if b.Other {
		return "a port of another object of this cluster"
	}
	port := "port " + short(b.ID)
	if b.Name != "" {
		port += fmt.Sprintf(" %q", short(b.Name))
	}
	if b.Cluster != "" {
		port += " of cluster " + short(b.Cluster)
	}
	return port + " (" + cmp.Or(b.device(), "of no device") + ")"
}

// device describes the device that has the port; empty if none has.
func (b Blocker) device() string {
	owner, device := short(b.DeviceOwner), short(b.DeviceID)
	switch {
	case slices.Contains(routerInterfaces, b.DeviceOwner) && device != "":
		return "interface of router " + device
	case owner != "" && device != "":
		return owner + ", device " + device
	case device != "":
		return "device " + device
	default:
		return owner
	}
}

// short makes a text of other users fit into one line of a message.
func short(text string) string {
	text = client.OneLine(text)
	if len(text) > maxForeign {
		text = strings.ToValidUTF8(text[:maxForeign], "") + "…"
	}
	return text
}

// Blockers are what prevents a deletion: ports of a network, subnet or router, ordered by id, or floating IPs that need
// a router's interface or gateway.
type Blockers struct {
	Ports       []Blocker
	FloatingIPs []FloatingIP
	// Further is true if there are more than these.
	Further bool
}

// Empty reports whether there are none.
func (b Blockers) Empty() bool { return len(b.Ports)+len(b.FloatingIPs) == 0 }

// FloatingIP is an external address that a router translates to an internal one.
type FloatingIP struct {
	ID      string `json:"id"`
	Address string `json:"floating_ip_address"`
	// Other is true if a message does not name it, as of a Blocker.
	Other bool `json:"-"`
}

// Key implements client.Identified.
func (f FloatingIP) Key() string { return f.ID }

// String describes the floating IP for users.
func (f FloatingIP) String() string {
	if f.Other {
		return "a floating IP of another object of this cluster"
	}
	return "floating IP " + client.OneLine(f.Address) + " (" + client.OneLine(f.ID) + ")"
}

// shownBlockers is how many blockers a message names.
const shownBlockers = 3

// String names the first few and counts the others. It is the same for the same blockers.
func (b Blockers) String() string {
	texts := make([]string, 0, shownBlockers)
	for _, port := range b.Ports[:min(shownBlockers, len(b.Ports))] {
		texts = append(texts, port.String())
	}
	for _, ip := range b.FloatingIPs[:min(shownBlockers-len(texts), len(b.FloatingIPs))] {
		texts = append(texts, ip.String())
	}
	text := strings.Join(texts, ", ")
	switch more := len(b.Ports) + len(b.FloatingIPs) - len(texts); {
	case b.Further:
		return fmt.Sprintf("%s and at least %d more", text, more+1)
	case more > 0:
		return fmt.Sprintf("%s and %d more", text, more)
	default:
		return text
	}
}

// Blockers lists live why Neutron refused a step that deletes, changes or unshares a resource. For a network, a subnet,
// a router, a share or a security group it lists ports. For a router's interface or gateway, or for a port that
// changes, it lists floating IPs. It reads one page of ports and omits those that Neutron deletes itself. An empty
// result means that they are gone, or hidden from these credentials. An error means that nothing is known.
func (i *Inventory) Blockers(ctx context.Context, refused plan.Step) (Blockers, error) {
	query := url.Values{}
	switch refused.Action {
	case plan.DeleteNetwork:
		query.Set("network_id", refused.ID)
	case plan.DeleteSubnet:
		query.Set("network_id", refused.NetworkRef.ID)
		query.Set("fixed_ips", "subnet_id="+refused.ID)
	case plan.UnshareNetwork:
		query.Set("network_id", refused.NetworkRef.ID)
		query.Set("project_id", refused.Share.Project)
	case plan.DeleteGroup, plan.UpdateGroup:
		query.Set("security_groups", refused.ID)
		return i.listBlockers(ctx, query)
	case plan.DeleteRouter:
		query.Set("device_id", refused.ID)
		query["device_owner"] = routerInterfaces
		return i.listBlockers(ctx, query)
	case plan.DetachInterface:
		return i.listFloatingIPs(ctx, "router_id", refused.RouterRef.ID, i.servedBy(refused), false)
	case plan.UpdateGateway:
		return i.listFloatingIPs(ctx, "router_id", refused.ID, i.heldBy(i.routers.ownerOf(refused.ID)), true)
	case plan.UpdatePort:
		return i.listFloatingIPs(ctx, "port_id", refused.ID, nil, true)
	default:
		return Blockers{}, nil
	}
	return i.listBlockers(ctx, query)
}

// listBlockers lists the ports that fit a query. A cloud without the filter of security groups lists others, too, which
// are omitted.
func (i *Inventory) listBlockers(ctx context.Context, query url.Values) (found Blockers, err error) {
	group := query.Get("security_groups")
	query = i.cloud.Paged(query)
	type listed struct {
		Blocker
		Description string   `json:"description"`
		Groups      []string `json:"security_groups"`
	}
	query["fields"] = slices.DeleteFunc(fieldsOf[listed](), func(field string) bool {
		return field == "-" || field == "security_groups" && group == ""
	})
	ports, further, err := client.Page[listed](ctx, i.cloud, "list ports", portKind.Collection, query)
	if err != nil {
		return Blockers{}, err
	}
	found.Further = further
	for _, p := range ports {
		if slices.Contains(goesAlong, p.DeviceOwner) || group != "" && !slices.Contains(p.Groups, group) {
			continue
		}
		// A router's interface on a network of ours is the same object's.
		p.Other = i.owns(p.Description) && !slices.Contains(routerInterfaces, p.DeviceOwner)
		if _, owner, _ := plan.ParseDescription(p.Description); owner.Cluster != i.cluster {
			p.Cluster = owner.Cluster
		}
		found.Ports = append(found.Ports, p.Blocker)
	}
	return found, nil
}

// listFloatingIPs lists the floating IPs of a router, or of a port, that lead into own subnets, and with others also
// those that lead elsewhere. The router may serve Networks of other namespaces, whose floating IPs are not named.
func (i *Inventory) listFloatingIPs(
	ctx context.Context, of, id string, own []netip.Prefix, others bool,
) (found Blockers, err error) {
	type listed struct {
		FloatingIP
		Fixed       string `json:"fixed_ip_address"`
		Description string `json:"description"`
	}
	query := url.Values{
		of: {id}, "fields": {"id", "floating_ip_address", "fixed_ip_address", "description"},
	}
	all, err := client.List[listed](ctx, i.cloud, opListFloatingIPs, floatingIPAPI, query)
	for _, f := range all {
		fixed, _ := netip.ParseAddr(f.Fixed)
		if !slices.ContainsFunc(own, func(s netip.Prefix) bool { return s.Contains(fixed) }) {
			if !others {
				continue
			}
			f.Other = i.owns(f.Description)
		}
		found.FloatingIPs = append(found.FloatingIPs, f.FloatingIP)
	}
	return found, err
}

// servedBy gives the subnets of a router's interface, as far as they are known.
func (i *Inventory) servedBy(step plan.Step) (served []netip.Prefix) {
	for _, s := range i.subnetsHeld(step.NetworkRef.ID) {
		has := func(a plan.PortAddress) bool { return a.SubnetID == s.ID }
		if slices.ContainsFunc(step.Port.Addresses, has) {
			served = append(served, s.CIDR)
		}
	}
	return served
}

// heldBy gives the subnets of an owner's networks, as far as they are known.
func (i *Inventory) heldBy(owner plan.Owner) (held []netip.Prefix) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	var known plan.Observed
	if err := i.networks.observe(owner.Object, &known); err != nil {
		return nil // the message names less
	}
	for _, n := range known.Networks {
		for _, s := range n.Subnets {
			held = append(held, s.CIDR)
		}
	}
	return held
}

package inventory

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// Blocker is a port that keeps a network or a subnet from being deleted.
type Blocker struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// DeviceOwner says what kind of thing has the port, such as compute:nova, and DeviceID which one. Either may be empty.
	DeviceOwner string `json:"device_owner"`
	DeviceID    string `json:"device_id"`
	// ProjectID is the project that the port is of.
	ProjectID string `json:"project_id"`
}

// Key is client.Identified's.
func (b Blocker) Key() string { return b.ID }

const opListFloatingIPs = "list floating IPs"

var floatingIPAPI = client.Collection{One: "floatingip", Many: "floatingips"}

var blockerFields = []string{"id", "name", "device_owner", "device_id", "project_id"}

// goesAlong are the device owners whose ports Neutron removes itself with their network, so that they block nothing
// (AUTO_DELETE_PORT_OWNERS in neutron/common/_constants.py).
var goesAlong = []string{"network:dhcp", "network:distributed", "network:floatingip_agent_gateway"}

// routerInterfaces are the device owners of a router's ports on networks inside (ROUTER_INTERFACE_OWNERS in
// neutron_lib/constants.py). They cannot be deleted as ports: the router has to let go of them.
var routerInterfaces = []string{
	"network:router_interface", "network:ha_router_replicated_interface", "network:router_interface_distributed",
}

// maxForeign bounds each of the words of others that a Blocker's text repeats. An id has 36.
const maxForeign = 64

// String names the port and what has it, in one line: "port 1f… (compute:nova, device 9a…)".
func (b Blocker) String() string {
	short := func(text string) string {
		text = client.OneLine(text)
		if len(text) > maxForeign {
			text = strings.ToValidUTF8(text[:maxForeign], "") + "…"
		}
		return text
	}
	port := "port " + short(b.ID)
	if b.Name != "" {
		port += fmt.Sprintf(" %q", short(b.Name))
	}
	owner, device := short(b.DeviceOwner), short(b.DeviceID)
	switch {
	case slices.Contains(routerInterfaces, b.DeviceOwner) && device != "":
		return fmt.Sprintf("%s (interface of router %s)", port, device)
	case owner != "" && device != "":
		return fmt.Sprintf("%s (%s, device %s)", port, owner, device)
	case owner != "":
		return fmt.Sprintf("%s (%s)", port, owner)
	case device != "":
		return fmt.Sprintf("%s (device %s)", port, device)
	default:
		return port + " (of no device)"
	}
}

// Blockers are the ports that keep a network, a subnet or a router from being deleted, by id, or the floating IPs that
// keep a router's interface or gateway.
type Blockers struct {
	Ports       []Blocker
	FloatingIPs []FloatingIP
	// Further is true where there are more than these.
	Further bool
}

// Empty reports whether there are none.
func (b Blockers) Empty() bool { return len(b.Ports)+len(b.FloatingIPs) == 0 }

// FloatingIP is an address outside that leads to one inside by way of a router.
type FloatingIP struct {
	ID      string `json:"id"`
	Address string `json:"floating_ip_address"`
}

// Key is client.Identified's.
func (f FloatingIP) Key() string { return f.ID }

// String is the floating IP for a person.
func (f FloatingIP) String() string {
	return "floating IP " + client.OneLine(f.Address) + " (" + client.OneLine(f.ID) + ")"
}

// shownBlockers is how many ports a message names.
const shownBlockers = 3

// String names the first few and counts the others. It is the same for the same ports.
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

// Blockers lists the ports for which Neutron refused a step that deletes a network, a subnet or a router or takes a
// network back from a project, or the floating IPs for which it keeps a router's interface or gateway: one page, live.
// What Neutron would have removed itself is left out. None means that they are gone by now, or that the credentials may
// not see them; an error, that nothing is known.
//
// The next audit that does not show one of them tells Moved of the network's object, where audits list ports. Those do
// not show the ports of other projects.
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
	case plan.DeleteRouter:
		query.Set("device_id", refused.ID)
		query["device_owner"] = routerInterfaces
		return i.listBlockers(ctx, query)
	case plan.DetachInterface:
		return i.listFloatingIPs(ctx, refused.RouterRef.ID)
	case plan.UpdateGateway:
		return i.listFloatingIPs(ctx, refused.ID)
	default:
		return Blockers{}, nil
	}
	found, err := i.listBlockers(ctx, query)
	if err != nil {
		return Blockers{}, err
	}
	identity, err := i.cloud.Identity(ctx)
	if err != nil {
		return Blockers{}, err
	}
	var listed []string
	for _, port := range found.Ports {
		if port.ProjectID == identity.ProjectID {
			listed = append(listed, port.ID)
		}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.blocked, refused.ID)
	if i.options.Ports && len(listed) > 0 {
		i.blocked[refused.ID] = blockade{query.Get("network_id"), listed, time.Now()}
	}
	return found, nil
}

func (i *Inventory) listBlockers(ctx context.Context, query url.Values) (found Blockers, err error) {
	query = i.cloud.Paged(query)
	query["fields"] = blockerFields
	ports, further, err := client.Page[Blocker](ctx, i.cloud, opListPorts, portAPI, query)
	if err != nil {
		return Blockers{}, err
	}
	found.Further = further
	found.Ports = slices.DeleteFunc(ports, func(b Blocker) bool { return slices.Contains(goesAlong, b.DeviceOwner) })
	return found, nil
}

// listFloatingIPs gives those that lead inside by way of a router.
func (i *Inventory) listFloatingIPs(ctx context.Context, routerID string) (found Blockers, err error) {
	query := url.Values{"router_id": {routerID}, "fields": {"id", "floating_ip_address"}}
	found.FloatingIPs, err = client.List[FloatingIP](ctx, i.cloud, opListFloatingIPs, floatingIPAPI, query)
	return found, err
}

// blockade is why a network or a subnet could not be deleted.
type blockade struct {
	// network is the id of the network that it is, or is of.
	network string
	// ports are the ids of the ports that lists of the project show as long as they are there.
	ports []string
	// since is when they were noted. A list that began before did not look for them.
	since time.Time
}

// awaited are the ids of the ports whose end is waited for; nil as a rule.
func (i *Inventory) awaited() map[string]bool {
	i.mu.RLock()
	defer i.mu.RUnlock()
	var ids map[string]bool
	for _, b := range i.blocked {
		for _, id := range b.ports {
			if ids == nil {
				ids = map[string]bool{}
			}
			ids[id] = true
		}
	}
	return ids
}

// lift ends the blockades of which a list that began at began does not show a port any more, and adds the objects whose
// networks they held up to moved. standing are the ids of the awaited ports that it shows. The caller holds mu.
func (i *Inventory) lift(began time.Time, standing map[string]bool, moved map[string]bool) {
	for id, b := range i.blocked {
		held, ours := i.networks.held[b.network]
		switch {
		case !ours:
			delete(i.blocked, id)
		case !began.Before(b.since) && slices.ContainsFunc(b.ports, func(port string) bool { return !standing[port] }):
			moved[i.networks.object(held)] = true
			delete(i.blocked, id)
		}
	}
}

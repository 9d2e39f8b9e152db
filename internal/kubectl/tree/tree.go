// Package tree shows how a Network is connected: from the outside over its router and subnets to the ports, and what
// has them. It only reads.
package tree

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"cloudteam.ztgame.com/network-controller/internal/kinds"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// Node is a part of the tree.
type Node struct {
	// Kind is Network, NetworkPort, FloatingIP, Pod, or a word for what only Neutron knows: outside, router, subnet, port,
	// server.
	Kind string `json:"kind"`
	// Name is the object's namespace and name, or the id or address in Neutron.
	Name string `json:"name"`
	// Info is what else there is to say.
	Info string `json:"info,omitempty"`
	// Problem is a Reason; empty if there is none.
	Problem string `json:"problem,omitempty"`
	// Warning is a Reason of what needs attention and stops nothing, such as drift or few free addresses.
	Warning string `json:"warning,omitempty"`
	// Used and Total are a subnet's addresses; nil if unknown.
	Used     *int64  `json:"used,omitempty"`
	Total    *int64  `json:"total,omitempty"`
	Children []*Node `json:"children,omitempty"`
}

// Port is a port in Neutron.
type Port struct {
	ID          string    `json:"id"`
	Name        string    `json:"name"`
	NetworkID   string    `json:"network_id"`
	DeviceOwner string    `json:"device_owner"`
	DeviceID    string    `json:"device_id"`
	FixedIPs    []FixedIP `json:"fixed_ips"`
}

// FixedIP is an address of a Port.
type FixedIP struct {
	SubnetID string `json:"subnet_id"`
	Address  string `json:"ip_address"`
}

// Key implements client.Identified.
func (p Port) Key() string { return p.ID }

// Neutron lists the ports of a network, or all that the credentials see for ""; nil without credentials.
type Neutron func(ctx context.Context, networkID string) ([]Port, error)

// In lists ports in a cloud.
func In(cloud *client.Cloud) Neutron {
	return func(ctx context.Context, networkID string) ([]Port, error) {
		query := url.Values{}
		if networkID != "" {
			query.Set("network_id", networkID)
		}
		return client.List[Port](ctx, cloud, "list ports", client.Collection{One: "port", Many: "ports"}, query)
	}
}

// Of gives the trees of a namespace's Networks, or of all for "". With a name, it gives the one of that Network.
func Of(ctx context.Context, c *ask.Cluster, neutron Neutron, namespace, name string) ([]*Node, error) {
	api := c.Networks.CloudteamV1()
	var networks []cloudteamv1.Network
	if name != "" {
		n, err := api.Networks(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("reading Network %s/%s: %w", namespace, name, err)
		}
		networks = append(networks, *n)
	} else {
		list, err := api.Networks(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("listing Networks: %w", err)
		}
		networks = list.Items
	}
	ports := PortsOf(ctx, c, namespace)
	pods, floating := podsOf(ctx, c, ports), floatingOf(ctx, c, namespace)
	known := Known{
		Pod:         func(uid types.UID) *corev1.Pod { return pods[uid] },
		FloatingIPs: func(port types.NamespacedName) []*cloudteamv1.FloatingIP { return floating[port] },
	}
	if neutron == nil {
		c.Note("No cloud is named (--cloud or OS_CLOUD): the tree has what Kubernetes knows. Servers and others' ports " +
			"are missing.")
	}
	var trees []*Node
	for i := range networks {
		n := &networks[i]
		on := slices.DeleteFunc(slices.Clone(ports), func(p *cloudteamv1.NetworkPort) bool {
			return p.Network() != types.NamespacedName{Namespace: n.Namespace, Name: n.Name}
		})
		var inNeutron []Port
		if neutron != nil && n.Status.NetworkID != "" {
			var err error
			if inNeutron, err = neutron(ctx, n.Status.NetworkID); err != nil {
				c.Note("Neutron does not list the ports of Network %s/%s: %v.", n.Namespace, n.Name, err)
			}
		}
		trees = append(trees, Build(n, on, known, inNeutron))
	}
	return trees, nil
}

// PortsOf are the NetworkPorts that the user may see: of all namespaces, as others' may be on a Network, or of one.
func PortsOf(ctx context.Context, c *ask.Cluster, namespace string) []*cloudteamv1.NetworkPort {
	return ask.Visible[*cloudteamv1.NetworkPort](ctx, c, kinds.NetworkPort, namespace)
}

// podsOf are the Pods of the namespaces of bound ports, by UID.
func podsOf(ctx context.Context, c *ask.Cluster, ports []*cloudteamv1.NetworkPort) map[types.UID]*corev1.Pod {
	pods, listed := map[types.UID]*corev1.Pod{}, map[string]bool{}
	for _, p := range ports {
		if p.Status.BoundTo == nil || listed[p.Namespace] {
			continue
		}
		listed[p.Namespace] = true
		list, is := ask.List(ctx, c, ask.New("Pods", "", "of "+p.Namespace), c.Kubernetes.CoreV1().Pods(p.Namespace).List,
			metav1.ListOptions{})
		if is != ask.There {
			continue
		}
		for i := range list.Items {
			pods[list.Items[i].UID] = &list.Items[i]
		}
	}
	return pods
}

// floatingOf are the FloatingIPs of a namespace, or of all for "", by the NetworkPorts that they name. They lead to
// ports on Networks of their own namespace alone.
func floatingOf(
	ctx context.Context, c *ask.Cluster, namespace string,
) map[types.NamespacedName][]*cloudteamv1.FloatingIP {
	kind, _ := kinds.Of(kinds.FloatingIP)
	all, _ := ask.Objects(ctx, c, kind, namespace)
	by := map[types.NamespacedName][]*cloudteamv1.FloatingIP{}
	for _, f := range ask.Known[*cloudteamv1.FloatingIP](all) {
		port := types.NamespacedName{Namespace: f.Namespace, Name: f.Spec.PortName}
		by[port] = append(by[port], f)
	}
	return by
}

// Known finds what has, or is associated with, the ports of a tree.
type Known struct {
	// Pod finds a Pod, or gives nil.
	Pod func(types.UID) *corev1.Pod
	// FloatingIPs are those that name a NetworkPort, by their names.
	FloatingIPs func(port types.NamespacedName) []*cloudteamv1.FloatingIP
}

// Build gives the tree of a Network with the NetworkPorts on it. inNeutron are the ports of the network in Neutron, as
// far as they are known.
func Build(n *cloudteamv1.Network, on []*cloudteamv1.NetworkPort, known Known, inNeutron []Port) *Node {
	// The ports of NetworkPorts, and the interfaces of the Network's router, are part of the tree without Neutron.
	others := slices.DeleteFunc(slices.Clone(inNeutron), func(p Port) bool {
		return n.Status.Router != nil && p.DeviceID == n.Status.Router.ID ||
			slices.ContainsFunc(on, func(o *cloudteamv1.NetworkPort) bool { return o.Status.PortID == p.ID })
	})
	return known.build(n, on, others)
}

// Used gives how many addresses of a subnet are in use, by its status or by the ports on the network, whichever are
// more; nil if the status does not say. The status is written after a twentieth of the addresses has changed.
func Used(s cloudteamv1.SubnetStatus, on []*cloudteamv1.NetworkPort, others []Port) *int64 {
	if s.UsedAddresses == nil || s.TotalAddresses == nil {
		return s.UsedAddresses
	}
	var seen int64
	for _, p := range on {
		for _, a := range p.Status.Addresses {
			if a.SubnetID == s.ID {
				seen++
			}
		}
	}
	for _, p := range others {
		for _, f := range p.FixedIPs {
			if f.SubnetID == s.ID {
				seen++
			}
		}
	}
	// Ports may have addresses outside of the allocation pools, which the status counts.
	return new(max(*s.UsedAddresses, min(seen, *s.TotalAddresses)))
}

func (k Known) build(n *cloudteamv1.Network, on []*cloudteamv1.NetworkPort, others []Port) *Node {
	root := &Node{Kind: "Network", Name: n.Namespace + "/" + n.Name, Problem: problemOf(n.Status.Conditions),
		Warning: warningOf(n.Status.Conditions), Info: n.Status.NetworkID}
	at := root
	if r := n.Status.Router; r != nil {
		router := &Node{Kind: "router", Name: r.ID}
		if r.Existing {
			router.Info = "existing"
		}
		if r.ExternalNetworkID != "" {
			outside := &Node{Kind: "outside", Name: r.ExternalNetworkID, Info: strings.Join(r.ExternalIPs, ", ")}
			root.Children, outside.Children = []*Node{outside}, []*Node{router}
		} else {
			root.Children = []*Node{router}
		}
		at = router
	}
	type port struct {
		*Node
		subnets []string
	}
	var ports []port // that have no place in the tree yet
	for _, own := range on {
		p := port{Node: k.portNode(own)}
		for _, a := range own.Status.Addresses {
			p.subnets = append(p.subnets, a.SubnetID)
		}
		ports = append(ports, p)
	}
	for _, other := range others {
		p := port{Node: otherNode(other)}
		for _, f := range other.FixedIPs {
			p.subnets = append(p.subnets, f.SubnetID)
		}
		ports = append(ports, p)
	}
	// A port is in the first subnet in which it has an address.
	place := func(under *Node, here func(port) bool) {
		for _, p := range ports {
			if here(p) {
				under.Children = append(under.Children, p.Node)
			}
		}
		ports = slices.DeleteFunc(ports, here)
	}
	for _, s := range n.Status.Subnets {
		s.UsedAddresses = Used(s, on, others)
		subnet := &Node{Kind: "subnet", Name: s.CIDR, Info: infoOf(s), Used: s.UsedAddresses, Total: s.TotalAddresses}
		place(subnet, func(p port) bool { return slices.Contains(p.subnets, s.ID) })
		under := root
		if s.Gateway != "" && s.Gateway != "none" {
			under = at // the router serves it
		}
		under.Children = append(under.Children, subnet)
	}
	place(root, func(port) bool { return true }) // the rest has no address in a known subnet
	return root
}

func infoOf(s cloudteamv1.SubnetStatus) string {
	info := "no gateway"
	if s.Gateway != "" && s.Gateway != "none" {
		info = "gateway " + s.Gateway
	}
	if s.UsedAddresses != nil && s.TotalAddresses != nil {
		info += fmt.Sprintf(", %d of %d addresses in use", *s.UsedAddresses, *s.TotalAddresses)
	}
	return info
}

func (k Known) portNode(p *cloudteamv1.NetworkPort) *Node {
	var addresses []string
	for _, a := range p.Status.Addresses {
		if prefix, err := netip.ParsePrefix(a.Address); err == nil {
			addresses = append(addresses, prefix.Addr().String())
		}
	}
	if f := p.Status.FloatingIP; f != nil {
		addresses = append(addresses, "floating IP "+f.Address)
	}
	node := &Node{Kind: "NetworkPort", Name: p.Namespace + "/" + p.Name, Problem: problemOf(p.Status.Conditions),
		Warning: warningOf(p.Status.Conditions), Info: cmp.Or(strings.Join(addresses, ", "), "no address yet")}
	if bound := p.Status.BoundTo; bound != nil {
		user := &Node{Kind: bound.Kind, Name: p.Namespace + "/" + bound.Name}
		if pod := k.Pod(bound.UID); pod != nil {
			user.Info = string(pod.Status.Phase)
			if pod.Spec.NodeName != "" {
				user.Info += " on " + pod.Spec.NodeName
			}
		}
		node.Children = append(node.Children, user)
	}
	for _, f := range k.FloatingIPs(types.NamespacedName{Namespace: p.Namespace, Name: p.Name}) {
		node.Children = append(node.Children, &Node{Kind: "FloatingIP", Name: f.Namespace + "/" + f.Name,
			Problem: problemOf(f.Status.Conditions), Warning: warningOf(f.Status.Conditions),
			Info: cmp.Or(f.Status.Address, "no address yet")})
	}
	return node
}

func otherNode(p Port) *Node {
	var addresses []string
	for _, f := range p.FixedIPs {
		addresses = append(addresses, f.Address)
	}
	node := &Node{Kind: "port", Name: p.ID, Info: strings.Join(addresses, ", ")}
	if p.Name != "" {
		node.Info += fmt.Sprintf(" %q", p.Name)
	}
	switch {
	case p.DeviceID == "":
		node.Info += ", of no device"
	case strings.HasPrefix(p.DeviceOwner, "compute:"):
		node.Children = []*Node{{Kind: "server", Name: p.DeviceID}}
	case strings.HasPrefix(p.DeviceOwner, "network:router") || strings.HasPrefix(p.DeviceOwner, "network:ha_router"):
		node.Children = []*Node{{Kind: "router", Name: p.DeviceID}}
	default:
		node.Info += ", " + p.DeviceOwner
	}
	node.Info = strings.Trim(node.Info, ", ")
	return node
}

// problemOf is the Reason of an object that is not Ready.
func problemOf(conditions []metav1.Condition) string {
	ready := meta.FindStatusCondition(conditions, cloudteamv1.ConditionReady)
	switch {
	case ready == nil:
		return "NotSeen"
	case ready.Status != metav1.ConditionTrue:
		return ready.Reason
	}
	return ""
}

// warningOf is the Reason of what an object says beside Ready, or of a Ready object that is not as declared.
func warningOf(conditions []metav1.Condition) string {
	for _, c := range conditions {
		switch {
		case c.Type == cloudteamv1.ConditionReady && c.Status == metav1.ConditionTrue &&
			(c.Reason == cloudteamv1.ReasonDriftDetected || c.Reason == cloudteamv1.ReasonPaused),
			c.Type == cloudteamv1.ConditionAddressesLow && c.Status == metav1.ConditionTrue,
			c.Type == cloudteamv1.ConditionClassViolated && c.Status == metav1.ConditionTrue,
			c.Type == cloudteamv1.ConditionAttached && c.Status == metav1.ConditionFalse:
			return c.Reason
		}
	}
	return ""
}

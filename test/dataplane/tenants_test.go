//go:build linux

package dataplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// tenantsGetNothing has tenants try to get another's port, address or packets. Mallory may edit a namespace of her own,
// and there also NetworkAttachmentDefinitions, which the role edit does not include. Multus does not isolate namespaces.
// So what is left is what the plugin, the agent, the controller and Neutron refuse.
func (w *world) tenantsGetNothing(guests []*guest) {
	mallory := w.mallory()
	one, two, three := guests[0], guests[1], guests[2]
	before := w.holdings()
	pods := mallory.startPods(w.namespace, three)
	w.Run("by what her Pod sends", func(t *testing.T) { w.in(t).sends(two, one, three) })
	w.Run("by what she writes", func(t *testing.T) { mallory.in(t).writes(w.namespace, three) })
	for what, pod := range pods {
		w.Run("by "+what, func(t *testing.T) {
			part := *w
			part.T = t
			part.says(mallory.namespace, pod, "no NetworkPort of the Pod is prepared for node")
			object, err := surroundings.Kube.CoreV1().Pods(mallory.namespace).Get(t.Context(), pod, metav1.GetOptions{})
			if err != nil || object.Status.Phase != corev1.PodPending {
				t.Errorf("the Pod is %v, %v", object.Status.Phase, err)
			}
		})
	}
	w.recovers("each attack", time.Now(), guests...)
	w.same("each attack", before)
}

// tenant is somebody with a namespace.
type tenant struct {
	*world
	kube     kubernetes.Interface
	networks versioned.Interface
	any      dynamic.Interface
}

func (m *tenant) in(t *testing.T) *tenant {
	part := *m
	part.world = m.world.in(t)
	return &part
}

// mallory makes a tenant with a namespace whose Pods may not be privileged, and which has no label for the gate: there
// the policy for Pods protects nothing.
func (w *world) mallory() *tenant {
	w.Helper()
	part := *w
	m := &tenant{world: &part}
	space := harness.Create(w, surroundings.Kube.CoreV1().Namespaces(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "mallory-", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "baseline"},
	}})
	m.namespace = space.Name
	w.Cleanup(func() {
		err := surroundings.Kube.CoreV1().Namespaces().
			Delete(context.WithoutCancel(w.Context()), m.namespace, metav1.DeleteOptions{})
		if err != nil {
			w.Error(err)
		}
	})
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "attachments"}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{harness.AttachmentResource.Group}, Resources: []string{harness.AttachmentResource.Resource},
		Verbs: []string{"*"},
	}}}
	rbac := surroundings.Kube.RbacV1()
	harness.Create(w, rbac.Roles(m.namespace), role)
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "mallory"}}
	for _, ref := range []rbacv1.RoleRef{{Kind: "ClusterRole", Name: "edit"}, {Kind: "Role", Name: "attachments"}} {
		ref.APIGroup = rbacv1.GroupName
		harness.Create(w, rbac.RoleBindings(m.namespace), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: ref.Name}, Subjects: subjects, RoleRef: ref,
		})
	}
	as := rest.CopyConfig(surroundings.Admin)
	as.Impersonate = rest.ImpersonationConfig{UserName: "mallory", Groups: []string{"system:authenticated"}}
	var errs [3]error
	m.kube, errs[0] = kubernetes.NewForConfig(as)
	m.networks, errs[1] = versioned.NewForConfig(as)
	m.any, errs[2] = dynamic.NewForConfig(as)
	expect.NoError(w, errors.Join(errs[:]...))
	w.eventually(func() error {
		_, err := surroundings.Kube.CoreV1().ServiceAccounts(m.namespace).Get(w.Context(), "default", metav1.GetOptions{})
		return err
	})
	return m
}

// forged is a NetworkAttachmentDefinition that names all that the plugin must not believe.
const forged = `{"cniVersion": "1.0.0", "name": "both", "type": "neutron-port", "capabilities": {"mac": true, "ips": true},
"socket": "/run/containerd/containerd.sock", "NETWORK_AGENT_SOCKET": "/run/containerd/containerd.sock",
"portID": %[1]q, "mac": %[2]q, "podUID": %[3]q, "podName": %[4]q, "podNamespace": %[5]q, "device": "tap%[1]s", "dataDir": "/etc",
"args": {"cni": {"K8S_POD_UID": %[3]q, "K8S_POD_NAMESPACE": %[5]q}}, "addresses": [{"address": %[6]q}],
"routes": [{"dst": "10.30.0.0/24", "gw": "10.30.0.1"}], "ipam": {"type": "static", "addresses": [{"address": %[6]q}]}}`

// startPods has Mallory name the victim's port in whatever a tenant may write of Pods. It returns the Pods' names by the
// attack. None of them may start.
func (m *tenant) startPods(others string, victim *guest) map[string]string {
	m.Helper()
	theirs := victim.on[0]
	definition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition", "metadata": map[string]any{"name": "forged"},
		"spec": map[string]any{"config": fmt.Sprintf(forged, theirs.PortID, theirs.MAC, victim.UID, victim.Name, others, theirs.IPs[0])},
	}}
	_, err := m.any.Resource(harness.AttachmentResource).Namespace(m.namespace).
		Create(m.Context(), definition, metav1.CreateOptions{})
	expect.NoError(m, err)
	element := func(fields string) string { return `[{"name": "forged"` + fields + `}]` }
	pods := map[string]string{}
	for what, attack := range map[string]struct {
		networks, allocations, name string
	}{
		"a forged NetworkAttachmentDefinition":   {networks: element("")},
		"the hardware address of another's port": {networks: element(fmt.Sprintf(`, "mac": %q`, theirs.MAC))},
		"the address of another's port":          {networks: element(fmt.Sprintf(`, "ips": [%q]`, theirs.IPs[0]))},
		"the UID of another's Pod": {networks: element(fmt.Sprintf(
			`, "mac": %q, "cni-args": {"K8S_POD_UID": %q, "K8S_POD_NAMESPACE": %q}`, theirs.MAC, victim.UID, others))},
		"the name of another's Pod": {networks: element(fmt.Sprintf(`, "mac": %q`, theirs.MAC)), name: victim.Name},
		"the Network of another namespace": {networks: fmt.Sprintf(
			`[{"name": "both", "namespace": %q, "mac": %q}]`, others, theirs.MAC)},
		"an allocation that is another's": {
			networks: element(fmt.Sprintf(`, "mac": %q`, theirs.MAC)), allocations: victim.Annotations[cloudteamv1.AnnotationAllocations],
		},
	} {
		if attack.name == "" {
			attack.name = strings.ToLower(strings.NewReplacer(" ", "-", "'", "").Replace(what))
		}
		pod := podFor(attack.name, victim.node.Name, attack.networks)
		if attack.allocations != "" {
			pod.Annotations[cloudteamv1.AnnotationAllocations] = attack.allocations
		}
		harness.Create(m, m.kube.CoreV1().Pods(m.namespace), pod)
		pods[what] = attack.name
	}
	return pods
}

// writes has Mallory try what the API server refuses.
func (m *tenant) writes(others string, victim *guest) {
	theirs := victim.on[0]
	m.Run("the agent's socket", func(t *testing.T) {
		pod := podFor("socket", victim.node.Name, "forged")
		pod.Spec.Volumes = []corev1.Volume{{Name: "agent", VolumeSource: corev1.VolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: "/run/network-agent"},
		}}}
		_, err := m.kube.CoreV1().Pods(m.namespace).Create(t.Context(), pod, metav1.CreateOptions{})
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "hostPath") {
			t.Errorf("a Pod with the agent's folder: %v", err)
		}
	})
	m.Run("a NetworkPort that says what it is bound to", func(t *testing.T) {
		ports := m.networks.CloudteamV1().NetworkPorts(m.namespace)
		port := &cloudteamv1.NetworkPort{ObjectMeta: metav1.ObjectMeta{Name: "forged"}}
		port.Spec.NetworkName = "none"
		port.Status.PortID, port.Status.MAC = theirs.PortID, theirs.MAC
		port.Status.BoundTo = &cloudteamv1.PortBinding{Kind: "Pod", Name: "forged", UID: "forged"}
		port.Status.Attachment = &cloudteamv1.PortAttachment{Node: victim.node.Name, Mode: "ovn", PortID: theirs.PortID, PodUID: "forged"}
		made, err := ports.Create(t.Context(), port, metav1.CreateOptions{})
		if err != nil || made.Status.PortID != "" || made.Status.BoundTo != nil || made.Status.Attachment != nil {
			t.Errorf("the API server keeps %+v, %v", made.Status, err)
		}
		patch := []byte(fmt.Sprintf(`{"status": {"portID": %q, "boundTo": {"kind": "Pod", "name": "x", "uid": "x"}}}`, theirs.PortID))
		_, err = ports.Patch(t.Context(), "forged", types.MergePatchType, patch, metav1.PatchOptions{}, "status")
		if !apierrors.IsForbidden(err) {
			t.Errorf("writing a status: %v", err)
		}
		_, err = m.networks.CloudteamV1().NetworkPorts(others).
			Patch(t.Context(), theirs.Port, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
		if !apierrors.IsForbidden(err) {
			t.Errorf("writing another's status: %v", err)
		}
	})
	m.Run("the data plane of a Node", func(t *testing.T) {
		patch := []byte(`{"metadata": {"annotations": {"cloudteam.ztgame.com/dataplane-host": "elsewhere"}}}`)
		_, err := m.kube.CoreV1().Nodes().Patch(t.Context(), victim.node.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		if !apierrors.IsForbidden(err) {
			t.Errorf("annotating a Node: %v", err)
		}
	})
}

// sends has a Pod send what its port may not, to a neighbor on its own node and to one on another. All are on one Network,
// and in one security group, so that nothing else stops it.
func (w *world) sends(from *guest, to ...*guest) {
	own := from.mac(0)
	attacker := w.wire(from, "net1")
	routerMAC := func(g *guest, gateway string) string {
		w.Helper()
		var mac string
		w.eventually(func() error {
			_ = g.ping(netip.MustParseAddr(gateway))
			said, err := g.inside("ip", "neigh", "show", gateway)
			words := strings.Fields(said)
			if i := slices.Index(words, "lladdr"); err == nil && i > 0 {
				mac = words[i+1]
				return nil
			}
			return fmt.Errorf("no hardware address of %s: %q, %w", gateway, said, err)
		})
		return mac
	}
	for _, victim := range to {
		w.Run("to "+victim.Name, func(t *testing.T) {
			w := w.in(t)
			wire := w.wire(victim, "net1")
			gateway := netip.MustParseAddr(from.on[0].Gateway[0])
			before := routerMAC(victim, gateway.String())
			third := to[0]
			if third == victim {
				third = to[1]
			}
			frames := w.attacks(from, victim, third, gateway)
			var honest [][]byte
			for i, source := range from.addresses(0) {
				honest = append(honest, datagram(victim.mac(0), own, netip.AddrPortFrom(victim.addresses(0)[i], 9),
					netip.AddrPortFrom(source, 9), []byte("honest from "+source.String())))
			}
			wire.next()
			for _, attack := range frames {
				attacker.send(attack.frames...)
			}
			var seen [][]byte
			// What is sent after it arrives after it.
			w.eventually(func() error {
				attacker.send(honest...)
				seen = append(seen, wire.next()...)
				for _, source := range from.addresses(0) {
					text := []byte("honest from " + source.String())
					if !slices.ContainsFunc(seen, func(frame []byte) bool { return bytes.Contains(frame, text) }) {
						return fmt.Errorf("of %d frames, none is %s", len(seen), text)
					}
				}
				return nil
			})
			seen = append(seen, wire.next()...)
			for _, attack := range frames {
				w.Run(attack.name, func(t *testing.T) {
					if slices.ContainsFunc(seen, attack.stolen) {
						t.Error("the victim received it")
					}
				})
			}
			w.Run("a router's advertisement", func(t *testing.T) {
				said, err := victim.inside("ip", "-6", "route")
				if err != nil || strings.Contains(said, "fd00:bad:") || strings.Contains(said, "default via fe80") {
					t.Errorf("the victim believes it: %s, %v", said, err)
				}
			})
			if after := routerMAC(victim, gateway.String()); after != before {
				w.Errorf("the gateway was at %s, and is at %s", before, after)
			}
			w.Run("a DHCP server hears no request", func(t *testing.T) {
				w := w.in(t)
				attacker.next()
				offered := false
				var heard [][]byte
				w.eventually(func() error {
					wire.send(discover(victim.mac(0)))
					heard = append(heard, attacker.next()...)
					for _, frame := range wire.next() {
						// OVN's answer has the port's own address.
						offered = offered || len(frame) > 62 && isDHCP(frame, 67) && bytes.Equal(frame[58:62], victim.addresses(0)[0].AsSlice())
					}
					if !offered {
						return errors.New("nobody answers the victim's DHCP request")
					}
					return nil
				})
				if slices.ContainsFunc(heard, func(frame []byte) bool { return isDHCP(frame, 68) }) {
					t.Error("the other Pod hears it")
				}
			})
		})
	}
}

// attack is frames that a port may not send.
type attack struct {
	name   string
	frames [][]byte
	// stolen reports whether a frame is one of them.
	stolen func(frame []byte) bool
}

// attacks are those of a Pod on a victim, in which a third Pod's addresses are forged.
func (w *world) attacks(from, victim, third *guest, gateway netip.Addr) []attack {
	own, their := from.mac(0), third.mac(0)
	port := func(a netip.Addr) netip.AddrPort { return netip.AddrPortFrom(a, 9) }
	forge := func(name string, mac net.HardwareAddr, source netip.Addr, change func([]byte) []byte) attack {
		target := victim.addresses(0)[0]
		if source.Is6() {
			target = victim.addresses(0)[1]
		}
		frame := datagram(victim.mac(0), mac, port(target), port(source), []byte(name))
		if change != nil {
			frame = change(frame)
		}
		return attack{name, [][]byte{frame}, func(frame []byte) bool { return bytes.Contains(frame, []byte(name)) }}
	}
	gateway6 := netip.MustParseAddr(from.on[0].Gateway[1])
	nodes := netip.MustParseAddr("ff02::1")
	toNodes := net.HardwareAddr{0x33, 0x33, 0, 0, 0, 1}
	claim := slices.Concat([]byte{neighborAdvertised, 0, 0, 0, 0xa0, 0, 0, 0}, gateway6.AsSlice(), []byte{2, 1}, own)
	prefix := netip.MustParseAddr("fd00:bad::")
	advertisement := slices.Concat([]byte{routerAdvertisement, 0, 0, 0, 64, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0},
		[]byte{3, 4, 64, 0xc0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0}, prefix.AsSlice())
	router := packet(toNodes, own, nodes, linkLocal(own), protocolICMPv6, advertisement, 2)
	never := func([]byte) bool { return false } // it may arrive: the victim must not believe it
	return []attack{
		forge("another's hardware address", their, from.addresses(0)[0], nil),
		forge("another's IPv4 address", own, third.addresses(0)[0], nil),
		forge("another's IPv6 address", own, third.addresses(0)[1], nil),
		forge("all addresses of another", their, third.addresses(0)[0], nil),
		forge("the gateway's address", own, gateway, nil),
		forge("a VLAN tag", own, from.addresses(0)[0], func(frame []byte) []byte {
			return slices.Concat(frame[:12], word(etherVLAN), word(100), frame[12:])
		}),
		{"ARP for the gateway", [][]byte{arpReply(own, gateway)}, func(frame []byte) bool { return saysARP(frame, own, gateway) }},
		{
			"ARP for another", [][]byte{arpReply(own, third.addresses(0)[0])},
			func(frame []byte) bool { return saysARP(frame, own, third.addresses(0)[0]) },
		},
		{
			"a neighbor advertisement for the gateway",
			[][]byte{packet(toNodes, own, nodes, linkLocal(own), protocolICMPv6, claim, 2)},
			func(frame []byte) bool { return advertises(frame, gateway6) && bytes.Equal(frame[6:12], own) },
		},
		{"a router's advertisement, which must not be believed", [][]byte{router}, never},
	}
}

// linkLocal is the link-local address of a hardware address.
func linkLocal(mac net.HardwareAddr) netip.Addr {
	return netip.AddrFrom16([16]byte{
		0xfe, 0x80, 8: mac[0] ^ 2, 9: mac[1], 10: mac[2], 11: 0xff, 12: 0xfe, 13: mac[3], 14: mac[4], 15: mac[5],
	})
}

// discover is a DHCP client's first request.
func discover(mac net.HardwareAddr) []byte {
	content := make([]byte, 300)
	copy(content, []byte{1, 1, 6, 0, 7, 7, 7, 7})
	copy(content[28:], mac)
	copy(content[236:], []byte{0x63, 0x82, 0x53, 0x63, 53, 1, 1, 255})
	return datagram(broadcast, mac, netip.MustParseAddrPort("255.255.255.255:67"), netip.MustParseAddrPort("0.0.0.0:68"), content)
}

// isDHCP reports whether a frame is one of DHCP from a port of UDP.
func isDHCP(frame []byte, from byte) bool {
	return len(frame) > 42 && frame[12] == 8 && frame[13] == 0 && frame[23] == protocolUDP &&
		frame[34] == 0 && frame[35] == from
}

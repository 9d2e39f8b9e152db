//go:build linux

package dataplane

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"cloudteam.ztgame.com/network-controller/dev/dataplane/nodes"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/nightly"
)

const twoFamilies = `
metadata:
  name: both
spec:
  cidr: 10.30.0.0/24
  additionalSubnets:
    - cidr: fd00:10:30::/64
  router: {}
`

// TestPortsCarryPackets plays kubelet and Multus: it calls the CNI plugin with the Pod's configuration.
func TestPortsCarryPackets(t *testing.T) {
	if testing.Short() {
		t.Skip("TestPodsOnKubelets sends packets by the same agent and plugin")
	}
	w := newWorld(t, "level 3, Pods without kubelets")
	w.removeNodes()
	w.addNodes()
	w.startAgents()
	w.startController()
	network := w.network([]byte(twoFamilies))
	left, right := w.pod("left", network.Name, w.nodes.All[0]), w.pod("right", network.Name, w.nodes.All[1])

	t.Run("Pods on two nodes reach each other by each family", func(t *testing.T) {
		for _, address := range right.addresses {
			w.reaches(left, address)
			w.speaksTCP(left, right, address)
		}
	})
	t.Run("ports are ACTIVE", func(t *testing.T) { w.in(t).podsAreActive(left, right) })
	t.Run("the router answers", func(*testing.T) {
		w.reaches(left, left.gateways[0])
	})
	t.Run("a SecurityGroup closes and opens", func(t *testing.T) { w.in(t).aGroupClosesAndOpens(left, right) })
	t.Run("a node that the port is not bound to gets none of its packets", func(t *testing.T) {
		// A port that is bound there shows that the same interface would have packets, and when it would.
		network := w.tenant.One("ports", "id="+left.port)["network_id"]
		bound := w.tenant.Create("ports", harness.Resource{"network_id": network})
		w.admin.Update("ports", bound.ID(), harness.Resource{"binding:host_id": w.nodes.All[1].Name})
		address := bound["fixed_ips"].([]any)[0].(map[string]any)["ip_address"].(string)
		honest := w.steal("honest", w.nodes.All[1], bound.ID(), bound["mac_address"].(string), address)
		thief := w.steal("thief", w.nodes.All[1], left.port, left.mac, left.addresses[0])
		w.reaches(honest, right.addresses[0])
		if err := w.ping(thief, right.addresses[0]); err == nil {
			t.Error("the other node speaks for the port")
		}
		w.reaches(left, right.addresses[0])
		for _, p := range []*pod{honest, thief} {
			if _, err := p.node.Run("ovs-vsctl", "--timeout=30", "del-port", "tap"+p.name); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("without the right to bind, packets flow, and the port is DOWN", func(t *testing.T) {
		w := w.in(t)
		w.runController()
		loose := w.pod("loose", network.Name, w.nodes.All[1])
		for _, address := range left.addresses {
			w.reaches(loose, address)
		}
		w.portSays("loose", cloudteamv1.ReasonPlugged, "--binding-cloud")
		port := w.admin.One("ports", "id="+loose.port)
		if port["status"] != "DOWN" || port["binding:host_id"] != "" {
			t.Errorf("the port is %v on %v", port["status"], port["binding:host_id"])
		}
		ports, err := surroundings.Networks.CloudteamV1().NetworkPorts(w.namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil || !slices.ContainsFunc(ports.Items, func(p cloudteamv1.NetworkPort) bool {
			return p.Status.PortID == loose.port && p.Attachment() != nil &&
				p.Attachment().Mode == cloudteamv1.AttachmentOVNUnbound
		}) {
			t.Errorf("no NetworkPort is attached unbound: %+v, %v", ports.Items, err)
		}
		w.plugin(loose, "DEL")
	})
	for _, p := range []*pod{left, right} {
		w.plugin(p, "DEL")
		bridge, err := p.node.Run("ovs-vsctl", "list-ports", "br-int")
		if err != nil || strings.Contains(bridge, "tap") {
			t.Errorf("after DEL the bridge on %s has %q, %v", p.node.Name, bridge, err)
		}
	}
}

// podsAreActive waits until Neutron has the ports of Pods as ACTIVE, on their nodes.
func (w *world) podsAreActive(pods ...*pod) {
	w.Helper()
	for _, p := range pods {
		w.eventually(func() error {
			port := w.admin.One("ports", "id="+p.port)
			if port["status"] != "ACTIVE" || port["binding:host_id"] != p.node.Name {
				return fmt.Errorf("port of %s is %v on %v", p.name, port["status"], port["binding:host_id"])
			}
			return nil
		})
	}
}

// aGroupClosesAndOpens gives the right Pod's port a SecurityGroup without rules, and then one for IPv4.
func (w *world) aGroupClosesAndOpens(left, right *pod) {
	w.Helper()
	groups := surroundings.Networks.CloudteamV1().SecurityGroups(w.namespace)
	closed := &cloudteamv1.SecurityGroup{ObjectMeta: metav1.ObjectMeta{Name: "closed"}}
	harness.Create(w, groups, closed)
	ports := surroundings.Networks.CloudteamV1().NetworkPorts(w.namespace)
	all, err := ports.List(w.Context(), metav1.ListOptions{})
	expect.NoError(w, err)
	at := slices.IndexFunc(all.Items, func(p cloudteamv1.NetworkPort) bool { return p.Status.PortID == right.port })
	name := all.Items[at].Name
	patch := func(spec string) {
		w.Helper()
		harness.Patch(w, ports, name, `{"spec":`+spec+`}`)
	}
	had, err := json.Marshal(w.tenant.One("ports", "id="+right.port)["security_groups"])
	expect.NoError(w, err)
	patch(`{"securityGroupRefs":["closed"]}`)
	for _, address := range right.addresses {
		w.eventually(func() error {
			if w.ping(left, address) == nil {
				return errors.New("a SecurityGroup without a rule for ingress lets packets in")
			}
			return nil
		})
	}
	began := time.Now()
	harness.Patch(w, groups, "closed",
		`{"spec":{"rules":[{"direction":"ingress","protocol":"icmp"}]}}`)
	w.reaches(left, right.addresses[0])
	w.Logf("the rule lets packets in %s after it was written", nightly.Since(began))
	// It is about IPv4 alone.
	if err := w.ping(left, right.addresses[1]); err == nil {
		w.Error("a rule for IPv4 lets packets of IPv6 in")
	}
	patch(`{"securityGroupRefs":null,"securityGroups":` + string(had) + `}`)
	for _, address := range right.addresses {
		w.reaches(left, address)
	}
	harness.Delete(w, groups, "closed")
	harness.AwaitGone(w, surroundings, groups, "closed")
}

// pod is a Pod that has a network namespace and nothing else.
type pod struct {
	name string
	node *nodes.Node
	// netns is the name of the network namespace on the node.
	netns string
	uid   string
	// configuration is what Multus gives to the plugin.
	configuration []byte
	// port is the id in Neutron.
	port      string
	mac       string
	addresses []string
	gateways  []string
}

// pod makes a Pod on a Network, puts it on a node, and has the plugin attach it.
func (w *world) pod(name, network string, node *nodes.Node) *pod {
	w.Helper()
	p := w.schedule(name, network, node.Name)
	p.node = node
	if len(p.addresses) != 2 {
		w.Fatalf("Pod %s has the addresses %v, want one of each family", name, p.addresses)
	}
	if _, err := node.Run("ip", "netns", "add", p.netns); err != nil {
		w.Fatal(err)
	}
	w.plugin(p, "ADD")
	return p
}

// schedule makes a Pod on a Network, and puts it on a node.
func (w *world) schedule(name, network, node string) *pod {
	w.Helper()
	pods := surroundings.Kube.CoreV1().Pods(w.namespace)
	harness.Create(w, pods, harness.PodOn(name, network))
	object := harness.Await(w, surroundings, pods, name, func(p *corev1.Pod) error {
		if len(p.Spec.SchedulingGates) > 0 || len(harness.AllocationsOf(w, p)) == 0 {
			return fmt.Errorf("Pod %s waits for its port: %+v", name, p.Status.Conditions)
		}
		return nil
	})
	err := pods.Bind(w.Context(), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Target: corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})
	expect.NoError(w, err)
	allocation := harness.AllocationsOf(w, object)[0]
	p := &pod{
		name: name, netns: "pod-" + name, uid: string(object.UID), port: allocation.PortID, mac: allocation.MAC,
		gateways: allocation.Gateway,
	}
	for _, ip := range allocation.IPs {
		p.addresses = append(p.addresses, netip.MustParsePrefix(ip).Addr().String())
	}
	p.configuration = w.configuration(network, allocation)
	return p
}

// configuration is that of the NetworkAttachmentDefinition, with what Multus adds of the Pod's annotation.
func (w *world) configuration(network string, allocation cloudteamv1.Allocation) []byte {
	w.Helper()
	var definition *unstructured.Unstructured
	client := dynamic.NewForConfigOrDie(surroundings.Admin).Resource(harness.AttachmentResource).Namespace(w.namespace)
	w.eventually(func() (err error) {
		definition, err = client.Get(w.Context(), network, metav1.GetOptions{})
		return err
	})
	text, _, _ := unstructured.NestedString(definition.Object, "spec", "config")
	var list struct {
		CNIVersion, Name string
		Plugins          []map[string]any
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil || len(list.Plugins) != 1 {
		w.Fatalf("the NetworkAttachmentDefinition has the configuration %s: %v", text, err)
	}
	plugin := list.Plugins[0]
	if plugin["type"] != "neutron-port" {
		w.Fatalf("the NetworkAttachmentDefinition names the plugin %v", plugin["type"])
	}
	plugin["cniVersion"], plugin["name"] = list.CNIVersion, list.Name
	plugin["runtimeConfig"] = map[string]any{"mac": allocation.MAC, "ips": allocation.IPs}
	content, err := json.Marshal(plugin)
	expect.NoError(w, err)
	return content
}

// plugin calls the CNI plugin, again while it says "try again later" as the kubelet does.
func (w *world) plugin(p *pod, command string) {
	w.Helper()
	env := w.cniEnvironment(p, command)
	w.eventually(func() error {
		output, err := p.node.RunWith(string(p.configuration), env, filepath.Join(programs, "neutron-port"))
		if err != nil {
			return fmt.Errorf("%s of Pod %s: %w: %s", command, p.name, err, output)
		}
		return nil
	})
}

// cniEnvironment is what a container runtime gives to the CNI plugin.
func (w *world) cniEnvironment(p *pod, command string) []string {
	return []string{
		"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "CNI_COMMAND=" + command, "CNI_CONTAINERID=sandbox-" + p.name,
		"CNI_NETNS=/run/netns/" + p.netns, "CNI_IFNAME=net1", "CNI_PATH=" + programs,
		"CNI_ARGS=IgnoreUnknown=1;K8S_POD_NAMESPACE=" + w.namespace + ";K8S_POD_NAME=" + p.name +
			";K8S_POD_INFRA_CONTAINER_ID=sandbox-" + p.name + ";K8S_POD_UID=" + p.uid,
	}
}

// inside runs a program in the Pod's network namespace.
func (p *pod) inside(args ...string) (string, error) {
	return p.node.Run("ip", append([]string{"netns", "exec", p.netns}, args...)...)
}

// ping sends one echo request.
func (w *world) ping(p *pod, address string) error {
	_, err := p.inside("busybox", "ping", "-c1", "-W2", address)
	return err
}

// reaches waits until an address answers.
func (w *world) reaches(p *pod, address string) {
	w.Helper()
	w.eventually(func() error { return w.ping(p, address) })
}

// megabyte is so much that TCP needs many packets of the largest size.
const megabyte = 1 << 20

// serveMegabyte has a Pod serve a megabyte by HTTP, as /data, until stop is called.
func (w *world) serveMegabyte(p *pod) (stop func()) {
	w.Helper()
	folder := filepath.Join(p.node.Dir, "web-"+p.name)
	if _, err := p.node.Run("sh", "-c", fmt.Sprintf("mkdir -p %[1]s; head -c %[2]d /dev/zero >%[1]s/data", folder,
		megabyte)); err != nil {
		w.Fatal(err)
	}
	server, err := p.node.Start("httpd-"+p.name, nil, "ip", "netns", "exec", p.netns,
		"busybox", "httpd", "-f", "-p", "80", "-h", folder)
	expect.NoError(w, err)
	return server.Kill
}

// speaksTCP sends a megabyte from one Pod to the other, which packets of all sizes and checksums take.
func (w *world) speaksTCP(from, to *pod, address string) {
	w.Helper()
	defer w.serveMegabyte(to)()
	w.eventually(func() error {
		got, err := from.node.RunWith("GET /data HTTP/1.0\r\n\r\n", nil,
			"ip", "netns", "exec", from.netns, "busybox", "nc", "-w", "10", address, "80")
		if _, body, _ := strings.Cut(got, "\r\n\r\n"); err == nil && len(body) != megabyte {
			err = fmt.Errorf("got %d bytes of %d from %s", len(body), megabyte, address)
		}
		return err
	})
}

// steal plugs an interface with a port's id, hardware address and address into a node's switch, past the agent.
func (w *world) steal(name string, node *nodes.Node, port, mac, address string) *pod {
	w.Helper()
	p := &pod{name: name, node: node, netns: "pod-" + name}
	_, err := node.RunWith(`
ip netns add "$4"
ip link add "tap$5" type veth peer name net1 netns "$4"
ip link set "tap$5" up
ip -n "$4" link set net1 address "$2" mtu 1400 up
ip -n "$4" addr add "$3/24" dev net1
ovs-vsctl --timeout=30 add-port br-int "tap$5" -- set Interface "tap$5" "external-ids:iface-id=$1" \
  "external-ids:attached-mac=$2" external-ids:iface-status=active
`, nil, "sh", "-eus", "--", port, mac, address, p.netns, name)
	expect.NoError(w, err)
	return p
}

//go:build linux

package dataplane

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"cloudteam.ztgame.com/network-controller/dev/dataplane/nodes"
	"cloudteam.ztgame.com/network-controller/dev/dataplane/vm"
	"cloudteam.ztgame.com/network-controller/dev/process"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/nightly"
)

const trunkNetwork = `
metadata:
  name: apart
spec:
  cidr: 10.31.0.0/24
  additionalSubnets:
    - cidr: fd00:10:31::/64
`

// TestTrunkInAVirtualMachine has a node that is a virtual machine on node1, whose port in Neutron is a trunk's parent, and
// a Pod in it. Its peer is a Pod on node2, which is bare metal.
func TestTrunkInAVirtualMachine(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: the agent's tests plug ports on a trunk, and the contract's fill one in Neutron")
	}
	if cannot == "" {
		vm.Needs(t)
	}
	w := newWorld(t, "level 5, a trunk in a virtual machine")
	w.removeNodes()
	w.addNodes()
	w.startAgents()
	w.startController()
	g := w.virtualNode("vm1", w.nodes.All[0])
	network := w.network([]byte(trunkNetwork))
	metal := w.schedule("metal", network.Name, w.nodes.All[1].Name)
	metal.node = w.nodes.All[1]
	if _, err := metal.node.Run("ip", "netns", "add", metal.netns); err != nil {
		t.Fatal(err)
	}
	w.plugin(metal, "ADD")
	p := w.schedule("virtual", network.Name, g.name)
	g.must("ip netns add " + p.netns)
	g.plugin(p, "ADD")

	t.Run("the port is a subport of the machine's trunk, and ACTIVE", func(*testing.T) {
		w.eventually(func() error {
			trunk := w.admin.One("trunks", "port_id="+g.parent)
			port := w.admin.One("ports", "id="+p.port)
			if subports := fmt.Sprint(trunk["sub_ports"]); !strings.Contains(subports, p.port) || port["status"] != "ACTIVE" {
				return fmt.Errorf("the port is %v, and the trunk has %s", port["status"], subports)
			}
			return nil
		})
	})
	g.exchange(p, metal)

	t.Run("the port gets another VLAN under the Pod", func(*testing.T) {
		vlan := g.vlan()
		trunk := w.admin.One("trunks", "port_id="+g.parent).ID()
		began := time.Now()
		w.subports("remove", trunk, harness.Resource{"port_id": p.port})
		other := w.tenant.Create("ports", harness.Resource{"network_id": g.network}).ID()
		w.subports("add", trunk, harness.Resource{"port_id": other, "segmentation_type": "vlan", "segmentation_id": vlan})
		defer w.subports("remove", trunk, harness.Resource{"port_id": other})
		w.admin.Remove("ports", p.port)
		w.eventually(func() error {
			ports, err := surroundings.Networks.CloudteamV1().NetworkPorts(w.namespace).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				return err
			}
			for _, object := range ports.Items {
				if at := object.Attachment(); at != nil && at.Node == g.name && at.PortID != p.port {
					return nil
				}
			}
			return errors.New("the controller has not made the port again")
		})
		// Nothing in the machine tells of it: an audit sees it, which is each 5 s here.
		g.recovers("somebody deleted the port of a Pod on a trunk, and another has its VLAN", began, p, metal)
		if now := g.vlan(); now == vlan {
			t.Errorf("the VLAN is %s still, which another port has", now)
		}
	})

	t.Run("the agent is killed", func(*testing.T) {
		began := time.Now()
		g.must("killall -9 network-agent\n" + g.startAgent())
		g.recovers("the agent in the machine was killed", began, p, metal)
	})

	t.Run("what serves the machine's own port is killed", func(t *testing.T) {
		for _, program := range []string{"agent", "ovn-controller", "ovs-vswitchd"} {
			began := time.Now()
			expect.NoError(t, w.nodes.All[0].Restart(program))
			g.recovers(program+" of the machine's hypervisor was killed", began, p, metal)
		}
	})

	g.plugin(p, "DEL")
	if left := g.must("ip -br link"); strings.Contains(left, "trk") || strings.Contains(left, "tap") {
		t.Errorf("after DEL the machine has %s", left)
	}
	w.plugin(metal, "DEL")
}

// virtualNode is a node that is a virtual machine.
type virtualNode struct {
	*world
	name    string
	machine *vm.Machine
	// parent is the id of its port in Neutron, and network that of the port's network.
	parent, network string
}

// virtualNode starts a virtual machine on a node, with a port that is a trunk's parent, and the agent in it. A second network
// card leads to the API server.
func (w *world) virtualNode(name string, on *nodes.Node) *virtualNode {
	w.Helper()
	g := &virtualNode{world: w, name: name}
	network := w.tenant.Create("networks", harness.Resource{"name": "machines-" + w.namespace})
	subnet := w.tenant.Create("subnets", harness.Resource{
		"network_id": network.ID(), "ip_version": 4, "cidr": "10.32.0.0/24",
	})
	port := w.tenant.Create("ports", harness.Resource{
		"network_id": network.ID(), "name": name, "fixed_ips": []harness.Resource{{"subnet_id": subnet.ID(), "ip_address": "10.32.0.9"}},
	})
	g.parent, g.network = port.ID(), network.ID()
	w.tenant.Create("trunks", harness.Resource{"port_id": g.parent, "name": name})
	w.admin.Update("ports", g.parent, harness.Resource{"binding:host_id": on.Name})

	dir, err := os.MkdirTemp("", "vm")
	expect.NoError(w, err)
	w.Cleanup(func() { _ = os.RemoveAll(dir) })
	server, err := url.Parse(surroundings.Admin.Host)
	expect.NoError(w, err)
	client := surroundings.Kube.CoreV1().Nodes()
	harness.Create(w, client, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{Unschedulable: true},
	})
	w.Cleanup(func() {
		if err := client.Delete(context.WithoutCancel(w.Context()), name, metav1.DeleteOptions{}); err != nil {
			w.Error(err)
		}
	})
	g.machine, err = vm.Start(vm.Options{
		Dir: dir,
		Files: map[string]string{
			"/usr/bin/network-agent": filepath.Join(programs, "network-agent"), "/opt/cni/bin/neutron-port": filepath.Join(programs, "neutron-port"),
			"/agent.kubeconfig": w.virtualKubeconfig(name, dir, server.Port()),
		},
		// Open vSwitch in user space computes no checksums for others, so the card must not leave them to it.
		Devices: []string{
			"-netdev", "tap,id=trunk,ifname=tap" + name + ",script=no,downscript=no,vnet_hdr=off",
			"-device", fmt.Sprintf("virtio-net-pci,netdev=trunk,mac=%v", port["mac_address"]),
			"-netdev", "user,id=management", "-device", "virtio-net-pci,netdev=management",
		},
		Start: func(path string, args ...string) (*process.Process, error) {
			return on.Start("qemu", nil, path, args...)
		},
	})
	expect.NoError(w, err)
	w.Cleanup(func() {
		if w.Failed() {
			log, _ := g.run("tail -c 4000 /agent.log; ip -s link; for n in $(ls /run/netns); do ip -n $n -s -d addr; ip -n $n neigh; done")
			w.Logf("in the virtual machine: %s", log)
		}
		g.machine.Stop()
	})
	_, err = on.Run("ovs-vsctl", "--timeout=30", "add-port", "br-int", "tap"+name, "--", "set", "Interface", "tap"+name,
		"external_ids:iface-id="+g.parent, fmt.Sprintf("external_ids:attached-mac=%v", port["mac_address"]),
		"external_ids:iface-status=active")
	expect.NoError(w, err)
	if _, err := on.Run("ip", "link", "set", "tap"+name, "up"); err != nil {
		w.Fatal(err)
	}
	g.must(fmt.Sprintf(`ip link set eth0 mtu %v up
ip addr add 10.32.0.9/24 dev eth0
ip route add default via 10.32.0.1
ip link set eth1 up
ip addr add 10.0.2.15/24 dev eth1
%s`, network["mtu"], g.startAgent()))
	w.eventually(func() error {
		object, err := client.Get(w.Context(), name, metav1.GetOptions{})
		if err == nil && object.Annotations[cloudteamv1.AnnotationDataplaneParent] != port["mac_address"] {
			err = fmt.Errorf("the Node has the annotations %v", object.Annotations)
		}
		return err
	})
	return g
}

// startAgent is how the machine starts its agent.
func (g *virtualNode) startAgent() string {
	return "network-agent --node-name=" + g.name +
		" --kubeconfig=/agent.kubeconfig --mode=trunk -v=2 >>/agent.log 2>&1 &"
}

// virtualKubeconfig is the agents' kubeconfig with the address by which QEMU leads to this machine's loopback.
func (w *world) virtualKubeconfig(name, dir, port string) string {
	w.Helper()
	node := &nodes.Node{Name: name, Dir: dir}
	w.agentKubeconfig(node)
	path := agentKubeconfigPath(node)
	config, err := clientcmd.LoadFromFile(path)
	expect.NoError(w, err)
	for _, cluster := range config.Clusters {
		cluster.Server, cluster.TLSServerName = "https://10.0.2.2:"+port, "127.0.0.1"
	}
	expect.NoError(w, clientcmd.WriteToFile(*config, path))
	return path
}

func (g *virtualNode) run(lines string) (string, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(g.Context()), time.Minute)
	defer cancel()
	return g.machine.Run(ctx, lines)
}

func (g *virtualNode) must(lines string) string {
	g.Helper()
	output, err := g.run(lines)
	expect.NoError(g, err)
	return output
}

// plugin calls the CNI plugin in the machine, again while it says "try again later" as the kubelet does.
func (g *virtualNode) plugin(p *pod, command string) {
	g.Helper()
	call := "env -i"
	for _, variable := range g.cniEnvironment(p, command) {
		call += " " + vm.Quote(variable)
	}
	g.eventually(func() error {
		_, err := g.run("printf %s " + vm.Quote(string(p.configuration)) + " | " + call + " /opt/cni/bin/neutron-port")
		return err
	})
}

// vlan is the VLAN that the machine has for its only Pod.
func (g *virtualNode) vlan() string {
	return g.must(`ip -d link | sed -n 's/.*vlan protocol 802.1Q id \([0-9]*\).*/\1/p'`)
}

// recovers waits until packets of each family flow between the Pod in the machine and the other, and tells how long that
// took. At night, the test fails if it was longer than the outage from began on, which is when the failure began.
func (g *virtualNode) recovers(after string, began time.Time, p, other *pod) {
	g.Helper()
	g.eventually(func() error {
		for _, address := range other.addresses {
			if _, err := g.run(fmt.Sprintf("ip netns exec %s ping -c 1 -W 1 %s", p.netns, address)); err != nil {
				return err
			}
		}
		return nil
	})
	took := nightly.Since(began)
	fmt.Printf("  packets flow %s after: %s\n", took, after)
	took.Within(g, "packets flow after "+after, outage)
	g.exchange(p, other)
}

// exchange sends a megabyte by TCP from the Pod in the machine to the other, and one back, by each family.
func (g *virtualNode) exchange(p, other *pod) {
	g.Helper()
	if len(p.addresses) != 2 || len(other.addresses) != 2 {
		g.Fatalf("the Pods have the addresses %v and %v, want one of each family", p.addresses, other.addresses)
	}
	defer g.serveMegabyte(other)()
	for _, address := range other.addresses {
		g.eventually(func() error {
			got, err := g.run(fmt.Sprintf(`ip netns exec %s ping -c 1 -W 2 %[2]s
printf 'GET /data HTTP/1.0\r\n\r\n' | ip netns exec %[1]s nc -w 10 %[2]s 80 >/data
wc -c </data`, p.netns, address))
			lines := strings.Split(got, "\n")
			if size, _ := strconv.Atoi(lines[len(lines)-1]); err == nil && size < megabyte {
				err = fmt.Errorf("the machine got %s from %s", got, address)
			}
			return err
		})
	}
	g.must(fmt.Sprintf("mkdir -p /web; head -c %d /dev/zero >/web/data; ip netns exec %s httpd -p 80 -h /web", megabyte, p.netns))
	defer func() { _, _ = g.run("killall httpd") }()
	for _, address := range p.addresses {
		g.eventually(func() error {
			got, err := other.node.RunWith("GET /data HTTP/1.0\r\n\r\n", nil,
				"ip", "netns", "exec", other.netns, "busybox", "nc", "-w", "10", address, "80")
			if _, body, _ := strings.Cut(got, "\r\n\r\n"); err == nil && len(body) != megabyte {
				err = fmt.Errorf("got %d bytes of %d from %s in the machine", len(body), megabyte, address)
			}
			return err
		})
	}
}

// subports changes a trunk, "add" or "remove".
func (w *world) subports(what, trunk string, subport harness.Resource) {
	w.Helper()
	w.admin.Act("trunks", trunk, what+"_subports", harness.Resource{"sub_ports": []harness.Resource{subport}})
}

//go:build linux

package dataplane

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/dev/dataplane/nodes"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/why"
	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/nightly"
)

// outsideGateway is this machine's address on the external network.
const outsideGateway = "198.18.1.1"

// guestNetworks are the Networks of the guests. The route leads out by the router, as a floating IP's answers do.
var guestNetworks = []string{`
metadata:
  name: both
spec:
  cidr: 10.30.0.0/24
  gateway: 10.30.0.1
  allocationPools: # without the pinned addresses, which Neutron would sometimes give to another
    - start: 10.30.0.2
      end: 10.30.0.199
  additionalSubnets:
    - cidr: fd00:10:30::/64
      allocationPools:
        - start: fd00:10:30::2
          end: fd00:10:30::1ff
  mtu: 1380
  dnsServers: [198.18.1.53]
  hostRoutes:
    - destination: 198.18.1.0/24
      nextHop: 10.30.0.1
  router:
    externalNetwork: outside
`, `
metadata:
  name: second
spec:
  cidr: 10.31.0.0/24
`}

// pinned are the addresses of the StatefulSet's Pod, wherever it runs.
var pinned = []netip.Addr{netip.MustParseAddr("10.30.0.200"), netip.MustParseAddr("fd00:10:30::200")}

// newGuests makes the Pods that the other parts are about: one and two on the first node, three and the StatefulSet's on
// the second. Two has its default route on the Network.
func (w *world) newGuests() []*guest {
	began := time.Now()
	w.network([]byte(guestNetworks[1])) // the Deployment's Pods have the first
	first, second := w.nodes.All[0].Name, w.nodes.All[1].Name
	w.create(podFor("one", first, "both, both, second"), podFor("three", second, "both, second"),
		podFor("two", first, `[{"name": "both", "default-route": ["10.30.0.1"]}]`))
	labels := map[string]string{"app": "db"}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{
		selection.Annotation: fmt.Sprintf(`[{"name": "both", "ips": ["%s", "%s"]}]`, pinned[0], pinned[1]),
	}}, Spec: specFor("")}
	// It prefers the second node, and takes the first one.
	template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
			Weight: 100, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{second},
			}}},
		}},
	}}
	harness.Create(w, surroundings.Kube.AppsV1().StatefulSets(w.namespace), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "db"}, Spec: appsv1.StatefulSetSpec{
			ServiceName: "db", Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template,
		},
	})
	guests := []*guest{w.guest("one"), w.guest("two"), w.guest("three"), w.guest("db-0")}
	w.packetsFlow("the Pods' start", began, guests...)
	for _, g := range guests {
		w.areActive(g.Pod, g.node.Name)
	}
	w.portSays("one", cloudteamv1.ReasonPlugged, "")
	w.whySays("one", "")
	one, two, three := guests[0], guests[1], guests[2]
	for i, allocation := range one.on {
		device := fmt.Sprintf("net%d", i+1)
		if said, err := one.inside("ip", "link", "show", device); err != nil ||
			!strings.Contains(said, fmt.Sprintf("mtu %d ", allocation.MTU)) || !strings.Contains(said, allocation.MAC) {
			w.Errorf("%s ought to have the MTU %d and the address %s: %s, %v", device, allocation.MTU, allocation.MAC, said, err)
		}
		// An interface of the same network is the neighbor of each.
		w.eventually(func() error { return one.ping(three.addresses(i / 2)[0], "-I", device) })
	}
	if one.on[0].MTU != 1380 {
		w.Errorf("the MTU is %d, and the Network's is 1380", one.on[0].MTU)
	}
	// The largest packet that need not be cut, with its headers of 28 bytes.
	w.eventually(func() error { return one.ping(three.addresses(0)[0], "-s", "1352") })
	routes, err := one.inside("ip", "route")
	if err != nil || !strings.Contains(routes, "198.18.1.0/24 via 10.30.0.1 dev net1") {
		w.Errorf("the Network's hostRoutes are missing: %s, %v", routes, err)
	}
	if strings.Contains(routes, "default via 10.30.0.1") {
		w.Errorf("nobody asked for a default route: %s", routes)
	}
	routes, err = two.inside("ip", "route", "show", "default")
	if err != nil || strings.TrimSpace(routes) != "default via 10.30.0.1 dev net1" {
		w.Errorf("the default route is not the one asked for: %s, %v", routes, err)
	}
	if said, err := two.inside("ip", "route", "get", "203.0.113.1"); err != nil || !strings.Contains(said, "dev net1") {
		w.Errorf("packets to others go by %s, %v", said, err)
	}
	// dnsServers are for DHCP clients.
	said, err := two.node.Exec(two.Status.ContainerStatuses[0].ContainerID, "cat", "/etc/resolv.conf")
	if err != nil || strings.Contains(said, "198.18.1.53") {
		w.Errorf("the Network's dnsServers are in the Pod's resolv.conf: %s, %v", said, err)
	}
	return guests
}

// makeOutside makes an external network of the nodes' underlay. It goes after what t makes from now on.
func makeOutside(t *testing.T) {
	t.Helper()
	admin := harness.Open(t, surroundings.CloudsFile, "admin")
	network := admin.Create("networks", harness.Resource{
		"name": "outside", "router:external": true, "provider:network_type": "flat", "provider:physical_network": "physnet1",
	})
	admin.Create("subnets", harness.Resource{
		"network_id": network.ID(), "ip_version": 4, "cidr": "198.18.1.0/24", "gateway_ip": outsideGateway, "enable_dhcp": false,
	})
}

// portsAreTakenAway has somebody delete the port of a running Pod in Neutron, and bind another's to another host. The Pods
// get packets again without an audit: one has another port with its addresses, one is bound here again.
func (w *world) portsAreTakenAway(guests []*guest) {
	w.runController("--binding-cloud=admin", "--audit-interval=1h")
	two, three := guests[1], guests[2]
	was := three.on[0]
	before := w.holdings(two.Name, three.Name)
	began := time.Now()
	w.admin.Remove("ports", was.PortID)
	w.admin.Update("ports", two.on[0].PortID, harness.Resource{"binding:host_id": "elsewhere"})
	w.eventually(func() error {
		port, err := surroundings.Networks.CloudteamV1().NetworkPorts(w.namespace).
			Get(w.Context(), was.Port, metav1.GetOptions{})
		if err != nil {
			return err
		}
		var addresses []string
		for _, address := range port.Status.Addresses {
			addresses = append(addresses, address.Address)
		}
		if is := port.Status; is.PortID == was.PortID || is.MAC != was.MAC || !slices.Equal(addresses, was.IPs) {
			return fmt.Errorf("the port is %s with %s and %v, and was %+v", is.PortID, is.MAC, addresses, was)
		}
		// The Pod's annotation keeps the former id.
		three.on[0].PortID = port.Status.PortID
		return nil
	})
	w.recovers("somebody deleted a port in Neutron, and bound another to another host", began, guests...)
	w.eventually(func() error {
		for _, g := range []*guest{two, three} {
			port := w.admin.One("ports", "id="+g.on[0].PortID)
			// Neutron may leave the port that was bound elsewhere DOWN, although packets flow: see docs/dataplane.md.
			active := port["status"] == "ACTIVE" || g == two
			if !active || port["binding:host_id"] != g.node.Name {
				return fmt.Errorf("the port of %s is %v on %v", g.Name, port["status"], port["binding:host_id"])
			}
		}
		return nil
	})
	w.same("ports were taken away", before, two.Name, three.Name)
}

// sandbox is the id of a Pod's sandbox.
func (w *world) sandbox(g *guest) string {
	w.Helper()
	id, err := g.node.Run("ctr", "-n", "k8s.io", "containers", "ls", "-q",
		`labels."io.kubernetes.pod.uid"==`+string(g.UID)+`,labels."io.cri-containerd.kind"==sandbox`)
	if err != nil || len(strings.Fields(id)) != 1 {
		w.Fatalf("the sandboxes of Pod %s are %q, %v", g.Name, id, err)
	}
	return strings.TrimSpace(id)
}

// aSandboxIsMadeAgain kills a Pod's sandbox, deletes a Pod of a StatefulSet, and then has an old sandbox end late.
func (w *world) aSandboxIsMadeAgain(guests []*guest) []*guest {
	two, db := guests[1], guests[3]
	before := w.holdings(db.Name)
	old := w.sandbox(two)
	began := time.Now()
	if _, err := two.node.Run("ctr", "-n", "k8s.io", "task", "kill", "-s", "SIGKILL", old); err != nil {
		w.Fatal(err)
	}
	w.create(podFor("between", db.node.Name, "both")) // another Pod starts at the same time
	harness.Delete(w, surroundings.Kube.CoreV1().Pods(w.namespace), db.Name)
	was, uid := two.pid, db.UID
	w.eventually(func() error {
		two, db = w.guest("two"), w.guest("db-0")
		if two.pid == was || db.UID == uid {
			return errors.New("the Pods are those of before")
		}
		return nil
	})
	between := w.guest("between")
	if !slices.Equal(db.addresses(0), pinned) {
		w.Errorf("the StatefulSet's Pod came back with %v, want %s", db.addresses(0), pinned)
	}
	guests = []*guest{guests[0], two, guests[2], db}
	w.recovers("a sandbox was killed, and a StatefulSet's Pod was deleted", began, append(slices.Clone(guests), between)...)
	w.removePods("between")
	// The runtime ends the old sandbox once more, when the new one runs.
	began = time.Now()
	env := []string{
		"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "CNI_COMMAND=DEL", "CNI_CONTAINERID=" + old, "CNI_IFNAME=net1", "CNI_PATH=" + programs,
		"CNI_ARGS=IgnoreUnknown=1;K8S_POD_NAMESPACE=" + w.namespace + ";K8S_POD_NAME=two;K8S_POD_UID=" + string(two.UID),
	}
	_, err := two.node.RunWith(`{"cniVersion":"1.0.0","name":"both","type":"neutron-port"}`, env, programs+"/neutron-port")
	if err != nil {
		w.Error(err)
	}
	w.recovers("a late DEL of a former sandbox", began, guests...)
	w.same("a sandbox was made again", before, db.Name, "between")
	return guests
}

// same waits until Neutron and the nodes have what they had before, but for the Pods named, and for new ports of others.
func (w *world) same(after, before string, except ...string) {
	w.Helper()
	w.eventually(func() error {
		is := w.holdings(except...)
		if strings.Count(is, " tap") != strings.Count(before, " tap") {
			return fmt.Errorf("after %s, (-before +after):\n%s", after, cmp.Diff(before, is))
		}
		return keeps(after, before, is)
	})
}

// keeps reports a port of what Neutron had before that is not there as it was.
func keeps(after, before, is string) error {
	for line := range strings.Lines(before) {
		if !strings.Contains(line, " tap") && !strings.Contains(is+"\n", strings.TrimSpace(line)+"\n") {
			return fmt.Errorf("after %s, (-before +after):\n%s", after, cmp.Diff(before, is))
		}
	}
	return nil
}

// processesAreKilled kills each process in turn, as kill -9 does, and starts the same again.
func (w *world) processesAreKilled(guests []*guest) {
	before := w.holdings()
	node := w.nodes.All[0]
	for _, program := range []string{
		"agent", "ovn-controller", "ovs-vswitchd", "ovsdb-server", "containerd", "kubelet",
	} {
		began := time.Now()
		expect.NoError(w, node.Restart(program))
		w.recovers(program+" was killed", began, guests...)
	}
	began := time.Now()
	w.runController("--binding-cloud=admin")
	// A Pod that is new finds all of them at work.
	w.create(podFor("late", node.Name, "both"))
	w.recovers("the controller was killed, for a new Pod", began, append(slices.Clone(guests), w.guest("late"))...)
	w.removePods("late")
	w.same("each process was killed", before, "late")
}

// theCloudIsKilled kills Keystone, Neutron, OVN's databases and northd at once, as kill -9 does. The Pods that run have
// packets meanwhile. A new one starts when the cloud is back.
func (w *world) theCloudIsKilled(guests []*guest) {
	before := w.holdings()
	files, err := filepath.Glob(filepath.Join(filepath.Dir(surroundings.CloudsFile), "run", "*.pid"))
	if err != nil || len(files) != 5 {
		w.Fatalf("the programs of the cloud are %v, %v", files, err)
	}
	began := time.Now()
	for _, file := range files {
		content, err := os.ReadFile(file)
		expect.NoError(w, err)
		first, _, _ := strings.Cut(string(content), " ")
		pid, err := strconv.Atoi(first)
		expect.NoError(w, err)
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			w.Fatalf("killing the program of %s: %v", file, err)
		}
	}
	w.recovers("the cloud was killed", began, guests...)
	w.create(podFor("cloudless", w.nodes.All[0].Name, "both"))
	up := exec.CommandContext(w.Context(), filepath.Join(surroundings.Root, "dev", "openstack", "openstack"), "up", "--dataplane")
	if output, err := up.CombinedOutput(); err != nil {
		w.Fatalf("%v: %s", err, output)
	}
	fmt.Printf("  the cloud answers %s after it was killed\n", nightly.Since(began))
	w.packetsFlow("the cloud was killed, for a new Pod", began, append(slices.Clone(guests), w.guest("cloudless"))...)
	w.removePods("cloudless")
	w.same("the cloud was killed", before, "cloudless")
}

// whatIsWrongIsTold breaks both nodes, and then in another way. A Pod that starts meanwhile has an Event with the cause, and
// starts when all causes are gone. Nobody touches the Pod. They start together: the kubelet's retry is what takes long.
func (w *world) whatIsWrongIsTold(guests []*guest) {
	before := w.holdings()
	first, second := w.nodes.All[0], w.nodes.All[1]
	do := func(errs ...error) {
		w.Helper()
		expect.NoError(w, errors.Join(errs...))
	}
	agent := func(node *nodes.Node, flags ...string) error {
		return node.Restart("agent", agentFlags(node, flags...)...)
	}
	const brief = "--wait=2s" // for an ADD that is to fail

	do(first.Kill("agent"), agent(second, "--host=elsewhere", brief))
	w.nodeSays(second.Name, "dataplane-host", "elsewhere")
	w.create(podFor("agentless", first.Name, "both"), podFor("misnamed", second.Name, "both"))
	w.says(w.namespace, "agentless", "the network-agent does not answer", "look at the Pod of the DaemonSet network-agent")
	w.says(w.namespace, "misnamed", "no NetworkPort of the Pod is prepared for node", "see the condition Attached")
	w.portSays("misnamed", "BindingFailed", "elsewhere")
	w.whySays("misnamed", "BindingFailed")

	// The agent of the first node finds no Open vSwitch; the second has a mode that needs the right to bind.
	do(first.Kill("ovs-vswitchd"), first.Kill("ovsdb-server"), agent(first, brief))
	w.runController() // with a member's rights
	do(agent(second, "--mode=ovs", brief))
	w.nodeSays(second.Name, "dataplane", "ovs")
	w.create(podFor("switchless", first.Name, "both"), podFor("forbidden", second.Name, "both"))
	w.says(w.namespace, "switchless", "Open vSwitch")
	w.says(w.namespace, "forbidden", "no NetworkPort of the Pod is prepared for node", "see the condition Attached")
	w.portSays("forbidden", "BindingFailed", "--binding-cloud")
	began := time.Now()
	do(first.Restart("ovsdb-server"), first.Restart("ovs-vswitchd"), agent(first), agent(second))
	w.runController("--binding-cloud=admin")
	w.nodeSays(second.Name, "dataplane", "ovn")
	healed := slices.Clone(guests)
	for _, name := range []string{"agentless", "misnamed", "switchless", "forbidden"} {
		healed = append(healed, w.guest(name))
	}
	// The kubelet's own pauses between its attempts are a part of this.
	after := "no agent, a wrong host name, no Open vSwitch, and no right to bind"
	w.packetsFlow(after, began, healed...)
	w.attached(after, healed...)

	// A port that is deleted while a Pod has it goes with the Pod.
	allocation := healed[len(healed)-1].on[0]
	ports := surroundings.Networks.CloudteamV1().NetworkPorts(w.namespace)
	began = time.Now()
	do(ports.Delete(w.Context(), allocation.Port, metav1.DeleteOptions{}))
	w.eventually(func() error {
		port, err := ports.Get(w.Context(), allocation.Port, metav1.GetOptions{})
		if err == nil && port.DeletionTimestamp == nil {
			err = errors.New("it is not being deleted")
		}
		return err
	})
	w.recovers("a NetworkPort was deleted under its Pod", began, healed...)
	w.removePods("agentless", "misnamed", "switchless", "forbidden")
	w.same("all was wrong", before)
	w.eventually(func() error {
		if left := w.admin.List("ports", "id="+allocation.PortID); len(left) > 0 {
			return fmt.Errorf("Neutron still has %v", left)
		}
		return nil
	})
}

// nodeSays waits until the agent of a node says something of it.
func (w *world) nodeSays(node, annotation, want string) {
	w.Helper()
	w.eventually(func() error {
		object, err := surroundings.Kube.CoreV1().Nodes().Get(w.Context(), node, metav1.GetOptions{})
		if err == nil && object.Annotations["cloudteam.ztgame.com/"+annotation] != want {
			err = fmt.Errorf("Node %s has the annotations %v, want %s=%s", node, slices.Sorted(maps.Values(object.Annotations)),
				annotation, want)
		}
		return err
	})
}

// portSays waits until the condition Attached of a Pod's port has a reason and words.
func (w *world) portSays(pod, reason, words string) {
	w.Helper()
	w.eventually(func() error {
		ports, err := surroundings.Networks.CloudteamV1().NetworkPorts(w.namespace).List(w.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, port := range ports.Items {
			for _, c := range port.Status.Conditions {
				if port.Status.BoundTo != nil && port.Status.BoundTo.Name == pod && c.Type == "Attached" {
					if c.Reason == reason && strings.Contains(c.Message, words) {
						return nil
					}
					err = fmt.Errorf("the port of Pod %s says %s: %s", pod, c.Reason, c.Message)
				}
			}
		}
		return errors.Join(errors.New("want "+reason+" with "+words), err)
	})
}

// whySays waits until `kubectl network why pod/NAME` names a reason and a remedy; empty if nothing is wrong.
func (w *world) whySays(pod, reason string) {
	w.Helper()
	w.eventually(func() error {
		cluster := &ask.Cluster{Kubernetes: surroundings.Kube, Networks: surroundings.Networks}
		answer, err := why.Explain(w.Context(), cluster, ask.New("Pod", w.namespace, pod), time.Now())
		named := slices.ContainsFunc(answer.Chain, func(l why.Link) bool { return l.Reason == reason })
		if err == nil && (answer.Healthy != (reason == "") || !answer.Healthy && (!named || answer.Remedy == "")) {
			err = fmt.Errorf("kubectl network why pod/%s: want %q, have %+v", pod, reason, answer)
		}
		return err
	})
}

// aNodeVanishes ends the second node without a word. When its Pods are removed, others take their places, and the address
// of the StatefulSet's moves.
func (w *world) aNodeVanishes(guests []*guest) {
	first, second := w.nodes.All[0], w.nodes.All[1]
	one, two, db := guests[0], guests[1], guests[3]
	heard := w.wire(two, "net1")
	before := w.holdings(w.podsOn(second.Name)...)
	began := time.Now()
	second.Vanish()
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}
	core := surroundings.Kube.CoreV1()
	if err := errors.Join(core.Nodes().Delete(w.Context(), second.Name, now),
		core.Pods(w.namespace).DeleteCollection(w.Context(), now,
			metav1.ListOptions{FieldSelector: "spec.nodeName=" + second.Name})); err != nil {
		w.Fatal(err)
	}
	var moved *guest
	w.eventually(func() error {
		if moved = w.guest("db-0"); moved.UID == db.UID {
			return errors.New("the Pod is that of before")
		}
		return nil
	})
	arp, neighbor := false, false
	w.eventually(func() error {
		for _, frame := range heard.next() {
			arp = arp || saysARP(frame, moved.mac(0), pinned[0])
			neighbor = neighbor || advertises(frame, pinned[1])
		}
		if !arp || !neighbor {
			return fmt.Errorf("%v were announced on the new node: by ARP %v, by a neighbor advertisement %v", pinned, arp, neighbor)
		}
		return nil
	})
	w.recovers("a node vanished and its address moved to another", began, one, two, moved)
	pods := w.deployed()
	for _, from := range pods {
		if from.Spec.NodeName != first.Name {
			w.Errorf("Pod %s runs on %s, which is gone", from.Name, from.Spec.NodeName)
		}
		for _, to := range pods {
			w.eventually(func() error { return w.greets(&from, &to) })
		}
	}
	w.nameHas([]*guest{one, two, moved}, pods...)
	for _, pod := range append(pods, *moved.Pod) {
		w.areActive(&pod, first.Name)
	}
	w.eventually(func() error {
		return errors.Join(keeps("a node vanished", before, w.holdings()), w.noneIsBoundTo(second.Name), w.allArePlugged(first))
	})
}

// podsOn are the names of the Pods of the namespace on a node.
func (w *world) podsOn(node string) (names []string) {
	w.Helper()
	pods, err := surroundings.Kube.CoreV1().Pods(w.namespace).
		List(w.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	expect.NoError(w, err)
	for _, pod := range pods.Items {
		names = append(names, pod.Name)
	}
	return names
}

// noneIsBoundTo reports a port of a NetworkPort that Neutron has on a host.
func (w *world) noneIsBoundTo(host string) error {
	w.Helper()
	for _, port := range w.admin.List("ports", "") {
		if port["device_owner"] == "kubernetes:networkport" && port["binding:host_id"] == host {
			return fmt.Errorf("the port %s is still bound to %s", port.ID(), host)
		}
	}
	return nil
}

// allArePlugged reports how the interfaces on a node differ from the ports that Pods have. All Pods are there.
func (w *world) allArePlugged(node *nodes.Node) error {
	w.Helper()
	ports, err := surroundings.Networks.CloudteamV1().NetworkPorts(w.namespace).List(w.Context(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	var want []string
	for _, port := range ports.Items {
		if port.Status.BoundTo != nil {
			want = append(want, fmt.Sprintf("tap%.11s", port.Status.PortID))
		}
	}
	have := w.interfacesOn(node)
	slices.Sort(want)
	slices.Sort(have)
	if !slices.Equal(have, want) {
		return fmt.Errorf("on %s, (-ports +interfaces):\n%s", node.Name, cmp.Diff(want, have))
	}
	return nil
}

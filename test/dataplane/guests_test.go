//go:build linux

package dataplane

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/dev/dataplane/nodes"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/nightly"
)

// guest is a Pod that a kubelet runs.
type guest struct {
	*corev1.Pod
	node *nodes.Node
	// pid is a process of the Pod, as the node counts.
	pid string
	// on are its interfaces on Networks.
	on []cloudteamv1.Allocation
}

// addresses are those of an interface, by its number from 0 on.
func (g *guest) addresses(i int) []netip.Addr {
	var addresses []netip.Addr
	for _, ip := range g.on[i].IPs {
		addresses = append(addresses, netip.MustParsePrefix(ip).Addr())
	}
	return addresses
}

func (g *guest) mac(i int) net.HardwareAddr {
	mac, _ := net.ParseMAC(g.on[i].MAC) // Neutron's
	return mac
}

// inside runs a program in the Pod's network namespace.
func (g *guest) inside(args ...string) (string, error) {
	return g.node.Run("nsenter", append([]string{"--net=/proc/" + g.pid + "/ns/net"}, args...)...)
}

// ping sends one echo request. Options are busybox's.
func (g *guest) ping(address netip.Addr, options ...string) error {
	_, err := g.inside(slices.Concat([]string{"busybox", "ping", "-c1", "-W2"}, options, []string{address.String()})...)
	return err
}

// asks asks for the name of the Pod at an address, which has to contain a name, and waits so many seconds for it.
func (g *guest) asks(address string, seconds int, name string) error {
	answer, err := g.node.Exec(g.Status.ContainerStatuses[0].ContainerID, "sh", "-c",
		fmt.Sprintf(`printf "GET /name HTTP/1.0\r\n\r\n" | nc -w %d %s 80`, seconds, address))
	if err == nil && !strings.Contains(answer, name) {
		err = fmt.Errorf("got %q", answer)
	}
	if err != nil {
		return fmt.Errorf("Pod %s asks %s at %s: %w", g.Name, name, address, err)
	}
	return nil
}

// podFor is a Pod for a node, or for any if that is empty, with networks as its annotation and its name as the label app.
func podFor(name, node, networks string) *corev1.Pod {
	pod := harness.PodOn(name, networks)
	pod.Labels, pod.Spec = map[string]string{"app": name}, specFor(node)
	return pod
}

// serving is the command of a Pod that serves its name by HTTP, as /name.
var serving = []string{"sh", "-c",
	`trap "exit 0" TERM; hostname >/tmp/name; httpd -p 80 -h /tmp; while :; do sleep 1; done`}

// specFor is a Pod's spec that waits for its end.
func specFor(node string) corev1.PodSpec {
	spec := corev1.PodSpec{
		TerminationGracePeriodSeconds: new(int64(1)), AutomountServiceAccountToken: new(false),
		Containers: []corev1.Container{{
			Name: "wait", Image: nodes.ImageBusybox, ImagePullPolicy: corev1.PullNever,
			Command: []string{"sh", "-c", `trap "exit 0" TERM; while :; do sleep 1; done`},
		}},
	}
	if node != "" {
		spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	}
	return spec
}

// create makes Pods.
func (w *world) create(pods ...*corev1.Pod) {
	w.Helper()
	for _, pod := range pods {
		harness.Create(w, surroundings.Kube.CoreV1().Pods(w.namespace), pod)
	}
}

// removePods deletes Pods, and waits until they are gone.
func (w *world) removePods(names ...string) {
	w.Helper()
	pods := surroundings.Kube.CoreV1().Pods(w.namespace)
	for _, name := range names {
		harness.Delete(w, pods, name)
	}
	w.eventually(func() error {
		list, err := pods.List(w.Context(), metav1.ListOptions{})
		for _, pod := range list.Items {
			if slices.Contains(names, pod.Name) {
				return fmt.Errorf("Pod %s is still there", pod.Name)
			}
		}
		return err
	})
}

// guest waits until a Pod runs.
func (w *world) guest(name string) *guest {
	w.Helper()
	var g *guest
	w.eventually(func() (err error) {
		pod, err := surroundings.Kube.CoreV1().Pods(w.namespace).Get(w.Context(), name, metav1.GetOptions{})
		if err == nil {
			g, err = w.look(pod)
		}
		return err
	})
	return g
}

// look finds a Pod that runs on its node.
func (w *world) look(pod *corev1.Pod) (*guest, error) {
	running := pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil &&
		len(pod.Status.ContainerStatuses) == 1 && pod.Status.ContainerStatuses[0].State.Running != nil
	i := slices.IndexFunc(w.nodes.All, func(n *nodes.Node) bool { return n.Name == pod.Spec.NodeName })
	if !running || i < 0 {
		return nil, fmt.Errorf("Pod %s does not run: %s", pod.Name, w.eventsOf(pod))
	}
	g := &guest{Pod: pod, node: w.nodes.All[i], on: harness.AllocationsOf(w, pod)}
	id := strings.TrimPrefix(pod.Status.ContainerStatuses[0].ContainerID, "containerd://")
	tasks, err := g.node.Run("ctr", "-n", "k8s.io", "task", "ls")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(tasks) {
		if words := strings.Fields(line); len(words) == 3 && words[0] == id {
			g.pid = words[1]
			return g, nil
		}
	}
	return nil, fmt.Errorf("%s has no container %s of Pod %s: %s", g.node.Name, id, pod.Name, tasks)
}

// eventsOf are the messages of a Pod's Events, and what its ports say.
func (w *world) eventsOf(pod *corev1.Pod) string {
	var text strings.Builder
	events, err := surroundings.Kube.CoreV1().Events(pod.Namespace).List(w.Context(),
		metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(pod.UID)})
	if err != nil {
		return err.Error()
	}
	for _, event := range events.Items {
		fmt.Fprintf(&text, "\n%s: %s", event.Reason, event.Message)
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Status == corev1.ConditionFalse {
			fmt.Fprintf(&text, "\n%s: %s", condition.Type, condition.Message)
		}
	}
	return text.String()
}

// says waits until an Event of a Pod has words.
func (w *world) says(namespace, name string, words ...string) {
	w.Helper()
	w.eventually(func() error {
		pod, err := surroundings.Kube.CoreV1().Pods(namespace).Get(w.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		text := w.eventsOf(pod)
		for _, word := range words {
			if !strings.Contains(text, word) {
				return fmt.Errorf("no Event of Pod %s/%s has %q:%s", namespace, name, word, text)
			}
		}
		return nil
	})
}

// pairs pings from each to each, by each family, on their first interfaces.
func pairs(guests []*guest) error {
	var group errgroup.Group
	group.SetLimit(8)
	for _, from := range guests {
		for _, to := range guests {
			for _, address := range to.addresses(0) {
				if from.UID == to.UID {
					continue
				}
				group.Go(func() error {
					if err := from.ping(address); err != nil {
						return fmt.Errorf("Pod %s pings %s: %w", from.Name, to.Name, err)
					}
					return nil
				})
			}
		}
	}
	return group.Wait()
}

// outage is how long a failure may stop packets, as docs/dataplane.md says.
const outage = 30 * time.Second

// recovers waits until packets flow between all guests, and the condition Attached of their ports says so. At night, the
// test fails if packets did not flow within the outage from began on, which is when the failure began.
func (w *world) recovers(after string, began time.Time, guests ...*guest) {
	w.Helper()
	w.packetsFlow(after, began, guests...)
	nightly.Since(began).Within(w, "packets flow after "+after, outage)
	w.attached(after, guests...)
}

// packetsFlow waits until packets flow between all guests, and tells how long that took.
func (w *world) packetsFlow(after string, began time.Time, guests ...*guest) {
	w.Helper()
	if err := harness.Poll(w.Context().Done(), patience, 200*time.Millisecond, func() error { return pairs(guests) }); err != nil {
		w.Fatalf("after %s: %v", after, err)
	}
	fmt.Printf("  packets flow %s after: %s\n", nightly.Since(began), after)
}

// attached waits until the condition Attached of all ports of guests is True.
func (w *world) attached(after string, guests ...*guest) {
	w.Helper()
	w.eventually(func() error {
		ports, err := surroundings.Networks.CloudteamV1().NetworkPorts(w.namespace).List(w.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, port := range ports.Items {
			used := slices.ContainsFunc(guests, func(g *guest) bool {
				return port.Status.BoundTo != nil && port.Status.BoundTo.UID == g.UID
			})
			if used && !meta.IsStatusConditionTrue(port.Status.Conditions, cloudteamv1.ConditionAttached) {
				return fmt.Errorf("after %s, NetworkPort %s is not Attached: %+v", after, port.Name, port.Status.Conditions)
			}
		}
		return nil
	})
}

// holdings is what Neutron and the nodes have: the ports of all Pods of the namespace but those named, with ids, addresses
// and hosts, the ports of others, and the interfaces of Pods on nodes that have not vanished. Of others, the host of a
// machine's port counts. Neutron itself moves those of its own, such as a router's.
func (w *world) holdings(except ...string) string {
	w.Helper()
	bound := map[string]string{} // a Pod's name by a port's id; empty for Pods that may change
	pods, err := surroundings.Kube.CoreV1().Pods(w.namespace).List(w.Context(), metav1.ListOptions{})
	expect.NoError(w, err)
	ports, err := surroundings.Networks.CloudteamV1().NetworkPorts(w.namespace).List(w.Context(), metav1.ListOptions{})
	expect.NoError(w, err)
	for _, port := range ports.Items {
		bound[port.Status.PortID] = ""
		for _, pod := range pods.Items {
			if port.Status.BoundTo != nil && port.Status.BoundTo.UID == pod.UID && !slices.Contains(except, pod.Name) {
				bound[port.Status.PortID] = pod.Name
			}
		}
	}
	var lines []string
	for _, port := range w.admin.List("ports", "") {
		pod, known := bound[port.ID()]
		line := fmt.Sprint(port.ID(), " ", port["mac_address"], port["fixed_ips"])
		if port["device_owner"] == foreignOwner {
			line += fmt.Sprint(port["binding:host_id"])
		}
		switch {
		case pod != "":
			lines = append(lines, fmt.Sprint("Pod ", pod, " ", line, port["binding:host_id"]))
		case !known && port["device_owner"] != "kubernetes:networkport": // another NetworkPort is being deleted
			lines = append(lines, "another's "+line)
		}
	}
	for _, node := range w.nodes.All {
		if node.Vanished() {
			continue
		}
		for _, name := range w.interfacesOn(node) {
			lines = append(lines, node.Name+" "+name)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// interfacesOn are the names of the interfaces of Pods in a node's switch.
func (w *world) interfacesOn(node *nodes.Node) []string {
	w.Helper()
	bridge, err := node.Run("ovs-vsctl", "--timeout=30", "list-ports", "br-int")
	expect.NoError(w, err)
	return slices.DeleteFunc(strings.Fields(bridge), func(name string) bool { return !strings.HasPrefix(name, "tap") })
}

// foreignOwner is the device owner of a port that is no NetworkPort's. Nova's have the form compute:ZONE.
const foreignOwner = "compute:test"

// foreignPort makes a port of somebody else in the controller's own project, bound to a host.
func (w *world) foreignPort(host string) {
	w.Helper()
	network := w.tenant.Create("networks", harness.Resource{"name": "foreign-" + w.namespace})
	w.tenant.Create("subnets", harness.Resource{"network_id": network.ID(), "ip_version": 4, "cidr": "10.33.0.0/24"})
	// From Neutron 29 on, a member may not delete a port of such an owner.
	port := w.admin.Create("ports", harness.Resource{
		"network_id": network.ID(), "project_id": network["project_id"], "device_owner": foreignOwner,
	})
	w.admin.Update("ports", port.ID(), harness.Resource{"binding:host_id": host})
}

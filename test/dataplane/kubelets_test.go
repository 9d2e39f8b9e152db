//go:build linux

package dataplane

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/dev/dataplane/nodes"
	"cloudteam.ztgame.com/network-controller/internal/node/nodetest"
	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/nightly"
)

// replicas is how many Pods two nodes get, so that some are neighbours and some are not.
const replicas = 3

// part is a part of a test, which leaves the guests as they were for the next one.
type part struct {
	name string
	run  func(*world)
}

// TestPodsOnKubelets has one cluster for what users and tenants do to Pods and, without -short, for what operators and
// failures do.
func TestPodsOnKubelets(t *testing.T) {
	if cannot == "" {
		makeOutside(t)
	}
	w := newCluster(t, "level 4, two kubelets")
	if _, err := w.nodes.Outside("ip", "addr", "add", outsideGateway+"/24", "dev", "br0"); err != nil {
		t.Fatal(err)
	}
	w.foreignPort(w.nodes.All[0].Name)
	w.startCoreDNS()
	var guests []*guest
	parts := []part{
		{"Pods of a Deployment reach each other", (*world).aDeploymentServes},
		{"Pods have the interfaces that their Networks say", func(w *world) { guests = w.newGuests() }},
		{"the router answers, and a Service's floating IP", func(w *world) { w.aFloatingIPAnswers(guests) }},
		{"the name of a Service resolves to its Pods", func(w *world) { w.aNameResolvesToPods(guests) }},
		{"a MultiNetworkPolicy closes and opens", func(w *world) { w.aPolicyClosesAndOpens(guests) }},
		{"MultiNetworkPolicies of all forms allow what they say", (*world).drawnPoliciesAllowWhatTheySay},
		{"tenants get nothing of others", func(w *world) { w.tenantsGetNothing(guests) }},
		{"a user captures packets", func(w *world) { w.aUserCaptures(guests) }},
	}
	rest := []part{
		{"a virtual machine migrates", func(w *world) { w.aMachineMigrates(guests[0]) }},
		{"a user tests the connections of a Network", func(w *world) { w.connectionsAreTested(guests) }},
		{"ports that somebody takes away in Neutron come back", func(w *world) { w.portsAreTakenAway(guests) }},
		{"a sandbox is made again", func(w *world) { guests = w.aSandboxIsMadeAgain(guests) }},
		{"processes are killed", func(w *world) { w.processesAreKilled(guests) }},
		{"the cloud is killed", func(w *world) { w.theCloudIsKilled(guests) }},
		{"what is wrong is told, and heals", func(w *world) { w.whatIsWrongIsTold(guests) }},
		{"a node vanishes", func(w *world) { w.aNodeVanishes(guests) }},
	}
	if !testing.Short() {
		parts = append(parts, rest...)
	}
	for _, part := range parts {
		if !t.Run(part.name, func(t *testing.T) {
			began := time.Now()
			part.run(w.in(t))
			fmt.Printf("%s: %s\n", nightly.Since(began), part.name)
		}) {
			return
		}
	}
}

// in is the world for a part of its test.
func (w *world) in(t *testing.T) *world {
	part := *w
	part.T = t
	part.admin = harness.Open(t, w.clouds, "admin")
	part.tenant = harness.Open(t, w.clouds, "tenant")
	return &part
}

// aDeploymentServes is what a user does first, and a second Network, with both families. The Deployment stays.
func (w *world) aDeploymentServes() {
	sample, err := os.ReadFile(filepath.Join(surroundings.Root, "config", "samples", "network.yaml"))
	expect.NoError(w, err)
	pods := w.deploy(w.network(sample).Name + ", " + w.network([]byte(guestNetworks[0])).Name)
	used := map[string]bool{}
	for _, from := range pods {
		used[from.Spec.NodeName] = true
		for _, to := range pods {
			w.eventually(func() error { return w.greets(&from, &to) })
		}
	}
	if len(used) != 2 {
		w.Errorf("the Pods run on %v, want both nodes", used)
	}
	for _, pod := range pods {
		w.areActive(&pod, pod.Spec.NodeName)
		for _, allocation := range harness.AllocationsOf(w, &pod) {
			w.eventually(func() error {
				port, err := surroundings.Networks.CloudteamV1().NetworkPorts(w.namespace).
					Get(w.Context(), allocation.Port, metav1.GetOptions{})
				if err == nil && !meta.IsStatusConditionTrue(port.Status.Conditions, cloudteamv1.ConditionAttached) {
					err = fmt.Errorf("NetworkPort %s is not Attached: %+v", port.Name, port.Status.Conditions)
				}
				return err
			})
		}
	}
}

// areActive waits until all ports of a Pod are ACTIVE on a node.
func (w *world) areActive(pod *corev1.Pod, node string) {
	w.Helper()
	for _, allocation := range harness.AllocationsOf(w, pod) {
		w.eventually(func() error {
			port := w.admin.One("ports", "id="+allocation.PortID)
			if port["status"] != "ACTIVE" || port["binding:host_id"] != node {
				return fmt.Errorf("the port %s of %s is %v on %v", allocation.Port, pod.Name, port["status"], port["binding:host_id"])
			}
			return nil
		})
	}
}

// newCluster is newWorld with kubelets and agents on the nodes, and the controller.
func newCluster(t *testing.T, level string, flags ...string) *world {
	t.Helper()
	needsKubelets(t)
	w := newWorld(t, level)
	w.removeNodes()
	w.startController()
	w.startKubelets(nodes.KubeletOptions{Plugins: []string{filepath.Join(programs, "neutron-port")}})
	w.startAgents(flags...)
	return w
}

// needsKubelets skips a test where no kubelets can run, or fails it.
func needsKubelets(t *testing.T) {
	t.Helper()
	if cannot == "" && os.Getenv(envAssets) == "" {
		nodetest.Skip(t, "no kubelet: %s is not set; run `make test-dataplane`", envAssets)
	}
	if missing := nodes.MissingForKubelets(); cannot == "" && missing != "" {
		nodetest.Skip(t, "%s", missing)
	}
}

// startKubelets starts the kubelet of each node, with the programs of the test, and waits until the Nodes are Ready.
func (w *world) startKubelets(o nodes.KubeletOptions) {
	w.Helper()
	assets := os.Getenv(envAssets)
	o.Kubelet, o.Multus = filepath.Join(assets, "kubelet"), filepath.Join(assets, "multus")
	o.Kubeconfig = surroundings.AdminKubeconfig
	for _, node := range w.nodes.All {
		expect.NoError(w, node.StartKubelet(o))
	}
	w.awaitNodes()
}

// awaitNodes waits until both Nodes are Ready and take Pods.
func (w *world) awaitNodes() {
	w.Helper()
	w.eventually(func() error {
		for _, node := range w.nodes.All {
			object, err := surroundings.Kube.CoreV1().Nodes().Get(w.Context(), node.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			ready := false
			for _, condition := range object.Status.Conditions {
				ready = ready || condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue
			}
			if !ready || len(object.Spec.Taints) > 0 {
				return fmt.Errorf("Node %s is not Ready: %+v", node.Name, object.Status.Conditions)
			}
		}
		return nil
	})
}

// deploy makes a Deployment whose Pods serve their names on a Network, and returns them when they run.
func (w *world) deploy(network string) []corev1.Pod {
	w.Helper()
	labels := map[string]string{"app": "web"}
	harness.Create(w, surroundings.Kube.AppsV1().Deployments(w.namespace), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(replicas)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{selection.Annotation: network}},
				Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: new(int64(2)), AutomountServiceAccountToken: new(false),
					TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
						MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule,
						LabelSelector: &metav1.LabelSelector{MatchLabels: labels},
					}},
					Containers: []corev1.Container{{
						Name: "web", Image: nodes.ImageBusybox, ImagePullPolicy: corev1.PullNever,
						Command: serving,
					}},
				},
			},
		},
	})
	return w.deployed()
}

// deployed waits until the Deployment's Pods run.
func (w *world) deployed() []corev1.Pod {
	w.Helper()
	var pods []corev1.Pod
	w.eventually(func() error {
		list, err := surroundings.Kube.CoreV1().Pods(w.namespace).
			List(w.Context(), metav1.ListOptions{LabelSelector: "app=web"})
		if err != nil {
			return err
		}
		pods = nil
		for _, pod := range list.Items {
			if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
				pods = append(pods, pod)
			}
		}
		if len(pods) == replicas {
			return nil
		}
		events, err := surroundings.Kube.CoreV1().Events(w.namespace).List(w.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		var last strings.Builder
		for _, event := range events.Items[max(0, len(events.Items)-10):] {
			fmt.Fprintf(&last, "\n%s %s: %s", event.InvolvedObject.Name, event.Reason, event.Message)
		}
		return fmt.Errorf("%d of %d Pods run; the last events are%s", len(pods), replicas, last.String())
	})
	return pods
}

// greets has one Pod ping another and ask it for its name, at each of its addresses in Neutron.
func (w *world) greets(from, to *corev1.Pod) error {
	i := slices.IndexFunc(w.nodes.All, func(n *nodes.Node) bool { return n.Name == from.Spec.NodeName })
	if i < 0 {
		return fmt.Errorf("%s is on no node", from.Name)
	}
	asked := 0
	for _, allocation := range harness.AllocationsOf(w, to) {
		for _, ip := range allocation.IPs {
			asked++
			address, _, _ := strings.Cut(ip, "/")
			answer, err := w.nodes.All[i].Exec(from.Status.ContainerStatuses[0].ContainerID, "sh", "-c",
				"ping -c1 -W2 "+address+` >/dev/null && printf "GET /name HTTP/1.0\r\n\r\n" | nc -w 5 `+address+" 80")
			if err == nil && !strings.Contains(answer, to.Name) {
				err = fmt.Errorf("got %q", answer)
			}
			if err != nil {
				return fmt.Errorf("%s asks %s at %s: %w", from.Name, to.Name, address, err)
			}
		}
	}
	if asked != 3 {
		return fmt.Errorf("%s has %d addresses, want one of the sample and one of each family", to.Name, asked)
	}
	return nil
}

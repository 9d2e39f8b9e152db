// Package conntest checks from inside whether packets flow on a Network: it starts Pods there, has them probe each
// other, the gateway and other addresses, and removes them. Everything is done with the user's own rights.
package conntest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/why"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// MaxNodes limits the Pods of a test: each probes each other one.
const MaxNodes = 50

// EachNode asks for a Pod on each node, in Options.Nodes.
const EachNode = "*"

// Target is an address that the user names, with a TCP port or 0.
type Target struct {
	Addr netip.Addr
	Port uint16
}

// ParseTarget reads ADDRESS, ADDRESS:PORT or [ADDRESS]:PORT.
func ParseTarget(text string) (Target, error) {
	if address, err := netip.ParseAddr(text); err == nil && address.Zone() == "" {
		return Target{Addr: address.Unmap()}, nil
	}
	if both, err := netip.ParseAddrPort(text); err == nil && both.Addr().Zone() == "" && both.Port() != 0 {
		return Target{both.Addr().Unmap(), both.Port()}, nil
	}
	return Target{}, fmt.Errorf("--to %q is no address: write one such as 192.0.2.7, 192.0.2.7:443 or [2001:db8::7]:443. "+
		"Names are not looked up", text)
}

func (t Target) String() string {
	if t.Port == 0 {
		return t.Addr.String()
	}
	return netip.AddrPortFrom(t.Addr, t.Port).String()
}

// Options say what to check.
type Options struct {
	// Namespace gets the Pods.
	Namespace string
	// Network is the Network that they are on.
	Network types.NamespacedName
	// Image has the program network-agent. Empty means that of the nodes' agents.
	Image string
	// Nodes get one Pod each; EachNode means all that take Pods. Empty means two Pods, on different nodes if there are
	// two.
	Nodes []string
	// To are addresses that each Pod probes beside the others.
	To []Target
	// Port is the TCP port that the Pods listen on.
	Port uint16
	// Timeout is how long the Pods may take to get ports, and again to start.
	Timeout time.Duration
	// Throughput is how long the first Pod and each other one send to each other, to measure it; 0 means not at all.
	Throughput time.Duration
	// ID is a part of the Pods' names. No two tests of a namespace MAY have the same.
	ID string
	// Now is the time, to judge what objects say.
	Now func() time.Time
	// Log gives the log of a probe's container, of at most MaxLog bytes.
	Log func(ctx context.Context, namespace, pod, container string) ([]byte, error)
	// Progress gets a line when a Pod gets further.
	Progress func(line string)
}

// MaxLog is the most that is read of a log, in bytes.
const MaxLog = 4 << 20

// State is the outcome of a check.
type State string

// The states. Skipped means that the Pod could not make the check, so that nothing is known.
const (
	Passed  State = "OK"
	Failed  State = "FAIL"
	Skipped State = "SKIP"
)

// Check is one check. From is a Pod, and To a Pod, "gateway", an address of the user's, or empty.
type Check struct {
	State State  `json:"state"`
	From  string `json:"from"`
	To    string `json:"to,omitempty"`
	// Address is where the packets went.
	Address string `json:"address,omitempty"`
	// What is "start", "interface", "ICMP", "TCP" or Throughput.
	What string `json:"what"`
	// Milliseconds is how long a check took that passed.
	Milliseconds float64 `json:"milliseconds,omitempty"`
	// MegabitsPerSecond is what the Pod To got, in payload.
	MegabitsPerSecond float64 `json:"megabitsPerSecond,omitempty"`
	// Says is what was found, and Remedy what to do. If the check passed, they are empty, or say what the figure lacks.
	Says   string `json:"says,omitempty"`
	Remedy string `json:"remedy,omitempty"`
}

// Pod is a Pod of the test.
type Pod struct {
	Name string `json:"name"`
	// Node is empty if the Pod got none.
	Node      string   `json:"node,omitempty"`
	Addresses []string `json:"addresses,omitempty"`
}

// Report is the outcome of a test.
type Report struct {
	Network string `json:"network"`
	// Passed is true if no check failed.
	Passed bool    `json:"passed"`
	Pods   []Pod   `json:"pods"`
	Checks []Check `json:"checks"`
	// Note says what bounds the throughput, if it was measured.
	Note string `json:"note,omitempty"`
}

// test is one call of Run.
type test struct {
	*ask.Cluster
	Options
	network *cloudteamv1.Network
	// pods are in the order of their names.
	pods []*member
	// measuring bounds how long the measurement of throughput takes.
	measuring time.Duration
}

// Run makes a test. It returns when its Pods are deleted, also after an error, and when ctx ends. Only an error means
// that no verdict was reached, or that Pods are left; a connection that does not work is in the Report.
func Run(ctx context.Context, c *ask.Cluster, o Options) (Report, error) {
	t := &test{Cluster: c, Options: o}
	if err := t.prepare(ctx); err != nil {
		return Report{}, err
	}
	report, err := t.report(ctx)
	left := t.remove(context.WithoutCancel(ctx))
	switch {
	case ctx.Err() != nil && left == nil:
		return Report{}, errors.New("interrupted: the Pods are deleted")
	case ctx.Err() != nil:
		return Report{}, left
	}
	return report, errors.Join(err, left)
}

// report makes the test with Pods that are still to be created, and leaves them.
func (t *test) report(ctx context.Context) (Report, error) {
	if err := t.start(ctx); err != nil {
		return Report{}, err
	}
	if err := t.observe(ctx); err != nil {
		return Report{}, err
	}
	report := Report{Network: t.Network.String(), Checks: t.checks(ctx), Note: t.bounds()}
	for _, m := range t.pods {
		report.Pods = append(report.Pods, m.Pod)
	}
	report.Passed = !slices.ContainsFunc(report.Checks, func(c Check) bool { return c.State == Failed })
	return report, nil
}

// why explains an object. What the user may not read for that is no note of the test.
func (t *test) why(ctx context.Context, kind, namespace, name string) (why.Answer, error) {
	quiet := &ask.Cluster{Kubernetes: t.Kubernetes, Networks: t.Networks}
	return why.Explain(ctx, quiet, ask.New(kind, namespace, name), t.Now())
}

// prepare finds out whether the test can be made, before anything is created, and decides which Pods it has.
func (t *test) prepare(ctx context.Context) (err error) {
	if err := t.mayAll(ctx); err != nil {
		return err
	}
	of := ask.New(why.KindNetwork, t.Network.Namespace, t.Network.Name)
	answer, err := t.why(ctx, of.Kind, of.Namespace, of.Name)
	if err != nil {
		return err
	}
	t.network, err = t.Networks.CloudteamV1().Networks(of.Namespace).Get(ctx, of.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading %s: %w", of, err)
	}
	if !meta.IsStatusConditionTrue(t.network.Status.Conditions, cloudteamv1.ConditionReady) {
		return fmt.Errorf("%s is not Ready, so no Pod gets a port: %s See kubectl network why network/%s -n %s", of,
			answer.Summary, of.Name, of.Namespace)
	}
	nodes, err := t.nodes(ctx)
	if err != nil {
		return err
	}
	if t.Throughput > 0 {
		if len(nodes) < 2 {
			return errors.New("--throughput needs two Pods: name two nodes with --nodes, or none")
		}
		t.measuring = 2 * time.Duration(len(nodes)-1) * (t.Throughput + slack)
	}
	if t.Image == "" {
		if t.Image, err = AgentsImage(ctx, t.Kubernetes); err != nil {
			return err
		}
	}
	annotation, err := t.annotation()
	if err != nil {
		return err
	}
	t.removeOld(ctx)
	for i, node := range nodes {
		m := &member{Pod: Pod{Name: fmt.Sprintf("%s%s-%d", namePrefix, t.ID, i+1)}}
		m.object = t.podFor(m.Name, node, annotation, len(nodes))
		t.pods = append(t.pods, m)
	}
	return nil
}

// needs are the rights that a test needs.
var needs = []authorizationv1.ResourceAttributes{
	{Resource: "pods", Verb: "create"}, {Resource: "pods", Verb: "list"}, {Resource: "pods", Verb: "patch"},
	{Resource: "pods", Verb: "delete"}, {Resource: "pods", Subresource: "log", Verb: "get"},
}

// mayAll returns an error if the user lacks a right. It asks before anything is created: who may create Pods and not
// delete them would leave them behind. If nobody answers, the requests themselves will tell.
func (t *test) mayAll(ctx context.Context) error {
	lacks := ask.Lacks(ctx, t.Kubernetes, t.Namespace, needs...)
	if len(lacks) == 0 {
		return nil
	}
	return fmt.Errorf("you may not %s in namespace %s: the test starts Pods there. Ask for these rights, such as by the "+
		"role edit, or test in another namespace (-n) that may use the Network", strings.Join(lacks, ", "), t.Namespace)
}

// nodes gives the node of each Pod, or "" where the scheduler chooses.
func (t *test) nodes(ctx context.Context) ([]string, error) {
	list, err := t.Kubernetes.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	each := slices.Contains(t.Nodes, EachNode)
	switch {
	case err != nil && (each || !apierrors.IsForbidden(err)):
		return nil, fmt.Errorf("listing Nodes, for --nodes and for what they say of their data plane: %w", err)
	case err == nil && !slices.ContainsFunc(list.Items, hasDataplane):
		return nil, errors.New("no node has a data plane, so no Pod on a Network gets packets. Install the node agent " +
			"(kubectl apply -k config/node, see docs/dataplane.md)")
	case len(t.Nodes) == 0:
		return []string{"", ""}, nil
	}
	var chosen []string
	if each {
		chosen = t.willing(list.Items)
	} else {
		chosen = slices.Compact(slices.Sorted(slices.Values(t.Nodes)))
		for _, name := range chosen {
			if err == nil && !slices.ContainsFunc(list.Items, func(n corev1.Node) bool { return n.Name == name }) {
				return nil, fmt.Errorf("there is no Node %s: correct --nodes (kubectl get nodes)", name)
			}
		}
	}
	switch {
	case len(chosen) == 0:
		return nil, errors.New("no node takes Pods: all are cordoned, tainted or not Ready (kubectl get nodes)")
	case len(chosen) > MaxNodes:
		return nil, fmt.Errorf("a test has at most %d Pods, and these are %d nodes: choose some with --nodes=NODE,NODE",
			MaxNodes, len(chosen))
	}
	return chosen, nil
}

func hasDataplane(node corev1.Node) bool {
	return node.Annotations[cloudteamv1.AnnotationDataplane] != ""
}

// willing are the names of the nodes that take a Pod without tolerations. It notes the others.
func (t *test) willing(nodes []corev1.Node) (names []string) {
	for _, node := range nodes {
		keeps := slices.IndexFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
			return taint.Effect != corev1.TaintEffectPreferNoSchedule
		})
		switch {
		case node.Spec.Unschedulable:
			t.Note("Node %s is left out: it is cordoned.", node.Name)
		case keeps >= 0:
			t.Note("Node %s is left out: it has the taint %s.", node.Name, node.Spec.Taints[keeps].Key)
		case cmp.Or(node.Labels[corev1.LabelOSStable], "linux") != "linux":
			t.Note("Node %s is left out: its operating system is %s.", node.Name, node.Labels[corev1.LabelOSStable])
		default:
			names = append(names, node.Name)
		}
	}
	slices.Sort(names)
	return names
}

// agents is the DaemonSet of config/node, and the container with its image.
var (
	agents         = ask.New("DaemonSet", "network-agent", "network-agent")
	agentContainer = "agent"
)

// AgentsImage is the image of the nodes' agents. It has the program network-agent, it is of the installed version, and
// the nodes have it.
func AgentsImage(ctx context.Context, kube kubernetes.Interface) (string, error) {
	set, err := kube.AppsV1().DaemonSets(agents.Namespace).Get(ctx, agents.Name, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("%s, whose image the command uses, cannot be read. Name that image with --image; the "+
			"administrator who installed the data plane knows it: %w", agents, err)
	}
	for _, container := range set.Spec.Template.Spec.Containers {
		if container.Name == agentContainer {
			return container.Image, nil
		}
	}
	return "", fmt.Errorf("%s has no container %q: name the image of the data plane with --image", agents, agentContainer)
}

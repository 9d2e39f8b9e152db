package kubectl

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"cloudteam.ztgame.com/network-controller/internal/kubectl/conntest"
	"cloudteam.ztgame.com/network-controller/internal/node/probe"
	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// lab plays the controller, the scheduler, the kubelets and the network of a test of connections.
type lab struct {
	// answer gives the outcome of an attempt of a Pod; nil means that all succeed.
	answer func(from *corev1.Pod, plan probe.Plan, check probe.Check) probe.Cause
	// starts changes the status of a Pod that has a node; nil means that it runs. It is asked at each list.
	starts func(pod *corev1.Pod)
	// edit changes the API server before the command runs.
	edit func(l *lab, kube *kubefake.Clientset)
	// unreadable is the node whose logs cannot be read.
	unreadable string
	// noPorts is true if the controller gives no Pod a port, oneNode if all Pods get one node.
	noPorts, oneNode bool
	// transfer is what a Pod got of another one, when its log is read the second time; nil means 941 Mbit/s.
	transfer *probe.Transfer
	// transfers never end, or the image knows none.
	endless, older bool
	// v6 gives each Pod an address of IPv6, too.
	v6 bool
	// nodes are the Nodes; the default is two with a data plane.
	nodes []runtime.Object

	kube     *kubefake.Clientset
	attempts map[string]int
	// created are the Pods as the command wanted them, and deleted the names of those that it has deleted.
	created []*corev1.Pod
	deleted map[string]bool
	cancel  context.CancelFunc
}

// tunnelsLost has the nodes' tunnels drop all packets, while the router answers on node1 alone.
func tunnelsLost(from *corev1.Pod, _ probe.Plan, check probe.Check) probe.Cause {
	if check.Kind == probe.KindInterface || from.Spec.NodeName == "node1" && check.To.String() == "192.168.0.1" {
		return ""
	}
	return probe.CauseNoAnswer
}

// labNodes are Nodes with a data plane.
func labNodes(names ...string) (nodes []runtime.Object) {
	for _, name := range names {
		nodes = append(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name,
			Annotations: map[string]string{cloudteamv1.AnnotationDataplane: "ovn"}}})
	}
	return nodes
}

// run runs a command in virtual time.
func (l *lab) run(t *testing.T, objects []runtime.Object, command string) (out string, code int) {
	t.Helper()
	if l.nodes == nil {
		l.nodes = labNodes("node1", "node2")
	}
	return inVirtualTime(t, slices.Concat(objects, l.nodes, []runtime.Object{running()}), command, l.attach,
		func(f *factory, cancel context.CancelFunc) {
			f.logs = func(kubernetes.Interface) logReader { return l.log }
			l.cancel = cancel
		})
}

// inVirtualTime runs a command in a cluster with an agent. It has the API server and the factory prepared before.
func inVirtualTime(t *testing.T, objects []runtime.Object, command string, attach func(*kubefake.Clientset),
	prepare func(f *factory, ctrlC context.CancelFunc),
) (out string, code int) {
	t.Helper()
	agent := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "network-agent", Name: "network-agent"}}
	agent.Spec.Template.Spec.Containers = []corev1.Container{{Name: "agent", Image: "registry.example.org/network-controller:v1"}}
	f, printed := factoryOf(t, append([]runtime.Object{agent}, objects...))
	inner := f.clients
	f.clients = func() (kubernetes.Interface, versioned.Interface, error) {
		kube, networks, err := inner()
		attach(kube.(publishing).Clientset)
		return kube, networks, err
	}
	f.id = func() string { return "x7k2p" }
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		prepare(f, cancel)
		c := f.command()
		c.SetContext(ctx)
		out, code = execute(c, printed, command)
	})
	return out, code
}

// answersReviews has the API server say what the user may do.
func answersReviews(kube *kubefake.Clientset, may func(*authorizationv1.ResourceAttributes) bool) {
	kube.PrependReactor("create", "selfsubjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview)
		review.Status.Allowed = may(review.Spec.ResourceAttributes)
		return true, review, nil
	})
}

func anything(*authorizationv1.ResourceAttributes) bool { return true }

var podsResource = corev1.SchemeGroupVersion.WithResource("pods")

// attach has the API server do what the parts would do.
func (l *lab) attach(kube *kubefake.Clientset) {
	l.kube, l.attempts, l.deleted = kube, map[string]int{}, map[string]bool{}
	answersReviews(kube, anything)
	l.kube.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		pod := a.(clienttesting.CreateAction).GetObject().(*corev1.Pod)
		l.created = append(l.created, pod.DeepCopy())
		pod.UID, pod.CreationTimestamp = types.UID("uid-of-"+pod.Name), metav1.NewTime(now)
		if l.noPorts {
			return false, nil, nil
		}
		i := len(l.created)
		allocation := cloudteamv1.Allocation{Name: "shop/frontend", IPs: []string{fmt.Sprintf("192.168.0.%d/29", 2+i)},
			MAC: fmt.Sprintf("fa:16:3e:00:00:0%d", i), Gateway: []string{"192.168.0.1"}, MTU: 1442, Port: pod.Name}
		if l.v6 {
			allocation.IPs = append(allocation.IPs, fmt.Sprintf("fd00:30::%d/64", 2+i))
		}
		text, err := json.Marshal([]cloudteamv1.Allocation{allocation})
		if err != nil {
			return true, nil, err
		}
		pod.Annotations[cloudteamv1.AnnotationAllocations] = string(text)
		pod.Spec.SchedulingGates = slices.DeleteFunc(pod.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool {
			return g.Name == cloudteamv1.SchedulingGate
		})
		return false, nil, nil
	})
	l.kube.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		for i, wanted := range l.created {
			if err := l.proceed(i, wanted.Namespace, wanted.Name); err != nil {
				return true, nil, err
			}
		}
		return false, nil, nil
	})
	l.kube.PrependReactor("delete", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		l.deleted[a.(clienttesting.DeleteAction).GetName()] = true
		return false, nil, nil
	})
	if l.edit != nil {
		l.edit(l, l.kube) // what is prepended last comes first
	}
}

// proceed takes a Pod without gates to its next state.
func (l *lab) proceed(i int, namespace, name string) error {
	object, err := l.kube.Tracker().Get(podsResource, namespace, name)
	if apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return err
	}
	pod := object.(*corev1.Pod).DeepCopy()
	if len(pod.Spec.SchedulingGates) > 0 {
		return nil
	}
	if pod.Spec.NodeName = fmt.Sprintf("node%d", i+1); l.oneNode {
		pod.Spec.NodeName = "node1"
	}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: conntest.Container, Ready: true,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	if l.starts != nil {
		l.starts(pod)
	}
	if equality.Semantic.DeepEqual(object, pod) {
		return nil // an update costs the fake 20 ms
	}
	return l.kube.Tracker().Update(podsResource, pod, namespace)
}

// log is what the probe of a Pod has said so far.
func (l *lab) log(_ context.Context, namespace, name, _ string) ([]byte, error) {
	object, err := l.kube.Tracker().Get(podsResource, namespace, name)
	if err != nil {
		return nil, err
	}
	pod := object.(*corev1.Pod)
	if pod.Spec.NodeName == l.unreadable {
		return nil, errors.New("dial tcp 198.51.100.1:10250: i/o timeout")
	}
	var plan probe.Plan
	for key, value := range pod.Annotations {
		if strings.HasSuffix(key, "/conntest-plan") {
			if plan, err = probe.ReadPlan(value); err != nil {
				return nil, err
			}
		}
	}
	l.attempts[name]++
	var log strings.Builder
	for i, check := range plan.Checks {
		result := probe.Result{Check: i, Attempt: l.attempts[name]}
		if l.answer != nil {
			result.Cause = l.answer(pod, plan, check)
		}
		if result.Cause == "" {
			result.OK, result.Attempt, result.Took = true, 1, 412*time.Microsecond
			if plan.Loads(i) && !l.older {
				if result.Waits = l.endless || l.attempts[name] < 2; !result.Waits {
					result.Got = cmp.Or(l.transfer, &probe.Transfer{Bytes: 588_125_000, Took: 5 * time.Second})
				}
			}
		} else {
			result.Error = "what the system says"
		}
		line, err := json.Marshal(result)
		if err != nil {
			return nil, err
		}
		log.Write(append(line, '\n'))
	}
	return []byte(log.String()), nil
}

// forbid has the API server refuse a verb.
func forbid(kube *kubefake.Clientset, verb, resource string) {
	kube.PrependReactor(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", errors.New("no rule allows it"))
	})
}

// fails gives an answer of a lab where some checks fail.
func fails(cause probe.Cause, kinds ...probe.Kind) func(*corev1.Pod, probe.Plan, probe.Check) probe.Cause {
	return func(_ *corev1.Pod, _ probe.Plan, check probe.Check) probe.Cause {
		if slices.Contains(kinds, check.Kind) {
			return cause
		}
		return ""
	}
}

// waits has the container of node2's Pod wait for a reason.
func waits(reason, message string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		if pod.Spec.NodeName == "node2" {
			pod.Status.Phase = corev1.PodPending
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: conntest.Container,
				State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}
		}
	}
}

func TestConnectionsAreTested(t *testing.T) {
	onRouter := frontend(2)
	onRouter.Status.Router = &cloudteamv1.RouterStatus{ID: "64d5e0f7", ExternalNetworkID: "5c0a9d3e"}
	bothFamilies := frontend(2)
	bothFamilies.Status.Subnets = append(bothFamilies.Status.Subnets, cloudteamv1.SubnetStatus{CIDR: "fd00:30::/64"})
	notReady := frontend(2)
	notReady.Status.Conditions = conditions("False", "QuotaExceeded", "Quota exceeded for resource network.")
	noPort := webPort("conntest-x7k2p-1", "")
	noPort.OwnerReferences = owner("Pod", "v1", "conntest-x7k2p-1")
	event := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "sandbox"}, Reason: "FailedCreatePodSandBox",
		InvolvedObject: corev1.ObjectReference{UID: "uid-of-conntest-x7k2p-2"}, LastTimestamp: metav1.NewTime(now),
		Message: "dial unix /run/network-agent/agent.sock: connect: no such file or directory"}
	detached := webPort("conntest-x7k2p-2", "192.168.0.4/29")
	detached.OwnerReferences = owner("Pod", "v1", "conntest-x7k2p-2")
	detached.Status.Attachment = &cloudteamv1.PortAttachment{Node: "node2", Mode: "ovn"}
	detached.Status.Conditions = append(detached.Status.Conditions, metav1.Condition{Type: cloudteamv1.ConditionAttached,
		Status: metav1.ConditionFalse, Reason: cloudteamv1.ReasonPlugFailed, Message: "No packets flow."})

	three := labNodes("node1", "node2", "node3")
	cordoned := labNodes("node4")
	cordoned[0].(*corev1.Node).Spec.Unschedulable = true
	silent := fails(probe.CauseNoAnswer, probe.KindICMP, probe.KindTCP)
	for sentence, tc := range map[string]struct {
		lab lab
		// objects are a Network with addresses, if there are none.
		objects []runtime.Object
		flags   string
		code    int
		// has are parts of the output, and lacks others that it has not.
		has, lacks []string
	}{
		"all passes": {has: []string{"OK     node1  node2  192.168.0.4:8080  TCP        0.4 ms", "6 of 6 checks passed."},
			lacks: []string{"gateway"}},
		"both families": {lab: lab{v6: true}, objects: []runtime.Object{bothFamilies},
			has: []string{"[fd00:30::4]:8080", "ICMP", "12 of 12 checks passed."}},
		"the router and an address outside": {objects: []runtime.Object{onRouter}, flags: "--to 192.0.2.7",
			has: []string{"gateway", "192.0.2.7", "10 of 10 checks passed."}},
		"a Pod on each node": {lab: lab{nodes: slices.Concat(three, cordoned)}, flags: "--nodes",
			has:   []string{"15 of 15 checks passed.", "Node node4 is left out: it is cordoned."},
			lacks: []string{"FROM"}},
		"all checks of many nodes, if asked": {lab: lab{nodes: three}, flags: "--nodes -o wide", has: []string{"OK     node3  node1"}},
		"nodes by name":                      {flags: "--nodes=node1", has: []string{"1 of 1 checks passed."}},
		"a node that does not exist":         {flags: "--nodes=node1,node9", code: 1, has: []string{"there is no Node node9"}},
		"nobody may ping": {lab: lab{answer: fails(probe.CauseNotAllowed, probe.KindICMP)},
			has: []string{"SKIP", "ping_group_range", "4 of 6 checks passed."}},
		"throughput": {flags: "--throughput",
			has: []string{"OK node2 node1 192.168.0.3 throughput 941.0 Mbit/s", "OK node1 node2 192.168.0.4 throughput",
				"Transfers that are left: 2.", "8 of 8 checks passed.", "for at most 5s and 1 GiB."}},
		"throughput of many nodes": {lab: lab{nodes: three}, flags: "--nodes --throughput=2s",
			has:   []string{"OK node3 node1", "OK node1 node3", "OK node1 node2", "19 of 19 checks passed.", "for at most 2s"},
			lacks: []string{"OK     node3  node2", "OK     node2  node3"}},
		"throughput on one node": {lab: lab{oneNode: true}, flags: "--throughput",
			has: []string{"941.0 Mbit/s", "Both Pods are on one node: the packets did not leave it."}},
		"throughput with an older image": {lab: lab{older: true}, flags: "--throughput",
			has: []string{"SKIP", "no figure", "the image is older", "6 of 8 checks passed."}},
		"throughput that never ends": {lab: lab{endless: true}, flags: "--throughput",
			has: []string{"SKIP", "no figure", "6 of 8 checks passed."}},
		"a transfer fails": {lab: lab{transfer: &probe.Transfer{Error: "connection reset by peer"}}, flags: "--throughput", code: 2,
			has: []string{"FAIL", "the transfer failed (connection reset by peer)", "ip -s link"}},
		"throughput where nothing passes": {lab: lab{answer: tunnelsLost}, code: 2, flags: "--throughput",
			has: []string{"2 of 6 checks passed."}, lacks: []string{"OK     node2  node1"}},
		"throughput with one Pod": {flags: "--nodes=node1 --throughput", code: 1, has: []string{"--throughput needs two Pods"}},
		"throughput for an hour":  {flags: "--throughput=1h", code: 1, has: []string{"--throughput=1h0m0s: write 1s to 30s"}},

		"no node has the agent": {lab: lab{nodes: []runtime.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1"}}}},
			code: 1, has: []string{"Error: no node has a data plane", "config/node"}},
		"the Network is not Ready": {objects: []runtime.Object{notReady}, code: 1,
			has: []string{"Network shop/frontend is not Ready", "QuotaExceeded", "kubectl network why network/frontend -n shop"}},
		"there is no such Network": {objects: []runtime.Object{noPort}, code: 1, has: []string{"Network shop/frontend does not exist"}},
		"a Pod gets no port": {lab: lab{noPorts: true}, objects: []runtime.Object{frontend(5), noPort}, code: 2,
			has: []string{"FAIL", "start", "It waits for its port for more than 2m0s.", "Network shop/frontend: Full",
				"additionalSubnets", "0 of 2 checks passed."}},
		"a node's agent does not run": {lab: lab{starts: waits("ContainerCreating", "")},
			objects: []runtime.Object{frontend(2), event}, code: 2,
			has: []string{"It starts on node2 for more than 2m0s. Node node2: NoAgent",
				"Start the agent on the node. (kubectl -n network-agent get pods -o wide)", "1 of 2 checks passed."}},
		"the image cannot be pulled": {lab: lab{starts: waits("ImagePullBackOff", "not found")}, code: 2,
			has: []string{"ImagePullBackOff: not found", "--image"}},
		"the image has no such program": {code: 2,
			lab: lab{starts: waits("RunContainerError", `exec: "network-agent": executable file not found`)},
			has: []string{"The image has no network-agent that knows the command probe."}},
		"the image is older than the test": {code: 2, lab: lab{starts: func(pod *corev1.Pod) {
			pod.Status.Phase = corev1.PodFailed
			pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: 1, Message: "network-agent: unknown command \"probe\" for \"network-agent\"\n"}}
			pod.Status.ContainerStatuses[0].Ready = false
		}}, has: []string{"The probe has ended with the code 1. It said: network-agent: unknown command", "upgrade the data plane"}},
		"a Pod is ended by its node": {code: 2, lab: lab{starts: func(pod *corev1.Pod) {
			pod.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "The node was low on memory"}
		}}, has: []string{"The Pod was ended: The node was low on memory."}},
		"the port is not attached": {code: 2,
			lab: lab{answer: fails(probe.CauseNoAddress, probe.KindInterface, probe.KindICMP, probe.KindTCP)},
			has: []string{"FAIL   node1  -", "The Pod lacks the address.", "See that Multus is installed"}},
		"the port of the other Pod has a problem": {code: 2, objects: []runtime.Object{frontend(2), detached}, lab: lab{answer: silent},
			has: []string{"Node node2 says NoAgent: No Pod of network-agent is on the node. Start the agent"}},
		"no packet reaches the other node": {lab: lab{answer: tunnelsLost}, code: 2,
			has: []string{"No answer came.", "UDP 6081", "between node1 and node2"}},
		"no packet reaches a Pod on the same node": {code: 2, lab: lab{answer: silent, oneNode: true},
			has: []string{"Both Pods are on one node."}},
		"a security group drops ICMP": {lab: lab{answer: fails(probe.CauseNoAnswer, probe.KindICMP)}, code: 2,
			has: []string{"TCP passes: a security group"}},
		"a security group drops TCP": {lab: lab{answer: fails(probe.CauseNoAnswer, probe.KindTCP)}, code: 2,
			has: []string{"lets no TCP to port 8080 in"}},
		"large packets get lost": {lab: lab{answer: fails(probe.CauseStalled, probe.KindTCP)}, code: 2,
			has: []string{"large ones do not", "spec.mtu"}},
		"two hosts have one address": {lab: lab{answer: fails(probe.CauseStranger, probe.KindTCP)}, code: 2,
			has: []string{"--fixed-ip ip-address=192.168.0.4"}},
		"an address outside has nobody": {lab: lab{answer: fails(probe.CauseRefused, probe.KindTCP)},
			objects: []runtime.Object{onRouter}, flags: "--nodes=node1 --to 192.0.2.7:443", code: 2,
			has: []string{"192.0.2.7:443", "The host refuses it.", "something listens on the port"}},
		"an address outside without a router": {lab: lab{answer: tunnelsLost}, flags: "--nodes=node1 --to 192.0.2.7", code: 2,
			has: []string{"No router serves the Network"}},
		"an address of a family without a gateway": {flags: "--to 2001:db8::7", code: 1, has: []string{"no gateway of this IP family"}},
		"a name for an address":                    {flags: "--to example.org", code: 1, has: []string{`--to "example.org" is no address`}},

		"the user may not create Pods": {code: 1, lab: lab{edit: func(_ *lab, kube *kubefake.Clientset) {
			answersReviews(kube, func(asks *authorizationv1.ResourceAttributes) bool {
				return asks.Verb != "create" && asks.Subresource != "log"
			})
		}}, has: []string{"Error: you may not create pods, get pods/log in namespace shop"}},
		"the user may not list Nodes": {lab: lab{edit: unread("list", "nodes")}, has: []string{"6 of 6 checks passed."}},
		"a Pod on each node, without the right to list them": {code: 1, flags: "--nodes", lab: lab{edit: unread("list", "nodes")},
			has: []string{"listing Nodes, for --nodes"}},
		"the user may not read the agents' image": {code: 1, lab: lab{edit: unread("get", "daemonsets")},
			has: []string{"DaemonSet network-agent/network-agent, whose image", "--image"}},
		"and names it":         {flags: "--image=a/b:v1", lab: lab{edit: unread("get", "daemonsets")}, has: []string{"6 of 6"}},
		"a log cannot be read": {code: 2, lab: lab{unreadable: "node2"}, has: []string{"The log of the Pod cannot be read", "kubelet"}},
		"a quota refuses the second Pod": {code: 1, lab: lab{edit: func(l *lab, kube *kubefake.Clientset) {
			kube.PrependReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				if len(l.created) < 1 {
					return false, nil, nil
				}
				return true, nil, apierrors.NewForbidden(podsResource.GroupResource(), "x", errors.New("exceeded quota: pods"))
			})
		}}, has: []string{"creating Pod conntest-x7k2p-2", "exceeded quota: pods"}},
		"Ctrl-C": {code: 1, has: []string{"interrupted: the Pods are deleted"}},
		"the API server does not answer a deletion at once": {lab: lab{edit: refuseDeletions(3)}, has: []string{"6 of 6 checks passed."}},
		"the Pods cannot be deleted": {code: 1, lab: lab{edit: refuseDeletions(1000)}, has: []string{"6 of 6 checks passed.",
			"They end by themselves after 4m0s.", "kubectl delete pods -n shop -l cloudteam.ztgame.com/conntest=x7k2p"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			l, objects := &tc.lab, tc.objects
			if sentence == "Ctrl-C" {
				l.starts = func(*corev1.Pod) { l.cancel() }
			}
			if objects == nil {
				objects = []runtime.Object{frontend(2)}
			}
			out, code := l.run(t, objects, strings.TrimSpace("conntest frontend -n shop "+tc.flags))
			expect.Equal(t, tc.code, code, "the exit code")
			flat := strings.Join(strings.Fields(out), " ")
			for _, words := range tc.has {
				if !strings.Contains(out, words) && !strings.Contains(flat, words) {
					t.Errorf("the output lacks %q", words)
				}
			}
			for _, words := range tc.lacks {
				if strings.Contains(out, words) {
					t.Errorf("the output has %q", words)
				}
			}
			for _, pod := range l.created {
				if !l.deleted[pod.Name] && sentence != "the Pods cannot be deleted" {
					t.Errorf("Pod %s is left behind", pod.Name)
				}
			}
			if t.Failed() {
				t.Log(out)
			}
		})
	}
}

// unread has the API server refuse to list, or get, such objects.
func unread(verb, resource string) func(*lab, *kubefake.Clientset) {
	return func(_ *lab, kube *kubefake.Clientset) { forbid(kube, verb, resource) }
}

// refuseDeletions has so many deletions of Pods fail.
func refuseDeletions(times int) func(*lab, *kubefake.Clientset) {
	return func(_ *lab, kube *kubefake.Clientset) {
		kube.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			if times--; times >= 0 {
				return true, nil, apierrors.NewServiceUnavailable("the API server restarts")
			}
			return false, nil, nil
		})
	}
}

func TestPodsOfTestsOfConnections(t *testing.T) {
	routed := frontend(2)
	routed.Status.Router = &cloudteamv1.RouterStatus{ID: "64d5e0f7"}
	l := &lab{}
	if out, code := l.run(t, []runtime.Object{routed}, "conntest frontend -n shop --to 192.0.2.7 --to 192.168.0.5"); code != 0 {
		t.Fatal(out)
	}
	for _, pod := range l.created {
		if got, want := pod.Annotations[selection.Annotation],
			`[{"default-route":["192.168.0.1"],"name":"frontend","namespace":"shop"}]`; got != want {
			t.Errorf("the networks are %s, want %s", got, want)
		}
		if _, err := selection.Parse(pod.Annotations[selection.Annotation], "shop"); err != nil {
			t.Error(err)
		}
		if pod.Spec.Containers[0].Image != "registry.example.org/network-controller:v1" || *pod.Spec.ActiveDeadlineSeconds != 240 {
			t.Errorf("the Pod is %+v", pod.Spec)
		}
	}
	expect.Len(t, 2, l.created, "Pods that were created")
}

// TestThePartsOfAMeasurement has the first Pod take part in all transfers, with one address of each other one.
func TestThePartsOfAMeasurement(t *testing.T) {
	l := &lab{v6: true, nodes: labNodes("node1", "node2", "node3")}
	plans := map[string]*probe.Load{}
	l.edit = func(_ *lab, kube *kubefake.Clientset) {
		kube.PrependReactor("patch", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
			var patch metav1.PartialObjectMetadata
			err := json.Unmarshal(a.(clienttesting.PatchAction).GetPatch(), &patch)
			plan, planErr := probe.ReadPlan(patch.Annotations["cloudteam.ztgame.com/conntest-plan"])
			plans[plan.Name] = plan.Load
			err = errors.Join(err, planErr)
			return err != nil, nil, err
		})
	}
	if out, code := l.run(t, []runtime.Object{frontend(2)}, "conntest frontend -n shop --nodes --throughput=3s"); code != 0 {
		t.Fatal(out)
	}
	const bounds = `{"bytes":1073741824,"time":3000000000,`
	for name, want := range map[string]string{
		"conntest-x7k2p-1": bounds + `"first":true,"with":["192.168.0.4","192.168.0.5"]}`,
		"conntest-x7k2p-2": bounds + `"with":["192.168.0.3"]}`, "conntest-x7k2p-3": bounds + `"with":["192.168.0.3"]}`,
	} {
		got, err := json.Marshal(plans[name])
		expect.NoError(t, err)
		expect.Equal(t, want, string(got), "the part of %s", name)
	}
	// Two minutes for its port, two more, and 13 seconds for each of four transfers.
	expect.Equal(t, int64(240+4*13), *l.created[0].Spec.ActiveDeadlineSeconds, "the seconds that a Pod lives")
}

func TestOldPodsOfTestsAreDeleted(t *testing.T) {
	old := func(name string, age time.Duration) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name),
			Labels: map[string]string{conntest.Label: "abcde"}, CreationTimestamp: metav1.NewTime(now.Add(-age))}}
		pod.Spec.ActiveDeadlineSeconds = new(int64(240))
		return pod
	}
	l := &lab{}
	out, code := l.run(t, []runtime.Object{frontend(2), old("conntest-abcde-1", time.Hour), old("conntest-abcde-2", 13*time.Minute),
		old("web", time.Hour)}, "conntest frontend -n shop")
	if code != 0 || !l.deleted["conntest-abcde-1"] || l.deleted["conntest-abcde-2"] || l.deleted["web"] ||
		!strings.Contains(out, "Pod conntest-abcde-1, which an earlier test left behind, is deleted.") {
		t.Errorf("deleted are %v:\n%s", l.deleted, out)
	}
}

func TestThroughputAsJSON(t *testing.T) {
	out, code := new(lab).run(t, []runtime.Object{frontend(2)}, "conntest frontend -n shop --throughput -o json")
	var report conntest.Report
	if err := json.Unmarshal([]byte(out[strings.Index(out, "{"):]), &report); err != nil || code != 0 {
		t.Fatalf("%v in\n%s", err, out)
	}
	expect.Equal(t, conntest.Check{State: "OK", From: "conntest-x7k2p-2", To: "conntest-x7k2p-1", What: conntest.Throughput,
		Address: "192.168.0.3", MegabitsPerSecond: 941}, report.Checks[3], "a transfer")
	if !strings.Contains(report.Note, "user space") {
		t.Errorf("the note is %q", report.Note)
	}
}

func TestTestsOfConnectionsAsJSON(t *testing.T) {
	out, code := new(lab).run(t, []runtime.Object{frontend(2)}, "conntest frontend -n shop -o json")
	_, printed, _ := strings.Cut(out, "Packets are sent.\n")
	var report conntest.Report
	if err := json.Unmarshal([]byte(printed), &report); err != nil || code != 0 {
		t.Fatalf("%v in\n%s", err, out)
	}
	if !report.Passed || len(report.Pods) != 2 || report.Pods[1].Node != "node2" || len(report.Checks) != 6 ||
		report.Checks[1] != (conntest.Check{State: "OK", From: "conntest-x7k2p-1", To: "conntest-x7k2p-2", What: "ICMP",
			Address: "192.168.0.4", Milliseconds: 0.41}) {
		t.Errorf("got %+v", report)
	}
	if got, _ := run(t, []runtime.Object{frontend(2)}, "__complete -n shop conntest f"); !strings.HasPrefix(got, "frontend\n:4\n") {
		t.Errorf("the completion is %q", got)
	}
}

package conntest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/why"
	"cloudteam.ztgame.com/network-controller/internal/node/probe"
)

const (
	// interval is between two looks at the Pods.
	interval = 500 * time.Millisecond
	// attempts is how often a check may fail while all Pods run. A network needs some packets to learn where a new port
	// is.
	attempts = 5
	// verdictTime bounds how long the attempts may take.
	verdictTime = 45 * time.Second
	// removalTime bounds the deletion of the Pods.
	removalTime = 30 * time.Second
	// oldAge is how much longer than its deadline a Pod stays before another test removes it. Clocks may differ.
	oldAge = 10 * time.Minute
)

// member is a Pod of the test, and what is known of it.
type member struct {
	Pod
	// object is what is to be created, and then what was last seen.
	object *corev1.Pod
	// asked is true once the Pod may exist.
	asked bool
	// addresses are its own on the Network, and gateways those of the routers there.
	addresses, gateways []netip.Addr
	// plan is what it was told to do; targets are the Check.To of its checks.
	plan    probe.Plan
	targets []string
	// trouble is why it cannot take part, and remedy what to do; empty while it can.
	trouble, remedy string
	// results are by the check's index. base is the attempt that each check had reached when all Pods ran.
	results map[int]probe.Result
	base    map[int]int
	// told is the last line of progress.
	told string
}

// start creates the Pods, waits for their addresses, tells each what to do, and waits until they run. A Pod that does
// not get so far has its trouble noted.
func (t *test) start(ctx context.Context) error {
	for _, m := range t.pods {
		m.asked = true
		object, err := t.Kubernetes.CoreV1().Pods(t.Namespace).Create(ctx, m.object, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("creating Pod %s: %w", m.Name, err)
		}
		m.object = object
	}
	if err := t.await(ctx, (*test).hasPort); err != nil {
		return err
	}
	for _, m := range t.pods {
		if m.trouble != "" {
			continue
		}
		m.plan = t.planFor(m)
		if err := t.release(ctx, m); err != nil {
			return err
		}
	}
	return t.await(ctx, (*test).runs)
}

// hasPort reports whether a Pod has its addresses.
func (t *test) hasPort(m *member) bool {
	for _, gate := range m.object.Spec.SchedulingGates {
		if gate.Name != planGate {
			t.showState(m, "waits for its port")
			return false
		}
	}
	allocations, err := consumer.Allocations(m.object)
	if err != nil || len(allocations) == 0 {
		t.showState(m, "waits for its port")
		return false
	}
	m.addresses, m.gateways, m.Addresses = nil, nil, nil
	for _, text := range allocations[0].IPs {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			m.addresses, m.Addresses = append(m.addresses, prefix.Addr()), append(m.Addresses, prefix.Addr().String())
		}
	}
	for _, text := range allocations[0].Gateway {
		if address, err := netip.ParseAddr(text); err == nil {
			m.gateways = append(m.gateways, address)
		}
	}
	t.showState(m, "has a port with "+strings.Join(m.Addresses, ", "))
	return true
}

// release writes the plan of a Pod and removes its last gate, in one write.
func (t *test) release(ctx context.Context, m *member) error {
	plan, err := json.Marshal(m.plan)
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": m.object.UID, "annotations": map[string]string{planAnnotation: string(plan)}},
		"spec":     map[string]any{"schedulingGates": []any{map[string]string{"$patch": "delete", "name": planGate}}},
	})
	if err != nil {
		return err
	}
	_, err = t.Kubernetes.CoreV1().Pods(t.Namespace).
		Patch(ctx, m.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("starting Pod %s: %w", m.Name, err)
	}
	return nil
}

// final are the reasons of a container that waits, and goes on waiting until somebody changes something.
var final = map[string]string{
	"ImagePullBackOff":           imageRemedy,
	"InvalidImageName":           imageRemedy,
	"ErrImageNeverPull":          imageRemedy,
	"CreateContainerConfigError": "Read the message: the container runtime refuses the container.",
	"CreateContainerError":       "Read the message: the container runtime refuses the container.",
	"RunContainerError":          imageLacks,
}

const (
	imageRemedy = "Name an image with --image that this namespace may pull: that of the data plane, of this version. " +
		"If its registry asks for a pull secret, the Pod needs it. A Pod gets those of its ServiceAccount only when it is " +
		"created."
	imageLacks = "The image has no network-agent that knows the command %s. Name the image of this version with " +
		"--image, or upgrade the data plane (docs/install.md)."
)

// Trouble says why a container that is to run a command of network-agent does not, and what to do. Both are empty
// while it may.
func Trouble(status corev1.ContainerStatus, command string) (trouble, remedy string) {
	switch ended, waits := status.State.Terminated, status.State.Waiting; {
	case ended != nil:
		trouble, remedy = fmt.Sprintf("The %s has ended with the code %d.", command, ended.ExitCode), imageLacks
		if _, said := probe.ReadLog([]byte(ended.Message)); said != "" {
			trouble += " It said: " + said
		}
	case waits != nil && final[waits.Reason] != "":
		trouble, remedy = strings.TrimSuffix(waits.Reason+": "+waits.Message, ": "), final[waits.Reason]
		if strings.Contains(waits.Message, "executable file not found") {
			remedy = imageLacks
		}
	}
	return trouble, strings.Replace(remedy, "%s", command, 1)
}

// runs reports whether a Pod runs its probe. It notes the trouble of one that will not.
func (t *test) runs(m *member) bool {
	m.Node = m.object.Spec.NodeName
	for _, status := range m.object.Status.ContainerStatuses {
		if status.Name != Container {
			continue
		}
		if m.trouble, m.remedy = Trouble(status, "probe"); m.trouble == "" && status.Ready {
			t.showState(m, "runs on "+m.Node)
			return true
		}
	}
	switch {
	case m.trouble != "":
	case m.object.Status.Phase == corev1.PodFailed:
		ended := m.object.Status
		m.trouble = "The Pod was ended: " + cmp.Or(ended.Message, ended.Reason, "no reason is given") + "."
		m.remedy = "Test again. If the node ends it each time, look at the node: kubectl describe node " + m.Node
	case m.Node == "":
		t.showState(m, "waits for a node")
	default:
		t.showState(m, "starts on "+m.Node)
	}
	return false
}

// showState shows how far a Pod is, once.
func (t *test) showState(m *member, state string) {
	if m.told != state && t.Progress != nil {
		t.Progress(fmt.Sprintf("Pod %s %s.", m.Name, state))
	}
	m.told = state
}

// await polls until all Pods without trouble are so far, or until time is up: then the others have their trouble noted.
func (t *test) await(ctx context.Context, far func(*test, *member) bool) error {
	late := map[*member]bool{}
	up, err := t.poll(ctx, t.Timeout, func() (bool, error) {
		if err := t.look(ctx); err != nil {
			return false, err
		}
		clear(late)
		for _, m := range t.pods {
			if m.trouble == "" && !far(t, m) && m.trouble == "" {
				late[m] = true
			}
		}
		return len(late) == 0, nil
	})
	if err != nil || up {
		return err
	}
	for _, m := range t.pods {
		if late[m] {
			t.explain(ctx, m, fmt.Sprintf("It %s for more than %s.", m.told, t.Timeout))
		}
	}
	return nil
}

// poll calls check until it reports true, and gives false when time is up. An error counts when time is up, too: the
// API server may fail to answer once. Only that the user may not ask ends it at once.
func (t *test) poll(ctx context.Context, limit time.Duration, check func() (bool, error)) (bool, error) {
	var last error
	ended := wait.PollUntilContextTimeout(ctx, interval, limit, true, func(context.Context) (done bool, err error) {
		if done, last = check(); apierrors.IsForbidden(last) {
			return false, last
		}
		return done && last == nil, nil
	})
	if ended != nil && ctx.Err() != nil {
		last = ctx.Err()
	}
	return ended == nil, last
}

// look reads the Pods.
func (t *test) look(ctx context.Context) error {
	list, err := t.Kubernetes.CoreV1().Pods(t.Namespace).List(ctx, metav1.ListOptions{LabelSelector: Label + "=" + t.ID})
	if err != nil {
		return fmt.Errorf("listing the Pods of the test: %w", err)
	}
	found := map[types.UID]*corev1.Pod{}
	for i := range list.Items {
		found[list.Items[i].UID] = &list.Items[i]
	}
	for _, m := range t.pods {
		is := found[m.object.UID]
		switch {
		case m.trouble != "":
		case is == nil || is.DeletionTimestamp != nil:
			m.trouble, m.remedy = "Somebody deleted the Pod.", "Test again."
		default:
			m.object = is
		}
	}
	return nil
}

// explain notes why a Pod is late, by what its objects say. otherwise is what is known without them.
func (t *test) explain(ctx context.Context, m *member, otherwise string) {
	m.trouble, m.remedy = otherwise, "Give it more time (--timeout), or see kubectl describe pod, while the test runs."
	answer, err := t.why(ctx, why.KindPod, t.Namespace, m.Name)
	if err != nil || answer.Healthy {
		return
	}
	cause := answer.Cause()
	m.trouble = strings.TrimSuffix(
		fmt.Sprintf("%s %s: %s: %s", otherwise, cause.Object, cause.Reason, cause.Message), ": ")
	m.remedy = answer.Remedy
	if len(answer.Commands) > 0 && !strings.Contains(answer.Commands[0], m.Name) { // the Pod is about to be deleted
		m.remedy = strings.TrimSpace(m.remedy + " (" + answer.Commands[0] + ")")
	}
}

// observe reads the probes' logs until each check has a verdict, or until time is up.
func (t *test) observe(ctx context.Context) error {
	if len(t.running()) == 0 {
		return nil
	}
	if t.Progress != nil {
		t.Progress("Packets are sent.")
	}
	unread, left := map[*member]error{}, 0
	_, err := t.poll(ctx, verdictTime+t.measuring, func() (bool, error) {
		if err := t.look(ctx); err != nil {
			return false, err
		}
		clear(unread)
		decided, waiting := true, 0
		for _, m := range t.running() {
			if t.runs(m); m.trouble != "" {
				continue
			}
			log, err := t.Log(ctx, t.Namespace, m.Name, Container)
			if apierrors.IsForbidden(err) {
				return false, fmt.Errorf("reading the log of Pod %s: %w", m.Name, err)
			} else if err != nil {
				unread[m] = err
				continue
			}
			m.read(log)
			for i := range m.plan.Checks {
				decided = decided && (t.unneeded(m, i) || m.decided(i))
				if m.results[i].Waits {
					waiting++
				}
			}
		}
		if waiting > 0 && waiting != left && t.Progress != nil {
			t.Progress(fmt.Sprintf("Throughput is measured. Transfers that are left: %d.", waiting))
		}
		left = waiting
		return decided && len(unread) == 0, nil
	})
	for m, err := range unread {
		m.trouble = fmt.Sprintf("The log of the Pod cannot be read: %v.", err)
		m.remedy = "See that the API server reaches the kubelet of the node: kubectl logs, of any Pod there."
	}
	return err
}

// read takes the results out of a log. The first log of each Pod is read when all Pods run.
func (m *member) read(log []byte) {
	m.results, _ = probe.ReadLog(log)
	if m.base != nil {
		return
	}
	m.base = map[int]int{}
	for i, result := range m.results {
		m.base[i] = result.Attempt
	}
}

// decided reports whether a check has a verdict, and its transfer too.
func (m *member) decided(i int) bool {
	result, tried := m.results[i]
	return tried && !result.Waits &&
		(result.OK || result.Cause == probe.CauseNotAllowed || result.Attempt >= m.base[i]+attempts)
}

// running are the Pods that take part.
func (t *test) running() (all []*member) {
	for _, m := range t.pods {
		if m.trouble == "" {
			all = append(all, m)
		}
	}
	return all
}

// member is the Pod of a name; nil if the name is no Pod's.
func (t *test) member(name string) *member {
	for _, m := range t.pods {
		if m.Name == name {
			return m
		}
	}
	return nil
}

// unneeded reports whether a check of a Pod is about another Pod that does not take part.
func (t *test) unneeded(m *member, i int) bool {
	other := t.member(m.targets[i])
	return other != nil && other.trouble != ""
}

// remove deletes the Pods of the test. A Pod may exist although its creation has failed.
func (t *test) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, removalTime)
	defer cancel()
	var left []string
	var last error
	for _, m := range t.pods {
		if !m.asked {
			continue
		}
		if err := t.delete(ctx, m.Name, metav1.DeleteOptions{}); err != nil {
			left, last = append(left, m.Name), err
		}
	}
	if last == nil {
		return nil
	}
	return fmt.Errorf("deleting Pods %s: %w. They end by themselves after %s. Delete them: kubectl delete pods -n %s "+
		"-l %s=%s", strings.Join(left, ", "), last, t.life(), t.Namespace, Label, t.ID)
}

// delete deletes a Pod, and tries again while the API server does not answer.
func (t *test) delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	_, err := t.poll(ctx, removalTime/3, func() (bool, error) {
		err := t.Kubernetes.CoreV1().Pods(t.Namespace).Delete(ctx, name, o)
		return err == nil || apierrors.IsNotFound(err), ignoreNotFound(err)
	})
	return err
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// removeOld deletes what tests have left whose program was killed. A Pod that ran has ended by then, and one that never
// got a node holds its port until now. If this fails, the next test tries again.
func (t *test) removeOld(ctx context.Context) {
	list, err := t.Kubernetes.CoreV1().Pods(t.Namespace).List(ctx, metav1.ListOptions{LabelSelector: Label})
	if err != nil {
		return
	}
	for _, pod := range list.Items {
		lives := oldAge
		if limit := pod.Spec.ActiveDeadlineSeconds; limit != nil {
			lives += time.Duration(*limit) * time.Second
		}
		ours := strings.HasPrefix(pod.Name, namePrefix+pod.Labels[Label]+"-")
		if !ours || t.Now().Sub(pod.CreationTimestamp.Time) < lives {
			continue
		}
		err := t.Kubernetes.CoreV1().Pods(t.Namespace).Delete(ctx, pod.Name,
			metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}})
		if err == nil {
			t.Note("Pod %s, which an earlier test left behind, is deleted.", pod.Name)
		}
	}
}

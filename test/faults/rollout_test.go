package faults

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1client "k8s.io/client-go/kubernetes/typed/apps/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// TestRollouts lives the life of a Deployment on a Network undisturbed, and then many with a fault.
func TestRollouts(t *testing.T) {
	t.Parallel()
	want := rollouts().undisturbed(t)
	testCrashes(t, rollouts(), want)
	testRolloutScenarios(t, want)
}

// What a rollout declares.
const (
	// cidrRollout is so small that an address that is given up is soon another port's: rolloutAddresses of it are for ports.
	cidrRollout, rolloutAddresses = "10.4.0.0/28", 13
	// replicas is how many Pods there are when nothing is under way.
	replicas = 2
	// poolCooldown is so short that ports that are not needed go before anybody's patience ends.
	poolCooldown = "1s"
	// deploymentName is also the value of the Pods' label "app".
	deploymentName = "web"
)

// rollouts is a life of a Deployment of two on a Network: it comes, is updated, scaled up and down, loses a Pod, and
// goes, and then the Network does.
func rollouts() course {
	return course{
		heading: headingRollouts, name: "a rollout: ",
		// A life of Pods is long, for so many deaths one by one. The next process gets far enough between two of them to do
		// what the last one left.
		stride:   map[string]int{"Neutron": 3, "Kubernetes": 6},
		varies:   30, // how many ports go in one bulk is a matter of moments
		sparsely: 10,
		prepare:  (*world).prepareRollouts,
		live: func(w *world, want reference) state {
			w.createDeployment()
			w.restOfRollout()
			at := w.holdRollout(want)
			w.endRollout()
			return at
		},
	}
}

// prepareRollouts has Pods gated and their addresses watched, and the controllers of Pods and Deployments run.
func (w *world) prepareRollouts() {
	w.t.Helper()
	w.arguments = append(w.arguments, "--controllers=deployment,pod", "--pool-cooldown="+poolCooldown)
	w.around.AwaitGate(w.t, w.namespace)
	w.around.HoldApart(w.t, w.namespace)
}

// createDeployment creates a Network and a Deployment on it, and waits until its Pods run.
func (w *world) createDeployment() {
	w.t.Helper()
	w.createNetwork(w.namespace, "a", cidrRollout, "")
	w.awaitNetwork(w.namespace, "a")
	w.deploy(deploymentName, replicas)
	w.awaitRest(replicas)
}

// restOfRollout is what comes after createDeployment, up to the Deployment's end.
func (w *world) restOfRollout() {
	w.t.Helper()
	w.roll("second")
	w.awaitRest(replicas)
	w.scale(deploymentName, replicas+1)
	w.awaitRest(replicas + 1)
	w.scale(deploymentName, replicas)
	w.awaitRest(replicas)
	w.killPod()
	w.awaitRest(replicas)
}

// endNetwork waits until no NetworkPort is left, deletes the Network, and holds that nothing is left in Neutron.
func (w *world) endNetwork() {
	w.t.Helper()
	w.awaitNoPorts()
	w.removeNetwork("a")
	w.hold(state{})
}

// endRollout deletes the Deployment, and then the Network, and holds that nothing is left.
func (w *world) endRollout() {
	w.t.Helper()
	w.undeploy(deploymentName)
	w.endNetwork()
}

// deploy creates a Deployment whose Pods are on Network a.
func (w *world) deploy(name string, replicas int32) {
	w.t.Helper()
	harness.Create(w.t, w.deploymentClient(), harness.DeploymentOn(name, w.name("a"), replicas))
}

func (w *world) deploymentClient() appsv1client.DeploymentInterface {
	return w.around.Kube.AppsV1().Deployments(w.namespace)
}

// roll begins a rolling update.
func (w *world) roll(version string) {
	w.t.Helper()
	harness.Patch(w.t, w.deploymentClient(), deploymentName,
		fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"version":%q}}}}}`, version))
}

func (w *world) scale(name string, replicas int32) {
	w.t.Helper()
	harness.Scale(w.t, w.deploymentClient(), name, replicas)
}

// undeploy deletes a Deployment as kubectl does, and waits until its Pods are gone.
func (w *world) undeploy(name string) {
	w.t.Helper()
	harness.Delete(w.t, w.deploymentClient(), name,
		metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)})
	w.await(func() error {
		pods, err := w.pods("app=" + name)
		if err == nil && len(pods) > 0 {
			err = fmt.Errorf("%d Pods of Deployment %s are left, the first: %+v", len(pods), name, pods[0].ObjectMeta)
		}
		return err
	})
}

// pods gives the world's Pods that fit a label selector, "" for all, in the order of their names.
func (w *world) pods(selector string) ([]corev1.Pod, error) {
	list, err := w.podClient().List(w.t.Context(),
		metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return list.Items, nil
}

// deployments gives the world's Deployments.
func (w *world) deployments() ([]appsv1.Deployment, error) {
	list, err := w.deploymentClient().List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// killPod deletes the first Pod without letting it end, so that another is made at once.
func (w *world) killPod() {
	w.t.Helper()
	var pods []corev1.Pod
	w.await(func() (err error) {
		if pods, err = w.pods("app=" + deploymentName); err == nil && len(pods) == 0 {
			err = errors.New("there is no Pod to kill")
		}
		return err
	})
	w.kill(pods[0].Name)
}

// kill deletes a Pod without letting it end, and waits until it is gone, or another one has its name.
func (w *world) kill(name string) {
	w.t.Helper()
	pods := w.podClient()
	was, err := pods.Get(w.t.Context(), name, metav1.GetOptions{})
	if err == nil {
		err = pods.Delete(w.t.Context(), name, metav1.DeleteOptions{
			GracePeriodSeconds: new(int64(0)), Preconditions: &metav1.Preconditions{UID: &was.UID},
		})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		w.t.Fatalf("deleting Pod %s: %v", name, err)
	}
	w.await(func() error {
		now, err := pods.Get(w.t.Context(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && now.UID != was.UID {
			return nil
		}
		return errors.Join(err, fmt.Errorf("Pod %s is still there: %+v", name, now.ObjectMeta))
	})
}

// awaitRest waits until as many Pods run as wanted, each with a port, and there are no others of either.
func (w *world) awaitRest(want int) {
	w.t.Helper()
	w.await(func() error { return w.rest(want) })
}

// rest is nil where the rollout of each Deployment has ended, there are as many Pods as wanted and as many ports, each
// Pod is bound to one of them and has its addresses, and nothing complains.
func (w *world) rest(want int) error {
	deployments, err := w.deployments()
	if err != nil {
		return err
	}
	for _, d := range deployments {
		if s, wanted := d.Status, *d.Spec.Replicas; s.ObservedGeneration < d.Generation || s.Replicas != wanted ||
			s.UpdatedReplicas != wanted || s.AvailableReplicas != wanted {
			return fmt.Errorf("Deployment %s is under way: %+v", d.Name, s)
		}
		for _, c := range d.Status.Conditions {
			if c.Type == cloudteamv1.ConditionNetworksReady && c.Status != corev1.ConditionTrue {
				return fmt.Errorf("Deployment %s complains: %s: %s", d.Name, c.Reason, c.Message)
			}
		}
	}
	pods, err := w.pods("")
	if err != nil {
		return err
	}
	ports, err := w.portClient().List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	// Where a port is in Neutron is not asked before the rest is as it should be, for a list is dear.
	if len(pods) != want || len(ports.Items) != want {
		return fmt.Errorf("there are %d Pods and %d NetworkPorts, want %d: %s", len(pods), len(ports.Items), want,
			described(ports.Items))
	}
	byName := map[string]cloudteamv1.NetworkPort{}
	for _, port := range ports.Items {
		if err := harness.Ready(&port); err != nil {
			return err
		}
		byName[port.Name] = port
	}
	has := map[string]string{} // the Pods, by address and MAC
	for _, pod := range pods {
		allocations := harness.AllocationsOf(w.t, &pod)
		if pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil || len(allocations) != 1 ||
			len(allocations[0].IPs) != 1 {
			return fmt.Errorf("Pod %s is %s, has %+v, says %+v", pod.Name, pod.Status.Phase, allocations,
				pod.Status.Conditions)
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == cloudteamv1.ConditionNetworksReady && c.Status != corev1.ConditionTrue {
				return fmt.Errorf("Pod %s complains: %s: %s", pod.Name, c.Reason, c.Message)
			}
		}
		a := allocations[0]
		port, there := byName[a.Port]
		if !there || port.Status.BoundTo == nil || port.Status.BoundTo.UID != pod.UID {
			return fmt.Errorf("Pod %s has %+v, and is not bound to that port: %s", pod.Name, a, described(ports.Items))
		}
		address, err := netip.ParsePrefix(a.IPs[0])
		if err != nil {
			return err
		}
		has[address.Addr().String()+" "+a.MAC] = pod.Name
	}
	inNeutron := map[string]string{}
	for _, port := range w.ours()["ports"] {
		for _, fixed := range port["fixed_ips"].([]any) {
			address := fixed.(map[string]any)["ip_address"]
			inNeutron[fmt.Sprintf("%s %s", address, port["mac_address"])] = port.ID()
		}
	}
	if len(inNeutron) != want || !maps.EqualFunc(has, inNeutron, func(string, string) bool { return true }) {
		return fmt.Errorf("the Pods have %v, in Neutron are %v", has, inNeutron)
	}
	return nil
}

func described(ports []cloudteamv1.NetworkPort) string {
	text := ""
	for _, port := range ports {
		text += fmt.Sprintf("%s: %+v; ", port.Name, port.Status)
	}
	return text
}

// awaitNoPorts waits until the Deployments' ports are gone, with their NetworkPorts.
func (w *world) awaitNoPorts() {
	w.t.Helper()
	w.await(func() error {
		ports, err := w.portClient().List(w.t.Context(),
			metav1.ListOptions{})
		if err != nil {
			return err
		}
		if left := w.ours()["ports"]; len(ports.Items) > 0 || len(left) > 0 {
			return fmt.Errorf("ports are left: %s, in Neutron %v", described(ports.Items), left)
		}
		return nil
	})
}

// holdRollout holds, of a Deployment that is to rest, that nothing is written any more and that all is as it should
// be then. It returns what there is beside the ports, which differ in their names and addresses from life to life. The
// zero reference has nothing to compare it with.
func (w *world) holdRollout(want reference) state {
	w.t.Helper()
	w.awaitRest(replicas)
	w.awaitSilence()
	if err := w.rest(replicas); err != nil {
		w.t.Errorf("when all is silent: %v", err)
	}
	w.holdOthers()
	is := w.state()
	delete(is, "ports")
	delete(is, "NetworkPorts")
	if diff := cmp.Diff(want.state, is); want.state != nil && diff != "" {
		w.t.Errorf("not the Network that undisturbed work gives (-want +got):\n%s", diff)
	}
	return is
}

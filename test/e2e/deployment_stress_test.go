package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/nightly"
)

const (
	// stressDeeds is how many deeds are done before everything is to settle, stressPace how often one is done at the most.
	stressDeeds = 45
	stressPace  = 100 * time.Millisecond
	// stressSeed, an environment variable, has a run repeat the deeds of another; what the cluster makes of them differs.
	stressSeed = "STRESS_SEED"
)

// stress is a namespace with Deployments and a StatefulSet on one Network, to which much is done at once.
type stress struct {
	t         *testing.T
	random    *rand.Rand
	cloud     *cloud
	cloudName string
	namespace string
	network   string
	networkID string
	// replicas are those that the Deployments should have, by name.
	replicas map[string]int32
	// processes run side by side, as when a second one starts before the first has stopped.
	processes []restartable
}

// acting are the flags of all processes. They act side by side, where they would take turns otherwise. A process that is
// killed forgets the ports that it is creating for objects which are gone in spite of their finalizers (see
// docs/how-it-works.md, "Orphaned resources"): they go as orphans, within the patience of a test.
var acting = []string{"--leader-elect=false", "--orphan-grace=2s", "--orphan-max-share=1"}

// restartable is a process, and its flag --controllers.
type restartable struct {
	*process
	controllers string
}

// TestDeploymentStress does at random what a namespace may see in a bad week, and holds that no two Pods that live ever
// have one address, that everything settles, and that nothing is left when all is deleted.
func TestDeploymentStress(t *testing.T) {
	nightly.Only(t, "it draws minutes of deeds, which differ from run to run")
	// Of two processes one alone may speak to Neutron: each would make ports for one NetworkPort, and of these the
	// younger go, whoever has their addresses.
	for sentence, processes := range map[string][]string{
		"one process":             {"--controllers=*,-foo"},
		"two processes that bind": {"--controllers=*,-foo", "--controllers=deployment,pod"},
	} {
		t.Run(sentence, func(t *testing.T) {
			seed := rand.Uint64()
			if text := os.Getenv(stressSeed); text != "" {
				var err error
				if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
					t.Fatalf("%s: %v", stressSeed, err)
				}
			}
			t.Logf("%s=%d", stressSeed, seed)
			s := &stress{
				t: t, random: rand.New(rand.NewPCG(seed, 0)), cloud: open(t, "tenant"), cloudName: "tenant",
				namespace: newNamespace(t), replicas: map[string]int32{"a": 4, "b": 3},
			}
			for _, controllers := range processes {
				s.processes = append(s.processes, restartable{s.start(controllers), controllers})
			}
			s.network = unique(t, s.namespace)
			spec := example()
			// Few enough addresses that one that is given up is soon another's.
			spec.AllocationPools = []cloudteamv1.AllocationPool{{Start: "192.168.0.10", End: "192.168.0.49"}}
			apply(t, s.namespace, s.network, spec)
			s.networkID = awaitReady(t, s.namespace, s.network).Status.NetworkID
			awaitGate(t, s.namespace)
			holdApart(t, s.namespace)
			s.run()
		})
	}
}

// start starts a process with some of the controllers.
func (s *stress) start(controllers string) *process {
	s.t.Helper()
	return startController(s.t, s.cloudName, append([]string{controllers}, acting...)...)
}

func (s *stress) run() {
	s.t.Helper()
	for name, replicas := range s.replicas {
		deploymentOn(s.t, s.namespace, name, s.network, replicas)
	}
	const sets = 2
	s.statefulSet("set", sets)

	pace := time.NewTicker(stressPace)
	defer pace.Stop()
	for range stressDeeds {
		s.deed()
		<-pace.C
	}

	total := sets
	for name, replicas := range s.replicas {
		awaitPods(s.t, s.namespace, "app="+name, int(replicas))
		total += int(replicas)
	}
	// A rollout may still replace Pods, so that the Pods and the ports that are read are of different moments.
	eventually(s.t, func() error {
		pods := awaitPods(s.t, s.namespace, "", total)
		ports := awaitPorts(s.t, s.cloud, s.namespace, s.networkID, total)
		return errors.Join(s.allBound(), s.apart(pods, ports))
	})

	for name := range s.replicas {
		removeDeployment(s.t, s.namespace, name)
	}
	err := kube.AppsV1().StatefulSets(s.namespace).Delete(s.t.Context(), "set", metav1.DeleteOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	awaitPorts(s.t, s.cloud, s.namespace, s.networkID, 0)
	remove(s.t, s.namespace, s.network)
}

// apart holds that each Pod has an address of its own, and that Neutron has a port with it. Its id may be another
// than the Pod was told: it may have been deleted and made anew.
func (s *stress) apart(pods []corev1.Pod, ports []resource) error {
	left := map[string]bool{}
	for _, port := range ports {
		fixed := port["fixed_ips"].([]any)[0].(map[string]any)
		left[fmt.Sprintf("%s/16 %s", fixed["ip_address"], port["mac_address"])] = true
	}
	for _, pod := range pods {
		for _, a := range allocationsOf(s.t, &pod) {
			has := a.IPs[0] + " " + a.MAC
			if !left[has] {
				return fmt.Errorf("Pod %s has %s, which is another's or not in Neutron: %v are left", pod.Name, has, left)
			}
			delete(left, has)
		}
	}
	return nil
}

// allBound holds that each port is bound to the Pod that says that it has it.
func (s *stress) allBound() error {
	ports, err := networks.CloudteamV1().NetworkPorts(s.namespace).List(s.t.Context(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, port := range ports.Items {
		if port.Status.BoundTo == nil {
			return fmt.Errorf("NetworkPort %s is %s", port.Name, asJSON(port.Status))
		}
		pod, err := kube.CoreV1().Pods(s.namespace).Get(s.t.Context(), port.Status.BoundTo.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if allocations := allocationsOf(s.t, pod); len(allocations) != 1 || allocations[0].Port != port.Name {
			return fmt.Errorf("NetworkPort %s is bound to Pod %s, which has %s", port.Name, pod.Name, asJSON(allocations))
		}
	}
	return nil
}

// deed does one thing at random. What it is done to may be gone by then.
func (s *stress) deed() {
	s.t.Helper()
	ctx, r := s.t.Context(), s.random
	names := []string{"a", "b"}
	name := names[r.IntN(len(names))]
	deployments := kube.AppsV1().Deployments(s.namespace)
	var err error
	did := ""
	switch draw := r.IntN(100); {
	case draw < 25:
		s.replicas[name] = int32(r.IntN(7))
		did = fmt.Sprintf("scale %s to %d", name, s.replicas[name])
		scale(s.t, s.namespace, name, s.replicas[name])
	case draw < 40:
		did = "roll " + name
		_, err = deployments.Patch(ctx, name, types.StrategicMergePatchType, fmt.Appendf(nil,
			`{"spec":{"template":{"metadata":{"annotations":{"version":"%d"}}}}}`, r.Uint32()), metav1.PatchOptions{})
	case draw < 65:
		pod := s.somePod(func(*corev1.Pod) bool { return true })
		if pod == nil {
			return
		}
		options := metav1.DeleteOptions{}
		if r.IntN(2) == 0 {
			options.GracePeriodSeconds = new(int64(0))
		}
		did = "delete Pod " + pod.Name
		err = kube.CoreV1().Pods(s.namespace).Delete(ctx, pod.Name, options)
	case draw < 73:
		if port := s.somePort(); port != nil {
			did = "delete NetworkPort " + port.Name
			err = networks.CloudteamV1().NetworkPorts(s.namespace).Delete(ctx, port.Name, metav1.DeleteOptions{})
		}
	case draw < 80:
		if port := s.somePort(); port != nil && port.Status.PortID != "" {
			did = "delete the port of " + port.Name + " in Neutron"
			_, err = s.cloud.client.Delete(ctx, s.cloud.client.ServiceURL("ports", port.Status.PortID), nil)
		}
	case draw < 85:
		// One that has been running: the caches have long seen what it was given.
		pod := s.somePod(func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning })
		if pod == nil {
			return
		}
		did = "forget what Pod " + pod.Name + " was given"
		_, err = kube.CoreV1().Pods(s.namespace).Patch(ctx, pod.Name, types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, cloudteamv1.AnnotationAllocations),
			metav1.PatchOptions{})
	case draw < 93:
		did = "kill a process and start another"
		p := &s.processes[r.IntN(len(s.processes))]
		p.kill(s.t)
		p.process = s.start(p.controllers)
	default:
		policies := []metav1.DeletionPropagation{
			metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan,
		}
		policy := policies[r.IntN(len(policies))]
		did = fmt.Sprintf("delete %s (%s) and make it anew", name, policy)
		s.renew(name, policy)
	}
	if did != "" {
		s.t.Log(did)
	}
	if err != nil && !apierrors.IsNotFound(err) && !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		s.t.Fatalf("%s: %v", did, err)
	}
}

// renew deletes a Deployment and makes one of its name as soon as it is gone.
func (s *stress) renew(name string, policy metav1.DeletionPropagation) {
	s.t.Helper()
	ctx := s.t.Context()
	deployments := kube.AppsV1().Deployments(s.namespace)
	err := deployments.Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &policy})
	if err != nil {
		s.t.Fatal(err)
	}
	eventually(s.t, func() error {
		_, err := deployments.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, fmt.Errorf("Deployment %s is still there", name))
	})
	deploymentOn(s.t, s.namespace, name, s.network, s.replicas[name])
}

// statefulSet creates one whose Pods declare the network: each comes back under its name.
func (s *stress) statefulSet(name string, replicas int32) {
	s.t.Helper()
	_, err := kube.AppsV1().StatefulSets(s.namespace).Create(s.t.Context(), harness.StatefulSetOn(
		name, s.network, replicas, appsv1.OrderedReadyPodManagement), metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *stress) somePod(fits func(*corev1.Pod) bool) *corev1.Pod {
	s.t.Helper()
	list, err := kube.CoreV1().Pods(s.namespace).List(s.t.Context(), metav1.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	pods := slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool { return !fits(&pod) })
	if len(pods) == 0 {
		return nil
	}
	return &pods[s.random.IntN(len(pods))]
}

func (s *stress) somePort() *cloudteamv1.NetworkPort {
	s.t.Helper()
	list, err := networks.CloudteamV1().NetworkPorts(s.namespace).List(s.t.Context(), metav1.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	if len(list.Items) == 0 {
		return nil
	}
	return &list.Items[s.random.IntN(len(list.Items))]
}

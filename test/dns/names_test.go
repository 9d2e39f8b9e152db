package dns

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/nightly"
)

// another has a workload's Pods replaced.
const another = `{"spec":{"template":{"metadata":{"annotations":{"example.com/version":"2"}}}}}`

// TestANameResolvesToTheReadyPods has the name of a Service follow a Deployment through a rollout, a Pod that is not ready,
// and the end of the controller.
func TestANameResolvesToTheReadyPods(t *testing.T) {
	w := newWorld(t)
	name := w.name("web")
	w.service("web", "web")
	deployments := surroundings.Kube.AppsV1().Deployments(w.namespace)
	deployment := harness.DeploymentOn("web", network, 2)
	deployment.Spec.Template.Spec.Containers[0].Ports = ports()
	harness.Create(t, deployments, deployment)
	pods := w.pods("web", 2)
	w.resolves(name, pods...)

	// A port's name gives its number, and the names of endpoints, which have none of their own.
	var endpoints []string
	for i := range pods {
		for _, address := range w.addresses(&pods[i]) {
			label := strings.NewReplacer(".", "-", ":", "-").Replace(address)
			endpoints = append(endpoints, w.name(label+".web")+":8080")
			kind := dns.TypeA
			if strings.Contains(address, ":") {
				kind = dns.TypeAAAA
			}
			w.await(w.name(label+".web"), kind, address)
		}
	}
	w.await("_http._tcp."+name, dns.TypeSRV, endpoints...)

	// Kubernetes has two ready Pods all the time.
	done := w.always(name, some)
	harness.Patch(t, deployments, "web", another)
	before := pods
	pods = w.pods("web", 2, before...)
	w.resolves(name, pods...)
	done()

	// One that is not ready goes, and comes back. If none is ready, the name has no address.
	w.report(pods[0].Name, running(corev1.ConditionFalse))
	w.resolves(name, pods[1])
	w.report(pods[1].Name, running(corev1.ConditionFalse))
	w.resolves(name)
	for _, pod := range pods {
		w.report(pod.Name, running(corev1.ConditionTrue))
	}
	w.resolves(name, pods...)

	// While no controller runs, and when the next one starts, the name stays as it is. That one serves when a second name
	// resolves.
	var have []string
	surroundings.Eventually(t, func() (err error) { have, err = w.ask(name, dns.TypeA); return err })
	done = w.always(name, func(is []string) error {
		if !slices.Equal(is, have) {
			return fmt.Errorf("the addresses are %v, want %v", is, have)
		}
		return nil
	})
	w.controller.Kill(t)
	w.service("too", "web")
	w.startController()
	w.resolves(w.name("too"), pods...)
	done()

	// It learns what happened meanwhile.
	w.controller.Kill(t)
	lost := pods[0]
	harness.Delete(t, surroundings.Kube.CoreV1().Pods(w.namespace), lost.Name,
		metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
	w.startController()
	w.resolves(name, w.pods("web", 2, lost)...)

	harness.Scale(t, deployments, "web", 0)
	w.resolves(name)
}

// TestPodsOfAStatefulSetHaveNames has each Pod of a StatefulSet resolve by its own name, to the addresses that it keeps.
func TestPodsOfAStatefulSetHaveNames(t *testing.T) {
	w := newWorld(t)
	w.service("db", "db")
	sets := surroundings.Kube.AppsV1().StatefulSets(w.namespace)
	set := harness.StatefulSetOn("db", network, 2, appsv1.OrderedReadyPodManagement)
	set.Spec.ServiceName, set.Spec.Template.Spec.Containers[0].Ports = "db", ports()
	harness.Create(t, sets, set)
	pods := w.pods("db", 2)
	w.resolves(w.name("db"), pods...)
	was := map[string][]string{}
	for i, pod := range pods {
		name := w.name(fmt.Sprintf("db-%d.db", i))
		w.resolves(name, pod)
		was[name] = w.addresses(&pods[i])
		for _, address := range was[name] {
			back, err := dns.ReverseAddr(address)
			expect.NoError(t, err)
			w.await(back, dns.TypePTR, name)
		}
	}
	w.await("_http._tcp."+w.name("db"), dns.TypeSRV, w.name("db-0.db")+":8080", w.name("db-1.db")+":8080")

	// Its Pods are replaced one after another, and are found where they were.
	done := w.always(w.name("db"), some)
	harness.Patch(t, sets, "db", another)
	pods = w.pods("db", 2, pods...)
	w.resolves(w.name("db"), pods...)
	done()
	for i, pod := range pods {
		name := w.name(fmt.Sprintf("db-%d.db", i))
		w.resolves(name, pod)
		if have := w.addresses(&pods[i]); !slices.Equal(have, was[name]) {
			t.Errorf("%s is at %v, and was at %v", name, have, was[name])
		}
	}

	// Members of a cluster find each other before they are ready.
	w.report("db-0", running(corev1.ConditionFalse))
	w.resolves(w.name("db-0.db"))
	harness.Patch(t, surroundings.Kube.CoreV1().Services(w.namespace), "db", `{"spec":{"publishNotReadyAddresses":true}}`)
	w.resolves(w.name("db-0.db"), pods[0])

	w.report("db-0", running(corev1.ConditionTrue)) // a StatefulSet waits for it
	harness.Scale(t, sets, "db", 1)
	w.resolves(w.name("db-1.db"))
	w.resolves(w.name("db"), pods[0])
}

// TestANameLosesThePodsOfALostNode has Pods on two Nodes, one of which is lost.
func TestANameLosesThePodsOfALostNode(t *testing.T) {
	w := newWorld(t)
	name := w.name("web")
	w.service("web", "web")
	deployment := harness.DeploymentOn("web", network, 1)
	deployment.Spec.Template.Spec.Containers[0].Ports = ports()
	harness.Create(t, surroundings.Kube.AppsV1().Deployments(w.namespace), deployment)

	// Only one Pod tolerates a Node that the test plays.
	nodes, api, node := surroundings.Kube.CoreV1().Nodes(), surroundings.Kube.CoreV1().Pods(w.namespace), w.namespace
	alone := corev1.Taint{Key: "example.com/alone", Effect: corev1.TaintEffectNoSchedule}
	resources := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourcePods: resource.MustParse("1")}
	harness.Create(t, nodes, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: node, Labels: map[string]string{corev1.LabelHostname: node}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{alone}},
		Status: corev1.NodeStatus{
			Capacity: resources, Allocatable: resources,
			Conditions: []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
				LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now(),
			}},
		},
	})
	lose := w.renews(node)
	far := harness.PodOn("far", network)
	far.Labels, far.Spec.Containers[0].Ports = map[string]string{"app": "web"}, ports()
	far.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	far.Spec.Tolerations = []corev1.Toleration{{Key: alone.Key, Operator: corev1.TolerationOpExists}}
	harness.Create(t, api, far)
	t.Cleanup(func() {
		harness.Delete(t, api, "far", metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
		harness.Delete(t, nodes, node)
	})
	harness.Await(t, surroundings, api, "far", func(pod *corev1.Pod) error {
		if pod.Spec.NodeName != node {
			return fmt.Errorf("Pod far is not scheduled: %v", pod.Status.Conditions)
		}
		return nil
	})
	w.report("far", running(corev1.ConditionTrue))
	pods := w.pods("web", 2)
	w.resolves(name, pods...)
	near := slices.DeleteFunc(pods, func(pod corev1.Pod) bool { return pod.Name == "far" })

	lose()
	if nightly.Is() {
		// After its grace period, of almost a minute, Kubernetes says that the Pods of the Node are not ready.
		w.resolves(name, near...)
	}
	// An administrator says so: the Pods are evicted. Nobody ends them, and they keep their ports.
	harness.Patch(t, nodes, node, fmt.Sprintf(`{"spec":{"taints":[{"key":%q,"effect":"NoSchedule"},
		{"key":%q,"value":"nodeshutdown","effect":"NoExecute"}]}}`, alone.Key, corev1.TaintNodeOutOfService))
	surroundings.Eventually(t, func() error {
		pod, err := api.Get(t.Context(), "far", metav1.GetOptions{})
		if err == nil && pod.DeletionTimestamp == nil {
			err = fmt.Errorf("Pod far is not evicted: %v", pod.Status)
		}
		if apierrors.IsNotFound(err) { // at night, the garbage collector of Pods may have removed it by now
			err = nil
		}
		return err
	})
	w.resolves(name, near...)
}

package faults

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1client "k8s.io/client-go/kubernetes/typed/apps/v1"

	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// TestStatefulSets lives the life of a StatefulSet on a Network undisturbed, and then many with a fault. In each of them,
// the first Pod has the same port from the first day to the last.
func TestStatefulSets(t *testing.T) {
	t.Parallel()
	want := statefulSets().undisturbed(t)
	testCrashes(t, statefulSets(), want)
	statefulSets().testScenarios(t, statefulSetScenarios(want), byItself)
}

// statefulSetName is also the value of the Pods' label "app"; firstPod and lastPod are those that there are at rest.
const statefulSetName, firstPod, lastPod = "db", "db-0", "db-1"

// statefulSets is a life of a StatefulSet of two on a Network: it comes, loses a Pod, is scaled down and up, and goes, and
// then the Network does.
func statefulSets() course {
	return course{
		heading: headingRollouts, name: "a StatefulSet: ",
		stride:   map[string]int{"Neutron": 3, "Kubernetes": 6},
		varies:   30,
		sparsely: 10,
		prepare:  (*world).prepareRollouts,
		live: func(w *world, want reference) state {
			w.createStatefulSet()
			first := w.portOf(firstPod)
			w.kill(firstPod)
			w.awaitRest(replicas)
			w.scaleStatefulSet(1)
			w.awaitRest(1)
			w.scaleStatefulSet(replicas)
			at := w.holdRollout(want)
			w.holdPort(firstPod, first)
			w.endStatefulSet()
			return at
		},
	}
}

// statefulSetScenarios are what a Pod that comes back meets beside the death of the process.
func statefulSetScenarios(want reference) map[string]scenario {
	// comeBack has both Pods come back, between two things that are done.
	comeBack := func(w *world, before, after func()) {
		w.t.Helper()
		w.createStatefulSet()
		first, last := w.portOf(firstPod), w.portOf(lastPod)
		before()
		w.kill(firstPod)
		w.kill(lastPod)
		after()
		w.holdRollout(want)
		w.holdPort(firstPod, first)
		w.holdPort(lastPod, last)
		w.endStatefulSet()
	}
	return map[string]scenario{
		"its Pods come back while no controller runs": {live: func(w *world) { comeBack(w, w.stop, w.start) }},
		"its Pods come back while the watches are frozen": {slow: true, live: func(w *world) {
			var thaw func()
			comeBack(w, func() { thaw = w.kube.Freeze(always) }, func() { thaw() })
		}},
		"it is scaled down and up while the watches are frozen": {slow: true, live: func(w *world) {
			var thaw func()
			comeBack(w, func() {
				thaw = w.kube.Freeze(always)
				w.scaleStatefulSet(0)
			}, func() {
				w.scaleStatefulSet(replicas)
				thaw()
			})
		}},
		"it is made again over its Pods while no controller runs": {live: func(w *world) {
			w.createStatefulSet()
			first := w.portOf(firstPod)
			w.stop()
			w.deleteStatefulSet(metav1.DeletePropagationOrphan)
			w.statefulSet()
			w.start()
			w.kill(firstPod)
			w.holdRollout(want)
			w.holdPort(firstPod, first)
			w.endStatefulSet()
		}},
		"it goes while no controller runs": {live: func(w *world) {
			w.createStatefulSet()
			w.stop()
			w.deleteStatefulSet(metav1.DeletePropagationBackground)
			w.start()
			w.endNetwork()
		}},
	}
}

// createStatefulSet creates a Network and a StatefulSet on it, and waits until its Pods run.
func (w *world) createStatefulSet() {
	w.t.Helper()
	w.createNetwork(w.namespace, "a", cidrRollout, "")
	w.awaitNetwork(w.namespace, "a")
	w.statefulSet()
	w.awaitRest(replicas)
}

// statefulSet creates a StatefulSet whose Pods are on Network a, and start at once.
func (w *world) statefulSet() {
	w.t.Helper()
	harness.Create(w.t, w.statefulSetClient(),
		harness.StatefulSetOn(statefulSetName, w.name("a"), replicas, appsv1.ParallelPodManagement))
}

func (w *world) statefulSetClient() appsv1client.StatefulSetInterface {
	return w.around.Kube.AppsV1().StatefulSets(w.namespace)
}

func (w *world) scaleStatefulSet(replicas int32) {
	w.t.Helper()
	harness.Scale(w.t, w.statefulSetClient(), statefulSetName, replicas)
}

// deleteStatefulSet deletes the StatefulSet, and waits until it is gone.
func (w *world) deleteStatefulSet(policy metav1.DeletionPropagation) {
	w.t.Helper()
	harness.Delete(w.t, w.statefulSetClient(), statefulSetName, metav1.DeleteOptions{PropagationPolicy: &policy})
	harness.AwaitGone(w.t, w, w.statefulSetClient(), statefulSetName)
}

// endStatefulSet deletes the StatefulSet, and then the Network, and holds that nothing is left.
func (w *world) endStatefulSet() {
	w.t.Helper()
	w.deleteStatefulSet(metav1.DeletePropagationBackground)
	w.endNetwork()
}

// portOf tells which port a Pod has, with its address.
func (w *world) portOf(pod string) string {
	w.t.Helper()
	allocations := harness.AllocationsOf(w.t, harness.Get(w.t, w.podClient(), pod))
	if len(allocations) != 1 {
		w.t.Fatalf("Pod %s has %+v, want one port", pod, allocations)
	}
	return allocations[0].PortID + " " + allocations[0].MAC + " " + allocations[0].IPs[0]
}

// holdPort holds that a Pod that came back has the port that its predecessor had.
func (w *world) holdPort(pod, was string) {
	w.t.Helper()
	expect.Equal(w.t, was, w.portOf(pod), "the port to which Pod %s came back", pod)
}

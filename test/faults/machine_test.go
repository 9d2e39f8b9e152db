package faults

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// TestVirtualMachines lives the life of a virtual machine of KubeVirt on a Network undisturbed, and then many with a
// fault. In each of them, it has the same port from the first day to the last.
func TestVirtualMachines(t *testing.T) {
	t.Parallel()
	want := machines().undisturbed(t)
	testCrashes(t, machines(), want)
	machines().testScenarios(t, machineScenarios(), byItself)
}

// machines is a life of a virtual machine on a Network: it starts, restarts, migrates, and goes, and then the Network
// does.
func machines() course {
	return course{
		heading: headingRollouts, name: "a virtual machine: ",
		stride:   map[string]int{"Neutron": 3, "Kubernetes": 6},
		varies:   30,
		sparsely: 10,
		prepare:  (*world).prepareMachines,
		live: func(w *world, _ reference) state {
			vm, pod, had := w.createMachine()
			pod = w.restartMachine(vm, pod)
			w.holdMachine(pod, had)
			source := pod
			pod = vm.Launch()
			w.awaitMachine(pod, source)
			w.around.EndPod(w.t, w.namespace, source.Name)
			w.holdMachine(pod, had)
			w.kill(source.Name)
			w.endMachine(vm, pod)
			return state{}
		},
	}
}

// machineScenarios are what a virtual machine meets beside the death of the process.
func machineScenarios() map[string]scenario {
	// migrate has the source of a migration end between two things that are done.
	migrate := func(w *world, before, after func()) {
		w.t.Helper()
		vm, source, had := w.createMachine()
		target := vm.Launch()
		w.awaitMachine(target, source)
		before()
		w.around.EndPod(w.t, w.namespace, source.Name)
		w.kill(source.Name)
		after()
		w.holdMachine(target, had)
		w.endMachine(vm, target)
	}
	return map[string]scenario{
		"it migrates while no controller runs": {live: func(w *world) { migrate(w, w.stop, w.start) }},
		"it migrates while the watches are frozen": {slow: true, live: func(w *world) {
			var thaw func()
			migrate(w, func() { thaw = w.kube.Freeze(always) }, func() { thaw() })
		}},
		"it restarts while no controller runs": {live: func(w *world) {
			vm, pod, had := w.createMachine()
			w.stop()
			pod = w.restartMachine(vm, pod)
			w.start()
			w.holdMachine(pod, had)
			w.endMachine(vm, pod)
		}},
		"it goes while no controller runs": {live: func(w *world) {
			vm, pod, _ := w.createMachine()
			w.stop()
			vm.Delete()
			w.kill(pod.Name)
			w.start()
			w.endNetwork()
		}},
	}
}

func (w *world) prepareMachines() {
	w.t.Helper()
	w.arguments = append(w.arguments, "--controllers=pod")
	w.around.AwaitGate(w.t, w.namespace)
}

// createMachine creates a Network and a virtual machine on it, and waits until it runs. It tells the port.
func (w *world) createMachine() (vm *harness.Machine, pod *corev1.Pod, has string) {
	w.t.Helper()
	w.createNetwork(w.namespace, "a", cidrRollout, "")
	w.awaitNetwork(w.namespace, "a")
	vm = w.around.NewMachine(w.t, w.namespace, "vm", w.name("a"), nil)
	pod = vm.Start()
	w.awaitMachine(pod, pod)
	return vm, pod, w.portOf(pod.Name)
}

// restartMachine has a virtual machine run in another Pod.
func (w *world) restartMachine(vm *harness.Machine, pod *corev1.Pod) *corev1.Pod {
	w.t.Helper()
	vm.Stop()
	w.kill(pod.Name)
	return vm.Start()
}

// awaitMachine waits until a Pod runs, and the only port is bound to a Pod.
func (w *world) awaitMachine(running, bound *corev1.Pod) {
	w.t.Helper()
	harness.Await(w.t, w, w.podClient(), running.Name, func(pod *corev1.Pod) error {
		if err := runs(pod); err != nil {
			return err
		}
		ports, err := w.portClient().List(w.t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(ports.Items) != 1 || ports.Items[0].Status.BoundTo == nil ||
			ports.Items[0].Status.BoundTo.UID != bound.UID || len(w.ours()["ports"]) != 1 {
			return fmt.Errorf("want one port, bound to Pod %s, have %s, in Neutron %v", bound.Name,
				described(ports.Items), w.ours()["ports"])
		}
		return nil
	})
}

// holdMachine holds that a virtual machine runs in a Pod, with the port that it had.
func (w *world) holdMachine(pod *corev1.Pod, had string) {
	w.t.Helper()
	w.awaitMachine(pod, pod)
	w.awaitSilence()
	w.awaitMachine(pod, pod)
	expect.Equal(w.t, had, w.portOf(pod.Name), "the port of Pod %s, which the virtual machine had", pod.Name)
	w.holdOthers()
}

// endMachine deletes a virtual machine, and then the Network, and holds that nothing is left.
func (w *world) endMachine(vm *harness.Machine, pod *corev1.Pod) {
	w.t.Helper()
	vm.Delete()
	w.kill(pod.Name)
	w.endNetwork()
}

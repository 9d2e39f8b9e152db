//go:build linux

package dataplane

import (
	"fmt"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/nightly"
)

// aMachineMigrates takes a virtual machine from the first node to the second, and first begins to and does not. Its
// Pods are made as KubeVirt makes them: what is in them is no guest, and the packets are the Pod's own.
func (w *world) aMachineMigrates(other *guest) {
	first, second := w.nodes.All[0], w.nodes.All[1]
	vm := surroundings.NewMachine(w, w.namespace, "vm", "both", nil)
	launch := func(on string, start func() *corev1.Pod) *guest {
		w.Helper()
		vm.Spec = new(specFor(on))
		return w.guest(start().Name)
	}
	source := launch(first.Name, vm.Start)
	addresses := source.addresses(0)
	port := func() *cloudteamv1.NetworkPort {
		w.Helper()
		port, err := surroundings.Networks.CloudteamV1().NetworkPorts(w.namespace).
			Get(w.Context(), source.on[0].Port, metav1.GetOptions{})
		expect.NoError(w, err)
		return port
	}
	reaches := func() error {
		for _, address := range addresses {
			if err := other.ping(address); err != nil {
				return err
			}
		}
		return nil
	}
	w.eventually(reaches)
	w.areActive(source.Pod, first.Name)
	before := len(w.interfacesOn(second))

	// The target runs with the port's addresses, and without packets.
	waits := func() *guest {
		w.Helper()
		target := launch(second.Name, vm.Launch)
		if !reflect.DeepEqual(target.on, source.on) {
			w.Errorf("the target has %+v, want the source's %+v", target.on, source.on)
		}
		is := port().Status
		if is.Standby == nil || is.Standby.PodUID != target.UID || is.BoundTo == nil || is.BoundTo.UID != source.UID {
			w.Errorf("the port is of %+v, and next of %+v", is.BoundTo, is.Standby)
		}
		for i := range addresses {
			if err := target.ping(other.addresses(0)[i]); err == nil {
				w.Errorf("the target has packets while the source runs")
			}
		}
		if have := len(w.interfacesOn(second)); have != before {
			w.Errorf("%d interfaces are plugged on the target's node, want %d", have, before)
		}
		if err := reaches(); err != nil {
			w.Errorf("the source has no packets while the target waits: %v", err)
		}
		w.areActive(source.Pod, first.Name)
		return target
	}
	cancelled := waits()
	w.removePods(cancelled.Name)
	w.eventually(func() error {
		if next := port().Status.Standby; next != nil {
			return fmt.Errorf("the port is next of %+v, which is gone", next)
		}
		return nil
	})
	if err := reaches(); err != nil {
		w.Errorf("the source has no packets after a cancelled migration: %v", err)
	}

	target := waits()
	began := time.Now()
	if _, err := source.node.Exec(source.Status.ContainerStatuses[0].ContainerID, "sh", "-c", "kill 1"); err != nil {
		w.Fatal(err)
	}
	for i := range addresses {
		w.eventually(func() error { return target.ping(other.addresses(0)[i]) })
	}
	took := nightly.Since(began)
	fmt.Printf("  a virtual machine has packets on its next node %s after its Pod on the last one is ended\n", took)
	took.Within(w, "packets flow after a migration", outage)
	w.eventually(reaches)
	w.areActive(target.Pod, second.Name)
	w.attached("a migration", target)
	w.removePods(source.Name)
	if err := reaches(); err != nil {
		w.Errorf("the target has no packets after the source's Pod was removed: %v", err)
	}

	vm.Delete()
	w.eventually(func() error {
		ports, err := surroundings.Networks.CloudteamV1().NetworkPorts(w.namespace).List(w.Context(), metav1.ListOptions{})
		for _, p := range ports.Items {
			if p.Name == source.on[0].Port {
				return fmt.Errorf("the port of a machine that is gone is left: %+v", p.Status)
			}
		}
		return err
	})
}

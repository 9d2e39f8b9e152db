//go:build linux

package dataplane

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// startCoreDNS has CoreDNS serve the Pods of each node.
func (w *world) startCoreDNS() {
	w.Helper()
	for _, node := range w.nodes.All {
		corefile := surroundings.CoreDNS(w, "coredns-"+node.Name, "0.0.0.0:53")
		_, err := node.Start("coredns", nil, filepath.Join(programs, "coredns"), "-conf", corefile)
		expect.NoError(w, err)
	}
}

// aNameResolvesToPods has guests resolve the name of a Service by the cluster's DNS, and connect to what they find: while
// the Deployment's Pods are replaced one after another, while no controller runs, and when the next one does. A StatefulSet's
// Pod has a name of its own. The Services stay.
func (w *world) aNameResolvesToPods(guests []*guest) {
	guests = []*guest{guests[0], guests[2]} // one on each node: to run a program in a Pod takes its time
	for _, app := range []string{"web", "db"} {
		harness.Create(w, surroundings.Kube.CoreV1().Services(w.namespace), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: app, Annotations: map[string]string{
				cloudteamv1.AnnotationEndpointsNetwork: "both", cloudteamv1.AnnotationEndpointsSelector: "app=" + app,
			}},
			Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Port: 80}}},
		})
	}
	w.nameHas(guests, w.deployed()...)
	w.eventually(func() error {
		have, err := w.lookup(guests[0], "db-0.db")
		if want := []string{pinned[0].String(), pinned[1].String()}; err == nil && !slices.Equal(have, want) {
			err = fmt.Errorf("the StatefulSet's Pod is found at %v, want %v", have, want)
		}
		return err
	})

	before, pods := w.deployed(), []corev1.Pod(nil)
	deployments := surroundings.Kube.AppsV1().Deployments(w.namespace)
	harness.Patch(w, deployments, "web", `{"spec":{"template":{"metadata":{"annotations":{"example.com/version":"2"}}}}}`)
	w.eventually(func() error { // it asks, and is answered, all the time
		have, err := w.someoneAnswers(guests[0])
		if err != nil && len(have) > 0 { // all that it found may have gone before it asked
			_, err = w.someoneAnswers(guests[0])
		}
		if err != nil {
			w.Fatalf("during a rollout: %v", err)
		}
		list, err := surroundings.Kube.CoreV1().Pods(w.namespace).List(w.Context(), metav1.ListOptions{LabelSelector: "app=web"})
		if err != nil {
			return err
		}
		for _, pod := range list.Items {
			if slices.ContainsFunc(before, func(was corev1.Pod) bool { return was.UID == pod.UID }) {
				return fmt.Errorf("Pod %s is there still", pod.Name)
			}
		}
		if len(list.Items) != replicas || harness.Running(list.Items) != replicas {
			return fmt.Errorf("of %d Pods %d run", len(list.Items), harness.Running(list.Items))
		}
		pods = list.Items
		return nil
	})
	w.nameHas(guests, pods...)

	(*w.controller).Process.Kill()
	w.nameHas(guests, pods...)
	w.runController("--binding-cloud=admin")
	gone := pods[0]
	harness.Delete(w, surroundings.Kube.CoreV1().Pods(w.namespace), gone.Name)
	w.eventually(func() error {
		if pods = w.deployed(); slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return pod.UID == gone.UID }) {
			return fmt.Errorf("Pod %s is there still", gone.Name)
		}
		return nil
	})
	w.nameHas(guests, pods...)
}

// lookup has a guest resolve a name of the namespace, and returns its addresses of both families.
func (w *world) lookup(from *guest, name string) (addresses []string, err error) {
	for _, kind := range []string{"a", "aaaa"} {
		answer, err := from.node.Exec(from.Status.ContainerStatuses[0].ContainerID, "nslookup", "-type="+kind,
			name+"."+w.namespace+".svc."+harness.DNSZone)
		if err != nil {
			return nil, fmt.Errorf("Pod %s looks up %s: %w: %s", from.Name, name, err, answer)
		}
		// On the line of the server's own address, a tab follows "Address:".
		for line := range strings.Lines(answer) {
			if address, is := strings.CutPrefix(strings.TrimSpace(line), "Address: "); is {
				addresses = append(addresses, strings.TrimSpace(address))
			}
		}
	}
	slices.Sort(addresses)
	return addresses, nil
}

// nameHas waits until each guest resolves the name of the Service web to the addresses of these Pods on the Network
// "both", and to no others, and each of them answers there.
func (w *world) nameHas(guests []*guest, pods ...corev1.Pod) {
	w.Helper()
	names, want := map[string]string{}, []string(nil)
	for i := range pods {
		for _, allocation := range harness.AllocationsOf(w, &pods[i]) {
			if allocation.Name != w.namespace+"/both" {
				continue
			}
			for _, ip := range allocation.IPs {
				address, _, _ := strings.Cut(ip, "/")
				want = append(want, address)
				names[address] = pods[i].Name
			}
		}
	}
	slices.Sort(want)
	for _, from := range guests {
		w.eventually(func() error {
			have, err := w.lookup(from, "web")
			if err != nil {
				return err
			}
			if !slices.Equal(have, want) {
				return fmt.Errorf("Pod %s finds %v at web, want %v", from.Name, have, want)
			}
			for _, address := range have {
				if err := from.asks(address, 30, names[address]); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// someoneAnswers looks up the name, and returns its addresses, and an error if no Pod answers at any of them.
func (w *world) someoneAnswers(from *guest) (have []string, err error) {
	have, err = w.lookup(from, "web")
	errs := []error{fmt.Errorf("Pod %s finds %v at web, and none answers", from.Name, have), err}
	for _, address := range have {
		if err = from.asks(address, 30, "web-"); err == nil {
			return have, nil
		}
		errs = append(errs, err)
	}
	return have, errors.Join(errs...)
}

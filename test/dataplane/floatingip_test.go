//go:build linux

package dataplane

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/nightly"
)

// aFloatingIPAnswers has the outside open connections to a Service, at one address while its Pods come and go, and the
// guests reach the outside.
func (w *world) aFloatingIPAnswers(guests []*guest) {
	for _, g := range guests {
		w.eventually(func() error { return g.ping(netip.MustParseAddr("10.30.0.1")) })
	}
	w.eventually(func() error { return guests[2].ping(netip.MustParseAddr(outsideGateway)) })

	groups := surroundings.Networks.CloudteamV1().SecurityGroups(w.namespace)
	port80 := cloudteamv1.SecurityGroupRule{Direction: "ingress", Protocol: "tcp", PortRangeMin: new(int32(80)), RemoteCIDR: "0.0.0.0/0"}
	group := &cloudteamv1.SecurityGroup{ObjectMeta: metav1.ObjectMeta{Name: "public-web"}}
	group.Spec.Rules = []cloudteamv1.SecurityGroupRule{port80}
	harness.Create(w, groups, group)
	// One Pod on each node, so that the address moves between them.
	shop := func(name, node string) {
		pod := podFor(name, node, "both")
		pod.Labels["shop"] = ""
		pod.Annotations[cloudteamv1.AnnotationSecurityGroups] = group.Name
		pod.Spec.Containers[0].Command = serving
		w.create(pod)
		w.guest(name)
	}
	shop("shop-1", w.nodes.All[0].Name)
	services, fips := surroundings.Kube.CoreV1().Services(w.namespace), surroundings.Networks.CloudteamV1().FloatingIPs(w.namespace)
	harness.Create(w, services, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "shop", Annotations: map[string]string{cloudteamv1.AnnotationFloatingIP: "outside"}},
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{"shop": ""}, Ports: []corev1.ServicePort{{Port: 80}},
		},
	})
	address := harness.Await(w, surroundings, fips, "shop", func(f *cloudteamv1.FloatingIP) error {
		if f.Status.PortID == "" {
			return fmt.Errorf("FloatingIP %s leads nowhere: %+v", f.Name, f.Status.Conditions)
		}
		return harness.Ready(f)
	}).Status.Address
	answers := func(name string) error {
		answer, err := w.nodes.Outside("sh", "-c",
			`printf "GET /name HTTP/1.0\r\n\r\n" | busybox nc -w 2 `+address+" 80")
		if err == nil && !strings.Contains(answer, name) {
			err = fmt.Errorf("got %q of %s, want the name of Pod %s", answer, address, name)
		}
		return err
	}
	w.eventually(func() error { return answers("shop-1") })
	if _, err := w.nodes.Outside("busybox", "ping", "-c1", "-W2", address); err == nil {
		w.Errorf("the SecurityGroup allows port 80 alone, and %s answers a ping", address)
	}

	shop("shop-2", w.nodes.All[1].Name)
	w.eventually(func() error {
		err := answers("shop-1")
		if err != nil && strings.Contains(err.Error(), "shop-2") {
			w.Fatalf("a Pod that came took the address away: %v", err)
		}
		return err
	})
	began := time.Now()
	w.removePods("shop-1")
	w.eventually(func() error { return answers("shop-2") })
	fmt.Printf("  a Service's floating IP leads to its other Pod %s after the first one's deletion\n", nightly.Since(began))

	// A Service that selects nobody keeps the address, which is then closed.
	harness.Patch(w, services, "shop", `{"spec":{"selector":{"app":"nobody"}}}`)
	w.eventually(func() error {
		if answers("shop-2") == nil {
			return fmt.Errorf("%s still leads to a Pod that the Service does not select", address)
		}
		return nil
	})
	if found := w.tenant.List("floatingips", "floating_ip_address="+address); len(found) != 1 {
		w.Errorf("Neutron has %v, want the address %s to stay", found, address)
	}
	harness.Delete(w, services, "shop")
	w.removePods("shop-2")
	harness.Delete(w, groups, group.Name)
	w.eventually(func() error {
		if len(w.tenant.List("floatingips", "floating_ip_address="+address)) > 0 {
			return errors.New("the floating IP of a Service that is gone is left")
		}
		return nil
	})
}

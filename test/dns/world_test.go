package dns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"cloudteam.ztgame.com/network-controller/dev/process"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// network is the only Network of a world.
const network = "net"

// worlds counts them. Each has addresses that no other has: an address of two Networks resolves back to names on both.
var worlds int

// world is what one test has: a namespace with a Network of both IP families, a controller, and CoreDNS.
type world struct {
	t          *testing.T
	namespace  string
	cloud      *harness.Cloud
	controller *harness.Process
	// server is where CoreDNS serves.
	server string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, cloud: harness.Open(t, surroundings.CloudsFile, "tenant")}
	w.namespace = harness.Create(t, surroundings.Kube.CoreV1().Namespaces(), harness.Namespace("dns-")).Name
	w.startController()
	// A Pod is refused until its service account has been made.
	surroundings.Eventually(t, func() error {
		_, err := surroundings.Kube.CoreV1().ServiceAccounts(w.namespace).Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
	surroundings.AwaitGate(t, w.namespace)
	worlds++
	networks := surroundings.Networks.CloudteamV1().Networks(w.namespace)
	harness.Create(t, networks, &cloudteamv1.Network{
		ObjectMeta: metav1.ObjectMeta{Name: network},
		Spec: cloudteamv1.NetworkSpec{
			SubnetSpec:        cloudteamv1.SubnetSpec{CIDR: fmt.Sprintf("10.76.%d.0/24", worlds)},
			AdditionalSubnets: []cloudteamv1.SubnetSpec{{CIDR: fmt.Sprintf("fd00:76:%x::/64", worlds)}},
		},
	})
	w.startCoreDNS()
	return w
}

// startController starts the controller, or the next one after its end.
func (w *world) startController() {
	w.t.Helper()
	expect.NoError(w.t, surroundings.ReleaseLeases(w.t.Context()))
	w.controller = surroundings.Start(w.t, []string{"OS_CLIENT_CONFIG_FILE=" + surroundings.CloudsFile},
		append(harness.LongLease(), "--kubeconfig", surroundings.Kubeconfig, "--cloud", "tenant",
			"--bind-address", "127.0.0.1:0", "--audit-interval", "1s", "--pool-cooldown", "2s")...)
}

// startCoreDNS runs CoreDNS until the test ends, with an account that may read the kinds of which it makes names.
func (w *world) startCoreDNS() {
	w.t.Helper()
	w.server = harness.FreeAddress(w.t)
	corefile := surroundings.CoreDNS(w.t, "coredns-"+w.namespace, w.server)
	var output process.Buffer
	p, err := process.Start(process.Program{
		Name: "coredns", Path: program, Args: []string{"-conf", corefile}, Output: &output,
	})
	expect.NoError(w.t, err)
	w.t.Cleanup(func() {
		p.Kill()
		if w.t.Failed() {
			w.t.Logf("CoreDNS printed:\n%s", output.String())
		}
	})
	surroundings.Eventually(w.t, func() error {
		if p.Ended() {
			w.t.Fatal(p.Died())
		}
		have, err := w.ask("kubernetes.default.svc."+harness.DNSZone, dns.TypeA)
		if err == nil && len(have) == 0 {
			err = errors.New("CoreDNS does not resolve the API server's name")
		}
		return err
	})
}

// name is the full name of a Service, or of an endpoint before a Service.
func (w *world) name(of string) string { return of + "." + w.namespace + ".svc." + harness.DNSZone }

// ask gives what CoreDNS returns for a name, sorted: addresses, "target:port" or names. A name that there is not has
// nothing.
func (w *world) ask(name string, kind uint16) (have []string, err error) {
	question := new(dns.Msg)
	question.SetQuestion(dns.Fqdn(name), kind)
	answer, err := dns.Exchange(question, w.server)
	if err != nil {
		return nil, err
	}
	if answer.Rcode != dns.RcodeSuccess && answer.Rcode != dns.RcodeNameError || answer.Truncated {
		return nil, fmt.Errorf("asked for %s, CoreDNS returns %s", name, answer)
	}
	for _, record := range answer.Answer {
		switch record := record.(type) {
		case *dns.A:
			have = append(have, record.A.String())
		case *dns.AAAA:
			have = append(have, record.AAAA.String())
		case *dns.SRV:
			have = append(have, fmt.Sprintf("%s:%d", strings.TrimSuffix(record.Target, "."), record.Port))
		case *dns.PTR:
			have = append(have, strings.TrimSuffix(record.Ptr, "."))
		}
	}
	slices.Sort(have)
	return slices.Compact(have), nil
}

// await waits until CoreDNS returns this for a name, and nothing else.
func (w *world) await(name string, kind uint16, want ...string) {
	w.t.Helper()
	slices.Sort(want)
	surroundings.Eventually(w.t, func() error {
		have, err := w.ask(name, kind)
		if err == nil && !slices.Equal(have, want) {
			err = fmt.Errorf("%s of %s is %v, want %v", dns.TypeToString[kind], name, have, want)
		}
		return err
	})
}

// resolves waits until a name has the addresses of the Pods on the Network, and no others.
func (w *world) resolves(name string, pods ...corev1.Pod) {
	w.t.Helper()
	var v4, v6 []string
	for i := range pods {
		for _, address := range w.addresses(&pods[i]) {
			if strings.Contains(address, ":") {
				v6 = append(v6, address)
			} else {
				v4 = append(v4, address)
			}
		}
	}
	w.await(name, dns.TypeA, v4...)
	w.await(name, dns.TypeAAAA, v6...)
}

// addresses are those of a Pod's only port in Neutron, one of each family.
func (w *world) addresses(pod *corev1.Pod) (addresses []string) {
	w.t.Helper()
	allocations := harness.AllocationsOf(w.t, pod)
	expect.Len(w.t, 1, allocations, "what Pod %s was given", pod.Name)
	fixed, _ := w.cloud.One("ports", "id="+allocations[0].PortID)["fixed_ips"].([]any)
	for _, one := range fixed {
		address, _ := one.(map[string]any)["ip_address"].(string)
		addresses = append(addresses, address)
	}
	slices.Sort(addresses)
	expect.Len(w.t, 2, addresses, "the addresses of Pod %s", pod.Name)
	return addresses
}

// always asks for the IPv4 addresses of a name, again and again until done is called, and fails the test where they are
// not right.
func (w *world) always(name string, right func(have []string) error) (done func()) {
	asked := 0
	end := w.every(2*time.Millisecond, func() (goOn bool) {
		have, err := w.ask(name, dns.TypeA)
		if lost, ok := errors.AsType[net.Error](err); ok && lost.Timeout() {
			return true // of a busy machine, not an answer
		}
		if err == nil {
			asked++
			err = right(have)
		}
		if err != nil {
			w.t.Errorf("%s, lookup %d: %v", name, asked, err)
		}
		return err == nil
	})
	return func() {
		w.t.Helper()
		end()
		if asked == 0 {
			w.t.Errorf("%s was not looked up meanwhile", name)
		}
	}
}

// renews renews the Lease of a Node that the test plays, as its kubelet does, until lose is called or the test ends.
func (w *world) renews(node string) (lose func()) {
	w.t.Helper()
	leases := surroundings.Kube.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	ctx := context.WithoutCancel(w.t.Context())
	harness.Create(w.t, leases, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: node},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &node, LeaseDurationSeconds: new(int32(40)), RenewTime: &metav1.MicroTime{Time: time.Now()},
		},
	})
	w.t.Cleanup(func() { harness.Delete(w.t, leases, node) })
	return w.every(5*time.Second, func() (goOn bool) {
		patch := fmt.Sprintf(`{"spec":{"renewTime":%q}}`, time.Now().UTC().Format(metav1.RFC3339Micro))
		_, _ = leases.Patch(ctx, node, types.MergePatchType, []byte(patch), metav1.PatchOptions{}) // the next one is soon
		return true
	})
}

// every does something again and again, beside the test, until it says so, end is called or the test ends. Then it is not
// done any more.
func (w *world) every(interval time.Duration, do func() (goOn bool)) (end func()) {
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for goOn := true; goOn; goOn = do() {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	}()
	end = sync.OnceFunc(func() { close(stop); <-ended })
	w.t.Cleanup(end)
	return end
}

// some is right where there is an address.
func some(have []string) error {
	if len(have) == 0 {
		return errors.New("it has no address")
	}
	return nil
}

// service creates a Service with endpoints on the Network, for the Pods of a label.
func (w *world) service(name, app string) {
	w.t.Helper()
	harness.Create(w.t, surroundings.Kube.CoreV1().Services(w.namespace), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
			cloudteamv1.AnnotationEndpointsNetwork: network, cloudteamv1.AnnotationEndpointsSelector: "app=" + app,
		}},
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone,
			Ports: []corev1.ServicePort{
				{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, TargetPort: intstr.FromString("web")},
			},
		},
	})
}

// ports are those of a container, which Services name.
func ports() []corev1.ContainerPort {
	return []corev1.ContainerPort{{Name: "web", Protocol: corev1.ProtocolTCP, ContainerPort: 8080}}
}

// pods is harness.AwaitPods for those of an app.
func (w *world) pods(app string, want int, before ...corev1.Pod) []corev1.Pod {
	w.t.Helper()
	return harness.AwaitPods(w.t, surroundings, surroundings.Kube, w.namespace, "app="+app, want, before...)
}

// running is the status of a Pod that a kubelet has started.
func running(ready corev1.ConditionStatus) string {
	return fmt.Sprintf(`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":%q}]}}`, ready)
}

// report writes the status of a Pod, as its kubelet does.
func (w *world) report(pod, status string) {
	w.t.Helper()
	_, err := surroundings.Kube.CoreV1().Pods(w.namespace).Patch(w.t.Context(), pod,
		"application/strategic-merge-patch+json", []byte(status), metav1.PatchOptions{}, "status")
	expect.NoError(w.t, err)
}

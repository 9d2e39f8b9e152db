package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/internal/policy"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/nightly"
)

// peak gives the most memory that a process had, in MiB.
func (p *process) peak(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Controller.(*harness.Process).PID()))
	if err != nil {
		t.Skip("there is no /proc:", err)
	}
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	line, _, _ := strings.Cut(after, "kB")
	kB, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatalf("%v in %s", err, status)
	}
	return kB >> 10
}

// goMemoryLimit is GOMEMLIMIT in config/manager, whose memory limit is a tenth more.
const goMemoryLimit = 460

// TestTenantsCannotFillTheMemory has tenants write as many annotations as Kubernetes admits, on objects of all kinds that
// the controller watches, with the largest Networks and as many of the largest policies. It holds that neither the leader
// nor its standby needs more than config/manager allows, while the objects come, and when the processes begin with all of
// them. E2E_LARGE_OBJECTS is the number of objects, half of them Networks, and also of policies; 2000 without it.
func TestTenantsCannotFillTheMemory(t *testing.T) {
	withProcesses(t)
	nightly.Only(t, "it makes 256 KiB objects by the hundred and reads what memory the system gave")
	before, _ := pair(t, func() {})
	namespace, secrets := newNamespace(t), newNamespace(t)
	large := map[string]string{
		cloudteamv1.AnnotationPaused: "true", // nothing is made in the cloud
		"example.com/large":          strings.Repeat("x", 255<<10),
	}
	count := largeObjects(t)
	coming, standby := pair(t, func() {
		// A Network names the one Secret of all that the controller may then read.
		grant(t, secrets)
		spec := inCloud()
		create(t, large, namespace, secrets, count)
		createPolicies(t, count)
		apply(t, secrets, unique(t, secrets), spec)
	})
	t.Logf("while %d objects come: %d MiB at most, and the standby %d", count, coming, standby)
	leader, alike := pair(t, func() {})
	t.Logf("with %d objects of 256 KiB and more, and as many policies: %d MiB at most, and the standby %d; %d before",
		count, leader, alike, before)
	if most := max(coming, standby, leader, alike); most > goMemoryLimit {
		t.Errorf("it needs %d MiB, more than %d", most, goMemoryLimit)
	}
}

// largeObjects is how many objects are to be made.
func largeObjects(t *testing.T) int {
	t.Helper()
	text := os.Getenv("E2E_LARGE_OBJECTS")
	if text == "" {
		return 2000
	}
	count, err := strconv.Atoi(text)
	expect.NoError(t, err)
	return count
}

// pair runs a leader and a standby while something is done, and gives the most memory that each had, in MiB.
func pair(t *testing.T, while func()) (leader, standby int) {
	t.Helper()
	var both []*process
	for range 2 {
		p := start(t, []string{
			"OS_CLIENT_CONFIG_FILE=" + cloudsFile, fmt.Sprintf("GOMEMLIMIT=%dMiB", goMemoryLimit),
		}, "--kubeconfig", kubeconfig, "--cloud", "tenant", "--bind-address", "127.0.0.1:0", "--controllers=*,-foo")
		both = append(both, p)
		awaitReadyz(t, p)
	}
	while()
	for _, p := range both {
		awaitReadyz(t, p)
	}
	leader, standby = both[0].peak(t), both[1].peak(t)
	for _, p := range both {
		p.kill(t)
	}
	forgetLeader(t)
	return leader, standby
}

func awaitReadyz(t *testing.T, p *process) {
	t.Helper()
	eventually(t, func() error {
		status, body, err := p.Get(t.Context(), "/readyz")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%d %s", status, body)
		}
		return err
	})
}

// largest is the spec of a Network with as many of everything as the schema admits. A cache keeps a part of it.
func largest() cloudteamv1.NetworkSpec {
	spec := example()
	many := func(count int, add func(i int, name string)) {
		for i := range count {
			add(i, fmt.Sprintf("%02d%s", i, strings.Repeat("x", 253)))
		}
	}
	many(16, func(_ int, name string) { spec.Tags = append(spec.Tags, name) })
	many(16, func(_ int, name string) { spec.ServiceTypes = append(spec.ServiceTypes, "compute:"+name[:247]) })
	many(16, func(_ int, name string) { spec.SecurityGroupRefs = append(spec.SecurityGroupRefs, name[:253]) })
	many(64, func(_ int, name string) { spec.SharedWith = append(spec.SharedWith, name[:64]) })
	many(64, func(_ int, name string) { spec.AllowedNamespaces = append(spec.AllowedNamespaces, name[:63]) })
	many(64, func(i int, _ string) {
		route := cloudteamv1.HostRoute{Destination: fmt.Sprintf("172.16.%d.0/24", i), NextHop: "192.168.0.9"}
		spec.HostRoutes = append(spec.HostRoutes, route)
	})
	many(32, func(_ int, name string) {
		user := cloudteamv1.AddressUser{Namespace: name[:63], Kind: "StatefulSet", Name: name[:253]}
		spec.ReservedFor = append(spec.ReservedFor, user)
	})
	return spec
}

// createPolicies makes policies that are as large as one may be that is used, as many in a namespace as are kept whole.
func createPolicies(t *testing.T, count int) {
	t.Helper()
	const whole = 256 // see package netpolicy
	rules := strings.TrimSuffix(strings.Repeat("{}, ", 480), ", ")
	content := "{podSelector: {}, policyTypes: [Ingress], ingress: [" + rules + "]}"
	object, err := harness.Policy("team", "largest", "absent", content)
	expect.NoError(t, err)
	if parsed, problems, _ := policy.Parse(object); len(problems) > 0 || len(parsed.In) < 480 {
		t.Fatalf("the policy has %d rules: %q", len(parsed.In), problems)
	}
	var namespace string
	for n := range count {
		if n%whole == 0 {
			namespace = newNamespace(t)
		}
		putPolicy(t, namespace, fmt.Sprint("largest-", n), "absent", content)
	}
}

// create makes a number of objects with annotations: half are Networks, the others in equal parts of each kind. It makes
// a quarter as many Secrets.
func create(t *testing.T, annotations map[string]string, namespace, secrets string, count int) {
	t.Helper()
	labels := map[string]string{"app": "large"}
	pod := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: annotations},
		Spec: corev1.PodSpec{
			Containers:      []corev1.Container{{Name: "c", Image: "none"}},
			SchedulingGates: []corev1.PodSchedulingGate{{Name: "example.com/stay"}},
		},
	}
	v1 := networks.CloudteamV1()
	others := []func(metav1.ObjectMeta){
		func(meta metav1.ObjectMeta) {
			harness.Create(t, v1.NetworkPorts(namespace), &cloudteamv1.NetworkPort{ObjectMeta: meta, Spec: on("absent")})
		},
		func(meta metav1.ObjectMeta) {
			harness.Create(t, kube.CoreV1().Pods(namespace), &corev1.Pod{ObjectMeta: meta, Spec: pod.Spec})
		},
		func(meta metav1.ObjectMeta) {
			harness.Create(t, kube.AppsV1().Deployments(namespace), &appsv1.Deployment{
				ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
					Replicas: new(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: pod,
				},
			})
		},
		func(meta metav1.ObjectMeta) {
			group := &cloudteamv1.SecurityGroup{ObjectMeta: meta}
			for port := range int32(64) {
				group.Spec.Rules = append(group.Spec.Rules, cloudteamv1.SecurityGroupRule{
					Direction: cloudteamv1.RuleIngress, Protocol: "tcp", PortRangeMin: new(port + 1),
					RemoteGroup: fmt.Sprintf("%0128d", port),
				})
			}
			harness.Create(t, v1.SecurityGroups(namespace), group)
		},
		func(meta metav1.ObjectMeta) {
			floating := &cloudteamv1.FloatingIP{ObjectMeta: meta}
			floating.Spec.ExternalNetwork = "absent"
			harness.Create(t, v1.FloatingIPs(namespace), floating)
		},
		func(meta metav1.ObjectMeta) {
			meta.Annotations = maps.Clone(annotations)
			meta.Annotations[cloudteamv1.AnnotationFloatingIP] = "absent"
			harness.Create(t, kube.CoreV1().Services(namespace), &corev1.Service{ObjectMeta: meta,
				Spec: corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: 80}}}})
		},
	}
	for n := range count {
		meta := metav1.ObjectMeta{Name: fmt.Sprint("large-", n), Annotations: annotations}
		if n%2 == 0 {
			harness.Create(t, v1.Networks(namespace), &cloudteamv1.Network{ObjectMeta: meta, Spec: largest()})
		} else {
			others[n/2%len(others)](meta)
		}
		if n%4 == 0 {
			harness.Create(t, kube.CoreV1().Secrets(secrets), &corev1.Secret{
				ObjectMeta: meta, Data: map[string][]byte{"large": make([]byte, 256<<10)},
			})
		}
	}
}

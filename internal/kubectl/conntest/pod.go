package conntest

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/internal/declare"
	"cloudteam.ztgame.com/network-controller/internal/node/probe"
	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

const (
	// Label is on all Pods of tests. Its value is the test's ID.
	Label = "cloudteam.ztgame.com/conntest"
	// namePrefix is before the test's ID in the names of the Pods.
	namePrefix = "conntest-"
	// planGate keeps a Pod from starting until its plan is written, and planAnnotation has the plan.
	planGate       = "cloudteam.ztgame.com/conntest"
	planAnnotation = "cloudteam.ztgame.com/conntest-plan"
	// Container is the name of the only container.
	Container = "probe"
	// user is nobody on any node, as in the image.
	user = 65532
	// grace is what a Pod may live longer than the test waits for it. Then the kubelet ends it, if nobody deleted it.
	grace = 2 * time.Minute
	// mostBytes bounds each transfer, and slack how much longer than its time each one takes with all that is around it.
	mostBytes, slack = 1 << 30, 10 * time.Second
)

// podFor makes a Pod for a node, or for any if that is empty; alike is how many Pods the test has. It needs nothing
// that the Pod Security Standard "restricted" forbids, and no account.
func (t *test) podFor(name, node, annotation string, alike int) *corev1.Pod {
	labels := map[string]string{Label: t.ID, "app.kubernetes.io/name": "network-conntest"}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: t.Namespace, Name: name, Labels: labels,
			Annotations: map[string]string{selection.Annotation: annotation},
		},
		Spec: corev1.PodSpec{
			// The first is the controller's, also where no policy adds it.
			SchedulingGates: []corev1.PodSchedulingGate{{Name: cloudteamv1.SchedulingGate}, {Name: planGate}},
			RestartPolicy:   corev1.RestartPolicyNever,
			// It counts from the start on a node. It is the end of the Pod if this program cannot delete it.
			ActiveDeadlineSeconds:         new(int64(t.life().Seconds())),
			TerminationGracePeriodSeconds: new(int64(1)),
			AutomountServiceAccountToken:  new(false),
			EnableServiceLinks:            new(false),
			NodeSelector:                  map[string]string{corev1.LabelOSStable: "linux"},
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true), RunAsUser: new(int64(user)), RunAsGroup: new(int64(user)),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
				// The group may send echo requests without a capability. Kubernetes counts this sysctl as safe.
				Sysctls: []corev1.Sysctl{{Name: "net.ipv4.ping_group_range", Value: fmt.Sprintf("%d %[1]d", user)}},
			},
			Containers: []corev1.Container{{
				Name: Container, Image: t.Image, ImagePullPolicy: corev1.PullIfNotPresent,
				Command: []string{"network-agent", "probe"},
				// What it says before it fails is then in the Pod's status.
				TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
				// It is read when the container starts: the plan has the addresses of the other Pods.
				Env: []corev1.EnvVar{{Name: probe.PlanEnv, ValueFrom: &corev1.EnvVarSource{
					FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['" + planAnnotation + "']"},
				}}},
				Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{
						corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("32Mi"),
					},
					Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("128Mi")},
				},
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
					Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}
	if node != "" {
		// Not spec.nodeName: such a Pod would not wait for its port.
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{
					Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node},
				}}}},
			},
		}}
	} else if alike > 1 {
		// On different nodes, as far as nodes take the Pods. On a cluster of one node, both run there.
		pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector:    &metav1.LabelSelector{MatchLabels: map[string]string{Label: t.ID}},
			NodeTaintsPolicy: new(corev1.NodeInclusionPolicyHonor),
		}}
	}
	return pod
}

// life is how long a Pod lives on its node at most.
func (t *test) life() time.Duration { return t.Timeout + t.measuring + grace }

// annotation declares the Network. Where the user names addresses that only a router reaches, it has the Pod's default
// route go over the Network.
func (t *test) annotation() (string, error) {
	element := map[string]any{"name": t.Network.Name, "namespace": t.Network.Namespace}
	var gateways []string
	for _, to := range t.To {
		if t.reaches(to.Addr) {
			continue
		}
		gateway := t.gatewayFor(to.Addr)
		if gateway == "" {
			return "", fmt.Errorf("--to %s: Network %s has no subnet and no route there, and no gateway of this IP family. "+
				"Give it a router (docs/router.md) or hostRoutes", to, t.Network)
		}
		if !slices.Contains(gateways, gateway) {
			gateways = append(gateways, gateway)
		}
	}
	if len(gateways) > 0 {
		element["default-route"] = gateways
	}
	text, err := json.Marshal([]any{element})
	return string(text), err
}

// reaches reports whether a Pod has a route to an address without a default route.
func (t *test) reaches(to netip.Addr) bool {
	var ranges []string
	for _, subnet := range t.network.Status.Subnets {
		ranges = append(ranges, subnet.CIDR)
	}
	for _, route := range t.network.Spec.HostRoutes {
		ranges = append(ranges, route.Destination)
	}
	for _, subnet := range t.network.Spec.AdditionalSubnets {
		for _, route := range subnet.HostRoutes {
			ranges = append(ranges, route.Destination)
		}
	}
	for _, text := range ranges {
		if prefix, err := netip.ParsePrefix(text); err == nil && prefix.Contains(to) {
			return true
		}
	}
	return false
}

// gatewayFor is the gateway of the first subnet of an address's family in which the Pods can be; empty if it has none.
func (t *test) gatewayFor(to netip.Addr) string {
	serves := declare.Serves(t.network, t.Namespace, declare.Workload{})
	for _, subnet := range t.network.Status.Subnets {
		if !serves(subnet) && !declare.SelfAddressed(subnet) {
			continue
		}
		if gateway, err := netip.ParseAddr(subnet.Gateway); err == nil && gateway.Is4() == to.Is4() {
			return subnet.Gateway
		}
	}
	return ""
}

// routed reports whether a router has a gateway's address. Without one, Neutron still tells hosts a gateway, which
// nobody has to be.
func (t *test) routed(gateway string) bool {
	if t.network.Status.Router == nil {
		return false
	}
	for _, subnet := range t.network.Status.Subnets {
		if subnet.Gateway == gateway {
			return len(subnet.ServiceTypes) == 0 || slices.Contains(subnet.ServiceTypes, "network:router_interface")
		}
	}
	return false
}

// planFor is what a Pod is to do once all Pods have their addresses.
func (t *test) planFor(m *member) probe.Plan {
	plan := probe.Plan{Name: m.Name, Addresses: m.addresses, Port: t.Port, Load: t.loadFor(m)}
	add := func(to string, check probe.Check) {
		plan.Checks, m.targets = append(plan.Checks, check), append(m.targets, to)
	}
	m.targets = nil
	for _, own := range m.addresses {
		add("", probe.Check{Kind: probe.KindInterface, To: own})
	}
	for _, other := range t.pods {
		for _, address := range other.addresses {
			if other != m {
				add(other.Name, probe.Check{Kind: probe.KindICMP, To: address})
				add(other.Name, probe.Check{Kind: probe.KindTCP, To: address, Port: t.Port, Expect: other.Name})
			}
		}
	}
	for _, gateway := range m.gateways {
		if t.routed(gateway.String()) {
			add(toGateway, probe.Check{Kind: probe.KindICMP, To: gateway})
		}
	}
	for _, to := range t.To {
		check := probe.Check{Kind: probe.KindICMP, To: to.Addr}
		if to.Port != 0 {
			check.Kind, check.Port = probe.KindTCP, to.Port
		}
		add(to.String(), check)
	}
	return plan
}

// loadFor is a Pod's part in the measurement of throughput: the first Pod and each other one send to each other.
func (t *test) loadFor(m *member) *probe.Load {
	if t.Throughput == 0 {
		return nil
	}
	all := t.running()
	load := &probe.Load{Bytes: mostBytes, Time: t.Throughput, First: m == all[0]}
	for i, other := range all {
		if other != m && (i == 0 || load.First) {
			load.With = append(load.With, other.addresses[:min(1, len(other.addresses))]...)
		}
	}
	return load
}

// toGateway is the Check.To of the Network's router.
const toGateway = "gateway"

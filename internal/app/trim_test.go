package app

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// Policies name ports. A cache keeps the names of a Pod on a Network, and of no other one.
func TestACacheKeepsTheNamedPortsOfAPod(t *testing.T) {
	port := func(name string, number int32) corev1.ContainerPort {
		return corev1.ContainerPort{Name: name, ContainerPort: number, Protocol: corev1.ProtocolTCP, HostIP: strings.Repeat("x", 99)}
	}
	many := make([]corev1.ContainerPort, 2*maxNamedPorts)
	for i := range many {
		many[i] = port(fmt.Sprint("p", i), 1)
	}
	for name, c := range map[string]struct {
		spec corev1.PodSpec
		want int
	}{
		"named and others": {corev1.PodSpec{Containers: []corev1.Container{
			{Ports: []corev1.ContainerPort{port("a", 1), port("", 2)}}, {Ports: []corev1.ContainerPort{port("b", 3)}},
		}}, 2},
		"of a sidecar": {corev1.PodSpec{InitContainers: []corev1.Container{
			{Ports: []corev1.ContainerPort{port("a", 1)}, RestartPolicy: new(corev1.ContainerRestartPolicyAlways)},
		}}, 1},
		"of an init container": {corev1.PodSpec{InitContainers: []corev1.Container{{Ports: []corev1.ContainerPort{port("a", 1)}}}}, 0},
		"more than are kept":   {corev1.PodSpec{Containers: []corev1.Container{{Ports: many}}}, maxNamedPorts},
	} {
		for _, on := range []string{"net", ""} {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}}, Spec: *c.spec.DeepCopy()}
			if on != "" {
				pod.Annotations[selection.Annotation] = on
			}
			for range 2 { // the second time, it is in a cache already
				mustTrim(t, pod)
			}
			var kept []corev1.ContainerPort
			for _, container := range pod.Spec.Containers {
				kept = append(kept, container.Ports...)
			}
			want := c.want
			if on == "" {
				want = 0
			}
			expect.Equal(t, want, len(kept), "%s, on %q, kept ports", name, on)
			for _, p := range kept {
				if p.Name == "" || p.ContainerPort == 0 || p.Protocol != corev1.ProtocolTCP || p.HostIP != "" {
					t.Errorf("%s: it keeps %+v", name, p)
				}
			}
		}
	}
}

// TestACacheKeepsWhatEndpointsNeed of a Service that asks for them, and of a Pod on a Network.
func TestACacheKeepsWhatEndpointsNeed(t *testing.T) {
	of := func(annotation string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Labels: map[string]string{"app": "web"}, Annotations: map[string]string{annotation: "net"}}
	}
	for annotation, keeps := range map[string]bool{cloudteamv1.AnnotationEndpointsNetwork: true, "example.com/other": false} {
		service := &corev1.Service{ObjectMeta: of(annotation), Spec: corev1.ServiceSpec{
			Selector: map[string]string{"a": "b"}, ClusterIP: "None", IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports: []corev1.ServicePort{{Port: 80}}, PublishNotReadyAddresses: true,
		}}
		whole := service.DeepCopy()
		whole.Spec.ExternalName = "x"
		mustTrim(t, whole)
		if !keeps {
			service.Spec, service.Labels = corev1.ServiceSpec{}, nil
		}
		expect.Equal(t, service.Spec, whole.Spec, "the spec with %s", annotation)
		expect.Equal(t, service.Labels, whole.Labels, "the labels with %s", annotation)
	}
	for annotation, keeps := range map[string]bool{selection.Annotation: true, "example.com/other": false} {
		pod := &corev1.Pod{ObjectMeta: of(annotation), Spec: corev1.PodSpec{Hostname: "web-0", Subdomain: "web"}}
		pod.Status.Conditions = []corev1.PodCondition{
			{Type: corev1.PodScheduled}, {Type: corev1.PodReady, Status: corev1.ConditionTrue, Message: "x"},
		}
		for range 2 {
			mustTrim(t, pod)
		}
		want := []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		if !keeps {
			want = nil
		}
		expect.Equal(t, len(want), len(pod.Status.Conditions), "conditions with %s", annotation)
		if keeps && (pod.Status.Conditions[0] != want[0] || pod.Spec.Hostname != "web-0" || pod.Spec.Subdomain != "web") {
			t.Errorf("it keeps %+v of %+v", pod.Status, pod.Spec)
		}
	}
}

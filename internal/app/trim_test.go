package app

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/internal/selection"
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
				_, err := trim(pod)
				expect.NoError(t, err)
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

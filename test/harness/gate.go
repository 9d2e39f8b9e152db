package harness

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// Namespace is one whose name begins with a prefix, and in which Pods that declare networks wait for their ports.
func Namespace(prefix string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: prefix, Labels: map[string]string{cloudteamv1.LabelNetworks: cloudteamv1.LabelNetworksEnabled},
	}}
}

// AwaitGate waits until the policy that gates Pods is in force in a Namespace, which takes the API server up to a
// second.
func (s *Surroundings) AwaitGate(t testing.TB, namespace string) {
	t.Helper()
	s.Eventually(t, func() error {
		created, err := s.Kube.CoreV1().Pods(namespace).Create(t.Context(), PodOn("gate", "any"),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil && len(created.Spec.SchedulingGates) == 0 {
			err = errors.New("a Pod that declares networks gets no gate")
		}
		return err
	})
}

// PodOn is a Pod with the annotation that declares networks.
func PodOn(name, declares string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{selection.Annotation: declares}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
	}
}

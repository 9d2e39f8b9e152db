package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"cloudteam.ztgame.com/network-controller/internal/selection"
)

// installGate installs config/admission: Pods that declare networks are gated from then on.
func (s *Surroundings) installGate(ctx context.Context) error {
	file, err := os.Open(filepath.Join(s.Root, "config", "admission", "scheduling_gate.yaml"))
	if err != nil {
		return err
	}
	defer file.Close()
	decoder := yaml.NewYAMLOrJSONDecoder(file, 4096)
	var policy admissionregistrationv1.MutatingAdmissionPolicy
	var binding admissionregistrationv1.MutatingAdmissionPolicyBinding
	if err := errors.Join(decoder.Decode(&policy), decoder.Decode(&binding)); err != nil {
		return err
	}
	if err := decoder.Decode(&struct{}{}); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s holds more than a policy and its binding", file.Name())
	}
	client := s.Kube.AdmissionregistrationV1()
	_, err = client.MutatingAdmissionPolicies().Create(ctx, &policy, metav1.CreateOptions{})
	if err == nil {
		_, err = client.MutatingAdmissionPolicyBindings().Create(ctx, &binding, metav1.CreateOptions{})
	}
	return err
}

// AwaitGate waits until the policy of Options.Gate is in force, which takes the API server up to a second.
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

package integration

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// TestGateIsOptIn holds that Pods wait for a controller only where somebody asked for that.
func TestGateIsOptIn(t *testing.T) {
	installAdmission(t)
	label := map[string]string{cloudteamv1.LabelNetworks: cloudteamv1.LabelNetworksEnabled}
	labelNamespace(t, metav1.NamespaceSystem, label)
	for _, test := range []struct {
		name, namespace string
		gated           bool
	}{
		// The first waits until the policy is in force.
		{"a namespace with the label", newNamespaceWith(t, label), true},
		{"one without", newNamespaceWith(t, nil), false},
		{"one with another value", newNamespaceWith(t, map[string]string{cloudteamv1.LabelNetworks: "disabled"}), false},
		{"kube-system, whatever it says", metav1.NamespaceSystem, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			eventually(t, func() error {
				created, err := kubeClient.CoreV1().Pods(test.namespace).Create(t.Context(), newPod("trial", "net"),
					metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
				if err == nil && consumer.Gated(created) != test.gated {
					err = fmt.Errorf("its gates are %v", created.Spec.SchedulingGates)
				}
				return err
			})
		})
	}
}

// admission installs config/admission once for all tests.
var admission sync.Once

// installAdmission installs config/admission. The API server takes a while to see a policy.
func installAdmission(t *testing.T) {
	t.Helper()
	admission.Do(func() {
		if err := plane.Install(t.Context(), filepath.Join("config", "admission")); err != nil {
			t.Fatal(err)
		}
	})
}

// labelNamespace gives an existing namespace labels.
func labelNamespace(t *testing.T, name string, labels map[string]string) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = kubeClient.CoreV1().Namespaces().Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// newNamespaceWith creates a namespace with labels.
func newNamespaceWith(t *testing.T, labels map[string]string) string {
	t.Helper()
	created, err := kubeClient.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-", Labels: labels}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created.Name
}

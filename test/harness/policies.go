package harness

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// Policies is the client of MultiNetworkPolicies of a namespace.
func (c *ControlPlane) Policies(t testing.TB, namespace string) dynamic.ResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(c.Admin)
	if err != nil {
		t.Fatal(err)
	}
	return client.Resource(PolicyResource).Namespace(namespace)
}

// PutPolicy creates or replaces a MultiNetworkPolicy for a Network. spec is in YAML.
func (c *ControlPlane) PutPolicy(t testing.TB, namespace, name, network, spec string) {
	t.Helper()
	content := map[string]any{}
	if err := yaml.Unmarshal([]byte(spec), &content); err != nil {
		t.Fatal(err)
	}
	policy := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "k8s.cni.cncf.io/v1beta1", "kind": "MultiNetworkPolicy", "spec": content,
	}}
	policy.SetName(name)
	policy.SetAnnotations(map[string]string{"k8s.v1.cni.cncf.io/policy-for": network})
	_, err := c.Policies(t, namespace).Apply(t.Context(), name, policy,
		metav1.ApplyOptions{FieldManager: "test", Force: true})
	if err != nil {
		t.Fatalf("applying MultiNetworkPolicy %s: %v", name, err)
	}
}

// RemovePolicy deletes a MultiNetworkPolicy.
func (c *ControlPlane) RemovePolicy(t testing.TB, namespace, name string) {
	t.Helper()
	err := c.Policies(t, namespace).Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{})
	if err != nil {
		t.Fatalf("deleting MultiNetworkPolicy %s: %v", name, err)
	}
}

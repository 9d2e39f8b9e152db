package harness

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

// Policies is the client of MultiNetworkPolicies of a namespace.
func (c *ControlPlane) Policies(t testing.TB, namespace string) dynamic.ResourceInterface {
	t.Helper()
	client, err := c.policies(namespace)
	expect.NoError(t, err)
	return client
}

func (c *ControlPlane) policies(namespace string) (dynamic.ResourceInterface, error) {
	return c.objects(PolicyResource, namespace)
}

// objects is the administrator's client of objects of kinds that have no client of their own.
func (c *ControlPlane) objects(
	resource schema.GroupVersionResource, namespace string,
) (dynamic.ResourceInterface, error) {
	client, err := dynamic.NewForConfig(c.Admin)
	if err != nil {
		return nil, err
	}
	return client.Resource(resource).Namespace(namespace), nil
}

// Policy is a MultiNetworkPolicy for a Network. spec is in YAML.
func Policy(namespace, name, network, spec string) (*unstructured.Unstructured, error) {
	content := map[string]any{}
	if err := yaml.Unmarshal([]byte(spec), &content); err != nil {
		return nil, err
	}
	policy := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "k8s.cni.cncf.io/v1beta1", "kind": "MultiNetworkPolicy", "spec": content,
	}}
	policy.SetNamespace(namespace)
	policy.SetName(name)
	policy.SetAnnotations(map[string]string{"k8s.v1.cni.cncf.io/policy-for": network})
	return policy, nil
}

// ApplyPolicy creates or replaces a MultiNetworkPolicy.
func (c *ControlPlane) ApplyPolicy(ctx context.Context, policy *unstructured.Unstructured) error {
	client, err := c.policies(policy.GetNamespace())
	if err == nil {
		_, err = client.Apply(ctx, policy.GetName(), policy, metav1.ApplyOptions{FieldManager: "test", Force: true})
	}
	if err != nil {
		return fmt.Errorf("applying MultiNetworkPolicy %s: %w", policy.GetName(), err)
	}
	return nil
}

// DeletePolicy deletes a MultiNetworkPolicy.
func (c *ControlPlane) DeletePolicy(ctx context.Context, namespace, name string) error {
	client, err := c.policies(namespace)
	if err == nil {
		err = client.Delete(ctx, name, metav1.DeleteOptions{})
	}
	if err != nil {
		return fmt.Errorf("deleting MultiNetworkPolicy %s: %w", name, err)
	}
	return nil
}

// PutPolicy creates or replaces a MultiNetworkPolicy for a Network. spec is in YAML.
func (c *ControlPlane) PutPolicy(t testing.TB, namespace, name, network, spec string) {
	t.Helper()
	policy, err := Policy(namespace, name, network, spec)
	if err == nil {
		err = c.ApplyPolicy(t.Context(), policy)
	}
	expect.NoError(t, err)
}

// RemovePolicy deletes a MultiNetworkPolicy.
func (c *ControlPlane) RemovePolicy(t testing.TB, namespace, name string) {
	t.Helper()
	expect.NoError(t, c.DeletePolicy(context.WithoutCancel(t.Context()), namespace, name))
}

// GroupName is the name of a SecurityGroup, and that of a policy's up to the hash in it.
func GroupName(group Resource) string {
	name := group.Text("name")
	if at := strings.LastIndexByte(name, '-'); strings.HasPrefix(name, "policy-") && at > 0 {
		return name[:at]
	}
	return name
}

// RulesOf are the rules of a security group in the order of the alphabet, without ids; names are those of groups by id.
func RulesOf(group Resource, names map[string]string) (rules []string) {
	for _, r := range group["security_group_rules"].([]any) {
		rule := r.(map[string]any)
		words := []string{fmt.Sprint(rule["direction"]), fmt.Sprint(rule["ethertype"])}
		for _, key := range []string{"protocol", "port_range_min", "port_range_max", "remote_ip_prefix"} {
			if value := rule[key]; value != nil {
				words = append(words, fmt.Sprint(value))
			}
		}
		if remote, ok := rule["remote_group_id"].(string); ok {
			words = append(words, names[remote])
		}
		rules = append(rules, strings.Join(words, " "))
	}
	slices.Sort(rules)
	return rules
}

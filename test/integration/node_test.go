package integration

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// agentUser is the user that the ServiceAccount of the nodes' agents is.
const agentUser = "system:serviceaccount:network-agent:network-agent"

var nodeKind = corev1.SchemeGroupVersion.WithResource("nodes")

// agentOn gives a client that acts as the agent of a node. An empty node is a token that no Pod has.
func agentOn(t *testing.T, node string, groups ...string) dynamic.Interface {
	t.Helper()
	config := impersonating(agentUser, groups...)
	if node != "" {
		config.Impersonate.Extra = map[string][]string{"authentication.kubernetes.io/node-name": {node}}
	}
	client, err := dynamic.NewForConfig(config)
	expect.NoError(t, err)
	return client
}

// TestNodeAccountPolicy has the agents' ServiceAccount do what an agent does on its node, and what it does not. RBAC is no
// hindrance here: the user is also a member of system:masters.
func TestNodeAccountPolicy(t *testing.T) {
	expect.NoError(t, plane.Install(t.Context(), filepath.Join("config", "node")))
	namespace := newNamespace(t)
	mine, others := namespace+"-mine", namespace+"-others"
	for _, name := range []string{mine, others} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"other": "x"}},
			Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoExecute}}}}
		harness.Create(t, kubeClient.CoreV1().Nodes(), node)
	}
	attachedTo := func(node string) string {
		return fmt.Sprintf(`"attachment":{"node":%q,"mode":"ovn","portID":"x","podUID":"u"},`, node)
	}
	for name, attachment := range map[string]string{"here": attachedTo(mine), "there": attachedTo(others), "nowhere": ""} {
		if _, err := anyAPI.Resource(portKind).Namespace(namespace).Create(t.Context(), object(t,
			`{"apiVersion":"cloudteam.ztgame.com/v1","kind":"NetworkPort","metadata":{"name":"`+name+`"},"spec":{"networkName":"net"}}`),
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := anyAPI.Resource(portKind).Namespace(namespace).Patch(t.Context(), name, types.MergePatchType, []byte(
			`{"status":{`+attachment+`"portID":"x","boundTo":{"kind":"Pod","name":"web","uid":"u"},"conditions":[{"type":"Ready","status":"True",
			"reason":"Available","message":"m","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`), metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
	}

	agent, masters := agentOn(t, mine, "system:masters"), agentOn(t, "", "system:masters")
	patch := func(client dynamic.Interface, resource schema.GroupVersionResource, name string, kind types.PatchType, text string, subresources ...string) func() error {
		return func() error {
			var api dynamic.ResourceInterface = client.Resource(resource)
			if resource == portKind {
				api = client.Resource(resource).Namespace(namespace)
			}
			options := metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}
			if kind == types.ApplyPatchType {
				options.FieldManager, options.Force = "network-agent", new(true)
			}
			_, err := api.Patch(t.Context(), name, kind, []byte(text), options, subresources...)
			return err
		}
	}
	apply := func(name, conditions string) string {
		return `{"apiVersion":"cloudteam.ztgame.com/v1","kind":"NetworkPort","metadata":{"name":"` + name + `","namespace":"` + namespace +
			`"},"status":{` + conditions + `}}`
	}
	condition := func(kind string) string {
		return `"conditions":[{"type":"` + kind + `","status":"True","reason":"Plugged","message":"m","lastTransitionTime":"2026-01-01T00:00:00Z"}]`
	}
	const merge, server = types.MergePatchType, types.ApplyPatchType
	annotation := func(name string) string { return `{"metadata":{"annotations":{"` + name + `":"y"}}}` }
	allowed := map[string]func() error{
		"tell that a port is attached": patch(agent, portKind, "here", server, apply("here", condition("Attached")), "status"),
		"announce the data plane": patch(agent, nodeKind, mine, merge, `{"metadata":{"annotations":{"cloudteam.ztgame.com/dataplane":"ovn",
			"cloudteam.ztgame.com/dataplane-host":"h","cloudteam.ztgame.com/dataplane-version":"v","cloudteam.ztgame.com/dataplane-parent":null,
			"cloudteam.ztgame.com/dataplane-parent-port":"p"}}}`),
	}
	refused := map[string]func() error{
		"tell it of a port elsewhere":    patch(agent, portKind, "there", server, apply("there", condition("Attached")), "status"),
		"tell it of a port nowhere":      patch(agent, portKind, "nowhere", server, apply("nowhere", condition("Attached")), "status"),
		"bring a port here by the write": patch(agent, portKind, "there", merge, `{"status":{`+attachedTo(mine)+condition("Attached")+`}}`, "status"),
		"tell it with no node":           patch(masters, portKind, "here", server, apply("here", condition("Attached")), "status"),
		"write another condition":        patch(agent, portKind, "here", server, apply("here", condition("Stalled")), "status"),
		"change another condition":       patch(agent, portKind, "here", server, apply("here", condition("Ready")), "status"),
		"remove another condition":       patch(agent, portKind, "here", merge, `{"status":{`+condition("Attached")+`}}`, "status"),
		"change a port's id":             patch(agent, portKind, "here", merge, `{"status":{"portID":"y"}}`, "status"),
		"bind a port":                    patch(agent, portKind, "here", merge, `{"status":{"boundTo":{"kind":"Pod","name":"evil","uid":"e"}}}`, "status"),
		"give a port another host":       patch(agent, portKind, "here", merge, `{"status":{"attachment":{"host":"evil"}}}`, "status"),
		"remove what a port has":         patch(agent, portKind, "here", merge, `{"status":{"boundTo":null}}`, "status"),
		"change a port's spec":           patch(agent, portKind, "here", merge, `{"spec":{"securityGroups":["9d1f0f0a-6f3c-4b0e-8a55-0c6d3f1f2a11"]}}`),
		"label a port":                   patch(agent, portKind, "here", merge, `{"metadata":{"labels":{"a":"b"}}}`),
		"release a port":                 patch(agent, portKind, "here", merge, `{"metadata":{"finalizers":null}}`),
		"announce on another Node":       patch(agent, nodeKind, others, merge, annotation("cloudteam.ztgame.com/dataplane")),
		"announce with no node":          patch(masters, nodeKind, mine, merge, annotation("cloudteam.ztgame.com/dataplane")),
		"write another annotation":       patch(agent, nodeKind, mine, merge, annotation("other")),
		"add another annotation":         patch(agent, nodeKind, mine, merge, annotation("cloudteam.ztgame.com/evil")),
		"remove another annotation":      patch(agent, nodeKind, mine, merge, `{"metadata":{"annotations":{"other":null}}}`),
		"label the Node":                 patch(agent, nodeKind, mine, merge, `{"metadata":{"labels":{"a":"c"}}}`),
		"remove the Node's taints":       patch(agent, nodeKind, mine, merge, `{"spec":{"taints":null}}`),
		"make the Node unschedulable":    patch(agent, nodeKind, mine, merge, `{"spec":{"unschedulable":true}}`),
		"write the Node's status":        patch(agent, nodeKind, mine, merge, `{"status":{"capacity":{"example.com/x":"9"}}}`, "status"),
		"create a Pod": func() error {
			_, err := agent.Resource(podKind).Namespace(namespace).Create(t.Context(), object(t, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},
				"spec":{"containers":[{"name":"c","image":"i"}]}}`), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		},
	}
	holdPolicy(t, "network-agent-account", refused["create a Pod"], allowed, refused)
}

// TestNodeAccountRights holds the agents' ClusterRole to its purpose.
func TestNodeAccountRights(t *testing.T) {
	expect.NoError(t, plane.Install(t.Context(), filepath.Join("config", "node")))
	for _, test := range []struct {
		allowed                bool
		verbs, group, resource string
	}{
		{true, "list watch", "cloudteam.ztgame.com", "networkports"},
		{true, "patch", "cloudteam.ztgame.com", "networkports/status"},
		{true, "get patch", "", "nodes"},
		{false, "create update patch delete", "cloudteam.ztgame.com", "networkports"},
		{false, "get list watch patch", "cloudteam.ztgame.com", "networks"},
		{false, "list watch create update delete", "", "nodes"},
		{false, "patch update", "", "nodes/status"},
		{false, "get list watch create patch", "", "pods"},
		{false, "get list watch", "", "secrets"},
		{false, "create", "", "serviceaccounts/token"},
	} {
		for verb := range strings.FieldsSeq(test.verbs) {
			eventually(t, func() error {
				if is := mayDo(t, agentUser, "", verb, test.group, test.resource, ""); is != test.allowed {
					return fmt.Errorf("%s %s: allowed %t, want %t", verb, test.resource, is, test.allowed)
				}
				return nil
			})
		}
	}
}

// TestAgentPodIsAdmitted creates the Pods of the DaemonSets in their namespace. They have the privileges that their mode
// needs and no more, and nothing of OpenStack's: no Secret is on a node.
func TestAgentPodIsAdmitted(t *testing.T) {
	expect.NoError(t, plane.Install(t.Context(), filepath.Join("config", "node")))
	for folder, want := range map[string]struct {
		args         []string
		capabilities []corev1.Capability
		folders      []string
	}{
		"config/node": {
			nil, []corev1.Capability{"DAC_OVERRIDE"}, []string{"/opt/cni/bin", "/run/network-agent", "/run/openvswitch"},
		},
		"config/node-metrics": {
			[]string{"--metrics-bind-address=:9480"}, []corev1.Capability{"DAC_OVERRIDE"},
			[]string{"/opt/cni/bin", "/run/network-agent", "/run/openvswitch"},
		},
		"config/node-trunk": {
			[]string{"--mode=trunk"}, []corev1.Capability{"NET_ADMIN"}, []string{"/opt/cni/bin", "/run/network-agent"},
		},
	} {
		t.Run(folder, func(t *testing.T) {
			set := daemonSetOf(t, folder)
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{GenerateName: "agent-", Namespace: set.Namespace}, Spec: set.Spec.Template.Spec,
			}
			_, err := kubeClient.CoreV1().Pods(set.Namespace).
				Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if err != nil {
				t.Error(err)
			}
			var folders []string
			for _, v := range pod.Spec.Volumes {
				if v.HostPath == nil {
					t.Errorf("the volume %s is no folder of the node", v.Name)
					continue
				}
				folders = append(folders, v.HostPath.Path)
			}
			if slices.Sort(folders); !slices.Equal(folders, want.folders) {
				t.Errorf("the Pod has the node's folders %v, want %v", folders, want.folders)
			}
			for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
				if c.SecurityContext.Privileged != nil || *c.SecurityContext.AllowPrivilegeEscalation ||
					!*c.SecurityContext.ReadOnlyRootFilesystem ||
					!slices.Equal(c.SecurityContext.Capabilities.Drop, []corev1.Capability{"ALL"}) || len(c.EnvFrom) > 0 {
					t.Errorf("the container %s has more privileges than it needs: %+v", c.Name, c.SecurityContext)
				}
				for _, e := range c.Env {
					if e.ValueFrom != nil && e.ValueFrom.FieldRef == nil {
						t.Errorf("the container %s has %s from %+v", c.Name, e.Name, e.ValueFrom)
					}
				}
			}
			agent := pod.Spec.Containers[0]
			if !slices.Equal(agent.Args, want.args) || !slices.Equal(agent.SecurityContext.Capabilities.Add, want.capabilities) {
				t.Errorf("the agent has the arguments %v and %v, want %v and %v", agent.Args,
					agent.SecurityContext.Capabilities.Add, want.args, want.capabilities)
			}
			if !slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
				return t.Operator == corev1.TolerationOpExists && t.Key == "" && t.Effect == ""
			}) {
				t.Errorf("the agent is not on every node: %+v", pod.Spec.Tolerations)
			}
		})
	}
}

// daemonSetOf renders a kustomization that has one DaemonSet.
func daemonSetOf(t *testing.T, folder string) *appsv1.DaemonSet {
	t.Helper()
	for _, object := range render(t, folder) {
		if object.GetKind() == "DaemonSet" {
			set := &appsv1.DaemonSet{}
			expect.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, set))
			return set
		}
	}
	t.Fatalf("%s has no DaemonSet", folder)
	return nil
}

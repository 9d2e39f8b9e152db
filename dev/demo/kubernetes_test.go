//go:build unix

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

func TestApplyFolder(t *testing.T) {
	config := filepath.Join("..", "..", "config")
	empty := t.TempDir()
	kustomization := filepath.Join(empty, "kustomization.yaml")
	if err := os.WriteFile(kustomization, []byte("kind: Kustomization\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for sentence, test := range map[string]struct {
		dir       string
		kinds     map[string]schema.GroupVersionResource
		want      []string
		wantError string
	}{
		"the policies and their bindings are applied, and the Kustomization is not": {
			dir: filepath.Join(config, "admission"), kinds: policies,
			want: []string{
				"mutatingadmissionpolicies/network-controller-scheduling-gate",
				"mutatingadmissionpolicybindings/network-controller-scheduling-gate",
				"validatingadmissionpolicies/network-controller-account",
				"validatingadmissionpolicies/network-controller-classes",
				"validatingadmissionpolicies/network-controller-pods",
				"validatingadmissionpolicybindings/network-controller-account",
				"validatingadmissionpolicybindings/network-controller-classes",
				"validatingadmissionpolicybindings/network-controller-pods",
			},
		},
		"every CRD is applied": {
			dir: filepath.Join(config, "crd"), kinds: definitions,
			want: []string{
				"customresourcedefinitions/floatingips.cloudteam.ztgame.com",
				"customresourcedefinitions/foos.samplecontroller.k8s.io",
				"customresourcedefinitions/networkclasses.cloudteam.ztgame.com",
				"customresourcedefinitions/networkports.cloudteam.ztgame.com",
				"customresourcedefinitions/networks.cloudteam.ztgame.com",
				"customresourcedefinitions/securitygroups.cloudteam.ztgame.com",
			},
		},
		"a folder without any is refused": {
			dir: empty, kinds: policies,
			wantError: "no MutatingAdmissionPolicy or MutatingAdmissionPolicyBinding or ValidatingAdmissionPolicy",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			client := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme())
			var applied []string
			client.PrependReactor("patch", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
				patch := action.(clienttesting.PatchAction)
				applied = append(applied, patch.GetResource().Resource+"/"+patch.GetName())
				return true, &unstructured.Unstructured{}, nil
			})
			_, err := (&cluster{dynamic: client}).applyFolder(t.Context(), test.dir, test.kinds)
			if test.wantError != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantError) {
					t.Errorf("the error is %v, want one with %q", err, test.wantError)
				}
				return
			}
			slices.Sort(applied)
			if diff := cmp.Diff(test.want, applied); err != nil || diff != "" {
				t.Errorf("applied (-want +got):\n%s%v", diff, err)
			}
		})
	}
}

func TestGated(t *testing.T) {
	for sentence, test := range map[string]struct {
		gates []corev1.PodSchedulingGate
		want  bool
	}{
		"without the policy there is no gate": {},
		"another's gate is not ours":          {gates: []corev1.PodSchedulingGate{{Name: "example.com/other"}}},
		"the policy puts ours beside others": {
			gates: []corev1.PodSchedulingGate{{Name: "example.com/other"}, {Name: cloudteamv1.SchedulingGate}}, want: true,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			client := fake.NewClientset()
			client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
				create := action.(clienttesting.CreateActionImpl)
				if len(create.CreateOptions.DryRun) == 0 {
					t.Error("the Pod is created in earnest")
				}
				pod := create.GetObject().(*corev1.Pod).DeepCopy()
				pod.Spec.SchedulingGates = test.gates
				return true, pod, nil
			})
			if err := (&cluster{kube: client}).gated(t.Context()); (err == nil) != test.want {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

package integration

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/dynamic"

	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
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

const theirGate = "example.com/theirs"

// newPod is a Pod that declares networks, as a user would write it.
func newPod(name, networks string, edits ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{selection.Annotation: networks}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	for _, edit := range edits {
		edit(pod)
	}
	return pod
}

// gates adds scheduling gates to a Pod.
func gates(names ...string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		for _, name := range names {
			pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: name})
		}
	}
}

func onNode(pod *corev1.Pod) { pod.Spec.NodeName = "node" }

func annotated(key, value string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Annotations[key] = value }
}

// TestPodPolicy holds which Pods of a namespace with the label are gated.
func TestPodPolicy(t *testing.T) {
	t.Parallel()
	installAdmission(t)
	namespace := newNamespaceWith(t, map[string]string{cloudteamv1.LabelNetworks: cloudteamv1.LabelNetworksEnabled})
	gatesOf := func(pod *corev1.Pod) (names []string, err error) {
		tried, err := kubeClient.CoreV1().Pods(namespace).Create(t.Context(), pod,
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return nil, err
		}
		for _, gate := range tried.Spec.SchedulingGates {
			names = append(names, gate.Name)
		}
		return names, nil
	}
	// The API server takes a while to see a policy.
	eventually(t, func() error {
		names, err := gatesOf(newPod("trial", "net"))
		if err == nil && !slices.Contains(names, cloudteamv1.SchedulingGate) {
			err = fmt.Errorf("the gates are %v", names)
		}
		return err
	})
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want []string
	}{
		"a Pod that declares networks is gated": {newPod("p", "net"), []string{cloudteamv1.SchedulingGate}},
		"the gates of others stay": {newPod("p", "net", gates(theirGate)),
			[]string{theirGate, cloudteamv1.SchedulingGate}},
		"a gate that is there is not set twice": {newPod("p", "net", gates(cloudteamv1.SchedulingGate, theirGate)),
			[]string{cloudteamv1.SchedulingGate, theirGate}},
		"a Pod with an empty annotation declares nothing": {newPod("p", ""), nil},
		"a Pod with other annotations declares nothing": {
			newPod("p", "", func(p *corev1.Pod) { p.Annotations = map[string]string{"a": "b"} }), nil},
		"a Pod without annotations declares nothing": {
			newPod("p", "", func(p *corev1.Pod) { p.Annotations = nil }), nil},
		"a Pod that is created on a node is past scheduling": {newPod("p", "net", onNode), nil},
		"the mirror of a static Pod is left alone": {
			newPod("p", "net", onNode, annotated(corev1.MirrorPodAnnotationKey, "x")), nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := gatesOf(test.pod)
			expect.NoError(t, err)
			expect.Equal(t, test.want, got, "gates")
		})
	}
}

// admission installs config/admission once for all tests.
var admission sync.Once

// installAdmission installs config/admission. The API server takes a while to see a policy.
func installAdmission(t *testing.T) {
	t.Helper()
	admission.Do(func() {
		expect.NoError(t, plane.Install(t.Context(), filepath.Join("config", "admission")))
	})
}

// labelNamespace gives an existing namespace labels.
func labelNamespace(t *testing.T, name string, labels map[string]string) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
	expect.NoError(t, err)
	_, err = kubeClient.CoreV1().Namespaces().Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
	expect.NoError(t, err)
}

// newNamespaceWith creates a namespace with labels.
func newNamespaceWith(t *testing.T, labels map[string]string) string {
	t.Helper()
	created := harness.Create(t, kubeClient.CoreV1().Namespaces(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-", Labels: labels}})
	return created.Name
}

// bindEditor gives the user editor what Kubernetes' role edit has for Pods in a namespace.
func bindEditor(t *testing.T, namespace string) {
	t.Helper()
	for _, role := range []string{"system:aggregate-to-edit", "system:aggregate-to-view"} {
		harness.Create(t, kubeClient.RbacV1().RoleBindings(namespace), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "editor-"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "editor"}},
		})
	}
	harness.AwaitRight(t, plane, kubeClient, "editor", namespace, "get", "pods") // the last one's
}

// TestPodAdmission has a namespace's editor, and those who run a cluster, write what the controller writes on Pods.
func TestPodAdmission(t *testing.T) {
	installAdmission(t)
	label := map[string]string{cloudteamv1.LabelNetworks: cloudteamv1.LabelNetworksEnabled}
	guarded, free := newNamespaceWith(t, label), newNamespaceWith(t, nil)
	for _, namespace := range []string{guarded, free} {
		bindEditor(t, namespace)
		for name, pod := range map[string]*corev1.Pod{
			"waits": newPod("waits", "net", func(p *corev1.Pod) {
				p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: cloudteamv1.SchedulingGate}}
			}),
			"has":   newPod("has", "net", onNode, annotated(cloudteamv1.AnnotationAllocations, `[{"name":"net"}]`)),
			"plain": newPod("plain", "", onNode),
		} {
			if _, err := kubeClient.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	editor, node := as(t, "editor"), as(t, "system:node:node", "system:nodes", "system:masters")
	collector := as(t, "system:serviceaccount:kube-system:generic-garbage-collector")
	dryRun := []string{metav1.DryRunAll}
	patch := func(user dynamic.Interface, name, text string, subresources ...string) func(string) error {
		return func(namespace string) error {
			_, err := user.Resource(podKind).Namespace(namespace).Patch(t.Context(), name, types.StrategicMergePatchType,
				[]byte(text), metav1.PatchOptions{DryRun: dryRun}, subresources...)
			return err
		}
	}
	create := func(user dynamic.Interface, pod *corev1.Pod) func(string) error {
		return func(namespace string) error {
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
			if err != nil {
				return err
			}
			content["apiVersion"], content["kind"] = "v1", "Pod"
			_, err = user.Resource(podKind).Namespace(namespace).Create(t.Context(),
				&unstructured.Unstructured{Object: content}, metav1.CreateOptions{DryRun: dryRun})
			return err
		}
	}
	const noGate = `{"spec":{"schedulingGates":[{"$patch":"delete","name":"cloudteam.ztgame.com/network"}]}}`
	allocation := annotated(cloudteamv1.AnnotationAllocations, "[]")
	refused := map[string]func(string) error{
		"lift the gate":                 patch(editor, "waits", noGate),
		"write an allocation":           patch(editor, "waits", `{"metadata":{"annotations":{"cloudteam.ztgame.com/allocations":"[]"}}}`),
		"change an allocation":          patch(editor, "has", `{"metadata":{"annotations":{"cloudteam.ztgame.com/allocations":"[]"}}}`),
		"resolve its networks":          patch(editor, "has", `{"metadata":{"annotations":{"cloudteam.ztgame.com/resolved-networks":"other"}}}`),
		"say what was declared for it":  patch(editor, "has", `{"metadata":{"annotations":{"cloudteam.ztgame.com/declared-networks":"other"}}}`),
		"remove an allocation":          patch(editor, "has", `{"metadata":{"annotations":{"cloudteam.ztgame.com/allocations":null}}}`),
		"change the networks":           patch(editor, "has", `{"metadata":{"annotations":{"k8s.v1.cni.cncf.io/networks":"other"}}}`),
		"remove the networks":           patch(editor, "has", `{"metadata":{"annotations":{"k8s.v1.cni.cncf.io/networks":null}}}`),
		"create one with an allocation": create(editor, newPod("new", "net", allocation)),
		"create one that is resolved": create(editor,
			newPod("new", "net", annotated(cloudteamv1.AnnotationResolvedNetworks, "other"))),
		"create one on a node": create(editor, newPod("new", "net", onNode)),
		"create a mirror, being no node": create(editor,
			newPod("new", "net", onNode, annotated(corev1.MirrorPodAnnotationKey, "x"))),
	}
	allowed := map[string]func(string) error{
		"create a Pod":                     create(editor, newPod("new", "net")),
		"create one on a node, no network": create(editor, newPod("new", "", onNode)),
		"change the networks of one that waits": patch(editor, "waits",
			`{"metadata":{"annotations":{"k8s.v1.cni.cncf.io/networks":"other"}}}`),
		"label one that runs": patch(editor, "has", `{"metadata":{"labels":{"a":"b"}}}`),
		"add networks to one without ports": patch(editor, "plain",
			`{"metadata":{"annotations":{"k8s.v1.cni.cncf.io/networks":"net"}}}`),
		"an administrator lifts the gate": patch(anyAPI, "waits", noGate),
		"a kubelet reports":               patch(node, "has", `{"status":{"phase":"Running"}}`, "status"),
		"a kubelet creates a mirror": create(node,
			newPod("new", "net", onNode, annotated(corev1.MirrorPodAnnotationKey, "x"))),
		"the garbage collector takes finalizers off": patch(collector, "has", `{"metadata":{"finalizers":null}}`),
	}
	// The API server takes a moment to see a policy.
	eventually(t, func() error {
		err := refused["lift the gate"](guarded)
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "network-controller-pods") {
			return fmt.Errorf("the policy is not in force: %w", err)
		}
		return nil
	})
	for name, try := range refused {
		if err := try(guarded); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "network-controller-pods") {
			t.Errorf("%s: want it refused by the policy, got %v", name, err)
		}
		if err := try(free); err != nil {
			t.Errorf("%s, in a namespace without the label: %v", name, err)
		}
	}
	for name, try := range allowed {
		if err := try(guarded); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAPodIsAppliedAgain has users apply the manifest of a Pod again after it got its ports, as kubectl does.
func TestAPodIsAppliedAgain(t *testing.T) {
	installAdmission(t)
	namespace := newNamespaceWith(t, map[string]string{cloudteamv1.LabelNetworks: cloudteamv1.LabelNetworksEnabled})
	bindEditor(t, namespace)
	eventually(t, func() error {
		created, err := kubeClient.CoreV1().Pods(namespace).Create(t.Context(), newPod("trial", "net"),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil && created.Annotations[cloudteamv1.AnnotationDeclaredNetworks] != "net" {
			err = fmt.Errorf("the policy is not in force: %v", created.Annotations)
		}
		return err
	})
	const resolved = `[{"name":"net","namespace":"n","ips":["10.0.0.7/24"],"mac":"fa:16:3e:00:00:01"}]`
	admin, editor := anyAPI, as(t, "editor")
	for name, c := range map[string]struct {
		user dynamic.Interface
		// apply is how the manifest is applied first, and again how afterwards.
		apply, again func(t *testing.T, user dynamic.Interface, pod *corev1.Pod) (*unstructured.Unstructured, error)
		free         bool // the user may write what the controller writes
	}{
		"client-side-by-an-editor":        {editor, applyClientSide, applyClientSide, false},
		"server-side-by-an-editor":        {editor, applyServerSide("kubectl", false), applyServerSide("kubectl", false), false},
		"server-side-by-another-tool":     {editor, applyServerSide("argocd", false), applyServerSide("argocd", false), false},
		"first-client-then-server-side":   {editor, applyClientSide, applyServerSide("kubectl", true), false},
		"client-side-by-an-administrator": {admin, applyClientSide, applyClientSide, true},
		"server-side-by-an-administrator": {admin, applyServerSide("kubectl", false), applyServerSide("kubectl", false), true},
	} {
		t.Run(name, func(t *testing.T) {
			pod := newPod(name, "net")
			pod.Namespace = namespace
			pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
			_, err := c.apply(t, c.user, pod)
			expect.NoError(t, err)
			_, err = kubeClient.CoreV1().Pods(namespace).Patch(t.Context(), name, types.StrategicMergePatchType, []byte(fmt.Sprintf(
				`{"metadata":{"annotations":{"cloudteam.ztgame.com/allocations":"[]","cloudteam.ztgame.com/declared-networks":"net",`+
					`"cloudteam.ztgame.com/resolved-networks":%q}},`+
					`"spec":{"schedulingGates":[{"$patch":"delete","name":"cloudteam.ztgame.com/network"}]}}`, resolved)),
				metav1.PatchOptions{FieldManager: "network-controller"})
			expect.NoError(t, err)
			was, err := kubeClient.CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{})
			expect.NoError(t, err)
			expect.Equal(t, resolved, was.Annotations[selection.Annotation], "for Multus")

			is, err := c.again(t, c.user, pod)
			expect.NoError(t, err)
			expect.Equal(t, was.Annotations, is.GetAnnotations(), "annotations after it was applied again")
			if strings.HasPrefix(name, "server-side") { // client-side apply writes the second at which it was
				expect.Equal(t, was.ResourceVersion, is.GetResourceVersion(), "version after it was applied again")
			}
			pod.Labels = map[string]string{"a": "b"}
			is, err = c.again(t, c.user, pod)
			expect.NoError(t, err)
			expect.Equal(t, pod.Labels, is.GetLabels(), "labels")
			expect.Equal(t, resolved, is.GetAnnotations()[selection.Annotation], "for Multus, with a label added")

			pod.Annotations[selection.Annotation] = "other"
			if _, err = c.again(t, c.user, pod); !c.free && !apierrors.IsForbidden(err) || c.free && err != nil {
				t.Errorf("another declaration: %v", err)
			}
		})
	}
}

// TestADeclarationThatWasStoredWithoutThePolicyRefusesNoOtherWrite labels the namespace of a Pod whose declaration was
// applied again without the policy.
func TestADeclarationThatWasStoredWithoutThePolicyRefusesNoOtherWrite(t *testing.T) {
	t.Parallel()
	installAdmission(t)
	namespace := newNamespaceWith(t, nil)
	bindEditor(t, namespace)
	const resolved = `[{"name":"net","namespace":"n","ips":["10.0.0.7/24"],"mac":"fa:16:3e:00:00:01"}]`
	pod := newPod("a", "net", onNode, annotated(cloudteamv1.AnnotationAllocations, "[]"),
		annotated(cloudteamv1.AnnotationDeclaredNetworks, "net"), annotated(cloudteamv1.AnnotationResolvedNetworks, resolved))
	_, err := kubeClient.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	expect.NoError(t, err)
	_, err = kubeClient.CoreV1().Namespaces().Patch(t.Context(), namespace, types.MergePatchType, []byte(fmt.Sprintf(
		`{"metadata":{"labels":{%q:%q}}}`, cloudteamv1.LabelNetworks, cloudteamv1.LabelNetworksEnabled)), metav1.PatchOptions{})
	expect.NoError(t, err)
	eventually(t, func() error {
		created, err := kubeClient.CoreV1().Pods(namespace).Create(t.Context(), newPod("trial", "net"),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil && created.Annotations[cloudteamv1.AnnotationDeclaredNetworks] != "net" {
			err = fmt.Errorf("the policy is not in force: %v", created.Annotations)
		}
		return err
	})
	patch := func(text string) (*unstructured.Unstructured, error) {
		return as(t, "editor").Resource(podKind).Namespace(namespace).Patch(t.Context(), "a", types.StrategicMergePatchType,
			[]byte(text), metav1.PatchOptions{})
	}
	is, err := patch(`{"metadata":{"labels":{"a":"b"}}}`)
	expect.NoError(t, err)
	expect.Equal(t, "net", is.GetAnnotations()[selection.Annotation], "the declaration after a label was added")
}

// applyServerSide applies a Pod as kubectl apply --server-side does.
func applyServerSide(
	manager string, force bool,
) func(*testing.T, dynamic.Interface, *corev1.Pod) (*unstructured.Unstructured, error) {
	return func(t *testing.T, user dynamic.Interface, pod *corev1.Pod) (*unstructured.Unstructured, error) {
		content, err := json.Marshal(manifestOf(t, pod))
		expect.NoError(t, err)
		return user.Resource(podKind).Namespace(pod.Namespace).Patch(t.Context(), pod.Name, types.ApplyPatchType, content,
			metav1.PatchOptions{FieldManager: manager, Force: &force})
	}
}

// applyClientSide applies a Pod as kubectl apply does: with a patch between the manifest as it was applied last, the
// manifest, and what there is.
func applyClientSide(t *testing.T, user dynamic.Interface, pod *corev1.Pod) (*unstructured.Unstructured, error) {
	manifest, pods := manifestOf(t, pod), user.Resource(podKind).Namespace(pod.Namespace)
	applied, err := json.Marshal(manifest)
	expect.NoError(t, err)
	annotations := manifest.GetAnnotations()
	annotations[corev1.LastAppliedConfigAnnotation] = string(applied) + "\n"
	manifest.SetAnnotations(annotations)
	is, err := pods.Get(t.Context(), pod.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return pods.Create(t.Context(), manifest, metav1.CreateOptions{FieldManager: "kubectl-client-side-apply"})
	}
	expect.NoError(t, err)
	modified, err := json.Marshal(manifest)
	expect.NoError(t, err)
	current, err := json.Marshal(is)
	expect.NoError(t, err)
	meta, err := strategicpatch.NewPatchMetaFromStruct(corev1.Pod{})
	expect.NoError(t, err)
	patch, err := strategicpatch.CreateThreeWayMergePatch(
		[]byte(is.GetAnnotations()[corev1.LastAppliedConfigAnnotation]), modified, current, meta, true)
	expect.NoError(t, err)
	return pods.Patch(t.Context(), pod.Name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{FieldManager: "kubectl-client-side-apply"})
}

// manifestOf gives what a user writes of a Pod.
func manifestOf(t *testing.T, pod *corev1.Pod) *unstructured.Unstructured {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
	expect.NoError(t, err)
	delete(content, "status")
	return &unstructured.Unstructured{Object: content}
}

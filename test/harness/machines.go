package harness

import (
	"context"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

// machinesCRD is the file, in the repository, of the CRDs of KubeVirt's virtual machines and their instances.
const machinesCRD = "test/integration/testdata/virtual-machines.yaml"

var (
	machineKind  = schema.GroupVersionKind{Group: "kubevirt.io", Version: "v1", Kind: "VirtualMachine"}
	instanceKind = schema.GroupVersionKind{Group: "kubevirt.io", Version: "v1", Kind: "VirtualMachineInstance"}
)

// Machine is a virtual machine, for which a test does what KubeVirt does with objects and Pods.
type Machine struct {
	// Name is that of the VirtualMachine and of its instances.
	Name string
	// Declares and Annotations are what its Pods declare.
	Declares    string
	Annotations map[string]string
	// Spec is that of its Pods; nil for one that no kubelet runs.
	Spec *corev1.PodSpec

	t         testing.TB
	c         *ControlPlane
	namespace string
	vm, vmi   *unstructured.Unstructured
}

// NewMachine creates a VirtualMachine that is stopped.
func (c *ControlPlane) NewMachine(
	t testing.TB, namespace, name, declares string, annotations map[string]string,
) *Machine {
	t.Helper()
	m := &Machine{Name: name, Declares: declares, Annotations: annotations, t: t, c: c, namespace: namespace}
	m.vm = m.create(machineKind, nil)
	return m
}

// Start creates an instance of the virtual machine, and its Pod.
func (m *Machine) Start() *corev1.Pod {
	m.t.Helper()
	m.vmi = m.create(instanceKind, []metav1.OwnerReference{*metav1.NewControllerRef(m.vm, machineKind)})
	return m.Launch()
}

// Launch creates one more Pod of the instance: the target of a live migration.
func (m *Machine) Launch() *corev1.Pod {
	m.t.Helper()
	return m.c.LaunchFor(m.t, m.namespace, m.Declares, m.Annotations, m.Owner(), m.Spec)
}

// Owner is the reference of a Pod to its instance.
func (m *Machine) Owner() metav1.OwnerReference { return *metav1.NewControllerRef(m.vmi, instanceKind) }

// Stop deletes the instance. Garbage collection deletes its Pods.
func (m *Machine) Stop() { m.t.Helper(); m.delete(instanceKind) }

// Delete deletes the VirtualMachine. Garbage collection deletes its instance and that one's Pods.
func (m *Machine) Delete() { m.t.Helper(); m.delete(machineKind) }

// EndPod has a Pod's containers stop for good, as those of a live migration's source do.
func (c *ControlPlane) EndPod(t testing.TB, namespace, name string) {
	t.Helper()
	_, err := c.Kube.CoreV1().Pods(namespace).Patch(t.Context(), name, types.MergePatchType,
		[]byte(`{"status":{"phase":"Succeeded"}}`), metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatalf("ending Pod %s: %v", name, err)
	}
}

// LaunchFor creates a Pod as KubeVirt names them, with an owner. spec is as in Machine.
func (c *ControlPlane) LaunchFor(
	t testing.TB, namespace, declares string, annotations map[string]string, owner metav1.OwnerReference,
	spec *corev1.PodSpec,
) *corev1.Pod {
	t.Helper()
	pod := PodOn("", declares)
	if spec != nil {
		pod.Spec = *spec.DeepCopy()
	}
	pod.GenerateName, pod.OwnerReferences = "virt-launcher-"+owner.Name+"-", []metav1.OwnerReference{owner}
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	maps.Copy(pod.Annotations, annotations)
	made, err := c.Kube.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("creating a Pod of virtual machine %s: %v", owner.Name, err)
	}
	return made
}

func (m *Machine) client(kind schema.GroupVersionKind) dynamic.ResourceInterface {
	m.t.Helper()
	resource := map[string]string{machineKind.Kind: "virtualmachines", instanceKind.Kind: "virtualmachineinstances"}
	client, err := m.c.objects(kind.GroupVersion().WithResource(resource[kind.Kind]), m.namespace)
	expect.NoError(m.t, err)
	return client
}

func (m *Machine) create(kind schema.GroupVersionKind, owners []metav1.OwnerReference) *unstructured.Unstructured {
	m.t.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	object.SetName(m.Name)
	object.SetOwnerReferences(owners)
	made, err := m.client(kind).Create(m.t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		m.t.Fatalf("creating %s %s: %v", kind.Kind, m.Name, err)
	}
	return made
}

func (m *Machine) delete(kind schema.GroupVersionKind) {
	m.t.Helper()
	err := m.client(kind).Delete(context.WithoutCancel(m.t.Context()), m.Name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		m.t.Fatalf("deleting %s %s: %v", kind.Kind, m.Name, err)
	}
}

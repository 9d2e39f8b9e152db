package consumer

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// Resources of KubeVirt, of which only the metadata are read.
var (
	MachineResource  = schema.GroupVersionResource{Group: "kubevirt.io", Version: "v1", Resource: "virtualmachines"}
	InstanceResource = schema.GroupVersionResource{
		Group: "kubevirt.io", Version: "v1", Resource: "virtualmachineinstances",
	}
)

// Kinds of KubeVirt. An instance is a virtual machine that runs. It controls the Pods that it runs in, and has the
// name of the virtual machine that controls it, if one does.
var (
	MachineKind  = schema.GroupKind{Group: "kubevirt.io", Kind: "VirtualMachine"}
	InstanceKind = schema.GroupKind{Group: "kubevirt.io", Kind: "VirtualMachineInstance"}
)

// Machines tell which virtual machines of KubeVirt there are. They are safe for concurrent use.
type Machines struct {
	// All and Instances are informers of metadata.
	All, Instances cache.SharedIndexInformer
}

// HasSynced reports whether the caches are full.
func (m *Machines) HasSynced() bool { return m.All.HasSynced() && m.Instances.HasSynced() }

// hasInstance reports whether the instance that a Pod names as its controller exists.
func (m *Machines) hasInstance(namespace string, owner *metav1.OwnerReference) bool {
	is := metadataIn(m.Instances, cache.NewObjectName(namespace, owner.Name))
	return is != nil && is.UID == owner.UID
}

// Return reports whether a Pod of a slot of a virtual machine may come back, by the caches.
func (m *Machines) Return(slot Slot) bool {
	name := cache.NewObjectName(slot.Namespace, slot.Machine)
	return returns(metadataIn(m.All, name), metadataIn(m.Instances, name))
}

// ReadReturn is Machines.Return by reads at the API server. A resource that is not served has no objects.
func ReadReturn(ctx context.Context, client metadata.Interface, slot Slot) (bool, error) {
	var found [2]*metav1.PartialObjectMetadata
	for i, resource := range []schema.GroupVersionResource{MachineResource, InstanceResource} {
		live, err := client.Resource(resource).Namespace(slot.Namespace).Get(ctx, slot.Machine, metav1.GetOptions{})
		switch {
		case err == nil:
			found[i] = live
		case !apierrors.IsNotFound(err):
			return false, fmt.Errorf("reading %s %q: %w", resource.GroupResource(), slot.Machine, err)
		}
	}
	return returns(found[0], found[1]), nil
}

// returns reports whether a virtual machine keeps its ports. It and its instance are nil if they are gone. One that
// is being deleted makes no Pods any more.
func returns(machine, instance *metav1.PartialObjectMetadata) bool {
	if instance != nil && instance.DeletionTimestamp == nil {
		return true
	}
	return machine != nil && machine.DeletionTimestamp == nil &&
		machine.Annotations[cloudteamv1.AnnotationPortsWhenStopped] != cloudteamv1.PortsDelete
}

func metadataIn(informer cache.SharedIndexInformer, name cache.ObjectName) *metav1.PartialObjectMetadata {
	object, _ := controller.Cached[*metav1.PartialObjectMetadata](informer.GetIndexer(), name)
	return object
}

func byMachine(pod *corev1.Pod) []string {
	slot, ok := MachineOf(pod)
	if !ok || !UsesNetworks(pod) {
		return nil
	}
	return []string{slot.Key().String()}
}

// MachineOf gives the slot of the virtual machine whose instance a Pod names as its controller. That proves nothing:
// see Caches.SlotOfPod.
func MachineOf(pod metav1.Object) (slot Slot, ok bool) {
	owner := controller.OwnerOf(pod, InstanceKind)
	if owner == nil {
		return Slot{}, false
	}
	return Slot{Namespace: pod.GetNamespace(), Machine: owner.Name}, true
}

// PodsOfMachine gives the Pods that use networks and name an instance of a virtual machine as their controller.
func (c *Caches) PodsOfMachine(slot Slot) []*corev1.Pod {
	return c.pods(indexMachine, slot.Key().String())
}

// SameInstance reports whether two Pods name one instance of a virtual machine as their controller: one of them is
// the source of a live migration, and the other one its target.
func SameInstance(a, b *corev1.Pod) bool {
	of, with := controller.OwnerOf(a, InstanceKind), controller.OwnerOf(b, InstanceKind)
	return of != nil && with != nil && a.Namespace == b.Namespace && of.Name == with.Name && of.UID == with.UID
}

// Source gives the Pod that a port of a virtual machine is bound to while a Pod, another one of the same instance, is
// the target of a live migration; nil if there is none. The caller has verified the instance.
func (c *Caches) Source(pod *corev1.Pod, port *cloudteamv1.NetworkPort) *corev1.Pod {
	source := c.PodOf(port)
	if source == nil || source.UID == pod.UID || Ended(source) || !SameInstance(source, pod) {
		return nil
	}
	return source
}

// Successor gives the Pod that gets a port of a virtual machine when the Pod that it is bound to has ended: the
// target of a live migration, which was given the port; nil if there is none. Of several, one that runs may have the
// guest: its next migration may have begun. The others are of migrations that failed. machines may be nil.
func (c *Caches) Successor(port *cloudteamv1.NetworkPort, machines *Machines) *corev1.Pod {
	of, ok := SlotOf(port)
	if !ok || of.Machine == "" {
		return nil
	}
	heirs := c.targets(port, func(pod *corev1.Pod) bool {
		slot, known := c.SlotOfPod(pod, machines)
		return known && slot != nil && *slot == of
	})
	running := slices.DeleteFunc(slices.Clone(heirs), func(pod *corev1.Pod) bool {
		return pod.Status.Phase != corev1.PodRunning
	})
	return cmp.Or(youngest(running), youngest(heirs))
}

// Target gives the target of a live migration whose source is the Pod that a port is bound to; nil if there is none.
// Unlike Successor, it takes the owner references of the two for true.
func (c *Caches) Target(port *cloudteamv1.NetworkPort, source *corev1.Pod) *corev1.Pod {
	return youngest(c.targets(port, func(pod *corev1.Pod) bool { return SameInstance(pod, source) }))
}

// targets gives the Pods, but for the one that a port is bound to, that were given the port and stay, and that fit.
func (c *Caches) targets(port *cloudteamv1.NetworkPort, fits func(*corev1.Pod) bool) []*corev1.Pod {
	return slices.DeleteFunc(c.GivenTo(port), func(pod *corev1.Pod) bool {
		return BoundTo(port) == pod.UID || pod.DeletionTimestamp != nil || !fits(pod)
	})
}

func youngest(pods []*corev1.Pod) *corev1.Pod {
	if len(pods) == 0 {
		return nil
	}
	return slices.MaxFunc(pods, func(a, b *corev1.Pod) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
}

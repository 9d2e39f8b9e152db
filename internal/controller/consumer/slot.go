package consumer

import (
	"fmt"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// Slot is what keeps ports for Pods that come one after the other: one number of a StatefulSet, whose Pods all have
// one name, or a virtual machine of KubeVirt, which has another Pod each time it starts. It is comparable.
//
// No object owns such a port: garbage collection would remove it with a StatefulSet that is deleted to be created
// again (kubectl delete --cascade=orphan). AnnotationMadeFor names the slot: "StatefulSet/db/0" or
// "VirtualMachine/db". The sync of Key deletes the port, and those of the slot's Pods create and bind it. ADR 40 and
// ADR 43 have the reasons.
type Slot struct {
	// Namespace is the one of the Pods.
	Namespace string
	// Set names the StatefulSet; empty for a virtual machine. Number is the Pod's ordinal in it.
	Set    string
	Number int
	// Machine names the virtual machine; empty for a StatefulSet.
	Machine string
}

// Key is the key of the sync that deletes the slot's ports: the name of the Pods of a StatefulSet, and for a virtual
// machine a name that no Pod can have.
func (s Slot) Key() cache.ObjectName {
	if s.Machine != "" {
		return cache.NewObjectName(s.Namespace, MachineKind.Kind+"/"+s.Machine)
	}
	return cache.NewObjectName(s.Namespace, fmt.Sprintf("%s-%d", s.Set, s.Number))
}

// String is the value of AnnotationMadeFor.
func (s Slot) String() string {
	if s.Machine != "" {
		return MachineKind.Kind + "/" + s.Machine
	}
	return fmt.Sprintf("%s/%s/%d", StatefulSetKind.Kind, s.Set, s.Number)
}

// set names the StatefulSet.
func (s Slot) set() cache.ObjectName { return cache.NewObjectName(s.Namespace, s.Set) }

// SlotOf gives the slot that a port was made for; ok is false if it was made for something else. Users can write the
// annotation: it proves nothing outside the port's namespace.
func SlotOf(port *cloudteamv1.NetworkPort) (slot Slot, ok bool) {
	kind, name, _ := strings.Cut(port.Annotations[AnnotationMadeFor], "/")
	if metav1.GetControllerOfNoCopy(port) != nil {
		return Slot{}, false
	}
	switch kind {
	case StatefulSetKind.Kind:
		set, number, _ := strings.Cut(name, "/")
		n, err := strconv.ParseInt(number, 10, 32)
		// The number is written as Kubernetes writes it.
		return Slot{Namespace: port.Namespace, Set: set, Number: int(n)},
			err == nil && n >= 0 && set != "" && strconv.FormatInt(n, 10) == number
	case MachineKind.Kind:
		return Slot{Namespace: port.Namespace, Machine: name}, len(validation.IsDNS1123Subdomain(name)) == 0
	}
	return Slot{}, false
}

// slotOfName gives the slot of a StatefulSet whose Pods have a name; ok is false if none makes such a name.
func slotOfName(pod cache.ObjectName) (slot Slot, ok bool) {
	end := strings.LastIndexByte(pod.Name, '-')
	if end <= 0 {
		return Slot{}, false
	}
	n, err := strconv.ParseInt(pod.Name[end+1:], 10, 32)
	slot = Slot{Namespace: pod.Namespace, Set: pod.Name[:end], Number: int(n)}
	return slot, err == nil && slot.Key() == pod
}

// SlotOfPod gives the slot of a Pod that a StatefulSet or an instance of a virtual machine controls, nil for none.
// known is false if the cache lacks that owner (yet). Users can write any owner reference, so the owner MUST exist in
// the Pod's namespace under the name and the UID that the reference has. machines is nil where KubeVirt is not
// served.
func (c *Caches) SlotOfPod(pod *corev1.Pod, machines *Machines) (slot *Slot, known bool) {
	if owner := controller.OwnerOf(pod, InstanceKind); owner != nil && machines != nil {
		if !machines.hasInstance(pod.Namespace, owner) {
			return nil, false
		}
		return &Slot{Namespace: pod.Namespace, Machine: owner.Name}, true
	}
	owner := controller.OwnerOf(pod, StatefulSetKind)
	if owner == nil {
		return nil, true
	}
	found, ok := slotOfName(cache.MetaObjectToName(pod))
	if !ok || found.Set != owner.Name {
		return nil, true // a StatefulSet makes no Pod of this name
	}
	set := c.StatefulSet(cache.NewObjectName(pod.Namespace, owner.Name))
	if set == nil || set.UID != owner.UID {
		return nil, false
	}
	return &found, true
}

// Returns reports whether a Pod of the slot of a StatefulSet may come back: the StatefulSet stays, and has the slot's
// number or keeps the ports of those that it is scaled down by. set is nil if it is gone.
func (s Slot) Returns(set *appsv1.StatefulSet) bool {
	if set == nil || set.DeletionTimestamp != nil {
		return false
	}
	start, replicas := 0, 1
	if set.Spec.Ordinals != nil {
		start = int(set.Spec.Ordinals.Start)
	}
	if set.Spec.Replicas != nil {
		replicas = int(*set.Spec.Replicas)
	}
	return s.Number >= start && s.Number < start+replicas ||
		set.Annotations[cloudteamv1.AnnotationPortsWhenScaled] == cloudteamv1.PortsRetain
}

// PortsOfSlot gives the ports that were made for the slot of a key; see Slot.Key.
func (c *Caches) PortsOfSlot(key cache.ObjectName) []*cloudteamv1.NetworkPort {
	return c.ports(indexMadeFor, slotKey(key))
}

// slotKey is the value of indexMadeFor for the slot of a key. No kind has this name.
func slotKey(key cache.ObjectName) string { return "slot " + key.String() }

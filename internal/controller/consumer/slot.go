package consumer

import (
	"fmt"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// Slot is one number of a StatefulSet. Its Pods come one after the other, all under one name, and have the same ports.
//
// No object owns such a port: garbage collection would remove it with a StatefulSet that is deleted to be created again
// (kubectl delete --cascade=orphan). AnnotationMadeFor names the slot: "StatefulSet/db/0". The sync of the Pod's name
// creates, binds and deletes the port. ADR 40 has the reasons.
type Slot struct {
	// Namespace and Set name the StatefulSet.
	Namespace, Set string
	// Number is the Pod's ordinal.
	Number int
}

// Pod names the Pods of the slot.
func (s Slot) Pod() cache.ObjectName {
	return cache.NewObjectName(s.Namespace, fmt.Sprintf("%s-%d", s.Set, s.Number))
}

// set names the StatefulSet.
func (s Slot) set() cache.ObjectName { return cache.NewObjectName(s.Namespace, s.Set) }

// SlotOf gives the slot that a port was made for; ok is false if it was made for something else. Users can write the
// annotation: it proves nothing outside the port's namespace.
func SlotOf(port *cloudteamv1.NetworkPort) (slot Slot, ok bool) {
	text, made := strings.CutPrefix(port.Annotations[AnnotationMadeFor], StatefulSetKind.Kind+"/")
	if !made || metav1.GetControllerOfNoCopy(port) != nil {
		return Slot{}, false
	}
	set, number, _ := strings.Cut(text, "/")
	return slotOf(port.Namespace, set, number)
}

// SlotOfName gives the slot whose Pods have a name, if a StatefulSet makes them; ok is false if none makes such a name.
func SlotOfName(pod cache.ObjectName) (slot Slot, ok bool) {
	end := strings.LastIndexByte(pod.Name, '-')
	if end < 0 {
		return Slot{}, false
	}
	return slotOf(pod.Namespace, pod.Name[:end], pod.Name[end+1:])
}

// slotOf reads the number of a slot, which is written as Kubernetes writes it.
func slotOf(namespace, set, number string) (slot Slot, ok bool) {
	n, err := strconv.ParseInt(number, 10, 32)
	slot = Slot{Namespace: namespace, Set: set, Number: int(n)}
	return slot, err == nil && n >= 0 && set != "" && strconv.FormatInt(n, 10) == number
}

// SlotOfPod gives the slot of a Pod that a StatefulSet controls, nil for none. known is false if the cache lacks the
// StatefulSet (yet). Users can write any owner reference, so it MUST exist in the Pod's namespace under the name and
// the UID that the reference has.
func (c *Caches) SlotOfPod(pod *corev1.Pod) (slot *Slot, known bool) {
	owner := controller.OwnerOf(pod, StatefulSetKind)
	if owner == nil {
		return nil, true
	}
	found, ok := SlotOfName(cache.MetaObjectToName(pod))
	if !ok || found.Set != owner.Name {
		return nil, true // a StatefulSet makes no Pod of this name
	}
	set, err := c.StatefulSets.Lister().StatefulSets(pod.Namespace).Get(owner.Name)
	if err != nil || set.UID != owner.UID {
		return nil, false
	}
	return &found, true
}

// Returns reports whether a Pod of the slot may come back: the StatefulSet stays, and has the slot's number or keeps
// the ports of those that it is scaled down by. set is nil if it is gone.
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

// PortsOfSlot gives the ports that were made for the slot of a Pod's name.
func (c *Caches) PortsOfSlot(pod cache.ObjectName) []*cloudteamv1.NetworkPort {
	return c.ports(indexMadeFor, slotKey(pod))
}

// slotKey is the value of indexMadeFor for the slot of a Pod's name. No kind has this name.
func slotKey(pod cache.ObjectName) string { return "slot " + pod.String() }

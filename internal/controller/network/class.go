package network

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/classes"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// exists reports by the status whether a Network has something in Neutron.
func exists(obj *cloudteamv1.Network) bool {
	return obj.Status.NetworkID != "" || obj.Status.AppliedGeneration > 0
}

// mayExist also reports it of a Network that a sync began to create. Users can write a finalizer; they can harm only
// their own namespace's room with it.
func mayExist(obj *cloudteamv1.Network) bool {
	return exists(obj) || slices.Contains(obj.Finalizers, cloudteamv1.Finalizer)
}

// limit refuses a new Network if its namespace has as many of its class as the class allows.
func (k *kind) limit(obj *cloudteamv1.Network, rule classes.Rule) error {
	limit := rule.Limits().NetworksPerNamespace
	if limit == nil || exists(obj) {
		return nil
	}
	beside, err := k.networks.Networks(obj.Namespace).List(labels.Everything())
	if err != nil {
		return err
	}
	beside = slices.DeleteFunc(beside, func(other *cloudteamv1.Network) bool {
		of := k.classes.RuleOf(other)
		return other.Spec.Cloud != nil || of.Missing != "" || of.Name != rule.Name
	})
	if !classes.Full(obj, beside, limit, mayExist) {
		return nil
	}
	return managed.Waits(controller.Stalled(
		cloudteamv1.ReasonClassLimitReached, classes.NetworkLimitMessage(rule.Name, *limit)))
}

// roomHandler requeues the Networks that wait for room in their namespace when another one leaves its class.
func (k *kind) roomHandler(c *Controller) cache.ResourceEventHandler {
	wake := func(obj any) {
		gone, err := cache.DeletionHandlingObjectToName(obj)
		if err != nil {
			return // every object that is served has a name
		}
		beside, err := k.networks.Networks(gone.Namespace).List(labels.Everything())
		if err != nil {
			return // a cache gives none
		}
		for _, other := range beside {
			if stalled := meta.FindStatusCondition(other.Status.Conditions, cloudteamv1.ConditionStalled); stalled != nil &&
				stalled.Reason == cloudteamv1.ReasonClassLimitReached {
				c.Enqueue(cache.MetaObjectToName(other))
			}
		}
	}
	return cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(was, is any) {
			before, ok := was.(*cloudteamv1.Network)
			after, same := is.(*cloudteamv1.Network)
			if ok && same && (before.Spec.ClassName != after.Spec.ClassName ||
				(before.Spec.Cloud == nil) != (after.Spec.Cloud == nil)) {
				wake(is)
			}
		},
		DeleteFunc: wake,
	}
}

// tellClass writes by which class the Network was made, and what that class forbids of a Network that is kept. A
// Network that is being deleted keeps the record: it says with whose credentials to delete.
func tellClass(obj *cloudteamv1.Network, declared managed.Declaration) {
	conditions := &obj.Status.Conditions
	d, ok := ownDeclaration(declared)
	if ok {
		obj.Status.Class = d.class.DeepCopy()
	}
	if ok && obj.DeletionTimestamp == nil && d.forbids != nil {
		meta.SetStatusCondition(conditions, metav1.Condition{
			Type: cloudteamv1.ConditionClassViolated, Status: metav1.ConditionTrue, ObservedGeneration: obj.Generation,
			Reason: d.forbids.Reason, Message: d.forbids.Message,
		})
		return
	}
	meta.RemoveStatusCondition(conditions, cloudteamv1.ConditionClassViolated)
}

package securitygroup

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

// exists reports by the status whether a SecurityGroup has a group in Neutron.
func exists(obj *cloudteamv1.SecurityGroup) bool {
	return obj.Status.SecurityGroupID != "" || obj.Status.AppliedGeneration > 0
}

// mayExist also reports it of a SecurityGroup that a sync began to create. Users can write a finalizer; they can harm
// only their own namespace's room with it.
func mayExist(obj *cloudteamv1.SecurityGroup) bool {
	return exists(obj) || slices.Contains(obj.Finalizers, cloudteamv1.SecurityGroupFinalizer)
}

// limit refuses a new SecurityGroup if its namespace has as many of its class as the class allows.
func (k *kind) limit(obj *cloudteamv1.SecurityGroup, rule classes.Rule) error {
	limit := rule.Limits().SecurityGroupsPerNamespace
	if limit == nil || exists(obj) {
		return nil
	}
	beside, err := k.groups.SecurityGroups(obj.Namespace).List(labels.Everything())
	if err != nil {
		return err
	}
	beside = slices.DeleteFunc(beside, func(other *cloudteamv1.SecurityGroup) bool {
		of := k.classes.RuleOf(inClass(other))
		return other.Spec.Cloud != nil || of.Missing != "" || of.Name != rule.Name
	})
	if !classes.Full(obj, beside, limit, mayExist) {
		return nil
	}
	return managed.Waits(controller.Stalled(
		cloudteamv1.ReasonClassLimitReached, classes.GroupLimitMessage(rule.Name, *limit)))
}

// waiting names the SecurityGroups that wait for room in the namespace of another one, which left its class.
func (k *kind) waiting(left metav1.Object) (keys []cache.ObjectName) {
	beside, err := k.groups.SecurityGroups(left.GetNamespace()).List(labels.Everything())
	if err != nil {
		return nil // a cache gives none
	}
	for _, other := range beside {
		if stalled := meta.FindStatusCondition(other.Status.Conditions, cloudteamv1.ConditionStalled); stalled != nil &&
			stalled.Reason == cloudteamv1.ReasonClassLimitReached && other.GetName() != left.GetName() {
			keys = append(keys, cache.MetaObjectToName(other))
		}
	}
	return keys
}

// roomHandler requeues the SecurityGroups that wait for room in their namespace when another one leaves its class.
func (k *kind) roomHandler(c *Controller) cache.ResourceEventHandler {
	left := c.HandlerOf(k.waiting)
	return cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(was, is any) {
			before, ok := was.(*cloudteamv1.SecurityGroup)
			after, same := is.(*cloudteamv1.SecurityGroup)
			if ok && same && (before.Spec.ClassName != after.Spec.ClassName ||
				(before.Spec.Cloud == nil) != (after.Spec.Cloud == nil)) {
				left.OnUpdate(was, is)
			}
		},
		DeleteFunc: left.OnDelete,
	}
}

package managed

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/classes"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// Room bounds how many objects of a kind a namespace may have of one class.
type Room[T Object] struct {
	// Kind is the kind in messages, such as Network. Finalizer is its Descriptor's.
	Kind, Finalizer string
	// Beside lists the objects of a namespace.
	Beside func(namespace string) ([]T, error)
	// InClass gives a Network of the object's class and cloud, for Classes.
	InClass func(T) *cloudteamv1.Network
	// Exists reports by the status whether an object has something in Neutron.
	Exists func(T) bool
	// Limit is the one of this kind; nil for none.
	Limit func(cloudteamv1.ClassLimits) *int32
	// Classes finds the classes; nil stands for the built-in class.
	Classes *classes.Classes
}

// InClass is a Network of the class and the cloud of an object of another kind, for what decides about these. It has no
// subnets and nothing else that a class could forbid.
func InClass(
	of metav1.ObjectMeta, cloud *cloudteamv1.CloudReference, className string, status cloudteamv1.ResourceStatus,
	class *cloudteamv1.AppliedClass,
) *cloudteamv1.Network {
	n := &cloudteamv1.Network{ObjectMeta: of}
	n.Spec.Cloud, n.Spec.ClassName = cloud, className
	n.Status.ResourceStatus, n.Status.Class = status, class
	return n
}

// Refuse gives the problem of a new object whose namespace has as many of its class, judged by rule, as the class
// allows. It is nil if there is room, and for an object that exists in Neutron.
func (r *Room[T]) Refuse(obj T, rule classes.Rule) error {
	limit := r.Limit(rule.Limits())
	if limit == nil || r.Exists(obj) {
		return nil
	}
	beside, err := r.Beside(obj.GetNamespace())
	if err != nil {
		return err
	}
	beside = slices.DeleteFunc(beside, func(other T) bool {
		in := r.InClass(other)
		of := r.Classes.RuleOf(in)
		return in.Spec.Cloud != nil || of.Missing != "" || of.Name != rule.Name
	})
	if !classes.Full(obj, beside, limit, r.mayExist) {
		return nil
	}
	return Waits(controller.Stalled(
		cloudteamv1.ReasonClassLimitReached, classes.LimitMessage(r.Kind, rule.Name, *limit)))
}

// mayExist also reports it of an object that a sync began to create. Users can write a finalizer; they can harm only
// their own namespace's room with it.
func (r *Room[T]) mayExist(obj T) bool {
	return r.Exists(obj) || slices.Contains(obj.GetFinalizers(), r.Finalizer)
}

// Handler requeues the objects that wait for room in their namespace when another one leaves its class.
func (r *Room[T]) Handler(c *Reconciler[T]) cache.ResourceEventHandler {
	wake := func(obj any) {
		left, err := cache.DeletionHandlingObjectToName(obj)
		if err != nil {
			return // every object that is served has a name
		}
		beside, err := r.Beside(left.Namespace)
		if err != nil {
			return // a cache gives none
		}
		c.EnqueueWaiting(beside)
	}
	return cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(was, is any) {
			before, ok := was.(T)
			after, same := is.(T)
			if ok && same && r.moved(before, after) {
				wake(is)
			}
		},
		DeleteFunc: wake,
	}
}

// moved reports whether two states of an object are in different classes.
func (r *Room[T]) moved(was, is T) bool {
	before, after := r.InClass(was).Spec, r.InClass(is).Spec
	return before.ClassName != after.ClassName || (before.Cloud == nil) != (after.Cloud == nil)
}

// EnqueueWaiting requeues those of the objects that the limit of a class keeps waiting.
func (r *Reconciler[T]) EnqueueWaiting(objs []T) {
	for _, obj := range objs {
		stalled := meta.FindStatusCondition(r.kind.Status(obj).Conditions, cloudteamv1.ConditionStalled)
		if stalled != nil && stalled.Reason == cloudteamv1.ReasonClassLimitReached {
			r.Enqueue(cache.MetaObjectToName(obj))
		}
	}
}

// TellViolation says in the conditions what its class forbids of an object that is kept all the same; forbids is nil
// if it forbids nothing. Of an object that is being deleted nothing is said.
func TellViolation(obj metav1.Object, conditions *[]metav1.Condition, forbids *controller.State) {
	if forbids == nil || obj.GetDeletionTimestamp() != nil {
		meta.RemoveStatusCondition(conditions, cloudteamv1.ConditionClassViolated)
		return
	}
	meta.SetStatusCondition(conditions, metav1.Condition{
		Type: cloudteamv1.ConditionClassViolated, Status: metav1.ConditionTrue, ObservedGeneration: obj.GetGeneration(),
		Reason: forbids.Reason, Message: forbids.Message,
	})
}

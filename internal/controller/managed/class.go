package managed

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/classes"
	"cloudteam.ztgame.com/network-controller/internal/kinds"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// Classed judges the objects of a kind by their NetworkClasses. A Kind with one has its Cloud, Operator and Room from
// it.
type Classed[T Object] struct {
	// Classes finds the classes; nil means the built-in class.
	Classes *classes.Classes
	// Judge, if set, takes the place of Classes.Judge. in is a Network of the object's class and cloud.
	Judge func(in *cloudteamv1.Network, obj T) (made classes.Made, rule classes.Rule, reason, message string)
	// ID gives the id of an object's main resource by the status; empty for none.
	ID func(obj T) string
	// Limit gives how many objects of the kind a namespace may have; nil for any number.
	Limit func(cloudteamv1.ClassLimits) *int32

	room *Room[T]
}

// Judged is what the class of an object says of it.
type Judged struct {
	classes.Made
	// Forbids is what the conditions say of what the class forbids; nil if it forbids nothing.
	Forbids *controller.State
}

// Of judges an object, once in a sync. refused says why it is not applied now; nil if it is. One that was applied
// before is kept as declared, whatever the class forbids now.
func (c *Classed[T]) Of(obj T) (judged Judged, refused *Problem) {
	in := inClass(obj)
	var rule classes.Rule
	var reason, message string
	if c.Judge != nil {
		judged.Made, rule, reason, message = c.Judge(in, obj)
	} else {
		judged.Made, rule, reason, message = c.Classes.Judge(in)
	}
	if Object(in) != Object(obj) && judged.With != nil { // the defaults are for Networks
		judged.With = &cloudteamv1.AppliedClass{Name: judged.With.Name}
	}
	if reason != "" {
		judged.Forbids = new(controller.Stalled(reason, message))
		if !judged.Kept {
			return judged, Waits(*judged.Forbids)
		}
	}
	return judged, c.room.Refuse(obj, rule.LimitMessage(c.room.row.Name))
}

// CloudOf gives the cloud of an object; see the function CloudOf.
func (c *Classed[T]) CloudOf(obj T) (at CloudRef, known bool) {
	return CloudOf(inClass(obj), c.Classes)
}

// fill sets what a Kind has from its Classed.
func (c *Classed[T]) fill(kind *Kind[T]) {
	status := kinds.OfObject(*new(T)).Status
	// No limit refuses what exists, or existed.
	exists := func(obj T) bool { return c.ID(obj) != "" || status(obj).AppliedGeneration > 0 }
	c.room = RoomOf(c.Classes, func(obj T) *cloudteamv1.Network { return inClass(obj) }, exists, c.Limit)
	kind.Room, kind.Operator = c.room, c.Classes.Namespace()
	kind.Cloud = func(obj T) (Place, bool) {
		cloud, known := c.CloudOf(obj)
		return Place{Cloud: cloud}, known
	}
}

// inClass is a Network of the class and the cloud of an object, for what decides about these: the object itself, or one
// without subnets and all else that a class could forbid.
func inClass(obj Object) *cloudteamv1.Network {
	if n, is := obj.(*cloudteamv1.Network); is {
		return n
	}
	row := kinds.OfObject(obj)
	className, cloud, applied := row.Class(obj)
	n := &cloudteamv1.Network{ObjectMeta: *obj.(metav1.ObjectMetaAccessor).GetObjectMeta().(*metav1.ObjectMeta)}
	n.Spec.Cloud, n.Spec.ClassName = cloud, className
	n.Status.ResourceStatus, n.Status.Class = *row.Status(obj), applied
	return n
}

// SetViolation says in the conditions what its class forbids of an object that is nevertheless kept; forbids is nil
// if it forbids nothing. Of an object that is being deleted nothing is said.
func SetViolation(obj metav1.Object, conditions *[]metav1.Condition, forbids *controller.State) {
	if forbids == nil || obj.GetDeletionTimestamp() != nil {
		meta.RemoveStatusCondition(conditions, cloudteamv1.ConditionClassViolated)
		return
	}
	meta.SetStatusCondition(conditions, metav1.Condition{
		Type: cloudteamv1.ConditionClassViolated, Status: metav1.ConditionTrue, ObservedGeneration: obj.GetGeneration(),
		Reason: forbids.Reason, Message: forbids.Message,
	})
}

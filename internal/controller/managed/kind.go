// Package managed reconciles objects whose resources are in Neutron. The protocol is the same for every kind, and is
// here once: the finalizer before the first resource, a look before each create, plan and apply until the plan is empty,
// the pinned cloud, and the removal of everything before the object goes. What differs between kinds is a Kind.
package managed

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// Object is an object of a kind whose resources are in Neutron, such as *cloudteamv1.Network.
type Object interface {
	metav1.Object
	runtime.Object
}

// Declaration is what one object asks for, in the terms of package network.
type Declaration interface {
	// Plan gives the steps that make observed as declared; see plan.Network. A *Waiting says that something has to come
	// first: what is there is shown, nothing is done, and it is planned again when an event brings the object's key.
	Plan(observed plan.Observed) (plan.Change, error)
	// Complete reports whether everything that is declared exists, whatever its settings.
	Complete(observed plan.Observed) bool
}

// Import is how an object stands for a resource that was there before it.
type Import struct {
	// ID is the resource's; empty where the object's is made here.
	ID string
	// Observe is true where the object only shows it, and nothing may be written to Neutron.
	Observe bool
}

// Importing is the Declaration of an object that has an Import.
type Importing interface {
	Declaration
	// PlanImport gives the steps that make the network that was found the object's; see plan.Adopt.
	PlanImport(found plan.ObservedNetwork) (plan.Change, error)
	// Compare gives the differences of the network that was found; see plan.Compare.
	Compare(found plan.ObservedNetwork) ([]plan.Difference, error)
}

// Kind is what the protocol asks of a kind of object. The functions are called from many goroutines, for different
// objects. Objects that they are given are a cache's own and MUST NOT be changed, except by Show.
type Kind[T Object] struct {
	// Controller is the controller's name in --controllers, in logs and in metrics.
	Controller string
	// GroupVersionKind is the kind's in Kubernetes.
	GroupVersionKind schema.GroupVersionKind
	// Resource is the kind of the resource that stands for an object.
	Resource plan.Kind
	// Finalizer is on an object before its first resource is created, and goes when the last one is gone.
	Finalizer string
	// Patch is the kind's generated client for a namespace.
	Patch func(namespace string) controller.Patch[T]

	// Prepare is called before the Inventory is asked about an object. It may be nil.
	Prepare func(in Inventory, obj T)
	// Declare gives what an object asks for. A *Waiting says that something has to come first; another error is a spec
	// that cannot be applied to any cloud. Nothing is done then, and both are looked at again when an event brings the
	// object's key.
	Declare func(obj T, owner plan.Owner) (Declaration, error)
	// Resolve puts ids in the place of what a declaration calls by name, by asking the cloud where it must. It may be nil.
	// It is called before a declaration is planned with; its error has the key tried again, and nothing is planned unless
	// it is an *Unresolved.
	Resolve func(ctx context.Context, in Inventory, declared Declaration) (Declaration, error)
	// Parts names the resources that an object has beside the one that stands for it, as its spec declares them, with the
	// ids that were last seen or without. It may be nil.
	Parts func(obj T) []plan.Resource
	// Name is what the resources of an object are called in Neutron when they are created. It may itself be nil, where
	// that is the object's own name.
	Name func(obj T) string
	// Import says whether the resource was there before the object. It may be nil, where none was. Where it gives an ID,
	// Declare gives an Importing.
	Import func(obj T) Import
	// Cloud gives the cloud of an object's resources; known is false where that cannot be told now. It may itself be nil,
	// where all are in the process's own.
	Cloud func(obj T) (ref CloudRef, known bool)
	// Pin gives the cloud that holds what an object's resources are on, so that they can be in no other, where that is
	// known; nil where it is not. It may itself be nil, where they are on nothing.
	Pin func(obj T) *cloudteamv1.CloudStatus
	// ID is the id of the resource that was last seen to stand for an object, or empty.
	ID func(obj T) string
	// Policies are the object's own: what it leaves unset is as DefaultTo says.
	Policies func(obj T) Policies
	// InUse says, in a message for users, what in Kubernetes still uses the object's resource, so that it cannot be
	// deleted yet; empty where nothing does. What is in use is looked at again when an event brings the object's key.
	InUse func(obj T) string

	// Status gives the part of an object's status that all kinds have.
	Status func(obj T) *cloudteamv1.ResourceStatus
	// Show fills in the kind's own part of an object's status, from what was observed, and the conditions that are of the
	// kind alone. declared is nil where the object is being deleted.
	Show func(obj T, declared Declaration, owner plan.Owner, observed plan.Observed)
	// Warnings are the types of conditions of Show's of which a Warning Event tells when they become True.
	Warnings []string
	// Negligible reports whether all in which an object's status, as Show left it, differs from what it was moves all the
	// time, and too little to be worth a write. It is written with the next thing that is. It may be nil, where everything
	// is worth a write.
	Negligible func(was, is T) bool
	// StatusToWrite is what of the status is this controller's to write.
	StatusToWrite func(obj T) any
}

// Unresolved says that parts of a declaration call something by names that mean nothing, or no one thing, in the cloud.
// The declaration that Resolve gives with it leaves those parts as they are; all else is made and kept as declared. A
// resource that was there before its object is not taken over before all is known.
type Unresolved struct {
	// Err is what the object's condition tells, of each of the names.
	Err error
}

// Error is that of Err.
func (u *Unresolved) Error() string { return u.Err.Error() }

// Unwrap gives Err.
func (u *Unresolved) Unwrap() error { return u.Err }

// Waiting says that an object's resource cannot be made before something else has happened.
type Waiting struct {
	// Reason is a fixed word, Message a sentence that names what is waited for.
	Reason, Message string
	// Stalled is true where it does not come by itself: somebody has to act.
	Stalled bool
}

// Error is the message.
func (w *Waiting) Error() string { return w.Message }

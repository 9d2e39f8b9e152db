// Package managed reconciles objects whose resources are in Neutron. The protocol is here once, for every kind: the
// finalizer before the first resource, a live look before each create that may have been tried, plan and apply until
// the plan is empty, the pinned cloud, and the removal of everything before the object goes. A Kind gives what differs.
//
// Files, from the top down: reconciler (events), sync (protocol), observe, pause and release (its other ends), look
// (what is in Neutron), apply (writes), clouds (where), claim, memory, status, events, errors, policies, kind.
package managed

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// Object is an object of a kind whose resources are in Neutron, such as *cloudteamv1.Network.
type Object interface {
	metav1.Object
	runtime.Object
}

// Inventory is what a Reconciler and its Kind need of a inventory.Inventory.
type Inventory interface {
	Identity(ctx context.Context) (client.Identity, error)
	Observed(ctx context.Context, owner plan.Owner, since time.Time) (plan.Observed, error)
	Reread(ctx context.Context, resource plan.Resource) (found bool, err error)
	Find(ctx context.Context, of plan.Kind, name string, owner plan.Owner) (found bool, err error)
	Apply(ctx context.Context, change plan.Change) (done plan.Change, err error)
	Blockers(ctx context.Context, refused plan.Step) (inventory.Blockers, error)
	Foreign(ctx context.Context, id string) (n inventory.Foreign, found bool, err error)
	CoverRouters()
	Router(ctx context.Context, idOrName string) (id string, err error)
	ExternalNetwork(ctx context.Context, idOrName string) (id string, err error)
	CoverShares()
	QoSPolicy(ctx context.Context, idOrName string) (id string, err error)
	SubnetPool(ctx context.Context, field, idOrName string) (pool plan.SubnetPool, err error)
}

// Descriptor is what is fixed of a kind.
type Descriptor struct {
	// Controller is the controller's name in --controllers, in logs and in metrics.
	Controller string
	// GroupVersionKind is the kind's in Kubernetes.
	GroupVersionKind schema.GroupVersionKind
	// Resource is the kind of the resource that stands for an object.
	Resource plan.Kind
	// Finalizer is on an object before its first resource is created, and goes when the last one is gone.
	Finalizer string
	// Warnings are the types of Show's conditions for which a Warning Event is sent when they become True.
	Warnings []string
}

// Kind is what the protocol asks of a kind of object. The functions are called from many goroutines, for different
// objects. They MUST NOT change the objects that they are given, which are a cache's own; Show MAY.
type Kind[T Object] struct {
	Descriptor

	// Patch is the kind's generated client for a namespace.
	Patch func(namespace string) controller.Patch[T]

	// Prepare is called before the Inventory is asked about an object. It may be nil.
	Prepare func(in Inventory, obj T)
	// Expected lists what may exist in Neutron for an object, as its spec and its status say. The first entry is the
	// resource that stands for the object.
	Expected func(obj T) []Lookup
	// Cloud gives the cloud of an object's resources; known is false where that cannot be told now.
	Cloud func(obj T) (at Place, known bool)
	// Declare gives what an object asks for. A *Waiting says that something has to come first. Another error is a spec
	// that cannot be applied to any cloud. Neither is retried before an event brings the object's key.
	Declare func(obj T, owner plan.Owner) (Declaration, error)
	// Policies are the object's own: what it leaves unset is as DefaultTo says.
	Policies func(obj T) Policies
	// InUse says, in a message for users, what in Kubernetes still uses the object's resource, so that it cannot be
	// deleted yet; empty where nothing does. An event brings the key of an object that is in use.
	InUse func(obj T) string

	// Status gives the part of an object's status that all kinds have.
	Status func(obj T) *cloudteamv1.ResourceStatus
	// Show fills in the kind's own part of an object's status, from what was observed, and the conditions that are of the
	// kind alone. declared is nil where the object is being deleted.
	Show func(obj T, declared Declaration, owner plan.Owner, observed plan.Observed)
	// ToWrite gives what of the status is this controller's to write, and whether that differs from what it was by enough
	// to be worth a write. What is not is written with the next status that is.
	ToWrite func(was, is T) (status any, changed bool)
}

// Lookup is one resource that may exist in Neutron for an object: its kind, the id that was last seen, or empty, and
// the name that it bears, or would bear if it had been created.
type Lookup struct {
	plan.Resource
	Name string
	// Imported is true of a resource that was there before the object. It is adopted and never created: the object's
	// Declaration is an Adopter.
	Imported bool
}

// Place is where an object's resources are.
type Place struct {
	Cloud CloudRef
	// Pinned is the cloud that holds what the resources are on, so that they can be in no other; nil where that is not
	// known, or where they are on nothing.
	Pinned *cloudteamv1.CloudStatus
}

// Declaration is what one object asks for, in the terms of package plan.
type Declaration interface {
	// Resolve gives the declaration with ids in the place of names, by asking the cloud where it must. It is called before
	// Plan. An *Unresolved comes with a declaration that can be planned all the same; after another error nothing is
	// planned. The key is retried after both.
	Resolve(ctx context.Context, in Inventory) (Declaration, error)
	// Plan gives the steps that make observed as declared; see plan.Network. A *Waiting says that something has to come
	// first: the status shows what is there, nothing is done, and an event brings the key.
	Plan(observed plan.Observed) (plan.Change, error)
	// Complete reports whether everything that is declared exists, whatever its settings.
	Complete(observed plan.Observed) bool
}

// Adopter is the Declaration of an object whose resource was there before it.
type Adopter interface {
	Declaration
	// Adopt gives the steps after which the resource bears the object's marker. It is asked while nothing bears that, and
	// is the one exception from the rule that what bears no marker of ours is not touched.
	Adopt(ctx context.Context, in Inventory) (plan.Change, error)
}

// Observer is the Declaration of an object with Policies.Observe.
type Observer interface {
	Declaration
	// Observe reads the resource. The result is shown also where err is not nil, as far as it goes.
	Observe(ctx context.Context, in Inventory) (Observation, error)
}

// Observation is what an Observer saw.
type Observation struct {
	// Observed is what there is; nil where that is not known.
	Observed *plan.Observed
	// Drift is in what that differs from what is declared.
	Drift []plan.Difference
	// State is what the object's conditions say where there is no error.
	State controller.State
}

// Waiting says that an object's resource cannot be made before something else has happened.
type Waiting struct {
	// Reason is a fixed word, Message a sentence that names what is waited for.
	Reason, Message string
	// Stalled is true where it does not come by itself: somebody has to act.
	Stalled bool
}

// Error is the message.
func (w *Waiting) Error() string { return w.Message }

// Unresolved says that parts of a declaration call something by names that mean nothing, or no one thing, in the cloud.
// Those parts are left as they are; all else is made and kept as declared. Nothing is adopted before all is known.
type Unresolved struct {
	// Err is what the object's condition tells, of each of the names.
	Err error
}

// Error is that of Err.
func (u *Unresolved) Error() string { return u.Err.Error() }

// Unwrap gives Err.
func (u *Unresolved) Unwrap() error { return u.Err }

// Problem is an error of which the kind itself knows what it means for the object.
type Problem struct {
	Err error
	// State is what the object's conditions say.
	State controller.State
	// Drift are the differences that are the problem, if any.
	Drift []plan.Difference
}

// Error is that of Err.
func (p *Problem) Error() string { return p.Err.Error() }

// Unwrap gives Err.
func (p *Problem) Unwrap() error { return p.Err }

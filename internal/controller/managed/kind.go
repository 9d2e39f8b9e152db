// Package managed reconciles objects whose resources are in Neutron. It implements the protocol once for all kinds; a
// Kind supplies the differences. The finalizer comes before the first resource. A live lookup precedes each create that
// an earlier process may have tried. Plan and apply repeat until the plan is empty. The object is pinned to one cloud.
// All resources are removed before the object is.
//
// Files, from the top down: reconciler (events, cloud, finalizer), sync (protocol), observe, pause and release (its
// other paths), inventory (what is in Neutron), clouds (other clouds), takeback (metadata), memory, status, events,
// errors, policies, class, room (limits of classes), kind.
package managed

import (
	"context"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/kinds"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// Object is an object of a kind whose resources are in Neutron, such as *cloudteamv1.Network.
type Object = kinds.Object

// Inventory is the part of an inventory.Inventory that a Reconciler and its Kind need.
type Inventory interface {
	Identity(ctx context.Context) (client.Identity, error)
	Observed(ctx context.Context, owner plan.Owner, since time.Time, need ...plan.Kind) (plan.Observed, error)
	Reread(ctx context.Context, resource plan.Resource) (found bool, err error)
	Find(ctx context.Context, of plan.Kind, name string, owner plan.Owner) (found bool, err error)
	Apply(ctx context.Context, change plan.Change) (done plan.Change, err error)
	Discard(ctx context.Context, owner plan.Owner) error
	Blockers(ctx context.Context, refused plan.Step) (inventory.Blockers, error)
	Matching(
		ctx context.Context, of plan.Kind, by plan.ImportFilter, owner plan.Owner, ofProject bool,
	) (ids []string, err error)
	Foreign(ctx context.Context, id string) (n inventory.Foreign, found bool, err error)
	ForeignFloatingIP(ctx context.Context, id string) (f inventory.ForeignFloatingIP, found bool, err error)
	Router(ctx context.Context, idOrName string) (id string, err error)
	ExternalNetwork(ctx context.Context, field, idOrName string) (id string, err error)
	QoSPolicy(ctx context.Context, idOrName string) (id string, err error)
	SecurityGroup(ctx context.Context, field, idOrName string) (id string, err error)
	SubnetPool(ctx context.Context, field, idOrName string) (pool plan.SubnetPool, err error)
}

// Kind supplies what the protocol needs to know of a kind of object, beside its row in package kinds. The functions are
// called concurrently for different objects. They MUST NOT change their objects, which belong to a cache; Show MAY.
type Kind[T Object] struct {
	// Controller is the controller's name in --controllers, in logs and in metrics.
	Controller string
	// Resource is the kind of the main resource of an object.
	Resource plan.Kind
	// Warnings are the types of Show's conditions that send a Warning Event when they become True.
	Warnings []string

	// Patch is the kind's generated client for a namespace.
	Patch func(namespace string) controller.Patch[T]

	// Live, if set, reads an object from the API server. A step that gives up what does not come back is taken after that
	// has shown that the cache has the object's spec; see plan.Step.GivesUp.
	Live func(ctx context.Context, namespace, name string) (T, error)

	// Expected lists the resources that may exist in Neutron for an object, by its spec and status. The first entry is the
	// main resource.
	Expected func(obj T) []Lookup
	// Needs, if set, lists the kinds of resources that an object may have besides those of Expected, by its spec and
	// status. The list of another kind may fail or hang: that does not stop the object's syncs.
	Needs func(obj T) []plan.Kind
	// Class, if set, judges the kind's objects by their NetworkClasses.
	Class *Classed[T]
	// Cloud gives the cloud of an object's resources; known is false if the cloud is unknown now.
	Cloud func(obj T) (at Place, known bool)
	// Home, if set, gives the namespace whose Secrets may be for an object's cloud; the default is the object's own.
	Home func(obj T) string
	// Operator is the namespace whose Secrets may be for the cloud of an object of any namespace; empty for none.
	Operator string
	// Declare gives what an object asks for. An error that is not a *Problem means that no cloud can apply the spec. It is
	// not retried before an event requeues the object.
	Declare func(obj T, owner plan.Owner) (Declaration, error)
	// Policies gives the object's own policies. DefaultTo says what applies to unset ones.
	Policies func(obj T) Policies
	// InUse gives a message for users that says what in Kubernetes still uses the resource, and so delays its deletion. It
	// is empty if nothing does. An event requeues an object that is in use.
	InUse func(obj T) string

	// Loses, if set, tells whether a claimed object loses what it has in Neutron although the object stays. terminating
	// reports whether a namespace is being deleted.
	Loses func(obj T, terminating func(namespace string) bool) Loss

	// Room, if set, bounds how many objects there are, for Declare.
	Room *Room[T]

	// Show fills in the kind's own status fields from what was observed, and the kind's own conditions. declared is nil if
	// the object is being deleted.
	Show func(obj T, declared Declaration, owner plan.Owner, observed plan.Observed)
	// ToWrite gives the part of the status that this controller writes, and whether the change is worth a write. A change
	// that is not is written along with the next one that is.
	ToWrite func(was, is T) (status any, changed bool)
}

// Lookup identifies one resource that may exist in Neutron for an object: its kind, the last seen id (or empty), and
// the name that it has or would get.
type Lookup struct {
	plan.Resource
	Name string
	// Imported is true if the resource existed before the object. It is adopted and never created. The object's
	// Declaration is an Adopter.
	Imported bool
}

// Loss is what becomes of an object whose resources have to go for others.
type Loss struct {
	// Problem is what the object's conditions say then; nil if it keeps its resources.
	Problem *Problem
	// Since is since when the others wait.
	Since time.Time
	// Again is when to ask next; zero means after an event.
	Again time.Duration
}

// Place is where an object's resources are.
type Place struct {
	Cloud CloudRef
	// Pinned is the only cloud that can hold the resources, because it holds what they depend on. It is nil if that is
	// unknown, or if they depend on nothing.
	Pinned *cloudteamv1.CloudStatus
}

// Declaration is what one object asks for, in the terms of package plan.
type Declaration interface {
	// Resolve gives the declaration with names replaced by ids, which it may ask the cloud for. It is called before Plan.
	// If some names match nothing, or more than one thing, it returns an error for these names together with a declaration
	// that leaves the affected parts as they are. That is planned, but nothing is adopted. With any other error the
	// declaration is nil.
	Resolve(ctx context.Context, in Inventory) (Declaration, error)
	// Plan gives the steps that turn observed into what is declared; see plan.Network. After an error, the status shows
	// what exists and nothing is done.
	Plan(observed plan.Observed) (plan.Change, error)
	// Complete reports whether everything declared exists, whatever its settings.
	Complete(observed plan.Observed) bool
	// Retained is the declaration whose resources say that they stay when the object is deleted.
	Retained() Declaration
	// Traits gives what only some declarations have.
	Traits() Traits
}

// Traits are what only some declarations have. The zero value has none.
type Traits struct {
	// ToldBy are the clouds that returned the ids of other objects' resources, as those objects' statuses say. A tenant's
	// own cloud can return any id, so none of them is used in another cloud: there it may be somebody else's.
	ToldBy []cloudteamv1.CloudStatus
	// Sets names the fields that the spec sets and that belong to others while it does not, in alphabetical order.
	Sets []string
	// TakingBack is the declaration that also takes back, once, those of the named fields that the spec no longer sets.
	TakingBack func(fields []string) Declaration
	// Adopt gives the steps after which the resource bears the object's marker, if the resource existed before the object.
	// It is called while nothing bears it. It is the only exception to the rule that resources without our marker are not
	// changed.
	Adopt func(ctx context.Context, in Inventory) (plan.Change, error)
	// AdoptsFirst is true if Adopt needs no name of the spec: the resource is adopted whatever is unresolved.
	AdoptsFirst bool
	// Observe reads the resource of an object with Policies.Observe. If err is not nil, the part of the result that is
	// known is still shown.
	Observe func(ctx context.Context, in Inventory) (Observation, error)
}

// Observation is what Traits.Observe saw.
type Observation struct {
	// Observed is what exists; nil if unknown.
	Observed *plan.Observed
	// Drift is how it differs from the declaration.
	Drift []plan.Difference
	// State is what the object's conditions say if there is no error.
	State controller.State
}

// Problem is an error that supplies the state of its object.
type Problem struct {
	// State is what the object's conditions say.
	State controller.State
	// Waits is true if a retry does not help. An event requeues the object when what it waits for happens.
	Waits bool
	// Err is the cause; nil if State.Message says everything.
	Err error
	// Drift are the differences that are the problem, if any.
	Drift []plan.Difference
	// Gone is true for credentials that do not exist, or that nobody lets the controller read.
	Gone bool
}

// Waits is the problem of an object that waits for something to happen.
func Waits(state controller.State) *Problem { return &Problem{State: state, Waits: true} }

// Error is the message of the cause.
func (p *Problem) Error() string {
	if p.Err == nil {
		return p.State.Message
	}
	return p.Err.Error()
}

// Unwrap gives the cause.
func (p *Problem) Unwrap() error { return p.Err }

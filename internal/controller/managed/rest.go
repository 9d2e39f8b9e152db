package managed

import (
	"context"

	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/neutron"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// sight is what a sync sees, apart from the object itself, that is not to be deleted and is claimed: all that its
// outcome depends on.
//
// To bring a spec into canonical form, plan, and compare the status with the one that would be written is quick, and
// still nothing but work for a fleet of objects of which one in a thousand has changed. A sync that found nothing to do
// would find the same again while it sees the same. So each such sync leaves its sight behind (rest), and the next one
// compares (atRest).
//
// That is exact because what is compared is the inputs themselves and no digest of them:
//
//   - the object, by its pointer. An informer replaces what its cache holds and nobody writes to it, so that one
//     pointer is one state of metadata, spec and status. While it is held here, no other object can get its address;
//   - the object that Declare reads besides (on), by its pointer, too;
//   - what Neutron has, by plan.Observed.Same, of a list as new as the long way would insist on;
//   - where the credentials lead, by the cloud in the object's own status, which a sync that found nothing to do held
//     it against.
//
// What else a sync does comes before: the wait for one's own writes, and what earlier objects of the name left.
// Whatever goes the long way drops the sight first, so that it is always the last sync's.
type sight struct {
	on       any
	observed plan.Observed
}

// on gives the other object that the object's sync depends on.
func (r *Reconciler[T]) on(obj T) any {
	if r.kind.On == nil {
		return nil
	}
	return r.kind.On(obj)
}

// atRest reports whether the last sync of the object saw just what this one would see, and found nothing to do. It says
// no where that is not certain. in is where its resources are, and on is what Kind.On gives now.
func (r *Reconciler[T]) atRest(ctx context.Context, in Inventory, key cache.ObjectName, obj T, on any) bool {
	last, ok := r.seen(key, obj)
	if !ok || last.on != on {
		return false
	}
	identity, err := in.Identity(ctx)
	if cloud := r.kind.Status(obj).Cloud; err != nil || cloud == nil || neutron.Identity(*cloud) != identity {
		return false
	}
	observed, err := in.Observed(ctx, r.ownerOf(obj), r.listedSince(obj.GetUID()))
	return err == nil && observed.Same(last.observed)
}

// foundNothingToDo reports whether a sync did nothing and would do nothing again: what it looked at is there, nothing
// was written, told or refused, and wrote is false.
func (o outcome) foundNothingToDo(wrote bool) bool {
	return o.err == nil && !wrote && len(o.events) == 0 && o.observed != nil && !o.observed.Empty()
}

package managed

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/classes"
	"cloudteam.ztgame.com/network-controller/internal/kinds"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// Room bounds how many objects of a group have something in Neutron, such as those of one class in one namespace.
//
// It counts by events, and keeps those that wait in a line, the oldest first. So neither an event nor a sync costs more
// when a tenant has many objects that wait: whatever leaves makes room for one, and one is requeued.
//
// An object has its place from the moment when Take gives it, before the API server shows that. So a burst within one
// second, or an old cache, does not pass the limit. The others are in the line as soon as they are seen, so their order
// outlives the process. One whose condition says that it is Stalled for another reason is in nobody's way. One that is
// paused or only planned neither waits nor has a place before it exists. It is safe for concurrent use. The functions
// MUST be set and NOT call the Room.
type Room[T Object] struct {
	// Group gives the group that an object counts in; ok is false if nothing limits it.
	Group func(T) (group cache.ObjectName, ok bool)
	// Exists reports by the status whether an object has something in Neutron.
	Exists func(T) bool
	// Barred, if set, reports whether an object is not for its group: it takes no place there before it exists.
	Barred func(T) bool
	// Limit gives the limit of a group, nil for none, and all groups that it counts together.
	Limit func(group cache.ObjectName) (limit *int32, together []cache.ObjectName)

	kind    *Kind[T]
	row     kinds.Kind // the kind's
	enqueue func(...cache.ObjectName)

	mu sync.Mutex
	// taken is how many objects of each group have a place, or claim one.
	taken map[cache.ObjectName]int
	known map[cache.ObjectName]*placed
	line  controller.Line
}

// placed is what a Room knows of an object.
type placed struct {
	controller.Waiting
	uid types.UID
	in  cache.ObjectName
	// has is true if it has a place. claims is true for one whose finalizer says that an earlier process gave it a place:
	// it takes one until Take judges, because users can write a finalizer, too. It keeps that before those in the line.
	has, claims bool
}

// begin has objects of a kind requeued for which there is room.
func (r *Room[T]) begin(kind *Kind[T], enqueue func(...cache.ObjectName)) {
	r.kind, r.row, r.enqueue = kind, kinds.OfObject(*new(T)), enqueue
	r.taken, r.known = map[cache.ObjectName]int{}, map[cache.ObjectName]*placed{}
}

// Take gives an object a place, if there is one, and reports whether it has one. Without one it is in the line from now
// on. limit is the one that it waits for. To one that is only planned it says whether there is a place, and gives none.
func (r *Room[T]) Take(obj T) (has bool, limit int32) {
	in, limited := r.Group(obj)
	if !limited {
		return true, 0
	}
	aside := paused(obj)
	if aside {
		r.rest(obj)
	}
	r.mu.Lock()
	p, next := r.enter(obj, in)
	has, limit = r.judge(p, aside)
	r.mu.Unlock()
	r.enqueue(next...)
	return has, limit
}

// judge is Take, with mu held.
func (r *Room[T]) judge(p *placed, aside bool) (has bool, limit int32) {
	most, together := r.Limit(p.in)
	if p.has || most == nil { // without a limit, it counts as soon as it exists
		return true, 0
	}
	began := p.claims
	r.unclaim(p)
	free := r.free(*most, together)
	has = free > 0 && (began || r.ahead(p, together) < free)
	switch {
	case aside:
	case has:
		r.occupy(p)
	default:
		r.line.Put(p.Waiting, p.in.String())
	}
	return has, *most
}

// rest ends the place of an object that is paused, unless it exists. Only its sync may call it: when
// the event comes, an earlier sync may still be creating what has that place.
func (r *Room[T]) rest(obj T) {
	in, limited := r.Group(obj)
	if !limited {
		return
	}
	r.mu.Lock()
	p, next := r.enter(obj, in)
	if p.has && !r.Exists(obj) {
		p.has = false
		r.release(in)
		next = append(next, r.next(in)...)
	}
	r.mu.Unlock()
	r.enqueue(next...)
}

// see takes note of the state of an object.
func (r *Room[T]) see(obj T) {
	in, limited := r.Group(obj)
	if !limited {
		r.forget(cache.MetaObjectToName(obj))
		return
	}
	barred, aside := r.Barred != nil && r.Barred(obj), paused(obj)
	began := !barred && slices.Contains(obj.GetFinalizers(), r.row.Finalizer)
	claims := began && !aside // nobody judges what is aside
	// Nothing is created before somebody helps. What was only planned needs no help from the moment when it is not.
	stalled := meta.FindStatusCondition(r.row.Status(obj).Conditions, cloudteamv1.ConditionStalled)
	helpless := stalled != nil && stalled.Reason != cloudteamv1.ReasonClassLimitReached &&
		stalled.Reason != cloudteamv1.ReasonPlanned
	waits := !barred && !helpless && !aside && obj.GetDeletionTimestamp() == nil
	r.mu.Lock()
	p, next := r.enter(obj, in)
	switch waited := r.line.Has(p.Name); {
	case p.has && (began || !helpless || r.Exists(obj)): // see rest for what is aside
	case p.has:
		p.has = false
		r.release(in)
		next = append(next, r.next(in)...)
	case r.Exists(obj):
		r.occupy(p)
	case claims && !p.claims && !waited:
		p.claims = true
		r.taken[in]++
	case p.claims && !claims:
		r.unclaim(p)
		if waits {
			r.line.Put(p.Waiting, in.String())
		}
		next = append(next, r.next(in)...)
	case waits && !waited && !p.claims:
		r.line.Put(p.Waiting, in.String())
	case !waits && waited:
		r.line.Put(p.Waiting, "")
		next = append(next, r.next(in)...)
	}
	r.mu.Unlock()
	r.enqueue(next...)
}

// forget takes note that an object is gone, or that nothing limits it.
func (r *Room[T]) forget(key cache.ObjectName) {
	r.mu.Lock()
	var next []cache.ObjectName
	if p := r.known[key]; p != nil {
		next = r.leave(p)
	}
	r.mu.Unlock()
	r.enqueue(next...)
}

// All functions below are called with mu held. Those that return keys made room for these.

// enter makes an object known in a group.
func (r *Room[T]) enter(obj T, in cache.ObjectName) (p *placed, next []cache.ObjectName) {
	waiting := controller.WaitingOf(obj)
	if p = r.known[waiting.Name]; p != nil {
		if p.in == in && p.uid == obj.GetUID() && p.Older(waiting) == 0 {
			return p, nil
		}
		next = r.leave(p)
	}
	p = &placed{Waiting: waiting, uid: obj.GetUID(), in: in}
	r.known[waiting.Name] = p
	return p, next
}

// leave is the end of enter.
func (r *Room[T]) leave(p *placed) (next []cache.ObjectName) {
	delete(r.known, p.Name)
	r.unclaim(p)
	r.line.Put(p.Waiting, "")
	if p.has {
		r.release(p.in)
	}
	return r.next(p.in)
}

// occupy gives an object a place.
func (r *Room[T]) occupy(p *placed) {
	r.unclaim(p)
	r.line.Put(p.Waiting, "")
	p.has = true
	r.taken[p.in]++
}

// unclaim ends what a finalizer claims.
func (r *Room[T]) unclaim(p *placed) {
	if p.claims {
		p.claims = false
		r.release(p.in)
	}
}

func (r *Room[T]) release(in cache.ObjectName) {
	if r.taken[in]--; r.taken[in] == 0 {
		delete(r.taken, in) // users choose the names of classes
	}
}

// free is how many places groups have for those that wait.
func (r *Room[T]) free(limit int32, together []cache.ObjectName) int {
	free := int(limit)
	for _, in := range together {
		free -= r.taken[in]
	}
	return free
}

// ahead is how many that wait in groups are older than an object.
func (r *Room[T]) ahead(p *placed, together []cache.ObjectName) (sum int) {
	for _, in := range together {
		sum += r.line.Ahead(p.Waiting, in.String())
	}
	return sum
}

// next gives the one that there is room for since another one left a group: of as many as there are places, the
// youngest. There was room for the older ones before.
func (r *Room[T]) next(in cache.ObjectName) []cache.ObjectName {
	limit, together := r.Limit(in)
	if limit == nil {
		return nil
	}
	free := r.free(*limit, together)
	var oldest []controller.Waiting
	for _, in := range together {
		oldest = append(oldest, r.line.First(in.String(), free)...)
	}
	if free <= 0 || len(oldest) < free {
		return nil
	}
	slices.SortFunc(oldest, controller.Waiting.Older)
	return []cache.ObjectName{oldest[free-1].Name}
}

// RoomOf is the Room of a kind of which a class limits how many a namespace has. inClass gives a Network of an object's
// class and cloud.
func RoomOf[T Object](
	of *classes.Classes, inClass func(T) *cloudteamv1.Network, exists func(T) bool,
	limit func(cloudteamv1.ClassLimits) *int32,
) *Room[T] {
	// judging gives the class of those that name a class, or none for the default.
	judging := func(group cache.ObjectName) classes.Rule {
		n := &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: group.Namespace}}
		n.Spec.ClassName = group.Name
		return of.RuleOf(n)
	}
	return &Room[T]{
		Exists: exists,
		Group: func(obj T) (cache.ObjectName, bool) {
			n := inClass(obj)
			return cache.NewObjectName(n.Namespace, n.Spec.ClassName), n.Spec.Cloud == nil
		},
		Limit: func(group cache.ObjectName) (*int32, []cache.ObjectName) {
			rule := judging(group)
			together := []cache.ObjectName{group}
			if other := cache.NewObjectName(group.Namespace, ""); group.Name == "" {
				if rule.Missing == "" && rule.Name != "" {
					together = append(together, cache.NewObjectName(group.Namespace, rule.Name))
				}
			} else if judging(other).Name == group.Name {
				together = append(together, other)
			}
			return limit(rule.Limits()), together
		},
	}
}

// Refuse gives the problem of a new object whose group has as many as its limit allows. It is nil if there is room, and
// for an object that exists in Neutron. message says so for users.
func (r *Room[T]) Refuse(obj T, message func(limit int32) string) *Problem {
	if r.Exists(obj) {
		return nil
	}
	if has, limit := r.Take(obj); !has {
		return Waits(controller.Stalled(cloudteamv1.ReasonClassLimitReached, message(limit)))
	}
	return nil
}

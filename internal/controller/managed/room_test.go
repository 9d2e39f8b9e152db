package managed_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// roomWorld is a Room of which a test sees who is requeued.
type roomWorld struct {
	*managed.Room[*cloudteamv1.Network]
	events cache.ResourceEventHandler
	limit  map[string]int32 // by class
	woken  []string
	steps  int
}

func newRoom(limit map[string]int32) *roomWorld {
	w := &roomWorld{limit: limit}
	w.Room = managed.RoomOf(nil, func(n *cloudteamv1.Network) *cloudteamv1.Network { w.steps++; return n },
		func(n *cloudteamv1.Network) bool { return n.Status.NetworkID != "" },
		func(cloudteamv1.ClassLimits) *int32 { return nil })
	w.Limit = func(group cache.ObjectName) (*int32, []cache.ObjectName) {
		most, limited := w.limit[group.Name]
		if together := []cache.ObjectName{group}; limited {
			return &most, together
		}
		return nil, nil
	}
	kind := &managed.Kind[*cloudteamv1.Network]{
		Policies: func(*cloudteamv1.Network) managed.Policies { return managed.Policies{} },
	}
	w.events = managed.Follow(w.Room, kind, func(keys ...cache.ObjectName) {
		for _, key := range keys {
			w.woken = append(w.woken, key.Name)
		}
	})
	return w
}

// wants checks who was requeued since the last time.
func (w *roomWorld) wants(t *testing.T, when string, names ...string) {
	t.Helper()
	if !slices.Equal(w.woken, names) {
		t.Errorf("%s, %q are requeued, want %q", when, w.woken, names)
	}
	w.woken = nil
}

// nth is a Network of a class, as old as its number says: the lower, the older.
func nth(at int, class string) *cloudteamv1.Network {
	n := example()
	n.Name, n.UID = fmt.Sprintf("n%04d", at), types.UID(fmt.Sprint("uid-", at))
	n.CreationTimestamp = metav1.NewTime(time.Unix(int64(1000+at), 0))
	n.Spec.ClassName = class
	return n
}

// waiting has a Network say that it waits.
func waiting(n *cloudteamv1.Network) *cloudteamv1.Network {
	n = n.DeepCopy()
	n.Status.Conditions = controller.SetState(nil, 1, controller.Stalled(cloudteamv1.ReasonClassLimitReached, "full"))
	return n
}

func existing(n *cloudteamv1.Network) *cloudteamv1.Network {
	n = n.DeepCopy()
	n.Status.NetworkID, n.Status.Conditions = "id", nil
	return n
}

// TestRoomForTheOldest has five Networks for two places, and frees one place after the other.
func TestRoomForTheOldest(t *testing.T) {
	w := newRoom(map[string]int32{"gold": 2})
	var all []*cloudteamv1.Network
	for i := range 5 {
		all = append(all, nth(i, "gold"))
		w.events.OnAdd(all[i], false)
	}
	w.wants(t, "at first")
	for _, i := range []int{4, 1, 3, 2, 0} { // whoever asks first, before anything shows it
		has, limit := w.Take(all[i])
		if want := i < 2; has != want || !has && limit != 2 {
			t.Errorf("Network %d has a place: %t, of %d", i, has, limit)
		}
	}
	for i := 2; i < 5; i++ {
		w.events.OnUpdate(all[i], waiting(all[i]))
	}
	w.events.OnUpdate(all[0], existing(all[0]))
	w.wants(t, "while all places are taken")
	w.events.OnDelete(existing(all[0]))
	w.wants(t, "when one leaves", "n0002")
	if has, _ := w.Take(all[3]); has {
		t.Error("a younger one takes the place of the oldest")
	}
	if has, _ := w.Take(all[2]); !has {
		t.Error("the oldest does not get the place")
	}
	w.events.OnDelete(cache.DeletedFinalStateUnknown{Key: all[1].Namespace + "/" + all[1].Name, Obj: all[1]})
	w.wants(t, "when nobody saw it leave", "n0003")
	// The one that is next says by now that its spec is wrong.
	w.events.OnUpdate(waiting(all[3]), wrong(all[3]))
	w.wants(t, "when the next one does not want it", "n0004")
	if has, _ := w.Take(all[4]); !has {
		t.Error("the last one does not get the place")
	}
	w.events.OnUpdate(waiting(all[2]), wrong(all[2]))
	w.events.OnUpdate(wrong(all[3]), all[3])
	if has, _ := w.Take(all[3]); !has {
		t.Error("what one gave up that gets nothing is not given to another")
	}
}

// wrong has a Network say that its spec is wrong.
func wrong(n *cloudteamv1.Network) *cloudteamv1.Network {
	n = n.DeepCopy()
	n.Status.Conditions = controller.SetState(nil, 1, controller.Stalled(cloudteamv1.ReasonInvalidSpec, "wrong"))
	return n
}

func TestWhoLeavesAClass(t *testing.T) {
	for sentence, leave := range map[string]func(*cloudteamv1.Network){
		"for another class":       func(n *cloudteamv1.Network) { n.Spec.ClassName = "silver" },
		"for a cloud":             func(n *cloudteamv1.Network) { n.Spec.Cloud = &cloudteamv1.CloudReference{} },
		"for another of its name": func(n *cloudteamv1.Network) { n.UID, n.Status.NetworkID = "another", "" },
	} {
		t.Run(sentence, func(t *testing.T) {
			w := newRoom(map[string]int32{"gold": 1})
			has, waits := existing(nth(1, "gold")), waiting(nth(2, "gold"))
			w.events.OnAdd(has, true)
			w.events.OnAdd(waits, true)
			w.events.OnUpdate(has, has)
			w.wants(t, "before")
			left := has.DeepCopy()
			leave(left)
			w.events.OnUpdate(has, left)
			w.wants(t, "after", "n0002")
		})
	}
}

// TestAFinalizerClaimsAPlace has a new process find what an earlier one began, and what users write into finalizers.
func TestAFinalizerClaimsAPlace(t *testing.T) {
	w := newRoom(map[string]int32{"gold": 1})
	began := nth(2, "gold")
	began.Finalizers = []string{cloudteamv1.Finalizer}
	w.events.OnAdd(began, true)
	if has, _ := w.Take(nth(1, "gold")); has {
		t.Error("an older one takes the place of one that was begun")
	}
	if has, _ := w.Take(began); !has {
		t.Error("what was begun does not keep its place")
	}
	w = newRoom(map[string]int32{"gold": 1})
	for i := range 3 {
		forged := nth(i, "gold")
		forged.Finalizers = []string{cloudteamv1.Finalizer}
		w.events.OnAdd(forged, false)
	}
	got := 0
	for i := range 3 {
		if has, _ := w.Take(nth(i, "gold")); has {
			got++
		}
	}
	if got > 1 {
		t.Errorf("%d objects have the one place, by finalizers that users wrote", got)
	}
}

// aside has nothing created for a Network.
var aside = map[string]func(*cloudteamv1.Network){
	"paused": func(n *cloudteamv1.Network) {
		n.Annotations = map[string]string{cloudteamv1.AnnotationPaused: ""}
	},
	"paused, with a finalizer that its user wrote": func(n *cloudteamv1.Network) {
		n.Annotations = map[string]string{cloudteamv1.AnnotationPaused: ""}
		n.Finalizers = []string{cloudteamv1.Finalizer}
	},
	"paused by a policy of an earlier version": func(n *cloudteamv1.Network) { n.Spec.ManagementPolicy = "Plan" },
}

func TestWhatIsPausedIsInNobodysWay(t *testing.T) {
	for sentence, set := range aside {
		t.Run(sentence, func(t *testing.T) {
			w := newRoom(map[string]int32{"gold": 2})
			var rests []*cloudteamv1.Network
			for i := range 3 {
				n := nth(i, "gold")
				set(n)
				w.events.OnAdd(n, false)
				rests = append(rests, n)
			}
			first, second := nth(5, "gold"), nth(6, "gold")
			for _, n := range []*cloudteamv1.Network{first, second} {
				w.events.OnAdd(n, false)
				if has, _ := w.Take(n); !has {
					t.Errorf("%s has no place, and nothing exists", n.Name)
				}
			}
			w.wants(t, "while two have the two places")
			w.events.OnDelete(second)
			w.wants(t, "when one leaves and nobody waits")

			// From then on it waits by its age.
			w.events.OnAdd(nth(7, "gold"), false)
			again := nth(1, "gold")
			again.Status.Conditions = rests[1].Status.Conditions
			w.events.OnUpdate(rests[1], again)
			w.woken = nil
			if has, _ := w.Take(nth(7, "gold")); has {
				t.Error("a younger one takes the place")
			}
			if has, _ := w.Take(again); !has {
				t.Error("the older one does not get the place")
			}
			w.events.OnDelete(again)
			w.wants(t, "when it leaves", "n0007")
		})
	}
}

func TestWhatExistsCountsAlsoWhilePaused(t *testing.T) {
	for sentence, set := range aside {
		t.Run(sentence, func(t *testing.T) {
			w := newRoom(map[string]int32{"gold": 1})
			n := existing(nth(1, "gold"))
			set(n)
			w.events.OnAdd(n, true)
			if has, _ := w.Take(nth(2, "gold")); has {
				t.Error("another one has its place")
			}
		})
	}
}

// TestWhatIsPausedLeavesTheLine has one pause that waits, that claims a place by its finalizer, and that just got one.
func TestWhatIsPausedLeavesTheLine(t *testing.T) {
	w := newRoom(map[string]int32{"gold": 1})
	oldest, older, young := nth(1, "gold"), nth(2, "gold"), nth(3, "gold")
	oldest.Finalizers = []string{cloudteamv1.Finalizer}
	for _, n := range []*cloudteamv1.Network{oldest, older, young} {
		w.events.OnAdd(n, true)
	}
	pause := func(n *cloudteamv1.Network) *cloudteamv1.Network {
		is := n.DeepCopy()
		aside["paused"](is)
		w.events.OnUpdate(n, is)
		return is
	}
	pause(oldest)
	w.wants(t, "when the one pauses that claims the place", "n0002")
	pause(older)
	w.wants(t, "when the next one does", "n0003")
	if has, _ := w.Take(young); !has {
		t.Error("the only one that is not paused has no place")
	}
	w.events.OnUpdate(older, older)
	is := pause(young)
	w.wants(t, "while its sync may still create something")
	if has, _ := w.Take(older); has {
		t.Error("another one takes the place of one whose sync may still create something")
	}
	w.Rest(is)
	w.wants(t, "after its next sync", "n0002")
	if has, _ := w.Take(older); !has {
		t.Error("what a paused one had is not given to another")
	}
}

// TestRoomCostsNoMoreWithMoreThatWait counts what an event and a sync look at, while ten and a thousand objects wait.
func TestRoomCostsNoMoreWithMoreThatWait(t *testing.T) {
	cost := func(waits int) int {
		w := newRoom(map[string]int32{"gold": 1})
		w.events.OnAdd(existing(nth(0, "gold")), true)
		for i := range waits {
			w.events.OnAdd(waiting(nth(i+1, "gold")), true)
		}
		w.steps, w.woken = 0, nil
		for i := range 10 { // one client deletes and creates
			again := nth(5000+i, "gold")
			w.events.OnAdd(again, false)
			w.Take(again)
			w.events.OnDelete(again)
		}
		expect.Empty(t, w.woken, "requeued for no room, with %d that wait", waits)
		return w.steps
	}
	if few, many := cost(10), cost(1000); many > few {
		t.Errorf("ten that come and go look at %d objects while 1000 wait, and at %d while 10 do", many, few)
	}
}

// Endpoints differ in what makes no difference.
func TestEndpointsAreComparedInOneForm(t *testing.T) {
	same, err := managed.ParseSameClouds([]string{"HTTP://Neutron.Old:9696=https://Neutron.test/"})
	expect.NoError(t, err)
	if !same.SameNeutron(renamed, here) {
		t.Error("a name in capitals is another cloud")
	}
	if same.SameNeutron(renamed, elsewhere) || same.SameNeutron(client.Identity{Endpoint: "http://neutron.old:9697/"}, here) {
		t.Error("another endpoint is the same cloud")
	}
}

// With driftPolicy Report, only what is superfluous goes, with what has to be detached from it before.
func TestWhatIsDoneThoughDriftIsLeft(t *testing.T) {
	differs := func(field string) []plan.Difference { return []plan.Difference{{Resource: "r", Field: field}} }
	keeper := plan.Keeper{Resource: plan.Resource{Kind: plan.KindFloatingIP, ID: "kept"}}
	change := plan.Change{
		{Action: plan.DetachInterface, RouterRef: plan.Ref{ID: "goes"}, Differences: differs("of the one that goes")},
		{Action: plan.DetachInterface, RouterRef: plan.Ref{ID: "stays"}, Differences: differs("of the one that stays")},
		{Action: plan.DeleteRouter, Ref: plan.Ref{ID: "goes"}, Differences: differs("the router")},
		{Action: plan.DeleteSubnet, Ref: plan.Ref{ID: "subnet"}, Differences: differs("the subnet")},
		{Action: plan.DeleteFloatingIP, Ref: plan.Ref{ID: "wanted"}, Differences: differs("an address")},
		{Action: plan.DeleteFloatingIP, Ref: plan.Ref{ID: "double"}, Keeper: keeper, Differences: differs("a duplicate")},
		{
			Action: plan.UpdateRouter, Ref: plan.Ref{ID: "stays"},
			Differences: slices.Concat(differs("name"), differs(plan.FieldDeletionPolicy), differs("routes")),
		},
	}
	rest, drift := managed.LeaveDrift(change)
	var done, left []string
	for _, step := range rest {
		for _, d := range step.Differences {
			done = append(done, d.Field)
		}
	}
	for _, d := range drift {
		left = append(left, d.Field)
	}
	want := []string{"of the one that goes", "the router", "a duplicate", plan.FieldDeletionPolicy}
	expect.Equal(t, want, done, "what is done")
	want = []string{"of the one that stays", "the subnet", "an address", "name", "routes"}
	expect.Equal(t, want, left, "what is left")
}

// TestTheDefaultClassHasOneLimit holds that those that name the default class and those that name none count together.
func TestTheDefaultClassHasOneLimit(t *testing.T) {
	limited := func(name string, most int32, isDefault bool) *cloudteamv1.NetworkClass {
		class := &cloudteamv1.NetworkClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
		class.Spec.Limits = &cloudteamv1.ClassLimits{NetworksPerNamespace: &most}
		if isDefault {
			class.Annotations = map[string]string{cloudteamv1.AnnotationDefaultClass: "true"}
		}
		return class
	}
	key := func(class string) cache.ObjectName { return cache.NewObjectName("team", class) }
	for what, test := range map[string]struct {
		known    []*cloudteamv1.NetworkClass
		class    string
		most     *int32
		together []cache.ObjectName
	}{
		"that name none, with a default": {
			[]*cloudteamv1.NetworkClass{limited("gold", 2, true), limited("silver", 3, false)}, "", new(int32(2)),
			[]cache.ObjectName{key(""), key("gold")},
		},
		"that name the default": {
			[]*cloudteamv1.NetworkClass{limited("gold", 2, true), limited("silver", 3, false)}, "gold", new(int32(2)),
			[]cache.ObjectName{key("gold"), key("")},
		},
		"that name another": {
			[]*cloudteamv1.NetworkClass{limited("gold", 2, true), limited("silver", 3, false)}, "silver", new(int32(3)),
			[]cache.ObjectName{key("silver")},
		},
		"that name none, without a default": {
			[]*cloudteamv1.NetworkClass{limited("silver", 3, false)}, "", nil, []cache.ObjectName{key("")},
		},
	} {
		r := managed.RoomOf(controllertest.NewClasses(test.known...).Classes,
			func(n *cloudteamv1.Network) *cloudteamv1.Network { return n },
			func(n *cloudteamv1.Network) bool { return n.Status.NetworkID != "" },
			func(limits cloudteamv1.ClassLimits) *int32 { return limits.NetworksPerNamespace })
		most, together := r.Limit(key(test.class))
		expect.Equal(t, test.most, most, "the limit of those %s", what)
		expect.Equal(t, test.together, together, "who counts together with those %s", what)
	}
}

package transitions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"pgregory.net/rapid"

	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	networkcontroller "cloudteam.ztgame.com/network-controller/internal/controller/network"
	portcontroller "cloudteam.ztgame.com/network-controller/internal/controller/networkport"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

const (
	// patience is how long a world may take to come to rest.
	patience = 2 * time.Minute
	// stillness is how long nothing may happen to a world that is not where it should be before it is given up: longer
	// than the 16 s and their jitter for which a key waits that has failed for the first 16 s.
	stillness     = 30 * time.Second
	auditInterval = 500 * time.Millisecond
	// worldLabel is on all objects of a world, which the controllers of another do not see.
	worldLabel = "transitions.cloudteam.ztgame.com/world"
	workers    = 4
)

// homes are the names by which specs are drawn for the two namespaces of a realm.
var homes = [2]string{"one", "two"}

// realm is two namespaces. Objects have the same names in every realm.
type realm struct {
	name       string
	namespaces [2]string
	supplies   map[slot]*supply
	named      map[slot]madeRouter
}

// world is a pair of controllers with a cluster's UID, and so a part of the cloud, to themselves. In the realm reached
// the sequence takes place, and in direct the same specs are declared from nothing.
type world struct {
	ctx     context.Context
	around  *scenery
	cluster string
	label   string
	client  versioned.Interface

	reached, direct realm
	// habits are those of the cloud as the controllers see it.
	habits *harness.Habits

	// own is the project of the controllers' own credentials, and homes the one of each slot of Networks. secrets is
	// whether Networks name clouds.
	own     string
	homes   map[slot]string
	secrets bool

	// writes counts all that the controllers did to either API.
	writes      atomic.Int64
	networkLoop *networkcontroller.Controller
	portLoop    *portcontroller.Controller
	running     sync.WaitGroup

	mu sync.Mutex
	// audits count those that have ended, of each Inventory. opened are the Inventories of clouds that objects name.
	audits []*atomic.Int64
	opened map[managed.CloudRef]*inventory.Inventory
	// byHand are what people made, and went on to use in this world.
	byHand []plan.Resource
	// applied counts the steps that were taken for an object, by its UID, and owners tells whose a resource is that is
	// or was an object's. pausedAt is what applied was when the object was paused and the world had settled.
	applied  map[string]int
	owners   map[string]string
	pausedAt map[string]int
	// made are the ids of all networks, ports and routers that were made for an object, by its UID.
	made map[string][]plan.Resource
	// ended are the policies under which objects were deleted, by their UIDs.
	ended map[types.UID][]cloudteamv1.DeletionPolicy
	// doubles tells of each moment at which there were two of one.
	doubles []string
}

// newWorld starts the controllers of a new world. stop ends them and removes what they made in the cloud.
func newWorld(t *rapid.T, around *scenery) (w *world, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	w = &world{
		ctx: ctx, around: around, cluster: string(uuid.NewUUID()), label: string(uuid.NewUUID()), client: around.Networks,
		reached: realm{name: "reached", supplies: map[slot]*supply{}, named: map[slot]madeRouter{}},
		direct:  realm{name: "direct", supplies: map[slot]*supply{}, named: map[slot]madeRouter{}},
		habits:  &harness.Habits{Next: around.Transport},
		own:     tenantProject, homes: map[slot]string{}, opened: map[managed.CloudRef]*inventory.Inventory{},
		applied: map[string]int{}, owners: map[string]string{}, pausedAt: map[string]int{},
		made: map[string][]plan.Resource{}, ended: map[types.UID][]cloudteamv1.DeletionPolicy{},
	}
	if rapid.Bool().Draw(t, "with an administrator's credentials") {
		w.own = adminProject
	}
	// Each Inventory lists all the time, and most Networks name no cloud.
	w.secrets = rapid.IntRange(0, 2).Draw(t, "with Secrets") == 2
	for _, n := range networkSlots {
		w.homes[n] = w.own
		if rapid.IntRange(0, 2).Draw(t, "in another project") == 2 && w.secrets {
			w.homes[n] = otherProject
		}
	}
	w.nameRouters(t, w.reached)
	w.nameRouters(t, w.direct)
	for _, r := range []*realm{&w.reached, &w.direct} {
		for i := range r.namespaces {
			r.namespaces[i] = newNamespace(ctx, t, around)
		}
	}

	config := rest.CopyConfig(around.Admin)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return countWrites{next, &w.writes} })
	client, err := versioned.NewForConfig(config)
	expect.NoError(t, err)
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = worldLabel + "=" + w.label }))
	objects := factory.Cloudteam().V1()
	inventory := w.open(w.own)
	observed, recorder := witness{inventory, w}, &record.FakeRecorder{}
	w.networkLoop, err = networkcontroller.NewController(client.CloudteamV1(), objects.Networks(),
		objects.NetworkPorts(), observed, recorder, w.cluster,
		networkcontroller.Options{Classes: controllertest.OpenClasses()})
	expect.NoError(t, err)
	w.networkLoop.ReachClouds(w)
	w.networkLoop.ObserveEvery(4 * auditInterval)
	w.portLoop, err = portcontroller.NewController(client.CloudteamV1(), objects.NetworkPorts(), objects.Networks(),
		nil, observed, recorder, w.cluster, controllertest.OpenClasses(), nil)
	expect.NoError(t, err)
	w.portLoop.ReachClouds(w)

	factory.StartWithContext(ctx)
	w.running.Go(func() { inventory.Run(ctx) })
	for _, c := range []interface {
		Run(context.Context, int) error
	}{w.networkLoop, w.portLoop} {
		w.running.Go(func() { _ = c.Run(ctx, workers) }) // its only error is that of too few workers
	}
	return w, func() {
		cancel()
		w.running.Wait()
		factory.Shutdown()
		w.sweep()
	}
}

func newNamespace(ctx context.Context, t *rapid.T, around *scenery) string {
	namespace, err := around.Kube.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "transitions-"}}, metav1.CreateOptions{})
	expect.NoError(t, err)
	return namespace.Name
}

// countWrites counts requests that change something.
type countWrites struct {
	next   http.RoundTripper
	writes *atomic.Int64
}

// RoundTrip is http.RoundTripper's.
func (c countWrites) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		defer c.writes.Add(1)
	}
	return c.next.RoundTrip(r)
}

// witness is an Inventory that notes what is made, and looks whether there was one already.
type witness struct {
	*inventory.Inventory
	w *world
}

// Apply is managed.Inventory's.
func (i witness) Apply(ctx context.Context, change plan.Change) (plan.Change, error) {
	done, err := i.Inventory.Apply(ctx, change)
	i.w.writes.Add(int64(len(done)))
	for _, step := range done {
		uid := i.w.attribute(step)
		switch step.Action {
		case plan.CreateNetwork:
			i.note("networks", uid, plan.Resource{Kind: plan.KindNetwork, ID: step.ID})
		case plan.CreatePort:
			i.note("ports", uid, plan.Resource{Kind: plan.KindPort, ID: step.ID})
		case plan.CreateRouter:
			i.note("routers", uid, plan.Resource{Kind: plan.KindRouter, ID: step.ID})
		case plan.CreateInterface: // There may be several.
			i.w.mu.Lock()
			i.w.made[uid] = append(i.w.made[uid], plan.Resource{Kind: plan.KindPort, ID: step.ID})
			i.w.mu.Unlock()
		}
	}
	return done, err
}

// attribute finds out for which object a step was taken, by the marker that it writes or has written before, counts it
// and gives the object's UID.
func (w *world) attribute(step plan.Step) (uid string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	uid = w.owners[step.ID]
	for _, description := range []string{
		step.Attributes.Description, step.SubnetDescription, step.Port.Description, step.Router.Description,
	} {
		if _, owner, marked := plan.ParseDescription(description); marked && owner.Cluster == w.cluster {
			uid = owner.Object
		}
	}
	w.owners[step.ID] = uid
	w.applied[uid]++
	return uid
}

func (i witness) note(collection, uid string, made plan.Resource) {
	all, err := i.w.around.people.List(i.w.ctx, collection, "fields=id&fields=description")
	count := 0
	for _, r := range all {
		if ownerOf(r, i.w.cluster) == uid {
			count++
		}
	}
	i.w.mu.Lock()
	defer i.w.mu.Unlock()
	i.w.made[uid] = append(i.w.made[uid], made)
	if err == nil && count > 1 {
		i.w.doubles = append(i.w.doubles, fmt.Sprintf("%d %s of %s", count, collection, uid))
	}
}

// sweep removes what the world made and left in the cloud.
func (w *world) sweep() {
	w.mu.Lock()
	defer w.mu.Unlock()
	ctx, people := context.WithoutCancel(w.ctx), w.around.people
	all := slices.Concat(slices.Collect(maps.Values(w.made))...)
	all = append(all, w.byHand...)
	for _, kind := range []plan.Kind{plan.KindRouter, plan.KindPort, plan.KindNetwork} {
		for _, r := range all {
			if r.Kind != kind {
				continue
			}
			// What is gone already cannot be removed, and what stays disturbs nobody.
			if kind == plan.KindRouter {
				_ = people.Update(ctx, "routers", r.ID, resource{"routes": []resource{}})
				interfaces, _ := people.List(ctx, "ports", "device_id="+r.ID)
				for _, i := range interfaces {
					_ = people.detach(ctx, r.ID, i.ID())
				}
			}
			_ = people.Remove(ctx, string(kind)+"s", r.ID)
		}
	}
}

// networks and ports give the objects of a realm.
func (w *world) networks(t *rapid.T, r realm) (found []cloudteamv1.Network) {
	t.Helper()
	for _, namespace := range r.namespaces {
		list, err := w.client.CloudteamV1().Networks(namespace).List(w.ctx, metav1.ListOptions{})
		expect.NoError(t, err)
		found = append(found, list.Items...)
	}
	return found
}

func (w *world) ports(t *rapid.T, r realm) (found []cloudteamv1.NetworkPort) {
	t.Helper()
	for _, namespace := range r.namespaces {
		list, err := w.client.CloudteamV1().NetworkPorts(namespace).List(w.ctx, metav1.ListOptions{})
		expect.NoError(t, err)
		found = append(found, list.Items...)
	}
	return found
}

// settle waits until all objects of both realms are where their controllers leave them, and until nothing has been
// written over two whole audits.
func (w *world) settle(t *rapid.T) {
	t.Helper()
	const beat = 50 * time.Millisecond
	var quiet time.Duration
	writes, audits := w.writes.Load(), w.audited()
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for all := beat; ; all += beat {
		<-tick.C
		quiet += beat
		if now := w.writes.Load(); now != writes || w.queued() > 0 {
			writes, audits, quiet = now, w.audited(), 0
		}
		var err error
		// The third to end has begun after the first did.
		if w.auditedSince(audits) < 3 {
			err = fmt.Errorf("%d writes, %d keys waiting", writes, w.queued())
		} else if err = w.unsettled(t); err == nil && w.writes.Load() == writes {
			return
		}
		if errors.Is(err, errForPeople) && quiet > retried {
			return
		}
		if all > patience || quiet > stillness {
			t.Fatalf("it does not come to rest: %v", err)
		}
	}
}

func (w *world) queued() int { return w.networkLoop.Len() + w.portLoop.Len() }

// errForPeople is what an object waits for that is tried again, and that does not come by itself as a rule. retried is
// how long it is waited for all the same: a key is tried again some times in it.
var errForPeople = errors.New("somebody has to act")

const retried = 3 * time.Second

// unsettled names an object that something is still to be done about; nil where there is none. It is errForPeople where
// people have to act on all that there are.
func (w *world) unsettled(t *rapid.T) (waits error) {
	for _, r := range []realm{w.reached, w.direct} {
		var all []error
		paused := map[string]bool{}
		for _, n := range w.networks(t, r) {
			all = append(all, atWork("Network", &n, n.Status.ResourceStatus))
			paused[n.Status.NetworkID] = isPaused(&n)
		}
		for _, p := range w.ports(t, r) {
			err := atWork("NetworkPort", &p, p.Status.ResourceStatus)
			if id := missingNetwork(p.Status.ResourceStatus); err != nil && id != "" && paused[id] {
				err = fmt.Errorf("%w: network %s of a paused Network was deleted", errForPeople, id)
			}
			all = append(all, err)
		}
		for _, err := range all {
			if err != nil && !errors.Is(err, errForPeople) {
				return err
			}
			waits = cmp.Or(waits, err)
		}
	}
	return waits
}

// atWork is nil for an object whose controller waits for nothing but what others have to do.
func atWork(kind string, object metav1.Object, status cloudteamv1.ResourceStatus) error {
	ready := meta.FindStatusCondition(status.Conditions, cloudteamv1.ConditionReady)
	name := fmt.Sprintf("%s %s/%s", kind, object.GetNamespace(), object.GetName())
	switch {
	case ready == nil || status.ObservedGeneration != object.GetGeneration() ||
		ready.ObservedGeneration != object.GetGeneration():
		return fmt.Errorf("%s: its status does not speak of generation %d: %+v", name, object.GetGeneration(), status)
	case ready.Reason == cloudteamv1.ReasonPaused && isPaused(object):
		return nil
	case ready.Reason == cloudteamv1.ReasonPaused, isPaused(object) && !observes(object):
		return fmt.Errorf("%s: its annotation was not seen yet", name)
	case object.GetDeletionTimestamp() == nil && (ready.Reason == cloudteamv1.ReasonNetworkNotReady ||
		ready.Reason == cloudteamv1.ReasonImportNotFound):
		return nil
	case ready.Reason == cloudteamv1.ReasonInUse && object.GetDeletionTimestamp() != nil:
		return nil // or Stalled: what is in use is kept as declared, where the cloud does not refuse that
	case ready.Reason == cloudteamv1.ReasonInUse, ready.Reason == cloudteamv1.ReasonAddressInUse:
		return fmt.Errorf("%s: %w: %s", name, errForPeople, ready.Message)
	case object.GetDeletionTimestamp() != nil && !meta.IsStatusConditionTrue(status.Conditions, cloudteamv1.ConditionStalled):
		return fmt.Errorf("%s: it is being deleted: %+v", name, status.Conditions)
	case meta.IsStatusConditionTrue(status.Conditions, cloudteamv1.ConditionReconciling):
		return fmt.Errorf("%s: it is worked on: %+v", name, status.Conditions)
	}
	return nil
}

// notFound is how Neutron refuses a port on a network that is gone.
var notFound = regexp.MustCompile(`Network ([0-9a-f-]{36}) could not be found`)

// missingNetwork gives the id of a network without which a port cannot be created; "" where there is none.
func missingNetwork(status cloudteamv1.ResourceStatus) string {
	ready := meta.FindStatusCondition(status.Conditions, cloudteamv1.ConditionReady)
	if ready == nil || ready.Reason != cloudteamv1.ReasonConflict {
		return ""
	}
	if found := notFound.FindStringSubmatch(ready.Message); found != nil {
		return found[1]
	}
	return ""
}

// observes reports whether an object is an observed Network.
func observes(object metav1.Object) bool {
	n, is := object.(*cloudteamv1.Network)
	return is && n.Observes()
}

// await polls until check gives nil.
func (w *world) await(t *rapid.T, check func() error) {
	t.Helper()
	expect.NoError(t, harness.Poll(nil, patience, 50*time.Millisecond, check))
}

// key names an object in a realm.
func (r realm) key(s slot) types.NamespacedName {
	return types.NamespacedName{Namespace: r.namespaces[s.home], Name: s.name}
}

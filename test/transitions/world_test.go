package transitions

import (
	"context"
	"fmt"
	"net/http"
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

	networkcontroller "cloudteam.ztgame.com/network-controller/internal/controller/network"
	portcontroller "cloudteam.ztgame.com/network-controller/internal/controller/networkport"
	"cloudteam.ztgame.com/network-controller/internal/network"
	"cloudteam.ztgame.com/network-controller/internal/neutron"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions"
)

const (
	// patience is how long a world may take to come to rest; it takes a part of a second as a rule.
	patience = 40 * time.Second
	// stillness is how long nothing may happen to a world that is not where it should be before it is given up: longer
	// than what a key that failed a few times waits for its next attempt. Once one was given up, others are sooner, or
	// rapid would find no shorter sequence in its time.
	stillness, stillnessOnceFailed = 8 * time.Second, 2 * time.Second
	// auditInterval is far below what the flag allows, so that others' changes are found at once.
	auditInterval = 25 * time.Millisecond
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
}

// world is a pair of controllers with a cluster's UID, and so a part of the cloud, to themselves. In the realm reached
// the sequence takes place, and in direct the same specs are declared from nothing.
type world struct {
	ctx     context.Context
	cluster string
	label   string
	client  versioned.Interface

	reached, direct realm

	// audits counts those that have ended, writes all that the controllers did to either API.
	audits, writes atomic.Int64
	queues         []interface{ Len() int }

	mu sync.Mutex
	// made are the ids of all networks and ports that were made for an object, by its UID.
	made map[string][]network.Resource
	// ended are the policies under which objects were deleted, by their UIDs.
	ended map[types.UID][]cloudteamv1.DeletionPolicy
	// doubles tells of each moment at which there were two of one.
	doubles []string
}

// newWorld starts the controllers of a new world. stop ends them and removes what they made in the cloud.
func newWorld(t *rapid.T) (w *world, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	w = &world{
		ctx: ctx, cluster: string(uuid.NewUUID()), label: string(uuid.NewUUID()), client: surroundings.networks,
		reached: realm{name: "reached"}, direct: realm{name: "direct"}, made: map[string][]network.Resource{},
		ended: map[types.UID][]cloudteamv1.DeletionPolicy{},
	}
	for _, r := range []*realm{&w.reached, &w.direct} {
		for i := range r.namespaces {
			r.namespaces[i] = newNamespace(ctx, t)
		}
	}

	config := rest.CopyConfig(surroundings.apiServer)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return countWrites{next, &w.writes} })
	client, err := versioned.NewForConfig(config)
	must(t, err)
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = worldLabel + "=" + w.label }))
	objects := factory.Cloudteam().V1()
	var networks *networkcontroller.Controller
	var ports *portcontroller.Controller
	inventory := neutron.NewInventory(neutron.NewCloud(surroundings.credentials, neutron.Options{}), w.cluster,
		neutron.InventoryOptions{
			Interval: auditInterval, Ports: true, Audited: func(neutron.Audit) { w.audits.Add(1) },
			Moved: func(uid string) { networks.Moved(uid); ports.Moved(uid) },
		})
	observed, recorder := witness{inventory, w}, &record.FakeRecorder{}
	networks, err = networkcontroller.NewController(client.CloudteamV1(), objects.Networks(), objects.NetworkPorts(),
		observed, recorder, w.cluster)
	must(t, err)
	ports, err = portcontroller.NewController(client.CloudteamV1(), objects.NetworkPorts(), objects.Networks(),
		observed, recorder, w.cluster)
	must(t, err)
	w.queues = append(w.queues, networks, ports)

	factory.StartWithContext(ctx)
	var running sync.WaitGroup
	running.Go(func() { inventory.Run(ctx) })
	for _, c := range []interface {
		Run(context.Context, int) error
	}{networks, ports} {
		running.Go(func() { _ = c.Run(ctx, workers) }) // its only error is that of too few workers
	}
	return w, func() {
		cancel()
		running.Wait()
		factory.Shutdown()
		w.sweep()
	}
}

func must(t *rapid.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newNamespace(ctx context.Context, t *rapid.T) string {
	namespace, err := surroundings.kube.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "transitions-"}}, metav1.CreateOptions{})
	must(t, err)
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
	*neutron.Inventory
	w *world
}

// Apply is owned.Inventory's.
func (i witness) Apply(ctx context.Context, change network.Change) (network.Change, error) {
	done, err := i.Inventory.Apply(ctx, change)
	i.w.writes.Add(int64(len(done)))
	for _, step := range done {
		switch step.Action {
		case network.CreateNetwork:
			i.note("networks", step.Attributes.Description, network.Resource{Kind: network.KindNetwork, ID: step.ID})
		case network.CreatePort:
			i.note("ports", step.Port.Description, network.Resource{Kind: network.KindPort, ID: step.ID})
		}
	}
	return done, err
}

func (i witness) note(collection, description string, made network.Resource) {
	_, owner, _ := network.ParseDescription(description)
	all, err := surroundings.tenant.list(i.w.ctx, collection, "fields=id&fields=description")
	count := 0
	for _, r := range all {
		if r.owner(i.w.cluster) == owner.Object {
			count++
		}
	}
	i.w.mu.Lock()
	defer i.w.mu.Unlock()
	i.w.made[owner.Object] = append(i.w.made[owner.Object], made)
	if err == nil && count > 1 {
		i.w.doubles = append(i.w.doubles, fmt.Sprintf("%d %s of %s", count, collection, owner.Object))
	}
}

// sweep removes what the world made and left in the cloud.
func (w *world) sweep() {
	w.mu.Lock()
	defer w.mu.Unlock()
	ctx := context.WithoutCancel(w.ctx)
	for _, kind := range []network.Kind{network.KindPort, network.KindNetwork} {
		for _, made := range w.made {
			for _, r := range made {
				if r.Kind == kind {
					// What is gone already cannot be removed, and what stays disturbs nobody.
					_ = surroundings.tenant.remove(ctx, string(kind)+"s", r.ID)
				}
			}
		}
	}
}

// networks and ports give the objects of a realm.
func (w *world) networks(t *rapid.T, r realm) (found []cloudteamv1.Network) {
	t.Helper()
	for _, namespace := range r.namespaces {
		list, err := w.client.CloudteamV1().Networks(namespace).List(w.ctx, metav1.ListOptions{})
		must(t, err)
		found = append(found, list.Items...)
	}
	return found
}

func (w *world) ports(t *rapid.T, r realm) (found []cloudteamv1.NetworkPort) {
	t.Helper()
	for _, namespace := range r.namespaces {
		list, err := w.client.CloudteamV1().NetworkPorts(namespace).List(w.ctx, metav1.ListOptions{})
		must(t, err)
		found = append(found, list.Items...)
	}
	return found
}

// failed is whether a world did not come to rest.
var failed atomic.Bool

// settle waits until all objects of both realms are where their controllers leave them, and until nothing has been
// written over two whole audits.
func (w *world) settle(t *rapid.T) {
	t.Helper()
	began, quiet := time.Now(), time.Now()
	writes, audits := w.writes.Load(), w.audits.Load()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		<-tick.C
		if now := w.writes.Load(); now != writes || w.queued() > 0 {
			writes, audits, quiet = now, w.audits.Load(), time.Now()
		}
		var err error
		// The third to end has begun after the first did.
		if w.audits.Load()-audits < 3 {
			err = fmt.Errorf("%d writes, %d keys waiting", writes, w.queued())
		} else if err = w.unsettled(t); err == nil && w.writes.Load() == writes {
			return
		}
		if time.Since(began) > patience || time.Since(quiet) > stillness ||
			failed.Load() && time.Since(quiet) > stillnessOnceFailed {
			failed.Store(true)
			t.Fatalf("it does not come to rest: %v", err)
		}
	}
}

func (w *world) queued() int {
	waiting := 0
	for _, queue := range w.queues {
		waiting += queue.Len()
	}
	return waiting
}

// unsettled names an object that something is still to be done about; nil where there is none.
func (w *world) unsettled(t *rapid.T) error {
	for _, r := range []realm{w.reached, w.direct} {
		for _, n := range w.networks(t, r) {
			if err := atWork("Network", &n, n.Status.ResourceStatus); err != nil {
				return err
			}
		}
		for _, p := range w.ports(t, r) {
			if err := atWork("NetworkPort", &p, p.Status.ResourceStatus); err != nil {
				return err
			}
		}
	}
	return nil
}

// atWork is nil for an object whose controller waits for nothing but what others have to do.
func atWork(kind string, object metav1.Object, status cloudteamv1.ResourceStatus) error {
	ready := meta.FindStatusCondition(status.Conditions, cloudteamv1.ConditionReady)
	name := fmt.Sprintf("%s %s/%s", kind, object.GetNamespace(), object.GetName())
	switch {
	case ready == nil || status.ObservedGeneration != object.GetGeneration() ||
		ready.ObservedGeneration != object.GetGeneration():
		return fmt.Errorf("%s: its status does not speak of generation %d: %+v", name, object.GetGeneration(), status)
	case ready.Reason == cloudteamv1.ReasonWaitingForNetwork && object.GetDeletionTimestamp() == nil:
		return nil
	case ready.Reason == cloudteamv1.ReasonInUse && object.GetDeletionTimestamp() != nil:
		return nil // or Stalled: what is in use is kept as declared, where the cloud does not refuse that
	case object.GetDeletionTimestamp() != nil && !meta.IsStatusConditionTrue(status.Conditions, cloudteamv1.ConditionStalled):
		return fmt.Errorf("%s: it is being deleted: %+v", name, status.Conditions)
	case meta.IsStatusConditionTrue(status.Conditions, cloudteamv1.ConditionReconciling):
		return fmt.Errorf("%s: it is worked on: %+v", name, status.Conditions)
	}
	return nil
}

// await polls until check gives nil.
func (w *world) await(t *rapid.T, check func() error) {
	t.Helper()
	began := time.Now()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Since(began) > patience {
			t.Fatalf("after %s: %v", patience, err)
		}
		<-tick.C
	}
}

// key names an object in a realm.
func (r realm) key(s slot) types.NamespacedName {
	return types.NamespacedName{Namespace: r.namespaces[s.home], Name: s.name}
}

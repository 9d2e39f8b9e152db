package networkport

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/fake"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions"
)

var (
	networkKey = cache.NewObjectName("team", "example-network")
	portKey    = cache.NewObjectName("team", "web-0")
	here       = client.Identity{Endpoint: "https://neutron.test/", Region: "one", ProjectID: "p1"}
)

// world is a controller that runs, between an API server and a cloud that are both played. Its informers are real. No
// controller of Networks runs: a test says what becomes of them.
type world struct {
	t       *testing.T
	calls   *controllertest.CallLog
	api     *controllertest.APIServer
	clients *fake.Clientset
	cloud   *lookedAt
	events  *controllertest.Events
	c       *Controller
	stop    func()
	// clouds, where set, are those that the next controller reaches beside its own.
	clouds managed.Clouds
}

// lookedAt counts how often the Inventory is looked at, which every sync of a port that has its Network does.
type lookedAt struct {
	*controllertest.Cloud
	looks atomic.Int64
}

// Observed is managed.Inventory's.
func (l *lookedAt) Observed(ctx context.Context, owner plan.Owner, since time.Time) (plan.Observed, error) {
	l.looks.Add(1)
	return l.Cloud.Observed(ctx, owner, since)
}

// cloudNetwork is a network in Neutron with one subnet of 192.168.0.0/16.
func cloudNetwork(id, subnet string) plan.ObservedNetwork {
	return plan.ObservedNetwork{ID: id, Revision: 1, Subnets: []plan.ObservedSubnet{{
		ID: subnet, Subnet: plan.Subnet{
			CIDR: netip.MustParsePrefix("192.168.0.0/16"), Gateway: netip.MustParseAddr("192.168.0.1"),
		},
	}}}
}

// inWorld runs a test in a bubble of synthetic time, in which the example's network is in Neutron, the given objects
// exist, and the controller has come to rest on them.
func inWorld(t *testing.T, test func(t *testing.T, w *world), objects ...controllertest.Object) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		calls := &controllertest.CallLog{}
		w := &world{
			t: t, calls: calls, api: controllertest.NewAPIServer(calls), clients: fake.NewSimpleClientset(),
			cloud:  &lookedAt{Cloud: controllertest.NewCloud(calls, here, owner.Cluster)},
			events: &controllertest.Events{},
		}
		controllertest.Serve(w.api, w.clients, cloudteamv1.SchemeGroupVersion.WithResource("networks"),
			controllertest.Rules[*cloudteamv1.Network]{})
		controllertest.Serve(w.api, w.clients, cloudteamv1.SchemeGroupVersion.WithResource("networkports"),
			controllertest.Rules[*cloudteamv1.NetworkPort]{Line: func(action clienttesting.Action) string {
				if action.GetSubresource() != "" {
					return "write " + action.GetSubresource()
				}
				return "write finalizers"
			}})
		w.cloud.Put(cloudNetwork("net-1", "sub-1"))
		for _, obj := range objects {
			w.api.Create(t, obj)
		}
		w.start()
		test(t, w)
	})
}

// start runs a new controller, which knows nothing but what the API server and the cloud hold.
func (w *world) start() {
	w.t.Helper()
	factory := informers.NewSharedInformerFactory(w.clients, 0)
	v1 := factory.Cloudteam().V1()
	c, err := NewController(
		w.clients.CloudteamV1(), v1.NetworkPorts(), v1.Networks(), w.cloud, w.events, owner.Cluster)
	if err != nil {
		w.t.Fatal(err)
	}
	w.c = c
	c.ReachClouds(w.clouds)
	ctx, cancel := context.WithCancel(controllertest.Logged(w.t))
	factory.StartWithContext(ctx)
	synctest.Wait()
	untouched := controllertest.Untouched(w.t, v1.Networks().Informer().GetIndexer(),
		v1.NetworkPorts().Informer().GetIndexer())
	stop := controllertest.Run(w.t, c.Run, 2)
	w.stop = sync.OnceFunc(func() {
		if err := stop(); err != nil {
			w.t.Error(err)
		}
		untouched()
		w.cloud.CheckUntouched(w.t)
		cancel()
		factory.Shutdown()
	})
	w.t.Cleanup(w.stop)
	w.settle()
}

// restart ends the controller and starts the next.
func (w *world) restart() {
	w.t.Helper()
	w.stop()
	w.start()
}

// settle lets what is due happen.
func (w *world) settle() { controllertest.Settle(100 * time.Millisecond) }

// quiet drops what was asked and told until now.
func (w *world) quiet() {
	w.calls.Take()
	w.events.Take()
}

// port is the example at the API server.
func (w *world) port() *cloudteamv1.NetworkPort {
	w.t.Helper()
	return controllertest.Get[*cloudteamv1.NetworkPort](w.t, w.api, portKey)
}

// exists reports whether the API server has the example.
func (w *world) exists() bool {
	_, exists := controllertest.Find[*cloudteamv1.NetworkPort](w.api, portKey)
	return exists
}

// editPort changes the example as somebody else would.
func (w *world) editPort(change func(*cloudteamv1.NetworkPort)) {
	w.t.Helper()
	controllertest.Edit(w.t, w.api, portKey, change)
	w.settle()
}

// bind binds the example to a Pod, or releases it, as the controller of Pods does.
func (w *world) bind(to *cloudteamv1.PortBinding) {
	w.t.Helper()
	w.editPort(func(p *cloudteamv1.NetworkPort) { p.Status.BoundTo = to })
}

// editNetwork changes the example's Network, as its user or its controller would.
func (w *world) editNetwork(change func(*cloudteamv1.Network)) {
	w.t.Helper()
	controllertest.Edit(w.t, w.api, networkKey, change)
	w.settle()
}

// delete deletes the example as its user would.
func (w *world) delete() {
	w.t.Helper()
	w.api.Delete(w.t, w.port())
	w.settle()
}

// audit has the Inventory list, and tell the controller that the example's resources moved.
func (w *world) audit() {
	w.t.Helper()
	w.cloud.Audit(w.t)
	w.c.Moved(owner.Object)
	w.settle()
}

// wantState holds the example's conditions against "Ready=True Available" and the like.
func (w *world) wantState(want string) {
	w.t.Helper()
	conditions := w.port().Status.Conditions
	var texts []string
	for _, c := range conditions {
		if c.Type == cloudteamv1.ConditionReady || c.Status != metav1.ConditionFalse {
			texts = append(texts, c.Type+"="+string(c.Status))
		}
	}
	slices.Sort(texts)
	ready := meta.FindStatusCondition(conditions, cloudteamv1.ConditionReady)
	if ready == nil {
		w.t.Errorf("there is no condition Ready, want %q", want)
		return
	}
	if got := strings.Join(append(texts, ready.Reason), " "); got != want {
		w.t.Errorf("state is %q (%s), want %q", got, ready.Message, want)
	}
}

// wantPorts holds the ids of Neutron's ports against what they should be.
func (w *world) wantPorts(want ...string) {
	w.t.Helper()
	var ids []string
	for _, p := range w.cloud.Ports() {
		ids = append(ids, p.ID)
	}
	if !slices.Equal(ids, want) {
		w.t.Errorf("Neutron has the ports %q, want %q", ids, want)
	}
}

// notReady is a Network's conditions while it is worked on.
func notReady(n *cloudteamv1.Network) {
	n.Status.Conditions = controller.SetState(nil, 1, controller.Reconciling("CloudUnavailable", "down"))
}

// ready is a Network's conditions when it is there.
func ready(n *cloudteamv1.Network) {
	n.Status.Conditions = controller.SetState(nil, n.Generation, controller.Ready("Available", "as declared"))
}

// of gives an object after a change.
func of[T any](obj T, changes ...func(T)) T {
	for _, change := range changes {
		change(obj)
	}
	return obj
}

var pod = &cloudteamv1.PortBinding{Kind: "Pod", Name: "web-x", UID: "pod-1"}

package networkport

import (
	"context"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/classes"
	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/controller/netpolicy"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

var (
	networkKey = cache.NewObjectName("team", "example-network")
	portKey    = cache.NewObjectName("team", "web-0")
	here       = client.Identity{Endpoint: "https://neutron.test/", Region: "one", ProjectID: "p1"}
)

// world is a controller that runs, between an API server and a cloud that are both played. Its informers are real. No
// controller of Networks runs: a test says what becomes of them.
type world struct {
	*controllertest.World[*cloudteamv1.NetworkPort]
	c *Controller
	// clouds, where set, are those that the next controller reaches beside its own.
	clouds managed.Clouds
	// terminating, where set, tells the next controller which namespaces are being deleted.
	terminating func(namespace string) bool
	// classes are those of Networks; nil for the built-in one.
	classes *classes.Classes
	// policies, where set, has the MultiNetworkPolicies that the next controller lists, or never if unlisted is true
	// before list is called.
	policies *fcache.FakeControllerSource
	unlisted bool
	list     func()
}

// by makes the Policies of a controller.
func (w *world) by() *netpolicy.Policies {
	w.T.Helper()
	if w.policies == nil {
		return nil
	}
	caches, err := consumer.NewCaches(consumer.InformersOf(w.Informers, w.KubeInformers), nil)
	expect.NoError(w.T, err)
	informer := cache.NewSharedIndexInformer(w.policies, &unstructured.Unstructured{}, 0, cache.Indexers{})
	by, err := netpolicy.NewPolicies(informer, w.Informers.Cloudteam().V1().SecurityGroups(), caches,
		func(string) labels.Set { return nil })
	expect.NoError(w.T, err)
	w.list = func() { go informer.RunWithContext(w.T.Context()); w.settle() }
	if !w.unlisted {
		w.list()
	}
	return by
}

// cloudNetwork is a network in Neutron with one subnet of 192.168.0.0/16.
func cloudNetwork(id, subnet string) plan.ObservedNetwork {
	return plan.ObservedNetwork{ID: id, Revision: 1, Subnets: []plan.ObservedSubnet{{
		ID: subnet, Subnet: plan.Subnet{
			CIDR: netip.MustParsePrefix("192.168.0.0/16"), Gateway: netip.MustParseAddr("192.168.0.1"),
		},
	}}}
}

// groups are the security groups in Neutron, which nobody of this cluster owns.
var groups = []string{
	"a", "another", "b", "c", "g-again", "g-db", "g-policy-db", "g-policy-egress", "g-policy-members", "g-policy-out",
	"g-victim", "g-web", "g-web-2", "in-neutron", "theirs", "web",
}

// inWorld runs a test in a bubble of synthetic time, in which the example's network is in Neutron, the given objects
// exist, and the controller has come to rest on them.
func inWorld(t *testing.T, test func(t *testing.T, w *world), objects ...controllertest.Object) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{World: controllertest.NewWorld[*cloudteamv1.NetworkPort](t, portKey).WithNeutron(here, owner.Cluster)}
		controllertest.Serve(w.API, w.Clients, controllertest.NetworkPorts,
			controllertest.Rules[*cloudteamv1.NetworkPort]{Line: controllertest.WriteLine})
		controllertest.Serve(w.API, w.Clients, controllertest.SecurityGroups,
			controllertest.Rules[*cloudteamv1.SecurityGroup]{})
		w.Neutron.Put(cloudNetwork("net-1", "sub-1"))
		w.Neutron.Outside("outside", netip.MustParsePrefix("203.0.113.0/24"), "sub-1")
		w.Neutron.Outside("outside-2", netip.MustParsePrefix("198.51.100.0/24"), "sub-1")
		for _, id := range groups {
			w.Neutron.PutGroup(plan.ObservedGroup{ID: id})
		}
		for _, id := range []string{"gold", "silver"} {
			w.Neutron.PutPolicy(id)
		}
		w.Create(objects...)
		w.restart()
		test(t, w)
	})
}

// restart ends the controller, if one runs, and runs a new one, which knows nothing but what the API server and the
// cloud hold.
func (w *world) restart() {
	w.T.Helper()
	w.Stop()
	w.NewInformers()
	v1 := w.Informers.Cloudteam().V1()
	c, err := NewController(
		w.Clients.CloudteamV1(), v1.NetworkPorts(), v1.Networks(), v1.SecurityGroups(), w.Neutron, w.Events, owner.Cluster,
		w.classes, w.by())
	expect.NoError(w.T, err)
	w.c, w.Neutron.Moved = c, c.Moved
	c.ReachClouds(w.clouds)
	if terminating := w.terminating; terminating != nil {
		c.AskNamespaces(func(_ context.Context, namespace string) bool { return terminating(namespace) })
	}
	w.Start(controllertest.Process{Loop: c.Loop, Caches: []cache.Indexer{
		v1.Networks().Informer().GetIndexer(), v1.NetworkPorts().Informer().GetIndexer(),
		v1.SecurityGroups().Informer().GetIndexer(),
	}})
	w.Run(c.Run, 2)
	w.settle()
}

// settle lets what is due happen.
func (w *world) settle() { controllertest.Settle(100 * time.Millisecond) }

// editPort changes the example as somebody else would.
func (w *world) editPort(change func(*cloudteamv1.NetworkPort)) {
	w.T.Helper()
	w.Edit(change)
	w.settle()
}

// bind binds the example to a Pod, or releases it, as the controller of Pods does.
func (w *world) bind(to *cloudteamv1.PortBinding) {
	w.T.Helper()
	w.editPort(func(p *cloudteamv1.NetworkPort) { p.Status.BoundTo = to })
}

// editNetwork changes the example's Network, as its user or its controller would.
func (w *world) editNetwork(change func(*cloudteamv1.Network)) {
	w.T.Helper()
	controllertest.Edit(w.T, w.API, networkKey, change)
	w.settle()
}

// delete deletes the example as its user would.
func (w *world) delete() {
	w.T.Helper()
	w.Delete()
	w.settle()
}

// audit has the Inventory list, and tell the controller that the example's resources moved.
func (w *world) audit() {
	w.T.Helper()
	w.Neutron.Audit(w.T)
	w.c.Moved(owner.Object)
	w.settle()
}

// wantPorts holds the ids of Neutron's ports against what they should be.
func (w *world) wantPorts(want ...string) {
	w.T.Helper()
	var ids []string
	for _, p := range w.Neutron.Ports() {
		ids = append(ids, p.ID)
	}
	if !slices.Equal(ids, want) {
		w.T.Errorf("Neutron has the ports %q, want %q", ids, want)
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

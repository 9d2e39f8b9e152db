package networkport

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	listers "cloudteam.ztgame.com/network-controller/pkg/client/listers/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// How long a Network's ports wait for its next change depends on how many follow it, and anybody can write ports that
// name it.
func TestPortsThatWereToldThatANetworkIsNotForThemDoNotFollowIt(t *testing.T) {
	stranger := func(name string, change func(*cloudteamv1.NetworkPort)) *cloudteamv1.NetworkPort {
		return of(example(), func(p *cloudteamv1.NetworkPort) {
			p.Namespace, p.Name, p.Spec.NetworkNamespace = "stranger", name, exampleNetwork().Namespace
			p.Status.Conditions = controller.SetState(nil, 1, notAllowed(p).State)
			change(p)
		})
	}
	informer := cache.NewSharedIndexInformer(nil, &cloudteamv1.NetworkPort{}, 0, cache.Indexers{})
	expect.NoError(t, controller.IndexPorts(informer))
	ports := informer.GetIndexer()
	networks := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, p := range []*cloudteamv1.NetworkPort{
		example(),
		stranger("told", func(*cloudteamv1.NetworkPort) {}),
		stranger("new", func(p *cloudteamv1.NetworkPort) { p.Status.Conditions = nil }),
		stranger("withdrawn", func(p *cloudteamv1.NetworkPort) { p.Status.PortID = "port" }),
	} {
		expect.NoError(t, ports.Add(p))
	}
	follow := func(when string, want ...string) {
		t.Helper()
		var got []string
		for _, key := range portsOf(ports, listers.NewNetworkLister(networks))(cache.MetaObjectToName(exampleNetwork())) {
			got = append(got, key.Name)
		}
		slices.Sort(got)
		expect.Equal(t, want, got, "%s, these follow", when)
	}
	own := example().Name
	follow("without the Network", sorted(own, "new", "withdrawn")...)
	network := exampleNetwork()
	expect.NoError(t, networks.Add(network))
	follow("while it does not allow them", sorted(own, "new", "withdrawn")...)
	network.Spec.AllowedNamespaces = []string{"stranger"}
	follow("when it does", sorted(own, "new", "told", "withdrawn")...)
}

func sorted(all ...string) []string { slices.Sort(all); return all }

func TestWhatOfANetworkIsAReasonToLookAtItsPorts(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*cloudteamv1.Network)
		looks  int
	}{
		"its address counts are none": {func(n *cloudteamv1.Network) {
			n.Status.Subnets[0].UsedAddresses, n.Status.Subnets[0].TotalAddresses = new(int64(1)), new(int64(9))
		}, 0},
		"nor are other conditions": {func(n *cloudteamv1.Network) {
			n.Status.Conditions = append(n.Status.Conditions, metav1.Condition{Type: "Other", Status: "True", Reason: "Some"})
		}, 0},
		"nor is what the condition Ready says": {func(n *cloudteamv1.Network) {
			n.Status.Conditions = controller.SetState(
				n.Status.Conditions, 1, controller.Ready(cloudteamv1.ReasonDriftDetected, "left so"))
		}, 0},
		"nor is a label":          {func(n *cloudteamv1.Network) { n.Labels = map[string]string{"a": "b"} }, 0},
		"that it is not Ready is": {notReady, 1},
		"its spec is":             {func(n *cloudteamv1.Network) { n.Spec.AllowedNamespaces = []string{"third"} }, 1},
		"that its spec is applied is": {func(n *cloudteamv1.Network) {
			n.Status.ObservedGeneration, n.Status.AppliedGeneration = 2, 2
		}, 1},
		"its deletion is": {func(n *cloudteamv1.Network) {
			n.DeletionTimestamp, n.Finalizers = new(metav1.Unix(1, 0)), []string{cloudteamv1.Finalizer}
		}, 1},
		"its MTU is":                {func(n *cloudteamv1.Network) { n.Status.MTU = 9000 }, 1},
		"its subnet's modes are":    {func(n *cloudteamv1.Network) { n.Status.Subnets[0].IPv6RAMode = "slaac" }, 1},
		"its subnet's gateway is":   {func(n *cloudteamv1.Network) { n.Status.Subnets[0].Gateway = "192.168.0.254" }, 1},
		"its network in Neutron is": {func(n *cloudteamv1.Network) { n.Status.NetworkID = "net-2" }, 1},
		"another subnet is": {func(n *cloudteamv1.Network) {
			n.Status.Subnets = append(n.Status.Subnets, cloudteamv1.SubnetStatus{ID: "sub-2", CIDR: "fd00::/64"})
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				before := w.Neutron.Looks()
				w.editNetwork(c.change)
				// A status that is written for it brings the key once more.
				got := min(w.Neutron.Looks()-before, 1)
				expect.Equal(t, c.looks, got, "how often it was looked at")
			}, exampleNetwork(), example())
		})
	}
}

// A port that had nothing in Neutron leaves no address to those that wait for one.
func TestOnlyAPortInNeutronLeavesAnAddress(t *testing.T) {
	waiting := &controller.Line{}
	waiting.Put(controller.WaitingOf(example()), example().Network().String())
	goes := of(example(), func(p *cloudteamv1.NetworkPort) { p.Name = "other" })
	expect.Empty(t, exhaustedWith(waiting)(goes), "woken by a port without one in Neutron")
	goes.Status.PortID = "port-of-other"
	expect.Equal(t, []cache.ObjectName{portKey}, exhaustedWith(waiting)(goes), "woken")
}

// A port that failed waits for its next attempt. What its Network becomes meanwhile is what it may have failed for.
func TestWhatBecomesOfTheNetworkEndsThePauseAfterAFailure(t *testing.T) {
	for name, c := range map[string]struct {
		err   *client.Error
		state string
		ends  func(w *world)
	}{
		"its network was gone in Neutron, and is made anew": {
			&client.Error{Kind: client.NotFound, Op: "create port", Reason: "there is no such network", Status: 404},
			"Ready=False Reconciling=True Conflict", (*world).anew},
		"it had no free address, and has more": {
			&client.Error{Kind: client.Exhausted, Op: "create port", Reason: "no address is free", Status: 409},
			"Ready=False Reconciling=True AddressesExhausted", func(w *world) {
				w.editNetwork(func(n *cloudteamv1.Network) { n.Status.AppliedGeneration = 2 })
			}},
		"it had no free address, and the Network's status shows one": {
			&client.Error{Kind: client.Exhausted, Op: "create port", Reason: "no address is free", Status: 409},
			"Ready=False Reconciling=True AddressesExhausted", func(w *world) {
				w.editNetwork(func(n *cloudteamv1.Network) {
					n.Status.Subnets[0].TotalAddresses, n.Status.Subnets[0].UsedAddresses = new(int64(13)), new(int64(12))
				})
			}},
		"it had no free address, and another port is deleted": {
			&client.Error{Kind: client.Exhausted, Op: "create port", Reason: "no address is free", Status: 409},
			"Ready=False Reconciling=True AddressesExhausted", func(w *world) {
				other := of(example(), func(p *cloudteamv1.NetworkPort) {
					p.Name, p.UID, p.Status.PortID = "other", "other", "port-of-other"
				})
				other.Annotations = map[string]string{cloudteamv1.AnnotationPaused: "true"}
				w.API.Create(w.T, other)
				w.settle()
				w.API.DeleteByForce(w.T, other)
				w.settle()
			}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.Neutron.Before = controllertest.Fails(plan.CreatePort, -1, c.err)
				w.Quiet()
				w.API.Create(t, example())
				w.settle()
				w.WantState(c.state)
				// The same request has the same answer.
				w.Calls.Want(t, "write finalizers", "list", "apply create port", "write status")
				controllertest.Settle(10 * time.Minute)
				if n := controllertest.Count(w.Calls.Take(), "apply"); n > 20 {
					t.Errorf("%d attempts in ten minutes", n)
				}

				w.Neutron.Before = nil
				before := w.Neutron.Looks()
				c.ends(w)
				if w.Neutron.Looks() == before {
					t.Error("it is not looked at again")
				}
				// The Inventory holds back what had no room, and has it tried now and then.
				controllertest.Settle(time.Minute)
				w.WantState("Ready=True Available")
				w.wantPorts("port-1")
			}, exampleNetwork())
		})
	}
}

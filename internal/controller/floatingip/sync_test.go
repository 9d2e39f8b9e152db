package floatingip

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

var (
	webKey  = cache.NewObjectName("team", "web")
	portKey = cache.NewObjectName("team", "web-0")
	here    = client.Identity{Endpoint: "https://neutron.test/", Region: "one", ProjectID: "p1"}
	owner   = plan.Owner{Cluster: "cluster-1", Object: "uid-web"}
)

// world is a controller that runs, between an API server and a cloud that are both played. Its informers are real.
type world struct {
	*controllertest.World[*cloudteamv1.FloatingIP]
	c       *Controller
	classes *controllertest.Classes
}

// inWorld runs a test in which the objects exist, and the class "open", which allows everything, is the default. Neutron
// has the Network's network, with a router to the external network "outside".
func inWorld(t *testing.T, test func(w *world), objects ...controllertest.Object) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{
			World:   controllertest.NewWorld[*cloudteamv1.FloatingIP](t, webKey).WithNeutron(here, owner.Cluster),
			classes: controllertest.NewClasses(controllertest.OpenClass()),
		}
		controllertest.Serve(w.API, w.Clients, controllertest.FloatingIPs,
			controllertest.Rules[*cloudteamv1.FloatingIP]{Line: controllertest.WriteLine})
		w.Neutron.Put(plan.ObservedNetwork{ID: "net-1", Subnets: []plan.ObservedSubnet{{
			ID: "sub-1", Subnet: plan.Subnet{
				CIDR: netip.MustParsePrefix("10.0.0.0/24"), Gateway: netip.MustParseAddr("10.0.0.1"),
			},
		}}})
		w.Neutron.Outside("outside", netip.MustParsePrefix("203.0.113.0/24"), "sub-1")
		w.Create(objects...)
		w.restart()
		test(w)
	})
}

// restart ends the controller, if one runs, and runs a new one, which knows nothing but what the API server and the
// cloud hold.
func (w *world) restart() {
	w.T.Helper()
	w.Stop()
	w.NewInformers()
	v1 := w.Informers.Cloudteam().V1()
	to := Ports{Ports: v1.NetworkPorts(), Networks: v1.Networks()}
	c, err := NewController(w.Clients.CloudteamV1(), v1.FloatingIPs(), to, w.Neutron, w.Events, owner.Cluster,
		w.classes.Classes)
	expect.NoError(w.T, err)
	w.c, w.Neutron.Moved = c, c.Moved
	w.Start(controllertest.Process{Loop: c.Loop, Caches: []cache.Indexer{
		v1.FloatingIPs().Informer().GetIndexer(), v1.NetworkPorts().Informer().GetIndexer(),
		v1.Networks().Informer().GetIndexer(),
	}})
	w.Run(c.Run, 2)
	w.settle()
}

func (w *world) settle() { controllertest.Settle(100 * time.Millisecond) }

// audit has the Inventory list, which tells the controller what moved.
func (w *world) audit() {
	w.T.Helper()
	w.Neutron.Audit(w.T)
	w.settle()
}

func (w *world) edit(change func(*cloudteamv1.FloatingIP)) {
	w.T.Helper()
	w.Edit(change)
	w.settle()
}

func (w *world) editPort(change func(*cloudteamv1.NetworkPort)) {
	w.T.Helper()
	controllertest.Edit(w.T, w.API, portKey, change)
	w.settle()
}

// wantLeads holds that there is one floating IP, which leads to a port, or nowhere for "", and that the status shows it.
// It returns the id.
func (w *world) wantLeads(port string) string {
	w.T.Helper()
	all, shown := w.Neutron.FloatingIPs(), w.Get().Status
	all = slices.DeleteFunc(all, func(f plan.ObservedFloatingIP) bool { return !owner.Owns(f.Description) })
	if len(all) != 1 || all[0].PortID != port {
		w.T.Fatalf("Neutron has the floating IPs %+v, want one for %q", all, port)
	}
	f := all[0]
	if shown.FloatingIPID != f.ID || shown.Address != f.Address.String() || shown.PortID != port ||
		shown.ExternalNetworkID != f.NetworkID || (shown.PortAddress != "") != (port != "") {
		w.T.Errorf("the status shows %+v, want %+v", shown, f)
	}
	return f.ID
}

// wantNothing holds that the FloatingIP is gone, with its address.
func (w *world) wantNothing() {
	w.T.Helper()
	w.WantGone()
	expect.Empty(w.T, w.Neutron.FloatingIPs(), "floating IPs")
}

func (w *world) wantReady(reason, says string) {
	w.T.Helper()
	ready := w.Ready()
	if ready.Reason != reason || !strings.Contains(ready.Message, says) ||
		(ready.Status == metav1.ConditionTrue) != (reason == cloudteamv1.ReasonAvailable) {
		w.T.Errorf("Ready is %s, %s: %s, want %s with %q", ready.Status, ready.Reason, ready.Message, reason, says)
	}
}

// public is a FloatingIP that leads to a NetworkPort, or nowhere.
func public(port string) *cloudteamv1.FloatingIP {
	return &cloudteamv1.FloatingIP{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web", UID: "uid-web"},
		Spec:       cloudteamv1.FloatingIPSpec{ExternalNetwork: "outside", PortName: port},
	}
}

// network is the Network of the ports, which was applied.
func network() *cloudteamv1.Network {
	n := &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "net", UID: "uid-net", Generation: 1}}
	n.Status.AppliedGeneration = 1
	n.Status.Subnets = []cloudteamv1.SubnetStatus{{ID: "sub-1"}}
	return n
}

// at is the only address of a port.
func at(address string) []plan.PortAddress {
	return []plan.PortAddress{{SubnetID: "sub-1", Address: netip.MustParseAddr(address)}}
}

// putPort makes the port of a NetworkPort in Neutron.
func (w *world) putPort(name, id, address string) {
	w.Neutron.PutPort(plan.ObservedPort{ID: id, NetworkID: "net-1", PortAttributes: plan.PortAttributes{
		Description: plan.Owner{Cluster: owner.Cluster, Object: "uid-" + name}.Marker(), Addresses: at(address),
	}})
}

// onPort makes a NetworkPort on the Network, and its port in Neutron, which the Inventory knows first.
func (w *world) onPort(name, id, address string) *cloudteamv1.NetworkPort {
	w.T.Helper()
	w.putPort(name, id, strings.TrimSuffix(address, "/24"))
	w.Neutron.Audit(w.T)
	p := &cloudteamv1.NetworkPort{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team", Name: name, UID: types.UID("uid-" + name), Generation: 1,
	}}
	p.Spec.NetworkName = "net"
	p.Status.PortID = id
	p.Status.Addresses = []cloudteamv1.PortAddress{{SubnetID: "sub-1", Address: address}}
	w.Create(p)
	w.settle()
	return p
}

func TestTheAddressComesBeforeItsPortAndStaysAfterIt(t *testing.T) {
	inWorld(t, func(w *world) {
		w.wantReady(cloudteamv1.ReasonPortNotReady, "NetworkPort web-0 does not exist")
		id := w.wantLeads("")
		first := w.onPort("web-0", "port-1", "10.0.0.7/24")
		w.WantState("Ready=True Available")
		w.wantLeads("port-1")
		w.restart()
		w.wantLeads("port-1")

		w.API.Delete(w.T, first)
		w.Neutron.Remove("port-1")
		w.audit()
		w.wantReady(cloudteamv1.ReasonPortNotReady, "does not exist")
		w.wantLeads("")
		w.onPort("web-0", "port-2", "10.0.0.8/24")
		w.wantLeads("port-2")
		w.onPort("web-1", "port-3", "10.0.0.9/24")
		w.edit(func(obj *cloudteamv1.FloatingIP) { obj.Spec.PortName = "web-1" })
		w.wantLeads("port-3")
		w.edit(func(obj *cloudteamv1.FloatingIP) { obj.Spec.PortName = "" })
		w.WantState("Ready=True Available")
		expect.Equal(t, id, w.wantLeads(""), "the floating IP after the port went")
		w.Quiet()
		controllertest.Settle(time.Hour)
		w.Calls.Want(t)
		w.Delete()
		w.settle()
		w.wantNothing()
	}, network(), public("web-0"))
}

// TestAPortThatIsMadeAnewIsFollowed also takes the floating IP away from its port by hand.
func TestAPortThatIsMadeAnewIsFollowed(t *testing.T) {
	inWorld(t, func(w *world) {
		w.onPort("web-0", "port-1", "10.0.0.7/24")
		id := w.wantLeads("port-1")
		w.Neutron.Remove("port-1")
		w.putPort("web-0", "port-2", "10.0.0.8")
		w.Neutron.Audit(t)
		w.editPort(func(p *cloudteamv1.NetworkPort) {
			p.Status.PortID, p.Status.Addresses[0].Address = "port-2", "10.0.0.8/24"
		})
		w.wantLeads("port-2")
		w.Neutron.EditFloatingIP(t, id, func(f *plan.ObservedFloatingIP) { f.PortID = "" })
		w.audit()
		expect.Equal(t, id, w.wantLeads("port-2"), "the floating IP")
		w.Neutron.Remove(id)
		w.audit()
		w.WantState("Ready=True Available")
		w.wantLeads("port-2")
	}, network(), public("web-0"))
}

// TestFloatingIPIsMadeOnce loses the answer to each write in turn, and restarts after it.
func TestFloatingIPIsMadeOnce(t *testing.T) {
	for _, action := range []plan.Action{plan.CreateFloatingIP, plan.UpdateFloatingIP, plan.DeleteFloatingIP} {
		t.Run(string(action), func(t *testing.T) {
			inWorld(t, func(w *world) {
				lost := &client.Error{Kind: client.Transient, Op: string(action), Reason: "no answer in time", MaybeDone: true}
				w.Neutron.After = controllertest.Fails(action, 1, lost)
				w.API.Create(t, public("web-0"))
				w.settle()
				w.onPort("web-0", "port-1", "10.0.0.7/24")
				w.restart()
				controllertest.Settle(time.Minute)
				w.wantLeads("port-1")
				w.WantState("Ready=True Available")
				w.Delete()
				w.settle()
				w.restart()
				controllertest.Settle(time.Minute)
				w.wantNothing()
			}, network())
		})
	}
}

// TestItLeadsToNoPortThatItMustNotReach has ports that a tenant may name and must not open to the world.
func TestItLeadsToNoPortThatItMustNotReach(t *testing.T) {
	for name, test := range map[string]struct {
		change       func(*cloudteamv1.NetworkPort)
		network      func(*cloudteamv1.Network)
		reason, says string
	}{
		"one on another namespace's Network": {
			change: func(p *cloudteamv1.NetworkPort) { p.Spec.NetworkNamespace = "other" },
			reason: cloudteamv1.ReasonInvalidSpec, says: "on a Network of namespace other",
		},
		"one of IPv6 alone": {
			change: func(p *cloudteamv1.NetworkPort) { p.Status.Addresses[0].Address = "fd00::7/64" },
			reason: cloudteamv1.ReasonInvalidSpec, says: "no address of IPv4",
		},
		"one that is not in Neutron": {
			change: func(p *cloudteamv1.NetworkPort) { p.Status.PortID = "" },
			reason: cloudteamv1.ReasonPortNotReady, says: "no port in Neutron yet",
		},
		"one that goes": {
			change: func(p *cloudteamv1.NetworkPort) {
				p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: time.Now()}, []string{cloudteamv1.PortFinalizer}
			},
			reason: cloudteamv1.ReasonPortNotReady, says: "is being deleted",
		},
		"one on a Network whose class forbids it": {
			network: func(n *cloudteamv1.Network) { n.Spec.ClassName = "closed" },
			reason:  cloudteamv1.ReasonForbiddenByClass, says: `"closed" forbids floating IPs of ports on Network net`,
		},
		"one on a Network with a change that is not applied": {
			network: func(n *cloudteamv1.Network) { n.Generation = 2 },
			reason:  cloudteamv1.ReasonNetworkNotReady, says: "a change that is not applied",
		},
		// A tenant's own cloud gives its ports whatever ids it likes.
		"another's, by an id that the cloud of a tenant tells": {
			change:  func(p *cloudteamv1.NetworkPort) { p.Status.PortID = "port-9" },
			network: func(n *cloudteamv1.Network) { n.Spec.Cloud = &cloudteamv1.CloudReference{SecretName: "mine"} },
			reason:  cloudteamv1.ReasonPortNotReady, says: "has no port port-9 of the NetworkPort",
		},
		// The class of the network that the port is on is not asked for, if another Network has taken the name.
		"one on the network of an earlier Network of the name": {
			network: func(n *cloudteamv1.Network) { n.Status.Subnets[0].ID = "sub-2" },
			reason:  cloudteamv1.ReasonPortNotReady, says: "a network that Network net no longer has",
		},
		"one in another cloud than the Network of the name": {
			change: func(p *cloudteamv1.NetworkPort) { p.Status.Cloud = new(cloudteamv1.CloudStatus(here)) },
			network: func(n *cloudteamv1.Network) {
				n.Status.Cloud = &cloudteamv1.CloudStatus{ProjectID: "p2"}
			},
			reason: cloudteamv1.ReasonPortNotReady, says: "a network that Network net no longer has",
		},
		"one in another cloud than the Network of the name, of which a tenant's cloud says that it is the same": {
			network: func(n *cloudteamv1.Network) {
				n.Status.Credentials = &cloudteamv1.CredentialsStatus{Namespace: "team", SecretName: "mine"}
			},
			reason: cloudteamv1.ReasonPortNotReady, says: "a network that Network net no longer has",
		},
		"one of which the cloud knows nothing": {
			change: func(p *cloudteamv1.NetworkPort) { p.Status.PortID = "port-8" },
			reason: cloudteamv1.ReasonPortNotReady, says: "has no port port-8 of the NetworkPort",
		},
	} {
		t.Run(name, func(t *testing.T) {
			on := network()
			if test.network != nil {
				test.network(on)
			}
			inWorld(t, func(w *world) {
				w.classes.Set(&cloudteamv1.NetworkClass{ObjectMeta: metav1.ObjectMeta{Name: "closed"}})
				w.putPort("web-0", "port-1", "10.0.0.7")
				w.putPort("victim", "port-9", "10.0.0.9")
				p := &cloudteamv1.NetworkPort{ObjectMeta: metav1.ObjectMeta{
					Namespace: "team", Name: "web-0", UID: "uid-web-0",
				}}
				p.Spec.NetworkName, p.Status.PortID = "net", "port-1"
				p.Status.Addresses = []cloudteamv1.PortAddress{{SubnetID: "sub-1", Address: "10.0.0.7/24"}}
				if test.change != nil {
					test.change(p)
				}
				w.Create(p)
				w.audit()
				w.API.Create(t, public("web-0"))
				w.settle()
				w.wantReady(test.reason, test.says)
				for _, f := range w.Neutron.FloatingIPs() {
					expect.Equal(t, "", f.PortID, "the port of the floating IP")
				}
			}, on)
		})
	}
}

// TestAClassThatForbidsItLaterTakesNothingAway also holds that a change opens no port then, and may close one, whether
// the class of the port's Network forbids it, too, or not.
func TestAClassThatForbidsItLaterTakesNothingAway(t *testing.T) {
	open := controllertest.OpenClass()
	open.Name, open.Annotations = "another", nil
	another := network()
	another.Spec.ClassName = open.Name
	for _, on := range []*cloudteamv1.Network{network(), another} {
		inWorld(t, func(w *world) {
			w.classes.Set(open)
			w.onPort("web-0", "port-1", "10.0.0.7/24")
			w.wantLeads("port-1")
			closed := controllertest.OpenClass()
			closed.Spec.AllowedFields = nil
			w.classes.Set(closed)
			w.c.EnqueueNamespace("")
			w.settle()
			w.wantLeads("port-1")
			if !meta.IsStatusConditionTrue(w.Get().Status.Conditions, cloudteamv1.ConditionClassViolated) {
				t.Error("it does not tell that its class forbids it now")
			}
			w.onPort("web-1", "port-2", "10.0.0.8/24")
			w.edit(func(obj *cloudteamv1.FloatingIP) { obj.Spec.DeletionPolicy = cloudteamv1.DeletionPolicyDelete })
			w.wantReady(cloudteamv1.ReasonForbiddenByClass, "forbids FloatingIPs")
			w.wantLeads("port-1")
			w.edit(func(obj *cloudteamv1.FloatingIP) { obj.Spec.PortName = "web-1" })
			w.wantReady(cloudteamv1.ReasonForbiddenByClass, "forbids FloatingIPs")
			w.wantLeads("") // it opens no port, and closes the one that its spec no longer names
			w.Delete()
			w.settle()
			w.wantNothing()
		}, on, public("web-0"))
	}
}

// TestFloatingIPsExchangeTheirPorts has two of one external network, of which Neutron lets one lead to a port.
func TestFloatingIPsExchangeTheirPorts(t *testing.T) {
	other := public("web-1")
	other.Name, other.UID = "db", "uid-db"
	inWorld(t, func(w *world) {
		w.onPort("web-0", "port-1", "10.0.0.7/24")
		w.onPort("web-1", "port-2", "10.0.0.8/24")
		leads := func(want map[string]string) {
			t.Helper()
			got := map[string]string{}
			for _, f := range w.Neutron.FloatingIPs() {
				_, of, _ := plan.ParseDescription(f.Description)
				got[of.Object] = f.PortID
			}
			expect.Equal(t, want, got, "where they lead")
		}
		leads(map[string]string{"uid-web": "port-1", "uid-db": "port-2"})
		for _, e := range []struct{ name, port string }{{"web", "web-1"}, {"db", "web-0"}} {
			controllertest.Edit(t, w.API, cache.NewObjectName("team", e.name), func(obj *cloudteamv1.FloatingIP) {
				obj.Spec.PortName = e.port
			})
		}
		w.settle()
		leads(map[string]string{"uid-web": "port-2", "uid-db": "port-1"})
		w.WantState("Ready=True Available")

		w.edit(func(obj *cloudteamv1.FloatingIP) { obj.Spec.PortName = "web-0" }) // where the other one is
		w.wantReady(cloudteamv1.ReasonAddressInUse, "NetworkPort web-0 has FloatingIP db of the same external network")
		leads(map[string]string{"uid-web": "", "uid-db": "port-1"})
		controllertest.Edit(t, w.API, cache.NewObjectName("team", "db"), func(obj *cloudteamv1.FloatingIP) {
			obj.Spec.PortName = ""
		})
		w.settle()
		leads(map[string]string{"uid-web": "port-1", "uid-db": ""})
	}, network(), public("web-0"), other)
}

// TestAPortHasItsOwnFloatingIP has a FloatingIP name a port that has a floating IP of the same external network by its
// own spec.
func TestAPortHasItsOwnFloatingIP(t *testing.T) {
	inWorld(t, func(w *world) {
		w.edit(func(obj *cloudteamv1.FloatingIP) { obj.Spec.PortName = "" })
		port := w.onPort("web-0", "port-1", "10.0.0.7/24")
		key, external := cache.MetaObjectToName(port), w.Get().Status.ExternalNetworkID
		controllertest.Edit(t, w.API, key, func(port *cloudteamv1.NetworkPort) {
			port.Status.FloatingIP = &cloudteamv1.PortFloatingIPStatus{
				ID: "fip-9", Address: "203.0.113.9", ExternalNetworkID: external,
			}
		})
		w.settle()
		w.Neutron.Applied()
		w.edit(func(obj *cloudteamv1.FloatingIP) { obj.Spec.PortName = "web-0" })
		w.wantReady(cloudteamv1.ReasonAddressInUse, "NetworkPort web-0 has 203.0.113.9 of the same external network by its own floatingIP")
		expect.Equal(t, 0, len(w.Neutron.Applied()), "steps that Neutron would refuse")

		controllertest.Edit(t, w.API, key, func(port *cloudteamv1.NetworkPort) { port.Status.FloatingIP = nil })
		w.settle()
		w.WantState("Ready=True Available")
		w.wantLeads("port-1")
	}, network(), public("web-0"))
}

func TestClassesLimitFloatingIPs(t *testing.T) {
	older, newer := public(""), public("")
	older.Name, older.UID, older.CreationTimestamp = "db", "uid-db", metav1.Unix(1, 0)
	newer.CreationTimestamp = metav1.Unix(2, 0)
	inWorld(t, func(w *world) {
		w.WantState("Ready=True Available")
		w.API.Delete(t, w.Get())
		w.settle()
		limited := controllertest.OpenClass()
		limited.Spec.Limits = &cloudteamv1.ClassLimits{FloatingIPsPerNamespace: new(int32(1))}
		w.classes.Set(limited)
		w.API.Create(t, newer)
		w.settle()
		w.wantReady(cloudteamv1.ReasonClassLimitReached, "allows 1 FloatingIPs per namespace")
		w.API.Delete(t, older)
		w.settle()
		w.WantState("Ready=True Available")
	}, older, public(""))
}

func TestARetainedFloatingIPStays(t *testing.T) {
	obj := public("web-0")
	obj.Spec.DeletionPolicy = cloudteamv1.DeletionPolicyRetain
	inWorld(t, func(w *world) {
		w.onPort("web-0", "port-1", "10.0.0.7/24")
		w.wantLeads("port-1")
		w.Delete()
		w.settle()
		left := w.Neutron.FloatingIPs()
		if w.Exists() || len(left) != 1 || left[0].Description != "" || left[0].PortID != "port-1" {
			t.Errorf("after the deletion there is %+v", left)
		}
	}, network(), obj)
}

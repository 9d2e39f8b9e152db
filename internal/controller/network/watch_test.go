package network

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// world is a controller that runs, with the informers of both kinds, between an API server and a cloud that are played.
type world struct {
	*controllertest.World[*cloudteamv1.Network]
}

var exampleKey = cache.NewObjectName("team", "example-network")

// inWorld runs a test in a bubble of synthetic time, in which the controller runs, the example is Ready, and the given
// NetworkPorts exist.
func inWorld(t *testing.T, test func(t *testing.T, w *world), ports ...*cloudteamv1.NetworkPort) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		here := client.Identity{ProjectID: "p1"}
		w := &world{controllertest.NewWorld[*cloudteamv1.Network](t, exampleKey).WithNeutron(here, specCluster)}
		controllertest.Serve(w.API, w.Clients, controllertest.Networks,
			controllertest.Rules[*cloudteamv1.Network]{Line: controllertest.WriteLine})
		obj := networkOf(specOf(cloudteamv1.SubnetSpec{CIDR: "192.168.0.0/16"}))
		obj.Namespace, obj.Name, obj.Spec.AllowedNamespaces = exampleKey.Namespace, exampleKey.Name, []string{"others"}
		w.Create(obj)
		for _, port := range ports {
			w.Create(port)
		}
		w.NewInformers()
		v1 := w.Informers.Cloudteam().V1()
		c, err := NewController(w.Clients.CloudteamV1(), v1.Networks(), v1.NetworkPorts(), w.Neutron, w.Events, specCluster,
			Options{Classes: controllertest.OpenClasses()})
		expect.NoError(t, err)
		w.Start(controllertest.Process{Loop: c.Loop})
		w.Run(c.Run, 1)
		controllertest.Settle(time.Second)
		w.WantState("Ready=True Available")
		w.Quiet()
		test(t, w)
	})
}

// delete deletes the example as its user would.
func (w *world) delete() {
	w.T.Helper()
	w.Delete()
	controllertest.Settle(time.Second)
}

// wantWaiting holds that the example, which is being deleted, waits for what the message names, and that nothing was
// asked for it but to write the status.
func (w *world) wantWaiting(message string) {
	w.T.Helper()
	ready := w.Ready()
	if ready.Status != metav1.ConditionFalse || ready.Reason != cloudteamv1.ReasonInUse {
		w.T.Errorf("condition Ready is %+v, want False for InUse", ready)
	}
	expect.Equal(w.T, message, ready.Message, "message")
	w.Calls.Want(w.T, "write status")
	w.Events.WantReasons(w.T)
}

// wantGone holds that the example left Neutron, and then Kubernetes.
func (w *world) wantGone() {
	w.T.Helper()
	w.WantGone()
	w.Calls.Want(w.T, "apply delete network", "write finalizers")
}

// port is a NetworkPort on the example, with the finalizer that it has before its port is made.
func port(namespace, name string) *cloudteamv1.NetworkPort {
	obj := &cloudteamv1.NetworkPort{}
	obj.Namespace, obj.Name, obj.Finalizers = namespace, name, []string{cloudteamv1.PortFinalizer}
	obj.Spec.NetworkName = exampleKey.Name
	if namespace != exampleKey.Namespace {
		obj.Spec.NetworkNamespace = exampleKey.Namespace
	}
	return obj
}

// changed is a NetworkPort after a change.
func changed(obj *cloudteamv1.NetworkPort, change func(*cloudteamv1.NetworkPort)) *cloudteamv1.NetworkPort {
	change(obj)
	return obj
}

// withAddress is a NetworkPort that has a port with an address on a subnet.
func withAddress(obj *cloudteamv1.NetworkPort, subnet string) *cloudteamv1.NetworkPort {
	obj.Status.PortID = "port-of-" + obj.Name
	obj.Status.Addresses = []cloudteamv1.PortAddress{{Address: "192.168.0.7/16", SubnetID: subnet}}
	return obj
}

const whatToDo = ". The network is deleted after them. Delete them, or the Deployments and Pods that they belong to."

// Each sync of a Network in deletion looks at all ports that name it, and anybody can write and edit any number of them.
func TestANetworkInDeletionFollowsNoPortThatCannotKeepIt(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		networks := w.Informers.Cloudteam().V1().Networks().Informer().GetStore()
		follows := func(when string, obj *cloudteamv1.NetworkPort, want ...cache.ObjectName) {
			t.Helper()
			expect.Equal(t, want, leftBy(networks)(obj), "%s", when)
		}
		follows("before the deletion", port("team", "a"))
		w.delete()
		follows("one of its own", port("team", "a"), exampleKey)
		follows("one of a namespace that it allows", port("others", "a"), exampleKey)
		follows("one of a namespace that it allowed before", withAddress(port("evil", "a"), "sub-2"), exampleKey)
		follows("one of another namespace", port("evil", "a"))
	}, port("team", "a"))
}

func TestADeletedNetworkNamesThePortsThatKeepIt(t *testing.T) {
	for name, c := range map[string]struct {
		ports []*cloudteamv1.NetworkPort
		// want is what keeps the Network; empty where nothing does.
		want string
	}{
		"one": {[]*cloudteamv1.NetworkPort{port("team", "a")}, "NetworkPort team/a"},
		"three, the shorter names first, so that the ninth stands before the tenth": {
			[]*cloudteamv1.NetworkPort{port("team", "a-10"), port("team", "a-9"), port("team", "a-8")},
			"NetworkPort team/a-8, team/a-9, team/a-10"},
		"five, of which it names three": {
			[]*cloudteamv1.NetworkPort{
				port("team", "e"), port("team", "d"), port("team", "c"), port("team", "b"), port("team", "a"),
			},
			"NetworkPort team/a, team/b, team/c and 2 more"},
		"those of other namespaces too": {
			[]*cloudteamv1.NetworkPort{port("others", "b"), port("team", "a")},
			"NetworkPort team/a and 1 NetworkPort of another namespace"},
		"those of other namespaces alone, without their names": {
			[]*cloudteamv1.NetworkPort{port("others", "b"), port("others", "a")}, "2 NetworkPorts of other namespaces"},
		"one of a namespace that is no longer allowed, which has an address": {
			[]*cloudteamv1.NetworkPort{withAddress(port("evil", "a"), "sub-2")}, "1 NetworkPort of another namespace"},
		"but not one whose namespace is not allowed: anybody can write a finalizer": {
			[]*cloudteamv1.NetworkPort{port("evil", "a"), port("evil", "b")}, ""},
		"nor one whose address was on an earlier Network of the name": {
			[]*cloudteamv1.NetworkPort{withAddress(port("evil", "a"), "sub-0")}, ""},
		"one that is being deleted and still has its port": {
			[]*cloudteamv1.NetworkPort{changed(port("team", "a"), func(p *cloudteamv1.NetworkPort) {
				p.DeletionTimestamp = new(metav1.NewTime(time.Unix(1, 0)))
			})}, "NetworkPort team/a"},
		"but not one without the finalizer": {
			[]*cloudteamv1.NetworkPort{changed(port("team", "a"), func(p *cloudteamv1.NetworkPort) {
				p.Finalizers = []string{"a.test/another"}
			})}, ""},
		"nor one on another Network": {
			[]*cloudteamv1.NetworkPort{changed(port("team", "a"), func(p *cloudteamv1.NetworkPort) {
				p.Spec.NetworkName = "another"
			})}, ""},
		"nor one on another namespace's Network of the name": {
			[]*cloudteamv1.NetworkPort{changed(port("others", "a"), func(p *cloudteamv1.NetworkPort) {
				p.Spec.NetworkNamespace = ""
			}), changed(port("team", "a"), func(p *cloudteamv1.NetworkPort) {
				p.Spec.NetworkNamespace = "others"
			})}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.delete()
				if c.want == "" {
					w.wantGone()
					return
				}
				w.wantWaiting("In use by " + c.want + whatToDo)
			}, c.ports...)
		})
	}
}

func TestADeletedNetworkGoesWithItsLastPort(t *testing.T) {
	letGo := func(w *world, p *cloudteamv1.NetworkPort) {
		w.T.Helper()
		controllertest.Edit(w.T, w.API, cache.MetaObjectToName(p), func(p *cloudteamv1.NetworkPort) {
			p.Finalizers = slices.DeleteFunc(p.Finalizers, func(f string) bool { return f == cloudteamv1.PortFinalizer })
		})
	}
	for name, goes := range map[string]func(w *world, p *cloudteamv1.NetworkPort){
		"when its object goes": func(w *world, p *cloudteamv1.NetworkPort) {
			w.API.Delete(w.T, p)
			letGo(w, p)
		},
		"when its object goes by force": func(w *world, p *cloudteamv1.NetworkPort) { w.API.DeleteByForce(w.T, p) },
		"when its finalizer is off, and another's keeps the object": func(w *world, p *cloudteamv1.NetworkPort) {
			controllertest.Edit(w.T, w.API, cache.MetaObjectToName(p), func(p *cloudteamv1.NetworkPort) {
				p.Finalizers = append(p.Finalizers, "a.test/another")
			})
			w.API.Delete(w.T, p)
			letGo(w, p)
		},
	} {
		t.Run(name, func(t *testing.T) {
			first, last := port("team", "first"), port("others", "last")
			inWorld(t, func(t *testing.T, w *world) {
				w.delete()
				w.wantWaiting("In use by NetworkPort team/first and 1 NetworkPort of another namespace" + whatToDo)
				goes(w, first)
				controllertest.Settle(time.Second)
				w.wantWaiting("In use by 1 NetworkPort of another namespace" + whatToDo)
				// It waits for as long as it takes, and asks nobody meanwhile.
				controllertest.Settle(time.Hour)
				w.Calls.Want(t)
				goes(w, last)
				controllertest.Settle(time.Second)
				w.wantGone()
				w.Events.WantReasons(t, "Normal Deleted")
			}, first, last)
		})
	}
}

func TestThePortsOfANetworkThatStaysAreNoReasonToLook(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		before := w.Neutron.Looks()
		p := port("team", "a")
		w.API.Create(t, p)
		controllertest.Settle(time.Second)
		w.API.DeleteByForce(t, p)
		controllertest.Settle(time.Second)
		w.API.Create(t, changed(port("team", "b"), func(p *cloudteamv1.NetworkPort) { p.Spec.NetworkName = "none" }))
		controllertest.Settle(time.Second)
		expect.Equal(t, 0, w.Neutron.Looks()-before, "how often it was looked at")
	})
}

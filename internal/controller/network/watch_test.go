package network

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/fake"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions"
)

// world is a controller with the informers of both kinds, between an API server and a cloud that are played.
type world struct {
	t      *testing.T
	calls  *controllertest.CallLog
	api    *controllertest.APIServer
	cloud  *lookedAt
	events *controllertest.Events
}

// lookedAt counts how often the Inventory is looked at, which every sync of a Network that stays does.
type lookedAt struct {
	*controllertest.Cloud
	looks atomic.Int64
}

func (l *lookedAt) Observed(ctx context.Context, owner plan.Owner, since time.Time) (plan.Observed, error) {
	l.looks.Add(1)
	return l.Cloud.Observed(ctx, owner, since)
}

var exampleKey = cache.NewObjectName("team", "example-network")

// inWorld runs a test in a bubble of synthetic time, in which the controller runs, the example is Ready, and the given
// NetworkPorts exist.
func inWorld(t *testing.T, test func(t *testing.T, w *world), ports ...*cloudteamv1.NetworkPort) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		calls := &controllertest.CallLog{}
		cloud := &lookedAt{Cloud: controllertest.NewCloud(calls, client.Identity{ProjectID: "p1"}, specCluster)}
		w := &world{
			t: t, calls: calls, api: controllertest.NewAPIServer(calls), cloud: cloud, events: &controllertest.Events{},
		}
		clients := fake.NewSimpleClientset()
		controllertest.Serve(w.api, clients, cloudteamv1.SchemeGroupVersion.WithResource("networks"),
			controllertest.Rules[*cloudteamv1.Network]{Line: func(action clienttesting.Action) string {
				return strings.TrimSpace(action.GetVerb() + " " + action.GetSubresource())
			}})
		controllertest.Serve(w.api, clients, cloudteamv1.SchemeGroupVersion.WithResource("networkports"),
			controllertest.Rules[*cloudteamv1.NetworkPort]{})
		obj := networkOf(specOf(cloudteamv1.SubnetSpec{CIDR: "192.168.0.0/16"}))
		obj.Namespace, obj.Name = exampleKey.Namespace, exampleKey.Name
		w.api.Create(t, obj)
		for _, port := range ports {
			w.api.Create(t, port)
		}

		factory := informers.NewSharedInformerFactory(clients, 0)
		v1 := factory.Cloudteam().V1()
		c, err := NewController(clients.CloudteamV1(), v1.Networks(), v1.NetworkPorts(), cloud, w.events, specCluster,
			Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(controllertest.Logged(t))
		factory.StartWithContext(ctx)
		stop := controllertest.Run(t, c.Run, 1)
		t.Cleanup(func() {
			if err := stop(); err != nil {
				t.Error(err)
			}
			cancel()
			factory.Shutdown()
		})
		controllertest.Settle(time.Second)
		if ready := w.ready(); ready.Status != metav1.ConditionTrue {
			t.Fatalf("the example is not Ready: %+v", ready)
		}
		w.calls.Take()
		w.events.Take()
		test(t, w)
	})
}

// ready is the example's condition Ready.
func (w *world) ready() metav1.Condition {
	w.t.Helper()
	obj := controllertest.Get[*cloudteamv1.Network](w.t, w.api, exampleKey)
	if ready := meta.FindStatusCondition(obj.Status.Conditions, cloudteamv1.ConditionReady); ready != nil {
		return *ready
	}
	return metav1.Condition{}
}

// delete deletes the example as its user would.
func (w *world) delete() {
	w.t.Helper()
	w.api.Delete(w.t, controllertest.Get[*cloudteamv1.Network](w.t, w.api, exampleKey))
	controllertest.Settle(time.Second)
}

// wantWaiting holds that the example, which is being deleted, waits for what the message names, and that nothing was
// asked for it but to write the status.
func (w *world) wantWaiting(message string) {
	w.t.Helper()
	ready := w.ready()
	if ready.Status != metav1.ConditionFalse || ready.Reason != cloudteamv1.ReasonInUse {
		w.t.Errorf("condition Ready is %+v, want False for InUse", ready)
	}
	if diff := cmp.Diff(message, ready.Message); diff != "" {
		w.t.Errorf("message (-want +got):\n%s", diff)
	}
	w.calls.Want(w.t, "patch status")
	w.events.WantReasons(w.t)
}

// wantGone holds that the example left Neutron, and then Kubernetes.
func (w *world) wantGone() {
	w.t.Helper()
	if _, exists := controllertest.Find[*cloudteamv1.Network](w.api, exampleKey); exists {
		w.t.Errorf("the object stays: %+v", w.ready())
	}
	w.calls.Want(w.t, "apply delete network", "patch")
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

const whatToDo = ". The network is deleted after them. Delete them, or the Deployments and Pods that they belong to."

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
			[]*cloudteamv1.NetworkPort{port("others", "b"), port("team", "a")}, "NetworkPort team/a, others/b"},
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
		w.t.Helper()
		controllertest.Edit(w.t, w.api, cache.MetaObjectToName(p), func(p *cloudteamv1.NetworkPort) {
			p.Finalizers = slices.DeleteFunc(p.Finalizers, func(f string) bool { return f == cloudteamv1.PortFinalizer })
		})
	}
	for name, goes := range map[string]func(w *world, p *cloudteamv1.NetworkPort){
		"when its object goes": func(w *world, p *cloudteamv1.NetworkPort) {
			w.api.Delete(w.t, p)
			letGo(w, p)
		},
		"when its object goes by force": func(w *world, p *cloudteamv1.NetworkPort) { w.api.DeleteByForce(w.t, p) },
		"when its finalizer is off, and another's keeps the object": func(w *world, p *cloudteamv1.NetworkPort) {
			controllertest.Edit(w.t, w.api, cache.MetaObjectToName(p), func(p *cloudteamv1.NetworkPort) {
				p.Finalizers = append(p.Finalizers, "a.test/another")
			})
			w.api.Delete(w.t, p)
			letGo(w, p)
		},
	} {
		t.Run(name, func(t *testing.T) {
			first, last := port("team", "first"), port("others", "last")
			inWorld(t, func(t *testing.T, w *world) {
				w.delete()
				w.wantWaiting("In use by NetworkPort team/first, others/last" + whatToDo)
				goes(w, first)
				controllertest.Settle(time.Second)
				w.wantWaiting("In use by NetworkPort others/last" + whatToDo)
				// It waits for as long as it takes, and asks nobody meanwhile.
				controllertest.Settle(time.Hour)
				w.calls.Want(t)
				goes(w, last)
				controllertest.Settle(time.Second)
				w.wantGone()
				w.events.WantReasons(t, "Normal Deleted")
			}, first, last)
		})
	}
}

func TestThePortsOfANetworkThatStaysAreNoReasonToLook(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		before := w.cloud.looks.Load()
		p := port("team", "a")
		w.api.Create(t, p)
		controllertest.Settle(time.Second)
		w.api.DeleteByForce(t, p)
		controllertest.Settle(time.Second)
		w.api.Create(t, changed(port("team", "b"), func(p *cloudteamv1.NetworkPort) { p.Spec.NetworkName = "none" }))
		controllertest.Settle(time.Second)
		if n := w.cloud.looks.Load() - before; n != 0 {
			t.Errorf("it was looked at %d times", n)
		}
	})
}

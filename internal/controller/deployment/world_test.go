package deployment

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// webKey is the Deployment's.
var webKey = cache.NewObjectName("team", "web")

var deploymentsResource = appsv1.SchemeGroupVersion.WithResource("deployments")

// world is a controller whose caches show what the test puts into them and nothing else: the informers do not run. What
// it writes goes to an API server that is played.
type world struct {
	*controllertest.World[*appsv1.Deployment]
	c *Controller
	// refuse, where set, may fail a request such as "create web-blue-0".
	refuse func(what string) error
}

// inWorld runs a test in synthetic time, in which the Network "blue" and the Deployment exist.
func inWorld(t *testing.T, d *appsv1.Deployment, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{World: controllertest.NewWorld[*appsv1.Deployment](t, webKey)}
		expect.NoError(t, w.Kube.Tracker().Add(d))
		w.NewInformers()
		caches, err := consumer.NewCaches(consumer.InformersOf(w.Informers, w.KubeInformers), nil)
		expect.NoError(t, err)
		w.c, err = NewController(w.Clients.CloudteamV1(), w.Kube.AppsV1(), w.Kube.CoreV1(), caches, w.Events, Options{})
		expect.NoError(t, err)
		t.Cleanup(func() { controllertest.Dismiss(t, w.c.Loop) })
		w.Clients.PrependReactor("delete", "networkports", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, nil
		})
		w.Clients.PrependReactor("*", "*", w.note)
		w.Kube.PrependReactor("*", "*", w.note)
		network := &cloudteamv1.Network{}
		network.Namespace, network.Name = "team", "blue"
		w.Show(network)
		w.Show(d)
		test(t, w)
	})
}

// note notes a request, and refuses it where it is to be refused.
func (w *world) note(action clienttesting.Action) (bool, runtime.Object, error) {
	what := action.GetVerb() + " "
	switch action := action.(type) {
	case clienttesting.CreateAction:
		what += action.GetObject().(metav1.Object).GetName()
	case clienttesting.GetAction: // deletions and patches, too
		what += action.GetName()
	}
	w.Calls.Note("%s", what)
	if w.refuse != nil {
		if err := w.refuse(what); err != nil {
			return true, nil, err
		}
	}
	return false, nil, nil
}

// showPorts puts n ports into the cache, each with a condition Ready of the reason given, or True for none.
func (w *world) showPorts(d *appsv1.Deployment, n int, reason string) {
	w.T.Helper()
	for i := range n {
		port := portOf(d, fmt.Sprintf("web-blue-%d", i), consumer.Request{Network: cache.NewObjectName("team", "blue")})
		condition := metav1.Condition{Type: cloudteamv1.ConditionReady, Status: metav1.ConditionTrue}
		if reason != "" {
			condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, reason, "it says why"
		}
		port.Status.Conditions = []metav1.Condition{condition}
		w.Show(port)
	}
}

// written is the Deployment as it is at the API server.
func (w *world) written() *appsv1.Deployment {
	w.T.Helper()
	obj, err := w.Kube.Tracker().Get(deploymentsResource, "team", "web")
	expect.NoError(w.T, err)
	return obj.(*appsv1.Deployment)
}

// showWritten puts the Deployment into the cache as it is at the API server.
func (w *world) showWritten() { w.T.Helper(); w.Show(w.written()) }

// sync syncs the Deployment, and holds what that asks of the API server against what it should.
func (w *world) sync(want ...string) (again time.Duration, err error) {
	w.T.Helper()
	result, err := w.c.sync(w.T.Context(), webKey)
	asked := w.Calls.Take()
	slices.Sort(asked)
	expect.Equal(w.T, want, asked, "asked of the API server")
	if errors.Is(err, controller.ErrStale) { // the Loop requeues the key
		return controller.StalePause, nil
	}
	return result.RequeueAfter, err
}

func (w *world) mustSync(want ...string) time.Duration {
	w.T.Helper()
	again, err := w.sync(want...)
	if err != nil {
		w.T.Errorf("sync: %v", err)
	}
	return again
}

func TestACacheThatIsBehind(t *testing.T) {
	d := declaring("blue", 1)
	for name, c := range map[string]struct {
		// live, where set, changes the Deployment at the API server alone.
		live   func(*appsv1.Deployment)
		ports  int // in the cache
		refuse func(what string) error
		asked  []string
	}{
		"does not show that the Deployment goes: no port is made": {
			live:  func(d *appsv1.Deployment) { d.DeletionTimestamp = new(metav1.Now()) },
			asked: []string{"get web"},
		},
		"does not show that the Deployment is another one: no port is made": {
			live: func(d *appsv1.Deployment) { d.UID = "deployment-2" }, asked: []string{"get web"},
		},
		"does not show a port of the name: nobody is to blame": {
			refuse: controllertest.Refusing("create ", errExists),
			asked:  []string{"create web-blue-0", "get web", "get web-blue-0"},
		},
		"shows a port as it is no more: it stays, and is looked at again": {
			ports: 2, refuse: controllertest.Refusing("", apierrors.NewConflict(portsResource, "web-blue-1", nil)),
			asked: []string{"delete web-blue-1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, d, func(t *testing.T, w *world) {
				if c.live != nil {
					live := d.DeepCopy()
					c.live(live)
					expect.NoError(t, w.Kube.Tracker().Update(deploymentsResource, live, "team"))
				}
				w.showPorts(d, c.ports, "")
				w.refuse = c.refuse
				if again := w.mustSync(c.asked...); again == 0 {
					t.Error("it is not looked at again")
				}
			})
		})
	}
	t.Run("shows a port that is deleted: it is deleted once, and no other in its place", func(t *testing.T) {
		inWorld(t, d, func(_ *testing.T, w *world) {
			w.showPorts(d, 2, "")
			w.mustSync("delete web-blue-1")
			w.showPorts(d, 1, cloudteamv1.ReasonReconcileFailed) // which would go first, were there one too many
			w.mustSync("patch web")
		})
	})
}

func TestAConditionWhoseNumbersMoveIsWrittenNowAndThen(t *testing.T) {
	d := declaring("blue", 9)
	inWorld(t, d, func(t *testing.T, w *world) {
		w.showPorts(d, 9, "")
		w.showPorts(d, 1, cloudteamv1.ReasonCloudUnavailable)
		w.mustSync("patch web")
		w.showWritten()
		for n := range 8 {
			<-time.After(100 * time.Millisecond)
			w.showPorts(d, n+2, cloudteamv1.ReasonCloudUnavailable)
			if again := w.mustSync(); again <= 0 || again > countPause {
				t.Errorf("it is looked at again after %s, want at most %s", again, countPause)
			}
		}
		<-time.After(countPause)
		w.mustSync("patch web")
		w.showWritten()
		w.mustSync()
		// What is new is told at once.
		w.showPorts(d, 9, "")
		w.mustSync("patch web")
		want := []string{
			"Warning PortsFailed 1 of 9 ports cannot be created; web-blue-0: CloudUnavailable: it says why",
			"Normal Allocated All ports are Ready.",
		}
		expect.Equal(t, want, w.Events.Take(), "Events")
	})
}

// setOf is a ReplicaSet of a Deployment, and podOf a Pod of it that declares networks.
func setOf(d *appsv1.Deployment) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web-1", UID: "set-1",
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, kind)}}}
}

func podOf(set *appsv1.ReplicaSet, networks string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web-1-a", UID: "pod-1",
		Annotations: map[string]string{"k8s.v1.cni.cncf.io/networks": networks},
		OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))},
	}}
}

func TestWhoIsLookedAtAgain(t *testing.T) {
	d := declaring("blue", 1)
	set := setOf(d)
	port := portOf(d, "web-blue-0", consumer.Request{Network: cache.NewObjectName("team", "blue")})
	foreign := port.DeepCopy()
	foreign.OwnerReferences[0].APIVersion = "example.com/v1"
	web := []cache.ObjectName{cache.NewObjectName("team", "web")}
	for name, c := range map[string]struct {
		keys func(c *Controller) []cache.ObjectName
		want []cache.ObjectName
	}{
		"whose port changes": {func(*Controller) []cache.ObjectName { return keysOfPort(port) }, web},
		"not who has no port of ours": {
			func(*Controller) []cache.ObjectName { return keysOfPort(foreign) }, nil,
		},
		"whose ReplicaSet comes after a Pod that declares": {
			func(c *Controller) []cache.ObjectName { return c.keysOfReplicaSet(set) }, web,
		},
		"not whose ReplicaSet has no such Pod": {
			func(c *Controller) []cache.ObjectName {
				other := set.DeepCopy()
				other.UID = "set-2"
				return c.keysOfReplicaSet(other)
			}, nil,
		},
		"whose Pod changes": {func(c *Controller) []cache.ObjectName { return c.keysOfPod(podOf(set, "blue")) }, web},
		"not whose Pod declares nothing": {
			func(c *Controller) []cache.ObjectName { return c.keysOfPod(podOf(set, "")) }, nil,
		},
		"who declares a Network": {
			func(c *Controller) []cache.ObjectName { return c.keysDeclaring(cache.NewObjectName("team", "blue")) }, web,
		},
		"whose Pod of an earlier template waits for a Network": {
			func(c *Controller) []cache.ObjectName { return c.keysDeclaring(cache.NewObjectName("team", "green")) }, web,
		},
		"not who has nothing to do with a Network": {
			func(c *Controller) []cache.ObjectName { return c.keysDeclaring(cache.NewObjectName("team", "red")) }, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, d, func(t *testing.T, w *world) {
				w.Show(set)
				w.Show(podOf(set, "green"))
				expect.Equal(t, c.want, c.keys(w.c), "keys")
			})
		})
	}
}

// A Pod of an earlier template may come back after the template lost its networks, when no port is left.
func TestPodsOfAnEarlierTemplateGetPortsWithoutADeclaration(t *testing.T) {
	d := declaring("", 1)
	set := setOf(d)
	inWorld(t, d, func(_ *testing.T, w *world) {
		w.Show(set)
		w.mustSync()
		w.Show(podOf(set, "blue"))
		w.mustSync("create web-blue-0", "get web")
	})
}

func TestWhatStandsInTheWayIsLookedAtAgainWithoutAnEvent(t *testing.T) {
	d := declaring("red", 1)
	inWorld(t, d, func(t *testing.T, w *world) {
		w.mustSync("patch web")
		w.showWritten()
		expect.Equal(t, recheck, w.mustSync(), "when it is looked at again")
	})
}

func TestWhatIsNotNeededGoesWithoutAnEvent(t *testing.T) {
	const cooldown = 10 * time.Second
	d := declaring("blue", 3)
	inWorld(t, d, func(t *testing.T, w *world) {
		w.c.options.Cooldown = cooldown
		w.showPorts(d, 3, "")
		expect.Equal(t, time.Duration(0), w.mustSync(), "when it is looked at again although nothing is to be done")
		<-time.After(time.Hour)
		scaled := d.DeepCopy()
		scaled.Spec.Replicas = new(int32(1))
		w.Show(scaled)
		expect.Equal(t, cooldown, w.mustSync(), "when it is looked at again, scaled down")
		<-time.After(cooldown - time.Second)
		expect.Equal(t, time.Second, w.mustSync(), "when it is looked at again, a second before")
		<-time.After(time.Second)
		expect.Equal(t, time.Duration(0), w.mustSync("delete web-blue-1", "delete web-blue-2"), "when it is looked at again, all done")
	})
}

func TestAPoolThatCannotGrowBindsWhatItHas(t *testing.T) {
	d := declaring("blue", 2)
	set := setOf(d)
	inWorld(t, d, func(t *testing.T, w *world) {
		w.Show(set)
		w.Show(podOf(set, "blue"))
		w.showPorts(d, 1, cloudteamv1.ReasonCloudUnavailable)
		w.refuse = controllertest.Refusing("create ", errQuota)
		if again := w.mustSync("create web-blue-1", "get web", "patch web"); again <= 0 || again > 2*controller.BackoffFirst {
			t.Errorf("it is synced again after %s", again)
		}
		w.showWritten()
		port := portOf(d, "web-blue-0", consumer.Request{Network: cache.NewObjectName("team", "blue")})
		usable(port, "10.0.0.7/16")
		w.Show(port)
		w.mustSync("patch web-blue-0")
		<-time.After(2 * controller.BackoffFirst)
		w.mustSync("create web-blue-1", "get web", "patch web-blue-0")
	})
}

func TestARefusedCreateDelaysNoDelete(t *testing.T) {
	d := declaring("blue", 2)
	inWorld(t, d, func(t *testing.T, w *world) {
		w.showPorts(d, 1, "")
		w.refuse = controllertest.Refusing("create ", errQuota)
		w.mustSync("create web-blue-1", "get web", "patch web")
		w.showWritten()
		undeclared := portOf(d, "web-red-0", consumer.Request{Network: cache.NewObjectName("team", "red")})
		w.Show(undeclared)
		w.mustSync("delete web-red-0")
	})
}

func TestANetworkThatDoesNotAllowTheNamespaceGetsNoPorts(t *testing.T) {
	d := declaring("other/blue", 2)
	condition := func(w *world) string {
		told := conditionOf(w.written())
		return string(told.Status) + " " + told.Reason + " " + told.Message
	}
	closed := &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "blue"}}
	open := closed.DeepCopy()
	open.Spec.AllowedNamespaces = []string{"team"}
	var none string
	inWorld(t, d, func(t *testing.T, w *world) {
		w.mustSync("patch web")
		if none = condition(w); !strings.HasPrefix(none, "False NamespaceNotAllowed ") {
			t.Errorf("without a Network the condition is %s", none)
		}
	})
	inWorld(t, d, func(t *testing.T, w *world) {
		w.Show(closed)
		w.mustSync("patch web")
		expect.Equal(t, none, condition(w), "the condition, without the Network and with it")
		w.showWritten()
		w.Show(open)
		w.mustSync("create web-blue-0", "create web-blue-1", "get web", "patch web")
		// The ports stay when it is taken away again.
		for _, name := range []string{"web-blue-0", "web-blue-1"} {
			w.Show(portOf(d, name, consumer.Request{Network: cache.NewObjectName("other", "blue")}))
		}
		w.showWritten()
		w.Show(closed)
		w.mustSync("patch web")
	})
}

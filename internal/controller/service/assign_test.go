package service

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubeinformers "k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/fake"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/nightly"
)

// crowd is a namespace with Services that select the same Pods.
type crowd struct {
	services []*corev1.Service
	objects  []controllertest.Object
}

// newCrowd makes Services, Pods with one port each, and FloatingIPs of the Services that lead to drawn ports or
// nowhere. Several may lead to one port.
func newCrowd(services, pods int, r *rand.Rand) *crowd {
	c := &crowd{}
	for i := range pods {
		p := pod(fmt.Sprintf("p%03d", i), i, "net")
		c.objects = append(c.objects, p, portOf(p.Name, "net"))
	}
	for i := range services {
		s := service("public")
		s.Name, s.UID = fmt.Sprintf("s%03d", i), types.UID(fmt.Sprint("uid-s", i))
		s.CreationTimestamp = metav1.Unix(int64(r.IntN(3)), 0)
		c.services = append(c.services, s)
		c.objects = append(c.objects, s)
		if r.IntN(3) == 0 {
			continue
		}
		f := &cloudteamv1.FloatingIP{ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: s.Name, UID: types.UID(fmt.Sprint("uid-f", i)), CreationTimestamp: s.CreationTimestamp,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s, Kind)},
		}}
		f.Spec = cloudteamv1.FloatingIPSpec{ExternalNetwork: "public", ClassName: "open"}
		if r.IntN(4) > 0 {
			f.Spec.PortName = fmt.Sprintf("p%03d-net", r.IntN(pods))
			if r.IntN(2) == 0 {
				f.Status.PortID = "id-" + f.Spec.PortName
			}
		}
		c.objects = append(c.objects, f)
	}
	return c
}

// ports gives where the Services lead, and how many lead to a port of their own.
func (c *crowd) ports(w *world) (all []string, alone int) {
	led := map[string]int{}
	for _, s := range c.services {
		if f, exists := controllertest.Find[*cloudteamv1.FloatingIP](w.API, cache.MetaObjectToName(s)); exists {
			all = append(all, s.Name+":"+f.Spec.PortName)
			if f.Spec.PortName != "" {
				led[f.Spec.PortName]++
			}
		}
	}
	for _, n := range led {
		if n == 1 {
			alone++
		}
	}
	return all, alone
}

// moves are the writes since the last time. An old cache has a FloatingIP created twice, which is refused.
func moves(w *world) []string {
	lines := slices.DeleteFunc(w.Calls.Take(), func(line string) bool { return line == "get" })
	slices.Sort(lines)
	return slices.CompactFunc(lines, func(a, b string) bool { return a == b && strings.HasPrefix(a, "create") })
}

// TestServicesOfTheSamePodsMoveOnce has Services begin with what an earlier process, or a user, left, see nothing of
// their own moves for a while, and lose a Pod.
func TestServicesOfTheSamePodsMoveOnce(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			n, pods := 1+r.IntN(12), 1+r.IntN(14)
			if seed == 0 && nightly.Is() {
				n, pods = 500, 1000
			}
			c := newCrowd(n, pods, r)
			inWorld(t, func(w *world) {
				settles := func(when string, most, ports int) {
					t.Helper()
					if r.IntN(2) == 0 {
						gate := controllertest.GateOf[*cloudteamv1.FloatingIP](w.API)
						gate.Hold()
						w.settle()
						gate.Release()
					}
					w.settle()
					if did := moves(w); len(did) > most {
						t.Errorf("%s, %d Services take %d moves: %v", when, n, len(did), did)
					}
					// What leads to one port twice stays if there is no other, or if older Services have a place.
					if all, alone := c.ports(w); ports >= n && alone < min(n, maxServices) {
						t.Errorf("%s, %d Services have %d ports for themselves: %v", when, n, alone, all)
					}
					w.restart()
					expect.Empty(t, moves(w), "moves that a restart takes, %s", when)
				}
				settles("at first", n, pods)
				w.API.Delete(w.T, controllertest.Get[*corev1.Pod](t, w.API, cache.NewObjectName("team", "p000")))
				settles("after the end of a Pod", n, pods-1)
			}, c.objects...)
		})
	}
}

// newIdle makes a controller that does not run. Show its caches objects by show, as events of their handlers would.
func newIdle(t *testing.T) (c *Controller, show func(...controllertest.Object)) {
	t.Helper()
	client, kube := fake.NewSimpleClientset(), kubefake.NewSimpleClientset()
	own, kubes := informers.NewSharedInformerFactory(client, 0), kubeinformers.NewSharedInformerFactory(kube, 0)
	caches, err := consumer.NewCaches(consumer.InformersOf(own, kubes), nil)
	expect.NoError(t, err)
	c, err = NewController(client.CloudteamV1(), kube.CoreV1(), kubes.Core().V1().Services(),
		own.Cloudteam().V1().FloatingIPs(), caches, &controllertest.Events{})
	expect.NoError(t, err)
	t.Cleanup(func() { controllertest.Dismiss(t, c.Loop) })
	return c, func(objects ...controllertest.Object) {
		t.Helper()
		for _, obj := range objects {
			controllertest.ShowIn(t, own, kubes, obj)
			if s, ok := obj.(*corev1.Service); ok {
				c.itself(s)
			}
		}
	}
}

// numbered makes the i-th Service, with a selector.
func numbered(i int, selector map[string]string) *corev1.Service {
	s := service("public")
	s.Name, s.UID, s.Spec.Selector = fmt.Sprintf("s%04d", i), types.UID(fmt.Sprint("uid-s", i)), selector
	s.CreationTimestamp = metav1.Unix(int64(i), 0)
	return s
}

// TestAnEventNamesFewServices has many Services look for a port, and many lead to one.
func TestAnEventNamesFewServices(t *testing.T) {
	c, show := newIdle(t)
	labelled := pod("p", 1, "net")
	for i := range 100 {
		label := fmt.Sprint("label-", i)
		labelled.Labels[label] = ""
		for j := range 2 * wake {
			s := numbered(100*i+j, map[string]string{label: ""})
			show(s)
			c.follow(s, chosen{backend: backend{port: portOf("p", []string{"net", "two", "three"}[j%3])}, found: i%2 == 0})
		}
	}
	port := portOf("p", "net")
	show(labelled, port, portOf("p", "two"), portOf("p", "three"))
	if keys := c.selecting(labelled); len(keys) > 2*wake {
		t.Errorf("an event of a Pod names %d Services", len(keys))
	}
	if keys := c.ofPort(port); len(keys) > 2*wake+1 {
		t.Errorf("an event of a port names %d Services", len(keys))
	}
	if keys := c.itself(service("public")); len(keys) > 2 {
		t.Errorf("an event of a Service names %d", len(keys))
	}
}

// counted counts the lists of a cache.
type counted struct {
	cache.Indexer
	lists map[string]int
}

func (c counted) ByIndex(index, value string) ([]any, error) {
	c.lists[index+" "+value]++
	return c.Indexer.ByIndex(index, value)
}

// TestAnAssignmentLooksAtAPodAndAPortOnce has more Services than are assigned ports, each with a selector of its own.
// Their FloatingIPs all lead to one port.
func TestAnAssignmentLooksAtAPodAndAPortOnce(t *testing.T) {
	c, show := newIdle(t)
	lists := map[string]int{}
	c.pods, c.led = counted{c.pods, lists}, counted{c.led, lists}
	p := pod("p", 1, "net")
	show(p, portOf("p", "net"))
	for i := range 2 * maxServices {
		label := fmt.Sprint("label-", i)
		p.Labels[label] = ""
		s := numbered(i, map[string]string{label: ""})
		f := &cloudteamv1.FloatingIP{ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: s.Name, UID: types.UID(fmt.Sprint("uid-f", i)),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s, Kind)},
		}}
		f.Spec = cloudteamv1.FloatingIPSpec{ExternalNetwork: "public", PortName: "p-net"}
		show(s, f)
	}
	c.assign("team", nil)
	for list, n := range lists {
		if n > 1 {
			t.Errorf("one assignment lists %s %d times", list, n)
		}
	}
	expect.Len(t, 2, lists, "one assignment lists")
}

// TestNobodyWaitsForTheAssignmentOfANamespace has one go on for ever.
func TestNobodyWaitsForTheAssignmentOfANamespace(t *testing.T) {
	c, show := newIdle(t)
	s, p, port := service("public"), pod("p", 1, "net"), portOf("p", "net")
	show(s, p, port)
	if got := c.assigned(s); got != port.Name {
		t.Fatalf("the Service is assigned %q", got)
	}
	found, _ := c.assignments.Load("team")
	of, _ := found.(*assignment)
	of.mu.Lock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.itself(s)
		c.selecting(p)
		c.ofPort(port)
		f := &cloudteamv1.FloatingIP{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web"}}
		f.Spec.PortName = port.Name
		c.ofFloating(f)
		c.leaving(f)
		other := service("public")
		other.Namespace = "other"
		c.assigned(other)
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("handlers, or another namespace, wait for the assignment")
	}
	of.mu.Unlock()
	if of.done.Load() {
		t.Error("what changed during an assignment is not looked at")
	}
}

// TestTheOldestServicesOfANamespaceAreAssignedPorts has a port for each Service, and more Services than get one.
func TestTheOldestServicesOfANamespaceAreAssignedPorts(t *testing.T) {
	const n = maxServices + 2
	var objects []controllertest.Object
	for i := range n {
		p := pod(fmt.Sprintf("p%03d", i), i, "net")
		objects = append(objects, p, portOf(p.Name, "net"), numbered(i, map[string]string{"app": "web"}))
	}
	inWorld(t, func(w *world) {
		led := func() (all []string) {
			for i := range n {
				key := cache.NewObjectName("team", fmt.Sprintf("s%04d", i))
				if f, exists := controllertest.Find[*cloudteamv1.FloatingIP](w.API, key); exists {
					all = append(all, f.Name)
				}
			}
			return all
		}
		if all := led(); len(all) != maxServices || all[0] != "s0000" {
			t.Errorf("%d Services have a FloatingIP, want the %d oldest: %v", len(all), maxServices, all)
		}
		says := "Warning FloatingIPFailed at most 256 Services of a namespace are assigned ports, and that number of older ones " +
			"have the annotation cloudteam.ztgame.com/floating-ip: remove it from some of them, or delete some"
		w.Events.Want(t, says, says)
		for i, free := range []func(*corev1.Service){
			func(s *corev1.Service) { w.API.Delete(t, s) },
			func(s *corev1.Service) {
				controllertest.Edit(t, w.API, cache.MetaObjectToName(s), func(s *corev1.Service) { s.Annotations = nil })
			},
		} {
			free(controllertest.Get[*corev1.Service](t, w.API, cache.NewObjectName("team", fmt.Sprintf("s%04d", i))))
			w.settle()
			if next := fmt.Sprintf("s%04d", maxServices+i); !slices.Contains(led(), next) {
				t.Errorf("Service %s has no FloatingIP when an older one asks for none", next)
			}
		}
	}, objects...)
}

// TestServicesThatGetNoneAreNotInTheWay has as many old ones as an event names get a mistake in their annotations.
func TestServicesThatGetNoneAreNotInTheWay(t *testing.T) {
	var objects []controllertest.Object
	for i := range wake + 1 {
		objects = append(objects, numbered(i, map[string]string{"app": "web"}))
	}
	inWorld(t, func(w *world) {
		for _, s := range objects[:wake] {
			controllertest.Edit(t, w.API, cache.MetaObjectToName(s), func(s *corev1.Service) {
				s.Annotations = service("a=b,c=d").Annotations
			})
		}
		w.settle()
		w.pod("a", 9, "net")
		last := controllertest.Get[*cloudteamv1.FloatingIP](t, w.API, cache.MetaObjectToName(objects[wake]))
		expect.Equal(t, "a-net", last.Spec.PortName, "where the last Service leads")
	}, objects...)
}

// TestAllServicesLeaveAPortThatIsGone has more of them lead to one port than an event names.
func TestAllServicesLeaveAPortThatIsGone(t *testing.T) {
	const n = 3 * wake
	var objects []controllertest.Object
	for i := range n {
		s := numbered(i, map[string]string{"app": "web"})
		f := &cloudteamv1.FloatingIP{ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: s.Name, UID: types.UID(fmt.Sprint("uid-f", i)),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s, Kind)},
		}}
		f.Spec = cloudteamv1.FloatingIPSpec{ExternalNetwork: "public", PortName: "p-net"}
		objects = append(objects, s, f)
	}
	p, port := pod("p", 9, "net"), portOf("p", "net")
	p.Finalizers = nil
	inWorld(t, func(w *world) {
		w.API.Delete(t, p)
		w.API.Delete(t, port)
		w.settle()
		for i := range n {
			key := cache.NewObjectName("team", fmt.Sprintf("s%04d", i))
			if f := controllertest.Get[*cloudteamv1.FloatingIP](t, w.API, key); f.Spec.PortName != "" {
				t.Errorf("FloatingIP %s leads to %q, which is gone", f.Name, f.Spec.PortName)
			}
		}
	}, append(objects, p, port)...)
}

// TestAServiceThatBeginsToWaitLooksAgain has nothing happen after its first sync: an event during that finds no Service
// that waits.
func TestAServiceThatBeginsToWaitLooksAgain(t *testing.T) {
	c, show := newIdle(t)
	show(service("public"))
	for _, want := range []int{1, 1} {
		if _, err := c.sync(controllertest.Logged(t), webKey); err != nil {
			t.Fatal(err)
		}
		expect.Equal(t, want, c.Len(), "keys in the queue")
	}
}

// TestAPortThatBecomesFreeIsUsed has two Services and one port, and then a second one.
func TestAPortThatBecomesFreeIsUsed(t *testing.T) {
	second := service("public")
	second.Name, second.UID, second.CreationTimestamp = "api", "uid-api", metav1.Unix(9, 0)
	inWorld(t, func(w *world) {
		w.pod("a", 9, "net")
		w.wantPort("a-net")
		if _, exists := controllertest.Find[*cloudteamv1.FloatingIP](w.API, cache.MetaObjectToName(second)); exists {
			t.Error("the second Service has a FloatingIP without a port")
		}
		w.Events.Want(t, "Warning FloatingIPFailed each port of the Service's Pods has a floating IP of another Service or "+
			"FloatingIP: run more Pods, or delete one of these")
		w.editService(func(s *corev1.Service) { s.Annotations = nil })
		if f := controllertest.Get[*cloudteamv1.FloatingIP](t, w.API, cache.MetaObjectToName(second)); f.Spec.PortName != "a-net" {
			t.Errorf("the second Service leads to %q", f.Spec.PortName)
		}
	}, second, service("public"))
}

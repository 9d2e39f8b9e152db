package service

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
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
					// What leads to one port twice stays if there is no other.
					if all, alone := c.ports(w); ports >= n && alone < n {
						t.Errorf("%s, %d Services have %d ports for themselves: %v", when, n, alone, all)
					}
					w.restart()
					if did := moves(w); len(did) > 0 {
						t.Errorf("%s, a restart takes the moves %v", when, did)
					}
				}
				settles("at first", n, pods)
				w.API.Delete(w.T, controllertest.Get[*corev1.Pod](t, w.API, cache.NewObjectName("team", "p000")))
				settles("after the end of a Pod", n, pods-1)
			}, c.objects...)
		})
	}
}

// TestAPodsEventsNameFewServices has many Services look for a port.
func TestAPodsEventsNameFewServices(t *testing.T) {
	c := newCrowd(60, 3, rand.New(rand.NewPCG(1, 1)))
	inWorld(t, func(w *world) {
		looking := w.controller
		for what, keys := range map[string][]cache.ObjectName{
			"a Pod":     looking.selecting(controllertest.Get[*corev1.Pod](t, w.API, cache.NewObjectName("team", "p000"))),
			"a port":    looking.ofPort(controllertest.Get[*cloudteamv1.NetworkPort](t, w.API, cache.NewObjectName("team", "p000-net"))),
			"a Network": looking.ofNetwork(network("net")),
		} {
			if len(keys) > 3*wake {
				t.Errorf("an event of %s names %d Services", what, len(keys))
			}
		}
	}, c.objects...)
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

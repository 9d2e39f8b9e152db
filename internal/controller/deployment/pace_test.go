package deployment

import (
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// crowded is a Deployment on a network that has addresses for some of its Pods, which all wait.
type crowded struct {
	t *testing.T
	o observed
	// addresses is how many the network has. refused counts the ports that Neutron refused, made those that were created.
	addresses, refused, made, plans int
	// outside has the addresses be those of an external network, for floating IPs: a port that is refused one exists.
	outside bool
}

func newCrowded(t *testing.T, replicas, addresses int) *crowded {
	s := situation{networks: "blue", replicas: int32(replicas)}
	for i := range replicas {
		s.pods = append(s.pods, fmt.Sprint("pod-", i))
	}
	return &crowded{t: t, o: s.observed(), addresses: addresses}
}

// settle plans and has Neutron answer until a plan changes nothing.
func (w *crowded) settle() plan {
	w.t.Helper()
	w.plans = 0
	for {
		p := newPlan(w.o)
		w.o.stops, w.o.demands = p.stops, p.demands
		created := slices.Concat(p.create...)
		if len(created)+len(p.remove) == 0 && !w.answer() {
			return p
		}
		w.o.ports = slices.DeleteFunc(w.o.ports, func(port *cloudteamv1.NetworkPort) bool {
			return slices.Contains(p.remove, port)
		})
		for _, port := range created {
			w.made++
			port.UID = types.UID(fmt.Sprint("port-", w.made))
		}
		w.o.ports = append(w.o.ports, created...)
		w.o.taken = takenBy(w.o)
		w.answer()
		if w.plans++; w.plans > 100 {
			w.t.Fatalf("it does not come to rest: %d ports", len(w.o.ports))
		}
	}
}

// answer has Neutron answer for each port that is not Ready, and reports whether one became Ready.
func (w *crowded) answer() (success bool) {
	free := w.addresses - w.ready()
	for _, port := range w.o.ports {
		switch {
		case ready(port):
		case free > 0:
			free--
			success = true
			port.Status.PortID = "id-" + string(port.UID)
			port.Status.Conditions = []metav1.Condition{{Type: cloudteamv1.ConditionReady, Status: metav1.ConditionTrue}}
		default:
			if w.outside {
				port.Status.PortID, port.Spec.FloatingIP = "id-"+string(port.UID), &cloudteamv1.PortFloatingIP{}
			}
			w.refused++
			port.Status.Conditions = []metav1.Condition{{
				Type: cloudteamv1.ConditionReady, Status: metav1.ConditionFalse, Reason: cloudteamv1.ReasonAddressesExhausted,
			}}
		}
	}
	return success
}

func (w *crowded) ready() (n int) {
	for _, port := range w.o.ports {
		if ready(port) {
			n++
		}
	}
	return n
}

// want holds how many ports there are, and how many were created and refused at most since it was last called.
func (w *crowded) want(ports, made, refused int) {
	w.t.Helper()
	if len(w.o.ports) != ports || w.made > made || w.refused > refused {
		w.t.Errorf("there are %d ports, want %d; %d were created, want at most %d; %d were refused, want at most %d",
			len(w.o.ports), ports, w.made, made, w.refused, refused)
	}
	w.made, w.refused = 0, 0
}

func TestAPoolStopsWhereThereIsNoFloatingIP(t *testing.T) {
	w := newCrowded(t, 600, 13)
	w.outside = true
	w.settle()
	w.want(13+1, burst, burst)
	w.settle()
	w.want(13+1, 0, 2)
}

func TestAPoolStopsWhereThereIsNoAddress(t *testing.T) {
	w := newCrowded(t, 600, 13)
	w.settle()
	w.want(13+1, burst, burst)
	// It asks Neutron with one port, and nothing else is created.
	w.settle()
	w.want(13+1, 0, 2)
	// An address is freed.
	w.addresses++
	w.settle()
	w.want(14+1, 1, 3)
	// The pool of addresses is widened: it doubles from one on.
	w.addresses = 5000
	w.settle()
	w.want(600, 600, 1)
	if w.plans > 20 {
		t.Errorf("it takes %d plans until all ports are there", w.plans)
	}
}

func TestAPoolAsksForLittleWhereTheStatusShowsNoRoom(t *testing.T) {
	w := newCrowded(t, 3000, 13)
	resolve := w.o.resolve
	w.o.resolve = func(network cache.ObjectName) standing {
		s := resolve(network)
		s.room, s.counted = 13, true
		return s
	}
	w.settle()
	w.want(13+1, crowd, crowd)
	// A status that is old keeps no port from being created.
	w = newCrowded(t, 1000, 5000)
	w.o.resolve = func(cache.ObjectName) standing { return standing{kind: consumer.Ours, counted: true} }
	w.settle()
	w.want(1000, 1000, 0)
	if w.plans > 6 {
		t.Errorf("it takes %d plans until all ports are there", w.plans)
	}
}

func TestAPoolEndsAtItsLimit(t *testing.T) {
	w := newCrowded(t, 3000, 5000)
	limitedTo(DefaultLimit)(&w.o)
	p := w.settle()
	w.want(DefaultLimit.Ports, DefaultLimit.Ports, 0)
	expect.Equal(t, cloudteamv1.ReasonPortLimitReached, p.say.reason, "the reason, with %s", p.say.message)
}

package networkport

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/nightly"
)

// farKey is the example's Network in another namespace than the port's.
var farKey = cache.NewObjectName("other", networkKey.Name)

// turmoil is a world in which anything may happen.
type turmoil struct {
	*world
	rand *rand.Rand
	// networks is how many networks in Neutron the Network has had.
	networks int
	// away is true while the cloud does not answer.
	away bool
	// copies is how often somebody has copied a port, marker and all, and edits how often changed one.
	copies, edits int

	mu sync.Mutex
	// faults is how many of the next requests may fail, and chance says which.
	faults int
	chance *rand.Rand
	// wrong is what must not happen and did.
	wrong []string
}

// fault fails some of the next requests, where some are to.
func (w *turmoil) fault() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.faults == 0 || w.chance.IntN(2) == 0 {
		return nil
	}
	w.faults--
	return &client.Error{Op: "ask", Reason: "the connection broke", MaybeDone: true}
}

// mayFail has some of the next requests fail.
func (w *turmoil) mayFail(faults int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = faults
}

// went notes what must not happen.
func (w *turmoil) went(wrong string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong = append(w.wrong, wrong)
}

// beforeStep holds that what is in use is not deleted, as far as the API server knows of it.
func (w *turmoil) beforeStep(step plan.Step) error {
	p, exists := controllertest.Find[*cloudteamv1.NetworkPort](w.API, portKey)
	if step.Action == plan.DeletePort && exists && p.Status.BoundTo != nil && p.Status.PortID == step.ID {
		w.went("a port was deleted while it was in use: " + step.String())
	}
	return w.fault()
}

// whole has a Network tell that all is well with the last network that it has in Neutron.
func (w *turmoil) whole(n *cloudteamv1.Network) {
	n.Namespace, n.Spec.AllowedNamespaces = farKey.Namespace, []string{portKey.Namespace}
	n.Status.NetworkID = fmt.Sprintf("net-%d", w.networks)
	n.Status.Subnets = []cloudteamv1.SubnetStatus{
		{ID: fmt.Sprintf("sub-%d", w.networks), CIDR: "192.168.0.0/16", Gateway: "192.168.0.1"},
	}
	ready(n)
}

// far changes the Network, where there is one.
func (w *turmoil) far(change func(*cloudteamv1.Network)) {
	if _, exists := controllertest.Find[*cloudteamv1.Network](w.API, farKey); exists {
		controllertest.Edit(w.T, w.API, farKey, change)
	}
}

// some does something to one of the ports in Neutron, where there are any.
func (w *turmoil) some(do func(plan.ObservedPort)) {
	if ports := w.Neutron.Ports(); len(ports) > 0 {
		do(ports[w.rand.IntN(len(ports))])
	}
}

// happenings are what may happen.
var happenings = map[string]func(w *turmoil){
	"the Network is not Ready": func(w *turmoil) { w.far(notReady) },
	"the Network is Ready":     func(w *turmoil) { w.far(w.whole) },
	"the Network has another network": func(w *turmoil) {
		w.networks++
		w.Neutron.Put(cloudNetwork(fmt.Sprintf("net-%d", w.networks), fmt.Sprintf("sub-%d", w.networks)))
		w.far(w.whole)
	},
	"the Network has no network": func(w *turmoil) {
		w.far(func(n *cloudteamv1.Network) { n.Status.NetworkID, n.Status.Subnets = "", nil })
	},
	"the Network goes": func(w *turmoil) {
		if n, exists := controllertest.Find[*cloudteamv1.Network](w.API, farKey); exists {
			w.API.DeleteByForce(w.T, n)
		}
	},
	"the Network comes": func(w *turmoil) {
		if _, exists := controllertest.Find[*cloudteamv1.Network](w.API, farKey); !exists {
			w.API.Create(w.T, of(exampleNetwork(), w.whole))
		}
	},
	"the namespace is refused": func(w *turmoil) {
		w.far(func(n *cloudteamv1.Network) { n.Spec.AllowedNamespaces = nil })
	},
	"a Pod is given the port": func(w *turmoil) {
		if meta.IsStatusConditionTrue(w.Get().Status.Conditions, cloudteamv1.ConditionReady) {
			w.bind(pod)
		}
	},
	"the Pod goes": func(w *turmoil) { w.bind(nil) },
	"a port is deleted by hand": func(w *turmoil) {
		w.some(func(p plan.ObservedPort) { w.Neutron.Remove(p.ID) })
	},
	"a port is changed by hand": func(w *turmoil) {
		w.some(func(p plan.ObservedPort) {
			w.edits++
			w.Neutron.EditPort(w.T, p.ID, func(p *plan.ObservedPort) {
				p.AdminStateUp, p.MAC = false, fmt.Sprintf("fa:16:3e:00:00:%02x", w.edits)
			})
		})
	},
	"a port is copied by hand": func(w *turmoil) {
		w.copies++
		w.some(func(p plan.ObservedPort) {
			p.ID, p.MAC, p.Addresses = fmt.Sprintf("copy-%d", w.copies), "", nil
			p.Created = p.Created.Add(time.Duration(w.rand.IntN(3)-1) * time.Hour)
			w.Neutron.PutPort(p)
		})
	},
	"the cloud is away":    func(w *turmoil) { w.goAway(true) },
	"the cloud is back":    func(w *turmoil) { w.goAway(false); w.c.EnqueueIn(managed.CloudRef{}) },
	"the process ends":     func(w *turmoil) { w.restart() },
	"requests fail":        func(w *turmoil) { w.mayFail(1 + w.rand.IntN(4)) },
	"an audit is due":      func(w *turmoil) { w.auditIfUp() },
	"some seconds go by":   func(*turmoil) { controllertest.Settle(5 * time.Second) },
	"some minutes go by":   func(*turmoil) { controllertest.Settle(3 * time.Minute) },
	"something else moves": func(w *turmoil) { w.c.EnqueueIn(managed.CloudRef{}) },
}

// auditIfUp is an audit, which takes nothing in where the cloud does not answer.
func (w *turmoil) auditIfUp() {
	if !w.away {
		w.audit()
	}
}

// goAway has the cloud answer nothing, or everything again.
func (w *turmoil) goAway(away bool) {
	w.away = away
	if away {
		w.Neutron.SetDown(&client.Error{Op: "list ports", Reason: "no answer"})
	} else {
		w.Neutron.SetDown(nil)
	}
}

// Whatever happens, in whatever order: what is in use is not deleted, there is no second port, and once all is well
// again the port is there, tells so, and is left alone.
func TestAPortOutlastsAnyInterleaving(t *testing.T) {
	names := slices.Sorted(maps.Keys(happenings))
	const deeds = 30
	runs := uint64(40)
	if nightly.Is() {
		runs = 400
	}
	for seed := range runs {
		t.Run(fmt.Sprintf("of seed %d", seed), func(t *testing.T) {
			inWorld(t, func(t *testing.T, inner *world) {
				w := &turmoil{
					world: inner, networks: 1,
					rand: rand.New(rand.NewPCG(seed, 1)), chance: rand.New(rand.NewPCG(seed, 2)),
				}
				w.API.Create(t, of(exampleNetwork(), w.whole))
				w.settle()
				w.WantState("Ready=True Available")
				w.Neutron.Before = w.beforeStep
				w.Neutron.After = func(plan.Step) error { return w.fault() }
				w.API.Refuse(func(string) error { return w.fault() })
				w.API.Lose(func(string) error { return w.fault() })

				var done []string
				for range deeds {
					name := names[w.rand.IntN(len(names))]
					done = append(done, name)
					happenings[name](w)
					controllertest.Settle(time.Second)
					if n := len(w.Neutron.Ports()); n > 1 && w.copies == 0 {
						w.went(fmt.Sprintf("there are %d ports", n))
					}
				}

				w.mayFail(0)
				w.goAway(false)
				w.bind(nil)
				happenings["the Network comes"](w)
				w.far(w.whole)
				for range 3 {
					controllertest.Settle(2 * time.Minute)
					w.audit()
				}
				w.WantState("Ready=True Available")
				w.wantPorts(w.Get().Status.PortID)
				if p := w.Neutron.Ports(); len(p) == 1 && p[0].NetworkID != fmt.Sprintf("net-%d", w.networks) {
					t.Errorf("the port is on %s of %d", p[0].NetworkID, w.networks)
				}
				w.Quiet()
				controllertest.Settle(time.Hour)
				w.Calls.Want(t)
				w.delete()
				w.wantPorts()
				w.WantGone()
				w.mu.Lock()
				defer w.mu.Unlock()
				for _, wrong := range w.wrong {
					t.Error(wrong)
				}
				if t.Failed() {
					t.Logf("after:\n%s", strings.Join(done, "\n"))
				}
			}, of(example(), func(p *cloudteamv1.NetworkPort) { p.Spec.NetworkNamespace = farKey.Namespace }))
		})
	}
}

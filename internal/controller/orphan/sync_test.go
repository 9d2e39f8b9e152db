package orphan

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/internal/metric/metrictest"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// auditKey is the only key.
var auditKey = cache.NewObjectName("", "audit")

// interval is between audits.
const interval = time.Minute

// world is the controller of orphans between caches, an API server and a cloud that are all played.
type world struct {
	*controllertest.World[*cloudteamv1.Network]
	logs ktesting.Buffer
	ctx  context.Context
	c    *Controller

	// live are the objects that exist though no cache has them, and unread, where set, is why that cannot be read.
	live   map[string]bool
	unread error
	// addresses counts those that were given to ports; routed is whether there is an external network.
	addresses int
	routed    bool
	// seen is how many lines were looked at by lines.
	seen int
	// readings is how often what exists was read.
	readings int
	// remembered are those whose resources others look after.
	remembered []types.UID
}

// inWorld runs a test in a bubble of synthetic time, in which Neutron has a network for each UID and nothing else exists.
func inWorld(t *testing.T, rules Rules, uids []string, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{live: map[string]bool{}}
		w.World = controllertest.NewWorld[*cloudteamv1.Network](t, auditKey)
		w.WithNeutron(client.Identity{ProjectID: "p"}, clusterUID)
		logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.Verbosity(0), ktesting.BufferLogs(true)))
		w.logs = logger.GetSink().(ktesting.Underlier).GetBuffer()
		w.ctx = klog.NewContext(t.Context(), logger)
		for _, uid := range uids {
			w.put(uid)
		}

		w.NewInformers()
		objects := w.Informers.Cloudteam().V1()
		c, err := NewController([]cache.SharedInformer{objects.Networks().Informer(), objects.NetworkPorts().Informer()}, w.Neutron,
			func(context.Context) (map[string]bool, error) {
				w.Calls.Note("read what exists")
				w.readings++
				return w.live, w.unread
			},
			Options{
				Rules: rules, Interval: interval, Cluster: clusterUID,
				Remembered: func() []types.UID { return w.remembered },
			})
		expect.NoError(t, err)
		w.c = c
		w.Start(controllertest.Process{Loop: c.Loop})
		test(t, w)
	})
}

// put has Neutron hold a network of the object's with a subnet.
func (w *world) put(uid string) {
	marker := plan.Owner{Cluster: clusterUID, Object: uid}.Marker()
	w.Neutron.Put(plan.ObservedNetwork{
		ID: "net-" + uid, Revision: 1, Created: time.Now(), Attributes: plan.Attributes{Description: marker},
		Subnets: []plan.ObservedSubnet{{
			ID: "sub-" + uid, Description: marker, Subnet: plan.Subnet{CIDR: netip.MustParsePrefix("10.0.0.0/24")},
		}},
	})
}

// putPort has Neutron hold a port on the network of x, with two addresses. Its description is the given one.
func (w *world) putPort(id, description string) {
	port := plan.ObservedPort{ID: id, NetworkID: "net-x"}
	port.Description = description
	for range 2 {
		w.addresses++
		at := netip.AddrFrom4([4]byte{10, 0, 0, byte(10 + w.addresses)})
		port.Addresses = append(port.Addresses, plan.PortAddress{SubnetID: "sub-x", Address: at})
	}
	w.Neutron.PutPort(port)
}

// putFloatingIP has Neutron hold a floating IP that leads to an address of a port that has none yet. Its description is
// the given one.
func (w *world) putFloatingIP(id, port, description string) {
	if !w.routed {
		w.routed = true
		w.Neutron.Outside("outside", netip.MustParsePrefix("203.0.113.0/24"), "sub-x")
	}
	f := plan.ObservedFloatingIP{ID: id, PortID: port}
	f.NetworkID, f.Description = "outside", description
	taken := w.Neutron.FloatingIPs()
	for _, p := range w.Neutron.Ports() {
		for _, a := range p.Addresses {
			if p.ID == port && !slices.ContainsFunc(taken, func(f plan.ObservedFloatingIP) bool { return f.Fixed == a.Address }) {
				f.Fixed = a.Address
			}
		}
	}
	w.Neutron.PutFloatingIP(f)
}

// wantPorts holds which ports and floating IPs Neutron has.
func (w *world) wantPorts(want ...string) {
	w.T.Helper()
	got := []string{}
	for _, p := range w.Neutron.Ports() {
		got = append(got, p.ID)
	}
	for _, f := range w.Neutron.FloatingIPs() {
		got = append(got, f.ID)
	}
	expect.Equal(w.T, want, got, "ports and floating IPs in Neutron")
}

// create has the API server, and soon the cache, hold a Network.
func (w *world) create(uid string) *cloudteamv1.Network {
	obj := &cloudteamv1.Network{}
	obj.Namespace, obj.Name, obj.UID = "team", "n-"+uid, types.UID(uid)
	w.API.Create(w.T, obj)
	return obj
}

// audit lets the interval go by, lists the cloud and syncs.
func (w *world) audit() {
	w.T.Helper()
	controllertest.Settle(interval)
	w.Neutron.Audit(w.T)
	w.sync()
}

func (w *world) sync() {
	w.T.Helper()
	result, err := w.c.Sync(w.ctx, auditKey)
	if err != nil || result.RequeueAfter != interval {
		w.T.Fatalf("sync: %v, %v, want to be asked again after %s", result, err, interval)
	}
	w.Neutron.CheckUntouched(w.T)
}

// audits is audit for the given time.
func (w *world) audits(d time.Duration) {
	w.T.Helper()
	for range int(d / interval) {
		w.audit()
	}
}

// lines is how many lines were logged, at the verbosity of operators, since it was last called.
func (w *world) lines() int {
	all, seen := len(w.logs.Data()), w.seen
	w.seen = all
	return all - seen
}

// wantLines holds how many lines were logged since lines or wantLines was last called.
func (w *world) wantLines(want int) {
	w.T.Helper()
	expect.Equal(w.T, want, w.lines(), "lines were logged")
}

// want holds what Neutron has against the objects whose networks should be there.
func (w *world) want(uids ...string) {
	w.T.Helper()
	want, got := []string{}, []string{}
	for _, uid := range uids {
		want = append(want, "net-"+uid)
	}
	for _, n := range w.Neutron.Has() {
		got = append(got, n.ID)
	}
	expect.Equal(w.T, want, got, "networks in Neutron")
}

// wantStates holds the metric against "waiting=1 due=0 withheld=0 blocked=0".
func (w *world) wantStates(want string) {
	w.T.Helper()
	got := ""
	for _, state := range []string{stateWaiting, stateDue, stateWithheld, stateBlocked} {
		got += fmt.Sprintf(" %s=%g", state, metrictest.Value(w.T, "network_controller_orphans", state))
	}
	expect.Equal(w.T, " "+want, got, "states")
}

const grace = 5 * time.Minute

func TestWhatNoObjectStandsForGoesAfterTheGracePeriod(t *testing.T) {
	inWorld(t, Rules{Grace: grace, MaxShare: 0.1}, []string{"gone", "here"}, func(t *testing.T, w *world) {
		w.create("here")
		w.sync() // before the first audit
		w.audits(grace)
		w.want("gone", "here")
		w.wantStates("waiting=1 due=0 withheld=0 blocked=0")
		w.Calls.Take()
		w.audit()
		w.want("here")
		w.wantStates("waiting=0 due=0 withheld=0 blocked=0")
		w.Calls.Want(t, "read what exists", "apply delete network")
		w.audits(2 * grace)
		w.Calls.Want(t)
	})
}

func TestAListThatIsNotNewIsNoReasonToAct(t *testing.T) {
	inWorld(t, Rules{Grace: grace, MaxShare: 1}, []string{"gone"}, func(t *testing.T, w *world) {
		w.audit()
		w.Calls.Take()
		for range 20 {
			controllertest.Settle(interval)
			w.sync()
		}
		w.Calls.Want(t)
		w.want("gone")
		w.audit() // the second list, and the grace period is over
		w.want()
	})
}

func TestNothingGoesBeforeTheClusterIsKnownToBeAlone(t *testing.T) {
	inWorld(t, Rules{Grace: grace, MaxShare: 1}, []string{"gone"}, func(t *testing.T, w *world) {
		w.Neutron.Unsettled = true
		w.audits(4 * grace)
		w.want("gone")
		w.Calls.Want(t)
		w.Neutron.Unsettled = false
		w.audit()
		w.want()
	})
}

func TestWhatExistsStays(t *testing.T) {
	for sentence, c := range map[string]struct {
		set  func(w *world)
		read bool
	}{
		"where the API server has what the caches have not": {func(w *world) { w.live["a"] = true }, true},
		"where what exists cannot be read":                  {func(w *world) { w.unread = errors.New("down") }, true},
		"where others still look after what is left":        {func(w *world) { w.remembered = []types.UID{"a"} }, false},
		"where the cache has a Network":                     {func(w *world) { w.create("a") }, false},
		"where the cache has a NetworkPort": {func(w *world) {
			port := &cloudteamv1.NetworkPort{}
			port.Namespace, port.Name, port.UID = "team", "p", "a"
			w.API.Create(w.T, port)
		}, false},
	} {
		t.Run(sentence, func(t *testing.T) {
			inWorld(t, Rules{Grace: grace, MaxShare: 1}, []string{"a"}, func(t *testing.T, w *world) {
				c.set(w)
				w.audits(4 * grace)
				w.want("a")
				expect.Equal(t, c.read, w.readings > 0, "whether what exists was read: %d times", w.readings)
			})
		})
	}
}

func TestAnObjectThatShowsUpBeginsAnew(t *testing.T) {
	inWorld(t, Rules{Grace: grace, MaxShare: 1}, []string{"a"}, func(t *testing.T, w *world) {
		w.audits(grace)
		obj := w.create("a")
		w.audit()
		w.wantStates("waiting=0 due=0 withheld=0 blocked=0")
		w.API.DeleteByForce(t, obj)
		w.audits(grace)
		w.want("a")
		w.audit()
		w.want()
	})
}

func TestAReadingThatFailsIsToldOnceAndTriedWithEachAudit(t *testing.T) {
	inWorld(t, Rules{Grace: grace, MaxShare: 1}, []string{"a"}, func(t *testing.T, w *world) {
		w.unread = errors.New("down")
		w.audits(grace)
		w.lines()
		w.audit()
		w.wantLines(1)
		w.audits(grace)
		w.wantLines(0)
		w.want("a")
		w.wantStates("waiting=0 due=1 withheld=0 blocked=0")
		w.unread = nil
		w.audit()
		w.want()
	})
}

func TestAClusterThatLostItsObjectsKeepsItsNetworks(t *testing.T) {
	all := []string{"a", "b", "c", "d"}
	for sentence, c := range map[string]struct {
		share float64
		exist []string
		want  []string
		state string
	}{
		"where they are more than the share": {
			0.5, nil, all, "waiting=0 due=0 withheld=4 blocked=0"},
		"where none may go": {
			0, nil, all, "waiting=0 due=0 withheld=4 blocked=0"},
		"but not with an operator's word": {
			1, nil, nil, "waiting=0 due=0 withheld=0 blocked=0"},
		"where it is the cache that lost them, and of the others no more are gone than may go": {
			0.5, []string{"b", "d"}, []string{"b", "d"}, "waiting=0 due=0 withheld=0 blocked=0"},
	} {
		t.Run(sentence, func(t *testing.T) {
			inWorld(t, Rules{Grace: grace, MaxShare: c.share}, all, func(t *testing.T, w *world) {
				for _, uid := range c.exist {
					w.live[uid] = true
				}
				w.audits(grace)
				w.lines()
				w.audit()
				if n := w.lines(); n == 0 {
					t.Error("nothing is told")
				}
				w.want(c.want...)
				w.wantStates(c.state)
				if len(c.exist) > 0 {
					return
				}
				w.audits(4 * grace)
				w.wantLines(0)
				w.want(c.want...)
			})
		})
	}
}

func TestObjectsThatAreRestoredEndTheHalt(t *testing.T) {
	inWorld(t, Rules{Grace: grace, MaxShare: 0.1}, []string{"a", "b", "c"}, func(t *testing.T, w *world) {
		w.audits(2 * grace)
		w.create("a")
		w.create("b")
		w.audit()
		w.want("a", "b")
		w.wantStates("waiting=0 due=0 withheld=0 blocked=0")
	})
}

func TestWhatIsInUseIsLeftAndHoldsUpNobody(t *testing.T) {
	inUse := &client.Error{
		Kind: client.InUse, Op: "delete network", Reason: "ports are on it", Type: "NetworkInUse", Status: 409,
	}
	for sentence, c := range map[string]struct {
		block, free func(t *testing.T, w *world)
	}{
		"by a port": {
			func(_ *testing.T, w *world) {
				w.Neutron.Before = func(step plan.Step) error {
					if step.ID == "net-a" {
						return inUse
					}
					return nil
				}
			},
			func(_ *testing.T, w *world) { w.Neutron.Before = nil },
		},
		"by a subnet that is not ours": {
			func(t *testing.T, w *world) {
				w.Neutron.Edit(t, "net-a", func(n *plan.ObservedNetwork) {
					n.Subnets = append(n.Subnets, foreign)
				})
			},
			func(t *testing.T, w *world) {
				w.Neutron.Edit(t, "net-a", func(n *plan.ObservedNetwork) {
					n.Subnets = slices.DeleteFunc(n.Subnets, func(s plan.ObservedSubnet) bool { return s.ID == "foreign" })
				})
			},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			inWorld(t, Rules{Grace: grace, MaxShare: 0.5}, []string{"a", "b", "x"}, func(t *testing.T, w *world) {
				w.create("x")
				w.create("b-is-not-this")
				c.block(t, w)
				// One may go in an audit: a first, and is blocked; b is missing later.
				b := w.create("b")
				w.audits(grace + interval)
				w.want("a", "b", "x")
				w.wantStates("waiting=0 due=0 withheld=0 blocked=1")
				w.API.DeleteByForce(t, b)
				w.audits(grace)
				w.lines()
				w.audit()
				w.want("a", "x")
				w.audits(3 * grace)
				w.wantLines(1) // b's removal
				c.free(t, w)
				w.audits(2 * grace)
				w.want("x")
				w.wantStates("waiting=0 due=0 withheld=0 blocked=0")
			})
		})
	}
}

// A resource that cannot be decoded fails each removal of its orphan.
func TestARemovalThatAlwaysFailsHoldsUpNobody(t *testing.T) {
	inWorld(t, Rules{Grace: grace, MaxShare: 0.5}, []string{"a", "b", "x"}, func(t *testing.T, w *world) {
		w.create("x")
		b := w.create("b")
		w.Neutron.Before = func(step plan.Step) error {
			if step.ID == "net-a" {
				return errors.New("networks: json: cannot unmarshal")
			}
			return nil
		}
		w.audits(grace + interval) // One may go in an audit: a first.
		w.want("a", "b", "x")
		w.API.DeleteByForce(t, b)
		w.audits(grace + interval)
		w.want("a", "x")
		w.wantStates("waiting=0 due=1 withheld=0 blocked=0")
		w.Neutron.Before = nil
		w.audit()
		w.want("x")
	})
}

func TestOthersWhoAreFasterAreNoFailure(t *testing.T) {
	remove := func(w *world) { w.Neutron.Remove("net-a") }
	for sentence, c := range map[string]struct {
		rival func(t *testing.T, w *world)
		want  []string
	}{
		"who removed it":           {func(_ *testing.T, w *world) { remove(w) }, []string{"x"}},
		"who changed it":           {func(t *testing.T, w *world) { w.Neutron.Edit(t, "net-a", rename) }, []string{"x"}},
		"who took the marker off":  {func(t *testing.T, w *world) { w.Neutron.Edit(t, "net-a", unmark) }, []string{"a", "x"}},
		"who gave it to an object": {func(t *testing.T, w *world) { w.Neutron.Edit(t, "net-a", handOver) }, []string{"a", "x"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			inWorld(t, Rules{Grace: grace, MaxShare: 0.5}, []string{"a", "x"}, func(t *testing.T, w *world) {
				w.create("x")
				w.audits(grace)
				w.lines()
				controllertest.Settle(interval)
				w.Neutron.Audit(t)
				c.rival(t, w) // behind the back of the list
				w.sync()
				w.want(c.want...)
				w.wantStates("waiting=0 due=0 withheld=0 blocked=0")
				if n := w.lines(); n > 1 { // what was applied
					t.Errorf("%d lines, want no failure", n)
				}
			})
		})
	}
}

// foreign is a subnet that is nobody's of this cluster.
var foreign = plan.ObservedSubnet{ID: "foreign", Subnet: plan.Subnet{CIDR: netip.MustParsePrefix("10.9.0.0/24")}}

func rename(n *plan.ObservedNetwork) { n.Name = "another" }
func unmark(n *plan.ObservedNetwork) { n.Description = "mine now" }
func handOver(n *plan.ObservedNetwork) {
	n.Description = plan.Owner{Cluster: clusterUID, Object: "x"}.Marker()
}

func TestARemovalThatFailsIsTriedWithTheNextAudit(t *testing.T) {
	inWorld(t, Rules{Grace: grace, MaxShare: 1}, []string{"a", "b"}, func(t *testing.T, w *world) {
		w.Neutron.Before = func(step plan.Step) error {
			if step.ID == "net-a" {
				return &client.Error{Op: "delete network", Reason: "no server is available", Status: 503, MaybeDone: true}
			}
			return nil
		}
		w.audits(grace + interval)
		w.want("a")
		w.wantStates("waiting=0 due=1 withheld=0 blocked=0")
		w.lines()
		w.Calls.Take()
		w.audit()
		w.Calls.Want(t, "read what exists", "apply delete network")
		w.wantLines(0)
		w.Neutron.Before = nil
		w.audit()
		w.want()
	})
}

func TestRunLooksAtEveryAuditAndStopsBetweenTwoRemovals(t *testing.T) {
	inWorld(t, Rules{Grace: grace, MaxShare: 1}, []string{"a", "b", "c"}, func(t *testing.T, w *world) {
		ctx, cancel := context.WithCancel(controllertest.Logged(t))
		w.Neutron.Before = func(step plan.Step) error {
			if step.ID == "net-b" {
				cancel()
				for !w.c.stopping.Load() {
					runtime.Gosched()
				}
			}
			return nil
		}
		done := make(chan error, 1)
		go func() { done <- w.c.Run(ctx, 10) }()
		// The audits fall between the looks: time stands still while one waits for the other's lock.
		controllertest.Settle(interval / 2)
		for range int(grace/interval) + 3 {
			w.Neutron.Audit(t)
			controllertest.Settle(interval)
		}
		expect.NoError(t, <-done)
		w.want("c")
	})
}

// What was seen of one project is no reason to remove anything from another.
func TestOtherCredentialsBeginTheGraceAnew(t *testing.T) {
	inWorld(t, Rules{Grace: 10 * time.Minute, MaxShare: 1}, []string{"a"}, func(t *testing.T, w *world) {
		there := plan.ObservedNetwork{ID: "net-q"}
		there.Description = plan.Owner{Cluster: clusterUID, Object: "a"}.Marker()
		w.Neutron.PutIn("q", there)
		w.audits(9 * time.Minute)
		w.Neutron.Lead(t, client.Identity{ProjectID: "q"})
		w.audits(9 * time.Minute)
		w.want("a", "q")
		w.audits(3 * time.Minute)
		w.want("a")
	})
}

// TestAnOrphanedFloatingIPGoes holds that the marker counts, and not the port that a floating IP leads to.
func TestAnOrphanedFloatingIPGoes(t *testing.T) {
	for sentence, port := range map[string]string{
		"with its port": "port-a", "if its port has gone": "", "from the port of a live object": "port-x",
	} {
		t.Run(sentence, func(t *testing.T) {
			inWorld(t, Rules{Grace: grace, MaxShare: 1}, []string{"x"}, func(t *testing.T, w *world) {
				w.create("x")
				marker := plan.Owner{Cluster: clusterUID, Object: "a"}.Marker()
				w.putPort("port-x", plan.Owner{Cluster: clusterUID, Object: "x"}.Marker())
				ports, calls := []string{"port-x"}, []string{"read what exists", "apply delete floating IP"}
				if port == "port-a" {
					w.putPort(port, marker)
					ports, calls = append(ports, port), slices.Insert(calls, 1, "apply delete port", "reread floating IP of-a")
				}
				w.putFloatingIP("of-others", port, "by hand")
				w.putFloatingIP("of-a", port, marker)
				w.audits(grace)
				w.wantPorts(append(ports, "of-others", "of-a")...)
				w.Calls.Take()
				w.audit()
				w.wantPorts("port-x", "of-others")
				w.Calls.Want(t, calls...)
				w.wantStates("waiting=0 due=0 withheld=0 blocked=0")
			})
		})
	}
}

func TestAnOrphanedPortThatADeviceUsesStays(t *testing.T) {
	for sentence, told := range map[string]bool{"as the list shows": true, "since the last list": false} {
		t.Run(sentence, func(t *testing.T) {
			inWorld(t, Rules{Grace: grace, MaxShare: 1}, []string{"x"}, func(t *testing.T, w *world) {
				w.create("x")
				marker := plan.Owner{Cluster: clusterUID, Object: "a"}.Marker()
				w.putPort("port-a", marker)
				w.putFloatingIP("of-a", "port-a", marker)
				plug := func(device string) {
					w.Neutron.EditPort(t, "port-a", func(p *plan.ObservedPort) { p.Device = device })
				}
				w.audits(grace)
				if told {
					plug("compute:nova, device vm-1")
				}
				controllertest.Settle(interval)
				w.Neutron.Audit(t)
				if !told {
					plug("compute:nova, device vm-1")
				}
				w.lines()
				w.sync()
				w.wantPorts("port-a", "of-a")
				w.wantStates("waiting=0 due=0 withheld=0 blocked=1")
				w.wantLines(1)
				plug("")
				w.audits(grace + interval)
				if left := w.Neutron.Everything(); len(left.Ports)+len(left.FloatingIPs) > 0 {
					t.Errorf("after the device let the port go, there is still %v", left.Resources())
				}
			})
		})
	}
}

// TestListsThatAreTooOldRemoveNothingThatIsInUse has somebody put a subnet on the network that no list shows.
func TestListsThatAreTooOldRemoveNothingThatIsInUse(t *testing.T) {
	inWorld(t, Rules{Grace: grace, MaxShare: 1}, []string{"a", "x"}, func(t *testing.T, w *world) {
		w.create("x")
		w.Neutron.Replayed = w.Neutron.Listing() // every list from now on is as old as this
		w.Neutron.Edit(t, "net-a", func(n *plan.ObservedNetwork) { n.Subnets = append(n.Subnets, foreign) })
		w.audits(4 * grace)
		w.want("a", "x")
	})
}

func TestAnOldListThatLacksWhatIsNewerRemovesNothing(t *testing.T) {
	inWorld(t, Rules{Grace: grace, MaxShare: 1}, []string{"x"}, func(t *testing.T, w *world) {
		w.create("x")
		w.Neutron.Replayed = w.Neutron.Listing()
		w.create("new")
		w.put("new")
		w.audits(4 * grace)
		w.want("x", "new")
	})
}

func TestRetainSurvivesItsObject(t *testing.T) {
	inWorld(t, Rules{Grace: grace, MaxShare: 1}, []string{"a", "x"}, func(t *testing.T, w *world) {
		w.create("x")
		owner := plan.Owner{Cluster: clusterUID, Object: "a"}
		w.Neutron.Edit(t, "net-a", func(n *plan.ObservedNetwork) { n.Description = owner.Describe("mine [retain]") })
		w.audits(2 * grace)
		w.want("a", "x")
		expect.Equal(t, "mine", w.Neutron.Has()[0].Description, "the network's description, which is its user's")
		w.wantStates("waiting=0 due=0 withheld=0 blocked=0")
	})
}

// A crash can leave the word on one of the two alone.
func TestRetainSurvivesItsObjectForAPortAndItsFloatingIP(t *testing.T) {
	owner := plan.Owner{Cluster: clusterUID, Object: "a"}
	retained, plain := owner.Describe("[retain]"), owner.Marker()
	for sentence, c := range map[string]struct{ port, floating string }{
		"both say it":             {retained, retained},
		"the port says it":        {retained, plain},
		"the floating IP says it": {plain, retained},
	} {
		t.Run(sentence, func(t *testing.T) {
			inWorld(t, Rules{Grace: grace, MaxShare: 1}, []string{"x"}, func(t *testing.T, w *world) {
				w.create("x")
				w.putPort("port-a", c.port)
				w.putFloatingIP("of-a", "port-a", c.floating)
				w.audits(2 * grace)
				w.wantPorts("port-a", "of-a")
				port, floating := w.Neutron.Ports()[0], w.Neutron.FloatingIPs()[0]
				if port.Description+floating.Description != "" || floating.PortID != "port-a" {
					t.Errorf("Neutron has %+v and %+v, want them as they were without markers", port, floating)
				}
				w.wantStates("waiting=0 due=0 withheld=0 blocked=0")
			})
		})
	}
}

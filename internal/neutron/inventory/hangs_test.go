package inventory

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// inTrouble runs a test in virtual time with an Inventory whose Neutron does not serve GETs of one path: it hangs, or
// answers 503. Neutron has a network of the object o.
func inTrouble(t *testing.T, path string, hangs bool, test func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{neutron: newFakeNeutron()}
		fake, c := inBubble(t, b.neutron.ServeHTTP, client.Options{})
		b.cloud = fake
		b.Inventory = New(c, cluster, b.told(Options{Ports: true, Interval: time.Hour}))
		b.put("a", ownerOf("o").Marker())
		released := make(chan struct{})
		b.neutron.setBefore(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, path) {
				return false
			}
			if !hangs {
				answer(w, http.StatusServiceUnavailable, "{}")
				return true
			}
			select {
			case <-released:
			case <-r.Context().Done():
			}
			return false
		})
		test(t, b)
		close(released)
		elapse(2 * client.DefaultTimeout)
	})
}

func TestAListThatIsNotServedStopsOnlyThoseWhoNeedIt(t *testing.T) {
	for path, c := range map[string]struct {
		// goesOn are kinds whose objects go on, and stops are those whose do not.
		goesOn, stops []plan.Kind
	}{
		"/routers":                   {[]plan.Kind{plan.KindNetwork, plan.KindPort}, []plan.Kind{plan.KindRouter}},
		"/ports":                     {[]plan.Kind{plan.KindNetwork, plan.KindRouter}, []plan.Kind{plan.KindPort}},
		"/networks":                  {[]plan.Kind{plan.KindPort, plan.KindRouter}, []plan.Kind{plan.KindNetwork}},
		"/subnets":                   {[]plan.Kind{plan.KindPort, plan.KindRouter}, []plan.Kind{plan.KindNetwork}},
		"/rbac-policies":             {[]plan.Kind{plan.KindNetwork, plan.KindPort, plan.KindRouter}, nil},
		"/network-ip-availabilities": {[]plan.Kind{plan.KindNetwork, plan.KindPort, plan.KindRouter}, nil},
	} {
		for how, hangs := range map[string]bool{" hangs": true, " fails": false} {
			t.Run(path+how, func(t *testing.T) {
				inTrouble(t, path, hangs, func(t *testing.T, b *bench) {
					began := time.Now()
					ctx, cancel := context.WithCancel(t.Context())
					ended := make(chan struct{})
					go func() { defer close(ended); b.Run(ctx) }()
					for _, kind := range c.goesOn {
						o, err := b.Observed(t.Context(), ownerOf("o"), began, kind)
						if err != nil || kind == plan.KindNetwork && len(o.Networks) != 1 {
							t.Errorf("who needs %ss sees %d networks: %v", kind, len(o.Networks), err)
						}
					}
					if took := time.Since(began); took > listPatience+time.Second {
						t.Errorf("they waited %s", took)
					}
					for _, kind := range c.stops {
						if _, err := b.Observed(t.Context(), ownerOf("o"), began, kind); err == nil {
							t.Errorf("of %ss it is known what nobody listed", kind)
						}
					}
					if _, _, _, ok := b.Owners(); ok && len(c.stops) > 0 {
						t.Error("all owners are known, though a list is missing")
					}
					elapse(3 * listPatience)
					b.mu.Lock()
					if len(b.audits) == 0 || b.audits[0].Err == nil {
						t.Errorf("the audits say %+v", b.audits)
					}
					b.mu.Unlock()
					// The lists that are served go on while the other one is not.
					b.put("b", ownerOf("late").Marker())
					elapse(2 * time.Hour)
					if _, seen := b.networks.get("b"); seen != (len(c.stops) == 0 || c.stops[0] != plan.KindNetwork) {
						t.Errorf("a network that came later is seen: %t", seen)
					}
					cancel()
					<-ended
				})
			})
		}
	}
}

// A list that is not served costs one call at a time, however many wait for it.
func TestAListThatHangsIsOneCall(t *testing.T) {
	inTrouble(t, "/routers", true, func(t *testing.T, b *bench) {
		for range 100 {
			go func() { _, _ = b.Observed(t.Context(), ownerOf("o"), time.Now(), plan.KindRouter) }()
		}
		for range 100 {
			go func() { _ = b.Audit(t.Context()) }()
		}
		elapse(client.DefaultTimeout / 2)
		if calls := b.neutron.count("GET routers"); calls != 1 {
			t.Errorf("%d calls", calls)
		}
	})
}

// Each object that needs a list has a backoff of its own: together they must not repeat one that fails without a pause.
func TestAListThatFailsIsNotRepeatedByEachWhoNeedsIt(t *testing.T) {
	inTrouble(t, "/routers", false, func(t *testing.T, b *bench) {
		for range 600 {
			if _, err := b.Observed(t.Context(), ownerOf("o"), time.Now()); err == nil {
				t.Fatal("what nobody listed is known")
			}
			elapse(100 * time.Millisecond)
		}
		if calls := b.neutron.count("GET routers"); calls < 3 || calls > 14 {
			t.Errorf("%d calls in a minute", calls)
		}
		b.neutron.setBefore(nil)
		elapse(sparedFor)
		if _, err := b.Observed(t.Context(), ownerOf("o"), time.Now()); err != nil {
			t.Error(err)
		}
	})
}

func TestAddressesAreCountedThoughAnotherListFails(t *testing.T) {
	inTrouble(t, "/routers", false, func(t *testing.T, b *bench) {
		for used := 1; used <= 3; used++ {
			b.tells(map[string]int{"sub-a": used})
			began := time.Now()
			for range 3 {
				if err := b.auditSince(t.Context(), began); err == nil {
					t.Fatal("the audit succeeded")
				}
			}
			o, err := b.Observed(t.Context(), ownerOf("o"), time.Time{}, plan.KindNetwork)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := usedIn(t, o.Networks...), fmt.Sprint(used); got != want {
				t.Errorf("%s are in use, want %s", got, want)
			}
			if calls := b.neutron.count("GET network-ip-availabilities"); calls != used {
				t.Errorf("%d counts of %d audits", calls, used)
			}
			elapse(time.Minute)
		}
	})
}

// A worker that waited for a list that hangs would be missing elsewhere.
func TestAListThatHangsHoldsNobodyForLong(t *testing.T) {
	inTrouble(t, "/routers", true, func(t *testing.T, b *bench) {
		for _, most := range []time.Duration{listSilence, 0, 0} {
			began := time.Now()
			_, err := b.Observed(t.Context(), ownerOf("o"), time.Now(), plan.KindRouter)
			if !client.IsKind(err, client.Transient) || !strings.Contains(err.Error(), "list routers: no answer in time") {
				t.Errorf("got %v", err)
			}
			if took := time.Since(began); took > most+time.Second {
				t.Errorf("it was held for %s, want at most %s", took, most)
			}
		}
	})
}

// One that only takes its time holds those who need it until it ends.
func TestASlowListIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNeutron()
		n.page = 1
		n.before = func(http.ResponseWriter, *http.Request) bool {
			elapse(listPatience / 2)
			return false
		}
		_, c := inBubble(t, n.ServeHTTP, client.Options{PageSize: 1})
		b := &bench{neutron: n, Inventory: New(c, cluster, Options{Ports: true})}
		for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
			b.put(id, ownerOf(id).Marker())
		}
		if o, err := b.Observed(t.Context(), ownerOf("f"), time.Now()); err != nil || len(o.Networks) != 1 {
			t.Errorf("%d networks, %v", len(o.Networks), err)
		}
	})
}

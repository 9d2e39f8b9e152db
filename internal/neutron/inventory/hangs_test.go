package inventory

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/virtual"
)

// inTrouble runs a test in virtual time with an Inventory whose Neutron does not serve GETs of one path: it hangs, or
// answers 503. If a "?" and a key follow the path, that concerns only queries with the key. Neutron has a network of
// the object o.
func inTrouble(t *testing.T, path string, hangs bool, test func(t *testing.T, b *bench)) {
	t.Helper()
	path, key, _ := strings.Cut(path, "?")
	synctest.Test(t, func(t *testing.T) {
		b := &bench{neutron: newFakeNeutron()}
		fake, c := inBubble(t, b.neutron.ServeHTTP, client.Options{})
		b.cloud = fake
		b.Inventory = New(c, cluster, b.told(Options{Ports: true, Interval: time.Hour}))
		b.put("a", ownerOf("o").Marker())
		released := make(chan struct{})
		b.neutron.setBefore(func(w http.ResponseWriter, r *http.Request) bool {
			asked := r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, path)
			if !asked || key != "" && !r.URL.Query().Has(key) {
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
	kinds := []plan.Kind{plan.KindNetwork, plan.KindPort, plan.KindRouter, plan.KindGroup, plan.KindFloatingIP}
	// The kind is the one whose objects stop; those of all others go on.
	for path, stops := range map[string]plan.Kind{
		"/networks":                  plan.KindNetwork,
		"/subnets":                   plan.KindNetwork,
		"/ports":                     plan.KindPort,
		"/routers":                   plan.KindRouter,
		"/security-groups":           plan.KindGroup,
		"/floatingips":               plan.KindFloatingIP,
		"/rbac-policies":             "",
		"/network-ip-availabilities": "",
	} {
		for how, hangs := range map[string]bool{" hangs": true, " fails": false} {
			t.Run(path+how, func(t *testing.T) {
				inTrouble(t, path, hangs, func(t *testing.T, b *bench) {
					began := time.Now()
					ctx, cancel := context.WithCancel(t.Context())
					ended := make(chan struct{})
					go func() { defer close(ended); b.Run(ctx) }()
					for _, kind := range kinds {
						if kind == stops {
							continue
						}
						o, err := b.Observed(t.Context(), ownerOf("o"), began, kind)
						if err != nil || kind == plan.KindNetwork && len(o.Networks) != 1 {
							t.Errorf("who needs %ss sees %d networks: %v", kind, len(o.Networks), err)
						}
					}
					if took := virtual.Since(began); took > listPatience+time.Second {
						t.Errorf("they waited %s", took)
					}
					if stops != "" {
						if _, err := b.Observed(t.Context(), ownerOf("o"), began, stops); err == nil {
							t.Errorf("of %ss it is known what nobody listed", stops)
						}
						if _, _, _, ok := b.Owners(); ok {
							t.Error("all owners are known, though a list is missing")
						}
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
					if _, seen := b.networks.get("b"); seen != (stops != plan.KindNetwork) {
						t.Errorf("a network that came later is seen: %t", seen)
					}
					cancel()
					<-ended
				})
			})
		}
	}
}

// External networks are in a directory of their own, though in the same collection as all others.
func TestExternalNetworksThatAreNotListedStopOnlyWhoNamesOne(t *testing.T) {
	for how, hangs := range map[string]bool{"the list hangs": true, "the list fails": false} {
		t.Run(how, func(t *testing.T) {
			inTrouble(t, "/networks?router:external", hangs, func(t *testing.T, b *bench) {
				began := time.Now()
				named := make(chan error, 1)
				go func() {
					_, err := b.ExternalNetwork(t.Context(), "spec.floatingIP.externalNetwork", "outside")
					named <- err
				}()
				synctest.Wait()
				o, err := b.Observed(t.Context(), ownerOf("o"), began)
				if took := virtual.Since(began); err != nil || len(o.Networks) != 1 || took > time.Second {
					t.Errorf("others see %d networks after %s: %v", len(o.Networks), took, err)
				}
				expect.NoError(t, b.Audit(t.Context()))
				if err := <-named; !client.IsKind(err, client.Transient) {
					t.Errorf("who names one is told %v", err)
				}
				if took := virtual.Since(began); took > directoryPatience+time.Second {
					t.Errorf("who names one waited %s", took)
				}
			})
		})
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
		expect.Equal(t, 1, b.neutron.count("GET routers"), "calls")
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

// For a tenant of many networks, Neutron takes minutes for the ports, and a busy one more than listPatience for a page.
// That fails no audit, and delays no other kind.
func TestAKindWhoseListTakesLongRests(t *testing.T) {
	for _, page := range []time.Duration{listPatience * 4 / 5, listSilence + time.Second} {
		// The first list ends in each part of an audit, and between two. A longer one would rest for less than restShare
		// times as long.
		for pages := 3; page*time.Duration(pages)*restShare <= longestRest; pages++ {
			t.Run(fmt.Sprint(pages, " of ", page), func(t *testing.T) { testLongLists(t, pages, page) })
		}
	}
}

func testLongLists(t *testing.T, pages int, page time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{neutron: newFakeNeutron()}
		fake, c := inBubble(t, b.neutron.ServeHTTP, client.Options{PageSize: 1})
		b.cloud = fake
		const interval = 20 * time.Second
		list := time.Duration(pages) * page
		b.Inventory = New(c, cluster, b.told(Options{Ports: true, Interval: interval}))
		for k := range pages {
			b.putPort(fmt.Sprint("p", k), ownerOf("o").Marker())
		}
		lists := map[string]int{}
		b.neutron.setBefore(func(_ http.ResponseWriter, r *http.Request) bool {
			if kind := path.Base(r.URL.Path); r.Method == http.MethodGet && r.URL.Query().Get("marker") == "" {
				b.mu.Lock()
				lists[kind]++
				b.mu.Unlock()
			}
			if strings.HasSuffix(r.URL.Path, "/ports") {
				elapse(page)
			}
			return false
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); b.Run(ctx) }()
		elapse(list * (1 + restShare) * 9 / 10)
		b.mu.Lock()
		expect.Equal(t, 1, lists["ports"], "lists of ports before the first rest ends")
		b.mu.Unlock()
		const hour = time.Hour
		elapse(hour)
		b.mu.Lock()
		audits := slices.Clone(b.audits)
		b.mu.Unlock()
		cancel()
		<-done
		elapse(list) // a list under way ends by itself

		succeeds := false // after some that report that the first list of ports is not complete
		for _, a := range audits {
			if succeeds = succeeds || a.Err == nil; succeeds && a.Err != nil {
				t.Fatal(a.Err)
			}
		}
		if !succeeds {
			t.Error("no audit succeeded")
		}
		// At most a quarter of the time, and at least an eighth: an audit has to come after the rest.
		if all := int(hour / list); lists["ports"] > all/4+2 || lists["ports"] < all/8 {
			t.Errorf("%d lists of ports in an hour, of %d without a rest", lists["ports"], all)
		}
		if least := int(hour/(interval+listPatience)) * 9 / 10; lists["networks"] < least {
			t.Errorf("%d lists of networks, want at least %d", lists["networks"], least)
		}
	})
}

// A busy cloud counts for long.
func TestACountThatTakesLongFailsNoAudit(t *testing.T) {
	inTrouble(t, "/nothing", false, func(t *testing.T, b *bench) {
		b.tells(map[string]int{"sub-a": 1})
		expect.NoError(t, b.Audit(t.Context()))
		b.neutron.setBefore(func(_ http.ResponseWriter, r *http.Request) bool {
			if strings.HasSuffix(r.URL.Path, "/network-ip-availabilities") {
				elapse(3 * listPatience)
			}
			return false
		})
		for range 3 {
			elapse(time.Minute)
			expect.NoError(t, b.auditSince(t.Context(), time.Now(), b.due(), true))
			if err := b.Audit(t.Context()); !client.IsKind(err, client.Transient) {
				t.Errorf("who wants a new count is told %v", err)
			}
		}
	})
}

// A regular audit leaves a list alone, but not when the cloud answers none.
func TestACloudThatHangsFailsTheAudit(t *testing.T) {
	inTrouble(t, "/nothing", false, func(t *testing.T, b *bench) {
		expect.NoError(t, b.Audit(t.Context()))
		elapse(time.Hour)
		released := make(chan struct{})
		b.neutron.setBefore(func(_ http.ResponseWriter, r *http.Request) bool {
			select {
			case <-released:
			case <-r.Context().Done():
			}
			return false
		})
		for range 3 {
			if err := b.auditSince(t.Context(), time.Now(), b.due(), true); !client.IsKind(err, client.Transient) {
				t.Errorf("the audit says %v", err)
			}
		}
		close(released)
	})
}

func TestAddressesAreCountedThoughAnotherListFails(t *testing.T) {
	inTrouble(t, "/routers", false, func(t *testing.T, b *bench) {
		for used := 1; used <= 3; used++ {
			b.tells(map[string]int{"sub-a": used})
			began := time.Now()
			for range 3 {
				if err := b.auditSince(t.Context(), began, b.stocks, false); err == nil {
					t.Fatal("the audit succeeded")
				}
			}
			o, err := b.Observed(t.Context(), ownerOf("o"), time.Time{}, plan.KindNetwork)
			expect.NoError(t, err)
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
			if took := virtual.Since(began); took > most+time.Second {
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

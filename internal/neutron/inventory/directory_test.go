package inventory

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/virtual"
)

// policyLists is a Neutron with two QoS policies whose list can be held.
type policyLists struct {
	mu    sync.Mutex
	calls int
	// held blocks calls while it is set; refused answers them with a 500.
	held    chan struct{}
	refused bool
}

func (l *policyLists) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasSuffix(r.URL.Path, "/qos/policies") {
		answer(w, http.StatusOK, `{"networks": [{"id": "ext", "name": "ext"}]}`)
		return
	}
	l.mu.Lock()
	l.calls++
	held, refused := l.held, l.refused
	l.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-r.Context().Done():
			return
		}
	}
	if refused {
		refuse(w, http.StatusInternalServerError, "HTTPInternalServerError", "Request Failed: internal server error.")
		return
	}
	answer(w, http.StatusOK, `{"policies": [{"id": "one", "name": "gold"}]}`)
}

func (l *policyLists) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls
}

func (l *policyLists) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

// inLists runs a test in virtual time with an Inventory whose cloud has a held list of QoS policies.
func inLists(t *testing.T, test func(t *testing.T, i *Inventory, l *policyLists)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &policyLists{held: make(chan struct{})}
		_, c := inBubble(t, l.ServeHTTP, client.Options{})
		if _, err := c.Identity(t.Context()); err != nil {
			t.Fatal(err)
		}
		test(t, New(c, cluster, Options{}), l)
	})
}

func TestAHangingDirectoryHoldsNoCallerForLong(t *testing.T) {
	inLists(t, func(t *testing.T, i *Inventory, l *policyLists) {
		began := time.Now()
		var wg sync.WaitGroup
		for range 200 {
			wg.Go(func() {
				_, err := i.QoSPolicy(t.Context(), "gold")
				if !client.IsKind(err, client.Transient) || !strings.Contains(err.Error(), "no answer in time") {
					t.Errorf("got %v", err)
				}
			})
		}
		wg.Wait()
		if took := virtual.Since(began); took > 15*time.Second || l.count() != 1 {
			t.Errorf("200 callers were held for %s by %d lists", took, l.count())
		}
		// Who comes later is not held at all.
		began = time.Now()
		if _, err := i.QoSPolicy(t.Context(), "gold"); err == nil || virtual.Since(began) > 0 || l.count() != 1 {
			t.Errorf("a later caller was held for %s and %d lists: %v", virtual.Since(began), l.count(), err)
		}
		// Another collection answers.
		if _, err := i.ExternalNetwork(t.Context(), "spec.router.externalNetwork", "ext"); err != nil {
			t.Error(err)
		}
		close(l.held)
		synctest.Wait()
		if id, err := i.QoSPolicy(t.Context(), "gold"); err != nil || id != "one" || l.count() != 1 {
			t.Errorf("the late answer is not used: %q, %v, %d lists", id, err, l.count())
		}
	})
}

func TestACallerLeavesADirectoryWithItsContext(t *testing.T) {
	inLists(t, func(t *testing.T, i *Inventory, l *policyLists) {
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error, 2)
		go func() { _, err := i.QoSPolicy(ctx, "gold"); left <- err }()
		synctest.Wait()
		go func() { _, err := i.QoSPolicy(t.Context(), "gold"); left <- err }()
		synctest.Wait()
		began := time.Now()
		cancel()
		if err := <-left; !errors.Is(err, context.Canceled) || virtual.Since(began) > 0 {
			t.Errorf("it left after %s: %v", virtual.Since(began), err)
		}
		close(l.held)
		if err := <-left; err != nil || l.count() != 1 {
			t.Errorf("another caller's list ended with the first caller: %v, %d lists", err, l.count())
		}
	})
}

func TestADirectoryThatFailedIsNotReadByEachCaller(t *testing.T) {
	inLists(t, func(t *testing.T, i *Inventory, l *policyLists) {
		close(l.held)
		l.set(func() { l.refused = true })
		for range 50 {
			if _, err := i.QoSPolicy(t.Context(), "gold"); !client.IsKind(err, client.Transient) {
				t.Fatal(err)
			}
		}
		expect.Equal(t, 1, l.count(), "lists of 50 callers")
		l.set(func() { l.refused = false })
		elapse(directoryPause)
		if id, err := i.QoSPolicy(t.Context(), "gold"); err != nil || id != "one" {
			t.Errorf("%q, %v", id, err)
		}
	})
}

// TestARouterOfANetworkIsNotFoundByItsName has a tenant name a Network, and so its router, as the operator's router.
func TestARouterOfANetworkIsNotFoundByItsName(t *testing.T) {
	const theirs, edge = "99999999-aaaa-bbbb-cccc-dddddddddddd", "11111111-aaaa-bbbb-cccc-dddddddddddd"
	routers := `{"id": "` + theirs + `", "name": "edge", "description": "` + ownerOf("theirs").Marker() + `"}`
	for sentence, c := range map[string]struct{ also, find, want string }{
		"beside the operator's":     {`, {"id": "` + edge + `", "name": "edge", "description": ""}`, "edge", edge},
		"in the place of it":        {"", "edge", ""},
		"its id is what it is, too": {"", theirs, theirs},
	} {
		t.Run(sentence, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, cloud := inBubble(t, func(w http.ResponseWriter, _ *http.Request) {
					answer(w, http.StatusOK, `{"routers": [`+routers+c.also+`]}`)
				}, client.Options{})
				id, err := New(cloud, cluster, Options{}).Router(t.Context(), c.find)
				if id != c.want || (err == nil) != (c.want != "") {
					t.Errorf("found %q, %v, want %q", id, err, c.want)
				}
			})
		})
	}
}

// TestAnAdministratorFindsNothingOfOtherProjects has credentials that see all projects. A tenant's Network may name what
// the credentials' project may use, and cannot learn what others have.
func TestAnAdministratorFindsNothingOfOtherProjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := func(own string) string {
			const pool = `"ip_version": 4, "min_prefixlen": "24", "max_prefixlen": "28", "default_prefixlen": "26", `
			return `[{` + pool + `"id": "own", "name": "own", "project_id": "` + own + `", "shared": false},
				{` + pool + `"id": "all", "name": "all", "project_id": "another", "shared": true},
				{"id": "theirs", "name": "theirs", "project_id": "another", "shared": false},
				{"id": "their-own", "name": "own", "project_id": "another", "shared": false}]`
		}
		var project string
		_, cloud := inBubble(t, func(w http.ResponseWriter, _ *http.Request) {
			answer(w, http.StatusOK, `{"policies": `+list(project)+`, "subnetpools": `+list(project)+`}`)
		}, client.Options{})
		identity, err := cloud.Identity(t.Context())
		expect.NoError(t, err)
		project = identity.ProjectID
		i := New(cloud, cluster, Options{})
		for text, want := range map[string]string{"own": "own", "all": "all", "theirs": ""} {
			policy, err := i.QoSPolicy(t.Context(), text)
			if policy != want || (err == nil) != (want != "") {
				t.Errorf("the policy %s is %q, %v", text, policy, err)
			}
			pool, err := i.SubnetPool(t.Context(), plan.FieldSubnetPool, text)
			if pool.ID != want || (err == nil) != (want != "") {
				t.Errorf("the pool %s is %q, %v", text, pool.ID, err)
			}
		}
	})
}

func TestAnExternalNetworkNeedsASubnet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		subnets := `[]`
		_, c := inBubble(t, func(w http.ResponseWriter, _ *http.Request) {
			answer(w, http.StatusOK, `{"networks": [{"id": "ext", "name": "outside", "subnets": `+subnets+`}]}`)
		}, client.Options{})
		i := New(c, cluster, Options{})
		find := func() error {
			_, err := i.ExternalNetwork(t.Context(), "spec.router.externalNetwork", "outside")
			return err
		}
		expect.ErrorSays(t, find(), `spec.router.externalNetwork: external network "outside" has no subnet`)
		for _, told := range []string{`["one"]`, `null`} { // not all clouds tell
			subnets = told
			virtual.Elapse(directoryFor)
			expect.NoError(t, find())
		}
		subnets = `[]`
		virtual.Elapse(directoryFor)
		expect.ErrorSays(t, find(), "has no subnet")
		subnets = `["one"]`
		virtual.Elapse(directoryPause) // no longer, as for a name that matches nothing
		expect.NoError(t, find())
	})
}

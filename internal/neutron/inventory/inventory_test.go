package inventory

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/virtual"
)

const cluster = "cluster-1"

func ownerOf(object string) plan.Owner { return plan.Owner{Cluster: cluster, Object: object} }

// bench is an Inventory, the Neutron behind it, and what its handlers were told.
type bench struct {
	*Inventory
	neutron *fakeNeutron
	cloud   *fakeCloud

	mu     sync.Mutex
	moved  []string
	audits []Audit
}

func newBench(t *testing.T, options Options) *bench {
	b := &bench{neutron: newFakeNeutron()}
	b.cloud = newFakeCloud(t, b.neutron.ServeHTTP)
	b.Inventory = New(b.cloud.cloud(client.Options{PageSize: 2}), cluster, b.told(options))
	return b
}

func (b *bench) told(options Options) Options {
	options.Moved = func(object string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.moved = append(b.moved, object)
	}
	options.Audited = func(a Audit) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.audits = append(b.audits, a)
	}
	return options
}

// takeMoved gives who was moved since the last time, sorted.
func (b *bench) takeMoved() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	moved := b.moved
	b.moved = nil
	slices.Sort(moved)
	return moved
}

// put is what Neutron already has: a network of the object's with one subnet.
func (b *bench) put(id, description string) {
	b.neutron.change(func() {
		b.neutron.networks[id] = &wireNetwork{
			wireBase: wireBase{ID: id, Description: description, Revision: 1, Created: created("2026-01-02T03:04:05Z")},
			Name:     "n", AdminStateUp: true,
		}
		b.neutron.subnets["sub-"+id] = &wireSubnet{
			wireBase:  wireBase{ID: "sub-" + id, Description: description},
			NetworkID: id, CIDR: "10.0.0.0/24",
		}
	})
}

func (b *bench) audit(t *testing.T) {
	t.Helper()
	expect.NoError(t, b.Audit(t.Context()))
}

func (b *bench) apply(t *testing.T, steps ...plan.Step) plan.Change {
	t.Helper()
	done, err := b.Apply(t.Context(), steps)
	expect.NoError(t, err)
	return done
}

// observed is what is held of the object's, without asking again.
func (b *bench) observed(t *testing.T, object string) []plan.ObservedNetwork {
	t.Helper()
	o, err := b.Observed(t.Context(), ownerOf(object), time.Time{})
	expect.NoError(t, err)
	return o.Networks
}

func networkOf(id string) plan.Resource {
	return plan.Resource{Kind: plan.KindNetwork, ID: id}
}

func create(object string) plan.Step {
	return plan.Step{Action: plan.CreateNetwork, Attributes: plan.Attributes{
		Name: "n", Description: ownerOf(object).Marker(), AdminStateUp: true,
	}}
}

func createSubnetIn(network plan.Ref, object, cidr string) plan.Step {
	return plan.Step{
		Action: plan.CreateSubnet, NetworkRef: network, SubnetDescription: ownerOf(object).Marker(),
		Subnet: plan.Subnet{CIDR: netip.MustParsePrefix(cidr)},
	}
}

func cidrs(networks []plan.ObservedNetwork) []string {
	all := []string{}
	for _, n := range networks {
		for _, s := range n.Subnets {
			all = append(all, s.CIDR.String())
		}
	}
	slices.Sort(all)
	return all
}

// An audit begins its lists before it waits for them. One that ends in between is told of all the same.
func TestWhoWaitsForAListThatHasEndedIsToldWhoMoved(t *testing.T) {
	b := newBench(t, Options{})
	b.put("a", ownerOf("o-a").Marker())
	since := time.Now()
	flights := b.begin(t.Context(), since, b.stocks...)
	for _, f := range flights {
		<-f.done
	}
	moved, err := b.await(t.Context(), b.networks, since, flights[b.networks], listSilence)
	if diff := cmp.Diff([]string{"o-a"}, moved); diff != "" || err != nil {
		t.Errorf("moved (-want +got):\n%s%v", diff, err)
	}
}

func TestSubnetOfAnotherProjectOnOurNetworkIsSeen(t *testing.T) {
	b := newBench(t, Options{})
	b.put("a", ownerOf("o").Marker())
	b.neutron.change(func() {
		b.neutron.subnets["theirs"] = &wireSubnet{wireBase: wireBase{ID: "theirs"}, NetworkID: "a", CIDR: "10.7.0.0/24"}
		b.neutron.projects["theirs"] = "project-2"
	})
	b.audit(t)
	expect.Equal(t, []string{"10.0.0.0/24", "10.7.0.0/24"}, cidrs(b.observed(t, "o")), "CIDRs")
}

func TestASubnetThatNoListShowsIsAskedForByItsID(t *testing.T) {
	b := newBench(t, Options{})
	b.put("a", ownerOf("o").Marker())
	b.neutron.setBefore(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/subnets") || r.Method != http.MethodGet {
			return false
		}
		write(w, http.StatusOK, map[string]any{"subnets": []any{}})
		return true
	})
	want := []string{"10.0.0.0/24"}
	b.audit(t)
	expect.Equal(t, want, cidrs(b.observed(t, "o")), "after an audit")
	if _, err := b.Reread(t.Context(), networkOf("a")); err != nil {
		t.Fatal(err)
	}
	expect.Equal(t, want, cidrs(b.observed(t, "o")), "after a read of the network")
}

func TestASubnetThatTheCredentialsMayNotSeeHoldsUpNothing(t *testing.T) {
	b := newBench(t, Options{})
	b.put("a", ownerOf("o").Marker())
	b.neutron.change(func() {
		b.neutron.subnets["theirs"] = &wireSubnet{wireBase: wireBase{ID: "theirs"}, NetworkID: "a", CIDR: "10.7.0.0/24"}
	})
	b.neutron.setBefore(func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case strings.HasSuffix(r.URL.Path, "/subnets/theirs"):
			refuse(w, http.StatusNotFound, "SubnetNotFound", "Subnet theirs could not be found.")
		case strings.HasSuffix(r.URL.Path, "/subnets"):
			write(w, http.StatusOK, map[string]any{"subnets": []any{b.neutron.subnets["sub-a"]}})
		default:
			return false
		}
		return true
	})
	b.audit(t)
	expect.Equal(t, []string{"10.0.0.0/24"}, cidrs(b.observed(t, "o")), "CIDRs")
}

func TestFindReadsWhatBearsTheMarkerThoughNoListOfAllShowsIt(t *testing.T) {
	b := newBench(t, Options{Ports: true})
	var names []string
	b.neutron.setBefore(func(w http.ResponseWriter, r *http.Request) bool {
		if query := r.URL.Query(); query.Has("name") {
			names = append(names, query.Get("name"))
		} else if !query.Has("network_id") && query.Has("project_id") {
			_, collection, _ := strings.Cut(r.URL.Path, "/v2.0/")
			write(w, http.StatusOK, map[string]any{strings.ReplaceAll(collection, "-", "_"): []any{}})
			return true
		}
		return false
	})
	b.audit(t)
	b.put("a", ownerOf("o").Marker())
	b.put("foreign", "nobody's")
	b.putPort("p", ownerOf("o-p").Marker())
	b.putPort("q", ownerOf("o-q").Marker())
	for _, find := range []struct {
		of           plan.Kind
		name, object string
		found        bool
	}{
		{plan.KindNetwork, "n", "o", true}, {plan.KindNetwork, "m", "else", false},
		{plan.KindPort, "p", "o-p", true}, {plan.KindPort, "p", "o", false},
	} {
		found, err := b.Find(t.Context(), find.of, find.name, ownerOf(find.object))
		if err != nil || found != find.found {
			t.Errorf("finding the %s of %s: %t, %v, want %t", find.of, find.object, found, err, find.found)
		}
	}
	expect.Equal(t, []string{"n", "m", "p", "p"}, names, "names that were asked for")
	expect.Equal(t, []string{"o: n [10.0.0.0/24]", "o-p: p"}, b.names(t, "o", "o-p", "o-q"), "what is held")
}

func TestAFindThatFailsIsNotNothing(t *testing.T) {
	b := newBench(t, Options{})
	b.put("a", ownerOf("o").Marker())
	b.neutron.answers("", "/networks/a", http.StatusServiceUnavailable, "{}")
	if found, err := b.Find(t.Context(), plan.KindNetwork, "n", ownerOf("o")); err == nil {
		t.Errorf("found: %t without an error, though it could not be read", found)
	}
}

func TestFailedListChangesNothingOfItsKind(t *testing.T) {
	for path, kind := range map[string]plan.Kind{
		"networks": plan.KindNetwork, "subnets": plan.KindNetwork, "ports": plan.KindPort,
	} {
		b := newBench(t, Options{Ports: true})
		if synced, err := b.Synced(); synced || err != nil {
			t.Errorf("before the first list: %t, %v", synced, err)
		}
		b.put("a", ownerOf("o").Marker())
		b.neutron.ports["p"] = &wirePort{
			wireBase:  wireBase{ID: "p", Description: ownerOf("o").Marker(), Created: created("2026-01-01T00:00:00Z")},
			NetworkID: "a",
		}
		b.audit(t)
		b.takeMoved()
		b.neutron.change(func() {
			b.neutron.networks, b.neutron.ports = map[string]*wireNetwork{}, map[string]*wirePort{}
		})
		b.neutron.answers("", path, http.StatusServiceUnavailable, "")
		if err := b.Audit(t.Context()); err == nil {
			t.Fatalf("an audit without %s passed", path)
		}
		networks, ports := len(b.networks.held), len(b.ports.held)
		if (networks == 1) != (kind == plan.KindNetwork) || (ports == 1) != (kind == plan.KindPort) {
			t.Errorf("a list that failed at %s leaves %d networks and %d ports", path, networks, ports)
		}
		for _, need := range [][]plan.Kind{nil, {kind}} {
			if _, err := b.Observed(t.Context(), ownerOf("o"), time.Now(), need...); err == nil {
				t.Errorf("what a failed list of %s did not show passes for observed", path)
			}
		}
		other := plan.KindNetwork
		if kind == other {
			other = plan.KindPort
		}
		if o, err := b.Observed(t.Context(), ownerOf("o"), time.Now(), other); err != nil || o.Empty() {
			t.Errorf("a list that failed at %s stops those who need %ss: %v", path, other, err)
		}
		if synced, err := b.Synced(); !synced || err == nil {
			t.Errorf("after a failed list: %t, %v", synced, err)
		}
	}
}

func TestAllWhoWaitShareOneListAndLaterOnesGetAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNeutron()
		n.before = func(http.ResponseWriter, *http.Request) bool {
			elapse(time.Second)
			return false
		}
		_, cloud := inBubble(t, n.ServeHTTP, client.Options{})
		i := New(cloud, cluster, Options{})
		began := time.Now()
		observe := func(since time.Time) {
			if _, err := i.Observed(t.Context(), ownerOf("o"), since); err != nil {
				t.Error(err)
			}
		}
		var group sync.WaitGroup
		for range 10 {
			group.Go(func() { observe(began) })
		}
		elapse(500 * time.Millisecond)
		// The list that runs is of before this moment, and so cannot serve it.
		later := time.Now()
		for range 10 {
			group.Go(func() { observe(later) })
		}
		group.Wait()
		expect.Equal(t, 2, n.count("GET networks"), "lists")
		observe(later)
		observe(time.Time{})
		expect.Equal(t, 2, n.count("GET networks"), "lists after the fact")

		// A waiter that leaves does not end the list for the others.
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := i.Observed(ctx, ownerOf("o"), time.Now()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a waiter that left got %v", err)
		}
		elapse(time.Minute)
		expect.Equal(t, 3, n.count("GET networks"), "lists")
	})
}

func TestMomentInTheFutureIsServedByAListOfNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNeutron()
		_, cloud := inBubble(t, n.ServeHTTP, client.Options{})
		i := New(cloud, cluster, Options{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		n.before = func(http.ResponseWriter, *http.Request) bool {
			elapse(time.Second)
			return false
		}
		if _, err := i.Observed(ctx, ownerOf("o"), time.Now().Add(time.Hour)); err != nil {
			t.Error(err)
		}
		expect.Equal(t, 1, n.count("GET networks"), "lists")
	})
}

func TestCountsThatAreRefusedAreNotAskedForAgainSoon(t *testing.T) {
	for name, refusal := range map[string]http.HandlerFunc{
		"a tenant": func(w http.ResponseWriter, _ *http.Request) {
			refuse(w, http.StatusForbidden, "PolicyNotAuthorized", "no")
		},
		"a cloud without the extension": func(w http.ResponseWriter, _ *http.Request) {
			answer(w, http.StatusNotFound, `{"message": "The resource could not be found.", "code": "404 Not Found"}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNeutron()
				n.networks["a"] = &wireNetwork{wireBase: wireBase{ID: "a", Description: ownerOf("o").Marker(), Created: created("2026-01-02T03:04:05Z")}}
				n.before = func(w http.ResponseWriter, r *http.Request) bool {
					if !strings.HasSuffix(r.URL.Path, "availabilities") {
						return false
					}
					refusal(w, r)
					return true
				}
				_, cloud := inBubble(t, n.ServeHTTP, client.Options{})
				i := New(cloud, cluster, Options{})
				for range 10 {
					expect.NoError(t, i.Audit(t.Context()))
					elapse(time.Minute)
				}
				expect.Equal(t, 1, n.count("GET network-ip-availabilities"), "how often it asked in ten minutes")
				elapse(availabilityPause)
				expect.NoError(t, i.Audit(t.Context()))
				expect.Equal(t, 2, n.count("GET network-ip-availabilities"), "how often it asked, the time after the pause included")
			})
		})
	}
}

func TestApplyReturnsWhatWasDone(t *testing.T) {
	b := newBench(t, Options{})
	b.audit(t)
	b.neutron.answers(http.MethodPost, "/subnets", http.StatusBadGateway, "")
	done, err := b.Apply(t.Context(), plan.Change{create("o"), createSubnetIn(plan.Ref{Creator: 1}, "o", "10.0.0.0/24"), create("x")})
	if !client.MaybeDone(err) || len(done) != 1 || done[0].ID == "" {
		t.Errorf("done %v, %v", done, err)
	}
	if got := b.observed(t, "o"); len(got) != 1 || got[0].ID != done[0].ID {
		t.Errorf("what was done before the failure is not held: %v", got)
	}
	expect.Equal(t, 1, b.neutron.count("POST networks"), "networks that were made")
	b.neutron.setBefore(nil)
	_, err = b.Apply(t.Context(), plan.Change{{Action: plan.DeleteNetwork, Ref: plan.Ref{ID: done[0].ID}, Revision: 7}})
	if !client.IsConflict(err) || len(b.observed(t, "o")) != 1 {
		t.Errorf("a deletion of an older revision: %v", err)
	}
	b.apply(t, plan.Step{Action: plan.DeleteNetwork, Ref: plan.Ref{ID: "not there"}})
}

func TestRunAuditsAtItsIntervalAndBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNeutron()
		_, cloud := inBubble(t, n.ServeHTTP, client.Options{})
		var mu sync.Mutex
		var ends []time.Time
		const interval = time.Minute
		i := New(cloud, cluster, Options{Interval: interval, Audited: func(Audit) {
			mu.Lock()
			defer mu.Unlock()
			ends = append(ends, time.Now())
		}})
		pauses := func() []time.Duration {
			mu.Lock()
			defer mu.Unlock()
			var all []time.Duration
			for k := 1; k < len(ends); k++ {
				all = append(all, virtual.Since(ends[k-1])-virtual.Since(ends[k]))
			}
			ends = ends[len(ends)-1:]
			return all
		}
		within := func(what string, got, want time.Duration) {
			if got < want*9/10 || got > want*11/10 {
				t.Errorf("%s: the next audit came after %v, want %v give or take a tenth", what, got, want)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			i.Run(ctx)
		}()
		elapse(20 * interval)
		regular := pauses()
		differ := false
		for _, pause := range regular {
			within("all is well", pause, interval)
			differ = differ || pause != regular[0]
		}
		if len(regular) < 17 || !differ {
			t.Errorf("pauses are %v, want about 19 that differ", regular)
		}

		fail := func(status int, wait string) {
			n.setBefore(func(w http.ResponseWriter, _ *http.Request) bool {
				w.Header().Set("Retry-After", wait)
				answer(w, status, "")
				return true
			})
		}
		fail(http.StatusServiceUnavailable, "")
		elapse(5 * time.Minute)
		want := time.Second
		for k, pause := range pauses() {
			if k == 0 {
				continue // the last regular one
			}
			within("after a failure", pause, want)
			want = min(2*want, 30*time.Second)
		}
		n.setBefore(nil)
		elapse(2 * interval)
		pauses()
		fail(http.StatusTooManyRequests, "300")
		elapse(10 * time.Minute)
		for _, pause := range pauses()[1:] {
			if pause < 300*time.Second {
				t.Errorf("the cloud asked to wait 300 s, and the next audit came after %v", pause)
			}
		}
		cancel()
		<-done
	})
}

func TestRunWithoutAnIntervalAuditsUntilItSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNeutron()
		var calls atomic.Int32
		n.before = func(w http.ResponseWriter, _ *http.Request) bool {
			if calls.Add(1) > 3 {
				return false
			}
			answer(w, http.StatusServiceUnavailable, "")
			return true
		}
		_, cloud := inBubble(t, n.ServeHTTP, client.Options{})
		i := New(cloud, cluster, Options{})
		i.Run(t.Context())
		if synced, err := i.Synced(); !synced || err != nil {
			t.Errorf("synced %t, %v", synced, err)
		}
	})
}

func TestAuditEndsWhenEveryoneWasTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNeutron()
		n.networks["a"] = &wireNetwork{wireBase: wireBase{ID: "a", Description: ownerOf("o").Marker(), Created: created("2026-01-02T03:04:05Z")}}
		_, cloud := inBubble(t, n.ServeHTTP, client.Options{})
		var told atomic.Int64
		i := New(cloud, cluster, Options{Moved: func(string) {
			elapse(time.Second)
			told.Add(1)
		}})
		expect.NoError(t, i.Audit(t.Context()))
		expect.Equal(t, int64(1), told.Load(), "the audit ended before its handler was told")
	})
}

// names are what is held of objects: "object: name [CIDRs]" of a network, and "object: name" of a port.
func (b *bench) names(t *testing.T, objects ...string) []string {
	t.Helper()
	names := []string{}
	for _, object := range objects {
		for _, n := range b.observed(t, object) {
			names = append(names, fmt.Sprint(object, ": ", n.Name, " ", cidrs([]plan.ObservedNetwork{n})))
		}
		for _, p := range b.observedPorts(t, object) {
			names = append(names, object+": "+p.Name)
		}
	}
	return names
}

// during runs a read, whose first GET of the path is answered with what was there before do, after do.
func (b *bench) during(t *testing.T, path string, read func() error, do func()) {
	t.Helper()
	reached, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	b.neutron.setBefore(func(w http.ResponseWriter, r *http.Request) (held bool) {
		if r.URL.Path == "/v2.0/"+path && r.Method == http.MethodGet {
			once.Do(func() { held = true })
		}
		if held {
			recorder := httptest.NewRecorder()
			b.neutron.setBefore(nil)
			b.neutron.ServeHTTP(recorder, r)
			close(reached)
			<-release
			answer(w, recorder.Code, recorder.Body.String())
		}
		return held
	})
	ended := make(chan error, 1)
	go func() { ended <- read() }()
	<-reached
	do()
	close(release)
	expect.NoError(t, <-ended)
}

// A list has read what comes before its path when the write comes, and not the rest.
func TestOwnWritesDuringAReadAreNotUndone(t *testing.T) {
	const network, port = "o: n [10.0.0.0/24]", "o: p"
	change := func(attributes plan.Attributes, field string) []plan.Step {
		return []plan.Step{{
			Action: plan.UpdateNetwork, Ref: plan.Ref{ID: "a"}, Revision: 1, Attributes: attributes,
			Differences: []plan.Difference{{Field: field}},
		}}
	}
	describe := func(description string) []plan.Step {
		return []plan.Step{updatePort("old", 1, plan.PortAttributes{Description: description}, plan.FieldDescription)}
	}
	deleteSubnet := plan.Step{Action: plan.DeleteSubnet, Ref: plan.Ref{ID: "sub-a"}, NetworkRef: plan.Ref{ID: "a"}}
	for path, read := range map[string]func(b *bench) error{
		"networks":   func(b *bench) error { return b.Audit(t.Context()) },
		"subnets":    func(b *bench) error { return b.Audit(t.Context()) },
		"ports":      func(b *bench) error { return b.Audit(t.Context()) },
		"networks/a": func(b *bench) error { _, err := b.Reread(t.Context(), networkOf("a")); return err },
		"ports/old":  func(b *bench) error { _, err := b.Reread(t.Context(), portOf("old")); return err },
	} {
		for name, test := range map[string]struct {
			write []plan.Step
			want  []string
		}{
			"a network that was made": {
				[]plan.Step{create("new"), createSubnetIn(plan.Ref{Creator: 1}, "new", "10.9.0.0/24")},
				[]string{"new: n [10.9.0.0/24]", network, port},
			},
			"a network that was renamed": {
				change(plan.Attributes{Name: "new"}, plan.FieldName), []string{"o: new [10.0.0.0/24]", port},
			},
			"a network that was handed over": {
				change(plan.Attributes{Description: ownerOf("other").Marker()}, plan.FieldDescription),
				[]string{port, "other: n [10.0.0.0/24]"},
			},
			"a network that was deleted": {[]plan.Step{deleteNetwork("a")}, []string{port}},
			"a subnet that was made": {
				[]plan.Step{createSubnetIn(plan.Ref{ID: "a"}, "o", "10.1.0.0/24")},
				[]string{"o: n [10.0.0.0/24 10.1.0.0/24]", port},
			},
			"a subnet that was deleted": {[]plan.Step{deleteSubnet}, []string{"o: n []", port}},
			"a port that was made":      {[]plan.Step{createPort("o")}, []string{network, "o: new", port}},
			"a port that was renamed": {
				[]plan.Step{updatePort("old", 1, plan.PortAttributes{Name: "renamed"}, plan.FieldName)},
				[]string{network, "o: renamed"},
			},
			"a port that was handed over": {describe(ownerOf("other").Marker()), []string{network, "other: p"}},
			"a port that lost its marker": {describe("mine"), []string{network}},
			"a port that was deleted":     {[]plan.Step{deletePort("old", 1)}, []string{network}},
			"a port that was not there":   {[]plan.Step{deletePort("not there", 1)}, []string{network, port}},
		} {
			t.Run(name+" during GET "+path, func(t *testing.T) {
				b := newBench(t, Options{Ports: true})
				b.put("a", ownerOf("o").Marker())
				b.putPort("old", ownerOf("o").Marker())
				b.audit(t)
				b.takeMoved()
				b.during(t, path, func() error { return read(b) }, func() { b.apply(t, test.write...) })
				for _, when := range []string{"what began before the write", "the next list"} {
					expect.Equal(t, test.want, b.names(t, "new", "o", "other"), "after %s", when)
					b.audit(t)
				}
				expect.Empty(t, b.takeMoved(), "moved by own writes")
			})
		}
	}
}

func TestMovedTellsExactlyWhoMoved(t *testing.T) {
	b := newBench(t, Options{Ports: true})
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		b.put(id, "text "+ownerOf("o-"+id).Marker())
	}
	b.putPort("p", ownerOf("o-p").Marker())
	b.putPort("q", ownerOf("o-q").Marker())
	b.put("foreign", "nobody's")
	b.putPort("foreign", "nobody's")
	b.put("elsewhere", plan.Owner{Cluster: "cluster-2", Object: "o"}.Marker())
	describe := func(id, description string) {
		n := b.neutron.networks[id]
		n.Description, n.Revision = description, n.Revision+1
	}
	for _, step := range []struct {
		name   string
		change func()
		want   []string
	}{
		{"the first list moves all", func() {}, []string{"o-a", "o-b", "o-c", "o-d", "o-e", "o-p", "o-q"}},
		{"nothing happened", func() {}, nil},
		{"others' changed", func() {
			b.neutron.networks["foreign"].Revision++
			b.neutron.ports["foreign"].Revision++
			b.neutron.networks["elsewhere"].Revision++
		}, nil},
		{"a network's revision moved", func() { b.neutron.networks["a"].Revision++ }, []string{"o-a"}},
		{"a port's revision moved", func() { b.neutron.ports["p"].Revision++ }, []string{"o-p"}},
		{"a subnet's revision alone moved", func() { b.neutron.subnets["sub-b"].Revision++ }, []string{"o-b"}},
		{"a subnet's DNS servers changed, which moves no revision", func() {
			b.neutron.subnets["sub-b"].DNSServers = []string{"10.0.0.9"}
		}, []string{"o-b"}},
		{"a subnet's pools changed, too", func() {
			b.neutron.subnets["sub-b"].Pools = []wirePool{{Start: "10.0.0.9", End: "10.0.0.10"}}
		}, []string{"o-b"}},
		{"a subnet's host routes changed, too", func() {
			b.neutron.subnets["sub-b"].HostRoutes = []wireRoute{{Destination: "10.9.0.0/24", NextHop: "10.0.0.9"}}
		}, []string{"o-b"}},
		{"a network went", func() { delete(b.neutron.networks, "c") }, []string{"o-c"}},
		{"a port went", func() { delete(b.neutron.ports, "p") }, []string{"o-p"}},
		{"a subnet went", func() { delete(b.neutron.subnets, "sub-d") }, []string{"o-d"}},
		{"a network was given to another", func() { describe("e", ownerOf("o-x").Marker()) }, []string{"o-e", "o-x"}},
		{"a port and a network of one object moved", func() {
			b.neutron.ports["q"].Description = ownerOf("o-x").Marker()
			b.neutron.ports["q"].Revision++
			b.neutron.networks["e"].Revision++
		}, []string{"o-q", "o-x"}},
		{"a marker was taken off", func() { describe("a", "") }, []string{"o-a"}},
		{"a marker was put on", func() { describe("foreign", ownerOf("o-f").Marker()) }, []string{"o-f"}},
	} {
		b.neutron.change(step.change)
		b.audit(t)
		expect.Equal(t, step.want, b.takeMoved(), "%s: moved", step.name)
	}
	if got := b.audits[len(b.audits)-1]; got.Moved != 1 || got.Networks != len(b.networks.held) || got.Err != nil {
		t.Errorf("the last audit says %+v", got)
	}
	if o, err := b.Observed(t.Context(), plan.Owner{Cluster: "cluster-2", Object: "o"}, time.Time{}); err != nil ||
		len(o.Networks) > 0 {
		t.Errorf("another cluster's network is held: %v, %v", o, err)
	}
}

func TestRereadTellsWhatBecameOfAResource(t *testing.T) {
	for kind, r := range map[plan.Kind]plan.Resource{plan.KindNetwork: networkOf("x"), plan.KindPort: portOf("x")} {
		t.Run(string(kind), func(t *testing.T) {
			b := newBench(t, Options{Ports: true})
			put := map[plan.Kind]func(id, description string){plan.KindNetwork: b.put, plan.KindPort: b.putPort}[kind]
			b.audit(t)
			check := func(what string, found, unmarked, failed bool, held int) {
				t.Helper()
				got, err := b.Reread(t.Context(), r)
				if got != found || errors.Is(err, ErrUnmarked) != unmarked || (err != nil) != (unmarked || failed) ||
					len(b.names(t, "o")) != held {
					t.Errorf("%s: %t, %v, %v are held", what, got, err, b.names(t, "o"))
				}
			}
			put("x", ownerOf("o").Marker())
			check("one that came", true, false, false, 1)
			put("x", "mine")
			check("one that lost its marker", true, true, false, 0)
			put("x", ownerOf("o").Marker())
			check("one that has it again", true, false, false, 1)
			for what, text := range map[int]string{
				http.StatusNotFound: "", http.StatusServiceUnavailable: "",
				http.StatusOK: `{"port": {"id": "q", "network_id": "n"}, "network": {"id": "q"}}`, // another one
			} {
				b.neutron.answers("", "", what, text)
				check(fmt.Sprint("behind a proxy that says ", what, text), false, false, true, 1)
			}
			b.neutron.setBefore(nil)
			b.neutron.change(func() { delete(b.neutron.networks, "x"); delete(b.neutron.ports, "x") })
			check("one that went", false, false, false, 0)
		})
	}
}

func TestAddressCountsAreKept(t *testing.T) {
	b := newBench(t, Options{})
	b.put("a", ownerOf("o").Marker())
	b.tells(map[string]int{"sub-a": 1})
	b.audit(t)
	b.takeMoved()
	before := b.observed(t, "o")
	b.tells(map[string]int{"sub-a": 2})
	b.audit(t)
	if diff := cmp.Diff([]string{"o"}, b.takeMoved()); diff != "" || b.used(t, "o") != "2" {
		t.Errorf("%s are used, want 2; moved (-want +got):\n%s", b.used(t, "o"), diff)
	}
	expect.Equal(t, "1", usedIn(t, before...), "what was observed before has changed")
	b.audit(t)
	expect.Empty(t, b.takeMoved(), "moved by counts that stayed")
	b.apply(t, plan.Step{
		Action: plan.UpdateSubnet, Ref: plan.Ref{ID: "sub-a"}, NetworkRef: plan.Ref{ID: "a"}, SubnetName: "s",
		Differences: []plan.Difference{{Field: plan.FieldName}},
	})
	expect.Equal(t, "2", b.used(t, "o"), "the count after an update of the subnet")
	if _, err := b.Reread(t.Context(), networkOf("a")); err != nil || b.used(t, "o") != "2" {
		t.Errorf("a reread lost the counts: %s, %v", b.used(t, "o"), err)
	}
}

func TestEverythingAtOnce(t *testing.T) {
	b := newBench(t, Options{})
	// On pages of two, the workers below would delete each list's place all the time.
	b.Inventory = New(b.cloud.cloud(client.Options{}), cluster, b.told(Options{Ports: true}))
	b.tells(map[string]int{"sub-shared": 1})
	b.put("shared", ownerOf("shared").Marker())
	b.putPort("shared", ownerOf("shared").Marker())
	b.audit(t)
	snapshot := b.observed(t, "shared")
	before := fmt.Sprintf("%+v", snapshot)

	var group sync.WaitGroup
	for worker := range 4 {
		group.Go(func() {
			object := fmt.Sprintf("o-%d", worker)
			for range 8 {
				made := b.apply(t, create(object), createSubnetIn(plan.Ref{Creator: 1}, object, "10.0.0.0/24"), createPort(object))
				network, port := made[0].ID, made[2].ID
				b.apply(t, updatePort(port, 1, plan.PortAttributes{Name: "renamed"}, plan.FieldName))
				want := []string{object + ": n [10.0.0.0/24]", object + ": renamed"}
				if diff := cmp.Diff(want, b.names(t, object)); diff != "" || b.observed(t, object)[0].Revision != 2 {
					t.Errorf("own writes are not there, or not as the second revision (-want +got):\n%s", diff)
					return
				}
				b.apply(t, plan.Step{Action: plan.DeleteNetwork, Ref: plan.Ref{ID: network}, Revision: 2}, deletePort(port, 2))
				expect.Empty(t, b.names(t, object), "objects that are there, of those deleted")
			}
		})
		group.Go(func() {
			for range 8 {
				if err := b.Audit(t.Context()); err != nil {
					t.Error(err)
				}
				for _, r := range []plan.Resource{networkOf("shared"), portOf("shared")} {
					if _, err := b.Reread(t.Context(), r); err != nil {
						t.Error(err)
					}
				}
				_, _ = b.Synced()
			}
		})
	}
	group.Wait()
	b.audit(t)
	if got := b.audits[len(b.audits)-1]; got.Networks != 1 || got.Ports != 1 {
		t.Errorf("%+v is held, want one network and one port", got)
	}
	expect.Equal(t, before, fmt.Sprintf("%+v", snapshot), "what was observed before")
}

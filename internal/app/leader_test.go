package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/virtual"
)

var leaseResource = coordinationv1.Resource("leases")

// playedLease is the Lease that several processes want.
type playedLease struct {
	mu      sync.Mutex
	record  *resourcelock.LeaderElectionRecord
	version int
}

func (l *playedLease) holder() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.record == nil {
		return ""
	}
	return l.record.HolderIdentity
}

// take has somebody else hold the lease from now on, or nobody.
func (l *playedLease) take(identity string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.version++
	l.record = &resourcelock.LeaderElectionRecord{
		HolderIdentity: identity, LeaseDurationSeconds: 15, LeaderTransitions: l.record.LeaderTransitions + 1,
	}
}

// seat is one process's way to the lease. Like a LeaseLock it writes only what it has seen the newest version of.
type seat struct {
	lease    *playedLease
	identity string
	seen     int

	mu sync.Mutex
	// cut makes the API server unreachable. stopped, where not nil, blocks calls until it is closed; their contexts have
	// then ended, unless the process is meant to have been stopped between two calls.
	cut, betweenCalls bool
	stopped           chan struct{}
}

func (s *seat) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *seat) call(ctx context.Context, carryOut func() error) error {
	s.mu.Lock()
	cut, stopped, betweenCalls := s.cut, s.stopped, s.betweenCalls
	s.mu.Unlock()
	if stopped != nil {
		<-stopped
	}
	if cut {
		return errors.New("no route to host")
	}
	if err := ctx.Err(); err != nil && !betweenCalls {
		return err
	}
	s.lease.mu.Lock()
	defer s.lease.mu.Unlock()
	return carryOut()
}

func (s *seat) Get(ctx context.Context) (record *resourcelock.LeaderElectionRecord, raw []byte, err error) {
	err = s.call(ctx, func() error {
		if s.lease.record == nil {
			return apierrors.NewNotFound(leaseResource, "test")
		}
		s.seen = s.lease.version
		copied := *s.lease.record
		record = &copied
		raw, err = json.Marshal(record)
		return err
	})
	return record, raw, err
}

func (s *seat) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return s.call(ctx, func() error {
		if s.lease.record != nil {
			return apierrors.NewAlreadyExists(leaseResource, "test")
		}
		return s.write(record)
	})
}

func (s *seat) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return s.call(ctx, func() error {
		if s.seen != s.lease.version {
			return apierrors.NewConflict(leaseResource, "test", errors.New("it was changed"))
		}
		return s.write(record)
	})
}

func (s *seat) write(record resourcelock.LeaderElectionRecord) error {
	s.lease.version++
	s.lease.record, s.seen = &record, s.lease.version
	return nil
}

func (s *seat) RecordEvent(string) {}
func (s *seat) Identity() string   { return s.identity }
func (s *seat) Describe() string   { return "default/test" }

// candidate is a process that takes part in an election.
type candidate struct {
	*election
	seat *seat
	// resign ends its part, and returns when it has ended.
	resign func()
}

func newCandidate(t *testing.T, lease *playedLease, identity string) *candidate {
	t.Helper()
	return startCandidate(t, &seat{lease: lease, identity: identity})
}

func startCandidate(t *testing.T, s *seat) *candidate {
	t.Helper()
	c := &candidate{seat: s}
	var err error
	if c.election, err = newElectionOver(newLeaderElection(), c.seat); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(quietly(t))
	go c.run(ctx)
	c.resign = func() {
		cancel()
		<-c.over
	}
	t.Cleanup(c.resign)
	synctest.Wait()
	return c
}

func (c *candidate) mayWrite() bool { return c.permit() == nil }

// until lets time go by, second by second, until something holds, and holds that of two candidates at most one may
// write. It returns how long it took.
func until(t *testing.T, a, b *candidate, holds func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for !holds() {
		if virtual.Since(began) > time.Minute {
			t.Fatal("it never comes")
		}
		<-time.After(100 * time.Millisecond)
		synctest.Wait()
		if a.mayWrite() && b.mayWrite() {
			t.Fatalf("both may write, %s on", virtual.Since(began))
		}
	}
	return virtual.Since(began)
}

func TestOneCandidateLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lease := &playedLease{}
		began := time.Now()
		a := newCandidate(t, lease, "a")
		if took := virtual.Since(began); !a.leads() || !a.mayWrite() || took != 0 {
			t.Errorf("a lone candidate does not lead, %s on", took)
		}
		b := newCandidate(t, lease, "b")
		if b.leads() || b.mayWrite() || !b.decided() {
			t.Errorf("the second: leads %t, may write %t, knows who leads %t", b.leads(), b.mayWrite(), b.decided())
		}
		<-time.After(time.Hour)
		synctest.Wait()
		if !a.mayWrite() || b.leads() {
			t.Error("it does not stay so")
		}
	})
}

func TestALeaderRenewsOncePerRetryPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lease := &playedLease{}
		a := newCandidate(t, lease, "a")
		<-time.After(time.Hour)
		synctest.Wait()
		lease.mu.Lock()
		writes := lease.version
		lease.mu.Unlock()
		if want := int(time.Hour / newLeaderElection().RetryPeriod); writes < want*9/10 || writes > want*11/10 {
			t.Errorf("%d writes in an hour, want about %d", writes, want)
		}
		if !a.mayWrite() {
			t.Error("it leads no more")
		}
	})
}

func TestOneFailedRenewalDoesNotEndALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newCandidate(t, &playedLease{}, "a")
		retry := newLeaderElection().RetryPeriod
		<-time.After(retry / 2)
		a.seat.set(func() { a.seat.cut = true })
		<-time.After(retry)
		a.seat.set(func() { a.seat.cut = false })
		for range 100 {
			<-time.After(retry / 10)
			synctest.Wait()
			if !a.mayWrite() {
				t.Fatal("it may not write any more")
			}
		}
	})
}

func TestACandidateThatCannotReadTheLeaseIsUndecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := startCandidate(t, &seat{lease: &playedLease{}, identity: "a", cut: true})
		<-time.After(time.Minute)
		synctest.Wait()
		if a.decided() || a.mayWrite() {
			t.Errorf("decided: %t, may write: %t; want neither", a.decided(), a.mayWrite())
		}
	})
}

func TestASuccessorLeadsOnlyAfterTheFormerLeaderStopped(t *testing.T) {
	o := newLeaderElection()
	// A standby tries again after one retry period and up to JitterFactor times as much more, at random. It may see the
	// last renewal that late, and the end of the lease that late.
	attempt := time.Duration((1 + leaderelection.JitterFactor) * float64(o.RetryPeriod))
	dead := o.LeaseDuration + 2*attempt
	for name, c := range map[string]struct {
		end      func(a *candidate)
		within   time.Duration
		deposed  bool
		released bool
	}{
		"a leader that cannot reach the API server": {
			func(a *candidate) { a.seat.set(func() { a.seat.cut = true }) }, dead + time.Second/10, true, false,
		},
		"a leader that is stopped": {
			func(a *candidate) { a.seat.set(func() { a.seat.stopped = make(chan struct{}) }) },
			dead + time.Second/10, false, false,
		},
		"a leader that resigns": {func(a *candidate) { a.resign() }, attempt + time.Second/10, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lease := &playedLease{}
				a, b := newCandidate(t, lease, "a"), newCandidate(t, lease, "b")
				<-time.After(time.Minute)
				c.end(a)
				if c.released && lease.holder() != "" {
					t.Errorf("the lease is still %q's", lease.holder())
				}
				if took := until(t, a, b, b.mayWrite); took > c.within {
					t.Errorf("the next one leads after %s, want %s at most", took, c.within)
				}
				if term, leads := b.term(); !leads || term.Stale {
					t.Errorf("the next one's term is %+v, %t, want one that follows at once", term, leads)
				}
				if c.deposed {
					err := a.watch(t.Context())
					if !errors.Is(err, controller.ErrDeposed) || !strings.Contains(err.Error(), "default/test") {
						t.Errorf("error %v, want one that says which lease was lost", err)
					}
				}
				if a.seat.stopped != nil {
					close(a.seat.stopped)
				}
			})
		})
	}
}

// TestALeaseThatNobodyRenewedMayBeASnapshots has a process find the Lease of a leader that is gone, as after a long
// outage or in a cluster that was restored.
func TestALeaseThatNobodyRenewedMayBeASnapshots(t *testing.T) {
	for since, want := range map[time.Duration]bool{
		time.Minute: false, staleAfter - time.Minute: false, staleAfter + time.Minute: true, 240 * time.Hour: true,
	} {
		synctest.Test(t, func(t *testing.T) {
			lease := &playedLease{record: &resourcelock.LeaderElectionRecord{
				HolderIdentity: "gone", LeaseDurationSeconds: 15, RenewTime: metav1.NewTime(time.Now().Add(-since)),
			}}
			a := newCandidate(t, lease, "a")
			<-time.After(time.Minute)
			if term, leads := a.term(); !leads || term.Stale != want || term.Number != 2 {
				t.Errorf("after %s, the term is %+v, %t; want it stale: %t", since, term, leads, want)
			}
		})
	}
}

// TestAPausedLeaderLeavesTheLeaseToItsSuccessor wakes a leader at each moment of its successor's term. client-go's
// elector alone would then release the successor's lease, or take it again when the successor has released it.
func TestAPausedLeaderLeavesTheLeaseToItsSuccessor(t *testing.T) {
	for name, resigns := range map[string]bool{
		"a successor that leads":              false,
		"a successor that released the lease": true,
	} {
		for _, betweenCalls := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, stopped between calls: %t", name, betweenCalls), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					lease := &playedLease{}
					a, b := newCandidate(t, lease, "a"), newCandidate(t, lease, "b")
					stopped := make(chan struct{})
					a.seat.set(func() { a.seat.stopped, a.seat.betweenCalls = stopped, betweenCalls })
					until(t, a, b, b.mayWrite)
					want := "b"
					if resigns {
						b.resign()
						want = ""
					}
					a.seat.set(func() { a.seat.stopped = nil })
					close(stopped)
					until(t, a, b, func() bool { return isClosed(a.over) })
					for range 100 {
						if a.mayWrite() || lease.holder() != want {
							t.Fatalf("may write: %t, holder %q; want false, %q", a.mayWrite(), lease.holder(), want)
						}
						<-time.After(time.Second)
						synctest.Wait()
					}
				})
			})
		}
	}
}

func TestALeaderStopsWritingWhenItSeesAnotherHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lease := &playedLease{}
		a := newCandidate(t, lease, "a")
		lease.take("b")
		<-time.After(newLeaderElection().RetryPeriod)
		synctest.Wait()
		if a.mayWrite() {
			t.Error("it may write while another process holds the lease")
		}
		<-a.over
		expect.Equal(t, "b", lease.holder(), "the holder")
	})
}

// TestARenewalCountsFromItsBeginning has the answer to a renewal come long after it was sent.
func TestARenewalCountsFromItsBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newCandidate(t, &playedLease{}, "a")
		stopped := make(chan struct{})
		a.seat.set(func() { a.seat.stopped = stopped })
		<-time.After(time.Minute)
		synctest.Wait()
		if a.mayWrite() {
			t.Error("it may write a minute after its last renewal")
		}
		a.seat.set(func() { a.seat.stopped = nil })
		close(stopped)
		synctest.Wait()
		if a.mayWrite() {
			t.Error("it may write after a renewal that was sent a minute ago")
		}
	})
}

func TestThePermitExpiresByTheClock(t *testing.T) {
	for name, c := range map[string]struct {
		renewed func() time.Time
		wait    time.Duration
		want    bool
	}{
		"just within the deadline": {time.Now, 10*time.Second - 1, true},
		"at the deadline":          {time.Now, 10 * time.Second, false},
		"a renewal that took as long as the deadline": {
			func() time.Time { return time.Now().Add(-10 * time.Second) }, 0, false,
		},
		"by the wall clock alone, as after a machine's sleep": {
			func() time.Time { return time.Now().Round(0).Add(-10 * time.Second) }, 0, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newCandidate(t, &playedLease{}, "a")
				a.seat.set(func() { a.seat.cut = true })
				a.lock.mu.Lock()
				a.lock.renewed = c.renewed()
				a.lock.mu.Unlock()
				<-time.After(c.wait)
				err := a.permit()
				expect.Equal(t, c.want, err == nil, "error %v", err)
				if err != nil && !strings.Contains(err.Error(), "default/test") {
					t.Errorf("error %q does not name the lease", err)
				}
			})
		})
	}
}

func TestWithoutLeaderElectionTheProcessLeadsAtOnce(t *testing.T) {
	o := NewOptions()
	o.LeaderElection.Enabled = false
	before := time.Now()
	e, err := newElection(o, &rest.Config{})
	expect.NoError(t, err)
	e.run(t.Context())
	if !e.leads() || !e.decided() || e.permit() != nil || e.since.Before(before) {
		t.Errorf("leads %t, decided %t, permit %v, since %s", e.leads(), e.decided(), e.permit(), e.since)
	}
}

func TestOnlyALeaderWritesToKubernetes(t *testing.T) {
	var methods []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		methods = append(methods, r.Method)
	}))
	defer server.Close()
	seat := &seat{lease: &playedLease{}, identity: "a"}
	e, err := newElectionOver(newLeaderElection(), seat)
	expect.NoError(t, err)
	config := &rest.Config{Host: server.URL}
	e.guard(config)
	client, err := rest.HTTPClientFor(config)
	expect.NoError(t, err)
	try := func(method string) error {
		r, err := http.NewRequestWithContext(t.Context(), method, server.URL, strings.NewReader("{}"))
		expect.NoError(t, err)
		answer, err := client.Do(r)
		if err == nil {
			answer.Body.Close()
		}
		return err
	}
	for _, method := range []string{http.MethodPost, http.MethodPatch, http.MethodPut, http.MethodDelete} {
		expect.ErrorSays(t, try(method), "does not hold the lease default/test")
	}
	expect.NoError(t, try(http.MethodGet))
	ctx, cancel := context.WithCancel(quietly(t))
	go e.run(ctx)
	defer func() {
		cancel()
		<-e.over
	}()
	<-e.leading
	expect.NoError(t, try(http.MethodPatch))
	expect.Equal(t, "GET PATCH", strings.Join(methods, " "), "what arrived")
}

// playedUser is a controller that notes what it is told before it runs.
type playedUser struct {
	audience *audience
	told     []string
	since    time.Time
}

func (u *playedUser) HasSynced() bool                        { return true }
func (u *playedUser) Moved(uid string)                       { u.told = append(u.told, uid) }
func (u *playedUser) EnqueueIn(managed.CloudRef)             {}
func (u *playedUser) CloudsInUse() map[managed.CloudRef]bool { return nil }
func (u *playedUser) ActSince(since time.Time)               { u.since = since }

func (u *playedUser) Run(context.Context, int) error {
	u.audience.each(func(user inventoryUser) { user.Moved("of the leader") })
	return nil
}

func TestAControllerActsSinceItsProcessLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lease := &playedLease{}
		former := newCandidate(t, lease, "a")
		c := newCandidate(t, lease, "b")
		p := &process{election: c.election, runCtx: t.Context(), shared: &sharedInventory{audits: &auditLog{
			first: make(chan struct{}),
		}}}
		p.shared.audits.logger, p.shared.audits.recovered = klog.FromContext(quietly(t)), func() {}
		p.shared.audits.audited(inventory.Audit{})
		u := &playedUser{audience: &p.audience}
		built := p.serve(u)
		done := make(chan error, 1)
		go func() { done <- p.lead(built) }()
		<-time.After(time.Hour)
		p.audience.each(func(user inventoryUser) { user.Moved("of the standby") })
		resigned := time.Now()
		former.resign()
		expect.NoError(t, <-done)
		if !u.since.Equal(c.since) || u.since.Before(resigned) {
			t.Errorf("it acts since %s, and its process leads since %s", u.since, c.since)
		}
		expect.Equal(t, []string{"of the leader"}, u.told, "what it was told")
	})
}

// TestTheLeaseIsInOneNamespace holds that a process on a laptop and one in the cluster compete for one Lease, with the
// flags' defaults. Controllers of namespaces have Leases of their own: the term record in Neutron is named after the
// Lease, so they do not dispute.
func TestTheLeaseIsInOneNamespace(t *testing.T) {
	const want = "network-controller/network-controller"
	for name, c := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"outside":           {func(o *Options) { o.Kubeconfig = "kubeconfig" }, want},
		"in a Pod":          {func(*Options) {}, want},
		"for one namespace": {func(o *Options) { o.Namespace = "team" }, want + "-team"},
	} {
		o := NewOptions()
		c.change(&o)
		lock, err := newLeaseLock(o, &rest.Config{Host: "http://127.0.0.1:1"})
		expect.NoError(t, err)
		expect.Equal(t, c.want, lock.Describe(), "%s, the Lease", name)
	}
	deployment, err := os.ReadFile("../../config/manager/deployment.yaml")
	expect.NoError(t, err)
	if strings.Contains(string(deployment), "--leader-elect-resource") {
		t.Error("config/manager names another Lease than the flags' defaults")
	}
}

func TestAMissingNamespaceOfTheLeaseIsTold(t *testing.T) {
	election := newLeaderElection()
	kube := fake.NewClientset()
	err := election.checkNamespace(t.Context(), kube)
	expect.ErrorSays(t, err, "kubectl create namespace network-controller")
	// The account of Foos may not read every namespace.
	kube.PrependReactor("get", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, "network-controller", nil)
	})
	if err := election.checkNamespace(t.Context(), kube); err != nil {
		t.Errorf("error %v for a namespace that cannot be read, want none", err)
	}
	election.Enabled = false
	if err := election.checkNamespace(t.Context(), fake.NewClientset()); err != nil {
		t.Errorf("error %v without a Lease, want none", err)
	}
}

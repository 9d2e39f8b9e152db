package app

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/neutron"
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

// hold has the lease be somebody's, or nobody's.
func (l *playedLease) hold(identity string, transitions int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.version++
	l.record = &resourcelock.LeaderElectionRecord{
		HolderIdentity: identity, LeaseDurationSeconds: 15, LeaderTransitions: transitions,
	}
}

// seat is one process's way to the lease. Like a LeaseLock it writes only what it has seen the newest version of.
type seat struct {
	lease    *playedLease
	identity string
	seen     int

	mu sync.Mutex
	// cut has the API server be out of reach; stopped, where not nil, has calls wait until it is closed.
	cut     bool
	stopped chan struct{}
}

func (s *seat) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *seat) call(carryOut func() error) error {
	s.mu.Lock()
	cut, stopped := s.cut, s.stopped
	s.mu.Unlock()
	if stopped != nil {
		<-stopped
	}
	if cut {
		return errors.New("no route to host")
	}
	s.lease.mu.Lock()
	defer s.lease.mu.Unlock()
	return carryOut()
}

func (s *seat) Get(context.Context) (record *resourcelock.LeaderElectionRecord, raw []byte, err error) {
	err = s.call(func() error {
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

func (s *seat) Create(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	return s.call(func() error {
		if s.lease.record != nil {
			return apierrors.NewAlreadyExists(leaseResource, "test")
		}
		return s.write(record)
	})
}

func (s *seat) Update(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	return s.call(func() error {
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
	c := &candidate{
		election: newPart(),
		seat:     &seat{lease: lease, identity: identity},
	}
	if err := c.join(newLeaderElection(), c.seat); err != nil {
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
		if time.Since(began) > time.Minute {
			t.Fatal("it never comes")
		}
		<-time.After(100 * time.Millisecond)
		synctest.Wait()
		if a.mayWrite() && b.mayWrite() {
			t.Fatalf("both may write, %s on", time.Since(began))
		}
	}
	return time.Since(began)
}

func TestOneOfTwoLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lease := &playedLease{}
		began := time.Now()
		a := newCandidate(t, lease, "a")
		if took := time.Since(began); !a.leads() || !a.mayWrite() || took != 0 {
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

// What the flags' check promises: a renewal that fails is tried again before the leader has to stop.
func TestOneFailedRenewalDoesNotEndALeaderWhateverTheFlagsAllow(t *testing.T) {
	o := newLeaderElection()
	for o.RetryPeriod = o.LeaseDuration; o.validate() != nil; {
		o.RetryPeriod -= 100 * time.Millisecond
	}
	synctest.Test(t, func(t *testing.T) {
		a := &candidate{election: newPart(), seat: &seat{lease: &playedLease{}, identity: "a"}}
		if err := a.join(o, a.seat); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(quietly(t))
		go a.run(ctx)
		began := time.Now()
		look := o.RetryPeriod / looks
		<-time.After(o.RetryPeriod - look/2)
		a.seat.set(func() { a.seat.cut = true })
		<-time.After(look)
		a.seat.set(func() { a.seat.cut = false })
		for time.Since(began) < 3*o.RetryPeriod {
			<-time.After(100 * time.Millisecond)
			synctest.Wait()
			if !a.mayWrite() {
				t.Fatalf("with a retry period of %s it may not write any more, %s on", o.RetryPeriod, time.Since(began))
			}
		}
		cancel()
		<-a.over
	})
}

func TestACandidateThatCannotReadTheLeaseIsUndecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &candidate{election: newPart(), seat: &seat{lease: &playedLease{}, identity: "a", cut: true}}
		if err := a.join(newLeaderElection(), a.seat); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(quietly(t))
		go a.run(ctx)
		<-time.After(time.Minute)
		synctest.Wait()
		if a.decided() || a.mayWrite() {
			t.Errorf("it thinks to know who leads: %t; may write: %t", a.decided(), a.mayWrite())
		}
		cancel()
		<-a.over
	})
}

func TestTheNextLeadsOnlyAfterTheLastHasStopped(t *testing.T) {
	o := newLeaderElection()
	// A standby looks again after a part of the retry period and up to 1.2 times as much, at random. So late it sees the
	// last renewal, and so late it sees that the lease is over.
	look := time.Duration((1 + leaderelection.JitterFactor) * float64(o.RetryPeriod) / looks)
	dead := o.LeaseDuration + 2*look
	if dead > o.LeaseDuration*6/5 {
		t.Errorf("a leader that is dead is replaced after %s, too long for a lease of %s", dead, o.LeaseDuration)
	}
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
		"a leader that resigns": {func(a *candidate) { a.resign() }, look + time.Second/10, false, true},
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

// TestAStoppedLeaderDoesNotLeadAgain has another one lead while a leader is stopped, and go before that one goes on.
func TestAStoppedLeaderDoesNotLeadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lease := &playedLease{}
		a, b := newCandidate(t, lease, "a"), newCandidate(t, lease, "b")
		a.seat.set(func() { a.seat.stopped = make(chan struct{}) })
		until(t, a, b, b.mayWrite)
		b.resign()
		close(a.seat.stopped)
		until(t, a, b, func() bool { return isClosed(a.over) })
		<-time.After(time.Hour)
		if a.mayWrite() || lease.holder() != "" {
			t.Errorf("it may write: %t; the lease is %q's", a.mayWrite(), lease.holder())
		}
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

func TestFence(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(f *fence)
		want    bool
	}{
		"before the first renewal": {func(*fence) {}, false},
		"after a renewal":          {func(f *fence) { f.renew(time.Now()) }, true},
		"just within the term": {
			func(f *fence) { f.renew(time.Now()); <-time.After(10*time.Second - 1) }, true,
		},
		"at the end of the term": {
			func(f *fence) { f.renew(time.Now()); <-time.After(10 * time.Second) }, false,
		},
		"after the next renewal": {
			func(f *fence) {
				f.renew(time.Now())
				<-time.After(time.Minute)
				f.renew(time.Now())
			}, true,
		},
		"after a renewal that took too long": {func(f *fence) { f.renew(time.Now().Add(-10 * time.Second)) }, false},
		"closed":                             {func(f *fence) { f.renew(time.Now()); f.close() }, false},
		"closed, and renewed by who did not hear": {
			func(f *fence) { f.close(); f.renew(time.Now()) }, false,
		},
		"by the wall clock alone, as after a machine's sleep": {
			func(f *fence) { f.renew(time.Now().Round(0).Add(-10 * time.Second)) }, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fence{lease: "default/test", term: 10 * time.Second}
				c.prepare(f)
				err := f.permit()
				if (err == nil) != c.want {
					t.Errorf("error %v, want none: %t", err, c.want)
				}
				if err != nil && !strings.Contains(err.Error(), "default/test") {
					t.Errorf("error %q does not name the lease", err)
				}
			})
		})
	}
}

func TestATermIsUnbroken(t *testing.T) {
	mine := func(transitions int) resourcelock.LeaderElectionRecord {
		return resourcelock.LeaderElectionRecord{HolderIdentity: "a", LeaderTransitions: transitions}
	}
	release := resourcelock.LeaderElectionRecord{}
	for name, c := range map[string]struct {
		meanwhile func(lease *playedLease)
		write     resourcelock.LeaderElectionRecord
		want      string
		lost      bool
	}{
		"it renews":                                 {func(*playedLease) {}, mine(3), "a", false},
		"it releases":                               {func(*playedLease) {}, release, "", false},
		"it does not release what is another's":     {func(l *playedLease) { l.hold("b", 4) }, release, "b", true},
		"it does not take back what was another's":  {func(l *playedLease) { l.hold("b", 4) }, mine(5), "b", true},
		"it does not take what another let go":      {func(l *playedLease) { l.hold("", 4) }, mine(5), "", true},
		"it does not go on where another one ended": {func(l *playedLease) { l.hold("a", 5) }, mine(5), "a", true},
		"it makes none anew that was deleted":       {func(l *playedLease) { l.record = nil }, mine(0), "", true},
	} {
		t.Run(name, func(t *testing.T) {
			lease := &playedLease{}
			lease.hold("", 2)
			lost := false
			l := &fencedLock{
				Interface: &seat{lease: lease, identity: "a"}, fence: &fence{term: time.Minute}, lost: func() { lost = true },
			}
			ctx := quietly(t)
			get := func() error {
				_, _, err := l.Get(ctx)
				return err
			}
			if err := errors.Join(get(), l.Update(ctx, mine(3))); err != nil {
				t.Fatal(err)
			}
			c.meanwhile(lease)
			err := get()
			if apierrors.IsNotFound(err) {
				err = l.Create(ctx, c.write)
			} else {
				err = l.Update(ctx, c.write)
			}
			if lease.holder() != c.want || lost != c.lost || (err != nil) != c.lost {
				t.Errorf("the lease is %q's, lost %t, error %v; want %q's, lost %t", lease.holder(), lost, err, c.want, c.lost)
			}
			if open := l.fence.permit() == nil; open != (!c.lost && c.want == "a") {
				t.Errorf("the fence is open: %t", open)
			}
		})
	}
}

func TestWithoutAnElectionOneLeadsFromTheStart(t *testing.T) {
	o := NewOptions()
	o.LeaderElection.Enabled = false
	before := time.Now()
	e, err := newElection(o, &rest.Config{})
	if err != nil {
		t.Fatal(err)
	}
	e.run(t.Context())
	if !e.leads() || !e.decided() || e.permit != nil || e.since.Before(before) {
		t.Errorf("leads %t, decided %t, asks %t, since %s", e.leads(), e.decided(), e.permit != nil, e.since)
	}
}

func TestOnlyALeaderWritesToKubernetes(t *testing.T) {
	var methods []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		methods = append(methods, r.Method)
	}))
	defer server.Close()
	refusal := errors.New("the lease is another's")
	e := &election{permit: func() error { return refusal }}
	config := &rest.Config{Host: server.URL}
	e.guard(config)
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	try := func(method string) error {
		r, err := http.NewRequestWithContext(t.Context(), method, server.URL, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(r)
		if err == nil {
			answer.Body.Close()
		}
		return err
	}
	for _, method := range []string{http.MethodPost, http.MethodPatch, http.MethodPut, http.MethodDelete} {
		if err := try(method); !errors.Is(err, refusal) {
			t.Errorf("%s: error %v, want %v", method, err, refusal)
		}
	}
	if err := try(http.MethodGet); err != nil {
		t.Error(err)
	}
	refusal = nil
	if err := try(http.MethodPatch); err != nil {
		t.Error(err)
	}
	if got := strings.Join(methods, " "); got != "GET PATCH" {
		t.Errorf("what arrived is %q", got)
	}
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
	u.audience.tell(func(user inventoryUser) { user.Moved("of the leader") })
	return nil
}

func TestAControllerActsSinceItsProcessLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lease := &playedLease{}
		former := newCandidate(t, lease, "a")
		c := newCandidate(t, lease, "b")
		p := &process{election: c.election, running: t.Context(), shared: &sharedInventory{audits: &auditLog{}}}
		p.shared.audits.logger, p.shared.audits.recovered = klog.FromContext(quietly(t)), func() {}
		p.shared.audits.audited(neutron.Audit{})
		u := &playedUser{audience: &p.audience}
		built := p.serve(u)
		done := make(chan error, 1)
		go func() { done <- p.lead(built) }()
		<-time.After(time.Hour)
		p.audience.tell(func(user inventoryUser) { user.Moved("of the standby") })
		resigned := time.Now()
		former.resign()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if !u.since.Equal(c.since) || u.since.Before(resigned) {
			t.Errorf("it acts since %s, and its process leads since %s", u.since, c.since)
		}
		if diff := cmp.Diff([]string{"of the leader"}, u.told); diff != "" {
			t.Errorf("what it was told (-want +got):\n%s", diff)
		}
	})
}

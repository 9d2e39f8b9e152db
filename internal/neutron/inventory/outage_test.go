package inventory

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// weather is a transport to a fake cloud that can be made to fail.
type weather struct {
	f *fakeCloud
	// down is how much of the cloud does not answer: requests whose path has it for a prefix; nil for nothing.
	down atomic.Pointer[string]
	sent atomic.Int64
}

func (w *weather) RoundTrip(r *http.Request) (*http.Response, error) {
	w.sent.Add(1)
	if down := w.down.Load(); down != nil && strings.HasPrefix(r.URL.Path, *down) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	return direct{Handler: w.f}.RoundTrip(r)
}

// inWeather runs a test with an Inventory whose cloud is watched over.
func inWeather(
	t *testing.T, options Options, test func(ctx context.Context, i *Inventory, w *weather, told *atomic.Value),
) {
	synctest.Test(t, func(t *testing.T) {
		w := &weather{}
		var told atomic.Value
		told.Store("")
		var c *client.Cloud
		w.f, c = inBubble(t, newFakeNeutron().ServeHTTP, client.Options{Transport: w, Outage: func(o client.Outage) {
			if o.Over.IsZero() {
				told.Store("began")
			} else {
				told.Store("over")
			}
		}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); c.Run(ctx) }()
		synctest.Wait()
		test(ctx, New(c, cluster, options), w, &told)
		cancel()
		<-done
	})
}

func TestTheInventoryAuditsAsSoonAsTheOutageIsOver(t *testing.T) {
	var last atomic.Pointer[Audit]
	options := Options{Interval: time.Hour, Audited: func(a Audit) { last.Store(&a) }}
	inWeather(t, options, func(ctx context.Context, i *Inventory, w *weather, told *atomic.Value) {
		ctx, cancel := context.WithCancel(ctx)
		done := make(chan struct{})
		w.down.Store(new("/"))
		go func() { defer close(done); i.Run(ctx) }()
		elapse(time.Hour)
		if last.Load().Err == nil || told.Load() != "began" {
			t.Fatalf("an audit of a dead cloud ended with %v; the outage is told to be %q", last.Load().Err, told.Load())
		}
		w.down.Store(nil)
		for told.Load() != "over" {
			elapse(time.Second)
		}
		synctest.Wait()
		if err := last.Load().Err; err != nil {
			t.Errorf("the cloud is back, and the last audit still failed: %v", err)
		}
		if _, err := i.Observed(ctx, plan.Owner{Cluster: cluster, Object: "o"}, time.Time{}); err != nil {
			t.Error(err)
		}
		cancel()
		<-done
	})
}

// Who waits for a list that another began during the outage may have been looked at after all were woken: its failure
// would name a pause that nobody ends.
func TestAListThatTheOutageKeptBackFailsNobodyAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := inBubble(t, newFakeNeutron().ServeHTTP, client.Options{})
		i := New(c, cluster, Options{})
		f := &flight{began: time.Now(), done: make(chan struct{})}
		i.networks.listed.flight = f
		i.networks.listed.hear()
		got := make(chan error)
		go func() {
			_, err := i.Observed(t.Context(), ownerOf("o"), time.Time{})
			got <- err
		}()
		synctest.Wait()
		i.mu.Lock()
		i.networks.listed.flight = nil
		i.mu.Unlock()
		f.err = fmt.Errorf("kept back: %w", client.ErrOutage)
		close(f.done)
		expect.NoError(t, <-got)
	})
}

// A log-in that hangs would hold up the probe, too.
func TestALookByNameLogsNobodyInDuringAnOutage(t *testing.T) {
	inWeather(t, Options{}, func(ctx context.Context, i *Inventory, w *weather, told *atomic.Value) {
		if _, err := i.Identity(ctx); err != nil {
			t.Fatal(err)
		}
		w.f.Revoke()
		w.down.Store(new("/v3/"))
		_, _ = i.Find(ctx, plan.KindNetwork, "n", ownerOf("o"))
		elapse(time.Minute)
		if told.Load() != "began" {
			t.Fatalf("told %q", told.Load())
		}
		before := w.sent.Load()
		if _, err := i.Find(ctx, plan.KindNetwork, "n", ownerOf("o")); !errors.Is(err, client.ErrOutage) {
			t.Errorf("got %v", err)
		}
		if sent := w.sent.Load() - before; sent > 0 {
			t.Errorf("%d requests", sent)
		}
		w.down.Store(nil)
		elapse(time.Minute)
	})
}

package app

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/record"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/metric"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// TestTermsAreNumberedByTheLease holds the order that inventory.Term promises, over takeovers of each way.
func TestTermsAreNumberedByTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lease := &playedLease{}
		a, b := newCandidate(t, lease, "a"), newCandidate(t, lease, "b")
		first, leads := a.term()
		if again, _ := a.term(); !leads || first.Number != 1 || first.Holder == "" || first != again {
			t.Errorf("the first term is %v, then %v; leads %t", first, again, leads)
		}
		if _, leads := b.term(); leads {
			t.Error("a standby has a term")
		}
		a.resign()
		until(t, a, b, b.mayWrite)
		second, _ := b.term()
		if second.Number != 2 || second.Holder == first.Holder {
			t.Errorf("after a release the next term is %v", second)
		}
		<-time.After(time.Hour)
		synctest.Wait()
		if kept, _ := b.term(); kept != second {
			t.Errorf("after an hour the term is %v", kept)
		}
		c := newCandidate(t, lease, "c")
		b.seat.set(func() { b.seat.cut = true }) // as if killed
		until(t, b, c, c.mayWrite)
		if _, leads := b.term(); leads {
			t.Error("a former leader has a term")
		}
		if third, _ := c.term(); third.Number != 3 {
			t.Errorf("after a kill the next term is %v", third)
		}
	})
	if _, leads := alone().term(); leads {
		t.Error("without an election there is a term")
	}
}

func TestADisputeIsToldOnce(t *testing.T) {
	metric.Register()
	for name, c := range map[string]struct {
		ref    managed.CloudRef
		events int
	}{
		"in the process's own cloud": {managed.CloudRef{}, 1},
		"in a user's cloud":          {inTeam, 0},
	} {
		t.Run(name, func(t *testing.T) {
			events := record.NewFakeRecorder(10)
			logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
			resumed := 0
			s := &standingLog{
				ref: c.ref, cluster: "c1", recorder: events, logger: klog.New(logger.GetSink()), resumed: func() { resumed++ },
			}
			defer forgetCloud(c.ref)
			hold := func(want float64, wantResumed int) {
				t.Helper()
				if got := disputes(t); got != want || resumed != wantResumed {
					t.Errorf("metric %v, resumed %d times; want %v, %d", got, resumed, want, wantResumed)
				}
			}
			s.log(inventory.Standing{Disputed: true})
			hold(1, 0)
			s.log(inventory.Standing{Disputed: true, Unknown: errors.New("forbidden")})
			hold(1, 0)
			s.log(inventory.Standing{Disputed: true})
			s.log(inventory.Standing{})
			hold(0, 1)
			if len(events.Events) != c.events {
				t.Fatalf("%d Events, want %d", len(events.Events), c.events)
			}
			if c.events > 0 {
				if event := <-events.Events; !strings.HasPrefix(event, "Warning IdentityDisputed ") ||
					!strings.Contains(event, "Stop one of them") {
					t.Errorf("Event %q", event)
				}
			}
		})
	}
}

// disputes is the sum of the metric over all clouds.
func disputes(t *testing.T) (sum float64) {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	expect.NoError(t, err)
	for _, family := range families {
		if family.GetName() == "network_controller_identity_disputed" {
			for _, m := range family.GetMetric() {
				sum += m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

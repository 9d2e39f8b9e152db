package inventory

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// TestAWritePassesTheGatesInTheirOrder closes all gates and opens one after the other. GateKeeper is for deletions;
// see TestADuplicateGoesOnlyWhileItsKeeperExists.
func TestAWritePassesTheGatesInTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, w := newFakeNeutron(), &weather{}
		var over, leads atomic.Bool
		var cloud *client.Cloud
		w.f, cloud = inBubble(t, n.ServeHTTP, client.Options{
			Transport: w, Outage: func(o client.Outage) { over.Store(!o.Over.IsZero()) },
		})
		var held []client.Gate
		i := New(cloud, cluster, Options{
			Term:     func() (Term, bool) { return Term{Lease: "l", Number: 1, Holder: "h"}, true },
			HeldBack: func(by client.Gate) { held = append(held, by) },
		})
		watch, stop := context.WithCancel(t.Context())
		defer stop()
		go cloud.Run(watch)
		is, err := i.Identity(t.Context())
		expect.NoError(t, err)

		n.setBefore(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodGet {
				return false
			}
			w.Header().Set("Retry-After", "3600")
			answer(w, http.StatusTooManyRequests, "")
			return true
		})
		within := client.Within(client.WithPermit(t.Context(), func() error {
			if leads.Load() {
				return nil
			}
			return errors.New("another process leads")
		}), client.Identity{Endpoint: is.Endpoint, Region: is.Region, ProjectID: "another"})
		create := func(ctx context.Context) error {
			_, err := i.Apply(ctx, plan.Change{{
				Action: plan.CreateGroup, Group: plan.GroupAttributes{Name: "g", Description: ownerOf("o").Marker()},
			}})
			return err
		}
		i.term.of, i.term.looked = is, time.Now()
		if err := create(t.Context()); !client.IsKind(err, client.Throttled) {
			t.Fatalf("Neutron limits the rate, and the error is %v", err)
		}
		i.term.last.disputed = true
		i.kept.lost(scope{of: groupKind.Collection})
		i.kept.losses[scope{of: groupKind.Collection}].next = time.Now().Add(1000 * time.Hour)
		quota := quotaOf(groupKind.Collection)
		i.full.full[quota] = &shortage{
			refusal: client.Error{Kind: client.Capacity, Type: "OverQuota"}, next: time.Now().Add(1000 * time.Hour),
			waiting: map[string]bool{},
		}
		w.down.Store(new("/"))
		for range 5 {
			_, _ = i.Find(t.Context(), plan.KindNetwork, "n", ownerOf("o"))
		}
		elapse(time.Minute)

		open := map[client.Gate]func(){
			client.GateDispute: func() { i.term.last.disputed = false },
			client.GateRate:    func() { elapse(time.Hour) },
			client.GateMarker:  func() { i.kept.has(scope{of: groupKind.Collection}) },
			client.GateRoom:    func() { i.full.forget() },
			client.GatePermit:  func() { leads.Store(true) },
			client.GateOutage: func() {
				w.down.Store(nil)
				for !over.Load() {
					elapse(time.Second)
				}
			},
			client.GateIdentity: func() { within = client.Within(within, is) },
		}
		var want []client.Gate
		for _, gate := range client.Gates {
			if open[gate] == nil {
				continue
			}
			if err := create(within); client.GateOf(err) != gate {
				t.Errorf("the gate %q holds back a write, want %q: %v", client.GateOf(err), gate, err)
			}
			want = append(want, gate)
			open[gate]()
		}
		expect.Equal(t, want, held, "the gates that are reported")
		if err := create(within); client.GateOf(err) != "" || !client.IsKind(err, client.Throttled) {
			t.Errorf("all gates are open, and Neutron's answer is %v", err)
		}
	})
}

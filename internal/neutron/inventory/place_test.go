package inventory

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/batch"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/cloudtest"
	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestAPortIsLocated(t *testing.T) {
	i, admin, owner, id := boundPort(t, "")
	b := Binder{Inventory: i, As: admin}
	expect.NoError(t, b.Bind(t.Context(), owner, id, "node1"))
	put := func(body map[string]any) {
		t.Helper()
		byHand(t, admin, http.MethodPut, portKind.Path(id), "port", body)
	}
	want := func(b Binder, host string) {
		t.Helper()
		at, found, err := b.Locate(t.Context(), owner, id)
		is := "unknown"
		if at.Host != nil {
			is = *at.Host
		}
		if err != nil || !found || is != host || at.Subport {
			t.Errorf("the port is on %s, %+v, %t, %v; want %s", is, at, found, err, host)
		}
	}
	want(b, "node1")
	for _, host := range []string{"node2", ""} {
		put(map[string]any{"binding:host_id": host})
		want(b, host)
	}
	want(Binder{Inventory: i}, "unknown") // a member does not see it
	_, elsewhere := cloudtest.Emulated(t, neutrontest.Options{}, nil)
	want(Binder{Inventory: i, As: elsewhere}, "unknown")

	put(map[string]any{"device_owner": deviceOwnerSubport}) // as Neutron does with OVN
	if at, found, err := b.Locate(t.Context(), owner, id); !found || !at.Subport || err != nil {
		t.Errorf("in a trunk: %+v, %t, %v", at, found, err)
	}
}

// TestThePortsOwnerHearsThatItIsGone at once, and once: it makes it again.
func TestThePortsOwnerHearsThatItIsGone(t *testing.T) {
	i, admin, owner, id := boundPort(t, "")
	var moved []string
	i.options.Moved = func(object string) { moved = append(moved, object) }
	byHand(t, admin, http.MethodDelete, portKind.Path(id), "", nil)
	for range 2 {
		if _, found, err := (Binder{Inventory: i, As: admin}).Locate(t.Context(), owner, id); found || err != nil {
			t.Errorf("found %t, %v", found, err)
		}
	}
	if !slices.Equal(moved, []string{owner.Object}) {
		t.Errorf("told %v", moved)
	}
	if _, held := i.ports.get(id); held {
		t.Error("the Inventory still holds it")
	}
}

// TestManyPortsAreLocatedByFewCalls, as when the ovn-controller of a node is away. Each caller gets the answer of a call
// that began after it asked, and the error of its own.
func TestManyPortsAreLocatedByFewCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l locator
		sent, answers := make(chan []string, 9), make(chan error)
		read := func(_ context.Context, ids []string) (map[string]Place, error) {
			sent <- ids
			err := <-answers
			places := map[string]Place{}
			for _, id := range ids {
				places[id] = Place{Host: &id}
			}
			return places, err
		}
		var all sync.WaitGroup
		failed := make(chan string, 2*maxLocated)
		ask := func(ctx context.Context, id string) {
			all.Go(func() {
				places, err := l.locate(ctx, id, read)
				if err != nil {
					failed <- id
				} else if *places[id].Host != id {
					t.Errorf("the answer for %s is %v", id, places)
				}
			})
			synctest.Wait()
		}
		leaving, leave := context.WithCancel(t.Context())
		ask(leaving, "first")
		for n := range maxLocated + 5 {
			ask(t.Context(), fmt.Sprint(n))
		}
		if ids := <-sent; !slices.Equal(ids, []string{"first"}) || len(sent) > 0 {
			t.Fatalf("sent %v and %d more", ids, len(sent))
		}
		leave() // others may wait for its call
		answers <- nil
		synctest.Wait()
		expect.Len(t, maxLocated, <-sent, "ports that the second call is about")
		answers <- nil
		answers <- errors.New("the cloud is away")
		all.Wait()
		expect.Len(t, 1+5, failed, "callers that failed, the one that left and those of the last call")
	})
}

// Callers that are confined to different clouds share no call.
func TestPlacesOfOneCloudAreNotToldForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l locator
		release := make(chan struct{})
		var all sync.WaitGroup
		for _, endpoint := range []string{"first", "one", "two", "one"} {
			of := client.Identity{Endpoint: endpoint}
			all.Go(func() {
				_, err := l.locate(client.Within(t.Context(), of), "port",
					func(ctx context.Context, _ []string) (map[string]Place, error) {
						<-release
						return nil, client.Outside(ctx, opLocate, of)
					})
				if err != nil {
					t.Errorf("at %s: %v", endpoint, err)
				}
			})
			synctest.Wait()
		}
		close(release)
		all.Wait()
	})
}

// TestABoundPortIsDeletedAtOnce although Neutron moves its revision while the deletion waits for its turn: its status
// changes when its Pod has ended, and that of many Pods over many seconds.
func TestABoundPortIsDeletedAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		change  map[string]any
		refused bool
	}{
		"only its status changed":         {map[string]any{"binding:host_id": "node2"}, false},
		"somebody gave it another device": {map[string]any{"device_id": "server"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			i, admin, owner, id := boundPort(t, "")
			expect.NoError(t, (Binder{Inventory: i, As: admin}).Bind(t.Context(), owner, id, "node1"))
			e := emulated{Inventory: i, t: t, owner: owner}
			change, err := plan.Delete(owner, e.observed())
			expect.NoError(t, err)

			turn := make(chan struct{})
			deadline := time.Now().Add(time.Minute)
			until := func(is func(batch.Load) bool) {
				t.Helper()
				for !is(i.queue.Load()) {
					if time.Now().After(deadline) {
						t.Fatalf("the queue has %+v", i.queue.Load())
					}
					runtime.Gosched()
				}
			}
			var all sync.WaitGroup
			for range i.queue.Load().Limit {
				all.Go(func() { _ = i.queue.Write(t.Context(), "hold", "", func() error { <-turn; return nil }) })
			}
			until(func(l batch.Load) bool { return l.Calls == l.Limit })
			all.Go(func() { _, err = i.Apply(t.Context(), change) })
			until(func(l batch.Load) bool { return l.Waiting == 1 })
			byHand(t, admin, http.MethodPut, portKind.Path(id), "port", c.change)
			expect.NoError(t, i.Audit(t.Context())) // as an audit does meanwhile
			close(turn)
			all.Wait()
			if client.IsConflict(err) != c.refused || err != nil && !c.refused {
				t.Errorf("deleting: %v, want a conflict: %t", err, c.refused)
			}
			if len(i.bound) > 0 != c.refused {
				t.Errorf("the Inventory remembers %v", i.bound)
			}
		})
	}
}

package inventory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// crowd is many objects that each want one thing of a Neutron with a quota. Each tries again with backoff, after the
// pause that an error names, or when it is woken, as a Loop does.
type crowd struct {
	*Inventory
	neutron *fakeNeutron

	mu sync.Mutex
	// room is how many more the quota permits. posts are the calls, made what was created, said what objects were told.
	room, posts int
	made        map[string]bool
	said        map[string]bool
	wakes       map[string]chan struct{}
}

// crowdRefusals are Neutron's, by collection.
var crowdRefusals = map[string][2]string{
	"networks": {"OverQuota", "Quota exceeded for resources: ['network']."},
	"ports":    {"IpAddressGenerationFailure", "No more IP addresses available on network net."},
}

func newCrowd(t *testing.T, collection string, room int) *crowd {
	c := &crowd{
		neutron: newFakeNeutron(), room: room,
		made: map[string]bool{}, said: map[string]bool{}, wakes: map[string]chan struct{}{},
	}
	c.neutron.setBefore(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost {
			return false
		}
		content, _ := io.ReadAll(r.Body)
		items := 1
		var bulk map[string][]json.RawMessage
		if json.Unmarshal(content, &bulk) == nil && bulk[collection] != nil {
			items = len(bulk[collection])
		}
		elapse(100 * time.Millisecond)
		c.mu.Lock()
		c.posts++
		refused := items > c.room
		if !refused {
			c.room -= items
		}
		c.mu.Unlock()
		if refused {
			refuse(w, http.StatusConflict, crowdRefusals[collection][0], crowdRefusals[collection][1])
			return true
		}
		r.Body = io.NopCloser(strings.NewReader(string(content)))
		return false
	})
	_, cloud := inBubble(t, c.neutron.ServeHTTP, client.Options{})
	c.Inventory = New(cloud, cluster, Options{Ports: true, Moved: func(object string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if wake := c.wakes[object]; wake != nil {
			select {
			case wake <- struct{}{}:
			default:
			}
		}
	}})
	return c
}

func (c *crowd) live(ctx context.Context, object string, step plan.Step) {
	wake := make(chan struct{}, 1)
	c.mu.Lock()
	c.wakes[object] = wake
	c.mu.Unlock()
	backoff := 250 * time.Millisecond
	for ctx.Err() == nil {
		_, err := c.Apply(ctx, plan.Change{step})
		c.mu.Lock()
		if err == nil {
			c.made[object] = true
			c.mu.Unlock()
			return
		}
		c.said[err.Error()] = true
		c.mu.Unlock()
		pause := backoff
		backoff = min(2*backoff, time.Minute)
		if refusal, ok := errors.AsType[*client.Error](err); ok && refusal.Wait > 0 {
			pause = refusal.Wait
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-wake:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

func (c *crowd) take() (posts, made int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	posts, c.posts = c.posts, 0
	return posts, len(c.made)
}

func TestWhatIsFullIsTriedByOneAtATime(t *testing.T) {
	for collection, step := range map[string]func(object string) plan.Step{
		"networks": func(object string) plan.Step {
			return plan.Step{Action: plan.CreateNetwork, Attributes: plan.Attributes{
				Name: object, Description: ownerOf(object).Marker(),
			}}
		},
		"ports": func(object string) plan.Step {
			return plan.Step{Action: plan.CreatePort, NetworkRef: plan.Ref{ID: "net"}, Port: plan.PortAttributes{
				Name: object, Description: ownerOf(object).Marker(), Addresses: []plan.PortAddress{{SubnetID: "sub"}},
			}}
		},
	} {
		t.Run(collection, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const objects, room = 80, 10
				c := newCrowd(t, collection, room)
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				for n := range objects {
					object := fmt.Sprintf("o%d", n)
					wg.Go(func() { c.live(ctx, object, step(object)) })
				}
				elapse(time.Minute)
				if posts, made := c.take(); made != room || posts > 80 {
					t.Errorf("in the first minute, %d creates with room for %d: %d made", posts, room, made)
				}
				elapse(5 * time.Minute)
				if posts, made := c.take(); posts > 15 || made != room {
					t.Errorf("%d creates in five minutes, though there is no room", posts)
				}
				expect.Len(t, 1, c.said, "the objects were told")
				// A deletion makes room, and is noticed at once.
				c.mu.Lock()
				c.room = 1
				c.mu.Unlock()
				c.full.after(plan.Step{Action: map[string]plan.Action{
					"networks": plan.DeleteNetwork, "ports": plan.DeletePort,
				}[collection]})
				elapse(5 * time.Second)
				if posts, made := c.take(); made != room+1 || posts > 40 {
					t.Errorf("after a deletion: %d creates, %d made", posts, made)
				}
				// So is a quota that was raised, soon.
				c.mu.Lock()
				c.room = objects
				c.mu.Unlock()
				elapse(fullLast + 30*time.Second)
				if posts, made := c.take(); made != objects {
					t.Errorf("with room for all: %d creates, %d made", posts, made)
				}
				cancel()
				wg.Wait()
			})
		})
	}
}

// A port with a requested address does not wait for those that take any.
func TestARequestedAddressWaitsForNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, "ports", 0)
		first := plan.Step{Action: plan.CreatePort, NetworkRef: plan.Ref{ID: "net"}, Port: plan.PortAttributes{
			Description: ownerOf("first").Marker(), Addresses: []plan.PortAddress{{SubnetID: "sub"}},
		}}
		other := first
		other.NetworkRef = plan.Ref{ID: "other"}
		for range 3 {
			_, _ = c.Apply(t.Context(), plan.Change{first})
		}
		if posts, _ := c.take(); posts != 1 {
			t.Errorf("%d creates", posts)
		}
		c.room = 1
		if _, err := c.Apply(t.Context(), plan.Change{other}); err != nil {
			t.Errorf("another network waits, too: %v", err)
		}
	})
}

// Objects come and go while something is full, and nobody says which of them are gone.
func TestNotAllThatWaitAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := newFullness(func(string) {})
		for i := range 2 * mostWaiting {
			of := plan.Owner{Cluster: cluster, Object: fmt.Sprint("uid-", i)}
			step := plan.Step{Action: plan.CreatePort}
			if a := full.attempt(portKind.Collection, step, of.Marker()); a.held() == nil {
				a.ended(&client.Error{Type: "OverQuota"})
			}
		}
		if n := len(full.full[quotaOf(portKind.Collection)].waiting); n != mostWaiting {
			t.Errorf("%d objects are remembered to wait, want %d", n, mostWaiting)
		}
	})
}

// Networks come and go: what was full of one that is gone is forgotten.
func TestAShortageThatNobodyMeetsIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := newFullness(func(string) {})
		meet := func(network string) {
			step := plan.Step{Action: plan.CreatePort}
			step.NetworkRef.ID = network
			if a := full.attempt(portKind.Collection, step, ""); a.held() == nil {
				a.ended(&client.Error{Type: "IpAddressGenerationFailure"})
			}
		}
		for i := range 100 {
			meet(fmt.Sprint("net-", i))
			<-time.After(time.Minute)
			meet("net-0") // One that is met stays.
		}
		if n := len(full.full); n > 20 {
			t.Errorf("%d networks are remembered to be full after 100 minutes, one a minute", n)
		}
		if _, kept := full.full["addresses net-0 "]; !kept {
			t.Errorf("a network that is met each minute is forgotten: %v", slices.Collect(maps.Keys(full.full)))
		}
	})
}

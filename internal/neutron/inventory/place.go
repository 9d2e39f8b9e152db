package inventory

import (
	"context"
	"maps"
	"net/url"
	"slices"
	"sync"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// opLocate is the operation's name in errors and metrics.
const opLocate = "locate ports"

// Place is where Neutron expects a port.
type Place struct {
	// Host is binding:host_id; nil if the credentials may not see it.
	Host *string
	// Subport says that the port is in a trunk.
	Subport bool
}

// Locate reads live where Neutron expects a port. Many callers share a call, so that the ports of a node cost few.
//
// It reports false if the port is not there any more. Then the Inventory does not hold it either, and has notified its
// owner (Options.Moved).
func (b Binder) Locate(ctx context.Context, owner plan.Owner, id string) (at Place, found bool, err error) {
	cloud := b.cloud
	if b.As != nil {
		same, err := b.sameNeutron(ctx)
		if err != nil {
			return at, false, err
		}
		if same {
			cloud = b.As
		}
	}
	places, err := b.locator.locate(ctx, id, func(ctx context.Context, ids []string) (map[string]Place, error) {
		return locate(ctx, cloud, ids)
	})
	if err != nil {
		return at, false, err
	}
	if at, found = places[id]; found {
		return at, true, nil
	}
	held := b.ports.ownerOf(id) == owner
	if found, err = b.Reread(ctx, plan.Resource{Kind: plan.KindPort, ID: id}); found || err != nil {
		return at, found, err // only these credentials see it
	}
	if held {
		b.notify(map[string]bool{owner.Object: true})
	}
	return at, false, nil
}

// wirePlace is a port with where Neutron expects it.
type wirePlace struct {
	ID          string  `json:"id"`
	Host        *string `json:"binding:host_id"`
	DeviceOwner string  `json:"device_owner"`
}

func (w wirePlace) Key() string { return w.ID }

// deviceOwnerSubport is the device_owner of a port in a trunk.
const deviceOwnerSubport = "trunk:subport"

// locate reads where ports are, by one call.
func locate(ctx context.Context, cloud *client.Cloud, ids []string) (map[string]Place, error) {
	found, err := client.List[wirePlace](ctx, cloud, opLocate, portKind.Collection,
		url.Values{"id": ids, "fields": fieldsOf[wirePlace]()})
	if err != nil {
		return nil, err
	}
	places := make(map[string]Place, len(found))
	for _, w := range found {
		places[w.ID] = Place{w.Host, w.DeviceOwner == deviceOwnerSubport}
	}
	return places, nil
}

// maxLocated is how many ports one call locates. Web servers in front of Neutron take about 8 KiB of address, some 4.
const maxLocated = 60

// locator gathers, while a call is under way, what the next one reads. Its zero value is ready.
type locator struct {
	mu sync.Mutex
	// last is the call that was begun or gathered last.
	last *location
}

// location is a call, and its answer once done is closed.
type location struct {
	// of is what the callers' contexts are Within. What one cloud says is no answer for another.
	of client.Identity
	// ids are gathered until begun. The locator's mu guards both.
	ids    map[string]bool
	begun  bool
	done   chan struct{}
	places map[string]Place
	err    error
}

// locate returns what read returns for the id and others. The read begins after the call of locate.
func (l *locator) locate(
	ctx context.Context, id string, read func(context.Context, []string) (map[string]Place, error),
) (map[string]Place, error) {
	of, _ := client.Wanted(ctx)
	l.mu.Lock()
	before := l.last
	if before == nil || before.begun || before.of != of || len(before.ids) == maxLocated {
		l.last = &location{of: of, ids: map[string]bool{}, done: make(chan struct{})}
		// Others wait for it, too: it does not end with this caller.
		go l.send(context.WithoutCancel(ctx), l.last, before, read)
	}
	mine := l.last
	mine.ids[id] = true
	l.mu.Unlock()
	select {
	case <-mine.done:
		return mine.places, mine.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// send sends a call, once the one before has ended.
func (l *locator) send(
	ctx context.Context, c, before *location, read func(context.Context, []string) (map[string]Place, error),
) {
	defer close(c.done)
	if before != nil {
		<-before.done
	}
	l.mu.Lock()
	c.begun = true
	l.mu.Unlock()
	c.places, c.err = read(ctx, slices.Sorted(maps.Keys(c.ids)))
}

package inventory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// keeping remembers of which collections the cloud does not keep the descriptions, and so the owners' markers. What has
// no marker is not found again: each sync would create another one. So nothing more is created there, and what was
// created is deleted by the id in the answer. It is safe for concurrent use.
type keeping struct {
	mu     sync.Mutex
	losses map[client.Collection]*loss
	// left is what could not be deleted yet, by the UID of its object.
	left map[string][]leftover
}

// loss is a collection without descriptions. next is when one create may find out whether that has changed, pause after
// the last one.
type loss struct {
	next  time.Time
	pause time.Duration
}

// leftover is a resource without a marker that was created here.
type leftover struct {
	of client.Collection
	id string
	// discard deletes it, unless it has the marker all the same.
	discard func(ctx context.Context) (marked bool, err error)
}

const (
	// The pause between two creates that find out whether a cloud keeps descriptions doubles from keptFirst to keptLast.
	keptFirst = time.Hour
	keptLast  = 24 * time.Hour
	// newFor is how old a resource may be, by its own created_at and any clocks, for an answer to a create to be of it.
	newFor = time.Hour
	// readLag is how long after a create a read may still lack the resource, as with a database cluster behind several
	// API servers.
	readLag = time.Minute
)

func newKeeping() *keeping {
	return &keeping{losses: map[client.Collection]*loss{}, left: map[string][]leftover{}}
}

// notKept is the error of a create, or of an update of the description, in a collection without descriptions. also is
// what else there is to say.
func notKept(op string, of client.Collection, unsent bool, also string) error {
	return &client.Error{Kind: client.NotKept, Op: op, Unsent: unsent, Reason: fmt.Sprintf(
		"this cloud does not keep the description of a %s, which has the ownership marker%s", nameOf(of), also)}
}

// held returns an error if nothing may be written that needs its description. Otherwise, if the collection has lost
// descriptions, the caller is the one that finds out whether it still does.
func (k *keeping) held(op string, of client.Collection) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.losses[of]
	switch {
	case l == nil:
		return nil
	case time.Now().Before(l.next) || k.hasLeft(of):
		return notKept(op, of, true, "")
	}
	l.next = time.Now().Add(l.pause)
	l.pause = min(2*l.pause, keptLast)
	return nil
}

// hasLeft reports whether something of a collection is not deleted yet. The caller holds mu.
func (k *keeping) hasLeft(of client.Collection) bool {
	for _, all := range k.left {
		if slices.ContainsFunc(all, func(l leftover) bool { return l.of == of }) {
			return true
		}
	}
	return false
}

// told records whether an answer had the description that was asked for.
func (k *keeping) told(of client.Collection, kept bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if kept {
		delete(k.losses, of)
	} else if k.losses[of] == nil {
		k.losses[of] = &loss{time.Now().Add(keptFirst), 2 * keptFirst}
	}
}

// discard deletes what was created without a marker. What cannot be deleted now is remembered for its object. The error
// is MaybeDone if it has the marker all the same.
func (k *keeping) discard(ctx context.Context, op, object string, l leftover) error {
	marked, err := l.discard(ctx)
	if marked {
		return l.found(op)
	}
	k.told(l.of, false)
	if err == nil {
		return notKept(op, l.of, false, "")
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.left[object] = append(k.left[object], l)
	return l.stays(op, err)
}

// found is the error of what has its marker: a list shows it.
func (l leftover) found(op string) error {
	return client.BadAnswer(op, http.MethodPost, "it lacks the description that %s %s has", nameOf(l.of), l.id)
}

// stays is the error of what could not be deleted.
func (l leftover) stays(op string, err error) error {
	reason := err.Error()
	if refusal, ok := errors.AsType[*client.Error](err); ok {
		reason = refusal.Reason
	}
	return notKept(op, l.of, false, fmt.Sprintf("; %s %s, which was created, is not deleted yet: %s", nameOf(l.of), l.id,
		reason))
}

// forget drops everything, because the credentials lead to another project.
func (k *keeping) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.losses)
	clear(k.left)
}

// Discard deletes what was created for an owner, does not have the owner's marker, and could not be deleted at once.
// The caller MUST call it before it concludes from an Observed that the owner has nothing. If the error is MaybeDone,
// it MUST NOT plan from an Observed of before it.
func (i *Inventory) Discard(ctx context.Context, owner plan.Owner) error {
	k := i.kept
	k.mu.Lock()
	all := slices.Clone(k.left[owner.Object])
	k.mu.Unlock()
	for _, l := range all {
		op := "delete " + nameOf(l.of)
		marked, err := l.discard(ctx)
		if err != nil {
			return l.stays(op, err)
		}
		k.mu.Lock()
		k.left[owner.Object] = slices.DeleteFunc(k.left[owner.Object], func(o leftover) bool { return o.id == l.id })
		if len(k.left[owner.Object]) == 0 {
			delete(k.left, owner.Object)
		}
		k.mu.Unlock()
		if marked {
			return l.found(op)
		}
	}
	return nil
}

// nameOf is what users call one of a collection.
func nameOf(of client.Collection) string {
	switch of {
	case floatingIPAPI:
		return string(plan.KindFloatingIP)
	case termCollection:
		return "subnet pool"
	}
	return strings.ReplaceAll(of.One, "_", " ")
}

// markerIn is the owner whose marker ends a description in JSON.
func markerIn(resource map[string]any) (owner plan.Owner, marked bool) {
	text, _ := resource["description"].(string)
	_, owner, marked = plan.ParseDescription(text)
	return owner, marked
}

// answers checks that the answer to a create is of what was asked for. If the answers to several creates were mixed up,
// each caller would take another's resource for its own. If the cloud did not keep the marker, the resource is deleted.
func (k kind[W, T]) answers(
	ctx context.Context, a *access, op string, body map[string]any, answer json.RawMessage,
) error {
	var told map[string]any
	if err := json.Unmarshal(answer, &told); err != nil {
		return nil //nolint:nilerr // the caller decodes it, too, and says why it cannot
	}
	owner, marks := markerIn(body)
	of, marked := markerIn(told)
	mixed := marked && of != owner
	for _, field := range []string{"network_id", "subnetpool_id", "object_id", "target_tenant", "port_id"} {
		said, ok := told[field]
		mixed = mixed || ok && body[field] != nil && said != body[field]
	}
	id, _ := told["id"].(string)
	switch made := time.Now(); {
	case mixed:
		return client.BadAnswer(op, http.MethodPost, "it is of another %s than the one that was asked for", k.One)
	case !marks || id == "":
		return nil
	case marked:
		a.kept.told(k.Collection, true)
		return nil
	default:
		discard := func(ctx context.Context) (bool, error) { return k.discard(ctx, a, owner, id, made) }
		// The caller may not wait any more, and nobody else knows the id.
		return a.kept.discard(context.WithoutCancel(ctx), op, owner.Object, leftover{k.Collection, id, discard})
	}
}

// discarded is what is read of a resource before it is deleted by its id alone.
type discarded struct {
	ID          string      `json:"id"`
	Description string      `json:"description"`
	Created     client.Time `json:"created_at"`
	// Subnets are a network's.
	Subnets []string `json:"subnets"`
}

func (d discarded) Key() string { return d.ID }

// discard deletes a resource that was created here without the owner's marker. It reads it first: it may have the
// marker all the same, or the answer to the create may have been of another one, which somebody uses.
func (k kind[W, T]) discard(
	ctx context.Context, a *access, owner plan.Owner, id string, made time.Time,
) (marked bool, err error) {
	op := "delete " + nameOf(k.Collection)
	is, err := client.Get[discarded](ctx, a.cloud, "get "+k.One, k.Collection, k.fields, id)
	if err = k.gone(err); client.IsNotFound(err) && time.Since(made) > readLag {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, of, has := plan.ParseDescription(is.Description)
	switch {
	case has && of == owner:
		return true, nil
	case has, len(is.Subnets) > 0, !is.Created.IsZero() && made.Sub(is.Created.Time) > newFor:
		return false, &client.Error{Kind: client.Conflict, Op: op, Reason: "it is older than the request, or in use"}
	}
	return false, k.remove(ctx, a, plan.Step{Action: plan.Action(op), Ref: plan.Ref{ID: id}}, nil)
}

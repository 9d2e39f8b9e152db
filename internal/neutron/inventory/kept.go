package inventory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// keeping remembers where the cloud does not keep descriptions, and so the owners' markers. What has no marker is not
// found again: each sync would create another one. So nothing more is created there, and what was created is deleted by
// the id in the answer. It is safe for concurrent use.
type keeping struct {
	mu     sync.Mutex
	losses map[scope]*loss
	// left is what could not be deleted yet, by the UID of its object.
	left map[string][]leftover
}

// scope is where descriptions are lost: in a whole collection if description is empty, else only that description. It
// has its owner's text before the marker, and that may be too long for the cloud, or have what the cloud filters.
type scope struct {
	of          client.Collection
	description string
}

// lostAt is where the loss of a description belongs. Only a marker alone is evidence against the whole collection.
func lostAt(of client.Collection, description string) scope {
	if text, _, _ := plan.ParseDescription(description); text == "" {
		return scope{of: of}
	}
	return scope{of, description}
}

// loss is a scope without descriptions. next is when one write may find out whether that has changed, pause after that
// one.
type loss struct {
	next  time.Time
	pause time.Duration
}

// leftover is a resource without a marker that was created here.
type leftover struct {
	scope
	id string
	// discard deletes it. The error is errMarked or errTheirs if it must not.
	discard func(ctx context.Context) error
}

var (
	errMarked = errors.New("it has a marker nevertheless")
	// errTheirs is for what somebody else may have made, or has begun to use.
	errTheirs = errors.New("it is not the one that was asked for, or in use")
)

const (
	// The pause between two creates that find out whether a cloud keeps descriptions doubles from keptFirst to keptLast.
	keptFirst = time.Hour
	keptLast  = 24 * time.Hour
	// keptAgain is the pause after one that found out nothing, as with a full quota.
	keptAgain = time.Minute
	// discardPatience bounds the deletion of what has no marker, for which the caller may not wait.
	discardPatience = 30 * time.Second
	// newFor is how old a resource may be, by its own created_at and any clocks, for an answer to a create to be of it.
	newFor = time.Hour
	// readLag is how long after a create a read may still lack the resource, as with a database cluster behind several
	// API servers.
	readLag = time.Minute
	// mostLosses is the most scopes, and mostLeft the most objects with leftovers, that are remembered. A tenant's cloud
	// can make more without end, with objects that come and go. What is forgotten costs one more create.
	mostLosses, mostLeft = 1000, 1000
)

func newKeeping() *keeping {
	return &keeping{losses: map[scope]*loss{}, left: map[string][]leftover{}}
}

// notKept is the error of a create, or of an update of the description, in a collection without descriptions. also is
// what else there is to say.
func notKept(op string, of client.Collection, by client.Gate, also string) error {
	return &client.Error{Kind: client.NotKept, Op: op, Gate: by, Reason: fmt.Sprintf(
		"this cloud does not keep the description of a %s, which has the ownership marker%s", nameOf(of), also)}
}

// trial is a write that may need its description.
type trial struct {
	in *keeping
	op string
	scope
	// object is the UID of the owner, and marks whether the write has a marker at all.
	object string
	marks  bool
	// asked is true once it may be sent. tries are the scopes where it finds out whether descriptions are kept.
	asked bool
	tries []scope
}

// trial begins a write. ended MUST be called with its outcome.
func (k *keeping) trial(op string, of client.Collection, body map[string]any) *trial {
	description, _ := body["description"].(string)
	owner, marks := markerIn(body)
	return &trial{in: k, op: op, scope: lostAt(of, description), object: owner.Object, marks: marks}
}

// held returns an error if the write must not be sent, because its description would be lost. Otherwise, if some were
// lost there, this write is the one that finds out whether they still are.
func (t *trial) held() error {
	if !t.marks || t.asked {
		return nil
	}
	k := t.in
	k.mu.Lock()
	defer k.mu.Unlock()
	scopes := slices.Compact([]scope{{of: t.of}, t.scope})
	now := time.Now()
	early := func(p scope) bool { return k.losses[p] != nil && now.Before(k.losses[p].next) }
	left := func(l leftover) bool { return l.of == t.of }
	if slices.ContainsFunc(scopes, early) || slices.ContainsFunc(k.left[t.object], left) {
		return notKept(t.op, t.of, client.GateMarker, "")
	}
	t.asked = true
	for _, p := range scopes {
		if l := k.losses[p]; l != nil {
			l.next = now.Add(l.pause)
			t.tries = append(t.tries, p)
		}
	}
	return nil
}

// ended records the outcome of the write. If it found out nothing, another one may soon.
func (t *trial) ended(err error) {
	k := t.in
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range t.tries {
		switch l := k.losses[p]; {
		case l == nil:
		case p == t.scope && client.IsKind(err, client.NotKept):
			l.pause = min(2*l.pause, keptLast)
		default:
			l.next = time.Now().Add(keptAgain)
		}
	}
}

// lost records that a description was lost.
func (k *keeping) lost(at scope) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.losses[at] != nil {
		return
	}
	now := time.Now()
	maps.DeleteFunc(k.losses, func(p scope, l *loss) bool { return p.description != "" && now.Sub(l.next) > keptLast })
	makeRoom(k.losses, mostLosses)
	k.losses[at] = &loss{now.Add(keptFirst), 2 * keptFirst}
}

// has records that a description was kept, and with it that the collection keeps markers.
func (k *keeping) has(at scope) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.losses, at)
	delete(k.losses, scope{of: at.of})
}

// discard deletes what was created without a marker. What cannot be deleted now is remembered for its object, but not
// what is somebody else's: its object would never end. The error is MaybeDone if it has a marker all the same.
func (k *keeping) discard(ctx context.Context, op, object string, l leftover) error {
	err := l.discard(ctx)
	if errors.Is(err, errMarked) {
		return l.found(op)
	}
	k.lost(l.scope)
	if err == nil {
		return notKept(op, l.of, "", "")
	}
	if !errors.Is(err, errTheirs) {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.left[object] == nil {
			makeRoom(k.left, mostLeft)
		}
		k.left[object] = append(k.left[object], l)
	}
	return l.stays(op, err)
}

// makeRoom has a map keep less than the most that it may have.
func makeRoom[K comparable, V any](of map[K]V, most int) {
	for key := range of {
		if len(of) < most {
			return
		}
		delete(of, key)
	}
}

// found is the error of what has a marker. A list shows whose.
func (l leftover) found(op string) error {
	return client.BadAnswer(op, http.MethodPost, "it lacks the description that %s %s has", nameOf(l.of), l.id)
}

// stays is the error of what could not be deleted.
func (l leftover) stays(op string, err error) error {
	reason := err.Error()
	if refusal, ok := errors.AsType[*client.Error](err); ok {
		reason = refusal.Reason
	}
	return notKept(op, l.of, "", fmt.Sprintf("; %s %s, which the cloud says it created, is not deleted: %s",
		nameOf(l.of), l.id, reason))
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
		err := l.discard(ctx)
		marked := errors.Is(err, errMarked)
		if err != nil && !marked && !errors.Is(err, errTheirs) {
			return l.stays(op, err)
		}
		k.mu.Lock()
		k.left[owner.Object] = slices.DeleteFunc(k.left[owner.Object], func(o leftover) bool { return o.id == l.id })
		if len(k.left[owner.Object]) == 0 {
			delete(k.left, owner.Object)
		}
		k.mu.Unlock()
		switch {
		case marked:
			return l.found(op)
		case err != nil:
			return l.stays(op, err) // once
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
		return nil // the caller decodes it, too, and says why it cannot
	}
	owner, marks := markerIn(body)
	of, marked := markerIn(told)
	mixed := marked && of != owner
	for _, field := range []string{"network_id", "subnetpool_id", "object_id", "target_tenant", "port_id"} {
		said, ok := told[field]
		mixed = mixed || ok && body[field] != nil && said != body[field]
	}
	id, _ := told["id"].(string)
	description, _ := body["description"].(string)
	at := lostAt(k.Collection, description)
	switch made := time.Now(); {
	case mixed:
		return client.BadAnswer(op, http.MethodPost, "it is of another %s than the one that was asked for", k.One)
	case !marks || id == "":
		return nil
	case marked:
		a.kept.has(at)
		return nil
	default:
		discard := func(ctx context.Context) error { return k.discard(ctx, a, body, id, made) }
		// The caller may not wait any more, and nobody else knows the id.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardPatience)
		defer cancel()
		return a.kept.discard(ctx, op, owner.Object, leftover{at, id, discard})
	}
}

// discarded is what is read of a resource before it is deleted by its id alone.
type discarded struct {
	wireBase
	Name string `json:"name"`
	// Subnets are a network's.
	Subnets []string `json:"subnets"`
	// DeviceID is what uses a port, PortID the port of a floating IP.
	DeviceID string `json:"device_id"`
	PortID   string `json:"port_id"`
}

// discard deletes a resource that was created here with a body, but without the owner's marker. It reads it first: it
// may have a marker all the same, or the answer to the create may have been of another one, which is older, or which
// somebody uses. Where the cloud does not say when it was created, it has at least the name that was asked for.
func (k kind[W, T]) discard(
	ctx context.Context, a *access, body map[string]any, id string, made time.Time,
) error {
	op := "delete " + nameOf(k.Collection)
	is, err := client.Get[discarded](ctx, a.cloud, "get "+k.One, k.Collection, k.fields, id)
	if err = k.gone(err); client.IsNotFound(err) && time.Since(made) > readLag {
		return nil
	}
	if err != nil {
		return err
	}
	if _, of, marked := plan.ParseDescription(is.Description); marked {
		if owner, _ := markerIn(body); of == owner {
			a.kept.has(lostAt(k.Collection, is.Description))
		}
		return errMarked
	}
	port, _ := body["port_id"].(string)
	name, _ := body["name"].(string)
	used := len(is.Subnets) > 0 || is.DeviceID != "" || is.PortID != port
	old := made.Sub(is.Created.Time) > newFor
	if is.Created.IsZero() {
		old = is.Name != name
	}
	if used || old {
		return errTheirs
	}
	return k.remove(ctx, a, plan.Step{Action: plan.Action(op), Ref: plan.Ref{ID: id}}, nil)
}

package inventory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"

	"cloudteam.ztgame.com/network-controller/internal/neutron/batch"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// access is how kinds reach the cloud, and whose resources they look for there.
type access struct {
	cloud *client.Cloud
	// queue schedules writes and groups creates into bulk calls.
	queue   *batch.Queue
	cluster string
	// pools, if not nil, bound the writes to each Neutron; tenant is whose credentials these are.
	pools  *batch.Pools
	tenant string
	// full holds back creates for which there is no room.
	full *fullness
	// kept holds back creates whose markers the cloud does not keep.
	kept *keeping
}

// join makes the queue share the calls to the Neutron to which the credentials lead.
func (a *access) join() {
	if a.pools == nil {
		return
	}
	if identity, known := a.cloud.Known(); known {
		a.queue.Join(a.pools, identity.Endpoint+" "+identity.Region, a.tenant)
	}
}

// send sends a write when its turn comes, after first has been called.
func (a *access) send(ctx context.Context, r client.Request, first ...func() error) error {
	a.join()
	write := a.queue.Write
	if r.Method == http.MethodDelete {
		write = a.queue.Delete
	}
	return write(ctx, r.Op, flowOf(ctx), func() error {
		for _, do := range first {
			if err := do(); err != nil {
				return err
			}
		}
		return a.cloud.Do(ctx, r)
	})
}

// owns reports whether a description has a marker of the cluster.
func (a *access) owns(description string) bool {
	_, owner, ok := plan.ParseDescription(description)
	return ok && owner.Cluster == a.cluster
}

// flowKey is the context key of WithFlow.
type flowKey struct{}

// WithFlow sets on whose behalf steps run, normally a namespace; see batch.Item.Flow.
func WithFlow(ctx context.Context, flow string) context.Context {
	return context.WithValue(ctx, flowKey{}, flow)
}

func flowOf(ctx context.Context) string {
	flow, _ := ctx.Value(flowKey{}).(string)
	return flow
}

// kind describes one kind of Neutron resource: where it is, and how its JSON and package plan's terms correspond. W is
// a resource in Neutron's JSON, T the same resource in package plan's terms.
//
// Each kind has a file with its description, its JSON and the actions on it. What an audit holds has a stock, too.
type kind[W client.Identified, T any] struct {
	client.Collection
	// fields are those of W. A list asks for them.
	fields []string
	// decode converts what Neutron sent.
	decode func(W) (T, error)
	// encode gives the body of a create (all fields) or of an update (the fields that the step changes).
	encode func(step plan.Step, all bool) map[string]any
	// lacking is the message for users if the cloud does not have the collection; empty if every cloud has it.
	lacking string
	// missing is the type of Neutron's refusal if the resource does not exist, for a kind whose absence the client takes
	// for a mistake in another resource; see kindsByType of package client.
	missing string
	// nameless is true for a kind without names. A search goes by the owner's marker then.
	nameless bool
	// extensions maps attributes that extensions of Neutron add to fields of a spec.
	extensions map[string]string
}

// list lists what fits a query, page by page. It returns all or an error, never a part.
func (k kind[W, T]) list(ctx context.Context, a *access, query url.Values) ([]W, error) {
	query["fields"] = k.fields
	return client.List[W](ctx, a.cloud, "list "+k.Many, k.Collection, query)
}

// eachOfProject lists all resources of the credentials' project; see client.Each. What is not kept of them takes no
// memory.
func (k kind[W, T]) eachOfProject(ctx context.Context, a *access, begin func(), take func(W, error)) error {
	identity, err := a.cloud.Identity(ctx)
	if err != nil {
		return err
	}
	query := url.Values{"project_id": {identity.ProjectID}, "fields": k.fields}
	return client.Each(ctx, a.cloud, "list "+k.Many, k.Collection, query, begin, func(w W, odd error) error {
		take(w, odd)
		return nil
	})
}

// get reads one resource.
func (k kind[W, T]) get(ctx context.Context, a *access, id string) (W, error) {
	w, err := client.Get[W](ctx, a.cloud, "get "+k.One, k.Collection, k.fields, id)
	return w, k.gone(err)
}

// gone makes the refusal of a request on a resource of this kind say that the resource is not there.
func (k kind[W, T]) gone(err error) error {
	if k.missing == "" || client.TypeOf(err) != k.missing {
		return err
	}
	return client.Amended(err, func(e *client.Error) { e.Kind = client.NotFound })
}

// create sends a step that creates a resource, normally in one call with others. alone, if set, tells when its turn
// comes whether it needs its own call.
func (k kind[W, T]) create(ctx context.Context, a *access, step plan.Step, alone func() bool) (made T, err error) {
	op, body := string(step.Action), k.encode(step, true)
	// The marker distinguishes owners. The CIDR, or the pool that it comes from, distinguishes one owner's subnets. A
	// share has no marker.
	key := fmt.Sprint(k.One, " ", body["description"], " ", body["cidr"], " ", body["subnetpool_id"], " ",
		body["object_id"], " ", body["target_tenant"])
	a.join()
	attempt := a.full.attempt(k.Collection, step, body["description"])
	trial := a.kept.trial(op, k.Collection, body)
	defer func() { trial.ended(err) }()
	answer, err := a.queue.Create(ctx, batch.Item{
		Op: op, Collection: k.Collection, Key: key, Flow: flowOf(ctx), Body: body,
		Held: func() error {
			if err := trial.held(); err != nil {
				return err
			}
			return attempt.held()
		},
		Alone: func() bool { return alone != nil && alone() || attempt.tries() },
	})
	attempt.ended(err)
	if k.lacking != "" && client.IsNoSuchCollection(err) {
		return made, &client.Error{Kind: client.Invalid, Op: op, Status: http.StatusNotFound, Reason: k.lacking}
	}
	if err != nil {
		return made, namingFields(discreet(err, step), k.extensions)
	}
	if err := k.answers(ctx, a, op, body, answer); err != nil {
		return made, err
	}
	return k.decodeAnswer(op, http.MethodPost, answer)
}

// update sends a step that changes a resource. The request is conditional on the revision, or unconditional if that is
// nil.
func (k kind[W, T]) update(ctx context.Context, a *access, step plan.Step, revision *int) (written T, err error) {
	var answer map[string]json.RawMessage
	op, body := string(step.Action), k.encode(step, false)
	trial := a.kept.trial(op, k.Collection, body)
	if err := trial.held(); err != nil {
		return written, err
	}
	defer func() { trial.ended(err) }()
	r := client.Request{
		Op: op, Method: http.MethodPut, Path: k.Path(step.ID), Revision: revision, Body: map[string]any{k.One: body},
		Answer: &answer,
	}
	if err := k.gone(a.send(ctx, r)); err != nil {
		return written, namingFields(discreet(err, step), k.extensions)
	}
	var told map[string]any
	if trial.marks && json.Unmarshal(answer[k.One], &told) == nil && told != nil { // else decodeAnswer says why
		owner, _ := markerIn(body)
		if of, _ := markerIn(told); of != owner {
			return k.rewritten(ctx, a, op, step.ID, owner, trial.scope)
		}
		a.kept.has(trial.scope)
	}
	return k.decodeAnswer(r.Op, r.Method, answer[k.One])
}

// rewritten reads what an update has given an owner, because the answer does not have the marker. The answer may be
// only a part of the resource, or of another one.
func (k kind[W, T]) rewritten(
	ctx context.Context, a *access, op, id string, owner plan.Owner, at scope,
) (written T, err error) {
	w, err := k.get(ctx, a, id)
	if err != nil {
		return written, err
	}
	var description string
	if is, ok := any(w).(described); ok {
		description = is.described()
	}
	switch _, of, marked := plan.ParseDescription(description); {
	case marked && of != owner:
		return written, &client.Error{Kind: client.Conflict, Op: op, Reason: "it has another owner's marker"}
	case !marked:
		a.kept.lost(at)
		return written, notKept(op, k.Collection, "", "")
	}
	a.kept.has(at)
	if written, err = k.decode(w); err != nil {
		return written, client.BadAnswer(op, http.MethodPut, "%s", err)
	}
	return written, nil
}

// remove sends a step that deletes a resource, on the same condition as update. A resource that is gone counts as
// removed. first is called when the step's turn comes, and may change the revision.
func (k kind[W, T]) remove(
	ctx context.Context, a *access, step plan.Step, revision *int, first ...func() error,
) error {
	err := k.gone(a.send(ctx, client.Request{
		Op: string(step.Action), Method: http.MethodDelete, Path: k.Path(step.ID), Revision: revision,
	}, first...))
	if client.IsNotFound(err) {
		return nil
	}
	return discreet(err, step)
}

func (k kind[W, T]) decodeAnswer(op, method string, answer json.RawMessage) (T, error) {
	w, err := client.DecodeOne[W](op, method, k.Collection, map[string]json.RawMessage{k.One: answer})
	if err != nil {
		return *new(T), err
	}
	t, err := k.decode(w)
	if err != nil {
		return *new(T), client.BadAnswer(op, method, "%s", err)
	}
	return t, nil
}

// setter sets a field in a request's body.
type setter func(field, key string, value any)

// setterOf returns a setter that always sets a field for a create (all), else if the step changes the field.
func setterOf(body map[string]any, step plan.Step, all bool) setter {
	return func(field, key string, value any) {
		if all || step.Changes(field) {
			body[key] = value
		}
	}
}

// named sets what all kinds with names have.
func (set setter) named(name, description string) {
	set(plan.FieldName, "name", name)
	set(plan.FieldDescription, "description", description)
	set(plan.FieldDeletionPolicy, "description", description)
}

// declared sets a field whose zero value, or nil, leaves it to the cloud.
func declared[T comparable](set setter, field, key string, value T) {
	if value != *new(T) {
		set(field, key, value)
	}
}

// extended sets a field that an extension of Neutron adds; nil leaves it to others. A create (all) omits the zero
// value: a new resource has it, and a cloud without the extension, or a policy, may refuse even that.
func extended[T comparable](set setter, field, key string, value *T, all bool) {
	if value != nil && (!all || *value != *new(T)) {
		set(field, key, *value)
	}
}

// policy is extended for a QoS policy. Neutron removes it for null.
func (set setter) policy(id *string, all bool) {
	if id != nil && *id != "" {
		set(plan.FieldQoSPolicy, "qos_policy_id", *id)
	} else if id != nil && !all {
		set(plan.FieldQoSPolicy, "qos_policy_id", nil)
	}
}

// fieldsOf returns the JSON names of a type's fields, embedded ones included.
func fieldsOf[W any]() (names []string) {
	for _, field := range reflect.VisibleFields(reflect.TypeFor[W]()) {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// described is a resource with a description, which may contain its owner's marker.
type described interface {
	client.Identified
	described() string
}

// wireBase is what each resource with a description has in Neutron's JSON.
type wireBase struct {
	ID          string        `json:"id"`
	Description string        `json:"description"`
	Revision    client.Number `json:"revision_number"`
	Created     client.Time   `json:"created_at"`
}

func (w wireBase) Key() string { return w.ID }

func (w wireBase) described() string { return w.Description }

// stock is what an Inventory holds of one kind that bears owners' markers: a shelf, and how to fill it.
type stock[W described, T any] struct {
	*shelf[T]
	*access
	kind   kind[W, T]
	listed lists
	// in is the kind's place in what Observed returns.
	in func(*plan.Observed) *[]T
	// readAll lists all of ours; readOne reads one of ours. newStock sets the usual ones.
	readAll func(ctx context.Context) (findings[T], error)
	readOne func(ctx context.Context, w W) (*T, error)
	// begins and ends, if set, are called when a list begins and ends. The caller holds the Inventory's mu.
	begins func()
	ends   func(kept bool)
	// complete, if set, adds to what a write returned what the answer does not show. held is nil if it is new.
	complete func(held, written *T)
}

func newStock[W described, T any](
	a *access, mu *sync.RWMutex, of plan.Kind, k kind[W, T], in func(*plan.Observed) *[]T, how traits[T],
) *stock[W, T] {
	s := &stock[W, T]{shelf: newShelf(mu, how), access: a, kind: k, in: in}
	s.listed.kind, s.listed.op, s.listed.optional = of, "list "+k.Many, k.lacking != ""
	s.readAll = func(ctx context.Context) (found findings[T], err error) {
		begin := func() { found = newFindings[T]() }
		err = s.kind.eachOfProject(ctx, a, begin, func(w W, odd error) {
			s.listed.hear()
			s.gather(found, w, odd)
		})
		return found, err
	}
	s.readOne = func(_ context.Context, w W) (*T, error) {
		t, err := s.kind.decode(w)
		if err != nil {
			return nil, client.BadAnswer("get "+s.kind.One, http.MethodGet, "%s", err)
		}
		return &t, nil
	}
	return s
}

// findings are what a list shows of our resources of one kind.
type findings[T any] struct {
	// held are those that can be decoded, by id.
	held map[string]*T
	// odd are the others. They cost their owners, and nobody else: what cannot be understood is not planned with.
	odd unreadable
}

// unreadable are errors by the UID of an object and the id of its resource.
type unreadable map[string]map[string]error

func newFindings[T any]() findings[T] { return findings[T]{map[string]*T{}, unreadable{}} }

// add adds the error of a resource whose description bears its owner's marker.
func (u unreadable) add(description, id string, err error) {
	_, owner, _ := plan.ParseDescription(description)
	if u[owner.Object] == nil {
		u[owner.Object] = map[string]error{}
	}
	u[owner.Object][id] = err
}

// of returns one error of an object's resources, always the same one; nil if there is none.
func (u unreadable) of(object string) error {
	if len(u[object]) == 0 {
		return nil // the normal case
	}
	ids := slices.Sorted(maps.Keys(u[object]))
	return u[object][ids[0]]
}

// gather decodes a listed resource if it bears our marker. odd is why its JSON cannot be decoded; nil if it can.
func (s *stock[W, T]) gather(found findings[T], w W, odd error) {
	if !s.owns(w.described()) {
		return
	}
	t, err := s.kind.decode(w)
	switch {
	case odd != nil:
		found.odd.add(w.described(), w.Key(), oddItem(s.listed.op, s.kind.One, w.Key(), odd))
	case err != nil:
		found.odd.add(w.described(), w.Key(), client.BadAnswer(s.listed.op, http.MethodGet, "%s", err))
	default:
		found.held[w.Key()] = &t
	}
}

// oddItem names the resource whose JSON cannot be decoded.
func oddItem(op, one, id string, odd error) error {
	text := odd.Error()
	if refusal, ok := errors.AsType[*client.Error](odd); ok {
		text = strings.TrimPrefix(refusal.Reason, "unusable answer: ")
	}
	if id == "" {
		return client.BadAnswer(op, http.MethodGet, "a %s without an id: %s", one, text)
	}
	return client.BadAnswer(op, http.MethodGet, "%s %s: %s", one, id, text)
}

// stocked is what the Inventory does with the stocks of all kinds alike.
type stocked interface {
	// holdsAny reports whether anything is ours. The caller holds the Inventory's mu.
	holdsAny() bool
	// listBegins MUST be called before list, and listEnds after it. The caller holds the Inventory's mu for both, and for
	// lists, keep and clear.
	lists() *lists
	listBegins()
	listEnds(kept bool)
	list(ctx context.Context) (keep func(moved map[string]bool), err error)
	clear(moved map[string]bool)
	reread(ctx context.Context, id string) (found bool, err error)
	find(ctx context.Context, name string, owner plan.Owner) (ids []string, err error)
	// observe adds what an object owns, and returns an error if some of it cannot be understood; owners adds all that
	// objects own. The caller holds the Inventory's mu.
	observe(object string, to *plan.Observed) error
	owners(to map[string]Holdings)
	// ownerOf returns the owner of a resource that the shelf holds; the zero value if it holds none.
	ownerOf(id string) plan.Owner
}

func (s *stock[W, T]) holdsAny() bool { return len(s.held) > 0 }

func (s *stock[W, T]) lists() *lists { return &s.listed }

func (s *stock[W, T]) listBegins() {
	s.begun = s.clock
	if s.begins != nil {
		s.begins()
	}
}

func (s *stock[W, T]) listEnds(kept bool) {
	if s.ends != nil {
		s.ends(kept)
	}
}

// list reads all of ours. keep updates the shelf. If the cloud lacks the collection, nothing is ours. If its policy
// forbids the list, the shelf stays as it is: most users do not need every kind.
func (s *stock[W, T]) list(ctx context.Context) (keep func(moved map[string]bool), err error) {
	listed, err := s.readAll(ctx)
	switch {
	case s.listed.optional && client.IsKind(err, client.Forbidden):
		return func(map[string]bool) {}, nil
	case s.listed.optional && client.IsNoSuchCollection(err):
		listed = newFindings[T]()
	case err != nil:
		return nil, err
	}
	return func(moved map[string]bool) {
		s.takeIn(listed.held, s.begun, moved)
		s.takeOdd(listed.odd, s.begun, moved)
	}, nil
}

// reread reads a resource and updates the shelf. The error is ErrUnmarked if the resource is not ours.
func (s *stock[W, T]) reread(ctx context.Context, id string) (found bool, err error) {
	since := s.begin()
	w, err := s.kind.get(ctx, s.access, id)
	switch {
	case client.IsNotFound(err):
		s.refresh(id, nil, since)
		return false, nil
	case err != nil:
		return false, err
	case !s.owns(w.described()):
		s.refresh(id, nil, since)
		return true, ErrUnmarked
	}
	t, err := s.readOne(ctx, w)
	if err != nil {
		return false, err
	}
	s.refresh(id, t, since)
	return true, nil
}

// find returns the ids of the project's resources with a name and the owner's marker. Only the marker counts for a kind
// without names.
func (s *stock[W, T]) find(ctx context.Context, name string, owner plan.Owner) (ids []string, err error) {
	identity, err := s.cloud.Identity(ctx)
	if err != nil {
		return nil, err
	}
	query := url.Values{"project_id": {identity.ProjectID}, "fields": {"id", "description"}}
	if s.kind.nameless {
		query["description"] = owner.Descriptions()
	} else {
		query.Set("name", name)
	}
	err = client.Each(ctx, s.cloud, "find "+s.kind.One, s.kind.Collection, query, func() { ids = nil },
		func(w W, odd error) error {
			if !owner.Owns(w.described()) {
				return nil
			}
			if odd != nil && w.Key() == "" {
				return odd
			}
			ids = append(ids, w.Key())
			return nil
		})
	if s.listed.optional && client.IsNoSuchCollection(err) {
		return nil, nil
	}
	return ids, err
}

func (s *stock[W, T]) observe(object string, to *plan.Observed) error {
	*s.in(to) = s.owned[object]
	return s.odd.of(object)
}

func (s *stock[W, T]) ownerOf(id string) (owner plan.Owner) {
	if held, ok := s.get(id); ok {
		_, description, _ := s.identify(held)
		_, owner, _ = plan.ParseDescription(description)
	}
	return owner
}

func (s *stock[W, T]) owners(to map[string]Holdings) {
	for object, owned := range s.owned {
		ids := make([]string, len(owned))
		for at := range owned {
			ids[at], _, _ = s.identify(&owned[at])
		}
		slices.Sort(ids)
		if to[object] == nil {
			to[object] = Holdings{}
		}
		to[object][s.listed.kind] = ids
	}
	for object, odd := range s.odd {
		if to[object] == nil {
			to[object] = Holdings{}
		}
		ids := slices.AppendSeq(to[object][s.listed.kind], maps.Keys(odd))
		to[object][s.listed.kind] = slices.Sorted(slices.Values(ids))
	}
}

// created, updated and removed take a step that creates, changes or deletes a resource. They return its new revision.
func (s *stock[W, T]) created(ctx context.Context, step *plan.Step) (revision int, err error) {
	made, err := s.kind.create(ctx, s.access, *step, nil)
	if err != nil {
		return 0, err
	}
	return s.record(&made, step), nil
}

func (s *stock[W, T]) updated(ctx context.Context, step *plan.Step) (revision int, err error) {
	return s.updatedIf(ctx, step, &step.Revision)
}

// updatedIf is updated on the condition of a revision; nil means none.
func (s *stock[W, T]) updatedIf(ctx context.Context, step *plan.Step, condition *int) (revision int, err error) {
	defer s.write(step.ID)()
	written, err := s.kind.update(ctx, s.access, *step, condition)
	if err != nil {
		return 0, err
	}
	return s.record(&written, step), nil
}

func (s *stock[W, T]) removed(ctx context.Context, step *plan.Step) (revision int, err error) {
	return s.removedAfter(ctx, step, func() error { return nil })
}

// removedAfter takes a step that deletes a resource, after first has been called in the step's turn.
func (s *stock[W, T]) removedAfter(
	ctx context.Context, step *plan.Step, first func() error,
) (revision int, err error) {
	done := func() {}
	defer func() { done() }()
	// Until the turn comes, lists and first may still change what is known of the resource.
	begin := func() error { done = s.write(step.ID); return nil }
	if err := s.kind.remove(ctx, s.access, *step, &step.Revision, first, begin); err != nil {
		return 0, err
	}
	s.remove(step.ID)
	return 0, nil
}

// record puts on the shelf what a write returned, and its id into the step. What bears no marker any more goes.
func (s *stock[W, T]) record(written *T, step *plan.Step) (revision int) {
	id, description, revision := s.identify(written)
	step.ID = id
	s.change(id, func(held *T) *T {
		if !s.owns(description) {
			return nil
		}
		if s.complete != nil {
			s.complete(held, written)
		}
		return written
	})
	return revision
}

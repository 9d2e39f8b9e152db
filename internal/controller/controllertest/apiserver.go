package controllertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
)

// Object is an object of any kind.
type Object interface {
	metav1.Object
	runtime.Object
}

// Clientset is a generated fake clientset. It has to be one of NewSimpleClientset: those that track fields have no
// schema for the types of a CRD, and refuse them.
type Clientset interface {
	PrependReactor(verb, resource string, reaction clienttesting.ReactionFunc)
	PrependWatchReactor(resource string, reaction clienttesting.WatchReactionFunc)
	Tracker() clienttesting.ObjectTracker
}

// Rules are what the API server does with one kind beyond what it does with all. Each may be nil.
type Rules[T Object] struct {
	// Line is a request as the CallLog has it, and as Refuse and Lose are asked about it. What has an empty
	// line, or none, is passed over in silence, as lists and watches always are.
	Line func(action clienttesting.Action) string
	// Default fills in a new object.
	Default func(obj T)
	// Admit refuses a request. obj is the object as it is about to be written, or deleted.
	Admit func(action clienttesting.Action, obj T) error
}

// APIServer makes fake clientsets behave as an API server does, where their trackers do not. Every change moves the
// resource version, which all kinds share; nothing else does. A change of the spec and a deletion move the generation.
// Preconditions hold. Only server-side apply writes a status, and it removes the parts that it wrote before and no
// longer has. An object that is being deleted goes with its last finalizer. Make it with NewAPIServer, then Serve each
// kind.
type APIServer struct {
	calls *CallLog
	kinds map[reflect.Type]*served

	mu      sync.Mutex
	version int64

	answers sync.Mutex
	// refuse may fail a request before, lose one after it was carried out.
	refuse, lose func(line string) error
}

// served is a kind.
type served struct {
	resource schema.GroupVersionResource
	tracker  clienttesting.ObjectTracker
	gate     Gate
	line     func(clienttesting.Action) string
	fill     func(Object)
	admit    func(clienttesting.Action, Object) error
	// applied are the parts of each object's status that were in its last server-side apply, by UID.
	applied map[types.UID][]string
}

// NewAPIServer makes an API server that serves nothing yet. It writes requests into the CallLog.
func NewAPIServer(calls *CallLog) *APIServer {
	return &APIServer{calls: calls, kinds: map[reflect.Type]*served{}, version: 100}
}

// Serve has a clientset's objects of type T served. It MUST be called before the first request.
func Serve[T Object](s *APIServer, clients Clientset, resource schema.GroupVersionResource, rules Rules[T]) {
	k := &served{resource: resource, tracker: clients.Tracker(), applied: map[types.UID][]string{}}
	k.line = func(action clienttesting.Action) string {
		if rules.Line == nil {
			return ""
		}
		return rules.Line(action)
	}
	k.fill = func(obj Object) {
		if rules.Default != nil {
			rules.Default(obj.(T))
		}
	}
	k.admit = func(action clienttesting.Action, obj Object) error {
		if rules.Admit == nil {
			return nil
		}
		return rules.Admit(action, obj.(T))
	}
	s.kinds[reflect.TypeFor[T]()] = k
	clients.PrependReactor("*", resource.Resource, func(action clienttesting.Action) (bool, runtime.Object, error) {
		obj, err := s.answer(k, action)
		return true, obj, err
	})
	clients.PrependWatchReactor(resource.Resource, func(clienttesting.Action) (bool, watch.Interface, error) {
		inner, err := k.tracker.Watch(resource, "")
		if err != nil {
			return true, nil, err
		}
		return true, k.gate.watch(inner), nil
	})
}

// Refuse has requests fail of whose line the function returns an error; with nil, none. The function may call the
// APIServer.
func (s *APIServer) Refuse(refuse func(line string) error) {
	s.answers.Lock()
	defer s.answers.Unlock()
	s.refuse = refuse
}

// Refusing fails the requests whose line begins so, for Refuse and Lose.
func Refusing(prefix string, err error) func(line string) error {
	return func(line string) error {
		if strings.HasPrefix(line, prefix) {
			return err
		}
		return nil
	}
}

// Lose has the answers lost of requests of whose line the function returns an error: they are carried out, and the
// client gets the error. With nil, none are.
func (s *APIServer) Lose(lose func(line string) error) {
	s.answers.Lock()
	defer s.answers.Unlock()
	s.lose = lose
}

// GateOf is the Gate before the informers of a kind.
func GateOf[T Object](s *APIServer) *Gate { return &s.kinds[reflect.TypeFor[T]()].gate }

// Find gives an object as it is stored, and whether it exists.
func Find[T Object](s *APIServer, key cache.ObjectName) (obj T, exists bool) {
	k := s.kinds[reflect.TypeFor[T]()]
	found, err := k.tracker.Get(k.resource, key.Namespace, key.Name)
	if err != nil {
		return obj, false
	}
	return found.(T), true
}

// Get gives an object that exists.
func Get[T Object](t *testing.T, s *APIServer, key cache.ObjectName) T {
	t.Helper()
	obj, exists := Find[T](s, key)
	if !exists {
		t.Fatalf("there is no %s %s", reflect.TypeFor[T]().Elem().Name(), key)
	}
	return obj
}

// Create creates an object as its user would, with the UID and the generation that it has.
func (s *APIServer) Create(t *testing.T, obj Object) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.create(s.kinds[reflect.TypeOf(obj)], obj); err != nil {
		t.Fatal(err)
	}
}

// Edit changes an object as somebody else would, whatever it is now.
func Edit[T Object](t *testing.T, s *APIServer, key cache.ObjectName, change func(T)) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	was := Get[T](t, s, key)
	obj := was.DeepCopyObject().(T)
	change(obj)
	if err := s.update(s.kinds[reflect.TypeFor[T]()], was, obj); err != nil {
		t.Fatal(err)
	}
}

// Delete deletes an object as its user would: it stays until its finalizers are off.
func (s *APIServer) Delete(t *testing.T, obj Object) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.kinds[reflect.TypeOf(obj)]
	stored, err := k.tracker.Get(k.resource, obj.GetNamespace(), obj.GetName())
	if err == nil {
		err = s.delete(k, stored.(Object))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// DeleteByForce takes an object's finalizers off and deletes it.
func (s *APIServer) DeleteByForce(t *testing.T, obj Object) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.kinds[reflect.TypeOf(obj)]
	stored, err := k.tracker.Get(k.resource, obj.GetNamespace(), obj.GetName())
	if err == nil {
		err = s.remove(k, stored.(Object))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// answer is what a clientset's request gets.
func (s *APIServer) answer(k *served, action clienttesting.Action) (runtime.Object, error) {
	line := ""
	if action.GetVerb() != "list" {
		line = k.line(action)
	}
	if line != "" {
		s.calls.Note("%s", line)
		if err := s.ask(&s.refuse, line); err != nil {
			return nil, err
		}
	}
	obj, err := s.carryOut(k, action)
	if err != nil {
		return nil, err
	}
	if line != "" {
		if err := s.ask(&s.lose, line); err != nil {
			return nil, err
		}
	}
	// What a client is given is its own.
	return obj.DeepCopyObject(), nil
}

func (s *APIServer) ask(about *func(string) error, line string) error {
	s.answers.Lock()
	ask := *about
	s.answers.Unlock()
	if ask == nil {
		return nil
	}
	return ask(line)
}

func (s *APIServer) carryOut(k *served, action clienttesting.Action) (runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if list, ok := action.(clienttesting.ListActionImpl); ok {
		return s.list(k, list)
	}
	if create, ok := action.(clienttesting.CreateActionImpl); ok {
		obj := create.GetObject().(Object)
		if err := k.admit(action, obj); err != nil {
			return nil, err
		}
		return s.create(k, obj)
	}
	named, ok := action.(interface{ GetName() string })
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("a request of an unknown kind: %s", action.GetVerb()))
	}
	stored, err := k.tracker.Get(k.resource, action.GetNamespace(), named.GetName())
	if err != nil {
		return nil, err
	}
	was := stored.(Object)
	switch action := action.(type) {
	case clienttesting.GetActionImpl:
		return was, nil
	case clienttesting.PatchActionImpl:
		obj, err := k.patched(action, was)
		if err != nil || equality.Semantic.DeepEqual(was, obj) {
			return was, err
		}
		if err := k.admit(action, obj); err != nil {
			return nil, err
		}
		return obj, s.update(k, was, obj)
	case clienttesting.DeleteActionImpl:
		if p := action.DeleteOptions.Preconditions; p != nil {
			if p.UID != nil && *p.UID != was.GetUID() ||
				p.ResourceVersion != nil && *p.ResourceVersion != was.GetResourceVersion() {
				return nil, k.conflict(action.Name)
			}
		}
		if err := k.admit(action, was); err != nil {
			return nil, err
		}
		return was, s.delete(k, was)
	default:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("a request of an unknown kind: %s", action.GetVerb()))
	}
}

func (s *APIServer) list(k *served, action clienttesting.ListActionImpl) (runtime.Object, error) {
	found, err := k.tracker.List(k.resource, action.Kind, action.Namespace)
	if err != nil {
		return nil, err
	}
	list, err := meta.ListAccessor(found)
	if err != nil {
		return nil, err
	}
	list.SetResourceVersion(strconv.FormatInt(s.version, 10))
	return found, nil
}

// Version is the resource version of the last change, as a list has it.
func (s *APIServer) Version() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strconv.FormatInt(s.version, 10)
}

func (s *APIServer) nextVersion() string {
	s.version++
	return strconv.FormatInt(s.version, 10)
}

func (s *APIServer) create(k *served, obj Object) (Object, error) {
	obj = obj.DeepCopyObject().(Object)
	obj.SetResourceVersion(s.nextVersion())
	if obj.GetUID() == "" {
		obj.SetUID(types.UID(k.resource.Resource + "-" + obj.GetResourceVersion()))
	}
	obj.SetGeneration(max(1, obj.GetGeneration()))
	k.fill(obj)
	return obj, k.tracker.Create(k.resource, obj, obj.GetNamespace())
}

// update stores obj in the place of was.
func (s *APIServer) update(k *served, was, obj Object) error {
	if obj.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) == 0 {
		return s.remove(k, obj)
	}
	old, err := contentOf(was)
	if err != nil {
		return err
	}
	updated, err := contentOf(obj)
	if err != nil {
		return err
	}
	if !equality.Semantic.DeepEqual(old["spec"], updated["spec"]) {
		obj.SetGeneration(was.GetGeneration() + 1)
	}
	obj.SetResourceVersion(s.nextVersion())
	return k.tracker.Update(k.resource, obj, obj.GetNamespace())
}

// remove deletes an object whose finalizers are off.
func (s *APIServer) remove(k *served, obj Object) error {
	k.gate.gone.Store(obj.GetUID(), s.nextVersion())
	return k.tracker.Delete(k.resource, obj.GetNamespace(), obj.GetName())
}

func (s *APIServer) delete(k *served, was Object) error {
	obj := was.DeepCopyObject().(Object)
	if obj.GetDeletionTimestamp() == nil {
		// Objects are stored to the second. The generation counts the deletion as a change.
		obj.SetDeletionTimestamp(new(metav1.Now().Rfc3339Copy()))
		obj.SetGeneration(was.GetGeneration() + 1)
	}
	return s.update(k, was, obj)
}

// patched is an object after a patch: a merge patch of what is no status, or a server-side apply of the status. There
// is one who applies, with force, and parts are those right below the status.
func (k *served) patched(action clienttesting.PatchActionImpl, was Object) (Object, error) {
	var patch map[string]any
	if err := utiljson.Unmarshal(action.Patch, &patch); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	var body struct {
		Metadata struct {
			UID             types.UID `json:"uid"`
			ResourceVersion string    `json:"resourceVersion"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(action.Patch, &body); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if body.Metadata.UID != "" && body.Metadata.UID != was.GetUID() ||
		body.Metadata.ResourceVersion != "" && body.Metadata.ResourceVersion != was.GetResourceVersion() {
		return nil, k.conflict(action.Name)
	}
	content, err := contentOf(was)
	if err != nil {
		return nil, err
	}
	switch {
	case action.Subresource == "status" && action.PatchType == types.ApplyPatchType:
		if action.PatchOptions.FieldManager == "" || action.PatchOptions.Force == nil || !*action.PatchOptions.Force {
			return nil, apierrors.NewBadRequest("a server-side apply without a field manager, or without force")
		}
		status, _ := content["status"].(map[string]any)
		for _, part := range k.applied[was.GetUID()] {
			delete(status, part)
		}
		applied, _ := patch["status"].(map[string]any)
		k.applied[was.GetUID()] = slices.Collect(maps.Keys(applied))
		content["status"] = merged(status, applied)
	case action.Subresource == "status" && action.PatchType == types.MergePatchType &&
		body.Metadata.ResourceVersion != "":
		status, _ := content["status"].(map[string]any)
		changed, _ := patch["status"].(map[string]any)
		content["status"] = merged(status, changed)
	case action.Subresource == "" && action.PatchType == types.MergePatchType:
		delete(patch, "status")
		content = merged(content, patch)
	default:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("a write of an unknown kind: %s", action.Patch))
	}
	obj := reflect.New(reflect.TypeOf(was).Elem()).Interface().(Object)
	data, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, obj); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return obj, nil
}

// merged is a JSON merge patch (RFC 7396).
func merged(target, patch map[string]any) map[string]any {
	target = maps.Clone(target)
	if target == nil {
		target = map[string]any{}
	}
	for key, value := range patch {
		if value == nil {
			delete(target, key)
			continue
		}
		if object, ok := value.(map[string]any); ok {
			was, _ := target[key].(map[string]any)
			value = merged(was, object)
		}
		target[key] = value
	}
	return target
}

// contentOf is an object as JSON holds it.
func contentOf(obj Object) (content map[string]any, err error) {
	data, err := json.Marshal(obj)
	return content, errors.Join(err, utiljson.Unmarshal(data, &content))
}

func (k *served) conflict(name string) error {
	return apierrors.NewConflict(k.resource.GroupResource(), name, errors.New("the object has been modified"))
}

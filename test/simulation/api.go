package simulation

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
)

// request is one to the API, taken apart.
type request struct {
	*http.Request
	kind                         *kind
	namespace, name, subresource string
	body                         []byte
	query                        url.Values
}

// latency is how long a write takes. Without it, two who undo each other's writes would do so for ever at one time.
const latency = 2 * time.Millisecond

// ServeHTTP implements http.Handler.
func (a *APIServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q, err := a.parse(r)
	if err != nil {
		refuse(w, err)
		return
	}
	if q == nil {
		a.discover(w, r)
		return
	}
	if q.query.Get("watch") != "" {
		a.watch(w, q)
		return
	}
	if q.Method != http.MethodGet {
		select {
		case <-time.After(latency):
		case <-a.stopped:
		}
	}
	answer, err := a.carryOut(q)
	if err != nil {
		refuse(w, err)
		return
	}
	status := http.StatusOK
	if r.Method == http.MethodPost {
		status = http.StatusCreated
	}
	respond(w, status, answer)
}

func respond(w http.ResponseWriter, status int, answer any) {
	text := jsonOf(answer)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text) // a client that is gone is no concern of the server's
}

func refuse(w http.ResponseWriter, err error) {
	var refused apierrors.APIStatus
	if !errors.As(err, &refused) {
		refused = apierrors.NewInternalError(err)
	}
	status := refused.Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	respond(w, int(status.Code), status)
}

// parse gives nil for what asks for no object.
func (a *APIServer) parse(r *http.Request) (*request, error) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	at := 2 // of the resource, after /api/v1
	if parts[0] == "apis" {
		at = 3
	}
	if len(parts) <= at {
		return nil, nil
	}
	gv := schema.GroupVersion{Version: parts[at-1]}
	if at == 3 {
		gv.Group = parts[1]
	}
	q := &request{Request: r, query: r.URL.Query()}
	rest := parts[at:]
	if rest[0] == "namespaces" && len(rest) > 2 {
		q.namespace, rest = rest[1], rest[2:]
	}
	if q.kind = a.kinds[gv.WithResource(rest[0])]; q.kind == nil {
		return nil, apierrors.NewNotFound(gv.WithResource(rest[0]).GroupResource(), "")
	}
	if len(rest) > 1 {
		q.name = rest[1]
	}
	if len(rest) > 2 {
		q.subresource = rest[2]
	}
	var err error
	if q.body, err = io.ReadAll(r.Body); err == nil && bytes.HasPrefix(q.body, []byte("k8s\x00")) {
		// Typed clients of builtin kinds write protobuf.
		var typed runtime.Object
		if typed, _, err = kubescheme.Codecs.UniversalDeserializer().Decode(q.body, nil, nil); err == nil {
			q.body = []byte(jsonOf(typed))
		}
	}
	return q, err
}

// discover answers what the API server serves.
func (a *APIServer) discover(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}}
	list.GroupVersion = strings.Join(parts[1:], "/")
	for _, k := range a.kinds {
		if k.resource.GroupVersion().String() == list.GroupVersion {
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: k.resource.Resource, Kind: k.name, Namespaced: k.namespaced,
				Verbs: metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"},
			})
		}
	}
	if len(list.APIResources) == 0 {
		refuse(w, apierrors.NewNotFound(schema.GroupResource{}, r.URL.Path))
		return
	}
	respond(w, http.StatusOK, list)
}

// selects makes a filter of a request's selectors.
func (q *request) selects() (func(*object) bool, error) {
	byLabel, err := labels.Parse(q.query.Get("labelSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	byField, err := fields.ParseSelector(q.query.Get("fieldSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return func(obj *object) bool {
		if obj == nil || q.namespace != "" && obj.GetNamespace() != q.namespace ||
			q.name != "" && obj.GetName() != q.name || !byLabel.Matches(labels.Set(obj.GetLabels())) {
			return false
		}
		return !slices.ContainsFunc(byField.Requirements(), func(r fields.Requirement) bool {
			value, _, _ := unstructured.NestedString(obj.Object, strings.Split(r.Field, ".")...)
			return (value == r.Value) == (r.Operator == "!=")
		})
	}, nil
}

// shown is an object as a client asked for it: whole, or its metadata alone.
func (q *request) shown(obj *object) any {
	if !q.metadataOnly() {
		return obj.Object
	}
	return map[string]any{
		"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": obj.Object["metadata"],
	}
}

func (q *request) metadataOnly() bool {
	return strings.Contains(q.Header.Get("Accept"), "as=PartialObjectMetadata")
}

// carryOut does what a request asks for.
func (a *APIServer) carryOut(q *request) (any, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if q.name == "" {
		switch q.Method {
		case http.MethodGet:
			return a.list(q)
		case http.MethodPost:
			return a.post(q)
		case http.MethodDelete:
			return a.deleteAll(q)
		}
		return nil, apierrors.NewMethodNotSupported(q.kind.resource.GroupResource(), q.Method)
	}
	was := q.kind.objects[types.NamespacedName{Namespace: q.namespace, Name: q.name}]
	if was == nil && q.Header.Get("Content-Type") == string(types.ApplyPatchType) && q.subresource == "" {
		was = q.blank()
	} else if was == nil {
		return nil, q.kind.notFound(q.name)
	}
	switch {
	case q.Method == http.MethodGet:
		return q.shown(was), nil
	case q.Method == http.MethodDelete:
		return a.deleteOne(q, was)
	case q.subresource == "scale":
		return a.scale(q, was)
	case q.subresource == "binding":
		return a.bind(q, was)
	}
	obj, err := q.written(was)
	if err != nil {
		return nil, err
	}
	if was.GetUID() == "" {
		return a.make(q, obj)
	}
	obj = q.confined(was, obj)
	if setAll(q.kind, obj); a.may != nil && q.subresource == "" && specOf(was) != specOf(obj) &&
		!a.may(q.kind.name, was, obj) {
		return nil, apierrors.NewInvalid(q.kind.gvk().GroupKind(), q.name, field.ErrorList{
			field.Invalid(field.NewPath("spec"), "", "a rule of the CRD forbids this edit"),
		})
	}
	if q.dryRun() {
		if specOf(was) != specOf(obj) {
			obj.SetGeneration(was.GetGeneration() + 1)
		}
		return q.shown(obj), nil
	}
	return q.shown(a.update(q.kind, was, obj)), nil
}

// make creates an object, unless the request only asks what would be stored.
func (a *APIServer) make(q *request, obj *object) (any, error) {
	if q.dryRun() {
		if err := a.hasRoom(q.kind, obj); err != nil {
			return nil, err
		}
		a.complete(q.kind, obj)
		return q.shown(obj), nil
	}
	made, err := a.create(q.kind, obj)
	if err != nil {
		return nil, err
	}
	return q.shown(made), nil
}

func (q *request) dryRun() bool { return slices.Contains(q.query["dryRun"], metav1.DryRunAll) }

// blank is what server-side apply makes an object from.
func (q *request) blank() *object {
	obj := &object{Object: map[string]any{}}
	obj.SetGroupVersionKind(q.kind.gvk())
	obj.SetNamespace(q.namespace)
	obj.SetName(q.name)
	return obj
}

func (a *APIServer) list(q *request) (any, error) {
	selected, err := q.selects()
	if err != nil {
		return nil, err
	}
	items := []any{}
	for _, obj := range a.sorted(q.kind) {
		if selected(obj) {
			items = append(items, q.shown(obj))
		}
	}
	gv, name := q.kind.resource.GroupVersion().String(), q.kind.name+"List"
	if q.metadataOnly() {
		gv, name = "meta.k8s.io/v1", "PartialObjectMetadataList"
	}
	return map[string]any{
		"apiVersion": gv, "kind": name, "items": items,
		"metadata": map[string]any{"resourceVersion": strconv.FormatInt(a.version, 10)},
	}, nil
}

func (a *APIServer) post(q *request) (any, error) {
	obj := &object{}
	if err := obj.UnmarshalJSON(withKind(q.body, q.kind)); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if q.kind.namespaced {
		obj.SetNamespace(q.namespace)
	}
	return a.make(q, obj)
}

// withKind completes a body that names no kind, as those of typed clients do not.
func withKind(body []byte, k *kind) []byte {
	var content map[string]any
	if json.Unmarshal(body, &content) != nil {
		return body
	}
	content["apiVersion"], content["kind"] = k.resource.GroupVersion().String(), k.name
	return []byte(jsonOf(content))
}

func (q *request) deleteOptions() (*metav1.DeleteOptions, error) {
	options := &metav1.DeleteOptions{}
	if len(q.body) > 0 {
		if err := json.Unmarshal(q.body, options); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	return options, nil
}

func (a *APIServer) deleteOne(q *request, was *object) (any, error) {
	options, err := q.deleteOptions()
	if err != nil {
		return nil, err
	}
	if p := options.Preconditions; p != nil && (p.UID != nil && *p.UID != was.GetUID() ||
		p.ResourceVersion != nil && *p.ResourceVersion != was.GetResourceVersion()) {
		return nil, q.conflict()
	}
	return a.delete(q.kind, was, options).Object, nil
}

func (a *APIServer) deleteAll(q *request) (any, error) {
	options, err := q.deleteOptions()
	if err != nil {
		return nil, err
	}
	selected, err := q.selects()
	if err != nil {
		return nil, err
	}
	for _, obj := range a.sorted(q.kind) {
		if selected(obj) {
			a.delete(q.kind, obj, options)
		}
	}
	return metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess}, nil
}

func (a *APIServer) scale(q *request, was *object) (any, error) {
	var scale struct {
		Spec struct {
			Replicas int64 `json:"replicas"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(q.body, &scale); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	obj := was.DeepCopy()
	if err := unstructured.SetNestedField(obj.Object, scale.Spec.Replicas, "spec", "replicas"); err != nil {
		return nil, err
	}
	a.update(q.kind, was, obj)
	return map[string]any{
		"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": obj.Object["metadata"],
		"spec": map[string]any{"replicas": scale.Spec.Replicas},
	}, nil
}

// bind puts a Pod on a node, as a scheduler does.
func (a *APIServer) bind(q *request, was *object) (any, error) {
	var binding struct {
		Target struct {
			Name string `json:"name"`
		} `json:"target"`
	}
	if err := json.Unmarshal(q.body, &binding); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	obj := was.DeepCopy()
	if err := unstructured.SetNestedField(obj.Object, binding.Target.Name, "spec", "nodeName"); err != nil {
		return nil, err
	}
	a.update(q.kind, was, obj)
	return metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess}, nil
}

func (q *request) conflict() error {
	return apierrors.NewConflict(q.kind.resource.GroupResource(), q.name, errors.New("the object has been modified"))
}

// written is an object as an update or a patch would have it.
func (q *request) written(was *object) (*object, error) {
	obj := &object{}
	if q.Method == http.MethodPut {
		if err := obj.UnmarshalJSON(withKind(q.body, q.kind)); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	} else if err := q.patched(was, obj); err != nil {
		return nil, err
	}
	if obj.GetUID() != "" && obj.GetUID() != was.GetUID() ||
		obj.GetResourceVersion() != "" && obj.GetResourceVersion() != was.GetResourceVersion() {
		return nil, q.conflict()
	}
	return obj, nil
}

func (q *request) patched(was, obj *object) error {
	switch form := types.PatchType(q.Header.Get("Content-Type")); form {
	case types.ApplyPatchType:
		applied := &object{}
		if err := applied.UnmarshalJSON(q.body); err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
		if uid := applied.GetUID(); uid != "" && uid != was.GetUID() {
			return q.conflict()
		}
		if version := applied.GetResourceVersion(); version != "" && version != was.GetResourceVersion() {
			return q.conflict()
		}
		m, err := q.kind.merger()
		if err != nil {
			return err
		}
		after, err := m.apply(was, applied, q.query.Get("fieldManager"), q.subresource,
			q.query.Get("force") == "true")
		if err != nil {
			return err
		}
		obj.Object = after.Object
	case types.MergePatchType:
		after, err := jsonpatch.MergePatch([]byte(jsonOf(was.Object)), q.body)
		if err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
		return obj.UnmarshalJSON(after)
	case types.StrategicMergePatchType:
		typed, err := kubescheme.Scheme.New(q.kind.gvk())
		if err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
		after, err := strategicpatch.StrategicMergePatch([]byte(jsonOf(was.Object)), q.body, typed)
		if err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
		return obj.UnmarshalJSON(after)
	case types.JSONPatchType:
		patch, err := jsonpatch.DecodePatch(q.body)
		if err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
		after, err := patch.Apply([]byte(jsonOf(was.Object)))
		if err != nil {
			return apierrors.NewInvalid(q.kind.gvk().GroupKind(), q.name, nil)
		}
		return obj.UnmarshalJSON(after)
	default:
		return apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, q.Method,
			q.kind.resource.GroupResource(), q.name, fmt.Sprintf("patches of type %q are not served", form), 0, false)
	}
	return nil
}

// confined leaves of a write what its endpoint may change.
func (q *request) confined(was, obj *object) *object {
	obj = obj.DeepCopy()
	status, has := obj.Object["status"]
	if q.subresource == "status" {
		fields := obj.GetManagedFields()
		obj = was.DeepCopy()
		obj.SetManagedFields(fields)
	} else if q.kind.status {
		status, has = was.Object["status"]
	}
	if delete(obj.Object, "status"); has {
		obj.Object["status"] = status
	}
	// What nobody writes.
	obj.SetNamespace(was.GetNamespace())
	obj.SetUID(was.GetUID())
	obj.SetCreationTimestamp(was.GetCreationTimestamp())
	obj.SetDeletionTimestamp(was.GetDeletionTimestamp())
	obj.SetDeletionGracePeriodSeconds(was.GetDeletionGracePeriodSeconds())
	obj.SetGeneration(was.GetGeneration())
	return obj
}

// sorted are a kind's objects, oldest first.
func (s *store) sorted(k *kind) (all []*object) {
	for _, c := range k.changes {
		if c.was == nil && c.is != nil {
			if is := k.objects[key(c.is)]; is != nil && is.GetUID() == c.is.GetUID() {
				all = append(all, is)
			}
		}
	}
	return all
}

// watch streams changes until the client leaves.
func (a *APIServer) watch(w http.ResponseWriter, q *request) {
	selected, err := q.selects()
	if err != nil {
		refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	send := func(event string, obj any) error {
		_, err := fmt.Fprintln(w, jsonOf(map[string]any{"type": event, "object": obj}))
		return err
	}
	flush := http.NewResponseController(w)
	a.mu.Lock()
	since, _ := strconv.ParseInt(q.query.Get("resourceVersion"), 10, 64)
	var first []*object
	initial := q.query.Get("sendInitialEvents") == "true"
	if initial || since == 0 {
		first, since = a.sorted(q.kind), a.version
	}
	at, version := 0, a.version
	for at < len(q.kind.changes) && q.kind.changes[at].version <= since {
		at++
	}
	a.mu.Unlock()
	for _, obj := range first {
		if selected(obj) && send("ADDED", q.shown(obj)) != nil {
			return
		}
	}
	if initial {
		bookmark := q.blank()
		bookmark.SetNamespace("")
		bookmark.SetName("")
		bookmark.SetResourceVersion(strconv.FormatInt(version, 10))
		bookmark.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
		if send("BOOKMARK", q.shown(bookmark)) != nil {
			return
		}
	}
	seconds, _ := strconv.Atoi(q.query.Get("timeoutSeconds"))
	over := time.After(time.Duration(cmp.Or(seconds, 1800)) * time.Second)
	for {
		a.mu.Lock()
		news := q.kind.changes[at:]
		at = len(q.kind.changes)
		changed := a.changed
		a.mu.Unlock()
		for _, c := range news {
			before, after := selected(c.was), selected(c.is)
			var err error
			switch {
			case !before && after:
				err = send("ADDED", q.shown(c.is))
			case before && after:
				err = send("MODIFIED", q.shown(c.is))
			case before:
				last := c.was.DeepCopy()
				last.SetResourceVersion(strconv.FormatInt(c.version, 10))
				err = send("DELETED", q.shown(last))
			}
			if err != nil {
				return
			}
		}
		if flush.Flush() != nil {
			return
		}
		select {
		case <-changed:
		case <-q.Context().Done():
			return
		case <-over:
			return
		case <-a.stopped:
			return
		}
	}
}

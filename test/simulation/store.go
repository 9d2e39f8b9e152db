package simulation

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kubejson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/yaml"
)

// object is an object as JSON has it.
type object = unstructured.Unstructured

// definition is what the API server knows about one resource. All API servers of a test binary share it.
type definition struct {
	resource   schema.GroupVersionResource
	name       string
	namespaced bool
	// status is whether it has its own status, which only writes to that subresource change.
	status bool
	// schema is that of a CRD, nil for others.
	schema *apiextensionsv1.JSONSchemaProps
	merger func() (*merger, error)
}

// kind is a resource of one API server, with its objects.
type kind struct {
	*definition

	objects map[types.NamespacedName]*object
	// typed are those of them that the cluster's controllers have read.
	typed map[types.NamespacedName]typed
	// changes are all that there were, oldest first. Watches read on from any of them.
	changes []change
}

// change is one of an object: is is nil where it was deleted, and was where it was created.
type change struct {
	version int64
	was, is *object
}

func (d *definition) gvk() schema.GroupVersionKind { return d.resource.GroupVersion().WithKind(d.name) }

func (d *definition) notFound(name string) error {
	return apierrors.NewNotFound(d.resource.GroupResource(), name)
}

// store are the objects of an API server. It is safe for concurrent use.
type store struct {
	mu      sync.Mutex
	kinds   map[schema.GroupVersionResource]*kind
	version int64
	// changed is closed, and made again, with each change.
	changed chan struct{}
	// admit completes an object that is created, or changed from was.
	admit func(k *kind, was, obj *object)
	// may is whether the rules of a kind's CRD let an object be what a user makes of it.
	may Rules
}

// Rules report whether the rules of a kind's CRD let an object be edited so. Both have all defaults.
type Rules func(kind string, was, is *unstructured.Unstructured) bool

// builtin are the resources that need no CRD, "*" with their own status.
var builtin = map[string][]string{
	"v1": {
		"Namespace namespaces", "Pod pods *", "Service services *", "Event events", "Secret secrets", "Node nodes *",
		"ConfigMap configmaps", "ServiceAccount serviceaccounts",
	},
	"apps/v1":                      {"Deployment deployments *", "ReplicaSet replicasets *", "StatefulSet statefulsets *"},
	"coordination.k8s.io/v1":       {"Lease leases"},
	"discovery.k8s.io/v1":          {"EndpointSlice endpointslices"},
	"rbac.authorization.k8s.io/v1": {"Role roles", "RoleBinding rolebindings"},
}

// clusterScoped are the builtin ones without a namespace.
var clusterScoped = []string{"namespaces", "nodes"}

// newStore makes a store of the builtin resources and of those of the CRDs in files.
func newStore(crds ...string) (*store, error) {
	s := &store{kinds: map[schema.GroupVersionResource]*kind{}, version: 100, changed: make(chan struct{})}
	all, err := readBuiltin()
	if err != nil {
		return nil, err
	}
	for _, path := range crds {
		read, _ := crdsOf.LoadOrStore(path, sync.OnceValues(func() ([]*definition, error) { return readCRDs(path) }))
		defined, err := read.(func() ([]*definition, error))()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = slices.Concat(all, defined)
	}
	for _, d := range all {
		s.kinds[d.resource] = &kind{
			definition: d, objects: map[types.NamespacedName]*object{}, typed: map[types.NamespacedName]typed{},
		}
	}
	return s, nil
}

// crdsOf are the results of readCRDs, by path. Each scenario of the fault suite has an API server of its own.
var crdsOf sync.Map

func newDefinition(d definition) *definition {
	d.merger = sync.OnceValues(func() (*merger, error) { return newMerger(&d) })
	return &d
}

// readBuiltin gives the builtin resources.
var readBuiltin = sync.OnceValues(func() (all []*definition, err error) {
	for group, resources := range builtin {
		gv, err := schema.ParseGroupVersion(group)
		if err != nil {
			return nil, err
		}
		for _, text := range resources {
			words := strings.Fields(text)
			all = append(all, newDefinition(definition{
				resource: gv.WithResource(words[1]), name: words[0], status: len(words) > 2,
				namespaced: !slices.Contains(clusterScoped, words[1]),
			}))
		}
	}
	return all, nil
})

// readCRDs gives the resources of the CRDs in a file, or in those of a folder.
func readCRDs(path string) (all []*definition, err error) {
	files := []string{path}
	if info, err := os.Stat(path); err != nil {
		return nil, err
	} else if info.IsDir() {
		if files, err = filepath.Glob(filepath.Join(path, "*.*_*.yaml")); err != nil {
			return nil, err
		}
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for document := range bytes.SplitSeq(content, []byte("\n---")) {
			var crd apiextensionsv1.CustomResourceDefinition
			if err := yaml.Unmarshal(document, &crd); err != nil {
				return nil, err
			}
			for _, version := range crd.Spec.Versions {
				all = append(all, newDefinition(definition{
					resource: schema.GroupVersionResource{
						Group: crd.Spec.Group, Version: version.Name, Resource: crd.Spec.Names.Plural,
					},
					name: crd.Spec.Names.Kind, namespaced: crd.Spec.Scope == apiextensionsv1.NamespaceScoped,
					status: version.Subresources != nil && version.Subresources.Status != nil,
					schema: version.Schema.OpenAPIV3Schema,
				}))
			}
		}
	}
	return all, nil
}

// of gives a kind that there is.
func (s *store) of(resource string) *kind {
	for gvr, k := range s.kinds {
		if gvr.Resource == resource {
			return k
		}
	}
	panic("no resource " + resource)
}

func key(obj *object) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// note puts a change into the log and wakes the watches.
func (s *store) note(k *kind, was, is *object) {
	s.version++
	if is != nil {
		is.SetResourceVersion(strconv.FormatInt(s.version, 10))
		k.objects[key(is)] = is
	} else {
		delete(k.objects, key(was))
	}
	k.changes = append(k.changes, change{s.version, was, is})
	close(s.changed)
	s.changed = make(chan struct{})
}

// create stores a new object, whose generateName it completes.
func (s *store) create(k *kind, obj *object) (*object, error) {
	if obj.GetName() == "" {
		obj.SetName(obj.GetGenerateName() + rand.String(5))
	}
	if k.objects[key(obj)] != nil {
		return nil, apierrors.NewAlreadyExists(k.resource.GroupResource(), obj.GetName())
	}
	if err := s.hasRoom(k, obj); err != nil {
		return nil, err
	}
	s.complete(k, obj)
	s.note(k, nil, obj)
	return obj, nil
}

// hasRoom returns an error where there is no namespace that takes a new object.
func (s *store) hasRoom(k *kind, obj *object) error {
	if !k.namespaced {
		return nil
	}
	switch namespace := s.of("namespaces").objects[types.NamespacedName{Name: obj.GetNamespace()}]; {
	case namespace == nil:
		return apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, obj.GetNamespace())
	case namespace.GetDeletionTimestamp() != nil:
		return apierrors.NewForbidden(k.resource.GroupResource(), obj.GetName(),
			fmt.Errorf("namespace %s is being terminated", obj.GetNamespace()))
	}
	return nil
}

// complete makes of a new object what is stored of it.
func (s *store) complete(k *kind, obj *object) {
	obj.SetGroupVersionKind(k.gvk())
	obj.SetUID(uuid.NewUUID())
	obj.SetGeneration(1)
	obj.SetCreationTimestamp(now())
	obj.SetDeletionTimestamp(nil)
	if k.status {
		delete(obj.Object, "status")
	}
	setAll(k, obj)
	if s.admit != nil {
		s.admit(k, nil, obj)
	}
}

// setAll fills in a kind's defaults, and writes a Secret's stringData into its data.
func setAll(k *kind, obj *object) {
	if k.schema != nil {
		setDefaults(obj.Object, k.schema)
	}
	text, _, _ := unstructured.NestedStringMap(obj.Object, "stringData")
	if k.name != "Secret" || text == nil {
		return
	}
	data, _, _ := unstructured.NestedStringMap(obj.Object, "data")
	if data == nil {
		data = map[string]string{}
	}
	for name, value := range text {
		data[name] = base64.StdEncoding.EncodeToString([]byte(value))
	}
	delete(obj.Object, "stringData")
	if err := unstructured.SetNestedStringMap(obj.Object, data, "data"); err != nil {
		panic(err) // a Secret is an object
	}
}

// update stores obj in the place of was, unless both are the same.
func (s *store) update(k *kind, was, obj *object) *object {
	setAll(k, obj)
	if s.admit != nil {
		s.admit(k, was, obj)
	}
	if obj.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) == 0 && obj.GetDeletionGracePeriodSeconds() == nil &&
		(k.name != "Namespace" || s.isEmpty(obj.GetName())) {
		s.note(k, was, nil)
		return obj
	}
	if same(was, obj) {
		return was
	}
	if specOf(was) != specOf(obj) || was.GetDeletionTimestamp() == nil && obj.GetDeletionTimestamp() != nil {
		obj.SetGeneration(was.GetGeneration() + 1)
	}
	s.note(k, was, obj)
	return obj
}

// delete begins or ends an object's deletion. A Pod on a node has a grace period, and the node ends it.
func (s *store) delete(k *kind, was *object, options *metav1.DeleteOptions) *object {
	obj := was.DeepCopy()
	if obj.GetDeletionTimestamp() == nil {
		at := now()
		obj.SetDeletionTimestamp(&at)
	}
	node, _, _ := unstructured.NestedString(obj.Object, "spec", "nodeName")
	grace := options.GracePeriodSeconds
	if k.name == "Pod" && node != "" && !over(obj) && (grace == nil || *grace > 0) {
		obj.SetDeletionGracePeriodSeconds(new(int64(30)))
	} else {
		obj.SetDeletionGracePeriodSeconds(nil)
	}
	if policy := options.PropagationPolicy; policy != nil && *policy == metav1.DeletePropagationOrphan {
		s.release(was.GetUID())
	}
	return s.update(k, was, obj)
}

// isEmpty reports whether a namespace has no object.
func (s *store) isEmpty(namespace string) bool {
	for _, k := range s.kinds {
		for name := range k.objects {
			if k.namespaced && name.Namespace == namespace {
				return false
			}
		}
	}
	return true
}

// release takes an owner off all objects.
func (s *store) release(owner types.UID) {
	for _, k := range s.kinds {
		for _, was := range maps.Clone(k.objects) {
			kept := slices.DeleteFunc(was.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return o.UID == owner })
			if len(kept) < len(was.GetOwnerReferences()) {
				obj := was.DeepCopy()
				obj.SetOwnerReferences(kept)
				s.update(k, was, obj)
			}
		}
	}
}

// over reports whether the containers of a Pod have ended for good.
func over(pod *object) bool {
	phase, _, _ := unstructured.NestedString(pod.Object, "status", "phase")
	return phase == "Succeeded" || phase == "Failed"
}

func now() metav1.Time { return metav1.NewTime(time.Now().Truncate(time.Second)) }

// same reports whether two objects differ in nothing but what each write moves.
func same(a, b *object) bool { return textOf(a) == textOf(b) }

func textOf(obj *object) string {
	content := maps.Clone(obj.Object)
	metadata, _ := content["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	for _, field := range []string{"managedFields", "resourceVersion"} {
		delete(metadata, field)
	}
	content["metadata"] = metadata
	return jsonOf(content)
}

// specOf is all but an object's status and metadata.
func specOf(obj *object) string {
	content := maps.Clone(obj.Object)
	delete(content, "status")
	delete(content, "metadata")
	return jsonOf(content)
}

func jsonOf(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // it was JSON before
	}
	return string(text)
}

// setDefaults fills in what a schema has a default for.
func setDefaults(value any, s *apiextensionsv1.JSONSchemaProps) {
	switch value := value.(type) {
	case map[string]any:
		for name, property := range s.Properties {
			if _, there := value[name]; !there && property.Default != nil {
				var filled any
				if err := kubejson.Unmarshal(property.Default.Raw, &filled); err != nil {
					panic(err) // the generator wrote it
				}
				value[name] = filled
			}
			if is, there := value[name]; there {
				setDefaults(is, &property)
			}
		}
		if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
			for name := range value {
				setDefaults(value[name], s.AdditionalProperties.Schema)
			}
		}
	case []any:
		if s.Items != nil && s.Items.Schema != nil {
			for _, item := range value {
				setDefaults(item, s.Items.Schema)
			}
		}
	}
}

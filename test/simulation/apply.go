package simulation

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// merger carries server-side apply out for one kind, by the same library as kube-apiserver.
type merger struct {
	managedfields.TypeConverter
	gvk schema.GroupVersionKind
}

// newMerger makes a merger that knows from a CRD's schema which lists are maps.
func newMerger(d *definition) (*merger, error) {
	converter := managedfields.NewDeducedTypeConverter()
	if d.schema != nil {
		text, err := json.Marshal(d.schema)
		if err != nil {
			return nil, err
		}
		var s spec.Schema
		if err := json.Unmarshal(text, &s); err != nil {
			return nil, err
		}
		// What objects of all kinds have is in no CRD's schema.
		delete(s.Properties, "metadata")
		s.AddExtension("x-kubernetes-group-version-kind", []any{
			map[string]any{"group": d.resource.Group, "version": d.resource.Version, "kind": d.name},
		})
		if converter, err = managedfields.NewTypeConverter(map[string]*spec.Schema{d.name: &s}, true); err != nil {
			return nil, fmt.Errorf("the schema of %s: %w", d.name, err)
		}
	}
	return &merger{converter, d.gvk()}, nil
}

// apply is an object after a server-side apply.
func (m *merger) apply(live, applied *object, manager, subresource string, force bool) (*object, error) {
	fields, err := managedfields.NewDefaultCRDFieldManager(m.TypeConverter, m, m, m, m.gvk, m.gvk.GroupVersion(),
		subresource, nil)
	if err != nil {
		return nil, err
	}
	merged, err := fields.Apply(live.DeepCopy(), applied, manager, force)
	if err != nil {
		return nil, err
	}
	return merged.(*unstructured.Unstructured), nil
}

// Default implements runtime.ObjectDefaulter.
func (*merger) Default(runtime.Object) {}

// New implements runtime.ObjectCreater.
func (*merger) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(gvk)
	return obj, nil
}

// Convert implements runtime.ObjectConvertor. There is one version of each kind.
func (*merger) Convert(in, out, _ any) error {
	out.(*unstructured.Unstructured).Object = in.(*unstructured.Unstructured).Object
	return nil
}

// ConvertToVersion implements runtime.ObjectConvertor.
func (*merger) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}

// ConvertFieldLabel implements runtime.ObjectConvertor.
func (*merger) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

package integration

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// mistake is a spec that the API server must refuse for one reason. Specs are YAML, without the braces around.
type mistake struct {
	spec string
	// field and message must be the refusal's field, below spec, and a part of its message.
	field, message string
}

// update is a spec that becomes another one.
type update struct {
	before, after string
	// Both are empty when the update must be accepted.
	field, message string
}

// withSpec makes an object whose spec is the YAML text given.
type withSpec func(t testing.TB, spec string) *unstructured.Unstructured

// objectWith makes objects of a kind and name.
func objectWith(kind schema.GroupVersionKind, name string) withSpec {
	return func(t testing.TB, spec string) *unstructured.Unstructured {
		t.Helper()
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(kind)
		object.SetName(name)
		object.Object["spec"] = parseYAML(t, spec).Object
		return object
	}
}

// refused holds that each mistake is refused with one sentence. All specs begin with all.
func refused(t *testing.T, of schema.GroupVersionResource, namespace string, with withSpec, all string, cases []mistake) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.spec, func(t *testing.T) {
			t.Parallel()
			_, err := tryCreate(t.Context(), of, namespace, with(t, "{"+all+c.spec+"}"))
			wantRefusal(t, err, "spec."+c.field, c.message)
		})
	}
}

// refusedWithoutSpec holds that an object without a spec is refused with a message.
func refusedWithoutSpec(t *testing.T, of schema.GroupVersionResource, namespace string, with withSpec, message string) {
	t.Helper()
	object := with(t, `{}`)
	delete(object.Object, "spec")
	_, err := tryCreate(t.Context(), of, namespace, object)
	wantRefusal(t, err, "spec", message)
}

// accepted holds that each spec is accepted.
func accepted(t *testing.T, of schema.GroupVersionResource, namespace string, with withSpec, all string, specs []string) {
	t.Helper()
	for _, spec := range specs {
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			if _, err := tryCreate(t.Context(), of, namespace, with(t, "{"+all+spec+"}")); err != nil {
				t.Errorf("want it accepted, got %v", err)
			}
		})
	}
}

// updated creates each object, and holds what the API server says of its new spec.
func updated(t *testing.T, of schema.GroupVersionResource, namespace string, with withSpec, all string, cases []update) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.before+" becomes "+c.after, func(t *testing.T) {
			t.Parallel()
			object := with(t, "{"+all+c.before+"}")
			object.SetName("")
			object.SetGenerateName("updated-")
			client := anyAPI.Resource(of).Namespace(namespace)
			stored, err := client.Create(t.Context(), object, metav1.CreateOptions{})
			if err != nil {
				t.Fatalf("create: %v", err)
			}
			stored.Object["spec"] = parseYAML(t, "{"+all+c.after+"}").Object
			_, err = client.Update(t.Context(), stored, metav1.UpdateOptions{FieldValidation: metav1.FieldValidationStrict})
			if c.field != "" {
				c.field = "spec." + c.field
			}
			wantRefusal(t, err, c.field, c.message)
		})
	}
}

// wantRefusal holds that the API server refused a field with a message, or nothing where both are empty.
func wantRefusal(t *testing.T, err error, field, message string) {
	t.Helper()
	found := refusals(t, err)
	if field == "" && len(found) > 0 {
		t.Errorf("want it accepted, got %+v", found)
	}
	if field != "" && (len(found) != 1 || found[0].Field != field || !strings.Contains(found[0].Message, message)) {
		t.Errorf("want one refusal of %s with %q, got %+v", field, message, found)
	}
}

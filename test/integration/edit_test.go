package integration

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// edit is a Network that the API server accepts, or refuses with one sentence.
type edit struct {
	// before is the spec that it is an update of; empty for a new Network. Both are YAML, without the braces around.
	before, spec string
	// Both are empty when it must be accepted.
	field, message string
}

// check asks the API server to store the Network. all is what both specs begin with.
func (e edit) check(t *testing.T, namespace, all string) {
	t.Helper()
	client := anyAPI.Resource(networks).Namespace(namespace)
	object := networkWith(t, "{"+all+e.spec+"}")
	object.SetName("")
	object.SetGenerateName("edited-")
	strict := metav1.FieldValidationStrict
	var err error
	if e.before == "" {
		_, err = client.Create(t.Context(), object, metav1.CreateOptions{FieldValidation: strict})
	} else {
		spec := object.Object["spec"]
		object.Object["spec"] = networkWith(t, "{"+all+e.before+"}").Object["spec"]
		object, err = client.Create(t.Context(), object, metav1.CreateOptions{FieldValidation: strict})
		if err != nil {
			t.Fatalf("create: %v", err)
		}
		object.Object["spec"] = spec
		_, err = client.Update(t.Context(), object, metav1.UpdateOptions{FieldValidation: strict})
	}
	found := refusals(t, err)
	if e.field == "" {
		if len(found) > 0 {
			t.Errorf("want it accepted, got %+v", found)
		}
		return
	}
	if len(found) != 1 || found[0].Field != e.field || !strings.Contains(found[0].Message, e.message) {
		t.Errorf("want one refusal of %s with %q, got %+v", e.field, e.message, found)
	}
}

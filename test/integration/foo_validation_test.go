package integration

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"cloudteam.ztgame.com/network-controller/pkg/apis/samplecontroller/v1alpha1"
)

// foos is the resource that the Foo CRD serves.
var foos = v1alpha1.SchemeGroupVersion.WithResource("foos")

// fooWith returns a Foo with the name and the spec given, the latter as YAML text.
func fooWith(t testing.TB, name, spec string) *unstructured.Unstructured {
	t.Helper()
	foo := &unstructured.Unstructured{}
	foo.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind("Foo"))
	foo.SetName(name)
	foo.Object["spec"] = parseYAML(t, spec).Object
	return foo
}

func TestFooMistakesAreRefusedWithOneSentenceEach(t *testing.T) {
	namespace := newNamespace(t)
	const noName = "no Deployment can have this name: write at most 253 lower-case letters"
	for name, test := range map[string]struct {
		foo            *unstructured.Unstructured
		field, message string
	}{
		"an empty spec lacks a name": {
			fooWith(t, "example", `{}`), "spec.deploymentName", `write one, such as "example-foo"`,
		},
		"replicas alone lack a name": {
			fooWith(t, "example", `{replicas: 1}`), "spec.deploymentName", "a Foo needs the name of its Deployment",
		},
		"an empty name is none": {
			fooWith(t, "example", `{deploymentName: ""}`), "spec.deploymentName", "a Foo needs the name of its Deployment",
		},
		"a name with capitals":     {fooWith(t, "example", `{deploymentName: Example}`), "spec.deploymentName", noName},
		"a name with a space":      {fooWith(t, "example", `{deploymentName: "a b"}`), "spec.deploymentName", noName},
		"a name with an underline": {fooWith(t, "example", `{deploymentName: a_b}`), "spec.deploymentName", noName},
		"a name with a dash first": {fooWith(t, "example", `{deploymentName: -a}`), "spec.deploymentName", noName},
		"a name with an empty part": {
			fooWith(t, "example", `{deploymentName: a..b}`), "spec.deploymentName", noName,
		},
		"a name with a line break": {
			fooWith(t, "example", `{deploymentName: "a\n"}`), "spec.deploymentName", noName,
		},
		"a name of 254 characters": {
			fooWith(t, "example", `{deploymentName: `+strings.Repeat("a", 254)+`}`), "spec.deploymentName", noName,
		},
		"no replicas": {
			fooWith(t, "example", `{deploymentName: a, replicas: 0}`), "spec.replicas",
			"0 replicas are not possible: write a number from 1 to 10",
		},
		"fewer than no replicas": {
			fooWith(t, "example", `{deploymentName: a, replicas: -1}`), "spec.replicas", "-1 replicas are not possible",
		},
		"eleven replicas": {
			fooWith(t, "example", `{deploymentName: a, replicas: 11}`), "spec.replicas",
			"11 replicas are not possible: write a number from 1 to 10, or leave it out",
		},
		"a Foo whose name is too long for a label": {
			fooWith(t, strings.Repeat("a", 64), `{deploymentName: a}`), "", "64 characters are too many",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := tryCreate(t.Context(), foos, namespace, test.foo)
			found := refusals(t, err)
			if len(found) != 1 || test.field != "" && found[0].Field != test.field ||
				!strings.Contains(found[0].Message, test.message) {
				t.Errorf("want one refusal of %s with %q, got %+v", test.field, test.message, found)
			}
		})
	}

	t.Run("a Foo without a spec lacks one", func(t *testing.T) {
		foo := fooWith(t, "example", `{}`)
		unstructured.RemoveNestedField(foo.Object, "spec")
		_, err := tryCreate(t.Context(), foos, namespace, foo)
		wantRefusal(t, err, "spec", "a Foo needs a spec")
	})
}

func TestValidFoos(t *testing.T) {
	namespace := newNamespace(t)
	for name, foo := range map[string]*unstructured.Unstructured{
		"the fewest replicas":             fooWith(t, "example", `{deploymentName: a, replicas: 1}`),
		"the most replicas":               fooWith(t, "example", `{deploymentName: a, replicas: 10}`),
		"others decide about replicas":    fooWith(t, "example", `{deploymentName: a}`),
		"a name of digits":                fooWith(t, "example", `{deploymentName: "1"}`),
		"a name with dots":                fooWith(t, "example", `{deploymentName: a.b-c.d}`),
		"the longest name":                fooWith(t, "example", `{deploymentName: `+strings.Repeat("a", 253)+`}`),
		"the longest name of a Foo's own": fooWith(t, strings.Repeat("a", 63), `{deploymentName: a}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := tryCreate(t.Context(), foos, namespace, foo); err != nil {
				t.Errorf("want it accepted, got %v", err)
			}
		})
	}
}

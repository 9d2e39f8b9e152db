package integration

import (
	"strings"
	"testing"

	"cloudteam.ztgame.com/network-controller/pkg/apis/samplecontroller/v1alpha1"
)

// foos is the resource that the Foo CRD serves.
var foos = v1alpha1.SchemeGroupVersion.WithResource("foos")

// fooWith returns a Foo whose spec is the YAML text given.
var fooWith = objectWith(v1alpha1.SchemeGroupVersion.WithKind("Foo"), "example")

func TestFooMistakesAreRefusedWithOneSentenceEach(t *testing.T) {
	namespace := newNamespace(t)
	const noName = "no Deployment can have this name: write at most 253 lower-case letters"
	refused(t, foos, namespace, fooWith, "", []mistake{
		{``, "deploymentName", `write one, such as "example-foo"`},
		{`replicas: 1`, "deploymentName", "a Foo needs the name of its Deployment"},
		{`deploymentName: ""`, "deploymentName", "a Foo needs the name of its Deployment"},
		{`deploymentName: Example`, "deploymentName", noName},
		{`deploymentName: "a b"`, "deploymentName", noName},
		{`deploymentName: a_b`, "deploymentName", noName},
		{`deploymentName: -a`, "deploymentName", noName},
		{`deploymentName: a..b`, "deploymentName", noName},
		{`deploymentName: "a\n"`, "deploymentName", noName},
		{`deploymentName: ` + strings.Repeat("a", 254), "deploymentName", noName},
		{`deploymentName: a, replicas: 0`, "replicas", "0 replicas are not possible: write a number from 1 to 10"},
		{`deploymentName: a, replicas: -1`, "replicas", "-1 replicas are not possible"},
		{`deploymentName: a, replicas: 11`, "replicas",
			"11 replicas are not possible: write a number from 1 to 10, or leave it out"},
	})
	accepted(t, foos, namespace, fooWith, "", []string{
		`deploymentName: a, replicas: 1`,
		`deploymentName: a, replicas: 10`,
		`deploymentName: a`, // others decide about replicas
		`deploymentName: "1"`,
		`deploymentName: a.b-c.d`,
		`deploymentName: ` + strings.Repeat("a", 253),
	})
	for length, message := range map[int]string{63: "", 64: "64 characters are too many"} { // a label has 63
		foo := fooWith(t, `{deploymentName: a}`)
		foo.SetName(strings.Repeat("a", length))
		_, err := tryCreate(t.Context(), foos, namespace, foo)
		if found := refusals(t, err); (message != "") != (len(found) == 1) ||
			message != "" && !strings.Contains(found[0].Message, message) {
			t.Errorf("want a name of %d characters refused with %q, got %+v", length, message, found)
		}
	}
	refusedWithoutSpec(t, foos, namespace, fooWith, "a Foo needs a spec")
}

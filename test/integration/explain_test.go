package integration

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/doctor"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// TestEveryFieldIsExplained walks the schemas that kubectl explain prints. It keeps the line breaks of a description
// and indents it by four columns, so that longer lines than these break on a terminal of 80.
func TestEveryFieldIsExplained(t *testing.T) {
	const columns = 76
	// These texts are Kubernetes' own.
	foreign := map[string]bool{
		".apiVersion": true, ".kind": true, ".metadata": true, ".status.conditions[]": true,
		".spec.namespaceSelector.matchLabels": true, ".spec.namespaceSelector.matchExpressions[]": true,
	}
	files, err := filepath.Glob(filepath.Join(repository, "config", "crd", "*_*.yaml"))
	expect.NoError(t, err)
	if len(files) == 0 {
		t.Fatal("config/crd is empty")
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			versions, _, err := unstructured.NestedSlice(readObjects(t, file)[0].Object, "spec", "versions")
			expect.NoError(t, err)
			root, _, err := unstructured.NestedMap(versions[0].(map[string]any), "schema", "openAPIV3Schema")
			expect.NoError(t, err)
			var walk func(path string, schema map[string]any)
			walk = func(path string, schema map[string]any) {
				if foreign[path] {
					return
				}
				description, _ := schema["description"].(string)
				if description == "" {
					t.Errorf("%s has no description", path)
				}
				// The texts of fields that break no line are folded by kubectl itself.
				for line := range strings.SplitSeq(description, "\n") {
					if strings.Contains(description, "\n") && utf8.RuneCountInString(line) > columns {
						t.Errorf("%s is described in a line of more than %d columns: %s", path, columns, line)
					}
				}
				properties, _ := schema["properties"].(map[string]any)
				for name, property := range properties {
					walk(path+"."+name, property.(map[string]any))
				}
				if items, ok := schema["items"].(map[string]any); ok && items["type"] == "object" {
					walk(path+"[]", items)
				}
			}
			walk("", root)
		})
	}
}

// TestDoctorFindsNoDifferenceInTheCRDsOfThisVersion holds what an API server publishes against the CRDs that it was
// given: it may add defaults and drop what it does not know.
func TestDoctorFindsNoDifferenceInTheCRDsOfThisVersion(t *testing.T) {
	cluster := &ask.Cluster{Kubernetes: kubeClient, Networks: networkAPI}
	for _, check := range doctor.Run(t.Context(), cluster, doctor.Options{Version: "v1.2.0", Now: time.Now()}) {
		if check.Name == "CRDs' schema" {
			expect.Equal(t, doctor.OK, check.State, "the state of %+v", check)
			return
		}
	}
	t.Error("the schemas were not compared")
}

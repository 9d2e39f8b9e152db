package main

import (
	"strings"
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/kinds"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestAFileOfConfigThatChangedIsTold(t *testing.T) {
	read := func(content string) func(string) (string, error) {
		return func(string) (string, error) { return content, nil }
	}
	for content, want := range map[string]string{
		"replicas: 2\n": "",
		"replicas: 3\n": "adapt tools/chart",
	} {
		one := template{
			name: "x.yaml", from: []string{"x.yaml"},
			edits: []string{"replicas: 2\n", "replicas: {{ .Values.replicas }}\n"},
		}
		_, err := one.render(read(content))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: error %v, want %q", content, err, want)
		}
	}
}

// TestOthersTemplatesStay has Helm leave what Prometheus and Grafana are to read.
func TestOthersTemplatesStay(t *testing.T) {
	one := template{name: "x.yaml", from: []string{"x.yaml"}}
	got, err := one.render(func(string) (string, error) { return "summary: of {{ $labels.name }}\n", nil })
	if want := `summary: of {{ "{{" }} $labels.name }}` + "\n"; err != nil || !strings.HasSuffix(got, want) {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}

// TestOneFileInstalls holds that install.yaml has the release's image, and no CRD: to delete one deletes every network.
func TestOneFileInstalls(t *testing.T) {
	var install, crds strings.Builder
	expect.NoError(t, writeManifests(&install, "../..", "config", "example/network-controller:v1"))
	expect.NoError(t, writeManifests(&crds, "../..", "config/crd", ""))
	if text := install.String(); !strings.Contains(text, "image: example/network-controller:v1\n") ||
		strings.Contains(text, ":latest") || strings.Contains(text, "kind: CustomResourceDefinition") {
		t.Error("install.yaml lacks the image, or has a CRD")
	}
	expect.Equal(t, len(kinds.All)+1, strings.Count(crds.String(), "\nkind: CustomResourceDefinition\n"), "CRDs in crds.yaml")
}

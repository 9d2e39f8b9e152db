// SPDX-License-Identifier: Apache-2.0

//go:build unix

package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cloudteam.ztgame.com/network-controller/dev/controlplane/internal/assets"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// gadgetCRD is a CustomResourceDefinition of the kind Gadget in the versions, of which the first is stored.
func gadgetCRD(versions ...string) string {
	var crd strings.Builder
	crd.WriteString(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: gadgets.example.com
spec:
  group: example.com
  names: {kind: Gadget, plural: gadgets}
  scope: Namespaced
  versions:
`)
	for i, version := range versions {
		fmt.Fprintf(&crd, "  - {name: %s, served: true, storage: %t, schema: {openAPIV3Schema: {type: object}}}\n",
			version, i == 0)
	}
	return crd.String()
}

// gadgets is gadgetCRD as Options take it.
func gadgets(versions ...string) CRD {
	return CRD{"gadgets.example.com", []byte(gadgetCRD(versions...))}
}

func TestReadCRDs(t *testing.T) {
	const (
		widgets = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: widgets}\n"
		other   = "apiVersion: v1\nkind: Namespace\nmetadata: {name: other}\n"
	)
	for sentence, test := range map[string]struct {
		files map[string]string
		paths []string
		want  []string
		err   string
	}{
		"a directory's YAML files are read, a file that is named, and of a file all documents": {
			files: map[string]string{
				"a/a.yaml": "---\n" + widgets + "---\n" + other + "---\n---\n- a list\n---\n" + gadgetCRD("v1"),
				"a/b.json": "{}", "crd": widgets,
			},
			paths: []string{"crd", "a"}, want: []string{"widgets", "widgets", "gadgets.example.com"},
		},
		"a path that does not exist is an error": {paths: []string{"nowhere"}, err: "no such file"},
		"a path without a CRD is an error": {
			files: map[string]string{"other.yaml": other, "beta.yaml": strings.Replace(widgets, "/v1", "/v1beta1", 1)},
			paths: []string{"."}, err: "holds no CustomResourceDefinition of apiextensions.k8s.io/v1",
		},
		"what is no YAML is an error that names the file": {
			files: map[string]string{"a.yaml": "a: b: c"}, paths: []string{"."}, err: "a.yaml: yaml: ",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Chdir(t.TempDir())
			for name, content := range test.files {
				expect.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
				expect.NoError(t, os.WriteFile(name, []byte(content), 0o600))
			}
			crds, err := ReadCRDs(test.paths)
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Fatalf("error %v, want one that contains %q", err, test.err)
			}
			var got []string
			for _, crd := range crds {
				got = append(got, crd.name)
			}
			expect.Equal(t, test.want, got, "CRDs")
		})
	}
}

// TestARestart has a directory started twice: its data and tokens stay, and the CRDs are those of the last start.
func TestARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var key []byte
	for _, step := range []struct {
		sentence string
		versions []string
	}{
		{"a CRD that is new is served", []string{"v1"}},
		{"one that the directory has in an earlier form is served", []string{"v1", "v2"}},
	} {
		t.Run(step.sentence, func(t *testing.T) {
			c := startCluster(t, dir, assets.Minimal(), gadgets(step.versions...))
			for _, version := range step.versions {
				if err := c.api.get(t.Context(), c.URL()+"/apis/example.com/"+version+"/gadgets", nil); err != nil {
					t.Error(err)
				}
			}
			before := key
			var err error
			if key, err = os.ReadFile(filepath.Join(dir, "pki", "sa.key")); err != nil {
				t.Fatal(err)
			}
			if before == nil {
				err = c.api.create(t.Context(), c.URL()+"/api/v1/namespaces",
					json.RawMessage(`{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kept"}}`))
			} else if err = c.api.get(t.Context(), c.URL()+"/api/v1/namespaces/kept", nil); !bytes.Equal(key, before) {
				t.Error("the key of service accounts has changed")
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}

func TestStartTellsWhyACRDIsRefused(t *testing.T) {
	t.Parallel()
	crd := gadgets("v1")
	crd.manifest = bytes.Replace(crd.manifest, []byte("scope: Namespaced"), []byte("scope: Galactic"), 1)
	_, err := Start(t.Context(), clusterOptions(t, t.TempDir(), assets.Minimal(), crd))
	if err == nil {
		t.Fatal("it started")
	}
	for _, want := range []string{"apply the CRD gadgets.example.com", "Galactic"} {
		expect.ErrorSays(t, err, want)
	}
}

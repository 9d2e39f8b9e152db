// Package kustomize has a test of the configuration of kustomize beside it.
package kustomize

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

// objects name each other, all by the name "a".
const objects = `
{apiVersion: cloudteam.ztgame.com/v1, kind: NetworkClass, metadata: {name: a}, spec: {credentials: {secretName: a}}}
---
{apiVersion: cloudteam.ztgame.com/v1, kind: Network, metadata: {name: a}, spec: {cloud: {secretName: a}, className: a,
  securityGroupRefs: [a], reservedFor: [{kind: Deployment, name: a}],
  additionalSubnets: [{reservedFor: [{kind: StatefulSet, name: a}]}]}}
---
{apiVersion: cloudteam.ztgame.com/v1, kind: NetworkPort, metadata: {name: a}, spec: {networkName: a, securityGroupRefs: [a]}}
---
{apiVersion: cloudteam.ztgame.com/v1, kind: SecurityGroup, metadata: {name: a}, spec: {cloud: {secretName: a},
  className: a, rules: [{direction: ingress, remoteGroup: a}]}}
---
{apiVersion: cloudteam.ztgame.com/v1, kind: FloatingIP, metadata: {name: a}, spec: {externalNetwork: public, portName: a,
  cloud: {secretName: a}, className: a}}
---
{apiVersion: v1, kind: Pod, metadata: {name: b, annotations: {k8s.v1.cni.cncf.io/networks: a}}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {template: {metadata: {annotations: {
  k8s.v1.cni.cncf.io/networks: a}}}}}
---
{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a}, spec: {template: {metadata: {annotations: {
  k8s.v1.cni.cncf.io/networks: a}}}}}
`

// TestReferencesFollowTheNames has a prefix for all objects, and the hash of a Secret.
func TestReferencesFollowTheNames(t *testing.T) {
	references, err := os.ReadFile("references.yaml")
	expect.NoError(t, err)
	files := filesys.MakeFsInMemory()
	for name, content := range map[string]string{
		"objects.yaml": objects, "references.yaml": string(references), "kustomization.yaml": `
namePrefix: team-
resources: [objects.yaml]
configurations: [references.yaml]
secretGenerator: [{name: a, literals: [clouds.yaml=x]}]`,
	} {
		expect.NoError(t, files.WriteFile("/"+name, []byte(content)))
	}
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, "/")
	expect.NoError(t, err)
	text, err := made.AsYaml()
	expect.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "- a" || strings.HasSuffix(line, ": a") {
			t.Errorf("%q does not follow:\n%s", line, text)
		}
	}
	expect.Contains(t, string(text), "secretName: team-a-", "the names of Secrets, which have a hash")
}

// names are the fields that name an object of this cluster. networkName of a Network is Neutron's.
var names = []string{"secretName", "className", "portName", "networkName", "securityGroupRefs", "remoteGroup"}

// TestEachReferenceIsConfigured finds the fields in the CRDs.
func TestEachReferenceIsConfigured(t *testing.T) {
	content, err := os.ReadFile("references.yaml")
	expect.NoError(t, err)
	crds, err := filepath.Glob("../crd/cloudteam.ztgame.com_*.yaml")
	expect.NoError(t, err)
	found := 0
	for _, file := range crds {
		text, err := os.ReadFile(file)
		expect.NoError(t, err)
		var crd apiextensionsv1.CustomResourceDefinition
		expect.NoError(t, yaml.UnmarshalStrict(text, &crd))
		var look func(path string, s apiextensionsv1.JSONSchemaProps)
		look = func(path string, s apiextensionsv1.JSONSchemaProps) {
			if s.Items != nil {
				look(path, *s.Items.Schema)
			}
			for name, of := range s.Properties {
				at := path + "/" + name
				if (slices.Contains(names, name) || strings.HasSuffix(at, "/reservedFor/name")) &&
					crd.Spec.Names.Kind+at != "Networkspec/networkName" {
					found++
					if !strings.Contains(string(content), "kind: "+crd.Spec.Names.Kind+", path: "+at+"}") {
						t.Errorf("%s of %s names an object, and references.yaml does not say so", at, crd.Spec.Names.Kind)
					}
				}
				look(at, of)
			}
		}
		look("spec", crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"])
	}
	if found < 10 {
		t.Errorf("only %d fields are found", found)
	}
}

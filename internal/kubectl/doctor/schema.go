package doctor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/openapi"
	"sigs.k8s.io/yaml"

	"cloudteam.ztgame.com/network-controller/config/crd"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// schemas are those of kinds, as JSON has them.
type schemas map[string]map[string]any

// differences are the fields by which installed schemas differ from those of this version.
type differences struct {
	// lacks are fields that are not installed, more those that only the installation has, and rules those with other
	// rules, types or defaults.
	lacks, more, rules []string
}

// schemas compares the CRDs that are installed with those of this version. The API server publishes them to everybody.
func (d doctor) schemas() Check {
	c := Check{Name: "CRDs' schema", State: OK, Says: "that of kubectl network " + d.Version}
	want, err := ownSchemas()
	if err == nil {
		var got schemas
		if got, err = installedSchemas(d.Kubernetes.Discovery().OpenAPIV3()); err == nil {
			return c.ofSchemas(compareSchemas(want, got), d.Version)
		}
	}
	return c.is(Unknown, "the API server does not say it: "+err.Error(), "kubectl get --raw /openapi/v3")
}

// ofSchemas judges differences.
func (c Check) ofSchemas(of differences, version string) Check {
	var all []string
	for _, part := range []struct {
		says   string
		fields []string
	}{
		{"the installed CRDs lack ", of.lacks},
		{"kubectl network does not know ", of.more},
		{"other rules hold for ", of.rules},
	} {
		if n := len(part.fields); n > 0 {
			text := part.says + strings.Join(part.fields[:min(n, shown)], ", ")
			if n > shown {
				text += fmt.Sprintf(" and %d more", n-shown)
			}
			all = append(all, text)
		}
	}
	if len(all) == 0 {
		return c
	}
	c.State, c.Says = Warns, strings.Join(all, "; ")
	switch {
	case len(of.more) == 0 && len(of.lacks) > 0:
		c.Remedy = "The API server drops fields that the CRDs lack. Upgrade the CRDs (docs/install.md#upgrade), or use the " +
			"kubectl network of the installed version."
	case len(of.lacks) == 0 && len(of.more) > 0:
		c.Remedy = "Install the kubectl network of the installed version (docs/kubectl-network.md#install)."
	default:
		c.Remedy = "Bring the CRDs, the controller and kubectl network to one version (docs/install.md#upgrade). " +
			"This is " + version + "."
	}
	return c
}

// shown is how many fields a check names.
const shown = 3

// ownSchemas are those of this version.
func ownSchemas() (schemas, error) {
	all := schemas{}
	files, err := fs.Glob(crd.Files, "*.yaml")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		content, err := crd.Files.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var of struct {
			Spec struct {
				Names    struct{ Kind string }
				Versions []struct {
					Name   string
					Schema struct{ OpenAPIV3Schema map[string]any }
				}
			}
		}
		if err := yaml.Unmarshal(content, &of); err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		for _, version := range of.Spec.Versions {
			if version.Name == cloudteamv1.SchemeGroupVersion.Version {
				all[of.Spec.Names.Kind] = version.Schema.OpenAPIV3Schema
			}
		}
	}
	return all, nil
}

// installedSchemas are those that the API server publishes.
func installedSchemas(of openapi.Client) (schemas, error) {
	paths, err := of.Paths()
	if err != nil {
		return nil, err
	}
	group := cloudteamv1.SchemeGroupVersion
	published, ok := paths["apis/"+group.String()]
	if !ok {
		return nil, errors.New("it publishes no schema of " + group.String())
	}
	content, err := published.Schema(runtime.ContentTypeJSON)
	if err != nil {
		return nil, err
	}
	var document struct {
		Components struct{ Schemas schemas }
	}
	if err := json.Unmarshal(content, &document); err != nil {
		return nil, err
	}
	all := schemas{}
	for _, published := range document.Components.Schemas {
		kinds, _ := published["x-kubernetes-group-version-kind"].([]any)
		for _, one := range kinds {
			is, _ := one.(map[string]any)
			if is["group"] == group.Group && is["version"] == group.Version {
				kind, _ := is["kind"].(string)
				all[kind] = published
			}
		}
	}
	return all, nil
}

// compareSchemas compares the kinds of this version.
func compareSchemas(want, got schemas) (of differences) {
	for _, kind := range slices.Sorted(maps.Keys(want)) {
		if got[kind] == nil {
			of.lacks = append(of.lacks, kind)
			continue
		}
		for _, part := range []string{"spec", "status"} {
			of.compare(kind+" "+part, field(want[kind], part), field(got[kind], part))
		}
	}
	return of
}

// field gives the schema of a field; nil for none.
func field(of map[string]any, name string) map[string]any {
	fields, _ := of["properties"].(map[string]any)
	is, _ := fields[name].(map[string]any)
	return is
}

// compare compares the schemas at a path, and those below.
func (d *differences) compare(path string, want, got map[string]any) {
	switch {
	case want == nil && got == nil:
		return
	case got == nil:
		d.lacks = append(d.lacks, path)
		return
	case want == nil:
		d.more = append(d.more, path)
		return
	}
	if !reflect.DeepEqual(rules(want), rules(got)) {
		d.rules = append(d.rules, path)
	}
	names := map[string]bool{}
	for _, of := range []map[string]any{want, got} {
		fields, _ := of["properties"].(map[string]any)
		for name := range fields {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		d.compare(path+"."+name, field(want, name), field(got, name))
	}
	for _, below := range []string{"items", "additionalProperties"} {
		of, _ := want[below].(map[string]any)
		is, _ := got[below].(map[string]any)
		d.compare(path+"[]", of, is)
	}
}

// rules is a schema without the fields, which are compared by name, and without its text.
func rules(of map[string]any) map[string]any {
	all := maps.Clone(of)
	for _, key := range []string{"description", "properties", "items", "additionalProperties"} {
		delete(all, key)
	}
	return all
}

// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"
)

// crdPath is where the CustomResourceDefinitions are in the API.
const crdPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"

// fieldManager names the launcher in server-side apply.
const fieldManager = "controlplane"

// CRD is a CustomResourceDefinition, as ReadCRDs reads it.
type CRD struct {
	name string
	// manifest is the definition, as YAML.
	manifest []byte
}

// ReadCRDs reads the CustomResourceDefinitions (apiextensions.k8s.io/v1) from YAML files, or from the files directly in
// a directory whose names end in .yaml. Objects of other kinds are skipped, as the manifests of a project may lie
// beside its CRDs; a path without any CRD is an error.
func ReadCRDs(paths []string) ([]CRD, error) {
	var all []CRD
	for _, path := range paths {
		files, err := filepath.Glob(filepath.Join(path, "*.yaml"))
		if err != nil {
			return nil, err
		}
		if info, err := os.Stat(path); err != nil || !info.IsDir() {
			files = []string{path} // to read it says what is wrong with it
		}
		before := len(all)
		for _, file := range files {
			if all, err = readCRDFile(all, file); err != nil {
				return nil, fmt.Errorf("read the CRDs in %s: %w", file, err)
			}
		}
		if len(all) == before {
			return nil, fmt.Errorf("%s holds no CustomResourceDefinition of apiextensions.k8s.io/v1: "+
				"name a YAML file that does, or the directory of such files", path)
		}
	}
	return all, nil
}

// readCRDFile appends the CRDs of a file.
func readCRDFile(crds []CRD, path string) ([]CRD, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	documents := yaml.NewDecoder(bytes.NewReader(content))
	for {
		var document yaml.Node
		err := documents.Decode(&document)
		if errors.Is(err, io.EOF) {
			return crds, nil
		}
		if err != nil {
			return nil, err
		}
		var object struct {
			APIVersion string `yaml:"apiVersion"`
			Kind       string `yaml:"kind"`
			Metadata   struct {
				Name string `yaml:"name"`
			} `yaml:"metadata"`
		}
		// What cannot be read so is no object of Kubernetes.
		if document.Decode(&object) != nil || object.APIVersion != "apiextensions.k8s.io/v1" ||
			object.Kind != "CustomResourceDefinition" {
			continue
		}
		manifest, err := yaml.Marshal(&document)
		if err != nil {
			return nil, err
		}
		crds = append(crds, CRD{object.Metadata.Name, manifest})
	}
}

// definition is the part of a CustomResourceDefinition that is read here.
type definition struct {
	Spec struct {
		Group string `json:"group"`
		Names struct {
			Plural string `json:"plural"`
		} `json:"names"`
		Versions []struct {
			Name   string `json:"name"`
			Served bool   `json:"served"`
		} `json:"versions"`
	} `json:"spec"`
	Status struct {
		Conditions []condition `json:"conditions"`
	} `json:"status"`
}

// installCRDs applies the CRDs and returns when the API server serves the objects of all.
func (c *Cluster) installCRDs(ctx context.Context) error {
	started := time.Now()
	for _, crd := range c.options.CRDs {
		// An apply and not a create, for a directory that is used again has them already, perhaps in an earlier form.
		if err := c.api.apply(ctx, c.crdURL(crd), crd.manifest); err != nil {
			return fmt.Errorf("apply the CRD %s: %w", crd.name, err)
		}
	}
	for _, crd := range c.options.CRDs {
		var last error
		err := c.poll(ctx, func(ctx context.Context) (bool, error) {
			last = c.serves(ctx, crd)
			return last == nil, nil
		})
		if errors.Is(err, errSlow) {
			return fmt.Errorf("the CRD %s was not served within %s: %w", crd.name, c.options.StartTimeout, last)
		}
		if err != nil {
			return err
		}
		c.options.Log.Printf("%s served after %.1fs", crd.name, time.Since(started).Seconds())
	}
	return nil
}

// serves returns nil once the CRD is Established, discovery tells of it and its objects can be listed. Established
// alone is not enough for those that start next: the garbage collector watches the kinds that discovery names when it
// starts, and for a moment requests are answered that the storage is being initialized.
func (c *Cluster) serves(ctx context.Context, crd CRD) error {
	var is definition
	if err := c.api.get(ctx, c.crdURL(crd), &is); err != nil {
		return err
	}
	if !slices.Contains(is.Status.Conditions, condition{Type: "Established", Status: "True"}) {
		return fmt.Errorf("it is not Established: its conditions are %v", is.Status.Conditions)
	}
	// See https://kubernetes.io/docs/concepts/overview/kubernetes-api/#aggregated-discovery.
	var discovery struct {
		Items []struct {
			Metadata metadata `json:"metadata"`
			Versions []struct {
				Version   string `json:"version"`
				Resources []struct {
					Resource string `json:"resource"`
				} `json:"resources"`
			} `json:"versions"`
		} `json:"items"`
	}
	err := c.api.do(ctx, http.MethodGet, c.url+"/apis",
		http.Header{"Accept": {"application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}}, nil, &discovery)
	if err != nil {
		return err
	}
	type resource struct{ group, version, plural string }
	told := map[resource]bool{}
	for _, group := range discovery.Items {
		for _, version := range group.Versions {
			for _, r := range version.Resources {
				told[resource{group.Metadata.Name, version.Version, r.Resource}] = true
			}
		}
	}
	for _, version := range is.Spec.Versions {
		if !version.Served {
			continue
		}
		want := resource{is.Spec.Group, version.Name, is.Spec.Names.Plural}
		if !told[want] {
			return fmt.Errorf("discovery does not list %s in %s/%s", want.plural, want.group, want.version)
		}
		objects := c.url + path.Join("/apis", want.group, want.version, want.plural)
		if err := c.api.get(ctx, objects+"?limit=1", nil); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) crdURL(crd CRD) string { return c.url + crdPath + url.PathEscape(crd.name) }

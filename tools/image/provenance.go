// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// buildType names how something is made: by `make release` or `make image` in a clean clone.
const buildType = "https://cloudteam.ztgame.com/network-controller/make-%s/v1"

// statement is an in-toto statement with a provenance of SLSA, version 1: https://slsa.dev/spec/v1.0/provenance.
type statement struct {
	Type          string     `json:"_type"`
	Subject       []resource `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     predicate  `json:"predicate"`
}

type resource struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest,omitempty"`
}

type predicate struct {
	BuildDefinition struct {
		BuildType            string            `json:"buildType"`
		ExternalParameters   map[string]string `json:"externalParameters"`
		InternalParameters   map[string]string `json:"internalParameters"`
		ResolvedDependencies []resource        `json:"resolvedDependencies"`
	} `json:"buildDefinition"`
	RunDetails struct {
		Builder struct {
			ID string `json:"id"`
		} `json:"builder"`
	} `json:"runDetails"`
}

// makeProvenance prints the statement about files, and about the image in an OCI layout. It is not signed: anyone who
// publishes the release signs it.
func makeProvenance(args []string) error {
	flags := flag.NewFlagSet("image provenance", flag.ContinueOnError)
	var r release
	image := flags.String("image", "", "the OCI layout of the image")
	builder := flags.String("builder", "", "who runs the build, as a URI")
	target := flags.String("target", "release", "the target of make: release or image")
	if err := r.parse(flags, args); err != nil {
		return err
	}
	if *builder == "" {
		return errors.New("-builder is missing: name who runs the build, as a URI")
	}
	s := statement{Type: "https://in-toto.io/Statement/v1", PredicateType: "https://slsa.dev/provenance/v1"}
	if *image != "" {
		index, err := layout.ImageIndexFromPath(*image)
		if err != nil {
			return err
		}
		manifest, err := index.IndexManifest()
		if err != nil {
			return err
		}
		for _, m := range manifest.Manifests {
			s.Subject = append(s.Subject, resource{
				Name:   m.Annotations["org.opencontainers.image.ref.name"],
				Digest: map[string]string{m.Digest.Algorithm: m.Digest.Hex},
			})
		}
	}
	for _, file := range flags.Args() {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		s.Subject = append(s.Subject, resource{
			Name: filepath.Base(file), Digest: map[string]string{"sha256": fmt.Sprintf("%x", sha256.Sum256(content))},
		})
	}
	b := &s.Predicate.BuildDefinition
	b.BuildType = fmt.Sprintf(buildType, *target)
	b.ExternalParameters = map[string]string{"version": r.version}
	b.InternalParameters = map[string]string{"go": runtime.Version(), "SOURCE_DATE_EPOCH": fmt.Sprint(r.time.Unix())}
	revision, dirty := strings.CutSuffix(r.revision, "-dirty")
	source := resource{Name: "network-controller", Digest: map[string]string{"gitCommit": revision}}
	if dirty {
		source.Name += ", with changes that are not committed"
	}
	b.ResolvedDependencies = []resource{source}
	s.Predicate.RunDetails.Builder.ID = *builder
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	fmt.Println(string(text))
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

// writeSBOM writes what the image has: the programs, and of each the modules that the Go linker says are in it.
func writeSBOM(to string, r release, digest string, platforms []platform) error {
	modules := map[string]cyclonedx.Component{}
	image := cyclonedx.Component{
		Type: cyclonedx.ComponentTypeContainer, BOMRef: digest, Name: "network-controller", Version: r.version,
	}
	var programs []cyclonedx.Component
	edges := []cyclonedx.Dependency{{Ref: digest, Dependencies: &[]string{}}}
	for _, p := range platforms {
		for _, path := range p.programs {
			info, err := buildinfo.ReadFile(path)
			if err != nil {
				return err
			}
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			program := cyclonedx.Component{
				Type: cyclonedx.ComponentTypeApplication, Name: filepath.Base(path), Version: r.version,
				BOMRef: filepath.Base(path) + "@" + p.os + "/" + p.arch,
				Hashes: &[]cyclonedx.Hash{{
					Algorithm: cyclonedx.HashAlgoSHA256, Value: fmt.Sprintf("%x", sha256.Sum256(content)),
				}},
				Licenses: &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}},
			}
			programs = append(programs, program)
			*edges[0].Dependencies = append(*edges[0].Dependencies, program.BOMRef)
			var uses []string
			for _, m := range append(info.Deps, &debug.Module{Path: "stdlib", Version: info.GoVersion}) {
				component := componentOf(m)
				modules[component.BOMRef] = component
				uses = append(uses, component.BOMRef)
			}
			edges = append(edges, cyclonedx.Dependency{Ref: program.BOMRef, Dependencies: &uses})
		}
	}
	libraries := slices.SortedFunc(maps.Values(modules), func(a, b cyclonedx.Component) int {
		return cmp.Compare(a.BOMRef, b.BOMRef)
	})
	components := append(programs, libraries...)

	bom := cyclonedx.NewBOM()
	// A UUID (version 8, RFC 9562) from the digest, so that it is the same for the same image.
	id := sha256.Sum256([]byte(digest))
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80
	bom.SerialNumber = fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[0:4], id[4:6], id[6:8], id[8:10], id[10:16])
	bom.Metadata = &cyclonedx.Metadata{Timestamp: r.time.Format(time.RFC3339), Component: &image}
	bom.Components, bom.Dependencies = &components, &edges

	var content bytes.Buffer
	if err := cyclonedx.NewBOMEncoder(&content, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return err
	}
	return os.WriteFile(to, content.Bytes(), 0o644)
}

// componentOf is a Go module, by the name under which scanners look for its vulnerabilities.
func componentOf(m *debug.Module) cyclonedx.Component {
	if m.Replace != nil {
		m = m.Replace
	}
	version := strings.TrimPrefix(m.Version, "go")
	name := "pkg:golang/" + m.Path + "@" + version
	component := cyclonedx.Component{
		Type: cyclonedx.ComponentTypeLibrary, BOMRef: name, PackageURL: name, Name: m.Path, Version: version,
	}
	// What go.sum has: the SHA-256 of the list of the module's files.
	if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")); err == nil && len(sum) > 0 {
		component.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
	}
	return component
}

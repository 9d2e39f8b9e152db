// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

// manifest is that of krew, kubectl's plugin manager: https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/.
var manifest = template.Must(template.New("").Parse(`# The manifest of kubectl's plugin "network" for krew.
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: network
spec:
  version: {{ .Version }}
  homepage: https://cloudteam.ztgame.com/network-controller
  shortDescription: Ask about networks in OpenStack Neutron, and the Pods on them
  description: |
    Says why a Network, a port, a Pod or a Deployment is not as it should be, and what to do.
    It uses your kubeconfig and your rights.
  platforms:
{{- range .Archives }}
    - selector: {matchLabels: {os: {{ .OS }}, arch: {{ .Arch }}}}
      uri: {{ $.From }}/{{ .Name }}
      sha256: {{ printf "%x" .Sum }}
      bin: {{ .Bin }}
{{- end }}
`))

// archive is what a user of one platform downloads.
type archive struct {
	OS, Arch, Name, Bin string
	Sum                 [sha256.Size]byte
}

// file is what is in an archive.
type file struct {
	name    string
	mode    int64
	content []byte
}

// makePlugin packs the kubectl plugin for each platform, with the licence, and writes the manifest for krew. The same
// input gives the same bytes.
func makePlugin(args []string) error {
	flags := flag.NewFlagSet("image plugin", flag.ContinueOnError)
	var r release
	programs := flags.String("programs", "", "a folder with a folder for each platform, such as linux-amd64")
	license := flags.String("license", "../../LICENSE", "the licence")
	from := flags.String("from", "", "the URL below which the archives will be")
	out := flags.String("out", "dist", "the folder to write into")
	if err := r.parse(flags, args); err != nil {
		return err
	}
	if *from == "" {
		return errors.New("-from is missing: write the URL below which the archives will be")
	}
	platforms, err := platformsIn(*programs)
	if err != nil {
		return err
	}
	terms, err := os.ReadFile(*license)
	if err != nil {
		return err
	}
	var archives []archive
	for _, p := range platforms {
		if len(p.programs) != 1 {
			return fmt.Errorf("%s-%s has %d programs, want the plugin alone", p.os, p.arch, len(p.programs))
		}
		program, err := os.ReadFile(p.programs[0])
		if err != nil {
			return err
		}
		a := archive{OS: p.os, Arch: p.arch, Bin: filepath.Base(p.programs[0])}
		pack, ending := r.tar, ".tar.gz"
		if p.os == "windows" {
			pack, ending = r.zip, ".zip"
		}
		content, err := pack(file{"LICENSE", 0o644, terms}, file{a.Bin, 0o755, program})
		if err != nil {
			return err
		}
		a.Name, a.Sum = fmt.Sprintf("kubectl-network_%s_%s_%s%s", r.version, p.os, p.arch, ending), sha256.Sum256(content)
		if err := os.WriteFile(filepath.Join(*out, a.Name), content, 0o644); err != nil {
			return err
		}
		archives = append(archives, a)
	}
	var text strings.Builder
	err = manifest.Execute(&text, map[string]any{
		"Version": r.version, "From": strings.TrimSuffix(*from, "/"), "Archives": archives,
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(*out, "network.yaml"), []byte(text.String()), 0o644)
}

func (r release) tar(files ...file) ([]byte, error) {
	var to bytes.Buffer
	compressed := gzip.NewWriter(&to) // without a time
	packed := tar.NewWriter(compressed)
	for _, f := range files {
		err := packed.WriteHeader(&tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.content)), ModTime: r.time})
		if err != nil {
			return nil, err
		}
		if _, err := packed.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(packed.Close(), compressed.Close()); err != nil {
		return nil, err
	}
	return to.Bytes(), nil
}

func (r release) zip(files ...file) ([]byte, error) {
	var to bytes.Buffer
	packed := zip.NewWriter(&to)
	for _, f := range files {
		header := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: r.time}
		header.SetMode(os.FileMode(f.mode))
		entry, err := packed.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := entry.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := packed.Close(); err != nil {
		return nil, err
	}
	return to.Bytes(), nil
}

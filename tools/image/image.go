// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// folder is where the programs are in the image. network-agent looks for neutron-port beside itself.
const folder = "/usr/local/bin"

// user is nobody on any node, and the one that config/manager names.
const user = "65532:65532"

// annotations are what registries and scanners show. https://specs.opencontainers.org/image-spec/annotations has their
// meaning.
func annotations(r release) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       "network-controller",
		"org.opencontainers.image.description": "Kubernetes controller for networks in OpenStack Neutron",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.version":     r.version,
		"org.opencontainers.image.revision":    r.revision,
		"org.opencontainers.image.created":     r.time.Format(time.RFC3339),
	}
}

// buildIndex makes one image for each platform, and the index of them.
func buildIndex(r release, platforms []platform) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range platforms {
		image, err := buildImage(r, p)
		if err != nil {
			return nil, fmt.Errorf("%s/%s: %w", p.os, p.arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{
			MediaType: types.OCIManifestSchema1, Platform: &v1.Platform{OS: p.os, Architecture: p.arch},
		}})
	}
	return mutate.Annotations(index, annotations(r)).(v1.ImageIndex), nil
}

// buildImage makes an image of the programs and nothing else: no shell, no libc, no CA certificates.
func buildImage(r release, p platform) (v1.Image, error) {
	content, err := layerOf(p.programs, r.time)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{
		Created: v1.Time{Time: r.time}, CreatedBy: "make image",
	}})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = p.os, p.arch, v1.Time{Time: r.time}
	config.Config = v1.Config{
		Entrypoint: []string{path.Join(folder, "network-controller")},
		Env:        []string{"PATH=" + folder},
		User:       user,
		WorkingDir: "/",
		Labels:     annotations(r),
	}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return nil, err
	}
	return mutate.Annotations(image, annotations(r)).(v1.Image), nil
}

// layerOf makes a file system of the programs, which belong to root and which nobody can write.
func layerOf(programs []string, at time.Time) ([]byte, error) {
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for _, dir := range []string{"usr/", "usr/local/", "usr/local/bin/"} {
		err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755, ModTime: at, Format: tar.FormatPAX})
		if err != nil {
			return nil, err
		}
	}
	for _, program := range programs {
		name := path.Join(folder, filepath.Base(program))[1:]
		if err := addFile(w, name, program, 0o755, at); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return layer.Bytes(), nil
}

func addFile(w *tar.Writer, name, from string, mode int64, at time.Time) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	err = w.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(content)), ModTime: at, Format: tar.FormatPAX,
	})
	if err != nil {
		return err
	}
	_, err = w.Write(content)
	return err
}

// writeLayout writes an index as an OCI layout, which replaces what was there.
func writeLayout(dir, name string, index v1.ImageIndex) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	to, err := layout.Write(dir, mutate.IndexMediaType(empty.Index, types.OCIImageIndex))
	if err != nil {
		return err
	}
	return to.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": name, // for podman and docker
		"io.containerd.image.name":          name,
	}))
}

// writeArchive writes a folder as a tar file.
func writeArchive(to, from string, at time.Time) error {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	err := fs.WalkDir(os.DirFS(from), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		return addFile(w, name, filepath.Join(from, name), 0o644, at)
	})
	if err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(to, archive.Bytes(), 0o644)
}

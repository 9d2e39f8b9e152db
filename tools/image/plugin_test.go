// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var pluginPlatforms = []string{
	"darwin-amd64", "darwin-arm64", "linux-amd64", "linux-arm64", "windows-amd64", "windows-arm64",
}

// TestPlugin holds what a user of krew gets: an archive of the sum that the manifest names, with the program under the
// name that it names, and the licence. It is the same for whoever makes the release.
func TestPlugin(t *testing.T) {
	programs := t.TempDir()
	for _, platform := range pluginPlatforms {
		name := "kubectl-network"
		if strings.HasPrefix(platform, "windows") {
			name += ".exe"
		}
		if err := os.Mkdir(filepath.Join(programs, platform), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(programs, platform, name), "the program for "+platform)
	}
	made := func() (string, string) {
		out := t.TempDir()
		err := makePlugin([]string{
			"-version=v1.2.3", "-revision=r", "-epoch=1700000000", "-programs=" + programs, "-out=" + out,
			"-from=https://example.org/v1.2.3/",
		})
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(out, "network.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		return out, string(text)
	}
	out, manifest := made()
	if _, again := made(); again != manifest {
		t.Errorf("a second time it is\n%s\nand not\n%s", again, manifest)
	}
	if !strings.Contains(manifest, "\n  version: v1.2.3\n") {
		t.Errorf("the manifest has another version:\n%s", manifest)
	}
	entry := regexp.MustCompile(`os: (\w+), arch: (\w+)\}\}
      uri: https://example.org/v1.2.3/(\S+)
      sha256: ([0-9a-f]{64})
      bin: (\S+)\n`)
	entries := entry.FindAllStringSubmatch(manifest, -1)
	if len(entries) != len(pluginPlatforms) {
		t.Fatalf("the manifest has %d platforms, want %d:\n%s", len(entries), len(pluginPlatforms), manifest)
	}
	for i, e := range entries {
		platform, name, sum, bin := e[1]+"-"+e[2], e[3], e[4], e[5]
		content, err := os.ReadFile(filepath.Join(out, path.Base(name)))
		if err != nil {
			t.Fatal(err)
		}
		if platform != pluginPlatforms[i] || fmt.Sprintf("%x", sha256.Sum256(content)) != sum {
			t.Errorf("%s: %s is for another platform or has another sum", platform, name)
		}
		files := unpack(t, name, content)
		if len(files) != 2 || files[bin] != "-rwxr-xr-x the program for "+platform ||
			!strings.HasPrefix(files["LICENSE"], "-rw-r--r-- ") || !strings.Contains(files["LICENSE"], "Apache License") {
			t.Errorf("%s has %q", name, files)
		}
	}
}

// unpack gives the files of an archive, each with its mode.
func unpack(t *testing.T, name string, content []byte) map[string]string {
	t.Helper()
	files := map[string]string{}
	add := func(name string, mode os.FileMode, from io.Reader) {
		text, err := io.ReadAll(from)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = mode.String() + " " + string(text)
	}
	if strings.HasSuffix(name, ".zip") {
		packed, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range packed.File {
			from, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			add(f.Name, f.Mode(), from)
		}
		return files
	}
	compressed, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	for packed := tar.NewReader(compressed); ; {
		header, err := packed.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		add(header.Name, header.FileInfo().Mode(), packed)
	}
}

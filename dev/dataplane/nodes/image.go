// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodes

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// ImageBusybox is the image that Pods can run, with imagePullPolicy Never.
const ImageBusybox = "localhost/busybox:1"

// image is a container image of busybox, or of another program alone: no registry is needed.
type image struct {
	name    string
	command []string
	// program is the path of a static program, which is in /bin; empty for busybox.
	program string
}

var (
	busybox = image{name: ImageBusybox, command: []string{"/bin/sh"}}
	// pause holds a Pod's namespaces.
	pause = image{name: "localhost/pause:1", command: []string{
		"/bin/sh", "-c", `trap "exit 0" TERM INT; while :; do sleep 3600 & wait; done`,
	}}
)

// Import has the node's containerd know an image of a static program alone, by a name of localhost. The program is in
// the image's PATH. Pods run it with an imagePullPolicy other than Always.
func (n *Node) Import(name, program string) error {
	return n.load(image{name: name, command: []string{"/bin/" + filepath.Base(program)}, program: program})
}

// ImportArchive has the node's containerd know the images of an archive, which are for Pods as those of Import are.
func (n *Node) ImportArchive(path string) error {
	return n.script(`ctr -n k8s.io image import "$1"`, path)
}

// load has the node's containerd know an image.
func (n *Node) load(i image) error {
	archive := filepath.Join(n.Dir, "image.tar")
	if err := i.write(archive); err != nil {
		return err
	}
	defer os.Remove(archive)
	return n.ImportArchive(archive)
}

// applets are the commands that are links to busybox.
var applets = []string{
	"cat", "echo", "hostname", "httpd", "ip", "ls", "nc", "nslookup", "ping", "ping6", "sh", "sleep", "wget",
}

// write writes the image as an archive of docker's.
func (i image) write(path string) error {
	layer, err := i.layer()
	if err != nil {
		return err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Entrypoint": i.command, "Env": []string{"PATH=/bin"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}},
	})
	if err != nil {
		return err
	}
	configName := fmt.Sprintf("%x.json", sha256.Sum256(config))
	manifest, err := json.Marshal([]any{map[string]any{
		"Config": configName, "RepoTags": []string{i.name}, "Layers": []string{"layer.tar"},
	}})
	if err != nil {
		return err
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, f := range []struct {
		name    string
		content []byte
	}{{configName, config}, {"layer.tar", layer}, {"manifest.json", manifest}} {
		if err := add(w, tar.Header{Name: f.name, Mode: 0o644, Typeflag: tar.TypeReg}, f.content); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(path, archive.Bytes(), 0o600)
}

// layer is the file system of the image.
func (i image) layer() ([]byte, error) {
	path, links := i.program, []string(nil)
	if path == "" {
		var err error
		if path, err = exec.LookPath("busybox"); err != nil {
			return nil, err
		}
		links = applets
	}
	program, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	headers := []tar.Header{{Name: "bin/" + filepath.Base(path), Mode: 0o755, Typeflag: tar.TypeReg}}
	// The root is among them: others than root run programs, too.
	for _, folder := range []string{"bin", "dev", "etc", "proc", "sys", "tmp", "."} {
		headers = append([]tar.Header{{Name: folder + "/", Mode: 0o755, Typeflag: tar.TypeDir}}, headers...)
	}
	for _, applet := range links {
		headers = append(headers, tar.Header{Name: "bin/" + applet, Linkname: "busybox", Typeflag: tar.TypeSymlink})
	}
	for _, header := range headers {
		var content []byte
		if header.Typeflag == tar.TypeReg {
			content = program
		}
		if err := add(w, header, content); err != nil {
			return nil, err
		}
	}
	err = add(w, tar.Header{Name: "etc/passwd", Mode: 0o644, Typeflag: tar.TypeReg}, []byte("root:x:0:0::/:/bin/sh\n"))
	if err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return layer.Bytes(), nil
}

func add(w *tar.Writer, header tar.Header, content []byte) error {
	header.Size = int64(len(content))
	if err := w.WriteHeader(&header); err != nil {
		return err
	}
	_, err := w.Write(content)
	return err
}

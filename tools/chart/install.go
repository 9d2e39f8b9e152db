package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// writeManifests writes what `kubectl apply -k` applies of a folder of config, with an image by name.
func writeManifests(to io.Writer, root, folder, image string) error {
	rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).
		Run(filesys.MakeFsOnDisk(), filepath.Join(root, folder))
	if err != nil {
		return fmt.Errorf("rendering %s: %w", folder, err)
	}
	text, err := rendered.AsYaml()
	if err != nil {
		return err
	}
	_, err = io.WriteString(to, strings.ReplaceAll(string(text), "image: network-controller:latest", "image: "+image))
	return err
}

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"cloudteam.ztgame.com/network-controller/internal/kinds"
)

// crds are the files of the CRDs, in config.
const crds = "crd/cloudteam.ztgame.com_*.yaml"

// writtenBelow is the line of a file in config after which everything is generated.
const writtenBelow = "# hack/generate.sh writes what follows.\n"

// writeLists writes the files of config that only list the CRDs or the kinds.
func writeLists(config string) error {
	files, err := found(config, []string{crds})
	if err != nil {
		return err
	}
	var resources, health strings.Builder
	resources.WriteString("resources:\n")
	for _, file := range files {
		fmt.Fprintf(&resources, "  - %s\n", filepath.Base(file))
	}
	if err := writeBelow(filepath.Join(config, "crd", "kustomization.yaml"), resources.String()); err != nil {
		return err
	}
	for _, kind := range kinds.All[1:] { // the first one has the script
		fmt.Fprintf(&health, "  resource.customizations.health.%s_%s: *health\n", kind.Resource.Group, kind.Name)
	}
	return writeBelow(filepath.Join(config, "argocd", "argocd-cm.yaml"), health.String())
}

// writeBelow replaces what a file has after the line writtenBelow.
func writeBelow(file, text string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	above, _, has := strings.Cut(string(content), writtenBelow)
	if !has {
		return fmt.Errorf("%s has no line %q", file, writtenBelow)
	}
	return os.WriteFile(file, []byte(above+writtenBelow+text), 0o644) //nolint:gosec // a source
}

// found gives the files in a folder that match the patterns, each of which has to match one.
func found(folder string, patterns []string) (files []string, err error) {
	for _, pattern := range patterns {
		matches, err := filepath.Glob(filepath.Join(folder, pattern))
		if err == nil && len(matches) == 0 {
			err = fmt.Errorf("config has no file %s", pattern)
		}
		if err != nil {
			return nil, err
		}
		for _, match := range matches {
			file, _ := filepath.Rel(folder, match) // it is in there
			files = append(files, filepath.ToSlash(file))
		}
	}
	return files, nil
}

// SPDX-License-Identifier: Apache-2.0

package assets

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// EnvAssets is the variable with which envtest is told where its binaries are.
const EnvAssets = "KUBEBUILDER_ASSETS"

// envtestDefault is where envtest looks when EnvAssets is not set.
const envtestDefault = "/usr/local/kubebuilder/bin"

// Machine is what the search for binaries reads of its surroundings. The zero value describes nothing; use ThisMachine.
type Machine struct {
	// Getenv reads an environment variable.
	Getenv func(string) string
	// Home is the user's home directory; empty when there is none.
	Home string
	// GOOS and GOARCH name the platform the binaries have to be for.
	GOOS, GOARCH string
	// EnvtestDefault is envtest's own default directory; empty to leave it out.
	EnvtestDefault string
}

// ThisMachine describes the machine that the program runs on.
func ThisMachine() Machine {
	home, err := os.UserHomeDir()
	if err != nil {
		home = ""
	}
	return Machine{
		Getenv: os.Getenv, Home: home,
		GOOS: runtime.GOOS, GOARCH: runtime.GOARCH,
		EnvtestDefault: envtestDefault,
	}
}

// Found is a directory that somebody else filled with binaries.
type Found struct {
	// Dir is the directory.
	Dir string
	// Source says in a few words where it was named, for example "KUBEBUILDER_ASSETS".
	Source string
}

// Discover returns the first directory on the machine that holds all the components: the one that KUBEBUILDER_ASSETS
// names, a directory of setup-envtest's store, envtest's default. Of the store it takes the pinned minor version alone,
// the newest patch of it first, so that a test's result does not depend on what else was installed; the two others are
// somebody's choice and are taken whatever their version is. ok is false when there is none. notes holds a sentence per
// place that was named and not used, and why.
func (m Machine) Discover(components []Component) (found Found, notes []string, ok bool) {
	var places []Found
	if dir := m.Getenv(EnvAssets); dir != "" {
		places = append(places, Found{dir, EnvAssets})
	}
	for _, dir := range m.storeDirs() {
		places = append(places, Found{dir, "setup-envtest's store"})
	}
	if m.EnvtestDefault != "" {
		places = append(places, Found{m.EnvtestDefault, "envtest's default directory"})
	}
	for _, place := range places {
		missing := missingFiles(place.Dir, components)
		if len(missing) == 0 {
			return place, notes, true
		}
		if place.Source == EnvAssets {
			notes = append(notes, fmt.Sprintf("%s=%s is not used: it has no %s",
				EnvAssets, place.Dir, strings.Join(missing, ", no ")))
		}
	}
	return Found{}, notes, false
}

// storeDirs returns the directories of setup-envtest's store that hold the pinned minor version for this platform, the
// newest patch first.
//
// The store's place is that of setup-envtest's DefaultStoreDir (controller-runtime, tools/setup-envtest/store), and a
// directory's name is "<version>-<os>-<arch>" with a version that has no leading v.
func (m Machine) storeDirs() []string {
	store := m.storeRoot()
	if store == "" {
		return nil
	}
	minor := strings.TrimPrefix(majorMinor(KubeAPIServer.Version()), "v")
	suffix := "-" + m.GOOS + "-" + m.GOARCH
	entries, err := os.ReadDir(filepath.Join(store, "k8s"))
	if err != nil {
		return nil
	}
	patches := map[string]int{}
	for _, entry := range entries {
		version, isOurs := strings.CutSuffix(entry.Name(), suffix)
		if !isOurs {
			continue
		}
		patch, isMinor := strings.CutPrefix(version, minor+".")
		if n, err := strconv.Atoi(patch); isMinor && err == nil {
			patches[filepath.Join(store, "k8s", entry.Name())] = n
		}
	}
	dirs := sortedKeys(patches)
	slices.SortStableFunc(dirs, func(a, b string) int { return cmp.Compare(patches[b], patches[a]) })
	return dirs
}

func (m Machine) storeRoot() string {
	if m.GOOS == "darwin" {
		if m.Home == "" {
			return ""
		}
		return filepath.Join(m.Home, "Library", "Application Support", "io.kubebuilder.envtest")
	}
	if data := m.Getenv("XDG_DATA_HOME"); data != "" {
		return filepath.Join(data, "kubebuilder-envtest")
	}
	if m.Home == "" {
		return ""
	}
	return filepath.Join(m.Home, ".local", "share", "kubebuilder-envtest")
}

// missingFiles returns the files that the components need and dir lacks. A program counts only if it may be executed.
func missingFiles(dir string, components []Component) []string {
	var missing []string
	for _, c := range components {
		for _, name := range c.files() {
			info, err := os.Stat(filepath.Join(dir, name))
			usable := err == nil && info.Mode().IsRegular() && (name == StagesFile || info.Mode().Perm()&0o111 != 0)
			if !usable {
				missing = append(missing, name)
			}
		}
	}
	return missing
}

// majorMinor returns "vA.B" of "vA.B.C".
func majorMinor(version string) string {
	if parts := strings.SplitN(version, ".", 3); len(parts) == 3 {
		return parts[0] + "." + parts[1]
	}
	return version
}

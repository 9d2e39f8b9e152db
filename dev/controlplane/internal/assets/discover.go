// SPDX-License-Identifier: Apache-2.0

package assets

import (
	"cmp"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// EnvAssets is the variable that gives envtest the folder of its binaries.
const EnvAssets = "KUBEBUILDER_ASSETS"

// discover returns the first directory on the machine that holds all the components: the one that KUBEBUILDER_ASSETS
// names, a directory of setup-envtest's store, envtest's default; empty if there is none. Of the store it takes the
// pinned minor version alone, so that a test's result does not depend on what else was installed. The others are
// somebody's choice, and are taken whatever their version is.
func discover(components []Component) string {
	var dirs []string
	if dir := os.Getenv(EnvAssets); dir != "" {
		dirs = append(dirs, dir)
	}
	dirs = append(dirs, storeDirs()...)
	for _, dir := range append(dirs, "/usr/local/kubebuilder/bin") {
		if len(missing(dir, components)) == 0 {
			return dir
		}
	}
	return ""
}

// storeDirs returns the directories of setup-envtest's store that hold the pinned minor version for this platform, the
// newest patch first. The store's place is that of setup-envtest's DefaultStoreDir (controller-runtime,
// tools/setup-envtest/store), and a directory's name is "<version>-<os>-<arch>" with a version that has no leading v.
func storeDirs() []string {
	home, _ := os.UserHomeDir()
	data := cmp.Or(os.Getenv("XDG_DATA_HOME"), filepath.Join(home, ".local", "share"))
	store := filepath.Join(data, "kubebuilder-envtest")
	if runtime.GOOS == "darwin" {
		store = filepath.Join(home, "Library", "Application Support", "io.kubebuilder.envtest")
	}
	version := strings.TrimPrefix(KubeAPIServer.Version(), "v")
	minor := version[:strings.LastIndex(version, ".")+1]
	suffix := "-" + runtime.GOOS + "-" + runtime.GOARCH
	dirs, _ := filepath.Glob(filepath.Join(store, "k8s", minor+"*"+suffix)) // an error means a malformed pattern
	patch := func(dir string) int {
		n, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(filepath.Base(dir), minor), suffix))
		return n
	}
	slices.SortFunc(dirs, func(a, b string) int { return cmp.Compare(patch(b), patch(a)) })
	return dirs
}

// missing returns the components whose programs dir lacks. A file that may not be executed is none.
func missing(dir string, components []Component) []Component {
	return slices.DeleteFunc(slices.Clone(components), func(c Component) bool {
		info, err := os.Stat(filepath.Join(dir, string(c)))
		return c == Node || err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
	})
}

// SPDX-License-Identifier: Apache-2.0

package assets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cloudteam.ztgame.com/network-controller/dev/controlplane/internal/fetch"
)

// EnvCache is the variable that overrides where binaries are cached.
const EnvCache = "CONTROLPLANE_CACHE"

// DefaultCacheDir returns the cache directory that m's environment asks for: CONTROLPLANE_CACHE, else
// network-controller/controlplane under XDG_CACHE_HOME, else under ~/.cache. It returns an error when there is neither
// variable nor home.
func (m Machine) DefaultCacheDir() (string, error) {
	if dir := m.Getenv(EnvCache); dir != "" {
		return dir, nil
	}
	base := m.Getenv("XDG_CACHE_HOME")
	if base == "" {
		if m.Home == "" {
			return "", fmt.Errorf("no home directory to cache binaries in: set %s to a directory", EnvCache)
		}
		base = filepath.Join(m.Home, ".cache")
	}
	return filepath.Join(base, "network-controller", "controlplane"), nil
}

// Cache is a directory of binaries, fetched or built. Any number of processes may use one cache at the same time.
//
// An entry is a directory <component>/<version>-<recipe>/<os>-<arch>. It is made under another name and renamed when
// all of it is there, so an entry that exists is whole. A set is a directory of links into the entries, because what
// uses the binaries asks for one directory that holds them all.
type Cache struct {
	// Dir is the root of the cache.
	Dir string
	// Machine names the platform, and says where binaries may be found instead of built.
	Machine Machine
	// Log receives sentences for the person who waits.
	Log Log
	// Releases is where released binaries come from, as EnvReleases says. NewCache sets it.
	Releases string

	// checksums are those of releases, by address.
	checksums map[string]string
	// Tests replace these. fetch downloads a file of known checksum, and fetchUnknown one whose checksum it returns. build
	// makes the files of components of one pin in a directory, and stages makes kwok's StagesFile in a directory.
	fetch        func(ctx context.Context, address, checksum, path string, progress func(have, size int64)) error
	fetchUnknown func(ctx context.Context, address, path string) (checksum string, err error)
	build        func(ctx context.Context, components []Component, dir string, progress *progress) error
	stages       func(ctx context.Context, dir string) error
}

// NewCache returns the cache at dir.
func NewCache(dir string, machine Machine, log Log) *Cache {
	sums, err := pinnedChecksums(checksums)
	if err != nil {
		// The file is part of the program.
		panic(err)
	}
	client := fetch.NewClient()
	return &Cache{
		Dir: dir, Machine: machine, Log: log, Releases: machine.Getenv(EnvReleases), checksums: sums,
		fetch: client.File, fetchUnknown: client.Unknown, build: machine.build, stages: machine.writeStages,
	}
}

// Provide returns the absolute path of one directory that holds the files of all the components. Those that the machine
// already has are used as they are, see Machine.Discover. What the cache lacks is fetched where its project publishes
// it and its checksum is pinned, and else built, which takes minutes. An interrupted call leaves nothing that a later
// one would take for whole.
func (k *Cache) Provide(ctx context.Context, components []Component) (string, error) {
	dir, _, err := k.ProvideFirst(ctx, components, components)
	return dir, err
}

// ProvideFirst is for who can begin with the first of the components while the others are still fetched or built. It
// returns as soon as the directory holds the first; complete says that it holds all. A later Provide of all adds the
// others to the same directory. Binaries that the machine already has are used only if it has all of them: those of two
// places may differ in version.
func (k *Cache) ProvideFirst(ctx context.Context, first, all []Component) (dir string, complete bool, err error) {
	if err := checkReleases(k.Releases); err != nil {
		return "", false, err
	}
	found, notes, ok := k.Machine.Discover(all)
	for _, note := range notes {
		k.Log.Printf("%s", note)
	}
	if ok {
		k.Log.Printf("using %s from %s (%s)", Join(all), found.Dir, found.Source)
		dir, err = filepath.Abs(found.Dir)
		return dir, true, err
	}
	root, err := filepath.Abs(k.Dir)
	if err != nil {
		return "", false, err
	}
	set := k.setDir(root, all)
	if err := os.MkdirAll(set, 0o755); err != nil {
		return "", false, fmt.Errorf("make the cache of binaries: %w (choose another with --cache or %s)", err, EnvCache)
	}
	if !slices.ContainsFunc(all, func(c Component) bool { return !isWhole(k.entryDir(root, c), c) }) {
		first = all
	}
	if err := k.ensure(ctx, root, first); err != nil {
		return "", false, err
	}
	return set, len(first) == len(all), k.linkAll(ctx, root, set, first)
}

// linkAll puts the components' files into set. The lock keeps the temporary names of two processes apart.
func (k *Cache) linkAll(ctx context.Context, root, set string, components []Component) (err error) {
	lock, err := Lock(ctx, set+".lock", func() {})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	for _, c := range components {
		for _, name := range c.files() {
			if err := link(filepath.Join(k.entryDir(root, c), name), filepath.Join(set, name)); err != nil {
				return fmt.Errorf("put %s into %s: %w", name, set, err)
			}
		}
	}
	return nil
}

// Clean removes the whole cache. A build that is under way in another process fails; it does no other harm.
func (k *Cache) Clean() error {
	return os.RemoveAll(k.Dir)
}

func (k *Cache) entryDir(root string, c Component) string {
	r := c.recipe()
	return filepath.Join(root, string(c), r.pin.version()+"-"+r.digest(), k.platform())
}

// setDir is named after every pin of a control plane and not only after the components of one call, so that calls for
// different components share it and a caller may hold on to the path. Where a node's components are asked for, it is
// named after their pins as well.
func (k *Cache) setDir(root string, components []Component) string {
	pinned := []Component{KubeAPIServer, Etcd, Kwok}
	if slices.ContainsFunc(components, func(c Component) bool { return slices.Contains(Node(), c) }) {
		pinned = append(pinned, Node()...)
	}
	var name strings.Builder
	for _, c := range pinned {
		r := c.recipe()
		name.WriteString(r.pin.name + "-" + r.pin.version() + "-" + r.digest() + "_")
	}
	return filepath.Join(root, "sets", name.String()+k.platform())
}

func (k *Cache) platform() string {
	return k.Machine.GOOS + "-" + k.Machine.GOARCH
}

func isWhole(entry string, c Component) bool {
	return len(missingFiles(entry, []Component{c})) == 0
}

// link makes path a symbolic link to target, in one step for whoever looks at path meanwhile.
func link(target, path string) error {
	if have, err := os.Readlink(path); err == nil && have == target {
		return nil
	}
	temporary := path + ".partial"
	if err := os.Remove(temporary); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Symlink(target, temporary); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	return slices.Sorted(maps.Keys(m))
}

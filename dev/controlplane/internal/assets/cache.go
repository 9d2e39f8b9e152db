// SPDX-License-Identifier: Apache-2.0

//go:build unix

package assets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"
)

// EnvCache is the variable that overrides where programs are cached.
const EnvCache = "CONTROLPLANE_CACHE"

// DefaultCacheDir returns the cache directory that the environment asks for: CONTROLPLANE_CACHE, else
// network-controller/controlplane under XDG_CACHE_HOME, else under ~/.cache.
func DefaultCacheDir() (string, error) {
	if dir := os.Getenv(EnvCache); dir != "" {
		return dir, nil
	}
	home, err := os.UserHomeDir()
	base := cmp.Or(os.Getenv("XDG_CACHE_HOME"), filepath.Join(home, ".cache"))
	if err != nil && os.Getenv("XDG_CACHE_HOME") == "" {
		return "", fmt.Errorf("%w: set %s to a directory for the programs", err, EnvCache)
	}
	return filepath.Join(base, "network-controller", "controlplane"), nil
}

// Cache is a directory of programs, fetched or built. Any number of processes may use one cache at the same time: one
// of them makes what is missing, and the others wait.
//
// It has a directory for each digest of the recipes. A program is made under another name and renamed when it is whole,
// so that one that exists is whole.
type Cache struct {
	// Dir is the root of the cache.
	Dir string
	// Log receives sentences for the person who waits.
	Log *log.Logger

	// build makes programs of a recipe in a directory. Tests replace it.
	build func(ctx context.Context, r recipe, components []Component, dir string) error
}

// NewCache returns a cache in dir.
func NewCache(dir string, log *log.Logger) *Cache {
	k := &Cache{Dir: dir, Log: log}
	k.build = k.goBuild
	return k
}

// Provide returns the absolute path of a directory that holds the components. What the machine has is used. Otherwise
// what the cache lacks is fetched if its project publishes it and its checksum is pinned, and else built, which takes
// minutes. When ctx ends, the error is its cause.
func (k *Cache) Provide(ctx context.Context, components []Component) (string, error) {
	dir, _, err := k.ProvideFirst(ctx, components, components)
	return dir, err
}

// ProvideFirst is for who can begin with the first of the components while the others are still fetched or built. It
// returns as soon as the directory holds the first; complete says that it holds all. A later Provide of all adds the
// others to the same directory. Programs that the machine already has are used only if it has all of them: those of two
// places may differ in version.
func (k *Cache) ProvideFirst(ctx context.Context, first, all []Component) (dir string, complete bool, err error) {
	if named := os.Getenv(EnvAssets); named != "" {
		if lacks := missing(named, all); len(lacks) != 0 {
			k.Log.Printf("%s=%s is not used: it has no %s", EnvAssets, named, Join(lacks))
		}
	}
	if found := discover(all); found != "" {
		k.Log.Printf("using %s from %s", Join(all), found)
		dir, err = filepath.Abs(found)
		return dir, true, err
	}
	if dir, err = filepath.Abs(k.dir()); err != nil {
		return "", false, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", false, fmt.Errorf("make the cache of programs: %w (choose another with --cache or %s)", err, EnvCache)
	}
	if err := k.ensure(ctx, dir, first); err != nil {
		return "", false, err
	}
	return dir, len(missing(dir, all)) == 0, nil
}

func (k *Cache) dir() string {
	return filepath.Join(k.Dir, KubeAPIServer.Version()+"-"+digest()+"-"+runtime.GOOS+"-"+runtime.GOARCH)
}

// ensure returns when dir has the components: it makes them, or another process does.
func (k *Cache) ensure(ctx context.Context, dir string, components []Component) error {
	for told := false; ; told = true {
		lacks := missing(dir, components)
		if len(lacks) == 0 {
			return nil
		}
		lock, err := TryLock(filepath.Join(dir, "lock"))
		if err == nil {
			return errors.Join(k.makeAll(ctx, dir, components), lock.Close())
		}
		if !errors.Is(err, ErrLocked) {
			return err
		}
		if !told {
			k.Log.Printf("waiting for another process, which fetches or builds %s", Join(lacks))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// makeAll makes what dir lacks of the components. Releases are fetched while what has none is built.
func (k *Cache) makeAll(ctx context.Context, dir string, components []Component) (err error) {
	work, err := os.MkdirTemp(dir, "partial-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	fetching, stop := context.WithCancel(ctx)
	fetched := make(chan struct{})
	defer func() {
		stop()
		<-fetched
	}()
	go func() {
		defer close(fetched)
		k.fetchAll(fetching, dir, work, missing(dir, components))
	}()
	for _, r := range recipes {
		mine := slices.DeleteFunc(slices.Clone(components), func(c Component) bool { return r.packages[c] == "" })
		if slices.ContainsFunc(mine, published) {
			<-fetched
		}
		if mine = missing(dir, mine); len(mine) == 0 {
			continue
		}
		if err := k.build(ctx, r, mine, work); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return fmt.Errorf("build %s %s: %w", Join(mine), r.version(), err)
		}
		for _, c := range mine {
			if err := os.Rename(filepath.Join(work, string(c)), filepath.Join(dir, string(c))); err != nil {
				return err
			}
		}
	}
	return nil
}

// published says that a release of c may be fetched.
func published(c Component) bool {
	path, _ := c.release()
	return path != "" && os.Getenv(EnvReleases) != "off"
}

// fetchAll fetches what is published of the components, until one cannot be had: the others come from the same site.
func (k *Cache) fetchAll(ctx context.Context, dir, work string, components []Component) {
	for _, c := range components {
		if !published(c) {
			continue
		}
		path, checksum := c.release()
		k.Log.Printf("fetching %s%s", releaseSite, path)
		partial := filepath.Join(work, "fetched")
		err := fetch(ctx, releaseSite+path, checksum, partial)
		if err == nil {
			err = os.Rename(partial, filepath.Join(dir, string(c)))
		}
		if err != nil {
			if ctx.Err() == nil {
				k.Log.Printf("%s cannot be fetched and is built from source: %v", c, err)
			}
			return
		}
		k.Log.Printf("%s %s: fetched and verified", c, c.Version())
	}
}

// ErrLocked is returned by TryLock when another process holds the lock.
var ErrLocked = errors.New("locked by another process")

// TryLock takes the lock at path, making the file if need be, or returns ErrLocked. Closing the file releases the lock.
// So does the end of the process, however it ends: a lock is never left over.
func TryLock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = ErrLocked
		}
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

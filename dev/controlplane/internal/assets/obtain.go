// SPDX-License-Identifier: Apache-2.0

package assets

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"cloudteam.ztgame.com/network-controller/dev/controlplane/internal/fetch"
)

// order, an entry that is being made, holds the entry's lock.
type order struct {
	component Component
	// entry is the directory that appears when all is there, and partial the one that becomes it.
	entry, partial string
	lock           *FileLock
}

// place locks the entry of c and makes room for it. It returns nil if the entry is there already.
func (k *Cache) place(ctx context.Context, c Component, entry string) (_ *order, err error) {
	if isWhole(entry, c) {
		return nil, nil
	}
	lock, err := Lock(ctx, entry+".lock", func() {
		k.Log.Printf("%s: waiting for another process that fetches or builds it", c)
	})
	if err != nil {
		return nil, fmt.Errorf("wait for the build of %s: %w", c, err)
	}
	o := &order{component: c, entry: entry, partial: entry + ".partial", lock: lock}
	if isWhole(entry, c) {
		return nil, o.release()
	}
	// Whatever is here under these names was left by a process that died: its lock is ours.
	for _, dir := range []string{o.partial, o.entry} {
		if err := os.RemoveAll(dir); err != nil {
			return nil, errors.Join(err, o.release())
		}
	}
	if err := os.MkdirAll(o.partial, 0o755); err != nil {
		return nil, errors.Join(err, o.release())
	}
	return o, nil
}

// complete makes the entry of what is in the partial directory, and lets others have it.
func (o *order) complete() error {
	if missing := missingFiles(o.partial, []Component{o.component}); len(missing) != 0 {
		return fmt.Errorf("the build of %s made no %s", o.component, missing[0])
	}
	if err := os.Rename(o.partial, o.entry); err != nil {
		return err
	}
	return o.release()
}

// release gives the lock up. It may be called again.
func (o *order) release() error {
	lock := o.lock
	o.lock = nil
	if lock == nil {
		return nil
	}
	return lock.Unlock()
}

// ensure makes the entries that the components lack. What can be fetched is fetched while the rest is built, and what
// could not be fetched is built afterwards.
func (k *Cache) ensure(ctx context.Context, root string, components []Component) (err error) {
	var orders []*order
	defer func() {
		for _, o := range orders {
			if o.lock != nil {
				err = errors.Join(err, os.RemoveAll(o.partial), o.release())
			}
		}
	}()
	// Every process takes its locks in the same order, so that no two wait for each other.
	for _, c := range append(All(), Node()...) {
		if !slices.Contains(components, c) {
			continue
		}
		o, err := k.place(ctx, c, k.entryDir(root, c))
		if err != nil {
			return err
		}
		if o != nil {
			orders = append(orders, o)
		}
	}
	if len(orders) == 0 {
		return nil
	}
	shown := newDisplay(k.Log)
	defer shown.done()
	toFetch, toBuild := k.divide(orders, shown)

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	unfetched := make(chan []*order, 1)
	go func() { unfetched <- k.fetchAll(ctx, root, toFetch, shown) }()
	if err := k.buildAll(ctx, toBuild, shown); err != nil {
		cancel(err)
		<-unfetched
		return err
	}
	left := <-unfetched
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := k.buildAll(ctx, left, shown); err != nil {
		return err
	}
	for _, o := range left {
		if err := fetch.Discard(k.downloadPath(root, k.checksumOf(o.component))); err != nil {
			return err
		}
	}
	return nil
}

// divide separates what can be fetched from what has to be built, and says why where that is not the user's choice.
func (k *Cache) divide(orders []*order, shown *display) (toFetch, toBuild []*order) {
	for _, o := range orders {
		switch _, published := o.component.release(k.Machine.GOOS, k.Machine.GOARCH); {
		case published && k.Releases != releasesOff && k.checksumOf(o.component) != "":
			toFetch = append(toFetch, o)
			continue
		case published && k.Releases != releasesOff:
			shown.printf("%s %s: not fetched, because no checksum of a release for %s is pinned",
				o.component, o.component.Version(), k.platform())
		}
		toBuild = append(toBuild, o)
	}
	return toFetch, toBuild
}

// checksumOf returns the pinned checksum of what is published of c for this platform; empty if there is none.
func (k *Cache) checksumOf(c Component) string {
	r, _ := c.release(k.Machine.GOOS, k.Machine.GOARCH)
	return k.checksums[r.address]
}

// downloadPath is where a file is fetched to. Its name is its checksum, so that only the same file is ever resumed.
func (k *Cache) downloadPath(root, checksum string) string {
	return filepath.Join(root, "downloads", checksum)
}

// fetchAll fetches at the same time, and returns what could not be had. It says why in a line for each reason.
func (k *Cache) fetchAll(ctx context.Context, root string, orders []*order, shown *display) (failed []*order) {
	if len(orders) == 0 {
		return nil
	}
	counted := &downloads{}
	defer shown.add(counted)()
	errs := make([]error, len(orders))
	var all sync.WaitGroup
	for i, o := range orders {
		all.Go(func() { errs[i] = k.fetchOne(ctx, root, o, counted, shown) })
	}
	all.Wait()
	if ctx.Err() != nil {
		return nil
	}
	names := map[string][]string{}
	for i, err := range errs {
		if err == nil {
			continue
		}
		failed = append(failed, orders[i])
		names[err.Error()] = append(names[err.Error()], string(orders[i].component))
	}
	for _, reason := range sortedKeys(names) {
		shown.printf("%s: not fetched from %s; building from source instead", strings.Join(names[reason], ", "), reason)
	}
	return failed
}

// fetchOne makes an entry of what is published. The error begins with the site's name.
func (k *Cache) fetchOne(ctx context.Context, root string, o *order, counted *downloads, shown *display) error {
	c, started := o.component, time.Now()
	r, _ := c.release(k.Machine.GOOS, k.Machine.GOARCH)
	address := mirrored(k.Releases, r.address)
	site := address
	if u, err := url.Parse(address); err == nil {
		site = u.Host
	}
	shown.printf("%s %s: fetching %s", c, c.Version(), address)
	sum := k.checksumOf(c)
	path := k.downloadPath(root, sum)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = k.fetch(ctx, address, sum, path, func(have, size int64) { counted.set(c, have, size) })
	}
	if err == nil {
		if err = r.install(path, filepath.Join(o.partial, string(c))); err != nil {
			err = errors.Join(err, os.Remove(path))
		}
	}
	if err == nil && c == Kwok {
		err = k.stages(ctx, o.partial)
	}
	if err == nil {
		err = o.complete()
	}
	if err != nil {
		return fmt.Errorf("%s: %s", site, fetch.Reason(err))
	}
	shown.printf("%s %s: fetched and verified in %s", c, c.Version(), time.Since(started).Round(time.Second))
	return nil
}

// buildAll builds what has one pin together, and one pin after the other: a go command takes all processors. What
// serves the API comes before all else, because a control plane can start with it.
func (k *Cache) buildAll(ctx context.Context, orders []*order, shown *display) error {
	serves := func(o *order) bool { return slices.Contains(Minimal(), o.component) }
	for len(orders) > 0 {
		first := orders[0]
		var together, rest []*order
		for _, o := range orders {
			if o.component.recipe().pin == first.component.recipe().pin && serves(o) == serves(first) {
				together = append(together, o)
			} else {
				rest = append(rest, o)
			}
		}
		if err := k.buildTogether(ctx, together, shown); err != nil {
			return err
		}
		orders = rest
	}
	return nil
}

// buildTogether makes the entries of components of one pin.
func (k *Cache) buildTogether(ctx context.Context, orders []*order, shown *display) error {
	components := make([]Component, len(orders))
	for i, o := range orders {
		components[i] = o.component
	}
	version := components[0].Version()
	what := strings.ReplaceAll(Join(components), ",", ", ")
	shown.printf("%s %s: building from source (minutes the first time)", what, version)
	done := &progress{what: fmt.Sprintf("%s %s", components[0].recipe().pin.name, version)}
	remove := shown.add(done)
	started := time.Now()
	// All of them go to one directory first, because there is one build.
	dir := orders[0].partial
	err := k.build(ctx, components, dir, done)
	remove()
	if err != nil {
		return fmt.Errorf("build %s %s: %w", what, version, err)
	}
	for _, o := range orders {
		for _, name := range o.component.files() {
			from, to := filepath.Join(dir, name), filepath.Join(o.partial, name)
			if err := os.Rename(from, to); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
	}
	for _, o := range orders {
		if err := o.complete(); err != nil {
			return err
		}
	}
	shown.printf("%s %s: built in %s", what, version, time.Since(started).Round(time.Second))
	return nil
}

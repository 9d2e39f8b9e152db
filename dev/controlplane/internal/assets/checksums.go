// SPDX-License-Identifier: Apache-2.0

package assets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"cloudteam.ztgame.com/network-controller/dev/controlplane/internal/fetch"
)

// PrintChecksums downloads what the components' projects publish at the pinned versions, for all platforms, and writes
// the lines of pins/releases.sha256. It returns an error if a file has not the checksum that its project publishes.
func (k *Cache) PrintChecksums(ctx context.Context, out io.Writer, components []Component) (err error) {
	if err := checkReleases(k.Releases); err != nil {
		return err
	}
	if k.Releases == releasesOff {
		return fmt.Errorf("%s=%s forbids to download: unset it", EnvReleases, releasesOff)
	}
	dir, err := os.MkdirTemp("", "controlplane-checksums-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	for _, c := range components {
		for _, p := range releasePlatforms() {
			r, ok := c.release(p.goos, p.goarch)
			if !ok {
				continue
			}
			k.Log.Printf("downloading %s", mirrored(k.Releases, r.address))
			sum, err := k.checksum(ctx, r, filepath.Join(dir, "file"))
			missing := &fetch.StatusError{}
			if errors.As(err, &missing) && missing.Code == http.StatusNotFound {
				k.Log.Printf("%s is not published for %s-%s", c, p.goos, p.goarch)
				continue
			}
			if err != nil {
				return fmt.Errorf("%s: %w", r.address, err)
			}
			if _, err := fmt.Fprintf(out, "%s  %s\n", sum, r.address); err != nil {
				return err
			}
		}
	}
	return nil
}

// checksum downloads a release to path and compares its checksum with the published one.
func (k *Cache) checksum(ctx context.Context, r release, path string) (string, error) {
	sum, err := k.fetchUnknown(ctx, mirrored(k.Releases, r.address), path)
	if err != nil || r.sums == "" {
		return sum, err
	}
	if _, err := k.fetchUnknown(ctx, mirrored(k.Releases, r.sums), path); err != nil {
		return "", fmt.Errorf("its published checksum: %s", fetch.Reason(err))
	}
	published, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if !strings.Contains(string(published), sum) {
		return "", fmt.Errorf("its SHA-256 is %s, which %s does not have", sum, r.sums)
	}
	return sum, nil
}

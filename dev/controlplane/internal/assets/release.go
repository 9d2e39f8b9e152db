// SPDX-License-Identifier: Apache-2.0

package assets

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
)

// EnvReleases is the variable that says where released binaries come from: nothing for the projects' own sites, the URL
// of a mirror, or "off" to build everything from source.
const EnvReleases = "CONTROLPLANE_RELEASES"

// releasesOff is the value of EnvReleases that forbids to fetch.
const releasesOff = "off"

// checksums are the lines of the file of pinned checksums: a SHA-256 checksum and the address of the file that has it.
// The version is in the address, so that another pin finds no checksum, and is built from source.
//
//go:embed pins/releases.sha256
var checksums []byte

// release is a file that a component's project has published.
type release struct {
	// address is where its project serves it.
	address string
	// member is the path of the program in the file, which is a gzipped tar archive; empty if the file is the program.
	member string
	// sums is where the project publishes the file's SHA-256 checksum; empty if it does not.
	sums string
}

// platform is an operating system and an architecture, by Go's names.
type platform struct{ goos, goarch string }

// releasePlatforms are those for which releases are looked for. Kubernetes publishes its servers for Linux alone.
func releasePlatforms() []platform {
	return []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}
}

// release returns what the component's project publishes for a platform; ok is false if it is not fetched at all.
func (c Component) release(goos, goarch string) (r release, ok bool) {
	version, platform := c.Version(), goos+"-"+goarch
	switch c {
	case KubeAPIServer, KubeControllerManager, KubeScheduler:
		address := fmt.Sprintf("https://dl.k8s.io/release/%s/bin/%s/%s/%s", version, goos, goarch, c)
		return release{address: address, sums: address + ".sha256"}, true
	case Etcd:
		folder := "https://github.com/etcd-io/etcd/releases/download/" + version + "/"
		name := fmt.Sprintf("etcd-%s-%s", version, platform)
		return release{address: folder + name + ".tar.gz", member: name + "/etcd", sums: folder + "SHA256SUMS"}, true
	case Kwok:
		return release{address: fmt.Sprintf("https://github.com/kubernetes-sigs/kwok/releases/download/%s/kwok-%s",
			version, platform)}, true
	default:
		// A node's programs: kubelet is not published as a static program, and Multus only in an image.
		return release{}, false
	}
}

// pinnedChecksums reads the file of pinned checksums, by address.
func pinnedChecksums(file []byte) (map[string]string, error) {
	sums := map[string]string{}
	lines := bufio.NewScanner(bytes.NewReader(file))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		sum, address, _ := strings.Cut(line, "  ")
		if len(sum) != 64 || strings.Trim(sum, "0123456789abcdef") != "" || !strings.HasPrefix(address, "https://") {
			return nil, fmt.Errorf("pins/releases.sha256: %q is not a SHA-256 checksum, two spaces and an address", line)
		}
		sums[address] = sum
	}
	return sums, lines.Err()
}

// mirrored returns the address of a file at a mirror, which serves the projects' files by host and path. An empty
// mirror is none.
func mirrored(mirror, address string) string {
	if mirror == "" {
		return address
	}
	return strings.TrimSuffix(mirror, "/") + "/" + strings.TrimPrefix(address, "https://")
}

// checkReleases returns an error unless the value is one that EnvReleases may have.
func checkReleases(value string) error {
	if value == "" || value == releasesOff {
		return nil
	}
	u, err := url.Parse(value)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return fmt.Errorf("%s or --releases: %q is neither the URL of a mirror nor %q", EnvReleases, value, releasesOff)
	}
	return nil
}

// install makes the program at path of the file that was fetched: the file itself, which is moved, or a member of it.
func (r release) install(fetched, path string) error {
	if r.member != "" {
		if err := extract(fetched, r.member, path); err != nil {
			return err
		}
		return os.Remove(fetched)
	}
	if err := os.Chmod(fetched, 0o755); err != nil {
		return err
	}
	return os.Rename(fetched, path)
}

// extract writes one member of a gzipped tar archive to path, as a program.
func extract(archive, member, path string) (err error) {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		return err
	}
	members := tar.NewReader(unzipped)
	for {
		header, err := members.Next()
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("the archive has no %s", member)
		}
		if err != nil {
			return err
		}
		if header.Name == member && header.Typeflag == tar.TypeReg {
			break
		}
	}
	program, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, program.Close()) }()
	_, err = io.Copy(program, members)
	return err
}

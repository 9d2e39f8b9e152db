// SPDX-License-Identifier: Apache-2.0

package assets

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"time"
)

// EnvReleases is the variable whose value "off" forbids to fetch released programs.
const EnvReleases = "CONTROLPLANE_RELEASES"

// Without a way to the release site, the first of these is what the attempt costs. A download that takes longer than
// the second takes longer than to build the program.
const (
	answerPatience   = 5 * time.Second
	downloadPatience = 3 * time.Minute
)

// releaseSite has what Kubernetes' project publishes. Tests replace it.
var releaseSite = "https://dl.k8s.io/release/"

// release returns the path and the SHA-256 checksum of the program that is published of c for this platform; empty if
// the checksum of none is pinned. The version is in the path, so that another pin finds no checksum.
func (c Component) release() (path, checksum string) {
	path = fmt.Sprintf("%s/bin/%s/%s/%s", c.Version(), runtime.GOOS, runtime.GOARCH, c)
	lines := bufio.NewScanner(bytes.NewReader(pinned("releases.sha256")))
	for lines.Scan() {
		if sum, of, _ := strings.Cut(lines.Text(), "  "); of == path {
			return path, sum
		}
	}
	return "", ""
}

// fetch downloads a published program to path, and checks it. Nothing is left of one that is another.
func fetch(ctx context.Context, address, checksum, path string) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, downloadPatience, fmt.Errorf("not within %s", downloadPatience))
	defer cancel()
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout, transport.TLSHandshakeTimeout = answerPatience, answerPatience
	transport.DialContext = (&net.Dialer{Timeout: answerPatience}).DialContext
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: the server answers %s", address, response.Status)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	h := sha256.New()
	_, err = io.Copy(io.MultiWriter(file, h), response.Body)
	err = errors.Join(err, file.Close())
	if got := hex.EncodeToString(h.Sum(nil)); err == nil && got != checksum {
		err = fmt.Errorf("%s: its SHA-256 is %s, not %s", address, got, checksum)
	}
	if err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

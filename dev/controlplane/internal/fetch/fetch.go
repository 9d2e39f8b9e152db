// SPDX-License-Identifier: Apache-2.0

// Package fetch downloads files whose content is known in advance by its checksum. It gives up early where there is no
// way to the server, because its caller has another way to get the file, and it resumes what was cut off.
package fetch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// The reasons for which a download ends, beside those of the network. They are parts of sentences.
var (
	// ErrNoAnswer is returned when the answer does not begin within Limits.Answer.
	ErrNoAnswer = errors.New("no answer")
	// ErrSlow is returned when less than Limits.Floor bytes come within Limits.Window.
	ErrSlow = errors.New("too slow")
	// ErrChecksum is returned when the file is another one than expected. Nothing of it is kept.
	ErrChecksum = errors.New("wrong checksum")
	// ErrSize is returned when the file is larger than Limits.Size.
	ErrSize = errors.New("too large")
)

// Limits say when a download is given up.
type Limits struct {
	// Answer is the time for the name, the connection, redirects and the answer's header together.
	Answer time.Duration
	// Window and Floor are the least speed: Floor bytes in each Window.
	Window time.Duration
	Floor  int64
	// Attempts is how often a download that is cut off is resumed at most, plus one.
	Attempts int
	// Size is the most that a file may have, in bytes.
	Size int64
}

// DefaultLimits suit a file of about 100 MB that can also be made in minutes: without a network they cost 5 seconds at
// most, and a download of less than 100 KiB/s would take longer than to make the file.
func DefaultLimits() Limits {
	return Limits{Answer: 5 * time.Second, Window: 20 * time.Second, Floor: 2 << 20, Attempts: 5, Size: 1 << 30}
}

// Client downloads files. It is safe for concurrent use, as long as no two calls write the same path.
type Client struct {
	// HTTP sends the requests. It MUST NOT have a timeout for the whole of a request.
	HTTP *http.Client
	// Limits say when to give up.
	Limits Limits
}

// NewClient returns a client with DefaultLimits that heeds the variables HTTP_PROXY, HTTPS_PROXY and NO_PROXY.
func NewClient() *Client {
	return &Client{HTTP: &http.Client{}, Limits: DefaultLimits()}
}

// partialSuffix is added to the path of a file that is not yet whole.
const partialSuffix = ".partial"

// File downloads the address to path and checks that it has the SHA-256 checksum, 64 hexadecimal digits. path appears
// when the file is whole and checked. What an earlier call left that was cut off or whose context ended is resumed.
// progress is called with the bytes that are there and the file's size, 0 if unknown; never at the same time. When ctx
// ends, File returns its cause.
func (c *Client) File(ctx context.Context, address, checksum, path string, progress func(have, size int64)) error {
	partial := path + partialSuffix
	for {
		resumed := fileSize(partial) > 0
		if err := c.download(ctx, address, partial, progress); err != nil {
			return err
		}
		err := verify(partial, checksum)
		if err == nil {
			return os.Rename(partial, path)
		}
		// What an earlier run left may be of another file. What begins with nothing is what the server has.
		if removed := os.Remove(partial); removed != nil || !resumed || !errors.Is(err, ErrChecksum) {
			return errors.Join(err, removed)
		}
	}
}

// Unknown downloads the address to path, whatever it is, and returns its SHA-256 checksum.
func (c *Client) Unknown(ctx context.Context, address, path string) (checksum string, err error) {
	if err := os.RemoveAll(path); err != nil {
		return "", err
	}
	if err := c.download(ctx, address, path, func(int64, int64) {}); err != nil {
		return "", err
	}
	return sum(path)
}

// download makes the file at path whole, of which there may be a part.
func (c *Client) download(ctx context.Context, address, path string, progress func(have, size int64)) error {
	for attempt := 1; ; attempt++ {
		before := fileSize(path)
		err := c.resume(ctx, address, path, before, progress)
		cut := &cutOffError{}
		if err == nil || !errors.As(err, &cut) || fileSize(path) <= before || attempt >= c.Limits.Attempts {
			return err
		}
	}
}

// Discard removes what File has left of the file at path.
func Discard(path string) error {
	if err := os.Remove(path + partialSuffix); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// Reason says in a few words why File failed: without the address, which the caller has told.
func Reason(err error) string {
	if wrapped := (&url.Error{}); errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	if wrapped := (&net.OpError{}); errors.As(err, &wrapped) && wrapped.Err != nil {
		err = wrapped.Err
	}
	return err.Error()
}

// StatusError is an answer that has no file.
type StatusError struct {
	// Code and Status are those of the answer, such as 404 and "404 Not Found".
	Code   int
	Status string
}

func (e *StatusError) Error() string { return "the server answers " + e.Status }

// cutOffError is a connection that ended within the file.
type cutOffError struct{ err error }

func (e *cutOffError) Error() string { return "cut off: " + e.err.Error() }
func (e *cutOffError) Unwrap() error { return e.err }

// resume appends to the file at path what it lacks, which has the first bytes already.
func (c *Client) resume(
	ctx context.Context, address, path string, have int64, progress func(have, size int64),
) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	answer := time.AfterFunc(c.Limits.Answer, func() {
		cancel(fmt.Errorf("%w within %s", ErrNoAnswer, c.Limits.Answer))
	})
	defer answer.Stop()
	defer func() {
		// The transport's own words for a context that ended say nothing.
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	}()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	// In place of a compression that the transport would undo, and which has other offsets.
	request.Header.Set("Accept-Encoding", "identity")
	if have > 0 {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", have))
	}
	response, err := c.HTTP.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	answer.Stop()

	switch {
	case response.StatusCode == http.StatusPartialContent && rangeBegin(response) == have:
	case response.StatusCode == http.StatusOK:
		have = 0
	case response.StatusCode == http.StatusRequestedRangeNotSatisfiable && have > 0:
		// The whole file is here, or more than that: the checksum tells.
		return nil
	default:
		return &StatusError{Code: response.StatusCode, Status: response.Status}
	}
	size := int64(0)
	if response.ContentLength >= 0 {
		size = have + response.ContentLength
	}
	if size > c.Limits.Size {
		return fmt.Errorf("%w: %d bytes", ErrSize, size)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := file.Truncate(have); err != nil {
		return err
	}
	if _, err := file.Seek(have, io.SeekStart); err != nil {
		return err
	}
	var got atomic.Int64
	got.Store(have)
	done := make(chan struct{})
	defer close(done)
	go c.watch(done, &got, cancel)
	return c.copy(file, response.Body, &got, size, progress)
}

// copy writes the body to the file and counts it.
func (c *Client) copy(
	file io.Writer, body io.Reader, got *atomic.Int64, size int64, progress func(have, size int64),
) error {
	buffer := make([]byte, 128<<10)
	for {
		n, readErr := body.Read(buffer)
		if _, err := file.Write(buffer[:n]); err != nil {
			return err
		}
		have := got.Add(int64(n))
		progress(have, size)
		switch {
		case have > c.Limits.Size:
			return fmt.Errorf("%w: more than %d bytes", ErrSize, c.Limits.Size)
		case errors.Is(readErr, io.EOF):
			return nil
		case readErr != nil:
			return &cutOffError{readErr}
		}
	}
}

// watch cancels a download that is slower than the limit, until done is closed.
func (c *Client) watch(done <-chan struct{}, got *atomic.Int64, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(c.Limits.Window)
	defer tick.Stop()
	last := got.Load()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		now := got.Load()
		if now-last < c.Limits.Floor {
			cancel(fmt.Errorf("%w: %d KiB in %s", ErrSlow, (now-last)>>10, c.Limits.Window))
			return
		}
		last = now
	}
}

// rangeBegin returns the offset at which a partial answer begins, -1 if it does not say so.
func rangeBegin(response *http.Response) int64 {
	said, isBytes := strings.CutPrefix(response.Header.Get("Content-Range"), "bytes ")
	first, _, _ := strings.Cut(said, "-")
	begin, err := strconv.ParseInt(first, 10, 64)
	if !isBytes || err != nil {
		return -1
	}
	return begin
}

// fileSize returns the size of the file at path, 0 if there is none.
func fileSize(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// verify returns ErrChecksum if the file has another SHA-256 checksum.
func verify(path, checksum string) error {
	got, err := sum(path)
	if err != nil {
		return err
	}
	if got != checksum {
		return fmt.Errorf("%w: its SHA-256 is %s, expected %s", ErrChecksum, got, checksum)
	}
	return nil
}

// sum returns the SHA-256 checksum of the file at path, as hexadecimal digits.
func sum(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

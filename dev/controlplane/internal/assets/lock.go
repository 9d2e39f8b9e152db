// SPDX-License-Identifier: Apache-2.0

//go:build unix

package assets

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// lockPoll is how often a lock that somebody else holds is tried again. A build takes seconds at least, so a tenth of
// one is lost at most.
const lockPoll = 100 * time.Millisecond

// ErrLocked is returned by TryLock when another process holds the lock.
var ErrLocked = errors.New("locked by another process")

// FileLock is a lock between processes, held on an open file. The kernel releases it when the process ends, however it
// ends, so a lock is never left over; the empty file stays.
type FileLock struct {
	file *os.File
}

// TryLock takes the lock at path, making the file and its directory if need be. It returns an error that wraps
// ErrLocked when the lock is taken, by another process or by another call in this one.
func TryLock(path string) (*FileLock, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return &FileLock{file}, nil
	}
	_ = file.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, fmt.Errorf("%s: %w", path, ErrLocked)
	}
	return nil, fmt.Errorf("lock %s: %w", path, err)
}

// Lock waits for the lock at path until ctx ends, and then returns the context's cause. busy is called once if there is
// something to wait for.
func Lock(ctx context.Context, path string, busy func()) (*FileLock, error) {
	for waited := false; ; waited = true {
		lock, err := TryLock(path)
		if !errors.Is(err, ErrLocked) {
			return lock, err
		}
		if !waited {
			busy()
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(lockPoll):
		}
	}
}

// Unlock releases the lock. It MUST be called at most once.
func (l *FileLock) Unlock() error {
	return l.file.Close()
}

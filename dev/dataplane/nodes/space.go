// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodes

import (
	"bytes"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// commandPatience bounds a command that only sets something up.
const commandPatience = time.Minute

// The first thread of a process cannot end before the process, and the kernel shows it as /proc/self: a space on it
// would stay until the process ends, and /proc/self/mounts would be the space's. Locked here, it serves the main
// goroutine and no other.
//
//nolint:gochecknoinits // only there the main goroutine is on it for certain
func init() { runtime.LockOSThread() }

// space is a set of namespaces. They live until close, or until the last process in them ends.
type space struct {
	name string
	// work is run on a thread that is in the namespaces and does nothing else.
	work chan func()
}

// newSpace makes the namespaces that the flags name. Of a PID namespace, the first program that starts there is the
// first process, and all others end with it.
func newSpace(name string, flags int) (*space, error) {
	// The os package tries once whether the kernel has pidfds, by a child that ends at once. It must not be the first
	// process of a PID namespace.
	if err := exec.Command("true").Run(); err != nil {
		return nil, err
	}
	s := &space{name: name, work: make(chan func())}
	result := make(chan error)
	go func() {
		// Never unlocked: the runtime ends the thread with the goroutine, as no other goroutine may get it.
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_FS | flags)
		result <- err
		if err != nil {
			return
		}
		for f := range s.work {
			f()
		}
	}()
	if err := <-result; err != nil {
		return nil, fmt.Errorf("making namespaces for %s: %w", name, err)
	}
	return s, nil
}

// on runs f in the namespaces, and returns after it.
func (s *space) on(f func()) {
	done := make(chan struct{})
	s.work <- func() { defer close(done); f() }
	<-done
}

// close ends the thread. on MUST NOT be called any more.
func (s *space) close() { close(s.work) }

// start starts a command in the namespaces.
func (s *space) start(cmd *exec.Cmd) error {
	var err error
	s.on(func() { err = cmd.Start() })
	return err
}

// run runs a program in the namespaces to its end and returns what it printed on standard output. An error has what it
// printed on standard error.
func (s *space) run(stdin string, env []string, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Env = env
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := s.start(cmd); err != nil {
		return "", fmt.Errorf("%s: starting %s: %w", s.name, name, err)
	}
	timer := time.AfterFunc(commandPatience, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	err := cmd.Wait()
	if err != nil {
		said := strings.TrimSpace(stderr.String())
		err = fmt.Errorf("%s: %s %s: %w: %s", s.name, name, strings.Join(args, " "), err, said)
	}
	return stdout.String(), err
}

// script runs lines of shell that stop at the first error. Arguments are $1 and so on.
func (s *space) script(lines string, args ...string) error {
	_, err := s.run(lines, nil, "sh", append([]string{"-eus", "--"}, args...)...)
	return err
}

// poll calls check every 50 ms until it gives nil, and returns its last error when patience ends.
func poll(patience time.Duration, check func() error) error {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			return err
		}
	}
}

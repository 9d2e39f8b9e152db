// SPDX-License-Identifier: Apache-2.0

//go:build unix

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

const (
	// tailLines is how many lines of a log an error quotes.
	tailLines = 20
	// tailBytes bounds what is read of a log to find them.
	tailBytes = 64 << 10
)

// process is a program that was started. Its methods are safe for concurrent use.
type process struct {
	name string
	log  string
	cmd  *exec.Cmd
	// done is closed when the program has ended, after err was set.
	done chan struct{}
	err  error
}

// startProcess starts the program at path with its output in a new file at log. The program leads a process group of
// its own: Ctrl-C on a terminal reaches whole groups, and would otherwise end all programs at once and in no order.
func startProcess(name, path string, args, env []string, dir, log string) (*process, error) {
	output, err := os.OpenFile(log, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Env = dir, env
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = startWithParent(cmd)
	// The program has its own copy.
	err = errors.Join(err, output.Close())
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &process{name: name, log: log, cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// stop asks the program to end, waits for it, and kills it and its group when ctx ends or patience runs out. It returns
// when the program is gone, with an error if it had to be killed. A program that ended before is no error.
func (p *process) stop(ctx context.Context, patience time.Duration) error {
	select {
	case <-p.done:
		return nil
	default:
	}
	// An error means that it is gone, which done will tell.
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	reason := fmt.Sprintf("did not stop within %s", patience)
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		reason = "was not given the time to stop"
	case <-timer.C:
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.done
	return fmt.Errorf("%s %s and was killed: see %s", p.name, reason, p.log)
}

// died describes how a program ended that should have gone on. It MUST only be called once done is closed.
func (p *process) died() error {
	how := "ended"
	if p.err != nil {
		how = "ended (" + p.err.Error() + ")"
	}
	return p.describe(how)
}

// describe returns an error that says what the program did and ends with the last lines of its log.
func (p *process) describe(what string) error {
	return fmt.Errorf("%s %s; the last lines of %s:\n%s", p.name, what, p.log, indent(tail(p.log)))
}

// tail returns the last lines of the file at path, or why it cannot.
func tail(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = file.Close() }()
	if size, err := file.Seek(0, io.SeekEnd); err == nil {
		_, _ = file.Seek(max(0, size-tailBytes), io.SeekStart)
	}
	content, err := io.ReadAll(file)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}

func indent(text string) string {
	return "  " + strings.ReplaceAll(text, "\n", "\n  ")
}

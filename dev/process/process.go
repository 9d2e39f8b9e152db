// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package process supervises the programs that development tools and tests start: it captures what they print, stops
// them with their process group, and has them end with the process that started them.
package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// tailLines is how many lines of a log an error quotes.
	tailLines = 30
	// tailBytes bounds what is read of a log to find them.
	tailBytes = 64 << 10
	// pipeDelay bounds how long a program's children may hold its output open after it has ended.
	pipeDelay = time.Second
)

// Program says what to start. Both of its outputs go to each of Log, Output and Line that is set, in their order.
type Program struct {
	// Name is for messages; Path is the executable.
	Name, Path string
	Args       []string
	// Env is the whole environment; nil is this process's.
	Env []string
	// Dir is the working directory; empty is this process's.
	Dir string
	// Log is the path of a file that is created or truncated; Died and Describe quote its end.
	Log    string
	Output io.Writer
	// Line receives each line without its newline.
	Line func(string)
	// Orphaned is the signal that the program gets when this process ends without having stopped it, on Linux; SIGKILL
	// where it is 0.
	Orphaned syscall.Signal
	// On runs the start of the program on a thread of the caller's, whose namespaces the program gets. The thread MUST
	// outlive the program. Nil is a thread of this package's. Linux only. The program gets no signal where Orphaned is 0,
	// and MUST get none where it is not the first process of a PID namespace: the syscall package sees that the parent is
	// in another PID namespace, and takes it for one that has ended.
	On func(start func())
	// Patience bounds how long the program may take to stop.
	Patience time.Duration
}

// Process is a program that was started. Its methods are safe for concurrent use.
type Process struct {
	Program
	cmd *exec.Cmd
	// stopping is closed when its end is no failure any more; done when it has ended, after err was set.
	stopping chan struct{}
	stopOnce sync.Once
	done     chan struct{}
	err      error
}

// Start starts a program as the leader of its own process group: Ctrl-C on a terminal reaches whole groups, and
// would end all programs at once and in no order.
func Start(p Program) (*Process, error) {
	c := &Process{
		Program: p, cmd: exec.Command(p.Path, p.Args...), stopping: make(chan struct{}), done: make(chan struct{}),
	}
	c.cmd.Env, c.cmd.Dir = p.Env, p.Dir
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var file *os.File
	var outputs []io.Writer
	if p.Log != "" {
		var err error
		if file, err = os.OpenFile(p.Log, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600); err != nil {
			return nil, fmt.Errorf("opening the log of %s: %w", p.Name, err)
		}
		outputs = append(outputs, file)
	}
	if p.Output != nil {
		outputs = append(outputs, p.Output)
	}
	lines := &lineWriter{line: p.Line}
	if p.Line != nil {
		outputs = append(outputs, lines)
	}
	switch {
	case len(outputs) == 1:
		// A file is handed to the program, which then needs no pipe.
		c.cmd.Stdout = outputs[0]
	case len(outputs) > 1:
		c.cmd.Stdout = io.MultiWriter(outputs...)
	}
	c.cmd.Stderr, c.cmd.WaitDelay = c.cmd.Stdout, pipeDelay
	closeLog := func() error {
		if file == nil {
			return nil
		}
		return file.Close()
	}
	orphaned := p.Orphaned
	if orphaned == 0 && p.On == nil {
		orphaned = syscall.SIGKILL
	}
	if err := startWithParent(c.cmd, orphaned, p.On); err != nil {
		return nil, errors.Join(fmt.Errorf("starting %s: %w", p.Name, err), closeLog())
	}
	go func() {
		c.err = c.cmd.Wait()
		lines.flush()
		c.err = errors.Join(c.err, closeLog())
		close(c.done)
	}()
	return c, nil
}

// PID is the process's id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the program has ended and its output is complete.
func (p *Process) Done() <-chan struct{} { return p.done }

// Ended reports whether Done is closed.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// ExitCode is the program's, and -1 where a signal ended it. Done MUST be closed.
func (p *Process) ExitCode() int { return p.cmd.ProcessState.ExitCode() }

// Signal sends a signal to a program that may have ended already.
func (p *Process) Signal(s syscall.Signal) {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		panic(err) // it is our own child
	}
}

// Stop asks the program to end, waits for it, and kills it and its group when ctx ends or Patience runs out. It returns
// when the program is gone, with an error where it had to be killed. A program that ended before is no error.
func (p *Process) Stop(ctx context.Context) error {
	p.stopOnce.Do(func() { close(p.stopping) })
	if p.Ended() {
		return nil
	}
	p.Signal(syscall.SIGTERM)
	timer := time.NewTimer(p.Patience)
	defer timer.Stop()
	reason := fmt.Sprintf("did not stop within %s", p.Patience)
	select {
	case <-p.done:
		return nil
	case <-timer.C:
	case <-ctx.Done():
		reason = "had no time to stop"
	}
	p.Kill()
	message := fmt.Sprintf("%s %s and was killed", p.Name, reason)
	if p.Log != "" {
		message += "; its log is " + p.Log
	}
	return errors.New(message)
}

// Kill ends the program and its group at once, and returns when it is gone.
func (p *Process) Kill() {
	p.stopOnce.Do(func() { close(p.stopping) })
	// An error means that it is gone, which done will tell.
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.done
}

// OnFailure calls failed with Died where the program ends before Stop or Kill.
func (p *Process) OnFailure(failed func(error)) {
	go func() {
		<-p.done
		select {
		case <-p.stopping:
		default:
			failed(p.Died())
		}
	}()
}

// Died describes how the program ended. Done MUST be closed.
func (p *Process) Died() error {
	how := "ended"
	if p.err != nil {
		how += " (" + p.err.Error() + ")"
	}
	return p.Describe(how)
}

// Describe is an error that says what the program did and quotes the end of its log.
func (p *Process) Describe(what string) error {
	if p.Log == "" {
		return fmt.Errorf("%s %s", p.Name, what)
	}
	return fmt.Errorf("%s %s; the last lines of %s:\n  %s",
		p.Name, what, p.Log, strings.ReplaceAll(tail(p.Log), "\n", "\n  "))
}

// tail is the last lines of the file at path, or why they cannot be read.
func tail(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer file.Close()
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

// lineWriter hands on whole lines. One goroutine writes to it.
type lineWriter struct {
	line func(string)
	rest []byte
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	for {
		line, rest, found := bytes.Cut(w.rest, []byte("\n"))
		if !found {
			return len(p), nil
		}
		w.line(string(line))
		w.rest = rest
	}
}

// flush hands on what follows the last newline.
func (w *lineWriter) flush() {
	if len(w.rest) > 0 {
		w.line(string(w.rest))
		w.rest = nil
	}
}

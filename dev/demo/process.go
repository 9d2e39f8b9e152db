//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// program says what to start.
type program struct {
	// name is for messages; its log is name.log.
	name string
	path string
	args []string
	// env is the whole environment.
	env []string
	// logDir receives the log.
	logDir string
	// line, where set, is told every line that the program prints, without its newline, besides the log. Both of the
	// program's outputs are one pipe, so that their lines keep their order.
	line func(string)
	// patience bounds how long it may take to stop.
	patience time.Duration
	// orphaned is the signal that it gets when this process dies without having stopped it.
	orphaned syscall.Signal
}

// process is a program that was started. Its methods are safe for concurrent use.
type process struct {
	program
	log string
	cmd *exec.Cmd
	// stopping is closed when it may end without that being a failure; done when it has ended, after err was set.
	stopping chan struct{}
	stopOnce sync.Once
	done     chan struct{}
	err      error
}

// start starts the program with its output in a log file. It leads a process group of its own, because Ctrl-C on a
// terminal reaches whole groups and would end all programs at once and in no order. Should the program end before stop
// is called, died is told why.
//
// It MUST be called by the goroutine that is locked to its thread (see main).
func start(p program, died func(error)) (*process, error) {
	logPath := filepath.Join(p.logDir, p.name+".log")
	file, err := os.OpenFile(logPath, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("the log of %s: %w", p.name, err)
	}
	c := &process{
		program: p, log: logPath, cmd: exec.Command(p.path, p.args...),
		stopping: make(chan struct{}), done: make(chan struct{}),
	}
	c.cmd.Env = p.env
	c.cmd.Stdout, c.cmd.Stderr = file, file
	lines := &lineWriter{log: file, line: p.line}
	if p.line != nil {
		c.cmd.Stdout, c.cmd.Stderr = lines, lines
		// What the program started may hold the pipe open longer than it lives.
		c.cmd.WaitDelay = time.Second
	}
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(c.cmd.SysProcAttr, p.orphaned)
	if err := c.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting %s: %w", p.name, err), file.Close())
	}
	go func() {
		c.err = c.cmd.Wait()
		lines.flush()
		c.err = errors.Join(c.err, file.Close())
		close(c.done)
		select {
		case <-c.stopping:
		default:
			died(c.died())
		}
	}()
	return c, nil
}

// ended reports whether the process has ended.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// stop asks the program to end, waits for it, and kills it and its group when ctx is done or its patience has run out.
// It returns when the program is gone, with an error where it had to be killed. It may be called more than once.
func (p *process) stop(ctx context.Context) error {
	p.stopOnce.Do(func() { close(p.stopping) })
	if p.ended() {
		return nil
	}
	// An error means that it is gone, which done will tell.
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.NewTimer(p.patience)
	defer timer.Stop()
	why := fmt.Sprintf("did not stop within %s", p.patience)
	select {
	case <-p.done:
		return nil
	case <-timer.C:
	case <-ctx.Done():
		why = "was given no time to stop"
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.done
	return fmt.Errorf("%s %s and was killed; its log is %s", p.name, why, p.log)
}

// died says how a program ended that should have gone on, with the end of its log. done MUST be closed.
func (p *process) died() error {
	how := "ended"
	if p.err != nil {
		how += " (" + p.err.Error() + ")"
	}
	return fmt.Errorf("%s %s; its log ends with:\n%s", p.name, how, indent(lastLines(p.log, 12)))
}

// lastLines gives the last lines of a file, or why it cannot.
func lastLines(path string, count int) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(lines[max(0, len(lines)-count):], "\n")
}

// lineWriter writes to a log and hands on whole lines. One goroutine writes to it.
type lineWriter struct {
	log  io.Writer
	line func(string)
	rest []byte
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	for {
		line, rest, found := bytes.Cut(w.rest, []byte("\n"))
		if !found {
			break
		}
		w.line(string(line))
		w.rest = rest
	}
	return w.log.Write(p)
}

// flush hands on what follows the last newline.
func (w *lineWriter) flush() {
	if len(w.rest) > 0 {
		w.line(string(w.rest))
		w.rest = nil
	}
}

// follow copies a file to out, from its start, and then what is appended to it, until ctx is done and its end reached.
func follow(ctx context.Context, path string, out io.Writer) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		over := ctx.Err() != nil
		if _, err := io.Copy(out, file); err != nil || over {
			return err
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

//go:build unix

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// shell starts a shell script as a program, and gives the channels of its first line and of its death.
func shell(t *testing.T, script string, patience time.Duration) (p *process, line chan string, died chan error) {
	t.Helper()
	line, died = make(chan string, 16), make(chan error, 1)
	p, err := start(program{
		name: "script", path: "/bin/sh", args: []string{"-c", script}, env: os.Environ(), logDir: t.TempDir(),
		line: func(text string) { line <- text }, patience: patience, orphaned: syscall.SIGKILL,
	}, func(err error) { died <- err })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		now, cancel := context.WithCancel(context.Background())
		cancel()
		_ = p.stop(now)
	})
	return p, line, died
}

func TestProcess(t *testing.T) {
	t.Run("a program that stops when asked to is no failure", func(t *testing.T) {
		p, line, died := shell(t, `trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.05; done`, time.Minute)
		<-line
		if err := p.stop(t.Context()); err != nil {
			t.Error(err)
		}
		if err := p.stop(t.Context()); err != nil {
			t.Errorf("once more: %v", err)
		}
		if content := lastLines(p.log, 9); content != "up\nbye" {
			t.Errorf("the log is %q", content)
		}
		select {
		case err := <-died:
			t.Errorf("its end was told as a failure: %v", err)
		default:
		}
	})
	t.Run("a program that does not stop is killed when its patience ends", func(t *testing.T) {
		p, line, _ := shell(t, `trap '' TERM; echo up; while :; do sleep 0.05; done`, 50*time.Millisecond)
		<-line
		if err := p.stop(t.Context()); err == nil || !strings.Contains(err.Error(), "was killed") {
			t.Errorf("the error is %v", err)
		}
	})
	t.Run("a program that does not stop is killed when there is no time", func(t *testing.T) {
		p, line, _ := shell(t, `trap '' TERM; echo up; while :; do sleep 0.05; done`, time.Hour)
		<-line
		hurry, cancel := context.WithCancel(t.Context())
		cancel()
		if err := p.stop(hurry); err == nil || !strings.Contains(err.Error(), "no time") {
			t.Errorf("the error is %v", err)
		}
	})
	t.Run("a program that ends by itself is told with the end of its log", func(t *testing.T) {
		_, _, died := shell(t, `echo why >&2; exit 7`, time.Minute)
		if err := <-died; !strings.Contains(err.Error(), "exit status 7") || !strings.Contains(err.Error(), "   why") {
			t.Errorf("the error is %v", err)
		}
	})
}

func TestLineWriterHandsOnWholeLines(t *testing.T) {
	var log bytes.Buffer
	var lines []string
	w := &lineWriter{log: &log, line: func(line string) { lines = append(lines, line) }}
	for _, part := range []string{"a", "b\nc\n\nd", "e"} {
		if _, err := w.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	w.flush()
	w.flush()
	if diff := cmp.Diff([]string{"ab", "c", "", "de"}, lines); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	if log.String() != "ab\nc\n\nde" {
		t.Errorf("the log is %q", log.String())
	}
}

func TestFollowReadsToTheEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte("one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	over := make(chan error, 1)
	go func() { over <- follow(ctx, path, writer) }()
	read := func() string {
		buffer := make([]byte, 64)
		n, err := reader.Read(buffer)
		if err != nil {
			t.Error(err)
		}
		return string(buffer[:n])
	}
	if got := read(); got != "one\n" {
		t.Errorf("first %q", got)
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString("two\n"); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-over; err != nil {
		t.Error(err)
	}
	if got := read(); got != "two\n" {
		t.Errorf("then %q", got)
	}
}

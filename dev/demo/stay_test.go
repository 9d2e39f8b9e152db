//go:build unix

package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

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

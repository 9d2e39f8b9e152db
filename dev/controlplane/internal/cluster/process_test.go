// SPDX-License-Identifier: Apache-2.0

//go:build unix

package cluster

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// script starts a shell script as a process and waits for it to create the file "up" in its directory.
func script(t *testing.T, text string) *process {
	t.Helper()
	dir := t.TempDir()
	p, err := startProcess("script", "/bin/sh", []string{"-c", text}, os.Environ(), dir, filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.stop(context.Background(), 0) })
	deadline := time.Now().Add(10 * time.Second)
	for {
		if _, err := os.Stat(filepath.Join(dir, "up")); err == nil {
			return p
		}
		if time.Now().After(deadline) {
			t.Fatal("the script did not begin")
		}
		time.Sleep(5 * time.Millisecond) //nolint:forbidigo // polling with a deadline
	}
}

func TestStop(t *testing.T) {
	const patient, impatient = time.Minute, 50 * time.Millisecond
	ended, end := context.WithCancel(context.Background())
	end()
	for sentence, test := range map[string]struct {
		script   string
		ctx      context.Context
		patience time.Duration
		err      string
	}{
		"a program that heeds SIGTERM is not killed": {
			script: `trap 'exit 0' TERM; touch up; while :; do sleep 0.05; done`, ctx: t.Context(), patience: patient,
		},
		"a program that does not is killed when patience runs out": {
			script: `trap '' TERM; touch up; while :; do sleep 0.05; done`, ctx: t.Context(), patience: impatient,
			err: "did not stop within 50ms",
		},
		"it is killed at once when the context ends": {
			script: `trap '' TERM; touch up; while :; do sleep 0.05; done`, ctx: ended, patience: patient,
			err: "was not given the time to stop",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			p := script(t, test.script)
			err := p.stop(test.ctx, test.patience)
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("error %v, want %q", err, test.err)
			}
			select {
			case <-p.done:
			default:
				t.Error("stop returned before the program was gone")
			}
			if err := p.stop(test.ctx, test.patience); err != nil {
				t.Errorf("stopping what is gone: %v", err)
			}
		})
	}
}

func TestDiedQuotesTheEndOfTheLog(t *testing.T) {
	p := script(t, `touch up; for i in $(seq 100); do echo "line $i."; done; exit 3`)
	<-p.done
	got := p.died().Error()
	for _, want := range []string{"script ended (exit status 3)", p.log, "\n  line 81.\n", "\n  line 100."} {
		if !strings.Contains(got, want) {
			t.Errorf("the error lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "line 80.") {
		t.Errorf("the error quotes more than %d lines:\n%s", tailLines, got)
	}
}

func TestFreePortsAreDifferentAndFree(t *testing.T) {
	ports, err := freePorts(20)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, port := range ports {
		if seen[port] {
			t.Errorf("port %d is given twice", port)
		}
		seen[port] = true
	}
}

// SPDX-License-Identifier: Apache-2.0

//go:build unix

package process

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

// shell starts a shell script, and gives the channels of its lines and of its failure.
func shell(t *testing.T, script string, patience time.Duration) (p *Process, line chan string, failed chan error) {
	t.Helper()
	line, failed = make(chan string, 128), make(chan error, 1)
	p, err := Start(Program{
		Name: "script", Path: "/bin/sh", Args: []string{"-c", script}, Log: filepath.Join(t.TempDir(), "log"),
		Line: func(text string) { line <- text }, Patience: patience,
	})
	expect.NoError(t, err)
	p.OnFailure(func(err error) { failed <- err })
	t.Cleanup(p.Kill)
	return p, line, failed
}

const (
	heeds   = `trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.05; done`
	ignores = `trap '' TERM; echo up; while :; do sleep 0.05; done`
)

func TestStop(t *testing.T) {
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	for sentence, test := range map[string]struct {
		script   string
		ctx      context.Context
		patience time.Duration
		err      string
	}{
		"a program that heeds SIGTERM is not killed": {heeds, t.Context(), time.Minute, ""},
		"a program that ignores SIGTERM is killed when its patience ends": {
			ignores, t.Context(), 50 * time.Millisecond, "did not stop within 50ms and was killed",
		},
		"a program that ignores SIGTERM is killed when the context ends": {
			ignores, canceled, time.Hour, "had no time to stop and was killed",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			p, line, failed := shell(t, test.script, test.patience)
			<-line
			err := p.Stop(test.ctx)
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("error %v, want %q", err, test.err)
			}
			if !p.Ended() {
				t.Error("Stop returned before the program was gone")
			}
			if err := p.Stop(test.ctx); err != nil {
				t.Errorf("stopping what is gone: %v", err)
			}
			select {
			case err := <-failed:
				t.Errorf("its end was reported as a failure: %v", err)
			default:
			}
		})
	}
}

func TestOutputGoesToLogOutputAndLine(t *testing.T) {
	var output Buffer
	var lines []string
	p, err := Start(Program{
		Name: "script", Path: "/bin/sh", Args: []string{"-c", `echo one; echo two >&2; printf three`},
		Log: filepath.Join(t.TempDir(), "log"), Output: &output, Line: func(line string) { lines = append(lines, line) },
	})
	expect.NoError(t, err)
	<-p.Done()
	const want = "one\ntwo\nthree"
	expect.Equal(t, want, tail(p.Log), "the log")
	expect.Equal(t, want, output.String(), "the output")
	expect.Equal(t, []string{"one", "two", "three"}, lines, "lines")
}

func TestFailureQuotesTheEndOfTheLog(t *testing.T) {
	p, _, failed := shell(t, `for i in $(seq 100); do echo "line $i."; done; exit 3`, time.Minute)
	got := (<-failed).Error()
	first := 100 - tailLines + 1
	for _, want := range []string{
		"script ended (exit status 3)", p.Log, fmt.Sprintf("\n  line %d.\n", first), "\n  line 100.",
	} {
		expect.Contains(t, got, want, "the error")
	}
	if strings.Contains(got, fmt.Sprintf("line %d.", first-1)) {
		t.Errorf("the error quotes more than %d lines:\n%s", tailLines, got)
	}
	expect.Equal(t, 3, p.ExitCode(), "the exit code")
}

func TestKillEndsTheGroup(t *testing.T) {
	p, line, _ := shell(t, `sleep 300 & echo $!; wait`, time.Minute)
	child := <-line
	p.Kill()
	awaitEnd(t, child)
}

// parentVariable has this test program start a child and print its id.
const parentVariable = "PROCESS_TEST_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(parentVariable) == "" {
		m.Run() // the test program exits with its code
		return
	}
	child, err := Start(Program{Name: "sleep", Path: "/bin/sleep", Args: []string{"300"}})
	if err != nil {
		panic(err)
	}
	fmt.Println(child.PID())
	select {}
}

// awaitEnd waits until a process is gone or is a zombie that nobody waits for.
func awaitEnd(t *testing.T, pid string) {
	t.Helper()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("process %s still runs", pid)
		}
	}
}

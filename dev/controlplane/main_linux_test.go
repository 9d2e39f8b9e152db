// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"cloudteam.ztgame.com/network-controller/dev/controlplane/internal/assets"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// envMain makes the test binary behave as the command itself, so that tests can run it as a process.
const envMain = "CONTROLPLANE_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(envMain) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// patience bounds every wait for something that is about to happen.
const patience = time.Minute

// command is a run of the command `up` that has printed where its kubeconfig is.
type command struct {
	*exec.Cmd
	temporary  string
	kubeconfig string
	stderr     *bytes.Buffer
	// lines are the next ones of standard output.
	lines *bufio.Scanner
}

// upCommandRunning starts `up` with a directory of its own for temporary files.
func upCommandRunning(t *testing.T, args ...string) *command {
	t.Helper()
	self, err := os.Executable()
	expect.NoError(t, err)
	c := &command{Cmd: exec.Command(self, append([]string{"up"}, args...)...), temporary: t.TempDir(), stderr: &bytes.Buffer{}}
	c.Env = append(os.Environ(), envMain+"=1", "TMPDIR="+c.temporary)
	c.Stderr = c.stderr
	stdout, err := c.StdoutPipe()
	expect.NoError(t, err)
	expect.NoError(t, c.Start())
	t.Cleanup(func() {
		if c.ProcessState == nil {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	})
	c.lines = bufio.NewScanner(stdout)
	if !c.lines.Scan() {
		_ = c.Wait()
		t.Fatalf("up printed nothing:\n%v", c.stderr)
	}
	path, ok := strings.CutPrefix(c.lines.Text(), "kubeconfig: ")
	if !ok {
		t.Fatalf("up printed %q", c.lines.Text())
	}
	c.kubeconfig = path
	return c
}

// processStat reads the state and the parent of a process; ok is false if there is none.
func processStat(pid int) (state string, parent int, ok bool) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", 0, false
	}
	// The name of the program, in parentheses, may hold anything; see proc(5).
	fields := strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
	parent, err = strconv.Atoi(fields[1])
	return fields[0], parent, err == nil
}

// children returns the processes that the command has started, by the name of their program.
func (c *command) children(t *testing.T) map[string]int {
	t.Helper()
	found := map[string]int{}
	entries, err := os.ReadDir("/proc")
	expect.NoError(t, err)
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if _, parent, ok := processStat(pid); !ok || parent != c.Process.Pid {
			continue
		}
		arguments, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil {
			continue
		}
		name, _, _ := strings.Cut(string(arguments), "\x00")
		found[filepath.Base(name)] = pid
	}
	return found
}

// awaitGone waits until none of the processes runs. One that has ended and that nobody has asked about runs no more.
func awaitGone(t *testing.T, pids map[string]int) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) { //nolint:forbidigo // polls until a deadline
		var left []string
		for name, pid := range pids {
			if state, _, ok := processStat(pid); ok && state != "Z" {
				left = append(left, name)
			}
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("left running: %q", left)
		}
	}
}

func names(pids map[string]int) []string {
	var list []string
	for name := range pids {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

func TestUpStopsCleanlyOnASignal(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			c := upCommandRunning(t)
			children := c.children(t)
			expect.Equal(t, []string{"etcd", "kube-apiserver"}, names(children), "children")
			if _, err := os.Stat(c.kubeconfig); err != nil {
				t.Error(err)
			}
			expect.NoError(t, c.Process.Signal(signal))
			if err := c.Wait(); err != nil {
				t.Errorf("%v:\n%s", err, c.stderr)
			}
			awaitGone(t, children)
			left, err := os.ReadDir(c.temporary)
			if err != nil || len(left) != 0 {
				t.Errorf("temporary files are left: %v, %v", left, err)
			}
		})
	}
}

func TestUpFailsWhenAComponentEnds(t *testing.T) {
	t.Parallel()
	// Without etcd, kube-apiserver does not stop before it is killed.
	c := upCommandRunning(t, "--stop-timeout=1s")
	children := c.children(t)
	expect.NoError(t, syscall.Kill(children["etcd"], syscall.SIGKILL))
	var exit *exec.ExitError
	if err := c.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("it ended with %v, want exit status 1", err)
	}
	awaitGone(t, children)
	if _, err := os.Stat(c.kubeconfig); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the kubeconfig is left: %v", err)
	}
	expect.Contains(t, c.stderr.String(), "etcd ended (signal: killed)", "the cause")
	logs, err := filepath.Glob(filepath.Join(c.temporary, "*", "logs", "etcd.log"))
	if err != nil || len(logs) != 1 || !strings.Contains(c.stderr.String(), logs[0]) {
		t.Errorf("logs %q, %v; want one, named in\n%s", logs, err, c.stderr)
	}
}

func TestComponentsDoNotOutliveTheCommand(t *testing.T) {
	t.Parallel()
	c := upCommandRunning(t)
	children := c.children(t)
	expect.Len(t, 2, children, "children")
	expect.NoError(t, c.Process.Kill())
	_ = c.Wait()
	awaitGone(t, children)
}

// slowGo puts a go command on the PATH of later commands that "builds" etcd and kube-apiserver at once. It builds
// kube-controller-manager when open is called, or fails if fail is called.
func slowGo(t *testing.T) (open, fail func()) {
	t.Helper()
	dir, err := assets.DefaultCacheDir()
	expect.NoError(t, err)
	binaries, err := assets.NewCache(dir, log.New(os.Stderr, "", 0)).Provide(t.Context(), assets.All())
	expect.NoError(t, err)
	bin := t.TempDir()
	gate := filepath.Join(bin, "gate")
	expect.NoError(t, syscall.Mkfifo(gate, 0o600))
	script := `#!/bin/sh
for argument; do case $argument in -o=*) out=${argument#-o=} ;; esac; done
[ "$out" ] || exit 0
case $out in */kube-controller-manager) read -r word <` + gate + `; [ "$word" = open ] || { echo no room >&2; exit 1; } ;; esac
ln -s "` + binaries + `/${out##*/}" "$out"
`
	expect.NoError(t, os.WriteFile(filepath.Join(bin, "go"), []byte(script), 0o755))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Setenv(assets.EnvAssets, "")
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	t.Setenv(assets.EnvReleases, "off")
	t.Setenv(assets.EnvCache, t.TempDir())
	say := func(word string) func() {
		return func() {
			if err := os.WriteFile(gate, []byte(word+"\n"), 0); err != nil {
				t.Error(err)
			}
		}
	}
	return say("open"), say("fail")
}

const managed = "--components=etcd,kube-apiserver,kube-controller-manager"

func TestAnEarlyStartServesWhileTheOthersAreBuilt(t *testing.T) {
	open, _ := slowGo(t)
	c := upCommandRunning(t, "--early", managed)
	if _, runs := c.children(t)["kube-controller-manager"]; runs {
		t.Error("kube-controller-manager runs before it is built")
	}
	open()
	if !c.lines.Scan() || c.lines.Text() != "complete" {
		t.Errorf("it prints %q, want complete", c.lines.Text())
	}
	if _, runs := c.children(t)["kube-controller-manager"]; !runs {
		t.Error("it is complete without kube-controller-manager")
	}
	expect.NoError(t, c.Process.Signal(syscall.SIGTERM))
	if err := c.Wait(); err != nil {
		t.Errorf("%v:\n%s", err, c.stderr)
	}
}

func TestAnEarlyStartEndsWithTheErrorOfAFailedBuild(t *testing.T) {
	_, fail := slowGo(t)
	c := upCommandRunning(t, "--early", managed)
	children := c.children(t)
	fail()
	var exit *exec.ExitError
	if err := c.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("it ended with %v, want exit status 1", err)
	}
	if got := c.stderr.String(); !strings.Contains(got, "build kube-controller-manager ") || !strings.Contains(got, "no room") {
		t.Errorf("the cause is not told:\n%s", got)
	}
	awaitGone(t, children)
}

func TestUpTellsOfAPathWithoutCRDsAtOnce(t *testing.T) {
	cmd := newCommand()
	// Nothing could be built into this cache.
	cmd.SetArgs([]string{"up", "--cache=/dev/null", "--crds=" + t.TempDir()})
	err := cmd.ExecuteContext(t.Context())
	expect.ErrorSays(t, err, "holds no CustomResourceDefinition")
}

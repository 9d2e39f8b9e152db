package e2e

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a network-controller that a test has started.
type process struct {
	cmd    *exec.Cmd
	output lockedBuffer
	done   chan struct{}
	err    error
}

// start runs the binary with the given arguments, and stops it when the test ends. Its environment is the test's, less
// what would name another cloud or cluster.
func start(t *testing.T, environment []string, arguments ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(binary, append(electing(), arguments...)...), done: make(chan struct{})}
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "OS_") && !strings.HasPrefix(variable, "KUBECONFIG=") {
			p.cmd.Env = append(p.cmd.Env, variable)
		}
	}
	p.cmd.Env = append(p.cmd.Env, environment...)
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("starting network-controller: %v", err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.signal(syscall.SIGKILL)
		<-p.done
		forgetLeader(t)
		if t.Failed() {
			t.Logf("network-controller %s printed:\n%s", strings.Join(arguments, " "), p.output.String())
		}
	})
	return p
}

// startController runs the binary against the API server and a cloud of cloudsFile, looking for drift every second.
func startController(t *testing.T, cloud string, more ...string) *process {
	t.Helper()
	arguments := append([]string{
		"--kubeconfig", kubeconfig, "--cloud", cloud, "--bind-address", "127.0.0.1:0", "--audit-interval", "1s", "-v", "2",
	}, more...)
	return start(t, []string{"OS_CLIENT_CONFIG_FILE=" + cloudsFile}, arguments...)
}

// signal sends a signal to a process that may have ended already.
func (p *process) signal(s syscall.Signal) {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		panic(err)
	}
}

// awaitExit waits until the process has ended and returns its exit code.
func (p *process) awaitExit(t *testing.T) int {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	select {
	case <-p.done:
	case <-deadline.C:
		t.Fatalf("it still runs after %s", patience)
	}
	return p.cmd.ProcessState.ExitCode()
}

// kill ends the process as kill -9 does.
func (p *process) kill(t *testing.T) {
	t.Helper()
	p.signal(syscall.SIGKILL)
	p.awaitExit(t)
}

// lockedBuffer is a buffer that a process writes and a test reads at the same time.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

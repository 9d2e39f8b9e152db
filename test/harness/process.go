package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Process is a network-controller that a test has started. Its methods are safe for concurrent use.
type Process struct {
	// Output is what it has printed.
	Output Buffer

	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// Start runs the binary with the given arguments, and kills it when the test ends. Its environment is the test's, less
// what would name another cloud or cluster.
func (s *Surroundings) Start(t testing.TB, environment []string, arguments ...string) *Process {
	t.Helper()
	p, err := s.Launch(environment, arguments...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Signal(syscall.SIGKILL)
		<-p.done
		if t.Failed() {
			// What was waited for is said once more: the log is long, and a reader begins at its end.
			t.Logf("network-controller %s printed:\n%s%s",
				strings.Join(arguments, " "), p.Output.String(), s.waits.of(t.Name()))
		}
	})
	return p
}

// Launch is Start where there is no test: who calls it MUST see to the process's end.
func (s *Surroundings) Launch(environment []string, arguments ...string) (*Process, error) {
	p := &Process{cmd: exec.Command(s.Binary, arguments...), done: make(chan struct{})}
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "OS_") && !strings.HasPrefix(variable, "KUBECONFIG=") {
			p.cmd.Env = append(p.cmd.Env, variable)
		}
	}
	p.cmd.Env = append(p.cmd.Env, environment...)
	p.cmd.Stdout, p.cmd.Stderr = &p.Output, &p.Output
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting network-controller: %w", err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// PID is the process's id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Address is where the process serves --bind-address, which it prints; empty before it does.
func (p *Process) Address() string {
	_, after, _ := strings.Cut(p.Output.String(), `"Serving /livez, /readyz and /metrics" address="`)
	address, _, _ := strings.Cut(after, `"`)
	return address
}

// Get asks the process for a path of --bind-address, as "/readyz".
func (p *Process) Get(ctx context.Context, path string) (status int, body string, err error) {
	address := p.Address()
	if address == "" {
		return 0, "", errors.New("it does not say where it serves")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return 0, "", err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(content), err
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Signal sends a signal to a process that may have ended already.
func (p *Process) Signal(s syscall.Signal) {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		panic(err)
	}
}

// AwaitExit waits until the process has ended and returns its exit code.
func (p *Process) AwaitExit(t testing.TB) int {
	t.Helper()
	deadline := time.NewTimer(Patience)
	defer deadline.Stop()
	select {
	case <-p.done:
	case <-deadline.C:
		t.Fatalf("it still runs after %s", Patience)
	}
	return p.cmd.ProcessState.ExitCode()
}

// Kill ends the process as kill -9 does.
func (p *Process) Kill(t testing.TB) {
	t.Helper()
	p.Signal(syscall.SIGKILL)
	p.AwaitExit(t)
}

// Buffer is a buffer that a process writes and a test reads at the same time.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write appends; it never fails.
func (l *Buffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// String is all that was written so far.
func (l *Buffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

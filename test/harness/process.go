package harness

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"cloudteam.ztgame.com/network-controller/dev/process"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// Process is a network-controller that a test has started. Its methods are safe for concurrent use.
type Process struct {
	*process.Process
	// Output is what it has printed.
	Output process.Buffer
}

// Start runs the binary with the given arguments, and kills it when the test ends. Its environment is the test's, less
// what would name another cloud or cluster.
func (s *Surroundings) Start(t testing.TB, environment []string, arguments ...string) *Process {
	t.Helper()
	p, err := s.Launch(environment, arguments...)
	expect.NoError(t, err)
	t.Cleanup(func() {
		p.Process.Kill()
		if t.Failed() {
			// The failure is repeated: the log is long, and a reader begins at its end.
			t.Logf("network-controller %s printed:\n%s%s",
				strings.Join(arguments, " "), p.Output.String(), s.waits.of(t.Name()))
		}
	})
	return p
}

// Launch is Start where there is no test: its caller MUST see to the process's end.
func (s *Surroundings) Launch(environment []string, arguments ...string) (*Process, error) {
	p := &Process{}
	program := process.Program{
		Name: "network-controller", Path: s.Binary, Args: withControllers(arguments), Env: []string{}, Output: &p.Output,
	}
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "OS_") && !strings.HasPrefix(variable, "KUBECONFIG=") {
			program.Env = append(program.Env, variable)
		}
	}
	program.Env = append(program.Env, environment...)
	var err error
	p.Process, err = process.Start(program)
	return p, err
}

// withControllers adds the flag --controllers as config/manager has it, where the arguments have none.
func withControllers(arguments []string) []string {
	if !slices.ContainsFunc(arguments, func(a string) bool { return strings.HasPrefix(a, "--controllers") }) {
		arguments = append(arguments, "--controllers=*,-foo")
	}
	return arguments
}

// Address is where the process serves --bind-address, which it prints; empty before it does.
func (p *Process) Address() string { return p.serves("/livez, /readyz and /metrics") }

func (p *Process) serves(what string) string {
	_, after, _ := strings.Cut(p.Output.String(), `"Serving `+what+`" address="`)
	address, _, _ := strings.Cut(after, `"`)
	return address
}

// Get asks the process for a path of --bind-address, as "/readyz".
func (p *Process) Get(ctx context.Context, path string) (status int, body string, err error) {
	address := p.Address()
	if address == "" {
		return 0, "", errors.New("it does not say where it serves")
	}
	return get(ctx, http.DefaultClient, "http://"+address+path, "")
}

// GetMetrics asks the process for what --metrics-bind-address serves, with a token unless that is empty.
func (p *Process) GetMetrics(ctx context.Context, token string) (status int, body string, err error) {
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // self-signed
	}}
	defer client.CloseIdleConnections()
	return get(ctx, client, "https://"+p.serves("metrics to callers that RBAC allows")+"/metrics", token)
}

func get(ctx context.Context, client *http.Client, url, token string) (status int, body string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(content), err
}

// AwaitExit waits until the process has ended and returns its exit code.
func (p *Process) AwaitExit(t testing.TB) int {
	t.Helper()
	deadline := time.NewTimer(Patience)
	defer deadline.Stop()
	select {
	case <-p.Done():
	case <-deadline.C:
		t.Fatalf("it still runs after %s", Patience)
	}
	return p.ExitCode()
}

// Kill ends the process as kill -9 does.
func (p *Process) Kill(t testing.TB) {
	t.Helper()
	p.Signal(syscall.SIGKILL)
	p.AwaitExit(t)
}

// Log is what it has printed.
func (p *Process) Log() string { return p.Output.String() }

package simulation

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"cloudteam.ztgame.com/network-controller/dev/process"
	"cloudteam.ztgame.com/network-controller/internal/app"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
)

// Process is a network-controller as goroutines, with connections and its own memory. Its methods are safe for
// concurrent use.
type Process struct {
	// Output is what it has logged.
	Output process.Buffer

	stop context.CancelFunc
	done chan struct{}
	err  error

	mu     sync.Mutex
	killed bool
	conns  map[net.Conn]bool
}

// StartProcess runs the controller with the flags of its command line and a clouds.yaml, until it is signaled. It logs
// as with -v=2.
func StartProcess(clouds string, arguments ...string) (*Process, error) {
	options, flags := app.NewOptions(), pflag.NewFlagSet("network-controller", pflag.ContinueOnError)
	options.AddFlags(flags)
	if err := errors.Join(flags.Parse(arguments), options.Validate()); err != nil {
		return nil, err
	}
	p := &Process{done: make(chan struct{}), conns: map[net.Conn]bool{}}
	options.Dial = p.dial
	options.Credentials = func(name string) (client.Credentials, error) {
		return client.LoadCredentialsFrom(clouds, name)
	}
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&p.Output), textlogger.Verbosity(2)))
	ctx, stop := context.WithCancel(klog.NewContext(context.Background(), logger))
	p.stop = stop
	go func() {
		defer close(p.done)
		p.err = app.Run(ctx, options)
		p.hangUp()
	}()
	return p, nil
}

// dial opens a connection that ends with the process.
func (p *Process) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.killed {
		conn.Close()
		return nil, errors.New("the process was killed")
	}
	p.conns[conn] = true
	return &processConn{conn, p}, nil
}

type processConn struct {
	net.Conn
	p *Process
}

// Close implements net.Conn.
func (c *processConn) Close() error {
	c.p.mu.Lock()
	delete(c.p.conns, c.Conn)
	c.p.mu.Unlock()
	return c.Conn.Close()
}

// hangUp ends all connections, for good.
func (p *Process) hangUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killed = true
	for conn := range p.conns {
		conn.Close()
	}
}

// Signal ends the process. SIGKILL has nothing of it be heard any more: its goroutines end without a connection. Any
// other signal lets it end its work.
func (p *Process) Signal(s syscall.Signal) {
	if s == syscall.SIGKILL {
		p.hangUp()
	}
	p.stop()
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// ExitCode is that of a process that has ended.
func (p *Process) ExitCode() int {
	if p.err != nil {
		return 1
	}
	return 0
}

// AwaitExit waits until the process has ended and returns its exit code.
func (p *Process) AwaitExit(t testing.TB) int {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(10 * time.Minute):
		t.Fatal("it still runs after ten minutes")
	}
	return p.ExitCode()
}

// Kill ends the process as kill -9 does.
func (p *Process) Kill(t testing.TB) {
	t.Helper()
	p.Signal(syscall.SIGKILL)
	p.AwaitExit(t)
}

// Log is what it has logged.
func (p *Process) Log() string { return p.Output.String() }

// Get would ask the process for a path of --bind-address, which it does not serve.
func (*Process) Get(_ context.Context, path string) (status int, body string, err error) {
	return 0, "", fmt.Errorf("a process in virtual time does not serve %s", path)
}

// Package simulation is what the controller runs on, without processes and sockets: a network of pipes, an API server
// with the controllers around it, and the controller itself as goroutines. All of it runs in a bubble of
// testing/synctest, where time passes as fast as the machine works.
//
// What is served here is the part of a Kubernetes API that the controller and its tests use. The suites that start the
// real kube-apiserver hold it to the truth. Only tests import this package.
package simulation

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

// network are the listeners of all bubbles, by address. Names in it end with ".virtual:80".
var network = struct {
	sync.Mutex
	listeners map[string]*listener
}{listeners: map[string]*listener{}}

// Install has http.DefaultTransport, with which all clients of a test process begin, reach what Listen serves, and
// nothing else. It keeps no connection, because one bubble must not use another's. TestMain calls it.
func Install() {
	// It does not show that it could close idle connections, which would end the dialing of other bubbles.
	http.DefaultTransport = struct{ http.RoundTripper }{&http.Transport{DialContext: dial, DisableKeepAlives: true}}
	// The handlers of Kubernetes' libraries pause by a clock that all bubbles would share.
	utilruntime.ErrorHandlers = nil
	klog.SetOutput(io.Discard)
	klog.LogToStderr(false)
}

func dial(ctx context.Context, _, address string) (net.Conn, error) {
	network.Lock()
	l := network.listeners[address]
	network.Unlock()
	if l == nil {
		return nil, &net.OpError{Op: "dial", Net: "virtual", Err: fmt.Errorf("nobody listens at %s", address)}
	}
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "dial", Net: "virtual", Err: net.ErrClosed}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// listener is a net.Listener.
type listener struct {
	address string
	conns   chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

// Listen listens at a host, whose name is unique in the process, until Close.
func Listen(host string) net.Listener {
	l := &listener{address: host + ".virtual:80", conns: make(chan net.Conn), closed: make(chan struct{})}
	network.Lock()
	defer network.Unlock()
	if network.listeners[l.address] != nil {
		panic("somebody listens at " + l.address)
	}
	network.listeners[l.address] = l
	return l
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.once.Do(func() {
		network.Lock()
		delete(network.listeners, l.address)
		network.Unlock()
		close(l.closed)
	})
	return nil
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return address(l.address) }

type address string

func (address) Network() string  { return "virtual" }
func (a address) String() string { return string(a) }

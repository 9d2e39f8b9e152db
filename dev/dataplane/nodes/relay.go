// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodes

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Relay serves an address of the node, "127.0.0.1:6443", by one of this process's network namespace. It ends with the
// node.
func (n *Node) Relay(address, by string) error {
	var listener net.Listener
	var err error
	n.on(func() { listener, err = net.Listen("tcp", address) })
	if err != nil {
		return fmt.Errorf("relaying %s on %s: %w", address, n.Name, err)
	}
	n.listeners = append(n.listeners, listener)
	go func() {
		for {
			inside, err := listener.Accept()
			if err != nil {
				return // closed
			}
			go relay(inside, by)
		}
	}()
	return nil
}

// Proxy serves HTTP's CONNECT at a Unix socket, as an API server with an EgressSelectorConfiguration asks for it. A
// connection with a node, by name or address, or with the address of a Pod's first interface, begins on that node. So
// the API server reaches kubelets, for logs and exec, and Pods. It ends with the nodes.
func (n *Nodes) Proxy(socket string) error {
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return fmt.Errorf("a proxy for the API server: %w", err)
	}
	n.proxy = &http.Server{Handler: http.HandlerFunc(n.connect), ReadHeaderTimeout: time.Minute}
	go func() { _ = n.proxy.Serve(listener) }()
	return nil
}

// connect answers one CONNECT, and returns when either side has ended the connection.
func (n *Nodes) connect(w http.ResponseWriter, r *http.Request) {
	host, port, _ := net.SplitHostPort(r.Host)
	at := slices.IndexFunc(n.All, func(node *Node) bool {
		return host == node.Name || host == node.Address || strings.HasPrefix(host, node.podPrefix())
	})
	if r.Method != http.MethodConnect || at < 0 {
		http.Error(w, "there is no node and no Pod at "+r.Host, http.StatusBadGateway)
		return
	}
	if host == n.All[at].Name {
		host = n.All[at].Address
	}
	var outside net.Conn
	var err error
	n.All[at].on(func() { outside, err = net.DialTimeout("tcp", net.JoinHostPort(host, port), 10*time.Second) })
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer outside.Close()
	inside, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return // it is gone
	}
	defer inside.Close()
	if _, err := io.WriteString(inside, "HTTP/1.1 200 OK\r\n\r\n"); err == nil {
		join(inside, outside)
	}
}

// relay connects a connection with an address until either side ends it.
func relay(inside net.Conn, address string) {
	defer inside.Close()
	outside, err := net.Dial("tcp", address)
	if err != nil {
		return // the other side sees the end
	}
	defer outside.Close()
	join(inside, outside)
}

// join passes on what either side of two connections sends, until both have ended.
func join(inside, outside net.Conn) {
	var both sync.WaitGroup
	pump := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		_ = to.(interface{ CloseWrite() error }).CloseWrite()
	}
	both.Go(func() { pump(outside, inside) })
	both.Go(func() { pump(inside, outside) })
	both.Wait()
}

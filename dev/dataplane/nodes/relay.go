// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodes

import (
	"fmt"
	"io"
	"net"
	"sync"
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

// relay connects a connection with an address until either side ends it.
func relay(inside net.Conn, address string) {
	defer inside.Close()
	outside, err := net.Dial("tcp", address)
	if err != nil {
		return // the other side sees the end
	}
	defer outside.Close()
	var both sync.WaitGroup
	pump := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		_ = to.(*net.TCPConn).CloseWrite()
	}
	both.Go(func() { pump(outside, inside) })
	both.Go(func() { pump(inside, outside) })
	both.Wait()
}

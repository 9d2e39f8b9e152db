// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"net"
	"strconv"
)

// freePorts returns n different TCP ports of the loopback address that nobody listens on. All are held open until the
// last is found, so they are different. Another process can take one before it is used: callers have to try again then.
func freePorts(n int) (ports []int, err error) {
	var listeners []net.Listener
	defer func() {
		for _, listener := range listeners {
			err = errors.Join(err, listener.Close())
		}
		if err != nil {
			err = fmt.Errorf("find a free port: %w", err)
		}
	}()
	for range n {
		listener, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
		if err != nil {
			return nil, err
		}
		listeners = append(listeners, listener)
		ports = append(ports, listener.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// taken tells whether somebody listens on one of the ports. Asked after a program has ended that was to listen on them,
// it says why the program ended, whatever its log says.
func taken(ports []int) bool {
	for _, port := range ports {
		listener, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
		if err != nil {
			return true
		}
		_ = listener.Close()
	}
	return false
}

package serving

import (
	"net"
	"net/netip"
	"sync"
)

const (
	// maxConnections limits the open connections of one server. Each costs some 10 kB.
	maxConnections = 1024
	// maxConnectionsPerHost leaves connections to others, such as the kubelet's probes. On loopback it does not hold:
	// there, the probes come from the same host as all else.
	maxConnectionsPerHost = 16
)

// limitedListener closes connections at once that are more than the limits allow, also from one host.
type limitedListener struct {
	net.Listener
	most, mostPerHost int

	mu   sync.Mutex
	all  int
	from map[netip.Addr]int
}

// Limit makes a listener that holds few connections.
func Limit(listener net.Listener) net.Listener {
	l := &limitedListener{
		Listener: listener, most: maxConnections, mostPerHost: maxConnectionsPerHost, from: map[netip.Addr]int{},
	}
	if at, err := netip.ParseAddrPort(listener.Addr().String()); err == nil && at.Addr().IsLoopback() {
		l.mostPerHost = l.most
	}
	return l
}

// Accept implements net.Listener.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		var host netip.Addr
		if address, err := netip.ParseAddrPort(conn.RemoteAddr().String()); err == nil {
			host = address.Addr().Unmap().WithZone("")
		}
		if l.admit(host) {
			return &limitedConn{Conn: conn, release: sync.OnceFunc(func() { l.release(host) })}, nil
		}
		conn.Close()
	}
}

func (l *limitedListener) admit(host netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all >= l.most || l.from[host] >= l.mostPerHost {
		return false
	}
	l.all++
	l.from[host]++
	return true
}

func (l *limitedListener) release(host netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if l.from[host]--; l.from[host] == 0 {
		delete(l.from, host)
	}
}

// limitedConn frees its place when it is closed.
type limitedConn struct {
	net.Conn
	release func()
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}

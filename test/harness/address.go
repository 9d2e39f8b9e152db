package harness

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// Ports of FreeAddress lie below those that a kernel gives to outgoing connections: Linux begins at 32768, others
// later. A process that a test starts again finds its port as it left it, however many connections others have opened.
const (
	firstPort  = 20000
	portsAfter = 32768
)

// FreeAddress is an address on loopback at which nobody listens.
func FreeAddress(t testing.TB) string {
	t.Helper()
	var err error
	for range 100 {
		var listener net.Listener
		port := firstPort + rand.IntN(portsAfter-firstPort) //nolint:gosec // no secret
		listener, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			defer listener.Close()
			return listener.Addr().String()
		}
	}
	t.Fatal(err)
	return ""
}

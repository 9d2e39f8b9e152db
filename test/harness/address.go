package harness

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
)

// Ports of FreeAddress lie below those that a kernel gives to outgoing connections: Linux begins at 32768, others
// later. A process that a test starts again finds its port as it left it, however many connections others have opened.
const (
	firstPort  = 20000
	portsAfter = 32768
)

// given are the ports of the addresses that this process was given.
var given sync.Map

// FreeAddress is an address on loopback at which nobody listens. No two of one process are the same.
func FreeAddress(t testing.TB) string {
	t.Helper()
	var err error
	for range 100 {
		var listener net.Listener
		port := firstPort + rand.IntN(portsAfter-firstPort) //nolint:gosec // no secret
		if _, again := given.LoadOrStore(port, true); again {
			err = fmt.Errorf("port %d is given already", port)
			continue
		}
		listener, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			defer listener.Close()
			return listener.Addr().String()
		}
	}
	t.Fatal(err)
	return ""
}

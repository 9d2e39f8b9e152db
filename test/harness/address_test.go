package harness

import (
	"fmt"
	"net"
	"os"
	"testing"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

// TestFreeAddressIsNotOneOfAConnection holds that the kernel gives no outgoing connection the port of a free address,
// between two processes that listen there one after the other.
func TestFreeAddressIsNotOneOfAConnection(t *testing.T) {
	content, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		t.Skip(err) // not Linux
	}
	var first, last int
	if _, err := fmt.Sscan(string(content), &first, &last); err != nil {
		t.Fatal(err)
	}
	if first < portsAfter {
		t.Skipf("this kernel is set to give connections the ports from %d", first)
	}
	for range 20 {
		address, err := net.ResolveTCPAddr("tcp", FreeAddress(t))
		expect.NoError(t, err)
		if first <= address.Port && address.Port <= last {
			t.Fatalf("%s: connections get the ports %d to %d", address, first, last)
		}
	}
}

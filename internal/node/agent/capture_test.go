package agent

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/containernetworking/plugins/pkg/ns"

	"cloudteam.ztgame.com/network-controller/internal/node/nodetest"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// captures runs the command in a network namespace, as in a container of a Pod.
func captures(t *testing.T, netns nodetest.Netns, in io.Reader, out, says io.Writer, args ...string) error {
	t.Helper()
	command := NewCommand()
	command.SetArgs(append([]string{"capture"}, args...))
	command.SetIn(in)
	command.SetOut(out)
	command.SetErr(says)
	if netns == "" {
		return command.ExecuteContext(t.Context())
	}
	return ns.WithNetNSPath(netns.Path(), func(ns.NetNS) error { return command.ExecuteContext(t.Context()) })
}

// TestAPortIsCaptured captures at an interface whose name nobody says, in both directions, until standard input ends.
func TestAPortIsCaptured(t *testing.T) {
	left, right := nodetest.NewNetns(t, "left"), nodetest.NewNetns(t, "right")
	const mac = "fa:16:3e:00:00:01"
	for _, line := range []string{
		"link add net1 address " + mac + " type veth peer name eth0 netns " + string(right), "addr add 10.1.0.1/24 dev net1",
		"link set net1 up",
	} {
		_, err := left.Run("ip", strings.Fields(line)...)
		expect.NoError(t, err)
	}
	for _, line := range []string{"addr add 10.1.0.2/24 dev eth0", "link set eth0 up"} {
		_, err := right.Run("ip", strings.Fields(line)...)
		expect.NoError(t, err)
	}
	in, ends := io.Pipe()
	pcap, out := io.Pipe()
	var says bytes.Buffer
	done := make(chan error, 1)
	go func() {
		err := captures(t, left, in, out, &says, "--mac="+mac, "--duration=1m", "--snaplen=200")
		done <- err
		_ = out.CloseWithError(err)
	}()
	whole := make([]byte, 24)
	_, err := io.ReadFull(pcap, whole) // from now on, nothing is missed
	expect.NoError(t, err)
	const question, answer = "what the right one asks", "what the left one answers"
	said := func(netns nodetest.Netns, from, to, text string) {
		expect.NoError(t, ns.WithNetNSPath(netns.Path(), func(ns.NetNS) error {
			dialer := net.Dialer{LocalAddr: net.UDPAddrFromAddrPort(netip.MustParseAddrPort(from))}
			conn, err := dialer.DialContext(t.Context(), "udp", to)
			if err == nil {
				_, err = conn.Write([]byte(text))
				_ = conn.Close()
			}
			return err
		}))
	}
	said(right, "10.1.0.2:5000", "10.1.0.1:5000", question)
	said(left, "10.1.0.1:5000", "10.1.0.2:5000", answer)
	buffer := make([]byte, 4096)
	for !bytes.Contains(whole, []byte(question)) || !bytes.Contains(whole, []byte(answer)) {
		n, err := pcap.Read(buffer)
		expect.NoError(t, err)
		whole = append(whole, buffer[:n]...)
	}
	_ = ends.Close()
	rest, err := io.ReadAll(pcap)
	expect.NoError(t, err)
	expect.NoError(t, <-done)
	nodetest.Frames(t, append(whole, rest...))
	if !strings.HasSuffix(says.String(), " 0 packets lost.\n") {
		t.Errorf("it says %q", says.String())
	}
	err = captures(t, left, strings.NewReader(""), io.Discard, io.Discard, "--mac=fa:16:3e:00:00:02")
	expect.ErrorSays(t, err, "no interface has the port's hardware address fa:16:3e:00:00:02")
}

func TestACaptureNeedsAMACAndLimits(t *testing.T) {
	expect.ErrorSays(t, captures(t, "", nil, nil, nil, "--bytes=1"), "--bytes 1: write 1024 to")
	expect.ErrorSays(t, captures(t, "", nil, nil, nil, "--mac=net1"), "--mac: address net1: invalid MAC address")
}

// TestACaptureHoldsItsContainer ends at once when it is asked to, as when the Pod ends.
func TestACaptureHoldsItsContainer(t *testing.T) {
	command := newCaptureCommand()
	command.SetArgs([]string{"--hold=10m"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	expect.NoError(t, command.ExecuteContext(ctx))
	command.SetArgs([]string{"--hold=1ns"})
	expect.NoError(t, command.ExecuteContext(t.Context()))
}

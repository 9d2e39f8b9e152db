package capture

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Socket reads the packets of an interface, in both directions. It is a Source.
type Socket struct{ fd int }

// Open opens the interface that has a hardware address, in the process's network namespace. The process needs the
// capability NET_RAW.
func Open(mac string) (*Socket, error) {
	wanted, err := net.ParseMAC(mac)
	if err != nil {
		return nil, fmt.Errorf("--mac: %w", err)
	}
	devices, err := net.Interfaces()
	at := slices.IndexFunc(devices, func(d net.Interface) bool { return bytes.Equal(d.HardwareAddr, wanted) })
	if err != nil || at < 0 {
		return nil, errors.Join(err, fmt.Errorf("no interface has the port's hardware address %s: it is not attached, or a "+
			"program in the Pod has changed it. See kubectl network why pod/NAME", mac))
	}
	// Of no protocol, it gets nothing until it is bound: no packets of other interfaces.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening a packet socket: %w. It needs the capability NET_RAW, which not every container "+
			"runtime gives by default. A container may ask for it only where the Pod Security Standard is privileged", err)
	}
	// The kernel takes the protocol in network byte order.
	const all = unix.ETH_P_ALL<<8&0xff00 | unix.ETH_P_ALL>>8
	moment := unix.NsecToTimeval((100 * time.Millisecond).Nanoseconds())
	err = errors.Join(
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &moment),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1),
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: devices[at].Index}))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening %s: %w", devices[at].Name, err), unix.Close(fd))
	}
	return &Socket{fd}, nil
}

// Next reads a packet; see Source.
func (s *Socket) Next(beginning []byte) (n, length int, at time.Time, err error) {
	var control [64]byte
	length, size, _, _, err := unix.Recvmsg(s.fd, beginning, control[:], unix.MSG_TRUNC)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
		err = os.ErrDeadlineExceeded
	}
	if err != nil {
		return 0, 0, at, err
	}
	at = time.Now()
	messages, err := unix.ParseSocketControlMessage(control[:size])
	for _, m := range messages {
		var when [2]int64 // seconds and nanoseconds
		_, short := binary.Decode(m.Data, binary.NativeEndian, &when)
		if m.Header.Type == unix.SO_TIMESTAMPNS && short == nil {
			at = time.Unix(when[0], when[1])
		}
	}
	return min(length, len(beginning)), length, at, err
}

// Lost is how many packets the kernel had no room for; see Source.
func (s *Socket) Lost() uint32 {
	stats, err := unix.GetsockoptTpacketStats(s.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		return 0
	}
	return stats.Drops
}

// Close closes the socket.
func (s *Socket) Close() error { return unix.Close(s.fd) }

//go:build linux

package dataplane

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"path/filepath"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"golang.org/x/sys/unix"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

// wire is an interface of a Pod, for frames of any content. A container with the capability NET_RAW, which container
// runtimes give by default, can send and read the same.
type wire struct {
	w  *world
	fd int
}

// wire opens an interface of a Pod.
func (w *world) wire(g *guest, ifName string) *wire {
	w.Helper()
	x := &wire{w: w, fd: -1}
	err := ns.WithNetNSPath(filepath.Join(g.node.Proc(), g.pid, "ns", "net"), func(ns.NetNS) error {
		device, err := net.InterfaceByName(ifName)
		if err != nil {
			return err
		}
		const all = unix.ETH_P_ALL<<8&0xff00 | unix.ETH_P_ALL>>8
		if x.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, all); err != nil {
			return err
		}
		return errors.Join(unix.Bind(x.fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: device.Index}),
			unix.SetsockoptTimeval(x.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100_000}))
	})
	expect.NoError(w, err)
	w.Cleanup(func() { _ = unix.Close(x.fd) })
	return x
}

// send puts frames on the wire.
func (x *wire) send(frames ...[]byte) {
	x.w.Helper()
	for _, frame := range frames {
		if _, err := unix.Write(x.fd, frame); err != nil {
			x.w.Fatal(err)
		}
	}
}

// next returns the frames that came since the last call, and those of the next tenth of a second at most.
func (x *wire) next() [][]byte {
	var frames [][]byte
	for end := time.Now().Add(100 * time.Millisecond); time.Now().Before(end); {
		buffer := make([]byte, 9000)
		n, err := unix.Read(x.fd, buffer)
		if err != nil {
			break
		}
		frames = append(frames, buffer[:n])
	}
	return frames
}

const (
	etherIPv4, etherARP, etherVLAN, etherIPv6 = 0x0800, 0x0806, 0x8100, 0x86dd
	protocolUDP, protocolICMPv6               = 17, 58
	routerAdvertisement, neighborAdvertised   = 134, 136
)

var broadcast = net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// ethernet is a frame.
func ethernet(to, from net.HardwareAddr, kind uint16, content ...[]byte) []byte {
	return bytes.Join([][]byte{to, from, word(kind), bytes.Join(content, nil)}, nil)
}

func word(value uint16) []byte { return binary.BigEndian.AppendUint16(nil, value) }

// arpReply says that an address is at a hardware address, to all.
func arpReply(mac net.HardwareAddr, address netip.Addr) []byte {
	return ethernet(broadcast, mac, etherARP, word(1), word(etherIPv4), []byte{6, 4}, word(2), mac, address.AsSlice(),
		broadcast, address.AsSlice())
}

// datagram is a UDP datagram of either family in a frame.
func datagram(to, from net.HardwareAddr, target, source netip.AddrPort, text []byte) []byte {
	content := bytes.Join([][]byte{
		word(source.Port()), word(target.Port()), word(uint16(8 + len(text))), {0, 0}, text,
	}, nil)
	return packet(to, from, target.Addr(), source.Addr(), protocolUDP, content, 6)
}

// packet is a packet of either family in a frame. Its checksum belongs at a place in the content.
func packet(to, from net.HardwareAddr, target, source netip.Addr, protocol byte, content []byte, at int) []byte {
	size := word(uint16(len(content)))
	pseudo := bytes.Join([][]byte{source.AsSlice(), target.AsSlice(), {0, protocol}, size, content}, nil)
	copy(content[at:], checksum(pseudo))
	if target.Is4() {
		header := bytes.Join([][]byte{
			{0x45, 0}, word(uint16(20 + len(content))), {0, 0, 0, 0, 64, protocol, 0, 0}, source.AsSlice(), target.AsSlice(),
		}, nil)
		copy(header[10:], checksum(header))
		return ethernet(to, from, etherIPv4, header, content)
	}
	header := bytes.Join([][]byte{{0x60, 0, 0, 0}, size, {protocol, 255}, source.AsSlice(), target.AsSlice()}, nil)
	return ethernet(to, from, etherIPv6, header, content)
}

// checksum is that of the Internet protocols (RFC 1071).
func checksum(content []byte) []byte {
	var sum uint32
	for i, b := range content {
		sum += uint32(b) << (8 * (1 - i%2))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return word(^uint16(sum))
}

// saysARP reports whether a frame has an address at a hardware address, by ARP.
func saysARP(frame []byte, mac net.HardwareAddr, address netip.Addr) bool {
	return len(frame) >= 42 && binary.BigEndian.Uint16(frame[12:]) == etherARP &&
		bytes.Equal(frame[22:28], mac) && bytes.Equal(frame[28:32], address.AsSlice())
}

// advertises reports whether a frame has a neighbor advertisement of an address.
func advertises(frame []byte, address netip.Addr) bool {
	return len(frame) >= 78 && binary.BigEndian.Uint16(frame[12:]) == etherIPv6 && frame[20] == protocolICMPv6 &&
		frame[54] == neighborAdvertised && bytes.Equal(frame[62:78], address.AsSlice())
}

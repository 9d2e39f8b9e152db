//go:build linux

package dataplane

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"net/netip"
	"path/filepath"
	"slices"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"cloudteam.ztgame.com/network-controller/test/cyclonus"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// question is what one Pod of a sweep asks another one, both by their places.
type question struct {
	from, to int
	cyclonus.Packet
}

// What becomes of a question. SCTP has no answers.
const (
	lost     = "does not arrive"
	arrived  = "arrives"
	answered = "is answered"
)

// sweeper has each of some Pods ask each other one, all at once. Nine Pods ask 864 things in a sweep, for which
// programs in their containers would take minutes. So it opens sockets in the Pods' network namespaces.
type sweeper struct {
	w      *world
	guests []*guest
	// sockets are by their descriptors.
	sockets map[int]*socket
	// number is that of the sweep, and of its packets: those of another sweep count for nothing.
	number    uint32
	questions []question
	// got is what became of them.
	got map[question]string
}

// socket is one in the network namespace of a Pod.
type socket struct {
	// serves is false for one that is closed when a sweep ends.
	serves bool
	// take is called for events that it waits for, if there are any.
	events int16
	take   func(fd int)
}

// newSweeper has the Pods serve all ports. There, nothing else may do so.
func (w *world) newSweeper(guests []*guest) *sweeper {
	w.Helper()
	s := &sweeper{w: w, guests: guests, sockets: map[int]*socket{}}
	w.Cleanup(s.stop)
	for _, g := range guests {
		expect.NoError(w, g.within(func() error {
			var errs []error
			for _, at := range []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
				_, err := s.open(at, unix.SOCK_RAW, unix.IPPROTO_SCTP, socket{true, unix.POLLIN, s.takeInit})
				errs = append(errs, err)
				for _, number := range cyclonus.Numbers {
					errs = append(errs, s.serve(netip.AddrPortFrom(at, uint16(number))))
				}
			}
			return errors.Join(errs...)
		}))
	}
	return s
}

// stop closes all sockets.
func (s *sweeper) stop() { s.close(func(*socket) bool { return true }) }

// within calls f on a thread in the Pod's network namespace.
func (g *guest) within(f func() error) error {
	return ns.WithNetNSPath(filepath.Join(g.node.Proc(), g.pid, "ns", "net"), func(ns.NetNS) error { return f() })
}

// open opens a socket that does not block, of the family of an address.
func (s *sweeper) open(of netip.Addr, kind, protocol int, as socket) (fd int, err error) {
	family := unix.AF_INET
	if of.Is6() {
		family = unix.AF_INET6
	}
	if fd, err = unix.Socket(family, kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, protocol); err == nil {
		s.sockets[fd] = &as
	}
	return fd, err
}

// close closes those of the sockets.
func (s *sweeper) close(those func(*socket) bool) {
	for fd, of := range s.sockets {
		if those(of) {
			_ = unix.Close(fd)
			delete(s.sockets, fd)
		}
	}
}

// serve serves a port by TCP and UDP.
func (s *sweeper) serve(at netip.AddrPort) error {
	listener, err := s.open(at.Addr(), unix.SOCK_STREAM, 0, socket{true, unix.POLLIN, s.accept})
	if err != nil {
		return err
	}
	datagrams, err := s.open(at.Addr(), unix.SOCK_DGRAM, 0, socket{true, unix.POLLIN, s.answer})
	if err != nil {
		return err
	}
	for _, fd := range []int{listener, datagrams} {
		if at.Addr().Is6() {
			err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1)
		}
		if err = errors.Join(err, unix.Bind(fd, sockaddr(at))); err != nil {
			return fmt.Errorf("serving %s: %w", at, err)
		}
	}
	return unix.Listen(listener, unix.SOMAXCONN)
}

func sockaddr(at netip.AddrPort) unix.Sockaddr {
	if at.Addr().Is4() {
		return &unix.SockaddrInet4{Addr: at.Addr().As4(), Port: int(at.Port())}
	}
	return &unix.SockaddrInet6{Addr: at.Addr().As16(), Port: int(at.Port())}
}

// note notes what became of a question, by its place.
func (s *sweeper) note(sweep, at uint32, is string) {
	if sweep == s.number && at < uint32(len(s.questions)) && s.got[s.questions[at]] != answered {
		s.got[s.questions[at]] = is
	}
}

// accept accepts a connection. It stays open until the sweep ends: the one that asks is to see it.
func (s *sweeper) accept(listener int) {
	fd, _, err := unix.Accept4(listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	if err == nil {
		s.sockets[fd] = &socket{}
		_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}) // no FIN that nobody answers
	}
}

// answer sends a datagram back.
func (s *sweeper) answer(fd int) {
	buffer := make([]byte, 64)
	if n, from, err := unix.Recvfrom(fd, buffer, 0); err == nil && n == datagramSize {
		s.note(binary.BigEndian.Uint32(buffer), binary.BigEndian.Uint32(buffer[4:]), arrived)
		_ = unix.Sendto(fd, buffer[:n], 0, from)
	}
}

// takeInit takes what sctpInit has made.
func (s *sweeper) takeInit(fd int) {
	buffer := make([]byte, 128)
	n, from, err := unix.Recvfrom(fd, buffer, 0)
	packet := buffer[:max(0, n)]
	if _, is := from.(*unix.SockaddrInet4); is && len(packet) > 0 { // it begins with the header of IPv4
		packet = packet[min(len(packet), int(packet[0]&0xf)*4):]
	}
	if err == nil && len(packet) == sctpInitSize && packet[12] == sctpKindInit {
		s.note(binary.BigEndian.Uint32(packet[28:]), binary.BigEndian.Uint32(packet[16:])-1, arrived)
	}
}

const (
	// tries is how often a Pod asks what has not been answered, by a new socket, and pause is the time between.
	tries, pause = 3, 250 * time.Millisecond
	// mostTries is how often it does so while something has not come that should.
	mostTries = 12
)

// sweep has all Pods ask each other, and gives what became of each question. want is what should: while something is
// missing, they ask again for some seconds. The switches have forgotten all connections before.
func (s *sweeper) sweep(want map[question]string) map[question]string {
	s.w.Helper()
	s.number++
	s.questions, s.got = nil, map[question]string{}
	for from := range s.guests {
		for to := range s.guests {
			for _, x := range cyclonus.Packets() {
				if from != to {
					s.questions = append(s.questions, question{from, to, x})
					s.got[question{from, to, x}] = lost
				}
			}
		}
	}
	defer s.close(func(of *socket) bool { return !of.serves })
	var forget errgroup.Group
	for _, node := range s.w.nodes.All {
		forget.Go(func() error {
			_, err := node.Run("ovs-appctl", "--timeout=30", "dpctl/flush-conntrack")
			return err
		})
	}
	expect.NoError(s.w, forget.Wait())
	missing := func(q question) bool { return want[q] != lost && s.got[q] != want[q] }
	for try := 0; try < tries || try < mostTries && slices.ContainsFunc(s.questions, missing); try++ {
		for from, g := range s.guests {
			expect.NoError(s.w, g.within(func() error { return s.askFrom(from) }))
		}
		expect.NoError(s.w, s.collect(time.Now().Add(pause)))
	}
	return s.got
}

// askFrom has a Pod ask what is not answered. It is called in the Pod's network namespace.
func (s *sweeper) askFrom(from int) error {
	for i, q := range s.questions {
		if q.from != from || s.got[q] == answered || s.got[q] == arrived && q.Protocol == "sctp" {
			continue
		}
		to := netip.AddrPortFrom(s.guests[q.to].addresses(0)[q.Family], uint16(q.Number))
		var err error
		switch q.Protocol {
		case "tcp":
			err = s.connect(to, uint32(i))
		case "udp":
			err = s.askByDatagram(to, uint32(i))
		case "sctp":
			err = s.associate(to, uint32(i))
		}
		if err != nil {
			return fmt.Errorf("Pod %s asks %+v: %w", s.guests[from].Name, q, err)
		}
	}
	return nil
}

// connect opens a connection of TCP.
func (s *sweeper) connect(to netip.AddrPort, i uint32) error {
	fd, err := s.open(to.Addr(), unix.SOCK_STREAM, 0, socket{events: unix.POLLOUT, take: func(fd int) {
		s.sockets[fd].events = 0
		if code, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR); err == nil && code == 0 {
			s.note(s.number, i, answered)
		}
	}})
	if err == nil {
		err = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	}
	if err == nil {
		err = unix.Connect(fd, sockaddr(to))
	}
	if errors.Is(err, unix.EINPROGRESS) {
		return nil
	}
	return err
}

// datagramSize is that of a datagram: the number of the sweep, and the place of the question.
const datagramSize = 8

// askByDatagram sends a datagram of UDP.
func (s *sweeper) askByDatagram(to netip.AddrPort, i uint32) error {
	sweep := s.number
	fd, err := s.open(to.Addr(), unix.SOCK_DGRAM, 0, socket{events: unix.POLLIN, take: func(fd int) {
		s.sockets[fd].events = 0
		if n, err := unix.Read(fd, make([]byte, datagramSize)); err == nil && n == datagramSize {
			s.note(sweep, i, answered)
		}
	}})
	if err == nil {
		content := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, sweep), i)
		err = unix.Sendto(fd, content, 0, sockaddr(to))
	}
	return err
}

// associate sends the first packet of an association of SCTP. The kernel may not have SCTP.
func (s *sweeper) associate(to netip.AddrPort, i uint32) error {
	fd, err := s.open(to.Addr(), unix.SOCK_RAW, unix.IPPROTO_SCTP, socket{})
	if err == nil {
		err = unix.Sendto(fd, s.sctpInit(to.Port(), i), 0, sockaddr(netip.AddrPortFrom(to.Addr(), 0)))
	}
	return err
}

const sctpInitSize, sctpKindInit = 32, 1

// sctpInit is an INIT (RFC 9260, sections 3.1 and 3.3.2). Its tag is for the place of the question, and its first
// number is that of the sweep.
func (s *sweeper) sctpInit(to uint16, i uint32) []byte {
	const firstPort = 1 << 15
	packet := make([]byte, sctpInitSize)
	binary.BigEndian.PutUint16(packet, uint16(firstPort+s.number%firstPort))
	binary.BigEndian.PutUint16(packet[2:], to)
	packet[12], packet[15] = sctpKindInit, 20
	binary.BigEndian.PutUint32(packet[16:], i+1) // never 0
	binary.BigEndian.PutUint32(packet[20:], 1<<16)
	packet[25], packet[27] = 1, 1 // streams in each direction
	binary.BigEndian.PutUint32(packet[28:], s.number)
	binary.LittleEndian.PutUint32(packet[8:], crc32.Checksum(packet, crc32.MakeTable(crc32.Castagnoli)))
	return packet
}

// collect takes what comes until a time.
func (s *sweeper) collect(until time.Time) error {
	const most = 20 // milliseconds
	for time.Now().Before(until) {
		var fds []unix.PollFd
		for fd, of := range s.sockets {
			if of.events != 0 {
				fds = append(fds, unix.PollFd{Fd: int32(fd), Events: of.events})
			}
		}
		if _, err := unix.Poll(fds, most); err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		for _, fd := range fds {
			if fd.Revents != 0 {
				s.sockets[int(fd.Fd)].take(int(fd.Fd))
			}
		}
	}
	return nil
}

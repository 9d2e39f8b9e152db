package link

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Change is a change of a network namespace. The zero value says that events were lost, so that all may have changed.
type Change struct {
	// Link is the name of an interface that changed, and Index its index.
	Link  string
	Index int
	// Gone says that the interface was deleted.
	Gone bool
	// DefaultRoute says that a default route was added or deleted.
	DefaultRoute bool
}

// Watch calls gone after a Pod's interface went, until ctx is done. It watches the network namespace that the caller is
// in.
func Watch(ctx context.Context, gone func()) error {
	return Follow(ctx, func(c Change) {
		// The host's end of a Pod's interface, or its VLAN on a trunk.
		if c == (Change{}) || c.Gone && (strings.HasPrefix(c.Link, "tap") || strings.HasPrefix(c.Link, "trk")) {
			gone()
		}
	})
}

// Follow calls each after a change of interfaces or of default routes, until ctx is done. It follows the network
// namespace that the caller is in. Calls come one after the other.
func Follow(ctx context.Context, each func(Change)) error {
	socket, err := nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE)
	if err != nil {
		return fmt.Errorf("watching the interfaces: %w", err)
	}
	context.AfterFunc(ctx, socket.Close)
	go func() {
		lost := false
		for ctx.Err() == nil {
			messages, from, err := socket.Receive()
			switch {
			case errors.Is(err, os.ErrClosed):
				return
			case err != nil:
				// The kernel's queue was full (ENOBUFS). The socket goes on.
				lost = true
			case from.Pid == nl.PidKernel:
				for _, m := range messages {
					if c, ok := changeOf(unix.NlMsghdr(m.Header), m.Data); ok {
						each(c)
					}
				}
			}
			// After it was full, the kernel drops all events, and does not say so again, until the queue is empty. Were it
			// told before, what is lost from then on would never be told.
			if lost && empty(socket) {
				lost = false
				each(Change{})
			}
		}
	}()
	return nil
}

// empty says whether no event waits in a socket's queue.
func empty(socket *nl.NetlinkSocket) bool {
	_, _, err := unix.Recvfrom(socket.GetFd(), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
	return errors.Is(err, unix.EAGAIN)
}

// changeOf reads a message of the kernel.
func changeOf(header unix.NlMsghdr, data []byte) (Change, bool) {
	switch header.Type {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		l, err := netlink.LinkDeserialize(&header, data)
		if err != nil {
			return Change{}, true
		}
		return Change{Link: l.Attrs().Name, Index: l.Attrs().Index, Gone: header.Type == unix.RTM_DELLINK}, true
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		if len(data) < unix.SizeofRtMsg || nl.DeserializeRtMsg(data).Dst_len != 0 {
			return Change{}, false
		}
		return Change{DefaultRoute: true}, true
	}
	return Change{}, false
}

package link

import (
	"context"
	"fmt"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Watch calls gone after a Pod's interface went, until ctx is done. It watches the network namespace that the caller is
// in. Events can be lost, so it replaces no look from time to time.
func Watch(ctx context.Context, gone func()) error {
	events := make(chan netlink.LinkUpdate, 64)
	if err := netlink.LinkSubscribeWithOptions(events, ctx.Done(), netlink.LinkSubscribeOptions{
		// After lost events, too, something may have gone.
		ErrorCallback: func(error) { gone() },
	}); err != nil {
		return fmt.Errorf("watching the interfaces: %w", err)
	}
	go func() {
		for event := range events {
			name := event.Attrs().Name
			// The host's end of a Pod's interface, or its VLAN on a trunk.
			if event.Header.Type == unix.RTM_DELLINK && (strings.HasPrefix(name, "tap") || strings.HasPrefix(name, "trk")) {
				gone()
			}
		}
	}()
	return nil
}

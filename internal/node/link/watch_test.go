package link

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"

	"cloudteam.ztgame.com/network-controller/internal/node/nodetest"
)

// TestFollowOutlivesLostEvents has more interfaces change than the kernel keeps events of. That is told, and what
// happens later, too.
func TestFollowOutlivesLostEvents(t *testing.T) {
	netns := nodetest.NewNetns(t, "watch")
	// The follower waits at each event until the next is asked for.
	told := make(chan Change)
	if err := ns.WithNetNSPath(netns.Path(), func(ns.NetNS) error {
		return Follow(t.Context(), func(c Change) {
			select {
			case told <- c:
			case <-t.Context().Done():
			}
		})
	}); err != nil {
		t.Fatal(err)
	}
	ip := func(lines ...string) {
		t.Helper()
		c := netns.Command(t.Context(), "ip", "-batch", "-")
		c.Stdin = strings.NewReader(strings.Join(lines, "\n"))
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	await := func(what string, is func(Change) bool) {
		t.Helper()
		patience := time.After(time.Minute)
		for {
			select {
			case c := <-told:
				if is(c) {
					return
				}
			case <-patience:
				t.Fatalf("nothing told that %s", what)
			}
		}
	}
	// The kernel's queue is limited.
	lines := []string{"link add busy type veth peer name peer"}
	for n := range 1000 {
		lines = append(lines, fmt.Sprintf("link set busy mtu %d", 1300+n%2))
	}
	ip(lines...)
	// Whoever is told looks at what there is. From then on nothing may be lost.
	await("events were lost", func(c Change) bool { return c == Change{} })
	ip("link add last type veth peer name peer1", "link del last")
	await("an interface went after events were lost", func(c Change) bool { return c.Link == "last" && c.Gone })
	ip("link add eth0 type veth peer name peer2", "addr add 10.1.0.2/24 dev eth0", "link set eth0 up",
		"route add 10.2.0.0/16 via 10.1.0.1", "route add default via 10.1.0.1")
	await("a default route was added", func(c Change) bool { return c.DefaultRoute })
}

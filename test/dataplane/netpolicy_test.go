//go:build linux

package dataplane

import (
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sync/errgroup"

	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/nightly"
)

// aPolicyClosesAndOpens has a MultiNetworkPolicy decide which guests may open a connection to a Pod, and change its mind.
func (w *world) aPolicyClosesAndOpens(guests []*guest) {
	server := podFor("server", w.nodes.All[1].Name, "both")
	server.Spec.Containers[0].Command = serving
	w.create(server)
	to, friend, neighbor, stranger := w.guest("server"), guests[1], guests[2], guests[3]
	connects := func(from *guest, address netip.Addr) error {
		return from.asks(address.String(), 2, "server")
	}
	// all has each guest try each address of the server, all at once.
	all := func(try func(from *guest, address netip.Addr) error, guests ...*guest) {
		w.Helper()
		var group errgroup.Group
		for _, from := range guests {
			for _, address := range to.addresses(0) {
				group.Go(func() error { return try(from, address) })
			}
		}
		expect.NoError(w, group.Wait())
	}
	soon := func(check func() error) error {
		return harness.Poll(w.Context().Done(), patience, time.Second, check)
	}
	passes := func(guests ...*guest) {
		w.Helper()
		all(func(from *guest, address netip.Addr) error {
			return soon(func() error { return connects(from, address) })
		}, guests...)
	}
	timesOut := func(guests ...*guest) {
		w.Helper()
		all(func(from *guest, address netip.Addr) error {
			refused := func() error {
				if connects(from, address) == nil {
					return fmt.Errorf("Pod %s still opens connections to %s", from.Name, address)
				}
				return nil
			}
			if err := soon(refused); err != nil {
				return err
			}
			return refused() // it stays so
		}, guests...)
	}
	passes(friend, neighbor, stranger)

	allow := func(names string) time.Time {
		w.Helper()
		began := time.Now()
		surroundings.PutPolicy(w, w.namespace, "server", "both", `
podSelector: {matchLabels: {app: server}}
ingress:
- from: [{podSelector: {matchExpressions: [{key: app, operator: In, values: [`+names+`]}]}}]
  ports: [{port: 80}]
`)
		return began
	}
	// What tells that nobody comes through waits 2 s for an answer, twice.
	tell := func(what string, began time.Time) {
		fmt.Printf("  %s within %s\n", what, nightly.Since(began))
	}
	began := allow("two, three")
	timesOut(stranger)
	tell("a new policy holds", began)
	passes(friend, neighbor)
	for _, address := range to.addresses(0) {
		if friend.ping(address) == nil {
			w.Errorf("the policy allows port 80 alone, and %s answers a ping", address)
		}
	}
	// What it opens itself is answered: no policy restricts what it sends.
	w.eventually(func() error { return to.ping(netip.MustParseAddr("10.30.0.1")) })

	began = allow("db")
	passes(stranger)
	tell("a changed policy lets in", began)
	timesOut(friend, neighbor) // neighbor is on the same node
	tell("a changed policy keeps out", began)

	surroundings.RemovePolicy(w, w.namespace, "server")
	passes(friend, neighbor, stranger)
	w.eventually(func() error { // those of the policy
		return harness.NoneLeft(w.Context(), surroundings.Networks.CloudteamV1().SecurityGroups(w.namespace))
	})
	w.removePods("server")
}

package trunk

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"

	"cloudteam.ztgame.com/network-controller/internal/node/link"
	"cloudteam.ztgame.com/network-controller/internal/node/mark"
	"cloudteam.ztgame.com/network-controller/internal/node/nodetest"
	"cloudteam.ztgame.com/network-controller/internal/node/ovs"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

var errEnded = errors.New("the agent ended")

// TestEndedBetweenWrites ends an agent before each write in turn, on a port that is new and on one that gets another
// VLAN. No packet flows then, and the next agent completes it.
func TestEndedBetweenWrites(t *testing.T) {
	host, pod := nodetest.NewNetns(t, "host"), nodetest.NewNetns(t, "pod")
	k := nodetest.NewTrunk(t, host)
	const device = "tap00000001-00"
	w := ovs.Wanted{
		Name: device, IfaceID: "00000001-0000", MAC: "fa:16:3e:00:00:01", ParentMAC: strings.ToUpper(k.MAC), MTU: 1400, VLAN: 101,
		Mark: mark.Mark{Sandbox: "c1", IfName: "net1", PodUID: "pod-1", PortUID: "port-1"},
	}
	inside, err := ns.GetNS(pod.Path())
	expect.NoError(t, err)
	defer inside.Close()
	mac, err := net.ParseMAC(w.MAC)
	expect.NoError(t, err)
	err = ns.WithNetNSPath(host.Path(), func(ns.NetNS) error {
		if _, err := link.Create(link.Pair{Device: device, Alias: w.Mark.String(), IfName: "net1", MAC: mac, MTU: 1400}, inside); err != nil {
			return err
		}
		for _, before := range []struct {
			what string
			put  bool
		}{{"a new port", false}, {"another VLAN", true}} {
			for n := 1; ; n++ {
				s := New("eth0")
				if err := s.Remove(t.Context(), ovs.Port{Name: device}); err != nil {
					return err
				}
				wanted := w
				if before.put {
					if err := s.Put(t.Context(), w); err != nil {
						return err
					}
					wanted.VLAN, wanted.IfaceID = 111, "00000011-0000"
				}
				writes := 0
				s.Write = func(do func() error) error {
					if writes++; writes == n {
						return errEnded
					}
					return do()
				}
				err := s.Put(t.Context(), wanted)
				if ended := writes == n; ended != errors.Is(err, errEnded) {
					t.Errorf("%s, ended before write %d: got %v", before.what, n, err)
				}
				next := New("")
				have, err := next.State(t.Context())
				if err != nil {
					return err
				}
				if p := have.Ports[device]; p.Open && p.Tag == wanted.VLAN && writes == n {
					t.Errorf("%s, ended before write %d: packets flow, %+v", before.what, n, p)
				}
				if writes != n {
					t.Logf("%s takes %d writes", before.what, writes)
					break
				}
				if err := next.Put(t.Context(), wanted); err != nil {
					t.Errorf("%s, ended before write %d: the next agent: %v", before.what, n, err)
				}
				have, err = next.State(t.Context())
				if err != nil {
					return err
				}
				p := have.Ports[device]
				if len(have.Ports) != 1 || !p.Open || !p.Ours || p.Mark != w.Mark || p.IfaceID != wanted.IfaceID || p.Tag != wanted.VLAN || p.MAC != w.MAC {
					t.Errorf("%s, ended before write %d: in the end there is %+v", before.what, n, have.Ports)
				}
			}
		}
		return nil
	})
	expect.NoError(t, err)
}

// TestTellsOfItsParent has the trunk's interface and the default route come and go. Whoever waits for them is woken.
func TestTellsOfItsParent(t *testing.T) {
	for name, parent := range map[string]string{"named": "eth0", "of the default route": ""} {
		t.Run(name, func(t *testing.T) {
			host := nodetest.NewNetns(t, "host")
			ip := func(command string) {
				t.Helper()
				if _, err := host.Run("ip", strings.Fields(command)...); err != nil {
					t.Fatal(err)
				}
			}
			s := New(parent)
			state := func() (have ovs.State, err error) {
				err = ns.WithNetNSPath(host.Path(), func(ns.NetNS) error { have, err = s.State(t.Context()); return err })
				return have, err
			}
			started := s.Changed()
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- ns.WithNetNSPath(host.Path(), func(ns.NetNS) error { s.Run(ctx); return nil }) }()
			t.Cleanup(func() {
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
			<-started
			// as an ADD waits
			until := func(what string, is func(ovs.State, error) bool) {
				t.Helper()
				patience := time.After(time.Minute)
				for {
					changed := s.Changed()
					have, err := state()
					if is(have, err) {
						return
					}
					select {
					case <-changed:
					case <-patience:
						t.Fatalf("nothing woke who waits until the trunk's interface %s: %+v, %v", what, have, err)
					}
				}
			}
			isUp := func(have ovs.State, err error) bool { return err == nil && have.Down == "" }
			isDown := func(have ovs.State, err error) bool { return err != nil || have.Down != "" }
			for _, c := range []struct {
				what     string
				commands []string
				is       func(ovs.State, error) bool
			}{
				{"exists", []string{
					"link add eth0 type veth peer name far", "addr add 10.1.0.2/24 dev eth0", "link set far up",
					"link set eth0 up", "route add default via 10.1.0.1",
				}, isUp},
				{"is down", []string{"link set eth0 down"}, isDown},
				{"is up", []string{"link set eth0 up", "route add default via 10.1.0.1"}, isUp},
				{"has no carrier", []string{"link set far down"}, isDown},
				{"has a carrier", []string{"link set far up"}, isUp},
				{"is gone", []string{"link del eth0"}, isDown},
			} {
				waiting := make(chan struct{})
				go func() {
					defer close(waiting)
					for _, command := range c.commands {
						ip(command)
					}
				}()
				until(c.what, c.is)
				<-waiting
			}
		})
	}
}

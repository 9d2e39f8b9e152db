package trunk

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/containernetworking/plugins/pkg/ns"

	"cloudteam.ztgame.com/network-controller/internal/node/link"
	"cloudteam.ztgame.com/network-controller/internal/node/mark"
	"cloudteam.ztgame.com/network-controller/internal/node/nodetest"
	"cloudteam.ztgame.com/network-controller/internal/node/ovs"
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
	if err != nil {
		t.Fatal(err)
	}
	defer inside.Close()
	mac, err := net.ParseMAC(w.MAC)
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
}

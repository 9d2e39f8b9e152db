package agent

import (
	"context"
	"fmt"
	"strings"
	"testing"

	cnitypes "github.com/containernetworking/cni/pkg/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/internal/node/agentapi"
	"cloudteam.ztgame.com/network-controller/internal/node/nodetest"
	"cloudteam.ztgame.com/network-controller/internal/node/ovs"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// TestRepairsOnTrunk has others take away what the agent made on a trunk.
func TestRepairsOnTrunk(t *testing.T) {
	w := newWorld(t, cloudteamv1.AttachmentTrunk)
	w.bind(1)
	w.bind(2)
	one, two := w.sandbox(1, "c1"), w.sandbox(2, "c2")
	one.must("ADD")
	two.must("ADD")
	w.connected(one, two)
	host := func(args ...string) {
		t.Helper()
		if _, err := w.host.Run("ip", args...); err != nil {
			t.Fatal(err)
		}
	}
	name := "trk" + strings.TrimPrefix(device(1), "tap")

	t.Log("somebody deletes the VLAN")
	host("link", "del", name)
	w.plugged(portID(1), portID(2))
	w.connected(one, two)

	t.Log("somebody sets it down")
	host("link", "set", name, "down")
	w.agent.portsChanged.Change() // or the next minute
	w.plugged(portID(1), portID(2))
	w.connected(one, two)

	t.Log("the machine's interface goes down and comes back")
	host("link", "set", "eth0", "down")
	host("link", "set", "eth0", "up")
	host("route", "add", "default", "via", "10.1.0.1")
	w.plugged(portID(1), portID(2))
	w.connected(one, two)

	t.Log("the agent is away meanwhile")
	w.stop()
	host("link", "del", name)
	w.start()
	w.plugged(portID(1), portID(2))
	w.connected(one, two)

	t.Log("Neutron's port is made again with another id, and gets another VLAN")
	w.trunk.Leave(int(vlan(1)))
	w.trunk.Join(int(vlan(11)))
	w.change("p1", func(p *cloudteamv1.NetworkPort) { p.Status.PortID = portID(11) })
	w.plugged(portID(1), portID(2)) // Neutron is not prepared yet
	w.change("p1", func(p *cloudteamv1.NetworkPort) {
		p.Status.Attachment.PortID, p.Status.Attachment.VLAN = portID(11), vlan(11)
	})
	w.plugged(portID(11), portID(2))
	w.connected(one, two)
	one.must("CHECK")
	w.attached("p1", metav1.ConditionTrue)

	t.Log("the Pod gets another sandbox")
	again := w.sandbox(1, "c1b")
	again.must("ADD")
	one.must("DEL")
	w.plugged(portID(11), portID(2))
	w.connected(again, two)

	w.endsOf(again, two)
}

// TestBadWorldsOfATrunk has what an ADD cannot change. Each says so, and an ADD succeeds when it is gone.
func TestBadWorldsOfATrunk(t *testing.T) {
	w := newWorld(t, cloudteamv1.AttachmentTrunk)
	w.bind(1)
	w.bind(2)
	two := w.sandbox(2, "c2")
	two.must("ADD")
	must := func(command string, args ...any) {
		t.Helper()
		if _, err := w.host.Run("ip", strings.Fields(fmt.Sprintf(command, args...))...); err != nil {
			t.Fatal(err)
		}
	}
	dying := nodetest.NewNetns(t, "dying")
	attach := func(change func(*cloudteamv1.PortAttachment)) {
		w.change("p1", func(p *cloudteamv1.NetworkPort) { change(p.Status.Attachment) })
	}
	for name, c := range map[string]struct {
		make, heal func()
		code       uint
		says       string
		told       bool
	}{
		"the VLAN is in another network namespace": {
			make: func() {
				must("link add link eth0 name other netns %s type vlan id %d", dying, vlan(1))
			},
			heal: func() { dying.Delete() }, code: agentapi.CodeTryAgain, says: "another network namespace", told: true,
		},
		"somebody else made the VLAN": {
			make: func() { must("link add link eth0 name admins type vlan id %d", vlan(1)) },
			heal: func() { must("link del admins") }, code: agentapi.CodeTryAgain, says: "interface admins", told: true,
		},
		"the parent's MTU is smaller": {
			make: func() { must("link set eth0 mtu 1300") },
			heal: func() { must("link set eth0 mtu 1450") }, code: agentapi.CodeInternal, says: "MTU of 1400", told: true,
		},
		"the parent is down": {
			make: func() { must("link set eth0 down") },
			heal: func() {
				must("link set eth0 up")
				must("route add default via 10.1.0.1")
			},
			code: agentapi.CodeTryAgain, says: "--parent",
		},
		"there is no default route": {
			make: func() { must("route del default") },
			heal: func() { must("route add default via 10.1.0.1") }, code: agentapi.CodeTryAgain, says: "--parent",
		},
		"the port is prepared for another trunk": {
			make: func() { attach(func(a *cloudteamv1.PortAttachment) { a.ParentMAC = "fa:16:3e:99:99:99" }) },
			heal: func() { attach(func(a *cloudteamv1.PortAttachment) { a.ParentMAC = strings.ToUpper(w.trunk.MAC) }) },
			code: agentapi.CodeTryAgain, says: "prepared for another trunk", told: true,
		},
		"the port is prepared for a trunk whose parent is not known here": {
			make: func() { attach(func(a *cloudteamv1.PortAttachment) { a.ParentPortID = portID(99) }) },
			heal: func() { attach(func(a *cloudteamv1.PortAttachment) { a.ParentPortID = "" }) },
			code: agentapi.CodeTryAgain, says: "prepared for another trunk", told: true,
		},
		"the port is prepared for another mode": {
			make: func() { attach(func(a *cloudteamv1.PortAttachment) { a.Mode = cloudteamv1.AttachmentOVN }) },
			heal: func() { attach(func(a *cloudteamv1.PortAttachment) { a.Mode = cloudteamv1.AttachmentTrunk }) },
			code: agentapi.CodeTryAgain, says: "works in another one",
		},
		"another Pod's port has the VLAN": {
			make: func() { attach(func(a *cloudteamv1.PortAttachment) { a.VLAN = vlan(2) }) },
			heal: func() { attach(func(a *cloudteamv1.PortAttachment) { a.VLAN = vlan(1) }) },
			code: agentapi.CodeTryAgain, says: "still connected for another Pod's port",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w.restart(shortWait)
			c.make()
			p := w.sandbox(1, "c1")
			_, failed := p.run("ADD")
			if failed == nil || failed.Code != c.code || !strings.Contains(failed.Msg, c.says) {
				t.Errorf("want code %d and %q, got %+v", c.code, c.says, failed)
			}
			if c.told {
				if got := w.attached("p1", metav1.ConditionFalse); !strings.Contains(got.Message, c.says) {
					t.Errorf("the condition is %+v", got)
				}
			}
			c.heal()
			w.restart(testWait)
			// The kernel takes its time to remove a network namespace. The kubelet retries, too.
			nodetest.Eventually(t, func() error {
				_, failed := p.run("ADD")
				if failed != nil && failed.Code != agentapi.CodeTryAgain {
					t.Fatal(failed)
				}
				if failed != nil {
					return failed
				}
				return nil
			})
			w.plugged(portID(1), portID(2))
			w.connected(p, two)
			p.must("DEL")
			w.plugged(portID(2))
		})
	}
}

// failing tells when a request of the plugin found the trunk's interface missing or down.
type failing struct {
	vswitch
	found chan struct{}
}

func (f failing) State(ctx context.Context) (ovs.State, error) {
	s, err := f.vswitch.State(ctx)
	if asked := ctx.Value(peerKey{}) != nil; asked && (err != nil || s.Down != "") {
		select {
		case f.found <- struct{}{}:
		default:
		}
	}
	return s, err
}

// TestAnADDWaitsForTheTrunk sets the trunk's interface up while an ADD waits for it. The ADD goes on at once.
func TestAnADDWaitsForTheTrunk(t *testing.T) {
	w := newWorld(t, cloudteamv1.AttachmentTrunk)
	w.bind(1)
	ip := func(command string) {
		t.Helper()
		if _, err := w.host.Run("ip", strings.Fields(command)...); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		parent   string
		has, get []string
	}{
		"the interface of the default route is down": {
			has: []string{"link set eth0 down"}, get: []string{"link set eth0 up", "route add default via 10.1.0.1"},
		},
		"there is no default route": {has: []string{"route del default"}, get: []string{"route add default via 10.1.0.1"}},
		"the interface of --parent is down": {
			parent: "eth0", has: []string{"link set eth0 down"},
			get: []string{"link set eth0 up", "route add default via 10.1.0.1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, command := range c.has {
				ip(command)
			}
			found := make(chan struct{}, 1)
			w.parent, w.wrap = c.parent, func(v vswitch) vswitch { return failing{v, found} }
			w.start()
			p := w.sandbox(1, "c-"+strings.ReplaceAll(name, " ", ""))
			done := make(chan *cnitypes.Error, 1)
			go func() {
				_, failed := p.run("ADD")
				done <- failed
			}()
			select {
			case <-found:
			case failed := <-done:
				t.Fatalf("the ADD does not wait: %v", failed)
			}
			for _, command := range c.get {
				ip(command)
			}
			if failed := <-done; failed != nil {
				t.Fatal(failed)
			}
			w.plugged(portID(1))
			p.must("DEL")
			w.plugged()
		})
	}
}

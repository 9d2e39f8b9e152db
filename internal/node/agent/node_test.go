package agent

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/internal/node/agentapi"
	"cloudteam.ztgame.com/network-controller/internal/node/nodetest"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// inModes runs a test on a node with OVN and on one with a trunk.
func inModes(t *testing.T, test func(t *testing.T, w *world)) {
	for _, mode := range []cloudteamv1.AttachmentMode{cloudteamv1.AttachmentOVN, cloudteamv1.AttachmentTrunk} {
		t.Run(string(mode), func(t *testing.T) { test(t, newWorld(t, mode)) })
	}
}

// TestPods takes Pods through their lives on a node: packets flow, also after a retry in another sandbox and
// a late DEL of the first one.
func TestPods(t *testing.T) {
	inModes(t, func(t *testing.T, w *world) {
		w.bind(1)
		w.bind(2)
		one, two := w.sandbox(1, "c1"), w.sandbox(2, "c2")
		nodetest.Eventually(t, func() error {
			if _, failed := one.run("STATUS"); failed != nil {
				return failed
			}
			return nil
		})
		one.must("ADD")
		two.must("ADD")
		w.plugged(portID(1), portID(2))
		if c := w.attached("p1", metav1.ConditionTrue); c.Reason != cloudteamv1.ReasonPlugged || !strings.Contains(c.Message, "net1") {
			t.Errorf("the condition is %+v", c)
		}
		w.connected(one, two)
		one.must("CHECK")

		// The kubelet retries, in the same sandbox and in another.
		one.must("DEL")
		one.must("ADD")
		again := w.sandbox(1, "c1b")
		again.must("ADD")
		w.connected(again, two)
		one.must("DEL")
		again.must("CHECK")
		w.connected(again, two)

		// A collection by a runtime whose list is empty takes nothing that lives.
		again.must("GC")
		w.connected(again, two)

		again.must("DEL")
		again.must("DEL")
		two.must("DEL")
		w.plugged()
	})
}

// TestTwoNetworks gives a Pod two interfaces. The hardware address chooses the port of each.
func TestTwoNetworks(t *testing.T) {
	inModes(t, func(t *testing.T, w *world) {
		w.bind(1)
		w.bindTo(4, 1)
		first := w.sandbox(1, "c1")
		second := *first
		second.mac, second.ifName = strings.ToUpper(portMAC(4)), "net2"
		unnamed := *first
		unnamed.mac, unnamed.ifName = "", "net3"
		if _, failed := unnamed.run("ADD"); failed == nil || failed.Code != agentapi.CodeInvalidConfig || !strings.Contains(failed.Msg, "2 ports") {
			t.Errorf("without a hardware address: got %+v", failed)
		}
		second.must("ADD")
		first.must("ADD")
		w.plugged(portID(1), portID(4))
		for ifName, want := range map[string]string{"net1": address(1), "net2": address(4)} {
			if out, err := first.netns.Run("ip", "-o", "addr", "show", "dev", ifName); err != nil || !strings.Contains(out, want+"/24") {
				t.Errorf("%s has %s, %v; want %s", ifName, out, err, want)
			}
		}
		first.must("CHECK")
		second.must("DEL")
		w.plugged(portID(1))
		first.must("CHECK")
	})
}

// TestRepairs has others take away what the agent plugged.
func TestRepairs(t *testing.T) {
	w := newWorld(t, cloudteamv1.AttachmentOVN)
	w.bind(1)
	w.bind(2)
	one, two := w.sandbox(1, "c1"), w.sandbox(2, "c2")
	one.must("ADD")
	two.must("ADD")
	w.connected(one, two)

	t.Log("somebody removes the port from Open vSwitch")
	w.ovs.Ctl("del-port", device(1))
	w.plugged(portID(1), portID(2))
	w.connected(one, two)

	t.Log("somebody changes its id")
	w.ovs.Ctl("set", "Interface", device(1), "external_ids:iface-id=other")
	w.plugged(portID(1), portID(2))
	w.connected(one, two)

	t.Log("the agent is away meanwhile")
	w.stop()
	w.ovs.Ctl("del-port", device(1))
	w.start()
	w.plugged(portID(1), portID(2))
	w.connected(one, two)

	t.Log("Neutron's port is made again with another id")
	w.ovn.NB("lsp-del", portID(1))
	w.inOVN(portID(11), 1)
	w.change("p1", func(p *cloudteamv1.NetworkPort) { p.Status.PortID = portID(11) })
	w.plugged(portID(1), portID(2)) // Neutron is not prepared yet
	w.change("p1", func(p *cloudteamv1.NetworkPort) { p.Status.Attachment.PortID = portID(11) })
	w.plugged(portID(11), portID(2))
	w.connected(one, two)
	one.must("CHECK")
	w.attached("p1", metav1.ConditionTrue)

	t.Log("its Pod gets another sandbox")
	again := w.sandbox(1, "c1b")
	again.must("ADD")
	one.must("DEL")
	w.plugged(portID(11), portID(2))
	w.connected(again, two)

	t.Log("Open vSwitch's database starts again")
	w.ovs.StopDatabase()
	w.ovs.StartDatabase()
	w.ovs.Ctl("del-port", device(2))
	w.plugged(portID(11), portID(2))

	w.endsOf(again, two)
}

// endsOf ends the two Pods that are left, whose ports are 11 and 2, without a DEL.
func (w *world) endsOf(one, two *pod) {
	w.t.Helper()
	w.t.Log("the NetworkPort is another Pod's")
	w.change("p2", func(p *cloudteamv1.NetworkPort) { p.Status.Attachment.PodUID, p.Status.BoundTo.UID = "other", "other" })
	w.plugged(portID(11))
	if _, failed := two.run("CHECK"); failed == nil {
		w.t.Error("CHECK succeeds without a port")
	}

	w.t.Log("the sandbox vanishes without a DEL")
	one.netns.Delete()
	w.plugged()
}

// TestPortsGone removes the NetworkPort under a Pod. It comes back with the port.
func TestPortsGone(t *testing.T) {
	inModes(t, func(t *testing.T, w *world) {
		w.bind(1)
		one := w.sandbox(1, "c1")
		one.must("ADD")
		object, _, err := w.ports.GetByKey("team-a/p1")
		expect.NoError(t, err)
		expect.NoError(t, w.ports.Delete(object))
		w.agent.portsChanged.Change()
		w.plugged()
		expect.NoError(t, w.ports.Add(object))
		w.agent.portsChanged.Change()
		w.plugged(portID(1))
		one.must("DEL")
		w.plugged()
	})
}

// TestNeutronNeverConnects has a port that OVN does not know, as if it were bound to another node.
func TestNeutronNeverConnects(t *testing.T) {
	w := newWorld(t, cloudteamv1.AttachmentOVN)
	w.restart(shortWait)
	w.bind(1)
	w.ovn.NB("lsp-del", portID(1))
	one := w.sandbox(1, "c1")
	_, failed := one.run("ADD")
	if failed == nil || failed.Code != agentapi.CodeTryAgain || !strings.Contains(failed.Msg, "ovn-controller") {
		t.Errorf("want CNI's error 11 that names ovn-controller, got %+v", failed)
	}
	if c := w.attached("p1", metav1.ConditionFalse); c.Reason != cloudteamv1.ReasonPlugFailed {
		t.Errorf("the condition is %+v", c)
	}
	w.plugged()
	if _, err := w.host.Run("ip", "link", "show", device(1)); err == nil {
		t.Error("the interface is left")
	}
	w.inOVN(portID(1), 1)
	w.restart(testWait)
	one.must("ADD")
	w.attached("p1", metav1.ConditionTrue)
}

// TestShortInterruptionIsNoNews has OVN take a port's flows away. A restart of ovn-controller does so for a moment, for all
// ports of the node, and packets flow meanwhile. Only what lasts is told.
func TestShortInterruptionIsNoNews(t *testing.T) {
	w := newWorld(t, cloudteamv1.AttachmentOVN)
	w.bind(1)
	w.sandbox(1, "c1").must("ADD")
	w.attached("p1", metav1.ConditionTrue)
	before := w.told.Load()
	installed := func() string {
		return w.ovs.Ctl("--if-exists", "get", "Interface", device(1), "external_ids:ovn-installed")
	}
	w.ovn.NB("lsp-del", portID(1))
	nodetest.Eventually(t, func() error {
		if installed() != "" {
			return errors.New("OVN has not taken the flows away")
		}
		return w.agent.repair(t.Context())
	})
	w.inOVN(portID(1), 1)
	nodetest.Eventually(t, func() error {
		if installed() == "" {
			return errors.New("OVN has not installed the flows again")
		}
		return nil
	})
	expect.Equal(t, int64(0), w.told.Load()-before, "how often it told about a short interruption")
	w.restart(shortWait)
	w.ovn.NB("lsp-del", portID(1))
	nodetest.Eventually(t, func() error {
		if w.told.Load() == before {
			return errors.New("told nothing about a long interruption")
		}
		return nil
	})
	if c := w.attached("p1", metav1.ConditionFalse); c.Reason != cloudteamv1.ReasonPlugFailed || !strings.Contains(c.Message, "ovn-controller") {
		t.Errorf("the condition is %+v", c)
	}
	w.inOVN(portID(1), 1)
	w.attached("p1", metav1.ConditionTrue)
}

// TestNothingIsLeftAfterChurn has Pods come and go. Some end by DEL, some are killed with their sandbox, and some get another
// sandbox before the former one ends. Then neither the node, nor Open vSwitch, nor the agent has anything of them.
func TestNothingIsLeftAfterChurn(t *testing.T) {
	const side = 8
	lives := 13
	if testing.Short() {
		lives = 4
	}
	w := newWorld(t, cloudteamv1.AttachmentOVN)
	for n := range side {
		w.bind(n + 1)
	}
	var late []*pod
	for life := range lives {
		pods, ending := make([]*pod, side), late
		late = nil
		var group errgroup.Group
		for i := range pods {
			n := i + 1
			p := w.sandbox(n, fmt.Sprintf("c%d-%d", n, life))
			if pods[i] = p; (n+life)%3 == 2 {
				late = append(late, p)
			}
			group.Go(func() error {
				if _, failed := p.run("ADD"); failed != nil {
					return fmt.Errorf("ADD of sandbox %s: %w", p.sandbox, failed)
				}
				if (n+life)%3 == 1 {
					p.netns.Delete()
				}
				return nil
			})
		}
		expect.NoError(t, group.Wait())
		for i, p := range pods {
			if (i+1+life)%3 == 0 {
				ending = append(ending, p)
			}
		}
		for _, p := range ending {
			p.must("DEL")
		}
	}
	for _, p := range late {
		p.must("DEL")
	}
	for n := 1; n <= side; n++ {
		object, _, err := w.ports.GetByKey(fmt.Sprintf("team-a/p%d", n))
		if err == nil {
			err = w.ports.Delete(object)
		}
		expect.NoError(t, err)
	}
	w.agent.portsChanged.Change()
	w.plugged()
	nodetest.Eventually(t, func() error {
		links, err := w.host.Run("ip", "-br", "link")
		if err != nil || strings.Contains(links, "tap") {
			return fmt.Errorf("the node has %s, %w", links, err)
		}
		if ports, err := w.ovs.TryCtl("list-ports", "br-int"); err != nil || strings.Contains(ports, "tap") {
			return fmt.Errorf("Open vSwitch has %s, %w", ports, err)
		}
		w.agent.turn.Lock()
		defer w.agent.turn.Unlock()
		if len(w.agent.claims)+len(w.agent.silent) > 0 {
			return fmt.Errorf("the agent remembers %v, %v", w.agent.claims, w.agent.silent)
		}
		return nil
	})
}

// TestPodsOnOVS goes without OVN: Neutron's Open vSwitch agent, which the test plays, gives each port a VLAN. In
// test/dataplane, Neutron's own agent runs.
func TestPodsOnOVS(t *testing.T) {
	w := newWorld(t, cloudteamv1.AttachmentOVS)
	w.ovs.Ctl("set-fail-mode", "br-int", "standalone")
	w.bind(1)
	w.bind(2)
	one, two := w.sandbox(1, "c1"), w.sandbox(2, "c2")
	w.restart(shortWait)
	_, failed := one.run("ADD")
	if failed == nil || failed.Code != agentapi.CodeTryAgain || !strings.Contains(failed.Msg, "neutron-openvswitch-agent") {
		t.Errorf("want CNI's error 11 that names the agent, got %+v", failed)
	}
	w.restart(testWait)
	var seen [2]string
	done := make(chan struct{})
	go func() { defer close(done); w.connectAnew(device(1), &seen[0]); w.connectAnew(device(2), &seen[1]) }()
	one.must("ADD")
	two.must("ADD")
	<-done
	w.connected(one, two)
	w.attached("p2", metav1.ConditionTrue)

	t.Log("somebody removes the port from Open vSwitch")
	w.ovs.Ctl("del-port", device(1))
	w.connectAnew(device(1), &seen[0])
	w.connected(one, two)

	t.Log("Neutron's port is deleted, and made again with another id")
	w.ovs.Ctl("set", "Port", device(1), "tag=4095")
	w.change("p1", func(p *cloudteamv1.NetworkPort) { p.Status.PortID, p.Status.Attachment.PortID = portID(11), portID(11) })
	w.plugged(portID(11), portID(2))
	w.connectAnew(device(1), &seen[0])
	w.connected(one, two)
	w.attached("p1", metav1.ConditionTrue)

	t.Log("its Pod gets another sandbox")
	one.must("DEL")
	again := w.sandbox(1, "c1b")
	done = make(chan struct{})
	// Under another name, Neutron's agent would take the new interface for the one that is gone.
	go func() { defer close(done); w.connectAnew(device(1), &seen[0]) }()
	again.must("ADD")
	<-done
	w.connected(again, two)

	again.must("DEL")
	two.must("DEL")
	w.plugged()
}

// connectAnew gives a port a VLAN as Neutron's agent does: once the interface is another than the one seen last. It reads
// an interface's id when the interface is new, and not again. Until then, the port MUST be in the VLAN that leads nowhere:
// without any, a port has the frames of all VLANs.
func (w *world) connectAnew(device string, seen *string) {
	w.t.Helper()
	nodetest.Eventually(w.t, func() error {
		is, err := w.ovs.TryCtl("get", "Interface", device, "_uuid", "ofport")
		if err != nil || is == *seen || strings.Contains(is, "[]") {
			return errors.Join(fmt.Errorf("the interface %s is %q, and was %q", device, is, *seen), err)
		}
		expect.Equal(w.t, "4095", w.ovs.Ctl("get", "Port", device, "tag"), "the VLAN of port %s before Neutron's agent connects it", device)
		*seen = is
		w.ovs.Ctl("set", "Port", device, "tag=7")
		return nil
	})
}

// TestTenants has a Pod's owner try to get another Pod's port.
func TestTenants(t *testing.T) {
	w := newWorld(t, cloudteamv1.AttachmentOVN)
	w.bind(1)
	w.bind(2)
	one := w.sandbox(1, "c1")
	one.must("ADD")
	w.restart(shortWait)
	for name, c := range map[string]struct {
		change func(*pod)
		code   uint
		says   string
	}{
		"another Pod's hardware address":     {func(p *pod) { p.mac = portMAC(1) }, agentapi.CodeTryAgain, portMAC(2)},
		"no hardware address of a port":      {func(p *pod) { p.mac = "nonsense" }, agentapi.CodeInvalidConfig, "nonsense"},
		"a Pod that has no port":             {func(p *pod) { p.n = 3 }, agentapi.CodeTryAgain, "no NetworkPort of the Pod"},
		"a sandbox with a space in its name": {func(p *pod) { p.sandbox = "c 2" }, agentapi.CodeInvalidEnvironment, ""},
	} {
		p := w.sandbox(2, "c2")
		c.change(p)
		if _, failed := p.run("ADD"); failed == nil || failed.Code != c.code || !strings.Contains(failed.Msg, c.says) {
			t.Errorf("%s: want code %d and %q, got %+v", name, c.code, c.says, failed)
		}
		w.plugged(portID(1))
	}
	// The annotation names one port twice.
	second := w.sandbox(1, "c1")
	second.ifName = "net2"
	if _, failed := second.run("ADD"); failed == nil || failed.Code != agentapi.CodeInvalidConfig || !strings.Contains(failed.Msg, "net1") {
		t.Errorf("one port twice: got %+v", failed)
	}
	// Somebody on the node put an interface with a port's id there: it is left alone, and told.
	w.ovs.Ctl("add-port", "br-int", "vm0", "--", "set", "Interface", "vm0", "type=internal", "external_ids:iface-id="+portID(2))
	if _, failed := w.sandbox(2, "c2").run("ADD"); failed == nil || !strings.Contains(failed.Msg, "del-port vm0") {
		t.Errorf("a foreign interface: got %+v", failed)
	}
	w.ovs.Ctl("list-ports", "br-int")
	one.must("CHECK")
}

// TestForgedPortID has a Network in a cloud of the tenant's own name a port by the id of another's: neither its ADD nor a
// repair takes the port from the Pod that has it, and an id that is none is refused.
func TestForgedPortID(t *testing.T) {
	inModes(t, func(t *testing.T, w *world) {
		w.bind(1)
		w.bind(2)
		w.bind(3)
		one, two, three := w.sandbox(1, "c1"), w.sandbox(2, "c2"), w.sandbox(3, "c3")
		one.must("ADD")
		three.must("ADD")
		w.restart(shortWait)
		forge := func(name, id string) {
			w.change(name, func(p *cloudteamv1.NetworkPort) { p.Status.PortID, p.Status.Attachment.PortID = id, id })
		}
		forge("p2", portID(1))
		if _, failed := two.run("ADD"); failed == nil || !strings.Contains(failed.Msg, "another Pod") {
			t.Errorf("an ADD with another Pod's port: got %+v", failed)
		}
		// The Pod of p3 runs, and now its port is said to have that id.
		forge("p3", portID(1))
		w.attached("p3", metav1.ConditionFalse)
		w.plugged(portID(1), portID(3))
		one.must("CHECK")
		// The one that is there first keeps it, also after a restart of the agent.
		w.start()
		forge("p3", portID(1))
		w.plugged(portID(1), portID(3))
		one.must("CHECK")
		for _, id := range []string{"../../../x", "x y", "tap", strings.Repeat("0", 40), ""} {
			forge("p2", id)
			if _, failed := two.run("ADD"); failed == nil || !strings.Contains(failed.Msg, "no id of a port") {
				t.Errorf("the id %q: got %+v", id, failed)
			}
		}
		// When the owner of the id is gone, whoever has it by then may use it.
		one.must("DEL")
		w.plugged(portID(1))
	})
}

// TestOnlyRootMayAsk has another user at the socket, whose file would let it.
func TestOnlyRootMayAsk(t *testing.T) {
	w := newWorld(t, cloudteamv1.AttachmentOVS)
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("needs curl")
	}
	info := nodetest.Mode(t, w.socket)
	if info != 0o600 {
		t.Errorf("the socket has the mode %o", info)
	}
	nodetest.OpenTo(t, w.socket)
	ask := func(uid uint32) string {
		c := exec.Command("curl", "-s", "--unix-socket", w.socket, "-w", "%{http_code}", "http://agent"+agentapi.PathUnplug, "-d", `{"sandbox":"c1","ifname":"net1"}`)
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	if got := ask(65534); !strings.HasSuffix(got, "403") || !strings.Contains(got, "only the user 0") {
		t.Errorf("another user got %s", got)
	}
	nodetest.Eventually(t, func() error { // the agent may have no connection to Open vSwitch yet
		if got := ask(0); !strings.HasSuffix(got, "200") {
			return fmt.Errorf("root got %s", got)
		}
		return nil
	})
}

// TestKilledBetweenWrites ends the agent right after each of its writes in turn. The kubelet then tries another sandbox,
// and nothing is left in the end.
func TestKilledBetweenWrites(t *testing.T) {
	inModes(t, func(t *testing.T, w *world) {
		w.bind(1)
		w.bind(2)
		two := w.sandbox(2, "c2")
		two.must("ADD")
		last := (*pod)(nil)
		for n := 1; ; n++ {
			k := &killed{left: n}
			w.wrap = func(v vswitch) vswitch {
				if on, ok := v.(inNetns); ok {
					on.Write = k.write // each of the kernel's
					return v
				}
				k.vswitch = v
				return k
			}
			k.mu.Lock() // The agent's first writes may come before there is something to end.
			w.start()
			k.kill = w.stop
			k.mu.Unlock()
			p := w.sandbox(1, fmt.Sprintf("c1-%d", n))
			_, failed := p.run("ADD")
			if last != nil {
				// The runtime ends the former sandbox while the agent is away, or about to be.
				last.must("DEL")
			}
			_, _ = p.run("DEL")
			survived := k.survives()
			w.wrap = nil
			w.start()
			next := w.sandbox(1, fmt.Sprintf("c1-%d-again", n))
			next.must("ADD")
			if !survived && failed == nil {
				t.Logf("write %d: the agent ended after the ADD", n)
			}
			w.plugged(portID(1), portID(2))
			w.connected(next, two)
			last = next
			if survived {
				break
			}
			if n > 20 {
				t.Fatal("the agent writes without end")
			}
		}
		last.netns.Delete()
		two.netns.Delete()
		w.plugged()
	})
}

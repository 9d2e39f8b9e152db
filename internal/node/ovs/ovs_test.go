package ovs

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/node/mark"
	"cloudteam.ztgame.com/network-controller/internal/node/nodetest"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

func start(t *testing.T, o *nodetest.OVS) *Switch {
	t.Helper()
	s := New(o.Endpoint(), "br-int")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return s
}

// eventually waits until the state satisfies a check.
func eventually(t *testing.T, s *Switch, check func(State) bool) {
	t.Helper()
	nodetest.Eventually(t, func() error {
		state, err := s.State(t.Context())
		if err == nil && !check(state) {
			err = fmt.Errorf("the state is %+v", state)
		}
		return err
	})
}

func wanted(device, id, sandbox string) Wanted {
	return Wanted{
		Name: device, IfaceID: id, MAC: "fa:16:3e:00:00:01", Netns: "/run/netns/x",
		Mark: mark.Mark{Sandbox: sandbox, IfName: "net1", PodUID: "pod", PortUID: "port"},
	}
}

// TestDatabase writes into a real database, as nobody but ovs-vsctl reads it.
func TestDatabase(t *testing.T) {
	o := nodetest.NewOVSDB(t)
	s := start(t, o)
	eventually(t, s, func(s State) bool { return !s.Bridge && !s.OVN && s.Hostname == "" })
	expect.ErrorSays(t, s.Put(t.Context(), wanted("tap1", "id1", "c1")), "no bridge br-int")
	o.Ctl("--no-wait", "add-br", "br-int", "--", "set", "Bridge", "br-int", "datapath_type=netdev",
		"--", "set", "Open_vSwitch", ".", "external-ids:hostname=h1", "external-ids:ovn-remote=unix:/x")
	eventually(t, s, func(s State) bool { return s.Bridge && s.OVN && s.Hostname == "h1" && s.UserSpace })

	expect.NoError(t, s.Put(t.Context(), wanted("tap1", "id1", "c1")))
	get := func(record, column string) string {
		return strings.Trim(o.Ctl("--if-exists", "get", "Interface", record, column), `"`)
	}
	for column, want := range map[string]string{
		"external_ids:iface-id": "id1", "external_ids:attached-mac": "fa:16:3e:00:00:01", "external_ids:iface-status": "active",
		"external_ids:vm-uuid": "pod", "external_ids:owner": "network-controller", "external_ids:sandbox": "c1",
		"external_ids:ifname": "net1", "external_ids:netns": "/run/netns/x", "external_ids:pod-uid": "pod",
		"external_ids:networkport-uid": "port",
	} {
		expect.Equal(t, want, get("tap1", column), "%s", column)
	}
	if got := o.Ctl("get", "Port", "tap1", "other_config:transient"); got != `"true"` && got != "true" {
		t.Errorf("other_config:transient is %s", got)
	}
	eventually(t, s, func(s State) bool { p := s.Ports["tap1"]; return p.Ours && p.Mark == wanted("tap1", "id1", "c1").Mark })

	// Another id: what ovn-controller wrote about the former one goes, and what others wrote stays.
	o.Ctl("--no-wait", "set", "Interface", "tap1", "external_ids:ovn-installed=true", "external_ids:ovn-installed-ts=1", "external_ids:other=x")
	o.Ctl("--no-wait", "set", "Port", "tap1", "tag=7", "other_config:net_uuid=n")
	eventually(t, s, func(s State) bool { p := s.Ports["tap1"]; return p.Installed && p.Wired() })
	uuid := get("tap1", "_uuid")
	expect.NoError(t, s.Put(t.Context(), wanted("tap1", "id2", "c1")))
	if ids := o.Ctl("get", "Interface", "tap1", "external_ids"); !strings.Contains(ids, "iface-id=id2") ||
		strings.Contains(ids, "ovn-installed") || !strings.Contains(ids, "other=x") || get("tap1", "_uuid") != uuid {
		t.Errorf("after another id: %s", ids)
	}
	expect.Contains(t, o.Ctl("get", "Port", "tap1", "other_config"), "net_uuid=n", "other_config")

	// Of the same name, and for another sandbox: all in one transaction.
	eventually(t, s, func(s State) bool { return s.Ports["tap1"].IfaceID == "id2" })
	state, err := s.State(t.Context())
	expect.NoError(t, err)
	expect.NoError(t, s.Put(t.Context(), wanted("tap1", "id2", "c2"), state.Ports["tap1"]))
	if get("tap1", "external_ids:sandbox") != "c2" || get("tap1", "_uuid") == uuid {
		t.Error("the port of the older sandbox is left")
	}
	// The row that the caller saw is gone: nothing is written into the void.
	if err := s.Remove(t.Context(), state.Ports["tap1"]); err != nil {
		t.Errorf("removing what is gone: %v", err)
	}
	eventually(t, s, func(s State) bool { return s.Ports["tap1"].Mark.Sandbox == "c2" })

	state, err = s.State(t.Context())
	expect.NoError(t, err)
	expect.NoError(t, s.Remove(t.Context(), state.Ports["tap1"]))
	expect.Equal(t, "", o.Ctl("list-ports", "br-int"), "ports that are left")
	expect.Equal(t, "", o.Ctl("--columns=name", "find", "Interface", "name=tap1"), "interfaces that are left")
}

// TestReconnects ends the database under the agent.
func TestReconnects(t *testing.T) {
	o := nodetest.NewOVSDB(t)
	o.Ctl("--no-wait", "add-br", "br-int")
	s := start(t, o)
	eventually(t, s, func(s State) bool { return s.Bridge })
	// Whoever reads meanwhile comes back.
	reading, stop := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for reading.Err() == nil {
				_, _ = s.State(context.Background()) //nolint:contextcheck // the read must end by itself
			}
		})
	}
	defer readers.Wait()
	defer stop()
	o.StopDatabase()
	nodetest.Eventually(t, func() error {
		if _, err := s.State(t.Context()); err == nil {
			return fmt.Errorf("still connected")
		}
		return nil
	})
	if err := s.Put(t.Context(), wanted("tap1", "id1", "c1")); err == nil {
		t.Error("a write without a database succeeded")
	}
	o.StartDatabase()
	eventually(t, s, func(s State) bool { return s.Bridge })
	expect.NoError(t, s.Put(t.Context(), wanted("tap1", "id1", "c1")))
	eventually(t, s, func(s State) bool { return s.Ports["tap1"].Ours })
}

// TestSettles waits for a real ovs-vswitchd.
func TestSettles(t *testing.T) {
	host := nodetest.NewNetns(t, "host")
	o := nodetest.NewOVS(t, host)
	o.Ctl("add-br", "br-int", "--", "set", "Bridge", "br-int", "datapath_type=netdev")
	if _, err := host.Run("ip", "link", "add", "tap1", "type", "veth", "peer", "name", "peer1"); err != nil {
		t.Fatal(err)
	}
	s := start(t, o)
	eventually(t, s, func(s State) bool { return s.Bridge })
	expect.NoError(t, s.Put(t.Context(), wanted("tap1", "id1", "c1")))
	expect.NoError(t, s.Settle(t.Context()))
	eventually(t, s, func(s State) bool { return s.Ports["tap1"].Open && s.Ports["tap1"].Error == "" })
	expect.NoError(t, s.Put(t.Context(), wanted("tap2", "id2", "c2")))
	eventually(t, s, func(s State) bool { return s.Ports["tap2"].Error != "" })
}

// TestKeysOfOthersStay writes a port anew while ovn-controller says that it is installed, which it says once only.
func TestKeysOfOthersStay(t *testing.T) {
	o := nodetest.NewOVSDB(t)
	o.Ctl("--no-wait", "add-br", "br-int")
	s := start(t, o)
	eventually(t, s, func(s State) bool { return s.Bridge })
	for i := range 20 {
		sandbox := fmt.Sprintf("c%d", i)
		expect.NoError(t, s.Put(t.Context(), wanted("tap1", "id1", sandbox)))
		eventually(t, s, func(s State) bool { return s.Ports["tap1"].Mark.Sandbox == sandbox })
		key := fmt.Sprintf("external_ids:other%d", i)
		var writer sync.WaitGroup
		writer.Go(func() {
			if _, err := o.TryCtl("--no-wait", "set", "Interface", "tap1", key+"=x"); err != nil {
				t.Error(err)
			}
		})
		for n := range 5 {
			w := wanted("tap1", "id1", sandbox)
			w.Netns = fmt.Sprintf("/run/netns/%d", n)
			expect.NoError(t, s.Put(t.Context(), w))
		}
		writer.Wait()
		if got := o.Ctl("--if-exists", "get", "Interface", "tap1", key); got == "" {
			t.Fatalf("round %d: the key of somebody else is lost", i)
		}
	}
}

// TestStateIsReadOnce per change: each Pod that starts looks at it after each event of any other.
func TestStateIsReadOnce(t *testing.T) {
	o := nodetest.NewOVSDB(t)
	s := start(t, o)
	o.Ctl("--no-wait", "add-br", "br-int")
	eventually(t, s, func(s State) bool { return s.Bridge })
	for n := range 20 {
		name := fmt.Sprintf("tap%d", n)
		expect.NoError(t, s.Put(t.Context(), wanted(name, name, "c1")))
	}
	eventually(t, s, func(s State) bool { return len(s.Ports) == 21 })
	read := func() {
		if state, err := s.State(t.Context()); err != nil || len(state.Ports) != 21 {
			t.Fatalf("%+v, %v", state, err)
		}
	}
	// The last event may still be on its way, and cost one more.
	if allocations := testing.AllocsPerRun(1000, read); allocations > 20 {
		t.Errorf("a look at a database that has not changed takes %.0f allocations", allocations)
	}
	o.Ctl("--no-wait", "set", "Interface", "tap3", "external_ids:ovn-installed=true")
	eventually(t, s, func(s State) bool { return s.Ports["tap3"].Installed })
}

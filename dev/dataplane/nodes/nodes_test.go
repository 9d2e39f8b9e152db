// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodes

import (
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"cloudteam.ztgame.com/network-controller/internal/node/nodetest"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// startNodes starts nodes that an OVN of their own programs.
func startNodes(t *testing.T, names ...string) (*Nodes, *Central) {
	t.Helper()
	if missing := Missing() + MissingForCentral(); missing != "" {
		nodetest.Skip(t, "%s", missing)
	}
	dir := t.TempDir()
	central, err := StartCentral(dir)
	expect.NoError(t, err)
	t.Cleanup(func() {
		if err := central.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	n, err := Start(Options{Dir: dir, Names: names, Southbound: central.Southbound()})
	expect.NoError(t, err)
	t.Cleanup(func() {
		if err := n.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return n, central
}

func TestPacketsGoFromNodeToNodeByOVN(t *testing.T) {
	n, central := startNodes(t, "left", "right")
	ovn := []string{"ls-add", "net"}
	for i, node := range n.All {
		mac, address := "02:00:00:00:00:0"+strconv.Itoa(i), "192.0.2."+strconv.Itoa(i+1)
		ovn = append(ovn, "--", "lsp-add", "net", node.Name, "--", "lsp-set-addresses", node.Name, mac+" "+address)
		err := node.script(`
ip netns add pod
ip link add tap0 type veth peer name eth0 netns pod
ip link set tap0 up
ovs-vsctl --timeout=30 add-port br-int tap0 -- set Interface tap0 "external-ids:iface-id=$1"
ip -n pod link set eth0 address "$2" mtu 1442 up; ip -n pod addr add "$3/24" dev eth0`, node.Name, mac, address)
		expect.NoError(t, err)
	}
	expect.NoError(t, central.Do(ovn...))
	err := poll(startPatience, func() error {
		_, err := n.All[0].Run("ip", "netns", "exec", "pod", "busybox", "ping", "-c1", "-W1", "192.0.2.2")
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestNodesLeaveNothingBehind(t *testing.T) {
	was, err := os.ReadFile("/proc/sys/vm/overcommit_memory")
	expect.NoError(t, err)
	n, _ := startNodes(t, "alone")
	node := n.All[0]
	if node.cgroup, err = makeCgroup(node.Name); err != nil {
		t.Fatal(err)
	}
	// Something that nobody stops, a namespace and a mount, and what a kubelet does to the machine.
	if err := node.script(`
setsid sleep 3600 </dev/null >/dev/null 2>&1 &
echo $$ >/sys/fs/cgroup/pids/"$1"/cgroup.procs 2>/dev/null || echo $$ >/sys/fs/cgroup/"$1"/cgroup.procs
setsid sleep 3600 </dev/null >/dev/null 2>&1 &
ip netns add pod
mkdir "$2/mounted"; mount -t tmpfs tmpfs "$2/mounted"
echo 2 >/proc/sys/vm/overcommit_memory`, node.cgroup, node.Dir); err != nil {
		t.Fatal(err)
	}
	name, pid := node.cgroup, strconv.Itoa(node.holder.PID())
	expect.NoError(t, n.Stop(t.Context()))
	n.All, n.fabric = nil, nil
	is, err := os.ReadFile("/proc/sys/vm/overcommit_memory")
	if err != nil || string(is) != string(was) {
		t.Errorf("vm.overcommit_memory was %q and is %q, %v", was, is, err)
	}
	if _, err := os.Stat("/proc/" + pid); err == nil {
		t.Error("the node's first process lives")
	}
	for _, hierarchy := range hierarchies() {
		if _, err := os.Stat(filepath.Join(hierarchy, name)); err == nil {
			t.Errorf("the cgroup %s is left in %s", name, hierarchy)
		}
	}
	mounts, err := os.ReadFile("/proc/mounts")
	if err != nil || strings.Contains(string(mounts), node.Dir) {
		t.Errorf("a mount is left below %s, %v:\n%s", node.Dir, err, mounts)
	}
}

// TestSpacesLeaveTheFirstThread takes every idle thread of the process: without the lock, the first thread is among them.
func TestSpacesLeaveTheFirstThread(t *testing.T) {
	const spaces = 64
	threads := make(chan int, spaces)
	for range spaces {
		space, err := newSpace("alone", 0)
		expect.NoError(t, err)
		defer space.close()
		space.on(func() { threads <- unix.Gettid() })
	}
	for range spaces {
		if thread := <-threads; thread == unix.Getpid() {
			t.Error("a space is on the first thread of the process")
		}
	}
}

func TestRelayReachesThisMachine(t *testing.T) {
	n, _ := startNodes(t, "alone")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	expect.NoError(t, err)
	defer listener.Close()
	go func() {
		connection, err := listener.Accept()
		if err == nil {
			_, _ = connection.Write([]byte("hello"))
			_ = connection.Close()
		}
	}()
	expect.NoError(t, n.All[0].Relay(listener.Addr().String(), listener.Addr().String()))
	address := netip.MustParseAddrPort(listener.Addr().String())
	got, err := n.All[0].Run("busybox", "nc", address.Addr().String(), strconv.Itoa(int(address.Port())))
	if err != nil || got != "hello" {
		t.Errorf("got %q, %v", got, err)
	}
}

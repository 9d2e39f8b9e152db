// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodes

import (
	"context"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"cloudteam.ztgame.com/network-controller/dev/process"
)

// startNodes starts nodes that an OVN of their own programs, and returns the socket of its northbound database.
func startNodes(t *testing.T, names ...string) (*Nodes, string) {
	t.Helper()
	if missing := Missing(); missing != "" {
		t.Skip(missing)
	}
	dir := t.TempDir()
	start := func(program string, args ...string) {
		path, err := exec.LookPath(program)
		if err != nil {
			t.Skipf("%s is not installed; run `dev/openstack/openstack up --dataplane`", program)
		}
		p, err := process.Start(process.Program{
			Name: program, Path: path, Args: args, Log: filepath.Join(dir, program+".log"), Patience: stopPatience,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Kill)
	}
	for _, base := range []string{"nb", "sb"} {
		file, socket := filepath.Join(dir, base+".db"), filepath.Join(dir, base+".sock")
		schema := "/usr/share/ovn/ovn-" + base + ".ovsschema"
		if output, err := exec.Command("ovsdb-tool", "create", file, schema).CombinedOutput(); err != nil {
			t.Skipf("OVN's databases cannot be made: %v: %s", err, output)
		}
		start("ovsdb-server", file, "--remote=punix:"+socket, "--unixctl="+file+".ctl", "-vsyslog:off")
	}
	northbound, southbound := "unix:"+filepath.Join(dir, "nb.sock"), "unix:"+filepath.Join(dir, "sb.sock")
	for base, socket := range map[string]string{"nb": northbound, "sb": southbound} {
		err := poll(startPatience, func() error {
			return exec.Command("ovn-"+base+"ctl", "--timeout=10", "--db="+socket, "init").Run()
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	start("ovn-northd", "--ovnnb-db="+northbound, "--ovnsb-db="+southbound,
		"--unixctl="+filepath.Join(dir, "northd.ctl"), "-vsyslog:off")
	n, err := Start(Options{Dir: dir, Names: names, Southbound: filepath.Join(dir, "sb.sock")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return n, northbound
}

func TestPacketsGoFromNodeToNodeByOVN(t *testing.T) {
	n, northbound := startNodes(t, "left", "right")
	ovn := []string{"--timeout=30", "--db=" + northbound, "ls-add", "net"}
	for i, node := range n.All {
		mac, address := "02:00:00:00:00:0"+strconv.Itoa(i), "192.0.2."+strconv.Itoa(i+1)
		ovn = append(ovn, "--", "lsp-add", "net", node.Name, "--", "lsp-set-addresses", node.Name, mac+" "+address)
		err := node.script(`
ip netns add pod
ip link add tap0 type veth peer name eth0 netns pod
ip link set tap0 up
ovs-vsctl --timeout=30 add-port br-int tap0 -- set Interface tap0 "external-ids:iface-id=$1"
ip -n pod link set eth0 address "$2" mtu 1442 up; ip -n pod addr add "$3/24" dev eth0`, node.Name, mac, address)
		if err != nil {
			t.Fatal(err)
		}
	}
	if output, err := exec.Command("ovn-nbctl", ovn...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
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
	if err != nil {
		t.Fatal(err)
	}
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
	if err := n.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
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

func TestRelayReachesThisMachine(t *testing.T) {
	n, _ := startNodes(t, "alone")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		connection, err := listener.Accept()
		if err == nil {
			_, _ = connection.Write([]byte("hello"))
			_ = connection.Close()
		}
	}()
	if err := n.All[0].Relay(listener.Addr().String()); err != nil {
		t.Fatal(err)
	}
	address := netip.MustParseAddrPort(listener.Addr().String())
	got, err := n.All[0].Run("busybox", "nc", address.Addr().String(), strconv.Itoa(int(address.Port())))
	if err != nil || got != "hello" {
		t.Errorf("got %q, %v", got, err)
	}
}

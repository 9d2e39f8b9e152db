// Package nodetest brings up for tests what is on a node: network namespaces, and Open vSwitch and OVN from the
// machine's packages, with their own folders and sockets.
package nodetest

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// prefix begins the names of all network namespaces of tests.
const prefix = "nd-"

var counter atomic.Int64

// Env has to be set for the tests that change the machine: they make network namespaces and run Open vSwitch. With it,
// they fail for what the machine lacks. make test-dataplane sets it, once the packages are there.
const Env = "NODETEST"

// Skip skips a test for what the machine lacks. It fails the test if Env is set.
func Skip(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv(Env) != "" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// NeedsRoot skips a test that network namespaces or other users are for.
func NeedsRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		Skip(t, "needs root, for network namespaces")
	}
	Needs(t, "ip")
}

// Needs skips a test for which a program is missing, or without Env.
func Needs(t testing.TB, programs ...string) {
	t.Helper()
	if os.Getenv(Env) == "" {
		t.Skip("it changes the machine; run it with " + Env + "=1, or make test-dataplane")
	}
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			Skip(t, "needs the program %s: %v; on Debian install iproute2, openvswitch-switch, ovn-host and ovn-central",
				program, err)
		}
	}
}

// Netns is a network namespace.
type Netns string

// NewNetns makes a network namespace for a test.
func NewNetns(t testing.TB, name string) Netns {
	t.Helper()
	NeedsRoot(t)
	n := Netns(fmt.Sprintf("%s%s-%d-%d", prefix, name, os.Getpid(), counter.Add(1)))
	if out, err := exec.Command("ip", "netns", "add", string(n)).CombinedOutput(); err != nil {
		Skip(t, "cannot make a network namespace: %v: %s", err, out)
	}
	t.Cleanup(func() { n.Delete() })
	if _, err := n.Run("ip", "link", "set", "lo", "up"); err != nil {
		t.Fatal(err)
	}
	return n
}

// Path is the file of the namespace.
func (n Netns) Path() string { return filepath.Join("/run/netns", string(n)) }

// Delete deletes the namespace and what is in it.
func (n Netns) Delete() { _ = exec.Command("ip", "netns", "del", string(n)).Run() }

// Command is a command in the namespace.
func (n Netns) Command(ctx context.Context, program string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "nsenter", append([]string{"--net=" + n.Path(), program}, args...)...)
}

// Run runs a command in the namespace and returns what it prints.
func (n Netns) Run(program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return output(n.Command(ctx, program, args...))
}

func output(c *exec.Cmd) (string, error) {
	var out, stderr bytes.Buffer
	c.Stdout, c.Stderr = &out, &stderr
	if err := c.Run(); err != nil {
		return out.String(), fmt.Errorf("%s: %w: %s%s", strings.Join(c.Args, " "), err, stderr.String(), out.String())
	}
	return strings.TrimSpace(out.String()), nil
}

// Frames returns the beginnings of the frames in a pcap, which has to be whole.
func Frames(t testing.TB, pcap []byte) (frames [][]byte) {
	t.Helper()
	const header, record = 24, 16
	if len(pcap) < header || binary.LittleEndian.Uint32(pcap) != 0xa1b23c4d {
		t.Fatalf("no pcap with nanoseconds: %x", pcap[:min(len(pcap), header)])
	}
	for rest := pcap[header:]; len(rest) > 0; {
		size := 0
		if len(rest) >= record {
			size = int(binary.LittleEndian.Uint32(rest[8:]))
		}
		if len(rest) < record+size {
			t.Fatalf("after %d frames, the pcap ends with %d bytes of one", len(frames), len(rest))
		}
		frames, rest = append(frames, rest[record:record+size]), rest[record+size:]
	}
	return frames
}

// Eventually repeats a check until it succeeds. It fails the test with the last error after a while.
func Eventually(t testing.TB, check func() error) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		<-ticker.C
	}
}

// OVS is an Open vSwitch with its own folder.
type OVS struct {
	t   testing.TB
	dir string
	// netns is where ovs-vswitchd runs; empty for a database without it.
	netns Netns
	// StopDatabase ends the database.
	StopDatabase func()
}

// NewOVSDB starts the database of an Open vSwitch that has no ovs-vswitchd. It needs no privilege.
func NewOVSDB(t testing.TB) *OVS {
	t.Helper()
	Needs(t, "ovsdb-server", "ovsdb-tool", "ovs-vsctl")
	// The path of a unix socket is short.
	dir, err := os.MkdirTemp("", "nd") //nolint:usetesting // the path of a unix socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	o := &OVS{t: t, dir: dir}
	const schema = "/usr/share/openvswitch/vswitch.ovsschema"
	if _, err := os.Stat(schema); err != nil {
		Skip(t, "needs Open vSwitch's schema: %v", err)
	}
	if _, err := output(exec.Command("ovsdb-tool", "create", o.file("conf.db"), schema)); err != nil {
		t.Fatal(err)
	}
	o.StartDatabase()
	o.Ctl("--no-wait", "init")
	return o
}

// NewOVS starts Open vSwitch in user space, in a network namespace.
func NewOVS(t testing.TB, netns Netns) *OVS {
	t.Helper()
	Needs(t, "ovs-vswitchd", "nsenter")
	o := NewOVSDB(t)
	o.netns = netns
	o.daemon("vswitchd", "ovs-vswitchd", o.Endpoint(), "--disable-system", "--unixctl="+o.file("vswitchd.ctl"))
	return o
}

func (o *OVS) file(name string) string { return filepath.Join(o.dir, name) }

// Endpoint is where the database listens.
func (o *OVS) Endpoint() string { return "unix:" + o.file("db.sock") }

// StartDatabase starts the database.
func (o *OVS) StartDatabase() {
	o.t.Helper()
	o.StopDatabase = o.daemon("ovsdb", "ovsdb-server", o.file("conf.db"), "--remote=punix:"+o.file("db.sock"),
		"--unixctl="+o.file("ovsdb.ctl"))
}

// daemon runs a daemon until the test ends, or until it is told to stop.
func (o *OVS) daemon(name, program string, args ...string) (stop func()) {
	o.t.Helper()
	args = append(args, "--pidfile="+o.file(name+".pid"), "--detach", "--no-chdir",
		"--log-file="+o.file(name+".log"), "-vconsole:off")
	command := exec.Command(program, args...)
	if o.netns != "" {
		command = o.netns.Command(context.Background(), program, args...)
	}
	command.Env = append(os.Environ(), "OVS_RUNDIR="+o.dir, "OVN_RUNDIR="+o.dir, "OVS_LOGDIR="+o.dir, "OVN_LOGDIR="+o.dir)
	if _, err := output(command); err != nil {
		o.t.Fatal(err)
	}
	text, err := os.ReadFile(o.file(name + ".pid"))
	if err != nil {
		o.t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		o.t.Fatal(err)
	}
	var stopped atomic.Bool
	stop = func() {
		if stopped.Swap(true) {
			return
		}
		_ = syscall.Kill(pid, syscall.SIGTERM)
		for range 200 {
			// A zombie has ended, regardless of who reaps it.
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			if err != nil || bytes.Contains(stat, []byte(") Z ")) {
				return
			}
			<-time.After(10 * time.Millisecond)
		}
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	o.t.Cleanup(stop)
	return stop
}

// Ctl runs ovs-vsctl and returns what it prints.
func (o *OVS) Ctl(args ...string) string {
	o.t.Helper()
	out, err := o.TryCtl(args...)
	if err != nil {
		o.t.Fatal(err)
	}
	return out
}

// TryCtl is Ctl that may fail.
func (o *OVS) TryCtl(args ...string) (string, error) {
	return output(exec.Command("ovs-vsctl", append([]string{"--db=" + o.Endpoint(), "--timeout=10"}, args...)...))
}

// OVN runs ovn-northd and ovn-controller for a node. Its logical switches are made by hand.
type OVN struct{ *OVS }

// NewOVN starts OVN beside an Open vSwitch in user space.
func NewOVN(t testing.TB, netns Netns, hostname string) *OVN {
	t.Helper()
	Needs(t, "ovn-northd", "ovn-controller", "ovn-nbctl")
	for _, schema := range []string{"nb", "sb"} {
		if _, err := os.Stat("/usr/share/ovn/ovn-" + schema + ".ovsschema"); err != nil {
			Skip(t, "needs OVN's schema: %v", err)
		}
	}
	o := &OVN{NewOVS(t, netns)}
	for _, name := range []string{"nb", "sb"} {
		schema := "/usr/share/ovn/ovn-" + name + ".ovsschema"
		if _, err := output(exec.Command("ovsdb-tool", "create", o.file(name+".db"), schema)); err != nil {
			t.Fatal(err)
		}
		o.daemon(name, "ovsdb-server", o.file(name+".db"), "--remote=punix:"+o.file(name+".sock"),
			"--unixctl="+o.file(name+".ctl"))
	}
	o.NB("init")
	o.daemon("northd", "ovn-northd", "--ovnnb-db=unix:"+o.file("nb.sock"), "--ovnsb-db=unix:"+o.file("sb.sock"),
		"--unixctl="+o.file("northd.ctl"))
	o.Ctl("--no-wait", "set", "Open_vSwitch", ".", "external-ids:system-id="+hostname, "external-ids:hostname="+hostname,
		"external-ids:ovn-remote=unix:"+o.file("sb.sock"), "external-ids:ovn-encap-type=geneve",
		"external-ids:ovn-encap-ip=127.0.0.1", "external-ids:ovn-bridge-datapath-type=netdev")
	o.daemon("controller", "ovn-controller", o.Endpoint())
	return o
}

// NB runs ovn-nbctl.
func (o *OVN) NB(args ...string) string {
	o.t.Helper()
	args = append([]string{"--db=unix:" + o.file("nb.sock"), "--timeout=10"}, args...)
	out, err := output(exec.Command("ovn-nbctl", args...))
	if err != nil {
		o.t.Fatal(err)
	}
	return out
}

// Mode returns the permissions of a file.
func Mode(t testing.TB, path string) os.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

// OpenTo lets every user open a file.
func OpenTo(t testing.TB, path string) {
	t.Helper()
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
}

// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"cloudteam.ztgame.com/network-controller/dev/process"
	"cloudteam.ztgame.com/network-controller/internal/node/link"
)

const (
	// startPatience bounds how long a program of a node may take to serve, on a machine that compiles at the same time.
	startPatience = time.Minute
	// stopPatience bounds how long one may take to end.
	stopPatience = 10 * time.Second
	// underlay is the range of the nodes' own addresses, of RFC 2544's range for tests.
	underlay = "198.18.0."
)

// Missing says why this machine cannot run nodes, with the remedy; empty where it can.
func Missing() string { return missing("--dataplane", "ovn-controller") }

// missing is Missing for nodes with a program more, which `dev/openstack/openstack up` installs with an option.
func missing(option, more string) string {
	if os.Geteuid() != 0 {
		return "nodes need root, for namespaces; run as root"
	}
	var lacks []string
	for _, program := range []string{
		"ovs-vswitchd", "ovsdb-server", "ovsdb-tool", "ovs-vsctl", more, "ip", "mount",
	} {
		if _, err := exec.LookPath(program); err != nil {
			lacks = append(lacks, program)
		}
	}
	if len(lacks) > 0 {
		return "nodes need " + strings.Join(lacks, ", ") +
			"; run `dev/openstack/openstack up " + option + "`, which installs the packages"
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		return "nodes need /dev/net/tun for Open vSwitch in user space, which this machine lacks"
	}
	return ""
}

// Options say which nodes Start makes.
type Options struct {
	// Dir gets the nodes' files and logs. It MUST exist.
	Dir string
	// Names are the nodes' names, in the cluster and in Neutron.
	Names []string
	// Southbound is the path of the socket of OVN's southbound database.
	Southbound string
	// Broker is the URL of the message broker of a Neutron whose Open vSwitch agents run on the nodes, in the place of
	// OVN: "rabbit://user:password@127.0.0.1:5672/". Empty is for OVN.
	Broker string
	// Root is the folder of another Debian, whose programs the nodes have; empty is for the machine's.
	Root string
}

// Nodes are nodes on one underlay.
type Nodes struct {
	// All are in the order of Options.Names.
	All []*Node

	fabric *space
	// proxy is that of Proxy.
	proxy *http.Server
}

// Start makes the nodes, and returns when Open vSwitch and ovn-controller, or Neutron's agent, run on each. On failure
// nothing is left.
func Start(o Options) (n *Nodes, err error) {
	missing := Missing()
	if o.Broker != "" {
		missing = MissingForNeutronAgents()
	}
	if missing != "" {
		return nil, errors.New(missing)
	}
	removeOldCgroups()
	n = &Nodes{}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Stop(context.Background()))
		}
	}()
	if n.fabric, err = newSpace("fabric", unix.CLONE_NEWNET); err != nil {
		return n, err
	}
	if err := n.fabric.script("ip link add br0 type bridge; ip link set br0 up"); err != nil {
		return n, err
	}
	n.fabric.on(func() { err = link.TxChecksumOff("br0") }) // the nodes' switches do not complete what comes from outside
	if err != nil {
		return n, err
	}
	// All start before the first is waited for: an agent of Neutron's takes ten seconds.
	var serve []func() error
	for i, name := range o.Names {
		node, err := newNode(filepath.Join(o.Dir, name), name, underlay+fmt.Sprint(i+1), o.Root)
		if err != nil {
			return n, err
		}
		n.All = append(n.All, node)
		err = n.fabric.script(`ip link add "$1" type veth peer name up0 netns "$2"; ip link set "$1" master br0 up`,
			fmt.Sprintf("node%d", i+1), fmt.Sprint(node.holder.PID()))
		if err != nil {
			return n, err
		}
		if err := node.startOpenvSwitch(); err != nil {
			return n, err
		}
		var serves func() error
		if o.Broker != "" {
			serves, err = node.startNeutronAgent(o.Broker)
		} else {
			serves, err = node.startController(o.Southbound)
		}
		if err != nil {
			return n, err
		}
		serve = append(serve, serves)
	}
	for _, serves := range serve {
		if err := serves(); err != nil {
			return n, err
		}
	}
	return n, nil
}

// Stop ends everything on the nodes and removes what they made. It returns when all of it is gone; when ctx ends, it
// waits for nothing more to end by itself.
func (n *Nodes) Stop(ctx context.Context) error {
	var errs []error
	if n.proxy != nil {
		errs = append(errs, n.proxy.Close())
	}
	for _, node := range n.All {
		errs = append(errs, node.stop(ctx))
	}
	if n.fabric != nil {
		n.fabric.close()
	}
	return errors.Join(errs...)
}

// Outside runs a program on the underlay, where routers of Neutron have their external addresses. br0 is its interface.
func (n *Nodes) Outside(name string, args ...string) (string, error) {
	return n.fabric.run("", nil, name, args...)
}

// Node is one node. Run and RunWith are safe for concurrent use.
type Node struct {
	// Name is in the cluster and in Neutron; Address is on the underlay.
	Name, Address string
	// Dir has its files; Dir/logs has a log of each program.
	Dir string

	// space has the node's namespaces.
	*space
	// holder is the first process of the PID namespace.
	holder *process.Process
	// programs are in the order in which they started.
	programs []*process.Process
	// listeners are those of Relay.
	listeners []net.Listener
	// cgroup is the name of the kubelet's cgroup, in each hierarchy; empty without a kubelet.
	cgroup string
	// execs counts those of Exec, whose ids differ.
	execs atomic.Int64
}

// newNode makes a node without any program on it. root is Options.Root.
func newNode(dir, name, address, root string) (_ *Node, err error) {
	for _, folder := range []string{"logs", "sysctl"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o700); err != nil {
			return nil, err
		}
	}
	n := &Node{Name: name, Address: address, Dir: dir}
	flags := unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWUTS
	if n.space, err = newSpace(name, flags); err != nil {
		return nil, err
	}
	n.holder, err = process.Start(process.Program{
		Name: name + "'s first process", Path: "/bin/sh", On: n.on, Orphaned: syscall.SIGKILL,
		// It waits for the orphans that become its children.
		Args: []string{"-c", "while :; do sleep 3600 & wait; done"},
	})
	if err != nil {
		n.close()
		return nil, err
	}
	// /run of its own makes each program's default socket the node's. The parameters of the kernel are the machine's:
	// the kubelet gets copies to write to.
	err = n.script(`
mount --make-rprivate /
[ -z "$3" ] || mount --bind "$3/usr" /usr
mount -t proc proc /proc
mount -t tmpfs -o mode=755 tmpfs /run
mkdir /run/netns /run/openvswitch /run/ovn /run/lock
hostname "$1"
ip link set lo up
for parameter in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops \
    kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
  [ -e "/proc/sys/$parameter" ] || continue
  copy=$2/sysctl/$(basename "$parameter")
  cat "/proc/sys/$parameter" >"$copy"
  mount --bind "$copy" "/proc/sys/$parameter"
done`, name, dir, root)
	if err != nil {
		return nil, errors.Join(err, n.stop(context.Background()))
	}
	return n, nil
}

// startOpenvSwitch starts Open vSwitch in user space, with the underlay's interface in a bridge.
func (n *Node) startOpenvSwitch() error {
	if err := n.script(`
ovsdb-tool create "$1/ovs.db" /usr/share/openvswitch/vswitch.ovsschema
ip link set up0 up`, n.Dir); err != nil {
		return err
	}
	database, err := n.Start("ovsdb-server", nil, "ovsdb-server", filepath.Join(n.Dir, "ovs.db"),
		"--remote=punix:/run/openvswitch/db.sock", "--pidfile", "-vsyslog:off")
	if err != nil {
		return err
	}
	err = await(database, func() error { return n.script("ovs-vsctl --timeout=10 --no-wait init") })
	if err != nil {
		return err
	}
	err = n.script(`ovs-vsctl --timeout=10 --no-wait set Open_vSwitch . "external-ids:system-id=$1" \
"external-ids:hostname=$1"`, n.Name)
	if err != nil {
		return err
	}
	_, err = n.Start("ovs-vswitchd", nil, "ovs-vswitchd", "--disable-system", "--pidfile", "-vsyslog:off")
	if err != nil {
		return err
	}
	// The address is on the bridge: that is how Open vSwitch finds its way to a tunnel's other end in user space.
	err = n.script(`ovs-vsctl --timeout=60 -- add-br br-phys -- set Bridge br-phys datapath_type=netdev \
-- add-port br-phys up0`)
	if err != nil {
		return err
	}
	return n.addressBridge()
}

// startController starts ovn-controller, which serves waits for. It makes br-int with the type that is said here, and
// patches to br-phys for flat and VLAN networks. Routers may have their gateways on the node.
func (n *Node) startController(southbound string) (serves func() error, err error) {
	err = n.script(`ovs-vsctl --timeout=60 set Open_vSwitch . "external-ids:ovn-remote=unix:$2" \
external-ids:ovn-encap-type=geneve "external-ids:ovn-encap-ip=$1" external-ids:ovn-bridge-datapath-type=netdev \
external-ids:ovn-bridge-mappings=physnet1:br-phys external-ids:ovn-cms-options=enable-chassis-as-gw`,
		n.Address, southbound)
	if err != nil {
		return nil, err
	}
	controller, err := n.Start("ovn-controller", nil, "ovn-controller", "--pidfile", "-vsyslog:off")
	if err != nil {
		return nil, err
	}
	return func() error {
		return await(controller, func() error { return n.script("ovs-vsctl --timeout=10 br-exists br-int") })
	}, nil
}

// addressBridge gives the node its address, on an interface that goes with ovs-vswitchd.
func (n *Node) addressBridge() error {
	return poll(startPatience, func() error {
		return n.script(`ip addr replace "$1/24" dev br-phys; ip link set br-phys up`, n.Address)
	})
}

// Start starts a program on the node. Its output goes to Dir/logs/<name>.log. It ends at the latest with the node; an
// env of nil is this process's.
func (n *Node) Start(name string, env []string, path string, args ...string) (*process.Process, error) {
	full, err := exec.LookPath(path)
	if err != nil {
		return nil, err
	}
	p, err := process.Start(process.Program{
		Name: name + " on " + n.Name, Path: full, Args: args, Env: env, Dir: n.Dir,
		Log: filepath.Join(n.Dir, "logs", name+".log"), Patience: stopPatience, On: n.on,
	})
	if err == nil {
		n.programs = append(n.programs, p)
	}
	return p, err
}

// program gives a program of the node by the name that Start had.
func (n *Node) program(name string) (int, *process.Process, error) {
	for i, p := range n.programs {
		if p.Name == name+" on "+n.Name {
			return i, p, nil
		}
	}
	return 0, nil, fmt.Errorf("no program %s was started on %s", name, n.Name)
}

// Kill ends a program of the node as kill -9 does. Programs that it started go on if they are in their own groups.
func (n *Node) Kill(name string) error {
	_, p, err := n.program(name)
	if err == nil {
		p.Kill()
	}
	return err
}

// Restart kills a program of the node, unless it has ended, and starts it again with args, or with the same as before.
func (n *Node) Restart(name string, args ...string) error {
	i, p, err := n.program(name)
	if err != nil {
		return err
	}
	p.Kill()
	again := p.Program
	if len(args) > 0 {
		again.Args = args
	}
	if n.programs[i], err = process.Start(again); err != nil {
		return err
	}
	switch name {
	case "ovs-vswitchd":
		return n.addressBridge()
	case "kubelet":
		return n.keepKubelet(i)
	}
	return nil
}

// Vanish ends all on the node at once, as a power failure does. No process gets a signal first.
func (n *Node) Vanish() { n.holder.Kill() }

// Vanished reports whether nothing runs on the node any more.
func (n *Node) Vanished() bool { return n.holder.Ended() }

// Proc is where this machine sees /proc of the node's.
func (n *Node) Proc() string { return fmt.Sprintf("/proc/%d/root/proc", n.holder.PID()) }

// await polls until check gives nil, and gives up when the program ends or time is up.
func await(p *process.Process, check func() error) error {
	ended := false
	err := poll(startPatience, func() error {
		err := check()
		if ended = err != nil && p.Ended(); ended {
			return nil
		}
		return err
	})
	if ended {
		return p.Died()
	}
	if err != nil {
		return errors.Join(err, p.Describe("does not serve"))
	}
	return nil
}

// Enter is a command that enters the node's namespaces with a shell.
func (n *Node) Enter() string {
	return fmt.Sprintf("nsenter --target %d --mount --net --pid --uts", n.holder.PID())
}

// Run runs a program on the node to its end, for a minute at most, and returns its standard output.
func (n *Node) Run(name string, args ...string) (string, error) { return n.run("", nil, name, args...) }

// RunWith is Run with standard input and an environment; nil is this process's.
func (n *Node) RunWith(stdin string, env []string, name string, args ...string) (string, error) {
	return n.run(stdin, env, name, args...)
}

// stop ends everything on the node and removes what outlives a process. The node's files stay.
func (n *Node) stop(ctx context.Context) error {
	// An ovn-controller that is asked to exit takes its node out of the southbound database.
	var errs []error
	if !n.holder.Ended() && ctx.Err() == nil {
		_, _ = n.run("", nil, "ovn-appctl", "--timeout=5", "-t", "ovn-controller", "exit")
	}
	// One of Neutron's agents needs more time to end than it gets, and leaves nothing of its own outside of the node.
	_ = n.Kill(neutronAgent)
	for _, p := range slices.Backward(n.programs) {
		errs = append(errs, p.Stop(ctx))
	}
	for _, l := range n.listeners {
		errs = append(errs, l.Close())
	}
	// All that is left ends with it, containers too.
	n.holder.Kill()
	n.close()
	if n.cgroup != "" {
		errs = append(errs, poll(stopPatience, func() error { return removeCgroup(n.cgroup) }))
	}
	return errors.Join(errs...)
}

package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	cnitypes "github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/plugins/pkg/ns"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"cloudteam.ztgame.com/network-controller/internal/node/agentapi"
	"cloudteam.ztgame.com/network-controller/internal/node/link"
	"cloudteam.ztgame.com/network-controller/internal/node/nodetest"
	"cloudteam.ztgame.com/network-controller/internal/node/ovs"
	"cloudteam.ztgame.com/network-controller/internal/node/trunk"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

const (
	testNode = "node1"
	// testWait is how long an ADD waits that is to succeed. A busy machine may need long.
	testWait = 30 * time.Second
	// shortWait is how long one waits that is to fail.
	shortWait = time.Second
)

// world is a node with Open vSwitch, OVN and an agent, or a virtual machine with a trunk and an agent. The test is the container runtime, the controller and Neutron.
type world struct {
	t    *testing.T
	host nodetest.Netns
	mode cloudteamv1.AttachmentMode
	// ovn is the node's OVN; nil in the mode ovs, which has ovs only, and in the mode trunk, which has trunk only.
	ovn   *nodetest.OVN
	ovs   *nodetest.OVS
	trunk *nodetest.Trunk
	ports cache.Indexer
	// next are the ports that Pods of the node get next.
	next   cache.Indexer
	socket string
	// parent is the next agent's --parent.
	parent string
	// wrap changes what the next agent sees of the switch.
	wrap func(vswitch) vswitch
	// wait is how long the next agent waits.
	wait time.Duration

	agent *Agent
	stop  func()
	// told counts the writes of conditions.
	told atomic.Int64
	mu   sync.Mutex
}

func newWorld(t *testing.T, mode cloudteamv1.AttachmentMode) *world {
	t.Helper()
	w := &world{t: t, host: nodetest.NewNetns(t, "host"), ports: cache.NewIndexer(cache.MetaNamespaceKeyFunc, indexers()), wait: testWait, mode: mode,
		next: cache.NewIndexer(cache.MetaNamespaceKeyFunc, standbyIndexers())}
	switch mode {
	case cloudteamv1.AttachmentOVN:
		w.ovn = nodetest.NewOVN(t, w.host, testNode)
		w.ovs = w.ovn.OVS
	case cloudteamv1.AttachmentTrunk:
		w.trunk = nodetest.NewTrunk(t, w.host)
	default:
		w.ovs = nodetest.NewOVS(t, w.host)
		w.ovs.Ctl("add-br", "br-int", "--", "set", "Bridge", "br-int", "datapath_type=netdev")
	}
	dir, err := os.MkdirTemp("", "nd") //nolint:usetesting // the path of a unix socket is short
	expect.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	w.socket = filepath.Join(dir, "agent.sock")
	w.start()
	t.Cleanup(func() { w.stop() })
	return w
}

// restart starts an agent that waits for another time.
func (w *world) restart(wait time.Duration) {
	w.t.Helper()
	w.wait = wait
	w.start()
}

// start starts an agent that knows nothing, as after a crash of the last one.
func (w *world) start() {
	w.t.Helper()
	if w.stop != nil {
		w.stop()
	}
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), ktesting.NewLogger(w.t, ktesting.NewConfig(ktesting.Verbosity(0)))))
	var s vswitch = inNetns{trunk.New(w.parent), w.host}
	mode := string(cloudteamv1.AttachmentTrunk)
	if w.trunk == nil {
		s, mode = ovs.New(w.ovs.Endpoint(), "br-int"), ""
	}
	seen := s
	if w.wrap != nil {
		seen = w.wrap(s)
	}
	a := &Agent{
		node: testNode, mode: mode, wait: w.wait, vswitch: seen, ports: w.ports, standbys: w.next, synced: func() bool { return true }, links: w.links,
		claims: map[types.UID]string{}, names: map[types.UID]string{}, silent: map[types.UID]time.Time{}, told: map[types.UID]telling{}, write: w.write,
	}
	socket, err := listen(w.socket)
	expect.NoError(w.t, err)
	expect.NoError(w.t, ns.WithNetNSPath(w.host.Path(), func(ns.NetNS) error { return link.Watch(ctx, a.linksChanged.Change) }))
	var group sync.WaitGroup
	group.Go(func() { s.Run(ctx) })
	group.Go(func() { a.Run(ctx) })
	group.Go(func() {
		if err := a.serve(ctx, socket); err != nil {
			w.t.Error(err)
		}
	})
	w.agent, w.stop = a, sync.OnceFunc(func() { cancel(); group.Wait() })
}

// inNetns is a trunk's switch in a network namespace.
type inNetns struct {
	*trunk.Switch
	netns nodetest.Netns
}

func (i inNetns) do(f func() error) error {
	return ns.WithNetNSPath(i.netns.Path(), func(ns.NetNS) error { return f() })
}

// Run has the socket in the network namespace, whichever thread reads it.
func (i inNetns) Run(ctx context.Context) {
	_ = i.do(func() error { i.Switch.Run(ctx); return nil })
}

func (i inNetns) State(ctx context.Context) (s ovs.State, err error) {
	err = i.do(func() error { s, err = i.Switch.State(ctx); return err })
	return s, err
}

func (i inNetns) Put(ctx context.Context, w ovs.Wanted, remove ...ovs.Port) error {
	return i.do(func() error { return i.Switch.Put(ctx, w, remove...) })
}

func (i inNetns) Remove(ctx context.Context, ports ...ovs.Port) error {
	return i.do(func() error { return i.Switch.Remove(ctx, ports...) })
}

func (w *world) links() (devices []link.Device, err error) {
	err = ns.WithNetNSPath(w.host.Path(), func(ns.NetNS) error {
		devices, err = link.List()
		return err
	})
	return devices, err
}

// write is the API server: the condition comes back by the cache.
func (w *world) write(_ context.Context, p *cloudteamv1.NetworkPort, c condition) error {
	w.told.Add(1)
	w.change(p.Name, func(p *cloudteamv1.NetworkPort) {
		meta.SetStatusCondition(&p.Status.Conditions, metav1.Condition{
			Type: cloudteamv1.ConditionAttached, Status: c.status, Reason: c.reason, Message: c.message,
		})
	})
	return nil
}

// change changes a NetworkPort in the agent's cache.
func (w *world) change(name string, change func(*cloudteamv1.NetworkPort)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	object, ok, err := w.ports.GetByKey("team-a/" + name)
	if err != nil || !ok {
		return
	}
	p := object.(*cloudteamv1.NetworkPort).DeepCopy()
	change(p)
	expect.NoError(w.t, w.ports.Update(p))
	w.agent.portsChanged.Change()
}

// port is the n-th port of a network, in Neutron and in OVN.
func portID(n int) string    { return fmt.Sprintf("%08d-0000-0000-0000-000000000000", n) }
func portMAC(n int) string   { return fmt.Sprintf("fa:16:3e:00:00:%02x", n) }
func address(n int) string   { return fmt.Sprintf("10.7.0.%d", n) }
func vlan(n int) int32       { return int32(100 + n) } //nolint:gosec // small
func podUID(n int) types.UID { return types.UID(fmt.Sprintf("pod-%d", n)) }

// bind makes the NetworkPort pN, bound to the Pod N and prepared for the node, and its port in OVN.
func (w *world) bind(n int) {
	w.t.Helper()
	w.bindTo(n, n)
}

// bindTo is bind for a port of another Pod's number.
func (w *world) bindTo(n, pod int) {
	w.t.Helper()
	w.inOVN(portID(n), n)
	p := &cloudteamv1.NetworkPort{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: fmt.Sprintf("p%d", n), UID: types.UID(fmt.Sprintf("port-%d", n))}}
	p.Status.PortID, p.Status.MAC, p.Status.MTU = portID(n), portMAC(n), 1400
	p.Status.Addresses = []cloudteamv1.PortAddress{{Address: address(n) + "/24", Gateway: "10.7.0.254"}, {Address: fmt.Sprintf("fd00:7::%d/64", n)}}
	p.Status.BoundTo = &cloudteamv1.PortBinding{Kind: "Pod", Name: fmt.Sprintf("web-%d", pod), UID: podUID(pod)}
	p.Status.Attachment = &cloudteamv1.PortAttachment{Node: testNode, Mode: w.mode, PortID: portID(n), PodUID: podUID(pod)}
	if w.trunk != nil {
		p.Status.Attachment.VLAN, p.Status.Attachment.ParentMAC = vlan(n), w.trunk.MAC
	}
	expect.NoError(w.t, w.ports.Add(p))
	w.agent.portsChanged.Change()
}

// inOVN makes a port of the logical switch.
func (w *world) inOVN(id string, n int) {
	w.t.Helper()
	if w.trunk != nil {
		w.trunk.Join(int(vlan(n)))
	}
	if w.ovn == nil {
		return
	}
	addresses := fmt.Sprintf("%s %s fd00:7::%d", portMAC(n), address(n), n)
	w.ovn.NB("--may-exist", "ls-add", "net", "--", "lsp-add", "net", id, "--", "lsp-set-addresses", id, addresses,
		"--", "lsp-set-port-security", id, addresses)
}

// pod is a Pod's sandbox.
type pod struct {
	w       *world
	n       int
	sandbox string
	netns   nodetest.Netns
	// mac is the hint in the annotation, and ifName the interface.
	mac, ifName string
}

// sandbox makes a sandbox of the Pod N.
func (w *world) sandbox(n int, id string) *pod {
	w.t.Helper()
	return &pod{w: w, n: n, sandbox: id, netns: nodetest.NewNetns(w.t, "pod"), mac: portMAC(n), ifName: "net1"}
}

// run has the container runtime start the plugin.
func (p *pod) run(command string) (string, *cnitypes.Error) {
	p.w.t.Helper()
	self, err := os.Executable()
	expect.NoError(p.w.t, err)
	c := p.w.host.Command(context.Background(), self)
	c.Env = []string{
		"CNI_COMMAND=" + command, "CNI_CONTAINERID=" + p.sandbox, "CNI_IFNAME=" + p.ifName, "CNI_PATH=/nowhere", "CNI_NETNS=" + p.netns.Path(),
		fmt.Sprintf("CNI_ARGS=IgnoreUnknown=1;K8S_POD_NAMESPACE=team-a;K8S_POD_NAME=web-%d;K8S_POD_UID=%s", p.n, podUID(p.n)),
		agentapi.SocketEnv + "=" + p.w.socket,
	}
	version := "1.0.0"
	if command == "GC" || command == "STATUS" {
		version = "1.1.0"
	}
	c.Stdin = strings.NewReader(fmt.Sprintf(`{"cniVersion":%q,"name":"net","type":"neutron-port","runtimeConfig":{"mac":%q},"cni.dev/valid-attachments":[]}`,
		version, p.mac))
	var out, stderr bytes.Buffer
	c.Stdout, c.Stderr = &out, &stderr
	if err := c.Run(); err != nil {
		refusal := &cnitypes.Error{}
		if json.Unmarshal(out.Bytes(), refusal) != nil {
			p.w.t.Fatalf("%s: %v: %s%s", command, err, out.String(), stderr.String())
		}
		return "", refusal
	}
	return out.String(), nil
}

// must is run that must succeed.
func (p *pod) must(command string) {
	p.w.t.Helper()
	if _, failed := p.run(command); failed != nil {
		p.w.t.Fatalf("%s of Pod %d, sandbox %s: %v", command, p.n, p.sandbox, failed)
	}
}

// reaches sends a packet to another Pod, and waits for it there.
func (p *pod) reaches(other *pod) error {
	var from, to net.PacketConn
	err := errors.Join(
		ns.WithNetNSPath(p.netns.Path(), func(ns.NetNS) (err error) { from, err = net.ListenPacket("udp4", ":0"); return err }),
		ns.WithNetNSPath(other.netns.Path(), func(ns.NetNS) (err error) { to, err = net.ListenPacket("udp4", ":7007"); return err }))
	if from != nil {
		defer from.Close()
	}
	if to != nil {
		defer to.Close()
	}
	if err != nil {
		return err
	}
	if _, err := from.WriteTo([]byte("x"), &net.UDPAddr{IP: net.ParseIP(address(other.n)), Port: 7007}); err != nil {
		return err
	}
	if err := to.SetReadDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
		return err
	}
	_, _, err = to.ReadFrom(make([]byte, 9))
	return err
}

// connected waits until two Pods reach each other.
func (w *world) connected(a, b *pod) {
	w.t.Helper()
	nodetest.Eventually(w.t, func() error { return errors.Join(a.reaches(b), b.reaches(a)) })
}

// attached waits for the condition of a NetworkPort.
func (w *world) attached(name string, status metav1.ConditionStatus) metav1.Condition {
	w.t.Helper()
	var have metav1.Condition
	nodetest.Eventually(w.t, func() error {
		object, _, err := w.ports.GetByKey("team-a/" + name)
		if err != nil {
			return err
		}
		c := meta.FindStatusCondition(object.(*cloudteamv1.NetworkPort).Status.Conditions, cloudteamv1.ConditionAttached)
		if c == nil || c.Status != status {
			return fmt.Errorf("the condition Attached of %s is %+v, want %s", name, c, status)
		}
		have = *c
		return nil
	})
	return have
}

// plugged waits until the switch has exactly these ports of Pods.
func (w *world) plugged(want ...string) {
	w.t.Helper()
	nodetest.Eventually(w.t, func() error {
		if w.trunk != nil {
			s, err := w.agent.vswitch.State(w.t.Context())
			if err != nil {
				return err
			}
			have := map[string]bool{}
			for _, p := range s.Ports {
				have[p.IfaceID] = p.Open
			}
			for _, id := range want {
				if !have[id] || len(have) != len(want) {
					return fmt.Errorf("plugged are %v, want %v", have, want)
				}
			}
			if len(have) > len(want) {
				return fmt.Errorf("plugged are %v, want %v", have, want)
			}
			return nil
		}
		out, err := w.ovs.TryCtl("--bare", "--columns=external_ids", "find", "Interface", "external_ids:owner=network-controller")
		if err != nil {
			return err
		}
		var have []string
		for line := range strings.SplitSeq(out, "\n") {
			for word := range strings.FieldsSeq(line) {
				if id, ok := strings.CutPrefix(word, "iface-id="); ok {
					have = append(have, id)
				}
			}
		}
		if len(have) != len(want) {
			return fmt.Errorf("plugged are %v, want %v", have, want)
		}
		for _, id := range want {
			if !strings.Contains(strings.Join(have, " "), id) {
				return fmt.Errorf("plugged are %v, want %v", have, want)
			}
		}
		return nil
	})
}

// device is the name of the host's end of the port N.
func device(n int) string { return deviceOf(portID(n)) }

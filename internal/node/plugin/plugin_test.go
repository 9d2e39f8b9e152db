package plugin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	cnitypes "github.com/containernetworking/cni/pkg/types"
	cniv1 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/plugins/pkg/ns"
	"golang.org/x/sys/unix"

	"cloudteam.ztgame.com/network-controller/internal/node/agentapi"
	"cloudteam.ztgame.com/network-controller/internal/node/mark"
	"cloudteam.ztgame.com/network-controller/internal/node/nodetest"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// fakeAgent answers the plugin as it is told, and notes what it is asked.
type fakeAgent struct {
	socket string

	mu      sync.Mutex
	asked   []string
	request map[string]agentapi.Request
	answers map[string]any
	hook    map[string]func()
}

func newFakeAgent(t *testing.T) *fakeAgent {
	t.Helper()
	dir, err := os.MkdirTemp("", "nd") //nolint:usetesting // the path of a unix socket is short
	expect.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	a := &fakeAgent{
		socket: filepath.Join(dir, "s"), request: map[string]agentapi.Request{}, answers: map[string]any{}, hook: map[string]func(){},
	}
	listener, err := net.Listen("unix", a.socket)
	expect.NoError(t, err)
	server := &http.Server{Handler: a}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return a
}

func (a *fakeAgent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var request agentapi.Request
	_ = json.NewDecoder(r.Body).Decode(&request)
	a.asked, a.request[r.URL.Path] = append(a.asked, strings.TrimPrefix(r.URL.Path, "/v1/")), request
	if hook := a.hook[r.URL.Path]; hook != nil {
		hook()
	}
	answer := a.answers[r.URL.Path]
	if raw, ok := answer.(string); ok {
		http.Error(w, raw, http.StatusNotFound)
		return
	}
	if _, ok := answer.(*agentapi.Error); ok {
		w.WriteHeader(http.StatusConflict)
	}
	if answer == nil {
		answer = struct{}{}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

const (
	portID  = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
	device  = "tap0a1b2c3d-4e"
	podMAC  = "fa:16:3e:00:00:01"
	podUID  = "11111111-2222-3333-4444-555555555555"
	portUID = "66666666-7777-8888-9999-000000000000"
	config1 = `{"cniVersion":"1.0.0","name":"example","type":"neutron-port","capabilities":{"ips":true,"mac":true},` +
		`"runtimeConfig":{"mac":"fa:16:3e:00:00:01"}}`
)

// prepared is the agent's answer for a sandbox.
func prepared(sandbox string) *agentapi.Interface {
	return &agentapi.Interface{
		PortID: portID, Device: device, MAC: podMAC, MTU: 1442, TxChecksumOff: true,
		Alias: mark.Mark{Sandbox: sandbox, IfName: "net1", PodUID: podUID, PortUID: portUID}.String(),
		Addresses: []agentapi.Address{
			{Address: "192.168.7.5/24", Gateway: "192.168.7.1"}, {Address: "fd00:7::5/64", Gateway: "fd00:7::1"},
		},
	}
}

// run is one start of the plugin by a container runtime.
type run struct {
	command, config, sandbox, socket string
	// host is where the runtime runs; empty for the test's own network namespace.
	host, netns nodetest.Netns
	env         map[string]string
}

func (r run) do(t *testing.T) (string, *cnitypes.Error) {
	t.Helper()
	self, err := os.Executable()
	expect.NoError(t, err)
	command := exec.Command(self)
	if r.host != "" {
		command = r.host.Command(t.Context(), self)
	}
	env := map[string]string{
		"CNI_COMMAND": r.command, "CNI_CONTAINERID": r.sandbox, "CNI_IFNAME": "net1", "CNI_PATH": "/nowhere",
		"CNI_ARGS": "IgnoreUnknown=1;K8S_POD_NAMESPACE=team-a;K8S_POD_NAME=web;K8S_POD_INFRA_CONTAINER_ID=" + r.sandbox +
			";K8S_POD_UID=" + podUID,
		agentapi.SocketEnv: r.socket,
	}
	if r.netns != "" {
		env["CNI_NETNS"] = r.netns.Path()
	}
	maps.Copy(env, r.env)
	for name, value := range env {
		command.Env = append(command.Env, name+"="+value)
	}
	command.Stdin = strings.NewReader(r.config)
	var out, stderr bytes.Buffer
	command.Stdout, command.Stderr = &out, &stderr
	if err := command.Run(); err != nil {
		refusal := &cnitypes.Error{}
		if json.Unmarshal(out.Bytes(), refusal) != nil {
			t.Fatalf("%s: %v: %s%s", r.command, err, out.String(), stderr.String())
		}
		return "", refusal
	}
	return out.String(), nil
}

// TestAttach makes an interface of both families in a real network namespace, and takes it away.
func TestAttach(t *testing.T) {
	host, pod := nodetest.NewNetns(t, "host"), nodetest.NewNetns(t, "pod")
	agent := newFakeAgent(t)
	agent.answers[agentapi.PathPrepare] = prepared("c1")
	agent.answers[agentapi.PathCheck] = prepared("c1")
	var atPlug string
	agent.hook[agentapi.PathPlug] = func() { atPlug, _ = host.Run("ip", "-o", "link", "show", device) }
	withRoute := strings.Replace(config1, `"runtimeConfig"`,
		`"routes":[{"dst":"10.9.0.0/16","gw":"192.168.7.9"},{"dst":"fd99::/64","gw":"fd00:7::9"}],"runtimeConfig"`, 1)
	r := run{command: "ADD", config: withRoute, sandbox: "c1", socket: agent.socket, host: host, netns: pod}
	out, failed := r.do(t)
	if failed != nil {
		t.Fatal(failed)
	}
	result := &cniv1.Result{}
	expect.NoError(t, json.Unmarshal([]byte(out), result))
	if len(result.IPs) != 2 || result.IPs[0].Address.String() != "192.168.7.5/24" || len(result.Interfaces) != 2 ||
		result.Interfaces[1].Mac != podMAC || *result.IPs[1].Interface != 1 || len(result.Routes) != 2 {
		t.Errorf("the result is %s", out)
	}
	if want := []string{"prepare", "plug"}; !slices.Equal(agent.asked, want) {
		t.Errorf("asked %v, want %v", agent.asked, want)
	}
	if got := agent.request[agentapi.PathPrepare]; got.PodUID != podUID || got.PodNamespace != "team-a" || got.MAC != podMAC ||
		got.Sandbox != "c1" || got.IfName != "net1" || got.Netns != pod.Path() {
		t.Errorf("prepare was asked with %+v", got)
	}
	expect.Equal(t, portID, agent.request[agentapi.PathPlug].PortID, "the port that plug was asked for")
	if !strings.Contains(atPlug, "UP") || !strings.Contains(atPlug, "alias network-controller/1 c1 net1") {
		t.Errorf("at the plug the host's end was %q", atPlug)
	}
	for _, expect := range []struct{ where, what, want string }{
		{"pod", "ip -o link show net1", podMAC}, {"pod", "ip -o link show net1", "mtu 1442"},
		{"pod", "ip -o link show net1", "LOWER_UP"},
		{"pod", "ip -o addr show dev net1", "192.168.7.5/24"}, {"pod", "ip -o addr show dev net1", "fd00:7::5/64"},
		{"pod", "ip route", "10.9.0.0/16 via 192.168.7.9 dev net1"}, {"pod", "ip -6 route", "fd99::/64 via fd00:7::9 dev net1"},
		{"pod", "cat /proc/sys/net/ipv6/conf/net1/accept_ra", "0"},
		{"pod", "ethtool -k net1", "tx-checksumming: off"},
		{"host", "cat /proc/sys/net/ipv6/conf/" + device + "/disable_ipv6", "1"},
		{"host", "ip -o link show " + device, "mtu 1442"},
	} {
		where := map[string]nodetest.Netns{"pod": pod, "host": host}[expect.where]
		words := strings.Fields(expect.what)
		if _, err := exec.LookPath(words[0]); err != nil {
			continue
		}
		got, err := where.Run(words[0], words[1:]...)
		if err != nil || !strings.Contains(got, expect.want) {
			t.Errorf("%s in the %s: want %q, got %q, %v", expect.what, expect.where, expect.want, got, err)
		}
	}
	if tentative, err := pod.Run("ip", "-o", "addr", "show", "dev", "net1", "scope", "global", "tentative"); err != nil || tentative != "" {
		t.Errorf("an address cannot be used yet: %q, %v", tentative, err)
	}

	check := r
	check.command = "CHECK"
	check.config = strings.Replace(withRoute, `"runtimeConfig"`, `"prevResult":`+out+`,"runtimeConfig"`, 1)
	if _, failed := check.do(t); failed != nil {
		t.Errorf("CHECK: %v", failed)
	}
	if _, err := pod.Run("ip", "addr", "del", "192.168.7.5/24", "dev", "net1"); err != nil {
		t.Fatal(err)
	}
	if _, failed := check.do(t); failed == nil || !strings.Contains(failed.Msg, "192.168.7.5/24") {
		t.Errorf("CHECK without an address: %v", failed)
	}

	// The kubelet retries in another sandbox, and then the runtime ends the first one.
	second := nodetest.NewNetns(t, "pod")
	agent.answers[agentapi.PathPrepare] = prepared("c2")
	again := r
	again.sandbox, again.netns = "c2", second
	if _, failed := again.do(t); failed != nil {
		t.Fatal(failed)
	}
	late := r
	late.command = "DEL"
	if _, failed := late.do(t); failed != nil {
		t.Errorf("late DEL: %v", failed)
	}
	if _, err := second.Run("ip", "link", "show", "net1"); err != nil {
		t.Errorf("the late DEL of an older sandbox took the interface of the younger one: %v", err)
	}
	if got := agent.request[agentapi.PathUnplug]; got.Sandbox != "c1" || got.IfName != "net1" {
		t.Errorf("unplug was asked with %+v", got)
	}
	end := again
	end.command = "DEL"
	for range 2 {
		if _, failed := end.do(t); failed != nil {
			t.Errorf("DEL: %v", failed)
		}
	}
	if _, err := second.Run("ip", "link", "show", "net1"); err == nil {
		t.Error("after DEL the interface is there")
	}
}

// TestRoutesOfThePortsSubnets has the routes of all subnets of a Network in the configuration. A Pod gets those whose
// gateway it can reach, and starts without the others: the kernel would refuse them.
func TestRoutesOfThePortsSubnets(t *testing.T) {
	const (
		first  = `{"dst":"10.9.0.0/16","gw":"192.168.7.9"}`
		second = `{"dst":"10.9.0.0/16","gw":"192.168.8.9"}`
		sixth  = `{"dst":"fd99::/64","gw":"fd00:7::9"}`
		local  = `{"dst":"fd98::/64","gw":"fe80::9"}`
	)
	v4, v6 := agentapi.Address{Address: "192.168.7.5/24"}, agentapi.Address{Address: "fd00:7::5/64"}
	for name, c := range map[string]struct {
		routes    string
		addresses []agentapi.Address
		want      []string
	}{
		"the port is in the first of two subnets": {
			first + "," + second, []agentapi.Address{v4}, []string{"10.9.0.0/16 via 192.168.7.9"},
		},
		"the port is in the second": {
			first + "," + second, []agentapi.Address{{Address: "192.168.8.5/24"}}, []string{"10.9.0.0/16 via 192.168.8.9"},
		},
		"the port has no IPv6 address":    {first + "," + sixth + "," + local, []agentapi.Address{v4}, []string{"10.9.0.0/16 via 192.168.7.9"}},
		"the port has no IPv4 address":    {first + "," + sixth, []agentapi.Address{v6}, []string{"fd99::/64 via fd00:7::9"}},
		"a router's link-local address":   {local, []agentapi.Address{v4, v6}, []string{"fd98::/64 via fe80::9"}},
		"the port is the gateway itself":  {`{"dst":"10.9.0.0/16","gw":"192.168.7.5"},{"dst":"fd99::/64","gw":"fd00:7::5"}`, []agentapi.Address{v4, v6}, nil},
		"a gateway of no subnet":          {`{"dst":"10.9.0.0/16","gw":"172.16.0.1"}`, []agentapi.Address{v4, v6}, nil},
		"one destination by two gateways": {first + `,{"dst":"10.9.0.0/16","gw":"192.168.7.8"}`, []agentapi.Address{v4}, []string{"10.9.0.0/16", "via 192.168.7.9", "via 192.168.7.8"}},
	} {
		t.Run(name, func(t *testing.T) {
			host, pod := nodetest.NewNetns(t, "host"), nodetest.NewNetns(t, "pod")
			agent := newFakeAgent(t)
			wanted := prepared("c1")
			wanted.Addresses = c.addresses
			agent.answers[agentapi.PathPrepare] = wanted
			config := strings.Replace(config1, `"runtimeConfig"`, `"routes":[`+c.routes+`],"runtimeConfig"`, 1)
			out, failed := run{command: "ADD", config: config, sandbox: "c1", socket: agent.socket, host: host, netns: pod}.do(t)
			if failed != nil {
				t.Fatal(failed)
			}
			result := &cniv1.Result{}
			expect.NoError(t, json.Unmarshal([]byte(out), result))
			v4, err4 := pod.Run("ip", "route")
			v6, err6 := pod.Run("ip", "-6", "route")
			expect.NoError(t, errors.Join(err4, err6))
			told := 0
			for _, want := range c.want {
				expect.Contains(t, v4+v6, want, "the Pod's routes")
				told += strings.Count(want, "via")
			}
			if have := strings.Count(v4+v6, "via"); have != told || len(result.Routes) != told {
				t.Errorf("want %d routes; the result has %v, and the Pod\n%s\n%s", told, result.Routes, v4, v6)
			}
		})
	}
}

// TestHostIgnoresPod shows that a Pod cannot reach the node itself through its interface, whatever it sends, when a
// switch in user space leaves the packets to the node's network stack, too.
func TestHostIgnoresPod(t *testing.T) {
	host, pod := nodetest.NewNetns(t, "host"), nodetest.NewNetns(t, "pod")
	agent := newFakeAgent(t)
	agent.answers[agentapi.PathPrepare] = prepared("c1")
	for _, command := range []string{"ip link add lan type veth peer name lan0", "ip addr add 192.168.7.1/24 dev lan", "ip link set lan up",
		"ip -6 addr add fd00:7::1/64 dev lan nodad", "ip link set lan0 up"} {
		words := strings.Fields(command)
		if _, err := host.Run(words[0], words[1:]...); err != nil {
			t.Fatal(err)
		}
	}
	if _, failed := (run{command: "ADD", config: config1, sandbox: "c1", socket: agent.socket, host: host, netns: pod}).do(t); failed != nil {
		t.Fatal(failed)
	}
	out, err := host.Run("ip", "-o", "link", "show", device)
	expect.NoError(t, err)
	_, mac, _ := strings.Cut(out, "link/ether ")
	mac, _, _ = strings.Cut(mac, " ")
	for _, address := range []string{"192.168.7.1", "fd00:7::1"} {
		if _, err := pod.Run("ip", "neigh", "replace", address, "lladdr", mac, "dev", "net1"); err != nil {
			t.Fatal(err)
		}
		var node, guest net.PacketConn
		in := func(n nodetest.Netns, do func() error) {
			t.Helper()
			expect.NoError(t, ns.WithNetNSPath(n.Path(), func(ns.NetNS) error { return do() }))
		}
		in(host, func() (err error) { node, err = net.ListenPacket("udp", net.JoinHostPort(address, "7007")); return err })
		in(pod, func() (err error) { guest, err = net.ListenPacket("udp", ":0"); return err })
		t.Cleanup(func() { node.Close(); guest.Close() })
		// Without the plugin's settings the first one arrives.
		if _, err := guest.WriteTo([]byte("x"), &net.UDPAddr{IP: net.ParseIP(address), Port: 7007}); err != nil {
			t.Fatal(err)
		}
		expect.NoError(t, node.SetReadDeadline(time.Now().Add(300*time.Millisecond)))
		if _, from, err := node.ReadFrom(make([]byte, 9)); err == nil {
			t.Errorf("the node received at %s what %s sent", address, from)
		}
	}
}

// TestAnnounces shows that neighbors learn at once where an address is.
func TestAnnounces(t *testing.T) {
	host, pod := nodetest.NewNetns(t, "host"), nodetest.NewNetns(t, "pod")
	agent := newFakeAgent(t)
	agent.answers[agentapi.PathPrepare] = prepared("c1")
	packets := -1
	agent.hook[agentapi.PathPlug] = func() {
		err := ns.WithNetNSPath(host.Path(), func(ns.NetNS) error {
			iface, err := net.InterfaceByName(device)
			if err != nil {
				return err
			}
			const all = unix.ETH_P_ALL<<8&0xff00 | unix.ETH_P_ALL>>8
			if packets, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, all); err != nil {
				return err
			}
			return errors.Join(unix.Bind(packets, &unix.SockaddrLinklayer{Protocol: all, Ifindex: iface.Index}),
				unix.SetsockoptTimeval(packets, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100_000}))
		})
		if err != nil {
			t.Error(err)
		}
	}
	if _, failed := (run{command: "ADD", config: config1, sandbox: "c1", socket: agent.socket, host: host, netns: pod}).do(t); failed != nil {
		t.Fatal(failed)
	}
	defer unix.Close(packets)
	var arp, neighbor bool
	v4, v6 := net.IPv4(192, 168, 7, 5).To4(), net.ParseIP("fd00:7::5")
	nodetest.Eventually(t, func() error {
		buffer := make([]byte, 1500)
		n, _, err := unix.Recvfrom(packets, buffer, 0)
		frame := buffer[:max(n, 0)]
		switch {
		case err == nil && len(frame) >= 42 && frame[12] == 8 && frame[13] == 6:
			arp = arp || bytes.Equal(frame[28:32], v4) && bytes.Equal(frame[38:42], v4)
		case err == nil && len(frame) >= 78 && frame[12] == 0x86 && frame[54] == 136:
			neighbor = neighbor || bytes.Equal(frame[62:78], v6)
		}
		if !arp || !neighbor {
			return fmt.Errorf("gratuitous ARP: %v; unsolicited neighbor advertisement: %v", arp, neighbor)
		}
		return nil
	})
}

// TestFailedAttachLeavesNothing has the plug fail.
func TestFailedAttachLeavesNothing(t *testing.T) {
	host, pod := nodetest.NewNetns(t, "host"), nodetest.NewNetns(t, "pod")
	agent := newFakeAgent(t)
	agent.answers[agentapi.PathPrepare] = prepared("c1")
	agent.answers[agentapi.PathPlug] = agentapi.Errorf(agentapi.CodeTryAgain, "no packets flow")
	_, failed := run{command: "ADD", config: config1, sandbox: "c1", socket: agent.socket, host: host, netns: pod}.do(t)
	if failed == nil || failed.Code != 11 || failed.Msg != "no packets flow" {
		t.Errorf("want CNI's error 11 with the agent's message, got %+v", failed)
	}
	if _, err := host.Run("ip", "link", "show", device); err == nil {
		t.Error("the interface is left")
	}
	if want := []string{"prepare", "plug", "unplug"}; !slices.Equal(agent.asked, want) {
		t.Errorf("asked %v, want %v", agent.asked, want)
	}
}

// TestForeignDeviceStays has the name taken by what is no veth pair, as by a virtual machine.
func TestForeignDeviceStays(t *testing.T) {
	host, pod := nodetest.NewNetns(t, "host"), nodetest.NewNetns(t, "pod")
	if _, err := host.Run("ip", "link", "add", device, "type", "bridge"); err != nil {
		t.Fatal(err)
	}
	agent := newFakeAgent(t)
	agent.answers[agentapi.PathPrepare] = prepared("c1")
	_, failed := run{command: "ADD", config: config1, sandbox: "c1", socket: agent.socket, host: host, netns: pod}.do(t)
	if failed == nil || !strings.Contains(failed.Msg, "not a veth pair") {
		t.Errorf("want a refusal, got %+v", failed)
	}
	if _, err := host.Run("ip", "link", "show", device); err != nil {
		t.Errorf("the interface of somebody else is gone: %v", err)
	}
}

// TestConfigurationChangesNothing has a tenant write into its NetworkAttachmentDefinition what the plugin must not take
// from there.
func TestConfigurationChangesNothing(t *testing.T) {
	agent, evil := newFakeAgent(t), newFakeAgent(t)
	agent.answers[agentapi.PathPrepare] = agentapi.Errorf(agentapi.CodeTryAgain, "later")
	config := fmt.Sprintf(`{"cniVersion":"1.0.0","name":"example","type":"neutron-port","socket":%[1]q,"agentSocket":%[1]q,
		"NETWORK_AGENT_SOCKET":%[1]q,"portID":"evil","podUID":"evil","podNamespace":"kube-system","sandbox":"evil","netns":"/evil",
		"ifname":"evil","device":"evil","mtu":9,"addresses":[{"address":"10.0.0.1/8"}],"dataDir":"/etc","ipam":{"type":"evil"},
		"args":{"cni":{"portID":"evil","K8S_POD_UID":"evil"}},"runtimeConfig":{"mac":%[2]q,"ips":["10.0.0.1/8"],"portID":"evil"}}`,
		evil.socket, podMAC)
	_, failed := run{command: "ADD", config: config, sandbox: "c1", socket: agent.socket, env: map[string]string{"CNI_NETNS": "/proc/1/ns/nothing"}}.do(t)
	if failed == nil || failed.Code != 11 {
		t.Errorf("got %+v", failed)
	}
	want := agentapi.Request{
		PodNamespace: "team-a", PodName: "web", PodUID: podUID, Sandbox: "c1", IfName: "net1", Netns: "/proc/1/ns/nothing", MAC: podMAC,
	}
	expect.Equal(t, want, agent.request[agentapi.PathPrepare], "the request")
	expect.Empty(t, evil.asked, "what the configuration's socket was asked")
}

// TestErrors are those that need no network namespace.
func TestErrors(t *testing.T) {
	agent := newFakeAgent(t)
	agent.answers[agentapi.PathPrepare] = prepared("c1")
	agent.answers[agentapi.PathStatus] = agentapi.Errorf(agentapi.CodeNotAvailable, "no bridge")
	missing := filepath.Join(t.TempDir(), "s")
	older, newer := newFakeAgent(t), newFakeAgent(t)
	for _, path := range []string{agentapi.PathPrepare, agentapi.PathStatus, agentapi.PathCheck, agentapi.PathGC} {
		older.answers[path], newer.answers[path] = "404 page not found", []string{"another form"}
	}
	older.answers[agentapi.PathUnplug] = "404 page not found"
	config11 := strings.Replace(config1, "1.0.0", "1.1.0", 1)
	withResult := strings.Replace(config1, `"runtimeConfig"`, `"prevResult":{"cniVersion":"1.0.0"},"runtimeConfig"`, 1)
	netns := map[string]string{"CNI_NETNS": "/proc/1/ns/nothing"}
	withRoute := func(route string) string {
		return strings.Replace(config1, `"runtimeConfig"`, `"routes":[`+route+`],"runtimeConfig"`, 1)
	}
	for name, c := range map[string]struct {
		run
		code uint
		says string
	}{
		"ADD without an agent":           {run{command: "ADD", config: config1, socket: missing, env: netns}, 11, "DaemonSet network-agent"},
		"ADD without a Pod's UID":        {run{command: "ADD", config: config1, socket: agent.socket, env: map[string]string{"CNI_NETNS": "/x", "CNI_ARGS": "K8S_POD_NAMESPACE=a;K8S_POD_NAME=b"}}, 4, "K8S_POD_UID"},
		"ADD without arguments":          {run{command: "ADD", config: config1, socket: agent.socket, env: map[string]string{"CNI_NETNS": "/x", "CNI_ARGS": ""}}, 4, "K8S_POD_UID"},
		"a bad route":                    {run{command: "ADD", config: withRoute(`{"dst":"10.0.0.0","gw":"192.168.7.1"}`), socket: agent.socket, env: netns}, 7, "10.0.0.0"},
		"another form":                   {run{command: "ADD", config: withRoute(`{"dst":7}`), socket: agent.socket, env: netns}, 7, "use that of a Network"},
		"a gateway of another family":    {run{command: "ADD", config: withRoute(`{"dst":"10.0.0.0/8","gw":"fd00::1"}`), socket: agent.socket, env: netns}, 7, "same family"},
		"no network namespace":           {run{command: "ADD", config: config1, socket: agent.socket, env: netns}, 999, "/proc/1/ns/nothing"},
		"STATUS without an agent":        {run{command: "STATUS", config: config11, socket: missing}, 50, "does not answer"},
		"STATUS of an agent that cannot": {run{command: "STATUS", config: config11, socket: agent.socket}, 50, "no bridge"},
		"GC without an agent":            {run{command: "GC", config: config11, socket: missing}, 11, "does not answer"},
		"ADD with another version":       {run{command: "ADD", config: config1, socket: older.socket, env: netns}, 11, "have the DaemonSet network-agent run one version"},
		"ADD with another form":          {run{command: "ADD", config: config1, socket: newer.socket, env: netns}, 11, "have the DaemonSet network-agent run one version"},
		"CHECK with another version":     {run{command: "CHECK", config: withResult, socket: older.socket, env: netns}, 11, "404"},
		"GC with another version":        {run{command: "GC", config: config11, socket: older.socket}, 11, "404"},
		"STATUS with another version":    {run{command: "STATUS", config: config11, socket: older.socket}, 50, "have the DaemonSet network-agent run one version"},
	} {
		c.sandbox = "c1"
		_, failed := c.do(t)
		if failed == nil || failed.Code != c.code || !strings.Contains(failed.Msg+failed.Details, c.says) {
			t.Errorf("%s: want code %d and %q, got %+v", name, c.code, c.says, failed)
		}
	}
	for name, c := range map[string]run{
		"DEL without an agent":              {command: "DEL", config: config1, socket: missing},
		"DEL with another version":          {command: "DEL", config: config1, socket: older.socket},
		"DEL without anything":              {command: "DEL", config: config1, socket: agent.socket, env: map[string]string{"CNI_ARGS": ""}},
		"DEL with a bad configuration":      {command: "DEL", config: withRoute(`{"dst":7}`), socket: agent.socket},
		"DEL with a network namespace gone": {command: "DEL", config: config1, socket: agent.socket},
		"GC":                                {command: "GC", config: config11, socket: agent.socket},
		"VERSION":                           {command: "VERSION", config: config11, socket: agent.socket},
	} {
		c.sandbox = "c1"
		if _, failed := c.do(t); failed != nil {
			t.Errorf("%s: %+v", name, failed)
		}
	}
}

// TestAnEndDoesNotWaitForAHungAgent: a Pod ends while an agent has taken the request and does not answer it. The
// interface is gone.
func TestAnEndDoesNotWaitForAHungAgent(t *testing.T) {
	host, pod := nodetest.NewNetns(t, "host"), nodetest.NewNetns(t, "pod")
	agent := newFakeAgent(t)
	agent.answers[agentapi.PathPrepare] = prepared("c1")
	r := run{command: "ADD", config: config1, sandbox: "c1", socket: agent.socket, host: host, netns: pod}
	if _, failed := r.do(t); failed != nil {
		t.Fatal(failed)
	}
	hung, asked := make(chan struct{}), make(chan struct{}, 1)
	defer close(hung)
	agent.mu.Lock()
	agent.hook[agentapi.PathUnplug] = func() { asked <- struct{}{}; <-hung }
	agent.mu.Unlock()
	r.command = "DEL"
	if _, failed := r.do(t); failed != nil {
		t.Error(failed)
	}
	expect.Len(t, 1, asked, "how often the agent was asked")
	if left, err := host.Run("ip", "-br", "link"); err != nil || strings.Contains(left, device) {
		t.Errorf("after DEL the host has %s, %v", left, err)
	}
}

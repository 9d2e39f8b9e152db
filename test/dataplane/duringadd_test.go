//go:build linux

package dataplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"cloudteam.ztgame.com/network-controller/dev/dataplane/nodes"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// duringADD gives the nodes a plugin of that name as others write them: only while the runtime waits for it does it have
// Neutron make the port of a network, bound to the node. It is for comparison, and does only what a first packet needs.
func (w *world) duringADD(name, network string) {
	w.Helper()
	socket := filepath.Join(programs, name+".sock")
	listener, err := net.Listen("unix", socket)
	expect.NoError(w, err)
	p := &portMaker{w: w, network: network, ports: map[string]string{}}
	server := &http.Server{Handler: p}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	w.Cleanup(func() {
		_ = server.Close()
		serving.Wait()
	})
	for i, node := range w.nodes.All {
		script := fmt.Sprintf(pluginScript, socket, i)
		//nolint:gosec // the runtime executes it
		expect.NoError(w, os.WriteFile(filepath.Join(node.Dir, "cni", "bin", name), []byte(script), 0o755))
	}
}

// pluginScript is the plugin, for a socket and a node's place. Nodes have Neutron's own Python.
const pluginScript = `#!/usr/bin/python3
import os, socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(%q)
asked = tuple(os.environ.get("CNI_" + name, "") for name in ("COMMAND", "CONTAINERID", "NETNS", "IFNAME"))
s.sendall(("GET /?node=%d&command=%%s&sandbox=%%s&netns=%%s&interface=%%s HTTP/1.0\r\n\r\n" %% asked).encode())
head, _, body = s.makefile("rb").read().partition(b"\r\n\r\n")
print(body.decode())
sys.exit(b" 200 " not in head.splitlines()[0])
`

// portMaker answers the plugin of duringADD.
type portMaker struct {
	w       *world
	network string

	mu    sync.Mutex
	ports map[string]string // by sandbox
}

// plug connects a Pod with a port of Open vSwitch, and waits until OVN serves it.
const plug = `ip link add "$1" mtu 1400 type veth peer name "p$1" mtu 1400 address "$5" netns "$2"
nsenter --net="$2" sh -eus -- "p$1" "$3" "$6" <<'IN'
ip link set "$1" name "$2"
ip addr add "$3" dev "$2"
ip link set "$2" up
IN
ip link set "$1" up
ovs-vsctl --timeout=60 add-port br-int "$1" -- set Interface "$1" "external_ids:iface-id=$4" "external_ids:attached-mac=\"$5\""
ovs-vsctl --timeout=120 wait-until Interface "$1" external_ids:ovn-installed=true`

// ServeHTTP implements http.Handler.
func (p *portMaker) ServeHTTP(answer http.ResponseWriter, r *http.Request) {
	of := r.URL.Query()
	at, err := strconv.Atoi(of.Get("node"))
	if err == nil {
		node := p.w.nodes.All[at]
		switch of.Get("command") {
		case "ADD":
			var address string
			if address, err = p.add(r.Context(), node, of.Get("sandbox"), of.Get("netns"), of.Get("interface")); err == nil {
				fmt.Fprintf(answer, `{"cniVersion":"1.0.0","interfaces":[{"name":%q,"sandbox":%q}],"ips":[{"interface":0,"address":%q}]}`,
					of.Get("interface"), of.Get("netns"), address)
			}
		case "DEL":
			p.mu.Lock()
			id := p.ports[of.Get("sandbox")]
			delete(p.ports, of.Get("sandbox"))
			p.mu.Unlock()
			if id != "" {
				_, err = node.Run("ovs-vsctl", "--timeout=60", "--if-exists", "del-port", device(id))
				err = errors.Join(err, p.w.admin.Neutron.Remove(context.WithoutCancel(r.Context()), "ports", id))
			}
		}
	}
	if err != nil {
		answer.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(answer, `{"cniVersion":"1.0.0","code":999,"msg":%q}`, err.Error())
	}
}

// device is the name of the node's end.
func device(port string) string { return "a" + port[:11] }

func (p *portMaker) add(
	ctx context.Context, node *nodes.Node, sandbox, netns, inside string,
) (address string, err error) {
	port, err := p.w.admin.Neutron.Create(ctx, "ports", harness.Resource{
		"network_id": p.network, "project_id": p.w.tenant.Project, "binding:host_id": node.Name,
	})
	if err != nil {
		return "", err
	}
	p.mu.Lock()
	p.ports[sandbox] = port.ID()
	p.mu.Unlock()
	address = port["fixed_ips"].([]any)[0].(map[string]any)["ip_address"].(string) + "/24"
	said, err := node.RunWith(plug, nil, "sh", "-eus", "--", device(port.ID()), netns, inside, port.ID(),
		port["mac_address"].(string), address)
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, strings.TrimSpace(said))
	}
	return address, nil
}

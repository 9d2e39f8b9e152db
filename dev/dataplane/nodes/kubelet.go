// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodes

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"cloudteam.ztgame.com/network-controller/dev/process"
)

// cniPrograms is where Debian's package puts the plugins of the CNI project.
const cniPrograms = "/usr/lib/cni"

// PodLogs is the folder in Node.Dir with the logs of the node's containers, in the form of the CRI.
const PodLogs = "pod-logs"

// MissingForKubelets says why this machine cannot run kubelets, with the remedy; empty where it can.
func MissingForKubelets() string {
	var lacks []string
	for _, program := range []string{"containerd", "ctr", "runc", "busybox", filepath.Join(cniPrograms, "ptp")} {
		if _, err := exec.LookPath(program); err != nil {
			lacks = append(lacks, program)
		}
	}
	if len(lacks) > 0 {
		return "kubelets need " + strings.Join(lacks, ", ") +
			"; run `dev/openstack/openstack up --dataplane`, which installs the packages"
	}
	return ""
}

// KubeletOptions say what a kubelet runs with.
type KubeletOptions struct {
	// Kubelet and Multus are the programs' paths.
	Kubelet, Multus string
	// Plugins are the paths of the CNI plugins that NetworkAttachmentDefinitions name.
	Plugins []string
	// Routes are the addresses of the node, as prefixes, that Pods reach by their first interface.
	Routes []string
	// Kubeconfig is one of the kubelet and of Multus. The node reaches the server that it names; see Relay.
	Kubeconfig string
}

// StartKubelet starts containerd and a kubelet, which registers the node under its name. The Node is Ready seconds
// later. Pods get their first interface from the ptp plugin, with an address that other nodes do not reach, and the
// others by Multus. They can run ImageBusybox. Their DNS server is the node's own address, for the
// domain cluster.local: a test may start a server there.
func (n *Node) StartKubelet(o KubeletOptions) (err error) {
	if n.cgroup, err = makeCgroup(n.Name); err != nil {
		return err
	}
	// Paths that the kubelet does not let be moved are below /var.
	err = n.script(`
cd "$1"
mkdir -p cni/bin cni/net.d cni/multus var-lib var-lib-work
mount -t overlay -o lowerdir=/var/lib,upperdir="$1/var-lib",workdir="$1/var-lib-work" overlay /var/lib
mount -t tmpfs tmpfs /var/log
ln -s "$2"/* cni/bin
shift 2
ln -sf "$@" cni/bin
# Where a DaemonSet installs its plugin.
mount -t tmpfs tmpfs /opt
mkdir -p /opt/cni/bin
mount --bind cni/bin /opt/cni/bin`, append([]string{n.Dir, cniPrograms, o.Multus}, o.Plugins...)...)
	if err != nil {
		return err
	}
	if err := n.writeConfiguration(o); err != nil {
		return err
	}
	containerd, err := n.Start("containerd", nil, "containerd", "--config", filepath.Join(n.Dir, "containerd.toml"))
	if err != nil {
		return err
	}
	err = await(containerd, func() error { return n.script("ctr --timeout 10s version >/dev/null") })
	if err != nil {
		return err
	}
	for _, image := range []image{pause, busybox} {
		if err := n.load(image); err != nil {
			return err
		}
	}
	_, err = n.Start("kubelet", nil, o.Kubelet, "--config="+filepath.Join(n.Dir, "kubelet.yaml"),
		"--kubeconfig="+o.Kubeconfig, "--root-dir="+filepath.Join(n.Dir, "kubelet"),
		"--cert-dir="+filepath.Join(n.Dir, "kubelet-pki"), "--hostname-override="+n.Name, "--node-ip="+n.Address,
		"--node-labels=network-controller/dataplane=true", "-v=2")
	return err
}

// keepKubelet waits until the kubelet serves. One that has ended is started again, as a service manager does: it ends
// where containerd was killed, too, and is not ready.
func (n *Node) keepKubelet(at int) error {
	return poll(startPatience, func() (err error) {
		if p := n.programs[at]; p.Ended() {
			if n.programs[at], err = process.Start(p.Program); err != nil {
				return err
			}
		}
		return n.script("busybox wget -q -O /dev/null http://127.0.0.1:10248/healthz")
	})
}

// writeConfiguration writes what containerd, the kubelet and Multus read.
func (n *Node) writeConfiguration(o KubeletOptions) error {
	in := func(name string) string { return filepath.Join(n.Dir, name) }
	routes := []any{}
	for _, to := range o.Routes {
		routes = append(routes, map[string]any{"dst": to})
	}
	multus := map[string]any{
		"cniVersion": "1.0.0", "name": "multus", "type": "multus", "kubeconfig": o.Kubeconfig,
		"confDir": in("cni/net.d"), "cniDir": in("cni/multus"), "binDir": in("cni/bin"),
		"logFile": in("logs/multus.log"), "logLevel": "verbose", "logToStderr": false,
		"delegates": []any{map[string]any{
			"cniVersion": "1.0.0", "name": "primary", "plugins": []any{map[string]any{
				"type": "ptp", "mtu": 1400, "ipam": map[string]any{
					"type": "host-local", "dataDir": in("cni/ipam"), "routes": routes,
					"ranges": []any{[]any{map[string]any{"subnet": n.podPrefix() + "0/24"}}},
				},
			}},
		}},
	}
	kubelet := map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		// Nobody reaches it but what runs on the nodes, and the API server by Proxy.
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": true}, "webhook": map[string]any{"enabled": false},
		},
		"authorization": map[string]any{"mode": "AlwaysAllow"},
		"cgroupDriver":  "cgroupfs", "cgroupRoot": "/" + n.cgroup, "failCgroupV1": false, "failSwapOn": false,
		"containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
		"enforceNodeAllocatable":   []string{}, "makeIPTablesUtilChains": false,
		// A child may not have a lower score than its parent here without a capability that containers lack.
		"oomScoreAdj":                 0,
		"imageGCHighThresholdPercent": 100,
		"evictionHard": map[string]any{
			"imagefs.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%", "memory.available": "10Mi",
		},
		// The node's own address on the Pods' first interfaces.
		"clusterDNS": []string{n.podPrefix() + "1"}, "clusterDomain": "cluster.local",
		"resolvConf": "", "nodeStatusUpdateFrequency": "2s", "syncFrequency": "5s",
		"volumePluginDir": in("kubelet-plugins"), "podLogsDir": in(PodLogs),
	}
	containerd := fmt.Sprintf(`version = 2
root = %q
oom_score = 0
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %q
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = %q
    conf_dir = %q
`, in("containerd"), pause.name, in("cni/bin"), in("cni/net.d"))
	for name, content := range map[string]any{"cni/net.d/00-multus.conf": multus, "kubelet.yaml": kubelet} {
		text, err := json.MarshalIndent(content, "", "  ") // which is YAML too
		if err != nil {
			return err
		}
		if err := os.WriteFile(in(name), text, 0o600); err != nil {
			return err
		}
	}
	return os.WriteFile(in("containerd.toml"), []byte(containerd), 0o600)
}

// podPrefix is how the addresses of the first interfaces of the node's Pods begin.
func (n *Node) podPrefix() string {
	return "10.244." + strings.TrimPrefix(n.Address, underlay) + "."
}

// Exec runs a program in a container of a Pod on the node, whose id is in the Pod's status ("containerd://…"), and
// returns its standard output.
func (n *Node) Exec(container string, command ...string) (string, error) {
	id := strings.TrimPrefix(container, "containerd://")
	args := []string{"-n", "k8s.io", "task", "exec", "--exec-id", fmt.Sprintf("exec-%d", n.execs.Add(1)), id}
	return n.Run("ctr", append(args, command...)...)
}

// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodes

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// neutronAgent is Neutron's Open vSwitch agent, as Debian's package calls it.
const neutronAgent = "neutron-openvswitch-agent"

// MissingForNeutronAgents says why this machine cannot run nodes with Neutron's Open vSwitch agent, with the remedy;
// empty where it can.
func MissingForNeutronAgents() string { return missing("--dataplane=ovs", neutronAgent) }

// startNeutronAgent starts Neutron's Open vSwitch agent, which serves waits for. The agent makes br-int and br-tun, and
// reaches the broker by this process.
func (n *Node) startNeutronAgent(broker string) (serves func() error, err error) {
	at, err := url.Parse(broker)
	if err != nil {
		return nil, fmt.Errorf("the broker of Neutron's agents: %w", err)
	}
	if err := n.Relay(at.Host, at.Host); err != nil {
		return nil, err
	}
	state := filepath.Join(n.Dir, "neutron")
	var privileges strings.Builder
	for _, context := range []string{"", "_conntrack", "_dhcp_release", "_link", "_namespace", "_ovs_vsctl"} {
		// It is root already, and there may be no sudo.
		fmt.Fprintf(&privileges, "[privsep%s]\nhelper_command = privsep-helper\n", context)
	}
	configuration := fmt.Sprintf(`[DEFAULT]
host = %[1]s
state_path = %[2]s
transport_url = %[3]s
use_stderr = true
[oslo_concurrency]
lock_path = %[2]s/lock
[ovs]
ovsdb_connection = unix:/run/openvswitch/db.sock
datapath_type = netdev
local_ip = %[4]s
[agent]
root_helper =
tunnel_types = vxlan
[securitygroup]
firewall_driver = openvswitch
%[5]s`, n.Name, state, broker, n.Address, privileges.String())
	// Without its own folder, the agent would read the distribution's.
	own := filepath.Join(state, "conf.d")
	if err := os.MkdirAll(own, 0o700); err != nil {
		return nil, err
	}
	file := filepath.Join(state, "agent.conf")
	if err := os.WriteFile(file, []byte(configuration), 0o600); err != nil {
		return nil, err
	}
	// The distribution's python has its modules, whatever comes first on PATH.
	env := []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + n.Dir, "LANG=C.UTF-8", "PYTHONDONTWRITEBYTECODE=1"}
	agent, err := n.Start(neutronAgent, env, "/usr/bin/python3", "-s", "/usr/bin/"+neutronAgent,
		"--config-file", file, "--config-dir", own)
	if err != nil {
		return nil, err
	}
	return func() error {
		return await(agent, func() error { return n.script("ovs-vsctl --timeout=10 br-exists br-tun") })
	}, nil
}

// Command network-agent connects the interfaces of a node's Pods to their ports in OpenStack Neutron. See
// network-agent --help.
package main

import (
	"os"

	"cloudteam.ztgame.com/network-controller/internal/cli"
	"cloudteam.ztgame.com/network-controller/internal/node/agent"
)

func main() { os.Exit(cli.Main(agent.NewCommand())) }

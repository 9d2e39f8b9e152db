// Command network-agent connects the interfaces of a node's Pods to their ports in OpenStack Neutron. See
// network-agent --help.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"cloudteam.ztgame.com/network-controller/internal/node/agent"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	if err := agent.NewCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "network-agent:", err)
		os.Exit(1)
	}
}

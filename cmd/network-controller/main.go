// Command network-controller reconciles Networks with OpenStack Neutron. See network-controller --help.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"cloudteam.ztgame.com/network-controller/internal/app"
)

func main() {
	// The first signal stops the process gracefully. It also restores the default handling, so that a second signal ends
	// the process at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	if err := app.NewCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "network-controller:", err)
		os.Exit(1)
	}
}

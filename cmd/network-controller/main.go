// Command network-controller makes Network objects real in OpenStack Neutron. See network-controller --help.
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
	// The first signal asks to stop, which lets running work finish. From then on signals have their usual effect
	// again, so that a second one ends the process at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	if err := app.NewCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "network-controller:", err)
		os.Exit(1)
	}
}

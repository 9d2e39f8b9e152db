// Command kubectl-network is a plugin of kubectl: kubectl network --help. It answers questions about networks.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"cloudteam.ztgame.com/network-controller/internal/kubectl"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	err := kubectl.NewCommand(streams).ExecuteContext(ctx)
	if _, silent := errors.AsType[*kubectl.ExitError](err); err != nil && !silent {
		fmt.Fprintln(os.Stderr, "Error:", err)
	}
	os.Exit(kubectl.ExitCode(err))
}

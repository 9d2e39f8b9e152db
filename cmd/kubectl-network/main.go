// Command kubectl-network is a plugin of kubectl: kubectl network --help. It answers questions about networks.
package main

import (
	"errors"
	"fmt"
	"os"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"cloudteam.ztgame.com/network-controller/internal/cli"
	"cloudteam.ztgame.com/network-controller/internal/kubectl"
)

func main() {
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	err := kubectl.NewCommand(streams).ExecuteContext(cli.Signals())
	if _, silent := errors.AsType[*kubectl.ExitError](err); err != nil && !silent {
		fmt.Fprintln(os.Stderr, "Error:", err)
	}
	os.Exit(kubectl.ExitCode(err))
}

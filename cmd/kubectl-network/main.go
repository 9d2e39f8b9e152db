// Command kubectl-network is a plugin of kubectl: kubectl network --help. It answers questions about networks.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"cloudteam.ztgame.com/network-controller/internal/cli"
	"cloudteam.ztgame.com/network-controller/internal/kubectl"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/text"
)

func main() {
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	err := kubectl.NewCommand(streams).ExecuteContext(cli.Signals())
	prefix := "Error: "
	if _, silent := errors.AsType[*kubectl.ExitError](err); err != nil && !silent {
		// It may have what users wrote, and a terminal would act on it.
		for line := range strings.Lines(err.Error()) {
			fmt.Fprintln(os.Stderr, prefix+text.Plain(strings.TrimSuffix(line, "\n")))
			prefix = ""
		}
	}
	os.Exit(kubectl.ExitCode(err))
}

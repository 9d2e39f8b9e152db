// Command bench measures network-controller: the built binary, against a real kube-apiserver and a Neutron that is real
// or emulated. Each figure that can be is a ratio to the same work done bare, by a loop of HTTP requests in the same
// run on the same machine, so that it means something on another machine, too. Calls are counted at a proxy in front of
// Neutron and at one in front of kube-apiserver, and not by the program's own metrics.
//
// `make bench` runs it, keeps what was measured in test/bench/results, and writes docs/benchmarks.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

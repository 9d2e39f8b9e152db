// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Command controlplane provides the programs of a Kubernetes control plane and runs them on this machine, for
// development and tests. It needs a Go toolchain the first time and no container runtime.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"cloudteam.ztgame.com/network-controller/dev/controlplane/internal/assets"
)

// stopSignals are the signals that ask the program to end. SIGHUP is one: it comes when the terminal is closed.
var stopSignals = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}

// errInterrupted is the cause with which a build ends that the user stopped.
var errInterrupted = errors.New("interrupted")

func main() {
	if err := newCommand().ExecuteContext(context.Background()); err != nil {
		_, _ = fmt.Fprintf(os.Stderr, "controlplane: %v\n", err)
		os.Exit(1)
	}
}

// newCommand returns the command with its subcommands. What a script reads goes to the command's output, everything
// else to standard error.
func newCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "controlplane",
		Short: "Run a Kubernetes control plane on this machine, for development and tests",
		Long: `Controlplane runs etcd and kube-apiserver, and if asked kube-controller-manager
and kube-scheduler, as processes on the loopback address of this machine. It can
play a Node, too.

Programs that are there already are used: those in the directory that
` + assets.EnvAssets + ` names, or in setup-envtest's store. Else released ones are
fetched from Kubernetes' site and checked by pinned checksums. What cannot be
fetched is built from source with the go command, which takes minutes. Both
happens once: they are cached. ` + assets.EnvReleases + `=off forbids to fetch.`,
		Example: `  # An API server for a while; Ctrl-C stops it and leaves nothing behind:
  controlplane up

  # The directory of programs that envtest needs:
  export ` + assets.EnvAssets + `=$(controlplane assets)`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cacheDir := cmd.PersistentFlags().String("cache", "",
		"directory for programs (default $"+assets.EnvCache+
			", else ${XDG_CACHE_HOME:-~/.cache}/network-controller/controlplane)")
	newCache := func() (*assets.Cache, error) {
		dir, err := *cacheDir, error(nil)
		if dir == "" {
			dir, err = assets.DefaultCacheDir()
		}
		return assets.NewCache(dir, log.New(os.Stderr, "", 0)), err
	}
	cmd.AddCommand(assetsCommand(newCache), upCommand(newCache), versionCommand())
	return cmd
}

func assetsCommand(newCache func() (*assets.Cache, error)) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "assets",
		Short: "Make sure that the programs exist, and print the directory that holds them",
		Long: `Assets makes sure that the programs of the components exist and prints one line
on standard output: the directory that holds them all. Everything else goes to
standard error.

Two calls at the same time do no harm: one fetches or builds, the other waits.`,
		Example: `  # What envtest needs:
  ` + assets.EnvAssets + `=$(controlplane assets) go test ./test/integration/...

  # Everything, ahead of time:
  controlplane assets --components=all`,
		Args: cobra.NoArgs,
	}
	components := componentsFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		asked, err := components()
		if err != nil {
			return err
		}
		cache, err := newCache()
		if err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(cmd.Context(), stopSignals...)
		defer stop()
		dir, err := cache.Provide(ctx, asked)
		if ctx.Err() != nil {
			return errInterrupted
		}
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), dir)
		return err
	}
	return cmd
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the versions that are provided, one component per line",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, c := range append(assets.All(), assets.ForContainers()...) {
				if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%-24s %s\n", c, c.Version()); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// componentsFlag adds the flag --components to cmd, and returns what reads it.
func componentsFlag(cmd *cobra.Command) func() ([]assets.Component, error) {
	list := cmd.Flags().String("components", assets.Join(assets.Minimal()),
		"what to provide, separated by commas: "+assets.Join(assets.All())+", or all for these; the programs of a node "+
			"with containers are "+assets.Join(assets.ForContainers()))
	return func() ([]assets.Component, error) { return assets.ParseComponents(*list) }
}

// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
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

func assetsCommand(newCache func() (*assets.Cache, error)) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "assets",
		Short: "Make sure that the binaries exist, and print the directory that holds them",
		Long: `Assets makes sure that the binaries of the components exist and prints one line
on standard output: the directory that holds them all. Everything else goes to
standard error.

Two calls at the same time do no harm: one fetches or builds, the other waits.`,
		Example: `  # What envtest needs:
  ` + assets.EnvAssets + `=$(controlplane assets) go test ./test/integration/...

  # Everything, ahead of time:
  controlplane assets --components=all`,
		Args: cobra.NoArgs,
	}
	withCache(cmd, newCache, func(ctx context.Context, cache *assets.Cache, asked []assets.Component) error {
		dir, err := cache.Provide(ctx, asked)
		if ctx.Err() != nil {
			return errInterrupted
		}
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), dir)
		return err
	})
	return cmd
}

func checksumsCommand(newCache func() (*assets.Cache, error)) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "checksums",
		Short: "Download the released binaries of the pinned versions, and print their checksums",
		Long: `Checksums is for whoever changes a version. It downloads what the components'
projects publish at the pinned versions, for all platforms, compares it with the
checksums that they publish beside it (kwok publishes none), and prints the
lines for dev/controlplane/internal/assets/pins/releases.sha256.`,
		Example: `  # After a change of Kubernetes' version:
  controlplane checksums --components=kube-apiserver,kube-controller-manager,kube-scheduler`,
		Args: cobra.NoArgs,
	}
	withCache(cmd, newCache, func(ctx context.Context, cache *assets.Cache, asked []assets.Component) error {
		return cache.PrintChecksums(ctx, cmd.OutOrStdout(), asked)
	})
	return cmd
}

// withCache has a command do something with the cache and the components that its flag names, until a signal stops it.
func withCache(
	cmd *cobra.Command, newCache func() (*assets.Cache, error),
	do func(ctx context.Context, cache *assets.Cache, asked []assets.Component) error,
) {
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
		return do(ctx, cache, asked)
	}
}

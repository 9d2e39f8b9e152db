// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
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

Two calls at the same time do no harm: one builds, the other waits for it.`,
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

// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Command controlplane provides the programs of a Kubernetes control plane and runs them on this machine, for
// development and tests. It needs a Go toolchain the first time and no container runtime.
package main

import (
	"context"
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"cloudteam.ztgame.com/network-controller/dev/controlplane/internal/assets"
)

func main() {
	if err := newCommand().ExecuteContext(context.Background()); err != nil {
		_, _ = fmt.Fprintf(os.Stderr, "controlplane: %v\n", err)
		os.Exit(1)
	}
}

// newCommand returns the command with its subcommands. What a script reads goes to the command's output, everything
// else to standard error.
func newCommand() *cobra.Command {
	var cacheDir, releases string
	cmd := &cobra.Command{
		Use:   "controlplane",
		Short: "Run a Kubernetes control plane on this machine, for development and tests",
		Long: `Controlplane runs etcd and kube-apiserver, and if asked kube-controller-manager,
kube-scheduler and kwok, as processes on the loopback address of this machine.

Binaries that are there already are used: those in the directory that
` + assets.EnvAssets + ` names, or in setup-envtest's store. Else released ones are
fetched from their projects' sites and checked by pinned checksums. What cannot
be fetched is built from source with the go command, which takes minutes. Both
happens once: they are cached.`,
		Example: `  # An API server for a while; Ctrl-C stops it and leaves nothing behind:
  controlplane up

  # The directory of binaries that envtest needs:
  export ` + assets.EnvAssets + `=$(controlplane assets)`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.PersistentFlags().StringVar(&cacheDir, "cache", "",
		"directory for binaries (default $"+assets.EnvCache+
			", else ${XDG_CACHE_HOME:-~/.cache}/network-controller/controlplane)")
	cmd.PersistentFlags().StringVar(&releases, "releases", "",
		"the URL of a mirror of released binaries, which has their files by host and path; or off, to build all from "+
			"source (default $"+assets.EnvReleases+", else the projects' own sites)")
	newCache := func() (*assets.Cache, error) {
		machine := assets.ThisMachine()
		dir := cacheDir
		if dir == "" {
			var err error
			if dir, err = machine.DefaultCacheDir(); err != nil {
				return nil, err
			}
		}
		cache := assets.NewCache(dir, machine, assets.NewLog(os.Stderr))
		if releases != "" {
			cache.Releases = releases
		}
		return cache, nil
	}
	cmd.AddCommand(assetsCommand(newCache), upCommand(newCache), versionCommand(), checksumsCommand(newCache),
		cleanCommand(newCache))
	return cmd
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the versions that are provided, one component per line",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, c := range append(assets.All(), assets.Node()...) {
				_, _ = fmt.Fprintf(table, "%s\t%s\n", c, c.Version())
			}
			return table.Flush()
		},
	}
}

func cleanCommand(newCache func() (*assets.Cache, error)) *cobra.Command {
	return &cobra.Command{
		Use:   "clean",
		Short: "Remove the cache of binaries",
		Long: `Clean removes the cache of binaries, those of earlier versions too. Stop
running control planes first: their binaries are in it. What the go command has
compiled stays in its own cache, so that building again takes less than the
first time.`,
		Args: cobra.NoArgs,
		RunE: func(_ *cobra.Command, _ []string) error {
			cache, err := newCache()
			if err != nil {
				return err
			}
			if err := cache.Clean(); err != nil {
				return err
			}
			cache.Log.Printf("removed %s", cache.Dir)
			return nil
		},
	}
}

// componentsFlag adds the flag --components to cmd, and returns what reads it.
func componentsFlag(cmd *cobra.Command) func() ([]assets.Component, error) {
	list := cmd.Flags().String("components", assets.Join(assets.Minimal()),
		"what to provide, separated by commas: "+assets.Join(assets.All())+", or all for these; a node's programs are "+
			assets.Join(assets.Node()))
	return func() ([]assets.Component, error) { return assets.ParseComponents(*list) }
}

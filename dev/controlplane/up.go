// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"cloudteam.ztgame.com/network-controller/dev/controlplane/internal/assets"
	"cloudteam.ztgame.com/network-controller/dev/controlplane/internal/cluster"
)

// upOptions are the flags of the command up.
type upOptions struct {
	dir string
	// early has the kubeconfig printed before all components are there.
	early bool
	// crds are the paths of files and directories.
	crds    []string
	cluster cluster.Options
}

func upCommand(newCache func() (*assets.Cache, error)) *cobra.Command {
	var options upOptions
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run a control plane until it is interrupted",
		Long: `Up starts the components, waits until all of them serve, and prints one line on
standard output, "kubeconfig: PATH". Ctrl-C or SIGTERM stops everything in the
reverse order; a second one kills what is left. It exits with 0 after a clean
stop, and with 1, and the end of the log, when a component ends by itself.

Ports are free ones of the loopback address. Requests are authorized as in a
real cluster (Node, RBAC); the kubeconfig's user may do everything.

With --early the line comes as soon as kube-apiserver serves. The other components
are fetched or built meanwhile, and the line "complete" says that they serve too.

The component node is a Node, ` + cluster.NodeName + `, that runs no containers: with all
components together, a Deployment's Pods are scheduled to it and become ready.`,
		Example: `  # etcd and kube-apiserver, in a temporary directory:
  controlplane up

  # With the kinds of a project:
  controlplane up --components=all --crds=config/crd

  # Keep data and logs, and go on with them the next time:
  controlplane up --dir="$HOME/dev-cluster"`,
		Args: cobra.NoArgs,
	}
	components := componentsFlag(cmd)
	flags := cmd.Flags()
	flags.StringVar(&options.dir, "dir", "",
		"directory for data, certificates, logs and the kubeconfig; made if need be, and kept "+
			"(default a temporary one, removed after a clean stop)")
	flags.StringSliceVar(&options.crds, "crds", nil,
		"YAML files with CustomResourceDefinitions, or directories of such, separated by commas; may be given more than "+
			"once. They are served before kube-controller-manager starts, so that it knows their kinds at once")
	flags.BoolVar(&options.early, "early", false,
		"begin with etcd and kube-apiserver while other components are still fetched or built")
	flags.StringArrayVar(&options.cluster.APIServerArgs, "kube-apiserver-arg", nil,
		"a further argument for kube-apiserver, such as --feature-gates=SomeFeature=true; may be given more than once")
	flags.DurationVar(&options.cluster.StartTimeout, "start-timeout", 2*time.Minute,
		"how long a component may take to serve")
	flags.DurationVar(&options.cluster.StopTimeout, "stop-timeout", 10*time.Second,
		"how long a component may take to stop before it is killed")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var err error
		if options.cluster.Components, err = components(); err != nil {
			return err
		}
		cache, err := newCache()
		if err != nil {
			return err
		}
		return up(cmd.Context(), options, cache, cmd.OutOrStdout())
	}
	return cmd
}

// up runs a control plane until a signal comes, or one of its programs ends.
func up(ctx context.Context, options upOptions, cache *assets.Cache, out io.Writer) (err error) {
	ctx, release := signal.NotifyContext(ctx, stopSignals...)
	defer release()
	// The process that read the output may have ended, killed with a test run for one: the stop has to come to its end all
	// the same, and not to die of the next sentence that it prints.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	// A mistake in a path is told before minutes are spent on a build.
	if options.cluster.CRDs, err = cluster.ReadCRDs(options.crds); err != nil {
		return err
	}
	first := options.cluster.Components
	if options.early {
		first = assets.Minimal()
	}
	binaries, complete, err := cache.ProvideFirst(ctx, first, options.cluster.Components)
	if err != nil {
		if ctx.Err() != nil {
			return errInterrupted
		}
		return err
	}
	options.cluster.Assets, options.cluster.Early = binaries, !complete
	dir, removeDir, err := workDir(options.dir)
	if err != nil {
		return err
	}
	// After a failure the directory stays: the logs that explain it are there.
	defer func() {
		if err == nil {
			err = removeDir()
		}
	}()
	options.cluster.Dir, options.cluster.Log = dir, cache.Log
	started := time.Now()
	plane, err := cluster.Start(ctx, options.cluster)
	if err != nil {
		if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
			cache.Log.Printf("interrupted before the control plane was ready: stopped")
			return nil
		}
		return err
	}
	cache.Log.Printf("control plane ready in %.1fs at %s", time.Since(started).Seconds(), plane.URL())

	kubeconfig := filepath.Join(dir, "kubeconfig")
	err = os.WriteFile(kubeconfig, plane.Kubeconfig(), 0o600)
	if err == nil {
		lines := "kubeconfig: " + kubeconfig + "\n"
		if options.early && complete {
			lines += completeLine
		}
		_, err = io.WriteString(out, lines)
	}
	if err == nil {
		err = run(ctx, plane, func(ctx context.Context) error {
			if complete {
				return nil
			}
			return completePlane(ctx, plane, cache, options.cluster.Components, out)
		})
	}
	// From here on a signal means "at once".
	release()
	atOnce, release := signal.NotifyContext(context.Background(), stopSignals...)
	defer release()
	cache.Log.Printf("stopping")
	//nolint:contextcheck // ctx has ended; what bounds the stop is the second signal
	return errors.Join(err, plane.Stop(atOnce), os.Remove(kubeconfig))
}

// completeLine is what a reader of standard output waits for who needs all components of an early start.
const completeLine = "complete\n"

// run returns nil once ctx has ended, and an error once a program has ended or meanwhile has failed. meanwhile has
// returned then.
func run(ctx context.Context, plane *cluster.Cluster, meanwhile func(context.Context) error) error {
	group, either := errgroup.WithContext(ctx)
	group.Go(func() error { return meanwhile(either) })
	group.Go(func() error {
		select {
		case <-either.Done():
			return nil
		case err := <-plane.Failed():
			return err
		}
	})
	if err := group.Wait(); ctx.Err() == nil {
		return err
	}
	return nil // what was under way was interrupted
}

// completePlane provides the components that were not there at the start, and starts them.
func completePlane(
	ctx context.Context, plane *cluster.Cluster, cache *assets.Cache, components []assets.Component, out io.Writer,
) error {
	if _, err := cache.Provide(ctx, components); err != nil {
		return err
	}
	if err := plane.StartOthers(ctx); err != nil {
		return err
	}
	_, err := io.WriteString(out, completeLine)
	return err
}

// workDir returns the directory to work in and what removes it, which does nothing if the user named the directory.
func workDir(named string) (dir string, remove func() error, err error) {
	if named == "" {
		dir, err = os.MkdirTemp("", "controlplane-")
		return dir, func() error { return os.RemoveAll(dir) }, err
	}
	if dir, err = filepath.Abs(named); err != nil {
		return "", nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", nil, err
	}
	return dir, func() error { return nil }, nil
}

//go:build unix

// Command demo shows a Network's life before the reader's eyes: it starts a Kubernetes control plane, a cloud and the
// controller, takes example-network through create, change and drift repair, runs a Deployment's Pods on it, deletes
// both, and leaves nothing behind. See demo --help.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
)

// Exit codes. 130 is what a shell gives for a program that SIGINT ended.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// options are the command line.
type options struct {
	stay          bool
	auditInterval time.Duration
	dir           string
}

const usage = `demo shows what network-controller does, from nothing, in well under a minute:

  1. Surroundings: a Kubernetes control plane (etcd, kube-apiserver, kube-controller-manager, kube-scheduler, and kwok,
     which plays a Node that runs no containers), and a cloud. Where OS_CLOUD or OS_AUTH_URL is set, that cloud is used,
     with the credentials that OpenStack's own clients would find; else an emulator of Keystone and Neutron serves.
  2. The CRDs and the admission policy are installed and the controller started.
  3. The Network example-network is applied and becomes a network with a subnet in Neutron.
  4. Its gateway is changed in Kubernetes, and changes in Neutron.
  5. It is changed by hand in Neutron, and put right.
  6. The Deployment web is applied, and each of its Pods has a port in Neutron with an address of its own.
  7. A Pod is deleted, and the one in its place has a port, too.
  8. The Deployment is scaled to 1: one port is left.
  9. The Deployment is deleted: no port is left.
 10. The Network is deleted, and Neutron is without it.

Each step prints the kubectl or openstack command that does the same; neither program is needed. In a cloud of yours it
creates one network with one subnet and a few ports, touches nothing else, and removes them, also after Ctrl-C or a
failure.

Run it from the repository's root, after make build. The first time, Kubernetes is built from source: minutes.

Usage:
  bin/demo [flags]

Examples:
  bin/demo                            # make demo does this
  bin/demo --stay                     # make run: the surroundings and the controller, until Ctrl-C
  OS_CLOUD=mycloud bin/demo           # in the cloud "mycloud" of clouds.yaml
  bin/demo --stay --dir ~/networks    # keep the data: the next start goes on with it

It exits with 0 when every step came true, 1 when one did not (the logs are kept then, and it says where), 2 for a
mistake in the flags and 130 after Ctrl-C. NO_COLOR turns colours off.

Flags:
`

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	flags := pflag.NewFlagSet("demo", pflag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.BoolVar(&o.stay, "stay", false,
		"start the surroundings and the controller, print what to try, and stream the controller's log until Ctrl-C")
	flags.DurationVar(&o.auditInterval, "audit-interval", 2*time.Second,
		"how often the controller looks for changes that others made in Neutron; at least 1s")
	flags.StringVar(&o.dir, "dir", "",
		"folder for data, logs and the kubeconfig; made if need be, and kept. The API server's data is served again "+
			"the next time, except with the emulator, which forgets its own (default a temporary one, which is "+
			"removed after a success)")
	flags.Usage = func() { fmt.Fprint(stderr, usage+flags.FlagUsagesWrapped(120)) }
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q: everything is said by flags, see --help", flags.Arg(0))
	}
	if o.auditInterval < time.Second {
		return o, fmt.Errorf("--audit-interval=%s: write at least 1s", o.auditInterval)
	}
	return o, nil
}

// errInterrupted is the cause of a context that a signal has ended.
var errInterrupted = errors.New("interrupted")

func run(args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(stderr, "demo:", err)
		return exitUsage
	}
	// client-go logs what the demo's own errors say already.
	klog.SetLogger(klog.Logger{})
	ctx, hurry, release := untilSignal()
	defer release()
	n := newNarrator(stdout)

	perform := show
	if o.stay {
		perform = stay
	}
	switch err := perform(ctx, hurry, o, n); {
	case err == nil:
		return 0
	case errors.Is(err, errInterrupted):
		return exitInterrupted
	default:
		return exitFailed
	}
}

// untilSignal gives two contexts: ctx ends at the first signal that asks to stop, hurry at the second, which means that
// nothing is to be waited for any more. A reader that has gone away (SIGPIPE: demo | head) counts as the first only.
func untilSignal() (ctx, hurry context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	hurry, hasten := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGPIPE)
	if !signal.Ignored(syscall.SIGHUP) { // nohup has it ignored
		signal.Notify(signals, syscall.SIGHUP)
	}
	released := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-signals:
				if ctx.Err() != nil && s != syscall.SIGPIPE {
					hasten()
				}
				cancel(errInterrupted)
			case <-released:
				return
			}
		}
	}()
	return ctx, hurry, func() {
		signal.Stop(signals)
		close(released)
		cancel(nil)
		hasten()
	}
}

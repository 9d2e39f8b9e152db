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
	"strings"
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
	stay, short bool
	// cloud is an entry of clouds.yaml, or envvars for the OS_ variables; empty for the emulator.
	cloud string
	// neutron and habits are flags of the emulator.
	neutron, habits string
	auditInterval   time.Duration
	dir             string
	// skip names the steps to leave out.
	skip []string
}

const usage = `demo shows what network-controller does, in well under a minute. Its steps:

%s
--skip=NAME,... leaves out steps by the names in parentheses, and with pods those that need Pods. The others keep their
numbers. --short leaves out the mistake, the quota and the lost answer. The last two need the emulator. Packets need
root, Open vSwitch, OVN and the emulator; elsewhere the demo says what is missing.

The control plane is etcd, kube-apiserver, kube-controller-manager, kube-scheduler, and a Node that runs no containers.
The cloud is an emulator of Keystone and Neutron, or with --cloud your own.

With --stay there is a page that shows the controller from inside, with buttons that break things.

Each step prints the equivalent kubectl or openstack command; neither program is needed. In your own cloud the demo
creates one network with one subnet and a few ports. It touches nothing else, and deletes them, also after Ctrl-C or a
failure.

make demo builds what it needs and runs it. bin/demo alone needs make build before, and runs from the repository's root.
The first run fetches Kubernetes, or builds it from source, which takes minutes. The first steps run as soon as etcd and
kube-apiserver are there; those with Pods wait for the rest.

Usage:
  bin/demo [flags]

Examples:
  bin/demo                            # make demo does this
  bin/demo --stay                     # make run: the control plane, cloud, controller and its page, until Ctrl-C
  bin/demo --cloud=mycloud            # in the cloud "mycloud" of clouds.yaml; make demo CLOUD=mycloud does this
  bin/demo --stay --neutron=26 --habits=skew,shortpage   # as another cloud answers; "make run" has DEMOFLAGS for these
  bin/demo --stay --dir ~/networks    # keep the data: the next start continues with it

Exit status: 0 if every step succeeded, 1 if one failed (the logs are kept, and their path is printed), 2 for invalid
flags, 130 after Ctrl-C. NO_COLOR turns colours off.

Flags:
`

// help is the usage, with the steps.
func help() string {
	var list strings.Builder
	for i, s := range steps {
		fmt.Fprintf(&list, "%3d. %s", i+1, s.title)
		if s.name != "" {
			fmt.Fprintf(&list, " (%s)", s.name)
		}
		list.WriteString("\n")
	}
	return fmt.Sprintf(usage, list.String())
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	flags := pflag.NewFlagSet("demo", pflag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.BoolVar(&o.stay, "stay", false,
		"start the control plane, the cloud and the controller, print commands to try, and stream the controller's log "+
			"until Ctrl-C")
	flags.StringVar(&o.cloud, "cloud", "",
		"your own cloud instead of the emulator: the name of an entry in clouds.yaml, or envvars for OS_AUTH_URL and the "+
			"other OS_ variables. The demo creates and deletes a network there")
	flags.StringVar(&o.neutron, "neutron", "", "`release` whose answers the emulator gives: 21, 26 or 29 (default 29)")
	flags.StringVar(&o.habits, "habits", "",
		"`names` of habits of other clouds that the emulator has; bin/neutron-emulator --help lists them")
	flags.BoolVar(&o.short, "short", false, "leave out the mistake, the full quota, and the lost answer")
	flags.StringSliceVar(&o.skip, "skip", nil, "leave out these steps")
	flags.DurationVar(&o.auditInterval, "audit-interval", 2*time.Second,
		"how often the controller audits Neutron; at least 1s")
	flags.StringVar(&o.dir, "dir", "",
		"folder for data, logs and the kubeconfig; created if missing, and kept. The next start serves the API server's "+
			"data again, except with the emulator, which forgets its own (default a temporary folder, which is removed "+
			"after a success)")
	flags.Usage = func() { fmt.Fprint(stderr, help()+flags.FlagUsagesWrapped(120)) }
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q: use flags only, see --help", flags.Arg(0))
	}
	if o.auditInterval < time.Second {
		return o, fmt.Errorf("--audit-interval=%s: write at least 1s", o.auditInterval)
	}
	if o.cloud != "" && o.neutron+o.habits != "" {
		return o, errors.New("--neutron and --habits are for the emulator: leave them or --cloud out")
	}
	return o, checkSkip(o.skip)
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
	ctx, hurry, interrupt, release := untilSignal()
	defer release()
	n := newNarrator(stdout)
	n.unheard = interrupt

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
// nothing is to be waited for any more. interrupt counts as a first signal.
func untilSignal() (ctx, hurry context.Context, interrupt, release func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	hurry, hasten := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	// A reader that goes away (demo | head) must not kill the demo, which tidies up then. Any socket that a server closes
	// sends this signal, too; the narrator knows whether it was the reader's.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	if !signal.Ignored(syscall.SIGHUP) { // nohup has it ignored
		signal.Notify(signals, syscall.SIGHUP)
	}
	released := make(chan struct{})
	go func() {
		for {
			select {
			case <-signals:
				if ctx.Err() != nil {
					hasten()
				}
				cancel(errInterrupted)
			case <-released:
				return
			}
		}
	}()
	return ctx, hurry, func() { cancel(errInterrupted) }, func() {
		signal.Stop(signals)
		signal.Stop(pipe)
		close(released)
		cancel(nil)
		hasten()
	}
}

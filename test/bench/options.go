package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// Kinds of cloud.
const (
	emulator  = "emulator"
	openStack = "openstack"
)

// options are the command line.
type options struct {
	cloud string
	only  *regexp.Regexp
	list  bool
	write string

	runs                int
	rounds, largeRounds int
	networks            int
	cold                int
	fleet               int
	objects             int
	sizes               []int
	replicas            int
	policyPods          int
	events              int
	idle                time.Duration
	lease               time.Duration
	delay               string
	neutronWorkers      int
	fleetWorkers        int

	flags          []string
	profiles       string
	profileSeconds int
}

const usage = `bench measures network-controller, as ratios to the same work done bare in the same run.

Usage:
  go run ./test/bench [flags]          with KUBEBUILDER_ASSETS set, as "make bench" does

Examples:
  make bench                                             everything, and the table in docs/benchmarks.md
  make bench BENCHFLAGS=--runs=3                         the same three times, and how far the runs differ
  go run ./test/bench --list                             what there is to measure, how, and the targets
  go run ./test/bench --only=create,delete --rounds=5    two figures, and what comes along with them
  go run ./test/bench --only=create --delay=none         against an emulator that answers at once
  go run ./test/bench --idle=10m --only=idle             ten minutes of rest, at the default intervals
  go run ./test/bench --only=cold --cpu-profile=/tmp/p   with CPU profiles of the controller
  dev/openstack/openstack run -- go run ./test/bench --cloud=openstack

A figure that misses its target is no failure: the exit code is 1 only where something could not be measured.

Flags:
`

// parse reads the command line.
func parse(arguments []string, stderr io.Writer) (options, error) {
	var o options
	var only string
	flags := pflag.NewFlagSet("bench", pflag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.SortFlags = false
	flags.StringVar(&o.cloud, "cloud", emulator, "Which Neutron: emulator, or openstack for the real one whose clouds "+
		"\"admin\" and \"tenant\" are in the file that OS_CLIENT_CONFIG_FILE names, dataplane for one with a data plane, or "+
		"sizing for the emulator with --sizes.")
	flags.StringVar(&only, "only", "", "Measure only what has an id, or is of a group, that fits a regular expression "+
		"(see --list). Commas separate several.")
	flags.BoolVar(&o.list, "list", false, "Say what there is to measure, and measure nothing.")
	flags.StringVar(&o.write, "write", "", "Write the results into this page, between the markers of the cloud.")
	flags.IntVar(&o.runs, "runs", 1, "How often everything is measured, one run after the other. The table then has the "+
		"median of each run, too.")
	flags.IntVar(&o.rounds, "rounds", 2, "Rounds of the small benchmarks. In each, the bare work and the controller's "+
		"take turns.")
	flags.IntVar(&o.largeRounds, "large-rounds", 1, "Rounds of the groups cold and fleet. Each has a control plane "+
		"of its own.")
	flags.IntVar(&o.networks, "networks", 100, "Networks in the group small.")
	flags.IntVar(&o.cold, "cold", 500, "Networks in the group cold.")
	flags.IntVar(&o.fleet, "fleet", 10000, "Networks in the group fleet.")
	flags.IntVar(&o.objects, "objects", 50000, "Networks in the group start.")
	flags.IntSliceVar(&o.sizes, "sizes", []int{100, 1000, 10000}, "Networks, and as many Pods, in the group sizing.")
	flags.IntVar(&o.replicas, "replicas", 50, "Pods that start in the groups pool and policies.")
	flags.IntVar(&o.policyPods, "policy-pods", 200, "Pods in the group policies whose policies change.")
	flags.IntVar(&o.events, "events", 200, "Events whose way to Neutron is timed, during audits and without.")
	flags.DurationVar(&o.idle, "idle", 30*time.Second, "How long nothing is to happen. There are ten audits and twenty "+
		"resyncs in it, however long it is: 10m is the controller's default intervals.")
	flags.DurationVar(&o.lease, "lease-duration", 5*time.Second, "Lease in the group failover; renew deadline and retry "+
		"period are to it as the defaults are to theirs. 15s is the default.")
	flags.StringVar(&o.delay, "delay", "real", "What the emulator's calls take: real for what was measured on a real "+
		"Neutron, or none.")
	flags.IntVar(&o.neutronWorkers, "neutron-workers", neutronWorkers(), "How many calls the emulator works on at a time "+
		"in the group cold. The default is as many API workers as Neutron starts by default on this machine. In the groups "+
		"small, pool, policies and failover it is one.")
	flags.IntVar(&o.fleetWorkers, "fleet-workers", 16, "How many calls the emulator works on at a time in the group "+
		"fleet.")
	flags.StringArrayVar(&o.flags, "controller-flag", nil, "A further flag for the controller, such as --workers=50. May "+
		"be given more than once.")
	flags.StringVar(&o.profiles, "cpu-profile", "", "Folder for CPU profiles of the controller in the timed parts. Its "+
		"binary has to know --profiling.")
	flags.IntVar(&o.profileSeconds, "profile-seconds", 10, "How long such a profile is.")
	flags.Usage = func() { fmt.Fprint(stderr, usage, flags.FlagUsages()) }
	if err := flags.Parse(arguments); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q: everything is said by flags, see --help", flags.Arg(0))
	}
	var err error
	if o.only, err = regexp.Compile("^(" + strings.ReplaceAll(only, ",", "|") + ")$"); err != nil {
		return o, fmt.Errorf("--only=%s: %w", only, err)
	}
	if only == "" {
		o.only = nil
	}
	return o, o.validate()
}

// emulated reports whether the cloud is the emulator.
func (o options) emulated() bool { return o.cloud == emulator || o.cloud == sizing }

func (o options) validate() error {
	var errs []error
	if !slices.Contains([]string{emulator, openStack, dataplane, sizing}, o.cloud) {
		errs = append(errs, fmt.Errorf("--cloud=%s: write %s, %s, %s or %s", o.cloud, emulator, openStack, dataplane,
			sizing))
	}
	if slices.Contains([]string{openStack, dataplane}, o.cloud) && !o.list && os.Getenv("OS_CLIENT_CONFIG_FILE") == "" {
		errs = append(errs, fmt.Errorf("--cloud=%s: OS_CLIENT_CONFIG_FILE names no clouds.yaml: start it by "+
			"dev/openstack/openstack run", o.cloud))
	}
	if !slices.Contains([]string{"real", "none"}, o.delay) {
		errs = append(errs, fmt.Errorf("--delay=%s: write real or none", o.delay))
	}
	if o.write != "" && (!wholeTables(o) || o.delay != "real") {
		errs = append(errs, errors.New("--write replaces whole tables: leave --delay out, and --only unless it names groups "+
			"that have tables of their own, such as policies"))
	}
	for name, value := range map[string]int{
		"runs": o.runs, "rounds": o.rounds, "large-rounds": o.largeRounds, "networks": o.networks, "cold": o.cold,
		"fleet": o.fleet, "objects": o.objects, "replicas": o.replicas, "policy-pods": o.policyPods, "events": o.events,
		"neutron-workers": o.neutronWorkers, "fleet-workers": o.fleetWorkers, "profile-seconds": o.profileSeconds,
	} {
		if value < 1 {
			errs = append(errs, fmt.Errorf("--%s=%d: write at least 1", name, value))
		}
	}
	if len(o.sizes) == 0 || slices.Min(o.sizes) < 1 {
		errs = append(errs, fmt.Errorf("--sizes=%v: write one or several sizes of at least 1", o.sizes))
	}
	if o.cloud == sizing && o.runs > 1 {
		errs = append(errs, fmt.Errorf("--runs=%d: the table of --cloud=%s has one run", o.runs, sizing))
	}
	if o.idle < 10*time.Second {
		errs = append(errs, fmt.Errorf("--idle=%s: write at least 10s, since the shortest audit interval is a second",
			o.idle))
	}
	if o.lease < 3*time.Second || o.lease%time.Second != 0 {
		errs = append(errs, fmt.Errorf("--lease-duration=%s: write whole seconds, at least 3s", o.lease))
	}
	return errors.Join(errs...)
}

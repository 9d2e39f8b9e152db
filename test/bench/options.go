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
	// dataplane is the real one, with ports that carry packets.
	dataplane = "dataplane"
	// sizing is the emulator for the group of that name.
	sizing = "sizing"
	// fleet is the emulator, which answers at once, for the group of that name.
	fleet = "fleet"
)

// options are the command line.
type options struct {
	cloud string
	only  *regexp.Regexp
	list  bool
	write string

	rounds   int
	networks int
	replicas int
	sizes    []int
	idle     time.Duration
	lease    time.Duration
	delay    string
	flags    []string
}

const usage = `bench measures network-controller, as ratios to the same work done bare in the same run.

Usage:
  go run ./test/bench [flags]          with KUBEBUILDER_ASSETS set, as "make bench" does

Examples:
  make bench                                             everything, and the table in docs/benchmarks.md
  go run ./test/bench --list                             what there is to measure, how, and the targets
  go run ./test/bench --only=create,delete --rounds=5    two figures, and what comes along with them
  go run ./test/bench --idle=10m --only=idle             ten minutes of rest, at the default intervals
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
		"sizing or fleet for the emulator with --sizes.")
	flags.StringVar(&only, "only", "", "Measure only what has an id, or is of a group, that fits a regular expression "+
		"(see --list). Commas separate several.")
	flags.BoolVar(&o.list, "list", false, "Say what there is to measure, and measure nothing.")
	flags.StringVar(&o.write, "write", "", "Write into this page, docs/benchmarks.md or docs/sizing.md, and for the "+
		"former into "+resultsFolder+". Run it in the repository's root.")
	flags.IntVar(&o.rounds, "rounds", 2, "In each round, the bare work and the controller's take turns.")
	flags.IntVar(&o.networks, "networks", 100, "Networks in the group small.")
	flags.IntVar(&o.replicas, "replicas", 50, "Pods in the group pool.")
	flags.IntSliceVar(&o.sizes, "sizes", []int{100, 1000, 10000}, "Networks, and as many Pods, in the groups sizing "+
		"and fleet.")
	flags.DurationVar(&o.idle, "idle", 30*time.Second, "How long nothing is to happen. There are ten audits and twenty "+
		"resyncs in it, however long it is: 10m is the controller's default intervals.")
	flags.DurationVar(&o.lease, "lease-duration", 5*time.Second, "Lease in the group failover; renew deadline and retry "+
		"period are to it as the defaults are to theirs. 15s is the default.")
	flags.StringVar(&o.delay, "delay", "real", "What the emulator's calls take: real for what was measured on a real "+
		"Neutron, or none.")
	flags.StringArrayVar(&o.flags, "controller-flag", nil, "A further flag for the controller, such as --workers=50. May "+
		"be given more than once.")
	flags.Usage = func() { fmt.Fprint(stderr, usage, flags.FlagUsages()) }
	if err := flags.Parse(arguments); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q: everything is said by flags, see --help", flags.Arg(0))
	}
	if only != "" {
		var err error
		if o.only, err = regexp.Compile("^(" + strings.ReplaceAll(only, ",", "|") + ")$"); err != nil {
			return o, fmt.Errorf("--only=%s: %w", only, err)
		}
	}
	return o, o.validate()
}

// emulated reports whether the cloud is the emulator.
func (o options) emulated() bool { return o.cloud == emulator || o.cloud == sizing || o.cloud == fleet }

// bySizes reports whether the figures are of fleets of some sizes: then each size has a column.
func (o options) bySizes() bool { return o.cloud == sizing || o.cloud == fleet }

func (o options) validate() error {
	var errs []error
	if clouds := []string{emulator, openStack, dataplane, sizing, fleet}; !slices.Contains(clouds, o.cloud) {
		errs = append(errs, fmt.Errorf("--cloud=%s: write one of %s", o.cloud, strings.Join(clouds, ", ")))
	}
	if slices.Contains([]string{openStack, dataplane}, o.cloud) && !o.list && os.Getenv("OS_CLIENT_CONFIG_FILE") == "" {
		errs = append(errs, fmt.Errorf("--cloud=%s: OS_CLIENT_CONFIG_FILE names no clouds.yaml: start it by "+
			"dev/openstack/openstack run", o.cloud))
	}
	if !slices.Contains([]string{"real", "none"}, o.delay) {
		errs = append(errs, fmt.Errorf("--delay=%s: write real or none", o.delay))
	}
	if o.write != "" && (o.delay != "real" || o.bySizes() && o.only != nil) {
		errs = append(errs, errors.New("--write: leave --delay out, and with --sizes --only, too"))
	}
	for name, value := range map[string]int{"rounds": o.rounds, "networks": o.networks, "replicas": o.replicas} {
		if value < 1 {
			errs = append(errs, fmt.Errorf("--%s=%d: write at least 1", name, value))
		}
	}
	if len(o.sizes) == 0 || slices.Min(o.sizes) < 1 {
		errs = append(errs, fmt.Errorf("--sizes=%v: write one or several sizes of at least 1", o.sizes))
	}
	if o.cloud == fleet && !o.list && len(o.sizes) > 0 && slices.Min(o.sizes) < smallestFleet {
		errs = append(errs, fmt.Errorf("--sizes=%v: write at least %d: an audit of fewer is over before an edit comes",
			o.sizes, smallestFleet))
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

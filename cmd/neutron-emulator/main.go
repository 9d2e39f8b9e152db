// Command neutron-emulator serves an OpenStack cloud in memory, Keystone and Neutron on one address, for development,
// demonstrations and tests without a real cloud. Package neutrontest documents what it emulates.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/internal/osc"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "neutron-emulator:", err)
		stop()
		os.Exit(1)
	}
}

const usage = `neutron-emulator serves an OpenStack cloud in memory: Keystone and Neutron on one address.
It loses all data when it stops. It listens on loopback by default, because its passwords protect nothing.

Usage:
  neutron-emulator [flags]

Example: a cloud with the latency of a real one, and a network in it
  neutron-emulator --listen=127.0.0.1:9696 --clouds-yaml=/tmp/clouds.yaml --delay=real &
  export OS_CLIENT_CONFIG_FILE=/tmp/clouds.yaml OS_CLOUD=tenant
  ` + osc.CreateExample + `

On SIGUSR1 it loses the answer to the next create of a network: it creates the network and cuts the connection. On
SIGUSR2 Neutron answers 503 for ten seconds.

With --habits it answers all clients as some other clouds do, the OpenStack client as well:
%s
The clouds in the file are admin (role admin) and tenant (role member), with passwords, and admin-credential and
tenant-credential, the same with application credentials.

Flags:
`

// options are the values of the flags.
type options struct {
	listen     string
	cloudsYAML string
	delay      string
	logCalls   bool
	quota      int
	habits     string
	neutron    string
	external   string
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("neutron-emulator", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.listen, "listen", "127.0.0.1:0", "`address` to listen on; port 0 takes a free one")
	flags.StringVar(&o.cloudsYAML, "clouds-yaml", "",
		"write a clouds.yaml for this cloud to the file at `path` (mode 0600)")
	flags.StringVar(&o.delay, "delay", "0",
		"latency of a call: a `duration` such as 20ms, or \"real\" for the latency of a real Neutron with one worker")
	flags.BoolVar(&o.logCalls, "log-calls", false, "write a line for each call to standard error")
	flags.IntVar(&o.quota, "quota", neutrontest.Unlimited,
		"default quota of each project for networks, for subnets, for ports and for routers; -1 is none")
	flags.StringVar(&o.neutron, "neutron", fmt.Sprint(neutrontest.Neutron29),
		"`release` of Neutron whose answers it gives: 21, 26 or 29")
	flags.StringVar(&o.external, "external-network", "public=203.0.113.0/24",
		"external `network`, NAME=CIDR, that routers and floating IPs name; empty for none")
	flags.StringVar(&o.habits, "habits", "", "`names` of habits of other clouds, separated by commas")
	flags.Usage = func() {
		fmt.Fprintf(stderr, usage, knownHabits())
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q: use flags, see --help", flags.Arg(0))
	}
	return o, nil
}

// server makes the emulated cloud.
func (o options) server(stderr io.Writer) (*neutrontest.Server, error) {
	release, err := neutrontest.ParseRelease(o.neutron)
	if err != nil {
		return nil, fmt.Errorf("--neutron: %w", err)
	}
	settings := neutrontest.Options{Release: release, Quotas: map[string]int{
		"network": o.quota, "subnet": o.quota, "port": o.quota, "router": o.quota,
	}}
	if o.delay == "real" {
		settings.Delay, settings.Workers = neutrontest.MeasuredDelay, 1
	} else {
		d, err := time.ParseDuration(o.delay)
		if err != nil || d < 0 {
			return nil, fmt.Errorf("--delay=%s: write a non-negative duration, such as 20ms, or the word real",
				o.delay)
		}
		settings.Delay = neutrontest.FixedDelay(d)
	}
	if o.logCalls {
		settings.OnCall = func(c neutrontest.Call) {
			fmt.Fprintf(stderr, "%s %s %s: %d (items: %d)\n",
				time.Now().Format(time.RFC3339Nano), c.Method, c.Path, c.Status, c.Items)
		}
	}
	server := neutrontest.New(settings)
	if o.external == "" {
		return server, nil
	}
	name, cidr, _ := strings.Cut(o.external, "=")
	prefix, err := netip.ParsePrefix(cidr)
	if err != nil || name == "" || !prefix.Addr().Is4() {
		return nil, fmt.Errorf("--external-network=%s: write NAME=CIDR with an IPv4 CIDR, such as public=203.0.113.0/24",
			o.external)
	}
	if err := server.AddExternalNetwork(name, prefix); err != nil {
		return nil, fmt.Errorf("--external-network=%s: %w", o.external, err)
	}
	return server, nil
}

// wear sets the habits of --habits.
func (o options) wear(habits *neutrontest.Habits) error {
	var all []neutrontest.Habit
	for name := range strings.FieldsFuncSeq(o.habits, func(r rune) bool { return r == ',' }) {
		all = append(all, neutrontest.Habit(strings.TrimSpace(name)))
	}
	if err := habits.Set(all...); err != nil {
		return fmt.Errorf("--habits=%s: %w", o.habits, err)
	}
	return nil
}

// knownHabits are the lines of the usage about them.
func knownHabits() string {
	var lines strings.Builder
	for _, h := range slices.Sorted(maps.Keys(neutrontest.KnownHabits)) {
		fmt.Fprintf(&lines, "  %-14s %s\n", h, neutrontest.KnownHabits[h])
	}
	return lines.String()
}

// run serves until ctx is done.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	server, err := o.server(stderr)
	if err != nil {
		return err
	}
	var answers loser
	var habits neutrontest.Habits
	if err := o.wear(&habits); err != nil {
		return err
	}
	listener, err := server.Listen(o.listen, func(next http.Handler) http.Handler {
		return answers.wrap(habits.Wrap(next))
	})
	if err != nil {
		return err
	}
	lose := make(chan os.Signal, 1)
	signal.Notify(lose, syscall.SIGUSR1, syscall.SIGUSR2)
	defer signal.Stop(lose)
	if o.cloudsYAML != "" {
		if err := writePrivate(o.cloudsYAML, listener.CloudsYAML()); err != nil {
			return errors.Join(err, listener.Close())
		}
	}
	fmt.Fprintf(stdout, "neutron-emulator: listening on %s\n", listener.URL)
	if o.cloudsYAML != "" {
		fmt.Fprintf(stdout, "neutron-emulator: clouds.yaml: %s\n", o.cloudsYAML)
	}
	for {
		select {
		case s := <-lose:
			if s == syscall.SIGUSR2 {
				answers.outage(broken)
			} else {
				answers.arm()
			}
		case <-ctx.Done():
			return listener.Close()
		case err := <-listener.Failed():
			return fmt.Errorf("serving ended: %w", err)
		}
	}
}

// writePrivate writes a file that only its owner can read, even when it replaces a file with other permissions. The
// file appears complete, because others may wait for it.
func writePrivate(path, text string) error {
	part := path + ".part"
	if err := os.Remove(part); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("write --clouds-yaml: %w", err)
	}
	if err := os.WriteFile(part, []byte(text), 0o600); err != nil {
		return fmt.Errorf("write --clouds-yaml (does its folder exist?): %w", err)
	}
	if err := os.Rename(part, path); err != nil {
		return fmt.Errorf("write --clouds-yaml: %w", err)
	}
	return nil
}

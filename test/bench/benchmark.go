package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"cloudteam.ztgame.com/network-controller/test/harness"
)

// benchmark is one figure, of which less is better.
type benchmark struct {
	// id is what --only names.
	id string
	// name says what the figure is. %d is the group's size.
	name string
	// how says how it is measured, in a sentence or two.
	how string
	// limit is the target: the figure is to be at most that. With a NaN there is none, and a figure whose rounds bring
	// their own limits (see report.addTo) has the largest of them.
	limit float64
	// unit follows the figure; a ratio has none.
	unit string
}

// group is benchmarks that are measured on the way of one another.
type group struct {
	id string
	// clouds are those with which it can run.
	clouds []string
	// components are those of the control plane; with none there is no control plane.
	components []string
	// size is how many objects it is about.
	size func(options) int
	// lives is how many control planes it runs on, one after another; nil means one.
	lives      func(options) int
	benchmarks []benchmark
	// measure runs on its own control plane and reports what it finds.
	measure func(context.Context, *bench) error
}

// noLimit is the limit of a figure that is shown without a target.
var noLimit = math.NaN()

// groups is all there is to measure, in the order of the table.
func groups() []group {
	return []group{smallGroup(), poolGroup(), failoverGroup(), dataplaneGroup(), sizingGroup(), fleetGroup()}
}

// bench is what a group's measure works with.
type bench struct {
	options
	*harness.Surroundings
	report *report
	// size is the group's.
	size int
	// life is the number of the control plane, from 1 on.
	life int
	// dir is for the group's files.
	dir string
	out io.Writer

	// environment is what controllers get beside the cloud.
	environment []string

	group   string
	cleanup []func()
}

// after has something done when the group has been measured, the last first.
func (b *bench) after(do func()) { b.cleanup = append(b.cleanup, do) }

func (b *bench) close() {
	for _, do := range slices.Backward(b.cleanup) {
		do()
	}
	b.cleanup = nil
}

// say prints a line of progress.
func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.out, "%s  %-9s %s\n", time.Now().Format("15:04:05"), b.group, fmt.Sprintf(format, args...))
}

// short is a duration with as many digits as matter here.
func short(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

// await polls until check gives nil. It returns check's last error when ctx or patience ends.
func await(ctx context.Context, patience time.Duration, check func() error) error {
	return harness.Poll(ctx.Done(), patience, 20*time.Millisecond, check)
}

// busy is the load average per CPU above which what is measured scatters.
const busy = 0.5

// run is the program.
func run(ctx context.Context, arguments []string, stdout, stderr io.Writer) error {
	o, err := parse(arguments, stderr)
	if err != nil {
		return err
	}
	chosen := choose(o)
	if o.list {
		list(stdout, o, chosen)
		return nil
	}
	if len(chosen) == 0 {
		return fmt.Errorf("there is nothing of that name to measure with --cloud=%s: see --list", o.cloud)
	}
	dir, err := os.MkdirTemp("", "network-controller-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	// Before building, which is work, too.
	r := newReport(o, arguments, chosen)
	if r.load > busy*float64(runtime.NumCPU()) {
		fmt.Fprintf(stderr, "Others are at work on this machine (load average %s): what is measured will scatter\n",
			number(r.load))
	}
	fmt.Fprintln(stderr, "Building network-controller")
	programs, err := harness.Build(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, g := range chosen {
		if err := measure(ctx, g, o, r, programs, dir, stderr); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", g.id, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	fmt.Fprint(stdout, r.text())
	if len(errs) == 0 {
		errs = append(errs, r.missing())
	}
	if o.write != "" && errors.Join(errs...) == nil {
		errs = append(errs, r.write(o.write))
	}
	return errors.Join(errs...)
}

// choose gives the groups that have something that is asked for, each with only that.
func choose(o options) []group {
	var chosen []group
	for _, g := range groups() {
		if !slices.Contains(g.clouds, o.cloud) {
			continue
		}
		if o.only != nil && !o.only.MatchString(g.id) {
			g.benchmarks = slices.DeleteFunc(g.benchmarks, func(b benchmark) bool { return !o.only.MatchString(b.id) })
		}
		if len(g.benchmarks) > 0 {
			chosen = append(chosen, g)
		}
	}
	return chosen
}

// measure measures a group, on as many control planes as it wants.
func measure(
	ctx context.Context, g group, o options, r *report, programs *harness.Programs, dir string, out io.Writer,
) error {
	lives := 1
	if g.lives != nil {
		lives = g.lives(o)
	}
	for life := range lives {
		b := &bench{options: o, report: r, size: g.size(o), life: life + 1, out: out, group: g.id}
		var err error
		if b.dir, err = os.MkdirTemp(dir, g.id+"-"); err != nil {
			return err
		}
		began := time.Now()
		if g.components == nil {
			err = g.measure(ctx, b)
			b.close()
		} else {
			_, err = harness.Run( //nolint:contextcheck // what it sets up, it takes down whether or not ctx has ended
				harness.Options{Components: g.components, OpenStack: o.cloud == openStack, Programs: programs},
				func(s *harness.Surroundings) (int, error) {
					defer b.close()
					b.Surroundings = s
					return 0, g.measure(ctx, b)
				})
		}
		if err != nil {
			return err
		}
		b.say("took %s", time.Since(began).Round(time.Second))
	}
	return nil
}

// wants reports whether one of the figures is asked for. What another one needs on its way is done in any case.
func (b *bench) wants(ids ...string) bool {
	return slices.ContainsFunc(ids, func(id string) bool { return b.report.results[id] != nil })
}

// file is a path in the group's folder.
func (b *bench) file(name string) string { return filepath.Join(b.dir, name) }

package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// result is what the rounds of a benchmark gave.
type result struct {
	benchmark
	size   int
	rounds []float64
}

// report collects what was measured. It is safe for concurrent use.
type report struct {
	options   options
	arguments []string
	began     time.Time
	// load is the machine's before anything was measured.
	load  float64
	order []*result

	mu      sync.Mutex
	results map[string]*result
}

func newReport(o options, arguments []string, chosen []group) *report {
	r := &report{options: o, arguments: arguments, began: time.Now(), load: load(), results: map[string]*result{}}
	for _, g := range chosen {
		for _, b := range g.benchmarks {
			one := &result{benchmark: b, size: g.size(o)}
			r.order = append(r.order, one)
			r.results[b.id] = one
		}
	}
	return r
}

// add takes what a round gave. Figures that nobody asked for are dropped.
func (r *report) add(id string, value float64) { r.addTo(id, value, math.NaN()) }

// addTo is add for a figure whose target is known once it is measured.
func (r *report) addTo(id string, value, limit float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.results[id]
	if one == nil {
		return
	}
	one.rounds = append(one.rounds, value)
	if !math.IsNaN(limit) && !(one.limit >= limit) {
		one.limit = limit
	}
}

// missing is an error that names the figures that no round gave, or nil.
func (r *report) missing() error {
	var errs []error
	for _, one := range r.order {
		if len(one.rounds) == 0 {
			errs = append(errs, fmt.Errorf("%s was not measured", one.id))
		}
	}
	return errors.Join(errs...)
}

// median is the middle one of figures.
func median(figures []float64) float64 {
	sorted := slices.Sorted(slices.Values(figures))
	n := len(sorted)
	if n == 0 {
		return math.NaN()
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// spread is the smallest and the largest of the rounds, where there are several.
func (r *result) spread() string {
	if len(r.rounds) < 2 {
		return ""
	}
	return fmt.Sprintf("%s to %s", number(slices.Min(r.rounds)), number(slices.Max(r.rounds)))
}

// verdict says whether a figure meets its target.
func verdict(is, limit float64) string {
	switch {
	case math.IsNaN(is):
		return "not measured"
	case math.IsNaN(limit):
		return ""
	case is <= limit:
		return "met"
	case limit == 0:
		return "missed by " + number(is)
	default:
		return fmt.Sprintf("missed by %.0f %%", math.Ceil((is/limit-1)*100))
	}
}

// target is a limit as tables show it.
func target(limit float64, unit string) string {
	switch {
	case math.IsNaN(limit):
		return ""
	case limit == 0:
		return "none"
	}
	return strings.TrimSpace("≤ " + number(limit) + " " + unit)
}

func (r *result) title() string { return strings.ReplaceAll(r.name, "%d", grouped(r.size)) }

// number writes three digits that matter, and no zeros behind the point for show.
func number(v float64) string {
	switch {
	case math.IsNaN(v):
		return "–"
	case v == math.Trunc(v) || math.Abs(v) >= 100:
		return fmt.Sprintf("%.0f", v)
	case math.Abs(v) >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

// grouped writes 10000 as 10,000.
func grouped(n int) string {
	text := fmt.Sprint(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// text is all results as Markdown.
func (r *report) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	against := map[string]string{
		emulator:  "the emulator, whose calls take what they took on a real Neutron",
		openStack: "a real Keystone and Neutron (`dev/openstack`)",
		sizing:    "the emulator, whose calls take what they took on a real Neutron",
		dataplane: "a real Neutron with OVN, nodes and kubelets (`dev/dataplane`)",
	}[r.options.cloud]
	if r.options.emulated() && (r.options.delay == "none" || r.options.cloud == fleet) {
		against = "the emulator, which answers at once"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Against %s, on %s, on %s. Load average before it began: %s.\n\n```\n%s\n```\n\n", against,
		r.began.Format("2 January 2006"), machine(), number(r.load), r.command())
	if r.options.bySizes() {
		r.sizes(&b)
		return b.String()
	}
	b.WriteString("| figure | target | median | of rounds | spread | |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, one := range r.order {
		is := median(one.rounds)
		fmt.Fprintf(&b, "| %s | %s | %s | %d | %s | %s |\n", one.title(), target(one.limit, one.unit),
			strings.TrimSpace(number(is)+" "+one.unit), len(one.rounds), one.spread(), verdict(is, one.limit))
	}
	return b.String()
}

// command is how to do the same again. What says where results go is left out.
func (r *report) command() string {
	switch {
	case r.options.cloud == dataplane:
		return "make bench-dataplane"
	case r.options.bySizes() && r.options.write != "":
		return "make bench-" + r.options.cloud
	}
	text := "go run ./test/bench"
	if r.options.cloud == openStack {
		text = "dev/openstack/openstack run -- " + text
	}
	for i, argument := range r.arguments {
		isValue := i > 0 && r.arguments[i-1] == "--write"
		if flag, _, _ := strings.Cut(argument, "="); !isValue && flag != "--write" {
			text += " " + argument
		}
	}
	return text
}

// write writes what was measured into the page. Figures that are not by sizes go into the results folder first: the
// page shows what that has.
func (r *report) write(page string) error {
	if r.options.bySizes() {
		return insert(page, r.options.cloud, r.text())
	}
	if err := keep(resultsFolder, r.options.cloud, r.rows()); err != nil {
		return err
	}
	table, err := tableOf(resultsFolder)
	if err != nil {
		return err
	}
	return insert(page, "figures", table)
}

// insert replaces what is between the markers of a name in a page.
func insert(path, name, text string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	page, err := inserted(string(content), name, text)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, []byte(page), 0o644)
}

func inserted(page, name, text string) (string, error) {
	begin, end := fmt.Sprintf("<!-- %s -->\n", name), fmt.Sprintf("<!-- end of %s -->\n", name)
	before, rest, begins := strings.Cut(page, begin)
	_, after, ends := strings.Cut(rest, end)
	if !begins || !ends {
		return "", fmt.Errorf("the lines %q and %q are missing, between which the table goes", begin, end)
	}
	return before + begin + text + end + after, nil
}

// list says what there is to measure.
func list(w io.Writer, o options, chosen []group) {
	for _, g := range chosen {
		fmt.Fprintf(w, "group %s\n", g.id)
		for _, b := range g.benchmarks {
			one := &result{benchmark: b, size: g.size(o)}
			text := target(b.limit, b.unit)
			if text != "" {
				text = ", target: " + text
			}
			fmt.Fprintf(w, "  %-18s %s%s\n  %-18s %s\n", b.id, one.title(), text, "", b.how)
		}
	}
}

package main

import (
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
	// table is the group's.
	table string
	size  int
	// runs are the rounds of each run.
	runs [][]float64
}

// rounds are those of all runs.
func (r *result) rounds() []float64 { return slices.Concat(r.runs...) }

// report collects what was measured. It is safe for concurrent use.
type report struct {
	options   options
	arguments []string
	began     time.Time
	// load is the machine's before anything was measured.
	load float64
	// runs is how many have begun.
	runs  int
	order []*result

	mu      sync.Mutex
	results map[string]*result
}

func newReport(o options, arguments []string, chosen []group) *report {
	r := &report{options: o, arguments: arguments, began: time.Now(), load: load(), results: map[string]*result{}}
	for _, g := range chosen {
		for _, b := range g.benchmarks {
			one := &result{benchmark: b, table: g.table, size: g.sizeOf(b, o)}
			r.order = append(r.order, one)
			r.results[b.id] = one
		}
	}
	return r
}

// begin begins the next run: what is added from now on is of that one.
func (r *report) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs++
	for _, one := range r.order {
		one.runs = append(one.runs, nil)
	}
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
	last := len(one.runs) - 1
	one.runs[last] = append(one.runs[last], value)
	if !math.IsNaN(limit) && !(one.limit >= limit) {
		one.limit = limit
	}
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
	rounds := r.rounds()
	if len(rounds) < 2 {
		return ""
	}
	return fmt.Sprintf("%s to %s", number(slices.Min(rounds)), number(slices.Max(rounds)))
}

// each is the median of each run.
func (r *result) each() string {
	medians := make([]string, len(r.runs))
	for i, rounds := range r.runs {
		medians[i] = number(median(rounds))
	}
	return strings.Join(medians, ", ")
}

// verdict says whether the target is met.
func (r *result) verdict() string {
	rounds := r.rounds()
	is := median(rounds)
	switch {
	case len(rounds) == 0:
		return "not measured"
	case math.IsNaN(r.limit):
		return ""
	case is <= r.limit:
		return "met"
	case r.limit == 0:
		return "missed by " + number(is)
	default:
		return fmt.Sprintf("missed by %.0f %%", math.Ceil((is/r.limit-1)*100))
	}
}

// target is the target as the table shows it.
func (r *result) target() string {
	if math.IsNaN(r.limit) {
		return ""
	}
	if r.limit == 0 {
		return "none"
	}
	return strings.TrimSpace("≤ " + number(r.limit) + " " + r.unit)
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
	var texts []string
	for _, name := range r.tables() {
		texts = append(texts, r.table(name))
	}
	return strings.Join(texts, "\n")
}

// tables are the names of the tables, each once.
func (r *report) tables() (names []string) {
	for _, one := range r.order {
		if !slices.Contains(names, one.table) {
			names = append(names, one.table)
		}
	}
	return names
}

// of are the results in the table of a name.
func (r *report) of(name string) (found []*result) {
	for _, one := range r.order {
		if one.table == name {
			found = append(found, one)
		}
	}
	return found
}

// table is the results in the table of a name, as Markdown.
func (r *report) table(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	against := map[string]string{
		emulator:  "the emulator, whose calls take what they took on a real Neutron",
		openStack: "a real Keystone and Neutron (`dev/openstack`)",
		sizing:    "the emulator, whose calls take what they took on a real Neutron",
		dataplane: "a real Neutron with OVN, nodes and kubelets (`dev/dataplane`)",
	}[r.options.cloud]
	if r.options.emulated() && r.options.delay == "none" {
		against = "the emulator, which answers at once"
	}
	fmt.Fprintf(&b, "Against %s, on %s, on %s. Load average before it began: %s.\n\n", against,
		r.began.Format("2 January 2006"), machine(), number(r.load))
	fmt.Fprintf(&b, "```\n%s\n```\n\n", r.command())
	if r.options.cloud == sizing {
		b.WriteString(r.sizes())
	} else {
		r.figures(&b, r.of(name))
	}
	fmt.Fprintf(&b, "\n")
	for _, one := range r.of(name) {
		fmt.Fprintf(&b, "- **%s** (`%s`): %s\n", one.title(), one.id, one.how)
	}
	return b.String()
}

// figures is the table of results that are not by sizes.
func (r *report) figures(b *strings.Builder, results []*result) {
	// A single run has no column of its own.
	several := r.runs > 1
	column := func(text string) string {
		if !several {
			return ""
		}
		return " " + text + " |"
	}
	fmt.Fprintf(b, "| figure | target | median | of rounds | spread |%s |\n| --- | --- | --- | --- | --- |%s --- |\n",
		column(fmt.Sprintf("of each of %d runs", r.runs)), column("---"))
	for _, one := range results {
		rounds := one.rounds()
		fmt.Fprintf(b, "| %s | %s | %s | %d | %s |%s %s |\n", one.title(), one.target(),
			strings.TrimSpace(number(median(rounds))+" "+one.unit), len(rounds), one.spread(), column(one.each()),
			one.verdict())
	}
}

// command is how to do the same again. What says where results go is left out.
func (r *report) command() string {
	var text strings.Builder
	text.WriteString("go run ./test/bench")
	if r.options.cloud == openStack {
		text.Reset()
		text.WriteString("dev/openstack/openstack run -- go run ./test/bench")
	}
	if r.options.cloud == dataplane {
		return "make bench-dataplane"
	}
	if r.options.cloud == sizing && r.options.write != "" {
		return "make bench-sizing"
	}
	where := []string{"--write", "--cpu-profile"}
	for i, argument := range r.arguments {
		flag, _, _ := strings.Cut(argument, "=")
		isValue := i > 0 && slices.Contains(where, r.arguments[i-1])
		if !isValue && !slices.Contains(where, flag) {
			text.WriteString(" " + argument)
		}
	}
	return text.String()
}

// writeInto writes the tables into a page, each between the markers of the cloud and of its name.
func (r *report) writeInto(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	page := string(content)
	for _, name := range r.tables() {
		of := strings.TrimSpace(r.options.cloud + " " + name)
		begin, end := fmt.Sprintf("<!-- %s -->\n", of), fmt.Sprintf("<!-- end of %s -->\n", of)
		before, rest, ok := strings.Cut(page, begin)
		_, after, ended := strings.Cut(rest, end)
		if !ok || !ended {
			return fmt.Errorf("%s: the lines %q and %q are missing, between which the table goes", path, begin, end)
		}
		page = before + begin + r.table(name) + end + after
	}
	return os.WriteFile(path, []byte(page), 0o644)
}

// list says what there is to measure.
func list(w io.Writer, o options, chosen []group) error {
	for _, g := range chosen {
		fmt.Fprintf(w, "group %s\n", g.id)
		for _, b := range g.benchmarks {
			one := &result{benchmark: b, size: g.sizeOf(b, o)}
			target := one.target()
			if target != "" {
				target = ", target: " + target
			}
			fmt.Fprintf(w, "  %-18s %s%s\n  %-18s %s\n", b.id, one.title(), target, "", b.how)
		}
	}
	return nil
}

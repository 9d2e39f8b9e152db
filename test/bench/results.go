package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// resultsFolder has a file of rows for each cloud. The last row of each figure stays, whenever it was measured.
const resultsFolder = "test/bench/results"

// onPage are the figures of docs/benchmarks.md, in its order.
var onPage = []string{
	"create", "delete", "create-calls", "delete-calls", "create-writes", "audit-calls", "idle", "lone", "pool",
	"pool-calls", "restart", "kill", "start-1-s", "start-50-s",
}

// row is what was measured of one figure.
type row struct {
	ID     string  `json:"id"`
	Figure string  `json:"figure"`
	Median float64 `json:"median"`
	Least  float64 `json:"least"`
	Most   float64 `json:"most"`
	Unit   string  `json:"unit,omitempty"`
	Rounds int     `json:"rounds"`
	// Limit is the target of then.
	Limit *float64 `json:"limit,omitempty"`
	// Date is that of the run in UTC, and Commit what `git describe` says of the checkout.
	Date    string `json:"date"`
	Commit  string `json:"commit,omitempty"`
	Machine string `json:"machine"`
	// Load is the machine's load average before the run, if it is known.
	Load    float64 `json:"load,omitempty"`
	Command string  `json:"command"`
}

// rows are what was measured, for the results folder.
func (r *report) rows() (rows []row) {
	commit, _ := exec.Command("git", "describe", "--tags", "--always", "--dirty").Output() // none outside a checkout
	for _, one := range r.order {
		row := row{
			ID: one.id, Figure: one.title(), Unit: one.unit, Median: rounded(median(one.rounds)),
			Least: rounded(slices.Min(one.rounds)), Most: rounded(slices.Max(one.rounds)), Rounds: len(one.rounds),
			Date: r.began.UTC().Format(time.DateOnly), Commit: strings.TrimSpace(string(commit)), Machine: machine(),
			Load: r.load, Command: r.command(),
		}
		if !math.IsNaN(one.limit) {
			row.Limit = &one.limit
		}
		rows = append(rows, row)
	}
	return rows
}

// rounded keeps three decimals.
func rounded(v float64) float64 { return math.Round(v*1000) / 1000 }

// keep puts rows in the place of those of the same figures in a cloud's file.
func keep(folder, cloud string, fresh []row) error {
	rows, err := readRows(folder, cloud)
	if err != nil {
		return err
	}
	for _, one := range fresh {
		known := slices.IndexFunc(rows, func(old row) bool { return old.ID == one.ID })
		if known < 0 {
			rows = append(rows, one)
		} else {
			rows[known] = one
		}
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	for _, one := range rows {
		if err := encoder.Encode(one); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(folder, cloud+".jsonl"), b.Bytes(), 0o644)
}

// readRows reads a cloud's file. One that is not there has no rows.
func readRows(folder, cloud string) (rows []row, err error) {
	content, err := os.ReadFile(filepath.Join(folder, cloud+".jsonl"))
	if os.IsNotExist(err) {
		return nil, nil
	}
	for line := range bytes.Lines(content) {
		var one row
		if err := json.Unmarshal(line, &one); err != nil {
			return nil, fmt.Errorf("%s.jsonl: %w: %s", cloud, err, line)
		}
		rows = append(rows, one)
	}
	return rows, err
}

// tableOf is the table of docs/benchmarks.md, and when each of its figures was measured.
func tableOf(folder string) (string, error) {
	columns := []struct {
		cloud, name, command string
		rows                 map[string]row
	}{
		{cloud: emulator, name: "the emulator", command: "make bench BENCHFLAGS=--only=%s"},
		{cloud: openStack, name: "a real Neutron", command: "make bench BENCHFLAGS=--only=%s"},
		{cloud: dataplane, name: "a real Neutron with the data plane", command: "make bench-dataplane"},
	}
	for i, c := range columns {
		rows, err := readRows(folder, c.cloud)
		if err != nil {
			return "", err
		}
		columns[i].rows = map[string]row{}
		for _, one := range rows {
			columns[i].rows[one.ID] = one
		}
	}
	limits := map[string]float64{}
	for _, g := range groups() {
		for _, b := range g.benchmarks {
			limits[b.id] = b.limit
		}
	}
	var b, runs strings.Builder
	b.WriteString("\n| figure | target | emulator | real Neutron | command |\n| --- | --- | --- | --- | --- |\n")
	for _, id := range onPage {
		var first *row
		cells, command := [2]string{}, ""
		for i, c := range columns {
			one, ok := c.rows[id]
			if !ok {
				continue
			}
			if first == nil {
				first, command = &one, strings.ReplaceAll(c.command, "%s", id)
				if limit := one.Limit; limit != nil && math.IsNaN(limits[id]) {
					limits[id] = *limit
				}
			}
			cells[min(i, 1)] = one.cell(limits[id])
		}
		if first != nil {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | `%s` |\n", first.Figure, target(limits[id], first.Unit), cells[0],
				cells[1], command)
		}
	}
	for _, c := range columns {
		var order []string
		ids := map[string][]string{}
		for _, id := range onPage {
			if run := c.rows[id].run(); run != "" {
				if ids[run] == nil {
					order = append(order, run)
				}
				ids[run] = append(ids[run], "`"+id+"`")
			}
		}
		for _, run := range order {
			of := ""
			if len(order) > 1 {
				of = ": " + strings.Join(ids[run], ", ")
			}
			fmt.Fprintf(&runs, "- On %s, %s%s.\n", c.name, run, of)
		}
	}
	return b.String() + "\n" + runs.String() + "\n", nil
}

// cell is a figure in the page's table.
func (r row) cell(limit float64) string {
	text := strings.TrimSpace(number(r.Median) + " " + r.Unit)
	if missed := verdict(r.Median, limit); strings.HasPrefix(missed, "missed") {
		text += ", " + missed
	}
	return text
}

// run says in which run a figure was measured; "" of no row.
func (r row) run() string {
	if r.ID == "" {
		return ""
	}
	text := r.Date
	if r.Commit != "" {
		text += " at commit " + r.Commit
	}
	text += ", " + r.Machine
	if r.Load > 0 {
		text += ", load average " + number(r.Load)
	}
	return text
}

// Package results keeps how the runs of the fault suite ended, one file for each cloud, and makes of two of them the
// tables of docs/reliability.md. The files hold one JSON document per line, so that a change of one result is a change
// of one line: first what ran, then a line for each scenario.
package results

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Outcome is how a scenario ended.
type Outcome string

const (
	// Holds is of a scenario after which all was as it should be.
	Holds Outcome = "holds"
	// Fails is of one after which something was not.
	Fails Outcome = "does not hold"
	// NotTried is of one that was left out.
	NotTried Outcome = "not tried"
)

// Head says what ran.
type Head struct {
	// Cloud is what stood behind the controller, for a reader: "Neutron 21.0.0".
	Cloud string `json:"cloud"`
	// Version is the controller's, as `git describe` gives it; empty where it is unknown.
	Version string `json:"version,omitempty"`
	// Date is the day of the run, in UTC: "2006-01-02".
	Date string `json:"date"`
}

// Row is one scenario.
type Row struct {
	// Heading is that of the table which the row is in.
	Heading string `json:"heading"`
	// Scenario is the sentence that says what goes wrong. No two rows have the same.
	Scenario string  `json:"scenario"`
	Outcome  Outcome `json:"outcome"`
	// Reason is why it was not tried or does not hold; it may be empty.
	Reason string `json:"reason,omitempty"`
	// Kills is at how many writes the process was killed, in its own life for each; 0 of what is no sweep.
	Kills int `json:"kills,omitempty"`
	// Version is the controller's where it is another than the run's: the scenario was tried again by itself.
	Version string `json:"version,omitempty"`
}

// Run is one run of the suite.
type Run struct {
	Head
	// Rows are in the order in which they are to be read.
	Rows []Row
}

// With gives the run with the rows of a later one, of some scenarios, in place of the rows of that run. A scenario that
// it has not comes after those that are under the same heading; under a heading that it has not, at the end.
func (r Run) With(later Run) Run {
	updated := Run{Head: r.Head, Rows: slices.Clone(r.Rows)}
	for _, row := range later.Rows {
		if row.Outcome == NotTried {
			continue
		}
		if later.Version != r.Version {
			row.Version = later.Version
		}
		known := slices.IndexFunc(updated.Rows, func(old Row) bool { return old.Scenario == row.Scenario })
		if known >= 0 {
			updated.Rows[known] = row
			continue
		}
		place := len(updated.Rows)
		for i, old := range updated.Rows {
			if old.Heading == row.Heading {
				place = i + 1
			}
		}
		updated.Rows = slices.Insert(updated.Rows, place, row)
	}
	return updated
}

// Read reads a run from a file. A file that is not there is a run of nothing.
func Read(path string) (Run, error) {
	content, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return Run{}, nil
	}
	if err != nil {
		return Run{}, err
	}
	var run Run
	lines := bufio.NewScanner(bytes.NewReader(content))
	for number := 1; lines.Scan(); number++ {
		target := any(&run.Head)
		if number > 1 {
			run.Rows = append(run.Rows, Row{})
			target = &run.Rows[len(run.Rows)-1]
		}
		if err := json.Unmarshal(lines.Bytes(), target); err != nil {
			return Run{}, fmt.Errorf("%s:%d: %w: `make reliability` writes it again", path, number, err)
		}
	}
	return run, lines.Err()
}

// Write writes the run to a file, and makes the folder that it is in.
func (r Run) Write(path string) error {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(r.Head); err != nil {
		return err
	}
	for _, row := range r.Rows {
		if err := encoder.Encode(row); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}

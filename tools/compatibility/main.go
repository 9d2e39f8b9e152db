// Command compatibility runs a suite and writes into docs/compatibility.md whether it passed.
//
//	go run ./tools/compatibility -column="Neutron 26" -row=contract -- go test ./test/contract
//
// The page has the tables. A cell is that of the row and the column that have these texts.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

const page = "docs/compatibility.md"

func main() {
	column := flag.String("column", "", "the heading of the column, such as Kubernetes 1.36")
	row := flag.String("row", "", "the first cell of the row, such as contract")
	flag.Usage = func() {
		fmt.Fprintf(os.Stderr, "usage: compatibility -column=HEADING -row=NAME -- COMMAND ...\n\n"+
			"Runs the command, and writes its outcome, the commit and the date into %s.\n\n", page)
		flag.PrintDefaults()
	}
	flag.Parse()
	if *column == "" || *row == "" || flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(*column, *row, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "compatibility:", err)
		os.Exit(1)
	}
}

// run runs a command and sets the cell, whatever its outcome is. The cell is looked for first: a suite takes long.
func run(column, row string, command []string) error {
	if _, err := read(column, row, ""); err != nil {
		return err
	}
	commit, err := commit()
	if err != nil {
		return err
	}
	suite := exec.Command(command[0], command[1:]...)
	suite.Stdin, suite.Stdout, suite.Stderr = os.Stdin, os.Stdout, os.Stderr
	outcome, failed := "pass", suite.Run()
	if failed != nil {
		outcome = "**fail**"
	}
	// The page may have changed meanwhile.
	text, err := read(column, row, fmt.Sprintf("%s, %s, %s", outcome, commit, time.Now().UTC().Format(time.DateOnly)))
	if err == nil {
		err = os.WriteFile(page, []byte(text), 0o644)
	}
	return errors.Join(failed, err)
}

// commit names the commit that is tested, with a + if files differ from it, besides the page.
func commit() (string, error) {
	id, err := exec.Command("git", "rev-parse", "--short=8", "HEAD").Output()
	if err != nil {
		return "", fmt.Errorf("git rev-parse, for the commit that is tested: %w", err)
	}
	changed, err := exec.Command("git", "status", "--porcelain", "--", ":!"+page).Output()
	if err != nil {
		return "", fmt.Errorf("git status, for the commit that is tested: %w", err)
	}
	if len(changed) > 0 {
		return strings.TrimSpace(string(id)) + "+", nil
	}
	return strings.TrimSpace(string(id)), nil
}

// read returns the page with another text in a cell.
func read(column, row, text string) (string, error) {
	content, err := os.ReadFile(page)
	if err != nil {
		return "", fmt.Errorf("%w: run it in the repository's root", err)
	}
	return set(string(content), column, row, text)
}

// set sets the cell of a row and a column, in the first table with such a column that has the row.
func set(page, column, row, text string) (string, error) {
	lines := strings.Split(page, "\n")
	at, known := -1, false // the column in the table at this line
	for i, line := range lines {
		cells := strings.Split(line, "|")
		switch {
		case len(cells) < 3:
			at = -1
		case at < 0:
			for c := range cells {
				if strings.TrimSpace(cells[c]) == column {
					at, known = c, true
				}
			}
		case strings.TrimSpace(cells[1]) == row:
			if len(cells) <= at {
				return "", fmt.Errorf("the row %q has no cell in the column %q", row, column)
			}
			cells[at] = " " + text + " "
			lines[i] = strings.Join(cells, "|")
			return strings.Join(lines, "\n"), nil
		}
	}
	if !known {
		return "", fmt.Errorf("no table has a column %q", column)
	}
	return "", fmt.Errorf("no table with a column %q has a row %q", column, row)
}

package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

const tables = `# Page

| suite | Neutron 21 | Neutron 26 |
| --- | --- | --- |
| contract | untested | pass, 12345678, 2026-11-01 |
| packets | untested | |

| suite | Kubernetes 1.34 |
| --- | --- |
| contract | untested |
`

func TestSetChangesOneCell(t *testing.T) {
	for _, c := range []struct{ column, row, was, is string }{
		{"Neutron 21", "contract", "| contract | untested | pass", "| contract | new | pass"},
		{"Neutron 26", "packets", "| packets | untested | |", "| packets | untested | new |"},
		{"Kubernetes 1.34", "contract", "| contract | untested |\n", "| contract | new |\n"},
	} {
		got, err := set(tables, c.column, c.row, "new")
		if want := strings.Replace(tables, c.was, c.is, 1); err != nil || got != want {
			t.Errorf("%s of %s: %v\n%s", c.column, c.row, err, got)
		}
	}
}

func TestSetNamesWhatIsMissing(t *testing.T) {
	for _, c := range []struct{ column, row, want string }{
		{"Neutron 22", "contract", `no table has a column "Neutron 22"`},
		{"Neutron 21", "life", `no table with a column "Neutron 21" has a row "life"`},
	} {
		if _, err := set(tables, c.column, c.row, "new"); err == nil || err.Error() != c.want {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}

// TestThePageHasTheCellsThatTheMakefileRecords holds the page against what a run of hours would write at its end.
func TestThePageHasTheCellsThatTheMakefileRecords(t *testing.T) {
	text, err := os.ReadFile("../../" + page)
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]bool{"each kind and field": true, "faults": true, "contract": true} // of test-openstack
	for _, call := range regexp.MustCompile(`call record,Neutron \$\(NEUTRON\),([a-z ]+)\)`).
		FindAllStringSubmatch(string(makefile), -1) {
		rows[call[1]] = true
	}
	if len(rows) != 4 {
		t.Errorf("the Makefile records %v, want four rows", rows)
	}
	for row := range rows {
		for _, column := range []string{"Neutron 21", "Neutron 26", "Neutron 29"} {
			if _, err := set(string(text), column, row, ""); err != nil {
				t.Error(err)
			}
		}
		if !strings.Contains(string(makefile), "row="+row) && !strings.Contains(string(makefile), ","+row+")") {
			t.Errorf("the Makefile records no row %q", row)
		}
	}
}

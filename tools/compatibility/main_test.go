package main

import (
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

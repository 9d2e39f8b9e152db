package e2e

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/specs"
)

// reference is what docs/fields.md says of a field.
type reference struct {
	// attributes are in Neutron; none for what is the controller's own.
	attributes []string
	// mutable is whether the field of an object that exists may change.
	mutable bool
	// removed is what happens when the spec sets the field no longer, as the page says it.
	removed string
	// admin is whether an administrator alone may set it.
	admin bool
}

// readReference reads docs/fields.md, which `make generate` makes from the Go types: fields by "Kind path". An object
// and a list of objects are left out: their fields are in it.
func readReference(t *testing.T) map[string]reference {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", "docs", "fields.md"))
	expect.NoError(t, err)
	fields := map[string]reference{}
	kind := ""
	for line := range strings.Lines(string(content)) {
		line = strings.TrimSpace(line)
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			kind = heading
		}
		row, ok := strings.CutPrefix(line, "| `")
		if !ok {
			continue
		}
		cells := strings.Split(row, " | ")
		if len(cells) != 9 {
			t.Fatalf("docs/fields.md: a row has %d cells, want 9: have readReference read the table as it is now: %s",
				len(cells), line)
		}
		field := reference{removed: cells[5], mutable: cells[6] == "yes", admin: cells[7] == "admin"}
		if cells[2] != "–" {
			field.attributes = strings.Split(strings.Trim(cells[2], "`"), "`, `")
		}
		fields[kind+" "+strings.TrimSuffix(cells[0], "`")] = field
	}
	if len(fields) == 0 {
		t.Fatal("docs/fields.md shows no field: have readReference read the table as it is now")
	}
	maps.DeleteFunc(fields, func(path string, _ reference) bool {
		for other := range fields {
			if strings.HasPrefix(other, path+".") || strings.HasPrefix(other, path+"[].") {
				return true
			}
		}
		return false
	})
	return fields
}

// wantRows holds that the table is whole: that each field that is an attribute in Neutron has a row, and that each row
// tries what the field can do.
func wantRows(t *testing.T, fields map[string]reference, table []specs.Trial) {
	t.Helper()
	covered := map[string]bool{}
	for _, one := range table {
		for _, row := range one.Rows {
			path := one.Kind + " " + row.Field
			field, known := fields[path]
			if !known || len(field.attributes) == 0 {
				t.Errorf("%s of trial %q is no field that becomes an attribute in Neutron, by docs/fields.md: "+
					"take the row away, or write the path as it is there", path, one.Name)
				continue
			}
			covered[path] = true
			for _, problem := range problemsOf(row, field, one.Cloud) {
				t.Errorf("%s of trial %q: %s", path, one.Name, problem)
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(fields)) {
		if attributes := fields[path].attributes; len(attributes) > 0 && !covered[path] {
			t.Errorf("%s becomes %s in Neutron, and nothing tries whether it does: give its row in "+
				"test/specs a Life, which says how", path, strings.Join(attributes, " and "))
		}
	}
}

// problemsOf are what a row lacks, or says in vain.
func problemsOf(r specs.Row, field reference, cloudName string) (problems []string) {
	drifts := r.Drift != nil || r.Drifts != nil
	if r.Create == nil {
		if r.Never == "" || r.Change != nil || drifts {
			problems = append(problems, "without a value to create it with it is not tried: write one, or say in Never, "+
				"and in nothing else, why")
		}
		return problems
	}
	if field.mutable && r.Change == nil {
		problems = append(problems, "the field can change later: write to what (Change)")
	}
	if !field.mutable && r.Change != nil {
		problems = append(problems, "the field cannot change later: leave Change out")
	}
	if drifts == (r.Never != "") {
		problems = append(problems, "write what others make of it in Neutron (Drift or Drifts), or why they cannot (Never)")
	}
	// An element of a list goes with its list.
	removable := (field.removed == "as unset" || field.removed == "taken back" || strings.Contains(r.Field, "[].")) &&
		r.Needs == ""
	if removable && r.Gone == nil {
		problems = append(problems, "the field can be removed: write what Neutron has then (Gone), or why it is not (Needs)")
	}
	if !removable && r.Gone != nil {
		problems = append(problems, "what Neutron has stays, or the field cannot be removed: leave Gone out")
	}
	if field.removed == "taken back" && r.Empty == nil {
		problems = append(problems, "the field has an empty value: write it (Empty)")
	}
	if field.admin && cloudName != "admin" {
		problems = append(problems, `an administrator alone may set it: put it into a trial whose cloud is "admin"`)
	}
	return problems
}

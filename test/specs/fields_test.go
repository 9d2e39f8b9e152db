package specs

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/kinds"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// A field that has no row is tested by none of the tests that draw from the tables.
func TestEveryFieldHasARow(t *testing.T) {
	tables := map[string]func(t *testing.T){
		kinds.Network:       func(t *testing.T) { wantTable(t, networkFields()) },
		kinds.NetworkPort:   func(t *testing.T) { wantTable(t, portFields(testPlace)) },
		kinds.SecurityGroup: func(t *testing.T) { wantTable(t, groupFields("web")) },
		kinds.FloatingIP:    func(t *testing.T) { wantTable(t, floatingFields()) },
	}
	for _, kind := range kinds.All {
		table := tables[kind.Name]
		if table == nil {
			t.Errorf("no table has the fields of %s: write one as groupFields is, name it here, in Trials and in "+
				"TestEveryFieldIsDrawnAndOmitted", kind.Name)
			continue
		}
		t.Run(kind.Name, table)
	}
}

// wantTable holds that a table has the fields of its kind, and that each of them is drawn.
func wantTable[S any](t *testing.T, table []field[S]) {
	t.Helper()
	types := typesOf(reflect.TypeFor[S](), "")
	rows := map[string]field[S]{}
	trials := map[string]bool{}
	for _, one := range Trials() {
		trials[one.Name] = true
	}
	for _, f := range table {
		if _, twice := rows[f.path]; twice {
			t.Errorf("%s has two rows: leave one of them out", f.path)
		}
		rows[f.path] = f
		if !types[f.path] {
			t.Errorf("%s is no field of pkg/apis: take the row out, or write the path as the API has it", f.path)
		}
		for _, life := range f.lives {
			if !trials[life.Trial] {
				t.Errorf("%s has a life in trial %q, which is not one of Trials: write the name of one", f.path, life.Trial)
			}
		}
		if (f.keep != nil) && (f.may == nil || f.draw == nil) {
			t.Errorf("%s is put back after edits that nothing forbids or draws: write may, or leave keep out", f.path)
		}
	}
	for _, f := range table {
		if by, there := rows[f.with]; (f.draw == nil) == (f.with == "") || f.with != "" && f.with != "new" &&
			(!there || by.draw == nil) {
			t.Errorf("%s is drawn by %q: write draw, or the path of the row that draws it (with)", f.path, f.with)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(types)) {
		// The fields of an object stand for it.
		within := slices.ContainsFunc(table, func(f field[S]) bool {
			return strings.HasPrefix(f.path, path+".") || strings.HasPrefix(f.path, path+"[].")
		})
		if _, there := rows[path]; !there && !within {
			t.Errorf("nothing tests %s: give it a row in the table of its kind, which says how", path)
		}
	}
}

// typesOf gives the fields of a struct by their paths, as docs/fields.md writes them. Those of additional subnets are
// those of the first.
func typesOf(of reflect.Type, path string) map[string]bool {
	fields := map[string]bool{}
	for _, f := range reflect.VisibleFields(of) {
		if f.Anonymous {
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		name = path + name
		fields[name] = true
		inner, of := name+".", f.Type
		switch of.Kind() {
		case reflect.Slice:
			inner, of = name+"[].", of.Elem()
		case reflect.Pointer:
			of = of.Elem()
		}
		if of.Kind() == reflect.Struct && of != reflect.TypeFor[cloudteamv1.SubnetSpec]() {
			maps.Copy(fields, typesOf(of, inner))
		}
	}
	return fields
}

// isOfCloud reports of a field of a Network, by its path in Go, whether it names what a cloud has: by its row, or by those
// of all fields in it.
func isOfCloud(path string) bool {
	name := strings.TrimPrefix(strings.ToLower(path), "additionalsubnets.")
	within, all := 0, true
	for _, f := range networkFields() {
		row := strings.ToLower(strings.ReplaceAll(f.path, "[]", ""))
		if row == name {
			return f.ofCloud
		}
		if strings.HasPrefix(row, name+".") {
			within++
			all = all && f.ofCloud
		}
	}
	return within > 0 && all
}

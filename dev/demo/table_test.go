//go:build unix

package main

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

// networkTable is what the API server answers for one Network whose cells are given.
func networkTable(cells ...any) *metav1.Table {
	return &metav1.Table{
		ColumnDefinitions: []metav1.TableColumnDefinition{
			{Name: "Name"}, {Name: "Ready"}, {Name: "MTU", Priority: 1}, {Name: "Age"},
		},
		Rows: []metav1.TableRow{{Cells: cells}},
	}
}

func TestTablePrinter(t *testing.T) {
	for sentence, test := range map[string]struct {
		wide   bool
		tables []*metav1.Table
		want   []string
	}{
		"columns of a lower priority are left out": {
			tables: []*metav1.Table{networkTable("example", "True", 1450, "1s")},
			want:   []string{"NAME      READY   AGE", "example   True    1s"},
		},
		"wide shows all columns": {
			wide:   true,
			tables: []*metav1.Table{networkTable("example", "True", 1450, "1s")},
			want:   []string{"NAME      READY   MTU    AGE", "example   True    1450   1s"},
		},
		"a cell without a value is empty": {
			wide:   true,
			tables: []*metav1.Table{networkTable("example", nil, nil, "1s")},
			want:   []string{"NAME      READY   MTU    AGE", "example                  1s"},
		},
		"a later table adds the rows that changed below the same header": {
			tables: []*metav1.Table{
				networkTable("example", nil, nil, "0s"),
				networkTable("example", "True", nil, "0s"),
			},
			want: []string{"NAME      READY   AGE", "example           0s", "example   True    0s"},
		},
		"a row whose age alone changed is not printed again": {
			tables: []*metav1.Table{
				networkTable("example", "True", 1450, "0s"),
				networkTable("example", "True", 1450, "1s"),
			},
			want: []string{"NAME      READY   AGE", "example   True    0s"},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			printer := &tablePrinter{wide: test.wide}
			var got []string
			for _, table := range test.tables {
				got = append(got, printer.render(table)...)
			}
			expect.Equal(t, test.want, got, "lines")
		})
	}
}

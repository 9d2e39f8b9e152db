//go:build unix

package main

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// columnGap is between two columns, as kubectl has it.
const columnGap = 3

// minimumWidths leave room for what rows that come later are known to hold, by the column's name: a header that is
// printed once cannot grow with them.
var minimumWidths = map[string]int{
	"Reason":     len("CloudUnavailable"),
	"CIDR":       len("192.168.0.0/16"),
	"Gateway":    len("192.168.255.254"),
	"Network ID": 36, // a UUID
	"MTU":        len("1450"),
}

// tablePrinter prints rows of the API server's Tables below one header, as `kubectl get --watch` does.
type tablePrinter struct {
	// wide prints the columns of a priority above 0 too, as kubectl's -o wide does.
	wide   bool
	widths []int
	// last is what was printed last, by the row's place, without ages.
	last map[int]string
}

// render gives the lines to print for a Table: the header, the first time, and the rows that are new or have changed. A
// row whose age alone has changed has not.
func (p *tablePrinter) render(table *metav1.Table) []string {
	var columns []int
	for i, column := range table.ColumnDefinitions {
		if column.Priority == 0 || p.wide {
			columns = append(columns, i)
		}
	}
	if len(columns) == 0 {
		return nil
	}
	var lines []string
	header := p.widths == nil
	if header {
		p.last = map[int]string{}
		p.widths = make([]int, len(columns))
	}
	rows := make([][]string, len(table.Rows))
	for r, row := range table.Rows {
		for _, c := range columns {
			cell := ""
			if c < len(row.Cells) && row.Cells[c] != nil {
				cell = fmt.Sprint(row.Cells[c])
			}
			rows[r] = append(rows[r], cell)
		}
	}
	names := make([]string, len(columns))
	for i, c := range columns {
		name := table.ColumnDefinitions[c].Name
		names[i] = strings.ToUpper(name)
		p.widths[i] = max(p.widths[i], len(name))
		if header {
			p.widths[i] = max(p.widths[i], minimumWidths[name])
		}
		for _, row := range rows {
			p.widths[i] = max(p.widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	if header {
		lines = append(lines, p.line(names))
	}
	ages := slices.Index(names, "AGE")
	for r, row := range rows {
		same := slices.Clone(row)
		if ages >= 0 {
			same[ages] = ""
		}
		text := strings.Join(same, "\x00")
		if last, printed := p.last[r]; printed && last == text {
			continue
		}
		p.last[r] = text
		lines = append(lines, p.line(row))
	}
	return lines
}

func (p *tablePrinter) line(cells []string) string {
	var b strings.Builder
	for i, cell := range cells {
		b.WriteString(cell)
		b.WriteString(strings.Repeat(" ", p.widths[i]-utf8.RuneCountInString(cell)+columnGap))
	}
	return strings.TrimRight(b.String(), " ")
}

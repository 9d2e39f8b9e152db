package main

import (
	"cmp"
	_ "embed" // the preface
	"fmt"
	"strings"
)

// section is the fields of one kind.
type section struct {
	kind   string
	fields []field
}

// preface is what stands before the tables.
//
//go:embed preface.md
var preface string

// page is the reference, in Markdown.
func page(sections []section) string {
	var b strings.Builder
	b.WriteString(preface)
	for _, s := range sections {
		fmt.Fprintf(&b, "\n## %s\n\n| field | type | Neutron | unset | empty | set no longer | changes | who | "+
			"what it is |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n", s.kind)
		for _, f := range s.fields {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s | %s | %s | %s |\n", f.path, f.typ, f.neutron(),
				cell(f.byDefault), cell(cmp.Or(f.whenEmpty, "–")), f.removed, f.changes(), f.privilege, cell(f.text))
		}
	}
	return b.String()
}

// neutron is the column of the attributes.
func (f field) neutron() string {
	if len(f.attributes) == 0 {
		return "–"
	}
	return "`" + strings.Join(f.attributes, "`, `") + "`"
}

// changes is the column that says whether the field can change.
func (f field) changes() string {
	if f.mutable {
		return "yes"
	}
	return "no"
}

// cell keeps a text from ending its cell, and from being read as Markdown where it has "*" or "<".
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "*", `\*`, "<", `\<`).Replace(text)
}

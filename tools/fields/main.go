// Command fields writes the reference of the fields of the API's specs, docs/fields.md, from the Go types: from their
// comments, and from a marker at each field that says what it is in Neutron. A field without what the reference needs
// is an error that says what to write.
package main

import (
	"flag"
	"fmt"
	"os"

	"cloudteam.ztgame.com/network-controller/internal/kinds"
)

func main() {
	types := flag.String("types", "pkg/apis/cloudteam/v1", "folder of the API's types")
	out := flag.String("out", "docs/fields.md", "file to write")
	flag.Parse()
	if err := run(*types, *out); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(types, out string) error {
	source, err := readTypes(types)
	if err != nil {
		return err
	}
	var names []string
	for _, k := range kinds.All {
		names = append(names, k.Name)
	}
	names = append(names, "NetworkClass")
	var sections []section
	for _, name := range names {
		fields, err := source.fieldsOf(name + "Spec")
		if err != nil {
			return err
		}
		sections = append(sections, section{name, fields})
	}
	return os.WriteFile(out, []byte(page(sections)), 0o644)
}

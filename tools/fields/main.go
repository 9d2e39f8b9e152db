// Command fields writes the reference of the fields of the API's specs, docs/fields.md, from the Go types: from their
// comments, and from a marker at each field that says what it is in Neutron. A field without what the reference needs
// is an error that says what to write.
package main

import (
	"flag"
	"fmt"
	"os"
)

// kind is a kind of object whose spec the reference shows.
type kind struct {
	name, spec string
}

// kinds are in the order of the reference.
var kinds = []kind{
	{"Network", "NetworkSpec"}, {"NetworkPort", "NetworkPortSpec"}, {"SecurityGroup", "SecurityGroupSpec"},
	{"FloatingIP", "FloatingIPSpec"}, {"NetworkClass", "NetworkClassSpec"},
}

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
	sections := make([]section, len(kinds))
	for i, k := range kinds {
		fields, err := source.fieldsOf(k.spec)
		if err != nil {
			return err
		}
		sections[i] = section{k.name, fields}
	}
	return os.WriteFile(out, []byte(page(sections)), 0o644)
}

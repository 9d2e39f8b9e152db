// Command recording writes docs/images/demo.svg, the README's moving picture of make demo, from docs/demo.md, which
// holds what the demo printed. Run it from the repository's root; make generate does.
//
// It shows three steps, for as long as each has lines to read, and numbers them from 1. Ids are cut to eight
// characters, tables have fewer columns, and long lines are broken, so that the letters stay large enough to read.
package main

import (
	"fmt"
	"os"
)

const (
	source  = "docs/demo.md"
	picture = "docs/images/demo.svg"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "recording:", err)
		os.Exit(1)
	}
}

func run() error {
	page, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	svg, err := Record(string(page))
	if err != nil {
		return fmt.Errorf("%s: %w", source, err)
	}
	return os.WriteFile(picture, []byte(svg), 0o644)
}

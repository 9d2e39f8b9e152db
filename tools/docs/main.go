// Command docs checks the Markdown of this repository: links, what the commands in code blocks name, and whether
// translations are as new as their sources. It also refuses idioms there, in the texts of Go files and in docstrings.
// Run it from the repository's root.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	current := flag.String("current", "", "note that the translated `page` is as new as its source, and do nothing else")
	flag.Parse()
	ok, err := run(*current)
	if err != nil {
		fmt.Fprintln(os.Stderr, "docs:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

// run reports whether the documents are right. That a translation lags behind is a warning.
func run(current string) (bool, error) {
	files := os.DirFS(".")
	if current != "" {
		text, err := Current(files, current)
		if err != nil {
			return false, err
		}
		return true, os.WriteFile(current, []byte(text), 0o644)
	}
	problems, err := Check(files)
	if err != nil {
		return false, err
	}
	lagging, err := Lagging(files)
	if err != nil {
		return false, err
	}
	for _, line := range append(problems, lagging...) {
		fmt.Fprintln(os.Stderr, line)
	}
	return len(problems) == 0, nil
}

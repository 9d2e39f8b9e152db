// Command docs checks the Markdown of this repository: links, what the commands in code blocks name, and whether
// translations are as new as their sources. Run it from the repository's root.
package main

import (
	"fmt"
	"os"
)

func main() {
	problems, err := Check(os.DirFS("."))
	if err != nil {
		fmt.Fprintln(os.Stderr, "docs:", err)
		os.Exit(2)
	}
	for _, problem := range problems {
		fmt.Fprintln(os.Stderr, problem)
	}
	if len(problems) > 0 {
		os.Exit(1)
	}
}

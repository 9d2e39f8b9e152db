// Command page writes the results of the fault suite into docs/reliability.md, and each scenario's into README.md
// beside them.
//
// Usage: page PAGE FOLDER, which are paths: of the page, and of the folder with the results of the runs.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"cloudteam.ztgame.com/network-controller/test/faults/results"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: page PAGE FOLDER")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "page:", err)
		os.Exit(1)
	}
}

// write brings both pages up to date with the folder.
func write(page, folder string) error {
	emulator, err := results.Read(filepath.Join(folder, "emulator.jsonl"))
	if err != nil {
		return err
	}
	real, err := results.Read(filepath.Join(folder, "openstack.jsonl"))
	if err != nil {
		return err
	}
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	written, err := results.Insert(string(text), emulator, real)
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	if err := os.WriteFile(page, []byte(written), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "README.md"), []byte(results.Scenarios(emulator, real)), 0o644)
}

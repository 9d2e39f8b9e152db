// Command page writes the results of the fault suite into docs/reliability.md.
//
// Usage: page PAGE EMULATOR REAL, which are paths: of the page, and of the results of the runs on the emulator and on a
// real cloud.
package main

import (
	"fmt"
	"os"

	"cloudteam.ztgame.com/network-controller/test/faults/results"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: page PAGE EMULATOR REAL")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "page:", err)
		os.Exit(1)
	}
}

// write brings the page up to date with the two files.
func write(page, emulator, real string) error {
	onEmulator, err := results.Read(emulator)
	if err != nil {
		return err
	}
	onReal, err := results.Read(real)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	written, err := results.Insert(string(text), onEmulator, onReal)
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	return os.WriteFile(page, []byte(written), 0o644)
}

// SPDX-License-Identifier: Apache-2.0

package process

import (
	"os"
	"testing"
)

func TestChildEndsWithItsParent(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := make(chan string, 1)
	parent, err := Start(Program{
		Name: "parent", Path: program, Env: append(os.Environ(), parentVariable+"=1"),
		Line: func(line string) { child <- line },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(parent.Kill)
	pid := <-child
	// The parent alone: the child is in a group of its own.
	parent.Kill()
	awaitEnd(t, pid)
}

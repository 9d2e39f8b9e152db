// SPDX-License-Identifier: Apache-2.0

package process

import (
	"os"
	"testing"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestChildEndsWithItsParent(t *testing.T) {
	program, err := os.Executable()
	expect.NoError(t, err)
	child := make(chan string, 1)
	parent, err := Start(Program{
		Name: "parent", Path: program, Env: append(os.Environ(), parentVariable+"=1"),
		Line: func(line string) { child <- line },
	})
	expect.NoError(t, err)
	t.Cleanup(parent.Kill)
	pid := <-child
	// The parent alone: the child is in a group of its own.
	parent.Kill()
	awaitEnd(t, pid)
}

// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package process

import (
	"os/exec"
	"syscall"
)

// startWithParent starts cmd. These systems have no signal for the end of a parent: should this process be killed with
// SIGKILL, the program goes on.
func startWithParent(cmd *exec.Cmd, _ syscall.Signal, _ func(func())) error { return cmd.Start() }

// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package cluster

import "os/exec"

// startWithParent starts cmd. These systems have no signal for the end of a parent: should this process be killed with
// SIGKILL, the program goes on.
func startWithParent(cmd *exec.Cmd) error {
	return cmd.Start()
}

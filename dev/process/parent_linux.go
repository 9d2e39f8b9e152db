// SPDX-License-Identifier: Apache-2.0

package process

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// starter runs functions on one thread that lives as long as the process.
//
// The kernel sends the parent-death signal when the thread that started a child ends (prctl(2), PR_SET_PDEATHSIG), and
// the Go runtime may end a thread it has no use for. A goroutine that is locked to a thread and never returns keeps it.
var starter = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

// startWithParent starts cmd such that it gets the signal when this process ends, however it ends.
func startWithParent(cmd *exec.Cmd, orphaned syscall.Signal) error {
	cmd.SysProcAttr.Pdeathsig = orphaned
	result := make(chan error, 1)
	starter() <- func() { result <- cmd.Start() }
	return <-result
}

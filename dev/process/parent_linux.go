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

// startWithParent starts cmd, on the thread that on gives, such that it gets the signal when this process ends, however
// it ends.
func startWithParent(cmd *exec.Cmd, orphaned syscall.Signal, on func(func())) error {
	cmd.SysProcAttr.Pdeathsig = orphaned
	if on == nil {
		on = func(start func()) { starter() <- start }
	}
	result := make(chan error, 1)
	on(func() { result <- cmd.Start() })
	return <-result
}

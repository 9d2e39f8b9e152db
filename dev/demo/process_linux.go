package main

import "syscall"

// dieWithParent has the kernel send the signal to a child when the thread that started it ends (prctl(2),
// PR_SET_PDEATHSIG), be it because this process was killed.
func dieWithParent(attributes *syscall.SysProcAttr, signal syscall.Signal) {
	attributes.Pdeathsig = signal
}

package harness

import "syscall"

// dieWithParent has a process get the signal when the tests end without having stopped it: at go test's timeout, or
// killed. The kernel sends it when the thread that started the process ends (prctl(2), PR_SET_PDEATHSIG).
func dieWithParent(signal syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: signal}
}

//go:build !linux

package harness

import "syscall"

// dieWithParent can be done on Linux alone.
func dieWithParent(syscall.Signal) *syscall.SysProcAttr { return nil }

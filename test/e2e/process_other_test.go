//go:build !linux

package e2e

import "syscall"

// dieWithParent can be done on Linux alone.
func dieWithParent(syscall.Signal) *syscall.SysProcAttr { return nil }

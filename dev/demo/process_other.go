//go:build unix && !linux

package main

import "syscall"

// dieWithParent does nothing: other kernels than Linux tell no child of its parent's death. A child outlives this
// process if that is killed with SIGKILL, and only then.
func dieWithParent(*syscall.SysProcAttr, syscall.Signal) {}

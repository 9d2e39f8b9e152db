// Package controller is what every controller here is made of: a Loop (event handlers that put keys on a workqueue,
// workers that take them off and sync), Expectations (a key is not synced from a cache that has not seen the key's last
// write), and conditions. Each controller is a package below this one.
//
// Read in this order. Package foo is a whole controller in three files: watch.go, sync.go and desired.go. Then loop.go
// here, which calls it: HandlerOf, dispatch, process and retry. Then package managed, the sync of all kinds that have
// resources in Neutron: sync.go, apply.go and release.go. Then package plan, which compares what is declared with what
// exists. shares.go, spread.go and line.go keep one tenant's work from others; they come last.
package controller

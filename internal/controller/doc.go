// Package controller is what every controller here is made of: a Loop (event handlers that put keys on a workqueue,
// workers that take them off and sync), Expectations (a key is not synced from a cache that has not seen the key's last
// write), and conditions. Each controller is a package below this one.
//
// Read in this order, from the start of the process to the Deployment of a Foo:
//
//	cmd/network-controller/main.go         the process
//	internal/cli/cli.go                    flags, logs and signals
//	internal/app/app.go                    the command; clients, informers, and the order of starts and stops
//	internal/app/controllers.go            which controllers run, and when: start, lead and buildFoo
//	internal/controller/loop.go            events, queue and workers: HandlerOf, dispatch, process and retry
//	internal/controller/foo/controller.go  a whole controller: what it watches, its sync, and what it declares
//	internal/controller/create.go          the write
//
// To the POST of a Network it is the first five, and these:
//
//	internal/controller/network/controller.go   what the controller of Networks watches, and what a Network declares;
//	                                            buildNetwork and serveManaged of app/controllers.go start it
//	internal/declare/network.go                 the spec in the terms of package plan
//	internal/controller/managed/reconciler.go   what syncs a kind: its handlers, the choice of a cloud, the finalizer
//	internal/controller/managed/sync.go         the sync: look, plan, apply, until the plan is empty
//	internal/plan/network.go                    compare what is declared with what exists
//	internal/neutron/inventory/inventory.go     what exists (Observed), and the steps of a plan in order (Apply)
//	internal/neutron/inventory/network.go       which step is which request, and its body
//	internal/neutron/inventory/kind.go          create, update and remove of any kind
//	internal/neutron/batch/queue.go             whose turn it is, and many creates in one request
//	internal/neutron/client/cloud.go            the POST: CreateAll, the circuit breaker, the log-in, the request
//
// Their types are in managed/kind.go (Kind, Declaration, Inventory) and plan/change.go (Change, Step).
// managed/inventory.go has what is done if a list lacks what is expected, and managed/status.go what a sync reports.
//
// Beside the way are the class and its limits (managed/room.go), what a sync remembers (managed/memory.go), other
// clouds (managed/clouds.go), the leader's permit (app/leader.go) and the deletion (managed/release.go). shares.go,
// spread.go and line.go keep one tenant's work from others; they come last.
package controller

// Package client is the only door to OpenStack. A Cloud logs in to one project of one cloud through gophercloud, sends
// one request at a time under a deadline, and says with an *Error what became of it. It stops sending while the cloud
// does not answer. It knows no kind of resource: callers name a Collection and decode what it holds.
package client

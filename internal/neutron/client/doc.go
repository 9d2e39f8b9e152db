// Package client is the only access to OpenStack. A Cloud logs in to one project of one cloud through gophercloud. It
// sends each request under a deadline and reports failures as an *Error. During an outage it sends nothing but probes.
// It knows no kind of resource: callers name a Collection and decode the answers.
package client

// Package batch sends many workers' writes to one cloud in few, large calls. A Queue puts creates together, has flows
// take turns, and learns how many calls the cloud serves at a time. It knows no kind of resource: an Item names its
// client.Collection.
package batch

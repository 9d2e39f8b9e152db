// Package batch reduces the calls that many workers' writes cost one cloud. A Queue sends creates in bulk, serves flows
// in turn, and adapts the number of concurrent calls to the cloud. It knows no kind of resource: an Item names its
// client.Collection.
package batch

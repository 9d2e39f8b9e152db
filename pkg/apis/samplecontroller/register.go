// Package samplecontroller holds what all versions of the samplecontroller.k8s.io API group share.
package samplecontroller

// GroupName is the API group of Foo.
const GroupName = "samplecontroller.k8s.io"

// Package declare translates API objects into the input of a plan: a Network becomes a plan.Spec. The package is pure.
// It reads no Kubernetes API and no Neutron API, so a controller and a command can both compute the same plan. It reads
// only the object, and what its caller has read of those that the object refers to.
package declare

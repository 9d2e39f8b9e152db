// Package plan is the domain: what a network should be (Spec), what it is (Observed), and the steps from one to the
// other (Network, Port). It is pure: no I/O, no clock, no Kubernetes and no Neutron types, the standard library only.
// Everything in it is a value, safe to copy and to compare. It never writes to the slices of its arguments.
package plan

// Package plan is the domain. It has the desired state (Spec, PortSpec), the observed state (Observed), and the steps
// between them (Network, Port). It is pure: no I/O, no clock, no Kubernetes types and no Neutron types. It imports the
// standard library only. Everything in it is a value, safe to copy and to compare. It never writes to the slices of its
// arguments.
package plan

// Package declare brings objects of the API into the form that is planned with: what a Network and a NetworkPort
// declare, as a plan.Spec and a plan.PortSpec. It is pure: it asks neither Kubernetes nor Neutron, so that a controller
// and a command line can both say what would be done. It reads the object, and of a NetworkPort the Network's status.
package declare

// Package declare translates API objects into the input of a plan. A Network becomes a plan.Spec, a NetworkPort a
// plan.PortSpec, and a SecurityGroup a plan.GroupSpec. The package is pure: it reads no Kubernetes API and no Neutron
// API. So a controller and a command-line tool can both compute the same plan. It reads only the object, and for a
// NetworkPort also the Network's status.
package declare

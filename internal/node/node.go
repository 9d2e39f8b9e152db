// Package node is the data plane on a node: the CNI plugin neutron-port makes the interface of a Pod, and network-agent
// connects it to the port in Neutron. See docs/adr/0034-a-plugin-and-an-agent-on-each-node.md.
package node

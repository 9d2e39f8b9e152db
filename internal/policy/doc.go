// Package policy translates MultiNetworkPolicies into security groups. It is pure: it reads no cache and calls nobody.
//
// MultiNetworkPolicy is a kind of the Kubernetes Network Plumbing Working Group, and its spec is that of Kubernetes'
// NetworkPolicy: a Pod that no policy selects may send and receive everything; in the directions of the policies that
// select it, it may send and receive what at least one of them lists. Neutron's security groups have the same form: a
// port may send and receive what a rule of at least one of its groups lists. So each policy becomes a group on each of
// its Networks, and a direction that no policy restricts becomes a group that opens it.
//
// Peers of the own namespace become groups, too, without any rules, which the rules of others name. So the rules of a
// policy stay as they are when Pods come and go. Peers of other namespaces become addresses: anyone who may write
// policies in one namespace must not put the ports of others into groups.
package policy

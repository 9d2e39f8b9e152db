// SPDX-License-Identifier: Apache-2.0

// Package nodes makes the nodes of a cluster on one machine: each has its own namespaces, with Open vSwitch in user
// space, ovn-controller or Neutron's Open vSwitch agent, and if asked a kubelet with containerd and Multus. Nodes reach
// each other by an underlay that reaches nothing else.
//
// All of it ends with the process that made it, however that ends: what runs on a node is in a PID namespace whose
// first process gets a signal then, and its interfaces and mounts are in namespaces that go with their last process.
// The kernel's parameters that a kubelet sets are files of the node's own.
//
// It needs root, Linux, and the Debian packages that `dev/openstack/openstack up --dataplane` installs, or
// `--dataplane=ovs` for Neutron's agents.
package nodes

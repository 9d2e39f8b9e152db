// Package dataplane sends packets between Pods by their ports in Neutron. The parts are real: Keystone, Neutron with
// ML2/OVN, OVN, Open vSwitch in user space on nodes that are namespaces, a control plane, the controller, the agent and
// the CNI plugin, and on the last level kubelets with containerd and Multus. `make test-dataplane` runs it. Elsewhere
// its tests are skipped.
package dataplane

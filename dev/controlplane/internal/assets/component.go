// SPDX-License-Identifier: Apache-2.0

// Package assets provides the programs of a Kubernetes control plane: it finds them where the machine already has them,
// or fetches or builds them into a cache.
package assets

import (
	"fmt"
	"slices"
	"strings"
)

// Component is the name of a part of the control plane. It is also the file name of its program.
type Component string

// The components this package can provide.
const (
	Etcd                  Component = "etcd"
	KubeAPIServer         Component = "kube-apiserver"
	KubeControllerManager Component = "kube-controller-manager"
	KubeScheduler         Component = "kube-scheduler"

	// Node is a Node that runs no containers. The launcher plays it, so that it has no program.
	Node Component = "node"

	// Kubelet and Multus are no part of a control plane: dev/dataplane runs them on its nodes.
	Kubelet Component = "kubelet"
	Multus  Component = "multus"
)

// All lists the components of a control plane in the order in which they start: each needs only those before it.
func All() []Component {
	return []Component{Etcd, KubeAPIServer, KubeControllerManager, KubeScheduler, Node}
}

// Minimal lists the components that serve the Kubernetes API and nothing more. These are what envtest starts.
func Minimal() []Component {
	return []Component{Etcd, KubeAPIServer}
}

// ForContainers lists the programs for a node that runs containers.
func ForContainers() []Component {
	return []Component{Kubelet, Multus}
}

// ParseComponents reads a comma-separated list of component names, or "all" for those of a control plane. The result is
// free of duplicates and in start order. An unknown name and an empty list are errors.
func ParseComponents(list string) ([]Component, error) {
	if list == "all" {
		return All(), nil
	}
	known := append(All(), ForContainers()...)
	asked := map[Component]bool{}
	for name := range strings.SplitSeq(list, ",") {
		c := Component(name)
		if !slices.Contains(known, c) {
			return nil, fmt.Errorf("unknown component %q: choose from %s, or say all", c, Join(known))
		}
		asked[c] = true
	}
	return slices.DeleteFunc(known, func(c Component) bool { return !asked[c] }), nil
}

// Join returns the names of the components, separated by commas, as ParseComponents reads them.
func Join(components []Component) string {
	names := make([]string, len(components))
	for i, c := range components {
		names[i] = string(c)
	}
	return strings.Join(names, ",")
}

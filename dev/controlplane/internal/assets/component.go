// SPDX-License-Identifier: Apache-2.0

// Package assets provides the binaries of a Kubernetes control plane: it finds them where the machine already has them,
// or builds them from the Go module proxy into a cache.
package assets

import (
	"fmt"
	"slices"
	"strings"
)

// Component is the name of a program of the control plane. It is also the file name of its binary.
type Component string

// The components this package can provide.
const (
	Etcd                  Component = "etcd"
	KubeAPIServer         Component = "kube-apiserver"
	KubeControllerManager Component = "kube-controller-manager"
	KubeScheduler         Component = "kube-scheduler"
	Kwok                  Component = "kwok"

	// Kubelet and Multus are no part of a control plane: dev/dataplane runs them on its nodes.
	Kubelet Component = "kubelet"
	Multus  Component = "multus"
)

// StagesFile is the file beside the kwok binary that holds the Stage objects kwok plays: how a fake Node and its Pods
// become ready. It is one YAML stream, made for kwok's --config flag.
const StagesFile = "kwok-stages.yaml"

// All lists the components of a control plane in the order in which they start: each needs only those before it.
func All() []Component {
	return []Component{Etcd, KubeAPIServer, KubeControllerManager, KubeScheduler, Kwok}
}

// Minimal lists the components that serve the Kubernetes API and nothing more. These are what envtest starts.
func Minimal() []Component {
	return []Component{Etcd, KubeAPIServer}
}

// Node lists what is built for a node that runs containers, and not for a control plane.
func Node() []Component {
	return []Component{Kubelet, Multus}
}

// ParseComponents reads a comma-separated list of component names, or "all" for those of a control plane. The result is
// free of duplicates and in start order, whatever the order of the names. It returns an error when a name is unknown,
// which lists the known ones, and when the list is empty.
func ParseComponents(list string) ([]Component, error) {
	if strings.TrimSpace(list) == "all" {
		return All(), nil
	}
	known := append(All(), Node()...)
	asked := map[Component]bool{}
	for name := range strings.SplitSeq(list, ",") {
		c := Component(strings.TrimSpace(name))
		if c == "" {
			continue
		}
		if !slices.Contains(known, c) {
			return nil, fmt.Errorf("unknown component %q: choose from %s, or say all", c, Join(known))
		}
		asked[c] = true
	}
	if len(asked) == 0 {
		return nil, fmt.Errorf("no components are named: choose from %s, or say all", Join(All()))
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

// files are the names of the files that must be in a directory for it to provide c.
func (c Component) files() []string {
	if c == Kwok {
		return []string{string(Kwok), StagesFile}
	}
	return []string{string(c)}
}

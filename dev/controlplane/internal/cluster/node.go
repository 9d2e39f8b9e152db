// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"

	"cloudteam.ztgame.com/network-controller/dev/controlplane/internal/assets"
)

// NodeName is the name of the Node that kwok plays.
const NodeName = "node-0"

// node is the part of a v1.Node that is written and read here.
type node struct {
	APIVersion string     `json:"apiVersion"`
	Kind       string     `json:"kind"`
	Metadata   metadata   `json:"metadata"`
	Spec       nodeSpec   `json:"spec"`
	Status     nodeStatus `json:"status"`
}

type metadata struct {
	Name        string            `json:"name"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type nodeSpec struct {
	Taints []taint `json:"taints,omitempty"`
}

type taint struct {
	Key    string `json:"key"`
	Effect string `json:"effect"`
}

type nodeStatus struct {
	Conditions []condition `json:"conditions,omitempty"`
}

type condition struct {
	Type   string `json:"type"`
	Status string `json:"status"`
}

// createNode registers the fake Node, as a kubelet would register its own. That it exists already, in a directory that
// is used again, is no error.
func (c *Cluster) createNode(ctx context.Context) error {
	key, value, _ := strings.Cut(fakeNodeSelector, "=")
	// What is left out, capacity above all, kwok's Stage fills in: large enough never to be what stops a Pod.
	err := c.api.create(ctx, c.url+"/api/v1/nodes", node{
		APIVersion: "v1",
		Kind:       "Node",
		Metadata: metadata{
			Name: NodeName,
			Labels: map[string]string{
				"kubernetes.io/hostname": NodeName,
				"kubernetes.io/os":       "linux",
				"kubernetes.io/arch":     runtime.GOARCH,
				"type":                   "kwok",
			},
			Annotations: map[string]string{key: value},
		},
	})
	var status *statusError
	if errors.As(err, &status) && status.code == http.StatusConflict {
		return nil
	}
	if err != nil {
		return fmt.Errorf("create the Node %s: %w", NodeName, err)
	}
	return nil
}

// nodeReady returns nil once Pods can be scheduled to the fake Node.
func (c *Cluster) nodeReady(ctx context.Context) error {
	var n node
	if err := c.api.get(ctx, c.url+"/api/v1/nodes/"+NodeName, &n); err != nil {
		return err
	}
	ready := false
	for _, condition := range n.Status.Conditions {
		ready = ready || condition.Type == "Ready" && condition.Status == "True"
	}
	if !ready {
		return fmt.Errorf("the Node %s is not Ready", NodeName)
	}
	// A new Node bears the taint node.kubernetes.io/not-ready until the node lifecycle controller has seen it Ready;
	// where that controller does not run, the taint stays.
	if len(n.Spec.Taints) > 0 && c.has(assets.KubeControllerManager) {
		return fmt.Errorf("the Node %s is tainted with %s", NodeName, n.Spec.Taints[0].Key)
	}
	return nil
}

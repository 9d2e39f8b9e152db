// SPDX-License-Identifier: Apache-2.0

//go:build unix

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"cloudteam.ztgame.com/network-controller/dev/controlplane/internal/assets"
)

// NodeName is the name of the Node that the launcher plays.
const NodeName = "node-0"

const (
	// leasePace is how often the Node's Lease is renewed, and leaseSeconds how long it holds, as a kubelet has it. Without
	// it, the node lifecycle controller takes the Node for lost.
	leasePace    = 10 * time.Second
	leaseSeconds = 40
	// nodeWorkers is how many Pods are served at the same time.
	nodeWorkers = 16
	// nodePause is the time before a request that failed is repeated.
	nodePause = time.Second
)

// object is the JSON of an object, or of a part of one.
type object = map[string]any

type metadata struct {
	Name              string            `json:"name"`
	Namespace         string            `json:"namespace"`
	UID               string            `json:"uid"`
	Annotations       map[string]string `json:"annotations"`
	DeletionTimestamp *time.Time        `json:"deletionTimestamp"`
	ResourceVersion   string            `json:"resourceVersion"`
}

type condition struct {
	Type   string `json:"type"`
	Status string `json:"status"`
}

// pod is the part of a v1.Pod that a Node reads.
type pod struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		Containers     []container `json:"containers"`
		InitContainers []container `json:"initContainers"`
		HostNetwork    bool        `json:"hostNetwork"`
	} `json:"spec"`
	Status struct {
		Phase string `json:"phase"`
		PodIP string `json:"podIP"`
	} `json:"status"`
}

type container struct {
	Name  string `json:"name"`
	Image string `json:"image"`
}

// player plays a kubelet whose Node runs no containers: a Pod that is bound to the Node runs and is ready at once, and
// one that is deleted goes at once.
type player struct {
	c *Cluster
	// done is what was done for a Pod last, by its UID.
	done map[string]deed
	// taken are the addresses of Pods, and last the one that was given last.
	taken   map[string]bool
	last    netip.Addr
	workers errgroup.Group
}

// deed is what a kubelet does for a Pod.
type deed int

const (
	started deed = iota + 1
	ended
)

// startNode makes the Node, and plays it until the control plane stops. It returns when Pods can be scheduled to it.
func (c *Cluster) startNode(ctx context.Context) error {
	playing, stop := context.WithCancel(context.WithoutCancel(ctx))
	c.stopNode = func() {
		stop()
		c.playing.Wait()
	}
	c.playing.Go(func() { c.repeat(playing, leasePace, c.renewLease) })
	c.playing.Go(func() {
		if c.repeat(playing, 0, c.createNode) {
			p := &player{c: c, done: map[string]deed{}, taken: map[string]bool{}, last: podRange.Addr()}
			p.workers.SetLimit(nodeWorkers)
			for playing.Err() == nil {
				c.repeat(playing, 0, p.follow)
			}
			_ = p.workers.Wait()
		}
	})
	var last error
	err := c.poll(ctx, func(ctx context.Context) (bool, error) {
		last = c.nodeReady(ctx)
		return last == nil, nil
	})
	if errors.Is(err, errSlow) {
		return fmt.Errorf("within %s: %w", c.options.StartTimeout, last)
	}
	return err
}

// repeat calls do until it succeeds, or where there is a pace until ctx ends. It reports whether ctx goes on.
func (c *Cluster) repeat(ctx context.Context, pace time.Duration, do func(context.Context) error) bool {
	for {
		pause := pace
		if err := do(ctx); err != nil {
			pause = nodePause
		}
		if pause == 0 {
			return ctx.Err() == nil
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pause):
		}
	}
}

// createNode registers the Node as a kubelet does. In a directory that is used again it exists, and is made Ready.
func (c *Cluster) createNode(ctx context.Context) error {
	resources := object{"cpu": "1k", "memory": "1Ti", "ephemeral-storage": "1Ti", "pods": "1M"}
	conditions := []object{played("Ready", "True", "KubeletReady")}
	for _, pressure := range []string{"MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"} {
		conditions = append(conditions, played(pressure, "False", "RunsNoContainers"))
	}
	status := object{
		"capacity": resources, "allocatable": resources, "conditions": conditions,
		"addresses": []object{{"type": "InternalIP", "address": nodeIP}, {"type": "Hostname", "address": NodeName}},
		"nodeInfo": object{
			"architecture": runtime.GOARCH, "operatingSystem": "linux", "kubeletVersion": assets.Node.Version(),
			"bootID": "", "containerRuntimeVersion": "none", "kernelVersion": "", "kubeProxyVersion": "", "machineID": "",
			"osImage": "none", "systemUUID": "",
		},
	}
	nodes := c.url + "/api/v1/nodes"
	err := c.api.create(ctx, nodes, object{
		"apiVersion": "v1", "kind": "Node", "status": status,
		"metadata": object{"name": NodeName, "labels": object{
			"kubernetes.io/hostname": NodeName, "kubernetes.io/os": "linux", "kubernetes.io/arch": runtime.GOARCH,
		}},
	})
	if is(err, http.StatusConflict) {
		return c.api.patch(ctx, nodes+"/"+NodeName+"/status", object{"status": status})
	}
	return err
}

// played is a condition of a Node or Pod.
func played(kind, status, reason string) object {
	now := time.Now().UTC().Format(time.RFC3339)
	return object{
		"type": kind, "status": status, "reason": reason, "lastTransitionTime": now, "message": "Nothing runs on this Node",
	}
}

func (c *Cluster) renewLease(ctx context.Context) error {
	lease, err := json.Marshal(object{
		"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
		"metadata": object{"name": NodeName, "namespace": "kube-node-lease"},
		"spec": object{
			"holderIdentity": NodeName, "leaseDurationSeconds": leaseSeconds,
			"renewTime": time.Now().UTC().Format("2006-01-02T15:04:05.000000Z07:00"),
		},
	})
	if err != nil {
		return err
	}
	return c.api.apply(ctx, c.url+"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/"+NodeName, lease)
}

// nodeReady returns nil once Pods can be scheduled to the Node.
func (c *Cluster) nodeReady(ctx context.Context) error {
	var node struct {
		Spec struct {
			Taints []struct {
				Key string `json:"key"`
			} `json:"taints"`
		} `json:"spec"`
	}
	if err := c.api.get(ctx, c.url+"/api/v1/nodes/"+NodeName, &node); err != nil {
		return err
	}
	// A new Node bears the taint node.kubernetes.io/not-ready until the node lifecycle controller has seen it Ready;
	// where that controller does not run, the taint stays.
	if len(node.Spec.Taints) > 0 && c.has(assets.KubeControllerManager) {
		return fmt.Errorf("the Node %s is tainted with %s", NodeName, node.Spec.Taints[0].Key)
	}
	return nil
}

// follow serves the Pods of the Node, those that are there and those that come, until the watch ends.
func (p *player) follow(ctx context.Context) error {
	pods := p.c.url + "/api/v1/pods?fieldSelector=" + url.QueryEscape("spec.nodeName="+NodeName)
	var list struct {
		Metadata metadata `json:"metadata"`
		Items    []*pod   `json:"items"`
	}
	if err := p.c.api.get(ctx, pods, &list); err != nil {
		return err
	}
	for _, item := range list.Items {
		p.taken[item.Status.PodIP] = true
	}
	for _, item := range list.Items {
		p.serve(ctx, item)
	}
	return p.c.api.watch(ctx, pods+"&watch=true&resourceVersion="+list.Metadata.ResourceVersion,
		func(decode func(any) error) error {
			var event struct {
				Type   string          `json:"type"`
				Object json.RawMessage `json:"object"`
			}
			if err := decode(&event); err != nil {
				return err
			}
			item := &pod{}
			switch err := json.Unmarshal(event.Object, item); {
			case err != nil:
				return err
			case event.Type == "ERROR": // the version is too old
				return fmt.Errorf("the watch of Pods: %s", event.Object)
			case event.Type == "DELETED":
				delete(p.done, item.Metadata.UID)
				delete(p.taken, item.Status.PodIP)
			default:
				p.serve(ctx, item)
			}
			return nil
		})
}

// serve does once what a Pod's state asks for.
func (p *player) serve(ctx context.Context, item *pod) {
	uid, path := item.Metadata.UID, "/api/v1/namespaces/"+item.Metadata.Namespace+"/pods/"+item.Metadata.Name
	var request func(context.Context) error
	switch {
	case item.Metadata.DeletionTimestamp != nil && p.done[uid] != ended:
		p.done[uid] = ended
		request = func(ctx context.Context) error {
			return p.c.api.delete(ctx, p.c.url+path, object{
				"gracePeriodSeconds": 0, "preconditions": object{"uid": uid},
			})
		}
	case item.Metadata.DeletionTimestamp == nil && item.Status.Phase == "Pending" && p.done[uid] == 0:
		p.done[uid] = started
		status := p.running(item)
		request = func(ctx context.Context) error {
			// The UID makes it a conflict where another Pod has the name meanwhile.
			return p.c.api.patch(ctx, p.c.url+path+"/status", object{"metadata": object{"uid": uid}, "status": status})
		}
	default:
		return
	}
	p.workers.Go(func() error {
		p.c.repeat(ctx, 0, func(ctx context.Context) error {
			err := request(ctx)
			if is(err, http.StatusNotFound) || is(err, http.StatusConflict) {
				return nil // it is gone
			}
			return err
		})
		return nil
	})
}

// running is the status of a Pod whose containers run.
func (p *player) running(item *pod) object {
	now := time.Now().UTC().Format(time.RFC3339)
	address := nodeIP
	if !item.Spec.HostNetwork {
		address = p.address()
	}
	statuses := func(of []container, state object) (list []object) {
		for _, one := range of {
			list = append(list, object{
				"name": one.Name, "image": one.Image, "imageID": "", "ready": true, "started": true, "restartCount": 0,
				"state": state,
			})
		}
		return list
	}
	var conditions []object
	for _, kind := range []string{"PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready"} {
		conditions = append(conditions, played(kind, "True", ""))
	}
	return object{
		"phase": "Running", "startTime": now, "conditions": conditions,
		"hostIP": nodeIP, "hostIPs": []object{{"ip": nodeIP}}, "podIP": address, "podIPs": []object{{"ip": address}},
		"containerStatuses": statuses(item.Spec.Containers, object{"running": object{"startedAt": now}}),
		"initContainerStatuses": statuses(item.Spec.InitContainers, object{"terminated": object{
			"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now,
		}}),
	}
}

// address gives an address that no Pod has.
func (p *player) address() string {
	for {
		if p.last = p.last.Next(); !podRange.Contains(p.last) {
			p.last = podRange.Addr().Next()
		}
		if address := p.last.String(); !p.taken[address] {
			p.taken[address] = true
			return address
		}
	}
}

// is reports whether a server answered with the code.
func is(err error, code int) bool {
	status, ok := errors.AsType[*statusError](err)
	return ok && status.code == code
}

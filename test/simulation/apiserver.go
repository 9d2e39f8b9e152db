package simulation

import (
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// APIServer is a Kubernetes API server without etcd, with the controllers and the node that its Pods need. It has what
// the controller and its tests rely on: resource versions that all kinds share, generations, conflicts, preconditions,
// finalizers, grace periods, the status apart, defaults of CRDs, server-side apply, selectors, and watches that go on
// from any version. Of the rules of CRDs it has those that its caller knows, and it authorizes everybody.
type APIServer struct {
	*store
	server  *http.Server
	url     string
	stopped chan struct{}
	running sync.WaitGroup
}

// StartAPIServer serves at a host (see Listen) until Stop, which MUST be called. crds are files, or folders, of CRDs,
// and may are their rules; nil for none. It has the namespaces default, kube-system and network-controller.
func StartAPIServer(host string, may Rules, crds ...string) (*APIServer, error) {
	stored, err := newStore(crds...)
	if err != nil {
		return nil, err
	}
	listener := Listen(host)
	a := &APIServer{store: stored, url: "http://" + listener.Addr().String(), stopped: make(chan struct{})}
	a.admit, a.may = a.admitted, may
	for _, name := range []string{"default", "kube-system", "network-controller"} {
		namespace := &object{Object: map[string]any{}}
		namespace.SetName(name)
		if _, err := a.create(a.of("namespaces"), namespace); err != nil {
			return nil, err
		}
	}
	a.server = &http.Server{Handler: a}
	a.running.Go(func() { _ = a.server.Serve(listener) })
	a.running.Go(a.runCluster)
	return a, nil
}

// URL is the address of the API.
func (a *APIServer) URL() string { return a.url }

// Stop cuts all connections, and returns when nothing runs any more.
func (a *APIServer) Stop() {
	close(a.stopped)
	_ = a.server.Close()
	a.running.Wait()
}

// admitted does what admission does: Pods that declare networks get the gate of config/admission, in a namespace with
// its label, and their annotation is derived.
func (a *APIServer) admitted(k *kind, was, obj *object) {
	if was != nil {
		if annotations := obj.GetAnnotations(); k.name == "Pod" && a.guards(obj) {
			controllertest.DeriveNetworks(false, annotations)
			obj.SetAnnotations(annotations)
		}
		return
	}
	if k.name == "Namespace" {
		labels := obj.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels["kubernetes.io/metadata.name"] = obj.GetName()
		obj.SetLabels(labels)
	}
	if spec, ok := obj.Object["spec"].(map[string]any); ok && k.name == "Deployment" {
		defaults := map[string]any{"replicas": int64(1), "strategy": map[string]any{
			"type": "RollingUpdate", "rollingUpdate": map[string]any{"maxSurge": "25%", "maxUnavailable": "25%"},
		}}
		for field, value := range defaults {
			if is, there := spec[field].(map[string]any); spec[field] == nil || there && len(is) == 0 {
				spec[field] = value
			}
		}
	}
	if k.name != "Pod" {
		return
	}
	obj.Object["status"] = map[string]any{"phase": "Pending"}
	if !a.guards(obj) {
		return
	}
	annotations := obj.GetAnnotations()
	controllertest.DeriveNetworks(true, annotations)
	obj.SetAnnotations(annotations)
	if node, _, _ := unstructured.NestedString(obj.Object, "spec", "nodeName"); node != "" {
		return
	}
	gates, _, _ := unstructured.NestedSlice(obj.Object, "spec", "schedulingGates")
	gates = append(gates, map[string]any{"name": cloudteamv1.SchedulingGate})
	if err := unstructured.SetNestedSlice(obj.Object, gates, "spec", "schedulingGates"); err != nil {
		panic(err) // a Pod's spec is an object
	}
}

// guards reports whether the policies of config/admission concern a Pod, which declares networks.
func (a *APIServer) guards(pod *object) bool {
	namespace := a.of("namespaces").objects[types.NamespacedName{Name: pod.GetNamespace()}]
	return pod.GetAnnotations()[selection.Annotation] != "" && namespace != nil &&
		namespace.GetLabels()[cloudteamv1.LabelNetworks] == cloudteamv1.LabelNetworksEnabled
}

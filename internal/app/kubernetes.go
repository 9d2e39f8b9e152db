package app

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/cli"
	"cloudteam.ztgame.com/network-controller/internal/fair"
)

func kubeConfig(o Options) (*rest.Config, error) {
	config, err := cli.KubeConfig(program, o.Master, o.Kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst, config.Dial = -1, 0, o.Dial
	return config, nil
}

// requestsAtOnce is how many requests to the API server are under way, and half of it is how many one namespace may
// have. A server that computes with few processors answers no sooner if it has more, and answers all of them later.
const requestsAtOnce = 16

// takeTurns makes the clients of a configuration send a bounded number of requests at once, of all namespaces in
// turn. So a namespace of which much is to be written waits for itself. A watch counts until it has begun. What the
// server does not answer within a second counts no longer. A sync that waits for an answer gives its processor back.
func takeTurns(config *rest.Config) {
	requests := fair.NewProcessors(requestsAtOnce)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return turns{next, requests} })
}

type turns struct {
	http.RoundTripper
	requests *fair.Processors
}

// RoundTrip implements http.RoundTripper.
func (t turns) RoundTrip(r *http.Request) (*http.Response, error) {
	fair.Yield(r.Context())
	_, leave := t.requests.Enter(r.Context(), namespaceIn(r.URL.Path))
	defer leave()
	return t.RoundTripper.RoundTrip(r)
}

// namespaceIn is the namespace that a path of the API names, "" without one.
func namespaceIn(path string) string {
	_, rest, _ := strings.Cut(path, "/namespaces/")
	namespace, _, _ := strings.Cut(rest, "/")
	return namespace
}

// startTimeout is how long the process waits for the API server at the start before it gives up.
const startTimeout = 30 * time.Second

// clusterUID reads the UID of the namespace kube-system, which identifies this cluster.
func clusterUID(ctx context.Context, kube kubernetes.Interface) (string, error) {
	var uid string
	var last error
	err := wait.PollUntilContextTimeout(ctx, time.Second, startTimeout, true, func(ctx context.Context) (bool, error) {
		namespace, err := kube.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
		if err != nil {
			if last == nil {
				klog.FromContext(ctx).Info("Waiting for the Kubernetes API server", "err", err)
			}
			last = err
			return false, nil
		}
		uid = string(namespace.UID)
		return true, nil
	})
	if err != nil && last != nil {
		err = last
	}
	if err != nil {
		return "", fmt.Errorf("reading the namespace kube-system, whose UID identifies the cluster: %w", err)
	}
	return uid, nil
}

// discoverer asks the API server which resources it serves. It caches nothing.
type discoverer struct {
	discovery.ServerResourcesInterfaceWithContext
	// logged are the resources whose absence was logged: several controllers may wait for one.
	logged sync.Map
}

func newDiscoverer(client discovery.DiscoveryInterface) *discoverer {
	return &discoverer{
		ServerResourcesInterfaceWithContext: discovery.ToServerResourcesInterfaceWithContext(client),
	}
}

// serves reports whether the API server serves a resource.
func (d *discoverer) serves(ctx context.Context, resource schema.GroupVersionResource) (bool, error) {
	list, err := d.ServerResourcesForGroupVersionWithContext(ctx, resource.GroupVersion().String())
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool {
		return r.Name == resource.Resource
	}), nil
}

// installed reports whether the API server serves all of some resources, and retries until it answers. Its only error
// is ctx's.
func (d *discoverer) installed(ctx context.Context, resources ...schema.GroupVersionResource) (all bool, err error) {
	for _, resource := range resources {
		err := wait.PollUntilContextCancel(ctx, discoveryPoll, true, func(ctx context.Context) (bool, error) {
			var err error
			all, err = d.serves(ctx, resource)
			return err == nil, nil
		})
		if err != nil || !all {
			return false, err
		}
	}
	return true, nil
}

// discoveryPoll is how often a controller asks the API server for a resource that it waits for.
const discoveryPoll = 2 * time.Second

// await waits until the API server serves the resources, because the CRDs may be installed after the controller
// starts. It logs once for each resource that it is missing. Its only error is ctx's.
func (d *discoverer) await(
	ctx context.Context, poll time.Duration, missing string, resources ...schema.GroupVersionResource,
) error {
	for _, resource := range resources {
		err := wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
			ok, err := d.serves(ctx, resource)
			switch {
			case ok:
				return true, nil
			case err == nil && d.first(resource):
				values := []any{"resource", resource.GroupResource().String(), "version", resource.Version}
				if command, ok := installs[resource.Group]; ok {
					values = append(values, "install", command)
				}
				klog.FromContext(ctx).Info(missing, values...)
			case err != nil && ctx.Err() == nil && d.first(resource.GroupVersion()):
				klog.FromContext(ctx).Info("Waiting for the Kubernetes API server", "err", err)
			}
			return false, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// first reports whether nothing was logged about a resource or group before.
func (d *discoverer) first(what any) bool {
	_, again := d.logged.LoadOrStore(what, true)
	return !again
}

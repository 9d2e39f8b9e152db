package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	attachmentcontroller "cloudteam.ztgame.com/network-controller/internal/controller/attachment"
	"cloudteam.ztgame.com/network-controller/internal/redact"
	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

func kubeConfig(o Options) (*rest.Config, error) {
	var config *rest.Config
	var err error
	if o.Kubeconfig == "" && o.Master == "" {
		config, err = rest.InClusterConfig()
		if errors.Is(err, rest.ErrNotInCluster) {
			return nil, errors.New("this is no Pod: give --kubeconfig, the path of a kubeconfig file, or --master, " +
				"the address of the Kubernetes API server")
		}
	} else {
		config, err = clientcmd.BuildConfigFromFlags(o.Master, o.Kubeconfig)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the Kubernetes configuration: %w", err)
	}
	config.QPS, config.Burst = o.KubeQPS, o.KubeBurst
	config.UserAgent = userAgent()
	// client-go's errors hold the whole page that a proxy answers with.
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return redact.Transport{Next: next, Secrets: authorization}
	})
	return config, nil
}

// authorization gives what a request to the API server proves itself with, other than by a certificate.
func authorization(r *http.Request) []string {
	_, password, _ := r.BasicAuth()
	_, credentials, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return []string{credentials, password}
}

// startPatience is how long the API server may be out of reach at the start before the process gives up.
const startPatience = 30 * time.Second

// clusterUID reads the UID of the namespace kube-system, which tells this cluster from every other.
func clusterUID(ctx context.Context, kube kubernetes.Interface) (string, error) {
	var uid string
	var last error
	err := wait.PollUntilContextTimeout(ctx, time.Second, startPatience, true, func(ctx context.Context) (bool, error) {
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

// read are the annotations of Pods, and of the templates of Pods, that a controller reads.
var read = []string{selection.Annotation, cloudteamv1.AnnotationAllocations, corev1.MirrorPodAnnotationKey}

func unread(key, _ string) bool { return !slices.Contains(read, key) }

// trim takes from an object, before it goes into a cache, what nothing here reads: of every object the managed fields,
// which are the larger part of many; of ReplicaSets and Pods, of which a cluster has many, all but whose they are, what
// they declare and have of networks, and how far a Pod is. Who reads another field of theirs has to leave it here.
func trim(obj any) (any, error) {
	object, err := meta.Accessor(obj)
	if err != nil {
		return obj, nil //nolint:nilerr // a tombstone is let through
	}
	object.SetManagedFields(nil)
	switch object := obj.(type) {
	case *appsv1.ReplicaSet:
		object.Labels, object.Annotations = nil, nil
		object.Spec, object.Status = appsv1.ReplicaSetSpec{}, appsv1.ReplicaSetStatus{}
	case *corev1.Pod:
		object.Labels = nil
		maps.DeleteFunc(object.Annotations, unread)
		object.Spec = corev1.PodSpec{
			NodeName: object.Spec.NodeName, HostNetwork: object.Spec.HostNetwork,
			SchedulingGates: object.Spec.SchedulingGates,
		}
		conditions := slices.DeleteFunc(object.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type != cloudteamv1.ConditionNetworksReady
		})
		object.Status = corev1.PodStatus{Phase: object.Status.Phase, Conditions: slices.Clip(conditions)}
	}
	return obj, nil
}

// discoverer asks the API server what it serves, each time anew.
type discoverer struct {
	discovery.ServerResourcesInterfaceWithContext
	// told remembers what was logged, since several controllers may wait for one resource.
	told sync.Map
}

func newDiscoverer(client discovery.DiscoveryInterface) *discoverer {
	return &discoverer{
		ServerResourcesInterfaceWithContext: discovery.ToServerResourcesInterfaceWithContext(client),
	}
}

// until is an attachmentcontroller.Discovery whose questions end with ctx: the clients have no timeout of their own.
func (d *discoverer) until(ctx context.Context) attachmentcontroller.Discovery {
	return discovererUntil{d, ctx}
}

type discovererUntil struct {
	*discoverer
	ctx context.Context
}

// ServerResourcesForGroupVersion is attachmentcontroller.Discovery's.
func (d discovererUntil) ServerResourcesForGroupVersion(groupVersion string) (*metav1.APIResourceList, error) {
	return d.ServerResourcesForGroupVersionWithContext(d.ctx, groupVersion)
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

// installed asks until the API server tells whether it serves a resource. The only error is that of ctx.
func (d *discoverer) installed(ctx context.Context, resource schema.GroupVersionResource) (yes bool, err error) {
	err = wait.PollUntilContextCancel(ctx, discoveryPoll, true, func(ctx context.Context) (bool, error) {
		var err error
		yes, err = d.serves(ctx, resource)
		return err == nil, nil
	})
	return yes, err
}

// discoveryPoll is how often the API server is asked whether it serves a resource that is waited for.
const discoveryPoll = 2 * time.Second

// await waits until the API server serves the resources: to install the CRDs after the controller is no mistake. Its
// only error is that of ctx.
func (d *discoverer) await(ctx context.Context, resources ...schema.GroupVersionResource) error {
	for _, resource := range resources {
		err := wait.PollUntilContextCancel(ctx, discoveryPoll, true, func(ctx context.Context) (bool, error) {
			ok, err := d.serves(ctx, resource)
			switch {
			case ok:
				return true, nil
			case err == nil && d.first(resource):
				klog.FromContext(ctx).Info("Waiting for a CRD: install it with kubectl apply -f config/crd/",
					"resource", resource.GroupResource().String(), "version", resource.Version)
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

// first reports whether it is the first time that something is to be logged of what.
func (d *discoverer) first(what any) bool {
	_, again := d.told.LoadOrStore(what, true)
	return !again
}

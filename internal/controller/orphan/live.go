package orphan

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
)

// Live gives the UIDs of all objects that can own resources in Neutron. It asks the API server, and no cache of this
// process. The answer is complete and current. An error means that nothing is known, and never that nothing exists.
type Live func(ctx context.Context) (uids map[string]bool, err error)

const (
	// livePage is the most objects in one answer. An object of a tenant can have 1.5 MiB of labels, which is etcd's limit,
	// and takes a few times as much while it is decoded. So pages are small, and only the UIDs of one are kept.
	livePage = 16
	// liveTimeout limits the whole read, of any number of pages. The API server keeps the state that they are of for five
	// minutes (kube-apiserver --etcd-compaction-interval).
	liveTimeout = 4 * time.Minute
)

// ReadLive makes a Live that reads the objects of all owning kinds from an API server. It verifies that the server
// belongs to the cluster whose namespace kube-system has the given UID. Another cluster, or one that was recreated,
// does not know this one's objects.
func ReadLive(client metadata.Interface, cluster string, owning ...schema.GroupVersionResource) Live {
	return func(ctx context.Context) (map[string]bool, error) {
		ctx, cancel := context.WithTimeout(ctx, liveTimeout)
		defer cancel()
		namespaces := corev1.SchemeGroupVersion.WithResource("namespaces")
		system, err := client.Resource(namespaces).Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("reading the namespace %s: %w", metav1.NamespaceSystem, err)
		}
		if string(system.UID) != cluster {
			return nil, fmt.Errorf("the namespace %s has the UID %s and had %s when this process started: "+
				"this is another cluster; restart the controller", metav1.NamespaceSystem, system.UID, cluster)
		}
		uids := map[string]bool{}
		for _, resource := range owning {
			if err := readUIDs(ctx, client, resource, uids); err != nil {
				return nil, fmt.Errorf("listing %s: %w", resource.GroupResource(), err)
			}
		}
		return uids, nil
	}
}

// readUIDs adds the UIDs of all objects of a resource, in all namespaces. Without a resourceVersion, the first page
// shows the most recent state. The following pages show the same state (Kubernetes API concepts, "Semantics for get and
// list"). If the API server no longer has that state, it answers 410, and the list fails.
func readUIDs(
	ctx context.Context, client metadata.Interface, resource schema.GroupVersionResource, uids map[string]bool,
) error {
	options := metav1.ListOptions{Limit: livePage}
	for {
		page, err := client.Resource(resource).List(ctx, options)
		if err != nil {
			return err
		}
		if page.ResourceVersion == "" {
			return errors.New("unusable answer: a list without a resourceVersion")
		}
		for i := range page.Items {
			if page.Items[i].UID == "" {
				return fmt.Errorf("unusable answer: an object %s/%s without a UID", page.Items[i].Namespace, page.Items[i].Name)
			}
			uids[string(page.Items[i].UID)] = true
		}
		if page.Continue == "" {
			return nil
		}
		options.Continue = page.Continue
	}
}

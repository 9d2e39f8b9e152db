package consumer

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	portclient "cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/typed/cloudteam/v1"
)

// AnnotationMadeFor holds, on a NetworkPort that was made for a consumer, its kind and name: "Deployment/web". It stays
// where garbage collection takes the owner reference off, as for kubectl delete --cascade=orphan: such a port is of no
// use to anybody, and without the annotation it could not be told from one that a user made.
const AnnotationMadeFor = "cloudteam.ztgame.com/made-for"

// madeFor is the value of AnnotationMadeFor.
func madeFor(kind, name string) string { return kind + "/" + name }

// Orphaned reports whether a port was made for a consumer of the kind and has lost its owner, and names that consumer.
func Orphaned(port *cloudteamv1.NetworkPort, kind string) (consumer cache.ObjectName, orphaned bool) {
	prefix := madeFor(kind, "")
	text := port.Annotations[AnnotationMadeFor]
	if len(text) <= len(prefix) || text[:len(prefix)] != prefix || metav1.GetControllerOfNoCopy(port) != nil {
		return cache.ObjectName{}, false
	}
	return cache.NewObjectName(port.Namespace, text[len(prefix):]), true
}

func byOrphan(obj any) ([]string, error) {
	port, ok := obj.(*cloudteamv1.NetworkPort)
	if !ok {
		return nil, fmt.Errorf("%T is no NetworkPort", obj)
	}
	text := port.Annotations[AnnotationMadeFor]
	if text == "" || port.DeletionTimestamp != nil || metav1.GetControllerOfNoCopy(port) != nil {
		return nil, nil
	}
	return []string{port.Namespace + " " + text}, nil
}

// DeleteOrphans deletes the ports that were made for a consumer of the kind and name and that have lost their owner.
// Those that a Pod uses go when it does.
func (c *Caches) DeleteOrphans(
	ctx context.Context, client portclient.NetworkPortsGetter, kind string, consumer cache.ObjectName,
) error {
	var errs []error
	for _, port := range indexed[*cloudteamv1.NetworkPort](c.Informers.Ports.Informer(), indexOrphan,
		consumer.Namespace+" "+madeFor(kind, consumer.Name)) {
		// With its resourceVersion: somebody may just have given it another owner.
		_, err := DeletePort(ctx, client, port, new(port.ResourceVersion))
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// DeletePort deletes a port as it was seen: not another one of its name, and where a resourceVersion is given, not one
// that has changed since. moved is true where it is another or has changed; one that is gone is deleted.
func DeletePort(
	ctx context.Context, client portclient.NetworkPortsGetter, port *cloudteamv1.NetworkPort, resourceVersion *string,
) (moved bool, err error) {
	err = client.NetworkPorts(port.Namespace).Delete(ctx, port.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: new(port.UID), ResourceVersion: resourceVersion},
	})
	switch {
	case err == nil || apierrors.IsNotFound(err):
		return false, nil
	case apierrors.IsConflict(err):
		return true, nil
	}
	return false, fmt.Errorf("deleting NetworkPort %q: %w", port.Name, err)
}

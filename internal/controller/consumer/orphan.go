package consumer

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	portclient "cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/typed/cloudteam/v1"
)

// AnnotationMadeFor holds the kind and name of the consumer that a NetworkPort was made for: "Deployment/web". It
// remains when garbage collection removes the owner reference, as for kubectl delete --cascade=orphan. Nobody can use
// such a port, and only the annotation distinguishes it from one that a user made.
const AnnotationMadeFor = "cloudteam.ztgame.com/made-for"

// madeFor is the value of AnnotationMadeFor.
func madeFor(kind, name string) string { return kind + "/" + name }

// MadeFor names the consumer of a kind that a port was made for, which may be gone: its controller, or the one in
// AnnotationMadeFor if it has none. Only the sync of that name writes the port's binding.
func MadeFor(port *cloudteamv1.NetworkPort, kind string) (consumer cache.ObjectName, ok bool) {
	owner := metav1.GetControllerOfNoCopy(port)
	switch {
	case owner == nil:
		return Orphaned(port, kind)
	case owner.Kind != kind || kind == deploymentKind && !IsDeployment(owner):
		return cache.ObjectName{}, false
	}
	return cache.NewObjectName(port.Namespace, owner.Name), true
}

// deploymentKind is the kind of the consumers whose ports the controller of Deployments binds.
const deploymentKind = "Deployment"

// OfDeployment reports whether a port was made for a Deployment. The controller of Deployments binds such ports, and
// the controller of Pods all others.
func OfDeployment(port *cloudteamv1.NetworkPort) bool {
	_, ok := MadeFor(port, deploymentKind)
	return ok
}

// Orphaned reports whether a port was made for a consumer of the kind and has lost its owner, and names that consumer.
func Orphaned(port *cloudteamv1.NetworkPort, kind string) (consumer cache.ObjectName, orphaned bool) {
	if metav1.GetControllerOfNoCopy(port) != nil {
		return cache.ObjectName{}, false
	}
	name, made := strings.CutPrefix(port.Annotations[AnnotationMadeFor], madeFor(kind, ""))
	if !made || name == "" {
		return cache.ObjectName{}, false
	}
	return cache.NewObjectName(port.Namespace, name), true
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

func byDeployment(obj any) ([]string, error) {
	port, ok := obj.(*cloudteamv1.NetworkPort)
	if !ok {
		return nil, fmt.Errorf("%T is no NetworkPort", obj)
	}
	if deployment, ok := MadeFor(port, deploymentKind); ok {
		return []string{deployment.String()}, nil
	}
	return nil, nil
}

// DeleteOrphans deletes the ports that were made for a consumer of the kind and name and that lost their owner. A port
// that a Pod uses stays until the Pod is gone.
func (c *Caches) DeleteOrphans(
	ctx context.Context, client portclient.NetworkPortsGetter, kind string, consumer cache.ObjectName,
) error {
	var errs []error
	for _, port := range indexed[*cloudteamv1.NetworkPort](c.Informers.Ports.Informer(), indexOrphan,
		consumer.Namespace+" "+madeFor(kind, consumer.Name)) {
		// With the resourceVersion: somebody may have given it another owner meanwhile.
		_, err := DeletePort(ctx, client, port, new(port.ResourceVersion))
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// DeletePort deletes a port, unless it was replaced by another of its name, or has changed since a given
// resourceVersion. moved is true in these two cases. A port that is gone counts as deleted.
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

package consumer

import (
	"context"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/declare"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// AnnotationMadeFor holds the kind and name of the consumer that a NetworkPort was made for: "Deployment/web", or
// "StatefulSet/db/0" or "VirtualMachine/db" for a Slot. It remains when garbage collection removes the owner
// reference, as for kubectl delete --cascade=orphan. Nobody can use such a port, and only the annotation
// distinguishes it from one that a user made.
const AnnotationMadeFor = "cloudteam.ztgame.com/made-for"

// Kinds of consumers.
var (
	DeploymentKind = appsv1.SchemeGroupVersion.WithKind("Deployment").GroupKind()
	PodKind        = corev1.SchemeGroupVersion.WithKind("Pod").GroupKind()
	// ReplicaSetKind is the one between a Deployment and its Pods.
	ReplicaSetKind = appsv1.SchemeGroupVersion.WithKind("ReplicaSet").GroupKind()
	// StatefulSetKind is the one whose Pods come back under their names.
	StatefulSetKind = appsv1.SchemeGroupVersion.WithKind("StatefulSet").GroupKind()
)

// MadeFor names the consumer of a kind that a port was made for, which may be gone: its controller, or the one in
// AnnotationMadeFor if it has none. Only the sync of that name writes the port's binding.
func MadeFor(port *cloudteamv1.NetworkPort, kind schema.GroupKind) (consumer cache.ObjectName, ok bool) {
	if metav1.GetControllerOfNoCopy(port) == nil {
		name, made := strings.CutPrefix(port.Annotations[AnnotationMadeFor], kind.Kind+"/")
		// Users can write it: it may be no name at all.
		return cache.NewObjectName(port.Namespace, name), made && len(validation.IsDNS1123Subdomain(name)) == 0
	}
	if owner := controller.OwnerOf(port, kind); owner != nil {
		return cache.NewObjectName(port.Namespace, owner.Name), true
	}
	return cache.ObjectName{}, false
}

// OfDeployment reports whether a port was made for a Deployment. The controller of Deployments binds such ports, and
// the controller of Pods all others.
func OfDeployment(port *cloudteamv1.NetworkPort) bool {
	_, ok := MadeFor(port, DeploymentKind)
	return ok
}

// WorkloadOf gives the Deployment or StatefulSet that a port was made for, by what subnets can be reserved for. Users
// of the port's namespace can write it, so it decides only between workloads of that namespace.
func WorkloadOf(port *cloudteamv1.NetworkPort) declare.Workload {
	if deployment, ok := MadeFor(port, DeploymentKind); ok {
		return declare.Workload{Kind: DeploymentKind.Kind, Name: deployment.Name}
	}
	if slot, ok := SlotOf(port); ok && slot.Set != "" {
		return declare.Workload{Kind: StatefulSetKind.Kind, Name: slot.Set}
	}
	return declare.Workload{}
}

// byMadeFor are the values of indexMadeFor.
func byMadeFor(port *cloudteamv1.NetworkPort) []string {
	var values []string
	for _, kind := range []schema.GroupKind{DeploymentKind, PodKind} {
		if consumer, ok := MadeFor(port, kind); ok {
			values = append(values, kind.Kind+" "+consumer.String())
		}
	}
	if slot, ok := SlotOf(port); ok {
		values = append(values, slotKey(slot.Key()))
		if slot.Set != "" {
			values = append(values, StatefulSetKind.Kind+" "+slot.set().String())
		}
	}
	return values
}

// DeleteOrphans deletes the ports that were made for a consumer of the kind and name and that lost their owner. A
// port that a Pod uses stays until the Pod is gone. A port that has another owner stays.
func (c *Caches) DeleteOrphans(ctx context.Context, w *Writer, kind schema.GroupKind, consumer cache.ObjectName) error {
	var errs []error
	for _, port := range c.PortsMadeFor(kind, consumer) {
		if metav1.GetControllerOfNoCopy(port) == nil && port.DeletionTimestamp == nil {
			errs = append(errs, w.Delete(ctx, port, true))
		}
	}
	return controller.Worst(errs...)
}

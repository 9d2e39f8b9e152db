// Package kinds is the table of the kinds whose objects have something in Neutron. What is the same for each of them
// ranges over it, so that a new kind is a row here, besides its own code and what it means for others.
package kinds

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	clientset "cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned"
	typed "cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/typed/cloudteam/v1"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions/cloudteam/v1"
)

// Object is an object of one of the kinds.
type Object interface {
	metav1.Object
	runtime.Object
}

// Kind is a row of the table.
type Kind struct {
	// Name is the kind, as in manifests. Short is kubectl's short name of the resource.
	Name, Short string
	Resource    schema.GroupVersionResource
	// Finalizer is added to an object before its first resource is created, and removed after its last one is gone.
	Finalizer string
	// New makes an empty object.
	New func() Object
	// Status gives the part of an object's status that all kinds have. It MUST be of this kind, as for SetSpec.
	Status func(Object) *cloudteamv1.ResourceStatus
	// SetSpec gives an object the spec of another.
	SetSpec func(to, from Object)
	// Has gives what belongs to an object in Neutron, by its status.
	Has func(Object) []Resource
	// Class gives the class and the credentials that an object names, and by which class it was made; nil for a kind whose
	// objects name none.
	Class func(Object) (className string, cloud *cloudteamv1.CloudReference, applied *cloudteamv1.AppliedClass)
	// In gives the client for a namespace; "" means all of them.
	In func(c clientset.Interface, namespace string) Client
	// Informer gives a factory's informer.
	Informer func(informers.Interface) cache.SharedIndexInformer

	is func(any) bool
}

// GroupVersionKind is the kind in Kubernetes.
func (k Kind) GroupVersionKind() schema.GroupVersionKind {
	return k.Resource.GroupVersion().WithKind(k.Name)
}

// Resource is a resource in Neutron.
type Resource struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
	// Says is its CIDR or its addresses.
	Says string `json:"says,omitempty"`
}

// Client is the part of a generated client that is the same for all kinds.
type Client interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (Object, error)
	Create(ctx context.Context, obj Object, options metav1.CreateOptions) (Object, error)
	Update(ctx context.Context, obj Object, options metav1.UpdateOptions) (Object, error)
	List(ctx context.Context, options metav1.ListOptions) (runtime.Object, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
	Patch(ctx context.Context, name string, of types.PatchType, patch []byte, options metav1.PatchOptions) (Object, error)
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
}

// The names of the kinds.
const (
	Network       = "Network"
	NetworkPort   = "NetworkPort"
	SecurityGroup = "SecurityGroup"
	FloatingIP    = "FloatingIP"
)

// All are the rows. Objects of a kind depend only on those of earlier ones.
var All = []Kind{
	row(Network, "net", cloudteamv1.Finalizer, typed.CloudteamV1Interface.Networks,
		informers.Interface.Networks, func(n *cloudteamv1.Network) (*cloudteamv1.NetworkSpec, *cloudteamv1.ResourceStatus) {
			return &n.Spec, &n.Status.ResourceStatus
		}).having(func(obj Object, add func(kind, id, says string)) {
		status := &obj.(*cloudteamv1.Network).Status
		add("network", status.NetworkID, "")
		for _, s := range status.Subnets {
			add("subnet", s.ID, s.CIDR)
		}
		if r := status.Router; r != nil && !r.Existing {
			add("router", r.ID, "")
		}
	}).ofClass(func(obj Object) (string, *cloudteamv1.CloudReference, *cloudteamv1.AppliedClass) {
		o := obj.(*cloudteamv1.Network)
		return o.Spec.ClassName, o.Spec.Cloud, o.Status.Class
	}),
	row(SecurityGroup, "secgroup", cloudteamv1.SecurityGroupFinalizer, typed.CloudteamV1Interface.SecurityGroups,
		informers.Interface.SecurityGroups,
		func(g *cloudteamv1.SecurityGroup) (*cloudteamv1.SecurityGroupSpec, *cloudteamv1.ResourceStatus) {
			return &g.Spec, &g.Status.ResourceStatus
		}).having(func(obj Object, add func(kind, id, says string)) {
		add("security group", obj.(*cloudteamv1.SecurityGroup).Status.SecurityGroupID, "")
	}).ofClass(func(obj Object) (string, *cloudteamv1.CloudReference, *cloudteamv1.AppliedClass) {
		o := obj.(*cloudteamv1.SecurityGroup)
		return o.Spec.ClassName, o.Spec.Cloud, o.Status.Class
	}),
	row(NetworkPort, "np", cloudteamv1.PortFinalizer, typed.CloudteamV1Interface.NetworkPorts,
		informers.Interface.NetworkPorts,
		func(p *cloudteamv1.NetworkPort) (*cloudteamv1.NetworkPortSpec, *cloudteamv1.ResourceStatus) {
			return &p.Spec, &p.Status.ResourceStatus
		}).having(func(obj Object, add func(kind, id, says string)) {
		status := &obj.(*cloudteamv1.NetworkPort).Status
		var addresses []string
		for _, a := range status.Addresses {
			addresses = append(addresses, a.Address)
		}
		add("port", status.PortID, strings.Join(addresses, " "))
		if f := status.FloatingIP; f != nil {
			add("floating IP", f.ID, f.Address)
		}
	}),
	row(FloatingIP, "fip", cloudteamv1.FloatingIPFinalizer, typed.CloudteamV1Interface.FloatingIPs,
		informers.Interface.FloatingIPs,
		func(f *cloudteamv1.FloatingIP) (*cloudteamv1.FloatingIPSpec, *cloudteamv1.ResourceStatus) {
			return &f.Spec, &f.Status.ResourceStatus
		}).having(func(obj Object, add func(kind, id, says string)) {
		status := &obj.(*cloudteamv1.FloatingIP).Status
		add("floating IP", status.FloatingIPID, status.Address)
	}).ofClass(func(obj Object) (string, *cloudteamv1.CloudReference, *cloudteamv1.AppliedClass) {
		o := obj.(*cloudteamv1.FloatingIP)
		return o.Spec.ClassName, o.Spec.Cloud, o.Status.Class
	}),
}

// Of gives the row of a kind's name; ok is false if there is none.
func Of(name string) (k Kind, ok bool) {
	at := slices.IndexFunc(All, func(k Kind) bool { return k.Name == name })
	if at < 0 {
		return Kind{}, false
	}
	return All[at], true
}

// OfAny gives the row of an object; ok is false if it is of none of the kinds.
func OfAny(obj any) (k Kind, ok bool) {
	at := slices.IndexFunc(All, func(k Kind) bool { return k.is(obj) })
	if at < 0 {
		return Kind{}, false
	}
	return All[at], true
}

// OfObject gives the row of an object, which MUST be of one of the kinds.
func OfObject(obj Object) Kind {
	k, ok := OfAny(obj)
	if !ok {
		panic(fmt.Sprintf("%T is not in the table of kinds", obj)) // an error of this program
	}
	return k
}

// OneOf lists the kinds for a sentence: "Network, NetworkPort or FloatingIP".
func OneOf() string {
	var names []string
	for _, k := range All {
		names = append(names, k.Name)
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// api is what a generated client has for objects *T and their lists.
type api[P Object, L runtime.Object] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (P, error)
	Create(ctx context.Context, obj P, options metav1.CreateOptions) (P, error)
	Update(ctx context.Context, obj P, options metav1.UpdateOptions) (P, error)
	List(ctx context.Context, options metav1.ListOptions) (L, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
	Patch(ctx context.Context, name string, of types.PatchType, patch []byte, options metav1.PatchOptions,
		subresources ...string) (P, error)
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
}

// row makes a row of what the generated code has of a kind. parts gives the spec and the common status of an object.
func row[T, S any, P interface {
	*T
	Object
}, L runtime.Object, C api[P, L], I interface {
	Informer() cache.SharedIndexInformer
}](
	name, short, finalizer string, in func(typed.CloudteamV1Interface, string) C,
	informer func(informers.Interface) I, parts func(P) (*S, *cloudteamv1.ResourceStatus),
) Kind {
	of := cloudteamv1.SchemeGroupVersion.WithKind(name)
	resource, _ := meta.UnsafeGuessKindToResource(of)
	return Kind{
		Name: name, Short: short, Resource: resource, Finalizer: finalizer,
		New: func() Object {
			obj := P(new(T))
			obj.GetObjectKind().SetGroupVersionKind(of)
			return obj
		},
		is: func(obj any) bool { _, is := obj.(P); return is },
		Status: func(obj Object) *cloudteamv1.ResourceStatus {
			_, status := parts(obj.(P))
			return status
		},
		SetSpec: func(to, from Object) {
			spec, _ := parts(to.(P))
			other, _ := parts(from.(P))
			*spec = *other
		},
		In: func(c clientset.Interface, namespace string) Client {
			return client[P, L, C]{in(c.CloudteamV1(), namespace)}
		},
		Informer: func(of informers.Interface) cache.SharedIndexInformer { return informer(of).Informer() },
	}
}

func (k Kind) having(each func(obj Object, add func(kind, id, says string))) Kind {
	k.Has = func(obj Object) (all []Resource) {
		each(obj, func(kind, id, says string) {
			if id != "" {
				all = append(all, Resource{kind, id, says})
			}
		})
		return all
	}
	return k
}

func (k Kind) ofClass(
	class func(Object) (string, *cloudteamv1.CloudReference, *cloudteamv1.AppliedClass),
) Kind {
	k.Class = class
	return k
}

// client implements Client by a generated client.
type client[P Object, L runtime.Object, C api[P, L]] struct{ of C }

func (c client[P, L, C]) Get(ctx context.Context, name string, options metav1.GetOptions) (Object, error) {
	return c.of.Get(ctx, name, options)
}

func (c client[P, L, C]) Create(ctx context.Context, obj Object, options metav1.CreateOptions) (Object, error) {
	return c.of.Create(ctx, obj.(P), options)
}

func (c client[P, L, C]) Update(ctx context.Context, obj Object, options metav1.UpdateOptions) (Object, error) {
	return c.of.Update(ctx, obj.(P), options)
}

func (c client[P, L, C]) List(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	return c.of.List(ctx, options)
}

func (c client[P, L, C]) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return c.of.Watch(ctx, options)
}

func (c client[P, L, C]) Patch(
	ctx context.Context, name string, of types.PatchType, patch []byte, options metav1.PatchOptions,
) (Object, error) {
	return c.of.Patch(ctx, name, of, patch, options)
}

func (c client[P, L, C]) Delete(ctx context.Context, name string, options metav1.DeleteOptions) error {
	return c.of.Delete(ctx, name, options)
}

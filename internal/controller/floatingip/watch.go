// Package floatingip is the controller of FloatingIPs: for each FloatingIP object it keeps one floating IP in Neutron,
// and leads it to the port of the NetworkPort that the object names.
package floatingip

import (
	"cmp"
	"errors"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/classes"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/declare"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	typed "cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/typed/cloudteam/v1"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions/cloudteam/v1"
	listers "cloudteam.ztgame.com/network-controller/pkg/client/listers/cloudteam/v1"
)

// Name is the controller's name in --controllers, in logs and in metrics.
const Name = "floatingip"

// Controller syncs FloatingIPs. Create it with NewController.
type Controller = managed.Reconciler[*cloudteamv1.FloatingIP]

// kind has what the functions of the Kind need.
type kind struct {
	floating cache.Indexer
	ports    listers.NetworkPortLister
	networks listers.NetworkLister
	class    *managed.Classed[*cloudteamv1.FloatingIP]
	// portCache is that of ports, and waiting has the FloatingIPs that wait for a port.
	portCache cache.Indexer
	waiting   controller.Line
}

// Ports are the informers of what a FloatingIP may be associated with.
type Ports struct {
	Ports    informers.NetworkPortInformer
	Networks informers.NetworkInformer
}

// NewController makes a controller that watches the informers, which MUST NOT run yet. Nothing runs before Run. of
// finds the classes of FloatingIPs; nil means the built-in class.
func NewController(
	client typed.FloatingIPsGetter, floating informers.FloatingIPInformer, to Ports, inventory managed.Inventory,
	recorder record.EventRecorder, cluster string, of *classes.Classes,
) (*Controller, error) {
	informer := floating.Informer()
	err := errors.Join(controller.IndexFloatingIPs(informer), controller.IndexPorts(to.Ports.Informer()))
	if err != nil {
		return nil, err
	}
	own := &kind{
		floating: informer.GetIndexer(), ports: to.Ports.Lister(), networks: to.Networks.Lister(),
		portCache: to.Ports.Informer().GetIndexer(),
		class: &managed.Classed[*cloudteamv1.FloatingIP]{
			Classes: of,
			Judge: func(in *cloudteamv1.Network, obj *cloudteamv1.FloatingIP) (classes.Made, classes.Rule, string, string) {
				return of.JudgeFloatingIP(in, &obj.Spec)
			},
			ID:    func(obj *cloudteamv1.FloatingIP) string { return obj.Status.FloatingIPID },
			Limit: func(limits cloudteamv1.ClassLimits) *int32 { return limits.FloatingIPsPerNamespace },
		},
	}
	c, err := managed.NewReconciler(managed.Kind[*cloudteamv1.FloatingIP]{
		Controller: Name,
		Resource:   plan.KindFloatingIP,
		Warnings:   []string{cloudteamv1.ConditionClassViolated},
		Patch: func(namespace string) controller.Patch[*cloudteamv1.FloatingIP] {
			return client.FloatingIPs(namespace).Patch
		},
		Expected: func(obj *cloudteamv1.FloatingIP) []managed.Lookup {
			resource := plan.Resource{Kind: plan.KindFloatingIP, ID: obj.Status.FloatingIPID}
			if obj.Spec.Import != nil {
				resource.ID = declare.ImportID(obj)
			}
			return []managed.Lookup{{Resource: resource, Name: obj.Name, Imported: obj.Spec.Import != nil}}
		},
		Class:    own.class,
		Declare:  own.declarationOf,
		Policies: policies,
		InUse:    func(*cloudteamv1.FloatingIP) string { return "" },
		Show:     show,
		ToWrite: func(was, is *cloudteamv1.FloatingIP) (any, bool) {
			return is.Status, managed.Differs(was.Status, is.Status)
		},
	}, informer, inventory, recorder, cluster)
	if err != nil {
		return nil, err
	}
	return c, errors.Join(
		c.Watch(informer, controller.FollowLine(&own.waiting, wants)),
		c.Watch(informer, controller.HandlerOfPart(c.Loop, own.rivals, sameLead)),
		c.Watch(to.Ports.Informer(), controller.HandlerOfMany(c.Loop, controller.KeyOf, own.leadingTo, samePort)),
		c.Watch(to.Networks.Informer(), controller.HandlerOfMany(c.Loop, controller.KeyOf, own.toPortsOn, sameNetwork)),
	)
}

// leadingTo names the FloatingIPs whose specs name a NetworkPort.
func (k *kind) leadingTo(port cache.ObjectName) []cache.ObjectName {
	return controller.KeysOf(controller.FloatingIPsTo(k.floating, port))
}

// wake is the most FloatingIPs that one event has try for a port.
const wake = 8

// wants says which port a FloatingIP waits for, because another one of its external network leads there.
func wants(obj *cloudteamv1.FloatingIP) string {
	ready := meta.FindStatusCondition(obj.Status.Conditions, cloudteamv1.ConditionReady)
	if ready == nil || ready.Reason != cloudteamv1.ReasonAddressInUse || obj.Spec.PortName == "" {
		return ""
	}
	return wanted(cache.NewObjectName(obj.Namespace, obj.Spec.PortName), obj.Status.ExternalNetworkID)
}

func wanted(port cache.ObjectName, external string) string { return port.String() + "=" + external }

// rivals names the oldest FloatingIPs that wait for one to lead elsewhere.
func (k *kind) rivals(led metav1.Object) (keys []cache.ObjectName) {
	obj, ok := led.(*cloudteamv1.FloatingIP)
	if !ok || obj.Status.PortID == "" {
		return nil
	}
	for _, port := range controller.PortsWithID(k.portCache, obj.Status.PortID) {
		if port.Namespace == obj.Namespace {
			what := wanted(cache.MetaObjectToName(port), obj.Status.ExternalNetworkID)
			keys = append(keys, k.waiting.Names(what, wake)...)
		}
	}
	return keys
}

// sameLead reports whether two states of a FloatingIP are the same for others that wait for its port.
func sameLead(was, is *cloudteamv1.FloatingIP) bool { return was.Status.PortID == is.Status.PortID }

// samePort reports whether two states of a NetworkPort are the same for the FloatingIPs that are associated with it.
func samePort(was, is *cloudteamv1.NetworkPort) bool {
	return was.Status.PortID == is.Status.PortID && was.DeletionTimestamp.Equal(is.DeletionTimestamp) &&
		reflect.DeepEqual(was.Status.Addresses, is.Status.Addresses) &&
		reflect.DeepEqual(was.Status.FloatingIP, is.Status.FloatingIP) &&
		reflect.DeepEqual(was.Status.Cloud, is.Status.Cloud)
}

// toPortsOn names the FloatingIPs whose specs name a NetworkPort on a Network. Its class says whether they may be
// associated with one, and its router connects it to the external network.
func (k *kind) toPortsOn(network cache.ObjectName) (keys []cache.ObjectName) {
	for _, port := range controller.PortsOn(k.portCache, network) {
		keys = append(keys, k.leadingTo(cache.MetaObjectToName(port))...)
	}
	return keys
}

// sameNetwork reports whether two states of a Network are the same for the FloatingIPs that are associated with its
// ports.
func sameNetwork(was, is *cloudteamv1.Network) bool {
	return was.Generation == is.Generation && was.Status.AppliedGeneration == is.Status.AppliedGeneration &&
		controller.Serves(was) == controller.Serves(is) && reflect.DeepEqual(was.Status.Class, is.Status.Class) &&
		reflect.DeepEqual(was.Status.Cloud, is.Status.Cloud) &&
		reflect.DeepEqual(was.Status.Credentials, is.Status.Credentials) &&
		slices.EqualFunc(was.Status.Subnets, is.Status.Subnets, func(a, b cloudteamv1.SubnetStatus) bool {
			return a.ID == b.ID // their counts of addresses change often
		})
}

// policies is the Kind's Policies. What leads a floating IP elsewhere is always corrected: anyone who uses the port
// would be without its public address. So would be anyone who follows the port when that is made again. An imported one
// existed before its object, so by default it is retained.
func policies(obj *cloudteamv1.FloatingIP) managed.Policies {
	p := managed.Policies{
		Deletion: obj.Spec.DeletionPolicy, Drift: cloudteamv1.DriftPolicyCorrect, Observe: obj.Observes(),
	}
	if obj.Spec.Import != nil {
		p.Deletion = cmp.Or(p.Deletion, cloudteamv1.DeletionPolicyRetain)
	}
	return p
}

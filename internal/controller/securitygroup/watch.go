// Package securitygroup is the controller of SecurityGroups: for each SecurityGroup object it keeps one security group
// with its rules in Neutron.
package securitygroup

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
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
)

// Name is the controller's name in --controllers, in logs and in metrics.
const Name = "securitygroup"

// Controller syncs SecurityGroups. Create it with NewController.
type Controller = managed.Reconciler[*cloudteamv1.SecurityGroup]

// kind has what the functions of the Kind need.
type kind struct {
	groups cache.Indexer
	class  *managed.Classed[*cloudteamv1.SecurityGroup]
	// members gives the NetworkPorts that the specs put into a SecurityGroup's group.
	members func(group cache.ObjectName) []*cloudteamv1.NetworkPort
}

// Members are the informers of what may be in a group.
type Members struct {
	Ports    informers.NetworkPortInformer
	Networks informers.NetworkInformer
}

// NewController makes a controller that watches the informers, which MUST NOT run yet. Nothing runs before Run. in is
// nil if NetworkPorts are not served. of finds the classes of SecurityGroups; nil means the built-in class.
func NewController(
	client typed.SecurityGroupsGetter, groups informers.SecurityGroupInformer, in *Members, inventory managed.Inventory,
	recorder record.EventRecorder, cluster string, of *classes.Classes,
) (*Controller, error) {
	own := &kind{groups: groups.Informer().GetIndexer(), class: &managed.Classed[*cloudteamv1.SecurityGroup]{
		Classes: of,
		ID:      func(obj *cloudteamv1.SecurityGroup) string { return obj.Status.SecurityGroupID },
		Limit:   func(limits cloudteamv1.ClassLimits) *int32 { return limits.SecurityGroupsPerNamespace },
	}}
	if err := groups.Informer().AddIndexers(cache.Indexers{indexAbout: controller.IndexBy(indexOf)}); err != nil {
		return nil, fmt.Errorf("indexing securitygroups: %w", err)
	}
	if in != nil {
		err := errors.Join(controller.IndexPorts(in.Ports.Informer()), controller.IndexNetworks(in.Networks.Informer()))
		if err != nil {
			return nil, err
		}
		ports, networks := in.Ports.Informer().GetIndexer(), in.Networks.Informer().GetIndexer()
		own.members = func(group cache.ObjectName) []*cloudteamv1.NetworkPort {
			return controller.PortsIn(ports, networks, group)
		}
	}
	c, err := managed.NewReconciler(managed.Kind[*cloudteamv1.SecurityGroup]{
		Controller: Name,
		Resource:   plan.KindGroup,
		Warnings:   []string{cloudteamv1.ConditionClassViolated, cloudteamv1.ConditionPolicyIncomplete},
		Patch: func(namespace string) controller.Patch[*cloudteamv1.SecurityGroup] {
			return client.SecurityGroups(namespace).Patch
		},
		Expected: func(obj *cloudteamv1.SecurityGroup) []managed.Lookup {
			resource := plan.Resource{Kind: plan.KindGroup, ID: obj.Status.SecurityGroupID}
			return []managed.Lookup{{Resource: resource, Name: obj.Name}}
		},
		Class:    own.class,
		Declare:  own.declarationOf,
		Policies: policies,
		InUse:    own.inUse,
		Show:     show,
		ToWrite: func(was, is *cloudteamv1.SecurityGroup) (any, bool) {
			return is.Status, managed.Differs(was.Status, is.Status)
		},
	}, groups.Informer(), inventory, recorder, cluster)
	if err != nil {
		return nil, err
	}
	err = c.Watch(groups.Informer(), controller.HandlerOfMany(c.Loop, controller.KeyOf, own.about, sameForOthers))
	if err != nil || in == nil {
		return c, err
	}
	return c, errors.Join(
		c.Watch(in.Ports.Informer(), c.HandlerOf(own.leftBy(in.Networks.Informer().GetStore()))),
		c.Watch(in.Networks.Informer(), controller.HandlerOfPart(c.Loop, own.givenBy, sameGroups)),
	)
}

// about names the SecurityGroups that have rules about another one of their namespace.
func (k *kind) about(other cache.ObjectName) []cache.ObjectName {
	return controller.KeysOf(controller.Indexed[*cloudteamv1.SecurityGroup](k.groups, indexAbout, other.String()))
}

// indexAbout is the index of SecurityGroups by the others that they have rules about.
const indexAbout = "securitygroup/about"

func indexOf(obj *cloudteamv1.SecurityGroup) []string {
	names := declare.RemoteGroups(obj)
	for i, name := range names {
		names[i] = cache.NewObjectName(obj.Namespace, name).String()
	}
	return names
}

// sameForOthers reports whether two states of a SecurityGroup are the same for rules about it.
func sameForOthers(was, is *cloudteamv1.SecurityGroup) bool {
	return was.Status.SecurityGroupID == is.Status.SecurityGroupID && was.DeletionTimestamp.Equal(is.DeletionTimestamp) &&
		managed.TenantOf(was.Namespace, was.Status.Credentials) == managed.TenantOf(is.Namespace, is.Status.Credentials) &&
		equality.Semantic.DeepEqual(was.Status.Cloud, is.Status.Cloud)
}

// policies is the Kind's Policies.
func policies(obj *cloudteamv1.SecurityGroup) managed.Policies {
	return managed.Policies{Deletion: obj.Spec.DeletionPolicy, Drift: obj.Spec.DriftPolicy}
}

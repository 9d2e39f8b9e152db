package securitygroup

import (
	"k8s.io/apimachinery/pkg/labels"

	"cloudteam.ztgame.com/network-controller/internal/controller/classes"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	listers "cloudteam.ztgame.com/network-controller/pkg/client/listers/cloudteam/v1"
)

// inClass is managed.InClass.
func inClass(obj *cloudteamv1.SecurityGroup) *cloudteamv1.Network {
	return managed.InClass(
		obj.ObjectMeta, obj.Spec.Cloud, obj.Spec.ClassName, obj.Status.ResourceStatus, obj.Status.Class)
}

// roomFor bounds how many SecurityGroups of a class a namespace has.
func roomFor(groups listers.SecurityGroupLister, of *classes.Classes) managed.Room[*cloudteamv1.SecurityGroup] {
	return managed.Room[*cloudteamv1.SecurityGroup]{
		Kind: "SecurityGroup", Finalizer: cloudteamv1.SecurityGroupFinalizer, Classes: of,
		Beside: func(namespace string) ([]*cloudteamv1.SecurityGroup, error) {
			return groups.SecurityGroups(namespace).List(labels.Everything())
		},
		InClass: inClass,
		Exists: func(obj *cloudteamv1.SecurityGroup) bool {
			return obj.Status.SecurityGroupID != "" || obj.Status.AppliedGeneration > 0
		},
		Limit: func(limits cloudteamv1.ClassLimits) *int32 { return limits.SecurityGroupsPerNamespace },
	}
}

package floatingip

import (
	"cloudteam.ztgame.com/network-controller/internal/controller/classes"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// inClass is managed.InClass.
func inClass(obj *cloudteamv1.FloatingIP) *cloudteamv1.Network {
	return managed.InClass(
		obj.ObjectMeta, obj.Spec.Cloud, obj.Spec.ClassName, obj.Status.ResourceStatus, obj.Status.Class)
}

// roomFor bounds how many FloatingIPs of a class a namespace has.
func roomFor(of *classes.Classes) *managed.Room[*cloudteamv1.FloatingIP] {
	return managed.RoomOf(of, inClass,
		func(obj *cloudteamv1.FloatingIP) bool {
			return obj.Status.FloatingIPID != "" || obj.Status.AppliedGeneration > 0
		},
		func(limits cloudteamv1.ClassLimits) *int32 { return limits.FloatingIPsPerNamespace })
}

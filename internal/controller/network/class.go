package network

import (
	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/classes"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// roomFor bounds how many Networks of a class a namespace has.
func roomFor(of *classes.Classes) *managed.Room[*cloudteamv1.Network] {
	return managed.RoomOf(of, func(obj *cloudteamv1.Network) *cloudteamv1.Network { return obj },
		func(obj *cloudteamv1.Network) bool {
			return obj.Status.NetworkID != "" || obj.Status.AppliedGeneration > 0
		},
		func(limits cloudteamv1.ClassLimits) *int32 { return limits.NetworksPerNamespace })
}

// setClass writes by which class the Network was made, and what that class forbids of a Network that is kept. A
// Network that is being deleted keeps the record: it says with whose credentials to delete.
func setClass(obj *cloudteamv1.Network, declared managed.Declaration) {
	var forbids *controller.State
	if d, ok := ownDeclaration(declared); ok {
		obj.Status.Class, forbids = d.class.DeepCopy(), d.forbids
	}
	managed.SetViolation(obj, &obj.Status.Conditions, forbids)
}

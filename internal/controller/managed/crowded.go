package managed

import (
	"errors"
	"fmt"
	"slices"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

const (
	// MaxFinalizers is the most finalizers of an object that a Reconciler handles. Kubernetes sets no limit, and a tenant
	// can fill it.
	MaxFinalizers = 64
	// MaxFinalizersSize is the most bytes of all of them.
	MaxFinalizersSize = 2 << 10
	// TooManyFinalizers replaces, in caches, the other finalizers of an object with more. A write would take them off.
	TooManyFinalizers = "cloudteam.ztgame.com/too-many-finalizers"
)

// crowded is the problem of an object with TooManyFinalizers; nil if the cache has all of them.
func crowded(obj Object) error {
	if !slices.Contains(obj.GetFinalizers(), TooManyFinalizers) {
		return nil
	}
	message := fmt.Sprintf("The object has more than %d finalizers, or more than %d bytes of them. Nothing is created, "+
		"and the controller keeps its own. Remove others.", MaxFinalizers, MaxFinalizersSize)
	// No event tells of another finalizer, so it is tried again.
	return &Problem{Err: errors.New(message), State: controller.Stalled(cloudteamv1.ReasonInvalidSpec, message)}
}

// partial is the problem of an object of which the cache has only a part; nil if it has the whole.
func partial(obj Object) error {
	if !controller.TooLarge(obj) {
		return nil
	}
	return Waits(controller.Stalled(cloudteamv1.ReasonInvalidSpec, fmt.Sprintf(
		"The object takes more than %d KiB of memory. Nothing is changed in Neutron. Shorten the lists and texts of its "+
			"spec, or divide it.", controller.MaxKept>>10)))
}

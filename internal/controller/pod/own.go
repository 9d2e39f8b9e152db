package pod

import (
	"context"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// A Pod without a Deployment has its own ports, or those of its slot: of its number in a StatefulSet, or of its
// virtual machine. This controller makes, binds and releases them, as that of Deployments does with a pool.

// ownPortName is the name of the port for the i-th request of a Pod. It is the same in every sync, so that a create
// whose answer was lost is not repeated under another name. The Pods of a slot come back to their ports by it.
// Another Pod that comes back under its name has other ports: those of its predecessor may still exist. An edited
// annotation has other ports, too.
func ownPortName(pod *corev1.Pod, slot *consumer.Slot, i int, request consumer.Request) string {
	whose, whom := string(pod.UID), pod.Name
	switch {
	case slot == nil:
	case slot.Machine != "":
		whose, whom = consumer.MachineKind.Kind, slot.Machine
	default:
		whose = slot.Set
	}
	sum := fnv.New64a()
	_, _ = fmt.Fprintf(sum, "%s %d %s %s %s", whose, i, request.Network, request.Addresses, request.MAC)
	if request.Groups != "" { // ports from before there were groups keep their names
		_, _ = fmt.Fprintf(sum, " %s", request.Groups)
	}
	if request.External != "" {
		_, _ = fmt.Fprintf(sum, " to %s", request.External)
	}
	return consumer.PortName(whom, request.Network.Name, hex.EncodeToString(sum.Sum(nil))[:8])
}

// ownPortNames are the names of the ports for the requests of a Pod, in their order. A port that serves a request goes
// on to serve it when requests before it come or go, or in another order: it has its address, MAC and floating IP.
func ownPortNames(
	pod *corev1.Pod, slot *consumer.Slot, requests []consumer.Request, own []*cloudteamv1.NetworkPort,
) []string {
	own = slices.SortedFunc(slices.Values(own), consumer.CompareByName)
	names, taken := make([]string, len(requests)), map[string]bool{}
	for i, request := range requests {
		name := ownPortName(pod, slot, i, request)
		names[i] = name
		taken[name] = slices.ContainsFunc(own, func(port *cloudteamv1.NetworkPort) bool { return port.Name == name })
	}
	for i, request := range requests {
		at := slices.IndexFunc(own, func(port *cloudteamv1.NetworkPort) bool {
			return !taken[port.Name] && port.DeletionTimestamp == nil && consumer.ServedBy(port) == request
		})
		if !taken[names[i]] && at >= 0 {
			names[i] = own[at].Name
			taken[names[i]] = true
		}
	}
	return names
}

// ownerOf is the reference by which a Pod controls its own port. It does not block the Pod's deletion. A port
// stays as long as its Pod, so in foreground deletion both would wait for each other.
func ownerOf(pod *corev1.Pod) metav1.OwnerReference {
	owner := *metav1.NewControllerRef(pod, kind)
	owner.BlockOwnerDeletion = nil
	return owner
}

// newOwnPort makes a port of a Pod, or of its slot if it has one.
func newOwnPort(pod *corev1.Pod, slot *consumer.Slot, name string, request consumer.Request) *cloudteamv1.NetworkPort {
	if slot != nil {
		return consumer.NewPortOfSlot(name, *slot, request)
	}
	// Garbage collection removes it with the Pod, even if the Pod is already gone.
	return consumer.NewPort(pod.Namespace, name, ownerOf(pod), request)
}

// madeFor gives the ports that were made for a Pod or its slot, which is nil if it has none.
func (c *Controller) madeFor(pod *corev1.Pod, slot *consumer.Slot) []*cloudteamv1.NetworkPort {
	key := cache.MetaObjectToName(pod)
	if slot != nil {
		key = slot.Key()
	}
	return append(c.caches.PortsOf(pod, consumer.PodKind), c.caches.PortsOfSlot(key)...)
}

// provideOwn makes the ports of a Pod or its slot, deletes those that it no longer requests, and binds those that
// serve what it lacks. It returns the ports that it bound. held are those that it has already, or that the source of
// its live migration has.
func (c *Controller) provideOwn(
	ctx context.Context, key cache.ObjectName, pod *corev1.Pod, slot *consumer.Slot, requests []consumer.Request,
	held []*cloudteamv1.NetworkPort,
) (bound []*cloudteamv1.NetworkPort, p progress, err error) {
	wanted, own := map[string]bool{}, c.madeFor(pod, slot)
	for i, name := range ownPortNames(pod, slot, requests, own) {
		request := requests[i]
		wanted[name] = true
		port := c.caches.Port(cache.NewObjectName(pod.Namespace, name))
		if port == nil {
			port = newOwnPort(pod, slot, name, request)
			err = c.ports.Create(ctx, key, port)
		}
		switch {
		case apierrors.IsForbidden(err) || apierrors.IsInvalid(err):
			// A quota or an admission policy. It is retried anyway, because either may change.
			return nil, progress{reason: cloudteamv1.ReasonPortsFailed, message: err.Error()}, err
		case err != nil:
			return nil, progress{}, err
		case !isOwn(port, pod, slot):
			return nil, progress{reason: cloudteamv1.ReasonPortsFailed, message: fmt.Sprintf(
				"NetworkPort %q exists and is not this Pod's: delete it", name)}, nil
		}
	}
	// Another Pod of the virtual machine may use what this one does not request.
	unused := slices.DeleteFunc(slices.Clone(own), func(port *cloudteamv1.NetworkPort) bool {
		return slot != nil && slot.Machine != "" && (port.Status.BoundTo != nil || len(c.caches.GivenTo(port)) > 0)
	})
	if err := c.deleteOwn(ctx, unused, wanted); err != nil {
		return nil, progress{}, err
	}
	bound, err = c.bindOwn(ctx, key, pod, own, requests, held)
	return bound, progress{}, err
}

// isOwn reports whether a port was made for a Pod, or for its slot if it has one.
func isOwn(port *cloudteamv1.NetworkPort, pod *corev1.Pod, slot *consumer.Slot) bool {
	if slot == nil {
		return controller.Controls(pod, consumer.PodKind, port)
	}
	of, ok := consumer.SlotOf(port)
	return ok && of == *slot
}

// bindOwn binds a Pod to those of its own ports that serve what it lacks: all of them or none.
func (c *Controller) bindOwn(
	ctx context.Context, key cache.ObjectName, pod *corev1.Pod, own []*cloudteamv1.NetworkPort,
	requests []consumer.Request, held []*cloudteamv1.NetworkPort,
) (bound []*cloudteamv1.NetworkPort, err error) {
	var chosen []*cloudteamv1.NetworkPort
	for i, port := range consumer.Served(requests, held) {
		if port != nil {
			continue
		}
		offers := free(own, requests[i])[consumer.PortUsable]
		slices.SortFunc(offers, consumer.CompareByName)
		offers = slices.DeleteFunc(offers, func(free *cloudteamv1.NetworkPort) bool {
			return slices.Contains(chosen, free) || slices.ContainsFunc(c.caches.GivenTo(free), func(other *corev1.Pod) bool {
				return other.UID != pod.UID
			})
		})
		if len(offers) == 0 {
			return nil, nil
		}
		if rival := c.caches.Rival(offers[0]); rival != nil {
			return nil, controller.Worst(controller.ErrStale, c.deleteDouble(ctx, offers[0], rival))
		}
		chosen = append(chosen, offers[0])
	}
	for _, port := range chosen {
		written, err := c.ports.Bind(ctx, key, port, pod)
		if err != nil {
			return nil, err
		}
		bound = append(bound, written)
	}
	return bound, nil
}

// deleteDouble deletes a free port whose address belongs to a bound port, which gets it back. Of two free ports none
// is deleted: one of them will be gone soon.
func (c *Controller) deleteDouble(ctx context.Context, port, rival *cloudteamv1.NetworkPort) error {
	if consumer.BoundTo(rival) == "" {
		return nil
	}
	klog.FromContext(ctx).Info("Deleting port whose address another one gets back", "port", port.Name)
	return c.ports.Delete(ctx, port, true)
}

// releaseUseless releases the useless ports that are bound under a Pod's name. They are useless if the Pod is gone,
// was replaced, has ended, or requests something else. pod is nil if the cache has none. A port of a virtual machine
// goes from the source of a live migration to its target.
//
// A Deployment's ports are released here only while the Pod waits for its allocation: only this sync knows that it is
// not giving the Pod that port at the moment.
func (c *Controller) releaseUseless(ctx context.Context, key cache.ObjectName, pod *corev1.Pod) error {
	heir := func(port *cloudteamv1.NetworkPort) *corev1.Pod {
		if consumer.Has(pod, port) {
			return nil // it lives, and has no use for the port
		}
		return c.caches.Successor(port, c.machines)
	}
	return c.ports.Release(ctx, key, pod, heir, slices.DeleteFunc(c.caches.PortsBoundTo(key),
		func(port *cloudteamv1.NetworkPort) bool {
			waiting := consumer.Has(pod, port) && !consumer.Allocated(pod)
			return consumer.OfDeployment(port) && !waiting || !consumer.IsBoundToPod(port) || consumer.Has(pod, port) &&
				!consumer.Useless(pod, port, func() consumer.Declaration {
					return consumer.DeclarationOf(pod, c.caches.Resolve)
				})
		})...)
}

// deleteOwn deletes those of a Pod's ports that are not to be kept. For a Pod that is gone, garbage collection or
// retire does it.
func (c *Controller) deleteOwn(ctx context.Context, own []*cloudteamv1.NetworkPort, keep map[string]bool) error {
	for _, port := range own {
		if port.DeletionTimestamp != nil || keep[port.Name] {
			continue
		}
		slot, ok := consumer.SlotOf(port)
		shared := ok && slot.Machine != "" // another Pod of the machine may be bound to it at this moment
		if err := c.ports.Delete(ctx, port, shared); err != nil {
			return err
		}
	}
	return nil
}

// retire deletes the ports of a slot that no Pod will come back to, once nothing is bound to them: the StatefulSet is
// gone, or was scaled down, or the virtual machine is gone. A port also goes with its Network, which would wait for
// it. pod is nil if the cache has none of the key's name.
func (c *Controller) retire(ctx context.Context, key cache.ObjectName, pod *corev1.Pod) error {
	ports := c.caches.PortsOfSlot(key)
	if len(ports) == 0 {
		return nil
	}
	slot, _ := consumer.SlotOf(ports[0]) // all have the same one
	if c.waitsIn(pod, slot) {
		return nil
	}
	returns := sync.OnceValues(func() (bool, error) { return c.returns(ctx, slot) })
	for _, port := range ports {
		if port.DeletionTimestamp != nil || port.Status.BoundTo != nil {
			continue
		}
		if on := c.caches.Network(consumer.NetworkOf(port)); on == nil || on.DeletionTimestamp == nil {
			if stays, err := returns(); err != nil {
				return err
			} else if stays {
				continue
			}
		}
		klog.FromContext(ctx).Info("Deleting port that no Pod of the slot will come back to", "port", port.Name,
			"slot", slot.String())
		if err := c.ports.Delete(ctx, port, true); err != nil {
			return err
		}
	}
	return nil
}

// returns reports whether a Pod of a slot may come back. If the cache says that none will, it reads the StatefulSet
// or the virtual machine from the API server: the cache may show it as it was before it was scaled up or made again.
// Then the error is ErrStale.
func (c *Controller) returns(ctx context.Context, slot consumer.Slot) (bool, error) {
	if slot.Machine != "" {
		return c.machineReturns(ctx, slot)
	}
	if slot.Returns(c.caches.StatefulSet(cache.NewObjectName(slot.Namespace, slot.Set))) {
		return true, nil
	}
	live, err := controller.Live(ctx, c.sets.StatefulSets(slot.Namespace), "StatefulSet", slot.Set)
	if err == nil && slot.Returns(live) {
		err = controller.ErrStale
	}
	return false, err
}

// machineReturns is returns for a virtual machine. If the caches do not show what the API server has because they are
// not full or there are none, the port stays: it is synced again when they are full.
func (c *Controller) machineReturns(ctx context.Context, slot consumer.Slot) (bool, error) {
	cached := c.machines != nil && c.machines.HasSynced()
	if cached && c.machines.Return(slot) {
		return true, nil
	}
	stays, err := consumer.ReadReturn(ctx, c.metadata, slot)
	if err == nil && stays && cached {
		return false, controller.ErrStale
	}
	return stays, err
}

// waitsIn reports whether a slot has a Pod that may get its ports: the given one, which may be nil, of a StatefulSet,
// or one of the virtual machine that has not ended.
func (c *Controller) waitsIn(pod *corev1.Pod, slot consumer.Slot) bool {
	if slot.Machine != "" {
		return slices.ContainsFunc(c.caches.PodsOfMachine(slot), func(of *corev1.Pod) bool { return !consumer.Ended(of) })
	}
	if pod == nil {
		return false
	}
	owner := controller.OwnerOf(pod, consumer.StatefulSetKind)
	return owner != nil && owner.Name == slot.Set
}

package consumer

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// Declaration is what a Pod declares, and which ports it requests.
type Declaration struct {
	// Invalid says why an annotation cannot be read; it is an *AnnotationError for one of the Extras. Missing is the
	// first selection whose network does not exist.
	Invalid error
	Missing *selection.Selection
	// Selections are what the Pod declares. Ours are the indexes of those that name Networks. Requests are what these
	// request, in the same order.
	Selections []selection.Selection
	Ours       []int
	Requests   []Request
	// Extras are what the Pod says of its ports beside their networks.
	Extras Extras
}

// DeclarationOf reads what a Pod declares. resolve gives what a network's name refers to for the Pod's namespace.
func DeclarationOf(pod *corev1.Pod, resolve func(namespace string, network cache.ObjectName) Kind) Declaration {
	selections, err := DeclaredByPod(pod)
	extras, extrasErr := ExtrasDeclared(pod.Annotations, pod.Namespace, selections)
	d := Declaration{Invalid: cmp.Or(err, extrasErr), Selections: selections, Extras: extras}
	for i, s := range selections {
		switch resolve(pod.Namespace, cache.NewObjectName(s.Namespace, s.Name)) {
		case Missing:
			if d.Missing == nil {
				d.Missing = &selections[i]
			}
		case Ours:
			d.Ours, d.Requests = append(d.Ours, i), append(d.Requests, RequestOf(s, extras))
		case Foreign:
		}
	}
	return d
}

// Served gives the held ports that serve requests, in the order of the requests; nil for a request that no port serves.
// A port that is being deleted serves none: a Pod that waits runs nothing yet. The result does not depend on the order
// of held.
func Served(requests []Request, held []*cloudteamv1.NetworkPort) []*cloudteamv1.NetworkPort {
	served := make([]*cloudteamv1.NetworkPort, len(requests))
	for _, port := range slices.SortedFunc(slices.Values(held), CompareByName) {
		if port.DeletionTimestamp != nil {
			continue
		}
		request := ServedBy(port)
		for i := range requests {
			if served[i] == nil && requests[i] == request {
				served[i] = port
				break
			}
		}
	}
	return served
}

// CompareByName sorts ports by name, web-net-2 before web-net-10.
func CompareByName(a, b *cloudteamv1.NetworkPort) int {
	return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name))
}

// Useless reports whether a Pod that has not ended has no use for a port that is bound to it. Such a port may be
// released.
//
// After the Pod was given its ports, a port is useless if the Pod does not name it. Before, a port is useless if it
// serves none of the Pod's requests, and only if the Pod's containers cannot run with it: not of a Pod that may run
// (see MayRun), nor of one whose declaration mentions the port. A port beyond what a Pod needs is not useless: another
// process may be giving it that very port.
func Useless(pod *corev1.Pod, port *cloudteamv1.NetworkPort, declaration func() Declaration) bool {
	if Allocated(pod) {
		allocations, err := Allocations(pod)
		return err == nil && !Mirror(pod) && !Mentions(pod, port) &&
			!slices.ContainsFunc(allocations, func(a cloudteamv1.Allocation) bool { return a.Port == port.Name })
	}
	if MayRun(pod) || !Gated(pod) && Mentions(pod, port) || pod.DeletionTimestamp != nil {
		return false
	}
	d := declaration()
	switch {
	case d.Invalid != nil || d.Missing != nil:
		return false
	case len(d.Requests) == 0:
		return true
	case pod.Spec.HostNetwork:
		return false
	}
	return port.DeletionTimestamp != nil || !slices.Contains(d.Requests, ServedBy(port))
}

// MayRun reports whether the containers of a Pod that has not ended may run: it has a node and not our gate. Such a Pod
// may use a port that is bound to it, even if it lost the annotations for it.
func MayRun(pod *corev1.Pod) bool { return !Gated(pod) && pod.Spec.NodeName != "" }

package pod

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// assignment is which ports a Pod is to have.
type assignment struct {
	// ports serve the requests, in their order. One that nothing can serve yet has none (nil).
	ports []*cloudteamv1.NetworkPort
	// surplus are ports that the Pod holds and can have no use for, as it is: they serve none of its requests, or are to
	// go. One more than it needs of those that serve a request is none of them: see provide.
	surplus []*cloudteamv1.NetworkPort
}

// complete reports whether every request is served.
func (a assignment) complete() bool { return !slices.Contains(a.ports, nil) }

// assign chooses ports for requests: those that the Pod holds before any other, and then such as free offers for a
// request and fits, which is asked of as few as need be. Its choice does not depend on the order of what it is given.
//
// Where not all requests can be served, it takes none that the Pod does not hold yet. Two Pods that each held what the
// other one waits for would wait forever.
func assign(
	requests []consumer.Request, held []*cloudteamv1.NetworkPort,
	free func(consumer.Request) []*cloudteamv1.NetworkPort, fits func(*cloudteamv1.NetworkPort) bool,
) assignment {
	a := assignment{ports: make([]*cloudteamv1.NetworkPort, len(requests))}
	for _, port := range inOrder(held) {
		request := consumer.ServedBy(port)
		if port.DeletionTimestamp != nil || !slices.Contains(requests, request) {
			// Nothing of the Pod's runs yet, so that a port that is to go need not wait for it.
			a.surplus = append(a.surplus, port)
		} else if i := unserved(requests, a.ports, request); i >= 0 {
			a.ports[i] = port
		}
	}
	taken := slices.Clone(a.ports)
	offers := map[consumer.Request][]*cloudteamv1.NetworkPort{}
	for i, request := range requests {
		if taken[i] != nil {
			continue
		}
		offered, known := offers[request]
		if !known {
			offered = inOrder(free(request))
		}
		next := slices.IndexFunc(offered, fits)
		if next < 0 {
			return a
		}
		taken[i], offers[request] = offered[next], offered[next+1:]
	}
	a.ports = taken
	return a
}

// unserved gives the first of the requests that equals the one given and has no port yet, -1 for none.
func unserved(requests []consumer.Request, ports []*cloudteamv1.NetworkPort, request consumer.Request) int {
	for i := range requests {
		if ports[i] == nil && requests[i] == request {
			return i
		}
	}
	return -1
}

// inOrder sorts ports by name, web-net-2 before web-net-10: what is chosen is the same every time, and a pool that
// shrinks finds its last ports free.
func inOrder(ports []*cloudteamv1.NetworkPort) []*cloudteamv1.NetworkPort {
	return slices.SortedFunc(slices.Values(ports), byOrder)
}

func byOrder(a, b *cloudteamv1.NetworkPort) int {
	return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name))
}

// condition is the state of a port, for those who might use it.
type condition string

const (
	// usable is a port that is in Neutron as declared.
	usable condition = "usable"
	// pending is one that is being made, or waits for what passes by itself.
	pending condition = "pending"
	// failing is one that cannot be made or kept as things are.
	failing condition = "failing"
)

// conditionOf tells a port's state. A port that is going is none of the three to those who look for one, which is not
// looked at here.
//
// Of the reasons for which a port is not Ready three do not count as failing: a Network that is not Ready says itself
// why, somebody else's change at the same time is over with the next attempt, and a cloud that asks to wait answers
// then.
func conditionOf(port *cloudteamv1.NetworkPort) condition {
	ready := meta.FindStatusCondition(port.Status.Conditions, cloudteamv1.ConditionReady)
	switch {
	case ready == nil:
		return pending
	case ready.Status == metav1.ConditionTrue:
		if port.Status.PortID == "" || port.Status.MAC == "" || len(port.Status.Addresses) == 0 {
			return pending
		}
		return usable
	}
	switch ready.Reason {
	case cloudteamv1.ReasonWaitingForNetwork, cloudteamv1.ReasonChanging, cloudteamv1.ReasonThrottled:
		return pending
	}
	return failing
}

// boundTo gives the UID of the Pod that a port is bound to, empty for none.
func boundTo(port *cloudteamv1.NetworkPort) types.UID {
	if port.Status.BoundTo == nil {
		return ""
	}
	return port.Status.BoundTo.UID
}

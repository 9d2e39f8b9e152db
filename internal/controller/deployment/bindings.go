package deployment

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// bindings say which ports to bind to which Pods, and which to release.
type bindings struct {
	bind    []binding
	release []binding
	// doubles are free ports with the address of a bound one. They are deleted, so that the bound port gets it back.
	doubles []*cloudteamv1.NetworkPort
	// contested is true if two free ports have one address. Neither is bound until one of them is gone.
	contested bool
	// holders maps ports to the Pods that they will be bound to.
	holders map[types.UID]types.UID
}

// binding is a port and a Pod.
type binding struct {
	port *cloudteamv1.NetworkPort
	// pod is the Pod as cached. In a release it is nil, or another one of the name, if the port's Pod is gone.
	pod *corev1.Pod
	// lost is true if the Pod was given the port before, and the binding was lost.
	lost bool
}

// holder gives the UID of the Pod that has a port once the bindings are written, empty for none. A port counts as its
// Pod's until the release is written: the Pod may turn out to exist.
func (b bindings) holder(port *cloudteamv1.NetworkPort) types.UID {
	if pod, ok := b.holders[port.UID]; ok {
		return pod
	}
	return consumer.BoundTo(port)
}

// bindings plans which Pod gets which port.
func (o observed) bindings(declarations map[types.UID]consumer.Declaration) bindings {
	b := bindings{holders: map[types.UID]types.UID{}}
	for _, port := range slices.Concat(o.ports, o.left) {
		o.keepOrRelease(&b, port)
	}
	if o.deployment != nil {
		o.assign(&b, declarations)
	}
	return b
}

// keepOrRelease releases a port whose Pod is gone, has ended or was given other ports. It binds a port again whose
// binding was lost.
//
// The ports of a Pod that waits are left to the Pod's own sync. It may be giving the Pod that very port, and its write
// and a release here would both succeed.
func (o observed) keepOrRelease(b *bindings, port *cloudteamv1.NetworkPort) {
	switch {
	case port.Status.BoundTo == nil:
		if pod := o.givenBefore(port); pod != nil {
			b.bind = append(b.bind, binding{port: port, pod: pod, lost: true})
			b.holders[port.UID] = pod.UID
		}
	case consumer.IsBoundToPod(port):
		pod := o.podNamed(port.Status.BoundTo.Name)
		if !consumer.Has(pod, port) || consumer.Allocated(pod) &&
			consumer.Useless(pod, port, func() consumer.Declaration { return o.declarationOf(pod) }) {
			b.release = append(b.release, binding{port: port, pod: pod})
		}
	}
}

// givenBefore gives the Pod that was given a port by its annotation, nil for none. If somebody copied the annotation to
// another Pod, the oldest Pod counts.
func (o observed) givenBefore(port *cloudteamv1.NetworkPort) *corev1.Pod {
	pods := slices.DeleteFunc(o.givenTo(port), func(pod *corev1.Pod) bool {
		allocations, err := consumer.Allocations(pod)
		return err != nil || !slices.ContainsFunc(allocations, func(a cloudteamv1.Allocation) bool {
			return a.Port == port.Name && a.PortID == port.Status.PortID
		})
	})
	if len(pods) == 0 {
		return nil
	}
	return slices.MinFunc(pods, olderFirst)
}

// assign binds free ports to the Pods that wait, the older Pods first.
//
// A Pod gets everything that it lacks, or nothing. If a Pod held one port while it waits for another, it would block a
// Pod that needs only that one.
func (o observed) assign(b *bindings, declarations map[types.UID]consumer.Declaration) {
	if len(declarations) == 0 {
		return // nobody waits
	}
	offers := o.offers(b)
	held := map[types.UID][]*cloudteamv1.NetworkPort{}
	for _, port := range slices.Concat(o.ports, o.borrowed) {
		if uid := consumer.BoundTo(port); uid != "" {
			held[uid] = append(held[uid], port)
		}
	}
	for _, pod := range slices.SortedFunc(slices.Values(o.pods), olderFirst) {
		declaration, waits := declarations[pod.UID]
		if !waits || declaration.Invalid != nil || declaration.Missing != nil || len(b.bind) >= burst {
			continue
		}
		if !consumer.Gated(pod) && consumer.AsGiven(declaration.Requests, held[pod.UID]) != nil {
			continue // it has its ports but lost its annotation
		}
		for _, port := range take(offers, lacking(declaration.Requests, held[pod.UID])) {
			b.bind = append(b.bind, binding{port: port, pod: pod})
			b.holders[port.UID] = pod.UID
		}
	}
}

// lacking gives the requests that no held port serves.
func lacking(requests []consumer.Request, held []*cloudteamv1.NetworkPort) []consumer.Request {
	var lacking []consumer.Request
	for i, port := range consumer.Served(requests, held) {
		if port == nil {
			lacking = append(lacking, requests[i])
		}
	}
	return lacking
}

// offers are the Deployment's ports that may be bound, by the requests that they serve, in the order of their names.
// Low slots are bound first, so that the high slots of a shrinking pool are free. A port with an address that another
// port shows, too, is not offered.
func (o observed) offers(b *bindings) map[consumer.Request][]*cloudteamv1.NetworkPort {
	offers := map[consumer.Request][]*cloudteamv1.NetworkPort{}
	for _, port := range slices.SortedFunc(slices.Values(o.ports), consumer.CompareByName) {
		if port.Status.BoundTo != nil || port.DeletionTimestamp != nil || o.deleted[port.UID] ||
			b.holder(port) != "" || consumer.StateOf(port) != consumer.PortUsable || len(o.givenTo(port)) > 0 {
			continue
		}
		if rival := o.rival(port); rival != nil {
			b.contested = true
			if b.holder(rival) != "" {
				b.doubles = append(b.doubles, port)
			}
			continue
		}
		request := consumer.ServedBy(port)
		offers[request] = append(offers[request], port)
	}
	return offers
}

// take takes a port for each request from the offers, or none.
func take(
	offers map[consumer.Request][]*cloudteamv1.NetworkPort, requests []consumer.Request,
) []*cloudteamv1.NetworkPort {
	taken := map[consumer.Request]int{}
	var ports []*cloudteamv1.NetworkPort
	for _, request := range requests {
		if taken[request] >= len(offers[request]) {
			return nil
		}
		ports = append(ports, offers[request][taken[request]])
		taken[request]++
	}
	for request, n := range taken {
		offers[request] = offers[request][n:]
	}
	return ports
}

// olderFirst sorts Pods by age, and Pods of the same second by name.
func olderFirst(a, b *corev1.Pod) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

package service

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// Services that select the same Pods must not all choose the same free port: each would lose it to another one and
// choose again, and each move would have the others look again. So the ports are assigned to all Services of a
// namespace together, in the order of their age: each gets the port of the oldest Pod that no FloatingIP names and
// that no older Service gets.
//
// An assignment holds until its Service leads there, or cannot. So the moves of others, of which caches show any part
// at any time, change nothing in it, and each Service moves once.
//
// It costs at most maxServices times the namespace's Pods with ports. Syncs of other namespaces and handlers of events
// do not wait for it.

// maxServices is how many Services of a namespace are assigned ports: the oldest with the annotation.
const maxServices = 256

// assignment has the ports that are assigned in one namespace.
type assignment struct {
	// done is true until something changes in the namespace.
	done atomic.Bool
	// mu is held while ports are assigned. Handlers of events MUST NOT wait for it.
	mu sync.Mutex
	// ports has the name of a port for each Service that is assigned one, and may not lead there yet.
	ports map[cache.ObjectName]string
}

// assigned gives the name of the port that a Service is to lead to; empty if there is none for it.
func (c *Controller) assigned(service *corev1.Service) string {
	key := cache.MetaObjectToName(service)
	found, _ := c.assignments.LoadOrStore(key.Namespace, &assignment{})
	a, _ := found.(*assignment)
	a.mu.Lock()
	var others []cache.ObjectName
	// done is set first: what changes during the assignment may not be in it.
	if !c.stillFor(key, a.ports[key], claims{}) && !a.done.Swap(true) {
		a.ports, others = c.assign(key.Namespace, a.ports)
	}
	name := a.ports[key]
	a.mu.Unlock()
	c.Enqueue(slices.DeleteFunc(others, func(other cache.ObjectName) bool { return other == key })...)
	return name
}

// assign assigns ports to the Services of a namespace that lead nowhere, or where another FloatingIP does. What was
// assigned before and still holds stays. changed are the Services that are assigned other ports than before.
func (c *Controller) assign(
	namespace string, before map[cache.ObjectName]string,
) (ports map[cache.ObjectName]string, changed []cache.ObjectName) {
	ports = map[cache.ObjectName]string{}
	taken, known := map[string]bool{}, claims{}
	var waiting []*corev1.Service // the oldest first
	for _, key := range c.asking.Names(namespace, maxServices) {
		service, err := c.services.Services(namespace).Get(key.Name)
		switch name := before[key]; {
		case err != nil || !c.wants(service, known):
		case c.stillFor(key, name, known):
			taken[name], ports[key] = true, name
		default:
			waiting = append(waiting, service)
		}
	}
	if len(waiting) == 0 {
		return ports, nil
	}
	candidates := c.candidates(namespace, func(*corev1.Pod) bool { return true })
	// Services with the same selector have the same backends, and go through them once together.
	rest := map[string][]candidate{}
	for _, service := range waiting {
		w, _, _ := wishOf(service) // wants has read it
		same := sameBackends(service, w)
		left, begun := rest[same]
		if !begun {
			left = candidates
		}
		var port *cloudteamv1.NetworkPort
		at := slices.IndexFunc(left, func(of candidate) bool {
			if of.pod.DeletionTimestamp != nil || !selects(service, of.pod) {
				return false
			}
			port, _ = of.portFor(w)
			return port != nil && !taken[port.Name] && port.Spec.FloatingIP == nil && c.claimOn(port, known).first == nil
		})
		if at < 0 {
			rest[same] = nil
			continue
		}
		key := cache.MetaObjectToName(service)
		taken[port.Name], ports[key], rest[same] = true, port.Name, left[at+1:]
		changed = append(changed, key)
	}
	return ports, changed
}

// sameBackends is equal for Services that select the same ports.
func sameBackends(service *corev1.Service, w wish) string {
	var b strings.Builder
	b.WriteString(w.network)
	for _, key := range slices.Sorted(maps.Keys(service.Spec.Selector)) {
		b.WriteString("," + key + "=" + service.Spec.Selector[key])
	}
	return b.String()
}

// wants reports whether a Service is to be assigned a port: it asks for a floating IP, and has none that leads where it
// can stay.
func (c *Controller) wants(service *corev1.Service, known claims) bool {
	w, declares, err := wishOf(service)
	if !declares || err != nil || service.DeletionTimestamp != nil {
		return false
	}
	has, err := c.floating.FloatingIPs(service.Namespace).Get(service.Name)
	if err != nil {
		return w.wrong == ""
	}
	if !controller.Controls(service, Kind.GroupKind(), has) || has.DeletionTimestamp != nil ||
		has.Spec.ExternalNetwork != w.external {
		return false
	}
	at, stays := c.backendAt(service, w, has.Spec.PortName)
	return !stays || !c.holds(has, at.port, known)
}

// stillFor reports whether a port is still free for the Service that it is assigned to, or has its FloatingIP.
func (c *Controller) stillFor(key cache.ObjectName, name string, known claims) bool {
	if name == "" {
		return false
	}
	service, err := c.services.Services(key.Namespace).Get(key.Name)
	if err != nil {
		return false
	}
	w, declares, err := wishOf(service)
	if !declares || err != nil {
		return false
	}
	b, ok := c.backendAt(service, w, name)
	if !ok || b.port.Spec.FloatingIP != nil {
		return false
	}
	on := c.claimOn(b.port, known)
	return on.first == nil || on.alone && on.first.Name == key.Name
}

// exceeds reports whether so many Services of a namespace are older than one that it is assigned no port.
func (c *Controller) exceeds(service *corev1.Service) bool {
	return c.asking.Ahead(controller.WaitingOf(service), service.Namespace) >= maxServices
}

// changed has the ports of a namespace assigned again when a Service needs one.
func (c *Controller) changed(namespace string) {
	found, _ := c.assignments.Load(namespace)
	if a, ok := found.(*assignment); ok {
		a.done.Store(false)
	}
}

// forget forgets a Service that is gone, or asks for no floating IP.
func (c *Controller) forget(key cache.ObjectName) {
	c.told.Delete(key)
	c.waiting.Put(controller.Waiting{Name: key}, "")
	c.leading.Put(controller.Waiting{Name: key}, "")
	found, _ := c.assignments.Load(key.Namespace)
	a, ok := found.(*assignment)
	if !ok {
		return
	}
	a.mu.Lock()
	delete(a.ports, key)
	a.mu.Unlock()
	a.done.Store(false)
	if len(c.asking.First(key.Namespace, 1)) == 0 {
		c.assignments.Delete(key.Namespace)
	}
}

// follow has events find a Service: those of the Pod to which it leads, and while it has no port of its own those of
// Pods with the first label of its selector.
func (c *Controller) follow(service *corev1.Service, to chosen) {
	led, looks := "", ""
	if to.found {
		led = cache.MetaObjectToName(to.port).String()
	}
	if key, value, any := firstOf(service.Spec.Selector); any && !to.settled {
		looks = labelKey(service.Namespace, key, value)
	}
	c.leading.Put(controller.WaitingOf(service), led)
	c.waiting.Put(controller.WaitingOf(service), looks)
}

// wake is the most Services that an event has look for a port. Each of them assigns the ports of the whole namespace,
// and has the Services requeued that get one.
const wake = 8

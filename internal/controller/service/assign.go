package service

import (
	"maps"
	"slices"
	"strings"
	"sync"

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

// assignments are those of all namespaces.
type assignments struct {
	mu sync.Mutex
	// ports has the name of a port for each Service that is assigned one, and may not lead there yet.
	ports map[cache.ObjectName]string
	// done has the namespaces of which nothing has changed since their ports were assigned.
	done map[string]bool
}

// assigned gives the name of the port that a Service is to lead to; empty if there is none for it.
func (c *Controller) assigned(service *corev1.Service) string {
	c.assignments.mu.Lock()
	key := cache.MetaObjectToName(service)
	var others []cache.ObjectName
	if !c.stillFor(key, c.assignments.ports[key]) && !c.assignments.done[service.Namespace] {
		others = c.assign(service.Namespace)
		c.assignments.done[service.Namespace] = true
	}
	name := c.assignments.ports[key]
	c.assignments.mu.Unlock()
	c.Enqueue(slices.DeleteFunc(others, func(other cache.ObjectName) bool { return other == key })...)
	return name
}

// assign assigns ports to the Services of a namespace that lead nowhere, or where another FloatingIP does. What was
// assigned before and still holds stays. It returns the Services that are assigned other ports than before.
func (c *Controller) assign(namespace string) (changed []cache.ObjectName) {
	taken := map[string]bool{}
	var waiting []*corev1.Service
	for _, service := range c.annotated(namespace) {
		key := cache.MetaObjectToName(service)
		name := c.assignments.ports[key]
		switch {
		case !c.wants(service):
			delete(c.assignments.ports, key)
		case c.stillFor(key, name):
			taken[name] = true
		default:
			delete(c.assignments.ports, key)
			waiting = append(waiting, service)
		}
	}
	slices.SortFunc(waiting, func(a, b *corev1.Service) int {
		return controller.WaitingOf(a).Older(controller.WaitingOf(b))
	})
	// Services with the same selector have the same backends, and go through them once together.
	rest := map[string][]backend{}
	for _, service := range waiting {
		w, _, _ := wishOf(service) // wants has read it
		same := sameBackends(service, w)
		backends, known := rest[same]
		if !known {
			backends, _, _ = c.backends(service, w)
		}
		at := slices.IndexFunc(backends, func(b backend) bool { return !taken[b.port.Name] && c.free(b.port) })
		if at < 0 {
			rest[same] = nil
			continue
		}
		key, name := cache.MetaObjectToName(service), backends[at].port.Name
		taken[name], c.assignments.ports[key], rest[same] = true, name, backends[at+1:]
		changed = append(changed, key)
	}
	return changed
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
func (c *Controller) wants(service *corev1.Service) bool {
	w, declares, err := wishOf(service)
	if !declares || err != nil || service.DeletionTimestamp != nil {
		return false
	}
	has, err := c.floating.FloatingIPs(service.Namespace).Get(service.Name)
	if err != nil {
		return true
	}
	if !controller.Controls(service, Kind.GroupKind(), has) || has.DeletionTimestamp != nil ||
		has.Spec.ExternalNetwork != w.external {
		return false
	}
	at, stays := c.backendAt(service, w, has.Spec.PortName)
	return !stays || !c.holds(has, at.port)
}

// free reports whether no FloatingIP leads, or is to lead, to a port.
func (c *Controller) free(port *cloudteamv1.NetworkPort) bool {
	return port.Spec.FloatingIP == nil && len(c.leadingTo(port.Namespace, port.Name)) == 0
}

// stillFor reports whether a port is still free for the Service that it is assigned to, or has its FloatingIP.
func (c *Controller) stillFor(key cache.ObjectName, name string) bool {
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
	return ok && b.port.Spec.FloatingIP == nil &&
		!slices.ContainsFunc(c.leadingTo(key.Namespace, name), func(f *cloudteamv1.FloatingIP) bool {
			return f.Name != key.Name
		})
}

// changed has the ports of a namespace assigned again when a Service needs one.
func (c *Controller) changed(namespace string) {
	c.assignments.mu.Lock()
	defer c.assignments.mu.Unlock()
	delete(c.assignments.done, namespace)
}

// forget forgets a Service that is gone, or asks for no floating IP.
func (c *Controller) forget(key cache.ObjectName) {
	c.told.Delete(key)
	c.waiting.Put(controller.Waiting{Name: key}, "")
	c.leading.Put(controller.Waiting{Name: key}, "")
	c.assignments.mu.Lock()
	defer c.assignments.mu.Unlock()
	delete(c.assignments.ports, key)
	delete(c.assignments.done, key.Namespace)
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

// wake is the most Services that an event of a Pod has look for a port, for each of its labels. Each of them assigns
// the ports of the whole namespace, and has the Services requeued that get one.
const wake = 8

package service

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/declare"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// wish is what a Service's annotation asks for.
type wish struct {
	// external is the id or name of the external network.
	external string
	// network is the name of the Network of the Pods' port; empty for the only one.
	network string
}

// wishOf reads a Service's annotation. declares is false without it.
func wishOf(service *corev1.Service) (w wish, declares bool, err error) {
	if _, declares = service.Annotations[cloudteamv1.AnnotationFloatingIP]; !declares {
		return wish{}, false, nil
	}
	text, err := consumer.FloatingDeclared(service.Annotations)
	if err != nil {
		return wish{}, true, err
	}
	w.network, w.external, _ = strings.Cut(text, "=")
	if strings.Contains(w.external, ",") {
		return wish{}, true, fmt.Errorf("annotation %s: a Service has one floating IP: write one external network, such as "+
			"public, or one Network with it, such as web=public", cloudteamv1.AnnotationFloatingIP)
	}
	return w, true, nil
}

// backend is a Pod that a Service selects, with the NetworkPort that a floating IP may lead to.
type backend struct {
	pod  *corev1.Pod
	port *cloudteamv1.NetworkPort
}

// backends gives the Pods that a Service selects and that have a port for its floating IP: those that stay, and those
// that are being deleted. why says for users what the others lack; it is empty if the Service selects no other.
func (c *Controller) backends(service *corev1.Service, w wish) (stay, leave []backend, why string) {
	pods, err := c.caches.Pods.Lister().Pods(service.Namespace).List(labels.Everything())
	if err != nil {
		return nil, nil, "" // a cache gives none
	}
	pods = slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return !serves(service, pod) })
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	for _, pod := range pods {
		port, lacks := c.portOf(pod, w)
		switch {
		case port == nil:
			why = cmp.Or(why, lacks)
		case pod.DeletionTimestamp == nil:
			stay = append(stay, backend{pod, port})
		default:
			leave = append(leave, backend{pod, port})
		}
	}
	return stay, leave, why
}

// portOf gives the NetworkPort of a Pod that a floating IP may lead to; nil for none, and then says why for users, or
// nothing while ports are on their way.
func (c *Controller) portOf(pod *corev1.Pod, w wish) (found *cloudteamv1.NetworkPort, lacks string) {
	var others []string
	for _, port := range c.caches.PortsBoundTo(cache.MetaObjectToName(pod)) {
		on := port.Network()
		switch {
		case consumer.BoundTo(port) != pod.UID, port.DeletionTimestamp != nil, port.Status.PortID == "":
		case w.network != "" && on.Name != w.network:
			others = append(others, on.Name)
		case on.Namespace != pod.Namespace:
			lacks = fmt.Sprintf("the port of Pod %s is on a Network of namespace %s, where only its own ports may have a "+
				"floating IP", pod.Name, on.Namespace)
		case !declare.HasIPv4(port):
			lacks = fmt.Sprintf("the port of Pod %s on Network %s has no address of IPv4", pod.Name, on.Name)
		case found != nil && found.Network() != on:
			names := []string{found.Network().Name, on.Name}
			slices.Sort(names)
			return nil, fmt.Sprintf("Pod %s has ports on the Networks %s: write one of them in the annotation %s, such as "+
				"%s=%s", pod.Name, strings.Join(names, " and "), cloudteamv1.AnnotationFloatingIP, names[0], w.external)
		case found == nil || port.Name < found.Name:
			found = port
		}
	}
	if found == nil && lacks == "" && len(others) > 0 {
		slices.Sort(others)
		lacks = fmt.Sprintf("Pod %s has no port on Network %s, but on %s: write a Network of its Pods in the annotation %s",
			pod.Name, w.network, strings.Join(slices.Compact(others), ", "), cloudteamv1.AnnotationFloatingIP)
	}
	if found != nil {
		return found, ""
	}
	return nil, lacks
}

// backendAt gives the backend that a NetworkPort is of a Service; ok is false if the Service selects no Pod with it, or
// if that is being deleted.
func (c *Controller) backendAt(service *corev1.Service, w wish, name string) (b backend, ok bool) {
	port, err := c.caches.Ports.Lister().NetworkPorts(service.Namespace).Get(name)
	if err != nil || port.Status.BoundTo == nil {
		return backend{}, false
	}
	pod, err := c.caches.Pods.Lister().Pods(service.Namespace).Get(port.Status.BoundTo.Name)
	if err != nil || pod.DeletionTimestamp != nil || !serves(service, pod) {
		return backend{}, false
	}
	chosen, _ := c.portOf(pod, w)
	return backend{pod, port}, chosen == port
}

// serves reports whether a Service's floating IP may lead to a Pod. While a Pod's ports are made, the first of two that
// is ready is no choice: it would lead where chance says.
func serves(service *corev1.Service, pod *corev1.Pod) bool {
	return selects(service, pod) && consumer.Allocated(pod) && !consumer.Ended(pod)
}

// chosen is where a Service's FloatingIP is to lead.
type chosen struct {
	backend
	// found is false if it is to lead nowhere. why says for users what the Pods lack then.
	found bool
	why   string
	// settled is true if it may stay there.
	settled bool
}

// choose chooses for a Service with a FloatingIP, nil for a new one. It stays where it is as long as that Pod does, so
// that a Pod that comes takes nothing away. Otherwise it goes where assign says. One that is being deleted keeps it
// until another one can take over.
func (c *Controller) choose(service *corev1.Service, has *cloudteamv1.FloatingIP, w wish) chosen {
	at, stays := backend{}, false
	if has != nil && has.Spec.PortName != "" {
		if at, stays = c.backendAt(service, w, has.Spec.PortName); stays && c.holds(has, at.port) {
			return chosen{backend: at, found: true, settled: true}
		}
	}
	if b, ok := c.backendAt(service, w, c.assigned(service)); ok {
		return chosen{backend: b, found: true, settled: true}
	}
	if stays {
		return chosen{backend: at, found: true} // there is no other
	}
	stay, leave, why := c.backends(service, w)
	leads := func(b backend) bool { return has != nil && b.port.Name == has.Spec.PortName }
	if at := slices.IndexFunc(leave, leads); at >= 0 {
		return chosen{backend: leave[at], found: true}
	}
	if len(stay) > 0 {
		why = "each port of the Service's Pods has a floating IP of another Service or FloatingIP: run more Pods, or " +
			"delete one of these"
	}
	return chosen{why: why}
}

// holds reports whether a FloatingIP is the one of all whose specs name a port that leads there, or is to: Neutron
// gives a port one of each external network. It is the one that leads there already, or else the oldest.
func (c *Controller) holds(f *cloudteamv1.FloatingIP, port *cloudteamv1.NetworkPort) bool {
	if port.Spec.FloatingIP != nil {
		return false
	}
	leads := func(f *cloudteamv1.FloatingIP) int {
		if f.Status.PortID == port.Status.PortID {
			return 0
		}
		return 1
	}
	return !slices.ContainsFunc(c.leadingTo(port.Namespace, port.Name), func(other *cloudteamv1.FloatingIP) bool {
		return other.UID != f.UID && cmp.Or(cmp.Compare(leads(other), leads(f)),
			controller.WaitingOf(other).Older(controller.WaitingOf(f))) < 0
	})
}

package service

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

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
	// While a Pod's ports are made, the first of two that is ready is no choice: it would lead where chance says.
	pods = slices.DeleteFunc(pods, func(pod *corev1.Pod) bool {
		return !selects(service, pod) || !consumer.Allocated(pod) || consumer.Ended(pod)
	})
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

// choose gives the backend that a Service's FloatingIP, nil for a new one, leads to; ok is false for none. It stays
// where it is as long as that Pod does, so that a Pod that comes takes nothing away. After that the oldest Pod has it
// whose port has no other floating IP. One that is being deleted keeps it until another one can take over.
func (c *Controller) choose(has *cloudteamv1.FloatingIP, stay, leave []backend) (b backend, ok bool) {
	leads := func(b backend) bool { return has != nil && b.port.Name == has.Spec.PortName }
	free := func(b backend) bool { return !c.hasAnother(b.port, has) }
	if at := slices.IndexFunc(stay, leads); at >= 0 {
		if free(stay[at]) || stay[at].port.Status.PortID == has.Status.PortID {
			return stay[at], true
		}
	}
	if at := slices.IndexFunc(stay, free); at >= 0 {
		return stay[at], true
	}
	if at := slices.IndexFunc(stay, leads); at >= 0 {
		return stay[at], true
	}
	if len(stay) > 0 {
		return stay[0], true
	}
	if at := slices.IndexFunc(leave, leads); at >= 0 {
		return leave[at], true
	}
	return backend{}, false
}

// hasAnother reports whether a port has, or is to have, another floating IP than that of a FloatingIP. Neutron gives it
// one of each external network.
func (c *Controller) hasAnother(port *cloudteamv1.NetworkPort, than *cloudteamv1.FloatingIP) bool {
	others := slices.DeleteFunc(c.leadingTo(port.Namespace, port.Name), func(f *cloudteamv1.FloatingIP) bool {
		return than != nil && f.UID == than.UID
	})
	return port.Spec.FloatingIP != nil || len(others) > 0
}

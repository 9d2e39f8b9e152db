package service

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/declare"
	"cloudteam.ztgame.com/network-controller/internal/osc"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// wish is what a Service's annotation asks for.
type wish struct {
	// external is the id or name of the external network.
	external string
	// network is the name of the Network of the Pods' port; empty for the only one.
	network string
	// address is the address of choice, and imported the id of a floating IP that exists; empty for Neutron's choice.
	address, imported string
	// wrong says for users why no FloatingIP is created; empty if one can be. One that exists moves all the same.
	wrong string
}

// another says for users how a FloatingIP that exists differs from what the annotations ask for; empty if it does not.
// It is not deleted for that: its address would not come back if the other one is refused.
func (w wish) another(has *cloudteamv1.FloatingIP) string {
	is := has.Spec
	imports := w.imported == "" || is.Import != nil && is.Import.ID == w.imported
	if !imports || w.address != "" && w.address != is.Address {
		return fmt.Sprintf("FloatingIP %s was not created as the annotations %s and %s say, and is kept: delete it to have "+
			"it created again, or correct the annotations", has.Name, cloudteamv1.AnnotationFloatingIPAddress,
			cloudteamv1.AnnotationFloatingIPImport)
	}
	return ""
}

// wishOf reads a Service's annotations. declares is false without the first one. A mistake in the other ones is no
// error: only a new FloatingIP has them.
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
	w.address = service.Annotations[cloudteamv1.AnnotationFloatingIPAddress]
	w.imported = service.Annotations[cloudteamv1.AnnotationFloatingIPImport]
	if a, err := netip.ParseAddr(w.address); w.address != "" && (err != nil || !a.Is4()) {
		w.wrong = fmt.Sprintf("annotation %s: it is no address of IPv4: write one such as 203.0.113.10, or remove the "+
			"annotation", cloudteamv1.AnnotationFloatingIPAddress)
	}
	if w.imported != "" && !plan.IsID(w.imported) {
		w.wrong = fmt.Sprintf("annotation %s: it is no id of a floating IP: write one that %s shows, or remove the "+
			"annotation", cloudteamv1.AnnotationFloatingIPImport, osc.FloatingIPs)
	}
	return w, true, nil
}

// backend is a Pod that a Service selects, with the NetworkPort that a floating IP may lead to.
type backend struct {
	pod  *corev1.Pod
	port *cloudteamv1.NetworkPort
}

// candidate is a Pod that a floating IP may lead to, with the NetworkPorts that are bound to it.
type candidate struct {
	pod   *corev1.Pod
	ports []*cloudteamv1.NetworkPort
}

func (c *Controller) candidateOf(pod *corev1.Pod) candidate {
	return candidate{pod, c.caches.PortsBoundTo(cache.MetaObjectToName(pod))}
}

// candidates gives those of a namespace that are wanted, the oldest first.
func (c *Controller) candidates(namespace string, wanted func(*corev1.Pod) bool) []candidate {
	var found []candidate
	for _, pod := range controller.Indexed[*corev1.Pod](c.pods, indexReady, namespace) {
		if wanted(pod) {
			found = append(found, c.candidateOf(pod))
		}
	}
	slices.SortFunc(found, func(a, b candidate) int {
		return cmp.Or(a.pod.CreationTimestamp.Compare(b.pod.CreationTimestamp.Time), cmp.Compare(a.pod.Name, b.pod.Name))
	})
	return found
}

// backends gives the Pods that a Service selects and that have a port for its floating IP: those that stay, and those
// that are being deleted. why says for users what the others lack; it is empty if the Service selects no other.
func (c *Controller) backends(service *corev1.Service, w wish) (stay, leave []backend, why string) {
	selected := func(pod *corev1.Pod) bool { return selects(service, pod) }
	for _, of := range c.candidates(service.Namespace, selected) {
		port, lacks := of.portFor(w)
		switch {
		case port == nil:
			if why == "" && lacks != nil {
				why = lacks()
			}
		case of.pod.DeletionTimestamp == nil:
			stay = append(stay, backend{of.pod, port})
		default:
			leave = append(leave, backend{of.pod, port})
		}
	}
	return stay, leave, why
}

// portFor gives the NetworkPort of a Pod that a floating IP may lead to; nil for none. Then lacks says why for users;
// it is nil while ports are on their way.
func (of candidate) portFor(w wish) (found *cloudteamv1.NetworkPort, lacks func() string) {
	pod := of.pod
	var others []string
	for _, port := range of.ports {
		on := port.Network()
		switch {
		case consumer.BoundTo(port) != pod.UID, port.DeletionTimestamp != nil, port.Status.PortID == "":
		case w.network != "" && on.Name != w.network:
			others = append(others, on.Name)
		case on.Namespace != pod.Namespace:
			lacks = func() string {
				return fmt.Sprintf("the port of Pod %s is on a Network of namespace %s, where only its own ports may have a "+
					"floating IP", pod.Name, on.Namespace)
			}
		case !declare.HasIPv4(port):
			lacks = func() string {
				return fmt.Sprintf("the port of Pod %s on Network %s has no address of IPv4", pod.Name, on.Name)
			}
		case found != nil && found.Network() != on:
			names := []string{found.Network().Name, on.Name}
			return nil, func() string {
				slices.Sort(names)
				return fmt.Sprintf("Pod %s has ports on the Networks %s: write one of them in the annotation %s, such as "+
					"%s=%s", pod.Name, strings.Join(names, " and "), cloudteamv1.AnnotationFloatingIP, names[0], w.external)
			}
		case found == nil || port.Name < found.Name:
			found = port
		}
	}
	switch {
	case found != nil:
		return found, nil
	case lacks == nil && len(others) > 0:
		lacks = func() string {
			slices.Sort(others)
			return fmt.Sprintf("Pod %s has no port on Network %s, but on %s: write a Network of its Pods in the annotation %s",
				pod.Name, w.network, strings.Join(slices.Compact(others), ", "), cloudteamv1.AnnotationFloatingIP)
		}
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
	chosen, _ := c.candidateOf(pod).portFor(w)
	return backend{pod, port}, chosen == port
}

// serves reports whether a Service's floating IP may lead to a Pod. While a Pod's ports are made, the first of two that
// is ready is no choice: it would lead where chance says.
func serves(service *corev1.Service, pod *corev1.Pod) bool {
	return selects(service, pod) && ready(pod)
}

// ready is the part of serves that is the same for all Services.
func ready(pod *corev1.Pod) bool { return consumer.Allocated(pod) && !consumer.Ended(pod) }

// chosen is where a Service's FloatingIP is to lead.
type chosen struct {
	backend
	// found is false if it is to lead nowhere. why says for users what the Pods lack then.
	found bool
	why   string
	// settled is true if no other Pod makes a difference: it may stay there, or is assigned no port.
	settled bool
}

// choose chooses for a Service with a FloatingIP, nil for a new one. It stays where it is as long as that Pod does, so
// that a Pod that comes takes nothing away. Otherwise it goes where assign says. One that is being deleted keeps it
// until another one can take over.
func (c *Controller) choose(service *corev1.Service, has *cloudteamv1.FloatingIP, w wish) chosen {
	at, stays := backend{}, false
	if has != nil && has.Spec.PortName != "" {
		if at, stays = c.backendAt(service, w, has.Spec.PortName); stays && c.holds(has, at.port, claims{}) {
			return chosen{backend: at, found: true, settled: true}
		}
	}
	exceeds := c.exceeds(service)
	if !exceeds {
		if b, ok := c.backendAt(service, w, c.assigned(service)); ok {
			return chosen{backend: b, found: true, settled: true}
		}
	}
	if stays {
		return chosen{backend: at, found: true, settled: exceeds} // there is no other
	}
	stay, leave, why := c.backends(service, w)
	leads := func(b backend) bool { return has != nil && b.port.Name == has.Spec.PortName }
	if at := slices.IndexFunc(leave, leads); at >= 0 {
		return chosen{backend: leave[at], found: true, settled: exceeds}
	}
	switch {
	case exceeds:
		why = fmt.Sprintf("at most %d Services of a namespace are assigned ports, and that number of older ones have the "+
			"annotation %s: remove it from some of them, or delete some", maxServices, cloudteamv1.AnnotationFloatingIP)
	case len(stay) > 0:
		why = "each port of the Service's Pods has a floating IP of another Service or FloatingIP: run more Pods, or " +
			"delete one of these"
	}
	return chosen{why: why, settled: exceeds}
}

// holds reports whether a FloatingIP is the one of all whose specs name a port that leads there, or is to.
func (c *Controller) holds(f *cloudteamv1.FloatingIP, port *cloudteamv1.NetworkPort, known claims) bool {
	first := c.claimOn(port, known).first
	return port.Spec.FloatingIP == nil && (first == nil || first.UID == f.UID)
}

// claim is what the FloatingIPs whose specs name a port make of it.
type claim struct {
	// first is the one that leads there, or is to; nil for none. Neutron gives a port one of each external network. It is
	// the one that leads there already, or else the oldest.
	first *cloudteamv1.FloatingIP
	// alone is true if there is no other.
	alone bool
}

// claims has those that are known, by the names of ports.
type claims map[string]claim

// claimOn gives the claim on a port. It goes through the FloatingIPs once, unless it is known.
func (c *Controller) claimOn(port *cloudteamv1.NetworkPort, known claims) claim {
	if on, ok := known[port.Name]; ok {
		return on
	}
	leads := func(f *cloudteamv1.FloatingIP) int {
		if f.Status.PortID == port.Status.PortID {
			return 0
		}
		return 1
	}
	all := controller.FloatingIPsTo(c.led, cache.MetaObjectToName(port))
	on := claim{alone: len(all) == 1}
	if len(all) > 0 {
		on.first = slices.MinFunc(all, func(a, b *cloudteamv1.FloatingIP) int {
			return cmp.Or(cmp.Compare(leads(a), leads(b)), controller.WaitingOf(a).Older(controller.WaitingOf(b)))
		})
	}
	known[port.Name] = on
	return on
}

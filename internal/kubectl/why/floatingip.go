package why

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/osc"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// Words for causes that no condition says.
const (
	// outsideFull: the external network of the port's floating IP has no free address.
	outsideFull = "ExternalNetworkFull"
	// outsideTaken: the port's address has a floating IP that is not the controller's.
	outsideTaken = "FloatingIPTaken"
	// noRouter: no router connects the Network to the external network of a port's floating IP.
	noRouter = "NoRouter"
	// hasFloatingIP: the object has a floating IP that needs what has to go, or an address that another one wants.
	hasFloatingIP = "HasFloatingIP"
	// notItsOwn: the FloatingIP of a Service's name is not the Service's.
	notItsOwn = "NotItsOwn"
	// placedBy: the Network says in which class and cloud what is made for its ports is.
	placedBy = "PlacedBy"
)

// floatingIPAdvices has what to do about what floating IPs bring.
var floatingIPAdvices = map[string]advice{
	outsideFull: {
		"Remove spec.floatingIP of NetworkPorts that need none, delete such FloatingIPs, or have addresses added to the " +
			"external network.",
		[]string{osc.FloatingIPs, allFloating}},
	outsideTaken: {
		"Remove that floating IP, or spec.floatingIP here: an address has at most one of an external network.",
		[]string{osc.FloatingIPsOf("$(kubectl get {kind} {name} -n {ns} -o jsonpath='{.status.portID}')")}},
	noRouter: {
		"Set spec.router.externalNetwork of the Network to the external network of the floating IP, or change or remove " +
			"spec.floatingIP of the NetworkPort, or spec.portName of the FloatingIP. With spec.router.existing, that router " +
			"needs the gateway.",
		[]string{edit, osc.Routers}},
	hasFloatingIP: {
		"Remove spec.floatingIP here. If a Deployment or Pod made the port, remove the annotation " +
			cloudteamv1.AnnotationFloatingIP + " there, or delete the Pod. What waits for it continues by itself.",
		[]string{edit}},
	cloudteamv1.EventFloatingIPFailed: {
		"Correct what the message names (docs/floatingip.md).", []string{"kubectl describe {kind} {name} -n {ns}"}},
	cloudteamv1.EventEndpointsFailed: {
		"Correct what the message names (docs/deployment.md).", []string{"kubectl describe {kind} {name} -n {ns}"}},
	notItsOwn: {
		"Make the Service its owner to keep its address (docs/floatingip.md), delete it, or rename one of the two.",
		[]string{"kubectl get {kind} {name} -n {ns} -o jsonpath='{.metadata.ownerReferences}'"}},
	placedBy: {
		"Name a class whose allowedFields have floatingIP in spec.className of the Network, or have an administrator make " +
			"one the default, as config/samples/class-open.yaml does.", []string{edit, classes}},
}

// adviceForFloatingIPs has what to do about a FloatingIP where that differs.
var adviceForFloatingIPs = map[string]advice{
	cloudteamv1.ReasonImportNotFound: {
		"Compare spec.import.id or spec.import.filter with \"" + osc.FloatingIPs + "\" of the same project. The import " +
			"cannot change: delete this FloatingIP and create one with the right id.", nil},
	cloudteamv1.ReasonImportAmbiguous: run(osc.FloatingIPs),
	cloudteamv1.ReasonImportMismatch:  run(osc.LongFloatingIPs),
	cloudteamv1.ReasonRejected: {
		"An externalNetwork that is wrong cannot change: delete the FloatingIP and create one with the right name, or " +
			"correct the Service's annotation if a Service made it.",
		[]string{osc.ExternalNetworks, "kubectl get {kind} {name} -n {ns} -o yaml"}},
	cloudteamv1.ReasonForbiddenByClass:   run(edit, classes),
	cloudteamv1.ReasonAddressesExhausted: run(osc.FloatingIPs, allFloating),
	cloudteamv1.ReasonAddressInUse:       run(osc.LongFloatingIPs),
	hasFloatingIP: {
		"Name another NetworkPort in spec.portName here, or none, or delete it. If a Service made it, remove the " +
			"annotation " + cloudteamv1.AnnotationFloatingIP + " there. What waits for it continues by itself. Deleting it, " +
			"or that annotation, gives its address up. To keep it, undo the change that waits for it, or scale the workload " +
			"to 0 until the Network is Ready.",
		[]string{edit}},
}

// allFloating lists what may have floating IPs.
var allFloating = "kubectl get networkports," + fullName(KindFloatingIP) + " -A -o wide"

// floatingIP explains a FloatingIP; the chain is empty if nothing is wrong.
func (w *walk) floatingIP(f *cloudteamv1.FloatingIP) []Link {
	return w.ours(f, func(l Link) []Link {
		switch l.Reason {
		case cloudteamv1.ReasonForbiddenByClass:
			return append(w.placed(f), w.classOf(w.forbidding(f))...)
		case cloudteamv1.ReasonClassNotFound, cloudteamv1.ReasonClassLimitReached:
			return append(w.placed(f), w.classOf(f.Spec.ClassName)...)
		case cloudteamv1.ReasonPortNotReady:
			return w.portFor(f)
		case cloudteamv1.ReasonNetworkNotReady:
			if p, is := w.portOf(f); is == ask.There {
				return w.networkFor(p.Network(), p.Namespace, true)
			}
		case cloudteamv1.ReasonAddressInUse:
			if p, is := w.portOf(f); is == ask.There {
				return w.floatingTo(p, f.UID)
			}
		case cloudteamv1.ReasonRejected:
			if !names(l.Message, noGateway) {
				return nil
			}
			if p, is := w.portOf(f); is == ask.There {
				if n, is := w.networkOf(p); is == ask.There {
					return []Link{routerOf(n, f.Spec.ExternalNetwork)}
				}
			}
		}
		return w.common(f, l)
	}, cloudteamv1.ConditionClassViolated)
}

// placed names the Network whose class is that of a FloatingIP which a Service made.
func (w *walk) placed(f *cloudteamv1.FloatingIP) []Link {
	if metav1.GetControllerOfNoCopy(f) == nil {
		return nil
	}
	p, is := w.portOf(f)
	if is != ask.There {
		return nil
	}
	return placedOn(p)
}

// placedOn says that what is made for a port is in the class of its Network.
func placedOn(p *cloudteamv1.NetworkPort) []Link {
	return []Link{{Object: networkObject(p.Network()), Reason: placedBy,
		Message: "Its class is that of the floating IPs of its ports."}}
}

// forbidding is the name of the class that forbids a FloatingIP: its own, or that of the port's Network. One that its
// own class forbids is never created.
func (w *walk) forbidding(f *cloudteamv1.FloatingIP) string {
	if f.Status.FloatingIPID == "" {
		return f.Spec.ClassName
	}
	if p, is := w.portOf(f); is == ask.There {
		if n, is := w.networkOf(p); is == ask.There {
			return n.Spec.ClassName
		}
	}
	return f.Spec.ClassName
}

// portOf is the NetworkPort that a FloatingIP names.
func (w *walk) portOf(f *cloudteamv1.FloatingIP) (*cloudteamv1.NetworkPort, ask.Presence) {
	if f.Spec.PortName == "" {
		return nil, ask.Absent
	}
	of := ask.New(KindNetworkPort, f.Namespace, f.Spec.PortName)
	return read[*cloudteamv1.NetworkPort](w, of)
}

// portFor explains the NetworkPort that a FloatingIP waits for; the chain is empty if it is there by now.
func (w *walk) portFor(f *cloudteamv1.FloatingIP) []Link {
	p, is := w.portOf(f)
	switch {
	case is == ask.Absent:
		return []Link{{Object: ask.New(KindNetworkPort, f.Namespace, f.Spec.PortName), Reason: notFound,
			Message: "There is no such NetworkPort in the namespace."}}
	case is != ask.There, p.Status.PortID != "" && p.DeletionTimestamp == nil:
		return nil
	}
	return w.port(p)
}

// floatingTo shows what of ours leads to a port beside the object of a UID: the port's own floating IP, or another
// FloatingIP.
func (w *walk) floatingTo(p *cloudteamv1.NetworkPort, but types.UID) []Link {
	if own := p.Status.FloatingIP; own != nil && p.UID != but {
		return []Link{{Object: ask.Of(p), Reason: hasFloatingIP,
			Message: "It has the floating IP " + own.Address + " by its own spec."}}
	}
	for _, f := range w.allFloatingIPs(p.Namespace) {
		if f.UID != but && f.Status.PortID != "" && f.Status.PortID == p.Status.PortID {
			return []Link{{Object: ask.Of(f), Reason: hasFloatingIP,
				Message: "Its address " + f.Status.Address + " is associated with the port."}}
		}
	}
	return nil
}

// allFloatingIPs are the FloatingIPs that the user may see: of all namespaces, or else of one.
func (w *walk) allFloatingIPs(own string) []*cloudteamv1.FloatingIP {
	return ask.Visible[*cloudteamv1.FloatingIP](w.ctx, w.Cluster, KindFloatingIP, own)
}

func floatingIPWell(f *cloudteamv1.FloatingIP) string {
	owner := controller.OwnerOf(f, schema.GroupKind{Kind: "Service"})
	switch {
	case f.Status.PortID != "":
		return fmt.Sprintf("Nothing is wrong: %s is associated with %s of NetworkPort %s.", f.Status.Address,
			f.Status.PortAddress, f.Spec.PortName)
	case f.Spec.PortName == "" && owner != nil:
		return fmt.Sprintf("Nothing is wrong: %s is not associated with a port, because Service %[2]s has no Pod for it: "+
			"kubectl network why service/%[2]s -n %[3]s says why.", f.Status.Address, owner.Name, f.Namespace)
	case f.Spec.PortName == "":
		return fmt.Sprintf("Nothing is wrong: %s is not associated with a port, because spec.portName names no NetworkPort.",
			f.Status.Address)
	}
	return wellBy(f)
}

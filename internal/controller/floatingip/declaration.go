package floatingip

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/classes"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/declare"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	"cloudteam.ztgame.com/network-controller/internal/osc"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// declaration is a FloatingIP's spec, with the NetworkPort that it names as last seen.
type declaration struct {
	plan.FloatingSpec
	// named is true while NetworkID may be the name of the external network.
	named bool
	// port is the marker of the NetworkPort whose port PortID is.
	port plan.Owner
	// judged is what the class of the floating IP, or that of the port's Network, says of it.
	judged managed.Judged
	// pending says why the floating IP cannot be associated with its port now; nil if it can.
	pending *managed.Problem
}

// Resolve implements managed.Declaration. It replaces the name of the external network by its id, and holds that the
// port is the NetworkPort's, by its marker in the floating IP's own cloud. A NetworkPort's status may be of another
// cloud, which a tenant chooses, and that can give its ports any ids: also those of other tenants' ports here.
func (d declaration) Resolve(ctx context.Context, in managed.Inventory) (managed.Declaration, error) {
	if d.named {
		id, err := in.ExternalNetwork(ctx, "spec.externalNetwork", d.NetworkID)
		if err != nil {
			return nil, err
		}
		d.NetworkID = id
	}
	if d.PortID != "" {
		observed, err := in.Observed(ctx, d.port, time.Time{}, plan.KindPort)
		if err != nil {
			return nil, err
		}
		at := slices.IndexFunc(observed.Ports, func(p plan.ObservedPort) bool { return p.ID == d.PortID })
		if at < 0 {
			problem := &managed.Problem{State: controller.Reconciling(cloudteamv1.ReasonPortNotReady, fmt.Sprintf(
				"The cloud of this FloatingIP has no port %s of the NetworkPort. The address is kept but not associated with "+
					"a port. Retrying. Write the cloud or the className of the port's Network, or wait until the port is there.",
				d.PortID))}
			d.PortID = ""
			return d, problem
		}
		for _, a := range observed.Ports[at].Addresses {
			if a.Address.Is4() {
				d.Fixed = append(d.Fixed, a.Address)
			}
		}
	}
	if d.pending != nil {
		return d, d.pending
	}
	return d, nil
}

// Plan implements managed.Declaration.
func (d declaration) Plan(observed plan.Observed) (plan.Change, error) {
	change, err := plan.FloatingIP(d.FloatingSpec, observed)
	return change, managed.ImportProblem(err, differs)
}

// Traits implements managed.Declaration. An import comes before its port, as any address does.
func (d declaration) Traits() managed.Traits {
	return managed.Traits{Adopt: d.adopt, AdoptsFirst: true, Observe: d.observe}
}

// adopt is managed.Traits.Adopt.
func (d declaration) adopt(ctx context.Context, in managed.Inventory) (plan.Change, error) {
	found, err := d.imported(ctx, in)
	if err != nil {
		return nil, err
	}
	resource := plan.Resource{Kind: plan.KindFloatingIP, ID: found.ID}
	if err := managed.OfProject(ctx, in, resource, found.ProjectID); err != nil {
		return nil, err
	}
	change, err := plan.AdoptFloatingIP(d.FloatingSpec, found.ObservedFloatingIP)
	return change, managed.ImportProblem(err, differs)
}

// observe is managed.Traits.Observe.
func (d declaration) observe(ctx context.Context, in managed.Inventory) (seen managed.Observation, err error) {
	found, err := d.imported(ctx, in)
	if _, gone := errors.AsType[*plan.NotMadeError](err); gone {
		seen.Observed = &plan.Observed{}
	}
	if err != nil {
		return seen, err
	}
	err = d.Fits(found.ObservedFloatingIP)
	seen.Observed = &plan.Observed{}
	if _, theirs := errors.AsType[*plan.OwnedError](err); !theirs {
		seen.Observed.FloatingIPs = []plan.ObservedFloatingIP{found.ObservedFloatingIP}
	}
	seen.State = controller.Ready(cloudteamv1.ReasonObserved,
		"The floating IP is observed. Nothing is changed in Neutron.")
	return seen, managed.ImportProblem(err, differs)
}

// imported reads the floating IP that the spec imports.
func (d declaration) imported(ctx context.Context, in managed.Inventory) (inventory.ForeignFloatingIP, error) {
	found, exists, err := in.ForeignFloatingIP(ctx, d.ImportID)
	if err == nil && !exists {
		missing := plan.Resource{Kind: plan.KindFloatingIP, ID: d.ImportID}
		err = managed.ImportProblem(&plan.NotMadeError{Resource: missing}, differs)
	}
	return found, err
}

// differs is the message for a floating IP that cannot be imported.
func differs(differences []plan.Difference) string {
	return "The floating IP to import is not as declared: " + managed.Listed(differences) + ". It is not changed. " +
		"Create a FloatingIP that matches it. If it has another port, name that NetworkPort in spec.portName, or first run " +
		osc.Disassociate("ID") + "."
}

// Retained implements managed.Declaration.
func (d declaration) Retained() managed.Declaration {
	d.Retain = true
	return d
}

// declarationOf is the Kind's Declare. A FloatingIP that its class forbids is not applied. One that was applied before
// stays. The address comes before its port, and stays after it.
func (k *kind) declarationOf(obj *cloudteamv1.FloatingIP, owner plan.Owner) (managed.Declaration, error) {
	judged, refused := k.class.Of(obj)
	d := declaration{judged: judged, named: obj.Status.ExternalNetworkID == ""}
	if refused != nil && (obj.Status.FloatingIPID == "" || obj.Spec.Import != nil && obj.Status.AppliedGeneration == 0) {
		return nil, refused
	}
	port, err := k.port(obj)
	if refused != nil { // a class that forbids it now opens no port, and keeps none that the spec no longer names
		if port != nil && port.Status.PortID != obj.Status.PortID {
			port = nil
		}
		err = refused
	}
	if problem, waits := err.(*managed.Problem); waits { //nolint:errorlint // port wraps none
		d.pending, err = problem, nil
	}
	if err != nil {
		return nil, err
	}
	if port != nil {
		d.port = plan.Owner{Cluster: owner.Cluster, Object: string(port.UID)}
		if d.judged.Forbids == nil {
			d.judged.Forbids = k.forbids(obj, port)
		}
	}
	d.FloatingSpec = declare.FloatingIP(obj, owner, port)
	return d, nil
}

// port gives the NetworkPort that a FloatingIP leads to; nil if it names none. The error is a *managed.Problem if it
// cannot lead there now.
func (k *kind) port(obj *cloudteamv1.FloatingIP) (*cloudteamv1.NetworkPort, error) {
	name := obj.Spec.PortName
	if name == "" {
		return nil, nil //nolint:nilnil // it has no port
	}
	port, err := k.ports.NetworkPorts(obj.Namespace).Get(name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, waits("NetworkPort %s does not exist. The address is kept but not associated with a port. Create the "+
			"NetworkPort, or name another one in spec.portName.", name)
	case err != nil:
		return nil, err
	case port.DeletionTimestamp != nil:
		return nil, waits("NetworkPort %s is being deleted. The address is kept but not associated with a port. Name "+
			"another NetworkPort in spec.portName.", name)
	case port.Status.PortID == "":
		return nil, waits("NetworkPort %s has no port in Neutron yet. The address is associated with it when it is "+
			"created. Run kubectl describe networkport to see what it waits for.", name)
	case port.Network().Namespace != obj.Namespace:
		return nil, managed.Waits(controller.Stalled(cloudteamv1.ReasonInvalidSpec, fmt.Sprintf(
			"NetworkPort %s is on a Network of namespace %s, where only its own ports may have a floating IP. Name a "+
				"NetworkPort on a Network of this namespace.", name, port.Network().Namespace)))
	case !declare.HasIPv4(port):
		return nil, managed.Waits(controller.Stalled(cloudteamv1.ReasonInvalidSpec, fmt.Sprintf(
			"NetworkPort %s has no address of IPv4, and only such an address can have a floating IP. Name a NetworkPort in a "+
				"subnet of IPv4.", name)))
	case port.Status.PortID == obj.Status.PortID:
		return port, nil // it leads there: a class that forbids it now takes nothing away
	}
	on, err := k.networks.Networks(obj.Namespace).Get(port.Network().Name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, missing(port.Network())
	case err != nil:
		return nil, err
	}
	if !managed.IsOn(port, on) {
		return nil, waits("NetworkPort %s is on a network that Network %s no longer has. The address is kept but not "+
			"associated with a port. Run kubectl describe to see what the Network has, or name another NetworkPort in "+
			"spec.portName.", name, on.Name)
	}
	if message := k.class.Classes.JudgeFloatingTo(on, false); message != "" {
		return nil, managed.Waits(controller.Stalled(cloudteamv1.ReasonForbiddenByClass, message))
	}
	if own := port.Status.FloatingIP; own != nil && own.ExternalNetworkID == obj.Status.ExternalNetworkID {
		return nil, managed.Waits(controller.Reconciling(cloudteamv1.ReasonAddressInUse, fmt.Sprintf(
			"NetworkPort %s has %s of the same external network by its own floatingIP, and a port has at most one of each. "+
				"The address is kept but not associated with a port. Name another NetworkPort in spec.portName, or remove "+
				"floatingIP from that one.", name, own.Address)))
	}
	if rival := k.rival(obj, port); rival != "" {
		return nil, managed.Waits(controller.Reconciling(cloudteamv1.ReasonAddressInUse, fmt.Sprintf(
			"NetworkPort %[2]s has FloatingIP %[1]s of the same external network, and a port has at most one of each. The "+
				"address is kept but not associated with a port. Name another NetworkPort in spec.portName, here or in "+
				"FloatingIP %[1]s.", rival, name)))
	}
	if classes.Unapplied(on) {
		return nil, managed.Waits(controller.Reconciling(cloudteamv1.ReasonNetworkNotReady, fmt.Sprintf(
			"Network %s has a change that is not applied yet. The address is associated with the port when that is done. "+
				"Run kubectl describe on the Network to see why.", on.Name)))
	}
	return port, nil
}

// rival names another FloatingIP of the same external network that leads to a port; empty if there is none. Neutron
// would refuse the second one, and each retry would cost it a request.
func (k *kind) rival(obj *cloudteamv1.FloatingIP, port *cloudteamv1.NetworkPort) string {
	for _, other := range controller.FloatingIPsLedTo(k.floating, port.Status.PortID) {
		same := other.Spec.ExternalNetwork == obj.Spec.ExternalNetwork ||
			other.Status.ExternalNetworkID == obj.Status.ExternalNetworkID && obj.Status.ExternalNetworkID != ""
		if other.UID != obj.UID && same && other.Namespace == obj.Namespace {
			return other.Name
		}
	}
	return ""
}

// forbids says what the class of the Network forbids of a floating IP that is associated with a port on it; nil if
// nothing.
func (k *kind) forbids(obj *cloudteamv1.FloatingIP, port *cloudteamv1.NetworkPort) *controller.State {
	on, err := k.networks.Networks(obj.Namespace).Get(port.Network().Name)
	if err != nil {
		return nil // it was allowed when it existed
	}
	message := k.class.Classes.JudgeFloatingTo(on, true)
	if message == "" {
		return nil
	}
	return new(controller.Stalled(cloudteamv1.ReasonForbiddenByClass, message))
}

func waits(format string, args ...any) *managed.Problem {
	return managed.Waits(controller.Reconciling(cloudteamv1.ReasonPortNotReady, fmt.Sprintf(format, args...)))
}

func missing(network types.NamespacedName) *managed.Problem {
	return managed.Waits(controller.Reconciling(cloudteamv1.ReasonNetworkNotReady, fmt.Sprintf(
		"Network %s does not exist. Create it, or name a NetworkPort on another one in spec.portName.", network.Name)))
}

// show is the Kind's Show: it shows in the status what exists in Neutron, and by which class it was made. A floating IP
// that is being deleted keeps the class: it says with whose credentials to delete.
func show(obj *cloudteamv1.FloatingIP, declared managed.Declaration, _ plan.Owner, observed plan.Observed) {
	status := &obj.Status
	network, port := status.ExternalNetworkID, status.PortID
	var forbids *controller.State
	if d, ok := declared.(declaration); ok {
		status.Class, forbids = d.judged.With, d.judged.Forbids
		network, port = cmp.Or(network, d.NetworkID), d.PortID
	}
	managed.SetViolation(obj, &status.Conditions, forbids)
	f, exists := observed.FloatingIP(network, port)
	status.FloatingIPID, status.ExternalNetworkID, status.PortID = f.ID, f.NetworkID, f.PortID
	status.Address, status.PortAddress = "", ""
	if exists {
		status.Address = f.Address.String()
	}
	if f.Fixed.IsValid() {
		status.PortAddress = f.Fixed.String()
	}
}

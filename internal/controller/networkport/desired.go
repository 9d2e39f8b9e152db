package networkport

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"cloudteam.ztgame.com/network-controller/internal/controller/owned"
	"cloudteam.ztgame.com/network-controller/internal/network"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	listers "cloudteam.ztgame.com/network-controller/pkg/client/listers/cloudteam/v1"
)

// declaration is a NetworkPort's spec, on its Network as that was last seen.
type declaration struct {
	network.PortSpec
	subnets []subnet
	mtu     int32
}

// Plan is owned.Declaration's.
func (d declaration) Plan(observed network.Observed) (network.Change, error) {
	return network.PlanPort(d.PortSpec, observed)
}

// Complete is owned.Declaration's.
func (d declaration) Complete(observed network.Observed) bool {
	_, exists := observed.Port(d.NetworkID)
	return exists
}

// subnet is one of the Network's, from its status.
type subnet struct {
	id      string
	cidr    netip.Prefix
	gateway string
}

// declare gives what a NetworkPort asks for, or says what it waits for. The Network is known by its status alone: what
// is in Neutron is its own controller's business.
func declare(
	networks listers.NetworkLister, obj *cloudteamv1.NetworkPort, owner network.Owner,
) (owned.Declaration, error) {
	key := obj.Network()
	on, err := networks.Networks(key.Namespace).Get(key.Name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, waiting("Network %s does not exist: create it, or delete this port; it is waited for", key)
	case err != nil:
		return nil, err
	case obj.Status.PortID != "":
		// A port that exists stays as declared whatever its Network goes through. A new one wants one that is whole.
	case !allows(on, obj.Namespace):
		return nil, &owned.Waiting{Reason: cloudteamv1.ReasonNotAllowed, Stalled: true, Message: fmt.Sprintf(
			"Network %s does not allow the namespace %s: add it to the Network's spec.allowedNamespaces, "+
				"or use a Network of this namespace", key, obj.Namespace)}
	case on.DeletionTimestamp != nil:
		return nil, waiting("Network %s is being deleted: create it anew when it is gone, or delete this port", key)
	case !meta.IsStatusConditionTrue(on.Status.Conditions, cloudteamv1.ConditionReady):
		return nil, waiting("Network %s is not Ready: kubectl describe tells why; it is waited for", key)
	}
	if on.Status.NetworkID == "" || len(on.Status.Subnets) == 0 {
		return nil, waiting("Network %s is not there in Neutron; it is waited for", key)
	}
	return desired(on, obj, owner)
}

func waiting(format string, args ...any) error {
	return &owned.Waiting{Reason: cloudteamv1.ReasonWaitingForNetwork, Message: fmt.Sprintf(format, args...)}
}

// allows reports whether objects of a namespace may use a Network.
func allows(on *cloudteamv1.Network, namespace string) bool {
	return namespace == on.Namespace || slices.Contains(on.Spec.AllowedNamespaces, "*") ||
		slices.Contains(on.Spec.AllowedNamespaces, namespace)
}

// desired brings a NetworkPort's spec into the domain's canonical form. Errors are *network.FieldErrors, joined.
func desired(on *cloudteamv1.Network, obj *cloudteamv1.NetworkPort, owner network.Owner) (declaration, error) {
	d := declaration{
		PortSpec: network.PortSpec{
			Owner:          owner,
			Name:           obj.Name,
			NetworkID:      on.Status.NetworkID,
			MAC:            strings.ToLower(obj.Spec.MAC),
			SecurityGroups: slices.Sorted(slices.Values(obj.Spec.SecurityGroups)),
		},
		mtu: on.Status.MTU,
	}
	for _, s := range on.Status.Subnets {
		if cidr, err := netip.ParsePrefix(s.CIDR); err == nil {
			d.subnets = append(d.subnets, subnet{s.ID, cidr, s.Gateway})
		}
	}
	var errs []error
	refuse := func(format string, args ...any) {
		errs = append(errs, &network.FieldError{Field: network.FieldAddresses, Problem: fmt.Sprintf(format, args...)})
	}
	for _, text := range obj.Spec.Addresses {
		address, err := netip.ParseAddr(text)
		if err != nil || address.Zone() != "" || address.Is4In6() {
			refuse("%q is no address: write one such as 192.168.0.10 or fd00::10", text)
			continue
		}
		s, inside := d.subnetWith(address)
		switch {
		case !inside:
			refuse("%s is not inside %s of Network %s: write an address of that range, or none to be given one",
				address, d.ranges(), obj.Network())
		case address.String() == s.gateway:
			refuse("%s is the gateway of Network %s: write another address, or none to be given one",
				address, obj.Network())
		default:
			d.Addresses = append(d.Addresses, network.PortAddress{SubnetID: s.id, Address: address})
		}
	}
	if obj.Status.BoundTo != nil {
		d.keep(obj)
	}
	if len(d.Addresses) == 0 && len(d.subnets) > 0 {
		d.Addresses = []network.PortAddress{{SubnetID: d.subnets[0].id}}
	}
	return d, errors.Join(append(errs, d.Validate())...)
}

// keep declares what was left to Neutron as it was first given, while something uses the port. Should the port be
// deleted by hand, whatever uses it still has its address and MAC, and those come back with the new one.
func (d *declaration) keep(obj *cloudteamv1.NetworkPort) {
	if d.MAC == "" {
		d.MAC = obj.Status.MAC
	}
	if len(obj.Spec.Addresses) > 0 {
		return
	}
	for _, a := range obj.Status.Addresses {
		prefix, err := netip.ParsePrefix(a.Address)
		if err != nil {
			continue
		}
		if s, inside := d.subnetWith(prefix.Addr()); inside {
			d.Addresses = append(d.Addresses, network.PortAddress{SubnetID: s.id, Address: prefix.Addr()})
		}
	}
}

func (d *declaration) subnetWith(address netip.Addr) (subnet, bool) {
	for _, s := range d.subnets {
		if s.cidr.Contains(address) {
			return s, true
		}
	}
	return subnet{}, false
}

func (d *declaration) ranges() string {
	texts := make([]string, len(d.subnets))
	for i, s := range d.subnets {
		texts[i] = s.cidr.String()
	}
	return strings.Join(texts, ", ")
}

package networkport

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	listers "cloudteam.ztgame.com/network-controller/pkg/client/listers/cloudteam/v1"
)

// declaration is a NetworkPort's spec, on its Network as that was last seen.
type declaration struct {
	plan.PortSpec
	// on names the Network, for people.
	on      types.NamespacedName
	subnets []subnet
	mtu     int32
	// used is the id of the port that something uses, and usedBy names that; empty where nothing does.
	used, usedBy string
	// withheld, where not nil, is why no port may be made now.
	withheld *managed.Waiting
}

// Plan is managed.Declaration's.
func (d declaration) Plan(observed plan.Observed) (plan.Change, error) {
	change, err := d.plan(observed)
	creates := slices.ContainsFunc(change, func(s plan.Step) bool { return s.Action.Creates() })
	if err == nil && d.withheld != nil && creates {
		return nil, d.withheld
	}
	return change, err
}

// plan is plan.Port's, save that of several ports the one that is used stays, whatever its age and its network.
func (d declaration) plan(observed plan.Observed) (plan.Change, error) {
	at := slices.IndexFunc(observed.Ports, func(p plan.ObservedPort) bool { return p.ID == d.used })
	if d.used == "" || at < 0 {
		return plan.Port(d.PortSpec, observed)
	}
	used := observed.Ports[at]
	if used.NetworkID != d.NetworkID {
		return nil, &managed.Waiting{Reason: cloudteamv1.ReasonInUse, Message: fmt.Sprintf(
			"port %s is on network %s, and Network %s is now another: %s uses the port, which is replaced when that is "+
				"gone: delete it", used.ID, used.NetworkID, d.on, d.usedBy)}
	}
	others := slices.Delete(slices.Clone(observed.Ports), at, at+1)
	change, err := plan.Delete(d.Owner, plan.Observed{Networks: observed.Networks, Ports: others})
	if err != nil {
		return nil, err
	}
	for i := range change {
		change[i].Reason = fmt.Sprintf("%s uses port %s", d.usedBy, used.ID)
	}
	update, err := plan.Port(d.PortSpec, plan.Observed{Ports: []plan.ObservedPort{used}})
	return append(change, update...), err
}

// port gives the port that stands for the object, of those that are there.
func (d declaration) port(observed plan.Observed) (plan.ObservedPort, bool) {
	for _, p := range observed.Ports {
		if p.ID == d.used && p.NetworkID == d.NetworkID {
			return p, true
		}
	}
	return observed.Port(d.NetworkID)
}

// Complete is managed.Declaration's.
func (d declaration) Complete(observed plan.Observed) bool {
	_, exists := d.port(observed)
	return exists
}

// subnet is one of the Network's, from its status.
type subnet struct {
	id      string
	cidr    netip.Prefix
	gateway string
	// declared is false for one that the Network's spec does not have any more, and that goes when its last address does.
	declared bool
	// selfAddressed is whether ports make their addresses in it themselves.
	selfAddressed bool
	// serves is whether the port has an address in it, or can have one: its serviceTypes may keep it for others.
	serves bool
}

// declare gives what a NetworkPort asks for, or says what it waits for. The Network is known by its status alone: what
// is in Neutron is its own controller's business.
func declare(
	networks listers.NetworkLister, obj *cloudteamv1.NetworkPort, owner plan.Owner,
) (managed.Declaration, error) {
	key := obj.Network()
	on, err := networks.Networks(key.Namespace).Get(key.Name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, waiting("Network %s does not exist: create it, or delete this port; it is waited for", key)
	case err != nil:
		return nil, err
	}
	withheld := withhold(on, obj)
	if withheld != nil && obj.Status.PortID == "" && obj.Status.BoundTo == nil {
		return nil, withheld
	}
	if on.Status.NetworkID == "" || len(on.Status.Subnets) == 0 {
		return nil, waiting("Network %s is not there in Neutron; it is waited for", key)
	}
	d, err := desired(on, obj, owner)
	d.withheld = withheld
	return d, err
}

// withhold says why no port may be made on a Network now; nil where one may. A port that exists stays as declared
// whatever its Network goes through, and what is in use is made anew. But only a Network that allows it gets a port,
// be it for the first time or because the Network is another one of the name.
func withhold(on *cloudteamv1.Network, obj *cloudteamv1.NetworkPort) *managed.Waiting {
	key := obj.Network()
	switch {
	case !allows(on, obj.Namespace):
		return &managed.Waiting{Reason: cloudteamv1.ReasonNotAllowed, Stalled: true, Message: fmt.Sprintf(
			"Network %s does not allow the namespace %s: add it to the Network's spec.allowedNamespaces, "+
				"or use a Network of this namespace", key, obj.Namespace)}
	case obj.Status.BoundTo != nil:
		return nil
	case on.DeletionTimestamp != nil:
		return waiting("Network %s is being deleted: create it anew when it is gone, or delete this port", key)
	case !controller.Serves(on):
		return waiting("Network %s is not Ready: kubectl describe tells why; it is waited for", key)
	default:
		return nil
	}
}

func waiting(format string, args ...any) *managed.Waiting {
	return &managed.Waiting{Reason: cloudteamv1.ReasonWaitingForNetwork, Message: fmt.Sprintf(format, args...)}
}

// allows reports whether objects of a namespace may use a Network.
func allows(on *cloudteamv1.Network, namespace string) bool {
	return namespace == on.Namespace || slices.Contains(on.Spec.AllowedNamespaces, "*") ||
		slices.Contains(on.Spec.AllowedNamespaces, namespace)
}

// desired brings a NetworkPort's spec into the domain's canonical form. Errors are *plan.FieldErrors, joined.
func desired(on *cloudteamv1.Network, obj *cloudteamv1.NetworkPort, owner plan.Owner) (declaration, error) {
	d := declaration{
		PortSpec: plan.PortSpec{
			Owner:          owner,
			Name:           obj.Name,
			NetworkID:      on.Status.NetworkID,
			MAC:            strings.ToLower(obj.Spec.MAC),
			SecurityGroups: slices.Sorted(slices.Values(obj.Spec.SecurityGroups)),
		},
		on:  obj.Network(),
		mtu: on.Status.MTU,
	}
	for _, s := range on.Status.Subnets {
		if cidr, err := netip.ParsePrefix(s.CIDR); err == nil {
			of := subnet{
				id: s.ID, cidr: cidr, gateway: s.Gateway, declared: on.Spec.Declares(s),
				selfAddressed: plan.SelfAddressed(
					plan.IPv6Mode(s.IPv6AddressMode), plan.IPv6Mode(s.IPv6RAMode)),
				serves: plan.Serves(s.ServiceTypes, plan.PortDeviceOwner) || slices.ContainsFunc(obj.Status.Addresses,
					func(a cloudteamv1.PortAddress) bool { return a.SubnetID == s.ID }),
			}
			d.subnets = append(d.subnets, of)
			if of.selfAddressed {
				d.SelfAddressed = append(d.SelfAddressed, of.id)
			}
		}
	}
	var errs []error
	refuse := func(format string, args ...any) {
		errs = append(errs, &plan.FieldError{Field: plan.FieldAddresses, Problem: fmt.Sprintf(format, args...)})
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
				address, ranges(d.subnets), obj.Network())
		case s.selfAddressed:
			refuse("%s is in %s, where ports make their addresses themselves, of their MACs: leave it out, and the port has one",
				address, s.cidr)
		case !s.serves:
			refuse("%s is in %s, which Network %s keeps for others by its serviceTypes: write an address of another subnet, "+
				"or none to be given one", address, s.cidr, obj.Network())
		case address.String() == s.gateway:
			refuse("%s is the gateway of Network %s: write another address, or none to be given one",
				address, obj.Network())
		default:
			d.Addresses = append(d.Addresses, plan.PortAddress{SubnetID: s.id, Address: address})
		}
	}
	if obj.Status.BoundTo != nil {
		d.used, d.usedBy = obj.Status.PortID, user(obj)
		d.keep(obj)
	}
	if len(d.Addresses) == 0 && len(errs) == 0 {
		d.Addresses = d.anyAddresses()
		makesOwn := func(s subnet) bool { return s.selfAddressed && s.serves }
		if len(d.Addresses) == 0 && !slices.ContainsFunc(d.subnets, makesOwn) {
			return d, waiting("Network %s has no subnet in Neutron that an address could come from%s; it is waited for",
				obj.Network(), d.keptForOthers())
		}
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
		if s, inside := d.subnetWith(prefix.Addr()); inside && !s.selfAddressed {
			d.Addresses = append(d.Addresses, plan.PortAddress{SubnetID: s.id, Address: prefix.Addr()})
		}
	}
}

// keptForOthers says of which subnets the port could have an address, were they for it.
func (d *declaration) keptForOthers() string {
	others := slices.DeleteFunc(slices.Clone(d.subnets), func(s subnet) bool { return s.serves })
	if len(others) == 0 {
		return ""
	}
	return fmt.Sprintf(": its serviceTypes keep %s for others", ranges(others))
}

// anyAddresses leaves it to Neutron which address a port has: one of each IP family, as Neutron itself gives them, of
// the family's first subnet. What the port has beside them in subnets where it makes its addresses itself is not asked
// for.
func (d *declaration) anyAddresses() []plan.PortAddress {
	var addresses []plan.PortAddress
	for _, is4 := range []bool{true, false} {
		at := slices.IndexFunc(d.subnets, func(s subnet) bool {
			return s.declared && s.serves && !s.selfAddressed && s.cidr.Addr().Is4() == is4
		})
		if at >= 0 {
			addresses = append(addresses, plan.PortAddress{SubnetID: d.subnets[at].id})
		}
	}
	return addresses
}

func (d *declaration) subnetWith(address netip.Addr) (subnet, bool) {
	for _, s := range d.subnets {
		if s.cidr.Contains(address) {
			return s, true
		}
	}
	return subnet{}, false
}

// ranges are those of subnets, for people.
func ranges(subnets []subnet) string {
	texts := make([]string, len(subnets))
	for i, s := range subnets {
		texts[i] = s.cidr.String()
	}
	return strings.Join(texts, ", ")
}

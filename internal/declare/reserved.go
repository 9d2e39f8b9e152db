package declare

import (
	"cmp"
	"slices"
	"strings"

	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// fieldReservedFor is the field of a Network's subnet that says who gets addresses there.
const fieldReservedFor = "reservedFor"

// Workload is what a port was made for. Both are empty for a port that was made for no workload, or for one of a kind
// that no subnet can be reserved for. Users of the port's namespace can choose it, and nobody else can.
type Workload struct {
	// Kind is Deployment or StatefulSet.
	Kind string
	Name string
}

// Serves gives the function that reports whether ports of a namespace, made for a workload and without their own
// addresses, get one in a subnet of a Network.
func Serves(on *cloudteamv1.Network, namespace string, made Workload) func(cloudteamv1.SubnetStatus) bool {
	reserved := reservations(on, namespace, made)
	return func(s cloudteamv1.SubnetStatus) bool {
		return on.Declares(s) && plan.Serves(s.ServiceTypes, plan.PortDeviceOwner) && !SelfAddressed(s) &&
			!reserved.excludes(s)
	}
}

// claim is how narrowly a subnet is reserved for a port.
type claim int

const (
	forOthers claim = iota
	forAll
	forNamespace
	forWorkload
)

// reserved are a Network's reservations, as they concern one port.
type reserved struct {
	on *cloudteamv1.Network
	// claims are those of the subnets of the spec, in its order.
	claims []claim
	// best is the narrowest claim of each IP family, by the spec: a subnet that is reserved for the port bounds it before
	// Neutron has that subnet. The key is true for IPv6.
	best map[bool]claim
}

// reservations gives what a Network reserves for the ports of a namespace that were made for a workload.
func reservations(on *cloudteamv1.Network, namespace string, made Workload) reserved {
	r := reserved{on: on, best: map[bool]claim{false: forAll, true: forAll}}
	shown := map[int]cloudteamv1.SubnetStatus{}
	for _, s := range on.Status.Subnets {
		shown[on.DeclaredAs(s)] = s
	}
	for at, declared := range on.Spec.Subnets() {
		narrowest := forOthers
		if len(declared.ReservedFor) == 0 {
			narrowest = forAll
		}
		for _, user := range declared.ReservedFor {
			switch {
			case cmp.Or(user.Namespace, on.Namespace) != namespace:
			case user.Kind == "":
				narrowest = max(narrowest, forNamespace)
			case Workload{user.Kind, user.Name} == made:
				narrowest = forWorkload
			}
		}
		r.claims = append(r.claims, narrowest)
		is, exists := shown[at]
		if !exists {
			is = cloudteamv1.SubnetStatus{
				CIDR: declared.CIDR, ServiceTypes: declared.ServiceTypes,
				IPv6AddressMode: declared.IPv6AddressMode, IPv6RAMode: declared.IPv6RAMode,
			}
		}
		if !plan.Serves(is.ServiceTypes, plan.PortDeviceOwner) || SelfAddressed(is) {
			continue // what gives no port an address bounds none
		}
		for _, six := range []bool{false, true} {
			if is.CIDR == "" || six == isIPv6(is) { // one that a pool has yet to give may be of either
				r.best[six] = max(r.best[six], narrowest)
			}
		}
	}
	return r
}

// excludes reports whether the port gets no address of a subnet: it is reserved for others, or others are reserved for
// the port. Nobody gets one of a subnet that left the spec, because it was perhaps reserved, and is to run empty. Every
// port has an address of its own making in some subnets, which nobody can reserve.
func (r reserved) excludes(s cloudteamv1.SubnetStatus) bool {
	at := r.on.DeclaredAs(s)
	switch {
	case SelfAddressed(s):
		return false
	case at < 0:
		return !r.on.Observes()
	default:
		return r.claims[at] != r.best[isIPv6(s)]
	}
}

// forbids reports whether the Network reserves all its subnets for others.
func (r reserved) forbids() bool {
	return !slices.ContainsFunc(r.claims, func(c claim) bool { return c != forOthers })
}

func isIPv6(s cloudteamv1.SubnetStatus) bool { return strings.Contains(s.CIDR, ":") }

// Users gives who a subnet of a Network is reserved for, in a form that is the same for equal reservations; empty for
// all.
func Users(on *cloudteamv1.Network, s cloudteamv1.SubnetStatus) string {
	at := on.DeclaredAs(s)
	if at < 0 {
		return ""
	}
	reservedFor := on.Spec.Subnets()[at].ReservedFor
	users := make([]string, len(reservedFor))
	for i, user := range reservedFor {
		users[i] = strings.Join([]string{cmp.Or(user.Namespace, on.Namespace), user.Kind, user.Name}, "/")
	}
	slices.Sort(users)
	return strings.Join(users, ",")
}

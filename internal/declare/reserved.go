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

// Serves gives the function that reports whether ports of a namespace, made for a workload and without addresses of
// their own, get one in a subnet of a Network.
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
	of func(cloudteamv1.SubnetStatus) claim
	// best is the narrowest claim of the subnets of each IP family; 6 is true for IPv6.
	best map[bool]claim
}

// reservations gives what a Network reserves for the ports of a namespace that were made for a workload.
func reservations(on *cloudteamv1.Network, namespace string, made Workload) reserved {
	r := reserved{best: map[bool]claim{false: forAll, true: forAll}}
	r.of = func(s cloudteamv1.SubnetStatus) claim {
		declared, ok := on.Declaration(s)
		if !ok || len(declared.ReservedFor) == 0 {
			return forAll
		}
		narrowest := forOthers
		for _, user := range declared.ReservedFor {
			switch {
			case cmp.Or(user.Namespace, on.Namespace) != namespace:
			case user.Kind == "":
				narrowest = max(narrowest, forNamespace)
			case Workload{user.Kind, user.Name} == made:
				narrowest = forWorkload
			}
		}
		return narrowest
	}
	for _, s := range on.Status.Subnets {
		r.best[isIPv6(s)] = max(r.best[isIPv6(s)], r.of(s))
	}
	return r
}

// excludes reports whether the port gets no address of a subnet: it is reserved for others, or others are reserved for
// the port. Every port has an address of its own making in some subnets, which nobody can reserve.
func (r reserved) excludes(s cloudteamv1.SubnetStatus) bool {
	return !SelfAddressed(s) && r.of(s) != r.best[isIPv6(s)]
}

func isIPv6(s cloudteamv1.SubnetStatus) bool { return strings.Contains(s.CIDR, ":") }

// Users gives who a subnet of a Network is reserved for, in a form that is the same for equal reservations; empty for
// all.
func Users(on *cloudteamv1.Network, s cloudteamv1.SubnetStatus) string {
	declared, _ := on.Declaration(s)
	users := make([]string, len(declared.ReservedFor))
	for i, user := range declared.ReservedFor {
		users[i] = strings.Join([]string{cmp.Or(user.Namespace, on.Namespace), user.Kind, user.Name}, "/")
	}
	slices.Sort(users)
	return strings.Join(users, ",")
}

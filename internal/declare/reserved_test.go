package declare

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// What a subnet is reserved for gets addresses there, nobody else does, and nobody who has a reservation gets an address
// beside it.
func TestPropertyReservedSubnetsServeThoseTheyAreReservedFor(t *testing.T) {
	namespaces := rapid.SampledFrom([]string{"team", "guests", "others"})
	workloads := rapid.SampledFrom([]Workload{{}, {"Deployment", "web"}, {"StatefulSet", "web"}, {"Deployment", "db"}})
	users := rapid.Custom(func(t *rapid.T) cloudteamv1.AddressUser {
		w := workloads.Draw(t, "workload")
		return cloudteamv1.AddressUser{
			Namespace: rapid.SampledFrom([]string{"", "team", "guests", "others"}).Draw(t, "namespace"), Kind: w.Kind, Name: w.Name,
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		n := exampleNetwork()
		for i := range rapid.IntRange(0, 4).Draw(t, "more subnets") {
			with(n, fmt.Sprintf(rapid.SampledFrom([]string{"10.%d.0.0/16", "fd0%d::/64"}).Draw(t, "family"), i), fmt.Sprint("more-", i), true)
		}
		subnets := n.Spec.Subnets()
		for i := range subnets {
			subnets[i].ReservedFor = rapid.SliceOfN(users, 0, 3).Draw(t, "users")
		}
		n.Spec.SubnetSpec, n.Spec.AdditionalSubnets = subnets[0], subnets[1:]
		namespace, made := namespaces.Draw(t, "namespace"), workloads.Draw(t, "made")
		serves := Serves(n, namespace, made)
		// names reports whether the spec reserves a subnet for the port, by its workload or by its namespace.
		names := func(s cloudteamv1.SubnetSpec, by Workload) bool {
			return slices.ContainsFunc(s.ReservedFor, func(u cloudteamv1.AddressUser) bool {
				own := u.Namespace == namespace || u.Namespace == "" && namespace == n.Namespace
				return own && u.Kind == by.Kind && u.Name == by.Name
			})
		}
		for i, s := range n.Status.Subnets {
			family := func(by Workload) bool {
				for j, other := range n.Status.Subnets {
					if isIPv6(other) == isIPv6(s) && names(subnets[j], by) {
						return true
					}
				}
				return false
			}
			want := len(subnets[i].ReservedFor) == 0
			switch {
			case made != Workload{} && family(made):
				want = names(subnets[i], made)
			case family(Workload{}):
				want = names(subnets[i], Workload{})
			}
			if got := serves(s); got != want {
				t.Fatalf("subnet %s, reserved for %+v, serves %s/%+v: %t, want %t", s.CIDR, subnets[i].ReservedFor, namespace,
					made, got, want)
			}
		}
	})
}

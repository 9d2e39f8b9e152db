package doctor

import (
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"

	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// minMTUOfIPv6 is the smallest MTU of a link that carries IPv6 (RFC 8200).
const minMTUOfIPv6 = 1280

// link is a network on a router.
type link struct {
	name string
	mtu  int32
}

// mtu checks the MTUs along the paths: those of the Networks on one router, and of its external network. Neutron itself
// refuses an MTU that the physical network cannot carry.
func (d doctor) mtu(networks []*cloudteamv1.Network, is ask.Presence) Check {
	c := Check{Name: "MTU", State: OK, Says: "no router joins different ones"}
	if is != ask.There {
		return c.unseen("you may not list Networks")
	}
	var small []string
	routers, outside := map[string][]link{}, map[string]string{}
	for _, n := range networks {
		if n.Status.MTU == 0 {
			continue
		}
		of := link{"Network " + n.Namespace + "/" + n.Name, n.Status.MTU}
		if of.mtu < minMTUOfIPv6 && slices.ContainsFunc(n.Status.Subnets, isIPv6) {
			small = append(small, fmt.Sprintf("%s has IPv6 and an MTU of %d", of.name, of.mtu))
		}
		if r := n.Status.Router; r != nil {
			routers[r.ID] = append(routers[r.ID], of)
			if r.ExternalNetworkID != "" {
				outside[r.ID] = r.ExternalNetworkID
			}
		}
	}
	if len(small) > 0 {
		return c.is(Fails, strings.Join(small, "; "),
			fmt.Sprintf("Set spec.mtu to %d or more; no IPv6 host works with less.", minMTUOfIPv6))
	}
	known := map[string]int32{}
	var differ []string
	for _, id := range slices.Sorted(maps.Keys(routers)) {
		on := routers[id]
		if external := outside[id]; external != "" && d.Cloud != nil {
			if _, read := known[external]; !read {
				known[external] = d.mtuOf(external)
			}
			if known[external] > 0 {
				on = append(on, link{"external network " + external, known[external]})
			}
		}
		byMTU := func(a, b link) int { return int(a.mtu - b.mtu) }
		if low, high := slices.MinFunc(on, byMTU), slices.MaxFunc(on, byMTU); low.mtu < high.mtu {
			differ = append(differ, fmt.Sprintf("%s has %d, and %s on the same router %d",
				high.name, high.mtu, low.name, low.mtu))
		}
	}
	if len(differ) > 0 {
		more := ""
		if len(differ) > 1 {
			more = fmt.Sprintf("; %d more routers join different ones", len(differ)-1)
		}
		return c.is(Warns, differ[0]+more, "Give them one spec.mtu, the lower one. Else larger packets need ICMP to find "+
			"the path's MTU: allow it in security groups and firewalls.")
	}
	return c
}

func isIPv6(s cloudteamv1.SubnetStatus) bool {
	prefix, err := netip.ParsePrefix(s.CIDR)
	return err == nil && prefix.Addr().Is6()
}

// network is a network in Neutron.
type network struct {
	ID  string        `json:"id"`
	MTU client.Number `json:"mtu"`
}

// Key implements client.Identified.
func (n network) Key() string { return n.ID }

// mtuOf is the MTU of a network in Neutron, and 0 if the user may not see it.
func (d doctor) mtuOf(id string) int32 {
	n, err := client.Get[network](d.ctx, d.Cloud, "get network", client.Collection{One: "network", Many: "networks"},
		[]string{"id", "mtu"}, id)
	if err != nil {
		return 0
	}
	return int32(min(n.MTU.Or0(), math.MaxInt32))
}

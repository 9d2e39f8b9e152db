package faults

import (
	"encoding/json"
	"fmt"
	"net/netip"

	"k8s.io/apimachinery/pkg/types"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/proxy"
	"cloudteam.ztgame.com/network-controller/test/specs"
)

// drawnNetworks is how many Networks with drawn specs are together in a life.
const drawnNetworks = 6

// drawn are lives of Networks that ask for more than those of others: their specs are drawn, the same ones each time.
func drawn() map[string]scenario {
	return map[string]scenario{
		"Networks with drawn specs come, change and go, and each third answer to a write is lost": {
			live: func(w *world) {
				lost := w.neutron.Break(func(c proxy.Call) bool { return c.Write%3 == 2 }, 0,
					proxy.After(func(x *proxy.Exchange) { x.Reset() }))
				w.liveDrawn()
				lost.Mend()
				w.life()
			},
		},
		"Networks with drawn specs come, change and go, and the process is killed at each ninth write": {
			live: func(w *world) {
				killed := w.neutron.Break(func(c proxy.Call) bool { return c.Write%9 == 8 }, 0,
					proxy.After(func(x *proxy.Exchange) { w.crash(); x.Reset() }))
				w.liveDrawn()
				killed.Mend()
				w.life()
			},
		},
	}
}

// liveDrawn creates Networks, edits them and deletes them, and holds that nothing of them is left.
func (w *world) liveDrawn() {
	w.t.Helper()
	limits := w.limits()
	var wanted []cloudteamv1.NetworkSpec
	for i := range drawnNetworks {
		// Two of them cannot have their subnets on one router that is there.
		limits.Routers = []string{w.cloud.Create("routers", harness.Resource{"name": w.name(drawnName(i))}).ID()}
		spec := allowed(limits.Network().Example(i))
		spec.IgnoreDrift = w.ignoring(spec.IgnoreDrift)
		w.createNetwork(w.namespace, drawnName(i), "", "", func(s *cloudteamv1.NetworkSpec) { *s = spec })
		wanted = append(wanted, edited(limits, spec, i))
	}
	for i := range wanted {
		w.awaitNetwork(w.namespace, drawnName(i))
	}
	for i, spec := range wanted {
		spec.IgnoreDrift = w.ignoring(spec.IgnoreDrift)
		patch, err := json.Marshal([]map[string]any{{"op": "replace", "path": "/spec", "value": spec}})
		expect.NoError(w.t, err)
		w.patchNetworkAs(types.JSONPatchType, drawnName(i), patch)
	}
	for i := range wanted {
		w.awaitNetwork(w.namespace, drawnName(i))
		w.deleteNetwork(w.namespace, drawnName(i))
	}
	for i := range wanted {
		w.awaitNetworkGone(w.namespace, drawnName(i))
	}
	w.await(func() error {
		if left := w.ours(); len(left) > 0 {
			return fmt.Errorf("resources are left: %v", left)
		}
		return nil
	})
}

func drawnName(i int) string { return fmt.Sprintf("drawn-%d", i) }

// limits are those of the specs of a world, with an external network and subnet pools that end with the test.
func (w *world) limits() specs.Limits {
	w.t.Helper()
	const cidr = "203.0.112.0/21"
	admin := harness.Open(w.t, w.around.CloudsFile, "admin")
	outside := admin.Create("networks", harness.Resource{"name": w.name("outside"), "router:external": true})
	admin.Create("subnets", harness.Resource{"network_id": outside.ID(), "ip_version": 4, "cidr": cidr})
	limits := specs.Limits{
		MaxMTU: 1450,
		ExternalNetworks: []specs.ExternalNetwork{{
			Names: []string{outside.ID(), w.name("outside")}, CIDR: netip.MustParsePrefix(cidr),
			NextHop: netip.MustParseAddr("203.0.112.1"),
		}},
		SubnetPools: []specs.SubnetPool{
			{IPVersion: 4, DefaultPrefixLength: 26, PrefixLengths: []int32{25, 27}},
			{IPVersion: 6, DefaultPrefixLength: 64, PrefixLengths: []int32{64, 112}},
		},
	}
	for i, cidr := range []string{"100.64.0.0/10", "fd40::/24"} {
		pool, name := &limits.SubnetPools[i], w.name(fmt.Sprintf("pool-%d", i))
		made := w.cloud.Create("subnetpools", harness.Resource{
			"name": name, "prefixes": []string{cidr}, "default_prefixlen": pool.DefaultPrefixLength,
		})
		pool.Names = []string{made.ID(), name}
	}
	return limits
}

// allowed is a drawn spec without what the credentials may not set, or would leave a network behind.
func allowed(spec cloudteamv1.NetworkSpec) cloudteamv1.NetworkSpec {
	spec.Shared, spec.External, spec.Provider, spec.DeletionPolicy = nil, nil, nil, ""
	if spec.Router != nil {
		spec.Router.SNAT, spec.Router.ExternalIP, spec.Router.HA, spec.Router.Distributed = nil, "", nil, nil
	}
	return spec
}

// edited is what a spec may become.
func edited(limits specs.Limits, spec cloudteamv1.NetworkSpec, seed int) cloudteamv1.NetworkSpec {
	for ; ; seed += drawnNetworks {
		if is := allowed(limits.NetworkEdit(spec).Example(seed)); specs.NetworkMayBecome(spec, is) {
			return is
		}
	}
}

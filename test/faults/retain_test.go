package faults

import (
	"fmt"
	"net/http"
	"strings"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/proxy"
)

// retentions are the deletion of Networks whose deletionPolicy is Retain, with something going wrong at each of its
// writes: the network stays in Neutron without its owner's marker, and the object goes.
func retentions() map[string]scenario {
	all := map[string]scenario{
		"a Network with deletionPolicy Retain is deleted, and nothing goes wrong": {
			live: func(w *world) {
				w.retain("c")
				w.removeNetwork("c")
				w.awaitEvent(w.name("c"), cloudteamv1.EventRetained, "without its owner's marker")
				w.holdRetained("c")
				w.life()
			},
		},
	}
	toNeutron := func(c proxy.Call) bool { return c.Write > 0 }
	// The release is two writes to Neutron, of the subnet and of the network, and then the finalizer.
	places := map[string]struct {
		proxy  func(*world) *proxy.Proxy
		choose func(proxy.Call) bool
		points int
	}{
		"each write to Neutron": {func(w *world) *proxy.Proxy { return w.neutron }, toNeutron, 2},
		"the finalizer's removal": {
			func(w *world) *proxy.Proxy { return w.kube }, is(http.MethodPatch, kubeNetworks+"/{name}"), 1,
		},
	}
	for where, place := range places {
		for how, fault := range map[string]func(*world) proxy.Fault{
			"is cut off": func(*world) proxy.Fault { return proxy.Reset },
			"kills the process": func(w *world) proxy.Fault {
				return func(x *proxy.Exchange) { w.crash(); x.Reset() }
			},
		} {
			for when, after := range map[string]bool{"before it is carried out": false, "after it was carried out": true} {
				sentence := fmt.Sprintf("a Network with deletionPolicy Retain is deleted, and %s of it %s, %s", where, how, when)
				all[sentence] = scenario{
					slow: how == "is cut off",
					live: func(w *world) {
						for n := range place.points {
							broken := fault(w)
							if after {
								broken = proxy.After(broken)
							}
							w.retainWithFault(fmt.Sprint("c", n), place.proxy(w), place.choose, n+1, broken)
						}
						w.life()
					},
				}
			}
		}
	}
	return all
}

// retainWithFault has the nth call broken that is chosen of those of a release.
func (w *world) retainWithFault(short string, api *proxy.Proxy, choose func(proxy.Call) bool, nth int, fault proxy.Fault) {
	w.t.Helper()
	w.retain(short)
	seen := 0
	rule := api.Break(func(c proxy.Call) bool {
		if choose(c) {
			seen++
		}
		return seen == nth
	}, 1, fault)
	w.deleteNetwork(w.namespace, short)
	w.awaitHits(rule, 1)
	w.awaitNetworkGone(w.namespace, short)
	rule.Mend()
	w.holdRetained(short)
}

// retain makes a Network that is to leave its network behind.
func (w *world) retain(short string) {
	w.t.Helper()
	w.createNetwork(w.namespace, short, "10.3.0.0/24", "none")
	w.patchNetwork(short, `{"spec":{"deletionPolicy":"Retain"}}`)
	harness.Await(w.t, w, w.api().Networks(w.namespace), w.name(short), func(n *cloudteamv1.Network) error {
		if n.Status.AppliedGeneration != n.Generation {
			return fmt.Errorf("the policy is not seen yet: %+v", n.Status)
		}
		return harness.Ready(n)
	})
}

// holdRetained holds that a Network has left one network with its subnet behind, as declared but for the marker, and
// removes it.
func (w *world) holdRetained(short string) {
	w.t.Helper()
	left := w.cloud.One("networks", "name="+w.name(short))
	expect.Equal(w.t, declaredDescription, left["description"], "the description of what was retained")
	subnet := w.cloud.One("subnets", "network_id="+left.ID())
	if strings.Contains(subnet["description"].(string), "[owner=") {
		w.t.Errorf("the subnet of what was retained bears the marker: %q", subnet["description"])
	}
	w.cloud.Remove("networks", left.ID())
}

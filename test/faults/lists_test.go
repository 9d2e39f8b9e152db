package faults

import (
	"fmt"
	"net/http"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/proxy"
)

// earlyLists are lists that do not show what there is, of a process that knows nothing else: the one before was killed
// in the middle of a create, before the object's status could tell of it. And a network's own list of subnets, which
// stands in for the list of all.
func earlyLists() map[string]scenario {
	all := map[string]scenario{}
	for _, collection := range collections {
		shape := "/v2.0/" + collection
		ofAll := func(c proxy.Call) bool {
			return is("GET", shape)(c) && c.Query("project_id") != "" && c.Query("name") == ""
		}
		empty := proxy.Change(func(a *proxy.Answer) { a.Body = []byte(`{"` + collection + `":[]}`) })
		for how, broken := range map[string]struct {
			choose func(proxy.Call) bool
			fault  proxy.Fault
			reason string
		}{
			"are empty": {ofAll, empty, ""},
			"end after their first page": {
				func(c proxy.Call) bool { return ofAll(c) && c.Query("marker") != "" }, empty, "",
			},
			"fail with 500": {
				is("GET", shape), refuse(http.StatusInternalServerError), cloudteamv1.ReasonCloudUnavailable,
			},
		} {
			all[fmt.Sprintf("killed when one of %s was just created, and the lists of all %[1]s then %s", collection, how)] =
				scenario{pageSize: 2, slow: how != "are empty", live: func(w *world) {
					if collection == "ports" {
						w.createNetworks()
					}
					w.killAtCreateOf(collection)
					rule := w.neutron.Break(broken.choose, 0, broken.fault)
					w.awaitHits(rule, 3)
					switch {
					case broken.reason != "" && collection == "ports": // Networks do not need them
						w.awaitPortReason("p", cloudteamv1.ConditionReconciling, broken.reason)
					case broken.reason != "":
						w.awaitReason("a", cloudteamv1.ConditionReconciling, broken.reason)
					}
					rule.Mend()
					w.createNetworks()
					w.restOfLife()
				}}
			if how != "are empty" || collection == "subnets" {
				continue // a deletion begins with what is shown, and a network goes with its subnets
			}
			all[fmt.Sprintf("killed when one of %s was just created, the object is deleted, and the lists of all "+
				"%[1]s then %s", collection, how)] = scenario{pageSize: 2, live: func(w *world) {
				if collection == "ports" {
					w.createNetworks()
				}
				w.killAtCreateOf(collection)
				rule := w.neutron.Break(broken.choose, 0, broken.fault)
				if collection == "ports" {
					w.removePort("p")
				} else {
					w.removeNetwork("a")
				}
				rule.Mend()
				expect.Empty(w.t, w.ours()["ports"], "the object is gone, and left")
				if left := w.ours()["networks"]; collection != "ports" && len(left) > 0 {
					w.t.Errorf("the object is gone, and left %v", left)
				}
				w.life()
			}}
		}
	}
	for whom, restart := range map[string]bool{"": false, ", of a process that has just begun": true} {
		all["the lists of subnets are empty, those of single networks, too"+whom] = scenario{
			pageSize: 2,
			live: func(w *world) {
				w.lifeWithBrokenLists(is("GET", "/v2.0/subnets"),
					proxy.Change(func(a *proxy.Answer) { a.Body = []byte(`{"subnets":[]}`) }), restart)
			},
		}
	}
	return all
}

// killAtCreateOf has an object made for which a resource of a collection is created, and kills the process before it
// hears of that.
func (w *world) killAtCreateOf(collection string) {
	w.t.Helper()
	killed := w.process.Load()
	w.neutron.Break(is("POST", "/v2.0/"+collection), 1, proxy.After(func(x *proxy.Exchange) {
		w.crash()
		x.Reset()
	}))
	if collection == "ports" {
		w.createPort("p", "a", addressP, macP)
	} else {
		w.createNetwork(w.namespace, "a", cidrA, gatewayA)
	}
	<-killed.Done()
}

// routerLists are lists that do not show a router whose create was answered by nobody: the process was killed, or the
// answer was lost. The router has the name that spec.networkName gives, which is not the object's.
func routerLists() map[string]scenario {
	all := map[string]scenario{}
	for how, lose := range map[string]func(w *world) proxy.Fault{
		"killed when a router was just created": func(w *world) proxy.Fault {
			return func(x *proxy.Exchange) { w.crash(); x.Reset() }
		},
		"the answer to the create of a router is lost": func(*world) proxy.Fault { return proxy.Reset },
	} {
		for end, live := range map[string]func(w *world){
			"": func(w *world) {
				w.awaitNetwork(w.namespace, "r")
				if routers := w.ours()["routers"]; len(routers) != 1 {
					w.t.Errorf("routers in Neutron: %v, want one", routers)
				}
				w.deleteNetwork(w.namespace, "r")
			},
			", and the object is deleted": func(w *world) { w.deleteNetwork(w.namespace, "r") },
		} {
			all[how+end+", and the lists of all routers then are empty"] = scenario{live: func(w *world) {
				lost := w.neutron.Break(is("POST", "/v2.0/routers"), 1, proxy.After(lose(w)))
				rule := w.neutron.Break(func(c proxy.Call) bool {
					return is("GET", "/v2.0/routers")(c) && c.Query("project_id") != "" && c.Query("name") == ""
				}, 0, proxy.Change(func(a *proxy.Answer) { a.Body = []byte(`{"routers":[]}`) }))
				w.createNetwork(w.namespace, "r", cidrA, gatewayA, func(spec *cloudteamv1.NetworkSpec) {
					spec.NetworkName, spec.Router = w.name("named"), &cloudteamv1.RouterSpec{}
				})
				w.awaitHits(lost, 1)
				live(w)
				w.awaitNetworkGone(w.namespace, "r")
				expect.Empty(w.t, w.ours(), "the object is gone, and left")
				rule.Mend()
				w.life()
			}}
		}
	}
	return all
}

package faults

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/proxy"
)

// pass is no fault: a rule with it counts calls.
func pass(x *proxy.Exchange) { proxy.Change(func(*proxy.Answer) {})(x) }

// refuseNeutron answers as Neutron itself refuses.
func refuseNeutron(status int, kind, message string) proxy.Fault {
	return proxy.Refuse(status,
		fmt.Sprintf(`{"NeutronError":{"type":%q,"message":%q,"detail":""}}`, kind, message))
}

// refusals are what Neutron refuses by its own rules, until somebody acts.
func refusals() map[string]scenario {
	all := map[string]scenario{
		"Neutron refuses to delete a network while a server's port is on it": {
			live: func(w *world) {
				w.lifeWithPortInTheWay(func(network cloudteamv1.NetworkStatus) (id, has string, remove func()) {
					// Nova acts as a service or an administrator. From Neutron 29 on, a member may not delete such a port.
					nova := harness.Open(w.t, w.around.CloudsFile, "admin")
					port := nova.Create("ports", harness.Resource{
						"network_id": network.NetworkID, "project_id": w.cloud.One("networks", "id="+network.NetworkID)["project_id"],
						"name": "web", "device_owner": "compute:nova", "device_id": "9a8b7c6d-0000-4000-8000-000000000001",
					})
					return port.ID(), "(compute:nova, device 9a8b7c6d-0000-4000-8000-000000000001)",
						func() { nova.Remove("ports", port.ID()) }
				})
			},
		},
		"Neutron refuses to delete a network while a router has an interface on it": {
			live: func(w *world) {
				w.lifeWithPortInTheWay(func(network cloudteamv1.NetworkStatus) (id, has string, remove func()) {
					router := w.cloud.Create("routers", harness.Resource{"name": w.name("router")})
					subnet := network.Subnets[0].ID
					attach := func(action string) harness.Resource {
						return w.cloud.Act("routers", router.ID(), action, harness.Resource{"subnet_id": subnet})
					}
					port := attach("add_router_interface")["port_id"].(string)
					detached := false
					w.t.Cleanup(func() {
						if !detached {
							attach("remove_router_interface")
						}
					})
					return port, "(interface of router " + router.ID() + ")", func() {
						detached = true
						attach("remove_router_interface")
					}
				})
			},
		},
		"the project's quota of ports is full, and then raised": {
			live: func(w *world) {
				w.createNetworks()
				full := w.fillQuota("port")
				w.createPort("p", "a", addressP, macP)
				w.createPort("q", "b", addressQ, macQ)
				w.awaitPortReason("p", cloudteamv1.ConditionReconciling, cloudteamv1.ReasonQuotaExceeded)
				w.awaitPortReason("q", cloudteamv1.ConditionReconciling, cloudteamv1.ReasonQuotaExceeded)
				w.awaitHits(full, 5)
				full.Mend()
				w.restOfLife()
			},
		},
	}
	for _, kind := range []string{"network", "subnet"} {
		all[fmt.Sprintf("the project's quota of %ss is full, and then raised", kind)] = scenario{live: func(w *world) {
			full := w.fillQuota(kind)
			w.createNetwork(w.namespace, "a", cidrA, gatewayA)
			w.createNetwork(w.namespace, "b", cidrB, gatewayB)
			for _, short := range []string{"a", "b"} {
				message := w.awaitReason(short, cloudteamv1.ConditionReconciling, cloudteamv1.ReasonQuotaExceeded)
				expect.Contains(w.t, message, "['"+kind+"']", "the condition, with the quota")
			}
			statuses := w.kube.Count("PATCH", kubeNetworks+"/{name}/status")
			w.awaitHits(full, 6)
			if now := w.kube.Count("PATCH", kubeNetworks+"/{name}/status"); now != statuses {
				w.t.Errorf("the same refusal is written %d times more", now-statuses)
			}
			full.Mend()
			w.createNetworks()
			w.restOfLife()
		}}
	}
	return all
}

// fillQuota has Neutron refuse to create resources of a kind, in the words of neutron_lib.exceptions.OverQuota. The
// quota of the project itself is that of all worlds.
func (w *world) fillQuota(kind string) *proxy.Rule {
	return w.neutron.Break(is("POST", "/v2.0/"+kind+"s"), 0, refuseNeutron(http.StatusConflict, "OverQuota",
		"Quota exceeded for resources: ['"+kind+"']."))
}

// lifeWithPortInTheWay begins with a Network that is deleted while somebody else's port is on its network: it stays, and
// says whose port that is, until the port is gone. put makes the port and says what the message has to.
func (w *world) lifeWithPortInTheWay(put func(cloudteamv1.NetworkStatus) (id, has string, remove func())) {
	w.t.Helper()
	w.createNetwork(w.namespace, "c", "10.3.0.0/24", "10.3.0.1")
	id, has, remove := put(w.awaitNetwork(w.namespace, "c").Status)
	lists := w.neutron.Break(func(c proxy.Call) bool {
		return is("GET", "/v2.0/ports")(c) && c.Query("network_id") != ""
	}, 0, pass)
	refused := w.neutron.Break(is("DELETE", "/v2.0/networks/{id}"), 0, pass)
	w.deleteNetwork(w.namespace, "c")
	message := w.awaitReason("c", cloudteamv1.ConditionReconciling, cloudteamv1.ReasonInUse)
	if !strings.Contains(message, "port "+id) || !strings.Contains(message, has) {
		w.t.Errorf("the condition does not name port %s %s: %s", id, has, message)
	}
	statuses := w.kube.Count("PATCH", kubeNetworks+"/{name}/status")
	w.awaitHits(refused, 4)
	w.awaitHits(lists, 4)
	w.cloud.One("networks", "name="+w.name("c"))
	if now := w.kube.Count("PATCH", kubeNetworks+"/{name}/status"); now != statuses {
		w.t.Errorf("the same refusal is written %d times more", now-statuses)
	}
	if told := w.events(w.name("c"), cloudteamv1.ReasonInUse); !slices.Equal(told, []string{message}) {
		w.t.Errorf("Events %q, want one like the condition", told)
	}
	// A list is under way for a refusal at most.
	if l, r := lists.Hits(), refused.Hits(); l > r {
		w.t.Errorf("%d lists for %d refusals", l, r)
	}
	remove()
	w.awaitNetworkGone(w.namespace, "c")
	lists.Mend()
	refused.Mend()
	w.life()
}

package faults

import (
	"fmt"
	"net/http"

	"github.com/gophercloud/gophercloud/v2"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// deletionsByHand are people who delete in Neutron what is the controller's.
func deletionsByHand() map[string]scenario {
	return map[string]scenario{
		"somebody deletes a network that no port is on": {
			live: func(w *world) {
				w.createNetworks()
				was := w.awaitNetwork(w.namespace, "a").Status.NetworkID
				w.cloud.Remove("networks", was)
				w.awaitAnotherNetwork("a", was)
				w.awaitEvent(w.name("a"), cloudteamv1.EventDriftCorrected, "Created network")
				w.restOfLife()
			},
		},
		"somebody tries to delete the network while the port is on it, and Neutron refuses": {
			live: func(w *world) {
				w.life()
				w.awaitSilence()
				writes := w.writes()
				id := w.awaitNetwork(w.namespace, "a").Status.NetworkID
				_, err := w.cloud.Client.Delete(w.t.Context(), w.cloud.Client.ServiceURL("networks", id), nil)
				if !gophercloud.ResponseCodeIs(err, http.StatusConflict) {
					w.t.Errorf("deleting the network: %v, want 409", err)
				}
				w.awaitSilence()
				if more := w.writes() - writes; more > 0 {
					w.t.Errorf("%d writes though nothing was changed, the last: %s", more, w.lastWrites())
				}
			},
		},
		"somebody deletes the port and the network": {
			live: func(w *world) {
				w.life()
				network := w.awaitNetwork(w.namespace, "a").Status.NetworkID
				port := w.awaitPort("p").Status.PortID
				w.removeByHand(network)
				w.awaitAnotherNetwork("a", network)
				w.awaitEvent(w.name("a"), cloudteamv1.EventDriftCorrected, "Created network")
				w.awaitOther("ports", port)
				w.awaitPort("p")
				w.awaitEvent("p", cloudteamv1.EventDriftCorrected, "Created port")
			},
		},
		"somebody deletes the port and the network while no controller runs": {
			live: func(w *world) {
				w.life()
				network := w.awaitNetwork(w.namespace, "a").Status.NetworkID
				port := w.awaitPort("p").Status.PortID
				w.process.Load().Kill(w.t)
				w.removeByHand(network)
				w.start()
				w.awaitAnotherNetwork("a", network)
				w.awaitOther("ports", port)
			},
		},
		"somebody deletes the network of a Network that is being deleted": {
			live: func(w *world) {
				w.createNetwork(w.namespace, "c", "10.3.0.0/24", "none")
				was := w.awaitNetwork(w.namespace, "c").Status.NetworkID
				refused := w.neutron.Break(is("DELETE", "/v2.0/networks/{id}"), 0, refuse(http.StatusServiceUnavailable))
				w.deleteNetwork(w.namespace, "c")
				w.awaitReason("c", cloudteamv1.ConditionReconciling, cloudteamv1.ReasonCloudUnavailable)
				w.cloud.Remove("networks", was)
				refused.Mend()
				w.awaitNetworkGone(w.namespace, "c")
				w.life()
			},
		},
	}
}

// removeByHand deletes a network with the ports on it. The controller may be faster with a new port.
func (w *world) removeByHand(network string) {
	w.t.Helper()
	w.await(func() error {
		for _, port := range w.cloud.List("ports", "network_id="+network) {
			_, _ = w.cloud.Client.Delete(w.t.Context(), w.cloud.Client.ServiceURL("ports", port.ID()), nil)
		}
		_, err := w.cloud.Client.Delete(w.t.Context(), w.cloud.Client.ServiceURL("networks", network), nil)
		return err
	})
}

// awaitAnotherNetwork waits until a Network is Ready with a network of another id.
func (w *world) awaitAnotherNetwork(short, was string) {
	w.t.Helper()
	harness.Await(w.t, w, w.api().Networks(w.namespace), w.name(short), func(n *cloudteamv1.Network) error {
		if n.Status.NetworkID == was || n.Status.NetworkID == "" {
			return fmt.Errorf("Network %s still shows network %q", short, n.Status.NetworkID)
		}
		return harness.Ready(n)
	})
}

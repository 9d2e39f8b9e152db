package faults

import (
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/test/proxy"
)

// watchOfNetworks chooses the watch of the Networks.
func watchOfNetworks(c proxy.Call) bool { return c.Shape == kubeNetworks && c.Query("watch") != "" }

// missedDeletions are Networks that go, and names that are taken again, while nobody watches. To most of them, one Neutron
// is like the other.
func missedDeletions() map[string]scenario {
	orphans := []string{"--controllers=orphan", "--orphan-grace=2s", "--orphan-max-share=1"}
	return map[string]scenario{
		"the finalizer is forced off and the name taken again while the watch is frozen, which then goes on": {
			slow: true,
			live: func(w *world) {
				was := w.awaitRecreatable()
				thaw := w.kube.Freeze(watchOfNetworks)
				w.recreateByForce()
				thaw()
				w.awaitRecreated(was)
			},
		},
		"a Network is deleted and the process killed while the watch is frozen, and the name is taken again": {
			slow: true,
			live: func(w *world) {
				was := w.awaitRecreatable()
				w.kube.Freeze(watchOfNetworks)
				w.deleteNetwork(w.namespace, "c")
				w.crash()
				w.awaitNetworkGone(w.namespace, "c")
				w.createNetwork(w.namespace, "c", "10.3.0.0/24", "none")
				w.awaitRecreated(was)
			},
		},
		"the finalizer is forced off and the name taken again while no controller runs": {
			arguments: orphans,
			slow:      true,
			live: func(w *world) {
				was := w.awaitRecreatable()
				w.process.Load().Kill(w.t)
				w.recreateByForce()
				w.start()
				w.awaitRecreated(was)
			},
		},
		"the finalizer is forced off and the name taken again while the watch is frozen and the process is then killed": {
			arguments: orphans,
			slow:      true,
			live: func(w *world) {
				was := w.awaitRecreatable()
				w.kube.Freeze(watchOfNetworks)
				w.recreateByForce()
				w.crash()
				w.awaitRecreated(was)
			},
		},
		"the finalizer is forced off while the watch is frozen and then expires: only a tombstone reports it": {
			live: func(w *world) {
				w.awaitRecreatable()
				w.kube.Freeze(watchOfNetworks)
				w.forceOff("c")
				w.expireWatch()
				w.awaitNoNetworks()
				w.life()
			},
		},
		"the same of a Network with deletionPolicy Retain: its network stays": {
			live: func(w *world) {
				w.retain("c")
				w.kube.Freeze(watchOfNetworks)
				w.forceOff("c")
				w.expireWatch()
				w.awaitNoNetworks()
				w.holdRetained("c")
				w.life()
			},
		},
		"the watch expires while a Network is edited and another deleted": {
			slow: true,
			live: func(w *world) {
				w.awaitRecreatable()
				w.createNetworks()
				thaw := w.kube.Freeze(watchOfNetworks)
				w.editA()
				w.deleteNetwork(w.namespace, "c")
				w.expireWatch()
				thaw()
				w.awaitNetworkGone(w.namespace, "c")
				w.awaitNetwork(w.namespace, "a")
				w.restOfLife()
			},
		},
	}
}

// awaitRecreatable makes a Network whose name will be taken again, and gives its network's id.
func (w *world) awaitRecreatable() string {
	w.t.Helper()
	w.createNetwork(w.namespace, "c", "10.3.0.0/24", "none")
	return w.awaitNetwork(w.namespace, "c").Status.NetworkID
}

// recreateByForce has another object take the name without the controller's leave.
func (w *world) recreateByForce() {
	w.t.Helper()
	w.forceOff("c")
	w.createNetwork(w.namespace, "c", "10.3.0.0/24", "none")
}

// awaitRecreated waits until the new object has a network of its own, and the old one's is gone; then it lives.
func (w *world) awaitRecreated(was string) {
	w.t.Helper()
	w.awaitAnotherNetwork("c", was)
	w.await(func() error {
		if all := w.ours()["networks"]; len(all) != 1 || all[0].ID() == was {
			return fmt.Errorf("the networks are %v, want the new object's", all)
		}
		return nil
	})
	w.removeNetwork("c")
	w.life()
}

// awaitNoNetworks waits until no network bears the world's marker.
func (w *world) awaitNoNetworks() {
	w.t.Helper()
	w.await(func() error {
		if all := w.ours()["networks"]; len(all) > 0 {
			return fmt.Errorf("there still are %v", all)
		}
		return nil
	})
}

// expireWatch cuts the watch of the Networks and has kube-apiserver know the place no more at which it would go on, as
// after a compaction of etcd: everything is listed anew.
func (w *world) expireWatch() {
	w.t.Helper()
	gone := w.kube.Break(func(c proxy.Call) bool { return watchOfNetworks(c) && c.Query("sendInitialEvents") == "" }, 1,
		refuseKubernetes(http.StatusGone, metav1.StatusReasonExpired))
	w.kube.Cut(watchOfNetworks)
	w.awaitHits(gone, 1)
}

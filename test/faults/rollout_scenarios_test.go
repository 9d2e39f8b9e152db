package faults

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/proxy"
)

// Shapes of calls in a rollout.
const (
	neutronPorts = "/v2.0/ports"
	kubePod      = kubePods + "/{name}"
	kubeBinding  = kubePorts + "/{name}/status"
)

// testRolloutScenarios lives a rollout with each fault. A scenario's live is (*world).rollout by default, and leaves a
// Deployment that is to rest; check comes before that goes.
func testRolloutScenarios(t *testing.T, want reference) {
	for _, group := range []map[string]scenario{
		lostPorts(), scarceAddresses(), handsOnPorts(), remadePods(), interruptedRollouts(), rolloutProcesses(),
	} {
		rollouts().testScenarios(t, group, func(w *world, s scenario) {
			if s.live == nil {
				s.live = func(w *world) {
					w.createDeployment()
					w.restOfRollout()
				}
			}
			s.live(w)
			w.holdRollout(want)
			if s.check != nil {
				s.check(w)
			}
			w.endRollout()
		})
	}
}

// lostPorts are creates of ports that are carried out, and whose answers are lost.
func lostPorts() map[string]scenario {
	all := map[string]scenario{}
	for how, fault := range map[string]proxy.Fault{
		"cut off": proxy.Reset, "answered with 503": refuse(http.StatusServiceUnavailable),
	} {
		all[fmt.Sprintf("every create of a port is %s, after it was carried out", how)] = scenario{
			prepare: func(w *world) { w.neutron.Break(is("POST", neutronPorts), 0, proxy.After(fault)) },
		}
	}
	return all
}

// scarceAddresses are subnets that are full.
func scarceAddresses() map[string]scenario {
	return map[string]scenario{
		"there are fewer addresses than Pods, until one comes free and then a port goes": {live: func(w *world) {
			w.createNetwork(w.namespace, "a", cidrRollout, "")
			network := w.awaitNetwork(w.namespace, "a").Status.NetworkID
			var taken []string
			for range rolloutAddresses - 2 {
				taken = append(taken, w.cloud.Create("ports", harness.Resource{
					"network_id": network, "name": "taken", "device_owner": foreignOwner,
				}).ID())
			}
			w.deploy(deploymentName, 3)
			w.awaitShort(deploymentName, 2)
			w.cloud.Remove("ports", taken[0])
			w.awaitRest(3)

			w.deploy("other", 1)
			w.awaitShort("other", 0)
			w.scale(deploymentName, replicas)
			w.awaitRest(replicas + 1)

			w.undeploy("other")
			for _, port := range taken[1:] {
				w.cloud.Remove("ports", port)
			}
			w.awaitRest(replicas)
		}},
	}
}

// awaitShort waits until so many Pods of a Deployment run as there are addresses for, and the others and the Deployment
// say that there are no more, each with an Event.
func (w *world) awaitShort(name string, running int) {
	w.t.Helper()
	w.await(func() error {
		pods, err := w.pods("app=" + name)
		if err != nil {
			return err
		}
		var short []corev1.Pod
		for _, pod := range pods {
			if pod.Status.Phase != corev1.PodRunning {
				short = append(short, pod)
			}
		}
		if len(pods)-len(short) != running || len(short) == 0 {
			return fmt.Errorf("of Deployment %s run %d of %d Pods, want %d", name, len(pods)-len(short), len(pods), running)
		}
		for _, pod := range short {
			if err := w.says("Pod", &pod, cloudteamv1.ReasonPortsFailed, "address"); err != nil {
				return err
			}
		}
		return w.deploymentSays(name, cloudteamv1.ReasonPortsFailed, "address")
	})
}

// says is nil where the condition of a Pod or a Deployment about its networks is False for a reason, with a text in its
// message, and an Event says the same.
func (w *world) says(kind string, object metav1.Object, reason, text string) error {
	if err := harness.SaysOfNetworks(object, corev1.ConditionFalse, reason, text); err != nil {
		return err
	}
	return w.eventSays(kind, object.GetName(), reason, text)
}

func (w *world) deploymentSays(name, reason, text string) error {
	deployment, err := w.deploymentClient().Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	return w.says("Deployment", deployment, reason, text)
}

func (w *world) eventSays(kind, name, reason, text string) error {
	events, err := w.around.Kube.CoreV1().Events(w.namespace).List(w.t.Context(), metav1.ListOptions{
		FieldSelector: "involvedObject.kind=" + kind + ",involvedObject.name=" + name + ",reason=" + reason,
	})
	if err != nil {
		return err
	}
	for _, event := range events.Items {
		if event.Type == corev1.EventTypeWarning && strings.Contains(event.Message, text) {
			return nil
		}
	}
	return fmt.Errorf("no Event %s of %s %s has %q: %v", reason, kind, name, text, events.Items)
}

// awaitPodSays waits until a Pod says that its ports fail, with a text.
func (w *world) awaitPodSays(name, text string) {
	w.t.Helper()
	harness.Await(w.t, w, w.podClient(), name, func(pod *corev1.Pod) error {
		return w.says("Pod", pod, cloudteamv1.ReasonPortsFailed, text)
	})
}

// somePod is a Pod of the rollout, with what it has.
func (w *world) somePod() (*corev1.Pod, cloudteamv1.Allocation) {
	w.t.Helper()
	pods, err := w.pods("app=" + deploymentName)
	if err != nil || len(pods) == 0 {
		w.t.Fatalf("there is no Pod: %v", err)
	}
	allocations := harness.AllocationsOf(w.t, &pods[0])
	if len(allocations) != 1 {
		w.t.Fatalf("Pod %s has %+v", pods[0].Name, allocations)
	}
	return &pods[0], allocations[0]
}

// handsOnPorts are people who delete the ports that Pods have.
func handsOnPorts() map[string]scenario {
	return map[string]scenario{
		"the port of a Pod is deleted in Neutron: it comes back with the Pod's address": {live: func(w *world) {
			w.createDeployment()
			pod, had := w.somePod()
			w.cloud.Remove("ports", had.PortID)
			w.await(func() error {
				for _, port := range w.ours()["ports"] {
					if port.ID() != had.PortID && hasAddressOf(port, had) {
						return nil
					}
				}
				return fmt.Errorf("no other port has %+v: %v", had, w.ours()["ports"])
			})
			// Its id is another's, so that what the Pod was told of it does not hold, and is not changed while it runs.
			w.awaitPodSays(pod.Name, "another port in Neutron")
			w.kill(pod.Name)
			w.awaitRest(replicas)
			w.restOfRollout()
		}},
		"the port of a Pod is deleted in Neutron and its address taken: that is said, and over with the Pod": {
			live: func(w *world) {
				w.createDeployment()
				pod, had := w.somePod()
				// While the process is away, or it would be back at once.
				w.stop()
				network := w.cloud.One("ports", "id="+had.PortID)["network_id"]
				w.cloud.Remove("ports", had.PortID)
				taken := w.cloud.Create("ports", harness.Resource{
					"network_id": network, "name": "taken", "device_owner": foreignOwner,
					"fixed_ips": []harness.Resource{{"ip_address": netip.MustParsePrefix(had.IPs[0]).Addr().String()}},
				})
				w.start()
				w.awaitPodSays(pod.Name, cloudteamv1.ReasonAddressInUse)
				w.await(func() error {
					return w.deploymentSays(deploymentName, cloudteamv1.ReasonPortsFailed, cloudteamv1.ReasonAddressInUse)
				})
				w.kill(pod.Name)
				w.awaitRest(replicas)
				w.cloud.Remove("ports", taken.ID())
				w.restOfRollout()
			},
		},
		"the NetworkPort of a Pod is deleted: it stays until the Pod goes": {live: func(w *world) {
			w.createDeployment()
			pod, had := w.somePod()
			w.deletePort(had.Port)
			w.awaitSilence()
			port, err := w.getPort(had.Port)
			if err != nil || port.DeletionTimestamp == nil || port.Status.PortID != had.PortID {
				w.t.Errorf("NetworkPort %s is %+v (%v)", had.Port, port, err)
			}
			if !hasAddressOf(w.cloud.One("ports", "id="+had.PortID), had) {
				w.t.Errorf("port %s has no longer what %+v says", had.PortID, had)
			}
			w.kill(pod.Name)
			w.awaitRest(replicas)
			w.restOfRollout()
		}},
		"the NetworkPorts of all Pods are deleted in the middle of a rolling update": {live: func(w *world) {
			w.createDeployment()
			rolling := w.kube.Break(is("PATCH", kubePod), 1, proxy.Meanwhile(func() {
				err := w.portClient().DeleteCollection(w.t.Context(),
					metav1.DeleteOptions{}, metav1.ListOptions{})
				if err != nil {
					w.t.Errorf("deleting the NetworkPorts: %v", err)
				}
			}))
			w.roll("between")
			w.awaitHits(rolling, 1)
			// Those of the Pods that stay would go with them, whenever that is.
			w.roll("after")
			w.awaitRest(replicas)
			w.restOfRollout()
		}},
	}
}

// hasAddressOf reports whether a port in Neutron has the address and MAC that a Pod was given.
func hasAddressOf(port harness.Resource, a cloudteamv1.Allocation) bool {
	fixed := port["fixed_ips"].([]any)[0].(map[string]any)
	return port["mac_address"] == a.MAC && fixed["ip_address"] == netip.MustParsePrefix(a.IPs[0]).Addr().String()
}

// remadePods are Pods whose successors come before anybody could see them go.
func remadePods() map[string]scenario {
	return map[string]scenario{
		"Pods are killed one after the other while the watches are frozen": {slow: true, live: func(w *world) {
			w.createDeployment()
			thaw := w.kube.Freeze(always)
			for range 3 {
				w.killPod()
			}
			thaw()
			w.awaitRest(replicas)
			w.restOfRollout()
		}},
		"a Pod of nobody's is killed and made again under its name while the watches are frozen": {slow: true, live: func(w *world) {
			w.createDeployment()
			w.createPod("bare")
			w.awaitRest(replicas + 1)
			for range 2 {
				thaw := w.kube.Freeze(always)
				w.kill("bare")
				w.createPod("bare")
				thaw()
				w.awaitRest(replicas + 1)
			}
			w.kill("bare")
			w.awaitRest(replicas)
			w.restOfRollout()
		}},
		"a Pod of nobody's is killed and made again under its name while no controller runs": {slow: true, live: func(w *world) {
			w.createDeployment()
			w.createPod("bare")
			w.awaitRest(replicas + 1)
			w.process.Load().Kill(w.t)
			w.kill("bare")
			w.createPod("bare")
			w.start()
			w.awaitRest(replicas + 1)
			w.kill("bare")
			w.awaitRest(replicas)
			w.restOfRollout()
		}},
	}
}

// createPod creates a Pod of nobody's on Network a.
func (w *world) createPod(name string) {
	w.t.Helper()
	harness.Create(w.t, w.podClient(), harness.PodOn(name, w.name("a")))
}

// interruptedRollouts lose Neutron or kube-apiserver in the middle of a rolling update.
func interruptedRollouts() map[string]scenario {
	all := map[string]scenario{
		"Neutron is unavailable during a rolling update; the status reports it": {live: func(w *world) {
			w.createDeployment()
			away := w.neutron.Break(always, 0, refuse(http.StatusServiceUnavailable))
			w.roll("away")
			w.awaitHits(away, 4)
			w.await(func() error { return w.deploymentSays(deploymentName, cloudteamv1.ReasonPortsFailed, "503") })
			away.Mend()
			w.awaitRest(replicas)
			w.restOfRollout()
		}},
		"kube-apiserver is unavailable during a rolling update": {live: func(w *world) {
			w.createDeployment()
			rolling := w.kube.Break(is("POST", kubePorts), 1, proxy.Change(func(*proxy.Answer) {}))
			w.roll("away")
			w.awaitHits(rolling, 1)
			away := w.kube.Break(always, 0, proxy.Reset)
			w.kube.Cut(always)
			w.awaitHits(away, 4)
			away.Mend()
			w.awaitRest(replicas)
			w.restOfRollout()
		}},
		"every watch is cut at each of the first bindings": {slow: true, prepare: func(w *world) {
			// Further ones would only have it wait: a reflector begins its watch anew after longer and longer pauses.
			w.kube.Break(is("PATCH", kubeBinding), 5, proxy.Meanwhile(func() { w.kube.Cut(always) }))
		}},
		"the watches are frozen while the Deployment is scaled down and up": {slow: true, live: func(w *world) {
			w.createDeployment()
			thaw := w.kube.Freeze(always)
			w.scale(deploymentName, 0)
			w.await(func() error {
				pods, err := w.pods("")
				if err == nil && len(pods) > 0 {
					err = fmt.Errorf("%d Pods are left", len(pods))
				}
				return err
			})
			w.scale(deploymentName, replicas)
			thaw()
			w.awaitRest(replicas)
			w.restOfRollout()
		}},
	}
	for how, fault := range map[string]proxy.Fault{
		"is cut off":           proxy.Reset,
		"is answered with 409": refuseKubernetes(http.StatusConflict, metav1.StatusReasonConflict),
		"is answered with 500": refuseKubernetes(http.StatusInternalServerError, metav1.StatusReasonInternalError),
	} {
		for when, fault := range map[string]proxy.Fault{
			"before it is carried out": fault, "after it was carried out": proxy.After(fault),
		} {
			all[fmt.Sprintf("the first two writes of each kind to Kubernetes: each %s, %s", how, when)] = scenario{
				slow: true,
				prepare: func(w *world) {
					w.kube.Break(firstOfEach(), 0, fault)
					w.kube.Break(firstOfEach(), 0, fault)
				},
			}
		}
	}
	return all
}

// rolloutProcesses are faults of the controller's own process in the middle of a rollout.
func rolloutProcesses() map[string]scenario {
	return map[string]scenario{
		"stopped in the middle of a rolling update: the create under way is finished, and not done twice": {
			live: func(w *world) {
				w.createDeployment()
				creates := w.neutron.Count("POST", neutronPorts)
				release := make(chan struct{})
				held := w.neutron.Break(is("POST", neutronPorts), 1, proxy.Hold(release))
				w.roll("stopped")
				w.awaitHits(held, 1)
				p := w.process.Load()
				p.Signal(syscall.SIGTERM)
				close(release)
				expect.Equal(w.t, 0, p.AwaitExit(w.t), "the exit code")
				expect.Equal(w.t, 1, w.neutron.Count("POST", neutronPorts)-creates, "ports were created")
				w.start()
				w.awaitRest(replicas)
				w.restOfRollout()
			},
		},
		"another process makes pools and binds, too, and is killed": {slow: true, live: func(w *world) {
			other := w.launch(w.clouds, "--kubeconfig", w.kubeconfig, "--leader-elect=false", "--bind-address", "",
				"--controllers=deployment,pod", "--pool-cooldown="+poolCooldown, "-v", "2")
			w.createDeployment()
			w.restOfRollout()
			other.Kill(w.t)
			w.roll("third")
			w.awaitRest(replicas)
		}},
		"the Deployment is made again while no controller runs": {live: func(w *world) {
			w.createDeployment()
			w.process.Load().Kill(w.t)
			w.undeploy(deploymentName)
			w.deploy(deploymentName, replicas)
			w.start()
			w.awaitRest(replicas)
			w.restOfRollout()
		}},
	}
}

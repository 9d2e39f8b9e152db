package deployment

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"

	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// usable gives a port the status of one that is in Neutron as declared.
func usable(port *cloudteamv1.NetworkPort, address string) {
	port.Status.PortID, port.Status.MAC = "id-"+port.Name, "fa:16:3e:00:00:09"
	port.Status.Addresses = []cloudteamv1.PortAddress{{Address: address}}
	port.Status.Conditions = []metav1.Condition{{Type: cloudteamv1.ConditionReady, Status: metav1.ConditionTrue}}
}

// allUsable makes the ports that have an id usable, each with an address of its own.
func allUsable(o *observed) {
	for i, port := range slices.Concat(o.ports, o.left) {
		if port.Status.PortID != "" {
			usable(port, fmt.Sprintf("10.0.0.%d/16", i+1))
		}
	}
}

// gated makes the Pods gated ones, the first the oldest.
func gated(o *observed) {
	for i, pod := range o.pods {
		pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: cloudteamv1.SchedulingGate}}
		pod.CreationTimestamp = metav1.Unix(int64(i), 0)
	}
}

func TestBindings(t *testing.T) {
	with := func(edits ...func(*observed)) func(*observed) {
		return func(o *observed) {
			allUsable(o)
			gated(o)
			for _, edit := range edits {
				edit(o)
			}
		}
	}
	ungated := func(o *observed) { o.pods[0].Spec.SchedulingGates = nil }
	for name, c := range map[string]struct {
		situation
		bind, release, remove []string
		contested             bool
	}{
		"the oldest Pod gets the lowest port": {
			situation: situation{networks: "blue", replicas: 2, pods: []string{"b", "a"},
				ports: []string{"web-blue-10 ready", "web-blue-9 ready"}, edit: with()},
			bind: []string{"web-blue-9 to b", "web-blue-10 to a"},
		},
		"where ports are short the oldest Pods get them": {
			situation: situation{networks: "blue", replicas: 2, pods: []string{"b", "a"},
				ports: []string{"web-blue-0 ready", "web-blue-1"}, edit: with()},
			bind: []string{"web-blue-0 to b"},
		},
		"a port that is not usable, is being deleted or was deleted is not bound": {
			situation: situation{networks: "blue", replicas: 3, pods: []string{"a", "b", "c"}, ports: []string{
				"web-blue-0 failing:AddressesExhausted", "web-blue-1 ready going", "web-blue-2 ready"},
				edit: with(func(o *observed) { o.deleted = map[types.UID]bool{"uid-web-blue-2": true} })},
		},
		"a Pod that asks for a network twice gets two ports": {
			situation: situation{networks: "blue,blue", replicas: 2, pods: []string{"a"},
				ports: []string{"web-blue-0 ready", "web-blue-1 ready", "web-blue-2 ready bound:a"}, edit: with()},
			bind: []string{"web-blue-0 to a"},
		},
		"a Pod gets all or nothing, and a younger Pod what is left": {
			situation: situation{networks: "blue", replicas: 1, pods: []string{"a declaring:blue,green", "b declaring:blue"},
				ports: []string{"web-blue-0 ready", "web-green-0 on:green"}, edit: with()},
			bind: []string{"web-blue-0 to b"},
		},
		"a Pod gets the address that it asks for, and no other Pod does": {
			situation: situation{networks: "blue", replicas: 2,
				pods:  []string{"a", `b declaring:[{"name":"blue","ips":["10.0.0.5"]}]`},
				ports: []string{"web-blue-0 ready ip:10.0.0.5", "web-blue-1 ready"}, edit: with()},
			bind: []string{"web-blue-1 to a", "web-blue-0 to b"},
		},
		"Pods that cannot have ports get none": {
			situation: situation{networks: "blue", replicas: 4, missing: []string{"team/green"}, pods: []string{
				"a going", "b ended", "c declaring:blue,green", "d declaring:[", "host"},
				ports: []string{"web-blue-0 ready"}, edit: with(func(o *observed) { o.pods[4].Spec.HostNetwork = true })},
		},
		"a Pod that lost the annotation keeps its port and gets no other": {
			situation: situation{networks: "blue", replicas: 2,
				pods:  []string{`a declaring:[{"name":"blue","ips":["10.0.0.1/16"],"mac":"fa:16:3e:00:00:09"}]`},
				ports: []string{"web-blue-0 ready bound:a", "web-blue-1 ready"}, edit: with(ungated)},
		},
		"a port whose Pod is gone or has ended is released, and bound by the next plan": {
			situation: situation{networks: "blue", replicas: 2, pods: []string{"a ended", "b"},
				ports: []string{"web-blue-0 ready bound:a", "web-blue-1 ready bound:gone"}, edit: with()},
			release: []string{"web-blue-0 of a", "web-blue-1 of gone"},
		},
		"a Pod that is being deleted keeps its port": {
			situation: situation{networks: "blue", replicas: 1, pods: []string{"a going", "b allocated:web-blue-1 going"},
				ports: []string{"web-blue-0 ready bound:a", "web-blue-1 ready bound:b"}, edit: with()},
		},
		"a port that serves none of a waiting Pod's requests is left to the Pod's own sync": {
			situation: situation{networks: "blue", replicas: 1, pods: []string{"a declaring:green"},
				ports: []string{"web-blue-0 ready bound:a", "web-green-0 ready on:green"}, edit: with()},
			bind: []string{"web-green-0 to a"},
		},
		"a waiting Pod whose port is being deleted gets another, and its own sync releases the first": {
			situation: situation{networks: "blue", replicas: 1, pods: []string{"a"},
				ports: []string{"web-blue-0 ready bound:a going", "web-blue-1 ready"}, edit: with()},
			bind: []string{"web-blue-1 to a"},
		},
		"one port more than a Pod needs stays until the Pod says which it has": {
			situation: situation{networks: "blue", replicas: 1, pods: []string{"a"},
				ports: []string{"web-blue-0 ready bound:a", "web-blue-1 ready bound:a"}, edit: with()},
		},
		"a Pod that has its ports gives up the others": {
			situation: situation{networks: "blue", replicas: 1, pods: []string{"a allocated:web-blue-0"},
				ports: []string{"web-blue-0 ready bound:a", "web-blue-1 ready bound:a"}, edit: with(ungated)},
			release: []string{"web-blue-1 of a"},
		},
		"the port of a gated Pod that declares nothing is left to the Pod's own sync": {
			situation: situation{networks: "blue", replicas: 1, pods: []string{"a"}, ports: []string{"web-blue-0 ready bound:a"},
				edit: with(func(o *observed) { o.pods[0].Annotations = nil })},
		},
		"a Pod that is not gated and declares nothing keeps its port": {
			situation: situation{networks: "blue", replicas: 1, pods: []string{"a"}, ports: []string{"web-blue-0 ready bound:a"},
				edit: with(ungated, func(o *observed) { o.pods[0].Annotations = nil })},
		},
		"a binding that was lost is written again, and the port is nobody else's": {
			situation: situation{networks: "blue", replicas: 2, pods: []string{"a allocated:web-blue-0", "b"},
				ports: []string{"web-blue-0 ready", "web-blue-1"}, edit: with(ungated)},
			bind: []string{"web-blue-0 to a again"},
		},
		"a binding that was lost is written again while the Pod and the port are being deleted": {
			situation: situation{networks: "blue", replicas: 1, pods: []string{"a allocated:web-blue-0 going"},
				ports: []string{"web-blue-0 ready going"}, edit: with(ungated)},
			bind: []string{"web-blue-0 to a again"},
		},
		"a free port with the address of a bound one is deleted": {
			situation: situation{networks: "blue", replicas: 3, pods: []string{"a"},
				ports: []string{"web-blue-0 ready bound:b", "web-blue-1 ready", "web-blue-2 ready"},
				edit:  with(func(o *observed) { usable(o.ports[1], "10.0.0.1/16") })},
			bind: []string{"web-blue-2 to a"}, release: []string{"web-blue-0 of b"}, remove: []string{"web-blue-1"},
			contested: true,
		},
		"of two free ports with one address none is bound": {
			situation: situation{networks: "blue", replicas: 2, pods: []string{"a"},
				ports: []string{"web-blue-0 ready", "web-blue-1 ready"},
				edit:  with(func(o *observed) { usable(o.ports[1], "10.0.0.1/16") })},
			contested: true,
		},
		"of an earlier Deployment's ports those of gone Pods are released, and none is bound": {
			situation: situation{networks: "blue", replicas: 1, pods: []string{"a"},
				edit: func(o *observed) {
					earlier := declaring("blue", 1)
					earlier.UID = "deployment-0"
					for _, name := range []string{"web-blue-7", "web-blue-8"} {
						port := portOf(earlier, name, consumer.Request{Network: cache.NewObjectName("team", "blue")})
						usable(port, "10.0.0.7/16")
						o.left = append(o.left, port)
					}
					o.left[0].Status.BoundTo = &cloudteamv1.PortBinding{Kind: "Pod", Name: "gone", UID: "uid-gone"}
					gated(o)
				}},
			release: []string{"web-blue-7 of gone"},
		},
		"of a Deployment that is gone ports are released and bound again, and none is given to Pods that wait": {
			situation: situation{networks: "blue", replicas: 1, pods: []string{"a", "b allocated:web-blue-2"},
				ports: []string{"web-blue-0 ready", "web-blue-1 ready bound:gone", "web-blue-2 ready"},
				edit: with(func(o *observed) {
					o.deployment, o.left, o.ports = nil, o.ports, nil
					o.pods[1].Spec.SchedulingGates = nil
				})},
			bind: []string{"web-blue-2 to b again"}, release: []string{"web-blue-1 of gone"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlan(c.observed())
			var bind, release []string
			for _, b := range p.bind {
				text := b.port.Name + " to " + b.pod.Name
				if b.lost {
					text += " again"
				}
				bind = append(bind, text)
			}
			for _, b := range p.release {
				release = append(release, b.port.Name+" of "+b.port.Status.BoundTo.Name)
			}
			_, remove := named(p)
			expect.Equal(t, c.bind, bind, "bound")
			expect.Equal(t, c.release, release, "released")
			expect.Equal(t, c.remove, remove, "deleted")
			expect.Equal(t, c.contested, p.contested, "contested")
		})
	}
}

// drawnBindings is a random situation with all kinds of bindings.
func drawnBindings(t *rapid.T) observed {
	o := drawn(t)
	for i, pod := range o.pods {
		pod.CreationTimestamp = metav1.Unix(int64(rapid.IntRange(0, 3).Draw(t, "age")), 0)
		if rapid.Bool().Draw(t, "gated") {
			pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: cloudteamv1.SchedulingGate}}
		}
		if rapid.IntRange(0, 4).Draw(t, "Pod going") == 0 {
			pod.DeletionTimestamp = new(metav1.Now())
		}
		o.pods[i] = pod
	}
	for i, port := range o.ports {
		if rapid.IntRange(0, 3).Draw(t, "usable") > 0 {
			usable(port, fmt.Sprintf("10.0.0.%d/16", rapid.IntRange(i, 8).Draw(t, "address")))
			port.Status.PortID = fmt.Sprintf("id-%d", i)
		}
	}
	if at := rapid.IntRange(0, len(o.ports)).Draw(t, "own"); rapid.Bool().Draw(t, "some are left") {
		for _, port := range o.ports[at:] {
			port.OwnerReferences = nil
			if slices.ContainsFunc(o.pods, func(pod *corev1.Pod) bool { return consumer.Has(pod, port) }) {
				o.borrowed = append(o.borrowed, port)
			}
		}
		o.left, o.ports = slices.Clone(o.ports[at:]), slices.Clone(o.ports[:at])
	}
	o.taken = func(name string) bool {
		return takenBy(o)(name) || slices.ContainsFunc(o.left, func(p *cloudteamv1.NetworkPort) bool { return p.Name == name })
	}
	return seen(o)
}

// holdBindings holds what all bindings have to be.
func holdBindings(t *rapid.T, o observed, p plan) {
	deleted := map[types.UID]bool{}
	for _, port := range p.remove {
		deleted[port.UID] = true
	}
	ports := map[types.UID]bool{}
	given := map[types.UID][]consumer.Request{}
	for _, b := range p.bind {
		if ports[b.port.UID] || b.port.Status.BoundTo != nil {
			t.Errorf("%s is given to two Pods", b.port.Name)
		}
		ports[b.port.UID] = true
		if consumer.Ended(b.pod) || deleted[b.port.UID] {
			t.Errorf("%s is bound to %s, which has ended, or deleted as well", b.port.Name, b.pod.Name)
		}
		if b.lost {
			if !slices.Contains(o.givenTo(b.port), b.pod) {
				t.Errorf("%s is bound again to %s, which never had it", b.port.Name, b.pod.Name)
			}
			continue
		}
		given[b.pod.UID] = append(given[b.pod.UID], consumer.ServedBy(b.port))
		if !metav1.IsControlledBy(b.port, o.deployment) || !waits(b.pod) || b.port.DeletionTimestamp != nil ||
			consumer.StateOf(b.port) != consumer.PortUsable || len(o.givenTo(b.port)) > 0 || o.rival(b.port) != nil {
			t.Errorf("%s may not be bound to %s", b.port.Name, b.pod.Name)
		}
	}
	for _, b := range p.release {
		if b.pod != nil && consumer.Has(b.pod, b.port) && slices.ContainsFunc(o.givenTo(b.port), func(pod *corev1.Pod) bool {
			allocations, _ := consumer.Allocations(pod)
			return pod == b.pod && slices.ContainsFunc(allocations, func(a cloudteamv1.Allocation) bool { return a.Port == b.port.Name })
		}) {
			t.Errorf("%s is taken from %s, which was given it", b.port.Name, b.pod.Name)
		}
	}
	// With what it holds, a Pod has all that it asks for, and is given no more.
	for _, pod := range o.pods {
		requests := given[pod.UID]
		if len(requests) == 0 {
			continue
		}
		lacks := lacking(o.declarationOf(pod).Requests, heldBy(o, pod))
		count := func(all []consumer.Request) map[consumer.Request]int {
			n := map[consumer.Request]int{}
			for _, request := range all {
				n[request]++
			}
			return n
		}
		expect.Equal(t, count(lacks), count(requests), "Pod %s is given what it does not lack", pod.Name)
	}
}

// heldBy are the ports that are bound to a Pod.
func heldBy(o observed, pod *corev1.Pod) []*cloudteamv1.NetworkPort {
	var held []*cloudteamv1.NetworkPort
	for _, port := range slices.Concat(o.ports, o.borrowed) {
		if consumer.BoundTo(port) == pod.UID {
			held = append(held, port)
		}
	}
	return held
}

// TestBindingsHoldForAll carries out plan after plan, until there is nothing to do, and holds each.
func TestBindingsHoldForAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := drawnBindings(t)
		for range 6 {
			p := newPlan(o)
			holdBindings(t, o, p)
			next := applied(o, p)
			next.ports = slices.DeleteFunc(next.ports, func(port *cloudteamv1.NetworkPort) bool { return next.deleted[port.UID] })
			for _, b := range p.release {
				next.setBinding(b.port, nil)
			}
			next.borrowed = slices.DeleteFunc(next.borrowed, func(port *cloudteamv1.NetworkPort) bool {
				return !slices.ContainsFunc(next.pods, func(pod *corev1.Pod) bool { return consumer.Has(pod, port) })
			})
			o.taken = func(name string) bool {
				return takenBy(next)(name) ||
					slices.ContainsFunc(o.left, func(p *cloudteamv1.NetworkPort) bool { return p.Name == name })
			}
			next.taken = o.taken
			o = seen(next)
		}
		if p := newPlan(o); len(p.bind)+len(p.release)+len(p.create)+len(p.remove) > 0 {
			create, remove := named(p)
			t.Fatalf("it does not converge: it still binds %d, releases %d, creates %v and deletes %v", len(p.bind),
				len(p.release), create, remove)
		}
		holdThatNoneWaits(t, o)
	})
}

// holdThatNoneWaits holds that no Pod waits for what the free ports could serve.
func holdThatNoneWaits(t *rapid.T, o observed) {
	free := map[consumer.Request]int{}
	for _, port := range o.ports {
		if port.Status.BoundTo == nil && port.DeletionTimestamp == nil && consumer.StateOf(port) == consumer.PortUsable &&
			len(o.givenTo(port)) == 0 && o.rival(port) == nil {
			free[consumer.ServedBy(port)]++
		}
	}
	for _, pod := range o.pods {
		d := o.declarationOf(pod)
		held := heldBy(o, pod)
		if !waits(pod) || d.Invalid != nil || d.Missing != nil || consumer.AsGiven(d.Requests, held) != nil {
			continue
		}
		lacks, short := map[consumer.Request]int{}, false
		for _, request := range lacking(d.Requests, held) {
			lacks[request]++
			short = short || lacks[request] > free[request]
		}
		if len(lacks) > 0 && !short {
			t.Errorf("Pod %s waits for %v while %v are free", pod.Name, lacks, free)
		}
	}
}

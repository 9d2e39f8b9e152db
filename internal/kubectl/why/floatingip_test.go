package why

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// floatingIP is a FloatingIP that names the NetworkPort web-a, with the reason.
func floatingIP(
	name string, status metav1.ConditionStatus, reason string, edits ...func(*cloudteamv1.FloatingIP),
) *cloudteamv1.FloatingIP {
	f := &cloudteamv1.FloatingIP{ObjectMeta: named(name)}
	f.Spec.ExternalNetwork, f.Spec.PortName = "public", "web-a"
	f.Status.FloatingIPID, f.Status.Address = "id-of-"+name, "203.0.113.20"
	f.Status.Conditions = []metav1.Condition{condition("Ready", status, reason)}
	for _, edit := range edits {
		edit(f)
	}
	return f
}

func floatingIPQuestions() (all []question) {
	add := func(more ...question) { all = append(all, more...) }
	leads := func(f *cloudteamv1.FloatingIP) { f.Status.PortID, f.Status.PortAddress = "p0", "192.168.0.7" }
	exists := func(p *cloudteamv1.NetworkPort) { p.Status.PortID = "p0" }
	nowhere := func(f *cloudteamv1.FloatingIP) { f.Spec.PortName = "" }
	bare := func(f *cloudteamv1.FloatingIP) { f.Status.FloatingIPID, f.Status.Address = "", "" }
	add(question{reason: "Available", ask: "FloatingIP web", objects: on(floatingIP("web", "True", "Available", leads)),
		remedy: "203.0.113.20 is associated with 192.168.0.7 of NetworkPort web-a"})
	add(question{reason: "Available", ask: "FloatingIP web", objects: on(floatingIP("web", "True", "Available", nowhere)),
		remedy: "spec.portName names no NetworkPort"})
	add(question{reason: "Available", ask: "FloatingIP web",
		objects: on(floatingIP("web", "True", "Available", nowhere, func(f *cloudteamv1.FloatingIP) {
			f.OwnerReferences = ownedBy("Service", "v1", "web")
		})),
		remedy: "kubectl network why service/web -n shop"})
	add(question{reason: "Planned", ask: "FloatingIP web", objects: on(floatingIP("web", "True", "Planned", bare)),
		remedy: "the FloatingIP is Ready (Planned)"})
	add(caused("FloatingIP shop/web Paused", "", floatingIP("web", "True", "Paused", leads)))
	add(caused("FloatingIP shop/web QuotaExceeded", "", floatingIP("web", "False", "QuotaExceeded", bare)))

	// Its port.
	waits := floatingIP("web", "False", "PortNotReady")
	add(caused("FloatingIP shop/web PortNotReady > NetworkPort shop/web-a NotFound", "Create it", waits))
	add(caused("FloatingIP shop/web PortNotReady > NetworkPort shop/web-a NetworkNotReady > "+
		"Network shop/frontend QuotaExceeded",
		"", // what its port waits for
		waits, port("web-a", "False", "NetworkNotReady"), network("False", "QuotaExceeded")))
	add(caused("FloatingIP shop/web PortNotReady > NetworkPort shop/web-a Deleting", "end of the deletion",
		waits, good(), port("web-a", "True", "Available", exists, func(p *cloudteamv1.NetworkPort) {
			p.DeletionTimestamp, p.Finalizers = new(metav1.NewTime(now)), []string{"x"}
		})))
	// The port has come meanwhile.
	add(caused("FloatingIP shop/web PortNotReady", "",
		waits, good(), port("web-a", "True", "Available", exists)))
	unapplied := floatingIP("web", "False", "NetworkNotReady")
	add(caused("FloatingIP shop/web NetworkNotReady > Network shop/frontend ForbiddenByClass", "",
		unapplied, network("False", "ForbiddenByClass"), port("web-a", "True", "Available", exists)))
	add(caused("FloatingIP shop/web NetworkNotReady > Network shop/frontend NotFound", "Create it",
		unapplied, port("web-a", "True", "Available", exists)))

	// Classes: its own one, and that of the port's Network.
	ofClass := func(f *cloudteamv1.FloatingIP) { f.Spec.ClassName = "team-b" }
	add(caused("FloatingIP shop/web ForbiddenByClass > NetworkClass team-b Class", "",
		floatingIP("web", "False", "ForbiddenByClass", ofClass, bare), aClass()))
	add(caused("FloatingIP shop/web ForbiddenByClass > NetworkClass team-b Class", "",
		floatingIP("web", "False", "ForbiddenByClass"), port("web-a", "True", "Available", exists),
		network("True", "Available", withClass("team-b")), aClass()))
	add(question{reason: "ForbiddenByClass", ask: "FloatingIP web", // of one that is kept
		objects: on(floatingIP("web", "True", "Available", leads, func(f *cloudteamv1.FloatingIP) {
			f.Status.Conditions = append(f.Status.Conditions, condition("ClassViolated", "True", "ForbiddenByClass"))
		})),
		remedy: "is associated with 192.168.0.7", warning: "ForbiddenByClass"})
	add(caused("FloatingIP shop/web ClassNotFound > NetworkClass team-b NotFound", "Create it",
		floatingIP("web", "False", "ClassNotFound", ofClass, bare)))
	add(question{reason: "ClassLimitReached", ask: "FloatingIP web",
		objects: on(floatingIP("web", "False", "ClassLimitReached", ofClass, bare), aClass(
			func(c *cloudteamv1.NetworkClass) {
				c.Spec.Limits = &cloudteamv1.ClassLimits{FloatingIPsPerNamespace: new(int32(2))}
			})),
		chain: "FloatingIP shop/web ClassLimitReached > NetworkClass team-b Class",
		says:  "At most 2 FloatingIPs in a namespace."})
	add(caused("FloatingIP shop/web CredentialsRejected > Secret shop/openstack Credentials", "Correct the password",
		floatingIP("web", "False", "CredentialsRejected", func(f *cloudteamv1.FloatingIP) {
			f.Spec.Cloud = &cloudteamv1.CloudReference{SecretName: "openstack"}
		})))

	// Neutron's refusals.
	add(caused("FloatingIP shop/web AddressesExhausted", "",
		floatingIP("web", "False", "AddressesExhausted", bare)))
	add(question{reason: "Rejected", ask: "FloatingIP web",
		objects: on(good(), port("web-a", "True", "Available", exists),
			floatingIP("web", "False", "Rejected", func(f *cloudteamv1.FloatingIP) {
				f.Status.Conditions[0].Message = "no router leads there (ExternalGatewayForFloatingIPNotFound)"
			})),
		chain:  "FloatingIP shop/web Rejected > Network shop/frontend NoRouter",
		says:   "It has no spec.router. The floating IP needs a router to external network public.",
		remedy: "or spec.portName of the FloatingIP"})
	add(caused("FloatingIP shop/web Rejected", "", floatingIP("web", "False", "Rejected", bare)))
	taken := floatingIP("web", "False", "AddressInUse")
	own := func(p *cloudteamv1.NetworkPort) {
		exists(p)
		p.Status.FloatingIP = &cloudteamv1.PortFloatingIPStatus{ID: "5d0c", Address: "203.0.113.9"}
	}
	add(question{reason: "Available", ask: "NetworkPort web-a", objects: on(good(), port("web-a", "True", "Available", own)),
		remedy: "and the floating IP 203.0.113.9"})
	add(caused("FloatingIP shop/web AddressInUse > NetworkPort shop/web-a HasFloatingIP", "Remove spec.floatingIP here",
		taken, port("web-a", "True", "Available", own)))
	add(caused("FloatingIP shop/web AddressInUse > FloatingIP shop/blog HasFloatingIP",
		"Name another NetworkPort in spec.portName here",
		taken, port("web-a", "True", "Available", exists), floatingIP("blog", "True", "Available", leads)))
	add(caused("FloatingIP shop/web AddressInUse", "", // somebody else's
		taken, port("web-a", "True", "Available", exists)))
	add(caused("NetworkPort shop/web-a AddressInUse > NetworkPort shop/web-a FloatingIPTaken > "+
		"FloatingIP shop/blog HasFloatingIP",
		"If a Service made it", // a port that asks for one by its own spec
		good(), floatingIP("blog", "True", "Available", leads),
		port("web-a", "False", "AddressInUse", exists, func(p *cloudteamv1.NetworkPort) {
			p.Spec.FloatingIP = &cloudteamv1.PortFloatingIP{ExternalNetwork: "public"}
		})))

	// A router that cannot go. Another one's id is longer.
	keeps := func(n *cloudteamv1.Network) {
		n.Status.Conditions[0].Message = "update router gateway: in use by floating IP 203.0.113.20 (id-of-web). Retrying."
	}
	add(question{reason: "InUse", ask: "Network frontend",
		objects: on(network("False", "InUse", keeps), port("web-a", "True", "Available", exists),
			floatingIP("w", "True", "Available"), floatingIP("web-2", "True", "Available"),
			floatingIP("web", "True", "Available", leads)),
		chain: "Network shop/frontend InUse > FloatingIP shop/web HasFloatingIP", says: "203.0.113.20 needs the router",
		remedy: "Name another NetworkPort"})
	add(caused("Network shop/frontend InUse > FloatingIP shop/web HasFloatingIP",
		"Name another NetworkPort", // of a port on another Network behind the router
		network("False", "InUse", keeps, func(n *cloudteamv1.Network) {
			n.DeletionTimestamp, n.Finalizers = new(metav1.NewTime(now)), []string{"x"}
		}), floatingIP("web", "True", "Available", leads)))
	return all
}

func TestAFloatingIPThatNobodyHasSeenLeadsToTheController(t *testing.T) {
	f := floatingIP("web", "True", "Available")
	f.Status.Conditions = nil
	question{ask: "FloatingIP web", chain: "FloatingIP shop/web NotSeen", remedy: "Wait some seconds"}.check(t, clusterOf(f))
}

func TestWhereTheRouterOfANetworkLeads(t *testing.T) {
	for want, router := range map[string]*cloudteamv1.RouterSpec{
		"It has no spec.router.": nil, "Its spec.router has no externalNetwork.": {},
		"Its router is the existing r1.":                      {Existing: "r1"},
		"Its router has a gateway on external network other.": {ExternalNetwork: "other"},
	} {
		n := good()
		n.Spec.Router = router
		expect.Equal(t, want+" The floating IP needs a router to external network public.", routerOf(n, "public").Message,
			"what is said of router %+v", router)
	}
}

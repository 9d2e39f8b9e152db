package floatingip

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestWhatMattersToFloatingIPs(t *testing.T) {
	port := &cloudteamv1.NetworkPort{}
	port.Status.Addresses = []cloudteamv1.PortAddress{{Address: "10.0.0.5/24"}}
	type ports = controllertest.Edits[*cloudteamv1.NetworkPort]
	controllertest.WantSame(t, samePort, port, ports{
		"the port":        func(p *cloudteamv1.NetworkPort) { p.Status.PortID = "port-1" },
		"the deletion":    func(p *cloudteamv1.NetworkPort) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} },
		"an address":      func(p *cloudteamv1.NetworkPort) { p.Status.Addresses[0].Address = "10.0.0.6/24" },
		"its floating IP": func(p *cloudteamv1.NetworkPort) { p.Status.FloatingIP = &cloudteamv1.PortFloatingIPStatus{ID: "f1"} },
		"the cloud":       func(p *cloudteamv1.NetworkPort) { p.Status.Cloud = &cloudteamv1.CloudStatus{} },
	}, ports{
		"conditions": func(p *cloudteamv1.NetworkPort) { p.Status.Conditions = []metav1.Condition{{}} },
	})

	isReady := controller.SetState(nil, 1, controller.Ready(cloudteamv1.ReasonAvailable, ""))
	type networks = controllertest.Edits[*cloudteamv1.Network]
	controllertest.WantSame(t, sameNetwork, network(), networks{
		"the spec":             func(n *cloudteamv1.Network) { n.Generation++ },
		"what is applied":      func(n *cloudteamv1.Network) { n.Status.AppliedGeneration++ },
		"whether it is served": func(n *cloudteamv1.Network) { n.Status.Conditions = isReady },
		"the class":            func(n *cloudteamv1.Network) { n.Status.Class = &cloudteamv1.AppliedClass{Name: "a"} },
		"the cloud":            func(n *cloudteamv1.Network) { n.Status.Cloud = &cloudteamv1.CloudStatus{} },
		"whose cloud it is":    func(n *cloudteamv1.Network) { n.Status.Credentials = &cloudteamv1.CredentialsStatus{} },
		"a subnet":             func(n *cloudteamv1.Network) { n.Status.Subnets[0].ID = "sub-2" },
	}, networks{
		"how many addresses are used": func(n *cloudteamv1.Network) { n.Status.Subnets[0].UsedAddresses = new(int64(7)) },
	})

	type floats = controllertest.Edits[*cloudteamv1.FloatingIP]
	controllertest.WantSame(t, sameLead, public("web-0"), floats{
		"its port": func(f *cloudteamv1.FloatingIP) { f.Status.PortID = "port-1" },
	}, floats{
		"conditions": func(f *cloudteamv1.FloatingIP) { f.Status.Conditions = []metav1.Condition{{}} },
	})
}

func TestAFloatingIPWaitsForAPortThatAnotherHas(t *testing.T) {
	waiting := public("web-0")
	waiting.Status.ExternalNetworkID = "ext-1"
	expect.Equal(t, "", wants(waiting), "what one waits for that has no status")
	waiting.Status.Conditions = controller.SetState(nil, 1, controller.Ready(cloudteamv1.ReasonAvailable, ""))
	expect.Equal(t, "", wants(waiting), "what one waits for that is Ready")
	waiting.Status.Conditions = controller.SetState(nil, 1, controller.Reconciling(cloudteamv1.ReasonAddressInUse, ""))
	expect.Equal(t, "team/web-0=ext-1", wants(waiting), "what it waits for")
	waiting.Spec.PortName = ""
	expect.Equal(t, "", wants(waiting), "what one waits for that names no port: its own address is in use")
}

// TestRivalsAreOfOneNetworkAndNamespace holds which FloatingIPs that lead to a port keep another one from it.
func TestRivalsAreOfOneNetworkAndNamespace(t *testing.T) {
	for what, test := range map[string]struct {
		edit  func(obj, other *cloudteamv1.FloatingIP)
		rival bool
	}{
		"of the same name of a network": {func(_, _ *cloudteamv1.FloatingIP) {}, true},
		"of the same network by its id": {func(obj, other *cloudteamv1.FloatingIP) {
			other.Spec.ExternalNetwork, obj.Status.ExternalNetworkID, other.Status.ExternalNetworkID = "ext-1", "ext-1", "ext-1"
		}, true},
		"of another network": {func(obj, other *cloudteamv1.FloatingIP) {
			other.Spec.ExternalNetwork, obj.Status.ExternalNetworkID, other.Status.ExternalNetworkID = "b", "ext-1", "ext-2"
		}, false},
		"of another name, and neither is found": {func(_, other *cloudteamv1.FloatingIP) {
			other.Spec.ExternalNetwork = "b"
		}, false},
		"of another namespace": {func(_, other *cloudteamv1.FloatingIP) { other.Namespace = "others" }, false},
		"itself":               {func(obj, other *cloudteamv1.FloatingIP) { other.UID = obj.UID }, false},
	} {
		obj, other := public("web-0"), public("web-0")
		other.Name, other.UID, other.Status.PortID = "other", "uid-other", "port-1"
		test.edit(obj, other)
		informer := cache.NewSharedIndexInformer(nil, other, 0, cache.Indexers{})
		expect.NoError(t, controller.IndexFloatingIPs(informer))
		k := &kind{floating: informer.GetIndexer()}
		expect.NoError(t, k.floating.Add(other))
		port := &cloudteamv1.NetworkPort{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web-0"}}
		port.Status.PortID = "port-1"
		want := ""
		if test.rival {
			want = "other"
		}
		expect.Equal(t, want, k.rival(obj, port), "the rival that is %s", what)
	}
}

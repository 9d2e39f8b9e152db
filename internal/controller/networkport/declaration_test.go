package networkport

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/declare"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	listers "cloudteam.ztgame.com/network-controller/pkg/client/listers/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

var owner = plan.Owner{Cluster: "c1", Object: "uid-1"}

// exampleNetwork is a Network that is Ready.
func exampleNetwork() *cloudteamv1.Network {
	n := &cloudteamv1.Network{}
	n.Namespace, n.Name, n.UID, n.Generation = "team", "example-network", "net-uid", 1
	n.Spec.CIDR, n.Spec.Gateway = "192.168.0.0/16", "192.168.0.1"
	n.Status.NetworkID, n.Status.MTU, n.Status.AppliedGeneration = "net-1", 1450, 1
	n.Status.Subnets = []cloudteamv1.SubnetStatus{{ID: "sub-1", CIDR: "192.168.0.0/16", Gateway: "192.168.0.1"}}
	n.Status.Conditions = controller.SetState(nil, 1, controller.Ready("Available", "The network is as declared"))
	return n
}

// example is a NetworkPort on the example.
func example() *cloudteamv1.NetworkPort {
	port := &cloudteamv1.NetworkPort{}
	port.Namespace, port.Name, port.UID, port.Generation = "team", "web-0", "uid-1", 1
	port.Spec.NetworkName = "example-network"
	return port
}

// with gives a Network another subnet in Neutron, and in its spec if that declares it.
func with(n *cloudteamv1.Network, cidr, id string, declared bool) {
	if declared {
		n.Spec.AdditionalSubnets = append(n.Spec.AdditionalSubnets, cloudteamv1.SubnetSpec{CIDR: cidr})
	}
	n.Status.Subnets = append(n.Status.Subnets, cloudteamv1.SubnetStatus{
		ID: id, CIDR: netip.MustParsePrefix(cidr).String(), Gateway: cloudteamv1.GatewayNone,
	})
}

func at(address string) plan.PortAddress {
	a := plan.PortAddress{SubnetID: "sub-1"}
	if address != "" {
		a.Address = netip.MustParseAddr(address)
	}
	return a
}

func TestDeclare(t *testing.T) {
	asBefore := func(p *cloudteamv1.NetworkPort) {
		p.Status.PortID, p.Status.MAC = "port-1", "fa:16:3e:00:00:07"
		p.Status.Addresses = []cloudteamv1.PortAddress{{Address: "192.168.0.7/16", SubnetID: "sub-1"}}
	}
	spec := func(change func(*plan.PortSpec)) *plan.PortSpec {
		s := &plan.PortSpec{Owner: owner, Name: "web-0", NetworkID: "net-1", Addresses: []plan.PortAddress{at("")}}
		if change != nil {
			change(s)
		}
		return s
	}
	for name, c := range map[string]struct {
		network func(*cloudteamv1.Network) // nil: there is none
		port    func(*cloudteamv1.NetworkPort)
		want    *plan.PortSpec
		reason  string // of what is waited for; InvalidSpec for a spec that cannot be
		says    string
	}{
		"a floating IP is of the network that the name meant when it was applied": {
			network: func(*cloudteamv1.Network) {},
			port: func(p *cloudteamv1.NetworkPort) {
				p.Spec.FloatingIP = &cloudteamv1.PortFloatingIP{ExternalNetwork: "public"}
				p.Status.FloatingIP, p.Status.AppliedGeneration = &cloudteamv1.PortFloatingIPStatus{ExternalNetworkID: "net-9"}, 1
			},
			want: spec(func(s *plan.PortSpec) { s.FloatingNetwork = "net-9" }),
		},
		"after an edit, a floating IP is of the network that the name means": {
			// No class judges ports of a Network with a cloud of its own.
			network: func(n *cloudteamv1.Network) { n.Spec.Cloud = &cloudteamv1.CloudReference{} },
			port: func(p *cloudteamv1.NetworkPort) {
				p.Generation, p.Spec.FloatingIP = 2, &cloudteamv1.PortFloatingIP{ExternalNetwork: "public"}
				p.Status.FloatingIP, p.Status.AppliedGeneration = &cloudteamv1.PortFloatingIPStatus{ExternalNetworkID: "net-9"}, 1
			},
			want: spec(func(s *plan.PortSpec) { s.FloatingNetwork = "public" }),
		},
		"a port that says nothing gets an address of the Network's subnet": {
			network: func(*cloudteamv1.Network) {}, want: spec(nil),
		},
		"an address outside the Network is refused with its range": {
			network: func(*cloudteamv1.Network) {},
			port:    func(p *cloudteamv1.NetworkPort) { p.Spec.Addresses = []string{"10.0.0.5"} },
			reason:  cloudteamv1.ReasonInvalidSpec, says: "10.0.0.5 is not inside 192.168.0.0/16 of Network team/example-network",
		},
		"where all subnets are kept for others, one for it is waited for": {
			network: func(n *cloudteamv1.Network) {
				with(n, "fd00::/64", "sub-2", true)
				n.Status.Subnets[1].IPv6RAMode = cloudteamv1.IPv6ModeSLAAC
				for i := range n.Status.Subnets {
					n.Status.Subnets[i].ServiceTypes = []string{"compute:nova"}
				}
			},
			reason: cloudteamv1.ReasonNetworkNotReady,
			says:   "it keeps 192.168.0.0/16, fd00::/64 for others by its serviceTypes",
		},
		"a Network whose declared subnets are not there is waited for": {
			network: func(n *cloudteamv1.Network) {
				n.Status.Subnets = nil
				with(n, "fd00::/64", "sub-2", false)
			},
			reason: cloudteamv1.ReasonNetworkNotReady, says: "has no subnet in Neutron that an address could come from",
		},
		"a Network that waits for a subnet in use to go serves all the same": {
			network: func(n *cloudteamv1.Network) {
				n.Status.Conditions = controller.SetState(nil, 1, controller.Reconciling("InUse", "delete subnet fd00::/64"))
			},
			want: spec(nil),
		},
		"a Network that does not exist is waited for": {
			reason: cloudteamv1.ReasonNetworkNotReady, says: "Network team/example-network does not exist",
		},
		"a Network that is not Ready is waited for": {
			network: func(n *cloudteamv1.Network) {
				n.Status.Conditions = controller.SetState(nil, 1, controller.Reconciling("CloudUnavailable", "down"))
			},
			reason: cloudteamv1.ReasonNetworkNotReady, says: "team/example-network is not Ready",
		},
		"on a Network that goes nothing is made": {
			network: func(n *cloudteamv1.Network) { n.DeletionTimestamp = new(metav1.Now()) },
			reason:  cloudteamv1.ReasonNetworkNotReady, says: "is being deleted",
		},
		"a port that exists stays as declared while its Network is not Ready": {
			network: func(n *cloudteamv1.Network) { n.Status.Conditions = nil },
			port:    asBefore, want: spec(nil),
		},
		"a port that exists stays as declared while its Network waits for it to go": {
			network: func(n *cloudteamv1.Network) { n.DeletionTimestamp = new(metav1.Now()) },
			port:    asBefore, want: spec(nil),
		},
		"a port that exists stays when its namespace is allowed no more": {
			network: func(*cloudteamv1.Network) {},
			port: func(p *cloudteamv1.NetworkPort) {
				asBefore(p)
				p.Namespace, p.Spec.NetworkNamespace = "other", "team"
			},
			want: spec(nil),
		},
		"a Network that has left Neutron is waited for, by ports that exist too": {
			network: func(n *cloudteamv1.Network) { n.Status.NetworkID, n.Status.Subnets = "", nil },
			port:    asBefore,
			reason:  cloudteamv1.ReasonNetworkNotReady, says: "has no subnet in Neutron yet",
		},
		"a Network of another namespace is refused": {
			network: func(*cloudteamv1.Network) {},
			port:    func(p *cloudteamv1.NetworkPort) { p.Namespace, p.Spec.NetworkNamespace = "other", "team" },
			reason:  cloudteamv1.ReasonNamespaceNotAllowed, says: "spec.allowedNamespaces",
		},
		"a Network that allows the namespace is used": {
			network: func(n *cloudteamv1.Network) { n.Spec.AllowedNamespaces = []string{"third", "other"} },
			port:    func(p *cloudteamv1.NetworkPort) { p.Namespace, p.Spec.NetworkNamespace = "other", "team" },
			want:    spec(nil),
		},
		"a Network that allows all namespaces is used": {
			network: func(n *cloudteamv1.Network) { n.Spec.AllowedNamespaces = []string{"*"} },
			port:    func(p *cloudteamv1.NetworkPort) { p.Namespace, p.Spec.NetworkNamespace = "other", "team" },
			want:    spec(nil),
		},
	} {
		t.Run(name, func(t *testing.T) {
			indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
			if c.network != nil {
				n := exampleNetwork()
				c.network(n)
				expect.NoError(t, indexer.Add(n))
			}
			port := example()
			if c.port != nil {
				c.port(port)
			}
			got, err := declarationOf(listers.NewNetworkLister(indexer), nil, nil, limits{}, port, owner)
			if c.want == nil {
				reason := cloudteamv1.ReasonInvalidSpec
				if waiting, ok := errors.AsType[*managed.Problem](err); ok {
					reason = waiting.State.Reason
				}
				if err == nil || reason != c.reason || !strings.Contains(err.Error(), c.says) {
					t.Errorf("error %v (%s), want %s that says %q", err, reason, c.reason, c.says)
				}
				return
			}
			expect.NoError(t, err)
			compare := cmpopts.EquateComparable(netip.Addr{})
			expect.EqualWith(t, cmp.Options{compare}, *c.want, got.(declaration).PortSpec, "spec")
		})
	}
}

func TestShow(t *testing.T) {
	declared := declaration{
		Port: declare.Port{
			PortSpec: plan.PortSpec{Owner: owner, NetworkID: "net-1"},
			Subnets: []declare.PortSubnet{
				{ID: "sub-1", CIDR: netip.MustParsePrefix("192.168.0.0/16"), Gateway: "192.168.0.1"},
				{ID: "sub-2", CIDR: netip.MustParsePrefix("fd00::/64"), Gateway: cloudteamv1.GatewayNone},
			},
		},
		mtu: 1450,
	}
	observed := plan.Observed{Ports: []plan.ObservedPort{{
		ID: "port-1", NetworkID: "net-1", PortAttributes: plan.PortAttributes{
			MAC: "fa:16:3e:00:00:07", Addresses: []plan.PortAddress{
				at("192.168.0.7"), {SubnetID: "sub-2", Address: netip.MustParseAddr("fd00::7")},
				{SubnetID: "of others", Address: netip.MustParseAddr("10.0.0.7")},
			},
		},
	}}}
	shown := cloudteamv1.NetworkPortStatus{
		PortID: "port-1", MAC: "fa:16:3e:00:00:07", MTU: 1450,
		Addresses: []cloudteamv1.PortAddress{
			{Address: "192.168.0.7/16", Gateway: "192.168.0.1", SubnetID: "sub-1"},
			{Address: "fd00::7/64", SubnetID: "sub-2"},
		},
	}
	// Of the Network's subnets, its status shows the first no longer.
	fewer := declared
	fewer.Subnets = declared.Subnets[1:]
	bound := func(status cloudteamv1.NetworkPortStatus) cloudteamv1.NetworkPortStatus {
		status.BoundTo = &cloudteamv1.PortBinding{Kind: "Pod", Name: "web-x", UID: "pod-1"}
		return status
	}
	for name, c := range map[string]struct {
		was      cloudteamv1.NetworkPortStatus
		declared managed.Declaration
		observed plan.Observed
		want     cloudteamv1.NetworkPortStatus
	}{
		"a port is shown with its subnets' prefixes and gateways, and not with addresses of others' subnets": {
			declared: declared, observed: observed, want: shown,
		},
		"an address stays in a subnet that the Network shows no longer": {
			was: shown, declared: fewer, observed: observed, want: shown,
		},
		"an address in a subnet that the Network does not show yet is not shown": {
			declared: fewer, observed: observed, want: cloudteamv1.NetworkPortStatus{
				PortID: shown.PortID, MAC: shown.MAC, MTU: shown.MTU, Addresses: shown.Addresses[1:],
			},
		},
		"of a port that is gone nothing is shown": {
			was: shown, declared: declared, want: cloudteamv1.NetworkPortStatus{},
		},
		"of a port that is gone and in use, the addresses that come back stay": {
			was: bound(shown), declared: declared,
			want: bound(cloudteamv1.NetworkPortStatus{MAC: shown.MAC, Addresses: shown.Addresses}),
		},
		"what is being deleted is shown until it is gone": {
			was: shown, observed: plan.Observed{}, want: shown,
		},
	} {
		t.Run(name, func(t *testing.T) {
			port := example()
			port.Status = *c.was.DeepCopy()
			if c.declared == nil {
				port.DeletionTimestamp = new(metav1.Now())
			}
			show(port, c.declared, c.observed)
			expect.Equal(t, c.want, port.Status, "status")
		})
	}
	port := example()
	port.Status = bound(shown)
	expect.Equal(t, shown, statusToWrite(port), "what is written")
	expect.Contains(t, inUse(port), `In use by Pod "web-x".`, "how it is in use")
	port.Status.BoundTo = nil
	port.Status.Attachment = &cloudteamv1.PortAttachment{Node: "node1", Mode: cloudteamv1.AttachmentTrunk}
	if got := inUse(port); !strings.Contains(got, "trunk of node node1") {
		t.Errorf("in a trunk, which Neutron does not delete a port from: %q", got)
	}
}

// Nobody finds out by the condition of a port which Networks another namespace has.
func TestANetworkThatIsNotAllowedReadsAsOneThatDoesNotExist(t *testing.T) {
	stranger := func(change func(*cloudteamv1.NetworkPort)) *cloudteamv1.NetworkPort {
		port := example()
		port.Namespace, port.Spec.NetworkNamespace = "other", "team"
		change(port)
		return port
	}
	for name, port := range map[string]*cloudteamv1.NetworkPort{
		"a new one": stranger(func(*cloudteamv1.NetworkPort) {}),
		"one that exists, of which the Network's name is another's now": stranger(func(p *cloudteamv1.NetworkPort) {
			p.Status.PortID = "port-1"
		}),
		"one that is bound": stranger(func(p *cloudteamv1.NetworkPort) {
			p.Status.BoundTo = &cloudteamv1.PortBinding{Kind: "Pod", Name: "web", UID: "web"}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			told := func(networks ...*cloudteamv1.Network) controller.State {
				indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
				for _, n := range networks {
					expect.NoError(t, indexer.Add(n))
				}
				_, err := declarationOf(listers.NewNetworkLister(indexer), nil, nil, limits{}, port, owner)
				problem, ok := errors.AsType[*managed.Problem](err)
				if !ok {
					t.Fatalf("error %v", err)
				}
				return problem.State
			}
			none, empty := told(), exampleNetwork()
			empty.Status = cloudteamv1.NetworkStatus{}
			expect.Equal(t, none, told(empty), "a Network that is not in Neutron yet")
			if port.Status.PortID == "" && port.Status.BoundTo == nil {
				expect.Equal(t, none, told(exampleNetwork()), "a Network that is Ready")
			}
			if none.Reason != cloudteamv1.ReasonNamespaceNotAllowed ||
				!strings.Contains(none.Message, "does not exist or does not allow namespace other") {
				t.Errorf("it says %s: %s", none.Reason, none.Message)
			}
		})
	}
}

// Who names a Network before it is made, and writes the finalizer, takes none of the places that its class allows. When
// it is made, nothing changes for their ports: no event would tell.
func TestPortsOfStrangersTakeNoPlace(t *testing.T) {
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	room := roomOn(listers.NewNetworkLister(indexer), nil)
	barred := func(when, namespace string, want bool) {
		t.Helper()
		port := example()
		port.Namespace, port.Spec.NetworkNamespace = namespace, "team"
		expect.Equal(t, want, room.Barred(port), "%s, a port of %s is barred", when, namespace)
	}
	barred("without the Network", "team", false)
	barred("without the Network", "stranger", true)
	network := exampleNetwork()
	network.Spec.AllowedNamespaces = []string{"friend"}
	expect.NoError(t, indexer.Add(network))
	barred("with it", "team", false)
	barred("with it", "friend", false)
	barred("with it", "stranger", true)
}

package networkport

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestAPortIsCreatedBehindItsFinalizerAndThenLeftAlone(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Calls.Want(t, "write finalizers", "list", "apply create port", "write status")
		expect.Equal(t, []string{"Normal Created Created port port-1"}, w.Events.Take(), "Events")
		w.WantState("Ready=True Available")
		expect.Equal(t, []string{cloudteamv1.PortFinalizer}, w.Get().Finalizers, "finalizers")
		made := w.Neutron.Ports()[0]
		want := cloudteamv1.NetworkPortStatus{
			ResourceStatus: cloudteamv1.ResourceStatus{
				ObservedGeneration: 1, AppliedGeneration: 1,
				Cloud: &cloudteamv1.CloudStatus{Endpoint: here.Endpoint, Region: here.Region, ProjectID: here.ProjectID},
			},
			PortID: "port-1", MAC: made.MAC, MTU: 1450,
			Addresses: []cloudteamv1.PortAddress{
				{Address: made.Addresses[0].Address.String() + "/16", Gateway: "192.168.0.1", SubnetID: "sub-1"},
			},
			SecurityGroupIDs: []string{"sg-default"},
		}
		ignore := cmpopts.IgnoreFields(cloudteamv1.ResourceStatus{}, "Conditions")
		expect.EqualWith(t, cmp.Options{ignore}, want, w.Get().Status, "status")

		before := w.Get()
		for range 3 {
			w.c.EnqueueIn(managed.CloudRef{})
			w.settle()
		}
		controllertest.Settle(time.Hour)
		w.Calls.Want(t)
		w.Events.WantReasons(t)
		expect.Equal(t, before, w.Get(), "syncs of an unchanged object changed it")
	}, exampleNetwork(), example())
}

func TestAPortWaitsForItsNetworkWithoutACall(t *testing.T) {
	for name, c := range map[string]struct {
		network *cloudteamv1.Network // nil: there is none
		comes   func(w *world)
	}{
		"that does not exist": {nil, func(w *world) { w.API.Create(w.T, exampleNetwork()) }},
		"that is not Ready": {of(exampleNetwork(), notReady), func(w *world) {
			w.editNetwork(ready)
		}},
		"of which the cache has a part": {
			of(exampleNetwork(), func(n *cloudteamv1.Network) {
				n.Annotations = map[string]string{controller.AnnotationTooLarge: ""}
			}),
			func(w *world) {
				w.editNetwork(func(n *cloudteamv1.Network) { n.Annotations, n.Spec.Tags = nil, []string{"whole"} })
			}},
		"that is Ready before its subnet is told": {
			of(exampleNetwork(), func(n *cloudteamv1.Network) { n.Status.Subnets = nil }),
			func(w *world) {
				w.editNetwork(func(n *cloudteamv1.Network) { n.Status.Subnets = exampleNetwork().Status.Subnets })
			}},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []controllertest.Object{example()}
			if c.network != nil {
				objects = append(objects, c.network)
			}
			inWorld(t, func(t *testing.T, w *world) {
				w.WantState("Ready=False Reconciling=True NetworkNotReady")
				w.Calls.Want(t, "write status")
				w.Events.WantReasons(t)
				controllertest.Settle(time.Hour)
				w.Calls.Want(t)
				expect.Empty(t, w.Get().Finalizers, "finalizers although nothing was made")

				c.comes(w)
				w.settle()
				w.WantState("Ready=True Available")
				w.Calls.Want(t, "write finalizers", "list", "apply create port", "write status")
			}, objects...)
		})
	}
}

// anew makes the example's Network one that has another network in Neutron.
func (w *world) anew() {
	w.T.Helper()
	w.Neutron.Put(cloudNetwork("net-2", "sub-2"))
	w.editNetwork(func(n *cloudteamv1.Network) {
		n.UID, n.Status.NetworkID, n.Status.Subnets[0].ID = "net-uid-2", "net-2", "sub-2"
	})
}

func TestAPortOnAnotherNetworkThanTheDeclaredOneIsReplaced(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Quiet()
		w.anew()
		w.Calls.Want(t, "reread network net-2", "apply delete port", "apply create port", "write status")
		w.Events.WantReasons(t, "Normal DriftCorrected")
		w.WantState("Ready=True Available")
		w.wantPorts(w.Get().Status.PortID)
		expect.Equal(t, "net-2", w.Neutron.Ports()[0].NetworkID, "the port's network")
		expect.Equal(t, "sub-2", w.Get().Status.Addresses[0].SubnetID, "the subnet in the status")
	}, exampleNetwork(), example())
}

func TestABoundPortIsNotDeletedForAnother(t *testing.T) {
	for name, c := range map[string]struct {
		other func(w *world)
		// while is the state while it is bound, then what is left in Neutron when it is released.
		while, then string
	}{
		"on the network that is now its Network's": {
			(*world).anew, "Ready=False Reconciling=True InUse", "port-2"},
		"that is older": {func(w *world) {
			older := w.Neutron.Ports()[0]
			older.ID, older.Created = "older", older.Created.Add(-time.Hour)
			older.Addresses, older.MAC = []plan.PortAddress{at("192.168.0.77")}, "fa:16:3e:00:00:77"
			w.Neutron.PutPort(older)
			w.audit()
		}, "Ready=True Available", "port-1"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.bind(pod)
				was := w.Get().Status
				c.other(w)
				w.WantState(c.while)
				ignore := cmpopts.IgnoreFields(cloudteamv1.ResourceStatus{}, "Conditions")
				expect.EqualWith(t, cmp.Options{ignore}, was, w.Get().Status, "status")
				w.wantPorts("port-1")
				w.Quiet()
				controllertest.Settle(time.Hour)
				w.Calls.Want(t)

				w.bind(nil)
				w.WantState("Ready=True Available")
				w.wantPorts(c.then)
			}, exampleNetwork(), example())
		})
	}
}

func TestABoundPortComesBackOnTheNetworkThatIsNowItsNetworks(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.bind(pod)
		was := w.Get().Status
		w.Neutron.Remove("port-1")
		// The Inventory holds the port until a list shows that it is gone.
		w.anew()
		w.wantPorts()
		w.audit()
		w.WantState("Ready=True Available")
		w.wantPorts("port-2")
		if got := w.Get().Status; got.MAC != was.MAC || got.Addresses[0].Address != was.Addresses[0].Address {
			t.Errorf("it has %s and %+v, want those that the Pod knows", got.MAC, got.Addresses)
		}
	}, exampleNetwork(), example())
}

func TestAPortThatIsGoneIsMadeAnewWhereANewOneWouldBe(t *testing.T) {
	elsewhere := cache.NewObjectName("other", networkKey.Name)
	withdraw := func(n *cloudteamv1.Network) { n.Spec.AllowedNamespaces = nil }
	goes := func(n *cloudteamv1.Network) {
		n.DeletionTimestamp, n.Finalizers = new(metav1.Unix(1, 0)), []string{cloudteamv1.Finalizer}
	}
	for name, c := range map[string]struct {
		network func(*cloudteamv1.Network)
		// unbound and bound are the states that it comes to; what is Ready was made anew.
		unbound, bound string
	}{
		"on a Network that is Ready": {
			func(*cloudteamv1.Network) {}, "Ready=True Available", "Ready=True Available"},
		"not on one that is being deleted, but for what uses it": {
			goes, "Ready=False Reconciling=True NetworkNotReady", "Ready=True Available"},
		"not on one that is not Ready, but for what uses it": {
			notReady, "Ready=False Reconciling=True NetworkNotReady", "Ready=True Available"},
		"not on one that no longer allows its namespace": {
			withdraw, "Ready=False Stalled=True NamespaceNotAllowed", "Ready=False Stalled=True NamespaceNotAllowed"},
	} {
		for _, bound := range []bool{false, true} {
			want, binding := c.unbound, (*cloudteamv1.PortBinding)(nil)
			if bound {
				name, want, binding = name+", when it is bound", c.bound, pod
			}
			t.Run(name, func(t *testing.T) {
				inWorld(t, func(t *testing.T, w *world) {
					w.bind(binding)
					controllertest.Edit(t, w.API, elsewhere, c.network)
					w.settle()
					w.WantState("Ready=True Available")
					w.wantPorts("port-1")
					w.Neutron.Remove("port-1")
					w.audit()
					w.WantState(want)
					if made := len(w.Neutron.Ports()) == 1; made != strings.HasPrefix(want, "Ready=True") {
						t.Errorf("it was made anew: %t", made)
					}
					w.Quiet()
					controllertest.Settle(time.Hour)
					w.Calls.Want(t)
					if strings.HasPrefix(want, "Ready=True") {
						return
					}
					// What is missing is not shown, and it comes as soon as it may.
					if got := w.Get().Status; got.PortID != "" || !bound && (got.MAC != "" || len(got.Addresses) > 0) {
						t.Errorf("the status tells of a port that is gone: %+v", got)
					}
					w.API.DeleteByForce(t, of(exampleNetwork(), func(n *cloudteamv1.Network) { n.Namespace = "other" }))
					w.settle()
					w.API.Create(t, of(exampleNetwork(), func(n *cloudteamv1.Network) {
						n.Namespace, n.Spec.AllowedNamespaces = "other", []string{"team"}
					}))
					w.settle()
					w.WantState("Ready=True Available")
				}, of(exampleNetwork(), func(n *cloudteamv1.Network) {
					n.Namespace, n.Spec.AllowedNamespaces = "other", []string{"team"}
				}), of(example(), func(p *cloudteamv1.NetworkPort) { p.Spec.NetworkNamespace = "other" }))
			})
		}
	}
}

func TestANewNetworkOfTheNameThatDoesNotAllowTheNamespaceGetsNoPort(t *testing.T) {
	there := func(n *cloudteamv1.Network) { n.Namespace = "other" }
	inWorld(t, func(t *testing.T, w *world) {
		w.API.DeleteByForce(t, of(exampleNetwork(), there))
		w.settle()
		w.Neutron.Put(cloudNetwork("net-2", "sub-2"))
		w.API.Create(t, of(exampleNetwork(), there, func(n *cloudteamv1.Network) {
			n.UID, n.Status.NetworkID, n.Status.Subnets[0].ID = "net-uid-2", "net-2", "sub-2"
		}))
		w.settle()
		w.WantState("Ready=False Stalled=True NamespaceNotAllowed")
		w.wantPorts("port-1")
		expect.Equal(t, "net-1", w.Neutron.Ports()[0].NetworkID, "the port's network")
		w.delete()
		w.wantPorts()
	}, of(exampleNetwork(), there, func(n *cloudteamv1.Network) { n.Spec.AllowedNamespaces = []string{"team"} }),
		of(example(), func(p *cloudteamv1.NetworkPort) { p.Spec.NetworkNamespace = "other" }))
}

func TestDeletionWaitsWhileThePortIsBound(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.bind(pod)
		w.Quiet()
		w.delete()
		w.WantState("Ready=False Reconciling=True InUse")
		w.Calls.Want(t, "write status")
		controllertest.Settle(time.Hour)
		w.Calls.Want(t)
		w.wantPorts("port-1")
		expect.Equal(t, pod, w.Get().Status.BoundTo, "boundTo")

		w.bind(nil)
		w.Calls.Want(t, "apply delete port", "write finalizers")
		w.WantGone()
		w.wantPorts()
	}, exampleNetwork(), example())
}

func TestABindingIsNeitherWrittenNorLost(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		// The binding comes while a status is on its way.
		other := at("192.168.0.9")
		w.Neutron.EditPort(t, "port-1", func(p *plan.ObservedPort) {
			if p.Addresses[0] == other { // Neutron draws them
				other = at("192.168.0.10")
			}
			p.Addresses = []plan.PortAddress{other}
		})
		bound := false
		w.API.Refuse(func(line string) error {
			if line == "write status" && !bound {
				bound = true
				controllertest.Edit(t, w.API, portKey, func(p *cloudteamv1.NetworkPort) { p.Status.BoundTo = pod })
			}
			return nil
		})
		w.audit()
		if !bound {
			t.Fatal("no status was written")
		}
		expect.Equal(t, pod, w.Get().Status.BoundTo, "boundTo after a status of an unbound port was written")

		// And it goes while another is.
		w.API.Refuse(nil)
		released := false
		w.Neutron.After = func(plan.Step) error {
			released = true
			controllertest.Edit(t, w.API, portKey, func(p *cloudteamv1.NetworkPort) { p.Status.BoundTo = nil })
			return nil
		}
		w.Neutron.Remove("port-1")
		w.audit()
		if got := w.Get().Status.BoundTo; got != nil || !released {
			t.Errorf("released: %t; boundTo is %+v, want none", released, got)
		}
		w.WantState("Ready=True Available")
	}, exampleNetwork(), example())
}

func TestABoundPortThatIsDeletedByHandComesBackAsItWas(t *testing.T) {
	for name, taken := range map[string]bool{"at once": false, "when its address is free again": true} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.bind(pod)
				was := w.Get().Status
				w.Quiet()
				w.Neutron.Remove("port-1")
				if taken {
					w.Neutron.PutPort(plan.ObservedPort{ID: "foreign", NetworkID: "net-1", PortAttributes: plan.PortAttributes{
						Addresses: []plan.PortAddress{at(strings.TrimSuffix(was.Addresses[0].Address, "/16"))},
					}})
					w.audit()
					w.WantState("Ready=False Reconciling=True AddressInUse")
					w.Neutron.Remove("foreign")
					controllertest.Settle(time.Minute)
				} else {
					w.audit()
					w.Calls.Want(t, "reread port port-1", "find port", "apply create port", "write status")
					w.Events.WantReasons(t, "Normal DriftCorrected")
				}
				w.WantState("Ready=True Available")
				got := w.Get().Status
				ignore := cmpopts.IgnoreFields(cloudteamv1.NetworkPortStatus{}, "PortID", "Conditions")
				expect.EqualWith(t, cmp.Options{ignore}, was, got, "status")
				w.wantPorts(got.PortID)
			}, exampleNetwork(), example())
		})
	}
}

func TestABoundPortThatIsGoingComesBackAsItWasUntilItIsReleased(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.bind(pod)
		was := w.Get().Status
		w.delete()
		w.WantState("Ready=False Reconciling=True InUse")
		w.Quiet()
		w.Neutron.Remove("port-1")
		w.audit()
		w.Calls.Want(t, "reread port port-1", "find port", "apply create port", "write status")
		w.WantState("Ready=False Reconciling=True InUse")
		got := w.Get().Status
		if diff := cmp.Diff(was.Addresses, got.Addresses); diff != "" || got.MAC != was.MAC || got.PortID == was.PortID {
			t.Errorf("status %+v, was %+v", got, was)
		}
		w.wantPorts(got.PortID)

		w.bind(nil)
		w.WantGone()
		w.wantPorts()
	}, exampleNetwork(), example())
}

func TestAFinalizerThatWasForcedOffAfterARestartLeavesNoPort(t *testing.T) {
	for name, c := range map[string]struct {
		before func(w *world)
		state  string
	}{
		"of a port that could be declared": {func(*world) {}, "Ready=True Available"},
		"of a port whose Network is gone": {func(w *world) {
			w.API.DeleteByForce(w.T, exampleNetwork())
		}, "Ready=False Reconciling=True NetworkNotReady"},
		"of a port that cannot be declared any more": {func(w *world) {
			controllertest.Edit(w.T, w.API, portKey, func(p *cloudteamv1.NetworkPort) {
				p.Spec.Addresses = []string{"10.0.0.1"}
			})
		}, "Ready=False Stalled=True InvalidSpec"},
		"of a port whose cloud did not answer since": {func(w *world) {
			w.Neutron.SetDown(&client.Error{Op: "log in", Reason: "no answer in time"})
		}, "Ready=False Reconciling=True CloudUnavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.Stop()
				c.before(w)
				w.restart()
				w.WantState(c.state)
				w.wantPorts("port-1")
				w.API.DeleteByForce(t, w.Get())
				w.settle()
				w.Neutron.SetDown(nil)
				controllertest.Settle(time.Minute)
				w.wantPorts()
			}, exampleNetwork(), example())
		})
	}
}

func TestWhatIsDeclaredIsMade(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.WantState("Ready=True Available")
		want := plan.PortAttributes{
			Name: "web-0", Description: owner.Marker(), AdminStateUp: true, MAC: "fa:16:3e:aa:00:01",
			Addresses:      []plan.PortAddress{at("192.168.0.8"), at("192.168.0.9")},
			SecurityGroups: []string{"a", "b"}, PortOptions: plan.PortOptions{PortSecurity: new(true)},
		}
		compare := cmpopts.EquateComparable(netip.Addr{})
		expect.EqualWith(t, cmp.Options{compare}, want, w.Neutron.Ports()[0].PortAttributes, "port")
		w.Quiet()
		w.editPort(func(p *cloudteamv1.NetworkPort) { p.Spec.SecurityGroups = []string{"c"} })
		w.Calls.Want(t, "apply update port", "write status")
		expect.Equal(t, []string{"Normal Updated Updated port: securityGroups a, b → c"}, w.Events.Take(), "Events")
	}, exampleNetwork(), of(example(), func(p *cloudteamv1.NetworkPort) {
		p.Spec.Addresses, p.Spec.MAC = []string{"192.168.0.9", "192.168.0.8"}, "FA:16:3E:AA:00:01"
		p.Spec.SecurityGroups = []string{"b", "a"}
	}))
}

// options is the example with options that its Network's class allows.
func options() *cloudteamv1.NetworkPort {
	return of(example(), func(p *cloudteamv1.NetworkPort) { p.Spec.QoSPolicy, p.Spec.DNSName = "gold", "web" })
}

func TestOptionsAreTakenBack(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.WantState("Ready=True Available")
		w.editPort(func(p *cloudteamv1.NetworkPort) { p.Spec.QoSPolicy, p.Spec.DNSName = "silver", "" })
		want := plan.PortOptions{PortSecurity: new(true), QoSPolicy: new("silver")}
		expect.Equal(t, want, w.Neutron.Ports()[0].PortOptions, "options")
		w.editPort(func(p *cloudteamv1.NetworkPort) { p.Spec.QoSPolicy = "" })
		// What nobody declares is others' from now on.
		w.Neutron.EditPort(t, "port-1", func(p *plan.ObservedPort) { p.DNSName = new("theirs") })
		w.audit()
		w.WantState("Ready=True Available")
		want = plan.PortOptions{PortSecurity: new(true), DNSName: new("theirs")}
		expect.Equal(t, want, w.Neutron.Ports()[0].PortOptions, "options")
	}, exampleNetwork(), options())
}

// TestGroupsStayWhileThePolicyIsUnknown takes the groups' names for no ids.
func TestGroupsStayWhileThePolicyIsUnknown(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Neutron.Missed = map[string]bool{"gold": true}
		controllertest.Settle(time.Minute) // what a name means is known so long
		w.Calls.Take()
		w.editPort(func(p *cloudteamv1.NetworkPort) { p.Spec.SecurityGroups = []string{"web"} })
		for _, call := range w.Calls.Take() {
			if strings.HasPrefix(call, "apply") {
				t.Errorf("the port was changed: %s", call)
			}
		}
		if groups := w.Neutron.Ports()[0].SecurityGroups; slices.Contains(groups, "web") {
			t.Errorf("the port's groups are %v", groups)
		}
	}, exampleNetwork(), options())
}

// spoofing is the example with fields that the built-in class forbids.
func spoofing(generation int64) *cloudteamv1.NetworkPort {
	return of(example(), func(p *cloudteamv1.NetworkPort) {
		p.Spec.AllowedAddressPairs = []cloudteamv1.AddressPair{{Address: "192.168.0.100"}}
		p.Status.AppliedGeneration = generation
	})
}

func TestAClassSaysWhichPortsMaySendUnderOtherAddresses(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.WantState("Ready=False Stalled=True ForbiddenByClass")
		w.wantPorts()
		w.editPort(func(p *cloudteamv1.NetworkPort) { p.Spec.AllowedAddressPairs = nil })
		w.WantState("Ready=True Available")
		w.editPort(func(p *cloudteamv1.NetworkPort) { p.Spec.PortSecurity = new(false) })
		w.WantState("Ready=False Stalled=True ForbiddenByClass")
		if p := w.Neutron.Ports()[0]; p.PortSecurity == nil || !*p.PortSecurity {
			t.Error("port security is off")
		}
	}, exampleNetwork(), spoofing(0))
	inWorld(t, func(t *testing.T, w *world) {
		w.WantState("ClassViolated=True Ready=True Available") // what was applied is kept, and told
		w.editPort(func(p *cloudteamv1.NetworkPort) { p.Spec.AllowedAddressPairs = nil })
		w.WantState("Ready=True Available")
	}, exampleNetwork(), spoofing(1))
}

// TestAClassThatANetworkNamesCountsOnceItIsApplied: whoever may not use the class can name it all the same.
func TestAClassThatANetworkNamesCountsOnceItIsApplied(t *testing.T) {
	openWorld(t, func(t *testing.T, w *world) {
		w.editNetwork(func(n *cloudteamv1.Network) { n.Generation, n.Spec.ClassName = 2, "open" })
		w.editPort(func(p *cloudteamv1.NetworkPort) { p.Spec.FloatingIP = reachable().Spec.FloatingIP })
		w.WantState("Ready=False Reconciling=True NetworkNotReady")
		expect.Empty(t, w.Neutron.FloatingIPs(), "floating IPs in Neutron")
		w.editNetwork(func(n *cloudteamv1.Network) { n.Status.AppliedGeneration = 2 })
		w.WantState("Ready=True Available")
		w.wantFloating("port-1", "outside")
	}, exampleNetwork(), example())
}

func TestANetworkThatGoesIsWaitedForByWhatIsThere(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		was := w.Get().Status
		w.Quiet()
		w.API.DeleteByForce(t, exampleNetwork())
		w.settle()
		w.WantState("Ready=False Reconciling=True NetworkNotReady")
		w.WantMessage("does not exist")
		w.Calls.Want(t, "write status")
		ignore := cmpopts.IgnoreFields(cloudteamv1.ResourceStatus{}, "Conditions")
		expect.EqualWith(t, cmp.Options{ignore}, was, w.Get().Status, "status")
		w.wantPorts("port-1")
	}, exampleNetwork(), example())
}

// plug gives the example's port to a device, as somebody else would.
func (w *world) plug(device string) {
	w.T.Helper()
	w.Neutron.EditPort(w.T, "port-1", func(p *plan.ObservedPort) { p.Device = device })
}

func TestAPortThatADeviceUsesIsNotDeletedWithItsObject(t *testing.T) {
	for name, policy := range map[string]cloudteamv1.DeletionPolicy{
		"by its default": "", "by its word": cloudteamv1.DeletionPolicyDelete,
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.plug("compute:nova, device vm-1") // no list has shown it yet
				w.Quiet()
				w.delete()
				w.wantPorts("port-1")
				w.WantState("Ready=False Reconciling=True InUse")
				const want = "port port-1 is in use by compute:nova, device vm-1. Retrying with backoff. " +
					"Detach the port from that device."
				expect.Equal(t, want, w.Ready().Message, "message")
				w.Events.WantReasons(t, "Warning InUse")
				w.plug("")
				w.audit()
				w.wantPorts()
				w.WantGone()
			}, exampleNetwork(), of(example(), func(p *cloudteamv1.NetworkPort) { p.Spec.DeletionPolicy = policy }))
		})
	}
}

func TestAnOldListReplacesNoPort(t *testing.T) {
	for name, c := range map[string]struct{ list, has []string }{
		"the older of two is gone":   {[]string{"ghost", "port-1"}, []string{"port-1"}},
		"the list lacks the younger": {[]string{"ghost"}, []string{"port-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.Quiet()
				old := w.Neutron.Listing()
				old.Ghost("ports", "port-1", "ghost")
				old["ports"] = slices.DeleteFunc(old["ports"], func(p map[string]any) bool { return !slices.Contains(c.list, p["id"].(string)) })
				w.Neutron.Replayed = old
				w.audit()
				w.wantPorts(c.has...)
				w.Neutron.Replayed = nil
				w.audit()
				w.wantPorts(c.has...)
				w.WantState("Ready=True Available")
				expect.Equal(t, "port-1", w.Get().Status.PortID, "the port in the status")
			}, exampleNetwork(), example())
		})
	}
}

func TestAGhostOfANetworkCostsNoPort(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		// The Network's controller takes a ghost of an old list for the network.
		w.editNetwork(func(n *cloudteamv1.Network) { n.Status.NetworkID, n.Status.Subnets[0].ID = "ghost", "sub-0" })
		w.wantPorts("port-1")
		w.editNetwork(func(n *cloudteamv1.Network) { n.Status.NetworkID, n.Status.Subnets[0].ID = "net-1", "sub-1" })
		w.wantPorts("port-1")
		w.WantState("Ready=True Available")
	}, exampleNetwork(), example())
}

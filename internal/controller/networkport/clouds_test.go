package networkport

import (
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// oneCloud is a cloud to which a Secret leads, or why it does not.
type oneCloud struct {
	ref managed.CloudRef
	in  managed.Inventory
	err error
}

// restartIn restarts the controller with the cloud of a Secret, and an entry of it, beside its own. The example's network
// is in that cloud, too.
func (w *world) restartIn(secret, entry string, err error) (at *oneCloud, in *controllertest.Neutron) {
	w.T.Helper()
	in = controllertest.NewNeutron(w.Calls, here, owner.Cluster)
	in.Put(cloudNetwork("net-1", "sub-1"))
	at = &oneCloud{managed.CloudRef{Namespace: networkKey.Namespace, Secret: secret, Entry: entry}, in, err}
	w.clouds = at
	w.restart()
	return at, in
}

// fromElsewhere is the example in another namespace than its Network.
func fromElsewhere(changes ...func(*cloudteamv1.NetworkPort)) *cloudteamv1.NetworkPort {
	return of(of(example(), func(p *cloudteamv1.NetworkPort) {
		p.Namespace, p.Spec.NetworkNamespace = "elsewhere", networkKey.Namespace
	}), changes...)
}

// in gives the example's Network the cloud of a Secret, and allows other namespaces.
func in(secret string) *cloudteamv1.Network {
	return of(exampleNetwork(), func(n *cloudteamv1.Network) {
		n.Spec.Cloud = &cloudteamv1.CloudReference{SecretName: secret}
		n.Spec.AllowedNamespaces = []string{"elsewhere"}
	})
}

func (o *oneCloud) In(ref managed.CloudRef, _ bool) (managed.Inventory, error) {
	if ref != o.ref {
		return nil, managed.Waits(controller.Stalled("AnotherCloud", ref.String()))
	}
	return o.in, o.err
}

func TestAPortIsInTheCloudOfItsNetwork(t *testing.T) {
	for sentence, c := range map[string]struct {
		// namespace is the port's.
		namespace string
		// problem is what is said of the Secret, and says what is said to the port.
		problem, says string
	}{
		"from its own namespace":          {namespace: networkKey.Namespace, says: "as declared"},
		"from another":                    {namespace: "elsewhere", says: "as declared"},
		"and is told what the Secret has": {networkKey.Namespace, "there is no Secret", "there is no Secret"},
		"and is told in another namespace no more than where to look": {
			"elsewhere", "there is no Secret", "the Network's own condition says why",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			on := of(in("openstack"), func(n *cloudteamv1.Network) { n.Spec.Cloud.Name = "mine" })
			port := fromElsewhere(func(p *cloudteamv1.NetworkPort) { p.Namespace = c.namespace })
			inWorld(t, func(_ *testing.T, w *world) {
				var err error
				if c.problem != "" {
					err = managed.Waits(controller.Stalled(cloudteamv1.ReasonCredentialsUnavailable, c.problem))
				}
				w.Key = cache.MetaObjectToName(port)
				w.restartIn("openstack", "mine", err)
				w.WantMessage(c.says)
			}, on, port)
		})
	}
}

// TestASecretConcernsThePortsOfOtherNamespaces has the Secret of a Network appear, on which is a port of another
// namespace.
func TestASecretConcernsThePortsOfOtherNamespaces(t *testing.T) {
	port := fromElsewhere()
	inWorld(t, func(_ *testing.T, w *world) {
		w.Key = cache.MetaObjectToName(port)
		clouds, _ := w.restartIn("openstack", "", managed.ErrNotYet)
		clouds.err = nil
		w.c.EnqueueIn(clouds.ref)
		w.settle()
		w.WantState("Ready=True Available")
	}, in("openstack"), port)
}

// TestAPortThatHasLostItsNetworkIsRemovedWhereItWas has the Network forced out of Kubernetes, and with it the name of
// the Secret.
func TestAPortThatHasLostItsNetworkIsRemovedWhereItWas(t *testing.T) {
	for sentence, c := range map[string]struct {
		was       string
		newLeader bool
	}{
		"by the same process":                 {"openstack", false},
		"by a new leader":                     {"openstack", true},
		"by a new leader, after a new Secret": {"earlier", true},
	} {
		t.Run(sentence, func(t *testing.T) {
			on := of(exampleNetwork(), func(n *cloudteamv1.Network) {
				n.Spec.Cloud = &cloudteamv1.CloudReference{SecretName: c.was, Name: "mine"}
			})
			inWorld(t, func(t *testing.T, w *world) {
				clouds, theirs := w.restartIn(c.was, "mine", nil)
				w.WantState("Ready=True Available")
				if c.was != "openstack" {
					next := *clouds
					next.ref.Secret = "openstack"
					w.clouds = &next
					w.editNetwork(func(n *cloudteamv1.Network) { n.Spec.Cloud.SecretName = "openstack" })
					w.restart()
					w.WantState("Ready=True Available")
				}
				w.API.DeleteByForce(t, controllertest.Get[*cloudteamv1.Network](t, w.API, networkKey))
				w.settle()
				if c.newLeader {
					w.restart()
				}
				w.delete()
				w.settle()
				if w.Exists() || len(theirs.Ports()) != 0 {
					t.Errorf("the object is there: %t, with the ports %v", w.Exists(), theirs.Ports())
				}
			}, on, example())
		})
	}
}

// TestCredentialsOfAnotherNamespaceAreNotToldToAPort has a user write a record that makes every cloud the wrong one.
func TestCredentialsOfAnotherNamespaceAreNotToldToAPort(t *testing.T) {
	on := of(in("openstack"), func(n *cloudteamv1.Network) { n.Spec.AllowedNamespaces = nil })
	port := fromElsewhere(func(p *cloudteamv1.NetworkPort) {
		p.Finalizers = []string{cloudteamv1.PortFinalizer}
		p.Annotations = map[string]string{cloudteamv1.AnnotationCloud: `{"endpoint":"https://guess/"}`}
	})
	inWorld(t, func(t *testing.T, w *world) {
		w.Key = cache.MetaObjectToName(port)
		w.restartIn("openstack", "", nil)
		w.delete()
		ready := w.Ready()
		if ready.Reason != cloudteamv1.ReasonCloudMismatch {
			t.Fatalf("condition Ready is %+v", ready)
		}
		for _, secret := range []string{here.ProjectID, here.Endpoint} {
			if strings.Contains(ready.Message, secret) {
				t.Errorf("message %q tells %q", ready.Message, secret)
			}
		}
	}, on, port)
}

// TestAPortIsNotClaimedForACloudThatItsNetworkIsNotIn has a port come to a Network whose spec has just been edited to name
// a cloud of another project, before the Network's own controller has seen it: the finalizer's write would pin the port
// there for good.
func TestAPortIsNotClaimedForACloudThatItsNetworkIsNotIn(t *testing.T) {
	on := of(exampleNetwork(), func(n *cloudteamv1.Network) {
		n.Spec.Cloud = &cloudteamv1.CloudReference{SecretName: "elsewhere"}
		n.Status.Cloud = new(cloudteamv1.CloudStatus(here))
	})
	inWorld(t, func(t *testing.T, w *world) {
		there := client.Identity{Endpoint: here.Endpoint, Region: here.Region, ProjectID: "p2"}
		theirs := controllertest.NewNeutron(w.Calls, there, owner.Cluster)
		w.clouds = &oneCloud{ref: managed.CloudRef{Namespace: networkKey.Namespace, Secret: "elsewhere"}, in: theirs}
		w.restart()
		w.WantState("Ready=False Stalled=True CloudMismatch")
		expect.Empty(t, w.Get().Finalizers, "finalizers although nothing was made")
		w.editNetwork(func(n *cloudteamv1.Network) { n.Spec.Cloud = nil; n.Generation++ })
		w.settle()
		w.WantState("Ready=True Available")
	}, on, example())
}

// TestIdsThatAnotherCloudToldAreNotUsed has a tenant's own cloud tell the ids of a network in the operator's cloud, and
// the tenant take that cloud out of the Network's spec. What pins the port to the operator's cloud says nothing about
// these ids.
func TestIdsThatAnotherCloudToldAreNotUsed(t *testing.T) {
	evil := cloudteamv1.CloudStatus{Endpoint: "https://tenant.test/", Region: here.Region, ProjectID: here.ProjectID}
	on := of(exampleNetwork(), func(n *cloudteamv1.Network) { n.Status.Cloud = &evil })
	record := `{"endpoint":"` + here.Endpoint + `","region":"` + here.Region + `","projectID":"` + here.ProjectID + `"}`
	ofEvil := of(group("web", "g-victim"), func(g *cloudteamv1.SecurityGroup) { g.Status.Cloud = &evil })
	t.Run("by a record that the user writes", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.WantState("Ready=False Stalled=True CloudMismatch")
			w.wantPorts()
		}, on, of(example(), func(p *cloudteamv1.NetworkPort) {
			p.Annotations = map[string]string{cloudteamv1.AnnotationCloud: record}
		}))
	})
	t.Run("by a Keystone that names the operator's project and endpoint", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.WantState("Ready=False Reconciling=True NetworkNotReady")
			w.wantPorts()
			w.editNetwork(func(n *cloudteamv1.Network) { n.Status.Credentials = nil })
			w.settle()
			w.WantState("Ready=True Available")
		}, of(exampleNetwork(), func(n *cloudteamv1.Network) {
			n.Status.Cloud = new(cloudteamv1.CloudStatus(here))
			n.Status.Credentials = &cloudteamv1.CredentialsStatus{Namespace: "team", SecretName: "mine"}
		}), example())
	})
	t.Run("for a Pod's port", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.WantState("Ready=False Stalled=True CloudMismatch")
			w.wantPorts()
		}, on, of(example(), func(p *cloudteamv1.NetworkPort) {
			p.Annotations = map[string]string{cloudteamv1.AnnotationCloud: record}
			p.Status.BoundTo = pod
		}))
	})
	t.Run("for a port that exists", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.WantState("Ready=True Available")
			before := w.Neutron.Ports()
			w.editNetwork(func(n *cloudteamv1.Network) { n.Status.Cloud = &evil })
			w.Edit(func(p *cloudteamv1.NetworkPort) { p.Spec.SecurityGroupRefs, p.Generation = []string{"web"}, 2 })
			w.settle()
			w.WantState("Ready=False Stalled=True CloudMismatch")
			if after := w.Neutron.Ports(); !reflect.DeepEqual(after, before) {
				t.Errorf("the port is %+v, and was %+v", after, before)
			}
		}, exampleNetwork(), ofEvil, example())
	})
}

// TestANetworkThatGoesLosesThePortsOfOtherNamespaces has a tenant of another namespace hold a Network by all means that
// it has: a port, one that a Pod uses, a pause, deletionPolicy Retain.
func TestANetworkThatGoesLosesThePortsOfOtherNamespaces(t *testing.T) {
	for sentence, c := range map[string]struct {
		set               func(p *cloudteamv1.NetworkPort)
		terminating, bans bool
		device            string
		stays             bool
	}{
		"with its namespace":                    {terminating: true},
		"that it allows no longer":              {bans: true},
		"but not those that it allows":          {stays: true},
		"but not those that a device uses":      {terminating: true, device: "compute:nova, device vm-1", stays: true},
		"with its namespace, one that is bound": {terminating: true, set: func(p *cloudteamv1.NetworkPort) { p.Status.BoundTo = pod }},
		"with its namespace, one that is paused": {terminating: true, set: func(p *cloudteamv1.NetworkPort) {
			p.Annotations[cloudteamv1.AnnotationPaused] = ""
		}},
		"with its namespace, one that is retained": {terminating: true, set: func(p *cloudteamv1.NetworkPort) {
			p.Spec.DeletionPolicy = cloudteamv1.DeletionPolicyRetain
		}},
	} {
		t.Run(sentence, func(t *testing.T) {
			on := of(exampleNetwork(), func(n *cloudteamv1.Network) {
				n.Spec.AllowedNamespaces, n.Finalizers = []string{"elsewhere"}, []string{cloudteamv1.Finalizer}
			})
			port := fromElsewhere()
			inWorld(t, func(t *testing.T, w *world) {
				var terminating atomic.Bool
				w.terminating = func(namespace string) bool { return terminating.Load() && namespace == networkKey.Namespace }
				w.Key = cache.NewObjectName("elsewhere", port.Name)
				w.restart()
				w.WantState("Ready=True Available")
				if c.set != nil {
					w.editPort(c.set)
				}
				if c.device != "" {
					w.plug(c.device)
				}
				w.editNetwork(func(n *cloudteamv1.Network) {
					if c.bans {
						n.Spec.AllowedNamespaces = nil
					}
				})
				w.API.Delete(t, controllertest.Get[*cloudteamv1.Network](t, w.API, networkKey))
				w.settle()
				if !c.bans {
					w.wantPorts("port-1") // it is in use, until its namespace goes
				}
				terminating.Store(c.terminating)
				controllertest.Settle(2 * time.Minute)
				finalizers := w.Get().Finalizers
				if c.stays {
					w.wantPorts("port-1")
					if len(finalizers) == 0 {
						t.Error("the port lost its finalizer")
					}
					return
				}
				w.wantPorts()
				if status := w.Get().Status; len(finalizers) > 0 || status.PortID != "" {
					t.Errorf("finalizers %q, port %q", finalizers, status.PortID)
				}
				w.Quiet()
				controllertest.Settle(time.Hour)
				w.WantCalls()
			}, on, port)
		})
	}
}

// TestAPortGoesForANetworkWhoseCredentialsAreGone has a namespace go with its Secret, and a new leader that never saw
// the Secret, while another namespace holds a port.
func TestAPortGoesForANetworkWhoseCredentialsAreGone(t *testing.T) {
	on := of(in("openstack"), func(n *cloudteamv1.Network) { n.Finalizers = []string{cloudteamv1.Finalizer} })
	port := fromElsewhere()
	inWorld(t, func(t *testing.T, w *world) {
		w.Key = cache.MetaObjectToName(port)
		w.terminating = func(namespace string) bool { return namespace == networkKey.Namespace }
		clouds, _ := w.restartIn("openstack", "", nil)
		w.WantState("Ready=True Available")
		gone := managed.Waits(controller.Stalled(cloudteamv1.ReasonCredentialsUnavailable, "there is no Secret"))
		gone.Gone = true
		clouds.in, clouds.err = nil, gone
		w.API.Delete(t, controllertest.Get[*cloudteamv1.Network](t, w.API, networkKey))
		w.restart()
		controllertest.Settle(managed.AbandonAfter - 2*time.Minute)
		if len(w.Get().Finalizers) == 0 {
			t.Error("it was let go at once")
		}
		w.Quiet()
		controllertest.Settle(4 * time.Minute)
		expect.Empty(t, w.Get().Finalizers, "finalizers")
		w.WantState("Ready=False Reconciling=True NetworkNotReady")
	}, on, port)
}

// askedFor is no cloud, and remembers for which it was asked.
type askedFor struct{ refs []managed.CloudRef }

func (a *askedFor) In(ref managed.CloudRef, _ bool) (managed.Inventory, error) {
	a.refs = append(a.refs, ref)
	return nil, managed.ErrNotYet
}

// TestNoAnnotationLeadsToCredentials has a user name another namespace's Secret on a port without a Network.
func TestNoAnnotationLeadsToCredentials(t *testing.T) {
	port := of(example(), func(p *cloudteamv1.NetworkPort) {
		p.Spec.NetworkName = "none"
		p.Finalizers = []string{cloudteamv1.PortFinalizer}
		p.Annotations = map[string]string{cloudteamv1.AnnotationCloud: `{"endpoint":"https://neutron/","projectID":"p",` +
			`"credentials":{"namespace":"victim","secretName":"openstack"}}`}
	})
	inWorld(t, func(t *testing.T, w *world) {
		asked := &askedFor{}
		w.clouds = asked
		w.restart()
		w.API.Delete(t, controllertest.Get[*cloudteamv1.NetworkPort](t, w.API, cache.MetaObjectToName(port)))
		w.settle()
		expect.Empty(t, asked.refs, "clouds that were asked for")
	}, port)
}

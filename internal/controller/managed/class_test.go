package managed_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
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

// className gives a class a name, and the default one the annotation.
func className(name string, byDefault bool, spec cloudteamv1.NetworkClassSpec) *cloudteamv1.NetworkClass {
	class := &cloudteamv1.NetworkClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	if byDefault {
		class.Annotations = map[string]string{cloudteamv1.AnnotationDefaultClass: "true"}
	}
	return class
}

// privileged are Networks that touch what is not their own, and the field with which they do. Who may create Networks
// could otherwise have all of it with the controller's credentials.
var privileged = map[string]struct {
	field string
	spec  func(*cloudteamv1.NetworkSpec)
}{
	"a network of others, taken over and changed": {"spec.import", func(s *cloudteamv1.NetworkSpec) {
		s.Import = &cloudteamv1.NetworkImport{ID: legacyID, Overwrite: true}
	}},
	"a network of others, observed": {"spec.import", func(s *cloudteamv1.NetworkSpec) {
		s.Import, s.ManagementPolicy = &cloudteamv1.NetworkImport{ID: legacyID}, cloudteamv1.ManagementPolicyObserve
	}},
	"a router of others": {"spec.router.existing", func(s *cloudteamv1.NetworkSpec) {
		s.Router = &cloudteamv1.RouterSpec{Existing: "shared-router"}
	}},
	"other projects":      {"spec.sharedWith", func(s *cloudteamv1.NetworkSpec) { s.SharedWith = []string{"p2"} }},
	"all projects":        {"spec.shared", func(s *cloudteamv1.NetworkSpec) { s.Shared = new(true) }},
	"an external network": {"spec.external", func(s *cloudteamv1.NetworkSpec) { s.External = new(true) }},
	"the provider's wires": {"spec.provider", func(s *cloudteamv1.NetworkSpec) {
		s.Provider = &cloudteamv1.ProviderSpec{NetworkType: "vlan"}
	}},
	"a public range": {"spec.cidr 8.8.8.0/24", func(s *cloudteamv1.NetworkSpec) { s.CIDR, s.Gateway = "8.8.8.0/24", "" }},
	"a public range beside": {"spec.additionalSubnets[0].cidr 2001:db8::/64", func(s *cloudteamv1.NetworkSpec) {
		s.AdditionalSubnets = []cloudteamv1.SubnetSpec{{CIDR: "2001:db8::/64"}}
	}},
	"an address outside": {"spec.router.externalIP", func(s *cloudteamv1.NetworkSpec) {
		s.Router = &cloudteamv1.RouterSpec{ExternalNetwork: "outside", ExternalIP: "203.0.113.10"}
	}},
}

func TestWithoutAClassNoNetworkTouchesWhatIsNotItsOwn(t *testing.T) {
	for sentence, c := range privileged {
		t.Run(sentence, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.classes.Remove("open")
				before := w.put(legacy())
				w.EditAndSync(func(obj *cloudteamv1.Network) { c.spec(&obj.Spec) })
				w.Calls.Want(t, "write status")
				w.WantState("Ready=False Stalled=True ForbiddenByClass")
				w.WantMessage("The built-in class forbids", c.field, "name a class")
				w.wantUnchanged(before)
				w.Events.WantReasons(t, "Warning ForbiddenByClass")

				// A class that allows it mends it.
				w.classes.Set(controllertest.OpenClass())
				_ = w.sync() // Neutron may refuse what it has not
				if ready := w.Ready(); ready.Reason == cloudteamv1.ReasonForbiddenByClass {
					t.Errorf("with a class that allows everything, Ready is %+v", ready)
				}
			}, example())
		})
	}
}

func TestANetworkThatWasAppliedIsKeptAndTold(t *testing.T) {
	for sentence, tighten := range map[string]func(*world){
		"when its class is tightened": func(w *world) {
			w.classes.Set(className("open", true, cloudteamv1.NetworkClassSpec{}))
		},
		"when its class is deleted": func(w *world) {
			w.classes.Set(className("another", false, cloudteamv1.NetworkClassSpec{}))
			w.classes.Remove("open")
		},
		"when its namespace has its label no longer": func(w *world) {
			open := controllertest.OpenClass()
			open.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
			w.classes.Set(open)
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.MustSync()
				w.Events.Take()
				tighten(w)
				w.MustSync()
				w.MustSync()
				w.WantState("ClassViolated=True Ready=True Available")
				told := meta.FindStatusCondition(w.status().Conditions, cloudteamv1.ConditionClassViolated)
				if told == nil || !strings.Contains(told.Message, "kept as declared") {
					t.Errorf("condition ClassViolated is %+v", told)
				}
				w.Events.WantReasons(t, "Warning "+told.Reason)

				// What others change is put back.
				w.drift(func(n *plan.ObservedNetwork) { n.AdminStateUp = false })
				w.MustSync()
				if n := w.Neutron.Has()[0]; !n.AdminStateUp {
					t.Error("the drift is left")
				}
				// The next generation is not applied.
				w.Edit(func(obj *cloudteamv1.Network) { obj.Spec.Description, obj.Generation = "changed", 2 })
				w.Calls.Take()
				w.MustSync()
				w.Calls.Want(t, "write status")
				w.WantState("ClassViolated=True Ready=False Stalled=True " + told.Reason)
				// Its deletion works.
				w.deleteAsNextGeneration()
				w.MustSync()
				w.WantGone()
				wantNetworks(t, w.Neutron, 0)
			}, func() *cloudteamv1.Network {
				obj := example()
				obj.Spec.Shared = new(true)
				return obj
			}())
		})
	}
}

func TestAClassThatDoesNotExistStopsANetwork(t *testing.T) {
	for sentence, c := range map[string]struct {
		named, message string
	}{
		"by its name":          {"gold", `There is no NetworkClass "gold".`},
		"when none is default": {"", "No NetworkClass is the default."},
	} {
		t.Run(sentence, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.classes.Remove("open")
				w.classes.Set(className("silver", false, cloudteamv1.NetworkClassSpec{}))
				w.EditAndSync(func(obj *cloudteamv1.Network) { obj.Spec.ClassName = c.named })
				w.Calls.Want(t, "write status")
				w.WantState("Ready=False Stalled=True ClassNotFound")
				w.WantMessage(c.message)
				w.EditAndSync(func(obj *cloudteamv1.Network) { obj.Spec.ClassName = "silver" })
				w.WantState("Ready=True Available")
			}, example())
		})
	}
}

// A class that is changed later, another default class and a class that is gone move no network.
func TestANetworkKeepsTheCredentialsAndTheDefaultsThatItWasMadeWith(t *testing.T) {
	gold := managed.CloudRef{Namespace: controllertest.ClassNamespace, Secret: "gold"}
	spec := cloudteamv1.NetworkClassSpec{
		Credentials: &cloudteamv1.ClassCredentials{SecretName: "gold"},
		Defaults:    &cloudteamv1.ClassDefaults{MTU: new(int32(1400))},
	}
	inWorld(t, func(t *testing.T, w *world) {
		w.classes.Remove("open")
		w.classes.Set(className("gold", true, spec))
		clouds := &playedClouds{in: map[managed.CloudRef]reached{}}
		w.c.ReachClouds(clouds)
		clouds.set(gold, nil, managed.Waits(controller.Stalled(
			cloudteamv1.ReasonCredentialsUnavailable, "Secret gold of the controller has no key clouds.yaml")))
		w.MustSync()
		w.WantState("Ready=False Stalled=True CredentialsUnavailable")
		if message := w.Ready().Message; strings.Contains(message, "Secret") || strings.Contains(message, "clouds.yaml") {
			t.Errorf("tenants are told of the operator's Secret: %s", message)
		}

		clouds.set(gold, w.Neutron, nil)
		w.MustSync()
		w.WantState("Ready=True Available")
		expect.Equal(t, 1400, w.Neutron.Has()[0].MTU, "the network's MTU, which is the class's")
		w.Calls.Take()
		changed := spec
		changed.Defaults = &cloudteamv1.ClassDefaults{MTU: new(int32(1300)), Router: &cloudteamv1.ClassRouter{}}
		w.classes.Set(className("gold", false, changed))
		silver := className("silver", true, cloudteamv1.NetworkClassSpec{})
		silver.CreationTimestamp = metav1.NewTime(time.Now())
		w.classes.Set(silver)
		w.MustSync()
		w.Calls.Want(t)
		w.classes.Remove("gold")
		w.MustSync()
		w.Calls.Want(t)
		if at, ok := w.c.CloudsInUse()[gold]; !at || !ok {
			t.Errorf("the clouds in use are %v, want the one on record", w.c.CloudsInUse())
		}
		w.deleteAsNextGeneration()
		w.MustSync()
		w.WantGone()
		wantNetworks(t, w.Neutron, 0)
	}, example())
}

// The answer to the create is lost: the status shows nothing of the network, and the class goes.
func TestANetworkOfWhichNothingIsSeenGoesWithTheCredentialsOfAClassThatIsGone(t *testing.T) {
	gold := managed.CloudRef{Namespace: controllertest.ClassNamespace, Secret: "gold"}
	inWorld(t, func(t *testing.T, w *world) {
		w.classes.Remove("open")
		w.classes.Set(className("gold", true, cloudteamv1.NetworkClassSpec{
			Credentials: &cloudteamv1.ClassCredentials{SecretName: "gold"},
		}))
		other := controllertest.NewNeutron(w.Calls, elsewhere, clusterUID)
		other.Before = func(plan.Step) error { return &client.Error{Kind: client.Capacity, Op: "create network"} }
		clouds := &playedClouds{in: map[managed.CloudRef]reached{}}
		w.c.ReachClouds(clouds)
		clouds.set(gold, other, nil)
		if err := w.sync(); err == nil {
			t.Fatal("a create that is refused is no error")
		}
		w.restart()
		w.c.ReachClouds(clouds)
		w.classes.Remove("gold")
		w.deleteAsNextGeneration()
		w.MustSync()
		w.WantGone()
	}, example())
}

// oneNetwork has the class allow each namespace one Network.
func oneNetwork(t *testing.T, w *world) *cloudteamv1.NetworkClass {
	t.Helper()
	open := controllertest.OpenClass()
	open.Spec.Limits = &cloudteamv1.ClassLimits{NetworksPerNamespace: new(int32(1))}
	w.classes.Set(open)
	_, err := w.c.Follow() // the limit is kept by events
	expect.NoError(t, err)
	return open
}

func TestANamespaceHasAsManyNetworksAsTheClassAllowsTheOldestFirst(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		open := oneNetwork(t, w)
		older := example()
		older.Name, older.UID = "older", "uid-older"
		w.Create(older)
		w.EditAndSync(func(obj *cloudteamv1.Network) { obj.CreationTimestamp = metav1.NewTime(time.Now()) })
		w.Calls.Want(t, "write status")
		w.WantState("Ready=False Stalled=True ClassLimitReached")
		w.WantMessage("allows 1 Networks per namespace")

		open.Spec.Limits.NetworksPerNamespace = new(int32(2))
		w.MustSync()
		w.WantState("Ready=True Available")
		// What exists stays.
		open.Spec.Limits.NetworksPerNamespace = new(int32(0))
		w.Calls.Take()
		w.MustSync()
		w.Calls.Want(t)
	}, example())
}

// TestWhatFailedAndIsPausedGivesItsPlaceBack has Neutron refuse the create of the older one, which is paused then.
func TestWhatFailedAndIsPausedGivesItsPlaceBack(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		oneNetwork(t, w)
		younger := example()
		younger.Name, younger.UID, younger.Spec.CIDR = "younger", "uid-younger", "10.0.0.0/16"
		younger.Spec.Gateway, younger.CreationTimestamp = "", metav1.NewTime(time.Now())
		w.Create(younger)
		w.Neutron.Before = func(plan.Step) error { return &client.Error{Op: "create network"} }
		w.SyncFails()
		w.Neutron.Before = nil
		w.pause("true")
		w.MustSync()
		if _, err := w.Sync(cache.MetaObjectToName(younger)); err != nil {
			t.Fatal(err)
		}
		wantNetworks(t, w.Neutron, 1)
	}, example())
}

// TestAClassForOtherNamespacesLendsNoCredentials: a Network that names one is refused. Its ports are still served, and
// must not be with those credentials.
func TestAClassForOtherNamespacesLendsNoCredentials(t *testing.T) {
	gold := managed.CloudRef{Namespace: controllertest.ClassNamespace, Secret: "gold"}
	silver := managed.CloudRef{Namespace: controllertest.ClassNamespace, Secret: "silver"}
	classOf := func(name, team string) *cloudteamv1.NetworkClass {
		return className(name, false, cloudteamv1.NetworkClassSpec{
			Credentials:       &cloudteamv1.ClassCredentials{SecretName: name},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": team}},
		})
	}
	for sentence, c := range map[string]struct {
		former string
		want   managed.CloudRef
	}{
		"a new Network":                  {"", managed.CloudRef{}},
		"a Network of the default class": {"open", managed.CloudRef{}},
		"a Network of another class":     {"silver", silver},
	} {
		t.Run(sentence, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.classes.Label(exampleKey.Namespace, map[string]string{"team": "b"})
				w.classes.Set(classOf("gold", "a"))
				w.classes.Set(classOf("silver", "b"))
				clouds := &playedClouds{in: map[managed.CloudRef]reached{}}
				w.c.ReachClouds(clouds)
				clouds.set(silver, w.Neutron, nil)
				clouds.set(gold, w.Neutron, nil)
				if c.former != "" {
					w.EditAndSync(func(obj *cloudteamv1.Network) { obj.Spec.ClassName = c.former })
					w.WantState("Ready=True Available")
				}
				w.EditAndSync(func(obj *cloudteamv1.Network) { obj.Spec.ClassName, obj.Generation = "gold", 2 })
				w.WantState("Ready=False Stalled=True ForbiddenByClass")
				if at := w.c.CloudsInUse(); at[gold] || !at[c.want] {
					t.Errorf("the clouds in use are %v, want %q", at, c.want)
				}
				if c.former == "" {
					return // it has nothing to remove
				}
				w.deleteAsNextGeneration()
				w.MustSync()
				w.WantGone()
				wantNetworks(t, w.Neutron, 0)
			}, example())
		})
	}
}

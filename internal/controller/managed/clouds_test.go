package managed_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// playedClouds are clouds to which Secrets lead.
type playedClouds struct {
	mu sync.Mutex
	// in gives the Inventory or the error of each; removing, where set, is for removals alone.
	in       map[managed.CloudRef]reached
	removing map[managed.CloudRef]reached
}

type reached struct {
	inventory managed.Inventory
	err       error
}

func (p *playedClouds) In(ref managed.CloudRef, removing bool) (managed.Inventory, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, known := p.removing[ref]
	if !removing || !known {
		at = p.in[ref]
	}
	return at.inventory, at.err
}

func (p *playedClouds) set(ref managed.CloudRef, in managed.Inventory, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.in[ref] = reached{in, err}
}

var (
	mine  = managed.CloudRef{Namespace: exampleKey.Namespace, Secret: "openstack"}
	other = managed.CloudRef{Namespace: exampleKey.Namespace, Secret: "openstack", Entry: "other"}
	noKey = managed.Waits(controller.Stalled(cloudteamv1.ReasonCredentialsUnavailable, "there is no Secret"))
)

// exampleIn is the example in a cloud.
func exampleIn(ref managed.CloudRef) *cloudteamv1.Network {
	obj := example()
	obj.Spec.Cloud = &cloudteamv1.CloudReference{SecretName: ref.Secret, Name: ref.Entry}
	return obj
}

// withClouds has the controller reach two clouds of Secrets of one project, beside its own of another.
func (w *world) withClouds() (clouds *playedClouds, first, second *controllertest.Neutron) {
	clouds = &playedClouds{in: map[managed.CloudRef]reached{}, removing: map[managed.CloudRef]reached{}}
	first = controllertest.NewNeutron(w.Calls, elsewhere, clusterUID)
	second = controllertest.NewNeutron(w.Calls, elsewhere, clusterUID)
	clouds.set(mine, first, nil)
	clouds.set(other, second, nil)
	w.c.ReachClouds(clouds)
	return clouds, first, second
}

func TestWhileASecretIsReadNothingIsSaid(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		clouds, _, _ := w.withClouds()
		clouds.set(mine, nil, managed.ErrNotYet)
		w.MustSync()
		expect.Empty(t, w.Calls.Take(), "what it did")
	}, exampleIn(mine))
}

func TestASecretThatCannotBeUsedStallsUntilAnEventOfItsOwn(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		clouds, first, _ := w.withClouds()
		clouds.set(mine, nil, noKey)
		w.Run(w.c.Run, 1)
		controllertest.Settle(time.Hour)
		w.WantState("Ready=False Stalled=True CredentialsUnavailable")
		expect.Equal(t, 1, controllertest.Count(w.Calls.Take(), "write"), "writes for one reason")
		clouds.set(mine, first, nil)
		w.c.EnqueueIn(other)
		controllertest.Settle(time.Minute)
		w.WantState("Ready=False Stalled=True CredentialsUnavailable")
		w.c.EnqueueIn(mine)
		controllertest.Settle(time.Minute)
		w.WantState("Ready=True Available")
	}, exampleIn(mine))
}

func TestWithoutOtherCloudsOneThatIsNamedStalls(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) {
		w.MustSync()
		w.WantState("Ready=False Stalled=True CredentialsUnavailable")
	}, exampleIn(mine))
}

// TestAnotherWayToAProjectIsNotTrustedBeforeItIsListed has an object come to be seen through another Inventory of the
// same project, whose list is older than what was written through the former.
func TestAnotherWayToAProjectIsNotTrustedBeforeItIsListed(t *testing.T) {
	for sentence, move := range map[string]func(w *world, clouds *playedClouds, second *controllertest.Neutron){
		"by an edit of the object": func(w *world, _ *playedClouds, _ *controllertest.Neutron) {
			w.Edit(func(obj *cloudteamv1.Network) { obj.Spec.Cloud.Name = other.Entry; obj.Generation++ })
		},
		"by another Secret of the name": func(w *world, clouds *playedClouds, second *controllertest.Neutron) {
			clouds.set(mine, second, nil)
			w.Edit(func(obj *cloudteamv1.Network) { obj.Spec.Description = "look at me"; obj.Generation++ })
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				clouds, first, second := w.withClouds()
				second.Audit(t)
				w.MustSync()
				second.Put(first.Has()[0])
				move(w, clouds, second)
				w.Calls.Take()
				w.MustSync()
				if lines := w.Calls.Take(); !slices.Contains(lines, "list") {
					t.Errorf("it did not list: %q", lines)
				}
				wantNetworks(t, second, 1)
				w.MustSync()
				if lines := w.Calls.Take(); slices.Contains(lines, "list") {
					t.Errorf("it lists again: %q", lines)
				}
			}, exampleIn(mine))
		})
	}
}

func TestASpecThatNamesAnotherProjectStalls(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		_, first, _ := w.withClouds()
		w.MustSync()
		w.Edit(func(obj *cloudteamv1.Network) { obj.Spec.Cloud = nil; obj.Generation++ })
		w.SyncFails()
		w.WantState("Ready=False Stalled=True CloudMismatch")
		if len(w.Neutron.Has()) != 0 || len(first.Has()) != 1 {
			t.Error("something was made or removed")
		}
		w.EditAndSync(func(obj *cloudteamv1.Network) {
			obj.Spec.Cloud = &cloudteamv1.CloudReference{SecretName: mine.Secret}
			obj.Generation++
		})
		w.WantState("Ready=True Available")
	}, exampleIn(mine))
}

func TestADeletionWaitsForItsSecretAndSaysHowToDoWithout(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		clouds, first, _ := w.withClouds()
		w.MustSync()
		clouds.set(mine, nil, noKey)
		w.Delete()
		w.MustSync() // an event brings the key, and no pause
		w.WantState("Ready=False Stalled=True CredentialsUnavailable")
		w.WantMessage(noKey.State.Message + ". To leave what is in Neutron, remove the finalizer " + cloudteamv1.Finalizer + ".")
		clouds.set(mine, nil, managed.ErrNotYet)
		w.MustSync()
		if !w.Exists() || len(first.Has()) != 1 {
			t.Fatal("it went")
		}
		clouds.set(mine, first, nil)
		w.MustSync()
		w.WantGone()
		wantNetworks(t, first, 0)
	}, exampleIn(mine))
}

func TestWhatMayStillBeRemovedIs(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		clouds, first, _ := w.withClouds()
		w.MustSync()
		clouds.set(mine, nil, noKey)
		clouds.removing[mine] = reached{first, nil}
		w.DeleteAndSync()
		w.WantGone()
		wantNetworks(t, first, 0)
	}, exampleIn(mine))
}

func TestWhatAGoneObjectLeftInACloudIsRemovedWhenThatIsBack(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		clouds, first, _ := w.withClouds()
		w.Run(w.c.Run, 1)
		controllertest.Settle(time.Second)
		clouds.set(mine, nil, managed.ErrNotYet)
		w.DeleteByForce()
		controllertest.Settle(time.Second)
		expect.Equal(t, map[managed.CloudRef]bool{mine: true}, w.c.CloudsInUse(), "clouds in use")
		clouds.set(mine, first, nil)
		w.c.EnqueueIn(mine)
		controllertest.Settle(time.Second)
		wantNetworks(t, first, 0)
		expect.Empty(t, w.c.CloudsInUse(), "clouds in use")
	}, exampleIn(mine))
}

func TestOnlyTheObjectsOfACloudAreWoken(t *testing.T) {
	own := example()
	own.Name, own.UID = "own", "uid-2"
	inWorld(t, func(t *testing.T, w *world) {
		w.withClouds()
		for _, step := range []struct {
			ref  managed.CloudRef
			want int
		}{{other, 0}, {mine, 1}, {managed.CloudRef{}, 2}} {
			w.c.EnqueueIn(step.ref)
			expect.Equal(t, step.want, w.c.Len(), "keys that wait, after %q", step.ref)
		}
	}, exampleIn(mine), own)
}

// TestATenantsSecretConcernsNobodyElse counts the objects that are looked at for a cloud. They are all remembered, and
// one of them is gone.
func TestATenantsSecretConcernsNobodyElse(t *testing.T) {
	gold := managed.CloudRef{Namespace: controllertest.ClassNamespace, Secret: "gold"}
	var all []*cloudteamv1.Network
	for i := range 20 {
		obj := exampleIn(mine)
		obj.Namespace, obj.UID = fmt.Sprint("team-", i), types.UID(fmt.Sprint("uid-", i+10))
		obj.Finalizers = []string{cloudteamv1.Finalizer}
		if i == 0 {
			obj.Spec.Cloud, obj.Spec.ClassName = nil, "gold"
		}
		all = append(all, obj)
	}
	gone := exampleIn(mine)
	gone.Name, gone.UID, gone.Finalizers = "gone", "uid-gone", []string{cloudteamv1.Finalizer}
	all = append(all, exampleIn(mine), gone)
	inWorld(t, func(t *testing.T, w *world) {
		w.classes.Set(className("gold", false, cloudteamv1.NetworkClassSpec{
			Credentials: &cloudteamv1.ClassCredentials{SecretName: gold.Secret},
		}))
		seen := map[string]bool{}
		cloud := w.c.Kind().Cloud
		w.c.Kind().Cloud = func(obj *cloudteamv1.Network) (managed.Place, bool) {
			seen[obj.Namespace+"/"+obj.Name] = true
			return cloud(obj)
		}
		for _, obj := range all {
			w.c.Remember(obj)
		}
		w.API.DeleteByForce(t, controllertest.Get[*cloudteamv1.Network](t, w.API, cache.MetaObjectToName(gone)))
		synctest.Wait()
		for _, step := range []struct {
			ref         managed.CloudRef
			sees, waits int
		}{{mine, 2, 2}, {gold, len(all), 3}} {
			clear(seen)
			w.c.EnqueueIn(step.ref)
			if len(seen) != step.sees || w.c.Len() != step.waits {
				t.Errorf("for %s, %d objects are looked at and %d keys wait, want %d and %d", step.ref, len(seen), w.c.Len(),
					step.sees, step.waits)
			}
		}
		w.c.Forget(gone)
		clear(seen)
		w.c.EnqueueIn(mine)
		expect.Len(t, 1, seen, "after one is forgotten, those looked at")
	}, all...)
}

// inMine has an object be in the cloud of the Secret.
func inMine(spec *cloudteamv1.NetworkSpec) {
	spec.Cloud = &cloudteamv1.CloudReference{SecretName: mine.Secret}
}

func TestANetworkIsObservedInTheCloudThatItNames(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		clouds, first, _ := w.withClouds()
		first.Put(legacy())
		clouds.set(mine, nil, managed.ErrNotYet)
		w.MustSync()
		expect.Empty(t, w.Calls.Take(), "what it did")
		clouds.set(mine, nil, noKey)
		w.MustSync()
		w.WantState("Ready=False Stalled=True CredentialsUnavailable")
		clouds.set(mine, first, nil)
		w.MustSync()
		w.WantState("Ready=True Observed")
	}, importing(func(spec *cloudteamv1.NetworkSpec) {
		inMine(spec)
		spec.ManagementPolicy = cloudteamv1.ManagementPolicyObserve
	}))
}

// TestAPortIsOnTheNetworkOfItsCloud holds whether what a port's status tells is of the network that a Network has.
func TestAPortIsOnTheNetworkOfItsCloud(t *testing.T) {
	in := func(project string) *cloudteamv1.CloudStatus { return &cloudteamv1.CloudStatus{ProjectID: project} }
	from := func(namespace string) *cloudteamv1.CredentialsStatus {
		return &cloudteamv1.CredentialsStatus{Namespace: namespace, SecretName: "openstack"}
	}
	for what, test := range map[string]struct {
		edit func(port *cloudteamv1.NetworkPort, on *cloudteamv1.Network)
		on   bool
	}{
		"on a subnet of the Network": {func(*cloudteamv1.NetworkPort, *cloudteamv1.Network) {}, true},
		"without addresses":          {func(p *cloudteamv1.NetworkPort, _ *cloudteamv1.Network) { p.Status.Addresses = nil }, true},
		"on another subnet": {func(p *cloudteamv1.NetworkPort, _ *cloudteamv1.Network) {
			p.Status.Addresses[0].SubnetID = "sub-9"
		}, false},
		"in another project": {func(p *cloudteamv1.NetworkPort, _ *cloudteamv1.Network) { p.Status.Cloud = in("p2") }, false},
		"in a project that is not known": {func(p *cloudteamv1.NetworkPort, _ *cloudteamv1.Network) {
			p.Status.Cloud = nil
		}, true},
		"on a Network whose project is not known": {func(_ *cloudteamv1.NetworkPort, n *cloudteamv1.Network) {
			n.Status.Cloud = nil
		}, true},
		"told by the cloud of the Network's namespace": {func(p *cloudteamv1.NetworkPort, _ *cloudteamv1.Network) {
			p.Status.Credentials = from("team")
		}, false},
		"told by that cloud, where the Network is": {func(p *cloudteamv1.NetworkPort, n *cloudteamv1.Network) {
			p.Status.Credentials, n.Status.Credentials = from("team"), from("team")
		}, true},
	} {
		port, on := &cloudteamv1.NetworkPort{}, example()
		port.Status.Cloud, on.Status.Cloud = in("p1"), in("p1")
		port.Status.Addresses = []cloudteamv1.PortAddress{{SubnetID: "sub-2"}}
		on.Status.Subnets = []cloudteamv1.SubnetStatus{{ID: "sub-1"}, {ID: "sub-2"}}
		test.edit(port, on)
		expect.Equal(t, test.on, managed.IsOn(port, on), "whether a port is on the network, %s", what)
	}
}

// TestConfirmReadsTheObject holds that nothing is given up by a cache that has not what the API server has.
func TestConfirmReadsTheObject(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		expect.NoError(t, w.c.Confirm(t.Context(), example()))
		broken := errors.New("no connection")
		for what, test := range map[string]struct {
			edit func(*cloudteamv1.Network)
			err  error
			want error
		}{
			"as the cache has it": {edit: func(*cloudteamv1.Network) {}},
			"with another status": {edit: func(n *cloudteamv1.Network) { n.Status.NetworkID = "id" }},
			"with another spec":   {edit: func(n *cloudteamv1.Network) { n.Generation++ }, want: controller.ErrStale},
			"another of its name": {edit: func(n *cloudteamv1.Network) { n.UID = "uid-2" }, want: controller.ErrStale},
			"paused": {edit: func(n *cloudteamv1.Network) {
				n.Annotations = map[string]string{cloudteamv1.AnnotationPaused: "true"}
			}, want: controller.ErrStale},
			"gone":           {err: apierrors.NewNotFound(schema.GroupResource{}, "a"), want: controller.ErrStale},
			"not to be read": {err: broken, want: broken},
		} {
			w.c.Kind().Live = func(_ context.Context, namespace, name string) (*cloudteamv1.Network, error) {
				expect.Equal(t, exampleKey, cache.NewObjectName(namespace, name), "what is read")
				if test.err != nil {
					return nil, test.err
				}
				live := example()
				test.edit(live)
				return live, nil
			}
			if err := w.c.Confirm(t.Context(), example()); !errors.Is(err, test.want) {
				t.Errorf("of an object %s, it says %v, want %v", what, err, test.want)
			}
		}
	})
}

func TestWhatWasDeletedIsNotLookedFor(t *testing.T) {
	of := func(ids ...string) (all []managed.Lookup) {
		for _, id := range ids {
			all = append(all, managed.Lookup{Resource: plan.Resource{Kind: plan.KindPort, ID: id}})
		}
		return all
	}
	done := plan.Change{
		{Action: plan.DeletePort, Ref: plan.Ref{ID: "port-1"}}, {Action: plan.UpdatePort, Ref: plan.Ref{ID: "port-2"}},
	}
	expect.Equal(t, of("", "port-2", "port-3"), managed.WithoutDeleted(of("port-1", "port-2", "port-3"), done), "what is looked for")
}

func TestOnlyTheObjectsOfANamespaceAreWoken(t *testing.T) {
	theirs := example()
	theirs.Namespace, theirs.UID = "others", "uid-2"
	inWorld(t, func(t *testing.T, w *world) {
		for _, step := range []struct {
			namespace string
			want      int
		}{{"nobody", 0}, {"team", 1}, {"", 2}} {
			w.c.EnqueueNamespace(step.namespace)
			expect.Equal(t, step.want, w.c.Len(), "keys that wait, after namespace %q", step.namespace)
		}
	}, example(), theirs)
}

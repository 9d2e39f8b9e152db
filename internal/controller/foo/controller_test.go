package foo

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/pkg/apis/samplecontroller/v1alpha1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestAFooGetsItsDeployment(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustSync()
		w.WantCalls("get foo", "create example-foo", "write status")
		w.WantEvents("Normal Created", "Normal Synced")
		w.WantState("Ready=False Reconciling=True Progressing")
		labels := map[string]string{"app": "nginx", "controller": "example-foo"}
		want := &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "team", Name: "example-foo", Labels: labels,
				OwnerReferences: []metav1.OwnerReference{{
					APIVersion: "samplecontroller.k8s.io/v1alpha1", Kind: "Foo", Name: "example-foo", UID: "foo-1",
					Controller: new(true), BlockOwnerDeletion: new(true),
				}},
			},
			Spec: appsv1.DeploymentSpec{
				Replicas: new(int32(1)),
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "nginx", Image: "nginx:latest"}}},
				},
			},
		}
		got := w.deployment("example-foo").DeepCopy()
		got.UID, got.ResourceVersion, got.Generation = "", "", 0
		expect.Equal(t, want, got, "Deployment")

		w.makeAvailable("example-foo", 1)
		w.mustSync()
		w.WantCalls("write status")
		w.WantEvents()
		w.WantState("Ready=True Available")
		status := w.Get().Status
		if status.AvailableReplicas != 1 || status.ObservedGeneration != 1 {
			t.Errorf("status %+v, want one available replica at generation 1", status)
		}

		for range 3 {
			w.mustSync()
		}
		w.WantCalls()
		w.WantEvents()
	}, example())
}

func TestReplicas(t *testing.T) {
	for name, c := range map[string]struct {
		declared *int32
		happens  func(w *world)
		want     string
		asked    []string
		events   []string
	}{
		"scaled by hand, it comes back": {
			new(int32(2)), func(w *world) { w.rescale("example-foo", new(int32(5))) }, "example-foo=2",
			[]string{"scale example-foo to 2"}, []string{"Normal Scaled"},
		},
		"a Deployment that declares none has one": {
			new(int32(1)), func(w *world) { w.rescale("example-foo", nil) }, "example-foo=1", nil, nil,
		},
		"an edit of the spec is followed": {
			new(int32(2)), func(w *world) { w.respec(func(s *v1alpha1.FooSpec) { s.Replicas = new(int32(3)) }) },
			"example-foo=3", []string{"scale example-foo to 3", "write status"}, []string{"Normal Scaled"},
		},
		"without replicas in the spec, others decide": {
			nil, func(w *world) { w.rescale("example-foo", new(int32(5))) }, "example-foo=5",
			[]string{"write status"}, nil,
		},
		"replicas that leave the spec are left as they are": {
			new(int32(2)), func(w *world) { w.respec(func(s *v1alpha1.FooSpec) { s.Replicas = nil }) }, "example-foo=2",
			[]string{"write status"}, nil,
		},
		"what else others set is left alone": {
			new(int32(2)), func(w *world) {
				w.editDeployment("example-foo", func(d *appsv1.Deployment) {
					d.Spec.Template.Spec.Containers[0].Image, d.Spec.Paused = "nginx:1.29", true
					d.Labels["team"] = "web"
					d.Generation++
				})
			}, "example-foo=2", nil, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			foo := example()
			foo.Spec.Replicas = c.declared
			inWorld(t, func(t *testing.T, w *world) {
				w.mustSync()
				w.Quiet()
				c.happens(w)
				w.mustSync()
				w.wantDeployments(c.want)
				w.WantCalls(c.asked...)
				w.WantEvents(c.events...)
				// What was done is done once.
				w.mustSync()
				w.WantCalls()
				if got := w.deployment("example-foo"); c.events == nil && got.Labels["team"] == "web" &&
					got.Spec.Template.Spec.Containers[0].Image != "nginx:1.29" {
					t.Errorf("the image is %s again", got.Spec.Template.Spec.Containers[0].Image)
				}
			}, foo)
		})
	}
}

func TestADeploymentDeletedByHandComesBack(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustSync()
		w.makeAvailable("example-foo", 1)
		w.mustSync()
		was := w.deployment("example-foo")
		w.Events.Take()
		w.remove(was)
		w.mustSync()
		w.WantEvents("Normal Created")
		w.wantDeployments("example-foo=1")
		w.WantState("Ready=False Reconciling=True Progressing")
		if is := w.deployment("example-foo"); is.UID == was.UID {
			t.Error("it is the same Deployment")
		}
		expect.Equal(t, int32(0), w.Get().Status.AvailableReplicas, "available replicas of a new Deployment")
	}, example())
}

func TestADeploymentThatIsGoingIsWaitedFor(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustSync()
		w.makeAvailable("example-foo", 1)
		now := metav1.Now()
		w.editDeployment("example-foo", func(d *appsv1.Deployment) {
			d.DeletionTimestamp, d.Finalizers = &now, []string{metav1.FinalizerDeleteDependents}
			d.Spec.Replicas = new(int32(3))
		})
		w.Quiet()
		w.mustSync()
		w.WantCalls("write status")
		w.WantState("Ready=False Reconciling=True Terminating")
		w.WantEvents()
		w.remove(w.deployment("example-foo"))
		w.mustSync()
		w.wantDeployments("example-foo=1")
		w.WantEvents("Normal Created", "Normal Synced")
	}, example())
}

func TestADeploymentOfSomebodyElseIsLeftAlone(t *testing.T) {
	for name, c := range map[string]struct {
		owners []metav1.OwnerReference
		says   string
	}{
		"nobody's": {nil, "nobody controls it"},
		"another Foo's": {
			[]metav1.OwnerReference{*metav1.NewControllerRef(&metav1.ObjectMeta{Name: "other", UID: "foo-2"}, kind)},
			`Foo "other" controls it`,
		},
		"of another kind's with this Foo's UID": {
			[]metav1.OwnerReference{*metav1.NewControllerRef(&metav1.ObjectMeta{Name: "example-foo", UID: "foo-1"},
				appsv1.SchemeGroupVersion.WithKind("Bar"))}, `Bar "example-foo" controls it`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			theirs := foreign(example(), c.owners...)
			theirs.Spec.Replicas = new(int32(7))
			inWorld(t, func(t *testing.T, w *world) {
				before := w.deployment("example-foo").DeepCopy()
				w.SyncFails()
				w.WantState("Ready=False Stalled=True ErrResourceExists")
				lines := w.Events.Take()
				if len(lines) != 1 || !strings.HasPrefix(lines[0], "Warning ErrResourceExists ") ||
					!strings.Contains(lines[0], `"example-foo"`) || !strings.Contains(lines[0], c.says) {
					t.Errorf("Events %q, want one that says %s", lines, c.says)
				}
				w.WantCalls("write status")
				w.SyncFails()
				w.WantCalls()
				w.WantEvents()
				// An edit that changes nothing about it is noted, and not told again.
				w.respec(func(s *v1alpha1.FooSpec) { s.Replicas = new(int32(2)) })
				w.SyncFails()
				w.WantCalls("write status")
				w.WantEvents()
				expect.Equal(t, before, w.deployment("example-foo"), "it was changed")
				w.remove(before)
				w.mustSync()
				w.WantEvents("Normal Created", "Normal Synced")
				w.WantState("Ready=False Reconciling=True Progressing")
			}, example(), theirs)
		})
	}
}

func TestAFooThatIsMadeAnewWaitsForGarbageCollection(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustSync()
		was := w.deployment("example-foo").DeepCopy()
		w.remove(w.Get())
		again := example()
		again.UID, again.Spec.Replicas = "foo-2", new(int32(3))
		w.API.Create(t, again)
		w.Quiet()
		w.mustSync()
		w.WantCalls("write status")
		w.WantEvents()
		w.WantState("Ready=False Reconciling=True Terminating")
		expect.Equal(t, was, w.deployment("example-foo"), "the old Deployment was changed")
		w.remove(was)
		w.mustSync()
		w.wantDeployments("example-foo=3")
		expect.Equal(t, types.UID("foo-2"), metav1.GetControllerOf(w.deployment("example-foo")).UID, "the owner's UID")
	}, example())
}

func TestAChangedDeploymentNameLeavesNoOrphan(t *testing.T) {
	rename := func(w *world, name string) {
		w.respec(func(s *v1alpha1.FooSpec) { s.DeploymentName = name })
	}
	for name, test := range map[string]func(t *testing.T, w *world){
		"the new one is created before the old one is deleted": func(_ *testing.T, w *world) {
			rename(w, "renamed")
			w.mustSync()
			w.WantCalls("get foo", "create renamed", "delete example-foo", "write status")
			w.wantDeployments("renamed=1")
			w.WantEvents("Normal Created", "Normal Deleted")
		},
		"while the new name is somebody else's, the old one stays": func(_ *testing.T, w *world) {
			theirs := foreign(declaring("taken"))
			w.API.Create(t, theirs)
			rename(w, "taken")
			w.SyncFails()
			w.wantDeployments("example-foo=1 taken=1")
			w.WantState("Ready=False Stalled=True ErrResourceExists")
			w.remove(theirs)
			w.mustSync()
			w.wantDeployments("taken=1")
			w.WantState("Ready=False Reconciling=True Progressing")
		},
		"while the new one is refused, the old one stays": func(_ *testing.T, w *world) {
			w.API.Refuse(controllertest.Refusing("create", forbidden("exceeded quota")))
			rename(w, "renamed")
			w.SyncFails()
			w.wantDeployments("example-foo=1")
			w.API.Refuse(nil)
			w.mustSync()
			w.wantDeployments("renamed=1")
		},
		"renamed and renamed back, the first one stays": func(t *testing.T, w *world) {
			was := w.deployment("example-foo").UID
			rename(w, "renamed")
			rename(w, "example-foo")
			w.mustSync()
			w.wantDeployments("example-foo=1")
			expect.Equal(t, was, w.deployment("example-foo").UID, "the Deployment's UID")
		},
		"what has a new owner by now is not deleted": func(_ *testing.T, w *world) {
			w.deploymentGate.Hold()
			w.editDeployment("example-foo", func(d *appsv1.Deployment) { d.OwnerReferences = nil })
			rename(w, "renamed")
			if requeue, err := w.sync(); !requeue || err != nil {
				w.T.Errorf("requeue %t, error %v; want it looked at again", requeue, err)
			}
			w.deploymentGate.Release()
			w.mustSync()
			w.wantDeployments("example-foo=1 renamed=1")
		},
		"what is deleted already is no failure": func(_ *testing.T, w *world) {
			w.deploymentGate.Hold()
			w.remove(w.deployment("example-foo"))
			rename(w, "renamed")
			w.mustSync()
			w.wantDeployments("renamed=1")
			w.WantEvents("Normal Created")
			w.deploymentGate.Release()
		},
		"what is going already is not deleted again": func(_ *testing.T, w *world) {
			now := metav1.Now()
			w.editDeployment("example-foo", func(d *appsv1.Deployment) {
				d.DeletionTimestamp, d.Finalizers = &now, []string{metav1.FinalizerDeleteDependents}
			})
			rename(w, "renamed")
			w.mustSync()
			w.WantCalls("get foo", "create renamed", "write status")
		},
		"what another namespace has is not touched, whatever it says": func(_ *testing.T, w *world) {
			elsewhere := foreign(example(), *metav1.NewControllerRef(example(), kind))
			elsewhere.Namespace = "other-team"
			w.API.Create(t, elsewhere)
			w.mustSync()
			rename(w, "renamed")
			w.mustSync()
			w.WantCalls("get foo", "create renamed", "delete example-foo", "write status")
			if _, err := w.Kube.Tracker().Get(deploymentsResource, "other-team", "example-foo"); err != nil {
				w.T.Error(err)
			}
		},
		"a deletion that is refused is told and tried again": func(_ *testing.T, w *world) {
			w.API.Refuse(controllertest.Refusing("delete", forbidden("no")))
			rename(w, "renamed")
			w.SyncFails()
			w.WantState("Ready=False Reconciling=True ReconcileFailed")
			w.WantEvents("Normal Created", "Warning ReconcileFailed")
			w.API.Refuse(nil)
			w.mustSync()
			w.wantDeployments("renamed=1")
			w.WantEvents("Normal Deleted", "Normal Synced")
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.mustSync()
				w.Quiet()
				synctest.Wait()
				test(t, w)
			}, example())
		})
	}
}

func forbidden(why string) *apierrors.StatusError {
	return apierrors.NewForbidden(deploymentsResource.GroupResource(), "example-foo", errors.New(why))
}

// TestStaleCaches holds that what a cache does not show yet is neither done again nor taken for a failure.
func TestStaleCaches(t *testing.T) {
	lost := apierrors.NewTimeoutError("the answer was lost", 1)
	for name, test := range map[string]func(t *testing.T, w *world){
		"a Deployment that was created is not created again": func(_ *testing.T, w *world) {
			w.deploymentGate.Hold()
			w.mustSync()
			w.WantCalls("get foo", "create example-foo", "write status")
			w.Events.Take()
			w.makeAvailable("example-foo", 1)
			for range 3 {
				w.mustWait()
			}
			w.WantCalls()
			w.deploymentGate.Release()
			w.mustSync()
			w.WantCalls("write status")
			w.WantState("Ready=True Available")
		},
		"a create whose answer was lost is found": func(_ *testing.T, w *world) {
			w.deploymentGate.Hold()
			w.API.Lose(controllertest.Refusing("create ", lost))
			w.SyncFails()
			w.Quiet()
			w.mustWait()
			w.WantCalls("get foo", "create example-foo", "get example-foo")
			w.mustWait()
			w.WantCalls()
			w.deploymentGate.Release()
			w.mustSync()
			w.WantCalls("write status")
			w.WantEvents("Normal Synced")
			w.wantDeployments("example-foo=1")
		},
		"a name that somebody else has just taken is a conflict once the cache shows it": func(_ *testing.T, w *world) {
			w.deploymentGate.Hold()
			w.API.Create(t, foreign(example()))
			w.mustWait()
			w.WantCalls("get foo", "create example-foo", "get example-foo")
			w.mustWait()
			w.WantCalls()
			w.deploymentGate.Release()
			w.SyncFails()
			w.WantEvents("Warning ErrResourceExists")
		},
		"a name that was taken for a moment is tried again": func(_ *testing.T, w *world) {
			theirs := foreign(example())
			w.deploymentGate.Hold()
			w.API.Create(t, theirs)
			w.API.Refuse(func(line string) error {
				if line == "get example-foo" {
					w.API.Refuse(nil)
					w.remove(theirs)
				}
				return nil
			})
			w.mustWait()
			w.mustSync()
			w.WantCalls("get foo", "create example-foo", "get example-foo", "get foo", "create example-foo", "write status")
			w.deploymentGate.Release()
		},
		"a Deployment that came and went unseen is created again": func(_ *testing.T, w *world) {
			w.deploymentGate.Hold()
			w.mustSync()
			w.remove(w.deployment("example-foo"))
			w.deploymentGate.Drop()
			w.Events.Take()
			w.mustWait()
			// What shows how far the cache has come is another object.
			w.API.Create(t, foreign(declaring("other")))
			w.deploymentGate.Release()
			w.mustSync()
			w.wantDeployments("example-foo=1 other=1")
		},
		"a Foo that is being deleted gets no new Deployment, though the cache does not know": func(_ *testing.T, w *world) {
			w.mustSync()
			synctest.Wait()
			w.fooGate.Hold()
			now := metav1.Now()
			controllertest.Edit(t, w.API, exampleKey, func(foo *v1alpha1.Foo) {
				foo.DeletionTimestamp, foo.Finalizers = &now, []string{metav1.FinalizerDeleteDependents}
			})
			w.remove(w.deployment("example-foo"))
			w.Quiet()
			w.mustWait()
			w.WantCalls("get foo")
			w.fooGate.Release()
			w.mustSync()
			w.wantDeployments("")
		},
		"a Foo that was made anew is not taken for the old one": func(_ *testing.T, w *world) {
			w.fooGate.Hold()
			w.remove(w.Get())
			again := example()
			again.UID = "foo-2"
			w.API.Create(t, again)
			w.mustWait()
			w.WantCalls("get foo")
			w.fooGate.Release()
			w.mustSync()
			expect.Equal(w.T, types.UID("foo-2"), metav1.GetControllerOf(w.deployment("example-foo")).UID, "the owner's UID")
		},
		"what was scaled is not scaled again, and its status does not flap": func(_ *testing.T, w *world) {
			w.mustSync()
			w.rescale("example-foo", new(int32(4)))
			w.Calls.Take()
			synctest.Wait()
			w.deploymentGate.Hold()
			w.mustSync()
			w.WantCalls("scale example-foo to 1")
			w.Events.Take()
			w.mustWait()
			w.WantCalls()
			w.deploymentGate.Release()
			w.mustSync()
			w.WantCalls()
		},
		"somebody who was faster is no failure": func(_ *testing.T, w *world) {
			w.mustSync()
			w.rescale("example-foo", new(int32(4)))
			w.deploymentGate.Hold()
			w.makeAvailable("example-foo", 1)
			w.Quiet()
			w.mustWait()
			w.WantCalls("scale example-foo to 1")
			w.deploymentGate.Release()
			w.mustSync()
			w.wantDeployments("example-foo=1")
		},
		"a status that was written is not written again": func(_ *testing.T, w *world) {
			w.fooGate.Hold()
			w.mustSync()
			w.Quiet()
			w.makeAvailable("example-foo", 1)
			w.mustWait()
			w.WantCalls()
			w.fooGate.Release()
			w.mustSync()
			w.WantCalls("write status")
			w.WantEvents()
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, test, example())
		})
	}
}

func TestFailuresAreToldOnceAndHeal(t *testing.T) {
	deployment := appsv1.SchemeGroupVersion.WithKind("Deployment").GroupKind()
	for name, c := range map[string]struct {
		what  string
		err   error
		state string
		event string
	}{
		"a quota": {
			"create", forbidden("quota"),
			"Ready=False Reconciling=True ReconcileFailed", "Warning ReconcileFailed",
		},
		"a Deployment that the API server takes for invalid": {
			"create", apierrors.NewInvalid(deployment, "example-foo", nil),
			"Ready=False Stalled=True Rejected", "Warning Rejected",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.API.Refuse(controllertest.Refusing(c.what, c.err))
				w.SyncFails()
				w.SyncFails()
				w.WantState(c.state)
				w.WantEvents(c.event)
				w.WantCalls("get foo", "create example-foo", "write status", "get foo", "create example-foo")
				w.API.Refuse(nil)
				w.mustSync()
				w.WantState("Ready=False Reconciling=True Progressing")
				w.WantEvents("Normal Created", "Normal Synced")
			}, example())
		})
	}
}

func TestARefusedScalingKeepsWhatIsKnownOfTheDeployment(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustSync()
		w.makeAvailable("example-foo", 3)
		w.rescale("example-foo", new(int32(3)))
		w.API.Refuse(controllertest.Refusing("scale", forbidden("no")))
		w.SyncFails()
		w.WantState("Ready=False Reconciling=True ReconcileFailed")
		expect.Equal(t, int32(3), w.Get().Status.AvailableReplicas, "status.availableReplicas")
	}, example())
}

func TestAStatusThatCannotBeWrittenIsToldWhenItCan(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.API.Refuse(controllertest.Refusing("write status", apierrors.NewInternalError(errors.New("ill"))))
		w.SyncFails()
		w.SyncFails()
		w.WantEvents()
		w.API.Refuse(nil)
		w.SyncFails()
		w.WantEvents("Warning ErrResourceExists")
	}, example(), foreign(example()))
}

func TestWhatIsLeftAlone(t *testing.T) {
	now := metav1.Now()
	going := example()
	going.DeletionTimestamp, going.Finalizers = &now, []string{metav1.FinalizerDeleteDependents}
	for name, test := range map[string]struct {
		foo  *v1alpha1.Foo
		does func(w *world)
	}{
		"a Foo that is being deleted gets no Deployment": {going, nil},
		"a Foo that is gone leaves its Deployment to garbage collection": {example(), func(w *world) {
			w.mustSync()
			w.remove(w.Get())
		}},
		"a Foo that is gone gets no Deployment, though the cache does not know": {example(), func(w *world) {
			w.fooGate.Hold()
			w.remove(w.Get())
			if requeue, err := w.sync(); !requeue || err != nil {
				w.T.Errorf("requeue %t, error %v; want it looked at again", requeue, err)
			}
			w.wantDeployments("")
			w.fooGate.Release()
		}},
		"a Foo whose namespace goes is not told of": {example(), func(w *world) {
			w.API.Refuse(func(line string) error {
				if line != "create example-foo" {
					return nil
				}
				err := forbidden("terminating")
				err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
				return err
			})
			w.mustSync()
			w.WantCalls("get foo", "create example-foo")
			w.remove(w.Get())
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(_ *testing.T, w *world) {
				if test.does != nil {
					test.does(w)
				}
				w.Quiet()
				w.mustSync()
				w.WantCalls()
				w.WantEvents()
			}, test.foo)
		})
	}
}

func TestANameThatNoDeploymentCanHaveStalls(t *testing.T) {
	for _, name := range []string{"", "Example", "a b", "-a", "a..b", strings.Repeat("a", 254)} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				// Only a spec that an API server stored without our rules says so; another spec brings an event.
				w.mustSync()
				w.WantState("Ready=False Stalled=True InvalidSpec")
				w.WantCalls("write status")
				w.WantEvents("Warning InvalidSpec")
			}, declaring(name))
		})
	}
}

func TestNothingIsRememberedOfGoneFoos(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.deploymentGate.Hold()
		w.fooGate.Hold()
		w.mustSync()
		w.fooGate.Release()
		w.remove(w.Get())
		w.mustSync()
		if !w.c.expected.Met(exampleKey, "foo-1", "1") || !w.c.expectedDeployments.CaughtUp(exampleKey, "1") {
			t.Error("writes for a gone Foo are still waited for")
		}
		w.deploymentGate.Release()
	}, example())
}

func TestKeysOfADeployment(t *testing.T) {
	other := declaring("shared")
	other.Name, other.UID = "other", "foo-2"
	elsewhere := declaring("shared")
	elsewhere.Namespace, elsewhere.Name, elsewhere.UID = "other-team", "elsewhere", "foo-3"
	otherKey := cache.MetaObjectToName(other)
	owned := func(name string, owner metav1.OwnerReference) *metav1.ObjectMeta {
		return &metav1.ObjectMeta{Namespace: "team", Name: name, OwnerReferences: []metav1.OwnerReference{owner}}
	}
	for name, c := range map[string]struct {
		deployment metav1.Object
		want       []cache.ObjectName
	}{
		"it concerns the Foo that controls it": {
			owned("x", *metav1.NewControllerRef(example(), kind)), []cache.ObjectName{exampleKey},
		},
		"it concerns that of another version, too": {
			owned("x", *metav1.NewControllerRef(example(), kind.GroupKind().WithVersion("v1"))),
			[]cache.ObjectName{exampleKey},
		},
		"not a Foo of that name with another UID": {
			owned("x", *metav1.NewControllerRef(&metav1.ObjectMeta{Name: "example-foo", UID: "gone"}, kind)), nil,
		},
		"not a Foo of another group": {
			owned("x", *metav1.NewControllerRef(example(), appsv1.SchemeGroupVersion.WithKind("Foo"))), nil,
		},
		"not an owner of another kind": {
			owned("x", *metav1.NewControllerRef(example(), v1alpha1.SchemeGroupVersion.WithKind("Bar"))), nil,
		},
		"not an owner whose version is none": {
			owned("x", metav1.OwnerReference{APIVersion: "a/b/c", Kind: "Foo", Name: "example-foo", UID: "foo-1",
				Controller: new(true)}), nil,
		},
		"a Foo that waits for its name": {
			&metav1.ObjectMeta{Namespace: "team", Name: "shared"}, []cache.ObjectName{otherKey},
		},
		"both its owner and who waits for its name": {
			owned("shared", *metav1.NewControllerRef(example(), kind)), []cache.ObjectName{exampleKey, otherKey},
		},
		"nobody": {&metav1.ObjectMeta{Namespace: "team", Name: "x"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				expect.Equal(t, c.want, w.c.keysOf(c.deployment), "keys")
			}, example(), other, elsewhere)
		})
	}
}

func TestRunFollowsWhatHappens(t *testing.T) {
	for name, test := range map[string]func(t *testing.T, w *world){
		"at rest nothing is asked, resyncs included": func(_ *testing.T, w *world) {
			w.Quiet()
			controllertest.Settle(20 * resync)
			w.WantCalls()
			w.WantEvents()
		},
		"available replicas flow into the status": func(t *testing.T, w *world) {
			w.respec(func(s *v1alpha1.FooSpec) { s.Replicas = new(int32(3)) })
			for n := int32(2); n <= 3; n++ {
				w.makeAvailable("example-foo", n)
				controllertest.Settle(time.Millisecond)
				expect.Equal(t, n, w.Get().Status.AvailableReplicas, "status.availableReplicas")
				w.WantState(map[int32]string{
					2: "Ready=False Reconciling=True Progressing", 3: "Ready=True Available",
				}[n])
			}
		},
		"scaled by hand, it comes back": func(_ *testing.T, w *world) {
			w.rescale("example-foo", new(int32(9)))
			controllertest.Settle(time.Millisecond)
			w.wantDeployments("example-foo=1")
		},
		"a name is free as soon as who has it goes, however long it was waited for": func(_ *testing.T, w *world) {
			theirs := foreign(declaring("taken"))
			w.API.Create(t, theirs)
			w.respec(func(s *v1alpha1.FooSpec) { s.DeploymentName = "taken" })
			controllertest.Settle(time.Hour)
			w.wantDeployments("example-foo=1 taken=1")
			w.remove(theirs)
			controllertest.Settle(time.Millisecond)
			w.wantDeployments("taken=1")
		},
		"a name is free as soon as it has the Foo for its owner": func(_ *testing.T, w *world) {
			theirs := foreign(declaring("taken"))
			w.API.Create(t, theirs)
			w.respec(func(s *v1alpha1.FooSpec) { s.DeploymentName = "taken" })
			controllertest.Settle(time.Hour)
			w.editDeployment("taken", func(d *appsv1.Deployment) {
				d.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(w.Get(), kind)}
			})
			controllertest.Settle(time.Millisecond)
			w.wantDeployments("taken=1")
			w.WantState("Ready=False Reconciling=True Progressing")
		},
		"a Deployment that came and went between two lists is not waited for": func(_ *testing.T, w *world) {
			w.deploymentGate.Hold()
			w.respec(func(s *v1alpha1.FooSpec) { s.DeploymentName = "renamed" })
			controllertest.Settle(time.Millisecond)
			w.remove(w.deployment("renamed"))
			w.deploymentGate.Drop()
			w.API.Create(t, foreign(declaring("other")))
			w.deploymentGate.Release()
			controllertest.Settle(2 * controller.StalePause)
			if w.deployment("renamed") == nil {
				w.T.Error("it is not created again")
			}
		},
		"a failure is tried again, and again": func(_ *testing.T, w *world) {
			w.API.Refuse(controllertest.Refusing("create", apierrors.NewInternalError(errors.New("ill"))))
			w.remove(w.deployment("example-foo"))
			controllertest.Settle(time.Hour)
			w.wantDeployments("")
			w.API.Refuse(nil)
			controllertest.Settle(2 * time.Minute)
			w.wantDeployments("example-foo=1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				if !w.c.HasSynced() {
					t.Error("the caches are not filled")
				}
				w.Run(w.c.Run, 2)
				w.makeAvailable("example-foo", 1)
				synctest.Wait()
				w.WantState("Ready=True Available")
				test(t, w)
			}, example())
		})
	}
}

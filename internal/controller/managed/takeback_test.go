package managed_test

import (
	"errors"
	"fmt"
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

func tagged(tags ...string) func(*cloudteamv1.Network) {
	return func(obj *cloudteamv1.Network) { obj.Spec.Tags = tags }
}

// untagged is as a tool leaves the object that has `tags: []`, or no tags, and cannot tell one from the other.
func untagged(obj *cloudteamv1.Network) { obj.Spec.Tags = nil }

// exampleWith is the example with a change.
func exampleWith(change func(*cloudteamv1.Network)) *cloudteamv1.Network {
	obj := example()
	change(obj)
	return obj
}

// tag gives the network tags, as somebody else would, and has that seen.
func (w *world) tag(tags ...string) {
	w.T.Helper()
	w.drift(func(n *plan.ObservedNetwork) { n.Tags = tags })
}

// wantRemembered holds which fields the annotation names.
func (w *world) wantRemembered(fields ...string) {
	w.T.Helper()
	want := ""
	if len(fields) > 0 {
		want = fmt.Sprintf(`{"uid":"uid-1","fields":[%s]}`, quotedList(fields))
	}
	expect.Equal(w.T, want, w.Get().Annotations[cloudteamv1.AnnotationTakeBack], "the annotation")
}

func quotedList(texts []string) (list string) {
	for i, text := range texts {
		if i > 0 {
			list += ","
		}
		list += fmt.Sprintf("%q", text)
	}
	return list
}

func TestWhatTheSpecSetsNoLongerIsTakenBackOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.MustSync()
		// What was set at creation costs no write of its own.
		w.Calls.Want(t, "write finalizers", "list", "apply create network", "apply create subnet", "apply tag network",
			"write status")
		w.wantTags("a", "b")
		w.wantRemembered("tags")

		w.Events.Take()
		w.EditAndSync(untagged)
		w.Calls.Want(t, "reread network net-1", "apply tag network", "write annotations", "write status")
		w.Events.WantReasons(t, "Normal Updated")
		w.wantTags()
		w.wantRemembered()
		w.WantState("Ready=True Available")

		// From here on tags are others' to set.
		w.tag("theirs")
		w.MustSync()
		w.EditAndSync(func(obj *cloudteamv1.Network) { obj.Spec.Description = "another" })
		w.wantTags("theirs")
	}, exampleWith(tagged("a", "b")))
}

func TestWhatIsNewlySetIsRememberedBeforeItIsSent(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.MustSync()
		w.Edit(tagged("a"))
		w.Calls.Take()
		w.API.Refuse(controllertest.Refusing("write annotations", errors.New("etcd is away")))
		w.SyncFails()
		w.Calls.Want(t, "write annotations")
		w.wantTags()
		w.API.Refuse(nil)
		w.MustSync()
		w.Calls.Want(t, "write annotations", "reread network net-1", "apply tag network", "write status")
		w.wantRemembered("tags")
	}, example())
}

// crashAfter ends the process after a step: nothing is written to Kubernetes any more, until the next process starts.
func (w *world) crashAfter(action plan.Action) {
	w.T.Helper()
	dying := false
	w.API.Refuse(func(string) error {
		if dying {
			return errors.New("the process is gone")
		}
		return nil
	})
	w.Neutron.After = func(step plan.Step) error {
		dying = step.Action == action
		if dying {
			return &client.Error{Op: string(action), Reason: "canceled", MaybeDone: true}
		}
		return nil
	}
	w.SyncFails()
	dying, w.Neutron.After = false, nil
	w.restart()
}

func TestNoCrashForgetsWhatWasSet(t *testing.T) {
	for name, object := range map[string]*cloudteamv1.Network{
		"set at creation": exampleWith(tagged("a")), "set later": example(),
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				if name == "set later" {
					w.MustSync()
					w.Edit(tagged("a"))
				}
				w.crashAfter(plan.TagNetwork)
				w.wantTags("a")
				w.Edit(untagged) // before anybody has seen that it was applied
				w.MustSync()
				w.wantTags()
				w.wantRemembered()
			}, object)
		})
	}
	t.Run("while it is taken back", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.MustSync()
			w.Edit(untagged)
			w.crashAfter(plan.TagNetwork)
			w.MustSync()
			w.wantTags()
			w.wantRemembered()
			w.WantState("Ready=True Available")
		}, exampleWith(tagged("a")))
	})
}

func TestWhatAnEarlierReleaseSetIsRememberedAtItsFirstSync(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.MustSync()
		w.Edit(func(obj *cloudteamv1.Network) { delete(obj.Annotations, cloudteamv1.AnnotationTakeBack) })
		w.restart()
		w.MustSync()
		w.wantRemembered("tags")
		w.EditAndSync(untagged)
		w.wantTags()
	}, exampleWith(tagged("a")))
}

func TestACopiedAnnotationTakesNothingBack(t *testing.T) {
	for name, annotation := range map[string]string{
		"another object's": `{"uid":"uid-2","fields":["tags"]}`, "malformed": `tags`,
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.MustSync()
				w.tag("theirs")
				w.EditAndSync(func(obj *cloudteamv1.Network) {
					obj.Annotations[cloudteamv1.AnnotationTakeBack], obj.Spec.Description = annotation, "another"
				})
				w.wantTags("theirs")
			}, example())
		})
	}
	t.Run("the object's own, once all was applied", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.MustSync()
			w.tag("theirs")
			w.EditAndSync(func(obj *cloudteamv1.Network) {
				obj.Annotations[cloudteamv1.AnnotationTakeBack] = `{"uid":"uid-1","fields":["tags","nonsense"]}`
			})
			w.wantTags("theirs")
			w.wantRemembered()
		}, example())
	})
}

func TestAnImportThatDiffersLosesNothingWhenTheSpecIsMadeToFit(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		there := legacy()
		there.Tags = []string{"theirs"}
		w.Neutron.Put(there)
		w.SyncFails()
		w.WantState("Ready=False Stalled=True ImportMismatch")
		w.wantRemembered()
		w.EditAndSync(untagged)
		w.WantState("Ready=True Available")
		w.wantTags("theirs")

		// What the spec sets from then on is the spec's.
		w.EditAndSync(tagged("ours"))
		w.wantRemembered("tags")
		w.EditAndSync(untagged)
		w.wantTags()
	}, importing(func(s *cloudteamv1.NetworkSpec) { s.Tags = []string{"ours"} }))
}

func TestWhatCannotBeTakenBackYetIsNotForgotten(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.MustSync()
		inUse := true
		w.Neutron.Before = func(step plan.Step) error {
			if inUse && step.Action == plan.UnshareNetwork {
				return &client.Error{Kind: client.InUse, Op: "unshare network", Status: 409, Reason: "it is used"}
			}
			return nil
		}
		w.Edit(func(obj *cloudteamv1.Network) { obj.Spec.SharedWith = nil })
		w.SyncFails()
		w.wantRemembered("sharedWith")
		w.wantSharedWith(projectA)
		w.WantState("Ready=False Reconciling=True InUse")
		w.restart()
		inUse = false
		w.MustSync()
		w.wantSharedWith()
		w.wantRemembered()
	}, exampleWith(sharedWith(projectA)))
}

package managed_test

import (
	"errors"
	"fmt"
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
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
	w.t.Helper()
	w.cloud.Edit(w.t, w.cloud.Has()[0].ID, func(n *plan.ObservedNetwork) { n.Tags = tags })
	w.cloud.Audit(w.t)
}

// wantRemembered holds which fields the annotation names.
func (w *world) wantRemembered(fields ...string) {
	w.t.Helper()
	want := ""
	if len(fields) > 0 {
		want = fmt.Sprintf(`{"uid":"uid-1","fields":[%s]}`, quotedList(fields))
	}
	if got := w.get().Annotations[cloudteamv1.AnnotationTakeBack]; got != want {
		w.t.Errorf("annotation %q, want %q", got, want)
	}
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
		w.mustSync()
		// What was set at creation costs no write of its own.
		w.calls.Want(t, "write finalizers", "list", "apply create network", "apply create subnet", "apply tag network",
			"write status")
		w.wantTags("a", "b")
		w.wantRemembered("tags")

		w.events.Take()
		w.edit(untagged)
		w.mustSync()
		w.calls.Want(t, "apply tag network", "write annotations", "write status")
		w.events.WantReasons(t, "Normal Updated")
		w.wantTags()
		w.wantRemembered()
		w.wantState("Ready=True Available")

		// From here on tags are others' to set.
		w.tag("theirs")
		w.mustSync()
		w.edit(func(obj *cloudteamv1.Network) { obj.Spec.Description = "another" })
		w.mustSync()
		w.wantTags("theirs")
	}, exampleWith(tagged("a", "b")))
}

func TestAnEmptyListKeepsOthersOut(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustSync()
		w.edit(func(obj *cloudteamv1.Network) { obj.Spec.Tags = []string{} })
		w.mustSync()
		w.wantTags()
		w.wantRemembered()
		w.tag("theirs")
		w.mustSync()
		w.wantTags()
	}, exampleWith(tagged("a")))
}

func TestWhatWasNeverSetIsLeftToOthers(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustSync()
		w.calls.Want(t, "write finalizers", "list", "apply create network", "apply create subnet", "write status")
		w.wantRemembered()
		w.tag("theirs")
		w.edit(func(obj *cloudteamv1.Network) { obj.Spec.Description = "another" })
		w.mustSync()
		w.wantTags("theirs")
	}, example())
}

func TestWhatIsNewlySetIsRememberedBeforeItIsSent(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustSync()
		w.edit(tagged("a"))
		w.calls.Take()
		refused := true
		w.api.Refuse(func(what string) error {
			if refused && what == "write annotations" {
				return errors.New("etcd is away")
			}
			return nil
		})
		w.syncFails()
		w.calls.Want(t, "write annotations")
		w.wantTags()
		refused = false
		w.mustSync()
		w.calls.Want(t, "write annotations", "apply tag network", "write status")
		w.wantRemembered("tags")
	}, example())
}

// crashAfter ends the process after a step: nothing is written to Kubernetes any more, until the next process starts.
func (w *world) crashAfter(action plan.Action) {
	w.t.Helper()
	dying := false
	w.api.Refuse(func(string) error {
		if dying {
			return errors.New("the process is gone")
		}
		return nil
	})
	w.cloud.After = func(step plan.Step) error {
		dying = step.Action == action
		if dying {
			return &client.Error{Op: string(action), Reason: "canceled", MaybeDone: true}
		}
		return nil
	}
	w.syncFails()
	dying, w.cloud.After = false, nil
	w.restart()
}

func TestNoCrashForgetsWhatWasSet(t *testing.T) {
	for name, object := range map[string]*cloudteamv1.Network{
		"set at creation": exampleWith(tagged("a")), "set later": example(),
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				if name == "set later" {
					w.mustSync()
					w.edit(tagged("a"))
				}
				w.crashAfter(plan.TagNetwork)
				w.wantTags("a")
				w.edit(untagged) // before anybody has seen that it was applied
				w.mustSync()
				w.wantTags()
				w.wantRemembered()
			}, object)
		})
	}
	t.Run("while it is taken back", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.mustSync()
			w.edit(untagged)
			w.crashAfter(plan.TagNetwork)
			w.mustSync()
			w.wantTags()
			w.wantRemembered()
			w.wantState("Ready=True Available")
		}, exampleWith(tagged("a")))
	})
}

func TestWhatAnEarlierReleaseSetIsRememberedAtItsFirstSync(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustSync()
		w.edit(func(obj *cloudteamv1.Network) { delete(obj.Annotations, cloudteamv1.AnnotationTakeBack) })
		w.restart()
		w.mustSync()
		w.wantRemembered("tags")
		w.edit(untagged)
		w.mustSync()
		w.wantTags()
	}, exampleWith(tagged("a")))
}

func TestACopiedAnnotationTakesNothingBack(t *testing.T) {
	for name, annotation := range map[string]string{
		"another object's": `{"uid":"uid-2","fields":["tags"]}`, "malformed": `tags`,
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.mustSync()
				w.tag("theirs")
				w.edit(func(obj *cloudteamv1.Network) {
					obj.Annotations[cloudteamv1.AnnotationTakeBack], obj.Spec.Description = annotation, "another"
				})
				w.mustSync()
				w.wantTags("theirs")
			}, example())
		})
	}
	t.Run("the object's own, once all was applied", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.mustSync()
			w.tag("theirs")
			w.edit(func(obj *cloudteamv1.Network) {
				obj.Annotations[cloudteamv1.AnnotationTakeBack] = `{"uid":"uid-1","fields":["tags","nonsense"]}`
			})
			w.mustSync()
			w.wantTags("theirs")
			w.wantRemembered()
		}, example())
	})
}

func TestAnImportThatDiffersLosesNothingWhenTheSpecIsMadeToFit(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		there := legacy()
		there.Tags = []string{"theirs"}
		w.cloud.Put(there)
		w.syncFails()
		w.wantState("Ready=False Stalled=True ImportMismatch")
		w.wantRemembered()
		w.edit(untagged)
		w.mustSync()
		w.wantState("Ready=True Available")
		w.wantTags("theirs")

		// What the spec sets from then on is the spec's.
		w.edit(tagged("ours"))
		w.mustSync()
		w.wantRemembered("tags")
		w.edit(untagged)
		w.mustSync()
		w.wantTags()
	}, importing(func(s *cloudteamv1.NetworkSpec) { s.Tags = []string{"ours"} }))
}

func TestPoliciesOfDriftKeepNothingFromBeingTakenBack(t *testing.T) {
	for name, policy := range map[string]func(*cloudteamv1.NetworkSpec){
		"driftPolicy Report": func(s *cloudteamv1.NetworkSpec) { s.DriftPolicy = cloudteamv1.DriftPolicyReport },
		"ignoreDrift":        func(s *cloudteamv1.NetworkSpec) { s.IgnoreDrift = []cloudteamv1.NetworkDriftField{"tags"} },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.mustSync()
				w.edit(untagged)
				w.mustSync()
				w.wantTags()
				w.wantState("Ready=True Available")
			}, exampleWith(func(obj *cloudteamv1.Network) {
				obj.Spec.Tags = []string{"a"}
				policy(&obj.Spec)
			}))
		})
	}
}

func TestWhatCannotBeTakenBackYetIsNotForgotten(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustSync()
		inUse := true
		w.cloud.Before = func(step plan.Step) error {
			if inUse && step.Action == plan.UnshareNetwork {
				return &client.Error{Kind: client.InUse, Op: "unshare network", Status: 409, Reason: "it is used"}
			}
			return nil
		}
		w.edit(func(obj *cloudteamv1.Network) { obj.Spec.SharedWith = nil })
		w.syncFails()
		w.wantRemembered("sharedWith")
		w.wantSharedWith("a")
		w.wantState("Ready=False Reconciling=True InUse")
		w.restart()
		inUse = false
		w.mustSync()
		w.wantSharedWith()
		w.wantRemembered()
	}, exampleWith(sharedWith("a")))
}

package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	. "cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// requireReferences fails the test where a step refers to another one than an earlier one that creates what it needs.
func requireReferences(t *rapid.T, change Change) {
	t.Helper()
	for i, step := range change {
		require := func(ref Ref, creates Action) Step {
			switch {
			case ref.Creator == 0:
				return Step{}
			case ref.Creator > i || ref.ID != "" || change[ref.Creator-1].Action != creates:
				t.Fatalf("step %d of\n%s\nrefers to %+v, want an earlier one to %s", i+1, change, ref, creates)
			}
			return change[ref.Creator-1]
		}
		target := CreateNetwork
		switch step.Action {
		case UpdateRouter:
			target = CreateRouter
		case AttachInterface:
			target = CreateInterface
		}
		require(step.Ref, target)
		require(step.NetworkRef, CreateNetwork)
		require(step.RouterRef, CreateRouter)
		for at, ref := range step.SubnetRefs {
			subnet, address := require(ref, CreateSubnet).Subnet, step.Port.Addresses[at]
			if ref.Creator > 0 && !subnet.CIDR.Contains(address.Address) || ref.ID != address.SubnetID {
				t.Fatalf("step %d of\n%s\nrefers to %+v for %+v", i+1, change, ref, address)
			}
		}
		creates := step.Action.Creates() || step.Action == ShareNetwork
		if named := step.Ref != (Ref{}); named == creates {
			t.Fatalf("step %d of\n%s\nis about %+v", i+1, change, step.Ref)
		}
	}
}

func TestPropertyStepsReferToWhatEarlierStepsCreate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(scenes(), routedScenes()).Draw(t, "scene")
		for name, plan := range s.plans() {
			change, err := plan()
			if err != nil {
				continue
			}
			t.Log(name)
			requireReferences(t, change)
			requireReferences(t, change.Without(FieldName, FieldTags, FieldSharedWith, FieldGateway))
			var taken Change
			for _, step := range change {
				if step.Postponable() {
					requireReferences(t, change.Despite(taken))
				}
				requireReferences(t, change.After(taken))
				step = step.Resolve(taken)
				requireReferences(t, Change{step})
				if step.Action.Creates() {
					step.ID = s.cloud.NextID("created")
				}
				taken = append(taken, step)
			}
		}
	})
}

func TestPropertyAChangeCanBeTakenInParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := routedScenes().Draw(t, "scene")
		change := mustPlan(t, s.spec, s.cloud)
		whole := s.cloud.clone()
		mustApply(t, whole, change)
		for first := range len(change) + 1 {
			c := s.cloud.clone()
			taken, err := c.Apply(change[:first])
			expect.NoError(t, err)
			rest := change.After(taken)
			requireReferences(t, rest)
			// A later part knows no revision that an earlier one has moved; see Inventory.Apply.
			for i, step := range rest {
				if router := c.Router(step.ID); router != nil && step.Action != DetachInterface {
					rest[i].Revision = router.Revision
				}
			}
			mustApply(t, c, rest)
			if diff := cmp.Diff(whole.Everything(), c.Everything(), addresses, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("taken in parts, %d steps first, of\n%s\n(-whole +parts):\n%s", first, change, diff)
			}
		}
	})
}

func TestStepsGoWithTheStepThatTheyNeed(t *testing.T) {
	change := Change{
		{Action: CreateSubnet},
		{
			Action: CreateInterface, SubnetRefs: []Ref{{ID: "sub-1"}, {Creator: 1}},
			Port: PortAttributes{Addresses: make([]PortAddress, 2)},
		},
		{Action: CreateRouter},
		{Action: AttachInterface, Ref: Ref{Creator: 2}, RouterRef: Ref{Creator: 3}},
		{Action: UpdateRouter, Ref: Ref{Creator: 3}},
	}
	got := change.Only(func(s Step) bool { return s.Action != CreateSubnet })
	want := Change{{Action: CreateRouter}, {Action: UpdateRouter, Ref: Ref{Creator: 1}}}
	wantEqual(t, want, got, "what is left")
}

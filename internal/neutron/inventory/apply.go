package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"cloudteam.ztgame.com/network-controller/internal/inspect"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/internal/tracing"
)

// action says how Apply takes the steps of one plan.Action.
type action struct {
	// check, if set, looks live whether the step may be taken. confirms, if set, names a resource: before the
	// first such step of a change, a live read confirms that it is still ours. Apply skips both if the step
	// completes a creation of its own change, except what confirms names if it exists before any change.
	check    func(ctx context.Context, step plan.Step) error
	confirms func(step plan.Step) plan.Resource
	exists   bool
	// take sends the step and updates the Inventory. It writes into the step what Neutron chose: a new resource's id, an
	// allocated CIDR. It returns the resource's new revision; 0 if the answer does not tell.
	take func(ctx context.Context, step *plan.Step) (revision int, err error)
	// moves, if set, returns the id of another resource whose revision the step moves by one.
	moves func(step plan.Step) string
}

type actions map[plan.Action]action

// confirmKeeper reads a step's Keeper live. A list can be too old, so that it shows a Keeper that is gone. Without the
// Keeper the step is not taken: the error is a Conflict, and the next plan starts from the current state.
func (i *Inventory) confirmKeeper(ctx context.Context, step plan.Step) error {
	keeper := step.Keeper
	if keeper.ID == "" {
		return nil
	}
	found, err := i.Reread(ctx, keeper.Resource)
	if err != nil && !errors.Is(err, ErrUnmarked) {
		return err
	}
	s, err := i.stockOf("get", keeper.Kind)
	if err != nil {
		return err
	}
	has := func(s plan.ObservedSubnet) bool { return s.ID == keeper.Subnet }
	switch {
	case !found:
	case keeper.Owner != (plan.Owner{}) && s.ownerOf(keeper.ID) != keeper.Owner:
	case keeper.Subnet != "" && !slices.ContainsFunc(i.subnetsHeld(keeper.ID), has):
	default:
		return nil
	}
	return &client.Error{
		Kind: client.Conflict, Op: string(step.Action),
		Reason: fmt.Sprintf("%s, for which it would go, is not there any more", keeper.Resource),
	}
}

// Apply executes the steps of a change in order. It returns the steps that succeeded and the error that stopped it. The
// Inventory reflects each step before the next one starts.
//
// The error is ErrDisputed if another cluster has this cluster's UID. Only new networks and ports are made then.
//
// If the error is MaybeDone, the caller MUST NOT plan from an Observed of before it.
func (i *Inventory) Apply(ctx context.Context, change plan.Change) (done plan.Change, err error) {
	a := application{Inventory: i, change: change, moved: map[string]int{}, confirmed: map[plan.Resource]bool{}}
	for _, step := range change {
		ctx, span := tracing.Start(ctx, string(step.Action))
		step, err := a.take(ctx, step)
		tracing.End(span, client.Word(err))
		if err != nil {
			return a.done, err
		}
		a.done = append(a.done, step)
		if r := inspect.On(); r != nil {
			r.Record(inspect.Event{Stage: inspect.Inventory, What: "applied", Objects: inspect.Of(ctx),
				Text: "The Inventory holds the answer to: " + step.String() + ". The next look sees it without a list."})
		}
	}
	return a.done, nil
}

// application is one Apply.
type application struct {
	*Inventory
	change, done plan.Change
	// moved is how far our own writes have moved the resources' revisions since the change was planned.
	moved map[string]int
	// confirmed has the resources that a live read has shown to be ours.
	confirmed map[plan.Resource]bool
}

// take takes one step, and returns it with what Neutron chose.
func (a application) take(ctx context.Context, step plan.Step) (plan.Step, error) {
	act, known := a.actions[step.Action]
	if !known {
		return step, &client.Error{Kind: client.Invalid, Op: string(step.Action), Reason: "no such action"}
	}
	if err := a.admit(ctx, a.change, step); err != nil {
		return step, err
	}
	completes, planned := step.Completes(), step.Revision
	step = step.Resolve(a.done)
	if act.check != nil && !completes {
		if err := act.check(ctx, step); err != nil {
			return step, err
		}
	}
	if act.confirms != nil && (!completes || act.exists) {
		if r := act.confirms(step); !a.confirmed[r] {
			if err := a.stillOurs(ctx, step, r); err != nil {
				return step, err
			}
			a.confirmed[r] = true
		}
	}
	if err := a.confirmKeeper(ctx, step); err != nil {
		return step, err
	}
	step.Revision += a.moved[step.ID]
	revision, err := act.take(ctx, &step)
	if err != nil {
		return step, err
	}
	if revision != 0 {
		a.moved[step.ID] = revision - planned
	}
	a.full.after(step)
	a.term.after(step)
	if act.moves != nil {
		a.moved[act.moves(step)]++
	}
	return step, nil
}

package inventory

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

const opListShares = "list RBAC policies"

// shareAPI is the collection of RBAC policies. This package uses only those that share a network with one project.
var shareAPI = client.Collection{One: "rbac_policy", Many: "rbac-policies"}

// Neutron's terms in an RBAC policy (neutron.db.rbac_db_models). accessAsShared lets the target use a network like its
// own. everyProject is the target for all projects.
const (
	objectNetwork   = "network"
	accessAsShared  = "access_as_shared"
	everyProject    = "*"
	duplicateShare  = "DuplicateRbacPolicy"
	noSharesMessage = "this cloud cannot share a network with single projects (it lacks Neutron's extension " +
		"rbac-policies): leave spec.sharedWith out"
)

// wireShare is an RBAC policy in Neutron's JSON.
type wireShare struct {
	ID        string `json:"id"`
	NetworkID string `json:"object_id"`
	Project   string `json:"target_tenant"`
}

// shareFields are the fields that a list requests: those of wireShare.
var shareFields = []string{"id", "object_id", "target_tenant"}

func (w wireShare) Key() string { return w.ID }

func (w wireShare) observed() plan.Share { return plan.Share{ID: w.ID, Project: w.Project} }

// readShares lists the single projects with which networks are shared, by network id. It reads one network, or all if
// networkID is empty. It shows policies that the credentials' project created; an administrator would see the whole
// cloud's. Neutron neither pages policies nor sorts them by id. A cloud without RBAC policies has none.
func (i *Inventory) readShares(ctx context.Context, networkID string) (map[string][]plan.Share, error) {
	identity, err := i.cloud.Identity(ctx)
	if err != nil {
		return nil, err
	}
	query := url.Values{
		"project_id": {identity.ProjectID}, "object_type": {objectNetwork}, "action": {accessAsShared},
		"fields": shareFields,
	}
	if networkID != "" {
		query.Set("object_id", networkID)
	}
	listed, err := client.Follow[wireShare](ctx, i.cloud, opListShares, shareAPI, query)
	if client.IsNoSuchCollection(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	shares := map[string][]plan.Share{}
	for _, w := range listed {
		if w.NetworkID == "" || w.Project == "" {
			return nil, client.BadAnswer(opListShares, http.MethodGet, "policy %s has no object or no target", w.ID)
		}
		if w.Project != everyProject {
			shares[w.NetworkID] = append(shares[w.NetworkID], w.observed())
		}
	}
	for _, of := range shares {
		slices.SortFunc(of, plan.CompareShares)
	}
	return shares, nil
}

// share shares a network with a project. A network has one policy per project, so Neutron refuses a retry after a lost
// answer. It also refuses a first attempt if another project created the policy, which these credentials do not see. In
// both cases the network is shared.
func (i *Inventory) share(ctx context.Context, step plan.Step) (string, error) {
	defer i.networks.write(step.NetworkRef.ID)()
	var answer map[string]json.RawMessage
	r := client.Request{
		Op: string(step.Action), Method: http.MethodPost, Path: shareAPI.Many, Creates: 1, Answer: &answer,
		Body: map[string]any{shareAPI.One: map[string]any{
			"object_type": objectNetwork, "object_id": step.NetworkRef.ID, "action": accessAsShared,
			"target_tenant": step.Share.Project,
		}},
	}
	err := i.queue.Write(ctx, r.Op, flowOf(ctx), func() error { return i.cloud.Do(ctx, r) })
	if client.IsNoSuchCollection(err) {
		return "", &client.Error{Kind: client.Invalid, Op: r.Op, Status: http.StatusNotFound, Reason: noSharesMessage}
	}
	if refusal, ok := errors.AsType[*client.Error](err); ok && refusal.Type == duplicateShare {
		there, err := i.readShares(ctx, step.NetworkRef.ID)
		if err != nil {
			return "", err
		}
		share := step.Share
		for _, s := range there[step.NetworkRef.ID] {
			if s.Project == share.Project {
				share = s
			}
		}
		i.changeShares(step.NetworkRef.ID, 0, func(all []plan.Share) []plan.Share { return append(all, share) })
		return share.ID, nil
	}
	if err != nil {
		return "", err
	}
	made, err := client.DecodeOne[wireShare](r.Op, r.Method, shareAPI, answer)
	if err != nil {
		return "", err
	}
	if made.ID == "" || made.NetworkID != step.NetworkRef.ID || made.Project != step.Share.Project {
		return "", client.BadAnswer(r.Op, r.Method, "it is of another policy than the one that was asked for")
	}
	i.changeShares(step.NetworkRef.ID, 1, func(all []plan.Share) []plan.Share { return append(all, made.observed()) })
	return made.ID, nil
}

// unshare ends the sharing of a network with a project. A policy that is gone counts as removed.
func (i *Inventory) unshare(ctx context.Context, step plan.Step) error {
	defer i.networks.write(step.NetworkRef.ID)()
	if err := i.remove(ctx, step); err != nil {
		return err
	}
	i.changeShares(step.NetworkRef.ID, 1, func(all []plan.Share) []plan.Share {
		return slices.DeleteFunc(all, func(s plan.Share) bool { return s.ID == step.ID })
	})
	return nil
}

// changeShares records a change of a network's shares. to gets a copy. Neutron moves the network's revision by one with
// each policy (measured; the contract suite checks it). If it ever moves it otherwise, the next conditional write fails
// and rereads.
func (i *Inventory) changeShares(networkID string, moves int, to func([]plan.Share) []plan.Share) {
	i.networks.change(networkID, func(held *plan.ObservedNetwork) *plan.ObservedNetwork {
		if held == nil {
			return nil
		}
		n := *held
		n.Shares = to(slices.Clone(held.Shares))
		slices.SortFunc(n.Shares, plan.CompareShares)
		n.Revision += moves
		return &n
	})
}

// sameShares reports whether two views of a network have the same policies. It ignores shares without an id: a refusal
// told of them and no list shows them. They remain as long as the network's revision does.
func sameShares(a, b []plan.Share) bool { return slices.Equal(listable(a), listable(b)) }

// listable returns the shares that a list shows.
func listable(all []plan.Share) []plan.Share {
	hidden := func(s plan.Share) bool { return s.ID == "" }
	if !slices.ContainsFunc(all, hidden) {
		return all // the normal case
	}
	return slices.DeleteFunc(slices.Clone(all), hidden)
}

// keepUnread copies to a newer view of a network what a read does not show. It keeps the address counts until the next
// count. It keeps the shares that no list shows until the network's revision moves.
func keepUnread(from, to *plan.ObservedNetwork) {
	keepCounts(from, to)
	if from.Revision != to.Revision {
		return
	}
	for _, s := range from.Shares {
		shown := func(o plan.Share) bool { return o.Project == s.Project }
		if s.ID == "" && !slices.ContainsFunc(to.Shares, shown) {
			to.Shares = append(slices.Clip(to.Shares), s)
			slices.SortFunc(to.Shares, plan.CompareShares)
		}
	}
}

package inventory

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// shareKind describes RBAC policies. This package uses only those that share a network with one project. They have no
// revisions.
var shareKind = kind[wireShare, wireShare]{
	Collection: client.Collection{One: "rbac_policy", Many: "rbac-policies", Whole: true},
	fields:     fieldsOf[wireShare](),
	decode:     wireShare.checked,
	encode:     shareBody,
	lacking: "this cloud cannot share a network with single projects (it lacks Neutron's extension rbac-policies): " +
		"leave spec.sharedWith out",
}

// Neutron's terms in an RBAC policy (neutron.db.rbac_db_models). accessAsShared lets the target use a network like its
// own. everyProject is the target for all projects.
const (
	objectNetwork  = "network"
	accessAsShared = "access_as_shared"
	everyProject   = "*"
)

// wireShare is an RBAC policy in Neutron's JSON.
type wireShare struct {
	ID        string `json:"id"`
	NetworkID string `json:"object_id"`
	Project   string `json:"target_tenant"`
}

func (w wireShare) Key() string { return w.ID }

func (w wireShare) observed() plan.Share { return plan.Share{ID: w.ID, Project: w.Project} }

func (w wireShare) checked() (wireShare, error) {
	if w.ID == "" || w.NetworkID == "" || w.Project == "" {
		return w, fmt.Errorf("policy %q has no id, no object or no target", w.ID)
	}
	return w, nil
}

func shareBody(step plan.Step, _ bool) map[string]any {
	return map[string]any{
		"object_type": objectNetwork, "object_id": step.NetworkRef.ID, "action": accessAsShared,
		"target_tenant": step.Share.Project,
	}
}

func (i *Inventory) shareActions() actions {
	return actions{
		plan.ShareNetwork:   {confirms: itsNetwork, take: i.share, moves: networkMoved},
		plan.UnshareNetwork: {confirms: itsNetwork, take: i.unshare, moves: networkMoved},
	}
}

// readShares lists the single projects with which networks are shared, by network id. It reads one network, or all if
// networkID is empty. It shows policies that the credentials' project created; an administrator would see the whole
// cloud's. A cloud without RBAC policies has none.
func (i *Inventory) readShares(ctx context.Context, networkID string) (map[string][]plan.Share, error) {
	identity, err := i.cloud.Identity(ctx)
	if err != nil {
		return nil, err
	}
	query := url.Values{
		"project_id": {identity.ProjectID}, "object_type": {objectNetwork}, "action": {accessAsShared},
	}
	if networkID != "" {
		query.Set("object_id", networkID)
	}
	listed, err := shareKind.list(ctx, i.access, query)
	if client.IsNoSuchCollection(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	shares := map[string][]plan.Share{}
	for _, w := range listed {
		if w, err = w.checked(); err != nil {
			return nil, client.BadAnswer("list rbac-policies", http.MethodGet, "%s", err)
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

// addShares adds to networks the projects with which they are shared. networkID is that of the only network, or empty.
// If the cloud does not list them (its policy forbids it, it fails or hangs), networks keep the shares that the
// Inventory holds. Without these, the shares are unknown. Most networks are not shared, and must not wait for those
// that are.
func (i *Inventory) addShares(
	ctx context.Context, networkID string, networks map[string]*plan.ObservedNetwork,
) error {
	bounded, cancel := context.WithTimeout(ctx, listPatience)
	defer cancel()
	shares, err := i.readShares(bounded, networkID)
	if refusal, ok := errors.AsType[*client.Error](err); err != nil && (ctx.Err() != nil || !ok || refusal.Unsent() ||
		refusal.OfLogin() || refusal.Kind == client.Unauthenticated || refusal.Kind == client.Throttled) {
		return err
	}
	if networkID == "" {
		i.mu.Lock()
		i.sharesFailed = err
		if client.IsKind(err, client.Forbidden) {
			i.sharesFailed = nil
		}
		i.mu.Unlock()
	}
	for id, n := range networks {
		n.Shares, n.SharesUnknown = shares[id], err != nil
		if held, ok := i.networks.get(id); err != nil && ok {
			n.Shares, n.SharesUnknown = held.Shares, held.SharesUnknown
		}
	}
	return nil
}

// share shares a network with a project. A network has one policy per project, so Neutron refuses a retry after a lost
// answer. It also refuses a first attempt if another project created the policy, which these credentials do not see. In
// both cases the network is shared, and its revision has not moved.
func (i *Inventory) share(ctx context.Context, step *plan.Step) (revision int, err error) {
	defer i.networks.write(step.NetworkRef.ID)()
	share, moves := step.Share, 1
	made, err := shareKind.create(ctx, i.access, *step, nil)
	if client.TypeOf(err) == "DuplicateRbacPolicy" {
		there, err := i.readShares(ctx, step.NetworkRef.ID)
		if err != nil {
			return 0, err
		}
		for _, s := range there[step.NetworkRef.ID] {
			if s.Project == share.Project {
				share = s
			}
		}
		moves = 0
	} else if err != nil {
		return 0, err
	} else {
		share = made.observed()
	}
	step.ID = share.ID
	i.changeShares(step.NetworkRef.ID, moves, func(all []plan.Share) []plan.Share { return append(all, share) })
	return 0, nil
}

// unshare ends the sharing of a network with a project. A policy that is gone counts as removed.
func (i *Inventory) unshare(ctx context.Context, step *plan.Step) (revision int, err error) {
	defer i.networks.write(step.NetworkRef.ID)()
	if err := shareKind.remove(ctx, i.access, *step, nil); err != nil {
		return 0, err
	}
	i.changeShares(step.NetworkRef.ID, 1, func(all []plan.Share) []plan.Share {
		return slices.DeleteFunc(all, func(s plan.Share) bool { return s.ID == step.ID })
	})
	return 0, nil
}

// changeShares records a change of a network's shares. to gets a copy. Neutron moves the network's revision by one with
// each policy (measured; the contract suite checks it). If it ever moves it otherwise, the next conditional write fails
// and rereads.
func (i *Inventory) changeShares(networkID string, moves int, to func([]plan.Share) []plan.Share) {
	i.networks.edit(networkID, func(n *plan.ObservedNetwork) {
		n.Shares = to(slices.Clone(n.Shares))
		slices.SortFunc(n.Shares, plan.CompareShares)
		n.Revision += moves
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

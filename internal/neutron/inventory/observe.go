package inventory

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// Find searches live for resources of a kind and a name that bear the owner's marker. It reads those that it finds. It
// is a second check before a create, because an incomplete list would cause a duplicate. It sends a different query,
// which does not have the same gap. It finds only names that the owner's resources have had. It returns whether
// anything exists; on error nothing is known.
func (i *Inventory) Find(
	ctx context.Context, of plan.Kind, name string, owner plan.Owner,
) (found bool, err error) {
	s, err := i.stockOf("find", of)
	if err != nil {
		return false, err
	}
	ids, err := s.find(ctx, name, owner)
	for _, id := range ids {
		there, err := s.reread(ctx, id)
		if err != nil && !errors.Is(err, ErrUnmarked) {
			return false, err
		}
		found = found || there && err == nil
	}
	return found, err
}

// ErrUnmarked means that a resource of ours no longer bears our marker.
var ErrUnmarked = errors.New("it no longer bears this cluster's marker")

// Reread reads one resource live; a network with its subnets. It is for a resource that a list did not show or that a
// write found changed. It returns whether the resource exists, and ErrUnmarked if it exists but is not ours.
func (i *Inventory) Reread(ctx context.Context, r plan.Resource) (found bool, err error) {
	s, err := i.stockOf("get", r.Kind)
	if err != nil {
		return false, err
	}
	return s.reread(ctx, r.ID)
}

// stockOf returns the stock of a kind, for the operation op.
func (i *Inventory) stockOf(op string, of plan.Kind) (stocked, error) {
	for _, s := range i.stocks {
		if s.lists().kind == of {
			return s, nil
		}
	}
	return nil, &client.Error{
		Kind: client.Invalid, Op: op + " " + string(of), Reason: "this Inventory does not hold such resources",
	}
}

// Holdings are the ids of the resources that one object owns, by kind, in order.
type Holdings map[plan.Kind][]string

// Owners returns the UIDs of the objects that own resources here, with their resources. It combines the last complete
// lists with what Apply has done since. audited is when the oldest list of the last round began: it moves only after
// each kind was listed again. of is their project. ok is false until there is a list of each kind: then nothing is
// known, which is not the same as no owners. The Inventory does not know whether the objects still exist.
//
// The caller owns the answer.
func (i *Inventory) Owners() (owners map[string]Holdings, audited time.Time, of client.Identity, ok bool) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	for at, s := range i.stocks {
		l := s.lists()
		if l.began.IsZero() || at > 0 && l.of != of {
			return nil, time.Time{}, client.Identity{}, false
		}
		of = l.of
	}
	owners = make(map[string]Holdings, len(i.networks.owned)+len(i.ports.owned))
	for _, s := range i.stocks {
		s.owners(owners)
	}
	return owners, i.round.oldest, of, true
}

// match is what a filter goes by of a network or a floating IP.
type match struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Tags        []string `json:"tags"`
	ProjectID   string   `json:"project_id"`
	Shared      bool     `json:"shared"`
	External    bool     `json:"router:external"`
}

func (m match) Key() string { return m.ID }

// Matching returns the ids of the networks or floating IPs that fit a filter and bear no other owner's marker, sorted.
// What bears the owner's is the only one: it was found before. With ofProject, only the project's own count. Without
// it, if the project has none, networks of others count that are shared or external. Administrators' credentials see
// all of them, and a user must not find what they could not name.
//
// Neutron compares names without regard to case, and a cloud may lack tags. So what it returns is compared again.
func (i *Inventory) Matching(
	ctx context.Context, of plan.Kind, by plan.ImportFilter, owner plan.Owner, ofProject bool,
) (ids []string, err error) {
	in := networkKind.Collection
	if of == plan.KindFloatingIP {
		in = floatingIPAPI
	}
	op, query := "find "+in.One, url.Values{"fields": fieldsOf[match]()}
	if by.Name != "" {
		query.Set("name", by.Name)
	}
	if len(by.Tags) > 0 {
		query.Set("tags", strings.Join(by.Tags, ","))
	}
	identity, err := i.cloud.Identity(ctx)
	if err != nil {
		return nil, err
	}
	if ofProject {
		query.Set("project_id", identity.ProjectID)
	}
	var own, shared []string
	begin := func() { ids, own, shared = nil, nil, nil }
	err = client.Each(ctx, i.cloud, op, in, query, begin, func(m match, odd error) error {
		_, bearer, marked := plan.ParseDescription(m.Description)
		switch {
		case odd != nil:
			return odd
		case !by.Fits(m.Name, m.Tags), marked && bearer != owner:
		case !plan.IsID(m.ID):
			return client.BadAnswer(op, http.MethodGet, "an id of an unknown form")
		case marked:
			own = append(own, m.ID)
		case m.ProjectID == identity.ProjectID:
			ids = append(ids, m.ID)
		case !ofProject && (m.Shared || m.External):
			shared = append(shared, m.ID)
		}
		return nil
	})
	if client.IsNoSuchCollection(err) {
		return nil, nil
	}
	if len(own) > 0 {
		ids = own
	} else if len(ids) == 0 {
		ids = shared
	}
	slices.Sort(ids)
	return ids, err
}

// ForeignFloatingIP is a floating IP as it is in Neutron, of any owner.
type ForeignFloatingIP struct {
	plan.ObservedFloatingIP
	// ProjectID is the project that owns it.
	ProjectID string
}

// wireForeignFloatingIP adds the project to wireFloatingIP.
type wireForeignFloatingIP struct {
	wireFloatingIP
	ProjectID string `json:"project_id"`
}

// ForeignFloatingIP is Foreign for a floating IP.
func (i *Inventory) ForeignFloatingIP(ctx context.Context, id string) (f ForeignFloatingIP, found bool, err error) {
	w, err := kind[wireForeignFloatingIP, ForeignFloatingIP]{
		Collection: floatingIPAPI, fields: fieldsOf[wireForeignFloatingIP](),
	}.get(ctx, i.access, id)
	if err == nil && w.ProjectID == "" {
		err = client.BadAnswer("get floatingip", http.MethodGet, "floating IP %s has no project_id", id)
	}
	if err != nil {
		if client.IsNotFound(err) {
			err = nil
		}
		return ForeignFloatingIP{}, false, err
	}
	observed, err := w.observed()
	return ForeignFloatingIP{observed, w.ProjectID}, err == nil, err
}

// Foreign is a network as it is in Neutron, of any owner.
type Foreign struct {
	plan.ObservedNetwork
	// ProjectID is the project that owns the network.
	ProjectID string
}

// foreignKind only reads: nothing is written to a network that is not ours.
var foreignKind = kind[wireForeign, Foreign]{Collection: networkKind.Collection, fields: fieldsOf[wireForeign]()}

// wireForeign adds the project to wireNetwork, because the network need not be ours.
type wireForeign struct {
	wireNetwork
	ProjectID string `json:"project_id"`
}

// Foreign reads a network by id, whatever its project and marker. It includes all subnets and shares that the
// credentials may see. The Inventory does not keep it. It reports false if the network does not exist or the
// credentials may not see it.
//
// From the next audit on it includes address counts: the cloud's own if the network is in this project, else those of
// this project's ports.
func (i *Inventory) Foreign(ctx context.Context, id string) (n Foreign, found bool, err error) {
	i.mu.Lock()
	i.counts.foreign = true
	i.mu.Unlock()
	w, err := foreignKind.get(ctx, i.access, id)
	if client.IsNotFound(err) {
		return Foreign{}, false, nil
	}
	if err != nil {
		return Foreign{}, false, err
	}
	if w.ProjectID == "" {
		return Foreign{}, false, client.BadAnswer("get network", http.MethodGet, "network %s has no project_id", id)
	}
	observed, err := i.readWhole(ctx, w.wireNetwork)
	if err != nil {
		return Foreign{}, false, err
	}
	return Foreign{*observed, w.ProjectID}, true, nil
}

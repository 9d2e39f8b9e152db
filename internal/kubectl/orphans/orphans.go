// Package orphans finds what bears a cluster's marker in Neutron while its object is gone, and says what the controller
// does about it. It only reads.
package orphans

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"cloudteam.ztgame.com/network-controller/internal/controller/orphan"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	"cloudteam.ztgame.com/network-controller/internal/osc"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// State is what the controller does about an orphan.
type State string

// The states, by the controller's default flags.
const (
	// Due: it is removed, after the grace period.
	Due State = "Due"
	// Retained: its object said that it stays. It loses its marker.
	Retained State = "Retained"
	// Withheld: more objects are gone than may lose their resources in one audit.
	Withheld State = "Withheld"
	// Blocked: something that is not the object's is in the way.
	Blocked State = "Blocked"
	// Ignored: the controller does not see it.
	Ignored State = "Ignored"
)

// Orphan is a resource in Neutron whose object is gone.
type Orphan struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
	// Name is that in Neutron; of a subnet, its CIDR.
	Name string `json:"name"`
	// Created is when it was created in Neutron; zero if the cloud does not say. Nobody knows since when its object is
	// gone.
	Created time.Time `json:"created,omitzero"`
	// Object is the UID of the object that is gone.
	Object string `json:"object"`
	State  State  `json:"state"`
	// Says is the reason for the state, and what to do.
	Says string `json:"says"`
}

// Find finds the orphans of the cluster of a UID in the project of a cloud, by the controller's own code.
func Find(ctx context.Context, c *ask.Cluster, cloud *client.Cloud, cluster string) ([]Orphan, error) {
	f := finder{Inventory: inventory.New(cloud, cluster, inventory.Options{Ports: true}), going: map[string]bool{}}
	// Neutron first: an object exists before anything is created for it.
	if err := f.Audit(ctx); err != nil {
		return nil, err
	}
	owners, _, project, ok := f.Owners()
	if !ok {
		return nil, errors.New("the project changed while it was listed: run the command again")
	}
	subnets, err := listSubnets(ctx, cloud, project.ProjectID)
	if err != nil {
		return nil, err
	}
	live, err := Live(ctx, c)
	if err != nil {
		return nil, err
	}
	for _, uid := range slices.Sorted(maps.Keys(owners)) {
		if live[uid] {
			continue
		}
		if err := f.add(ctx, plan.Owner{Cluster: cluster, Object: uid}); err != nil {
			return nil, err
		}
	}
	all, err := f.judge(ctx, len(owners))
	if err != nil {
		return nil, err
	}
	for _, s := range subnets {
		if at := slices.IndexFunc(all, func(o Orphan) bool { return o.ID == s.ID }); at >= 0 {
			all[at].Created = s.Created.Time
		} else if _, owner, marked := plan.ParseDescription(s.Description); marked && owner.Cluster == cluster &&
			!live[owner.Object] {
			all = append(all, Orphan{Kind: "subnet", ID: s.ID, Name: s.CIDR, Created: s.Created.Time, Object: owner.Object,
				State: Ignored, Says: "Its network " + s.NetworkID + " does not bear the object's marker, so the controller does " +
					"not look for it. Delete it if nothing needs it: " + osc.DeleteSubnet(s.ID)})
		}
	}
	return all, nil
}

// Live are the UIDs of all objects that own resources in Neutron. One that the user may not read would look gone.
func Live(ctx context.Context, c *ask.Cluster) (map[string]bool, error) {
	all, err := ask.Everywhere(ctx, c)
	live := map[string]bool{}
	for _, obj := range all {
		live[string(obj.GetUID())] = true
	}
	return live, err
}

// subnet is a subnet in Neutron.
type subnet struct {
	ID          string      `json:"id"`
	Description string      `json:"description"`
	NetworkID   string      `json:"network_id"`
	CIDR        string      `json:"cidr"`
	Created     client.Time `json:"created_at"`
}

// Key implements client.Identified.
func (s subnet) Key() string { return s.ID }

func listSubnets(ctx context.Context, cloud *client.Cloud, project string) ([]subnet, error) {
	return client.List[subnet](ctx, cloud, "list subnets", client.Collection{One: "subnet", Many: "subnets"}, url.Values{
		"project_id": {project}, "fields": {"id", "description", "network_id", "cidr", "created_at"}})
}

// finder is one Find.
type finder struct {
	*inventory.Inventory
	gone []leftover
	// going are the ids of the ports that go with their objects.
	going map[string]bool
}

// leftover is what one object left. change is what the controller would do, and refused why it would do nothing.
type leftover struct {
	object   string
	observed plan.Observed
	change   plan.Change
	refused  string
}

// add adds an object that is gone.
func (f *finder) add(ctx context.Context, owner plan.Owner) error {
	observed, err := f.Observed(ctx, owner, time.Time{})
	if err != nil {
		return err
	}
	l := leftover{object: owner.Object, observed: observed}
	if l.change, err = plan.Orphan(owner, observed); err != nil {
		l.refused = strings.TrimSuffix(err.Error(), ".")
	}
	f.gone = append(f.gone, l)
	for _, p := range observed.Ports {
		f.going[p.ID] = err == nil
	}
	return nil
}

// judge says what the controller does about each resource of the objects that are gone. owners is how many objects have
// something in the project.
func (f *finder) judge(ctx context.Context, owners int) ([]Orphan, error) {
	all, removable := []Orphan{}, 0
	for _, l := range f.gone {
		judged, err := f.judgeOne(ctx, l)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(judged, func(o Orphan) bool { return o.State == Blocked }) {
			removable++
		}
		all = append(all, judged...)
	}
	allowed := orphan.Rules{MaxShare: orphan.DefaultMaxShare}.Allowance(owners)
	for i := range all {
		if all[i].State != Blocked && removable > allowed {
			all[i].State, all[i].Says = Withheld, fmt.Sprintf("%d of %d owners are gone, and one audit removes at most %d "+
				"(--orphan-max-share): none is removed. If this cluster lost its objects, restore them with their UIDs. If these "+
				"may go, start the controller once with --orphan-max-share=1.", removable, owners, allowed)
		}
	}
	return all, nil
}

// judgeOne says what the controller does about what one object left, if nothing withholds it.
func (f *finder) judgeOne(ctx context.Context, l leftover) ([]Orphan, error) {
	all := resources(l.observed)
	set := func(state State, says string, of func(Orphan) bool) {
		for i := range all {
			if of(all[i]) {
				all[i].Object, all[i].State, all[i].Says = l.object, state, says
			}
		}
	}
	every := func(Orphan) bool { return true }
	const again = ". The controller retries after each grace period. Remove what is in the way."
	deletes := func(s plan.Step) bool { return s.Action.Deletes() }
	switch {
	case l.refused != "":
		set(Blocked, l.refused+again, every)
		return all, nil
	case !slices.ContainsFunc(l.change, deletes):
		set(Retained, "Its object had deletionPolicy Retain, or imported it. After the grace period (--orphan-grace) it "+
			"loses its marker, and stays.", every)
		return all, nil
	}
	set(Due, fmt.Sprintf("The controller removes it in an audit after the grace period (--orphan-grace, by default %s).",
		duration.HumanDuration(orphan.DefaultGrace)), every)
	for at, step := range l.change {
		by, err := f.blockers(ctx, step)
		if err != nil {
			return nil, err
		}
		if !by.Empty() { // the steps before it are taken
			left := l.change[at:]
			set(Blocked, "In use by "+by.String()+again, func(o Orphan) bool {
				return o.Kind == "subnet" || slices.ContainsFunc(left, func(s plan.Step) bool { return deletes(s) && s.ID == o.ID })
			})
			break
		}
	}
	return all, nil
}

// blockers are what would refuse a step, and does not go itself.
func (f *finder) blockers(ctx context.Context, step plan.Step) (inventory.Blockers, error) {
	by, err := f.Blockers(ctx, step)
	if client.IsNoSuchCollection(err) {
		return inventory.Blockers{}, nil // a cloud without floating IPs
	}
	by.Ports = slices.DeleteFunc(by.Ports, func(b inventory.Blocker) bool { return f.going[b.ID] })
	return by, err
}

// resources lists what one object left.
func resources(o plan.Observed) (all []Orphan) {
	for _, r := range o.Named() {
		all = append(all, Orphan{Kind: string(r.Kind), ID: r.ID, Name: r.Name, Created: r.Created})
		at := slices.IndexFunc(o.Networks, func(n plan.ObservedNetwork) bool { return n.ID == r.ID })
		if at < 0 {
			continue
		}
		_, owner, _ := plan.ParseDescription(o.Networks[at].Description)
		for _, s := range o.Networks[at].Subnets {
			if owner.Owns(s.Description) {
				all = append(all, Orphan{Kind: "subnet", ID: s.ID, Name: s.CIDR.String(), Created: s.Created})
			}
		}
	}
	return all
}

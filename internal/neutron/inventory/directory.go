package inventory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/osc"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

const (
	opFindExternalNetwork = "find external network"
	opFindQoSPolicy       = "find QoS policy"
	opFindSubnetPool      = "find subnet pool"
	// directoryFor is how long a directory trusts the names that it read. An unknown name makes it read again, at most
	// once per directoryPause.
	directoryFor   = time.Minute
	directoryPause = 5 * time.Second
	// directoryPatience is how long after a list began callers still wait for it. A collection that hangs must not hold
	// the workers of those who name something in it, because others need them.
	directoryPatience = 10 * time.Second
	// directoryTimeout bounds one list.
	directoryTimeout = 10 * time.Minute
)

// directory finds the ids of resources that users refer to by name or id and that need not be ours. One list at a time
// is under way for all who wait, each with its own context. A failed list counts for directoryPause.
type directory struct {
	op string
	of client.Collection
	// shown is the command that shows users what there is.
	shown string
	// lacking is the message for users if the cloud has no such resources.
	lacking string
	// query selects the resources, and the fields that an entry has of them. own leaves out other projects' resources.
	query url.Values
	own   bool
	// permitted leaves out what is another project's and not shared with this one. An administrator's credentials see it,
	// and no user of a Network may use it.
	permitted bool

	mu sync.Mutex
	// last is the list that ended last, and underway one that has not ended; either may be nil.
	last, underway *reading
}

// reading is one list of a directory.
type reading struct {
	project client.Identity
	began   time.Time
	// done is closed when the list ends. What follows is set before that, and never changed afterwards.
	done    chan struct{}
	ended   time.Time
	entries []entry
	err     error
}

// entry is a resource in a directory.
type entry struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// Description is that of a router or a security group.
	Description string `json:"description"`
	// ProjectID and Shared are a QoS policy's or a subnet pool's. Shared is true if all projects may use it, or this one.
	ProjectID string `json:"project_id"`
	Shared    bool   `json:"shared"`
	// Subnets are an external network's; nil if the cloud does not tell.
	Subnets *[]string `json:"subnets"`
	// The other fields are a subnet pool's. Neutron writes its lengths as strings; a json.Number reads both forms.
	IPVersion           client.Number `json:"ip_version"`
	MinPrefixLength     json.Number   `json:"min_prefixlen"`
	MaxPrefixLength     json.Number   `json:"max_prefixlen"`
	DefaultPrefixLength json.Number   `json:"default_prefixlen"`

	// odd is why the entry cannot be decoded; nil if it can.
	odd error
}

func (e entry) Key() string { return e.ID }

// directories are those of an Inventory.
type directories struct{ external, existing, policies, subnetPools, groups *directory }

func newDirectories() directories {
	described := url.Values{"fields": {"id", "name", "description"}}
	return directories{
		external: &directory{
			op: opFindExternalNetwork, of: networkKind.Collection, shown: osc.ExternalNetworks, lacking: routerKind.lacking,
			query: url.Values{"router:external": {"True"}, "fields": {"id", "name", "subnets"}},
		},
		existing: &directory{
			op: "find router", of: routerKind.Collection, shown: osc.Routers, lacking: routerKind.lacking,
			query: described, own: true,
		},
		policies: &directory{
			op: opFindQoSPolicy, of: qosPolicyAPI, shown: osc.QoSPolicies,
			lacking: "this cloud has no QoS policies (it lacks Neutron's extension qos): leave spec.qosPolicy out",
			query:   url.Values{"fields": {"id", "name", "project_id", "shared"}}, permitted: true,
		},
		subnetPools: &directory{
			op: opFindSubnetPool, of: termCollection, shown: osc.SubnetPools,
			lacking: "this cloud has no subnet pools: write a cidr in the place of subnetPool",
			query: url.Values{"fields": {
				"id", "name", "project_id", "shared", "ip_version", "min_prefixlen", "max_prefixlen", "default_prefixlen",
			}}, permitted: true,
		},
		// Each project has one that is called default.
		groups: &directory{
			op: "find security group", of: groupKind.Collection, shown: osc.SecurityGroups,
			lacking: "this cloud has no security groups: leave securityGroups out",
			query:   described, own: true,
		},
	}
}

// qosPolicyAPI is the collection of QoS policies. Its path starts with the extension's.
var qosPolicyAPI = client.Collection{One: "policy", Many: "qos/policies"}

// ExternalNetwork returns the id of the external network that a user names by id or name. field is where the user wrote
// it. If these credentials do not see it, or several have the name, the error is an *Error of kind Invalid.
func (i *Inventory) ExternalNetwork(ctx context.Context, field, idOrName string) (string, error) {
	e, err := i.external.find(ctx, i.cloud, field, idOrName)
	return e.ID, err
}

// SubnetPool is ExternalNetwork for subnet pools: the project's own and those shared with it. field is where the user
// wrote the name, such as subnetPool or additionalSubnets[0].subnetPool. An *Error of kind Invalid names it.
func (i *Inventory) SubnetPool(ctx context.Context, field, idOrName string) (pool plan.SubnetPool, err error) {
	d := i.subnetPools
	e, err := d.find(ctx, i.cloud, "spec."+field, idOrName)
	if err != nil {
		return plan.SubnetPool{}, err
	}
	pool = plan.SubnetPool{ID: e.ID, IPVersion: int(e.IPVersion.Or0())}
	for _, length := range []struct {
		of   *int
		text json.Number
	}{
		{&pool.MinPrefixLength, e.MinPrefixLength}, {&pool.MaxPrefixLength, e.MaxPrefixLength},
		{&pool.DefaultPrefixLength, e.DefaultPrefixLength},
	} {
		if *length.of, err = strconv.Atoi(length.text.String()); err != nil {
			return plan.SubnetPool{}, client.BadAnswer(d.op, http.MethodGet, "subnet pool %s has no prefix lengths", e.ID)
		}
	}
	return pool, nil
}

// Router is ExternalNetwork for routers, ours or not. A router of another project is found by id only.
func (i *Inventory) Router(ctx context.Context, idOrName string) (string, error) {
	e, err := i.existing.find(ctx, i.cloud, "spec.router.existing", idOrName)
	if client.IsKind(err, client.Invalid) && plan.IsID(idOrName) {
		switch _, getErr := routerKind.get(ctx, i.access, idOrName); {
		case getErr == nil:
			return idOrName, nil
		case !client.IsNotFound(getErr):
			return "", getErr
		}
	}
	return e.ID, err
}

// QoSPolicy is ExternalNetwork for QoS policies.
func (i *Inventory) QoSPolicy(ctx context.Context, idOrName string) (string, error) {
	e, err := i.policies.find(ctx, i.cloud, "spec.qosPolicy", idOrName)
	return e.ID, err
}

// SecurityGroup is ExternalNetwork for the project's own security groups. field is where the user wrote the name. An id
// costs no call, and may be that of another project's group.
func (i *Inventory) SecurityGroup(ctx context.Context, field, idOrName string) (string, error) {
	if plan.IsID(idOrName) {
		return idOrName, nil
	}
	e, err := i.groups.find(ctx, i.cloud, field, idOrName)
	return e.ID, err
}

// find returns the entry that a user names by id or name. field is where the user wrote it.
func (d *directory) find(ctx context.Context, c *client.Cloud, field, idOrName string) (entry, error) {
	project, err := c.Identity(ctx)
	if err != nil {
		return entry{}, err
	}
	if err := client.Outside(ctx, d.op, project); err != nil {
		return entry{}, err
	}
	d.mu.Lock()
	if last := d.last; last != nil && last.project == project && last.answers(idOrName) {
		d.mu.Unlock()
		return d.only(field, idOrName, last)
	}
	r := d.underway
	if r == nil || r.project != project {
		r = &reading{project: project, began: time.Now(), done: make(chan struct{})}
		d.underway = r
		// It serves others, too, and must not end when this caller leaves.
		go d.read(client.Within(context.WithoutCancel(ctx), project), c, r)
	}
	d.mu.Unlock()

	switch ended, err := within(ctx, time.Until(r.began.Add(directoryPatience)), r.done); {
	case ended:
		return d.only(field, idOrName, r)
	case err != nil:
		return entry{}, err
	}
	return entry{}, noAnswer(d.op, client.GateTurn) // the text is that of the list's own deadline
}

// read lists the collection for all who wait.
func (d *directory) read(ctx context.Context, c *client.Cloud, r *reading) {
	ctx, cancel := context.WithTimeout(ctx, directoryTimeout)
	defer cancel()
	query := maps.Clone(d.query)
	if d.own {
		query.Set("project_id", r.project.ProjectID)
	}
	begin := func() { r.entries = nil }
	r.err = client.Each(ctx, c, d.op, d.of, query, begin, func(e entry, odd error) error {
		if d.permitted && e.ProjectID != "" && e.ProjectID != r.project.ProjectID && !e.Shared {
			return nil
		}
		e.odd = odd // it concerns only those who name this entry
		r.entries = append(r.entries, e)
		return nil
	})
	if client.IsNoSuchCollection(r.err) {
		r.err = &client.Error{Kind: client.Invalid, Op: d.op, Status: http.StatusNotFound, Reason: d.lacking}
	}
	r.ended = time.Now()
	d.mu.Lock()
	if d.underway == r {
		d.last, d.underway = r, nil
	}
	d.mu.Unlock()
	close(r.done)
}

// answers reports whether a list that has ended still tells what a text means.
func (r *reading) answers(idOrName string) bool {
	age := time.Since(r.ended)
	switch refusal, ok := errors.AsType[*client.Error](r.err); {
	case ok && refusal.Unsent(): // it shows nothing, and its reason may be over
		return false
	case r.err != nil:
		return age < directoryPause
	}
	if age < directoryPause {
		return true
	}
	found := r.matching(idOrName)
	return age < directoryFor && len(found) == 1 && !found[0].empty()
}

// empty is whether the entry is an external network without a subnet.
func (e entry) empty() bool { return e.Subnets != nil && len(*e.Subnets) == 0 }

// matching returns the entries that a text can mean: the one with that id, or else all with that name. A name never
// means the router of a Network or the group of a SecurityGroup: users choose those names, and one of them could take
// the place of what is meant.
func (r *reading) matching(idOrName string) []entry {
	if at := slices.IndexFunc(r.entries, func(e entry) bool { return e.ID == idOrName }); at >= 0 {
		return r.entries[at : at+1]
	}
	var found []entry
	for _, e := range r.entries {
		if e.Name == idOrName && !plan.Nameless(e.Description) {
			found = append(found, e)
		}
	}
	return found
}

// only returns the one entry that a list has; none or several is an error.
func (d *directory) only(field, idOrName string, in *reading) (entry, error) {
	if in.err != nil {
		return entry{}, in.err
	}
	found := in.matching(idOrName)
	refuse := func(format string, args ...any) (entry, error) {
		return entry{}, &client.Error{
			Kind: client.Invalid, Op: d.op, Reason: client.OneLine(field + ": " + fmt.Sprintf(format, args...)),
		}
	}
	switch len(found) {
	case 1:
		if found[0].empty() {
			// From Neutron 26 on, a router that has its gateway before the first subnet never gets an address there (contract
			// suite), and a floating IP is refused.
			return refuse("external network %q has no subnet, and so no addresses: have an administrator create one", idOrName)
		}
		return found[0], found[0].odd
	case 0:
		// The message lists no other names. They change, and the same cause must give the same message.
		return refuse("%q is neither the id nor the name of one that these credentials see; %s shows those",
			idOrName, d.shown)
	default:
		// It says no id: a tenant could learn that of another namespace's.
		return refuse("%d are called %q: write the id, which %s shows", len(found), idOrName, d.shown)
	}
}

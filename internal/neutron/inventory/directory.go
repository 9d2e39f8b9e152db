package inventory

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
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
)

// directory finds the ids of resources that users refer to by name or id and that need not be ours.
type directory struct {
	op string
	of client.Collection
	// lacking is the message for users if the cloud has no such resources.
	lacking string
	query   func(client.Identity) url.Values

	// mu is held during the request, so that all who wait share one answer.
	mu      sync.Mutex
	project client.Identity
	read    time.Time
	entries []entry
}

// entry is a resource in a directory.
type entry struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// The other fields are a subnet pool's. Neutron writes its lengths as strings; a json.Number reads both forms.
	IPVersion           int         `json:"ip_version"`
	MinPrefixLength     json.Number `json:"min_prefixlen"`
	MaxPrefixLength     json.Number `json:"max_prefixlen"`
	DefaultPrefixLength json.Number `json:"default_prefixlen"`
}

func (e entry) Key() string { return e.ID }

func newExternalNetworks() *directory {
	return &directory{
		op: opFindExternalNetwork, of: networkKind.Collection, lacking: routerKind.lacking,
		query: func(client.Identity) url.Values {
			return url.Values{"router:external": {"True"}, "fields": {"id", "name"}}
		},
	}
}

func newExistingRouters() *directory {
	return &directory{
		op: "find router", of: routerKind.Collection, lacking: routerKind.lacking,
		query: func(of client.Identity) url.Values {
			return url.Values{"project_id": {of.ProjectID}, "fields": {"id", "name"}}
		},
	}
}

// newQoSPolicies lists the policies that the credentials see: the project's own and those shared with it. An
// administrator sees all.
func newQoSPolicies() *directory {
	return &directory{
		op: opFindQoSPolicy, of: qosPolicyAPI,
		lacking: "this cloud has no QoS policies (it lacks Neutron's extension qos): leave spec.qosPolicy out",
		query:   func(client.Identity) url.Values { return url.Values{"fields": {"id", "name"}} },
	}
}

// qosPolicyAPI is the collection of QoS policies. Its path starts with the extension's.
var qosPolicyAPI = client.Collection{One: "policy", Many: "qos/policies"}

func newSubnetPools() *directory {
	return &directory{
		op: opFindSubnetPool, of: client.Collection{One: "subnetpool", Many: "subnetpools"},
		lacking: "this cloud has no subnet pools: write a cidr in the place of subnetPool",
		query: func(client.Identity) url.Values {
			return url.Values{"fields": {
				"id", "name", "ip_version", "min_prefixlen", "max_prefixlen", "default_prefixlen",
			}}
		},
	}
}

// ExternalNetwork returns the id of the external network that a user names by id or name. If these credentials do not
// see it, or several have the name, the error is an *Error of kind Invalid.
func (i *Inventory) ExternalNetwork(ctx context.Context, idOrName string) (string, error) {
	e, err := i.external.find(ctx, i.cloud, "spec.router.externalNetwork", idOrName)
	return e.ID, err
}

// SubnetPool is ExternalNetwork for subnet pools: the project's own and those shared with it. field is where the user
// wrote the name, such as subnetPool or additionalSubnets[0].subnetPool. An *Error of kind Invalid names it.
func (i *Inventory) SubnetPool(ctx context.Context, field, idOrName string) (pool plan.SubnetPool, err error) {
	d := i.pools
	e, err := d.find(ctx, i.cloud, "spec."+field, idOrName)
	if err != nil {
		return plan.SubnetPool{}, err
	}
	pool = plan.SubnetPool{ID: e.ID, IPVersion: e.IPVersion}
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
	if client.IsKind(err, client.Invalid) && looksLikeID(idOrName) {
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

// looksLikeID reports whether a text has the form of Neutron's ids, a UUID. Neutron would read other texts as a path.
func looksLikeID(text string) bool {
	return len(text) == 36 && strings.Trim(text, "0123456789abcdef-") == ""
}

// find returns the entry that a user names by id or name. field is where the user wrote it.
func (d *directory) find(ctx context.Context, c *client.Cloud, field, idOrName string) (entry, error) {
	project, err := c.Identity(ctx)
	if err != nil {
		return entry{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	age := time.Since(d.read)
	if project == d.project && age < directoryFor {
		if found := d.matching(idOrName); len(found) == 1 || age < directoryPause {
			return d.only(field, idOrName, found)
		}
	}
	entries, err := client.List[entry](ctx, c, d.op, d.of, d.query(project))
	if client.IsNoSuchCollection(err) {
		return entry{}, &client.Error{Kind: client.Invalid, Op: d.op, Status: http.StatusNotFound, Reason: d.lacking}
	}
	if err != nil {
		return entry{}, err
	}
	d.project, d.read, d.entries = project, time.Now(), entries
	return d.only(field, idOrName, d.matching(idOrName))
}

// matching returns the entries that a text can mean: the one with that id, or else all with that name. The caller holds
// mu.
func (d *directory) matching(idOrName string) []entry {
	if at := slices.IndexFunc(d.entries, func(e entry) bool { return e.ID == idOrName }); at >= 0 {
		return d.entries[at : at+1]
	}
	var found []entry
	for _, e := range d.entries {
		if e.Name == idOrName {
			found = append(found, e)
		}
	}
	return found
}

// only returns the one entry that was found; none or several is an error. The caller holds mu.
func (d *directory) only(field, idOrName string, found []entry) (entry, error) {
	refuse := func(format string, args ...any) (entry, error) {
		return entry{}, &client.Error{
			Kind: client.Invalid, Op: d.op, Reason: client.OneLine(field + ": " + fmt.Sprintf(format, args...)),
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		// The message lists no other names. They change, and the same cause must give the same message.
		return refuse("%q is neither the id nor the name of one that these credentials see", idOrName)
	default:
		return refuse("%d are called %q: write the id, such as %s", len(found), idOrName, found[0].ID)
	}
}

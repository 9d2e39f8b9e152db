package neutron

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	opFindExternalNetwork = "find external network"
	// directoryFor is how long names that were read are believed. A name that is not among them has them read again, but
	// not more often than every directoryPause.
	directoryFor   = time.Minute
	directoryPause = 5 * time.Second
)

// directory tells the ids of resources that are not ours and that users refer to by name or id.
type directory struct {
	op string
	of collection
	// what is the kind of resource, for people.
	what  string
	query func(Identity) url.Values

	// mu is held while the cloud is asked, so that all who wait share one answer.
	mu      sync.Mutex
	project Identity
	read    time.Time
	entries []entry
}

// entry is a resource in a directory.
type entry struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

func (e entry) id() string { return e.ID }

func newExternalNetworks() *directory {
	return &directory{
		op: opFindExternalNetwork, of: networkAPI, what: "external network",
		query: func(Identity) url.Values { return url.Values{"router:external": {"True"}, "fields": {"id", "name"}} },
	}
}

func newRouters() *directory {
	return &directory{
		op: opFindRouter, of: routerAPI, what: "router",
		query: func(of Identity) url.Values {
			return url.Values{"project_id": {of.ProjectID}, "fields": {"id", "name"}}
		},
	}
}

// ExternalNetwork gives the id of the external network that a user refers to by its id or name. What these credentials
// do not see, or what several are called, is an *Error of the kind Invalid.
func (i *Inventory) ExternalNetwork(ctx context.Context, idOrName string) (string, error) {
	return i.external.find(ctx, i.cloud, idOrName)
}

// Router is ExternalNetwork for routers, ours or not. One of another project is found by its id alone.
func (i *Inventory) Router(ctx context.Context, idOrName string) (string, error) {
	id, err := i.existing.find(ctx, i.cloud, idOrName)
	if isKind(err, Invalid) && looksLikeID(idOrName) {
		if _, getErr := get[entry](ctx, i.cloud, opGetRouter, routerAPI, []string{"id"}, idOrName); getErr == nil {
			return idOrName, nil
		} else if !IsNotFound(getErr) {
			return "", getErr
		}
	}
	return id, err
}

// looksLikeID reports whether a text has the form of Neutron's ids, a UUID's: Neutron would take any other as a path.
func looksLikeID(text string) bool {
	return len(text) == 36 && strings.Trim(text, "0123456789abcdef-") == ""
}

func (d *directory) find(ctx context.Context, c *Cloud, idOrName string) (string, error) {
	project, err := c.Identity(ctx)
	if err != nil {
		return "", err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	age := time.Since(d.read)
	if project == d.project && age < directoryFor {
		if found := d.matching(idOrName); len(found) == 1 || age < directoryPause {
			return d.only(idOrName, found)
		}
	}
	entries, err := list[entry](ctx, c, d.op, d.of, d.query(project))
	if hasNoSuchCollection(err) {
		return "", &Error{
			Kind: Invalid, Op: d.op, Status: http.StatusNotFound, Reason: "this cloud has no routers: leave spec.router out",
		}
	}
	if err != nil {
		return "", err
	}
	d.project, d.read, d.entries = project, time.Now(), entries
	return d.only(idOrName, d.matching(idOrName))
}

// matching are the entries that a text can mean: the one of that id, or else all of that name. The caller holds mu.
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

// only gives the id of the one entry that was found. The caller holds mu.
func (d *directory) only(idOrName string, found []entry) (string, error) {
	refuse := func(format string, args ...any) (string, error) {
		return "", &Error{Kind: Invalid, Op: d.op, Reason: oneLine(fmt.Sprintf(format, args...))}
	}
	switch len(found) {
	case 1:
		return found[0].ID, nil
	case 0:
		// No other names: those come and go, and the same cause must give the same text.
		return refuse("%q is neither the id nor the name of one that these credentials see", idOrName)
	default:
		return refuse("%d are called %q: write the id, such as %s", len(found), idOrName, found[0].ID)
	}
}

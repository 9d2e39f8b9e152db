package doctor

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/kubectl/adoption"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/orphans"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/planning"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// cloud checks the user's cloud. cluster is false if the API server does not answer.
func (d doctor) cloud(networks []*cloudteamv1.Network, cluster bool) []Check {
	login := Check{Name: "credentials"}
	if d.Cloud == nil {
		return []Check{login.is(Unknown, "no cloud is named",
			"Name a cloud of your clouds.yaml with --cloud or OS_CLOUD, to check Neutron.")}
	}
	identity, err := d.Cloud.Identity(d.ctx)
	if err != nil {
		return []Check{login.is(Fails, err.Error(), "Correct the entry in clouds.yaml, or ask the cloud's operator.")}
	}
	login = login.is(OK, "project "+identity.ProjectID+" at "+identity.Endpoint, "")
	here, elsewhere := 0, 0
	for _, n := range networks {
		switch at := n.Status.Cloud; {
		case at == nil:
		case at.ProjectID == identity.ProjectID:
			here++
		default:
			elsewhere++
		}
	}
	if here == 0 && elsewhere > 0 {
		login = login.is(Warns, login.Says+fmt.Sprintf(", which has none of the %d Networks", elsewhere),
			"Name the cloud of the controller: the checks below are about this project.")
	}
	checks := append([]Check{login, d.rights()}, d.extensions()...)
	checks = append(checks, d.descriptions(), d.quotas())
	if cluster {
		checks = append(checks, d.orphans())
	}
	return checks
}

// writers are the roles that Neutron's default policy lets write, by any spelling.
var writers = []string{"member", "_member_", "manager", "admin"}

// rights checks the roles of the credentials. Neutron does not publish the rights of a role.
func (d doctor) rights() Check {
	c := Check{Name: "rights"}
	roles, err := d.Cloud.Roles(d.ctx)
	if err != nil {
		return c.is(Fails, err.Error(), "Ask the cloud's operator.")
	}
	return c.of(roles)
}

// of judges roles.
func (c Check) of(roles []string) Check {
	says := "roles: " + cmp.Or(strings.Join(roles, ", "), "none")
	if !slices.ContainsFunc(roles, func(role string) bool { return slices.Contains(writers, strings.ToLower(role)) }) {
		return c.is(Warns, says+". By Neutron's default policy they only read",
			"If the controller uses these credentials, give them the role member in the project.")
	}
	return c.is(OK, says, "")
}

// described is a resource whose attributes are read by name.
type described map[string]json.RawMessage

// descriptions checks that Neutron shows the attribute description, which has the ownership markers. Whether it also
// keeps what is written there, only a write shows: the controller's first create, of which MarkerNotKept tells.
func (d doctor) descriptions() Check {
	c := Check{Name: "descriptions", State: OK, Says: "Neutron shows them"}
	identity, err := d.Cloud.Identity(d.ctx)
	var hidden []string
	for _, many := range []string{"networks", "subnets", "ports", "routers", "security-groups", "floatingips"} {
		if err != nil {
			break
		}
		var all []described
		all, _, err = client.Page[described](d.ctx, d.Cloud, "list "+many, client.Collection{Many: many}, url.Values{
			"project_id": {identity.ProjectID}, "fields": {"id", "description"}, "limit": {"1"}})
		if client.IsNoSuchCollection(err) {
			err = nil // the extensions are another check
		}
		if len(all) > 0 && all[0]["description"] == nil {
			hidden = append(hidden, strings.ReplaceAll(many, "-", " "))
		}
	}
	switch {
	case len(hidden) > 0:
		return c.is(Fails, "Neutron hides those of "+strings.Join(hidden, ", ")+", which have the ownership markers",
			"Have the cloud's operator let these credentials read and write them (Neutron's policy for description).")
	case err != nil:
		return c.is(Unknown, err.Error(), "Ask the cloud's operator.")
	}
	return c
}

// almost is the used part of a quota from which it is almost full.
const almost = 0.9

// quotas checks whether the project has room.
func (d doctor) quotas() Check {
	c := Check{Name: "quotas", State: OK, Says: "the project has room"}
	all, err := inventory.Quotas(d.ctx, d.Cloud)
	if err != nil {
		return c.is(Unknown, err.Error(), "Ask the cloud's operator for the project's quotas.")
	}
	var full []string
	for _, q := range all {
		if q.Limit >= 0 && float64(q.Used) >= almost*float64(q.Limit) {
			full = append(full, fmt.Sprintf("%s %d of %d", planning.QuotaName(q.Resource), q.Used, q.Limit))
		}
	}
	if len(full) > 0 {
		return c.is(Warns, "(almost) full: "+strings.Join(full, ", "),
			"Delete what nobody needs (kubectl network orphans), or ask the cloud's operator for more.")
	}
	return c
}

// orphans checks whether something is left without an object.
func (d doctor) orphans() Check {
	c := Check{Name: "orphans", State: OK, Says: "there are none in this project"}
	uid, err := planning.ClusterUID(d.ctx, d.Cluster, d.ClusterUID)
	if err != nil {
		return c.unseen("you may not read the UID of the namespace kube-system (--cluster-uid)")
	}
	all, err := orphans.Find(d.ctx, d.Cluster, d.Cloud, uid)
	if err != nil {
		return c.is(Unknown, err.Error(), "kubectl network orphans")
	}
	survey, err := adoption.Look(d.ctx, d.Cloud)
	if err != nil {
		return c.is(Unknown, err.Error(), "kubectl network adopt")
	}
	var others []string
	for _, other := range survey.Clusters(uid) {
		if !other.Own {
			others = append(others, fmt.Sprintf("; cluster %s has %d networks, %d routers and %d ports here (if it is gone: "+
				"kubectl network adopt)", other.UID, other.Networks, other.Routers, other.Ports))
		}
	}
	counted := map[orphans.State]int{}
	for _, o := range all {
		counted[o.State]++
	}
	var counts []string
	for _, state := range slices.Sorted(maps.Keys(counted)) {
		counts = append(counts, fmt.Sprintf("%d %s", counted[state], state))
	}
	if len(all) > 0 {
		c = c.is(Warns, fmt.Sprintf("%d resources have no object: %s", len(all), strings.Join(counts, ", ")),
			"kubectl network orphans")
	}
	c.Says += strings.Join(others, "")
	return c
}

// maxSkew is how far two clocks may be apart. The Lease is renewed more often, and tokens live for longer.
const maxSkew = 5 * time.Second

// Clock is by how much the answers of one address say that its clock is ahead of this machine's. They can come from
// several servers.
type Clock struct {
	// Known is false if no answer had the time.
	Known bool
	// Least and Most are the bounds over all answers.
	Least, Most time.Duration
}

// Note adds an answer with a date, to the second, between began and ended.
func (c *Clock) Note(date, began, ended time.Time) {
	ahead := date.Add(time.Second / 2).Sub(began.Add(ended.Sub(began) / 2))
	if !c.Known {
		*c = Clock{true, ahead, ahead}
	}
	c.Least, c.Most = min(c.Least, ahead), max(c.Most, ahead)
}

// compare says how the clock of that name differs, and whether it differs too much.
func (c Clock) compare(whose string) (says string, wrong bool) {
	least, most := c.Least.Round(time.Second), c.Most.Round(time.Second)
	switch {
	case !c.Known:
		return whose + " was not compared, because its answers have no header Date", false
	case most-least > maxSkew:
		return fmt.Sprintf("the servers behind %s differ by %s", whose, most-least), true
	case most > maxSkew:
		return fmt.Sprintf("%s is %s ahead of this machine", whose, most), true
	case least < -maxSkew:
		return fmt.Sprintf("%s is %s behind this machine", whose, least.Abs()), true
	}
	return whose + " agrees", false
}

// clock compares this machine's clock with those that others tell.
func (d doctor) clock() Check {
	c := Check{Name: "clock", State: OK}
	api := Clock{}
	if d.Ahead != nil {
		api = d.Ahead()
	}
	var wrong bool
	c.Says, wrong = api.compare("the API server")
	known := api.Known
	if d.Cloud != nil {
		neutron := d.neutronClock()
		says, differs := neutron.compare("Neutron")
		c.Says, wrong, known = c.Says+"; "+says, wrong || differs, known || neutron.Known
	}
	switch {
	case wrong:
		c.State = Warns
		c.Remedy = "Set the clocks by NTP. " +
			"If only one differs, that clock is wrong; if all differ by the same time, this machine's is. Leases, tokens " +
			"and ages depend on them."
	case !known:
		c.State, c.Remedy = Unknown, "Check that your proxy leaves the header Date."
	}
	return c
}

// neutronClock asks Neutron for the time, often enough that a load balancer names each of a few servers.
func (d doctor) neutronClock() Clock {
	var c Clock
	for range 8 {
		var date time.Time
		began := time.Now()
		err := d.Cloud.Do(d.ctx, client.Request{
			Op: "read the time", Method: http.MethodGet, Path: "extensions/router", Date: &date,
		})
		if date.IsZero() { // another answer would have none, either
			return c
		}
		c.Note(date, began, time.Now())
		if err != nil {
			return c
		}
	}
	return c
}

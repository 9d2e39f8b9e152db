package doctor

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
)

// extension is one of Neutron.
type extension struct {
	Alias string `json:"alias"`
}

// Key implements client.Identified.
func (e extension) Key() string { return e.Alias }

// needed are the extensions that the controller needs, and useful those of single fields or kinds.
// docs/compatibility.md lists them.
var (
	needed = []string{"standard-attr-revisions", "revision-if-match", "standard-attr-description"}
	useful = map[string]string{
		"router":            "spec.router, spec.floatingIP, FloatingIPs",
		"standard-attr-tag": "spec.tags", "rbac-policies": "spec.sharedWith",
		"net-mtu-writable": "spec.mtu", "qos": "spec.qosPolicy", "port-security": "spec.portSecurity",
		"security-group":              "SecurityGroups, spec.securityGroups, spec.securityGroupRefs",
		"stateful-security-group":     "spec.stateful of a SecurityGroup",
		"dns-integration":             "spec.dnsDomain, spec.dnsName",
		"subnet-dns-publish-fixed-ip": "spec.dnsPublishFixedIP",
		"subnet-service-types":        "spec.serviceTypes",
		"network_availability_zone":   "spec.availabilityZoneHints",
		"trunk":                       "data planes of nodes in trunks",
		"l3-ha":                       "spec.router.ha", "dvr": "spec.router.distributed",
	}
)

// release is one that the controller was run with. From the first one on, a cloud that answers so is told by an
// extension, which ML2 has with the drivers of OVN and of Open vSwitch, and by what the cloud does. A version number is
// no sign: distributions take features back, and operators leave plugins out.
type release struct {
	name, extension, behaviour string
	// shows reports whether the cloud does so. It is not known if there is nothing to see it by.
	shows func(doctor) (does, known bool)
	// lost is what a cloud costs that answers as none from this one on.
	lost string
}

// oldest is the release whose answers need no sign.
const oldest = "21 (Zed)"

// releases are the others, the oldest first.
var releases = []release{
	{"26 (2025.1)", "subnet-external-network", "router:external of subnets", doctor.subnetsTellExternal,
		"A refused bulk of ports may leak addresses there, and more updates conflict and are sent again"},
	{"29 (2026.2)", "network-ip-availability-details", "quota router_route", doctor.routesHaveQuota, ""},
}

// subnetsTellExternal reports whether a subnet says if its network is external.
func (d doctor) subnetsTellExternal() (does, known bool) {
	all, _, err := client.Page[described](d.ctx, d.Cloud, "list subnets", client.Collection{Many: "subnets"},
		url.Values{"limit": {"1"}})
	if err != nil || len(all) == 0 {
		return false, false
	}
	return all[0]["router:external"] != nil, true
}

// routesHaveQuota reports whether a project has a quota for the routes of its routers.
func (d doctor) routesHaveQuota() (does, known bool) {
	identity, err := d.Cloud.Identity(d.ctx)
	if err != nil {
		return false, false
	}
	var answer struct {
		Quota struct {
			Routes json.RawMessage `json:"router_route"`
		}
	}
	err = d.Cloud.Do(d.ctx, client.Request{Op: "read quotas", Method: http.MethodGet,
		Path: "quotas/" + identity.ProjectID, Answer: &answer})
	return answer.Quota.Routes != nil, err == nil
}

// signs say by what a cloud answers as a release, or not.
func (d doctor) signs(r release, has bool) string {
	text := "extension " + r.extension
	if !has {
		text = "no " + text
	}
	does, known := r.shows(d)
	switch {
	case known && does:
		text += ", " + r.behaviour
	case known:
		text += ", no " + r.behaviour
	}
	return text
}

// release checks as which release the cloud answers, by its extensions.
func (d doctor) release(has func(alias string) bool) Check {
	c := Check{Name: "Neutron's release", State: OK, Says: "answers as Neutron " + oldest}
	at := -1
	for i, r := range releases {
		if has(r.extension) {
			at = i
		}
	}
	if at >= 0 {
		c.Says = "answers as Neutron " + releases[at].name + ": " + d.signs(releases[at], true)
	}
	if at+1 == len(releases) {
		return c
	}
	next := releases[at+1]
	if at < 0 {
		c.Says += ": " + d.signs(next, false)
	} else {
		number, _, _ := strings.Cut(next.name, " ")
		c.Says += "; not as " + number + ": " + d.signs(next, false)
	}
	if next.lost != "" {
		return c.is(Warns, c.Says+". "+next.lost, "Upgrade Neutron to "+next.name+" or later.")
	}
	return c
}

// extensions checks the release, and has a check for each extension that is missing.
func (d doctor) extensions() []Check {
	c := Check{Name: "Neutron's extensions", State: OK, Says: "all that the controller uses are there"}
	list, err := client.List[extension](d.ctx, d.Cloud, "list extensions",
		client.Collection{One: "extension", Many: "extensions", Whole: true}, url.Values{})
	if err != nil {
		return []Check{c.is(Fails, err.Error(), "Ask the cloud's operator.")}
	}
	has := func(alias string) bool { return slices.Contains(list, extension{alias}) }
	var lacks []Check
	for _, alias := range needed {
		if !has(alias) {
			lacks = append(lacks, Check{Name: "extension " + alias, State: Fails,
				Says: "missing: the controller does not work without it", Remedy: "Ask the cloud's operator to enable it."})
		}
	}
	for _, alias := range slices.Sorted(maps.Keys(useful)) {
		if !has(alias) {
			lacks = append(lacks, Check{Name: "extension " + alias, State: Warns,
				Says:   "missing: Neutron refuses or ignores " + useful[alias],
				Remedy: "Do not use that, or ask the cloud's operator to enable the extension."})
		}
	}
	if len(lacks) == 0 {
		lacks = []Check{c}
	}
	return append([]Check{d.release(has)}, lacks...)
}

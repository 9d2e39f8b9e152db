package neutrontest

import (
	"net/http"
	"slices"
)

// extension is one optional part of Neutron's API.
type extension struct {
	Name        string   `json:"name"`
	Alias       string   `json:"alias"`
	Description string   `json:"description"`
	Updated     string   `json:"updated"`
	Links       []string `json:"links"`
}

// extensions are those of all releases; a real server has some more.
var extensions = []extension{
	{"Port Binding", "binding", "", "2014-02-03T10:00:00-00:00", []string{}},
	{"DNS Integration", "dns-integration", "", "2015-08-15T18:00:00-00:00", []string{}},
	{"dns_domain for ports", "dns-domain-ports", "", "2017-04-24T10:00:00-00:00", []string{}},
	{"Distributed Virtual Router", "dvr", "", "2014-06-1T10:00:00-00:00", []string{}},
	{"Empty String Filtering Extension", "empty-string-filtering", "", "2018-05-01T10:00:00-00:00", []string{}},
	{"Neutron external network", "external-net", "", "2013-01-14T10:00:00-00:00", []string{}},
	{"HA Router extension", "l3-ha", "", "2014-04-26T00:00:00-00:00", []string{}},
	{"Neutron L3 Configurable external gateway mode", "ext-gw-mode", "", "2013-03-28T10:00:00-00:00", []string{}},
	{"Neutron Extra Route", "extraroute", "", "2013-02-01T10:00:00-00:00", []string{}},
	{"Filter parameters validation", "filter-validation", "", "2018-07-04T10:00:00-00:00", []string{}},
	{"IP Allocation", "ip_allocation", "", "2016-06-10T23:00:00-00:00", []string{}},
	{"L2 Adjacency", "l2_adjacency", "", "2016-04-12T16:00:00-00:00", []string{}},
	{"Network MTU", "net-mtu", "", "2015-03-25T10:00:00-00:00", []string{}},
	{"Network MTU (writable)", "net-mtu-writable", "", "2017-07-12T00:00:00-00:00", []string{}},
	{"Network IP Availability", "network-ip-availability", "", "2015-09-24T00:00:00-00:00", []string{}},
	{"Network Availability Zone", "network_availability_zone", "", "2015-01-01T10:00:00-00:00", []string{}},
	{"Pagination support", "pagination", "", "2016-06-12T00:00:00-00:00", []string{}},
	{"Port Security", "port-security", "", "2012-07-23T10:00:00-00:00", []string{}},
	{"project_id field enabled", "project-id", "", "2016-09-09T09:09:09-09:09", []string{}},
	{"Provider Network", "provider", "", "2012-09-07T10:00:00-00:00", []string{}},
	{"Quality of Service", "qos", "", "2015-06-08T10:00:00-00:00", []string{}},
	{"Quota management support", "quotas", "", "2012-07-29T10:00:00-00:00", []string{}},
	{"Quota details management support", "quota_details", "", "2017-02-10T10:00:00-00:00", []string{}},
	{"RBAC Policies", "rbac-policies", "", "2015-06-17T12:15:12-00:00", []string{}},
	{"If-Match constraints based on revision_number", "revision-if-match", "", "2016-12-11T00:00:00-00:00", []string{}},
	{"Neutron L3 Router", "router", "", "2012-07-20T10:00:00-00:00", []string{}},
	{"security-group", "security-group", "", "2012-10-05T10:00:00-00:00", []string{}},
	{"Sorting support", "sorting", "", "2016-06-12T00:00:00-00:00", []string{}},
	{"Stateful security group", "stateful-security-group", "", "2019-11-26T09:00:00-00:00", []string{}},
	{"standard-attr-description", "standard-attr-description", "", "2016-02-10T10:00:00-00:00", []string{}},
	{"Resource revision numbers", "standard-attr-revisions", "", "2016-04-11T10:00:00-00:00", []string{}},
	{"Tag support", "standard-attr-tag", "", "2017-01-01T00:00:00-00:00", []string{}},
	{"Resource timestamps", "standard-attr-timestamp", "", "2016-09-12T10:00:00-00:00", []string{}},
	{"Subnet DNS publish fixed IP", "subnet-dns-publish-fixed-ip", "", "2019-05-24T10:00:00-00:00", []string{}},
	{"Trunk Extension", "trunk", "", "2016-01-01T10:00:00-00:00", []string{}},
	{"Trunk port details", "trunk-details", "", "2016-01-01T10:00:00-00:00", []string{}},
	{"Subnet service types", "subnet-service-types", "", "2016-03-15T18:00:00-00:00", []string{}},
}

// laterExtensions are those of later releases, by what they bring.
var laterExtensions = []struct {
	extension
	brings Fact
}{
	{extension{"Subnet belongs to an external network", "subnet-external-network", "", "2024-02-05T18:00:00-00:00",
		[]string{}}, ExternalSubnetsAreSeen},
	{extension{"Security group rules belongs to the project default security group",
		"security-groups-rules-belongs-to-default-sg", "", "2024-01-30T10:00:00-00:00", []string{}}, RulesTellDefaultGroup},
	{extension{"Network IP Availability Details", "network-ip-availability-details", "", "2024-11-26T00:00:00-00:00",
		[]string{}}, AvailabilityHasDetails},
}

// ReleaseOf is the newest release whose extensions a cloud has.
func ReleaseOf(has func(alias string) bool) Release {
	release := Releases[0]
	for _, later := range laterExtensions {
		if has(later.Alias) {
			release = max(release, later.brings.Since)
		}
	}
	return release
}

// extensions are those of the server's release.
func (s *Server) extensions() []extension {
	all := slices.Clone(extensions)
	for _, later := range laterExtensions {
		if s.since(later.brings) {
			all = append(all, later.extension)
		}
	}
	return all
}

// serveExtensions answers what is below /v2.0/extensions.
func (s *Server) serveExtensions(req *request, path []string) *apiError {
	if req.Method != http.MethodGet || len(path) > 1 {
		return hidden()
	}
	if len(path) == 0 {
		writeJSON(req.w, http.StatusOK, map[string]any{"extensions": s.extensions()})
		return nil
	}
	for _, e := range s.extensions() {
		if e.Alias == path[0] {
			writeJSON(req.w, http.StatusOK, map[string]any{"extension": e})
			return nil
		}
	}
	http.Error(req.w, "404 Not Found\n\nThe resource could not be found.\n\n Extension with alias "+path[0]+
		" does not exist  ", http.StatusNotFound)
	return nil
}

package contract

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

// fleet is five networks that a query finds and no other; ids are in order.
type fleet struct {
	ids   []string
	query string
	name  string // of the first and of the last, by id
}

func newFleet(t *testing.T, c *cloud) fleet {
	t.Helper()
	base := unique()
	f := fleet{name: base + "-ends"}
	descriptions := url.Values{}
	var asks []object
	for i := range 5 {
		d := fmt.Sprintf("%s-%d", base, i)
		descriptions.Add("description", d)
		asks = append(asks, object{"name": base, "description": d})
	}
	made := c.tenant.do(t, "POST", "/v2.0/networks", object{"networks": asks}).must(t, http.StatusCreated)
	for _, n := range made.list(t, "networks") {
		c.tenant.drop(t, "/v2.0/networks/"+id(n))
		f.ids = append(f.ids, id(n))
	}
	slices.Sort(f.ids)
	f.query = "/v2.0/networks?" + descriptions.Encode()
	for _, end := range []string{f.ids[0], f.ids[4]} {
		c.tenant.do(t, "PUT", "/v2.0/networks/"+end, object{"network": object{"name": f.name}}).must(t, http.StatusOK)
	}
	return f
}

// positions are the places of the listed networks in the fleet.
func (f fleet) positions(list []object) []int {
	out := []int{}
	for _, n := range list {
		out = append(out, slices.Index(f.ids, id(n)))
	}
	return out
}

// links are the paging links of an answer, by what they lead to.
func links(a answer, collection string) map[string]string {
	out := map[string]string{}
	items, _ := a.body[collection+"_links"].([]any)
	for _, item := range items {
		out[item.(object)["rel"].(string)] = item.(object)["href"].(string)
	}
	return out
}

func TestListsOfNetworks(t *testing.T) {
	inDepth(t, func(t *testing.T, c *cloud) {
		f := newFleet(t, c)
		t.Run("pages", func(t *testing.T) { pagesShow(t, c, f) })
		t.Run("all pages", func(t *testing.T) { pagesShowAll(t, c, f) })
		t.Run("sorted", func(t *testing.T) { sortingOrders(t, c, f) })
		t.Run("filtered", func(t *testing.T) { filtersFind(t, c, f) }) // the last one: it changes them
	})
}

func pagesShow(t *testing.T, c *cloud, f fleet) {
	t.Helper()
	cases := map[string]struct {
		query string // with {0}…{4} for ids
		want  []int
		next  string // what the link ends with; empty: there is no link
		prev  string
	}{
		"no limit":          {"", []int{0, 1, 2, 3, 4}, "", ""},
		"a limit of zero":   {"&limit=0", []int{0, 1, 2, 3, 4}, "", ""},
		"the first page":    {"&limit=2", []int{0, 1}, "&limit=2&marker={1}", "&limit=2&marker={0}&page_reverse=True"},
		"the second page":   {"&limit=2&marker={1}", []int{2, 3}, "&limit=2&marker={3}", "&limit=2&marker={2}&page_reverse=True"},
		"a short last page": {"&limit=2&marker={3}", []int{4}, "", "&limit=2&marker={4}&page_reverse=True"},
		"a full last page":  {"&limit=5", []int{0, 1, 2, 3, 4}, "&limit=5&marker={4}", "&limit=5&marker={0}&page_reverse=True"},
		"beyond the end":    {"&limit=2&marker={4}", []int{}, "", "&limit=2&page_reverse=True"},
		"an empty marker":   {"&limit=2&marker=", []int{0, 1}, "&limit=2&marker={1}", "&limit=2&marker={0}&page_reverse=True"},
		"ascending": {"&limit=2&sort_key=id&sort_dir=asc", []int{0, 1},
			"&limit=2&sort_key=id&sort_dir=asc&marker={1}",
			"&limit=2&sort_key=id&sort_dir=asc&marker={0}&page_reverse=True"},
		"descending": {"&limit=2&sort_key=id&sort_dir=desc", []int{4, 3},
			"&limit=2&sort_key=id&sort_dir=desc&marker={3}",
			"&limit=2&sort_key=id&sort_dir=desc&marker={4}&page_reverse=True"},
		"descending further": {"&limit=2&sort_key=id&sort_dir=desc&marker={3}", []int{2, 1},
			"&limit=2&sort_key=id&sort_dir=desc&marker={1}",
			"&limit=2&sort_key=id&sort_dir=desc&marker={2}&page_reverse=True"},
		"the last page": {"&limit=2&page_reverse=True", []int{3, 4}, "&limit=2&marker={4}",
			"&limit=2&marker={3}&page_reverse=True"},
		"backwards": {"&limit=2&page_reverse=True&marker={3}", []int{1, 2},
			"&limit=2&marker={2}", "&limit=2&marker={1}&page_reverse=True"},
		"back at the start": {"&limit=2&page_reverse=True&marker={1}", []int{0}, "&limit=2&marker={0}", ""},
		"before the start":  {"&limit=2&page_reverse=True&marker={0}", []int{}, "&limit=2", ""},
		"all backwards":     {"&page_reverse=True", []int{4, 3, 2, 1, 0}, "", ""},
		"the last limit": {"&limit=2&limit=3", []int{0, 1, 2}, "&limit=2&limit=3&marker={2}",
			"&limit=2&limit=3&marker={0}&page_reverse=True"},
		"a marker that nobody looks at": {"&marker=nope", []int{0, 1, 2, 3, 4}, "", ""},
	}
	fill := strings.NewReplacer("{0}", f.ids[0], "{1}", f.ids[1], "{2}", f.ids[2], "{3}", f.ids[3], "{4}", f.ids[4])
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			a := c.tenant.get(t, f.query+fill.Replace(test.query)).must(t, http.StatusOK)
			expect.Equal(t, test.want, f.positions(a.list(t, "networks")), "page")
			want := map[string]string{}
			if test.next != "" {
				want["next"] = c.tenant.network + f.query + fill.Replace(test.next)
			}
			if test.prev != "" {
				want["previous"] = c.tenant.network + f.query + fill.Replace(test.prev)
			}
			expect.Equal(t, want, links(a, "networks"), "links")
		})
	}
}

func pagesShowAll(t *testing.T, c *cloud, f fleet) {
	t.Helper()
	got := []int{}
	path := f.query + "&limit=2"
	for pages := 0; path != "" && pages < 5; pages++ {
		a := c.tenant.get(t, path).must(t, http.StatusOK)
		got = append(got, f.positions(a.list(t, "networks"))...)
		path = strings.TrimPrefix(links(a, "networks")["next"], c.tenant.network)
	}
	expect.Equal(t, []int{0, 1, 2, 3, 4}, got, "all pages")
}

func filtersFind(t *testing.T, c *cloud, f fleet) {
	t.Helper()
	all := []int{0, 1, 2, 3, 4}
	cases := map[string]struct {
		query string
		want  []int
	}{
		"a name":                 {"&name={name}", []int{0, 4}},
		"an empty name":          {"&name=", []int{}},
		"a name or another":      {"&name={name}&name=nope", []int{0, 4}},
		"an id":                  {"&id={0}", []int{0}},
		"an id or another":       {"&id={0}&id={3}", []int{0, 3}},
		"the project":            {"&project_id={project}", all},
		"the project's old name": {"&tenant_id={project}", all},
		"another project":        {"&project_id=nope", []int{}},
		"both names of it":       {"&tenant_id={project}&project_id=nope", []int{}},
		"an MTU":                 {"&mtu=1450", all},
		"another MTU":            {"&mtu=1400", []int{}},
		"up":                     {"&admin_state_up=True", all},
		"up, in a number":        {"&admin_state_up=1", all},
		"down":                   {"&admin_state_up=false", []int{}},
		"shared":                 {"&shared=True", []int{}},
		"not shared":             {"&shared=False", all},
		"external":               {"&router:external=True", []int{}},
		"not external":           {"&router:external=False", all},
		"status":                 {"&status=ACTIVE", all},
		"a revision":             {"&revision_number=2", []int{0, 4}},
		"what only admins see":   {"&provider:network_type=vxlan", all},
		"no tags":                {"&tags=", []int{}},
		"a tag":                  {"&tags=a", []int{1, 2}},
		"two tags":               {"&tags=a,b", []int{2}},
		"two tags, apart":        {"&tags=a&tags=b", []int{2}},
		"any tag":                {"&tags-any=a,c", []int{1, 2, 3}},
		"not both tags":          {"&not-tags=a,b", []int{0, 1, 3, 4}},
		"none of the tags":       {"&not-tags-any=a,c", []int{0, 4}},
	}
	// Tags move three revisions twice, which keeps the filter by revision to the ends.
	for i, tags := range map[int][]string{1: {"a"}, 2: {"a", "b"}, 3: {"c"}} {
		for _, tags := range [][]string{{"z"}, tags} {
			c.tenant.do(t, "PUT", "/v2.0/networks/"+f.ids[i]+"/tags", object{"tags": tags}).must(t, http.StatusOK)
		}
	}
	fill := strings.NewReplacer("{name}", f.name, "{project}", c.tenant.project, "{0}", f.ids[0], "{3}", f.ids[3])
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			a := c.tenant.get(t, f.query+fill.Replace(test.query)).must(t, http.StatusOK)
			expect.Equal(t, test.want, f.positions(a.list(t, "networks")), "found")
		})
	}
}

func TestRefusedLists(t *testing.T) {
	bad := func(message string) refusal { return refusal{400, "HTTPBadRequest", message} }
	limit := func(given string) refusal {
		return refusal{400, "BadRequest", "Bad limit request: Limit must be an integer 0 or greater and not '" + given + "'."}
	}
	cases := map[string]struct {
		query string
		want  refusal
	}{
		"an unknown filter":   {"networks?zz=1", bad("['zz'] is invalid attribute for filtering")},
		"two unknown filters": {"networks?zz=1&yy=2", bad("['zz', 'yy'] is invalid attribute for filtering")},
		"changed_since": {"networks?changed_since=2020-01-01T00:00:00",
			bad("['changed_since'] is invalid attribute for filtering")},
		"created_at":          {"networks?created_at=x", bad("['created_at'] is invalid attribute for filtering")},
		"subnets of networks": {"networks?subnets=x", bad("['subnets'] is invalid attribute for filtering")},
		"servers of subnets":  {"subnets?dns_nameservers=1.1.1.1", bad("['dns_nameservers'] is invalid attribute for filtering")},
		"no number": {"networks?mtu=x",
			refusal{400, "InvalidInput", "Invalid input for operation: 'x' is not an integer."}},
		"no boolean": {"networks?admin_state_up=x",
			refusal{400, "InvalidInput", "Invalid input for operation: 'x' cannot be converted to boolean."}},
		"no CIDR": {"subnets?cidr=bad", refusal{400, "InvalidInput", "Invalid input for operation: bad is not in a CIDR format."}},
		"no address": {"ports?fixed_ips=x",
			refusal{400, "InvalidInput", "Invalid input for operation: 'x' is not of the form <key>=[value]."}},
		"a negative limit":       {"networks?limit=-1", limit("-1")},
		"a limit that is a word": {"networks?limit=x", limit("x")},
		"an empty limit":         {"networks?limit=", limit("")},
		"a marker of networks": {"networks?limit=2&marker=nope",
			refusal{404, "NetworkNotFound", "Network nope could not be found."}},
		"a key without direction": {"networks?sort_key=name", bad("The number of sort_keys and sort_dirs must be same")},
		"a direction without key": {"networks?sort_dir=asc", bad("The number of sort_keys and sort_dirs must be same")},
		"an unknown key":          {"networks?sort_key=zz&sort_dir=asc", bad("['zz'] is invalid attribute for sort_keys")},
		"a key that is no key": {"networks?sort_key=description&sort_dir=asc",
			bad("['description'] is invalid attribute for sort_keys")},
		"an unknown direction": {"networks?sort_key=name&sort_dir=up",
			bad("['up'] is invalid value for sort_dirs, valid value is 'asc' and 'desc'")},
	}
	inDepth(t, func(t *testing.T, c *cloud) {
		for name, test := range cases {
			t.Run(name, func(t *testing.T) {
				c.tenant.get(t, "/v2.0/"+test.query).refuses(t, test.want)
			})
		}
	})
}

func sortingOrders(t *testing.T, c *cloud, f fleet) {
	t.Helper()
	// The names are the same in the middle and the same, but longer, at the ends.
	for query, want := range map[string][]int{
		"&sort_key=name&sort_dir=asc":                            {1, 2, 3, 0, 4},
		"&sort_key=name&sort_dir=desc":                           {0, 4, 1, 2, 3},
		"&sort_key=name&sort_dir=desc&sort_key=id&sort_dir=desc": {4, 0, 3, 2, 1},
		"&sort_key=name&sort_dir=asc&limit=2&marker=" + f.ids[2]: {3, 0},
		"&sort_key=mtu&sort_dir=desc&limit=2":                    {0, 1},
	} {
		a := c.tenant.get(t, f.query+query).must(t, http.StatusOK)
		expect.Equal(t, want, f.positions(a.list(t, "networks")), "%s", query)
	}
}

func TestFieldsParameterSelectsAttributes(t *testing.T) {
	inDepth(t, func(t *testing.T, c *cloud) {
		n := c.tenant.newNetwork(t, nil)
		s := c.tenant.newSubnet(t, n, nil)
		project := c.tenant.project
		for query, want := range map[string]object{
			"networks?id=" + id(n) + "&fields=id":                               {"id": id(n)},
			"networks?id=" + id(n) + "&fields=id&fields=subnets":                {"id": id(n), "subnets": []any{id(s)}},
			"networks?id=" + id(n) + "&fields=project_id":                       {"project_id": project},
			"networks?id=" + id(n) + "&fields=tenant_id":                        {"tenant_id": project},
			"networks?id=" + id(n) + "&fields=zz":                               {},
			"networks?id=" + id(n) + "&fields=":                                 {},
			"networks?id=" + id(n) + "&fields=shared&limit=1":                   {"shared": false},
			"subnets?network_id=" + id(n) + "&fields=cidr":                      {"cidr": "10.0.0.0/24"},
			"subnets?network_id=" + id(n) + "&fields=revision_number&fields=id": {"id": id(s), "revision_number": float64(0)},
		} {
			collection, _, _ := strings.Cut(query, "?")
			got := c.tenant.get(t, "/v2.0/"+query).must(t, http.StatusOK).list(t, collection)
			expect.Equal(t, []object{want}, got, "%s", query)
		}
		got := c.tenant.get(t, "/v2.0/networks/"+id(n)+"?fields=id&fields=zz").part(t, "network")
		expect.Equal(t, object{"id": id(n)}, got, "one network")
		c.tenant.get(t, "/v2.0/networks/"+id(n)+"?zz=1").refuses(t,
			refusal{400, "HTTPBadRequest", "['zz'] is invalid attribute for filtering"})
	})
}

func TestListsOfSubnets(t *testing.T) {
	inDepth(t, func(t *testing.T, c *cloud) {
		n := c.tenant.newNetwork(t, nil)
		byCIDR := map[string]string{}
		for i := range 3 {
			cidr := fmt.Sprintf("10.%d.0.0/24", i)
			byCIDR[cidr] = id(c.tenant.newSubnet(t, n, object{"cidr": cidr}))
		}
		ids := slices.Sorted(maps.Values(byCIDR))
		for query, want := range map[string][]string{
			"":                          ids,
			"&limit=2":                  ids[:2],
			"&limit=2&marker=" + ids[1]: ids[2:],
			// Unlike a network's, a subnet's marker may be anything.
			"&limit=2&marker=nope":                        ids[:2],
			"&limit=2&page_reverse=True&marker=" + ids[2]: ids[:2],
			"&cidr=10.0.0.0/24":                           {byCIDR["10.0.0.0/24"]},
			"&cidr=10.0.0.5/24":                           {byCIDR["10.0.0.0/24"]},
			"&gateway_ip=10.1.0.1":                        {byCIDR["10.1.0.0/24"]},
			"&ip_version=4":                               ids,
			"&ip_version=6":                               {},
			"&enable_dhcp=True":                           ids,
			"&shared=True":                                {},
			"&shared=False":                               ids,
			"&revision_number=0":                          ids,
			"&sort_key=cidr&sort_dir=desc":                {byCIDR["10.2.0.0/24"], byCIDR["10.1.0.0/24"], byCIDR["10.0.0.0/24"]},
		} {
			expect.Equal(t, want, c.tenant.idsOf(t, "/v2.0/subnets?network_id="+id(n)+query), "%s", query)
		}
	})
}

func TestListsOfPorts(t *testing.T) {
	asEveryone(t, func(t *testing.T, s *session) {
		n := s.newNetwork(t, nil)
		s.newSubnet(t, n, nil)
		mark, byName := unique(), map[string]string{}
		for _, name := range []string{"a", "b", "c"} {
			byName[name] = id(s.newPort(t, n, object{
				"name": name, "description": mark + " " + name, "device_owner": "kubernetes:networkport",
			}))
		}
		ids := slices.Sorted(maps.Values(byName))
		for query, want := range map[string][]string{
			"":                                     ids,
			"&project_id=" + s.project:             ids,
			"&project_id=" + someProject():         {},
			"&device_owner=kubernetes:networkport": ids,
			"&description=" + url.QueryEscape(mark+" b"):          {byName["b"]},
			"&limit=2&sort_key=id&sort_dir=asc":                   ids[:2],
			"&limit=2&sort_key=id&sort_dir=asc&marker=" + ids[1]:  ids[2:],
			"&limit=2&sort_key=id&sort_dir=asc&marker=" + ids[2]:  {},
			"&name=a&name=c&sort_key=name&sort_dir=asc&fields=id": {byName["a"], byName["c"]},
		} {
			expect.Equal(t, want, s.idsOf(t, "/v2.0/ports?network_id="+id(n)+query), "%s", query)
		}
		path := "/v2.0/ports?network_id=" + id(n) + "&limit=2&sort_key=id&sort_dir=asc"
		first := links(s.get(t, path).must(t, http.StatusOK), "ports")
		if want := s.network + path + "&marker=" + ids[1]; first["next"] != want {
			t.Errorf("the next page is %q, want %q", first["next"], want)
		}
		if last := links(s.get(t, path+"&marker="+ids[1]).must(t, http.StatusOK), "ports"); last["next"] != "" {
			t.Errorf("after the last page there is %q", last["next"])
		}
		// A place that was deleted meanwhile is an error, and not the end.
		for _, marker := range []string{"11111111-1111-1111-1111-111111111111", "nope"} {
			s.get(t, path+"&marker="+marker).refuses(t, refusal{404, "PortNotFound", "Port " + marker + " could not be found."})
		}
		want := []object{{
			"id": byName["b"], "network_id": id(n), "name": "b", "description": mark + " b", "revision_number": float64(1),
		}}
		got := s.get(t, "/v2.0/ports?id="+byName["b"]+"&fields=id&fields=network_id&fields=name&fields=description"+
			"&fields=revision_number").must(t, http.StatusOK).list(t, "ports")
		expect.Equal(t, want, got, "the fields that were asked for")
	})
}

package contract

import (
	"net/http"
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// TestNetworkRevision goes through changes one after another. In some releases, a change to what is there already is
// one, and only an empty one is not.
func TestNetworkRevision(t *testing.T) {
	steps := []struct {
		what  string
		ask   object
		moves int
		idle  bool
	}{
		{"nothing at all", object{}, 0, true},
		{"the same name", object{"name": "a"}, 1, true},
		{"another name", object{"name": "b"}, 1, false},
		{"the same description", object{"description": "d"}, 1, true},
		{"another description", object{"description": "e"}, 1, false},
		{"the same name and description", object{"name": "b", "description": "e"}, 1, false},
		{"the MTU", object{"mtu": 1400}, 1, false},
		{"the same MTU", object{"mtu": 1400}, 1, true},
		{"the state", object{"admin_state_up": false}, 1, false},
		{"port security", object{"port_security_enabled": false}, 1, false},
		{"the same port security", object{"port_security_enabled": false}, 1, true},
		{"a domain", object{"dns_domain": "a.org."}, 1, false},
		{"the same domain", object{"dns_domain": "a.org."}, 0, true},
		{"several at once", object{"name": "c", "description": "f", "port_security_enabled": true}, 1, false},
	}
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		n := c.tenant.newNetwork(t, object{"name": "a", "description": "d"})
		last := revision(n)
		for _, step := range steps {
			if step.idle && c.since(neutrontest.IdleUpdatesKeepRevision) {
				step.moves = 0
			}
			a := c.tenant.do(t, "PUT", "/v2.0/networks/"+id(n), object{"network": step.ask})
			got := revision(a.must(t, http.StatusOK).part(t, "network"))
			if got != last+step.moves {
				t.Errorf("%s: the revision went from %d to %d, want %d", step.what, last, got, last+step.moves)
			}
			if later := c.tenant.revisionOf(t, "network", n); later != got {
				t.Errorf("%s: the answer says revision %d, but then it is %d", step.what, got, later)
			}
			last = got
		}
	})
}

// TestSubnetRevisions shows which changes of a subnet move its revision and that of its network. In the first release,
// each moves both, and so does an empty one.
func TestSubnetRevisions(t *testing.T) {
	idle, lists := neutrontest.IdleUpdatesKeepRevision, neutrontest.SubnetListsKeepRevision
	var always neutrontest.Fact
	steps := []struct {
		what string
		ask  object
		// keeps and keepsNetwork say since when neither moves, or the network's does not.
		keeps, keepsNetwork neutrontest.Fact
	}{
		{"nothing at all", object{}, idle, always},
		{"a name", object{"name": "a"}, always, always},
		{"the same name", object{"name": "a"}, idle, always},
		{"a description", object{"description": "a"}, always, neutrontest.SubnetDescriptionKeepsNetwork},
		{"the same description", object{"description": "a"}, always, neutrontest.SubnetDescriptionKeepsNetwork},
		{"DNS servers", object{"dns_nameservers": []string{"1.1.1.1"}}, lists, always},
		{"the same DNS servers", object{"dns_nameservers": []string{"1.1.1.1"}}, lists, always},
		{"host routes", object{"host_routes": []object{{"destination": "1.0.0.0/8", "nexthop": "10.0.0.2"}}}, lists, always},
		{"pools", object{"allocation_pools": []object{{"start": "10.0.0.10", "end": "10.0.0.20"}}}, lists, always},
		{"DNS servers and a name", object{"dns_nameservers": []string{"1.1.1.2"}, "name": "b"}, always, always},
		{"service types", object{"service_types": []string{"compute:a", "compute:b"}}, always, always},
		{"the same service types", object{"service_types": []string{"compute:a", "compute:b"}}, always, always},
		{"other service types", object{"service_types": []string{"compute:c"}}, always, always},
		{"no service types", object{"service_types": []string{}}, always, always},
		{"no service types again", object{"service_types": []string{}}, idle, always},
		{"a publication", object{"dns_publish_fixed_ip": true}, always, always},
		{"the same publication", object{"dns_publish_fixed_ip": true}, idle, always},
		{"no publication", object{"dns_publish_fixed_ip": false}, always, always},
		{"DHCP", object{"enable_dhcp": false}, always, always},
		{"the gateway", object{"gateway_ip": "10.0.0.5"}, always, always},
		{"no gateway", object{"gateway_ip": nil}, always, always},
	}
	inDepth(t, func(t *testing.T, c *cloud) {
		n := c.tenant.newNetwork(t, nil)
		s := c.tenant.newSubnet(t, n, nil)
		if revision(s) != 0 {
			t.Errorf("a new subnet has revision %d, want 0", revision(s))
		}
		last, lastOfNetwork := revision(s), c.tenant.revisionOf(t, "network", n)
		if lastOfNetwork != revision(n)+1 {
			t.Errorf("a new subnet moved its network from %d to %d", revision(n), lastOfNetwork)
		}
		for _, step := range steps {
			a := c.tenant.do(t, "PUT", "/v2.0/subnets/"+id(s), object{"subnet": step.ask})
			got, ofNetwork := revision(a.must(t, http.StatusOK).part(t, "subnet")), c.tenant.revisionOf(t, "network", n)
			moves := either(c.since(step.keeps), 0, 1)
			movesNetwork := either(c.since(step.keepsNetwork), 0, moves)
			if got != last+moves || ofNetwork != lastOfNetwork+movesNetwork {
				t.Errorf("%s: subnet %d → %d, network %d → %d, want %d and %d more", step.what, last, got, lastOfNetwork,
					ofNetwork, moves, movesNetwork)
			}
			last, lastOfNetwork = got, ofNetwork
		}
		c.tenant.do(t, "PUT", "/v2.0/subnets/"+id(s)+"/tags", object{"tags": []string{"a"}}).must(t, http.StatusOK)
		if got, ofNetwork := c.tenant.revisionOf(t, "subnet", s), c.tenant.revisionOf(t, "network", n); got != last+1 ||
			ofNetwork != lastOfNetwork {
			t.Errorf("tags: subnet %d → %d, network %d → %d, want one more and the same", last, got, lastOfNetwork, ofNetwork)
		}
		c.tenant.do(t, "DELETE", "/v2.0/subnets/"+id(s), nil).must(t, http.StatusNoContent)
		if got := c.tenant.revisionOf(t, "network", n); got != lastOfNetwork+1 {
			t.Errorf("deleting the subnet moved the network from %d to %d", lastOfNetwork, got)
		}
	})
}

func TestPortDoesNotMoveNetworkRevision(t *testing.T) {
	inDepth(t, func(t *testing.T, c *cloud) {
		n := c.tenant.newNetwork(t, nil)
		s := c.tenant.newSubnet(t, n, nil)
		last := c.tenant.revisionOf(t, "network", n)
		p := c.tenant.newPort(t, n, nil)
		if revision(p) != 1 {
			t.Errorf("a new port has revision %d, want 1", revision(p))
		}
		path := "/v2.0/ports/" + id(p)
		revisionNow := revision(p)
		for _, ask := range []object{
			{"name": "a"}, {"description": "b"}, {"device_id": "d"}, {"admin_state_up": false},
			{"fixed_ips": []object{}}, {"fixed_ips": []object{{"subnet_id": id(s)}}}, {"security_groups": []string{}},
		} {
			c.tenant.do(t, "PUT", path, object{"port": ask}).must(t, http.StatusOK)
			got := c.tenant.revisionOf(t, "port", p)
			// The binding of the port may be tried once more meanwhile, which counts as well.
			if got <= revisionNow {
				t.Errorf("%v moved the port's revision from %d to %d, want more", ask, revisionNow, got)
			}
			revisionNow = got
		}
		c.tenant.do(t, "DELETE", path, nil).must(t, http.StatusNoContent)
		if got := c.tenant.revisionOf(t, "network", n); got != last {
			t.Errorf("the port moved its network from %d to %d", last, got)
		}
		if got := c.tenant.revisionOf(t, "subnet", s); got != 0 {
			t.Errorf("the port moved its subnet to %d", got)
		}
	})
}

// TestPortRevision goes through changes one after another. In some releases, what leaves the port's own row alone moves
// the revision once more when the answer is made, which so tells a revision that is of the past when it arrives.
func TestPortRevision(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		n := c.tenant.newNetwork(t, nil)
		s := c.tenant.newSubnet(t, n, nil)
		at := func(address string) []object { return []object{{"subnet_id": id(s), "ip_address": address}} }
		p := c.tenant.newPort(t, n, object{"name": "a", "description": "d", "fixed_ips": at("10.0.0.3")})
		groups, pairs := p["security_groups"], []object{{"ip_address": "10.0.0.99"}}
		last := revision(p)
		for _, step := range []struct {
			what         string
			ask          object
			moves, later int
			idle         bool
		}{
			{"a name", object{"name": "b"}, 1, 0, false},
			{"the same name", object{"name": "b"}, 1, 0, true},
			{"the state", object{"admin_state_up": false}, 1, 0, false},
			{"a device", object{"device_id": "x"}, 1, 0, false},
			{"the same port security", object{"port_security_enabled": true}, 1, 0, true},
			{"a description", object{"description": "e"}, 1, 1, false},
			{"the same description", object{"description": "e"}, 1, 1, true},
			{"a description and the same name", object{"description": "f", "name": "b"}, 1, 0, false},
			{"the same description and name", object{"description": "f", "name": "b"}, 1, 0, false},
			{"an address", object{"fixed_ips": at("10.0.0.4")}, 1, 0, false},
			{"the same address", object{"fixed_ips": at("10.0.0.4")}, 0, 1, true},
			{"an address and the same name", object{"fixed_ips": at("10.0.0.5"), "name": "b"}, 1, 0, false},
			{"a description and an address", object{"description": "g", "fixed_ips": at("10.0.0.6")}, 2, 0, false},
			{"a description and the same address", object{"description": "h", "fixed_ips": at("10.0.0.6")}, 1, 1, false},
			{"no groups", object{"security_groups": []string{}}, 1, 0, false},
			{"no groups again", object{"security_groups": []string{}}, 0, 1, true},
			{"a description and groups", object{"description": "i", "security_groups": groups}, 2, 0, false},
			{"an address and no groups", object{"fixed_ips": at("10.0.0.7"), "security_groups": []string{}}, 1, 0, false},
			{"pairs", object{"allowed_address_pairs": pairs}, 1, 0, false},
			{"the same pairs", object{"allowed_address_pairs": pairs}, 1, 0, false},
			{"nothing at all", object{}, 0, 1, true},
			{"all at once", object{"name": "c", "description": "j", "admin_state_up": true,
				"fixed_ips": at("10.0.0.8"), "security_groups": groups}, 1, 0, false},
		} {
			if step.idle && c.since(neutrontest.IdleUpdatesKeepRevision) {
				step.moves, step.later = 0, 0
			}
			if c.since(neutrontest.PortRevisionIsInItsAnswer) {
				step.later = 0
			}
			a := c.tenant.do(t, "PUT", "/v2.0/ports/"+id(p), object{"port": step.ask})
			got := revision(a.must(t, http.StatusOK).part(t, "port"))
			later := c.tenant.revisionOf(t, "port", p)
			if got != last+step.moves || later != got+step.later {
				t.Errorf("%s: the revision went from %d to %d and then %d, want %d more and then %d more",
					step.what, last, got, later, step.moves, step.later)
			}
			last = later
		}
	})
}

// TestUpdatesToWhatIsThere holds for further kinds what TestNetworkRevision does for networks.
func TestUpdatesToWhatIsThere(t *testing.T) {
	inDepth(t, func(t *testing.T, c *cloud) {
		parent := c.tenant.newPort(t, c.tenant.newNetwork(t, nil), nil)
		outside := c.admin.newNetwork(t, object{"router:external": true})
		c.admin.newSubnet(t, outside, object{"cidr": "172.23.0.0/24"})
		for _, test := range []struct {
			who            *session
			path, singular string
			made           object
			// counts is whether it counts in all releases.
			counts bool
		}{
			{c.tenant, "/v2.0/routers", "router", object{"name": "a"}, false},
			{c.tenant, groupsPath, "security_group", object{"name": "a"}, false},
			{c.tenant, "/v2.0/trunks", "trunk", object{"name": "a", "port_id": id(parent)}, false},
			{c.admin, qosPath, "policy", object{"name": "a"}, false},
			{c.tenant, "/v2.0/subnetpools", "subnetpool", object{"name": "a", "prefixes": []string{"10.8.0.0/16"}}, true},
			{c.tenant, floatingPath, "floatingip", object{"description": "a", "floating_network_id": id(outside)}, true},
		} {
			t.Run(test.singular, func(t *testing.T) {
				made := test.who.make(t, test.path, test.singular, test.made)
				last := revision(made)
				for _, names := range [][]string{{"name"}, {"description"}, {"name", "description"}} {
					same := object{}
					for _, name := range names {
						if value, has := made[name]; has {
							same[name] = value
						}
					}
					got := revision(test.who.do(t, "PUT", test.path+"/"+id(made), object{test.singular: same}).
						must(t, http.StatusOK).part(t, test.singular))
					idle := c.since(neutrontest.IdleUpdatesKeepRevision) && !test.counts && len(names) == 1
					if moves := either(idle, 0, 1); len(same) > 0 && got != last+moves {
						t.Errorf("the same %v moved the revision from %d to %d, want %d more", names, last, got, moves)
					}
					last = got
				}
			})
		}
	})
}

func TestRareCausesMovePortRevision(t *testing.T) {
	inDepth(t, func(t *testing.T, c *cloud) {
		n := c.tenant.newNetwork(t, nil)
		s := c.tenant.newSubnet(t, n, nil)
		p := c.tenant.newPort(t, n, nil)
		last := revision(p)
		self := object{"cidr": "fd00:2::/64", "ip_version": 6, "ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"}
		var added object
		for _, step := range []struct {
			what  string
			do    func()
			moves int
		}{
			{"a change of its network", func() {
				c.tenant.do(t, "PUT", "/v2.0/networks/"+id(n), object{"network": object{
					"name": "x", "mtu": 1400, "admin_state_up": false,
				}}).must(t, http.StatusOK)
			}, 0},
			{"a change of its subnet", func() {
				c.tenant.do(t, "PUT", "/v2.0/subnets/"+id(s), object{"subnet": object{
					"name": "x", "dns_nameservers": []string{"1.1.1.1"},
				}}).must(t, http.StatusOK)
			}, 0},
			{"another subnet", func() {
				c.tenant.newSubnet(t, n, object{"cidr": "fd00:1::/64", "ip_version": 6})
			}, 0},
			{"another port", func() { c.tenant.newPort(t, n, nil) }, 0},
			{"a tag", func() {
				c.tenant.do(t, "PUT", "/v2.0/ports/"+id(p)+"/tags", object{"tags": []string{"a"}}).must(t, http.StatusOK)
			}, 1},
			{"a subnet that gives it an address", func() { added = c.tenant.newSubnet(t, n, self) },
				either(c.since(neutrontest.OwnAddressMovesPortOnce), 1, 2)},
			{"that subnet's end", func() {
				c.tenant.do(t, "DELETE", "/v2.0/subnets/"+id(added), nil).must(t, http.StatusNoContent)
			}, 1},
		} {
			step.do()
			got := c.tenant.revisionOf(t, "port", p)
			if got != last+step.moves {
				t.Errorf("%s moved the port's revision from %d to %d, want %d more", step.what, last, got, step.moves)
			}
			last = got
		}
	})
}

func TestChangedTagsMoveRevision(t *testing.T) {
	steps := []struct {
		method, path string
		body         any
		status       int
		moves        int
	}{
		{"PUT", "", object{"tags": []string{"b", "a"}}, 200, 1},
		{"PUT", "", object{"tags": []string{"a", "b"}}, 200, 0},
		{"GET", "", nil, 200, 0},
		{"GET", "/a", nil, 204, 0},
		{"GET", "/c", nil, 404, 0},
		{"PUT", "/c", nil, 201, 1},
		{"PUT", "/c", nil, 201, 0},
		{"DELETE", "/c", nil, 204, 1},
		{"DELETE", "/c", nil, 404, 0},
		{"PUT", "", object{"tags": []string{"a", "a"}}, 400, 0},
		{"PUT", "", object{"x": 1}, 400, 0},
		{"PUT", "", object{"tags": []string{}}, 200, 1},
		{"PUT", "", object{"tags": []string{"x"}}, 200, 1},
		{"DELETE", "", nil, 204, 1},
	}
	inDepth(t, func(t *testing.T, c *cloud) {
		n := c.tenant.newNetwork(t, nil)
		last := revision(n)
		for _, step := range steps {
			a := c.tenant.do(t, step.method, "/v2.0/networks/"+id(n)+"/tags"+step.path, step.body)
			got := c.tenant.revisionOf(t, "network", n)
			if a.status != step.status || got != last+step.moves {
				t.Errorf("%s tags%s %v: %d, revision %d → %d; want %d and %d more",
					step.method, step.path, step.body, a.status, last, got, step.status, step.moves)
			}
			last = got
		}
	})
}

func TestIfMatchGuardsUpdate(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		n := c.tenant.newNetwork(t, nil)
		s := c.tenant.newSubnet(t, n, nil)
		path, subnetPath := "/v2.0/networks/"+id(n), "/v2.0/subnets/"+id(s)
		stale := refusal{412, "RevisionNumberConstraintFailed", "Constrained to 1, but current revision is 2"}
		name := object{"network": object{"name": "x"}}
		c.tenant.do(t, "PUT", path, name, "If-Match", "revision_number=1").refuses(t, stale)
		c.tenant.do(t, "PUT", path, name, "If-Match", `"revision_number=1"`).refuses(t, stale)
		// The revision is looked at before the segment's MTU is …
		c.tenant.do(t, "PUT", path, object{"network": object{"mtu": 9999}}, "If-Match", "revision_number=1").refuses(t, stale)
		// … but a subnet's values before its revision.
		c.tenant.do(t, "PUT", subnetPath, object{"subnet": object{"gateway_ip": "10.0.0.9"}},
			"If-Match", "revision_number=7").refuses(t,
			refusal{Status: 409, Type: "GatewayConflictWithAllocationPools"})
		c.tenant.do(t, "PUT", subnetPath, object{"subnet": object{}}, "If-Match", "revision_number=7").
			refuses(t, refusal{412, "RevisionNumberConstraintFailed", "Constrained to 7, but current revision is 0"})
		// A change of nothing is none, so that there is nothing to guard.
		c.tenant.do(t, "PUT", path, object{"network": object{}}, "If-Match", "revision_number=1").must(t, http.StatusOK)
		c.tenant.do(t, "PUT", path, name, "If-Match", "revision_number=x").refuses(t, refusal{400, "BadRequest",
			"Bad if-match request: Revision number etag must be in the format of revision_number=<int>."})

		c.tenant.do(t, "PUT", path, name, "If-Match", "revision_number=2").must(t, http.StatusOK)
		c.tenant.do(t, "PUT", path, name, "If-Match", "something-else").must(t, http.StatusOK)
		// The second name is the first one.
		want := either(c.since(neutrontest.IdleUpdatesKeepRevision), 3, 4)
		if got := c.tenant.revisionOf(t, "network", n); got != want {
			t.Errorf("revision %d, want %d", got, want)
		}
	})
}

func TestIfMatchGuardsPort(t *testing.T) {
	asEveryone(t, func(t *testing.T, s *session) {
		n := s.newNetwork(t, nil)
		subnet := s.newSubnet(t, n, nil)
		p := s.newPort(t, n, object{"name": "a", "fixed_ips": []object{{"subnet_id": id(subnet), "ip_address": "10.0.0.100"}}})
		path := "/v2.0/ports/" + id(p)
		stale := refusal{412, "RevisionNumberConstraintFailed", "Constrained to 7, but current revision is 1"}
		for _, ask := range []object{
			{"name": "b"}, {"description": "b"}, {"security_groups": []string{}},
			{"fixed_ips": []object{{"subnet_id": id(subnet), "ip_address": "10.0.0.200"}}},
		} {
			s.do(t, "PUT", path, object{"port": ask}, "If-Match", "revision_number=7").refuses(t, stale)
		}
		s.do(t, "DELETE", path, nil, "If-Match", "revision_number=7").refuses(t, stale)
		now := s.get(t, path).must(t, http.StatusOK).part(t, "port")
		expect.Equal(t, p, now, "the port after what was refused")
		s.do(t, "PUT", path, object{"port": object{"name": "b"}}, "If-Match", "revision_number=1").must(t, http.StatusOK)
		s.do(t, "DELETE", path, nil, "If-Match", "revision_number=1").refuses(t,
			refusal{412, "RevisionNumberConstraintFailed", "Constrained to 1, but current revision is 2"})
		s.do(t, "DELETE", path, nil, "If-Match", "revision_number=2").must(t, http.StatusNoContent)
		s.do(t, "DELETE", path, nil, "If-Match", "revision_number=2").refuses(t,
			refusal{404, "PortNotFound", "Port " + id(p) + " could not be found."})
	})
}

func TestIfMatchGuardsDelete(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		n := c.tenant.newNetwork(t, nil)
		s := c.tenant.newSubnet(t, n, nil)
		other := c.tenant.newSubnet(t, n, object{"cidr": "10.1.0.0/24"})
		path, subnetPath := "/v2.0/networks/"+id(n), "/v2.0/subnets/"+id(s)
		c.tenant.do(t, "DELETE", path, nil, "If-Match", "revision_number=1").refuses(t,
			refusal{412, "RevisionNumberConstraintFailed", "Constrained to 1, but current revision is 3"})
		// Nothing of it has gone.
		c.tenant.get(t, "/v2.0/subnets/"+id(other)).must(t, http.StatusOK)
		c.tenant.do(t, "DELETE", subnetPath, nil, "If-Match", "revision_number=5").refuses(t,
			refusal{412, "RevisionNumberConstraintFailed", "Constrained to 5, but current revision is 0"})
		c.tenant.do(t, "DELETE", subnetPath, nil, "If-Match", "revision_number=0").must(t, http.StatusNoContent)
		c.tenant.do(t, "DELETE", path, nil, "If-Match", "revision_number=4").must(t, http.StatusNoContent)
		c.tenant.get(t, "/v2.0/subnets/"+id(other)).must(t, http.StatusNotFound)

		r := c.tenant.newRouter(t, nil)
		c.tenant.do(t, "DELETE", "/v2.0/routers/"+id(r), nil, "If-Match", "revision_number=0").refuses(t,
			refusal{Status: 412, Type: "RevisionNumberConstraintFailed"})
	})
}

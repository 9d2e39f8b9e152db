package contract

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

func (s *session) newSubnetPool(t testing.TB, attributes object) object {
	t.Helper()
	return s.make(t, "/v2.0/subnetpools", "subnetpool", with(object{
		"name": unique(), "prefixes": []string{"10.8.0.0/16"}, "default_prefixlen": 24,
	}, attributes))
}

// fromPool is the create of a subnet whose CIDR is to come from a pool.
func fromPool(pool object, attributes object) object {
	version := pool["ip_version"]
	return with(object{"cidr": "DROP", "ip_version": version, "subnetpool_id": id(pool)}, attributes)
}

// tryNewSubnet asks for a subnet on a network; members that are "DROP" are left out.
func (s *session) tryNewSubnet(t testing.TB, network object, attributes object) answer {
	t.Helper()
	return s.create(t, "subnets", with(object{"network_id": id(network), "ip_version": 4}, attributes))
}

func (s *session) newPooledSubnet(t testing.TB, network, pool object, attributes object) object {
	t.Helper()
	return s.tryNewSubnet(t, network, fromPool(pool, attributes)).must(t, http.StatusCreated).part(t, "subnet")
}

func TestSubnetPoolAttributes(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		p := c.tenant.newSubnetPool(t, object{"name": "contract"})
		stored := c.tenant.get(t, "/v2.0/subnetpools/"+id(p)).must(t, http.StatusOK).part(t, "subnetpool")
		if diff := gocmp.Diff(p, stored); diff != "" {
			t.Errorf("what was answered and what is there (-answered +there):\n%s", diff)
		}
		for _, varying := range []string{"id", "created_at", "updated_at"} {
			delete(p, varying)
		}
		want := object{
			"address_scope_id": nil, "default_prefixlen": "24", "default_quota": nil, "description": "",
			"ip_version": float64(4), "is_default": false, "max_prefixlen": "32", "min_prefixlen": "8", "name": "contract",
			"prefixes": []any{"10.8.0.0/16"}, "project_id": c.tenant.project, "revision_number": float64(0),
			"shared": false, "tags": []any{}, "tenant_id": c.tenant.project,
		}
		expect.Equal(t, want, p, "a new subnet pool")
	})
}

func TestValidSubnetPools(t *testing.T) {
	for name, test := range map[string]struct{ ask, want object }{
		"prefixes are joined": {
			object{"prefixes": []string{"10.9.128.0/17", "10.8.0.5/16", "10.9.0.0/17", "10.9.3.0/24"}},
			object{"prefixes": []any{"10.8.0.0/15"}},
		},
		"IPv6 has its own bounds": {
			object{"prefixes": []string{"fd00:8::/48"}, "default_prefixlen": 72},
			object{"ip_version": float64(6), "min_prefixlen": "64", "max_prefixlen": "128", "default_prefixlen": "72"},
		},
		"bounds may be texts": {
			object{"min_prefixlen": "20", "max_prefixlen": 28}, object{"min_prefixlen": "20", "max_prefixlen": "28"},
		},
		"a quota": {object{"default_quota": 256}, object{"default_quota": float64(256)}},
	} {
		t.Run(name, func(t *testing.T) {
			inDepth(t, func(t *testing.T, c *cloud) {
				p := c.tenant.newSubnetPool(t, test.ask)
				wantFields(t, p, test.want)
			})
		})
	}
}

func TestRefusedSubnetPools(t *testing.T) {
	cases := map[string]asked{
		"no prefixes": {object{"prefixes": []string{}}, refusal{400, "EmptySubnetPoolPrefixList", "Empty subnet pool prefix list."}},
		"prefixes of both versions": {object{"prefixes": []string{"10.8.0.0/16", "fd00:8::/48"}},
			refusal{400, "PrefixVersionMismatch", "Cannot mix IPv4 and IPv6 prefixes in a subnet pool."}},
		"a prefix that is a word": {object{"prefixes": []string{"x"}}, refusal{Status: 400, Type: "HTTPBadRequest"}},
		"a blank name": {object{"name": " "},
			refusal{400, "HTTPBadRequest", "Invalid input for name. Reason: ' ' Blank strings are not permitted."}},
		"a default below the bounds": {object{"min_prefixlen": 20, "default_prefixlen": 19}, refusal{400,
			"IllegalSubnetPoolPrefixBounds", "Illegal prefix bounds: default_prefixlen=19, min_prefixlen=20."}},
		"a default above the bounds": {object{"max_prefixlen": 20, "default_prefixlen": 21}, refusal{400,
			"IllegalSubnetPoolPrefixBounds", "Illegal prefix bounds: default_prefixlen=21, max_prefixlen=20."}},
		"bounds that leave nothing": {object{"min_prefixlen": 26, "max_prefixlen": 25}, refusal{400,
			"IllegalSubnetPoolPrefixBounds", "Illegal prefix bounds: min_prefixlen=26, max_prefixlen=25."}},
		"a length of 33": {object{"max_prefixlen": 33}, refusal{400,
			"IllegalSubnetPoolPrefixBounds", "Illegal prefix bounds: max_prefixlen=33, ip_version_max=32."}},
		"a shared one": {object{"shared": true}, refusal{Status: 403, Type: "PolicyNotAuthorized"}},
	}
	inDepth(t, func(t *testing.T, c *cloud) {
		c.tenant.refusesEach(t, "subnetpools", object{"name": unique(), "prefixes": []string{"10.8.0.0/16"}}, cases)
	})
}

// TestSubnetsFromPools holds what follows from a CIDR that Neutron takes from a pool: the first address is the gateway's,
// of IPv6, too, in some releases whatever the request says of it.
func TestSubnetsFromPools(t *testing.T) {
	steps := []struct {
		what      string
		ask, want object
	}{
		{"the default length", nil, object{
			"cidr": "10.8.0.0/24", "gateway_ip": "10.8.0.1", "allocation_pools": []any{pool("10.8.0.2", "10.8.0.254")},
		}},
		{"another length", object{"prefixlen": 26}, object{
			"cidr": "10.8.1.0/26", "allocation_pools": []any{pool("10.8.1.2", "10.8.1.62")},
		}},
		{"a length that is a text", object{"prefixlen": "30"}, object{
			"cidr": "10.8.1.64/30", "allocation_pools": []any{pool("10.8.1.66", "10.8.1.66")},
		}},
		{"a CIDR of the pool", object{"cidr": "10.8.9.0/24"}, object{"cidr": "10.8.9.0/24", "gateway_ip": "10.8.9.1"}},
		{"IPv6", object{"ip_version": 6}, object{
			"cidr": "fd00:8::/64", "gateway_ip": "fd00:8::1",
			"allocation_pools": []any{pool("fd00:8::2", "fd00:8::ffff:ffff:ffff:ffff")},
		}},
		{"SLAAC", object{"ip_version": 6, "ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"}, object{
			"cidr": "fd00:8:0:1::/64", "gateway_ip": "fd00:8:0:1::1", "ipv6_ra_mode": "slaac",
		}},
		{"a /126", object{"ip_version": 6, "prefixlen": 126}, object{
			"cidr": "fd00:8:0:2::/126", "gateway_ip": "fd00:8:0:2::1",
			"allocation_pools": []any{pool("fd00:8:0:2::2", "fd00:8:0:2::3")},
		}},
	}
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		four := c.tenant.newSubnetPool(t, nil)
		six := c.tenant.newSubnetPool(t, object{"prefixes": []string{"fd00:8::/48"}, "default_prefixlen": 64})
		n := c.tenant.newNetwork(t, nil)
		made, stored := map[any]object{}, map[any]object{}
		for _, step := range steps {
			t.Run(step.what, func(t *testing.T) {
				from := four
				if step.ask["ip_version"] == 6 {
					from = six
				}
				s := c.tenant.newPooledSubnet(t, n, from, step.ask)
				wantFields(t, s, with(step.want, object{"subnetpool_id": id(from)}))
				made[id(s)] = s
			})
		}
		none := c.tenant.newPooledSubnet(t, n, four, object{"gateway_ip": nil})
		if c.since(neutrontest.PooledSubnetsMayLackGateway) {
			wantFields(t, none, object{"gateway_ip": nil, "allocation_pools": []any{pool("10.8.8.1", "10.8.8.254")}})
		} else {
			wantFields(t, none, object{"gateway_ip": "10.8.8.1", "allocation_pools": []any{pool("10.8.8.2", "10.8.8.254")}})
		}
		made[id(none)] = none
		other := c.tenant.tryNewSubnet(t, n, fromPool(four, object{"dns_nameservers": []string{"fd00::53"}}))
		if c.since(neutrontest.PooledSubnetsAreChecked) {
			other.refuses(t, refusal{400, "InvalidInput",
				"Invalid input for operation: dns_nameserver 'fd00::53' does not match the ip_version '4'."})
		} else {
			s := other.must(t, http.StatusCreated).part(t, "subnet")
			wantFields(t, s, object{"cidr": "10.8.2.0/24", "dns_nameservers": []any{"fd00::53"}})
			made[id(s)] = s
		}
		for _, s := range c.tenant.get(t, "/v2.0/subnets?network_id="+id(n)).must(t, http.StatusOK).list(t, "subnets") {
			stored[id(s)] = s
		}
		if diff := gocmp.Diff(made, stored); diff != "" {
			t.Errorf("what was answered and what is there (-answered +there):\n%s", diff)
		}
	})
}

func TestRefusedSubnetsFromPools(t *testing.T) {
	bad := func(reason string) refusal {
		return refusal{400, "BadRequest", "Bad subnets request: " + reason + "."}
	}
	const nobody = "11111111-1111-1111-1111-111111111111"
	cases := map[string]struct {
		pool, ask object
		want      refusal
	}{
		"longer than the pool gives": {object{"max_prefixlen": 26}, object{"prefixlen": 27}, refusal{400,
			"MaxPrefixSubnetAllocationError", "Unable to allocate subnet with prefix length 27, maximum allowed prefix is 26."}},
		"shorter than the pool gives": {object{"min_prefixlen": 20}, object{"prefixlen": 19}, refusal{400,
			"MinPrefixSubnetAllocationError", "Unable to allocate subnet with prefix length 19, minimum allowed prefix is 20."}},
		"of the other version":    {nil, object{"ip_version": 6}, bad("Cannot allocate IPv6 subnet from IPv4 subnet pool")},
		"a cidr and a length":     {nil, object{"cidr": "10.8.0.0/24", "prefixlen": 24}, bad("cidr and prefixlen must not be supplied together")},
		"the default pool, too":   {nil, object{"use_default_subnetpool": true}, bad("subnetpool_id and use_default_subnetpool cannot both be specified")},
		"with pools of addresses": {nil, object{"allocation_pools": []object{pool("10.8.0.9", "10.8.0.19")}}, bad("allocation_pools allowed only for specific subnet requests.")},
		"a pool that is not there": {nil, object{"subnetpool_id": nobody}, refusal{404,
			"SubnetPoolNotFound", "Subnet pool " + nobody + " could not be found."}},
		"a network that is not there": {nil, object{"network_id": nobody}, refusal{404,
			"NetworkNotFound", "Network " + nobody + " could not be found."}},
		"above the quota": {object{"default_quota": 128}, nil, refusal{409,
			"SubnetPoolQuotaExceeded", "Per-{tenant} subnet pool prefix quota exceeded."}},
		"larger than all that is left": {object{"prefixes": []string{"10.8.0.0/25"}}, nil, refusal{500,
			"SubnetAllocationError", "Failed to allocate subnet: Insufficient prefix space to allocate subnet size /24."}},
		"a CIDR outside the pool": {nil, object{"cidr": "10.9.0.0/24"}, refusal{500, "SubnetAllocationError",
			"Failed to allocate subnet: Cannot allocate requested subnet from the available set of prefixes."}},
	}
	inDepth(t, func(t *testing.T, c *cloud) {
		n, usual := c.tenant.newNetwork(t, nil), c.tenant.newSubnetPool(t, nil)
		for name, test := range cases {
			t.Run(name, func(t *testing.T) {
				from := usual
				if test.pool != nil {
					from = c.tenant.newSubnetPool(t, test.pool)
				}
				c.tenant.tryNewSubnet(t, n, fromPool(from, test.ask)).refuses(t, test.want,
					"{tenant}", strings.TrimSuffix(c.tenants(), "s"))
			})
		}
	})
}

// TestSubnetPoolAllocatesSmallestFreeBlock holds which CIDR comes next, and that one comes back when its subnet goes.
func TestSubnetPoolAllocatesSmallestFreeBlock(t *testing.T) {
	inDepth(t, func(t *testing.T, c *cloud) {
		from := c.tenant.newSubnetPool(t, nil)
		n := c.tenant.newNetwork(t, nil)
		take := func(length int, want string) object {
			t.Helper()
			s := c.tenant.newPooledSubnet(t, n, from, object{"prefixlen": length})
			if s["cidr"] != want {
				t.Errorf("the CIDR is %v, want %s", s["cidr"], want)
			}
			return s
		}
		take(26, "10.8.0.0/26")
		first := take(24, "10.8.1.0/24")
		take(27, "10.8.0.64/27")
		take(24, "10.8.2.0/24")
		c.tenant.do(t, "DELETE", "/v2.0/subnets/"+id(first), nil).must(t, http.StatusNoContent)
		take(25, "10.8.0.128/25")
		take(24, "10.8.1.0/24")
	})
}

func TestBulkSubnetsAllocateFromPool(t *testing.T) {
	inDepth(t, func(t *testing.T, c *cloud) {
		from := c.tenant.newSubnetPool(t, nil)
		var ask []object
		for range 3 {
			ask = append(ask, object{"network_id": id(c.tenant.newNetwork(t, nil)), "ip_version": 4, "subnetpool_id": id(from)})
		}
		made := c.tenant.do(t, "POST", "/v2.0/subnets", object{"subnets": ask}).must(t, http.StatusCreated).list(t, "subnets")
		var got []any
		for _, s := range made {
			got = append(got, s["cidr"])
		}
		expect.Equal(t, []any{"10.8.0.0/24", "10.8.1.0/24", "10.8.2.0/24"}, got, "CIDRs")
	})
}

func TestSubnetsOfANetworkShareOnePool(t *testing.T) {
	inDepth(t, func(t *testing.T, c *cloud) {
		affinity := refusal{400, "NetworkSubnetPoolAffinityError",
			"Subnets hosted on the same network must be allocated from the same subnet pool."}
		from, other := c.tenant.newSubnetPool(t, nil), c.tenant.newSubnetPool(t, object{"prefixes": []string{"10.9.0.0/16"}})
		six := c.tenant.newSubnetPool(t, object{"prefixes": []string{"fd00:8::/48"}, "default_prefixlen": 64})
		n := c.tenant.newNetwork(t, nil)
		c.tenant.newPooledSubnet(t, n, from, nil)
		c.tenant.tryNewSubnet(t, n, fromPool(other, nil)).refuses(t, affinity)
		c.tenant.tryNewSubnet(t, n, object{"cidr": "10.7.0.0/24"}).refuses(t, affinity)
		c.tenant.newPooledSubnet(t, n, from, nil)
		c.tenant.newPooledSubnet(t, n, six, nil)

		plain := c.tenant.newNetwork(t, nil)
		c.tenant.newSubnet(t, plain, object{"cidr": "10.8.0.0/16"})
		c.tenant.tryNewSubnet(t, plain, fromPool(other, nil)).refuses(t, affinity)
		c.tenant.tryNewSubnet(t, plain, fromPool(from, nil)).refuses(t, refusal{400, "InvalidInput",
			"Invalid input for operation: Requested subnet with cidr: 10.8.2.0/24 for network: " + id(plain) +
				" overlaps with another subnet."})
	})
}

func TestSubnetPoolInUseCanOnlyGrow(t *testing.T) {
	inDepth(t, func(t *testing.T, c *cloud) {
		from := c.tenant.newSubnetPool(t, nil)
		n := c.tenant.newNetwork(t, nil)
		s := c.tenant.newPooledSubnet(t, n, from, nil)
		path := "/v2.0/subnetpools/" + id(from)
		c.tenant.do(t, "DELETE", path, nil).refuses(t, refusal{400, "SubnetPoolDeleteError",
			"Unable to delete subnet pool: Subnet pool has existing allocations."})
		c.tenant.do(t, "PUT", path, object{"subnetpool": object{"prefixes": []string{"10.9.0.0/16"}}}).refuses(t, refusal{400,
			"IllegalSubnetPoolPrefixUpdate", "Illegal update to prefixes: Existing prefixes must be a subset of the new prefixes."})
		c.tenant.do(t, "PUT", path, object{"subnetpool": object{"prefixes": []string{"10.8.0.0/16", "10.9.0.0/16"}}}).
			must(t, http.StatusOK)
		grown := c.tenant.get(t, path).must(t, http.StatusOK).part(t, "subnetpool")
		if diff := gocmp.Diff([]any{"10.8.0.0/15"}, grown["prefixes"]); diff != "" || revision(grown) != revision(from)+1 {
			t.Errorf("revision %d, prefixes (-want +got):\n%s", revision(grown), diff)
		}
		c.tenant.do(t, "DELETE", "/v2.0/subnets/"+id(s), nil).must(t, http.StatusNoContent)
		c.tenant.do(t, "DELETE", path, nil).must(t, http.StatusNoContent)
		c.tenant.get(t, path).refuses(t, refusal{404, "SubnetPoolNotFound", "Subnet pool " + id(from) + " could not be found."})
	})
}

func TestSharedSubnetPool(t *testing.T) {
	inDepth(t, func(t *testing.T, c *cloud) {
		shared, private := c.admin.newSubnetPool(t, object{"shared": true}), c.admin.newSubnetPool(t, nil)
		n := c.tenant.newNetwork(t, nil)
		c.tenant.tryNewSubnet(t, n, fromPool(private, nil)).refuses(t, refusal{404, "SubnetPoolNotFound",
			"Subnet pool " + id(private) + " could not be found."})
		c.tenant.newPooledSubnet(t, n, shared, nil)
		for pool, want := range map[string]int{id(shared): 1, id(private): 0} {
			listed := c.tenant.get(t, "/v2.0/subnetpools?id="+pool+"&fields=id").must(t, http.StatusOK).list(t, "subnetpools")
			if len(listed) != want {
				t.Errorf("a tenant sees %v of pool %s, want %d", listed, pool, want)
			}
		}
		c.tenant.do(t, "PUT", "/v2.0/subnetpools/"+id(shared), object{"subnetpool": object{"name": "mine"}}).
			refuses(t, refusal{Status: 403, Type: "PolicyNotAuthorized"})
	})
}

// TestTermRecord holds what the controller's term record relies on: a member makes a pool of one address, finds it by its
// name, and changes and removes it on condition of its revision.
func TestTermRecord(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		name := unique() + " default/network-controller"
		p := c.tenant.newSubnetPool(t, object{
			"name": name, "prefixes": []string{"192.0.2.0/32"}, "min_prefixlen": 32, "default_prefixlen": 32,
			"description": "[term=1/a]",
		})
		path, moved := "/v2.0/subnetpools/"+id(p), refusal{Status: 412, Type: "RevisionNumberConstraintFailed"}
		write := func(description string, revision int) answer {
			return c.tenant.do(t, "PUT", path, object{"subnetpool": object{"description": description}}, ifRevision(revision)...)
		}
		first := revision(p)
		written := write("[term=2/b]", first).must(t, http.StatusOK).part(t, "subnetpool")
		if now := revision(written); now <= first {
			t.Errorf("the revision went from %d to %d", first, now)
		}
		write("[term=1/a]", first).refuses(t, moved)
		c.tenant.do(t, "DELETE", path, nil, ifRevision(first)...).refuses(t, moved)

		query := url.Values{"name": {name}, "project_id": {c.tenant.project}, "fields": {"id", "description", "revision_number"}}
		found := c.tenant.get(t, "/v2.0/subnetpools?"+query.Encode()).must(t, http.StatusOK).list(t, "subnetpools")
		want := []object{{"id": id(p), "description": "[term=2/b]", "revision_number": float64(revision(written))}}
		expect.Equal(t, want, found, "what is found")
		c.tenant.do(t, "DELETE", path, nil, ifRevision(revision(written))...).must(t, http.StatusNoContent)
	})
}

package neutrontest

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// subnetPool is a stock of prefixes that the CIDRs of subnets are taken from.
type subnetPool struct {
	standard
	prefixes             []netip.Prefix // joined, in order, of one version
	least, most, unasked int            // prefix lengths
	quota                int            // 0: none; see units
	shared               bool
	isDefault            bool
}

func (p *subnetPool) version() int { return versionOf(p.prefixes[0].Addr()) }

// longest is the prefix length of a single address.
func (p *subnetPool) longest() int { return p.prefixes[0].Addr().BitLen() }

func (s *Server) subnetPoolKind() kind {
	k := &resources[*subnetPool]{server: s, schema: subnetPoolSchema(), table: s.pools}
	k.build = s.createSubnetPool
	k.alter = s.updateSubnetPool
	k.discard = s.deleteSubnetPool
	return k
}

func subnetPoolSchema() *schema[*subnetPool] {
	s := &schema[*subnetPool]{
		singular: "subnetpool", plural: "subnetpools", notFound: subnetPoolNotFound,
		seenBy: func(v *view, p *subnetPool) bool { return seesPool(v.caller, p) },
	}
	length := func(name string, of func(*subnetPool) int) attribute[*subnetPool] {
		return attribute[*subnetPool]{
			name: name, access: inPost | inPut | visible | filterable | sortable, convert: toInteger, check: nonNegative,
			get: func(_ *view, p *subnetPool) any { return strconv.Itoa(of(p)) },
		}
	}
	s.attributes = append([]attribute[*subnetPool]{
		identifier[*subnetPool](),
		{name: "name", access: inPost | inPut | required | visible | filterable | sortable, check: isNotBlank,
			get: func(_ *view, p *subnetPool) any { return p.name }},
		tenant[*subnetPool](),
		{name: "prefixes", access: inPost | inPut | required | visible, check: areSubnets,
			get: func(_ *view, p *subnetPool) any {
				texts := make([]string, len(p.prefixes))
				for i, prefix := range p.prefixes {
					texts[i] = prefix.String()
				}
				return texts
			}},
		{name: "default_quota", access: inPost | inPut | visible | filterable | sortable, convert: toInteger,
			check: nonNegative, get: func(_ *view, p *subnetPool) any {
				if p.quota == 0 {
					return nil
				}
				return p.quota
			}},
		{name: "ip_version", access: visible | filterable | sortable,
			get: func(_ *view, p *subnetPool) any { return p.version() }},
		length("default_prefixlen", func(p *subnetPool) int { return p.unasked }),
		length("min_prefixlen", func(p *subnetPool) int { return p.least }),
		length("max_prefixlen", func(p *subnetPool) int { return p.most }),
		{name: "is_default", access: inPost | inPut | visible | filterable | sortable | adminToSet | adminToUpdate,
			fallback: false, convert: toBoolean, get: func(_ *view, p *subnetPool) any { return p.isDefault }},
		{name: "shared", access: inPost | visible | filterable | sortable | adminToSet,
			fallback: false, convert: toBoolean, get: func(_ *view, p *subnetPool) any { return p.shared }},
		{name: "address_scope_id", access: visible | filterable | sortable,
			get: func(*view, *subnetPool) any { return nil }},
	}, standardAttributes[*subnetPool]()...)
	return s.init()
}

// seesPool is whether a caller sees a pool, and may take from it: its own, and those that are shared.
func seesPool(c *caller, p *subnetPool) bool { return c.admin || p.project == c.project || p.shared }

func isNotBlank(v any) string {
	text, ok := v.(string)
	switch {
	case !ok:
		return "'" + pyString(v) + "' is not a valid string"
	case strings.TrimSpace(text) == "":
		return "'" + text + "' Blank strings are not permitted"
	}
	return ""
}

func areSubnets(v any) string {
	list, ok := v.([]any)
	if !ok {
		return "'" + pyString(v) + "' is not a list"
	}
	for _, item := range list {
		if reason := isSubnet(item); reason != "" {
			return reason
		}
	}
	return ""
}

func (s *Server) createSubnetPool(tx *transaction, _ *caller, in values) (*subnetPool, *apiError) {
	p := &subnetPool{shared: in.truth("shared", false)}
	if err := p.set(in); err != nil {
		return nil, err
	}
	if err := s.setDefault(p, in); err != nil {
		return nil, err
	}
	tx.stamp("subnetpools", &p.standard, in)
	insertIn(tx, s.pools, p)
	return p, nil
}

func (s *Server) updateSubnetPool(tx *transaction, _ *caller, p *subnetPool, in values) *apiError {
	next := *p
	if err := next.set(in); err != nil {
		return err
	}
	for _, prefix := range p.prefixes {
		if !slices.ContainsFunc(next.prefixes, func(n netip.Prefix) bool { return covers(n, prefix) }) {
			return refuse(http.StatusBadRequest, "IllegalSubnetPoolPrefixUpdate",
				"Illegal update to prefixes: Existing prefixes must be a subset of the new prefixes.")
		}
	}
	if err := s.setDefault(&next, in); err != nil {
		return err
	}
	if err := tx.claim(&p.standard); err != nil {
		return err
	}
	s.pools.change(p, func() {
		*p = next
		p.rename(in)
	})
	tx.bump(&p.standard)
	return nil
}

// set takes over what a request says of prefixes and of their lengths.
func (p *subnetPool) set(in values) *apiError {
	created := p.prefixes == nil
	if in.has("prefixes") {
		p.prefixes = nil
		for _, text := range stringsOf(in["prefixes"]) {
			prefix, _ := parsePrefix(text)
			p.prefixes = append(p.prefixes, prefix.Masked())
		}
		if len(p.prefixes) == 0 {
			return refuse(http.StatusBadRequest, "EmptySubnetPoolPrefixList", "Empty subnet pool prefix list.")
		}
		other := func(prefix netip.Prefix) bool { return versionOf(prefix.Addr()) != p.version() }
		if slices.ContainsFunc(p.prefixes, other) {
			return refuse(http.StatusBadRequest, "PrefixVersionMismatch", "Cannot mix IPv4 and IPv6 prefixes in a subnet pool.")
		}
		p.prefixes = joinPrefixes(p.prefixes)
	}
	if created {
		p.least, p.most = 8, p.longest()
		if p.version() == 6 {
			p.least = 64
		}
	}
	given := func(name string, fallback int) int {
		if in.has(name) {
			return in.number(name)
		}
		return fallback
	}
	p.least, p.most = given("min_prefixlen", p.least), given("max_prefixlen", p.most)
	p.quota = given("default_quota", p.quota)
	if created {
		p.unasked = p.least
	}
	p.unasked = given("default_prefixlen", p.unasked)
	return p.checkLengths()
}

func (p *subnetPool) checkLengths() *apiError {
	illegal := func(name string, length int, base string, bound int) *apiError {
		return refuse(http.StatusBadRequest, "IllegalSubnetPoolPrefixBounds",
			"Illegal prefix bounds: %s=%d, %s=%d.", name, length, base, bound)
	}
	switch {
	case p.least > p.most:
		return illegal("min_prefixlen", p.least, "max_prefixlen", p.most)
	case p.most > p.longest():
		return illegal("max_prefixlen", p.most, "ip_version_max", p.longest())
	case p.unasked < p.least:
		return illegal("default_prefixlen", p.unasked, "min_prefixlen", p.least)
	case p.unasked > p.most:
		return illegal("default_prefixlen", p.unasked, "max_prefixlen", p.most)
	}
	return nil
}

// setDefault makes a pool the one of its version that is used where none is named, where no other is.
func (s *Server) setDefault(p *subnetPool, in values) *apiError {
	was := p.isDefault
	p.isDefault = in.truth("is_default", was)
	if p.isDefault && !was && s.defaultPool(p.version()) != nil {
		return invalidInput("A default subnetpool for this IP family has already been set. " +
			"Only one default may exist per IP family")
	}
	return nil
}

func (s *Server) defaultPool(version int) *subnetPool {
	for _, p := range s.pools.ordered {
		if p.isDefault && p.version() == version {
			return p
		}
	}
	return nil
}

func (s *Server) deleteSubnetPool(tx *transaction, _ *caller, p *subnetPool) *apiError {
	if len(s.subnets.with("subnetpool_id", p.id)) > 0 {
		return refuse(http.StatusBadRequest, "SubnetPoolDeleteError",
			"Unable to delete subnet pool: Subnet pool has existing allocations.")
	}
	if err := tx.claim(&p.standard); err != nil {
		return err
	}
	s.pools.remove(p)
	return nil
}

// poolNamed is the id of the pool that a subnet is to be taken from; empty for none.
func (s *Server) poolNamed(sub *subnet, in values) (string, *apiError) {
	if !in.truth("use_default_subnetpool", false) {
		return in.text("subnetpool_id"), nil
	}
	version := sub.version
	if in.has("cidr") {
		version = versionOf(sub.prefix.Addr())
	}
	if p := s.defaultPool(version); p != nil {
		return p.id, nil
	}
	return "", badResource("subnets", "No default subnetpool found for IPv%d", version)
}

// allocate takes a subnet's CIDR from a pool: the one that is asked for, or the first that is free in the smallest
// block that has one. Of the latter, the gateway is the first address, whatever the request says of it.
func (s *Server) allocate(c *caller, sub *subnet, id string, in values) *apiError {
	p, ok := s.pools.byID[id]
	if !ok || !seesPool(c, p) {
		return subnetPoolNotFound(id)
	}
	if p.version() != sub.version {
		return badResource("subnets", "Cannot allocate IPv%d subnet from IPv%d subnet pool", sub.version, p.version())
	}
	length := p.unasked
	switch {
	case in.has("cidr"):
		length = sub.prefix.Bits()
	case in["prefixlen"] != nil:
		length = in.number("prefixlen")
	}
	if length > p.most {
		return refuse(http.StatusBadRequest, "MaxPrefixSubnetAllocationError", "Unable to allocate subnet with prefix "+
			"length %d, maximum allowed prefix is %d.", length, p.most)
	}
	if length < p.least {
		return refuse(http.StatusBadRequest, "MinPrefixSubnetAllocationError", "Unable to allocate subnet with prefix "+
			"length %d, minimum allowed prefix is %d.", length, p.least)
	}
	taken := s.subnets.with("subnetpool_id", p.id)
	if p.quota > 0 && p.units(taken)+unitsOf(p, length) > float64(p.quota) {
		return refuse(http.StatusConflict, "SubnetPoolQuotaExceeded",
			"Per-%s subnet pool prefix quota exceeded.", s.tenantWord())
	}
	sub.pool = p
	fits := func(free netip.Prefix) bool {
		return !in.has("cidr") && free.Bits() <= length || in.has("cidr") && covers(free, sub.prefix)
	}
	free := p.free(taken)
	at := slices.IndexFunc(free, fits)
	if at < 0 {
		return p.exhausted(in, length)
	}
	if !in.has("cidr") {
		sub.prefix = netip.PrefixFrom(free[at].Addr(), length)
		sub.gateway = sub.prefix.Addr().Next()
		if none := in.has("gateway_ip") && in["gateway_ip"] == nil; none && s.since(PooledSubnetsMayLackGateway) {
			sub.gateway = netip.Addr{}
		}
	}
	return nil
}

// exhausted is the refusal of what the pool has not, which the real one takes for its own error.
func (p *subnetPool) exhausted(in values, length int) *apiError {
	reason := fmt.Sprintf("Insufficient prefix space to allocate subnet size /%d", length)
	if in.has("cidr") {
		reason = "Cannot allocate requested subnet from the available set of prefixes"
	}
	return refuse(http.StatusInternalServerError, "SubnetAllocationError", "Failed to allocate subnet: %s.", reason)
}

// units are what the subnets of the pool's own project count for the pool's quota.
func (p *subnetPool) units(taken []*subnet) (sum float64) {
	for _, sub := range taken {
		if sub.project == p.project {
			sum += unitsOf(p, sub.prefix.Bits())
		}
	}
	return sum
}

// unitsOf is what a subnet counts for a pool's quota: addresses in IPv4, and networks of 64 bits in IPv6.
func unitsOf(p *subnetPool, length int) float64 {
	unit := 32
	if p.version() == 6 {
		unit = 64
	}
	units := 1.0
	for ; length < unit; length++ {
		units *= 2
	}
	for ; length > unit; length-- {
		units /= 2
	}
	return units
}

// free are the blocks of the pool that are in no subnet, the smallest first, and of equals the lowest.
func (p *subnetPool) free(taken []*subnet) []netip.Prefix {
	free := slices.Clone(p.prefixes)
	for _, sub := range taken {
		var left []netip.Prefix
		for _, block := range free {
			left = append(left, carved(block, sub.prefix)...)
		}
		free = left
	}
	slices.SortStableFunc(free, func(a, b netip.Prefix) int {
		if a.Bits() != b.Bits() {
			return b.Bits() - a.Bits()
		}
		return a.Addr().Compare(b.Addr())
	})
	return free
}

// covers is whether all of inner lies in outer.
func covers(outer, inner netip.Prefix) bool {
	return outer.Bits() <= inner.Bits() && outer.Overlaps(inner)
}

// carved is a block without a prefix: the fewest blocks that make up the rest.
func carved(block, prefix netip.Prefix) []netip.Prefix {
	switch {
	case !block.Overlaps(prefix):
		return []netip.Prefix{block}
	case covers(prefix, block):
		return nil
	}
	lower, upper := halves(block)
	return append(carved(lower, prefix), carved(upper, prefix)...)
}

func halves(block netip.Prefix) (lower, upper netip.Prefix) {
	lower = netip.PrefixFrom(block.Addr(), block.Bits()+1)
	bytes := block.Addr().AsSlice()
	bytes[block.Bits()/8] |= 0x80 >> (block.Bits() % 8)
	addr, _ := netip.AddrFromSlice(bytes)
	return lower, netip.PrefixFrom(addr, block.Bits()+1)
}

// joinPrefixes gives the fewest prefixes that make up the same addresses, in order.
func joinPrefixes(prefixes []netip.Prefix) []netip.Prefix {
	sorted := slices.SortedFunc(slices.Values(prefixes), func(a, b netip.Prefix) int {
		if c := a.Addr().Compare(b.Addr()); c != 0 {
			return c
		}
		return a.Bits() - b.Bits()
	})
	var joined []netip.Prefix
	for _, prefix := range sorted {
		if n := len(joined); n > 0 && covers(joined[n-1], prefix) {
			continue
		}
		joined = append(joined, prefix)
		for n := len(joined); n > 1 && joined[n-1].Bits() > 0; n = len(joined) {
			whole := netip.PrefixFrom(joined[n-1].Addr(), joined[n-1].Bits()-1).Masked()
			lower, upper := halves(whole)
			if joined[n-2] != lower || joined[n-1] != upper {
				break
			}
			joined = append(joined[:n-2], whole)
		}
	}
	return joined
}

// checkAffinity refuses a subnet beside others of its version that are from another pool, or from none. (Address
// scopes, which would allow it, are not emulated.)
func (s *Server) checkAffinity(sub *subnet) *apiError {
	for _, other := range s.subnets.with("network_id", sub.network.id) {
		if other.version == sub.version && other.pool != sub.pool {
			return refuse(http.StatusBadRequest, "NetworkSubnetPoolAffinityError",
				"Subnets hosted on the same network must be allocated from the same subnet pool.")
		}
	}
	return nil
}

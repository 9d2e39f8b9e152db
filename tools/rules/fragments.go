package main

// fragments are the pieces of CEL that rules use by name. The key declares the name and the parameters, which stand
// for the text of the arguments. A value may have several lines, which are joined.
//
// What rules cost:
//
//   - kube-apiserver evaluates all rules at each write of an object, that of the status included. Each time that a rule
//     reads a field of self, it copies the schemas of all fields beside it (Properties in model/adaptor.go of
//     k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel), which costs more than the rest. So a rule first asks
//     for the field that most objects lack, reads each field once, and covers all mistakes in one field whose message
//     can tell which one it is.
//   - It refuses a rule whose estimated cost has no limit. So replace in a text before you split it: the estimate knows
//     the length of a replaced text, but not of the parts. Read a list in place: filter() forgets the limits of the
//     elements. Write !(a == b): != has no estimate.
var fragments = map[string]string{
	// Texts. A terminal may act on a control character that it prints.
	"isPrintable(text)": `!text.matches('[\\x00-\\x1f\\x7f]')`,
	"isLabel(text)":     `text.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')`,
	"isSubdomain(text)": `text.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')`,
	// OpenStack's ids are UUIDs, with or without hyphens.
	"isID(text)": `text.matches('^([0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}|[0-9a-f]{32})$')`,
	// In a hardware address of one host, the second digit is even.
	"isMAC(text)": `text.matches('^[0-9a-fA-F][02468aceACE](:[0-9a-fA-F]{2}){5}$')`,

	// Fields that may be unset, and their old values.
	"orEmpty(field)":       `(has(field) ? field : '')`,
	"orZero(field)":        `(has(field) ? field : 0)`,
	"same(field, old)":     `has(field) == has(old) && (!has(field) || field == old)`,
	"writeAgain(old)":      `has(old) ? 'write "%s" again'.format([old]) : 'leave it out'`,
	"writeValueAgain(old)": `has(old) ? 'write %s again'.format([string(old)]) : 'leave it out'`,
	"hasRange(s)":          `(has(s.cidr) && s.cidr != '' || has(s.subnetPool))`,
	// An import without a valid id or a filter has a mistake of its own, and so a message.
	"isNoImport(i)":      `(has(i.id) ? !$isID(i.id) : !has(i.filter))`,
	"sameImport(i, old)": `$same(i.id, old.id) && $same(i.filter, old.filter)`,
	"writeImportAgain": `
		!has(oldSelf.__import__) ? 'leave import out' : !has(oldSelf.__import__.id) ? 'write the filter as it was' :
		'write the id %s again'.format([oldSelf.__import__.id])`,
	"isManaged": `!has(self.managementPolicy) || self.managementPolicy != 'Observe'`,

	// An address in a form that numbers() reads: not an IPv6 address that ends in an IPv4 address (::192.0.2.1).
	"isAddress(a)": `isIP(a) && a.contains(':') != a.contains('.')`,
	// A port's addresses are the old ones, in any order and spelling.
	"sameAddresses": `
		self.addresses.all(a, oldSelf.addresses.exists(b, isIP(b) && ip(a) == ip(b))) &&
		oldSelf.addresses.all(b, self.addresses.exists(a, isIP(b) && ip(a) == ip(b)))`,

	// The cidr in a text, as a list of at most one element with the variable c. The list is empty where the text is not a
	// CIDR. all() of an empty list is true, so that a rule about the cidr ignores a text that another rule refuses: one
	// mistake gives one message, and no input makes an expression fail. The variable of such a macro is also CEL's only
	// way to name a value within an expression.
	"parsed(text, c)": `[text].filter(c, isCIDR(c)).map(c, cidr(c))`,
	// The same, but also empty where a subnet of hosts cannot have the cidr.
	"subnet(text, c)": `$parsed(text, c).filter(c, c == c.masked() && $hasHosts(c))`,
	"hasHosts(c)":     `c.prefixLength() > 0 && c.prefixLength() < (c.ip().family() == 4 ? 31 : 127)`,
	"isNotIPv6(s)":    `!has(s.cidr) || !isCIDR(s.cidr) || cidr(s.cidr).ip().family() == 4`,

	// A router in the cidr c can have the address a. In IPv6 it can have all: the first is that of the nearest router (RFC
	// 4291, section 2.6.1), and Neutron's own default gateway. The broadcast address of an IPv4 cidr ends in ones: in each
	// octet, one more is a multiple of the power of two that the octet's host bits make.
	"canBeRouter(a, c)": `c.containsIP(a) && (c.ip().family() == 6 || !(ip(a) == c.ip()) && !$isBroadcast(a, c))`,
	"isBroadcast(a, c)": `
		[0, 1, 2, 3].all(i, (int(a.split('.')[i]) + 1) % [1, 2, 4, 8, 16, 32, 64, 128, 256][$hostBits(c, i)] == 0)`,
	"hostBits(c, i)": `c.prefixLength() > 8 * i + 7 ? 0 : c.prefixLength() < 8 * i ? 8 : 8 * i + 8 - c.prefixLength()`,

	// CEL cannot order addresses. numbers() turns each address of a list into two 64-bit numbers, its upper and its lower
	// half, and atMost() compares two such pairs. An IPv4 address is first written as the last four groups of an IPv6
	// address: decimal digits keep their order when they are read as hexadecimal digits. "::" is written out as zeros.
	// Each group is then read as a hexadecimal floating-point number ("0x0fd00p0"), CEL's only way to read hexadecimal
	// digits.
	"numbers(addresses)": `
		addresses
		.map(a, a.contains(':') ? a : '::' + a.replace('.', ':'))
		.map(a, ('0x0' + $writtenOut(a).replace(':', 'p0:0x0') + 'p0').split(':').map(g, uint(double(g))))
		.map(g, [
		g[0] * 281474976710656u + g[1] * 4294967296u + g[2] * 65536u + g[3],
		g[4] * 281474976710656u + g[5] * 4294967296u + g[6] * 65536u + g[7]])`,
	"writtenOut(a)": `a.replace('::', ':0:0:0:0:0:0:'.substring(0, 19 - 2 * a.split(':').size()))`,
	"atMost(x, y)":  `(x[0] < y[0] || x[0] == y[0] && x[1] <= y[1])`,

	// Allocation pools. isRange: both ends of p are addresses. isPoolIn: they are in the cidr c, too.
	"isRange(p)":     `[p.start, p.end].all(a, $isAddress(a))`,
	"isPoolIn(c, p)": `[p.start, p.end].all(a, $isAddress(a) && c.containsIP(a))`,
	// A pool has the address after the network's own: it starts at one of the first two, and does not end at the first.
	"hasFirstAddress(c, p)": `
		$isPoolIn(c, p) && cidr(p.start + (c.ip().family() == 4 ? '/31' : '/127')).containsIP(c.ip()) &&
		!(ip(p.end) == c.ip())`,
	"gatewayIsOutsidePools": `
		$subnet(self.cidr, c)
		.filter(c, [self.gateway].exists(a, $isAddress(a)))
		.filter(c, c.containsIP(self.gateway))
		.all(c, !self.allocationPools.filter(p, $isPoolIn(c, p))
		.map(p, $numbers([p.start, p.end, self.gateway]))
		.exists(k, $atMost(k[0], k[2]) && $atMost(k[2], k[1])))`,
	// Of the pools whose start is not after their end, each overlaps exactly one: itself.
	"poolsDoNotOverlap": `
		$subnet(self.cidr, c).all(c,
		[self.allocationPools.filter(p, $isPoolIn(c, p)).map(p, $numbers([p.start, p.end])).filter(p, $atMost(p[0], p[1]))]
		.all(k, k.all(p, k.exists_one(q, $atMost(p[0], q[1]) && $atMost(q[0], p[1])))))`,

	// The cidr c of an additional subnet overlaps neither the first subnet nor, beside itself, an additional one.
	"isDisjoint(c)": `
		(!has(self.cidr) || $subnet(self.cidr, f).all(f, !f.containsCIDR(c) && !c.containsCIDR(f))) &&
		self.additionalSubnets.exists_one(o,
		has(o.cidr) && $subnet(o.cidr, d).exists(d, d.containsCIDR(c) || c.containsCIDR(d)))`,
	"overlappingSubnets": `
		[0, 1, 2, 3, 4, 5, 6]
		.filter(i, i < self.additionalSubnets.size() && has(self.additionalSubnets[i].cidr) &&
		$subnet(self.additionalSubnets[i].cidr, c).exists(c, !($isDisjoint(c))))
		.map(i, 'additionalSubnets[%d].cidr %s'.format([i, self.additionalSubnets[i].cidr]))`,

	// How many entries the lists of a subnet have.
	"entries(s)": `
		(has(s.allocationPools) ? s.allocationPools.size() : 0) + (has(s.dnsServers) ? s.dnsServers.size() : 0) +
		(has(s.hostRoutes) ? s.hostRoutes.size() : 0) + (has(s.serviceTypes) ? s.serviceTypes.size() : 0) +
		(has(s.reservedFor) ? s.reservedFor.size() : 0)`,

	// IPv6 modes, of the spec or an additional subnet s. isAnotherSubnet: the first subnet was replaced by another.
	"sameModes(s, old)": `
		$orEmpty(s.ipv6AddressMode) == $orEmpty(old.ipv6AddressMode) && $orEmpty(s.ipv6RAMode) == $orEmpty(old.ipv6RAMode)`,
	"hasOtherModes(s)": `
		oldSelf.additionalSubnets.exists(o,
		has(o.cidr) && isCIDR(o.cidr) && cidr(o.cidr) == cidr(s.cidr) && !($sameModes(s, o)))`,
	"isAnotherSubnet": `
		!(has(self.subnetPool) && has(oldSelf.subnetPool)) &&
		(!has(self.cidr) || !has(oldSelf.cidr) || !isCIDR(self.cidr) || !isCIDR(oldSelf.cidr) ||
		!(cidr(self.cidr).masked() == cidr(oldSelf.cidr).masked()))`,
	"usesNoSLAAC": `
		(!has(self.ipv6AddressMode) || self.ipv6AddressMode == 'dhcpv6-stateful') &&
		(!has(self.ipv6RAMode) || self.ipv6RAMode == 'dhcpv6-stateful')`,
	// Neutron gives a subnet whose hosts follow the advertisements of another router no interface on its own routers
	// (_validate_subnet_address_mode in neutron/db/l3_db.py). A subnet without a gateway, for other kinds of ports, or of
	// IPv4 is not affected.
	"canHaveRouter(s)": `
		!has(s.ipv6AddressMode) || has(s.ipv6RAMode) || has(s.gateway) && s.gateway == 'none' ||
		has(s.serviceTypes) && s.serviceTypes.size() > 0 && !('network:router_interface' in s.serviceTypes) ||
		!has(s.subnetPool) && (!has(s.cidr) || !s.cidr.contains(':'))`,

	// A rule of a security group.
	"isOfIPv6": `(has(self.etherType) && self.etherType == 'IPv6')`,
	"hasPorts": `(has(self.protocol) && self.protocol in ['tcp', 'udp', 'sctp'])`,
	"hasTypes": `(has(self.protocol) && self.protocol in ['icmp', 'icmpv6'])`,

	// No value is listed twice, in whatever spelling.
	"addressesDiffer": `[self.filter(a, isIP(a)).map(a, ip(a))].all(l, l.all(a, l.exists_one(b, a == b)))`,
	"routesDiffer": `
		self.all(r, !isCIDR(r.destination) || !isIP(r.nextHop) || self.exists_one(q,
		isCIDR(q.destination) && isIP(q.nextHop) &&
		cidr(q.destination) == cidr(r.destination) && ip(q.nextHop) == ip(r.nextHop)))`,
}

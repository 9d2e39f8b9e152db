package neutrontest

import (
	"encoding/json"
	"fmt"
	"math"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The functions of this file are the converters and validators that attribute maps are made of. A converter gives the
// canonical form of a value or refuses it; a validator gives the reason why a value is wrong, or nothing.

func toBoolean(v any) (any, *apiError) {
	switch strings.ToLower(strings.TrimSpace(pyString(v))) {
	case "1", "t", "true", "on", "y", "yes":
		return true, nil
	case "0", "f", "false", "off", "n", "no":
		return false, nil
	}
	return nil, invalidInput("'%s' cannot be converted to boolean", pyString(v))
}

func toInteger(v any) (any, *apiError) {
	switch v := v.(type) {
	case int:
		return v, nil
	case bool:
		if v {
			return 1, nil
		}
		return 0, nil
	case string:
		if n, err := strconv.Atoi(strings.TrimSpace(v)); err == nil {
			return n, nil
		}
	case json.Number:
		if n, err := strconv.Atoi(v.String()); err == nil {
			return n, nil
		}
		// Python's int() cuts a float off.
		if f, err := v.Float64(); err == nil && math.Abs(f) < math.MaxInt32 {
			return int(f), nil
		}
	}
	return nil, invalidInput("'%s' is not an integer", pyString(v))
}

func toLower(v any) (any, *apiError) {
	s, ok := v.(string)
	if !ok {
		return nil, invalidInput("Input value %s must be string type", pyString(v))
	}
	return strings.ToLower(s), nil
}

func noneToEmptyList(v any) (any, *apiError) {
	if v == nil {
		return []any{}, nil
	}
	return v, nil
}

// toCanonicalIP writes an IPv6 address in its short form and leaves everything else, wrong values included, alone.
func toCanonicalIP(v any) (any, *apiError) {
	if s, ok := v.(string); ok {
		if addr, ok := parseAddr(s); ok && addr.Is6() {
			return addr.String(), nil
		}
	}
	return v, nil
}

func toCanonicalCIDR(v any) (any, *apiError) {
	s, ok := v.(string)
	if !ok {
		return nil, internalError()
	}
	prefix, ok := parsePrefix(s)
	if !ok {
		return nil, invalidInput("%s is not in a CIDR format", s)
	}
	return prefix.String(), nil
}

// toWholeCIDR is toCanonicalCIDR for networks whose bytes are all there.
func toWholeCIDR(v any) (any, *apiError) {
	if s, ok := v.(string); ok {
		if host, _, cut := strings.Cut(s, "/"); cut && !strings.Contains(host, ":") && strings.Count(host, ".") < 3 {
			return nil, invalidInput("%s is not in a CIDR format", s)
		}
	}
	return toCanonicalCIDR(v)
}

// toPools makes a list of allocation pools of nothing, and refuses what is no list of objects.
func toPools(v any) (any, *apiError) {
	list, ok := v.([]any)
	for _, pool := range list {
		_, is := pool.(map[string]any)
		ok = ok && is
	}
	if v == nil {
		return []any{}, nil
	}
	if !ok {
		return nil, invalidInput("Invalid data format for allocation pools")
	}
	return v, nil
}

// toCanonicalMAC writes a MAC address in one form and leaves everything else alone.
func toCanonicalMAC(v any) (any, *apiError) {
	if s, ok := v.(string); ok {
		if mac, ok := canonicalMAC(s); ok {
			return mac, nil
		}
	}
	return v, nil
}

// macForms are the spellings of a MAC address that pass, in six parts, in three or in one.
var macForms = regexp.MustCompile(`^(?i:([0-9a-f]{1,2}:){5}[0-9a-f]{1,2}|([0-9a-f]{1,2}-){5}[0-9a-f]{1,2}|` +
	`([0-9a-f]{1,4}[.]){2}[0-9a-f]{1,4}|[0-9a-f]{12})$`)

// canonicalMAC writes a MAC address with colons and in lower case, and says whether it is one. A port keeps the
// spelling that it was given all the same.
func canonicalMAC(s string) (string, bool) {
	if !macForms.MatchString(s) {
		return "", false
	}
	parts := strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return strings.ContainsRune(":-.", r) })
	for i, part := range parts {
		parts[i] = strings.Repeat("0", 12/len(parts)-len(part)) + part
	}
	digits := strings.Join(parts, "")
	pairs := make([]string, 0, 6)
	for i := 0; i < len(digits); i += 2 {
		pairs = append(pairs, digits[i:i+2])
	}
	return strings.Join(pairs, ":"), true
}

// parseAddr reads an address in the forms that Neutron lets through: no zone, no leading zeros.
func parseAddr(s string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(s)
	return addr, err == nil && addr.Zone() == ""
}

// parsePrefix reads a network as netaddr does: the host bits stay, the length may be missing (a single address) or be
// a netmask, and an IPv4 network may be cut short after any of its bytes.
func parsePrefix(s string) (netip.Prefix, bool) {
	host, length, hasLength := strings.Cut(s, "/")
	if !strings.Contains(host, ":") {
		if dots := strings.Count(host, "."); dots < 3 && hasLength {
			host += strings.Repeat(".0", 3-dots)
		}
	}
	addr, ok := parseAddr(host)
	if !ok {
		return netip.Prefix{}, false
	}
	bits := addr.BitLen()
	if hasLength {
		if mask, err := netip.ParseAddr(length); err == nil && mask.BitLen() == addr.BitLen() {
			if bits, ok = maskBits(mask); !ok {
				return netip.Prefix{}, false
			}
		} else if n, err := strconv.Atoi(length); err == nil && n >= 0 && n <= addr.BitLen() {
			bits = n
		} else {
			return netip.Prefix{}, false
		}
	}
	return netip.PrefixFrom(addr, bits), true
}

// maskBits counts the leading ones of a netmask, or of a hostmask's complement.
func maskBits(mask netip.Addr) (int, bool) {
	for bits := 0; bits <= mask.BitLen(); bits++ {
		ones := onesThenZeros(mask.BitLen(), bits)
		if ones == mask || complement(ones) == mask {
			return bits, true
		}
	}
	return 0, false
}

func onesThenZeros(length, ones int) netip.Addr {
	full := complement(zeroAddr(length))
	return netip.PrefixFrom(full, ones).Masked().Addr()
}

func zeroAddr(length int) netip.Addr {
	if length == 32 {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}

func complement(a netip.Addr) netip.Addr {
	b := a.AsSlice()
	for i := range b {
		b[i] = ^b[i]
	}
	out, _ := netip.AddrFromSlice(b)
	return out
}

func stringUpTo(limit int) func(any) string {
	return func(v any) string {
		s, ok := v.(string)
		switch {
		case !ok:
			return fmt.Sprintf("'%s' is not a valid string", pyString(v))
		case utf8.RuneCountInString(s) > limit:
			return fmt.Sprintf("'%s' exceeds maximum length of %d", s, limit)
		}
		return ""
	}
}

func orNone(check func(any) string) func(any) string {
	return func(v any) string {
		if v == nil {
			return ""
		}
		return check(v)
	}
}

// oneOf accepts the given values; display is how the real one's message names the set.
func oneOf(display string, allowed ...any) func(any) string {
	return func(v any) string {
		if slices.Contains(allowed, v) {
			return ""
		}
		return fmt.Sprintf("%s is not in %s", pyString(v), display)
	}
}

func nonNegative(v any) string {
	n, ok := v.(int)
	switch {
	case !ok:
		return fmt.Sprintf("'%s' is not an integer", pyString(v))
	case n < 0:
		return fmt.Sprintf("'%d' should be non-negative", n)
	}
	return ""
}

var uuidPattern = regexp.MustCompile(`^[0-9a-fA-F]{8}-?([0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}$`)

func isUUID(v any) string {
	if s, ok := v.(string); ok && uuidPattern.MatchString(s) {
		return ""
	}
	return fmt.Sprintf("'%s' is not a valid UUID", pyString(v))
}

// leadingZeros matches a part of an IPv4 address that some read as octal.
var leadingZeros = regexp.MustCompile(`\b0+([0-9])`)

func isIPAddress(v any) string {
	if s, ok := v.(string); ok {
		if _, ok := parseAddr(s); ok {
			return ""
		}
		if better := leadingZeros.ReplaceAllString(s, "$1"); better != s && !strings.Contains(s, ":") {
			if _, ok := parseAddr(better); ok {
				return fmt.Sprintf("'%s' is not an accepted IP address, '%s' is recommended", s, better)
			}
		}
	}
	return fmt.Sprintf("'%s' is not a valid IP address", pyString(v))
}

func isMACAddress(v any) string {
	s, _ := v.(string)
	if mac, ok := canonicalMAC(s); !ok || mac == "00:00:00:00:00:00" {
		return fmt.Sprintf("'%s' is not a valid MAC address", pyString(v))
	}
	return ""
}

// isSubnet accepts what toCanonicalCIDR makes.
func isSubnet(v any) string {
	if s, ok := v.(string); ok {
		if _, ok := parsePrefix(s); ok {
			return ""
		}
	}
	return fmt.Sprintf("'%s' is not a valid IP subnet", pyString(v))
}

// isRouteDestination accepts whole networks. Without a recommendation, it is brief about what is nearly one.
func isRouteDestination(v any, recommend bool) string {
	s, ok := v.(string)
	if !ok {
		return fmt.Sprintf("'%s' is not a valid CIDR", pyString(v))
	}
	prefix, ok := parsePrefix(s)
	switch {
	case !ok:
		return fmt.Sprintf("'%s' is not a valid CIDR", s)
	case (!strings.Contains(s, "/") || prefix != prefix.Masked()) && !recommend:
		return fmt.Sprintf("'%s' is not a valid CIDR", s)
	case !strings.Contains(s, "/") || prefix != prefix.Masked():
		return fmt.Sprintf("'%s' is not a recognized CIDR, '%s' is recommended", s, prefix.Masked())
	case prefix.Addr().IsLoopback():
		return fmt.Sprintf("'%s' is not a routable CIDR", s)
	}
	return ""
}

// wrongKeys is the reason why an object is not made of just the expected members. The real one lists keys in no order.
func wrongKeys(v any, expected ...string) string {
	object, ok := v.(map[string]any)
	if !ok {
		return fmt.Sprintf("Invalid input. '%s' must be a dictionary with keys: %s", pyString(v), pyRepr(expected))
	}
	for _, key := range expected {
		if !has(object, key) || len(object) != len(expected) {
			provided := make([]string, 0, len(object))
			for _, name := range sortedKeys(object) {
				provided = append(provided, pyRepr(name))
			}
			return fmt.Sprintf("Validation of dictionary's keys failed. Expected keys: {%s} Provided keys: {%s}",
				"'"+strings.Join(expected, "', '")+"'", strings.Join(provided, ", "))
		}
	}
	return ""
}

func areIPPools(v any) string {
	pools, ok := v.([]any)
	if !ok {
		return fmt.Sprintf("Invalid data format for IP pool: '%s'", pyString(v))
	}
	for _, pool := range pools {
		if reason := wrongKeys(pool, "start", "end"); reason != "" {
			return reason
		}
		object := pool.(map[string]any)
		for _, key := range []string{"start", "end"} {
			if reason := isIPAddress(object[key]); reason != "" {
				return reason
			}
		}
	}
	return ""
}

func areNameservers(v any) string {
	hosts, ok := v.([]any)
	if !ok {
		return fmt.Sprintf("Invalid data format for nameserver: '%s'", pyString(v))
	}
	seen := make(map[any]bool, len(hosts))
	for _, host := range hosts {
		if reason := isIPAddress(host); reason != "" {
			return fmt.Sprintf("'%s' is not a valid nameserver. %s", pyString(host), reason)
		}
		if seen[host] {
			return fmt.Sprintf("Duplicate nameserver '%s'", pyString(host))
		}
		seen[host] = true
	}
	return ""
}

func areHostRoutes(brief bool) func(any) string {
	return func(v any) string { return routesReason(v, brief) }
}

func routesReason(v any, brief bool) string {
	routes, ok := v.([]any)
	if !ok {
		return fmt.Sprintf("Invalid data format for hostroute: '%s'", pyString(v))
	}
	seen := make(map[route]bool, len(routes))
	for _, item := range routes {
		if reason := wrongKeys(item, "destination", "nexthop"); reason != "" {
			return reason
		}
		object := item.(map[string]any)
		if reason := isRouteDestination(object["destination"], !brief); reason != "" {
			return reason
		}
		if reason := isIPAddress(object["nexthop"]); reason != "" {
			return reason
		}
		r := routeOf(object)
		if seen[r] {
			return fmt.Sprintf("Duplicate hostroute '%s'", pyRepr(object))
		}
		seen[r] = true
	}
	return ""
}

func areFixedIPs(v any) string {
	list, ok := v.([]any)
	if !ok {
		return fmt.Sprintf("Invalid data format for fixed IP: '%s'", pyString(v))
	}
	seen := make(map[any]bool, len(list))
	for _, item := range list {
		object, ok := item.(map[string]any)
		if !ok {
			return fmt.Sprintf("Invalid data format for fixed IP: '%s'", pyString(item))
		}
		if address, given := object["ip_address"]; given {
			if reason := isIPAddress(address); reason != "" {
				return reason
			}
			if seen[address] {
				return fmt.Sprintf("Duplicate IP address '%s'", pyString(address))
			}
			seen[address] = true
		}
		if id, given := object["subnet_id"]; given {
			if reason := isUUID(id); reason != "" {
				return reason
			}
		}
	}
	return ""
}

// arePairs refuses what is no list of at most ten address pairs.
func arePairs(v any) string {
	list, ok := v.([]any)
	if !ok {
		return "Allowed address pairs must be a list."
	}
	seen := make(map[string]bool, len(list))
	for _, item := range list {
		pair, ok := item.(map[string]any)
		if !ok || pair["ip_address"] == nil {
			return fmt.Sprintf("Validation of dictionary's keys failed. Expected keys: {'ip_address'} Provided keys: %s",
				pyString(item))
		}
		if isIPAddress(pair["ip_address"]) != "" && isSubnet(pair["ip_address"]) != "" {
			return fmt.Sprintf("'%s' is neither a valid IP address, nor is it a valid IP subnet", pyString(pair["ip_address"]))
		}
		if mac, given := pair["mac_address"]; given {
			if reason := isMACAddress(mac); reason != "" {
				return reason
			}
		}
		key := fmt.Sprint(pair["mac_address"], pair["ip_address"])
		if seen[key] {
			return fmt.Sprintf("Request contains duplicate address pair: mac_address %s ip_address %s.",
				pyString(pair["mac_address"]), pyString(pair["ip_address"]))
		}
		seen[key] = true
	}
	return ""
}

func areUUIDs(v any) string {
	list, ok := v.([]any)
	if !ok {
		return fmt.Sprintf("'%s' is not a list", pyString(v))
	}
	for _, item := range list {
		if reason := isUUID(item); reason != "" {
			return reason
		}
	}
	return ""
}

// toZoneHints refuses zones whose names are too long together: Neutron keeps them in 255 characters, as a JSON text in
// ASCII with a space after each comma.
func toZoneHints(v any) (any, *apiError) {
	if areUniqueStrings(math.MaxInt)(v) != "" {
		return v, nil // the check says what is wrong
	}
	length := 0
	for _, zone := range stringsOf(v) {
		length += len(strconv.QuoteToASCII(zone)) + len(", ") // the two brackets are as long as the last one's comma
	}
	if length > 255 {
		return nil, invalidInput("Too many availability_zone_hints specified")
	}
	return v, nil
}

func areUniqueStrings(limit int) func(any) string {
	valid := stringUpTo(limit)
	return func(v any) string {
		list, ok := v.([]any)
		if !ok {
			return fmt.Sprintf("'%s' is not a list", pyString(v))
		}
		seen := make(map[string]bool, len(list))
		for _, item := range list {
			if key := pyString(item); seen[key] {
				return fmt.Sprintf("Duplicate items in the list: '%s'", key)
			}
			seen[pyString(item)] = true
		}
		for _, item := range list {
			if reason := valid(item); reason != "" {
				return reason
			}
		}
		return ""
	}
}

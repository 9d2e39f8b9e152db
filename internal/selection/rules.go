package selection

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"
)

// rule says what is wrong with a text and what to write instead. The result is empty for a valid text.
type rule func(text string) (problem string)

const (
	nameRemedy = "write a Network's name, at most 253 lower case letters, digits, '-' and '.', each part between dots " +
		"with a letter or digit at both ends"
	namespaceRemedy = "write a namespace's name, at most 63 lower case letters, digits and '-', with a letter or digit " +
		"at both ends"
	interfaceRemedy = "write 1 to 15 bytes without space, '/', ':' and '%', such as \"net1\", or leave it out"
	addressRemedy   = `write an address such as "192.0.2.10" or "2001:db8::10/64"`
	macRemedy       = `write six bytes such as "fa:16:3e:12:34:56", or leave it out`
)

// nameRule is Kubernetes' rule for most object names: a DNS-1123 subdomain (IsDNS1123Subdomain in
// k8s.io/apimachinery/pkg/util/validation). As there, the parts have no length limit of their own.
func nameRule(name string) string {
	if len(name) > 253 {
		return fmt.Sprintf("%s has %d characters: %s", quote(name), len(name), nameRemedy)
	}
	for part := range strings.SplitSeq(name, ".") {
		if problem := partProblem(name, part); problem != "" {
			return problem + ": " + nameRemedy
		}
	}
	return ""
}

// namespaceRule is Kubernetes' rule for a namespace's name: a DNS-1123 label (IsDNS1123Label in the same package).
func namespaceRule(namespace string) string {
	problem := partProblem(namespace, namespace)
	if len(namespace) > 63 {
		problem = fmt.Sprintf("%s has %d characters", quote(namespace), len(namespace))
	}
	if problem == "" {
		return ""
	}
	return problem + ": " + namespaceRemedy
}

// partProblem says why a part of a name does not match [a-z0-9]([-a-z0-9]*[a-z0-9])?.
func partProblem(name, part string) string {
	switch {
	case name == "":
		return "it is empty"
	case part == "":
		return fmt.Sprintf("%s has nothing before or behind a dot", quote(name))
	}
	for _, r := range part {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' {
			return fmt.Sprintf("%s has the character %q", quote(name), r)
		}
	}
	if part[0] == '-' || part[len(part)-1] == '-' {
		return fmt.Sprintf("%s has a '-' at an end", quote(name))
	}
	return ""
}

// interfaceRule is Linux's rule for the name of a network device (dev_valid_name in net/core/dev.c, IFNAMSIZ in
// include/uapi/linux/if.h). It counts bytes. Its isspace is that of Latin-1, so the byte 0xa0 is a space even within a
// longer character. A '%' is refused as well, because the kernel replaces it with a number (dev_alloc_name). Control
// characters and invalid UTF-8 are refused, because JSON and messages would change them.
func interfaceRule(name string) string {
	var problem string
	switch {
	case name == "":
		problem = "it is empty"
	case len(name) > 15:
		problem = fmt.Sprintf("%s has %d bytes", quote(name), len(name))
	case name == "." || name == "..":
		problem = fmt.Sprintf("%s is no name for an interface", quote(name))
	case !utf8.ValidString(name):
		problem = fmt.Sprintf("%s is not UTF-8", quote(name))
	default:
		for _, r := range name {
			if strings.ContainsRune("/:%", r) || unicode.IsSpace(r) || unicode.IsControl(r) ||
				strings.Contains(string(r), "\xa0") {
				problem = fmt.Sprintf("%s has the character %q", quote(name), r)
				break
			}
		}
	}
	if problem == "" {
		return ""
	}
	return problem + ": " + interfaceRemedy
}

// parseAddress reads an element of "ips": an address with or without a prefix length. A zone is refused. It names an
// interface of the host that reads it, so it has no meaning in a Pod.
func parseAddress(text string) (address netip.Prefix, problem string) {
	if bare, _, zoned := strings.Cut(text, "%"); zoned {
		if a, err := netip.ParseAddr(bare); err == nil {
			return netip.Prefix{}, fmt.Sprintf("%s has a zone: write %q", quote(text), a)
		}
	}
	if strings.Contains(text, "/") {
		var err error
		if address, err = netip.ParsePrefix(text); err != nil {
			return netip.Prefix{}, quote(text) + " is no IP address with a prefix length: " + addressRemedy
		}
	} else {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return netip.Prefix{}, quote(text) + " is no IP address: " + addressRemedy
		}
		address = netip.PrefixFrom(a, a.BitLen())
	}
	return address, addressRule(address, text)
}

// addressRule checks a parsed address; text is its original form. An IPv4 address mapped to IPv6 is refused, because
// readers disagree about its family.
func addressRule(address netip.Prefix, text string) string {
	switch {
	case !address.IsValid():
		return "it is no address with a prefix length: " + addressRemedy
	case address.Addr().Is4In6():
		return fmt.Sprintf("%s is IPv4 mapped to IPv6: write %q", quote(text), address.Addr().Unmap())
	}
	return ""
}

// parseMAC reads a "mac" and returns its canonical form. It accepts every notation of net.ParseMAC, as Multus does. The
// standard requires a 6-byte Ethernet address. Linux limits the addresses of an interface in is_valid_ether_addr
// (include/linux/etherdevice.h).
func parseMAC(text string) (mac, problem string) {
	address, err := net.ParseMAC(text)
	switch {
	case text == "":
		problem = "it is empty: " + macRemedy
	case err != nil:
		problem = quote(text) + " is no MAC address: " + macRemedy
	case len(address) != 6:
		problem = fmt.Sprintf("%s has %d bytes: %s", quote(text), len(address), macRemedy)
	case address[0]&1 != 0:
		problem = quote(text) + " is a multicast address: write one whose first byte is even, or leave it out"
	case [6]byte(address) == [6]byte{}:
		problem = quote(text) + " is all zero: " + macRemedy
	default:
		mac = address.String()
	}
	return mac, problem
}

// macRule requires a canonical MAC, so that Parse reads back the same text.
func macRule(mac string) string {
	canonical, problem := parseMAC(mac)
	if problem == "" && canonical != mac {
		return fmt.Sprintf("%s is not in canonical form: write %q", quote(mac), canonical)
	}
	return problem
}

// interfaceTwice records each selection whose interface an earlier selection has. The standard, section 4.1.2.1.5,
// requires that the later attachment fails. Selections without an interface are ignored.
func interfaceTwice(selections []Selection, found *findings) {
	first := map[string]int{}
	for i, s := range selections {
		if s.Interface == "" {
			continue
		}
		if at, taken := first[s.Interface]; taken {
			found.add(i, keyInterface, fmt.Sprintf("%s is asked for by networks[%d] already: give each interface "+
				"its own name, or leave it out", quote(s.Interface), at))
			continue
		}
		first[s.Interface] = i
	}
}

func sizeRule(value string) string {
	if len(value) > MaxSize {
		return fmt.Sprintf("the value has more than %d bytes: write fewer", MaxSize)
	}
	return ""
}

func countRule(count int) string {
	if count > MaxSelections {
		return fmt.Sprintf("it asks for %d attachments: ask for at most %d", count, MaxSelections)
	}
	return ""
}

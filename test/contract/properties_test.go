package contract

import (
	"strings"
	"testing"
)

func TestDNSDomainsOfNetworks(t *testing.T) {
	label := strings.Repeat("a", 63)
	bad := func(reason string) refusal {
		return refusal{400, "HTTPBadRequest", "Invalid input for dns_domain. Reason: " + reason + "."}
	}
	for name, test := range map[string]struct {
		ask string
		is  string
		// want is zero where it is accepted.
		want refusal
	}{
		"a domain becomes lower case": {ask: "Example.org.", is: "example.org."},
		"one label does":              {ask: "org.", is: "org."},
		"one label of digits does":    {ask: "1.", is: "1."},
		"none":                        {ask: "", is: ""},
		"a label of 63 characters":    {ask: label + ".", is: label + "."},
		"a domain of 253 characters":  {ask: strings.Repeat("a.", 125) + "bc.", is: strings.Repeat("a.", 125) + "bc."},
		"a domain of 254 characters": {ask: strings.Repeat("a.", 127), want: bad("'" + strings.Repeat("a.", 127) +
			"' contains 254 characters. Adding a sub-domain will cause it to exceed the maximum length of a FQDN of '255'")},
		"a domain of 257 characters": {ask: strings.Repeat("a.", 128) + "b.", want: dnsRefusal(strings.Repeat("a.", 128)+"b.",
			"'"+strings.Repeat("a.", 128)+"b' exceeds the 255 character FQDN limit")},
		"a last full stop is missing":  {ask: "example.org", want: bad("'example.org' is not a FQDN")},
		"a hyphen at the beginning":    {ask: "-a.org.", want: dnsRefusal("-a.org.", "Name '-a' must not start or end with a hyphen")},
		"a last label of digits alone": {ask: "10.20.", want: dnsRefusal("10.20.", "TLD '20' must not be all numeric")},
		"an empty label":               {ask: "a..org.", want: dnsRefusal("a..org.", "Encountered an empty component")},
		"an underscore": {ask: "a_b.org.", want: dnsRefusal("a_b.org.",
			"Name 'a_b' must be 1-63 characters long, each of which can only be alphanumeric or a hyphen")},
		"a label of 64 characters": {ask: "a" + label + ".", want: dnsRefusal("a"+label+".",
			"Name 'a"+label+"' must be 1-63 characters long, each of which can only be alphanumeric or a hyphen")},
	} {
		t.Run(name, func(t *testing.T) {
			onEveryCloud(t, func(t *testing.T, c *cloud) {
				if test.want != (refusal{}) {
					ask := object{"network": object{"name": unique(), "dns_domain": test.ask}}
					c.tenant.do(t, "POST", "/v2.0/networks", ask).refuses(t, test.want)
					return
				}
				n := c.tenant.newNetwork(t, object{"dns_domain": test.ask})
				if n["dns_domain"] != test.is {
					t.Errorf("dns_domain %q became %q, want %q", test.ask, n["dns_domain"], test.is)
				}
			})
		})
	}
}

func dnsRefusal(domain, reason string) refusal {
	return refusal{400, "HTTPBadRequest",
		"Invalid input for dns_domain. Reason: '" + domain + "' not a valid PQDN or FQDN. Reason: " + reason + "."}
}

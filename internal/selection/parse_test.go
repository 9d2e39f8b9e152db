package selection

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

func addresses(texts ...string) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

func TestParseReads(t *testing.T) {
	a := Selection{Namespace: "pods", Name: "net-a"}
	for sentence, tc := range map[string]struct {
		value string
		want  []Selection
	}{
		"nothing is no selection":            {"", nil},
		"space is no selection":              {" \t\r\n", nil},
		"an empty list is no selection":      {" [ ] ", nil},
		"a name is of the Pod's namespace":   {"net-a", []Selection{a}},
		"space around a name is dropped":     {"\n net-a\t", []Selection{a}},
		"a name may have dots":               {"net.a-1", []Selection{{Namespace: "pods", Name: "net.a-1"}}},
		"a name may be of digits":            {"0", []Selection{{Namespace: "pods", Name: "0"}}},
		"a name may have 253 characters":     {strings.Repeat("a", 253), []Selection{{Namespace: "pods", Name: strings.Repeat("a", 253)}}},
		"the same network twice is two":      {"net-a,net-a", []Selection{a, a}},
		"a namespace stands before a slash":  {"other/net-a", []Selection{{Namespace: "other", Name: "net-a"}}},
		"a namespace may have 63 characters": {strings.Repeat("n", 63) + "/a", []Selection{{Namespace: strings.Repeat("n", 63), Name: "a"}}},
		"an interface stands behind an at":   {"net-a@eth1", []Selection{{Namespace: "pods", Name: "net-a", Interface: "eth1"}}},
		"names keep their order, and space around commas, slash and at is dropped": {
			"net-b , other / net-c @ eth1,\n net-a", []Selection{
				{Namespace: "pods", Name: "net-b"}, {Namespace: "other", Name: "net-c", Interface: "eth1"}, a,
			},
		},
		"32 names are not too many": {strings.Repeat("net-a,", 31) + "net-a", slicesOf(a, 32)},

		"an element with a name alone is of the Pod's namespace": {`[{"name":"net-a"}]`, []Selection{a}},
		"an empty namespace is the Pod's":                        {`[{"name":"net-a","namespace":""}]`, []Selection{a}},
		"space may stand wherever JSON lets it":                  {" [ {\n\"name\" :\t\"net-a\" } ]\n", []Selection{a}},
		"a string may have JSON's escapes":                       {`[{"n\u0061me":"net\u002da"}]`, []Selection{a}},
		"32 elements are not too many":                           {"[" + strings.Repeat(`{"name":"net-a"},`, 31) + `{"name":"net-a"}]`, slicesOf(a, 32)},
		"an element may have everything": {
			`[{"mac":"02:23:45:67:89:01","ips":["10.2.2.42/24","2001:db8::5/64"],"interface":"eth1","namespace":"other","name":"net-c"}]`,
			[]Selection{{
				Namespace: "other", Name: "net-c", Interface: "eth1", Addresses: addresses("10.2.2.42/24", "2001:db8::5/64"),
				MAC: "02:23:45:67:89:01",
			}},
		},
		"an address without a length gets the full one, and the order stays": {
			`[{"name":"net-a","ips":["2001:DB8:0::5","10.2.2.42","10.2.2.1"]}]`,
			[]Selection{{Namespace: "pods", Name: "net-a", Addresses: addresses("2001:db8::5/128", "10.2.2.42/32", "10.2.2.1/32")}},
		},
		"a MAC in any notation becomes canonical": {
			`[{"name":"a","mac":"FA-16-3E-00-00-0A"},{"name":"b","mac":"fa16.3e00.000b"}]`, []Selection{
				{Namespace: "pods", Name: "a", MAC: "fa:16:3e:00:00:0a"},
				{Namespace: "pods", Name: "b", MAC: "fa:16:3e:00:00:0b"},
			},
		},
		"an interface may have 15 bytes, of other scripts as well": {
			`[{"name":"a","interface":"abcdefghijklmno"},{"name":"b","interface":"сеть"},{"name":"c","interface":"a,@\"b"}]`,
			[]Selection{
				{Namespace: "pods", Name: "a", Interface: "abcdefghijklmno"},
				{Namespace: "pods", Name: "b", Interface: "сеть"},
				{Namespace: "pods", Name: "c", Interface: `a,@"b`},
			},
		},
		"keys that are not known are kept, in their order and without space": {
			`[{ "org.example.x" : [ 1e400, 12345678901234567890, "a b" ], "name":"net-a", "cni-args": null }]`,
			[]Selection{{
				Namespace: "pods", Name: "net-a",
				rest: []field{{"org.example.x", `[1e400,12345678901234567890,"a b"]`}, {"cni-args", "null"}},
			}},
		},
		"keys of older programs are kept and not looked into": {
			`[{"name":"net-a","interfaceRequest":"eth1","ip":"10.0.0.1","ipRequest":1}]`,
			[]Selection{{
				Namespace: "pods", Name: "net-a",
				rest: []field{{"interfaceRequest", `"eth1"`}, {"ip", `"10.0.0.1"`}, {"ipRequest", "1"}},
			}},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			got, err := Parse(tc.value, "pods")
			if err != nil {
				t.Fatalf("Parse(%q): %v", tc.value, err)
			}
			expect.Equal(t, tc.want, got, "Parse(%q)", tc.value)
		})
	}
}

func slicesOf(s Selection, count int) []Selection {
	var all []Selection
	for range count {
		all = append(all, s)
	}
	return all
}

func TestParseRefuses(t *testing.T) {
	const (
		form     = "write name, namespace/name or namespace/name@interface"
		nameless = "write a name there, or take out the comma"
		octets   = `write six bytes such as "fa:16:3e:12:34:56", or leave it out`
		list     = `write a list such as ["192.0.2.10","2001:db8::10/64"], or leave it out`
	)
	long := strings.Repeat("x", 300)
	for sentence, tc := range map[string]struct {
		value string
		// want are the errors, a line each.
		want []string
	}{
		// The value as a whole.
		"a value over the size that Kubernetes holds": {
			strings.Repeat("a", MaxSize) + ",",
			[]string{"networks: the value has more than 16384 bytes: write fewer"},
		},
		"a value that is not UTF-8": {"net-\xff", []string{`networks: "net-\xff" is not UTF-8: write it again`}},
		"JSON behind a name": {
			`net-a,{"name":"net-b"}`,
			[]string{`networks: "net-a,{\"name\":\"net-b\"}" has the character '{', which only JSON has: ` + listRemedy},
		},
		"a JSON string": {`"net-a"`, []string{`networks: "\"net-a\"" has the character '"', which only JSON has: ` + listRemedy}},
		"33 names": {
			strings.Repeat("a,", 32) + "a", []string{"networks: it asks for 33 attachments: ask for at most 32"},
		},
		"33 elements": {
			"[" + strings.Repeat(`{"name":"a"},`, 32) + `{"name":"a"}]`,
			[]string{"networks: it asks for 33 attachments: ask for at most 32"},
		},

		// The comma-delimited format.
		"a comma alone":             {",", []string{"networks[0]: it is empty: " + nameless, "networks[1]: it is empty: " + nameless}},
		"two commas in a row":       {"a, ,b", []string{"networks[1]: it is empty: " + nameless}},
		"a comma at the end":        {"a,", []string{"networks[1]: it is empty: " + nameless}},
		"two ats":                   {"a@b@c", []string{`networks[0]: "a@b@c" has more than one '@': ` + form}},
		"two slashes":               {"b,a/b/c", []string{`networks[1]: "a/b/c" has more than one '/': ` + form}},
		"an at before a slash":      {"a@b/c", []string{`networks[0]: "a@b/c" has its '@' before its '/': ` + form}},
		"a slash without namespace": {" /a", []string{`networks[0]: "/a" has no namespace before its '/': ` + form}},
		"a slash without name":      {"a/ @b", []string{`networks[0]: "a/ @b" has no name: ` + form}},
		"an at without name":        {"@b", []string{`networks[0]: "@b" has no name: ` + form}},
		"an at without interface":   {"a@ ", []string{`networks[0]: "a@" has no interface behind its '@': ` + form}},
		"each name that is wrong": {
			"Net-A,-a,a-,a..b,.a,a b,ä",
			[]string{
				`networks[0].name: "Net-A" has the character 'N': ` + nameRemedy,
				`networks[1].name: "-a" has a '-' at an end: ` + nameRemedy,
				`networks[2].name: "a-" has a '-' at an end: ` + nameRemedy,
				`networks[3].name: "a..b" has nothing before or behind a dot: ` + nameRemedy,
				`networks[4].name: ".a" has nothing before or behind a dot: ` + nameRemedy,
				`networks[5].name: "a b" has the character ' ': ` + nameRemedy,
				`networks[6].name: "ä" has the character 'ä': ` + nameRemedy,
			},
		},
		"a name of 254 characters": {
			strings.Repeat("a", 254), []string{fmt.Sprintf("networks[0].name: %q... has 254 characters: %s", strings.Repeat("a", 64), nameRemedy)},
		},
		"each namespace that is wrong": {
			"a.b/c,A/c,-/c," + strings.Repeat("n", 64) + "/c",
			[]string{
				`networks[0].namespace: "a.b" has the character '.': ` + namespaceRemedy,
				`networks[1].namespace: "A" has the character 'A': ` + namespaceRemedy,
				`networks[2].namespace: "-" has a '-' at an end: ` + namespaceRemedy,
				fmt.Sprintf("networks[3].namespace: %q has 64 characters: %s", strings.Repeat("n", 64), namespaceRemedy),
			},
		},
		"an element's every part": {
			"A/B@c:d",
			[]string{
				`networks[0].name: "B" has the character 'B': ` + nameRemedy,
				`networks[0].namespace: "A" has the character 'A': ` + namespaceRemedy,
				`networks[0].interface: "c:d" has the character ':': ` + interfaceRemedy,
			},
		},
		"an interface twice": {
			"a@eth1,b,c@eth1",
			[]string{`networks[2].interface: "eth1" is asked for by networks[0] already: give each interface its own name, or leave it out`},
		},

		// The JSON list format.
		"an object instead of a list": {
			` {"name":"net-a"}`,
			[]string{`networks: it is a JSON object, not a list: "{\"name\":\"net-a\"}": put it into brackets, as in [{...}]`},
		},
		"a list that ends too early": {
			`[{"name":"a"`, []string{`networks: it is JSON that ends before its list does, "[{\"name\":\"a\"": ` + listRemedy},
		},
		"a name without quotes": {
			`[net-a]`, []string{`networks: it is no JSON from byte 2 on, "et-a]": ` + listRemedy},
		},
		"a comma too many": {
			`[{"name":"a"},]`, []string{`networks: it is no JSON from byte 14 on, "]": ` + listRemedy},
		},
		"something behind the list": {
			`[{"name":"a"}] ,b`, []string{`networks: ",b" follows the end of the list: remove it`},
		},
		"a second list": {`[][]`, []string{`networks: "[]" follows the end of the list: remove it`}},
		"elements that are no objects": {
			`[null,"net-a",1,true,[{"name":"a"}]]`,
			[]string{
				`networks[0]: it is null, "null": write an object such as {"name":"net-a"}`,
				`networks[1]: it is a string, "\"net-a\"": write an object such as {"name":"net-a"}`,
				`networks[2]: it is a number, "1": write an object such as {"name":"net-a"}`,
				`networks[3]: it is a boolean, "true": write an object such as {"name":"net-a"}`,
				`networks[4]: it is a list, "[{\"name\":\"a\"}]": write an object such as {"name":"net-a"}`,
			},
		},
		"no name": {
			`[{"mac":"02:00:00:00:00:01"}]`, []string{`networks[0].name: it is missing in "{\"mac\":\"02:00:00:00:00:01\"}": ` + nameRemedy},
		},
		"an empty name": {`[{"name":""}]`, []string{"networks[0].name: it is empty: " + nameRemedy}},
		"values of the wrong type": {
			`[{"name":1,"namespace":null,"interface":{},"ips":"10.0.0.1","mac":["x"]}]`,
			[]string{
				`networks[0].name: it is a number, "1", not a string: ` + nameRemedy,
				`networks[0].namespace: it is null, "null", not a string: ` + namespaceRemedy,
				`networks[0].interface: it is an object, "{}", not a string: ` + interfaceRemedy,
				`networks[0].ips: it is a string, "\"10.0.0.1\"": ` + list,
				`networks[0].mac: it is a list, "[\"x\"]", not a string: ` + macRemedy,
			},
		},
		"a namespace that is wrong": {
			`[{"name":"a","namespace":" "}]`, []string{`networks[0].namespace: " " has the character ' ': ` + namespaceRemedy},
		},
		"each interface that is wrong": {
			`[{"name":"a","interface":""},{"name":"a","interface":"abcdefghijklmnop"},{"name":"a","interface":"."},` +
				`{"name":"a","interface":".."},{"name":"a","interface":"a/b"},{"name":"a","interface":"a b"},` +
				`{"name":"a","interface":"a\u2003b"},{"name":"a","interface":"eth%d"},{"name":"a","interface":"a\u0000"},` +
				`{"name":"a","interface":"à"},{"name":"a","interface":"сетьсеть"}]`,
			[]string{
				`networks[0].interface: it is empty: ` + interfaceRemedy,
				`networks[1].interface: "abcdefghijklmnop" has 16 bytes: ` + interfaceRemedy,
				`networks[2].interface: "." is no name for an interface: ` + interfaceRemedy,
				`networks[3].interface: ".." is no name for an interface: ` + interfaceRemedy,
				`networks[4].interface: "a/b" has the character '/': ` + interfaceRemedy,
				`networks[5].interface: "a b" has the character ' ': ` + interfaceRemedy,
				`networks[6].interface: "a\u2003b" has the character '\u2003': ` + interfaceRemedy,
				`networks[7].interface: "eth%d" has the character '%': ` + interfaceRemedy,
				`networks[8].interface: "a\x00" has the character '\x00': ` + interfaceRemedy,
				`networks[9].interface: "à" has the character 'à': ` + interfaceRemedy,
				`networks[10].interface: "сетьсеть" has 16 bytes: ` + interfaceRemedy,
			},
		},
		"each address that is wrong": {
			`[{"name":"a","ips":["10.0.0.300","10.0.0.1/33","010.0.0.1","fe80::1%eth0","fe80::1%eth0/64",` +
				`"::ffff:10.0.0.1","::ffff:10.0.0.1/120",""," 10.0.0.1",7,null,"10.0.0.1"]}]`,
			[]string{
				`networks[0].ips[0]: "10.0.0.300" is no IP address: ` + addressRemedy,
				`networks[0].ips[1]: "10.0.0.1/33" is no IP address with a prefix length: ` + addressRemedy,
				`networks[0].ips[2]: "010.0.0.1" is no IP address: ` + addressRemedy,
				`networks[0].ips[3]: "fe80::1%eth0" has a zone: write "fe80::1"`,
				`networks[0].ips[4]: "fe80::1%eth0/64" has a zone: write "fe80::1"`,
				`networks[0].ips[5]: "::ffff:10.0.0.1" is IPv4 mapped to IPv6: write "10.0.0.1"`,
				`networks[0].ips[6]: "::ffff:10.0.0.1/120" is IPv4 mapped to IPv6: write "10.0.0.1"`,
				`networks[0].ips[7]: "" is no IP address: ` + addressRemedy,
				`networks[0].ips[8]: " 10.0.0.1" is no IP address: ` + addressRemedy,
				`networks[0].ips[9]: it is a number, "7", not a string: ` + addressRemedy,
				`networks[0].ips[10]: it is null, "null", not a string: ` + addressRemedy,
			},
		},
		"no address in a list": {`[{"name":"a","ips":[]}]`, []string{"networks[0].ips: the list is empty: " + list}},
		"null for a list":      {`[{"name":"a","ips":null}]`, []string{`networks[0].ips: it is null, "null": ` + list}},
		"each MAC that is wrong": {
			`[{"name":"a","mac":""},{"name":"a","mac":"fa:16"},{"name":"a","mac":"02:00:5e:10:00:00:00:01"},` +
				`{"name":"a","mac":"01:00:5e:00:00:01"},{"name":"a","mac":"ff:ff:ff:ff:ff:ff"},{"name":"a","mac":"00:00:00:00:00:00"}]`,
			[]string{
				"networks[0].mac: it is empty: " + octets,
				`networks[1].mac: "fa:16" is no MAC address: ` + octets,
				`networks[2].mac: "02:00:5e:10:00:00:00:01" has 8 bytes: ` + octets,
				`networks[3].mac: "01:00:5e:00:00:01" is a multicast address: write one whose first byte is even, or leave it out`,
				`networks[4].mac: "ff:ff:ff:ff:ff:ff" is a multicast address: write one whose first byte is even, or leave it out`,
				`networks[5].mac: "00:00:00:00:00:00" is all zero: ` + octets,
			},
		},
		"a key twice, known or not": {
			`[{"name":"a","x":1,"name":"b","x":1}]`,
			[]string{
				`networks[0]: the key "name" occurs twice: write it once`,
				`networks[0]: the key "x" occurs twice: write it once`,
			},
		},
		"a key twice, once with escapes": {
			`[{"name":"a","n\u0061me":"b"}]`, []string{`networks[0]: the key "name" occurs twice: write it once`},
		},
		"a key that some readers take for another": {
			`[{"name":"a","IPs":[]},{"Name":"b"},{"name":"c","ip\u017f":["10.0.0.1"]}]`,
			[]string{
				`networks[0]: the key "IPs" is not in lower case: write "ips"`,
				`networks[1]: the key "Name" is not in lower case: write "name"`,
				`networks[1].name: it is missing in "{\"Name\":\"b\"}": ` + nameRemedy,
				`networks[2]: the key "ipſ" is not in lower case: write "ips"`,
			},
		},
		"an interface twice in JSON": {
			`[{"name":"a","interface":"eth1"},{"name":"b","interface":"eth1"}]`,
			[]string{`networks[1].interface: "eth1" is asked for by networks[0] already: give each interface its own name, or leave it out`},
		},

		// Bounds of the message.
		"a long text is cut": {
			`[{"name":"a","mac":"` + long + `"}]`, []string{fmt.Sprintf("networks[0].mac: %q... is no MAC address: %s", long[:64], octets)},
		},
		"a long text is cut between characters": {
			`[{"name":"a","mac":"xx` + strings.Repeat("數", 100) + `"}]`,
			[]string{fmt.Sprintf("networks[0].mac: %q... is no MAC address: %s", "xx"+strings.Repeat("數", 20), octets)},
		},
		"16 errors are listed, and the number of others": {
			`[{"name":"a","ips":[""` + strings.Repeat(`,""`, 19) + "]}]",
			func() []string {
				var lines []string
				for n := range 16 {
					lines = append(lines, fmt.Sprintf(`networks[0].ips[%d]: "" is no IP address: %s`, n, addressRemedy))
				}
				return append(lines, "networks: 4 more problems are not listed: correct those above first")
			}(),
		},
	} {
		t.Run(sentence+" is refused", func(t *testing.T) {
			got, err := Parse(tc.value, "pods")
			if got != nil {
				t.Errorf("it gives %v beside the error", got)
			}
			requireErrors(t, err, tc.want)
		})
	}
}

// requireErrors holds the error's text against the lines, and the error against the promise that each line is an *Error.
func requireErrors(t *testing.T, err error, want []string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	expect.Equal(t, want, strings.Split(err.Error(), "\n"), "the error")
	each := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		each = joined.Unwrap()
	}
	for _, err := range each {
		if e, ok := errors.AsType[*Error](err); !ok || !strings.Contains(e.Problem, ": ") {
			t.Errorf("%v is no *Error with a problem and a remedy", err)
		}
	}
}

func TestErrorsCarryTheirPlace(t *testing.T) {
	for sentence, tc := range map[string]struct {
		value string
		want  Error
	}{
		"the whole value is the element -1": {"{}", Error{Element: -1}},
		"an element is counted from 0":      {"a,,b", Error{Element: 1}},
		"a field is named by its key":       {`[{"name":"a","mac":1}]`, Error{Element: 0, Field: "mac"}},
		"an item of a list has its index":   {`[{"name":"a","ips":["10.0.0.1","x"]}]`, Error{Element: 0, Field: "ips[1]"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			_, err := Parse(tc.value, "pods")
			got, ok := errors.AsType[*Error](err)
			if !ok {
				t.Fatalf("%v is no *Error", err)
			}
			if got.Element != tc.want.Element || got.Field != tc.want.Field {
				t.Errorf("the place is %d %q, want %d %q", got.Element, got.Field, tc.want.Element, tc.want.Field)
			}
		})
	}
}

func TestParseNeedsThePodsNamespace(t *testing.T) {
	_, err := Parse("other/a", "")
	requireErrors(t, err, []string{"networks.namespace: the Pod's own namespace is wrong, it is empty: " + namespaceRemedy})
	_, err = Parse("a", "Pods")
	requireErrors(t, err, []string{
		`networks.namespace: the Pod's own namespace is wrong, "Pods" has the character 'P': ` + namespaceRemedy,
	})
	if got, err := Parse(" ", ""); got != nil || err != nil {
		t.Errorf("a Pod that declares nothing needs none, and gets %v, %v", got, err)
	}
}

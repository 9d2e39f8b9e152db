package selection

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestFormatWrites(t *testing.T) {
	for sentence, tc := range map[string]struct{ value, want string }{
		"no selections as an empty list": {"", "[]"},
		"names as elements with their namespaces": {
			"a,other/b@eth1", `[{"name":"a","namespace":"pods"},{"name":"b","namespace":"other","interface":"eth1"}]`,
		},
		"addresses with their lengths, and a MAC in canonical form": {
			`[{"mac":"FA-16-3E-00-00-01","ips":["10.0.0.7/24","2001:db8:0:0::1"],"name":"a"}]`,
			`[{"name":"a","namespace":"pods","ips":["10.0.0.7/24","2001:db8::1/128"],"mac":"fa:16:3e:00:00:01"}]`,
		},
		"what is not known in its order, with its numbers and its own duplicates": {
			`[{"default-route":[ "10.0.0.1" ],"name":"a","cni-args":{"z":1.0,"a":1e400,"z":2},"bandwidth":{"ingressRate":12345678901234567890}}]`,
			`[{"name":"a","namespace":"pods","default-route":["10.0.0.1"],"cni-args":{"z":1.0,"a":1e400,"z":2},"bandwidth":{"ingressRate":12345678901234567890}}]`,
		},
		"escapes of what is not known as they were": {
			`[{"name":"a","org.example/<x>":"<\u0061\/\ud800&>"}]`,
			`[{"name":"a","namespace":"pods","org.example/<x>":"<\u0061\/\ud800&>"}]`,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			selections, err := Parse(tc.value, "pods")
			expect.NoError(t, err)
			got, err := Format(selections)
			expect.NoError(t, err)
			expect.Equal(t, tc.want, got, "the text")
		})
	}
}

func TestFormatWritesWhatWasSetAfterwards(t *testing.T) {
	selections, err := Parse(`[{"name":"a","portMappings":[{"hostPort":80}]}]`, "pods")
	expect.NoError(t, err)
	selections[0].Addresses, selections[0].MAC = addresses("10.0.0.7/24"), "fa:16:3e:00:00:01"
	got, err := Format(selections)
	expect.NoError(t, err)
	want := `[{"name":"a","namespace":"pods","ips":["10.0.0.7/24"],"mac":"fa:16:3e:00:00:01","portMappings":[{"hostPort":80}]}]`
	expect.Equal(t, want, got, "the text")
}

func TestFormatRefuses(t *testing.T) {
	s := Selection{Namespace: "pods", Name: "a"}
	with := func(change func(*Selection)) []Selection {
		changed := s
		change(&changed)
		return []Selection{s, changed}
	}
	for sentence, tc := range map[string]struct {
		selections []Selection
		want       []string
	}{
		"the zero Selection": {
			[]Selection{{}},
			[]string{"networks[0].name: it is empty: " + nameRemedy, "networks[0].namespace: it is empty: " + namespaceRemedy},
		},
		"more than 32 selections": {slicesOf(s, 33), []string{"networks: it asks for 33 attachments: ask for at most 32"}},
		"an interface that Linux does not take": {
			with(func(s *Selection) { s.Interface = "\xff" }),
			[]string{`networks[1].interface: "\xff" is not UTF-8: ` + interfaceRemedy},
		},
		"an interface twice": {
			[]Selection{{Namespace: "n", Name: "a", Interface: "eth1"}, {Namespace: "n", Name: "b", Interface: "eth1"}},
			[]string{`networks[1].interface: "eth1" is asked for by networks[0] already: give each interface its own name, or leave it out`},
		},
		"the zero Prefix": {
			with(func(s *Selection) { s.Addresses = append(addresses("10.0.0.1/24"), netip.Prefix{}) }),
			[]string{"networks[1].ips[1]: it is no address with a prefix length: " + addressRemedy},
		},
		"an IPv4 address mapped to IPv6": {
			with(func(s *Selection) { s.Addresses = addresses("::ffff:10.0.0.1/128") }),
			[]string{`networks[1].ips[0]: "::ffff:10.0.0.1/128" is IPv4 mapped to IPv6: write "10.0.0.1"`},
		},
		"a MAC that would be read back as another text": {
			with(func(s *Selection) { s.MAC = "FA:16:3E:00:00:01" }),
			[]string{`networks[1].mac: "FA:16:3E:00:00:01" is not in canonical form: write "fa:16:3e:00:00:01"`},
		},
		"a MAC that is none": {
			with(func(s *Selection) { s.MAC = "x" }), []string{`networks[1].mac: "x" is no MAC address: ` + macRemedy},
		},
		"what Kubernetes would not hold": {
			with(func(s *Selection) { s.rest = []field{{"x", `"` + strings.Repeat("x", MaxSize) + `"`}} }),
			[]string{"networks: the value has more than 16384 bytes: write fewer"},
		},
	} {
		t.Run(sentence+" is refused", func(t *testing.T) {
			got, err := Format(tc.selections)
			expect.Equal(t, "", got, "what it gives beside the error")
			requireErrors(t, err, tc.want)
		})
	}
}

// Equal lets cmp compare selections. Unknown keys need the same order and the same text.
func (s Selection) Equal(other Selection) bool {
	return s.Namespace == other.Namespace && s.Name == other.Name && s.Interface == other.Interface &&
		s.MAC == other.MAC && slices.Equal(s.Addresses, other.Addresses) && slices.Equal(s.rest, other.rest)
}

// selectionsOf draws valid selections of one Pod.
func selectionsOf() *rapid.Generator[[]Selection] {
	name := rapid.StringMatching(`[a-z0-9]([-a-z0-9]{0,8}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,8}[a-z0-9])?){0,2}`)
	namespace := rapid.StringMatching(`[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?`)
	device := rapid.OneOf(rapid.Just(""), rapid.StringN(1, 15, 15), rapid.StringMatching(`[ -~]{1,15}`)).
		Filter(func(s string) bool {
			problem := interfaceRule(s)
			return s == "" || problem == ""
		})
	address := rapid.Custom(func(t *rapid.T) netip.Prefix {
		length := rapid.SampledFrom([]int{4, 16}).Draw(t, "bytes")
		a, _ := netip.AddrFromSlice(rapid.SliceOfN(rapid.Byte(), length, length).Draw(t, "address"))
		return netip.PrefixFrom(a, rapid.IntRange(0, a.BitLen()).Draw(t, "length"))
	}).Filter(func(p netip.Prefix) bool { return !p.Addr().Is4In6() })
	mac := rapid.OneOf(rapid.Just(""), rapid.Custom(func(t *rapid.T) string {
		b := rapid.SliceOfN(rapid.Byte(), 6, 6).Draw(t, "MAC")
		return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", b[0]&^1|2, b[1], b[2], b[3], b[4], b[5])
	}))
	return rapid.Custom(func(t *rapid.T) []Selection {
		var all []Selection
		taken := map[string]bool{"": true}
		for range rapid.IntRange(0, MaxSelections).Draw(t, "count") {
			s := Selection{
				Namespace: namespace.Draw(t, "namespace"), Name: name.Draw(t, "name"), Interface: device.Draw(t, "interface"),
				MAC: mac.Draw(t, "MAC"), rest: restOf().Draw(t, "rest"),
			}
			if n := rapid.IntRange(0, 4).Draw(t, "addresses"); n > 0 {
				s.Addresses = rapid.SliceOfN(address, n, n).Draw(t, "ips")
			}
			if taken[s.Interface] {
				s.Interface = ""
			}
			taken[s.Interface] = true
			all = append(all, s)
		}
		return all
	})
}

// restOf draws keys that are not known, with values of every kind as JSON writes them.
func restOf() *rapid.Generator[[]field] {
	value := rapid.OneOf(
		rapid.SampledFrom([]string{
			"null", "true", "1e400", "-0.0", "12345678901234567890", `"\ud800"`, `{"a":[],"a":{}}`, `["10.0.0.1"]`, `"\u2028<>&"`,
		}),
		rapid.Map(rapid.String(), func(s string) string {
			text, err := json.Marshal(s)
			if err != nil {
				panic(err)
			}
			return string(text)
		}),
	)
	key := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"cni-args", "default-route", "org.example/x", "", "<&>"})).
		Filter(func(key string) bool {
			return !slices.ContainsFunc(knownKeys, func(known string) bool { return strings.EqualFold(known, key) })
		})
	return rapid.Custom(func(t *rapid.T) []field {
		var fields []field
		for _, key := range rapid.SliceOfNDistinct(key, 0, 4, rapid.ID).Draw(t, "keys") {
			fields = append(fields, field{key, value.Draw(t, "value")})
		}
		return fields
	})
}

func TestPropertySelectionsSurvive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		selections := selectionsOf().Draw(t, "selections")
		text, err := Format(selections)
		if err != nil {
			t.Fatalf("Format: %v", err)
		}
		got, err := Parse(text, "elsewhere")
		if err != nil {
			t.Fatalf("Parse(%s): %v", text, err)
		}
		if diff := cmp.Diff(selections, got); diff != "" {
			t.Fatalf("%s, want -, got +:\n%s", text, diff)
		}
	})
}

// What others wrote into an element is there for them to read, whatever the controller sets beside it. The test reads both
// texts as they would, without the package.
func TestPropertyUnknownKeysSurvive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		text.WriteString(`[{"name":"a"`)
		for _, f := range restOf().Draw(t, "rest") {
			key, err := json.Marshal(f.key)
			expect.NoError(t, err)
			fmt.Fprintf(&text, " ,\t%s :\n%s", key, f.value)
		}
		text.WriteString("}]")
		selections, err := Parse(text.String(), "pods")
		if err != nil {
			t.Fatalf("Parse(%s): %v", text.String(), err)
		}
		selections[0].Addresses, selections[0].MAC = addresses("10.0.0.7/24"), "fa:16:3e:00:00:01"
		written, err := Format(selections)
		if err != nil {
			t.Fatalf("Format: %v", err)
		}
		decode := func(text string) map[string]json.RawMessage {
			var elements []map[string]json.RawMessage
			if err := json.Unmarshal([]byte(text), &elements); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			for _, known := range knownKeys {
				delete(elements[0], known)
			}
			return elements[0]
		}
		if diff := cmp.Diff(decode(text.String()), decode(written)); diff != "" {
			t.Fatalf("%s, want -, got +:\n%s", written, diff)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", " ", ",", "net-a", "net-a,ns/net-b@eth1", "a@b@c", "a/b/c", "a@b/c", "/@", "[]", "[null]", "{", "[{}]", "[[", "[1,]",
		`[{"name":"a"}] x`, `[{"name":"a","name":"b"}]`, `[{"Name":"a"}]`,
		`[{"name":"a","namespace":"n","interface":"eth1","ips":["10.0.0.1","2001:db8::1/64"],"mac":"FA-16-3E-00-00-01"}]`,
		`[{"name":"a","ips":["::ffff:10.0.0.1","fe80::1%eth0"]}]`, `[{"name":"a","cni-args":{"x":[1e400,null]},"\ud800":"\ud800"}]`,
		"[{\"name\":\"a\",\"interface\":\"\u00e0\",\"\u2028\":\"\u2028\"}]", "net-\xff",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		selections, err := Parse(value, "pods")
		if err != nil {
			if selections != nil {
				t.Errorf("%q gives selections and %v", value, err)
			}
			if text := err.Error(); len(text) > 64<<10 {
				t.Errorf("%q gives an error of %d bytes", value, len(text))
			}
			return
		}
		// What is written has keys, namespaces and lengths that need not have been there, so that a value which just fits
		// may be too long then.
		if len(value) > MaxSize/8 {
			return
		}
		text, err := Format(selections)
		if err != nil {
			t.Fatalf("%q is read and not written: %v", value, err)
		}
		again, err := Parse(text, "elsewhere")
		if err != nil {
			t.Fatalf("%q is written as %s and not read: %v", value, text, err)
		}
		expect.Equal(t, selections, again, "%q is written as %s and read as something else", value, text)
		if twice, err := Format(again); err != nil || twice != text {
			t.Errorf("%s is written as %s, %v", text, twice, err)
		}
	})
}

package policy

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

// deepsize is what a value keeps on the heap. It counts a string once for each place, unless it is a part of another one
// that was counted before.
func deepsize(value any) int {
	seen, texts := map[unsafe.Pointer]bool{}, []string{}
	known := func(at unsafe.Pointer) bool { is := seen[at]; seen[at] = true; return is }
	isPart := func(text string) bool {
		begins := uintptr(unsafe.Pointer(unsafe.StringData(text)))
		return slices.ContainsFunc(texts, func(of string) bool {
			from := uintptr(unsafe.Pointer(unsafe.StringData(of)))
			return from <= begins && begins+uintptr(len(text)) <= from+uintptr(len(of))
		})
	}
	var walk func(v reflect.Value) int
	walk = func(v reflect.Value) (n int) {
		switch v.Kind() {
		case reflect.String:
			if text := v.String(); len(text) > 0 && !isPart(text) {
				texts, n = append(texts, text), len(text)
			}
		case reflect.Slice:
			if v.Cap() == 0 {
				return 0
			}
			if !known(v.UnsafePointer()) {
				n = v.Cap() * int(v.Type().Elem().Size())
			}
			for i := range v.Len() {
				n += walk(v.Index(i))
			}
		case reflect.Pointer:
			if v.IsNil() || known(v.UnsafePointer()) {
				return 0
			}
			n = int(v.Type().Elem().Size()) + walk(v.Elem())
		case reflect.Struct:
			if strings.HasPrefix(v.Type().String(), "netip.") {
				return 0 // its zone is one for all
			}
			for _, field := range v.Fields() {
				n += walk(field)
			}
		case reflect.Bool, reflect.Int32, reflect.Array:
		default:
			panic(v.Kind())
		}
		return n
	}
	return int(reflect.TypeOf(value).Size()) + walk(reflect.ValueOf(value))
}

// shaped makes a policy for n things. Each text is a new string, as those that a watch decodes.
func shaped(networks int, spec func(n int) map[string]any, n int) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": spec(n)}}
	obj.SetName("p")
	obj.SetNamespace("team")
	on := make([]string, networks)
	for i := range on {
		on[i] = fmt.Sprint("network-", i)
	}
	obj.SetAnnotations(map[string]string{AnnotationFor: strings.Join(on, ",")})
	return obj
}

// listOf has n items.
func listOf(n int, item func(i int) any) []any {
	all := make([]any, n)
	for i := range all {
		all[i] = item(i)
	}
	return all
}

type m = map[string]any

// one is a policy with n items in one rule after the other, each with as many as it may have.
func one(field string, item func(i int) any) func(n int) map[string]any {
	return func(n int) map[string]any {
		rules := listOf((n+maxItems-1)/maxItems, func(r int) any {
			return m{field: listOf(min(maxItems, n-r*maxItems), func(i int) any { return item(r*maxItems + i) })}
		})
		return m{"podSelector": m{}, "ingress": rules}
	}
}

func podsOf(selector m) m { return m{"podSelector": selector} }

// Tenants write policies, and each process keeps them. What is beyond is refused before anything of it is copied.
func TestAPolicyThatIsKeptIsSmall(t *testing.T) {
	label := func(i int) string { return fmt.Sprintf("%063d", i) }
	for name, spec := range map[string]func(n int) map[string]any{
		"empty rules": func(n int) map[string]any {
			return m{"podSelector": m{}, "ingress": listOf(n, func(int) any { return m{} })}
		},
		"empty rules of both directions": func(n int) map[string]any {
			return m{"podSelector": m{}, "ingress": listOf(n/2, func(int) any { return m{} }), "egress": listOf(n/2, func(int) any { return m{} })}
		},
		"ports":        one("ports", func(i int) any { return m{"port": int64(i%65535 + 1)} }),
		"empty ports":  one("ports", func(int) any { return m{} }),
		"peers of all": one("from", func(int) any { return podsOf(m{}) }),
		"peers by an address": one("from", func(i int) any {
			return m{"ipBlock": m{"cidr": fmt.Sprintf("10.%d.%d.0/24", i>>8, i&255)}}
		}),
		"peers by a short label": one("from", func(i int) any {
			return m{"namespaceSelector": m{"matchLabels": m{"a": fmt.Sprint(i)}}}
		}),
		"peers by a long label": one("from", func(i int) any {
			return m{"namespaceSelector": m{"matchLabels": m{label(i): label(i)}}}
		}),
		"peers by namespaces and Pods": one("from", func(i int) any {
			return m{"namespaceSelector": m{"matchLabels": m{"a": fmt.Sprint(i)}}, "podSelector": m{"matchLabels": m{"b": fmt.Sprint(i)}}}
		}),
		"peers by a key": one("from", func(i int) any {
			return m{"namespaceSelector": m{"matchExpressions": []any{m{"key": fmt.Sprint("k", i), "operator": "DoesNotExist"}}}}
		}),
		"peers by sixteen keys": one("from", func(i int) any {
			return m{"namespaceSelector": m{"matchExpressions": listOf(maxRequirements, func(k int) any {
				return m{"key": fmt.Sprint(i, "-", k), "operator": "Exists"}
			})}}
		}),
		"exceptions": one("from", func(i int) any {
			return m{"ipBlock": m{"cidr": "::/0", "except": listOf(maxItems, func(k int) any { return fmt.Sprintf("%x::/64", i+k) })}}
		}),
		"short values": func(n int) map[string]any {
			return m{"podSelector": m{"matchExpressions": []any{m{"key": "a", "operator": "In", "values": listOf(n, func(i int) any { return fmt.Sprint(i) })}}}}
		},
		"empty values": func(n int) map[string]any {
			return m{"podSelector": m{"matchExpressions": []any{m{"key": "a", "operator": "NotIn", "values": listOf(n, func(int) any { return "" })}}}}
		},
		"long values": one("from", func(i int) any {
			return podsOf(m{"matchExpressions": []any{m{"key": "a", "operator": "NotIn", "values": listOf(8, func(k int) any { return label(8*(i%8) + k) })}}})
		}),
		"problems": func(n int) map[string]any {
			return m{"podSelector": m{}, "ingress": listOf(n, func(i int) any {
				if i < maxProblems {
					return m{"ports": []any{m{"port": strings.Repeat("http", 80)}}}
				}
				return m{}
			})}
		},
		"what is not known": func(n int) map[string]any {
			return m{"podSelector": m{}, "note": listOf(n, func(i int) any { return m{label(i): []any{}} })}
		},
	} {
		for _, networks := range []int{1, maxNetworks} {
			t.Run(fmt.Sprint(name, " for ", networks), func(t *testing.T) {
				most, beyond := 0, 1
				kept := func(n int) bool { _, _, ok := Parse(shaped(networks, spec, n)); return ok }
				for ; kept(beyond); beyond *= 2 {
					most = beyond
				}
				for most+1 < beyond {
					if half := (most + beyond) / 2; kept(half) {
						most = half
					} else {
						beyond = half
					}
				}
				p, problems, _ := Parse(shaped(networks, spec, most))
				if size := deepsize(p) + deepsize(problems); size > MaxSize+2<<10 {
					t.Errorf("of %d it keeps %d bytes, more than %d", most, size, MaxSize)
				} else {
					t.Logf("%d are kept, in %d bytes", most, size)
				}
				p, problems, _ = Parse(shaped(networks, spec, beyond))
				if len(problems) != 1 || !strings.Contains(problems[0], "more than 26 KiB of memory. Write several policies") || len(p.On) != networks {
					t.Errorf("one more is for %v and says %q", p.On, problems)
				}
				if size := deepsize(p) + deepsize(problems); size > 2<<10 {
					t.Errorf("it keeps %d bytes of what it does not read", size)
				}
				large := shaped(networks, spec, 4*beyond)
				if allocations := testing.AllocsPerRun(1, func() { Parse(large) }); allocations > 200 {
					t.Errorf("to refuse a policy takes %.0f allocations", allocations)
				}
			})
		}
	}
}

// A policy for no Network does nothing, so nothing of it is kept.
func TestAPolicyForNoNetworkIsNotReadFurther(t *testing.T) {
	obj := shaped(0, one("from", func(int) any { return podsOf(m{}) }), 64)
	if p, problems, ok := Parse(obj); !ok || len(problems) > 0 || deepsize(p) > 512 {
		t.Errorf("ok %t, it keeps %d bytes: %+v (%q)", ok, deepsize(p), p, problems)
	}
}

// Many rules, more than fit into a security group, are no reason to refuse a policy.
func TestAPolicyWithFiftyRulesIsRead(t *testing.T) {
	p, problems, ok := Parse(shaped(2, func(n int) map[string]any {
		return m{"podSelector": m{"matchLabels": m{"app": "database"}}, "ingress": listOf(n, func(i int) any {
			return m{"from": []any{
				m{"podSelector": m{"matchLabels": m{"app": fmt.Sprint("web-", i%20), "tier": "front"}}},
				m{"ipBlock": m{"cidr": fmt.Sprintf("10.0.%d.0/24", i)}},
			}, "ports": []any{m{"protocol": "TCP", "port": int64(i + 1)}, m{"protocol": "UDP", "port": int64(i + 1)}}}
		})}
	}, 50))
	if !ok || len(problems) > 0 || len(p.In) != 50 {
		t.Errorf("ok %t, with %d rules: %q", ok, len(p.In), problems)
	}
}

// A Selector is what labels.Selector is, but smaller.
func TestPropertyASelectorSelectsWhatItsTextSays(t *testing.T) {
	word := rapid.SampledFrom([]string{"a", "in", "n", "notin", "a-n", "x/in", "in.x/a"})
	value := rapid.SampledFrom([]string{"", "a", "in", "n", "ba", "b"})
	rapid.Check(t, func(t *rapid.T) {
		var parts []string
		for range rapid.IntRange(0, 4).Draw(t, "requirements") {
			key := word.Draw(t, "key")
			values := strings.Join(rapid.SliceOfN(value, 1, 4).Draw(t, "values"), ",")
			parts = append(parts, rapid.SampledFrom([]string{
				key, "!" + key, key + "=" + value.Draw(t, "value"), key + "!=" + value.Draw(t, "value"),
				key + " in (" + values + ")", key + " notin (" + values + ")",
			}).Draw(t, "requirement"))
		}
		want, err := labels.Parse(strings.Join(parts, ","))
		expect.NoError(t, err)
		is := SelectorOf(want)
		for range 20 {
			set := labels.Set(rapid.MapOf(word, value).Draw(t, "labels"))
			if is.Matches(set) != want.Matches(set) || is.String() != want.String() {
				t.Fatalf("%q selects %v: %t, want %t as %q", is, set, is.Matches(set), want.Matches(set), want)
			}
		}
	})
}

// lookups counts how often a selector looks at a label.
type lookups struct {
	labels.Set
	n *int
}

func (l lookups) Lookup(label string) (string, bool) { *l.n++; return l.Set.Lookup(label) }

// What a selector costs for each Pod is bounded by its requirements, whatever values they have.
func TestAPodIsHeldAgainstFewRequirements(t *testing.T) {
	var policies []Policy
	for i := range 20 {
		p, problems, ok := Parse(shaped(1, one("from", func(k int) any {
			return podsOf(m{"matchExpressions": listOf(maxRequirements, func(r int) any {
				return m{"key": fmt.Sprintf("k%d-%d-%d", i, k, r), "operator": "DoesNotExist"}
			})})
		}), 8))
		if !ok || len(problems) > 0 {
			t.Fatal(problems)
		}
		policies = append(policies, p)
	}
	n := 0
	Members(policies, cache.NewObjectName("team", "network-0"))(lookups{labels.Set{"app": "db"}, &n})
	if most := 20 * 8 * maxRequirements; n != most {
		t.Errorf("a Pod is held against %d requirements, want %d", n, most)
	}
}

// Rules about more Pods of other namespaces than any group has room for cost no more with more of them.
func TestMoreRangesThanAnyGroupHasAllowNothing(t *testing.T) {
	everything := Peer{Block: netip.MustParsePrefix("10.0.0.0/8")}
	for n, fits := range map[int]bool{MaxRanges: true, MaxRanges + 1: false} {
		r, addresses := others(n)
		r.Peers = append(r.Peers, everything) // it has all of them
		p := Policy{Name: "p", On: []cache.ObjectName{lab}, Pods: selecting(nil), Ingress: true, Egress: true, In: []Rule{r}}
		groups, problems, _ := Groups([]Policy{p}, addresses)
		if is := len(groups[0].Rules) == 2 && len(problems["p"]) == 0; is != fits {
			t.Errorf("with %d ranges it has %d rules, and says %q", n, len(groups[0].Rules), problems["p"])
		}
	}
}

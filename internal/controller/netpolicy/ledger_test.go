package netpolicy

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"

	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/policy"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// fill puts n policies, from p000 on, for Network net into the cache, as if their events had come.
func (w *world) fill(n int, spec map[string]any) {
	w.T.Helper()
	for i := range n {
		o, err := Transform(raw(fmt.Sprintf("p%05d", i), spec))
		expect.NoError(w.T, err)
		w.policies.ledger.admit(o.(*Object))
		expect.NoError(w.T, w.policies.objects.Add(o))
		w.policies.note(cache.MetaObjectToName(o.(*Object)))
	}
}

// raw is a policy of namespace team for Network net.
func raw(name string, spec map[string]any) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	obj.SetNamespace("team")
	obj.SetName(name)
	obj.SetUID(types.UID("uid-of-" + name))
	obj.SetAnnotations(map[string]string{policy.AnnotationFor: "net"})
	return obj
}

var (
	toAll   = map[string]any{"podSelector": map[string]any{}}
	toOther = map[string]any{"podSelector": map[string]any{}, "ingress": []any{map[string]any{"from": []any{
		map[string]any{"namespaceSelector": map[string]any{}},
	}}}}
)

// counting counts the policies that the cache gives.
type counting struct {
	cache.Store
	n int
}

func (c *counting) List() []any { all := c.Store.List(); c.n += len(all); return all }
func (c *counting) GetByKey(key string) (any, bool, error) {
	c.n++
	return c.Store.GetByKey(key)
}

// Handlers are shared by all namespaces: what one tenant writes must not make the events of others cost more.
func TestAnEventOfAnotherKindLooksAtNoMorePoliciesIfThereAreMore(t *testing.T) {
	port := otherPort()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "web-0", UID: "pod"}}
	port.Status.BoundTo = &cloudteamv1.PortBinding{Kind: "Pod", Name: "web-0", UID: "pod"}
	group := &cloudteamv1.SecurityGroup{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team", Name: "policy", Annotations: map[string]string{consumer.AnnotationMadeFor: MadeFor},
	}}
	looks := map[int]map[string]int{}
	for _, n := range []int{10, 1000} {
		inWorld(t, func(t *testing.T, w *world) {
			w.fill(n, toOther)
			store := &counting{Store: w.policies.objects}
			w.policies.objects = store
			looks[n] = map[string]int{}
			for kind, handle := range map[string]func() []cache.ObjectName{
				"SecurityGroup": func() []cache.ObjectName { w.policies.PortsOf("team"); return ofMade(group) },
				"NetworkPort":   func() []cache.ObjectName { return w.c.ofPort(port) },
				"Network": func() []cache.ObjectName {
					return w.c.ofNetwork(&cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "net"}})
				},
				"Pod":       func() []cache.ObjectName { w.policies.OfPod(pod); return w.c.ofPod(pod) },
				"Namespace": func() []cache.ObjectName { return w.c.ofNaming(&corev1.Namespace{}) },
			} {
				before := w.policies.ledger.looked + store.n
				if keys := handle(); !slices.Equal(keys, []cache.ObjectName{key("team")}) {
					t.Errorf("of %d policies, an event of a %s enqueues %v", n, kind, keys)
				}
				looks[n][kind] = w.policies.ledger.looked + store.n - before
			}
			// That of a policy, and a sync, look at those within what a namespace may have.
			before := w.policies.ledger.looked + store.n
			w.policies.note(cache.MetaObjectToName(store.Store.List()[0].(*Object)))
			w.policies.Member(port)
			within, _ := w.policies.ledger.of("team")
			if looked := w.policies.ledger.looked + store.n - before; looked > 2*maxGroups || len(within) > maxGroups/3 {
				t.Errorf("of %d policies, %d are looked at", n, looked)
			}
		}, port)
	}
	expect.Equal(t, looks[10], looks[1000], "with 1000 policies instead of 10, an event looks at")
}

// whole counts the policies that are kept whole.
func (w *world) whole() (n int) {
	for _, obj := range w.policies.objects.List() {
		if obj.(*Object).says.Load() != nil {
			n++
		}
	}
	return n
}

// A namespace may have any number of policies, and each process keeps so many of them and the headers of the others.
func TestOfANamespaceOnlySoManyPoliciesAreKeptWhole(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.fill(maxWhole+1, toAll)
		expect.Equal(t, maxWhole, w.whole(), "policies kept whole")
		// One at the front takes one out at the end, and none is read again.
		o, _ := Transform(raw("a", toAll))
		expect.NoError(t, w.policies.objects.Add(o))
		w.policies.note(cache.MetaObjectToName(o.(*Object)))
		if n := w.whole(); n != maxWhole || o.(*Object).says.Load() == nil {
			t.Errorf("%d are kept whole, want %d", n, maxWhole)
		}
		last := raw("z", toAll)
		o, _ = Transform(last)
		if w.policies.ledger.admit(o.(*Object)); o.(*Object).says.Load() != nil {
			t.Error("one beyond is kept until its event")
		}
		// Before any event of a namespace, as in a first list, there are no more than that.
		kept := 0
		for i := range 3 * maxWhole {
			obj := raw(fmt.Sprint("p", i), toAll)
			obj.SetNamespace("new")
			o, _ := Transform(obj)
			if w.policies.ledger.admit(o.(*Object)); o.(*Object).says.Load() != nil {
				kept++
			}
		}
		expect.Equal(t, maxWhole, kept, "policies kept whole before their events")
	})
}

// An edit of a policy that does not count, and changes nothing, has nothing read or computed again. Of one that counts,
// a sync may wait for the event.
func TestAnEditOfAPolicyThatDoesNotCountIsNoReasonToSync(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.fill(maxWhole+1, toAll)
		for name, counts := range map[string]bool{"p00000": true, fmt.Sprintf("p%05d", maxWhole): false} {
			found, _, err := w.policies.objects.GetByKey("team/" + name)
			expect.NoError(t, err)
			o := found.(*Object)
			o.Generation = 1
			o.says.Store(nil)
			if same := w.c.sameForGroups(o, o); same == counts {
				t.Errorf("%s is the same for groups: %t", name, same)
			}
		}
	})
}

// What was dropped is read again when it is needed, and ports follow it without an event about it.
func TestAPolicyThatComesWithinTheMostGroupsIsReadAgain(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		const n = maxWhole + 10
		var woken []cache.ObjectName
		w.policies.Wakes(func(keys ...cache.ObjectName) { woken = append(woken, keys...) })
		w.list()
		for i := range n {
			if i%20 == 0 {
				w.settle()
			}
			w.source.Add(raw(fmt.Sprintf("p%05d", i), map[string]any{
				"podSelector": map[string]any{"matchLabels": map[string]any{"app": fmt.Sprint(i)}}, "policyTypes": []any{"Ingress", "Egress"},
			}))
		}
		w.settle()
		if whole, told := w.whole(), w.Events.Take(); whole != maxWhole || len(told) != n-maxGroups/3 ||
			!strings.Contains(told[0], "more than 512 security groups") || len(w.reads) > 0 {
			t.Errorf("%d are kept whole, %d Events, and %q were read again", whole, len(told), w.reads)
		}
		port := w.add("p", func(p *cloudteamv1.NetworkPort) { p.Labels["app"] = fmt.Sprint(n - 1) })
		if _, known := w.policies.Member(port); known {
			t.Error("it is known what policies say that are beyond the most groups")
		}
		for i := range n - 2 {
			w.source.Delete(raw(fmt.Sprintf("p%05d", i), toAll))
			if i%20 == 0 {
				w.settle()
			}
		}
		w.settle()
		if m, known := w.policies.Member(port); !known || !m.Selected {
			t.Errorf("selected %t, known %t", m.Selected, known)
		}
		if len(w.reads) > 10 || !slices.Contains(w.reads, fmt.Sprintf("p%05d", n-1)) {
			t.Errorf("it read %q again, of which only the last %d were dropped", w.reads, n-maxWhole)
		}
		expect.Empty(t, w.Events.Take(), "what it says")
		w.wantGroups("policy-p00264", "policy-p00265")
		// One at the front that needs nearly all groups takes both out, and they come back.
		all := raw("a", map[string]any{"podSelector": map[string]any{}, "ingress": []any{map[string]any{"from": listOf(29)}}})
		on := make([]string, 16)
		for i := range on {
			on[i] = fmt.Sprint("net", i)
		}
		all.SetAnnotations(map[string]string{policy.AnnotationFor: strings.Join(on, ",")})
		w.source.Modify(all)
		w.settle()
		if _, known := w.policies.Member(port); known {
			t.Error("it is known what policies say that are beyond the most groups")
		}
		woken, w.reads = nil, nil
		w.Events.Take()
		w.source.Delete(all)
		w.settle()
		if m, known := w.policies.Member(port); !known || !m.Selected || !slices.Contains(woken, cache.MetaObjectToName(port)) || len(w.reads) > 0 {
			t.Errorf("selected %t, known %t, and woken are %v, after reads of %q", m.Selected, known, woken, w.reads)
		}
		if left := w.policies.Settling("team"); left == 0 {
			t.Error("nothing settles")
		}
		// Each is told of once, whatever moves it.
		w.source.Modify(all)
		w.settle()
		for _, told := range w.Events.Take() {
			if strings.Contains(told, "this is one of those beyond") {
				t.Errorf("it is told again: %s", told)
			}
		}
	})
}

// listOf has n peers of the own namespace.
func listOf(n int) (all []any) {
	for i := range n {
		all = append(all, map[string]any{"podSelector": map[string]any{"matchLabels": map[string]any{"app": fmt.Sprint(i)}}})
	}
	return all
}

// Another version than the cache's, or another policy of the name, is not taken for it.
func TestOnlyTheVersionOfTheCacheIsReadAgain(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*unstructured.Unstructured)
		want   bool
	}{
		"the same":        {func(*unstructured.Unstructured) {}, true},
		"another policy":  {func(o *unstructured.Unstructured) { o.SetUID("another") }, false},
		"another version": {func(o *unstructured.Unstructured) { o.SetResourceVersion("99") }, false},
	} {
		inWorld(t, func(t *testing.T, w *world) {
			obj, _ := Transform(raw("db", toAll))
			o := obj.(*Object)
			o.says.Store(nil)
			w.c.read = func(context.Context, string, string) (*unstructured.Unstructured, error) {
				is := raw("db", toAll)
				test.change(is)
				return is, nil
			}
			if err := w.c.readAgain(t.Context(), o); err != nil || (o.says.Load() != nil) != test.want {
				t.Errorf("%s: it is read: %t, %v", name, o.says.Load() != nil, err)
			}
		})
	}
}

// A policy that is too large is as one that cannot be read: it opens and closes nothing, and says what to do.
func TestAPolicyThatIsTooLargeCountsAsNotRead(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.list()
		w.declare("db", "net", "{podSelector: {matchLabels: {app: db}}, policyTypes: [Ingress, Egress], ingress: ["+
			strings.TrimSuffix(strings.Repeat("{}, ", 5461), ", ")+"]}")
		if told := w.Events.Take(); len(told) != 1 || !strings.Contains(told[0], "more than 26 KiB of memory. Write several policies") ||
			!strings.Contains(told[0], "until it can be read, NetworkPorts that exist stay as they are, and new Pods wait") {
			t.Errorf("the Events are %q", told)
		}
		port := w.add("p", nil)
		if _, known := w.policies.Member(port); known {
			t.Error("it is known what it says")
		}
		w.wantGroups()
		o := w.policies.objects.List()[0].(*Object)
		if says := o.says.Load(); o.Read || len(says.policy.In) > 0 || says.policy.Pods != nil {
			t.Errorf("it keeps %+v", says.policy)
		}
		w.put("db", "ingress", "egress")
		if m, known := w.policies.Member(port); !known || !m.Selected {
			t.Errorf("selected %t, known %t", m.Selected, known)
		}
	})
}

// A sync asks each selector once about the labels that Pods have in common, and reads each port once.
func TestASyncAsksEachSelectorOnceAboutEqualLabels(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.named()
		const ports, kinds, selectors = 600, 3, 40
		for i := range ports {
			w.add(fmt.Sprint("p", i), func(p *cloudteamv1.NetworkPort) {
				p.Namespace, p.Spec.NetworkNamespace = []string{"other", "third"}[i%2], "team"
				p.Labels = map[string]string{"app": fmt.Sprint(i % kinds)}
				p.Status.Addresses = []cloudteamv1.PortAddress{{Address: fmt.Sprintf("10.0.%d.%d/16", i>>7, 2*i&255)}}
			})
		}
		look := w.policies.looking("team")
		for range 3 {
			for i := range selectors {
				not, err := labels.Parse(fmt.Sprintf("app notin (0, no%d)", i))
				expect.NoError(t, err)
				peer := policy.Peer{Namespaces: selecting(labels.Set{"name": "other"}), Pods: policy.SelectorOf(not)}
				found, ok := look.Addresses(cache.NewObjectName("team", "net"), peer)
				if !ok || len(found) != ports/3 {
					t.Fatalf("selector %d has %d ranges, %t", i, len(found), ok)
				}
			}
		}
		if want := 2 + selectors*kinds; look.asked != want || look.read != ports {
			t.Errorf("selectors were asked %d times, want %d, and %d ports were read, want %d", look.asked, want, look.read, ports)
		}
		// More than any rule can have is not kept.
		all := policy.Peer{Namespaces: selecting(nil), Pods: selecting(nil)}
		if found, _ := look.Addresses(cache.NewObjectName("team", "net"), all); len(found) != policy.MaxRanges+1 {
			t.Errorf("all are %d ranges", len(found))
		}
	})
}

// Each namespace whose policies name Pods of others reads the ports of a Network, whose labels others choose.
func TestASyncCopiesNoLabels(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.named()
		const ports, size = 300, 4000
		for i := range ports {
			w.add(fmt.Sprint("p", i), func(p *cloudteamv1.NetworkPort) {
				p.Namespace, p.Spec.NetworkNamespace, p.Labels = "other", "team", map[string]string{"app": fmt.Sprint(i)}
				for j := range size / 50 {
					p.Labels[fmt.Sprintf("a-label-with-many-characters-%d", j)] = "which-nobody-needs"
				}
				p.Status.Addresses = []cloudteamv1.PortAddress{{Address: fmt.Sprintf("10.0.%d.%d/16", i>>8, i&255)}}
			})
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		crowds := w.policies.looking("team").crowds(cache.NewObjectName("team", "net"))
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; len(crowds) != ports || took > ports*size/4 {
			t.Errorf("%d crowds of %d ports took %d bytes", len(crowds), ports, took)
		}
	})
}

// Whatever events come in which order, the ledger has what a walk through all policies would find.
func TestPropertyTheLedgerIsWhatAWalkFinds(t *testing.T) {
	net := func(i int) cache.ObjectName { return cache.NewObjectName("team", fmt.Sprint("net", i)) }
	rapid.Check(t, func(t *rapid.T) {
		l := newLedger()
		all := map[cache.ObjectName]*Object{}
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			key := cache.NewObjectName(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "namespace"), fmt.Sprint("p", rapid.IntRange(0, 9).Draw(t, "name")))
			if rapid.IntRange(0, 3).Draw(t, "gone") == 0 {
				delete(all, key)
				l.note(key.Namespace, key.Name, nil)
			} else {
				o := &Object{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
				for i := range rapid.IntRange(0, 3).Draw(t, "networks") {
					o.On = append(o.On, net(i+rapid.IntRange(0, 1).Draw(t, "from")*3))
				}
				o.Read = rapid.IntRange(0, 3).Draw(t, "read") > 0
				o.namesOthers = o.Read && rapid.Bool().Draw(t, "names others")
				o.cost = len(o.On) * rapid.IntRange(3, 60).Draw(t, "groups")
				all[key] = o
				l.admit(o)
				l.note(key.Namespace, key.Name, o)
				l.note(key.Namespace, key.Name, o) // another handler
			}
			on, others, naming := map[cache.ObjectName][]string{}, map[cache.ObjectName][]string{}, []string{}
			tracked := 0
			for _, namespace := range []string{"a", "b"} {
				var within []string
				beyond, sum, blind := map[cache.ObjectName]bool{}, 0, false
				for _, key := range slices.SortedFunc(maps.Keys(all), func(a, b cache.ObjectName) int { return strings.Compare(a.String(), b.String()) }) {
					o := all[key]
					if key.Namespace != namespace || len(o.On) == 0 && o.Read {
						continue
					}
					tracked++
					if len(o.On) == 0 {
						blind = true
						continue
					}
					if sum += o.cost; sum > maxGroups {
						for _, n := range o.On {
							beyond[n] = true
						}
						continue
					}
					within = append(within, o.Name)
					for _, n := range o.On {
						on[n] = append(on[n], namespace)
						if o.namesOthers {
							others[n] = append(others[n], namespace)
						}
					}
					if o.namesOthers {
						naming = append(naming, namespace)
					}
				}
				has, more := l.of(namespace)
				var names []string
				for _, o := range has {
					names = append(names, o.Name)
				}
				if !slices.Equal(names, within) || more != (blind || len(beyond) > 0) {
					t.Fatalf("in %s it has %v, and others: %t, want %v, %t", namespace, names, more, within, blind || len(beyond) > 0)
				}
				for i := range 6 {
					of, more := l.concerning(namespace, net(i))
					if want := blind || beyond[net(i)]; more != want || slices.ContainsFunc(of, func(o *Object) bool { return !slices.Contains(o.On, net(i)) }) {
						t.Fatalf("on %s of %s there are %d, and others: %t, want %t", net(i), namespace, len(of), more, want)
					}
				}
			}
			same := func(what string, got []cache.ObjectName, want []string) {
				var names []string
				for _, key := range got {
					names = append(names, key.Namespace)
				}
				slices.Sort(names)
				slices.Sort(want)
				if want = slices.Compact(want); !slices.Equal(names, want) {
					t.Fatalf("%s are %v, want %v", what, names, want)
				}
			}
			for i := range 6 {
				same("the namespaces on a Network", l.namespacesOn(net(i), false), on[net(i)])
				same("those that name others there", l.namespacesOn(net(i), true), others[net(i)])
			}
			same("the namespaces that name others", l.namespacesNaming(), naming)
			if len(l.spaces) > 0 && tracked == 0 {
				t.Fatalf("it remembers %d namespaces of no policies", len(l.spaces))
			}
		}
	})
}

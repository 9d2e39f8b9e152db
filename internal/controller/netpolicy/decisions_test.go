package netpolicy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/yaml"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/internal/policy"
	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// declare makes a policy of namespace team, for the Networks of an annotation, with a spec in YAML.
func (w *world) declare(name, networks, spec string) {
	w.T.Helper()
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	expect.NoError(w.T, yaml.Unmarshal([]byte("spec: "+spec), &obj.Object))
	obj.SetNamespace("team")
	obj.SetName(name)
	obj.SetUID(types.UID("uid-of-" + name))
	obj.SetAnnotations(map[string]string{policy.AnnotationFor: networks})
	w.source.Modify(obj)
	w.settle()
}

// fromOthers is a spec that lets Pods of app=web in namespace other in.
const fromOthers = `{podSelector: {matchLabels: {app: db}}, policyTypes: [Ingress, Egress], ingress: [{from: [` +
	`{namespaceSelector: {matchLabels: {name: other}}, podSelector: {matchLabels: {app: web}}}]}]}`

// named has each namespace have its name as a label.
func (w *world) named() {
	w.policies.namespace = func(name string) labels.Set { return labels.Set{"name": name} }
}

// remotes are the ranges of a group, but for the one that closes egress.
func remotes(group *cloudteamv1.SecurityGroup) (all []string) {
	for _, r := range group.Spec.Rules {
		if r.Direction == cloudteamv1.RuleIngress {
			all = append(all, r.RemoteCIDR)
		}
	}
	return all
}

// wantRemotes holds the ranges that the group of policy db lets in.
func (w *world) wantRemotes(when string, want ...string) {
	w.T.Helper()
	if got := remotes(w.wantGroups("policy-db")["policy-db"]); !slices.Equal(got, want) {
		w.T.Errorf("%s, it lets in %v, want %v", when, got, want)
	}
}

func TestOnlyAddressesOfSelectedPodsAreInRules(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.named()
		for i, test := range []struct {
			namespace string
			labels    map[string]string
		}{
			{"other", map[string]string{"app": "web"}},
			{"other", map[string]string{"app": "web"}},
			{"other", map[string]string{"app": "db"}},
			{"third", map[string]string{"app": "web"}},
			{"third", map[string]string{"app": "web"}},
			{"other", map[string]string{TooManyLabels: ""}},
		} {
			w.add(fmt.Sprint("p", i), func(p *cloudteamv1.NetworkPort) {
				p.Namespace, p.Labels, p.Spec.NetworkNamespace = test.namespace, test.labels, "team"
				p.Status.Addresses = []cloudteamv1.PortAddress{
					{Address: fmt.Sprintf("10.0.0.%d/24", 2*i)}, {Address: fmt.Sprintf("fd00::%d/64", 2*i)}, {Address: "none"},
				}
			})
		}
		w.list()
		w.declare("db", "net", fromOthers)
		w.wantRemotes("of six ports", "10.0.0.0/32", "10.0.0.2/32", "fd00::/128", "fd00::2/128")
	})
}

// A rule with a name has the numbers of the Pods that it lets packets to: of the own namespace that the policy selects, and
// of peers.
func TestRulesHaveTheNumbersOfNamedPorts(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.named()
		w.list()
		w.declare("db", "net", `{podSelector: {matchLabels: {app: db}}, ingress: [{ports: [{port: sql}]}], egress: [{`+
			`to: [{namespaceSelector: {matchLabels: {name: other}}}], ports: [{port: http}]}]}`)
		numbers := func(when string, want ...string) {
			t.Helper()
			w.settle()
			var got []string
			for _, r := range w.wantGroups("policy-db")["policy-db"].Spec.Rules {
				if r.PortRangeMin != nil && r.EtherType == cloudteamv1.EtherTypeIPv4 {
					got = append(got, fmt.Sprint(r.Direction, " ", *r.PortRangeMin))
				}
			}
			expect.Equal(t, strings.Join(want, ", "), strings.Join(got, ", "), "%s, the ports of rules", when)
		}
		numbers("without a Pod")
		const lacks = "no Pod that it is about has a port tcp/sql"
		problem := w.wantGroups("policy-db")["policy-db"].Annotations[cloudteamv1.AnnotationPolicyProblem]
		if told := w.Events.Take(); len(told) > 0 || !strings.Contains(problem, lacks) {
			t.Errorf("the Events are %q, and the group says %q", told, problem)
		}
		add := func(namespace, name, app string, ports ...corev1.ContainerPort) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: name, UID: types.UID(name), Labels: map[string]string{"app": app},
				Annotations: map[string]string{selection.Annotation: "team/net"},
			}}
			pod.Spec.Containers = []corev1.Container{{Ports: ports}}
			port := otherPort()
			port.Namespace, port.Name, port.UID = namespace, name, types.UID("port-"+name)
			port.Status.BoundTo = &cloudteamv1.PortBinding{Kind: "Pod", Name: name, UID: pod.UID}
			_, err := w.Kube.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
			expect.NoError(t, err)
			w.Create(port)
		}
		sql := func(number int32) corev1.ContainerPort {
			return corev1.ContainerPort{Name: "sql", ContainerPort: number}
		}
		http := corev1.ContainerPort{Name: "http", ContainerPort: 80, Protocol: corev1.ProtocolTCP}
		add("team", "1", "db", sql(5432), http)
		numbers("with a Pod", "ingress 5432")
		add("team", "2", "web", sql(1))
		add("other", "3", "db", sql(2), http)
		numbers("with Pods that it does not select, of which one is a peer", "ingress 5432", "egress 80")
		add("team", "4", "db", sql(5433), corev1.ContainerPort{Name: "sql", ContainerPort: 3, Protocol: corev1.ProtocolUDP})
		numbers("with another number for the name", "ingress 5432", "ingress 5433", "egress 80")
	})
}

// Who may not use a Network learns nothing about what is on it, also with a NetworkPort of its own that names it.
func TestAPolicySaysNothingOfANetworkThatItMayNotUse(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.named()
		w.list()
		on := func(p *cloudteamv1.NetworkPort) { p.Spec.NetworkNamespace, p.Spec.NetworkName = "other", "theirs" }
		w.add("mine", on)
		for i := range 100 {
			w.add(fmt.Sprint("p", i), func(p *cloudteamv1.NetworkPort) {
				on(p)
				p.Namespace, p.Status.Addresses = "other", []cloudteamv1.PortAddress{{Address: fmt.Sprintf("10.0.0.%d/24", 2*i)}}
			})
		}
		w.declare("db", "other/theirs", `{podSelector: {}, ingress: [{from: [{namespaceSelector: {}}]}]}`)
		told := w.Events.Take()
		if len(told) != 1 || !strings.Contains(told[0], "there is no Network other/theirs") || strings.Contains(told[0], "rules") {
			t.Errorf("the Events are %q", told)
		}
	})
}

// The Pods of other namespaces come and go. Policies that name ports of their own Pods are not synced for them.
func TestAPortOfAnotherNamespaceSyncsNoPolicyThatNamesOwnPorts(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.list()
		w.declare("db", "net", `{podSelector: {matchLabels: {app: db}}, ingress: [{ports: [{port: sql}]}]}`)
		port := otherPort()
		if keys := w.c.ofPort(port); len(keys) > 0 {
			t.Errorf("one of another namespace syncs %v", keys)
		}
		port.Namespace = "team"
		if keys := w.c.ofPort(port); len(keys) != 1 || keys[0] != key("team") {
			t.Errorf("its own syncs %v", keys)
		}
		if keys := w.c.ofNaming(port); len(keys) > 0 {
			t.Errorf("a Namespace syncs %v", keys)
		}
	})
}

// otherPort is a NetworkPort of namespace other on Network team/net, which other tests of a rule's addresses change.
func otherPort() *cloudteamv1.NetworkPort {
	port := &cloudteamv1.NetworkPort{ObjectMeta: metav1.ObjectMeta{
		Namespace: "other", Name: "p", UID: "port", Labels: map[string]string{"app": "web"},
	}}
	port.Spec.NetworkNamespace, port.Spec.NetworkName = "team", "net"
	port.Status.Addresses = []cloudteamv1.PortAddress{{Address: "10.0.0.1/24"}}
	return port
}

// Nothing of the own namespace changes when Pods of another one come, go or are labelled.
func TestRulesFollowThePodsOfOtherNamespaces(t *testing.T) {
	key := cache.NewObjectName("other", "p")
	inWorld(t, func(t *testing.T, w *world) {
		w.named()
		w.list()
		w.declare("db", "net", fromOthers)
		follows := func(when string, want ...string) {
			t.Helper()
			w.settle()
			w.wantRemotes(when, want...)
		}
		follows("with a port", "10.0.0.1/32")
		edit := func(change func(*cloudteamv1.NetworkPort)) { t.Helper(); controllertest.Edit(t, w.API, key, change) }
		edit(func(p *cloudteamv1.NetworkPort) { p.Status.Addresses[0].Address = "10.0.0.2/24" })
		follows("with another address", "10.0.0.2/32")
		edit(func(p *cloudteamv1.NetworkPort) { p.Labels = map[string]string{"app": "db"} })
		follows("with other labels")
		edit(func(p *cloudteamv1.NetworkPort) {
			p.Status.BoundTo = &cloudteamv1.PortBinding{Kind: "Pod", Name: "web-0", UID: "pod"}
		})
		follows("bound to a Pod that is not there")
		pods := w.Kube.CoreV1().Pods("other")
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "other", Name: "web-0", UID: "pod", Labels: map[string]string{"app": "web"},
			Annotations: map[string]string{selection.Annotation: "team/net"},
		}}
		if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		follows("bound to a Pod that is", "10.0.0.2/32")
		pod.Labels = nil
		if _, err := pods.Update(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		follows("bound to a Pod without labels")
		edit(func(p *cloudteamv1.NetworkPort) { p.Status.BoundTo, p.Labels = nil, map[string]string{"app": "web"} })
		follows("bound to none", "10.0.0.2/32")
		w.API.Delete(t, &cloudteamv1.NetworkPort{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "p"}})
		follows("without the port")
	}, otherPort())
}

// Anybody can write ports that name the Network of others, in any number, and edit them again and again.
func TestPortsThatOnlyNameANetworkCostNoOthersPolicies(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.named()
		w.list()
		w.declare("db", "net", fromOthers)
		w.wantRemotes("of one port", "10.0.0.1/32")
		for i := range 100 {
			stranger := w.add(fmt.Sprint("p", i), func(p *cloudteamv1.NetworkPort) {
				p.Namespace, p.Spec.NetworkNamespace, p.Labels = "third", "team", map[string]string{"i": fmt.Sprint(i)}
			})
			if keys := w.c.ofPort(stranger); len(keys) > 0 {
				t.Fatalf("its event syncs %v", keys)
			}
		}
		look := w.policies.looking("team")
		look.crowds(cache.NewObjectName("team", "net"))
		expect.Equal(t, 1, look.read, "how many ports a sync reads")
	}, otherPort())
}

func TestRulesFollowTheLabelsOfNamespaces(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		of := labels.Set{}
		w.policies.namespace = func(string) labels.Set { return of }
		w.list()
		namespaces := w.Kube.CoreV1().Namespaces()
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other", UID: "other"}}
		if _, err := namespaces.Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.declare("db", "net", fromOthers)
		w.wantRemotes("without the label")
		of = labels.Set{"name": "other"}
		namespace.Labels = of
		if _, err := namespaces.Update(t.Context(), namespace, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.settle()
		w.wantRemotes("with the label", "10.0.0.1/32")
	}, otherPort())
}

// Nothing is synced for what changes no group.
func TestWhatDoesNotMatterToPoliciesIsTheSame(t *testing.T) {
	type ports = controllertest.Edits[*cloudteamv1.NetworkPort]
	controllertest.WantSame(t, samePort, otherPort(), ports{
		"an address":  func(p *cloudteamv1.NetworkPort) { p.Status.Addresses[0].Address = "10.0.0.2/24" },
		"the binding": func(p *cloudteamv1.NetworkPort) { p.Status.BoundTo = &cloudteamv1.PortBinding{Name: "a"} },
		"labels":      func(p *cloudteamv1.NetworkPort) { p.Labels = nil },
	}, ports{
		"conditions": func(p *cloudteamv1.NetworkPort) { p.Status.Conditions = []metav1.Condition{{}} },
	})
	type networks = controllertest.Edits[*cloudteamv1.Network]
	controllertest.WantSame(t, sameNetwork, &cloudteamv1.Network{}, networks{
		"the generation": func(n *cloudteamv1.Network) { n.Generation++ },
		"the class":      func(n *cloudteamv1.Network) { n.Status.Class = &cloudteamv1.AppliedClass{Name: "a"} },
	}, networks{
		"conditions": func(n *cloudteamv1.Network) { n.Status.Conditions = []metav1.Condition{{}} },
	})
	pod := func(app string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}}}
	}
	if !SameForPolicies(pod("a"), pod("a")) || SameForPolicies(pod("a"), pod("b")) {
		t.Error("what selects a Pod is its labels")
	}
}

// object is a policy in the cache, for Networks, with n different peers of its own namespace.
func object(t *testing.T, name string, networks, peers int) *Object {
	t.Helper()
	on, from := make([]string, networks), make([]any, peers)
	for i := range on {
		on[i] = fmt.Sprint("net", i)
	}
	for i := range from {
		from[i] = map[string]any{"podSelector": map[string]any{"matchLabels": map[string]any{"app": fmt.Sprint(i)}}}
	}
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"podSelector": map[string]any{}, "ingress": []any{map[string]any{"from": from}},
	}}}
	obj.SetNamespace("team")
	obj.SetName(name)
	obj.SetAnnotations(map[string]string{policy.AnnotationFor: strings.Join(on, ",")})
	o, err := Transform(obj)
	if err != nil || !o.(*Object).Read {
		t.Fatalf("%+v, %v", o, err)
	}
	return o.(*Object)
}

func TestAPortIsUnknownWhileAPolicyOfItsNetworkCountsAsNotRead(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.list()
		port := w.add("p", nil)
		knows := func(want bool) {
			t.Helper()
			if _, known := w.policies.Member(port); known != want {
				t.Errorf("known %t, want %t", known, want)
			}
		}
		w.declare("db", "another", "{podSelector: all}") // it cannot be read
		knows(true)
		w.wantLacks(port, "")
		w.declare("db", "net", "{podSelector: all}")
		knows(false)
		w.wantLacks(port, "The controller cannot determine which MultiNetworkPolicies select NetworkPort p")
		w.declare("db", "/", "{podSelector: {}}") // nor for which Networks it is
		knows(false)
		w.declare("db", "another, /", "{podSelector: {}}")
		knows(true)
		// One policy within what a namespace may have, and one beyond.
		for _, o := range []*Object{object(t, "a", 15, 29), object(t, "b", 1, 0)} {
			o.On = append(o.On, cache.NewObjectName("team", "net"))
			o.cost = len(o.On) * o.says.Load().policy.MaxGroups()
			expect.NoError(t, w.policies.objects.Add(o))
			w.policies.note(cache.MetaObjectToName(o))
		}
		knows(false)
	})
}

// Each change of a policy has new groups settle for as long.
func TestALaterChangeSettlesLater(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		settling := func(want time.Duration) {
			t.Helper()
			expect.Equal(t, want, w.policies.Settling("team"), "how long policies settle")
			expect.Equal(t, time.Duration(0), w.policies.Settling("other"), "how long those of another namespace do")
		}
		settling(0)
		w.policies.settle("team")
		controllertest.Settle(settlesAfter / 2)
		w.policies.settle("team")
		settling(settlesAfter)
		controllertest.Settle(settlesAfter/2 + time.Second)
		settling(settlesAfter/2 - time.Second)
		controllertest.Settle(settlesAfter)
		settling(0)
		w.policies.mu.Lock()
		defer w.policies.mu.Unlock()
		expect.Empty(t, w.policies.changed, "what it remembers")
		if none := (*Policies)(nil); none.Settling("team") != 0 {
			t.Error("no policies settle")
		}
	})
}

// report has a group be as the controller of SecurityGroups would report it.
func report(t *testing.T, w *world, name, id string, applied int64, ready bool) {
	t.Helper()
	controllertest.Edit(t, w.API, cache.NewObjectName("team", name), func(g *cloudteamv1.SecurityGroup) {
		g.Status.SecurityGroupID, g.Status.AppliedGeneration = id, applied
		state := controller.Reconciling("Creating", "")
		if ready {
			state = controller.Ready("Available", "")
		}
		g.Status.Conditions = controller.SetState(nil, 1, state)
	})
	w.settle()
}

// No Pod starts with a port whose groups do not hold in Neutron yet.
func TestAPortLacksAGroupThatIsNotReady(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.list()
		w.put("db", "ingress", "egress")
		name := w.wantGroups("policy-db")["policy-db"].Name
		lacks := func(in []string, want string) {
			t.Helper()
			w.wantLacks(w.add("p", func(p *cloudteamv1.NetworkPort) { p.Status.SecurityGroupIDs = in }), want)
		}
		report(t, w, name, "id", 1, false)
		lacks([]string{"id"}, "SecurityGroup "+name+", or another one")
		report(t, w, name, "", 1, true)
		lacks([]string{""}, "is not Ready")
		report(t, w, name, "id", 1, true)
		lacks([]string{"id"}, "")
		lacks(nil, "joins the groups")
		group, exists := w.policies.group("team", name)
		if !exists {
			t.Fatal("the group is not in the cache")
		}
		theirs := group.DeepCopy()
		theirs.Annotations = nil
		expect.NoError(t, w.policies.groups.Update(theirs))
		lacks([]string{"id"}, "is not Ready")
		expect.NoError(t, w.policies.groups.Update(group))
		lacks([]string{"id"}, "")
		w.API.Delete(t, &cloudteamv1.SecurityGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}})
		port := w.add("p", func(p *cloudteamv1.NetworkPort) { p.Status.SecurityGroupIDs = []string{"id"} })
		controllertest.Settle(0)
		w.wantLacks(port, "is not Ready")
	})
}

// What each Network allows decides whether its policies hold there.
func TestWhereAPolicyHolds(t *testing.T) {
	cloud := &cloudteamv1.CloudReference{}
	for name, test := range map[string]struct {
		namespace string
		change    func(*cloudteamv1.Network)
		want      standing
	}{
		"the own":                           {"team", func(*cloudteamv1.Network) {}, serves},
		"the own with a cloud":              {"team", func(n *cloudteamv1.Network) { n.Spec.Cloud = cloud }, serves},
		"the own with port security":        {"team", func(n *cloudteamv1.Network) { n.Spec.PortSecurity = new(true) }, serves},
		"the own without port security":     {"team", func(n *cloudteamv1.Network) { n.Spec.PortSecurity = new(false) }, without},
		"another one":                       {"other", func(*cloudteamv1.Network) {}, lost},
		"another one that is for all":       {"other", func(n *cloudteamv1.Network) { n.Spec.AllowedNamespaces = []string{"*"} }, serves},
		"another one with its own cloud":    {"other", func(n *cloudteamv1.Network) { n.Spec.AllowedNamespaces, n.Spec.Cloud = []string{"*"}, cloud }, without},
		"another one that is for a third":   {"other", func(n *cloudteamv1.Network) { n.Spec.AllowedNamespaces = []string{"third"} }, lost},
		"another one that is for this, too": {"other", func(n *cloudteamv1.Network) { n.Spec.AllowedNamespaces = []string{"team"} }, serves},
	} {
		t.Run(name, func(t *testing.T) {
			network := &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: test.namespace, Name: "there", UID: "there"}}
			test.change(network)
			inWorld(t, func(t *testing.T, w *world) {
				is, _, why := w.policies.on("team", cache.NewObjectName(test.namespace, "there"))
				if is != test.want || (why == "") != (is == serves) {
					t.Errorf("it is %d, because %q, want %d", is, why, test.want)
				}
				w.list()
				w.declare("db", test.namespace+"/there", "{podSelector: {}}")
				if told := w.Events.Take(); len(told) > 0 != (is != serves) || len(told) > 0 && !strings.Contains(told[0], why) {
					t.Errorf("the Events are %q, want one that says %q", told, why)
				}
			}, network)
		})
	}
}

func selecting(set labels.Set) *policy.Selector {
	return policy.SelectorOf(labels.SelectorFromSet(set))
}

// Sets of Pods are looked for once, and only so many of them.
func TestOnlySoManySetsAreLookedFor(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.named()
		looking := w.policies.looking("team").Addresses
		on := cache.NewObjectName("team", "net")
		looks := func(i int) (found int, ok bool) {
			addresses, ok := looking(on, policy.Peer{
				Namespaces: selecting(labels.Set{"name": "other"}), Pods: selecting(labels.Set{"app": fmt.Sprint(i)}),
			})
			return len(addresses), ok
		}
		ports := w.policies.looking("team")
		for i := range max(maxSets, maxNamed) {
			if _, ok := looks(i); !ok {
				t.Fatalf("set %d is not looked for", i)
			}
			for range 2 { // names of ports, of one set
				if _, ok := ports.Ports(on, policy.Peer{Pods: selecting(labels.Set{"app": fmt.Sprint(i)})}, "tcp", "http"); !ok {
					t.Fatalf("the ports of set %d are not looked for", i)
				}
			}
		}
		if _, ok := ports.Ports(on, policy.Peer{Pods: selecting(nil)}, "tcp", "http"); ok {
			t.Error("the ports of one set too many are looked for")
		}
		if _, ok := looks(maxSets); ok {
			t.Error("one set too many is looked for")
		}
		if _, ok := looks(0); !ok {
			t.Error("a set that is known is looked for no more")
		}
	})
}

// A virtual machine that is started has a Pod that waits for its networks, and one that was stopped has none.
func TestLabelsOfAVirtualMachinesPort(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.list()
		w.put("db", "ingress", "egress")
		port := w.add("p", func(p *cloudteamv1.NetworkPort) {
			p.Annotations = map[string]string{consumer.AnnotationMadeFor: "VirtualMachine/vm"}
		})
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: "launcher", UID: "launcher", Labels: map[string]string{"app": "db"},
			Annotations: map[string]string{selection.Annotation: "net"},
		}}
		pod.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "kubevirt.io/v1", Kind: consumer.InstanceKind.Kind, Name: "vm", UID: "vm", Controller: new(true),
		}}
		w.wantMember(port, false, false)
		w.Show(pod)
		w.wantMember(port, true, true)
		pod = pod.DeepCopy()
		pod.Status.Phase = corev1.PodSucceeded
		w.Show(pod)
		w.wantMember(port, false, false)
	})
}

// Events about policies and their groups concern the ports that they may decide about.
func TestPortsThatPoliciesDecideAbout(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.list()
		w.put("db", "ingress", "egress")
		w.put("web", "ingress", "egress")
		names := func(ports []cache.ObjectName) (all []string) {
			for _, p := range ports {
				all = append(all, p.String())
			}
			slices.Sort(all)
			return all
		}
		w.add("a", nil)
		w.add("elsewhere", func(p *cloudteamv1.NetworkPort) { p.Spec.NetworkName = "another" })
		w.add("b", func(p *cloudteamv1.NetworkPort) { p.Namespace, p.Spec.NetworkNamespace = "other", "team" })
		want := []string{"team/a"}
		places := PlacesOf(w.policies.objects.List()[0].(*Object))
		if len(places) != 1 || !cmp.Equal(names(w.policies.PortsAt(places[0])), want) {
			t.Errorf("a policy decides about %v, want %v", places, want)
		}
		if got := PlacesOf(&cloudteamv1.Network{}); got != nil {
			t.Errorf("a Network decides about %v", got)
		}
		if got := names(w.policies.PortsOf("team")); !cmp.Equal(got, want) {
			t.Errorf("in the namespace's groups may be %v, want %v", got, want)
		}
	})
}

// A policy that comes is about few of a Network's ports, and only those are synced for it.
func TestOnlyPortsAboutWhichPoliciesDecideOtherwiseFollow(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.list()
		db := w.add("db", func(p *cloudteamv1.NetworkPort) { p.Labels = map[string]string{"app": "db"} })
		web := w.add("web", func(p *cloudteamv1.NetworkPort) { p.Labels = map[string]string{"app": "web"} })
		net := placeOf(db)
		holds := func(when string, is func(cache.ObjectName) bool, want ...string) {
			t.Helper()
			var got []string
			for _, port := range []*cloudteamv1.NetworkPort{db, web} {
				if is(cache.MetaObjectToName(port)) {
					got = append(got, port.Name)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s, it is true of %v, want %v", when, got, want)
			}
		}
		decide := func() { w.policies.Decide(db); w.policies.Decide(web) }
		decide()
		holds("without policies", w.policies.Otherwise(net))
		w.put("db", "ingress")
		holds("with one about db", w.policies.Otherwise(net), "db")
		decide()
		holds("once it was followed", w.policies.Otherwise(net))
		for name := range w.wantGroups("policy-db", "policy-open-egress") {
			full := w.wantGroups("policy-db", "policy-open-egress")[name].Name
			w.policies.Touched(cache.NewObjectName("team", full))
			holds("about group "+name, w.policies.InTouched("team"), "db")
			holds("about no group", w.policies.InTouched("team"))
		}
		w.put("db", "ingress", "web")
		holds("with web among the members of a group", w.policies.Otherwise(net), "web")
		w.policies.remember(cache.MetaObjectToName(db), deciding)
		holds("while it is being decided", w.policies.Otherwise(net), "db", "web")
		decide()
		w.source.Delete(raw("db", toAll))
		w.settle()
		holds("after the policy", w.policies.Otherwise(net), "db", "web")
		decide()
		if n := len(w.policies.decided); n > 0 {
			t.Errorf("it remembers %d ports about which nobody decides", n)
		}
		w.put("db", "ingress", "web")
		decide()
		w.policies.Forget(db) // another one took the name, and was synced before the event of its deletion came
		w.source.Delete(raw("db", toAll))
		w.settle()
		holds("after the policy, with another port of the name", w.policies.Otherwise(net), "db", "web")
		w.put("db", "ingress", "web")
		decide()
		for _, port := range []*cloudteamv1.NetworkPort{db, web} {
			expect.NoError(t, w.policies.ports.Delete(port))
			w.policies.Forget(port)
			w.policies.Decide(port) // by a sync that began before
		}
		if n := len(w.policies.decided); n > 0 {
			t.Errorf("it remembers %d ports that are gone", n)
		}
		holds("of ports that are gone", w.policies.Otherwise(net), "db", "web")
	})
}

// An annotation and an Event hold so much and no more.
func TestProblemsAreCutOnlyIfTheyAreTooLong(t *testing.T) {
	if text := strings.Repeat("a", MaxProblem); limited([]string{text}) != text {
		t.Errorf("it became %q", limited([]string{text}))
	}
	if got := limited([]string{strings.Repeat("ü", MaxProblem)}); len(got) > MaxProblem || len(got) < MaxProblem-len("ü") || !strings.HasSuffix(got, "ü…") {
		t.Errorf("it has %d bytes: %q", len(got), got)
	}
	expect.Equal(t, "a; b", limited([]string{"a", "b"}), "the limited problems")
}

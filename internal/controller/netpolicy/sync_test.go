package netpolicy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"

	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/internal/policy"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// world is the controller between an API server that is played and a source of MultiNetworkPolicies.
type world struct {
	*controllertest.World[*cloudteamv1.SecurityGroup]
	source   *fcache.FakeControllerSource
	policies *Policies
	c        *Controller
	list     func()
	// reads are the names of policies that were read again.
	reads []string
}

// inWorld runs a test in a bubble of synthetic time, with Network team/net and the given objects. The policies are not
// listed before list.
func inWorld(t *testing.T, test func(t *testing.T, w *world), objects ...controllertest.Object) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{
			World:  controllertest.NewWorld[*cloudteamv1.SecurityGroup](t, cache.NewObjectName("team", "none")),
			source: fcache.NewFakeControllerSource(),
		}
		t.Cleanup(w.source.Shutdown)
		controllertest.Serve(w.API, w.Clients, controllertest.SecurityGroups,
			controllertest.Rules[*cloudteamv1.SecurityGroup]{})
		network := &cloudteamv1.Network{}
		network.Namespace, network.Name, network.UID, network.Generation = "team", "net", "net-uid", 1
		w.Create(append(objects, network)...)
		w.NewInformers()
		caches, err := consumer.NewCaches(consumer.InformersOf(w.Informers, w.KubeInformers), nil)
		expect.NoError(t, err)
		informer := cache.NewSharedIndexInformer(w.source, &unstructured.Unstructured{}, 0, cache.Indexers{})
		groups := w.Informers.Cloudteam().V1().SecurityGroups()
		w.policies, err = NewPolicies(informer, groups, caches, func(string) labels.Set { return nil })
		expect.NoError(t, err)
		read := func(_ context.Context, namespace, name string) (*unstructured.Unstructured, error) {
			w.reads = append(w.reads, name)
			list, err := w.source.List(metav1.ListOptions{})
			if err != nil {
				return nil, err
			}
			all, err := meta.ExtractList(list)
			for _, obj := range all {
				if o := obj.(*unstructured.Unstructured); o.GetNamespace() == namespace && o.GetName() == name {
					return o, err
				}
			}
			return nil, err
		}
		c, err := NewController(w.Clients.CloudteamV1(), read, w.policies, groups,
			w.KubeInformers.Core().V1().Namespaces().Informer(), w.Events)
		expect.NoError(t, err)
		w.c = c
		w.list = func() { go informer.RunWithContext(t.Context()); w.settle() }
		w.Start(controllertest.Process{Loop: c.Loop, Caches: []cache.Indexer{groups.Informer().GetIndexer()}})
		w.Run(c.Run, 1)
		test(t, w)
	})
}

func (w *world) settle() { controllertest.Settle(3 * time.Second) }

// put makes the policy of a name, with the words of a spec: "ingress" and "egress" restrict these directions, "web"
// allows to receive from app=web, and "problem" is a rule that Neutron cannot have.
func (w *world) put(name string, words ...string) *unstructured.Unstructured {
	app := func(value string) map[string]any {
		return map[string]any{"podSelector": map[string]any{"matchLabels": map[string]any{"app": value}}}
	}
	spec := app("db")
	var directions, rules []any
	for _, word := range words {
		switch word {
		case "ingress", "egress":
			directions = append(directions, strings.ToUpper(word[:1])+word[1:])
		case "web":
			rules = append(rules, map[string]any{"from": []any{app("web")}})
		case "problem":
			rules = append(rules, map[string]any{"ports": []any{map[string]any{"protocol": "ICMP"}}})
		}
	}
	spec["policyTypes"], spec["ingress"] = directions, rules
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	obj.SetNamespace("team")
	obj.SetName(name)
	obj.SetUID(types.UID("uid-of-" + name))
	obj.SetAnnotations(map[string]string{policy.AnnotationFor: "net"})
	w.source.Modify(obj)
	w.settle()
	return obj
}

// wantGroups holds the SecurityGroups, by their names up to a hash, against what they should be.
func (w *world) wantGroups(want ...string) (all map[string]*cloudteamv1.SecurityGroup) {
	w.T.Helper()
	found, err := w.Clients.CloudteamV1().SecurityGroups("team").List(w.T.Context(), metav1.ListOptions{})
	expect.NoError(w.T, err)
	all = map[string]*cloudteamv1.SecurityGroup{}
	var names []string
	for _, g := range found.Items {
		short := g.Name
		if g.Annotations[consumer.AnnotationMadeFor] == MadeFor {
			short = g.Name[:strings.LastIndexByte(g.Name, '-')]
		}
		names, all[short] = append(names, short), &g
	}
	slices.Sort(names)
	expect.Equal(w.T, want, names, "SecurityGroups")
	return all
}

func TestAPolicyHasItsGroupsAndNoOthers(t *testing.T) {
	users := &cloudteamv1.SecurityGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "policy-mine", UID: "mine"}}
	inWorld(t, func(t *testing.T, w *world) {
		w.list()
		obj := w.put("db", "ingress", "web")
		rules := len(w.wantGroups("policy-db", "policy-members", "policy-mine", "policy-open-egress")["policy-db"].Spec.Rules)
		expect.Equal(t, 3, rules, "rules of the policy's group: one a family, and one that closes egress")
		w.put("db", "ingress", "egress")
		if rules := w.wantGroups("policy-db", "policy-mine")["policy-db"].Spec.Rules; len(rules) != 1 {
			t.Errorf("the edited policy's group has the rules %v, want the one that closes egress", rules)
		}
		w.source.Delete(obj)
		w.settle()
		w.wantGroups("policy-mine")
	}, users)
}

func TestAUsersGroupOfThePolicysNameIsLeftAlone(t *testing.T) {
	p := policy.Policy{Name: "db", On: []cache.ObjectName{cache.NewObjectName("team", "net")}, Ingress: true, Egress: true}
	groups, _, _ := policy.Groups([]policy.Policy{p}, nil)
	users := &cloudteamv1.SecurityGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: groups[0].Name, UID: "mine"}}
	inWorld(t, func(t *testing.T, w *world) {
		w.list()
		obj := w.put("db", "ingress", "egress")
		w.source.Delete(obj)
		w.settle()
		if is := w.wantGroups(users.Name)[users.Name]; len(is.Spec.Rules) > 0 || is.DeletionTimestamp != nil {
			t.Errorf("it became %+v", is)
		}
	}, users)
}

// Another policy's problem, or the same one again, is another matter than a problem that is gone.
func TestAProblemIsToldOncePerPolicyUntilItIsGone(t *testing.T) {
	const incomplete = "Warning " + cloudteamv1.EventPolicyIncomplete
	inWorld(t, func(t *testing.T, w *world) {
		w.list()
		w.put("db", "ingress", "problem")
		w.Events.WantReasons(t, incomplete)
		w.put("other", "ingress")
		obj := w.put("db", "ingress", "problem", "web") // the same problem
		w.Events.WantReasons(t)
		problem := func() (says string, told bool) {
			all := w.wantGroups("policy-db", "policy-members", "policy-open-egress", "policy-other")
			says, told = all["policy-db"].Annotations[cloudteamv1.AnnotationPolicyProblem]
			return says, told
		}
		if says, _ := problem(); !strings.Contains(says, "is none of TCP, UDP and SCTP") {
			t.Errorf("the group's annotation says %q", says)
		}
		w.put("db", "ingress", "web")
		w.Events.WantReasons(t)
		if says, told := problem(); told {
			t.Errorf("the group still tells of %q", says)
		}
		w.put("db", "ingress", "problem")
		w.Events.WantReasons(t, incomplete)
		w.source.Delete(obj)
		w.settle()
		w.put("db", "ingress", "problem")
		w.Events.WantReasons(t, incomplete)
	})
}

func TestLabelsOfAPort(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team", Name: "db-0", UID: "pod", Labels: map[string]string{"app": "db"},
	}}
	inWorld(t, func(t *testing.T, w *world) {
		own := &cloudteamv1.NetworkPort{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "own"}}
		own.Spec.NetworkName = "net"
		w.wantMember(own, false, false) // no policy is listed yet
		w.wantLacks(own, "not been listed")
		w.list()
		w.wantMember(own, false, true)
		w.put("db", "ingress")
		w.wantMember(own, false, true)
		own.Labels = map[string]string{"app": "db"}
		w.wantMember(own, true, true)
		w.wantLacks(own, "is not Ready")
		own.Labels = map[string]string{TooManyLabels: ""}
		w.wantMember(own, false, false)

		made := own.DeepCopy()
		made.Labels, made.Annotations = nil, map[string]string{consumer.AnnotationMadeFor: "Pod/db-0"}
		w.wantMember(made, false, false) // there is no such Pod
		made.Annotations[consumer.AnnotationMadeFor] = "StatefulSet/db/0"
		w.wantMember(made, false, false)
		made.Annotations[consumer.AnnotationMadeFor] = "Deployment/db"
		w.wantMember(made, false, false)
		w.Show(pod)
		made.Annotations[consumer.AnnotationMadeFor] = "Pod/db-0"
		w.wantMember(made, true, true)
		template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels}}
		set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "db"}}
		set.Spec.Template = template
		deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "db", UID: "deployment"}}
		deployment.Spec.Template = template
		w.Show(set)
		w.Show(deployment)
		made.Annotations[consumer.AnnotationMadeFor] = "StatefulSet/db/0"
		w.wantMember(made, true, true)
		made.Annotations = nil
		made.OwnerReferences = []metav1.OwnerReference{
			*metav1.NewControllerRef(deployment, appsv1.SchemeGroupVersion.WithKind("Deployment")),
		}
		w.wantMember(made, true, true)
		own.Status.BoundTo = &cloudteamv1.PortBinding{Kind: "Pod", Name: "db-0", UID: "pod"}
		w.wantMember(own, true, true)
		own.Status.BoundTo.UID = "another"
		w.wantMember(own, false, false)
	})
}

// add puts a NetworkPort of a namespace on Network team/net into the cache.
func (w *world) add(name string, change func(*cloudteamv1.NetworkPort)) *cloudteamv1.NetworkPort {
	w.T.Helper()
	port := &cloudteamv1.NetworkPort{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team", Name: name, Labels: map[string]string{"app": "db"},
	}}
	port.Spec.NetworkName = "net"
	if change != nil {
		change(port)
	}
	expect.NoError(w.T, w.policies.ports.Add(port))
	return port
}

// wantMember holds whether policies select a port, and whether that is known.
func (w *world) wantMember(port *cloudteamv1.NetworkPort, selected, known bool) {
	w.T.Helper()
	if m, is := w.policies.Member(port); m.Selected != selected || is != known {
		w.T.Errorf("port %s is selected %t, known %t, want %t, %t", port.Name, m.Selected, is, selected, known)
	}
}

// wantLacks holds what a port is said to lack; "" for nothing.
func (w *world) wantLacks(port *cloudteamv1.NetworkPort, says string) {
	w.T.Helper()
	if lacks := w.policies.Lacks(port); says == "" && lacks != "" || !strings.Contains(lacks, says) {
		w.T.Errorf("port %s with the labels %v, in the groups %v, lacks %q, want %q", port.Name, port.Labels,
			port.Status.SecurityGroupIDs, lacks, says)
	}
}

// ready has all groups be Ready, each with its name as its id.
func (w *world) ready() {
	w.T.Helper()
	for _, g := range w.policies.groups.List() {
		name := g.(*cloudteamv1.SecurityGroup).Name
		report(w.T, w, name, name, 1, true)
	}
}

// A Pod may get a port that was in groups for another Pod.
func TestAPortLacksNothingOnceItIsInItsGroupsAndNoOthers(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.list()
		w.put("db", "ingress", "web")
		w.ready()
		all := w.wantGroups("policy-db", "policy-members", "policy-open-egress")
		db, members, open := all["policy-db"].Name, all["policy-members"].Name, all["policy-open-egress"].Name
		for _, test := range []struct {
			app   string
			in    []string
			lacks string
		}{
			{"db", []string{db, open}, ""},
			{"db", []string{db}, "joins the groups"},
			{"db", []string{db, open, members}, "leaves the groups"},
			{"db", []string{db, open, "another"}, "leaves the groups"},
			{"web", []string{members, "another"}, ""},
			{"web", []string{"another"}, "joins the groups"},
			{"other", []string{"another"}, ""},
			{"other", []string{"another", members}, "leaves the groups"},
			{"other", []string{"another", open}, "leaves the groups"},
		} {
			port := w.add("p", func(p *cloudteamv1.NetworkPort) {
				p.Labels["app"], p.Status.SecurityGroupIDs = test.app, test.in
			})
			w.wantLacks(port, test.lacks)
		}
	})
}

// counted counts what is asked of the groups in the cache.
type counted struct {
	cache.Indexer
	gets, lists int
}

func (c *counted) GetByKey(key string) (any, bool, error) {
	c.gets++
	return c.Indexer.GetByKey(key)
}

func (c *counted) List() []any {
	c.lists++
	return c.Indexer.List()
}

// Each sync of a Pod asks what its ports lack, however many groups the namespace has.
func TestWhatAPortLacksIsFoundWithoutTheGroupsOfOthers(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.list()
		w.put("db", "ingress", "web")
		w.ready()
		all := w.wantGroups("policy-db", "policy-members", "policy-open-egress")
		in := []string{all["policy-db"].Name, all["policy-open-egress"].Name}
		port := w.add("p", func(p *cloudteamv1.NetworkPort) { p.Labels["app"], p.Status.SecurityGroupIDs = "db", in })
		asked := &counted{Indexer: w.policies.groups}
		w.policies.groups = asked
		w.wantLacks(port, "")
		if asked.gets != len(in) || asked.lists != 0 {
			t.Errorf("it reads %d groups and lists %d times, want its own %d and no list", asked.gets, asked.lists, len(in))
		}
	})
}

func TestAGroupIsOnItsWayUntilItHasItsRules(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.list()
		w.put("db", "ingress", "egress")
		name := w.wantGroups("policy-db")["policy-db"].Name
		coming := func(name string, want bool, when string) {
			t.Helper()
			expect.Equal(t, want, w.policies.Coming("team", name), "%s, it is coming", when)
		}
		coming("policy-of-none", true, "without a group")
		for _, test := range []struct {
			id      string
			applied int64
			want    bool
		}{{"", 0, true}, {"id", 0, true}, {"", 1, true}, {"id", 1, false}} {
			report(t, w, name, test.id, test.applied, false)
			coming(name, test.want, fmt.Sprintf("with id %q and generation %d applied", test.id, test.applied))
		}
		change := func(change func(*cloudteamv1.SecurityGroup)) {
			t.Helper()
			controllertest.Edit(t, w.API, cache.NewObjectName("team", name), change)
			w.settle()
		}
		change(func(g *cloudteamv1.SecurityGroup) {
			g.Status.SecurityGroupID, g.Status.AppliedGeneration = "", 0
			g.Finalizers, g.DeletionTimestamp = []string{cloudteamv1.SecurityGroupFinalizer}, new(metav1.Now())
		})
		coming(name, false, "while it is being deleted")
		change(func(g *cloudteamv1.SecurityGroup) { g.DeletionTimestamp, g.Annotations = nil, nil })
		coming(name, false, "made by somebody else")
	})
}

func TestWithoutPoliciesNothingIsLacking(t *testing.T) {
	var none *Policies
	port := &cloudteamv1.NetworkPort{}
	if m, known := none.Member(port); m.Selected || !known {
		t.Errorf("selected %t, known %t", m.Selected, known)
	}
	expect.Equal(t, "", none.Lacks(port), "what it lacks")
	if none.PortsOf("team") != nil || !none.HasSynced() {
		t.Error("there are policies")
	}
}

// A policy that cannot be read might select any Pod.
func TestAPolicyThatCannotBeReadOpensAndClosesNothing(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.list()
		obj := w.put("db", "ingress")
		port := w.add("p", nil)
		w.wantGroups("policy-db", "policy-open-egress")
		w.Events.WantReasons(t)
		obj = obj.DeepCopy()
		obj.Object["spec"] = map[string]any{"podSelector": "all"}
		w.source.Modify(obj)
		w.settle()
		w.wantMember(port, false, false)
		w.wantGroups("policy-db", "policy-open-egress")
		w.Events.WantReasons(t, "Warning "+cloudteamv1.EventPolicyIncomplete)
		w.put("db", "ingress", "egress")
		w.wantMember(port, true, true)
		w.wantGroups("policy-db")
	})
}

func TestWhatANetworkIsToPolicies(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.list()
		obj := w.put("db", "ingress", "egress")
		port := w.add("p", nil)
		w.wantGroups("policy-db")
		networks := w.policies.caches.Networks.Informer().GetIndexer()
		change := func(change func(*cloudteamv1.Network)) {
			t.Helper()
			network := &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "net"}}
			change(network)
			expect.NoError(t, networks.Update(network))
			w.source.Modify(obj)
			w.settle()
		}
		change(func(n *cloudteamv1.Network) { n.Spec.PortSecurity = new(false) })
		w.wantMember(port, false, true)
		w.wantGroups()
		change(func(*cloudteamv1.Network) {})
		w.wantMember(port, true, true)
		w.wantGroups("policy-db")
		// It is lost: what is on it stays as it is.
		expect.NoError(t, networks.Delete(&cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "net"}}))
		w.source.Modify(obj)
		w.settle()
		w.wantMember(port, false, false)
		w.wantGroups("policy-db")
		expect.NoError(t, w.policies.ports.Delete(port))
		w.source.Modify(obj)
		w.settle()
		w.wantGroups()
	})
}

// The class of a new Network shows in its status after its groups are made, and so does the groups' own.
func TestAGroupOfANewNetworkIsMadeOnce(t *testing.T) {
	for _, test := range []struct {
		name, network, group string
		anew                 bool
	}{
		{"both are in the default class", "open", `"class":{"name":"open"}`, false},
		{"nobody has seen the group yet", "open", "", false},
		{"the cloud was away", "open", `"observedGeneration":1`, false},
		{"there were no classes yet", "open", `"observedGeneration":1,"appliedGeneration":1`, true},
		{"there are no classes", "", `"observedGeneration":1,"appliedGeneration":1`, false},
		{"the default class changed in between", "open", `"class":{"name":"other"}`, true},
		{"there is no default class any more", "open", `"conditions":[{"type":"Ready","status":"False",` +
			`"reason":"ClassNotFound","message":"","lastTransitionTime":null}]`, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.list()
				obj := w.put("db", "ingress", "egress")
				was := w.wantGroups("policy-db")["policy-db"]
				if test.group != "" {
					body := fmt.Sprintf(`{"metadata":{"resourceVersion":%q},"status":{%s}}`,
						was.ResourceVersion, test.group)
					_, err := w.Clients.CloudteamV1().SecurityGroups("team").Patch(t.Context(), was.Name, types.MergePatchType,
						[]byte(body), metav1.PatchOptions{}, "status")
					expect.NoError(t, err)
				}
				network := &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "net"}}
				if test.network != "" {
					network.Status.Class = &cloudteamv1.AppliedClass{Name: test.network}
				}
				expect.NoError(t, w.policies.caches.Networks.Informer().GetIndexer().Update(network))
				w.source.Modify(obj)
				w.settle()
				is := w.wantGroups("policy-db")["policy-db"]
				if anew := is.UID != was.UID; anew != test.anew {
					t.Errorf("the group is another one: %t, want %t", anew, test.anew)
				}
				if test.anew && is.Spec.ClassName != test.network {
					t.Errorf("the group names class %q, want %q", is.Spec.ClassName, test.network)
				}
			})
		})
	}
}

// Whoever may write policies must not have the controller make groups without end.
func TestTooManyPoliciesMakeNoMoreGroups(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.list()
		for i := range maxGroups/3 + 20 {
			w.source.Modify(w.put(fmt.Sprintf("p%03d", i), "ingress", "egress"))
		}
		found, err := w.Clients.CloudteamV1().SecurityGroups("team").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(found.Items) != maxGroups/3 {
			t.Errorf("there are %d groups, %v", len(found.Items), err)
		}
		if _, known := w.policies.Member(w.add("p", nil)); known {
			t.Error("it is known what a policy says that is one too many")
		}
	})
}

func TestEditsOfAPolicysGroupAreReverted(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.list()
		w.put("db", "ingress", "egress")
		name := w.wantGroups("policy-db")["policy-db"].Name
		_, err := w.Clients.CloudteamV1().SecurityGroups("team").Patch(t.Context(), name, types.MergePatchType, []byte(
			`{"spec":{"rules":[],"managementPolicy":"Manage","stateful":false,"deletionPolicy":"Retain","driftPolicy":"Report"}}`),
			metav1.PatchOptions{})
		expect.NoError(t, err)
		w.settle()
		spec := w.wantGroups("policy-db")["policy-db"].Spec
		if len(spec.Rules) != 1 || spec.ManagementPolicy != "" || spec.Stateful != nil || spec.DeletionPolicy != "" ||
			spec.DriftPolicy != "" {
			t.Errorf("it is %+v", spec)
		}
	})
}

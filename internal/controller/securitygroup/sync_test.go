package securitygroup

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller/classes"
	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

var (
	webKey, dbKey = cache.NewObjectName("team", "web"), cache.NewObjectName("team", "db")
	here          = client.Identity{Endpoint: "https://neutron.test/", Region: "one", ProjectID: "p1"}
	owner         = plan.Owner{Cluster: "cluster-1", Object: "uid-web"}
)

// world is a controller that runs, between an API server and a cloud that are both played. Its informers are real.
type world struct {
	*controllertest.World[*cloudteamv1.SecurityGroup]
	c       *Controller
	classes *classes.Classes
}

func inWorld(t *testing.T, of *classes.Classes, test func(w *world), objects ...controllertest.Object) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{
			World:   controllertest.NewWorld[*cloudteamv1.SecurityGroup](t, webKey).WithNeutron(here, owner.Cluster),
			classes: of,
		}
		controllertest.Serve(w.API, w.Clients, controllertest.SecurityGroups,
			controllertest.Rules[*cloudteamv1.SecurityGroup]{Line: controllertest.WriteLine})
		w.Create(objects...)
		w.restart()
		test(w)
	})
}

// restart ends the controller, if one runs, and runs a new one, which knows nothing but what the API server and the
// cloud hold.
func (w *world) restart() {
	w.T.Helper()
	w.Stop()
	w.NewInformers()
	groups := w.Informers.Cloudteam().V1().SecurityGroups()
	v1 := w.Informers.Cloudteam().V1()
	in := &Members{Ports: v1.NetworkPorts(), Networks: v1.Networks()}
	c, err := NewController(w.Clients.CloudteamV1(), groups, in, w.Neutron, w.Events, owner.Cluster, w.classes)
	expect.NoError(w.T, err)
	w.c, w.Neutron.Moved = c, c.Moved
	w.Start(controllertest.Process{Loop: c.Loop, Caches: []cache.Indexer{
		groups.Informer().GetIndexer(), v1.NetworkPorts().Informer().GetIndexer(), v1.Networks().Informer().GetIndexer(),
	}})
	w.Run(c.Run, 2)
	w.settle()
}

func (w *world) settle() { controllertest.Settle(100 * time.Millisecond) }

// audit has the Inventory list, which tells the controller what moved.
func (w *world) audit() {
	w.T.Helper()
	w.Neutron.Audit(w.T)
	w.settle()
}

func (w *world) edit(change func(*cloudteamv1.SecurityGroup)) {
	w.T.Helper()
	w.Edit(change)
	w.settle()
}

// group gives the example's group in Neutron; its rules are sorted texts.
func (w *world) group() (g plan.ObservedGroup, rules []string) {
	w.T.Helper()
	for _, found := range w.Neutron.Groups() {
		if owner.Owns(found.Description) {
			expect.Equal(w.T, "", g.ID, "a second group beside %s", found.ID)
			g = found
		}
	}
	for _, r := range g.Rules {
		rules = append(rules, r.String())
	}
	slices.Sort(rules)
	return g, rules
}

func (w *world) wantRules(want ...string) {
	w.T.Helper()
	if _, rules := w.group(); !slices.Equal(rules, want) {
		w.T.Errorf("the group has the rules %q, want %q", rules, want)
	}
}

func secgroup(name string, rules ...cloudteamv1.SecurityGroupRule) *cloudteamv1.SecurityGroup {
	return &cloudteamv1.SecurityGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID("uid-" + name)},
		Spec:       cloudteamv1.SecurityGroupSpec{Rules: rules},
	}
}

func allow(port int32) cloudteamv1.SecurityGroupRule {
	return cloudteamv1.SecurityGroupRule{Direction: "ingress", Protocol: "tcp", PortRangeMin: &port}
}

func from(group string) cloudteamv1.SecurityGroupRule {
	return cloudteamv1.SecurityGroupRule{Direction: "ingress", RemoteGroup: group}
}

// blue makes "blue" the default class, and the only one.
func blue(spec cloudteamv1.NetworkClassSpec) *controllertest.Classes {
	return controllertest.NewClasses(&cloudteamv1.NetworkClass{
		ObjectMeta: metav1.ObjectMeta{Name: "blue", Annotations: map[string]string{cloudteamv1.AnnotationDefaultClass: "true"}},
		Spec:       spec,
	})
}

// fromAll is a rule that somebody made by hand, which lets everybody in.
var fromAll = plan.ObservedRule{ID: "by hand", Rule: plan.Rule{
	Direction: plan.Ingress, EtherType: plan.IPv4, PortMin: plan.NoPort, PortMax: plan.NoPort,
}}

// wantNothing holds that the SecurityGroup is gone, with all groups in Neutron.
func (w *world) wantNothing() {
	w.T.Helper()
	w.WantGone()
	expect.Empty(w.T, w.Neutron.Groups(), "groups in Neutron")
}

const (
	notReady   = "Ready=False Reconciling=True SecurityGroupNotReady"
	out4, out6 = "egress IPv4 any to anywhere", "egress IPv6 any to anywhere"
	https      = "ingress IPv4 tcp 443 from anywhere"
)

func TestGroupIsMadeKeptAndRemoved(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.WantState("Ready=True Available")
		g, _ := w.group()
		w.wantRules(out4, out6, https)
		if obj := w.Get(); obj.Status.SecurityGroupID != g.ID || obj.Status.RuleCount != 3 {
			t.Errorf("the status shows %+v, want group %s with 3 rules", obj.Status, g.ID)
		}
		w.Neutron.EditGroup(t, g.ID, func(g *plan.ObservedGroup) {
			g.Name = "renamed"
			g.Rules = append(g.Rules[1:], fromAll)
		})
		w.audit()
		w.wantRules(out4, out6, https)
		if g, _ := w.group(); g.Name != "web" {
			t.Errorf("the group is called %q", g.Name)
		}
		w.edit(func(obj *cloudteamv1.SecurityGroup) {
			obj.Spec.Rules = []cloudteamv1.SecurityGroupRule{{Direction: "egress", EtherType: "IPv6", Protocol: "udp"}}
		})
		w.wantRules("egress IPv6 udp to anywhere")
		w.restart()
		w.wantRules("egress IPv6 udp to anywhere")
		w.Delete()
		w.settle()
		w.wantNothing()
	}, secgroup("web", allow(443)))
}

// TestGroupIsMadeOnce loses the answer to each write in turn, and restarts after it.
func TestGroupIsMadeOnce(t *testing.T) {
	for _, action := range []plan.Action{plan.CreateGroup, plan.CreateRules, plan.DeleteRule, plan.UpdateGroup} {
		t.Run(string(action), func(t *testing.T) {
			inWorld(t, nil, func(w *world) {
				lost := &client.Error{Kind: client.Transient, Op: string(action), Reason: "no answer in time", MaybeDone: true}
				w.Neutron.After = controllertest.Fails(action, 1, lost)
				rule := cloudteamv1.SecurityGroupRule{Direction: "egress", Protocol: "tcp"}
				w.API.Create(t, secgroup("web", allow(443), rule))
				w.settle()
				w.edit(func(obj *cloudteamv1.SecurityGroup) { obj.Spec.Description = "d" })
				w.restart()
				controllertest.Settle(time.Minute)
				w.wantRules("egress IPv4 tcp to anywhere", https)
				w.WantState("Ready=True Available")
			})
		})
	}
}

func TestGroupsWithRulesAboutEachOther(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.WantState(notReady)
		w.WantMessage("SecurityGroup db does not exist")
		w.wantRules(out4, out6, "ingress IPv4 any from its own members", https)
		w.API.Create(t, secgroup("db", from("web")))
		w.settle()
		db := controllertest.Get[*cloudteamv1.SecurityGroup](t, w.API, dbKey)
		w.WantState("Ready=True Available")
		about := "ingress IPv4 any from group " + db.Status.SecurityGroupID
		w.wantRules(out4, out6, about, "ingress IPv4 any from its own members", https)

		w.API.Delete(t, db)
		w.settle()
		w.WantState(notReady)
		w.audit()
		w.wantRules(out4, out6, "ingress IPv4 any from its own members", https)
	}, secgroup("web", allow(443), from("web"), from("db")))
}

// TestOtherNamespacesGroupHasNoName holds that a rule reaches groups of its own namespace only.
func TestOtherNamespacesGroupHasNoName(t *testing.T) {
	theirs := secgroup("db")
	theirs.Namespace = "other"
	theirs.Status.SecurityGroupID = "theirs"
	inWorld(t, nil, func(w *world) {
		w.wantRules(out4, out6)
		w.WantState(notReady)
	}, theirs, secgroup("web", from("db")))
}

// TestARuleIsAboutNoGroupThatATenantsCloudTells has a tenant's own cloud tell the id of somebody's group in the
// operator's cloud, which a rule of a group in that cloud is about.
func TestARuleIsAboutNoGroupThatATenantsCloudTells(t *testing.T) {
	known, told := cloudteamv1.CloudStatus(here), cloudteamv1.CloudStatus(here)
	told.Endpoint = "https://tenant.test/"
	theirs := &cloudteamv1.CredentialsStatus{Namespace: "team", SecretName: "mine"}
	for sentence, status := range map[string]cloudteamv1.ResourceStatus{
		"by the tenant's credentials":    {Cloud: &known, Credentials: theirs},
		"by an endpoint of the tenant's": {Cloud: &told},
	} {
		t.Run(sentence, func(t *testing.T) {
			of := secgroup("db")
			of.Annotations = map[string]string{cloudteamv1.AnnotationPaused: ""} // it stays as it is told
			of.Status.ResourceStatus, of.Status.SecurityGroupID = status, "g-victim"
			inWorld(t, nil, func(w *world) {
				w.Neutron.PutGroup(plan.ObservedGroup{ID: "g-victim"})
				w.edit(func(obj *cloudteamv1.SecurityGroup) {
					obj.Spec.Rules = []cloudteamv1.SecurityGroupRule{allow(443), from("db")}
				})
				if _, rules := w.group(); slices.ContainsFunc(rules, func(r string) bool { return strings.Contains(r, "g-victim") }) {
					t.Errorf("the group has the rules %q", rules)
				}
				if ready := w.Ready(); ready.Status == metav1.ConditionTrue {
					t.Errorf("it is Ready: %s", ready.Message)
				}
			}, of, secgroup("web", allow(443)))
		})
	}
}

// TestARuleStaysWhileAGroupIsMoved has one of two groups get the credentials of its class for the same project first.
func TestARuleStaysWhileAGroupIsMoved(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.WantState("Ready=True Available")
		_, before := w.group()
		controllertest.Edit(t, w.API, dbKey, func(obj *cloudteamv1.SecurityGroup) {
			obj.Status.Credentials = &cloudteamv1.CredentialsStatus{Namespace: "team", SecretName: "mine"}
			obj.Annotations = map[string]string{cloudteamv1.AnnotationPaused: ""}
		})
		w.settle()
		w.WantState("Ready=False Stalled=True CloudMismatch")
		w.wantRules(before...)
		controllertest.Edit(t, w.API, dbKey, func(obj *cloudteamv1.SecurityGroup) { obj.Status.Credentials = nil })
		w.settle()
		w.WantState("Ready=True Available")
	}, secgroup("db"), secgroup("web", allow(443), from("db")))
}

func TestPoliciesAreTheSpecs(t *testing.T) {
	obj := secgroup("web")
	obj.Spec.DeletionPolicy, obj.Spec.DriftPolicy = cloudteamv1.DeletionPolicyRetain, cloudteamv1.DriftPolicyReport
	is := policies(obj)
	expect.Equal(t, cloudteamv1.DeletionPolicyRetain, is.Deletion, "its deletion policy")
	expect.Equal(t, cloudteamv1.DriftPolicyReport, is.Drift, "its drift policy")
}

func TestClassJudgesGroup(t *testing.T) {
	of := blue(cloudteamv1.NetworkClassSpec{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "blue"}},
	})
	inWorld(t, of.Classes, func(w *world) {
		w.WantState("Ready=False Stalled=True ForbiddenByClass")
		expect.Empty(t, w.Neutron.Groups(), "groups of a namespace that its class does not select")
		of.Label("team", map[string]string{"team": "blue"})
		w.c.EnqueueNamespace("team")
		w.settle()
		w.WantState("Ready=True Available")
		if class := w.Get().Status.Class; class == nil || class.Name != "blue" {
			t.Errorf("the status shows class %+v", class)
		}
		of.Label("team", nil)
		w.c.EnqueueNamespace("team")
		w.settle()
		if !meta.IsStatusConditionTrue(w.Get().Status.Conditions, cloudteamv1.ConditionClassViolated) {
			t.Error("it does not tell that its class forbids it now")
		}
		w.wantRules(out4, out6)
	}, secgroup("web"))
}

func TestRetainedGroupStays(t *testing.T) {
	obj := secgroup("web", allow(443))
	obj.Spec.DeletionPolicy = cloudteamv1.DeletionPolicyRetain
	inWorld(t, nil, func(w *world) {
		w.Delete()
		w.settle()
		groups := w.Neutron.Groups()
		if w.Exists() || len(groups) != 1 || groups[0].Description != "[released]" || len(groups[0].Rules) != 3 {
			t.Errorf("after the deletion there are %v", groups)
		}
	}, obj)
}

// TestGroupWithPortsIsNotDeleted holds that a group stays as long as a NetworkPort's spec, or its Network's, names it.
func TestGroupWithPortsIsNotDeleted(t *testing.T) {
	port := func(namespace, name, id string, refs ...string) *cloudteamv1.NetworkPort {
		p := &cloudteamv1.NetworkPort{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: types.UID(namespace + name),
		}}
		p.Spec.NetworkName, p.Spec.NetworkNamespace, p.Spec.SecurityGroupRefs = "net", "team", refs
		p.Status.PortID = id
		return p
	}
	on := &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "net", UID: "uid-net"}}
	on.Spec.SecurityGroupRefs = []string{"web"}
	objects := []controllertest.Object{
		secgroup("web", allow(443)), on,
		port("team", "a", "id-a", "web"), port("team", "b", "id-b"), port("other", "c", "id-c"), port("team", "e", "id-f"),
		port("team", "f", "id-g"),
		port("team", "waits", "", "web"), port("team", "elsewhere", "id-d", "db"), port("other", "d", "id-e", "web"),
	}
	inWorld(t, nil, func(w *world) {
		w.Delete()
		w.settle()
		w.WantState("Ready=False Reconciling=True InUse")
		w.WantMessage("NetworkPort a, b, e and 1 more and 1 of other namespaces.")
		w.wantRules(out4, out6, https)
		w.API.Delete(t, objects[6])
		w.settle()
		w.WantMessage("NetworkPort a, b, e and 1 of other namespaces.")
		for _, at := range []int{2, 3, 5} {
			w.API.Delete(t, objects[at])
		}
		w.settle()
		w.WantMessage("In use by 1 of other namespaces.")
		controllertest.Edit(t, w.API, cache.NewObjectName("team", "net"), func(n *cloudteamv1.Network) {
			n.Spec.SecurityGroupRefs = nil
		})
		w.settle()
		w.wantNothing()
	}, objects...)
}

func TestClassLimitsGroups(t *testing.T) {
	of := blue(cloudteamv1.NetworkClassSpec{
		Limits: &cloudteamv1.ClassLimits{SecurityGroupsPerNamespace: new(int32(1)), NetworksPerNamespace: new(int32(0))},
	})
	older := secgroup("db")
	older.CreationTimestamp = metav1.Unix(1, 0)
	newer := secgroup("web")
	newer.CreationTimestamp = metav1.Unix(2, 0)
	inWorld(t, of.Classes, func(w *world) {
		w.WantState("Ready=False Stalled=True ClassLimitReached")
		w.WantMessage("allows 1 SecurityGroups per namespace")
		expect.Len(t, 1, w.Neutron.Groups(), "groups")
		w.API.Delete(t, older)
		w.settle()
		w.WantState("Ready=True Available")
	}, older, newer)
}

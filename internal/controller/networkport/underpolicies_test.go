package networkport

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"

	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/internal/controller/netpolicy"
	"cloudteam.ztgame.com/network-controller/internal/policy"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// dbFromWeb is a MultiNetworkPolicy on the example's Network: it selects the ports labeled app=db, which may receive
// from those labeled app=web.
func dbFromWeb() *unstructured.Unstructured {
	app := func(value string) map[string]any {
		return map[string]any{"podSelector": map[string]any{"matchLabels": map[string]any{"app": value}}}
	}
	spec := app("db")
	spec["ingress"] = []any{map[string]any{"from": []any{app("web")}}}
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	obj.SetNamespace("team")
	obj.SetName("db")
	obj.SetUID("uid-of-db")
	obj.SetAnnotations(map[string]string{policy.AnnotationFor: networkKey.Name})
	return obj
}

// groupNames are the names of the SecurityGroups of dbFromWeb, by their names without a hash.
func groupNames(t *testing.T) map[string]string {
	t.Helper()
	p, problems, ok := policy.Parse(dbFromWeb())
	if !ok || len(problems) > 0 {
		t.Fatal(problems)
	}
	groups, _, _ := policy.Groups([]policy.Policy{p}, nil)
	names := map[string]string{}
	for _, g := range groups {
		names[g.Name[:strings.LastIndexByte(g.Name, '-')]] = g.Name
	}
	return names
}

// underPolicy runs a test in a world with dbFromWeb, whose SecurityGroups are Ready: of policy-db, the group in Neutron
// is g-policy-db.
func underPolicy(t *testing.T, port *cloudteamv1.NetworkPort, test func(t *testing.T, w *world)) {
	t.Helper()
	objects := []controllertest.Object{exampleNetwork(), port}
	for short, name := range groupNames(t) {
		objects = append(objects, policysGroup(name, "g-"+strings.Replace(short, "-open-", "-", 1)))
	}
	inWorld(t, func(t *testing.T, w *world) {
		w.policies = fcache.NewFakeControllerSource()
		t.Cleanup(w.policies.Shutdown)
		w.policies.Add(dbFromWeb())
		w.restart()
		controllertest.Settle(time.Second) // caches are asked now and then whether they are full
		test(t, w)
	}, objects...)
}

// policysGroup is a group that the controller of policies made.
func policysGroup(name, id string) *cloudteamv1.SecurityGroup {
	g := group(name, id)
	g.Annotations = map[string]string{consumer.AnnotationMadeFor: netpolicy.MadeFor}
	return g
}

// labeled is the example with a label, and with groups of its own.
func labeled(app string, groups ...string) *cloudteamv1.NetworkPort {
	port := example()
	port.Labels = map[string]string{"app": app}
	port.Spec.SecurityGroups = groups
	return port
}

func label(app string) func(*cloudteamv1.NetworkPort) {
	return func(p *cloudteamv1.NetworkPort) { p.Labels = map[string]string{"app": app} }
}

func TestPoliciesDecideAboutTheGroupsOfAPort(t *testing.T) {
	underPolicy(t, labeled("db", "in-neutron"), func(t *testing.T, w *world) {
		w.wantGroups("g-policy-db", "g-policy-egress") // and none of the spec's
		w.editPort(label("web"))
		w.wantGroups("g-policy-members", "in-neutron")
		w.editPort(label("other"))
		w.wantGroups("in-neutron")
	})
}

func TestAPortWithoutGroupsGoesBackIntoTheCloudsDefault(t *testing.T) {
	underPolicy(t, labeled("db"), func(t *testing.T, w *world) {
		w.wantGroups("g-policy-db", "g-policy-egress")
		w.editPort(label("web"))
		w.wantGroups("g-policy-members", "sg-default")
		w.policies.Delete(dbFromWeb())
		w.settle()
		w.wantGroups("sg-default")
		expect.Equal(t, "", w.Get().Annotations[cloudteamv1.AnnotationTakeBack], "what it still remembers")
	})
}

func TestAPortLeavesAGroupOfPoliciesThatIsBeingDeleted(t *testing.T) {
	underPolicy(t, labeled("db", "in-neutron"), func(t *testing.T, w *world) {
		name := groupNames(t)["policy-db"]
		w.editGroup(name, func(g *cloudteamv1.SecurityGroup) {
			g.DeletionTimestamp, g.Finalizers = new(metav1.Unix(1, 0)), []string{cloudteamv1.SecurityGroupFinalizer}
		})
		w.wantGroups("g-policy-egress")
		w.editGroup(name, func(g *cloudteamv1.SecurityGroup) { g.Finalizers = nil })
		if _, exists := controllertest.Find[*cloudteamv1.SecurityGroup](w.API, cache.NewObjectName("team", name)); exists {
			t.Fatal("the SecurityGroup is not gone")
		}
		w.wantGroups("g-policy-egress")
		w.API.Create(t, policysGroup(name, "g-again"))
		w.settle()
		w.wantGroups("g-again", "g-policy-egress")
	})
}

// closingEgress is a second policy about the ports of dbFromWeb, and the name of its SecurityGroup.
func closingEgress(t *testing.T) (obj *unstructured.Unstructured, group string) {
	t.Helper()
	obj = dbFromWeb()
	obj.SetName("out")
	obj.SetUID("uid-of-out")
	obj.Object["spec"] = map[string]any{"podSelector": map[string]any{}, "policyTypes": []any{"Egress"}}
	p, problems, ok := policy.Parse(obj)
	if !ok || len(problems) > 0 {
		t.Fatal(problems)
	}
	groups, _, _ := policy.Groups([]policy.Policy{p}, nil)
	at := slices.IndexFunc(groups, func(g policy.Group) bool { return g.Policy == "out" })
	return obj, groups[at].Name
}

func TestAPortChangesItsGroupsOnceForANewPolicy(t *testing.T) {
	underPolicy(t, labeled("db"), func(t *testing.T, w *world) {
		controllertest.Settle(time.Hour)
		obj, name := closingEgress(t)
		w.Quiet()
		w.policies.Add(obj)
		w.settle()
		w.wantGroups("g-policy-db", "g-policy-egress")
		coming := policysGroup(name, "")
		coming.Status.AppliedGeneration, coming.Status.Conditions = 0, nil
		w.API.Create(t, coming)
		w.settle()
		w.wantGroups("g-policy-db", "g-policy-egress")
		w.WantState("Ready=True Available")
		w.editGroup(name, func(g *cloudteamv1.SecurityGroup) { g.Status = policysGroup(name, "g-policy-out").Status })
		w.wantGroups("g-policy-db", "g-policy-out")
		w.Calls.Want(t, "apply update port", "write status")
	})
}

func TestAPortDoesNotWaitLongForTheGroupOfANewPolicy(t *testing.T) {
	underPolicy(t, labeled("db"), func(t *testing.T, w *world) {
		controllertest.Settle(time.Hour)
		obj, name := closingEgress(t)
		w.policies.Add(obj)
		w.settle()
		w.wantGroups("g-policy-db", "g-policy-egress")
		controllertest.Settle(10 * time.Second)
		w.wantGroups("g-policy-db") // it allows less
		w.API.Create(t, policysGroup(name, "g-policy-out"))
		w.settle()
		w.wantGroups("g-policy-db", "g-policy-out")
		// No policy changes when a group is lost.
		controllertest.Edit(t, w.API, cache.NewObjectName("team", name), func(g *cloudteamv1.SecurityGroup) {
			g.Status.SecurityGroupID, g.Status.AppliedGeneration = "", 0
		})
		w.settle()
		w.wantGroups("g-policy-db")
	})
}

func TestAPortKeepsItsGroupsWhilePoliciesAreNotListed(t *testing.T) {
	underPolicy(t, labeled("db", "in-neutron"), func(t *testing.T, w *world) {
		w.unlisted = true
		w.restart()
		w.editPort(func(p *cloudteamv1.NetworkPort) { p.Spec.SecurityGroups = []string{"another"} })
		w.WantState("Ready=True Available")
		w.wantGroups("g-policy-db", "g-policy-egress")
		// A policy that is gone when they are listed sends no event.
		w.policies.Delete(dbFromWeb())
		w.list()
		controllertest.Settle(time.Second)
		w.wantGroups("another")
	})
}

func TestNoPortIsCreatedWhilePoliciesAreNotListed(t *testing.T) {
	underPolicy(t, labeled("db"), func(t *testing.T, w *world) {
		w.delete()
		w.wantPorts()
		w.unlisted = true
		w.restart()
		w.Create(labeled("db"))
		w.settle()
		w.wantPorts()
		w.WantState("Ready=False Reconciling=True SecurityGroupNotReady")
		w.list()
		controllertest.Settle(time.Second)
		w.wantGroups("g-policy-db", "g-policy-egress")
	})
}

func TestAnUnknownPodIsNoReasonToChangeGroups(t *testing.T) {
	underPolicy(t, labeled("db"), func(t *testing.T, w *world) {
		w.bind(&cloudteamv1.PortBinding{Kind: "Pod", Name: "gone", UID: "gone"})
		w.editPort(label("web"))
		if ports := w.Neutron.Ports(); !slices.Equal(ports[0].SecurityGroups, []string{"g-policy-db", "g-policy-egress"}) {
			t.Errorf("it is in %q", ports[0].SecurityGroups)
		}
	})
}

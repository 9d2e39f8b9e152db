package networkport

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// group is a SecurityGroup that is Ready, with a group in Neutron.
func group(name, id string) *cloudteamv1.SecurityGroup {
	g := &cloudteamv1.SecurityGroup{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team", Name: name, UID: types.UID("uid-of-" + name), Generation: 1,
	}}
	g.Status.SecurityGroupID, g.Status.AppliedGeneration = id, 1
	g.Status.Cloud = &cloudteamv1.CloudStatus{ProjectID: here.ProjectID}
	g.Status.Conditions = controller.SetState(nil, 1, controller.Ready("Available", "as declared"))
	return g
}

// naming is the example in the groups of SecurityGroups.
func naming(names ...string) *cloudteamv1.NetworkPort {
	port := example()
	port.Spec.SecurityGroupRefs = names
	return port
}

// giving is the example's Network, which has SecurityGroups for its ports.
func giving(names ...string) *cloudteamv1.Network {
	n := exampleNetwork()
	n.Spec.SecurityGroupRefs = names
	return n
}

func (w *world) editGroup(name string, change func(*cloudteamv1.SecurityGroup)) {
	w.T.Helper()
	controllertest.Edit(w.T, w.API, cache.NewObjectName("team", name), change)
	w.settle()
}

// wantGroups holds the only port's groups against what they should be.
func (w *world) wantGroups(want ...string) {
	w.T.Helper()
	ports := w.Neutron.Ports()
	if len(ports) != 1 || !slices.Equal(ports[0].SecurityGroups, want) {
		w.T.Errorf("Neutron has the ports %+v, want one in %q", ports, want)
	}
}

func TestAPortWaitsForItsSecurityGroupWithoutACall(t *testing.T) {
	for name, c := range map[string]struct {
		group *cloudteamv1.SecurityGroup // nil: there is none
		says  string
		comes func(w *world)
	}{
		"that does not exist": {nil, "SecurityGroup team/web does not exist", func(w *world) {
			w.API.Create(w.T, group("web", "g-web"))
		}},
		"that has no group yet": {of(group("web", ""), func(g *cloudteamv1.SecurityGroup) { g.Status.Conditions = nil }),
			"SecurityGroup team/web does not exist, or is not Ready", func(w *world) {
				w.editGroup("web", func(g *cloudteamv1.SecurityGroup) { g.Status = group("web", "g-web").Status })
			}},
		"whose rules are not there yet": {of(group("web", "g-web"), func(g *cloudteamv1.SecurityGroup) {
			g.Status.AppliedGeneration = 0
			g.Status.Conditions = controller.SetState(nil, 1, controller.Reconciling("QuotaExceeded", "full"))
		}), "SecurityGroup team/web does not exist, or is not Ready", func(w *world) {
			w.editGroup("web", func(g *cloudteamv1.SecurityGroup) { g.Status = group("web", "g-web").Status })
		}},
		"that is not Ready any more": {of(group("web", "g-web"), func(g *cloudteamv1.SecurityGroup) {
			g.Status.Conditions = controller.SetState(nil, 1, controller.Reconciling("QuotaExceeded", "full"))
		}), "SecurityGroup team/web is not Ready", func(w *world) {
			w.editGroup("web", func(g *cloudteamv1.SecurityGroup) { g.Status = group("web", "g-web").Status })
		}},
		"that is being deleted": {of(group("web", "g-web"), func(g *cloudteamv1.SecurityGroup) {
			g.DeletionTimestamp, g.Finalizers = new(metav1.Unix(1, 0)), []string{cloudteamv1.SecurityGroupFinalizer}
		}), "SecurityGroup team/web is being deleted", func(w *world) {
			w.API.DeleteByForce(w.T, group("web", ""))
			w.API.Create(w.T, group("web", "g-web"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []controllertest.Object{exampleNetwork(), naming("web", "db"), group("db", "g-db")}
			if c.group != nil {
				objects = append(objects, c.group)
			}
			inWorld(t, func(t *testing.T, w *world) {
				w.WantState("Ready=False Reconciling=True SecurityGroupNotReady")
				w.WantMessage(c.says)
				w.Calls.Want(t, "write status")
				w.wantPorts()

				c.comes(w)
				w.settle()
				w.WantState("Ready=True Available")
				w.wantGroups("g-db", "g-web")
			}, objects...)
		})
	}
}

func TestAPortFollowsItsSecurityGroups(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.wantGroups("g-web", "in-neutron")
		w.editGroup("web", func(g *cloudteamv1.SecurityGroup) { g.Status.SecurityGroupID = "g-web-2" })
		w.wantGroups("g-web-2", "in-neutron")

		// One that is missing or was never applied changes nothing.
		w.editPort(func(p *cloudteamv1.NetworkPort) { p.Spec.SecurityGroupRefs = []string{"web", "db"} })
		w.WantState("Ready=False Reconciling=True SecurityGroupNotReady")
		w.wantGroups("g-web-2", "in-neutron")
		w.API.Create(t, group("db", "g-db"))
		w.settle()
		w.WantState("Ready=True Available")
		w.wantGroups("g-db", "g-web-2", "in-neutron")

		// One that has a problem, or is being deleted, stays.
		w.editGroup("db", func(g *cloudteamv1.SecurityGroup) {
			g.Status.Conditions = controller.SetState(nil, 1, controller.Reconciling("QuotaExceeded", "full"))
			g.DeletionTimestamp, g.Finalizers = new(metav1.Unix(1, 0)), []string{cloudteamv1.SecurityGroupFinalizer}
		})
		w.WantState("Ready=True Available")
		w.wantGroups("g-db", "g-web-2", "in-neutron")

		w.editPort(func(p *cloudteamv1.NetworkPort) {
			p.Spec.SecurityGroupRefs, p.Spec.SecurityGroups = []string{}, nil
		})
		w.wantGroups()
	}, exampleNetwork(), group("web", "g-web"), of(naming("web"), func(p *cloudteamv1.NetworkPort) {
		p.Spec.SecurityGroups = []string{"in-neutron"}
	}))
}

func TestANetworkHasSecurityGroupsForItsPorts(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.wantGroups("g-web")
		w.editNetwork(func(n *cloudteamv1.Network) {
			n.Generation++
			n.Spec.SecurityGroupRefs = []string{"db"}
		})
		w.WantState("Ready=False Reconciling=True SecurityGroupNotReady")
		w.API.Create(t, group("db", "g-db"))
		w.settle()
		w.wantGroups("g-db")
		w.editPort(func(p *cloudteamv1.NetworkPort) { p.Spec.SecurityGroupRefs = []string{"web"} })
		w.wantGroups("g-web")
		w.editPort(func(p *cloudteamv1.NetworkPort) {
			p.Spec.SecurityGroupRefs, p.Spec.PortSecurity = nil, new(false)
		})
		w.WantState("Ready=False Stalled=True ForbiddenByClass")
	}, giving("web"), group("web", "g-web"), example())
}

// TestAnotherNamespacesSecurityGroupIsNotNamed holds that a port's names are those of its own namespace, and that what
// the Network has for it does not show in its status.
func TestAnotherNamespacesSecurityGroupIsNotNamed(t *testing.T) {
	theirs := func(name string) *cloudteamv1.SecurityGroup {
		g := group(name, "theirs")
		g.Namespace = "other"
		return g
	}
	there := func(n *cloudteamv1.Network) { n.Namespace, n.Spec.AllowedNamespaces = "other", []string{"team"} }
	from := func(p *cloudteamv1.NetworkPort) { p.Spec.NetworkNamespace = "other" }
	for name, c := range map[string]struct {
		network *cloudteamv1.Network
		port    *cloudteamv1.NetworkPort
		group   *cloudteamv1.SecurityGroup
		state   string
		says    string
		in      []string
	}{
		"a name of the Network's namespace means nothing": {
			of(exampleNetwork(), there), of(naming("web"), from), theirs("web"),
			"Ready=False Reconciling=True SecurityGroupNotReady", "SecurityGroup team/web does not exist", nil},
		"a name of its own does": {
			of(exampleNetwork(), there), of(naming("web"), from), group("web", "g-web"), "Ready=True Available", "",
			[]string{"g-web"}},
		"what the Network has for it is the Network's": {
			of(giving("web"), there), of(example(), from), theirs("web"), "Ready=True Available", "", []string{"theirs"}},
		"what is not there is not shown": {
			of(giving("web"), there), of(example(), from), theirs("db"),
			"Ready=False Reconciling=True SecurityGroupNotReady", "A SecurityGroup that Network other/example-network has", nil},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(_ *testing.T, w *world) {
				w.WantState(c.state)
				w.WantMessage(c.says)
				if c.in != nil {
					w.wantGroups(c.in...)
				} else {
					w.wantPorts()
				}
			}, c.network, c.port, c.group)
		})
	}
}

// TestAGroupThatATenantsCloudTellsIsRefused: a tenant's own cloud can tell the project of the operator's, and the id of
// another tenant's group there.
func TestAGroupThatATenantsCloudTellsIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		// tell has the group be another's, and mend takes that back.
		tell, mend func(*cloudteamv1.SecurityGroup)
		says       string
	}{
		"of another project": {
			func(g *cloudteamv1.SecurityGroup) { g.Status.Cloud.ProjectID = "p2" },
			func(g *cloudteamv1.SecurityGroup) { g.Status.Cloud.ProjectID = here.ProjectID },
			"team/web is in another project"},
		"by a tenant's credentials": {
			func(g *cloudteamv1.SecurityGroup) {
				g.Status.Credentials = &cloudteamv1.CredentialsStatus{Namespace: "team", SecretName: "mine"}
			},
			func(g *cloudteamv1.SecurityGroup) { g.Status.Credentials = nil },
			"or there by others' credentials"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(_ *testing.T, w *world) {
				w.WantState("Ready=False Stalled=True InvalidSpec")
				w.WantMessage(c.says)
				w.wantPorts()
				w.editGroup("web", c.mend)
				w.WantState("Ready=True Available")
			}, of(exampleNetwork(), func(n *cloudteamv1.Network) {
				n.Status.Cloud = new(cloudteamv1.CloudStatus(here))
			}), naming("web"), of(group("web", "g-web"), c.tell))
		})
	}
}

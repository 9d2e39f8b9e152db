package securitygroup

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestWhatMattersToSecurityGroups(t *testing.T) {
	type groups = controllertest.Edits[*cloudteamv1.SecurityGroup]
	controllertest.WantSame(t, sameForOthers, secgroup("db"), groups{
		"the group":    func(g *cloudteamv1.SecurityGroup) { g.Status.SecurityGroupID = "id-1" },
		"the deletion": func(g *cloudteamv1.SecurityGroup) { g.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} },
		"whose cloud it is": func(g *cloudteamv1.SecurityGroup) {
			g.Status.Credentials = &cloudteamv1.CredentialsStatus{Namespace: g.Namespace}
		},
		"the cloud": func(g *cloudteamv1.SecurityGroup) { g.Status.Cloud = &cloudteamv1.CloudStatus{} },
	}, groups{
		"conditions": func(g *cloudteamv1.SecurityGroup) { g.Status.Conditions = []metav1.Condition{{}} },
		"rules":      func(g *cloudteamv1.SecurityGroup) { g.Spec.Rules = []cloudteamv1.SecurityGroupRule{allow(443)} },
	})
	type networks = controllertest.Edits[*cloudteamv1.Network]
	controllertest.WantSame(t, sameGroups, &cloudteamv1.Network{}, networks{
		"its groups": func(n *cloudteamv1.Network) { n.Spec.SecurityGroupRefs = []string{"web"} },
	}, networks{
		"the rest of its spec": func(n *cloudteamv1.Network) { n.Generation++ },
	})
}

// TestAPortThatLeavesWakesItsGroups holds which SecurityGroups in deletion a NetworkPort may be in.
func TestAPortThatLeavesWakesItsGroups(t *testing.T) {
	groups := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, name := range []string{"own", "given", "stays"} {
		group := secgroup(name)
		if name != "stays" {
			group.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		}
		expect.NoError(t, groups.Add(group))
	}
	networks := cache.NewStore(cache.MetaNamespaceKeyFunc)
	on := &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "net"}}
	on.Spec.SecurityGroupRefs = []string{"given", "stays"}
	expect.NoError(t, networks.Add(on))
	key := func(name string) cache.ObjectName { return cache.NewObjectName("team", name) }

	leftBy := (&kind{groups: groups}).leftBy(networks)
	for what, test := range map[string]struct {
		network    string
		refs, bare []string
		want       []cache.ObjectName
	}{
		"with groups of its own":           {network: "net", refs: []string{"own", "stays"}, want: []cache.ObjectName{key("own")}},
		"with none, by choice":             {network: "net", refs: []string{}},
		"with groups by their ids":         {network: "net", bare: []string{"id-1"}},
		"with those of its Network":        {network: "net", want: []cache.ObjectName{key("given")}},
		"on a Network that does not exist": {network: "gone"},
	} {
		port := &cloudteamv1.NetworkPort{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "a"}}
		port.Spec.NetworkName, port.Spec.SecurityGroupRefs, port.Spec.SecurityGroups = test.network, test.refs, test.bare
		expect.Equal(t, test.want, leftBy(port), "the groups that a port wakes %s", what)
	}
	expect.Empty(t, leftBy(on), "the groups that something else wakes as a port")
}

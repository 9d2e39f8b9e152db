package why

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// space is a namespace of a team.
func space(name, team string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": team}}}
}

// limited is a class for namespaces of team b, with limits and credentials of its own.
func limited(c *cloudteamv1.NetworkClass) {
	c.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "b"}}
	c.Spec.Credentials = &cloudteamv1.ClassCredentials{SecretName: "team-b", Name: "b"}
	c.Spec.Limits = &cloudteamv1.ClassLimits{NetworksPerNamespace: new(int32(2)), PortsPerNetwork: new(int32(20)),
		PortsPerDeployment: new(int32(10)), SecurityGroupsPerNamespace: new(int32(3))}
}

// refused is a Network that team-b refuses.
func refused(namespace, name string) *cloudteamv1.Network {
	return network("False", "ForbiddenByClass", withClass("team-b"), func(n *cloudteamv1.Network) {
		n.Namespace, n.Name = namespace, name
		n.Status.Conditions[0].Message = `NetworkClass "team-b" forbids spec.import.`
	})
}

func classQuestions() (all []question) {
	for _, reason := range []string{"CredentialsRejected", "CredentialsUnavailable"} {
		all = append(all, question{reason: reason, ask: "NetworkClass team-b",
			objects: on(aClass(limited), network("False", reason, withClass("team-b"))),
			chain: "NetworkClass team-b Class > Network shop/frontend " + reason +
				" > Secret network-controller/team-b Credentials"})
	}
	elsewhere := func(n *cloudteamv1.Network) { // the controller was installed in another namespace
		n.Status.Credentials = &cloudteamv1.CredentialsStatus{Namespace: "nets", SecretName: "team-b"}
	}
	return append(all,
		question{reason: "CloudUnavailable", ask: "NetworkClass team-b", objects: on(aClass(limited),
			network("False", "CloudUnavailable", withClass("team-b"))), remedy: "Neutron and Keystone",
			chain: "NetworkClass team-b Class > Network shop/frontend CloudUnavailable"},
		question{reason: "CredentialsRejected", ask: "NetworkClass team-b", objects: on(aClass(limited),
			network("False", "CredentialsRejected", withClass("team-b"), elsewhere)), remedy: "Correct the password",
			chain: "NetworkClass team-b Class > Network shop/frontend CredentialsRejected > Secret nets/team-b Credentials"},
		// Objects with their own credentials, or of another class, say nothing about this one.
		question{reason: "CredentialsRejected", ask: "NetworkClass team-b", objects: on(aClass(),
			network("False", "CredentialsRejected", withClass("team-b"), withCloud)),
			remedy: "Its credentials are the controller's own; 0 of its 0 objects"},
		question{reason: "CredentialsRejected", ask: "NetworkClass team-b", objects: on(aClass(),
			network("False", "CredentialsRejected")), remedy: "0 of its 0 objects"},
		question{reason: "Available", ask: "NetworkClass team-b", remedy: "1 of its 1 objects", // it is the default one
			objects: on(good(), aClass(func(c *cloudteamv1.NetworkClass) {
				c.Annotations = map[string]string{cloudteamv1.AnnotationDefaultClass: "true"}
			}))},
		question{reason: "ForbiddenByClass", ask: "NetworkClass team-b", objects: on(aClass(), refused("shop", "lab")),
			remedy: "Nothing is wrong", warning: "ForbiddenByClass: 1 of the objects, in shop (1). The first is Network " +
				`shop/lab: NetworkClass "team-b" forbids spec.import.`},
		question{reason: "ClassViolated", ask: "NetworkClass team-b", remedy: "1 of its 1 objects", objects: on(aClass(),
			network("True", "Available", withClass("team-b"), withCondition("ClassViolated", "ForbiddenByClass"),
				func(n *cloudteamv1.Network) {
					n.Status.Conditions[1].Message = `NetworkClass "team-b" forbids spec.import.`
				})),
			warning: "ClassViolated: 1 of the objects"})
}

// What a class allows, who may use it, and how much of its limits is used.
func TestTheUseOfAClass(t *testing.T) {
	mine := withClass("team-b")
	portOf := func(name string) *cloudteamv1.NetworkPort {
		return port(name, "True", "Available", func(p *cloudteamv1.NetworkPort) {
			p.OwnerReferences = ownedBy("Deployment", "apps/v1", "web")
		})
	}
	a, err := Explain(t.Context(), clusterOf(aClass(limited), space("shop", "b"), space("store", "b"), space("lab", "c"),
		network("True", "Available", mine), network("False", "ClassLimitReached", mine,
			func(n *cloudteamv1.Network) { n.Name = "second" }), portOf("web-a"), portOf("web-b")),
		ask.New(KindNetworkClass, "", "team-b"), now)
	expect.NoError(t, err)
	expect.Equal(t, "Nothing is wrong. It allows the fields: none; the ranges: 10.20.0.0/16. It is for namespaces with "+
		"team=b: shop, store. At most 2 Networks in a namespace: shop has the most, 1. At most 20 ports on a Network: "+
		"shop/frontend has the most, 2. At most 10 ports of a Deployment: shop/web on shop/frontend has the most, 2. At "+
		"most 3 SecurityGroups in a namespace: there are none. Its credentials are in Secret network-controller/team-b; "+
		"3 of its 4 objects are Ready with them.", a.Summary, "the summary")
	expect.Equal(t, []string{"ClassLimitReached: 1 of the objects, in shop (1). The first is Network shop/second: what the " +
		"controller says"}, a.Warnings, "the warnings")
}

// Anybody can make objects that a class refuses: they are counted, and hide nothing.
func TestManyRefusedObjectsAreCounted(t *testing.T) {
	objects := []runtime.Object{aClass(limited), network("False", "CredentialsRejected", withClass("team-b"))}
	for i := range 2000 {
		objects = append(objects, refused(fmt.Sprintf("team-%d", i%40), fmt.Sprintf("lab-%d", i)))
	}
	a, err := Explain(t.Context(), clusterOf(objects...), ask.New(KindNetworkClass, "", "team-b"), now)
	expect.NoError(t, err)
	expect.Equal(t, "NetworkClass team-b Class > Network shop/frontend CredentialsRejected > "+
		"Secret network-controller/team-b Credentials", chainOf(a), "the chain")
	text := strings.Join(a.Warnings, "\n")
	if len(text) > 500 || !strings.Contains(text, "2000 of the objects, in team-0 (50), ") ||
		!strings.Contains(text, "and 30 more") {
		t.Errorf("the warnings are %q", text)
	}
}

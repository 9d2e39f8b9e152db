package classes_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/internal/controller/classes"
	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// known are the classes of these tests, by what they are for.
func known() *controllertest.Classes {
	class := func(name string, spec cloudteamv1.NetworkClassSpec) *cloudteamv1.NetworkClass {
		return &cloudteamv1.NetworkClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	}
	allowed := []cloudteamv1.PrivilegedField{cloudteamv1.FieldFloatingIP}
	c := controllertest.NewClasses(
		class("closed", cloudteamv1.NetworkClassSpec{}),
		class("floating", cloudteamv1.NetworkClassSpec{
			AllowedFields: allowed, Credentials: &cloudteamv1.ClassCredentials{SecretName: "gold"},
			Defaults: &cloudteamv1.ClassDefaults{MTU: new(int32(1400))},
		}),
		class("anothers", cloudteamv1.NetworkClassSpec{
			AllowedFields:     allowed,
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "b"}},
		}),
	)
	c.Label("team-a", map[string]string{"team": "a"})
	return c
}

// of is a Network of a class, or of a cloud of its own with "cloud".
func of(name string) *cloudteamv1.Network {
	n := &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team-a", Name: "net", UID: "u", Generation: 2, Finalizers: []string{cloudteamv1.Finalizer},
	}}
	if name == "cloud" {
		n.Spec.Cloud = &cloudteamv1.CloudReference{SecretName: "openstack"}
	} else {
		n.Spec.ClassName = name
	}
	return n
}

// applied has the present spec of a Network applied once, with credentials of the class on record.
func applied(n *cloudteamv1.Network) *cloudteamv1.Network {
	n.Status.AppliedGeneration = n.Generation
	n.Status.Class = &cloudteamv1.AppliedClass{Name: n.Spec.ClassName}
	return n
}

func TestJudgeFloatingIP(t *testing.T) {
	for sentence, c := range map[string]struct {
		obj *cloudteamv1.Network
		// reason and message are the condition's; both are empty if nothing is forbidden.
		reason, message string
		// secret has the credentials, empty for the controller's own.
		secret        string
		kept, unknown bool
	}{
		"a class that allows it": {obj: of("floating"), secret: "gold"},
		"a class that does not": {
			obj: of("closed"), reason: cloudteamv1.ReasonForbiddenByClass,
			message: `NetworkClass "closed" forbids FloatingIPs. Nothing is created or changed in Neutron. Name a class`,
		},
		"a class of another namespace": {
			obj: of("anothers"), reason: cloudteamv1.ReasonForbiddenByClass, unknown: true,
			message: `NetworkClass "anothers" forbids objects in namespace team-a. Nothing is created`,
		},
		"a class that does not exist": {
			obj: of("none"), reason: cloudteamv1.ReasonClassNotFound, unknown: true,
			message: `There is no NetworkClass "none".`,
		},
		"no default class": {
			obj: of(""), reason: cloudteamv1.ReasonClassNotFound, unknown: true, message: "No NetworkClass is the default.",
		},
		"a cloud of its own": {obj: of("cloud")},
		"one that was allowed": {
			obj: applied(of("closed")), reason: cloudteamv1.ReasonForbiddenByClass, kept: true,
			message: `NetworkClass "closed" forbids FloatingIPs. What exists is kept as declared;`,
		},
		"one whose class is gone": {
			obj: applied(of("none")), reason: cloudteamv1.ReasonClassNotFound, kept: true,
			message: `There is no NetworkClass "none". What exists is kept as declared;`,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			made, rule, reason, message := known().JudgeFloatingIP(c.obj, &cloudteamv1.FloatingIPSpec{})
			if reason != c.reason || !strings.HasPrefix(message, c.message) || (message == "") != (c.message == "") {
				t.Errorf("got  %s: %s\nwant %s: %s", reason, message, c.reason, c.message)
			}
			secret := ""
			if made.Credentials != nil {
				secret = made.Credentials.SecretName
			}
			if secret != c.secret || made.Kept != c.kept || made.Unknown != c.unknown {
				t.Errorf("it is made by %+v, want the Secret %q, kept %t, unknown %t", made, c.secret, c.kept, c.unknown)
			}
			if want := c.obj.Spec.ClassName; rule.Missing == "" && rule.Name != want {
				t.Errorf("the class %q judges it, want %q", rule.Name, want)
			}
		})
	}
	t.Run("without classes the built-in one allows none", func(t *testing.T) {
		var none *classes.Classes
		_, _, reason, message := none.JudgeFloatingIP(of(""), &cloudteamv1.FloatingIPSpec{})
		if reason != cloudteamv1.ReasonForbiddenByClass || !strings.HasPrefix(message, "The built-in class forbids FloatingIPs.") {
			t.Errorf("got %s: %s", reason, message)
		}
	})
}

// TestASecretOfTheNetworksNamespaceIsNoClasss: a Network that named a cloud of its own may have that Secret in its status,
// and a Secret of the same name beside the controller may be anybody's.
func TestASecretOfTheNetworksNamespaceIsNoClasss(t *testing.T) {
	n := applied(of("closed"))
	n.Status.Class = &cloudteamv1.AppliedClass{Name: "closed"}
	n.Status.Credentials = &cloudteamv1.CredentialsStatus{Namespace: n.Namespace, SecretName: "gold"}
	if made := known().Of(n); made.Credentials != nil {
		t.Errorf("it is made with Secret %s of the controller's namespace", made.Credentials.SecretName)
	}
}

func TestJudgeFloatingTo(t *testing.T) {
	const forbids = `" forbids floating IPs of ports on Network net. `
	for sentence, c := range map[string]struct {
		on   *cloudteamv1.Network
		kept bool
		want string
	}{
		"a class that allows it": {on: of("floating")},
		"a class that does not": {
			on: of("closed"), want: `NetworkClass "closed` + forbids + `The address is kept but not associated with a port. Name a port in`,
		},
		"a class that does not any more": {
			on: of("closed"), kept: true, want: `NetworkClass "closed` + forbids + `What exists is kept as declared;`,
		},
		"a class of another namespace": {
			on: of("anothers"), want: `NetworkClass "anothers` + forbids,
		},
		"a Network that was applied has no other class": {
			on: applied(of("closed")), want: `NetworkClass "closed` + forbids,
		},
		"a cloud of its own": {on: of("cloud")},
	} {
		t.Run(sentence, func(t *testing.T) {
			got := known().JudgeFloatingTo(c.on, c.kept)
			if !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
	t.Run("a class that is missing allows none", func(t *testing.T) {
		for _, name := range []string{"none", ""} {
			expect.Contains(t, known().JudgeFloatingTo(of(name), false), forbids[1:], "what it says of class %q", name)
		}
	})
}

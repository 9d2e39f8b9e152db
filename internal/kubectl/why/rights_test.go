package why

import (
	"context"
	"regexp"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"

	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestWhatACommandNeeds(t *testing.T) {
	for command, want := range map[string]string{
		"kubectl -n network-controller get pods":                           "list pods in network-controller",
		"kubectl -n network-controller logs deployment/network-controller": "get pods/log in network-controller",
		"kubectl get networkclasses":                                       "list networkclasses.cloudteam.ztgame.com",
		"kubectl get networkclass gold -o yaml":                            "get networkclasses.cloudteam.ztgame.com gold",
		"kubectl get networks.cloudteam.ztgame.com,networkports -n shop":   "list networks.cloudteam.ztgame.com in shop",
		"kubectl edit networks.cloudteam.ztgame.com web -n shop":           "patch networks.cloudteam.ztgame.com web in shop",
		"kubectl delete pod web-1 -n shop":                                 "delete pods web-1 in shop",
		"kubectl label namespace shop a=b":                                 "patch namespaces shop",
		"kubectl apply -k config/node":                                     "create customresourcedefinitions.apiextensions.k8s.io",
		"openstack network agent list":                                     "",
		"kubectl network why network/web -n shop":                          "",
	} {
		does, known := attributesOf(command)
		got := ""
		if known {
			got = does.Verb + " " + does.Resource
			if does.Subresource != "" {
				got += "/" + does.Subresource
			}
			if does.Group != "" && does.Group != "apps" {
				got += "." + does.Group
			}
			if does.Name != "" {
				got += " " + does.Name
			}
			if does.Namespace != "" {
				got += " in " + does.Namespace
			}
		}
		expect.Equal(t, want, got, "what %q needs", command)
	}
}

// TestEveryCommandIsJudged holds that the verbs of all remedies are known.
func TestEveryCommandIsJudged(t *testing.T) {
	own := regexp.MustCompile(`^(openstack|kubectl network) `)
	for kind := range explained {
		for _, command := range Commands(Object{Kind: kind, Namespace: "shop", Name: "web"}) {
			if _, known := attributesOf(command); !known && !own.MatchString(command) {
				t.Errorf("nobody knows who may run %q", command)
			}
		}
	}
}

func TestWhoMayNotRunTheRemedyIsToldWhoCan(t *testing.T) {
	for sentence, c := range map[string]struct {
		may  func(context.Context, authorizationv1.ResourceAttributes) bool
		want string
	}{
		"nobody knows": {nil, ""},
		"all":          {func(context.Context, authorizationv1.ResourceAttributes) bool { return true }, ""},
		"none": {
			func(context.Context, authorizationv1.ResourceAttributes) bool { return false },
			" You may not do this: ask an administrator.",
		},
		"some": {
			func(_ context.Context, a authorizationv1.ResourceAttributes) bool { return a.Verb == "list" },
			" Ask an administrator to run what you may not run: kubectl edit pod web -n shop.",
		},
	} {
		w := &walk{Cluster: &ask.Cluster{May: c.may}, ctx: t.Context()}
		expect.Equal(t, c.want, w.whoElse([]string{"kubectl get pods -n shop", "kubectl edit pod web -n shop"}), "%s", sentence)
	}
}

package rights

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// right is one verb on one resource. As a right that is granted, an empty Namespace is every namespace, and an empty
// Name every name.
type right struct{ Verb, Group, Resource, Namespace, Name string }

// String is the right in words.
func (r right) String() string {
	text := r.Verb + " " + r.Resource
	if r.Group != "" {
		text += "." + r.Group
	}
	if r.Name != "" {
		text += " " + r.Name
	}
	if r.Namespace != "" {
		text += " in " + r.Namespace
	}
	return text
}

// isNeededFor reports whether a right that is granted is needed for one that was used. What is used in the controllers'
// own namespace alone needs no right to all namespaces.
func (granted right) isNeededFor(used right) bool {
	return granted.Verb == used.Verb && granted.Group == used.Group && granted.Resource == used.Resource &&
		(granted.Name == "" || granted.Name == used.Name) &&
		(granted.Namespace == used.Namespace || granted.Namespace == "" && used.Namespace != harness.AccountName)
}

// grantedTo are the rights that roles give to an account itself, and not to all who are logged in.
func grantedTo(t *testing.T, account string) []right {
	t.Helper()
	rbac, everywhere := surroundings.Kube.RbacV1(), metav1.ListOptions{}
	clusterRoles := map[string][]rbacv1.PolicyRule{}
	if list, err := rbac.ClusterRoles().List(t.Context(), everywhere); err != nil {
		t.Fatal(err)
	} else {
		for _, role := range list.Items {
			clusterRoles[role.Name] = role.Rules
		}
	}
	isOfAccount := func(s rbacv1.Subject) bool {
		return s.Kind == rbacv1.ServiceAccountKind && s.Namespace == harness.AccountName && s.Name == account
	}
	var rights []right
	if list, err := rbac.ClusterRoleBindings().List(t.Context(), everywhere); err != nil {
		t.Fatal(err)
	} else {
		for _, binding := range list.Items {
			if slices.ContainsFunc(binding.Subjects, isOfAccount) {
				rights = append(rights, rightsOf(t, "", clusterRoles[binding.RoleRef.Name])...)
			}
		}
	}
	list, err := rbac.RoleBindings(metav1.NamespaceAll).List(t.Context(), everywhere)
	expect.NoError(t, err)
	for _, binding := range list.Items {
		if !slices.ContainsFunc(binding.Subjects, isOfAccount) {
			continue
		}
		rules := clusterRoles[binding.RoleRef.Name]
		if binding.RoleRef.Kind == "Role" {
			role := harness.Get(t, rbac.Roles(binding.Namespace), binding.RoleRef.Name)
			rules = role.Rules
		}
		rights = append(rights, rightsOf(t, binding.Namespace, rules)...)
	}
	return rights
}

// rightsOf are the rights that rules give in a namespace.
func rightsOf(t *testing.T, namespace string, rules []rbacv1.PolicyRule) (rights []right) {
	t.Helper()
	for _, rule := range rules {
		if text := fmt.Sprint(rule); strings.Contains(text, "*") || len(rule.NonResourceURLs) > 0 {
			t.Errorf("a role grants more than named verbs on named resources: %s", text)
		}
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					for _, name := range names {
						rights = append(rights, right{verb, group, resource, namespace, name})
					}
				}
			}
		}
	}
	return rights
}

// TestRightsAreThoseThatAreUsed has the controllers do all that they do at the API server. Then each right that was
// granted was used, and no request was refused.
func TestRightsAreThoseThatAreUsed(t *testing.T) {
	t.Cleanup(func() {
		for _, e := range entries(t) {
			if e.ResponseStatus.Code == http.StatusForbidden {
				t.Errorf("refused, by RBAC or by config/admission: %s", e)
			}
		}
	})
	everything(t)
	for _, account := range accounts {
		t.Run(account, func(t *testing.T) {
			granted := grantedTo(t, account)
			if len(granted) < 10 {
				t.Fatalf("only %d rights are granted: is it the account of config?", len(granted))
			}
			surroundings.Eventually(t, func() error {
				unused := slices.Clone(granted)
				for _, e := range entries(t) {
					if e.User.Username != userOf(account) {
						continue
					}
					for _, used := range e.uses() {
						unused = slices.DeleteFunc(unused, func(r right) bool { return r.isNeededFor(used) })
					}
				}
				if len(unused) > 0 {
					return fmt.Errorf("nothing uses these of %d rights: take them away, or use them in everything():\n%s",
						len(granted), strings.Join(lines(unused), "\n"))
				}
				return nil
			})
			t.Logf("each of %d rights was used", len(granted))
		})
	}
}

func lines(rights []right) (texts []string) {
	for _, r := range rights {
		texts = append(texts, r.String())
	}
	return texts
}

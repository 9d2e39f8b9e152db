package harness

import (
	"fmt"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/kubernetes"
)

// May reports whether a user may do what the attributes say.
func May(t testing.TB, kube kubernetes.Interface, user string, attributes authorizationv1.ResourceAttributes) bool {
	t.Helper()
	review := Create(t, kube.AuthorizationV1().SubjectAccessReviews(), &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &attributes},
	})
	return review.Status.Allowed
}

// AwaitRight waits until a user may do something with a resource of the core group in a namespace. The API server
// learns of RoleBindings a moment later, in the order in which they were created.
func AwaitRight(t testing.TB, w waiter, kube kubernetes.Interface, user, namespace, verb, resource string) {
	t.Helper()
	asked := authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb, Resource: resource}
	w.Eventually(t, func() error {
		if !May(t, kube, user, asked) {
			return fmt.Errorf("%s may not %s %s in namespace %s", user, verb, resource, namespace)
		}
		return nil
	})
}

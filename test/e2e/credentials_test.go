package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// secretName is the name of the Secrets that hold credentials.
const secretName = "openstack"

// inCloud is the example's spec in the cloud of the Secret.
func inCloud() cloudteamv1.NetworkSpec {
	spec := example()
	spec.Cloud = &cloudteamv1.CloudReference{SecretName: secretName}
	return spec
}

// grant gives the controller the right to the one Secret, as an administrator of the namespace would.
func grant(t *testing.T, namespace string) {
	t.Helper()
	harness.Create(t, kube.RbacV1().Roles(namespace), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: secretName},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{secretName},
			Verbs: []string{"list", "watch"},
		}},
	})
	harness.Create(t, kube.RbacV1().RoleBindings(namespace), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: secretName},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: secretName},
		Subjects: []rbacv1.Subject{{
			Kind: rbacv1.ServiceAccountKind, Name: harness.AccountName, Namespace: harness.AccountName,
		}},
	})
}

// auth gives the change of one value of an entry's auth.
func auth(key string, value any) func(map[string]any) {
	return func(entry map[string]any) { entry["auth"].(map[string]any)[key] = value }
}

// putSecret has the Secret hold a clouds.yaml, and creates it where it is not there.
func putSecret(t *testing.T, namespace, cloudsYAML string) {
	t.Helper()
	client := kube.CoreV1().Secrets(namespace)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: secretName}, StringData: map[string]string{"clouds.yaml": cloudsYAML},
	}
	if _, err := client.Get(t.Context(), secretName, metav1.GetOptions{}); err == nil {
		_, err = client.Update(t.Context(), secret, metav1.UpdateOptions{})
		expect.NoError(t, err)
		return
	}
	harness.Create(t, client, secret)
}

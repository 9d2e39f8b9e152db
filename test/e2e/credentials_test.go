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

// cloudsOf is a clouds.yaml whose only entry is one of cloudsFile, after a change.
func cloudsOf(t *testing.T, name string, change func(entry map[string]any)) string {
	t.Helper()
	return harness.CloudsOf(t, cloudsFile, name, change)
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

// TestCredentialsOfNamespaces has Networks in a tenant's project, by a Secret, beside the controller's own in the
// administrator's.
func TestCredentialsOfNamespaces(t *testing.T) {
	withProcesses(t)
	startController(t, "admin")
	for sentence, test := range map[string]func(t *testing.T, namespace, name string){
		"a Network and its ports are in the project of its Secret, and others in the controller's own": testTwoProjects,
		"what is wrong with a Secret is said, and its next event takes it up":                          testBadSecrets,
	} {
		t.Run(sentence, func(t *testing.T) {
			namespace := newNamespace(t)
			test(t, namespace, unique(t, namespace))
		})
	}
}

func testTwoProjects(t *testing.T, namespace, name string) {
	admin, tenant := open(t, "admin"), open(t, "tenant")
	grant(t, namespace)
	putSecret(t, namespace, cloudsOf(t, "tenant", nil))
	apply(t, namespace, name, inCloud())
	apply(t, namespace, name+"-own", example())
	theirs, own := awaitReady(t, namespace, name), awaitReady(t, namespace, name+"-own")
	expect.Equal(t, tenant.Project, theirs.Status.Cloud.ProjectID, "its project, which is the tenant's")
	expect.Equal(t, admin.Project, own.Status.Cloud.ProjectID, "the other's project, which is the administrator's")
	wantFields(t, tenant.One("networks", "name="+name), resource{"project_id": tenant.Project})
	wantFields(t, admin.One("networks", "name="+name+"-own"), resource{"project_id": admin.Project})

	applyPort(t, namespace, name, on(name))
	port := awaitPortReady(t, namespace, name)
	wantFields(t, tenant.One("ports", "id="+port.Status.PortID), resource{"project_id": tenant.Project})

	removePort(t, namespace, name)
	remove(t, namespace, name)
	remove(t, namespace, name+"-own")
	expect.Empty(t, tenant.List("networks", "name="+name), "left in Neutron")
}

func testBadSecrets(t *testing.T, namespace, name string) {
	unusable := func(text string) {
		t.Helper()
		awaitSays(t, namespace, name, cloudteamv1.ConditionStalled, cloudteamv1.ReasonCredentialsUnavailable, text)
	}
	apply(t, namespace, name, inCloud())
	unusable("may not read Secret")
	grant(t, namespace)
	unusable("there is no Secret")
	putSecret(t, namespace, cloudsOf(t, "tenant", func(entry map[string]any) { entry["cacert"] = "/etc/passwd" }))
	unusable("cacert names something outside the Secret")
	putSecret(t, namespace, cloudsOf(t, "tenant", auth("auth_url", "http://169.254.169.254/v3")))
	unusable("auth.auth_url is no identity endpoint that the operator allows")
	putSecret(t, namespace, cloudsOf(t, "tenant", auth("password", "not-the-tenants")))
	awaitSays(t, namespace, name, cloudteamv1.ConditionStalled, cloudteamv1.ReasonCredentialsRejected, "log in to cloud")
	if got := get(t, namespace, name); len(got.Finalizers) > 0 {
		t.Errorf("it has finalizers before its cloud is known: %v", got.Finalizers)
	}
	putSecret(t, namespace, cloudsOf(t, "tenant", nil))
	awaitReady(t, namespace, name)
	remove(t, namespace, name)
}

package harness

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

// DNSZone is the domain of the cluster for CoreDNS.
const DNSZone = "cluster.local"

// CoreDNS gives an account the rights that CoreDNS has in a cluster until the test ends, and returns the path of a
// configuration with which it serves at address, "HOST:PORT".
func (s *Surroundings) CoreDNS(t testing.TB, account, address string) (corefile string) {
	t.Helper()
	reads := []string{"list", "watch"}
	roles, bindings := s.Kube.RbacV1().ClusterRoles(), s.Kube.RbacV1().ClusterRoleBindings()
	accounts := s.Kube.CoreV1().ServiceAccounts(AccountName)
	Create(t, roles, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: account},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"namespaces", "services"}, Verbs: reads},
			{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: reads},
		},
	})
	t.Cleanup(func() { Delete(t, roles, account) })
	Create(t, bindings, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: account},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: account},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: AccountName, Name: account}},
	})
	t.Cleanup(func() { Delete(t, bindings, account) })
	Create(t, accounts, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}})
	t.Cleanup(func() { Delete(t, accounts, account) })

	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	corefile = filepath.Join(dir, "Corefile")
	expect.NoError(t, s.WriteAccountKubeconfig(context.WithoutCancel(t.Context()), kubeconfig, account))
	host, port, err := net.SplitHostPort(address)
	expect.NoError(t, err)
	// As kubeadm writes it, without what is for other names, for metrics and for many replicas.
	expect.NoError(t, os.WriteFile(corefile, fmt.Appendf(nil, `.:%s {
	bind %s
	errors
	kubernetes %s in-addr.arpa ip6.arpa {
		kubeconfig %s
		pods insecure
		ttl 30
	}
}
`, port, host, DNSZone, kubeconfig), 0o600))
	return corefile
}

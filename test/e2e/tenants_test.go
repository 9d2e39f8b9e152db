package e2e

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

func TestMetricsAreForAccountsThatRBACAllows(t *testing.T) {
	namespace := newNamespace(t)
	p := startController(t, "tenant", "--metrics-bind-address=127.0.0.1:0")
	_, err := kube.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: namespace + "-metrics"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "network-controller-metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: "default"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	token := func(account string) string {
		request, err := kube.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), account,
			&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return request.Status.Token
	}
	other := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
	if _, err := kube.CoreV1().ServiceAccounts(namespace).Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // self-signed
	}}
	defer client.CloseIdleConnections()
	for _, c := range []struct {
		token string
		want  int
	}{
		{token("default"), http.StatusOK}, {token("other"), http.StatusForbidden}, {"junk", http.StatusUnauthorized},
		{"", http.StatusUnauthorized},
	} {
		eventually(t, func() error {
			_, after, _ := strings.Cut(p.Output.String(), `"Serving metrics to callers that RBAC allows" address="`)
			address, _, _ := strings.Cut(after, `"`)
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+"/metrics", nil)
			if err != nil {
				return err
			}
			if c.token != "" {
				request.Header.Set("Authorization", "Bearer "+c.token)
			}
			answer, err := client.Do(request)
			if err != nil {
				return err
			}
			defer answer.Body.Close()
			body, err := io.ReadAll(answer.Body)
			if err != nil {
				return err
			}
			if shows := strings.Contains(string(body), "workqueue_depth"); answer.StatusCode != c.want || shows != (c.want == http.StatusOK) {
				return fmt.Errorf("%d, metrics shown: %t, want %d", answer.StatusCode, shows, c.want)
			}
			return nil
		})
	}
}

// peak gives the most memory that a process had, in MiB.
func (p *process) peak(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		t.Skip("there is no /proc:", err)
	}
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	line, _, _ := strings.Cut(after, "kB")
	kB, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatalf("%v in %s", err, status)
	}
	return kB >> 10
}

// TestTenantsCannotFillTheMemory has tenants write as many annotations as Kubernetes admits, and holds that a process,
// which may lead or stand by, stays within what config/manager allows. E2E_LARGE_OBJECTS is the number of objects.
// 2,000 and their history need more than the default quota of etcd.
func TestTenantsCannotFillTheMemory(t *testing.T) {
	count := 200
	if text := os.Getenv("E2E_LARGE_OBJECTS"); text != "" {
		var err error
		if count, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	start := func() int {
		p := startController(t, "tenant", "--controllers=*,-foo")
		eventually(t, func() error {
			status, body, err := p.Get(t.Context(), "/readyz")
			if err == nil && status != http.StatusOK {
				err = fmt.Errorf("%d %s", status, body)
			}
			return err
		})
		peak := p.peak(t)
		p.kill(t)
		return peak
	}
	before := start()
	namespace := newNamespace(t)
	large := map[string]string{
		cloudteamv1.AnnotationPaused: "true", // nothing is made in the cloud
		"example.com/large":          strings.Repeat("x", 255<<10),
	}
	for n := range count {
		meta := metav1.ObjectMeta{Name: fmt.Sprint("large-", n), Annotations: large}
		var err error
		if n%2 == 0 {
			network := &cloudteamv1.Network{ObjectMeta: meta, Spec: example()}
			_, err = networks.CloudteamV1().Networks(namespace).Create(t.Context(), network, metav1.CreateOptions{})
		} else {
			labels := map[string]string{"app": "large"}
			_, err = kube.AppsV1().Deployments(namespace).Create(t.Context(), &appsv1.Deployment{
				ObjectMeta: meta,
				Spec: appsv1.DeploymentSpec{
					Replicas: new(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: labels},
					Template: corev1.PodTemplateSpec{
						ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: large},
						Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "none"}}},
					},
				},
			}, metav1.CreateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	after := start()
	t.Logf("%d objects of 256 KiB and more: %d MiB at most, %d MiB before", count, after, before)
	if most := 460; after > most {
		t.Errorf("it needs %d MiB, more than %d", after, most)
	}
	// What is kept of an object is far less than what it holds; the garbage of reading it counts here, too.
	if grown := after - before; count <= 200 && grown > 64 {
		t.Errorf("%d objects cost %d MiB", count, grown)
	}
}

//go:build linux

package dataplane

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/conntest"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// imageAgent is an image of network-agent.
const imageAgent = "localhost/network-agent:1"

// connectionsAreTested has a user who may edit the namespace do `kubectl network conntest`, where only Pods of the
// standard "restricted" may be created. One of the addresses has nobody: nothing listens there.
func (w *world) connectionsAreTested(guests []*guest) {
	w.restrict("restricted")
	defer w.restrict("privileged")
	var imports errgroup.Group
	for _, node := range w.nodes.All {
		imports.Go(func() error { return node.Import(imageAgent, filepath.Join(programs, "network-agent")) })
	}
	expect.NoError(w, imports.Wait())
	nobody, err := conntest.ParseTarget(guests[0].addresses(0)[0].String() + ":9")
	expect.NoError(w, err)
	outside, err := conntest.ParseTarget(outsideGateway)
	expect.NoError(w, err)
	carol, _ := w.editor("carol")
	report, err := conntest.Run(w.Context(), carol, conntest.Options{
		Namespace: w.namespace, Network: types.NamespacedName{Namespace: w.namespace, Name: "both"}, Image: imageAgent,
		To: []conntest.Target{outside, nobody}, Port: 8080, Timeout: time.Minute, ID: "lab", Now: time.Now,
		Throughput: 2 * time.Second,
		Progress:   func(line string) { w.Log(line) },
		Log: func(ctx context.Context, namespace, pod, container string) ([]byte, error) {
			return carol.Kubernetes.CoreV1().Pods(namespace).GetLogs(pod, &corev1.PodLogOptions{Container: container}).DoRaw(ctx)
		},
	})
	expect.NoError(w, err)
	if len(report.Pods) != 2 || report.Pods[0].Node == report.Pods[1].Node {
		w.Errorf("the Pods are %+v, want them on two nodes", report.Pods)
	}
	passed := map[string]int{}
	for _, c := range report.Checks {
		w.Logf("%+v", c)
		kind := c.What
		if c.To == "gateway" {
			kind = c.To
		}
		switch {
		case c.To == nobody.String():
			if c.State != conntest.Failed || !strings.Contains(c.Says, "refused") {
				w.Errorf("where nothing listens: %+v", c)
			}
		case c.State != conntest.Passed:
			w.Errorf("failed: %+v", c)
		case kind == conntest.Throughput && c.MegabitsPerSecond <= 0:
			w.Errorf("no throughput: %+v", c)
		default:
			passed[kind]++
		}
	}
	// Of each Pod: two addresses of its own, two of the other one, the router's, one outside, and what it got.
	if want := "map[ICMP:6 TCP:4 gateway:4 interface:4 throughput:2]"; fmt.Sprint(passed) != want {
		w.Errorf("passed have %v, want %s", passed, want)
	}
	w.eventually(func() error { // those of the test
		return harness.NoneLeft(w.Context(), surroundings.Kube.CoreV1().Pods(w.namespace),
			metav1.ListOptions{LabelSelector: conntest.Label})
	})
}

// restrict sets which Pod Security Standard new Pods keep.
func (w *world) restrict(standard string) {
	w.Helper()
	patch := fmt.Sprintf(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":%q}}}`, standard)
	harness.Patch(w, surroundings.Kube.CoreV1().Namespaces(), w.namespace, patch)
}

// editor is a user who may edit the namespace, and nothing else.
func (w *world) editor(name string) (*ask.Cluster, *rest.Config) {
	w.Helper()
	_, err := surroundings.Kube.RbacV1().RoleBindings(w.namespace).Create(w.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
	}, metav1.CreateOptions{})
	as := rest.CopyConfig(surroundings.Admin)
	as.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: []string{"system:authenticated"}}
	kube, kubeErr := kubernetes.NewForConfig(as)
	networks, networksErr := versioned.NewForConfig(as)
	expect.NoError(w, errors.Join(err, kubeErr, networksErr))
	return &ask.Cluster{Kubernetes: kube, Networks: networks}, as
}

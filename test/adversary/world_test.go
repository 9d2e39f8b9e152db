package adversary

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	clientset "cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/proxy"
)

// world is one controller, and proxies between it and its cloud.
type world struct {
	t       *testing.T
	process *harness.Process
	// arguments are those of the command line that the tests add.
	arguments []string
	// keystone and neutron see the controller's calls.
	keystone, neutron *proxy.Proxy
	// clouds is the path of the controller's clouds.yaml.
	clouds string
	// cloud is the second opinion, past the proxies.
	cloud *harness.Cloud
}

// cloudName is the cloud whose credentials are the controller's.
const cloudName = "tenant"

// newWorld starts a controller that runs until the test ends.
func newWorld(t *testing.T, arguments ...string) *world {
	t.Helper()
	w := &world{
		t: t, cloud: harness.Open(t, surroundings.CloudsFile, cloudName),
		clouds: filepath.Join(t.TempDir(), "clouds.yaml"),
	}
	names := []string{cloudName, "admin"}
	if !openStack() {
		names = append(names, otherCloud)
	}
	var err error
	w.keystone, w.neutron, err = harness.FrontCloud(surroundings.CloudsFile, w.clouds, names,
		w.cloud.Client.Endpoint, proxy.Options{}, proxy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.neutron.Close)
	t.Cleanup(w.keystone.Close)
	w.arguments = arguments
	w.start()
	return w
}

// start starts a controller, in the place of one that has ended.
func (w *world) start() {
	w.t.Helper()
	w.process = surroundings.Start(w.t, []string{"OS_CLIENT_CONFIG_FILE=" + w.clouds}, append([]string{
		"--kubeconfig", surroundings.Kubeconfig, "--cloud", cloudName, "--bind-address", "127.0.0.1:0",
		"--audit-interval", "2s", "--pool-cooldown", "2s", "--leader-elect=false", "-v", "2",
	}, w.arguments...)...)
}

// syncs is how often a controller of the process has synced.
func (w *world) syncs(controller string) (n int) {
	w.t.Helper()
	_, metrics, err := w.process.Get(w.t.Context(), "/metrics")
	if err != nil {
		w.t.Fatal(err)
	}
	for _, line := range strings.Split(metrics, "\n") {
		if count, is := strings.CutPrefix(line,
			`controller_runtime_reconcile_time_seconds_count{controller="`+controller+`"} `); is {
			if n, err = strconv.Atoi(count); err != nil {
				w.t.Fatal(err)
			}
			return n
		}
	}
	w.t.Fatalf("the process does not count the syncs of %s", controller)
	return 0
}

// tenant is a user with the role edit in a namespace, and nowhere else.
type tenant struct {
	// t is nil in a sequence.
	t *testing.T
	// name is the user's, and the namespace's.
	name     string
	kube     kubernetes.Interface
	networks clientset.Interface
}

// newTenant makes a namespace and its editor.
func newTenant(t *testing.T) *tenant {
	t.Helper()
	name := "tenant-" + string(uuid.NewUUID())[:8]
	who, err := newEditor(name)
	if err == nil {
		who.t = t
		err = openNamespace(t.Context(), name, true)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// What it holds ends with it, while this test's controller runs, so that the next test has the cloud to itself.
		namespaces := surroundings.Kube.CoreV1().Namespaces()
		ctx := cleanup(t)
		err := namespaces.Delete(ctx, name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
		patience := 2 * time.Minute
		if openStack() {
			patience = 30 * time.Second // there are few tests there
		}
		err = harness.Poll(nil, patience, 200*time.Millisecond, func() error {
			_, err := namespaces.Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return cmp.Or(err, fmt.Errorf("namespace %s is still there", name))
		})
		if err != nil {
			t.Log(err) // a test may have held it on purpose
		}
	})
	// Kubernetes takes a moment to add our rules to its role.
	surroundings.Eventually(t, func() error {
		_, err := who.networks.CloudteamV1().Networks(who.name).List(t.Context(), metav1.ListOptions{})
		return err
	})
	return who
}

// newEditor is the editor of a namespace, which need not be there.
func newEditor(name string) (who *tenant, err error) {
	who = &tenant{name: name}
	config := rest.CopyConfig(surroundings.Admin)
	config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: []string{"system:authenticated"}}
	if who.kube, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	who.networks, err = clientset.NewForConfig(config)
	return who, err
}

// openNamespace makes a namespace for its editor, with the controller's right to the Secrets in it, as an operator does.
func openNamespace(ctx context.Context, name string, labelled bool) error {
	namespace := harness.Namespace("")
	namespace.Name = name
	if !labelled {
		namespace.Labels = nil
	}
	if _, err := surroundings.Kube.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return err
	}
	var errs []error
	for role, subject := range map[string]rbacv1.Subject{
		"edit": {APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name},
		"network-controller-credentials": {
			Kind: rbacv1.ServiceAccountKind, Name: harness.AccountName, Namespace: harness.AccountName,
		},
	} {
		_, err := surroundings.Kube.RbacV1().RoleBindings(name).Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{subject},
		}, metav1.CreateOptions{})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// credentials gives the tenant's namespace a Secret with credentials for a cloud of a clouds.yaml.
func (who *tenant) credentials(cloudsFile string) {
	who.t.Helper()
	_, err := who.kube.CoreV1().Secrets(who.name).Create(who.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: secretName}, StringData: map[string]string{
			"clouds.yaml": harness.CloudsOf(who.t, cloudsFile, cloudName, nil),
		},
	}, metav1.CreateOptions{})
	if err != nil {
		who.t.Fatal(err)
	}
}

// leave deletes all of the tenant's Networks and NetworkPorts, and waits until they are gone.
func (who *tenant) leave() {
	who.t.Helper()
	v1, all := who.networks.CloudteamV1(), metav1.ListOptions{}
	err := v1.FloatingIPs(who.name).DeleteCollection(who.t.Context(), metav1.DeleteOptions{}, all)
	if err == nil {
		err = v1.NetworkPorts(who.name).DeleteCollection(who.t.Context(), metav1.DeleteOptions{}, all)
	}
	if err == nil {
		err = v1.Networks(who.name).DeleteCollection(who.t.Context(), metav1.DeleteOptions{}, all)
	}
	if err != nil {
		who.t.Fatal(err)
	}
	surroundings.Eventually(who.t, func() error {
		left, err := v1.Networks(who.name).List(who.t.Context(), all)
		if err == nil && len(left.Items) > 0 {
			err = fmt.Errorf("%d Networks are left, such as %+v", len(left.Items), left.Items[0].Status)
		}
		return err
	})
	surroundings.Eventually(who.t, func() error {
		left, err := v1.FloatingIPs(who.name).List(who.t.Context(), all)
		if err == nil && len(left.Items) > 0 {
			err = fmt.Errorf("%d FloatingIPs are left, such as %+v", len(left.Items), left.Items[0].Status)
		}
		return err
	})
}

// grant gives the tenant a right to what is not in a namespace, until the test ends.
func (who *tenant) grant(rule rbacv1.PolicyRule) {
	who.t.Helper()
	rbac, object := surroundings.Kube.RbacV1(), metav1.ObjectMeta{Name: who.name}
	_, err := rbac.ClusterRoles().Create(who.t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: object, Rules: []rbacv1.PolicyRule{rule},
	}, metav1.CreateOptions{})
	if err == nil {
		_, err = rbac.ClusterRoleBindings().Create(who.t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: object, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: who.name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: who.name}},
		}, metav1.CreateOptions{})
	}
	if err != nil {
		who.t.Fatal(err)
	}
	who.t.Cleanup(func() {
		err := rbac.ClusterRoleBindings().Delete(cleanup(who.t), who.name, metav1.DeleteOptions{})
		if err == nil {
			err = rbac.ClusterRoles().Delete(cleanup(who.t), who.name, metav1.DeleteOptions{})
		}
		if err != nil {
			who.t.Error(err)
		}
	})
}

// network creates a Network with a range and a gateway.
func (who *tenant) network(name, cidr, gateway string, edits ...func(*cloudteamv1.NetworkSpec)) {
	who.t.Helper()
	network := &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{Name: name}}
	network.Spec.CIDR, network.Spec.Gateway = cidr, gateway
	for _, edit := range edits {
		edit(&network.Spec)
	}
	_, err := who.networks.CloudteamV1().Networks(who.name).Create(who.t.Context(), network, metav1.CreateOptions{})
	if err != nil {
		who.t.Fatal(err)
	}
}

// ready gives nil once a Network is Ready.
func (who *tenant) ready(name string) error {
	network, err := who.networks.CloudteamV1().Networks(who.name).Get(who.t.Context(), name, metav1.GetOptions{})
	if err == nil && !meta.IsStatusConditionTrue(network.Status.Conditions, cloudteamv1.ConditionReady) {
		err = fmt.Errorf("the conditions of Network %s are %+v", name, network.Status.Conditions)
	}
	return err
}

// awaitReady waits until a Network is Ready.
func (who *tenant) awaitReady(name string) {
	who.t.Helper()
	surroundings.Eventually(who.t, func() error { return who.ready(name) })
}

// pod creates a Pod that declares networks.
func (who *tenant) pod(name, networks string, edits ...func(*corev1.Pod)) *corev1.Pod {
	who.t.Helper()
	pod := harness.PodOn(name, networks)
	for _, edit := range edits {
		edit(pod)
	}
	created, err := who.kube.CoreV1().Pods(who.name).Create(who.t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		who.t.Fatal(err)
	}
	return created
}

// deployment creates a Deployment whose Pods declare networks.
func (who *tenant) deployment(name, networks string, replicas int32) *appsv1.Deployment {
	who.t.Helper()
	labels := map[string]string{"app": name}
	pod := harness.PodOn("", networks)
	pod.Labels = labels
	created, err := who.kube.AppsV1().Deployments(who.name).Create(who.t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		who.t.Fatal(err)
	}
	return created
}

// statefulSet creates a StatefulSet whose Pods declare networks.
func (who *tenant) statefulSet(name, networks string, replicas int32) *appsv1.StatefulSet {
	who.t.Helper()
	set := harness.StatefulSetOn(name, networks, replicas, appsv1.ParallelPodManagement)
	created, err := who.kube.AppsV1().StatefulSets(who.name).Create(who.t.Context(), set, metav1.CreateOptions{})
	if err != nil {
		who.t.Fatal(err)
	}
	return created
}

// pods lists the tenant's Pods.
func (who *tenant) pods() []corev1.Pod {
	who.t.Helper()
	list, err := who.kube.CoreV1().Pods(who.name).List(who.t.Context(), metav1.ListOptions{})
	if err != nil {
		who.t.Fatal(err)
	}
	return list.Items
}

// ports lists the tenant's NetworkPorts.
func (who *tenant) ports() []cloudteamv1.NetworkPort {
	who.t.Helper()
	list, err := who.networks.CloudteamV1().NetworkPorts(who.name).List(who.t.Context(), metav1.ListOptions{})
	if err != nil {
		who.t.Fatal(err)
	}
	return list.Items
}

// awaitRunning waits until as many of the tenant's Pods run, each with an allocation.
func (who *tenant) awaitRunning(want int) {
	who.t.Helper()
	surroundings.Eventually(who.t, func() error {
		running := 0
		for _, pod := range who.pods() {
			if pod.Status.Phase == corev1.PodRunning && len(harness.AllocationsOf(who.t, &pod)) > 0 {
				running++
			}
		}
		if running != want {
			return fmt.Errorf("%d Pods run with an allocation, want %d", running, want)
		}
		return nil
	})
}

// scale scales a tenant's Deployment as kubectl scale does.
func scale(who *tenant, name string, replicas int32) error {
	_, err := who.kube.AppsV1().Deployments(who.name).UpdateScale(cleanup(who.t), name, &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Namespace: who.name, Name: name},
		Spec:       autoscalingv1.ScaleSpec{Replicas: replicas},
	}, metav1.UpdateOptions{})
	return err
}

// cleanup is for clean-ups, in which a test's own context has ended.
func cleanup(t *testing.T) context.Context { return context.WithoutCancel(t.Context()) }

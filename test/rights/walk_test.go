package rights

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/pkg/apis/samplecontroller/v1alpha1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/proxy"
)

// everything has the controllers do all that takes a right.
func everything(t *testing.T) {
	t.Helper()
	surroundings.KnowAttachments(t)
	made := harness.Create(t, surroundings.Kube.CoreV1().Namespaces(), harness.Namespace("rights-"))
	namespace := made.Name
	surroundings.AwaitGate(t, namespace)

	dir := t.TempDir()
	kubeconfig, fooKubeconfig := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "foo.kubeconfig")
	oldAPIServer(t, kubeconfig)
	expect.NoError(t, copyFile(kubeconfig, fooKubeconfig))
	expect.NoError(t, harness.ActAs(fooKubeconfig, surroundings.FooKubeconfig))
	election := "--leader-elect-resource-namespace=" + harness.AccountName
	process := surroundings.Start(t, []string{"OS_CLIENT_CONFIG_FILE=" + surroundings.CloudsFile},
		"--kubeconfig", kubeconfig, "--cloud=tenant", "--bind-address=127.0.0.1:0", "--metrics-bind-address=127.0.0.1:0",
		"--pool-cooldown=0", "--audit-interval=1s", "-v=2", election)
	surroundings.Start(t, []string{"HOME=" + dir}, "--kubeconfig", fooKubeconfig, "--controllers=foo",
		"--bind-address=127.0.0.1:0", "-v=2", election, "--leader-elect-resource-name="+harness.FooAccountName)

	deploymentAndPods(t, namespace)
	statefulSet(t, namespace)
	machine(t, namespace)
	securityGroup(t, namespace)
	networkPolicy(t, namespace)
	service(t, namespace)
	ownCloud(t, namespace)
	metrics(t, namespace, process)
	foo(t, namespace)
}

// oldAPIServer writes a kubeconfig that leads to kube-apiserver by a proxy. The proxy is as a kube-apiserver without
// lists by watches, so that the controllers use plain lists. It has the first create of an object that may exist fail
// because the object exists: an earlier answer was lost.
func oldAPIServer(t *testing.T, kubeconfig string) {
	t.Helper()
	kube, err := surroundings.FrontKube(kubeconfig, proxy.Options{})
	expect.NoError(t, err)
	t.Cleanup(kube.Close)
	status := func(code int, reason metav1.StatusReason, message string) []byte {
		text, err := json.Marshal(metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
			Code: int32(code), Reason: reason, Message: message,
		})
		expect.NoError(t, err)
		return text
	}
	kube.Break(func(c proxy.Call) bool { return c.Query("sendInitialEvents") == "true" }, 0,
		proxy.Refuse(http.StatusUnprocessableEntity, string(status(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid,
			"sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"))))
	for _, shape := range []string{
		"/apis/apps/v1/deployments", "/apis/k8s.cni.cncf.io/v1/network-attachment-definitions",
		"/apis/cloudteam.ztgame.com/v1/securitygroups", "/apis/cloudteam.ztgame.com/v1/floatingips",
	} {
		kube.Break(func(c proxy.Call) bool { return c.Method == http.MethodPost && c.Shape == shape }, 1,
			proxy.Change(func(a *proxy.Answer) {
				a.Status = http.StatusConflict
				a.Header.Set("Content-Type", "application/json")
				a.Body = status(http.StatusConflict, metav1.StatusReasonAlreadyExists, "it exists")
			}))
	}
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o600)
}

// deploymentAndPods has a Deployment wait for its Network, scaled down, and its Network's attachment repaired.
func deploymentAndPods(t *testing.T, namespace string) {
	t.Helper()
	deployments := surroundings.Kube.AppsV1().Deployments(namespace)
	harness.Create(t, deployments, harness.DeploymentOn("web", "net", 2))
	// It says what it lacks on the Deployment and on the Pods.
	harness.Await(t, surroundings, deployments, "web", func(d *appsv1.Deployment) error {
		return harness.SaysOfNetworks(d, corev1.ConditionFalse, cloudteamv1.ReasonNetworkNotFound, "")
	})
	network(t, namespace, "net", func(*cloudteamv1.NetworkSpec) {})
	harness.AwaitPods(t, surroundings, surroundings.Kube, namespace, "", 2)

	client, err := dynamic.NewForConfig(surroundings.Admin)
	expect.NoError(t, err)
	attachments := client.Resource(harness.AttachmentResource).Namespace(namespace)
	// The second time, the Event is the first one again.
	for range 2 {
		var edited *unstructured.Unstructured
		surroundings.Eventually(t, func() (err error) {
			edited, err = attachments.Patch(t.Context(), "net", types.MergePatchType, []byte(`{"spec":{"config":"{}"}}`),
				metav1.PatchOptions{})
			return err
		})
		surroundings.Eventually(t, func() error {
			is, err := attachments.Get(t.Context(), "net", metav1.GetOptions{})
			if err == nil && is.GetResourceVersion() == edited.GetResourceVersion() {
				err = fmt.Errorf("NetworkAttachmentDefinition net is as it was edited")
			}
			return err
		})
	}
	harness.Patch(t, deployments, "web", `{"spec":{"replicas":1}}`)
	awaitPorts(t, namespace, 1)
}

// statefulSet has a StatefulSet come and go, on the Network of the Deployment.
func statefulSet(t *testing.T, namespace string) {
	t.Helper()
	sets := surroundings.Kube.AppsV1().StatefulSets(namespace)
	harness.Create(t, sets, harness.StatefulSetOn("db", "net", 1, appsv1.OrderedReadyPodManagement))
	harness.AwaitPods(t, surroundings, surroundings.Kube, namespace, "", 2) // one is the Deployment's
	harness.Delete(t, sets, "db")
	awaitPorts(t, namespace, 1)
}

// machine has a virtual machine come and go, on the Network of the Deployment.
func machine(t *testing.T, namespace string) {
	t.Helper()
	vm := surroundings.NewMachine(t, namespace, "vm", "net", nil)
	vm.Start()
	harness.AwaitPods(t, surroundings, surroundings.Kube, namespace, "", 2) // one is the Deployment's
	vm.Delete()
	awaitPorts(t, namespace, 1)
}

// securityGroup has a SecurityGroup come.
func securityGroup(t *testing.T, namespace string) {
	t.Helper()
	groups := surroundings.Networks.CloudteamV1().SecurityGroups(namespace)
	harness.Create(t, groups, &cloudteamv1.SecurityGroup{ObjectMeta: metav1.ObjectMeta{Name: "web"}})
	harness.Await(t, surroundings, groups, "web", harness.Ready)
}

// networkPolicy has the groups of a MultiNetworkPolicy made, changed and removed.
func networkPolicy(t *testing.T, namespace string) {
	t.Helper()
	surroundings.PutPolicy(t, namespace, "closed", "net", "{podSelector: {}}")
	groups := surroundings.Networks.CloudteamV1().SecurityGroups(namespace)
	rules := func(want int) {
		t.Helper()
		surroundings.Eventually(t, func() error {
			list, err := groups.List(t.Context(), metav1.ListOptions{})
			if err != nil {
				return err
			}
			for _, g := range list.Items {
				if strings.HasPrefix(g.Name, "policy-closed-") && len(g.Spec.Rules) == want {
					return nil
				}
			}
			if want == 0 && len(list.Items) == 1 { // the group web
				return nil
			}
			return fmt.Errorf("no group of the policy has %d rules: %+v", want, list.Items)
		})
	}
	rules(1)
	surroundings.PutPolicy(t, namespace, "closed", "net", "{podSelector: {}, ingress: [{}]}")
	rules(3)
	surroundings.RemovePolicy(t, namespace, "closed")
	rules(0)
}

// service has a Service ask for a floating IP, which leads to the Pod of the Deployment, nowhere without that, and goes.
// It takes the Deployment's Pods and leaves the Network as it was.
func service(t *testing.T, namespace string) {
	t.Helper()
	outside := harness.Open(t, surroundings.CloudsFile, "admin").CreateOutside("outside").ID()
	networks := surroundings.Networks.CloudteamV1().Networks(namespace)
	routed := func(router string) {
		t.Helper()
		edited := harness.Patch(t, networks, "net", `{"spec":{"router":`+router+`}}`)
		harness.Await(t, surroundings, networks, "net", func(n *cloudteamv1.Network) error {
			if n.Status.AppliedGeneration != edited.Generation {
				return fmt.Errorf("generation %d is not applied: %+v", edited.Generation, n.Status)
			}
			return nil
		})
	}
	routed(`{"externalNetwork":"` + outside + `"}`)

	services := surroundings.Kube.CoreV1().Services(namespace)
	harness.Create(t, services, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web", Annotations: map[string]string{cloudteamv1.AnnotationFloatingIP: outside},
		},
		Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80}}},
	})
	floating := surroundings.Networks.CloudteamV1().FloatingIPs(namespace)
	leads := func(somewhere bool) {
		t.Helper()
		harness.Await(t, surroundings, floating, "web", func(is *cloudteamv1.FloatingIP) error {
			if is.Status.Address == "" || somewhere != (is.Status.PortID != "") {
				return fmt.Errorf("FloatingIP web is to lead to a port: %t; it is %+v", somewhere, is)
			}
			return harness.Ready(is)
		})
	}
	slices := surroundings.Kube.DiscoveryV1().EndpointSlices(namespace)
	has := func(slicesLeft, endpoints int) {
		t.Helper()
		surroundings.Eventually(t, func() error {
			list, err := slices.List(t.Context(), metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=on-net"})
			if err != nil {
				return err
			}
			n := 0
			for _, slice := range list.Items {
				n += len(slice.Endpoints)
			}
			if len(list.Items) != slicesLeft || n != endpoints {
				return fmt.Errorf("there are %d EndpointSlices with %d endpoints, want %d and %d", len(list.Items), n, slicesLeft, endpoints)
			}
			return nil
		})
	}
	harness.Create(t, services, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "on-net", Annotations: map[string]string{
			cloudteamv1.AnnotationEndpointsNetwork: "net", cloudteamv1.AnnotationEndpointsSelector: "app=web",
		}},
		Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Port: 80}}},
	})
	has(2, 1)
	leads(true)
	harness.Patch(t, surroundings.Kube.AppsV1().Deployments(namespace), "web", `{"spec":{"replicas":0}}`)
	leads(false)
	has(2, 0)
	harness.Patch(t, services, "on-net", `{"metadata":{"annotations":null}}`)
	has(0, 0)
	harness.Patch(t, services, "web", `{"metadata":{"annotations":null}}`)
	harness.AwaitGone(t, surroundings, floating, "web")
	routed(`null`)
}

// awaitPorts waits until there are as many NetworkPorts.
func awaitPorts(t *testing.T, namespace string, want int) {
	t.Helper()
	surroundings.Eventually(t, func() error {
		list, err := surroundings.Networks.CloudteamV1().NetworkPorts(namespace).List(t.Context(), metav1.ListOptions{})
		if err == nil && len(list.Items) != want {
			err = fmt.Errorf("there are %d NetworkPorts, want %d", len(list.Items), want)
		}
		return err
	})
}

// network creates a Network and waits until it is Ready.
func network(t *testing.T, namespace, name string, edit func(*cloudteamv1.NetworkSpec)) {
	t.Helper()
	networks := surroundings.Networks.CloudteamV1().Networks(namespace)
	n := &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Spec.CIDR, n.Spec.Gateway = "10.60.0.0/24", "10.60.0.1"
	edit(&n.Spec)
	harness.Create(t, networks, n)
	harness.Await(t, surroundings, networks, name, harness.Ready)
}

// ownCloud has a Network with credentials of its own, in a Secret that the shipped role lets the controller read.
func ownCloud(t *testing.T, namespace string) {
	t.Helper()
	harness.Create(t, surroundings.Kube.RbacV1().RoleBindings(namespace), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "network-controller-credentials"},
		RoleRef: rbacv1.RoleRef{
			APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "network-controller-credentials",
		},
		Subjects: []rbacv1.Subject{{
			Kind: rbacv1.ServiceAccountKind, Namespace: harness.AccountName, Name: harness.AccountName,
		}},
	})
	account := "system:serviceaccount:" + harness.AccountName + ":" + harness.AccountName
	harness.AwaitRight(t, surroundings, surroundings.Kube, account, namespace, "list", "secrets")
	harness.Create(t, surroundings.Kube.CoreV1().Secrets(namespace), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "openstack"}, StringData: map[string]string{
			"clouds.yaml": harness.CloudsOf(t, surroundings.CloudsFile, "tenant", nil),
		},
	})
	network(t, namespace, "own", func(spec *cloudteamv1.NetworkSpec) {
		spec.Cloud = &cloudteamv1.CloudReference{SecretName: "openstack"}
	})
}

// metrics has an account of the namespace read the controller's metrics.
func metrics(t *testing.T, namespace string, process *harness.Process) {
	t.Helper()
	harness.Create(t, surroundings.Kube.RbacV1().ClusterRoleBindings(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: namespace + "-metrics"},
		RoleRef: rbacv1.RoleRef{
			APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "network-controller-metrics-reader",
		},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "default"}},
	})
	token, err := surroundings.Kube.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), "default",
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	expect.NoError(t, err)
	surroundings.Eventually(t, func() error {
		status, body, err := process.GetMetrics(t.Context(), token.Status.Token)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%d %s", status, body)
		}
		return err
	})
}

// foo takes a Foo through its life: its Deployment is created, scaled by somebody else, put back and renamed.
func foo(t *testing.T, namespace string) {
	t.Helper()
	foos := surroundings.Networks.SamplecontrollerV1alpha1().Foos(namespace)
	deployments := surroundings.Kube.AppsV1().Deployments(namespace)
	harness.Create(t, foos, &v1alpha1.Foo{
		ObjectMeta: metav1.ObjectMeta{Name: "foo"},
		Spec:       v1alpha1.FooSpec{DeploymentName: "foo", Replicas: new(int32(1))},
	})
	awaitReplica := func(name string) {
		t.Helper()
		harness.Await(t, surroundings, deployments, name, func(d *appsv1.Deployment) error {
			if *d.Spec.Replicas != 1 {
				return fmt.Errorf("Deployment %s has %d replicas, want 1", name, *d.Spec.Replicas)
			}
			return nil
		})
	}
	awaitReplica("foo")
	// The second time, the Event is the first one again.
	for range 2 {
		harness.Patch(t, deployments, "foo", `{"spec":{"replicas":2}}`)
		awaitReplica("foo")
	}
	harness.Patch(t, foos, "foo", `{"spec":{"deploymentName":"renamed"}}`)
	awaitReplica("renamed")
}
